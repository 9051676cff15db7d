//! Shared helpers of the stores' suites and the black-box tests. A helper that can't do its part ends the
//! test.

pub mod intercept;
pub mod key_value;
pub mod kit;
pub mod proxy;
pub mod random;
pub mod raw;
pub mod requests;
pub mod servers;
pub mod stores;
pub mod until;
pub mod work;
