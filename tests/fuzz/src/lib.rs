//! Fuzz targets: what must hold for any bytes, at each place where Keepline reads foreign data.
//!
//! `tests/fuzz/run` looks for bytes for which it does not, guided by what they reach; `cargo test` replays what
//! it found worth keeping (`corpus/`).

mod definitions;
mod entry;
mod feed;
mod load;
mod messages;
mod metadata;
mod options;
mod reply;
mod returned;
mod run;
mod stored;
mod turn;

/// The host of the filter's own tests, on the memory store: it asserts the contract from the other side.
#[path = "../../../guest/tests/logic/memory.rs"]
mod memory;
#[path = "../../../guest/tests/logic/test_host.rs"]
#[allow(dead_code, reason = "of what it offers, the rest is for the filter's tests")]
mod test_host;

/// The host of the pipelines' own tests.
#[path = "../../../pipelines/tests/cases/host.rs"]
#[allow(dead_code, clippy::duplicate_mod, reason = "of what it offers, the rest is for the pipelines' tests")]
mod pipelines_host;

use keepline::store as stores;

/// Asserts what must hold for some bytes.
pub type Target = fn(&[u8]);

/// All of them. Each has a directory of its name in `corpus/`.
pub const TARGETS: [(&str, Target); 11] = [
    ("metadata", metadata::holds),
    ("messages", messages::holds),
    ("options", options::holds),
    ("entry", entry::holds),
    ("feed", feed::holds),
    ("turn", turn::holds),
    ("stored", stored::holds),
    ("returned", returned::holds),
    ("reply", reply::holds),
    ("load", load::holds),
    ("definitions", definitions::holds),
];

/// Several texts in one input: 0xff is in none.
fn texts(data: &[u8]) -> Option<Vec<&str>> {
    data.split(|byte| *byte == 0xff).map(|part| std::str::from_utf8(part).ok()).collect()
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
}

/// A tree, unless it is too deep for one or holds half a surrogate pair.
fn tree(text: &str) -> Option<serde_json::Value> {
    serde_json::from_str(text).ok()
}

/// What a session may be called, by the contract's own words.
fn is_session(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}
