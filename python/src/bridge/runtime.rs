//! The threads that calls go on, one set a process; and what becomes of them when the process forks.
//!
//! No thread outlives a fork, and locks may be held for ever in the child. So the child forgets everything that was made
//! before: what it makes itself has threads of its own, and an object from before the fork refuses every call by name.

use std::{
    mem::ManuallyDrop,
    ops::Deref,
    ptr,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering},
};

use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};

use super::{delivery::Delivery, failure::Failure};

/// How often this process is the child of a fork that came after the import.
static FORKS: AtomicU64 = AtomicU64::new(0);
static THREADS: AtomicPtr<Threads> = AtomicPtr::new(ptr::null_mut());

/// Worker threads: a call that waits for Redis or a disk goes on there. Few, for they only compute between two waits.
const WORKERS: usize = 2;

/// What runs calls, and what hands their outcomes to event loops.
pub struct Threads {
    runtime: Runtime,
    pub delivery: Delivery,
}

impl Threads {
    pub fn handle(&self) -> &Handle {
        self.runtime.handle()
    }
}

/// This process's threads, made at the first call. The interpreter's lock is held, so no two are made.
///
/// # Errors
/// When the system has no more threads.
pub fn threads(_py: Python<'_>) -> Result<&'static Threads, Failure> {
    let made = THREADS.load(Ordering::Acquire);
    if !made.is_null() {
        // SAFETY: it was leaked below, and is never freed.
        return Ok(unsafe { &*made });
    }
    let no_threads = |error: std::io::Error| Failure::new("busy", format!("can't start threads: {error}"));
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("keepline")
        .enable_all()
        .build()
        .map_err(no_threads)?;
    let delivery = Delivery::start().map_err(no_threads)?;
    let made = Box::into_raw(Box::new(Threads { runtime, delivery }));
    THREADS.store(made, Ordering::Release);
    // SAFETY: as above.
    Ok(unsafe { &*made })
}

/// Called in the child of a fork, before anything else of it runs.
#[pyfunction]
pub fn forget_after_fork() {
    FORKS.fetch_add(1, Ordering::AcqRel);
    THREADS.store(ptr::null_mut(), Ordering::Release);
}

/// Whether this process is the child of one that had imported this module.
pub fn is_forked() -> bool {
    FORKS.load(Ordering::Acquire) > 0
}

/// What belongs to the process that made it. In the child of a fork it is out of reach, and left alone: to drop it would
/// wait for threads that are not there.
pub struct OwnedByProcess<T> {
    value: ManuallyDrop<T>,
    forks: u64,
}

impl<T> OwnedByProcess<T> {
    pub fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), forks: FORKS.load(Ordering::Acquire) }
    }

    /// # Errors
    /// `forked`: the process has forked since.
    pub fn get(&self) -> Result<&T, Failure> {
        if self.forks == FORKS.load(Ordering::Acquire) {
            return Ok(self.value.deref());
        }
        Err(Failure::new(
            "forked",
            "it was opened before this process was forked, and can't be used in the child: open one after the fork",
        ))
    }
}

impl<T> Drop for OwnedByProcess<T> {
    fn drop(&mut self) {
        if self.forks == FORKS.load(Ordering::Acquire) {
            // SAFETY: it is dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}
