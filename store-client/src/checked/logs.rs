//! Logs: records where the log is, and where they were asked for.

use crate::bindings::keepline::store::types::ReadOperation;
use crate::{LogExtent, LogRecords, RecordRun, Span};

/// Whether the log has a next position.
pub fn is_valid_log_extent(extent: LogExtent) -> bool {
    extent.first.checked_add(extent.length).is_some()
}

/// Whether the records are those at that end, and none of those that are left.
pub fn is_end(found: &LogRecords, asked: &ReadOperation<'_>) -> bool {
    let extent = found.extent;
    let [run] = &*found.runs else { return found.runs.is_empty() && is_valid_log_extent(extent) };
    let most = if extent.length > asked.only_over { extent.length.saturating_sub(asked.leave) } else { 0 };
    let count = run.records.len() as u64;
    is_run(extent, run)
        && count <= most.min(asked.max_records)
        && match asked.newest {
            _ if count == 0 => true,
            false => run.first == extent.first,
            true => run.first + count == extent.next() - asked.leave,
        }
}

/// Whether each run is of a span, in the order of these.
pub fn are_spans(found: &LogRecords, spans: &[Span]) -> bool {
    // Spans of which there is no record have none here: each of these belongs to a later one than the last.
    let mut spans = spans.iter();
    is_valid_log_extent(found.extent)
        && found.runs.iter().all(|run| spans.any(|span| is_within(found.extent, run, *span)))
}

/// Whether the records are some of the log's, and of those that were asked for.
fn is_within(extent: LogExtent, run: &RecordRun, span: Span) -> bool {
    let Span { position, count } = span;
    let end = position.saturating_add(u64::from(count));
    is_run(extent, run)
        && (run.records.is_empty() || (run.first >= position && run.first + run.records.len() as u64 <= end))
}

/// Whether the records are some of the log's.
fn is_run(extent: LogExtent, RecordRun { first, records }: &RecordRun) -> bool {
    let end = first.checked_add(records.len() as u64);
    is_valid_log_extent(extent)
        && (records.is_empty() || (*first >= extent.first && end.is_some_and(|end| end <= extent.next())))
}
