//! The harness's own modules: they belong to a binary, so nobody can depend on them.

#![allow(dead_code, reason = "of what they offer, the rest is for the harness")]

#[path = "../../../harness/src/commands/run/budget.rs"]
pub mod budget;
#[path = "../../../service/src/jsonl/entry.rs"]
pub mod entry;
#[path = "../../../harness/src/commands/run/feed.rs"]
pub mod feed;
#[path = "../../../service/src/jsonl/members.rs"]
pub mod members;
