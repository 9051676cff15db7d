//! What the library returns as Python's objects, and what Python hands in as the library's.

pub mod arguments;
pub mod json;
pub mod reply;

pub use self::reply::Reply;

/// A dictionary of these members.
macro_rules! dict {
    ($py:expr; $($key:literal: $value:expr),* $(,)?) => {{
        let dict = pyo3::types::PyDict::new($py);
        $(dict.set_item(pyo3::intern!($py, $key), $value)?;)*
        dict
    }};
}
pub(crate) use dict;
