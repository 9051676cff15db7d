//! JSON as Python reads and writes it.

use pyo3::{prelude::*, sync::PyOnceLock};

/// What a JSON text says. With Python's own reader: whole numbers have no limit there.
pub fn read<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    LOADS.import(py, "json", "loads")?.call1((text,))
}

/// A JSON text as Python's object; none for none.
pub fn read_optional<'py>(py: Python<'py>, text: Option<&str>) -> PyResult<Option<Bound<'py, PyAny>>> {
    text.map(|text| read(py, text)).transpose()
}
