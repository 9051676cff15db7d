//! Components for hosts that know nothing of Keepline, in bytes. What one imports is the complete list of what it needs.

/// The store (world `store-provider`) on `wasi:keyvalue`.
pub const STORE_KEYVALUE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/keepline-store-keyvalue.wasm"));

/// The log on standard error: `wasi:cli/stderr`.
pub const LOG_STDERR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/keepline-log-stderr.wasm"));

/// The filter composed with these two: it imports `wasi:keyvalue`, a clock, and standard error.
pub const KEYVALUE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/keepline-kv.wasm"));

/// The same behind HTTP: it exports `wasi:http/incoming-handler`, and imports the environment for its options, too.
pub const KEYVALUE_HTTP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/keepline-kv-http.wasm"));
