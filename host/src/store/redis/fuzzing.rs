//! Replies of the scripts as they are read, for the fuzzer: it has no Redis that would send them. None: the script
//! said that it came too late.

use redis::Value;

use super::{
    codec::{self, Said},
    read_deletion, read_description,
};
use crate::store::{Deletion, Description, Failure, Receipt, Transaction};

/// What `transact.lua` answers.
///
/// # Errors
/// When it is not what that answers, or tells of a failure.
pub fn receipt(reply: Value, transaction: &Transaction) -> Result<Option<Receipt>, Failure> {
    codec::receipt(reply, transaction).map(said)
}

/// What `delete.lua` answers.
///
/// # Errors
/// As [`receipt`].
pub fn deletion(reply: Value) -> Result<Option<Deletion>, Failure> {
    read_deletion(reply).map(said)
}

/// What `describe.lua` answers.
///
/// # Errors
/// As [`receipt`].
pub fn description(reply: Value) -> Result<Option<Description>, Failure> {
    read_description(reply).map(said)
}

fn said<T>((said, _): (Said<T>, u64)) -> Option<T> {
    match said {
        Said::Answer(answer) | Said::Written(answer) => Some(answer),
        Said::Late => None,
    }
}
