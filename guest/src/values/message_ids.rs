//! Ids under which a write counts once, no matter who sends it again: message ids of answers, and request ids of calls.
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

/// The log of message ids.
pub(crate) const ANSWERS_LOG: &str = "answers";

/// The map from a message id to its position there.
pub(crate) const MESSAGE_IDS_MAP: &str = "messages";

/// The log of request ids, and the map from such an id to its position there.
pub(crate) const REQUESTS: &str = "requests";

/// Where ids of a kind are kept in a bucket.
#[derive(Clone, Copy)]
pub(crate) struct IdParts {
    name: &'static str,
    log: &'static str,
    map: &'static str,
}

/// Those of answers.
pub(crate) const MESSAGE_IDS: IdParts = IdParts { name: "message", log: ANSWERS_LOG, map: MESSAGE_IDS_MAP };

/// Those of calls that an operator or a service repeats.
pub(crate) const REQUEST_IDS: IdParts = IdParts { name: "request", log: REQUESTS, map: REQUESTS };

/// Of more than so many ids …
const LIMIT: u64 = 1000;

/// … the newest stay.
const KEEP: u64 = 500;

/// What is read of those to be forgotten. A record of ours has less than 600 bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The id of an answer or of a call.
pub(crate) struct MessageId<'a> {
    parts: IdParts,
    key: Cow<'a, str>,
    record: String,
}

impl<'a> MessageId<'a> {
    /// Of an answer: any text but the empty one.
    pub(crate) fn new(id: &'a str) -> Option<Self> {
        Self::within(MESSAGE_IDS, id)
    }

    /// Of a call: any text but the empty one.
    pub(crate) fn of_request(id: &'a str) -> Option<Self> {
        Self::within(REQUEST_IDS, id)
    }

    fn within(parts: IdParts, id: &'a str) -> Option<Self> {
        if id.is_empty() {
            return None;
        }
        let key = to_map_key(id);
        let mut record = String::with_capacity(key.len() + 8);
        json::push_string(&mut record, &key);
        Some(Self { parts, key, record })
    }

    /// It is not stored yet.
    pub(crate) fn is_new(&self) -> Expectation<'_> {
        Expectation::absent(self.parts.map, &self.key)
    }

    /// What it is found under.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Where its record lies is found under it.
    pub(crate) fn mark(&self) -> PositionMark<'_> {
        PositionMark { map_name: self.parts.map, key: &self.key, record_index: 0 }
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
        operations.push(Operation::append(self.parts.log, records, marks));
        operations.push(Operation::read_surplus(self.parts.log, LIMIT, KEEP, max_records, max_bytes));
    }
}

/// Forget the ids that an applied write found to be too many. The write stands whatever comes of that.
pub(crate) fn forget_surplus_ids(host: &impl Host, parts: IdParts, written: &Transaction<'_>, receipt: &Receipt) {
    if let Some((extent, surplus)) = store::surplus_records(written, receipt, parts.log)
        && let Err(failure) = forget(host, parts, written, receipt, (extent, surplus))
    {
        let parts = ["Old ", parts.name, " ids of session ", written.bucket.name, " not forgotten: ", &failure.message];
        log::warn(host, log::STORE, &parts);
    }
}

/// If the log does not begin any more where it did, another writer was faster and did the work.
fn forget(
    host: &impl Host,
    parts: IdParts,
    written: &Transaction<'_>,
    receipt: &Receipt,
    (extent, surplus): (LogExtent, &RecordRun),
) -> Result<(), Box<Problem>> {
    // A foreign record may not be an id: it is dropped, with no entry.
    let ids = surplus.records.iter().filter_map(|record| json::decode_string(record));
    let mut keys: Vec<String> = ids.filter(|id| is_map_key(id)).map(Cow::into_owned).collect();
    store::sort_names(&mut keys);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let transaction = Transaction {
        bucket: written.bucket,
        precondition: written.precondition.again(receipt),
        expectations: &[Expectation::log(parts.log, Some(extent.first), None)],
        operations: &[
            Operation::replace_oldest(parts.log, surplus.records.len() as u64, &[]),
            Operation::remove(parts.map, &keys),
        ],
    };
    store::transact(host, &transaction).map(drop)
}
