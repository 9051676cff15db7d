//! Lends the Rust library to Python: calls that can be awaited or waited for, and the objects that they belong to.
//!
//! What people use is the typed Python layer in `python/keepline/`; this module is `keepline._keepline`, its own affair.

mod bridge;
mod callbacks;
mod convert;
mod maintenance;
mod memory;
mod pipe;
mod pipelines;
mod sessions;

use pyo3::prelude::*;

/// What `keepline` is made of.
#[pymodule]
fn _keepline(module: &Bound<'_, PyModule>) -> PyResult<()> {
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
