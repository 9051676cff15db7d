//! The component shell: the contract's exports on one side, the filter on the other. It converts, and holds no rule.

#[cfg(target_arch = "wasm32")]
mod exports;
#[cfg(target_arch = "wasm32")]
mod operators;

#[cfg(target_arch = "wasm32")]
pub use self::exports::Bundled;

/// Exports a plugin whose lanes are this type's ([`lanes::Guest`](crate::contract::lanes::Guest)). Tasks and the
/// administration are the bundled filter's. Its crate has this one without default features: a component exports once.
#[macro_export]
macro_rules! export_lanes {
    ($lanes:ident) => {
        #[allow(unsafe_code, clippy::all, clippy::pedantic, clippy::restriction, reason = "generated")]
        const _: () = {
    $crate::contract::bindings::export!($lanes with_types_in $crate::contract::bindings);
        };
    };
}
