//! The registered names of the contract: kinds of buckets, capabilities, kinds of parts, limits.

/// Kinds of buckets.
pub mod kind {
    pub const SESSION: &str = "session";
    pub const USER: &str = "user";
    pub const NODE: &str = "node";
    pub const DEFINITION: &str = "definition";
    pub const DATASET: &str = "dataset";
    pub const SERVICE: &str = "service";
    /// All that are registered. A store takes others, too.
    pub const REGISTERED: [&str; 6] = [SESSION, USER, NODE, DEFINITION, DATASET, SERVICE];
}

/// What a store can do.
pub mod capability {
    pub const ATOMIC: &str = "atomic";
    pub const COMPARE: &str = "compare";
    pub const EXPIRING: &str = "expiring";
    pub const EXACTLY_ONCE: &str = "exactly-once";
    pub const POSITIONS: &str = "positions";
    pub const DURABLE: &str = "durable";
    pub const LEASES: &str = "leases";
    pub const INDEXES: &str = "indexes";
    pub const LISTING: &str = "listing";
    /// Those of a store that lacks nothing.
    pub const ALL: [&str; 9] = [ATOMIC, COMPARE, EXPIRING, EXACTLY_ONCE, POSITIONS, DURABLE, LEASES, INDEXES, LISTING];
}

/// Kinds of parts, in the order in which a description lists them.
pub mod part {
    pub const INDEX: &str = "index";
    pub const LOG: &str = "log";
    pub const MAP: &str = "map";
}

/// Limits, as a store reports them and as failures name them.
pub mod limit {
    pub const TEXT_BYTES: &str = "text-bytes";
    pub const RECORD_BYTES: &str = "record-bytes";
    pub const CALL_BYTES: &str = "call-bytes";
    pub const CALL_PIECES: &str = "call-pieces";
    pub const REPLY_BYTES: &str = "reply-bytes";
    pub const REPLY_PIECES: &str = "reply-pieces";
    pub const REPLY_PIECES_EACH: &str = "reply-pieces-each";
    pub const READS: &str = "reads";
    pub const VALUES: &str = "values";
    pub const PARTS: &str = "parts";
    pub const TRANSACTIONS: &str = "transactions";
    pub const DOCUMENT_TERMS: &str = "document-terms";
    pub const CALL_TERMS: &str = "call-terms";
    pub const SEARCH_TERMS: &str = "search-terms";
    pub const SEARCH_BYTES: &str = "search-bytes";
    pub const REMOVE_RUNS: &str = "remove-runs";
    pub const BUCKETS: &str = "buckets";
}
