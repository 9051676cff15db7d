//! Reads replies of scripts for the fuzzer, which has no Redis to send them. `None`: the script said that the request came
//! too late.

use redis::Value;

use super::{
    decode::{self, ScriptReply},
    listing::read_part,
    options::address::ServerAddress,
    read_deletion,
    servers::cluster::{SLOTS, slot_ranges},
};
use crate::{Deletion, Failure, IndexedReceipt, IndexedTransaction};

/// What `transact.lua` answers.
pub fn receipt(reply: Value, request: &IndexedTransaction) -> Result<Option<IndexedReceipt>, Failure> {
    decode::read_receipt(reply, request).map(answer_if_in_time)
}

/// What `delete.lua` answers.
pub fn deletion(reply: Value) -> Result<Option<Deletion>, Failure> {
    read_deletion(reply, u32::MAX).map(answer_if_in_time)
}

/// What `list.lua` answers: names of buckets.
pub fn page(reply: Value) -> Result<Option<Vec<String>>, Failure> {
    read_part(reply).map(|read| answer_if_in_time(read).map(|part| part.buckets))
}

/// What `CLUSTER SLOTS` answers: whether all of its slots are slots.
pub fn map(reply: Value) -> Result<bool, Failure> {
    let asked = ServerAddress { host: "asked".into(), port: 1 };
    Ok(slot_ranges(reply, &asked)?.iter().all(|range| usize::from(range.first.max(range.last)) < SLOTS))
}

fn answer_if_in_time<T>((said, _): (ScriptReply<T>, u64)) -> Option<T> {
    match said {
        ScriptReply::Answer(answer) | ScriptReply::Written(answer) | ScriptReply::Found(answer) => Some(answer),
        ScriptReply::Late => None,
    }
}
