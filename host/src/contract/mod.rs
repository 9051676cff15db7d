//! The contract in `wit/`: its types, and the calls of what a component exports, as `bindgen!` makes them. Those of the
//! store are in the stores' crate.
//!
//! The types cross the component's boundary themselves; each instance is checked against them when it is made. They are
//! public as they are, because the contract's records and variants never grow. What is a registered name there, and so
//! may grow, is an enum with a rule for unknown names in this library: see [`names`].

pub(crate) mod logging;
pub(crate) mod names;
#[allow(missing_docs, unsafe_code, dead_code, clippy::all, clippy::pedantic, clippy::unwrap_used, reason = "generated")]
mod pipeline_bindings;
pub(crate) mod storage_names;

pub use self::generated::{
    exports::keepline::{
        admin::{sessions, transcripts, users},
        memory::{lanes, tasks},
    },
    keepline::{
        common::shared::{self, Member},
        host::needs,
    },
};
pub use self::pipeline_bindings::exports::keepline::pipelines;
/// Needs of pipelines and what is said to them: owned, while those of tasks are passed without a copy.
pub(crate) use self::pipeline_bindings::keepline::host::needs as pipeline_needs;

#[allow(missing_docs, unsafe_code, dead_code, clippy::all, clippy::pedantic, clippy::unwrap_used, reason = "generated")]
mod generated {
    wasmtime::component::bindgen!({
        path: "wit",
        inline: "
            package keepline:library;
            world exports {
                export keepline:memory/lanes@0.3.0;
                export keepline:memory/tasks@0.3.0;
                export keepline:admin/sessions@0.3.0;
                export keepline:admin/transcripts@0.3.0;
                export keepline:admin/users@0.3.0;
            }
        ",
        world: "keepline:library/exports",
        exports: { default: async },
        // Arguments are passed without a copy; what is passed both ways is owned.
        ownership: Borrowing { duplicate_if_necessary: false },
        additional_derives: [PartialEq, Eq, PartialOrd, Ord, Hash],
    });
}

/// What a plugin may import, in any version that fits: all interfaces of the store, a log, a clock.
pub(crate) const IMPORTS: [&str; 3] = ["keepline:store@0.3", "keepline:host/log@0.3", "wasi:clocks/wall-clock@0.2"];

/// Interfaces that hold only types, which their users import as well.
const TYPES: [&str; 2] = ["keepline:common/shared@0.3", "keepline:host/needs@0.3"];

/// The interfaces of the store that this host knows; `types` holds only types.
const STORE_INTERFACES: [&str; 5] = ["types", "core", "leases", "indexes", "listing"];

pub(crate) fn may_import(name: &str) -> bool {
    let is_version_of = |import: &str| name.strip_prefix(import).is_some_and(|rest| rest.starts_with('.'));
    store_interface(name).is_some() || IMPORTS.iter().chain(&TYPES).any(|import| is_version_of(import))
}

/// Whether it is an interface of the store that was added after this host was built. A component calls it only if the store
/// has its capability, and so never here.
pub(crate) fn is_unknown_store_interface(name: &str) -> bool {
    store_interface(name).is_some_and(|interface| !STORE_INTERFACES.contains(&interface))
}

/// The interface of `keepline:store@0.3.x` that an import names.
fn store_interface(name: &str) -> Option<&str> {
    let (interface, version) = name.strip_prefix("keepline:store/")?.split_once('@')?;
    version.starts_with("0.3.").then_some(interface)
}
