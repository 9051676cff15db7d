//! The harness's own modules: they belong to a binary, so nobody can depend on them.

#![allow(dead_code, reason = "of what they offer, the rest is for the harness")]

#[path = "../../../host/src/bin/keepline/run/entry.rs"]
pub mod entry;
#[path = "../../../host/src/bin/keepline/run/feed.rs"]
pub mod feed;
#[path = "../../../host/src/bin/keepline/run/python_json.rs"]
pub mod python_json;
