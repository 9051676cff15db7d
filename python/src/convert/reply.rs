//! What a call returns, until the interpreter's lock is there to make an object of it.

use pyo3::{BoundObject, prelude::*};

type Make = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// What a call returns.
pub struct Reply(Make);

impl Reply {
    pub fn new<F, T>(make: F) -> Self
    where
        F: FnOnce(Python<'_>) -> PyResult<Bound<'_, T>> + Send + 'static,
    {
        Self(Box::new(move |py| make(py).map(|made| made.into_any().unbind())))
    }

    /// What becomes an object by itself.
    pub fn plain<T>(value: T) -> Self
    where
        T: for<'py> IntoPyObject<'py, Error: Into<PyErr>> + Send + 'static,
    {
        Self(Box::new(move |py| {
            let object = value.into_pyobject(py).map_err(Into::into)?;
            Ok(BoundObject::into_any(object).unbind())
        }))
    }

    pub fn none() -> Self {
        Self(Box::new(|py| Ok(py.None())))
    }

    pub fn into_object(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        (self.0)(py)
    }
}
