//! Python functions that the library calls: a language model, an embedding model, a counter of tokens, handlers of pipelines.
//!
//! A function may be asynchronous: then it runs on the event loop that the Keepline was opened in, or on one of its own if
//! there is none. Others run on threads that may wait. Whichever it is, the interpreter's lock is never held while the
//! library waits for it. The counter of tokens is the exception that the library makes: it has to answer at once.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use keepline::{
    TokenCounter,
    embedding::{Embedder, Embedding, EmbeddingError},
    maintenance::{CompletionNeed, Model, ModelError},
    pipelines::{CustomError, CustomStep, CustomSteps, CustomWork},
};
use pyo3::{intern, prelude::*, sync::PyOnceLock, types::PyDict};
use tokio::{sync::oneshot, task::spawn_blocking};

use crate::convert::{dict, json};

/// A function, and the event loop on which it runs if it is asynchronous.
#[derive(Clone)]
pub struct Callback(Arc<CallbackParts>);

struct CallbackParts {
    function: Py<PyAny>,
    event_loop: Option<Py<PyAny>>,
}

/// Cancels a coroutine whose result nobody waits for any more.
struct CancelOnDrop(Option<Py<PyAny>>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(future) = self.0.take() else { return };
        // Not here: this thread must not wait for the interpreter's lock.
        drop(spawn_blocking(move || {
            Python::try_attach(|py| drop(future.call_method0(py, intern!(py, "cancel"))));
        }));
    }
}

/// What a call of the function led to.
enum Begun<T> {
    Done(PyResult<T>),
    /// A coroutine runs on the loop: what says so, and its future, to be cancelled.
    Pending(oneshot::Receiver<PyResult<Py<PyAny>>>, Py<PyAny>),
}

impl Callback {
    pub fn new(function: Py<PyAny>, event_loop: Option<Py<PyAny>>) -> Self {
        Self(Arc::new(CallbackParts { function, event_loop }))
    }

