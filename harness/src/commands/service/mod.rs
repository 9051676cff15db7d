//! `keepline serve` and `keepline key`: the service, and the keys that it asks for.

pub mod key;
pub mod serve;
