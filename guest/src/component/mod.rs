//! The component shell: the contract's exports on one side, the filter on the other. It converts, and holds no rule.

#[cfg(target_arch = "wasm32")]
mod exports;
#[cfg(target_arch = "wasm32")]
mod operators;
