//! The history of a session: what was done, never what was stored.
//!
//! Promises records as Python's `json.dumps` writes them, and that they stay few: what a write finds to be too
//! much becomes one [summary]. Refuses to summarise what another writer has summarised meanwhile.

use keepline_json::{push_digits, push_number, push_string};

use crate::config::Config;
use crate::log;
use crate::names::split_once;
use crate::reply::{self, Outcomes};
use crate::store::{Expectation, Failure, Host, LogRecords, Operation, Receipt, Transaction};

pub mod summary;

use summary::Summary;
pub use summary::summarize;

/// The log's name.
pub const LOG: &str = "history";

/// What one transaction looks at. Whatever is left is summarised with the writes to come.
const MAX_RECORDS: u64 = 512;
const MAX_BYTES: u64 = 256 << 10;

/// A moment as Python writes it: seconds, and as many decimals as there are, at least one.
pub fn timestamp(micros: u64) -> String {
    let mut out = String::with_capacity(20);
    push_number(&mut out, micros / 1_000_000);
    out.push('.');
    let mut fraction = u32::try_from(micros % 1_000_000).unwrap_or(0);
    let mut decimals = 6;
    while decimals > 1 && fraction.is_multiple_of(10) {
        fraction /= 10;
        decimals -= 1;
    }
    push_digits(&mut out, fraction, decimals);
    out
}

/// Microseconds of a moment so written, or as any plain decimal. None: it is none.
pub fn micros_of(timestamp: &str) -> Option<u64> {
    let (whole, fraction) = split_once(timestamp, ".").unwrap_or((timestamp, ""));
    let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_plain(whole) || !is_plain(fraction) {
        return None;
    }
    let micros = fraction.bytes().chain(*b"000000").take(6).fold(0, |sum, digit| sum * 10 + u64::from(digit & 0xf));
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(micros)
}

/// The same in milliseconds, as the conversation's limits are.
pub fn milliseconds_of(timestamp: &str) -> Option<u64> {
    micros_of(timestamp).map(|micros| micros / 1000)
}

/// A record of an operation on one key.
pub fn record(op: &str, key: &str, timestamp: &str) -> String {
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

fn push_timestamp(out: &mut String, timestamp: &str) {
    out.push_str(", \"timestamp\": ");
    out.push_str(timestamp);
    out.push('}');
}

fn push_list<'a>(out: &mut String, items: impl Iterator<Item = &'a str>) {
    out.push('[');
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        push_string(out, item);
    }
    out.push(']');
}

/// Adds to a transaction the records that tell of it, and the question for what is too much then. Without records,
/// history is left alone.
pub(crate) fn append<'a>(operations: &mut Vec<Operation<'a>>, config: &Config, records: &'a [&'a str]) {
    if records.is_empty() {
        return;
    }
    operations.push(Operation::Append { log: LOG, records, marks: &[] });
    if config.auto_summarize {
        operations.push(Operation::Overflow {
            log: LOG,
            limit: config.max_history,
            keep: config.max_history / 2,
            max_records: MAX_RECORDS,
            max_bytes: MAX_BYTES,
        });
    }
}

/// Summarise what an applied write found to be too much. The write stands whatever comes of that.
pub(crate) fn tidy(host: &impl Host, config: &Config, written: &Transaction<'_>, receipt: &Receipt, timestamp: &str) {
    let Some(surplus) = reply::surplus(written, receipt, LOG) else { return };
    let bucket = written.bucket;
    let transaction =
        Transaction { bucket, opening: written.opening.again(receipt), expectations: &[], operations: &[] };
    if let Err(failure) = fold(host, config, &transaction, surplus, timestamp) {
        let parts = ["History of session ", bucket.name, " not summarized: ", &failure.sentence()];
        log::warn(host, log::STORE, &parts);
    }
}

/// Put a summary in the place of the surplus that an `overflow` step handed back. If the log does not begin any more
/// where it did, another writer was faster and did the work.
fn fold(
    host: &impl Host,
    config: &Config,
    transaction: &Transaction<'_>,
    surplus: &LogRecords,
    timestamp: &str,
) -> Result<(), Failure> {
    let mut summary = Summary::of(&surplus.records);
    let mut count = surplus.records.len() as u64;
    let next;
    if let [oldest] = &*surplus.records
        && summary::is_summary(oldest)
    {
        if surplus.extent.length <= (config.max_history / 2).saturating_add(1) {
            return Ok(());
        }
        // More is to be summarised, but the next record alone is over the limit: fetch it, or history
        // would grow for ever.
        let read = Operation::ReadAt { log: LOG, position: surplus.first + 1, count: 1, max_bytes: MAX_BYTES };
        let receipt = reply::transact(host, &Transaction { operations: &[read], ..*transaction })?;
        if !receipt.is_applied() {
            return Ok(());
        }
        next = Outcomes::of(receipt).records()?;
        let Some(record) = next.records.first() else { return Ok(()) };
        summary.add(record);
        count = 2;
    }
    reply::transact(
        host,
        &Transaction {
            expectations: &[Expectation::Log { log: LOG, first: Some(surplus.extent.first), next: None }],
            operations: &[Operation::ReplaceOldest { log: LOG, count, records: &[&summary.write(timestamp)] }],
            ..*transaction
        },
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn timestamps_are_written_as_python_writes_floats() {
        for (micros, text) in [
            (1_795_186_917_032_595, "1795186917.032595"),
            (1_795_186_917_500_000, "1795186917.5"),
            (1_795_186_917_000_000, "1795186917.0"),
            (1_795_186_917_000_010, "1795186917.00001"),
            (0, "0.0"),
        ] {
            assert_eq!(timestamp(micros), text);
            assert_eq!(micros_of(text), Some(micros));
        }
        timestamp(u64::MAX);
    }

    #[test]
    fn timestamps_are_read_as_others_write_them() {
        for (text, micros) in [
            ("17.5", Some(17_500_000)),
            ("17", Some(17_000_000)),
            ("17.", Some(17_000_000)),
            ("17.1234567", Some(17_123_456)),
            ("0", Some(0)),
            ("18446744073709.551615", Some(u64::MAX)),
            ("18446744073709.551616", None),
            ("99999999999999999999", None),
            ("life-1", None),
            ("1.x", None),
            ("1e9", None),
            ("-1", None),
            (".5", None),
            ("", None),
        ] {
            assert_eq!(micros_of(text), micros, "{text}");
        }
    }
}
