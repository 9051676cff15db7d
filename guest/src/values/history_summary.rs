//! Compacts many records of a history into one.
//!
//! Promises to lose no count: a summary is merged with the ones before it, and what has no name any more is
//! counted as `unknown`. Bounded whatever the records of others hold.

use keepline_json as json;
use keepline_json::{push_number, push_string};
use keepline_options::kinds::push_list;
use std::borrow::Cow;

use crate::contract::sessions;
use crate::text::ids::is_key_shaped;
use crate::text::timestamp::parse_milliseconds;
use crate::values::history::push_timestamp;

/// Bounds of a summary: it stays far below what one transaction looks at.
const MAX_KEYS_TOUCHED: usize = 256;

const MAX_OPS: usize = 32;

const MAX_OP_BYTES: usize = 64;

/// A summary longer than this is foreign, and is written again.
const MAX_SUMMARY_BYTES: usize = 96 << 10;

/// The largest integer that every reader of JSON reads exactly.
const MAX_COUNT: u64 = (1 << 53) - 1;

const UNKNOWN: &str = "unknown";

/// Operation and key of a record that is spelt as [`format_record`] spells it, as nearly all are: seen without a
/// parser.
fn own_record(record: &str) -> Option<(&str, &str)> {
    let rest = record.strip_prefix("{\"op\": \"")?;
    let (op, rest) = ["put", "increment", "clear"].into_iter().find_map(|op| Some((op, rest.strip_prefix(op)?)))?;
    let rest = rest.strip_prefix("\", \"key\": \"")?;
    let (key, rest) = json::split_before(rest, b'"')?;
    let timestamp = rest.strip_prefix("\", \"timestamp\": ")?.strip_suffix('}')?;
    let (seconds, decimals) = json::split_before(timestamp, b'.')?;
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let decimals = decimals.strip_prefix('.')?;
    let is_own = is_key_shaped(key) && is_digits(seconds) && !seconds.starts_with('0') && is_digits(decimals);
    is_own.then_some((op, key))
}

/// What many records come to.
#[derive(Debug, Default)]
pub(crate) struct HistorySummary<'a> {
    count: u64,
    /// In order of first appearance, as Python's dictionaries have it.
    ops: Vec<(Cow<'a, str>, u64)>,
    /// Sorted.
    keys: Vec<Cow<'a, str>>,
    keys_truncated: bool,
}

/// One record, as far as it could be read.
#[derive(Default)]
struct ParsedHistoryRecord<'a> {
    op: Option<Cow<'a, str>>,
    key: Option<&'a str>,
    cleared: Option<&'a str>,
    summarized_count: Option<&'a str>,
    op_counts: Option<&'a str>,
    keys_touched: Option<&'a str>,
    keys_truncated: bool,
    timestamp: Option<&'a str>,
}

impl<'a> ParsedHistoryRecord<'a> {
    fn parse(record: &'a str) -> Self {
        let mut parts = Self::default();
        let read = json::for_each_member(record, |key, value| match key {
            "\"op\"" => parts.op = json::decode_string(value),
            "\"key\"" => parts.key = Some(value),
            "\"cleared\"" => parts.cleared = Some(value),
            "\"summarized_count\"" => parts.summarized_count = Some(value),
            "\"op_counts\"" => parts.op_counts = Some(value),
            "\"keys_touched\"" => parts.keys_touched = Some(value),
            "\"keys_truncated\"" => parts.keys_truncated = value == "true",
            "\"timestamp\"" => parts.timestamp = Some(value),
            _ => {}
        });
        if read.is_none() { Self::default() } else { parts }
    }

    fn is_summary(&self) -> bool {
        self.op.as_deref() == Some("summary")
    }
}

/// A record as the contract has it.
pub(crate) fn read_record(record: &str) -> sessions::HistoryRecord {
    let parts = ParsedHistoryRecord::parse(record);
    let mut cleared = Vec::new();
    if let Some(keys) = parts.cleared {
        let _ = json::for_each_element(keys, |raw| cleared.extend(json::decode_string(raw).map(Cow::into_owned)));
    }
    let summary = parts.is_summary().then(|| {
        let mut summary = HistorySummary::default();
        summary.merge(&parts);
        let operations =
            summary.ops.into_iter().map(|(name, count)| sessions::NameCount { name: name.into_owned(), count });
        sessions::HistorySummary {
            count: summary.count,
            operations: operations.collect(),
            keys: summary.keys.into_iter().map(Cow::into_owned).collect(),
        }
    });
    sessions::HistoryRecord {
        key: parts.key.and_then(json::decode_string).map(Cow::into_owned),
        cleared,
        summary,
        at: parts.timestamp.and_then(parse_milliseconds).unwrap_or(0),
        operation: parts.op.unwrap_or_default().into_owned(),
        extras: None,
    }
}

