//! Reads replies of scripts for the fuzzer, which has no Redis to send them. `None`: the script said that the request came
//! too late.

use redis::Value;

use super::{
    decode::{self, Said},
    listing::read_part,
    options::address::Address,
    read_deletion,
    servers::cluster::{SLOTS, slot_ranges},
};
use crate::{Deletion, Failure, Receipt, Transaction};

/// What `transact.lua` answers.
///
/// # Errors
/// When it is not what that answers, or tells of a failure.
pub fn receipt(reply: Value, transaction: &Transaction) -> Result<Option<Receipt>, Failure> {
    decode::receipt(reply, transaction).map(said)
}

/// What `delete.lua` answers.
///
/// # Errors
/// As [`receipt`].
pub fn deletion(reply: Value) -> Result<Option<Deletion>, Failure> {
    read_deletion(reply, u32::MAX).map(said)
}

/// What `list.lua` answers: names of buckets.
///
/// # Errors
/// As [`receipt`].
pub fn page(reply: Value) -> Result<Option<Vec<String>>, Failure> {
    read_part(reply).map(|read| said(read).map(|part| part.buckets))
}

/// What `CLUSTER SLOTS` answers: whether all of its slots are slots.
///
/// # Errors
/// When it is no map of a cluster.
pub fn map(reply: Value) -> Result<bool, Failure> {
    let asked = Address { host: "asked".into(), port: 1 };
    Ok(slot_ranges(reply, &asked)?.iter().all(|range| usize::from(range.first.max(range.last)) < SLOTS))
}

fn said<T>((said, _): (Said<T>, u64)) -> Option<T> {
    match said {
        Said::Answer(answer) | Said::Written(answer) | Said::Found(answer) => Some(answer),
        Said::Late => None,
    }
}
