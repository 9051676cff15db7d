//! The history of a session: which operations wrote which key, never the values.
//!
//! Records are written as Python's `json.dumps` writes them. A write that finds the log over its limit replaces the oldest records
//! by a [summary](super::history_summary), unless another writer did so first.

use keepline_json::push_string;
use keepline_options::kinds::push_list;

use crate::contract::{Expectation, Host, LogExtent, Operation, Problem, Receipt, RecordRun, Span, Transaction};
use crate::options::config::Config;
use crate::values::history_summary;
use crate::values::history_summary::HistorySummary;
use crate::{log, store};

/// The log's name.
pub const HISTORY_LOG: &str = "history";

/// What one transaction looks at. Whatever is left is summarised with the writes to come.
const MAX_RECORDS: u64 = 512;

const MAX_BYTES: u64 = 256 << 10;

/// A record of an operation on one key.
pub fn format_record(op: &str, key: &str, timestamp: &str) -> String {
    let mut out = String::with_capacity(40 + op.len() + key.len() + timestamp.len());
    out.push_str("{\"op\": \"");
    out.push_str(op);
    out.push_str("\", \"key\": ");
    push_string(&mut out, key);
    push_timestamp(&mut out, timestamp);
    out
}

/// A record of clearing all keys.
pub fn record_clear_all(cleared: &[&str], timestamp: &str) -> String {
    let size: usize = cleared.iter().map(|key| key.len() + 4).sum();
    let mut out = String::with_capacity(72 + size + timestamp.len());
    out.push_str("{\"op\": \"clear\", \"key\": null, \"cleared\": ");
    push_list(&mut out, cleared.iter().copied());
    push_timestamp(&mut out, timestamp);
    out
}

pub(crate) fn push_timestamp(out: &mut String, timestamp: &str) {
    out.push_str(", \"timestamp\": ");
    out.push_str(timestamp);
    out.push('}');
}

/// Adds to a transaction the records that tell of it, and the question for what is too much then. Without records,
/// history is left alone.
pub(crate) fn push_history_operations<'a>(
    operations: &mut Vec<Operation<'a>>,
    config: &Config,
    records: &'a [&'a str],
) {
    if records.is_empty() {
        return;
    }
    operations.push(Operation::append(HISTORY_LOG, records, &[]));
    if config.auto_summarize {
        operations.push(Operation::read_surplus(
            HISTORY_LOG,
            config.max_history,
            config.max_history / 2,
            MAX_RECORDS,
            MAX_BYTES,
        ));
    }
}

/// Summarise what an applied write found to be too much. The write stands whatever comes of that.
pub(crate) fn compact_history(
    host: &impl Host,
    config: &Config,
    written: &Transaction<'_>,
    receipt: &Receipt,
    timestamp: &str,
) {
    let Some((extent, surplus)) = store::surplus_records(written, receipt, HISTORY_LOG) else { return };
    let bucket = written.bucket;
    let transaction =
        Transaction { bucket, precondition: written.precondition.again(receipt), expectations: &[], operations: &[] };
    if let Err(failure) = fold(host, config, &transaction, extent, surplus, timestamp) {
        let parts = ["History of session ", bucket.name, " not summarized: ", &failure.message];
        log::warn(host, log::STORE, &parts);
    }
}

/// Put a summary in the place of the surplus that was read. If the log does not begin any more
/// where it did, another writer was faster and did the work.
fn fold(
    host: &impl Host,
    config: &Config,
    transaction: &Transaction<'_>,
    extent: LogExtent,
    surplus: &RecordRun,
    timestamp: &str,
) -> Result<(), Box<Problem>> {
    let mut summary = HistorySummary::of(&surplus.records);
    let mut count = surplus.records.len() as u64;
    let next;
    if let [oldest] = &*surplus.records
        && history_summary::is_summary(oldest)
    {
        if extent.length <= (config.max_history / 2).saturating_add(1) {
            return Ok(());
        }
        // More is to be summarised, but the next record alone is over the limit: fetch it, or history
        // would grow for ever.
        let span = [Span { position: surplus.first + 1, count: 1 }];
        let read = [Operation::read_at(HISTORY_LOG, &span, MAX_BYTES)];
        let found = store::read_bucket(host, transaction.bucket, transaction.precondition, &read)?;
        let Some(mut outcomes) = found else { return Ok(()) };
        next = outcomes.take_records()?;
        let Some(record) = next.records.first() else { return Ok(()) };
        summary.add(record);
        count = 2;
    }
    store::transact(
        host,
        &Transaction {
            expectations: &[Expectation::log(HISTORY_LOG, Some(extent.first), None)],
            operations: &[Operation::replace_oldest(HISTORY_LOG, count, &[&summary.write(timestamp)])],
            ..*transaction
        },
    )?;
    Ok(())
}
