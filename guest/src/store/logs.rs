//! Logs: records where the log is, and where they were asked for.

use crate::contract::{LogEnd, LogExtent, LogRecords, LogSpans, Span, SpanRecords};

/// Whether the log has a next position.
pub(crate) fn is_valid_log_extent(extent: LogExtent) -> bool {
    extent.first.checked_add(extent.length).is_some()
}

/// Whether the records are those at that end.
pub(crate) fn is_end(found: &LogRecords, end: LogEnd, max_records: u64) -> bool {
    is_run(found.extent, found.first, &found.records)
        && found.records.len() as u64 <= max_records
        && match end {
            _ if found.records.is_empty() => true,
            LogEnd::Oldest => found.first == found.extent.first,
            LogEnd::Newest => found.first + found.records.len() as u64 == found.extent.next(),
        }
}

/// Whether the records are the oldest of a log that is longer than the limit.
pub(crate) fn is_surplus(found: &LogRecords, limit: u64, keep: u64, max_records: u64) -> bool {
    let surplus = found.extent.length.saturating_sub(keep).min(max_records);
    let most = if found.extent.length > limit { surplus } else { 0 };
    is_run(found.extent, found.first, &found.records)
        && (found.records.is_empty() || (found.first == found.extent.first && found.records.len() as u64 <= most))
}

/// Whether each run is of a span, in the order of these.
pub(crate) fn are_spans(found: &LogSpans, spans: &[Span]) -> bool {
    // Spans of which there is no record have none here: each of these belongs to a later one than the last.
    let mut spans = spans.iter();
    is_valid_log_extent(found.extent)
        && found.spans.iter().all(|run| spans.any(|span| is_within(found.extent, run, *span)))
}

/// Whether the records are some of the log's, and of those that were asked for.
fn is_within(extent: LogExtent, found: &SpanRecords, span: Span) -> bool {
    let Span { position, count } = span;
    let end = position.saturating_add(u64::from(count));
    is_run(extent, found.first, &found.records)
        && (found.records.is_empty() || (found.first >= position && found.first + found.records.len() as u64 <= end))
}

/// Whether the records are some of the log's.
fn is_run(extent: LogExtent, first: u64, records: &[String]) -> bool {
    let end = first.checked_add(records.len() as u64);
    is_valid_log_extent(extent)
        && (records.is_empty() || (first >= extent.first && end.is_some_and(|end| end <= extent.next())))
}
