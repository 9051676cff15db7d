//! Futures of the library as calls that Python awaits or waits for.

pub mod call;
pub mod delivery;
pub mod failure;
pub mod runtime;
