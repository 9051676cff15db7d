//! A call of the library: awaited in an event loop, or waited for.
//!
//! Both look at once whether it is done, with the interpreter's lock released: on memory every call is, and then no other
//! thread has a part in it. One that isn't goes on among this process's threads when it is awaited, and on the caller's own
//! when it is waited for. A call that is cancelled, or interrupted by a signal, is dropped where it is.

use std::{
    cell::Cell,
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use parking_lot::Mutex;
use pyo3::{exceptions::PyStopIteration, intern, prelude::*, sync::PyOnceLock};
use tokio::{task::AbortHandle, time::timeout};

use super::{
    failure::Failure,
    runtime::{OwnedByProcess, Threads, threads},
};
use crate::convert::Reply;

pub type Outcome = Result<Reply, Failure>;
type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// How often a call that is waited for looks whether a signal has come.
const SIGNALS: Duration = Duration::from_millis(50);

thread_local! {
    /// Whether this thread is within a call: what it calls back must not wait for another one.
    static IS_WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// For as long as a thread is within a call.
struct Within;

impl Within {
    fn enter() -> Result<Self, Failure> {
        if IS_WITHIN.replace(true) {
            return Err(Failure::new(
                "nested",
                "a callback that the library waits for can't wait for a call itself: make it asynchronous, or do it after",
            ));
        }
        Ok(Self)
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        IS_WITHIN.set(false);
    }
}

/// A call that has not begun. It begins when it is awaited, or waited for, and that once.
#[pyclass(module = "keepline._keepline", frozen)]
pub struct Call {
    work: OwnedByProcess<Mutex<Option<Work>>>,
}

impl Call {
    pub fn new(work: impl Future<Output = Outcome> + Send + 'static) -> Self {
        Self { work: OwnedByProcess::new(Mutex::new(Some(Box::pin(work)))) }
    }

    fn take(&self) -> Result<Work, Failure> {
        self.work
            .get()?
            .lock()
            .take()
            .ok_or_else(|| Failure::new("repeated", "this call was made already: make another one"))
    }
}

#[pymethods]
impl Call {
    /// Wait until it is done.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let fail = |failure: Failure| failure.into_error(py);
        let mut work = self.take().map_err(fail)?;
        let threads = threads(py).map_err(fail)?;
        if let Poll::Ready(outcome) = poll_at_once(py, threads, &mut work).map_err(fail)? {
            return outcome.map_err(fail)?.into_object(py);
        }
        loop {
            let waited = py.detach(|| {
                let _within = Within::enter()?;
                Ok(threads.handle().block_on(async { timeout(SIGNALS, &mut work).await }))
            });
            match waited.map_err(fail)? {
                Ok(outcome) => return outcome.map_err(fail)?.into_object(py),
                // An exception of a handler's, such as KeyboardInterrupt, drops the call.
                Err(_) => py.check_signals()?,
            }
        }
    }

    fn __await__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let fail = |failure: Failure| failure.into_error(py);
        let mut work = self.take().map_err(fail)?;
        let threads = threads(py).map_err(fail)?;
        if let Poll::Ready(outcome) = poll_at_once(py, threads, &mut work).map_err(fail)? {
            let value = outcome.map_err(fail)?.into_object(py)?;
            return Ok(Py::new(py, Done(Mutex::new(Some(value))))?.into_any());
        }
        let event_loop = running_loop(py)?;
        let future = event_loop.call_method0(intern!(py, "create_future"))?;
        let (to_loop, to_future) = (event_loop.unbind(), future.clone().unbind());
        let delivery = threads.delivery.clone();
        let task = threads.handle().spawn(async move {
            let outcome = work.await;
            delivery.deliver(to_loop, to_future, outcome);
        });
        let canceller = Py::new(py, Canceller(task.abort_handle()))?;
        future.call_method1(intern!(py, "add_done_callback"), (canceller,))?;
        Ok(future.call_method0(intern!(py, "__await__"))?.unbind())
    }
}

/// Whether it is done already. Nobody is woken if it isn't: it has to be polled again.
fn poll_at_once(py: Python<'_>, threads: &Threads, work: &mut Work) -> Result<Poll<Outcome>, Failure> {
    py.detach(|| {
        let _within = Within::enter()?;
        let _runtime = threads.handle().enter();
        Ok(work.as_mut().poll(&mut Context::from_waker(Waker::noop())))
    })
}

fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    RUNNING.import(py, "asyncio", "get_running_loop")?.call0()
}

/// What awaits a call that was done at once.
#[pyclass(frozen)]
struct Done(Mutex<Option<Py<PyAny>>>);

#[pymethods]
impl Done {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let value = self.0.lock().take().unwrap_or_else(|| py.None());
        Err(PyStopIteration::new_err((value,)))
    }
}

/// Drops a call whose future was cancelled.
#[pyclass(frozen)]
struct Canceller(AbortHandle);

#[pymethods]
impl Canceller {
    fn __call__(&self, future: &Bound<'_, PyAny>) -> PyResult<()> {
        if future.call_method0(intern!(future.py(), "cancelled"))?.is_truthy()? {
            self.0.abort();
        }
        Ok(())
    }
}
