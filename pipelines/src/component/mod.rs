//! The component shell: the contract's exports on one side, requests and operations on the other. It converts, and holds no
//! rule.

#[allow(unsafe_code, unused, clippy::all, clippy::restriction, rustdoc::all, reason = "generated")]
mod bindings;
mod configuration;
mod convert;
mod datasets;
mod definitions;
mod runs;
