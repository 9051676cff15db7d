//! Components for hosts that know nothing of Keepline, in bytes. What one imports is the complete list of what it needs.

macro_rules! component {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".wasm"))
    };
}

/// The store (world `store-provider`) on `wasi:keyvalue`.
pub static STORE_KEYVALUE: &[u8] = component!("keepline-store-keyvalue");

/// Where the log of a composed component goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// `wasi:cli/stderr`.
    Stderr,
    /// `wasi:logging/logging`.
    WasiLogging,
    /// Nowhere: the component imports nothing for it.
    None,
}

/// The filter composed with that store and a log: it imports `wasi:keyvalue`, a clock, and what the log needs.
pub const fn keyvalue(log: Log) -> &'static [u8] {
    match log {
        Log::Stderr => component!("keepline-kv-log-stderr"),
        Log::WasiLogging => component!("keepline-kv-log-wasi-logging"),
        Log::None => component!("keepline-kv-log-none"),
    }
}

/// The same behind HTTP: it exports `wasi:http/incoming-handler`, and imports the environment for its options, too.
pub const fn keyvalue_http(log: Log) -> &'static [u8] {
    match log {
        Log::Stderr => component!("keepline-kv-http-log-stderr"),
        Log::WasiLogging => component!("keepline-kv-http-log-wasi-logging"),
        Log::None => component!("keepline-kv-http-log-none"),
    }
}
