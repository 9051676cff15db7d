//! Hands outcomes to the event loops that wait for them, and log lines to Python's `logging`, on a thread of its own: those
//! that calls go on never wait for the interpreter's lock.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use keepline::logging::{Log, LogLevel};
use pyo3::{intern, prelude::*, sync::PyOnceLock};

use super::call::Outcome;

/// Whether the interpreter is about to end: nobody waits any more.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Log lines that may wait to be written; more are left out.
const MAX_LINES: usize = 1000;

enum Parcel {
    Outcome { event_loop: Py<PyAny>, future: Py<PyAny>, outcome: Outcome },
    Line { level: i32, text: String },
}

/// The way to the thread that delivers.
#[derive(Clone)]
pub struct Delivery {
    parcels: Sender<Parcel>,
    waiting_lines: Arc<AtomicUsize>,
}

impl Delivery {
    pub fn start() -> io::Result<Self> {
        let (sender, parcels) = channel();
        let waiting_lines = Arc::new(AtomicUsize::new(0));
        let waiting = waiting_lines.clone();
        thread::Builder::new().name("keepline-deliver".into()).spawn(move || deliver_all(&parcels, &waiting))?;
        Ok(Self { parcels: sender, waiting_lines })
    }

    pub fn deliver(&self, event_loop: Py<PyAny>, future: Py<PyAny>, outcome: Outcome) {
        // The thread ends with the process.
        _ = self.parcels.send(Parcel::Outcome { event_loop, future, outcome });
    }

    /// The library's log, of messages from this level of Python's on.
    pub fn log(&self, least: i32) -> PythonLog {
        PythonLog { delivery: self.clone(), least }
    }
}

/// Messages go to the logger `keepline`.
pub struct PythonLog {
    delivery: Delivery,
    least: i32,
}

impl Log for PythonLog {
    fn enabled(&self, level: LogLevel) -> bool {
        python_level(level) >= self.least
    }

    fn log(&self, level: LogLevel, context: &str, message: &str) {
        let Delivery { parcels, waiting_lines } = &self.delivery;
        if waiting_lines.fetch_add(1, Ordering::AcqRel) >= MAX_LINES {
            waiting_lines.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        _ = parcels.send(Parcel::Line { level: python_level(level), text: format!("{context}: {message}") });
    }
}

fn python_level(level: LogLevel) -> i32 {
    match level {
        LogLevel::Trace => 5,
        LogLevel::Debug => 10,
        LogLevel::Info => 20,
        LogLevel::Warn => 30,
        LogLevel::Error => 40,
        LogLevel::Critical => 50,
    }
}

fn deliver_all(parcels: &Receiver<Parcel>, waiting_lines: &AtomicUsize) {
    while let Ok(parcel) = parcels.recv() {
        if IS_CLOSED.load(Ordering::Acquire) {
            std::mem::forget(parcel);
            continue;
        }
        // What has come meanwhile goes with it: the lock is waited for once.
        let delivered = Python::try_attach(|py| {
            deliver(py, parcel, waiting_lines);
            while let Ok(parcel) = parcels.try_recv() {
                deliver(py, parcel, waiting_lines);
            }
        });
        if delivered.is_none() {
            return;
        }
    }
}

fn deliver(py: Python<'_>, parcel: Parcel, waiting_lines: &AtomicUsize) {
    match parcel {
        Parcel::Outcome { event_loop, future, outcome } => settle_on(py, &event_loop, future, outcome),
        Parcel::Line { level, text } => {
            waiting_lines.fetch_sub(1, Ordering::AcqRel);
            if let Err(error) = write_line(py, level, &text) {
                error.write_unraisable(py, None);
            }
        }
    }
}

fn write_line(py: Python<'_>, level: i32, text: &str) -> PyResult<()> {
    static LOGGER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let logger = LOGGER
        .get_or_try_init(py, || py.import("logging")?.call_method1("getLogger", ("keepline",)).map(Bound::unbind))?;
    logger.bind(py).call_method1(intern!(py, "log"), (level, "%s", text)).map(drop)
}

fn settle_on(py: Python<'_>, event_loop: &Py<PyAny>, future: Py<PyAny>, outcome: Outcome) {
    let settled = outcome.map_err(|failure| failure.into_error(py)).and_then(|reply| reply.into_object(py));
    let (value, is_error) = match settled {
        Ok(value) => (value, false),
        Err(error) => (error.into_value(py).into_any(), true),
    };
    let settle = match settle_function(py) {
        Ok(settle) => settle,
        Err(error) => return error.write_unraisable(py, None),
    };
    let sent = event_loop.bind(py).call_method1(intern!(py, "call_soon_threadsafe"), (settle, future, value, is_error));
    // A loop that was closed has nobody who waits.
    drop(sent);
}

fn settle_function(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static SETTLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let settle = SETTLE.get_or_try_init(py, || {
        pyo3::types::PyCFunction::new_closure(py, Some(c"settle"), None, |arguments, _| settle(arguments))
            .map(|function| function.into_any().unbind())
    })?;
    Ok(settle.bind(py))
}

/// On the loop's own thread.
fn settle(arguments: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
    let py = arguments.py();
    let (future, value, is_error): (Bound<'_, PyAny>, Bound<'_, PyAny>, bool) = arguments.extract()?;
    // It may have been cancelled meanwhile.
    if future.call_method0(intern!(py, "done"))?.is_truthy()? {
        return Ok(());
    }
    let method = if is_error { intern!(py, "set_exception") } else { intern!(py, "set_result") };
    future.call_method1(method, (value,)).map(drop)
}

/// Called when the interpreter ends: what comes later is for nobody.
#[pyfunction]
pub fn close_at_exit() {
    IS_CLOSED.store(true, Ordering::Release);
}
