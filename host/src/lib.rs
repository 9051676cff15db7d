//! Keepline.
pub mod contract;
