//! The window: which turns a question gets, and in which form.

pub(crate) mod compose;
pub(crate) mod render;
pub mod select;
pub(crate) mod trace;
