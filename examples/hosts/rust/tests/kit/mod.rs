//! What the replayer needs.

pub mod adapter;
pub mod pattern;
pub mod values;