impl<'a> HistorySummary<'a> {
    pub(crate) fn of(records: &'a [String]) -> Self {
        let mut summary = Self::default();
        for record in records {
            summary.add(record);
        }
        summary
    }

    pub(crate) fn add(&mut self, record: &'a str) {
        if let Some((op, key)) = own_record(record) {
            self.add_op(Cow::Borrowed(op), 1);
            self.add_count(1);
            return self.touch(Cow::Borrowed(key));
        }
        let parts = ParsedHistoryRecord::parse(record);
        if parts.is_summary() {
            self.merge(&parts);
            return;
        }
        self.add_op(parts.op.unwrap_or(Cow::Borrowed(UNKNOWN)), 1);
        self.add_count(1);
        if let Some(key) = parts.key.and_then(json::decode_string) {
            self.touch(key);
        }
        self.touch_all(parts.cleared);
    }

    /// Take over an earlier summary, whoever wrote it and whatever it claims. Its operations are what
    /// it counts; where they are fewer than its count says, the rest has no name.
    fn merge(&mut self, parts: &ParsedHistoryRecord<'a>) {
        let mut named = 0_u64;
        if let Some(counts) = parts.op_counts {
            let mut ops = Vec::new();
            if json::for_each_member(counts, |op, count| ops.push((op, count))).is_some() {
                for (op, count) in ops {
                    let count = read_count(count);
                    named = saturating(named, count);
                    self.add_op(json::decode_string(op).unwrap_or(Cow::Borrowed(UNKNOWN)), count);
                }
            }
        }
        let claimed = parts.summarized_count.map_or(0, read_count);
        if claimed > named {
            self.add_op(Cow::Borrowed(UNKNOWN), claimed - named);
        }
        self.add_count(claimed.max(named));
        self.keys_truncated |= parts.keys_truncated;
        self.touch_all(parts.keys_touched);
    }

    fn add_count(&mut self, count: u64) {
        self.count = saturating(self.count, count);
    }

    fn add_op(&mut self, op: Cow<'a, str>, count: u64) {
        if count == 0 {
            return;
        }
        let known = |ops: &mut Vec<(Cow<'a, str>, u64)>, name: &str| {
            let found = ops.iter_mut().find(|(known, _)| known == name);
            found.map(|(_, total)| *total = saturating(*total, count))
        };
        if known(&mut self.ops, &op).is_some() {
            return;
        }
        // The last place is for whatever finds no place.
        if (self.ops.len() + 1 < MAX_OPS && op.len() <= MAX_OP_BYTES) || op == UNKNOWN {
            self.ops.push((op, count));
        } else if known(&mut self.ops, UNKNOWN).is_none() {
            self.ops.push((Cow::Borrowed(UNKNOWN), count));
        }
    }

    fn touch(&mut self, key: Cow<'a, str>) {
        if key.is_empty() {
            return;
        }
        let Err(at) = self.keys.binary_search(&key) else {
            return;
        };
        if self.keys.len() < MAX_KEYS_TOUCHED && is_key_shaped(&key) {
            self.keys.insert(at, key);
        } else {
            self.keys_truncated = true;
        }
    }

    fn touch_all(&mut self, raw: Option<&'a str>) {
        let Some(raw) = raw else { return };
        let read = json::for_each_element(raw, |key| {
            if let Some(key) = json::decode_string(key) {
                self.touch(key);
            }
        });
        self.keys_truncated |= read.is_none() && raw != "null";
    }

    pub(crate) fn write(&self, timestamp: &str) -> String {
        let size: usize = self.keys.iter().map(|key| key.len() + 4).sum();
        let mut out = String::with_capacity(160 + size + self.ops.len() * 24);
        out.push_str("{\"op\": \"summary\", \"summarized_count\": ");
        push_number(&mut out, self.count);
        out.push_str(", \"op_counts\": {");
        for (index, (op, count)) in self.ops.iter().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            push_string(&mut out, op);
            out.push_str(": ");
            push_number(&mut out, *count);
        }
        out.push_str("}, \"keys_touched\": ");
        push_list(&mut out, self.keys.iter().map(|key| &**key));
        if self.keys_truncated {
            out.push_str(", \"keys_truncated\": true");
        }
        push_timestamp(&mut out, timestamp);
        out
    }
}

