//! JSON as Python reads and writes it.

use pyo3::{prelude::*, sync::PyOnceLock, types::PyString};

/// What a JSON text says. With Python's own reader: whole numbers have no limit there.
pub fn read<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    if let Some(scalar) = read_scalar(py, text) {
        return Ok(scalar);
    }
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    LOADS.import(py, "json", "loads")?.call1((text,))
}

/// What is read at once, since most members of messages are so: a short number, or a text without escapes.
fn read_scalar<'py>(py: Python<'py>, text: &str) -> Option<Bound<'py, PyAny>> {
    if let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        let is_plain = !inner.bytes().any(|byte| matches!(byte, b'"' | b'\\' | ..b' '));
        return is_plain.then(|| PyString::new(py, inner).into_any());
    }
    let is_count = matches!(text.len(), 1..=18) && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_written_so = is_count && (text.len() == 1 || !text.starts_with('0'));
    if !is_written_so {
        return None;
    }
    text.parse::<u64>().ok()?.into_pyobject(py).ok().map(Bound::into_any)
}

/// A JSON text as Python's object; none for none.
pub fn read_optional<'py>(py: Python<'py>, text: Option<&str>) -> PyResult<Option<Bound<'py, PyAny>>> {
    text.map(|text| read(py, text)).transpose()
}
