//! What a store can do, and how much: its capabilities and limits, read from their names.

use super::StoreInfo;

macro_rules! limits {
    ($($(#[$doc:meta])* $field:ident: $name:literal = $default:expr;)*) => {
        /// Limits of a store that the filter keeps to. Those that a store does not report have the contract's defaults.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct StoreLimits {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Default for StoreLimits {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl StoreLimits {
            /// Unknown names mean nothing.
            fn set(&mut self, name: &str, value: u64) {
                match name {
                    $($name => self.$field = value,)*
                    _ => {}
                }
            }
        }
    };
}

limits! {
    /// Of a text in a map.
    text_bytes: "text-bytes" = 8 << 20;
    /// Of a record in a log.
    record_bytes: "record-bytes" = 2 << 20;
    /// Of a call: names and texts, and 96 for each piece.
    call_bytes: "call-bytes" = 16 << 20;
    /// Operations, entries, keys, records, marks, documents and positions of a call.
    call_pieces: "call-pieces" = 20_000;
    /// Entries of `values` in a bucket.
    values: "values" = 20_000;
    /// Transactions, or deletions, of a call.
    transactions: "transactions" = 128;
    /// Terms of all documents of a call.
    call_terms: "call-terms" = 32_768;
    /// Terms of all searches of a call.
    search_terms: "search-terms" = 256;
    /// Runs of positions that a call removes from indexes.
    remove_runs: "remove-runs" = 32;
}

macro_rules! capabilities {
    ($($(#[$doc:meta])* $field:ident: $name:literal;)*) => {
        /// What a store can do, and its limits. By default all that the contract knows.
        #[allow(clippy::struct_excessive_bools, reason = "each is a capability of its own")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct StoreProfile {
            $($(#[$doc])* pub $field: bool,)*
            /// How much it takes.
            pub limits: StoreLimits,
        }

        impl Default for StoreProfile {
            fn default() -> Self {
                Self { $($field: true,)* limits: StoreLimits::default() }
            }
        }

        impl StoreProfile {
            /// Of a store that says this of itself.
            pub fn of(info: &StoreInfo) -> Self {
                let has = |name: &str| info.capabilities.iter().any(|known| known == name);
                let mut limits = StoreLimits::default();
                for limit in &info.limits {
                    limits.set(&limit.name, limit.value);
                }
                Self { $($field: has($name),)* limits }
            }
        }
    };
}

capabilities! {
    /// A transaction is applied as a whole.
    atomic: "atomic";
    /// Nothing is written between a transaction's checks and its writes.
    compare: "compare";
    /// Buckets can expire.
    expiring: "expiring";
    /// A call that is sent again counts once.
    exactly_once: "exactly-once";
    /// Records can be read and rewritten by position.
    positions: "positions";
    /// The interface of that name works.
    leases: "leases";
    /// The interface of that name works.
    indexes: "indexes";
    /// The interface of that name works.
    listing: "listing";
}