/// Whether a record is a summary that need not be rewritten.
pub(crate) fn is_summary(record: &str) -> bool {
    record.len() <= MAX_SUMMARY_BYTES && ParsedHistoryRecord::parse(record).is_summary()
}

/// One record for many.
pub fn summarize_history(records: &[String], timestamp: &str) -> String {
    HistorySummary::of(records).write(timestamp)
}

fn saturating(a: u64, b: u64) -> u64 {
    a.saturating_add(b).min(MAX_COUNT)
}

/// Parses a foreign count: not below 0, no fractions, saturating.
fn read_count(raw: &str) -> u64 {
    if let Ok(count) = raw.parse::<u64>() {
        return count.min(MAX_COUNT);
    }
    if !raw.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast from a float saturates, and that is what is wanted"
    )]
    json::parse_number(raw).map_or(MAX_COUNT, |count| (count as u64).min(MAX_COUNT))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::text::timestamp::format_timestamp;
    use crate::values::history::format_record;

    #[test]
    fn our_own_records_need_no_parser_and_are_read_alike() {
        for op in ["put", "increment", "clear"] {
            assert_eq!(
                own_record(&format_record(op, "a.b-c_d", &format_timestamp(1_795_186_917_032_595))),
                Some((op, "a.b-c_d"))
            );
        }
        let others = [
            r#"{"op": "summary", "key": "k", "timestamp": 1.5}"#,
            r#"{"op": "put", "key": "k\u0061", "timestamp": 1.5}"#,
            r#"{"op": "put", "key": "", "timestamp": 1.5}"#,
            r#"{"op": "put", "key": "k", "timestamp": 01.5}"#,
            r#"{"op": "put", "key": "k", "timestamp": 1.}"#,
            r#"{"op": "put", "key": "k", "timestamp": 1}"#,
            r#"{"op": "put", "key": "k", "timestamp": 1.5, "key": "l"}"#,
            r#"{"op": "put", "key": "k", "timestamp": 1.5"#,
            r#"{"op": "put", "key": "k"}"#,
            r#"{"op":"put","key":"k","timestamp":1.5}"#,
        ];
        for other in others {
            assert_eq!(own_record(other), None, "{other}");
        }
    }

    #[test]
    fn absurd_summaries_of_others_saturate() {
        let absurd = [
            r#"{"op": "summary", "summarized_count": 1e400, "op_counts": {"put": 99999999999999999999}}"#,
            r#"{"op": "summary", "summarized_count": -5, "op_counts": {"put": -3, "x": "7", "y": 2.9}}"#,
            r#"{"op": "summary", "summarized_count": 18446744073709551615, "op_counts": []}"#,
            r#"{"op": "summary", "keys_touched": "all"}"#,
        ];
        let one = |index: usize| summarize_history(&[absurd[index].to_owned()], "1.0");
        assert!(one(0).contains("\"summarized_count\": 9007199254740991, \"op_counts\": {\"put\": 9007199254740991}"));
        assert!(one(1).contains("\"summarized_count\": 2, \"op_counts\": {\"y\": 2}"));
        assert!(one(2).contains("{\"unknown\": 9007199254740991}"));
        assert!(
            one(3)
                .contains("\"summarized_count\": 0, \"op_counts\": {}, \"keys_touched\": [], \"keys_truncated\": true")
        );
        let all: Vec<_> = absurd.iter().map(|&record| record.to_owned()).collect();
        assert!(summarize_history(&all, "1.0").contains("\"summarized_count\": 9007199254740991"));
    }

    #[test]
    fn operations_and_keys_of_a_summary_are_bounded_and_counted() {
        let mut records: Vec<_> = (0..100).map(|n| format_record(&format!("op{n}"), "k", "1.0")).collect();
        records.extend((0..400).map(|n| format_record("put", &format!("key{n}"), "1.0")));
        records.push(format_record(&"long".repeat(100), "k", "1.0"));
        let summary = summarize_history(&records, "1.0");
        assert!(summary.contains("\"summarized_count\": 501"));
        assert!(summary.contains("\"unknown\": "));
        assert!(summary.contains("\"keys_truncated\": true"));
        let again = summarize_history(&[summary, format_record("put", "k", "1.0")], "1.0");
        assert!(again.contains("\"summarized_count\": 502"));
        assert!(again.contains("\"keys_truncated\": true"));
        assert!(again.len() < MAX_SUMMARY_BYTES);
    }
}
