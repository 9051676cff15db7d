//! Lends the Rust library to Python: calls that can be awaited or waited for, and the objects that they belong to.
//!
//! What people use is the typed Python layer in `package/keepline/`; this module is `keepline._keepline`, its own affair.

mod bridge;
mod callbacks;
mod convert;
mod maintenance;
mod memory;
mod pipe;
mod pipelines;
mod sessions;

use pyo3::{exceptions::PyImportError, ffi, prelude::*};

/// Suits entries, which are many small strings on several threads. Python's objects have an allocator of their own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What `keepline` is made of.
#[pymodule]
fn _keepline(module: &Bound<'_, PyModule>) -> PyResult<()> {
    refuse_sub_interpreter()?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<bridge::call::Call>()?;
    module.add_class::<memory::NativeKeepline>()?;
    module.add_class::<pipe::NativePipe>()?;
    module.add_class::<pipe::Passed>()?;
    module.add_class::<sessions::NativeSessions>()?;
    module.add_class::<maintenance::NativeMaintenance>()?;
    module.add_class::<maintenance::Task>()?;
    module.add_class::<pipelines::NativePipelines>()?;
    module.add_function(wrap_pyfunction!(bridge::runtime::forget_after_fork, module)?)?;
    module.add_function(wrap_pyfunction!(bridge::delivery::close_at_exit, module)?)?;
    module.add_function(wrap_pyfunction!(sessions::user_bucket, module)?)?;
    Ok(())
}

/// What this module keeps is the process's: the objects of one interpreter would get to another.
fn refuse_sub_interpreter() -> PyResult<()> {
    // SAFETY: an interpreter runs, and this thread holds its lock, as it imports this module.
    let interpreter = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    // The main one's number.
    if interpreter == 0 {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "keepline can't be used in a sub-interpreter: import it in the process's main interpreter",
    ))
}