    /// Calls the function with what `arguments` makes, and reads its result.
    ///
    /// # Errors
    /// The function's exception in one line.
    async fn call<A, R, T>(&self, arguments: A, read: R) -> Result<T, String>
    where
        A: FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send + 'static,
        R: Fn(&Bound<'_, PyAny>) -> PyResult<T> + Send + Sync + Clone + 'static,
        T: Send + 'static,
    {
        let (parts, read_now) = (self.0.clone(), read.clone());
        let begun = spawn_blocking(move || Python::try_attach(|py| parts.begin(py, arguments, read_now)));
        let ended = || "the interpreter has ended".to_owned();
        let result = match begun.await.map_err(|error| error.to_string())?.ok_or_else(ended)? {
            Begun::Done(result) => result,
            Begun::Pending(receiver, future) => {
                let mut cancel = CancelOnDrop(Some(future));
                let received = receiver.await.map_err(|_| "the event loop has ended".to_owned())?;
                cancel.0 = None;
                let read =
                    spawn_blocking(move || Python::try_attach(|py| received.and_then(|value| read(value.bind(py)))));
                read.await.map_err(|error| error.to_string())?.ok_or_else(ended)?
            }
        };
        result.map_err(|error| Python::try_attach(|_| error.to_string()).unwrap_or_else(ended))
    }
}

impl CallbackParts {
    fn begin<A, R, T>(&self, py: Python<'_>, arguments: A, read: R) -> Begun<T>
    where
        A: FnOnce(Python<'_>) -> PyResult<Py<PyAny>>,
        R: Fn(&Bound<'_, PyAny>) -> PyResult<T>,
    {
        let begin = || {
            let value = self.function.bind(py).call1((arguments(py)?,))?;
            if !value.hasattr(intern!(py, "__await__"))? {
                return read(&value).map(|value| Begun::Done(Ok(value)));
            }
            let coroutine = wrap_awaitable(py)?.call1((value,))?;
            match &self.event_loop {
                Some(event_loop) => begin_on(py, event_loop.bind(py), &coroutine),
                None => {
                    let value = py.import("asyncio")?.call_method1("run", (coroutine,))?;
                    read(&value).map(|value| Begun::Done(Ok(value)))
                }
            }
        };
        begin().unwrap_or_else(|error| Begun::Done(Err(error)))
    }
}

/// Makes a coroutine of anything that can be awaited.
fn wrap_awaitable(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static WRAP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    WRAP.import(py, "keepline._callbacks", "as_coroutine")
}

fn begin_on<T>(py: Python<'_>, event_loop: &Bound<'_, PyAny>, coroutine: &Bound<'_, PyAny>) -> PyResult<Begun<T>> {
    static SUBMIT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let submit = SUBMIT.import(py, "asyncio", "run_coroutine_threadsafe")?;
    let future = match submit.call1((coroutine, event_loop)) {
        Ok(future) => future,
        Err(error) => {
            // Of a loop that was closed: it would warn that it was never awaited.
            coroutine.call_method0(intern!(py, "close"))?;
            return Err(error);
        }
    };
    let (sender, receiver) = oneshot::channel();
    future.call_method1(
        intern!(py, "add_done_callback"),
        (Py::new(py, Finished(parking_lot::Mutex::new(Some(sender))))?,),
    )?;
    Ok(Begun::Pending(receiver, future.unbind()))
}

/// Hands on what a coroutine has returned.
#[pyclass(frozen)]
struct Finished(parking_lot::Mutex<Option<oneshot::Sender<PyResult<Py<PyAny>>>>>);

#[pymethods]
impl Finished {
    fn __call__(&self, future: &Bound<'_, PyAny>) {
        if let Some(sender) = self.0.lock().take() {
            // Whoever waited may be gone.
            drop(sender.send(future.call_method0(intern!(future.py(), "result")).map(Bound::unbind)));
        }
    }
}

#[async_trait]
impl Model for Callback {
    async fn complete(&self, need: &CompletionNeed) -> Result<Option<String>, ModelError> {
        let need = need.clone();
        let arguments = move |py: Python<'_>| {
            let need = dict!(py; "purpose": need.purpose, "instructions": need.instructions, "input": need.input,
                "max_tokens": need.max_tokens);
            Ok(need.into_any().unbind())
        };
        self.call(arguments, |value: &Bound<'_, PyAny>| value.extract()).await.map_err(ModelError)
    }
}

#[async_trait]
impl Embedder for Callback {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbeddingError> {
        let texts = texts.to_vec();
        let arguments = move |py: Python<'_>| Ok(texts.into_pyobject(py)?.into_any().unbind());
        let read = |value: &Bound<'_, PyAny>| {
            let (model, vectors): (String, Vec<Vec<f32>>) = value.extract()?;
            Ok(vectors.into_iter().map(|values| Embedding { model: model.clone(), values }).collect())
        };
        self.call(arguments, read).await.map_err(EmbeddingError::Failed)
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Callback")
    }
}

impl Callback {
    fn count_tokens(&self, text: &str, model: Option<&str>) -> u32 {
        let counted = Python::try_attach(|py| self.0.function.bind(py).call1((text, model))?.extract());
        match counted {
            Some(Ok(count)) => count,
            // What the library takes for "estimate this one".
            Some(Err(error)) => std::panic::resume_unwind(Box::new(error.to_string())),
            None => std::panic::resume_unwind(Box::new("the interpreter has ended")),
        }
    }
}

impl TokenCounter for Callback {
    fn count(&self, text: &str) -> u32 {
        self.count_tokens(text, None)
    }

    fn count_for(&self, model: &str, text: &str) -> u32 {
        self.count_tokens(text, Some(model))
    }
}

/// The functions that `custom` steps of pipelines name.
pub struct Handlers {
    handlers: std::collections::BTreeMap<String, Callback>,
}

impl Handlers {
    pub fn new(
        functions: std::collections::BTreeMap<String, Py<PyAny>>,
        event_loop: Option<&Py<PyAny>>,
        py: Python<'_>,
    ) -> Self {
        let callback = |function| Callback::new(function, event_loop.map(|event_loop| event_loop.clone_ref(py)));
        Self { handlers: functions.into_iter().map(|(name, function)| (name, callback(function))).collect() }
    }
}

#[async_trait]
impl CustomSteps for Handlers {
    async fn run(&self, step: CustomStep<'_>) -> Result<String, CustomError> {
        let CustomWork::Handler(name) = step.work else {
            return Err(CustomError::Refused("this host runs registered handlers only".into()));
        };
        let Some(handler) = self.handlers.get(name) else {
            let known: Vec<_> = self.handlers.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none is".to_owned() } else { format!("there are {}", known.join(", ")) };
            return Err(CustomError::Refused(format!("no handler {name} is registered; {known}")));
        };
        let (input, params) = (step.input.to_owned(), step.params.to_owned());
        let arguments = move |py: Python<'_>| {
            let step = dict!(py; "input": json::read(py, &input)?, "params": json::read(py, &params)?);
            Ok(step.into_any().unbind())
        };
        handler.call(arguments, |value: &Bound<'_, PyAny>| write_json(value)).await.map_err(CustomError::Failed)
    }
}

fn write_json(value: &Bound<'_, PyAny>) -> PyResult<String> {
    static DUMPS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let options = PyDict::new(py);
    options.set_item("ensure_ascii", false)?;
    options.set_item("allow_nan", false)?;
    DUMPS.import(py, "json", "dumps")?.call((value,), Some(&options))?.extract()
}
