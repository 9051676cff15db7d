//! The contract's types and bindings, generated from `wit/`, whose comments document them.

#![allow(missing_docs, reason = "the WIT comments are the documentation")]
#![allow(unsafe_code, reason = "the generated lifting and lowering code implements wasmtime's unsafe traits")]
#![allow(clippy::all, clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, reason = "generated code")]

wasmtime::component::bindgen!({
    path: "wit",
    world: "memory-filter",
    imports: {
        "keepline:memory/key-value": async | trappable,
        default: trappable,
    },
    exports: { default: async },
    additional_derives: [PartialEq, Eq],
});

pub use self::exports::keepline::memory::{filter, sessions};
pub use self::keepline::memory::key_value;
