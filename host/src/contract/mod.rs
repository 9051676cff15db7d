//! The contract in `wit/`: its types, and the calls of what a component exports, as `bindgen!` makes them. Those of the
//! store are in the stores' crate.
//!
//! The types cross the component's boundary themselves; each instance is checked against them when it is made. They are
//! public as they are, because the contract's records and variants never grow. What is a registered name there, and so
//! may grow, is an enum with a rule for unknown names in this library: see [`names`].

pub(crate) mod logging;
pub(crate) mod names;
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

/// The interfaces that a plugin may import. WASI's clock in any 0.2.x, as its versioning rules allow.
pub(crate) const IMPORTS: [&str; 3] =
    ["keepline:memory/key-value@0.3.0", "wasi:clocks/wall-clock@0.2", "keepline:host/log@0.3.0"];

/// Interfaces that hold types only: there is nothing to lend.
const TYPES: [&str; 2] = ["keepline:common/shared@0.3.0", "keepline:host/needs@0.3.0"];

pub(crate) fn may_import(name: &str) -> bool {
    let is_version_of = |import: &str| import.ends_with("@0.2") && name.starts_with(&format!("{import}."));
    IMPORTS.iter().chain(&TYPES).any(|import| name == *import || is_version_of(import))
}
