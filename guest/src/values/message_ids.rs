//! Message ids: an answer that has one is stored once, no matter who sends it again.
//!
//! Promises that the same id never counts twice while it is among the newest [`KEEP`], and that a session holds no
//! more than [`LIMIT`] of them. Refuses to let the session's other parts suffer from what is broken here.
//!
//! An id is found by its key in the map, and forgotten by its place in the log: the oldest go first.

use keepline_json as json;
use std::borrow::Cow;

use crate::contract::{
    Expectation, Host, LogExtent, Operation, PositionMark, Problem, Receipt, RecordRun, StoreLimits, Transaction,
};
use crate::text::ids::{is_map_key, to_map_key};
use crate::{log, store};

/// The log of ids.
pub(crate) const ANSWERS_LOG: &str = "answers";

/// The map from an id to its position there.
pub(crate) const MESSAGE_IDS_MAP: &str = "messages";

/// Of more than so many ids …
const LIMIT: u64 = 1000;

/// … the newest stay.
const KEEP: u64 = 500;

/// What is read of those to be forgotten. A record of ours has less than 600 bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The id of an answer.
pub(crate) struct MessageId<'a> {
    key: Cow<'a, str>,
    record: String,
}

impl<'a> MessageId<'a> {
    /// Any text but the empty one.
    pub(crate) fn new(id: &'a str) -> Option<Self> {
        if id.is_empty() {
            return None;
        }
        let key = to_map_key(id);
        let mut record = String::with_capacity(key.len() + 8);
        json::push_string(&mut record, &key);
        Some(Self { key, record })
    }

    /// It is not stored yet.
    pub(crate) fn is_new(&self) -> Expectation<'_> {
        Expectation::absent(MESSAGE_IDS_MAP, &self.key)
    }

    /// Where its record lies is found under it.
    pub(crate) fn mark(&self) -> PositionMark<'_> {
        PositionMark { map_name: MESSAGE_IDS_MAP, key: &self.key, record_index: 0 }
    }

    pub(crate) fn record(&self) -> &str {
        &self.record
    }

    /// Adds it to a transaction, with the question for what is too much then.
    pub(crate) fn push_operations<'s>(
        &'s self,
        operations: &mut Vec<Operation<'s>>,
        records: &'s [&'s str],
        marks: &'s [PositionMark<'s>],
        limits: StoreLimits,
    ) {
        // They are forgotten in one call.
        let (max_records, max_bytes) = (LIMIT.min(limits.call_pieces / 2), MAX_BYTES.min(limits.call_bytes / 4));
        operations.push(Operation::append(ANSWERS_LOG, records, marks));
        operations.push(Operation::read_surplus(ANSWERS_LOG, LIMIT, KEEP, max_records, max_bytes));
    }
}

/// Forget the ids that an applied answer found to be too many. The answer stands whatever comes of that.
pub(crate) fn forget_surplus_ids(host: &impl Host, written: &Transaction<'_>, receipt: &Receipt) {
    if let Some((extent, surplus)) = store::surplus_records(written, receipt, ANSWERS_LOG)
        && let Err(failure) = forget(host, written, receipt, extent, surplus)
    {
        let parts = ["Old message ids of session ", written.bucket.name, " not forgotten: ", &failure.message];
        log::warn(host, log::STORE, &parts);
    }
}

/// If the log does not begin any more where it did, another writer was faster and did the work.
fn forget(
    host: &impl Host,
    written: &Transaction<'_>,
    receipt: &Receipt,
    extent: LogExtent,
    surplus: &RecordRun,
) -> Result<(), Box<Problem>> {
    // A foreign record may not be an id: it is dropped, with no entry.
    let ids = surplus.records.iter().filter_map(|record| json::decode_string(record));
    let mut keys: Vec<String> = ids.filter(|id| is_map_key(id)).map(Cow::into_owned).collect();
    store::sort_names(&mut keys);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let transaction = Transaction {
        bucket: written.bucket,
        precondition: written.precondition.again(receipt),
        expectations: &[Expectation::log(ANSWERS_LOG, Some(extent.first), None)],
        operations: &[
            Operation::replace_oldest(ANSWERS_LOG, surplus.records.len() as u64, &[]),
            Operation::remove(MESSAGE_IDS_MAP, &keys),
        ],
    };
    store::transact(host, &transaction).map(drop)
}
