//! What goes down, in the contract's terms: borrowed, but for the lists that are of another layout there.

use super::wit;
use crate::contract::{
    Bucket, BucketKind, Expectation, LogEnd, Opening, Operation, PositionMark, Posting, Span, TimeToLive, Transaction,
};

/// Lists within a transaction's operations, which need a place of their own. Most transactions have none of
/// them.
#[derive(Default)]
pub(super) struct Lists<'a> {
    entries: Vec<wit::EntryParam<'a>>,
    marks: Vec<wit::PositionMark<'a>>,
    spans: Vec<wit::Span>,
    records: Vec<wit::PositionedRecord<'a>>,
    documents: Vec<wit::Posting<'a>>,
}

/// A transaction's parts in the contract's terms.
pub(super) struct Parts<'a> {
    expectations: Vec<wit::Expectation<'a>>,
    operations: Vec<wit::Operation<'a>>,
}

impl<'a> Lists<'a> {
    #[inline(never)]
    pub(super) fn of(transaction: &Transaction<'a>) -> Self {
        let mut lists = Self::default();
        for operation in transaction.operations {
            match *operation {
                Operation::Put { key, text, .. } => lists.entries.push(wit::EntryParam { key, text }),
                Operation::PutSome { entries, .. } | Operation::ResetMap { entries, .. } => {
                    lists.entries.extend(entries.iter().map(|&(key, text)| wit::EntryParam { key, text }));
                }
                Operation::Append { marks, .. } => {
                    let marks = marks.iter().map(|&PositionMark { map: map_name, key, record_index }| {
                        wit::PositionMark { map_name, key, record_index }
                    });
                    lists.marks.extend(marks);
                }
                Operation::Rewrite { records, .. } => {
                    let records = records.iter().map(|&(position, text)| wit::PositionedRecord { position, text });
                    lists.records.extend(records);
                }
                Operation::ReadAt { position, count, .. } => lists.spans.push(wit::Span { position, count }),
                Operation::ReadSpans { spans, .. } => {
                    lists.spans.extend(spans.iter().map(|&Span { position, count }| wit::Span { position, count }));
                }
                Operation::Post { documents, .. } => {
                    let documents = documents.iter().map(|&Posting { position, mark, terms }| wit::Posting {
                        position,
                        mark,
                        terms,
                    });
                    lists.documents.extend(documents);
                }
                _ => {}
            }
        }
        lists
    }

    #[inline(never)]
    pub(super) fn parts<'b>(&'b self, transaction: &Transaction<'b>) -> Parts<'b> {
        let mut rest = Rest {
            entries: &self.entries,
            marks: &self.marks,
            spans: &self.spans,
            records: &self.records,
            documents: &self.documents,
        };
        Parts {
            expectations: transaction.expectations.iter().map(lower_expectation).collect(),
            operations: transaction.operations.iter().map(|operation| lower_operation(operation, &mut rest)).collect(),
        }
    }
}

impl Parts<'_> {
    pub(super) fn transaction<'b>(&'b self, transaction: &Transaction<'b>) -> wit::Transaction<'b> {
        wit::Transaction {
            bucket: lower_bucket(transaction.bucket),
            opening: match transaction.opening {
                Opening::Existing { incarnation, renew } => {
                    wit::Opening::Existing(wit::ExistingLife { incarnation, renew })
                }
                Opening::Create { time_to_live } => wit::Opening::Create(new_life(time_to_live)),
                Opening::CreateNew { time_to_live } => wit::Opening::CreateNew(new_life(time_to_live)),
                Opening::Replace => wit::Opening::Replace(new_life(None)),
            },
            expectations: &self.expectations,
            operations: &self.operations,
        }
    }
}

pub(super) fn lower_bucket(bucket: Bucket<'_>) -> wit::BucketId<'_> {
    let kind = match bucket.kind {
        BucketKind::Session => wit::BucketKind::Session,
        BucketKind::User => wit::BucketKind::User,
        BucketKind::Node => wit::BucketKind::Node,
    };
    wit::BucketId { kind, name: bucket.name }
}

fn new_life(time_to_live: Option<TimeToLive>) -> wit::NewLife {
    wit::NewLife {
        time_to_live: time_to_live
            .map(|life| wit::TimeToLive { milliseconds: life.milliseconds, sliding: life.sliding }),
    }
}

fn lower_expectation<'a>(expectation: &Expectation<'a>) -> wit::Expectation<'a> {
    match *expectation {
        Expectation::Absent { map, key } => entry(map, key, wit::EntryState::Absent, ""),
        Expectation::Present { map, key } => entry(map, key, wit::EntryState::Present, ""),
        Expectation::Equal { map, key, text } => entry(map, key, wit::EntryState::Equal, text),
        Expectation::AbsentOrEqual { map, key, text } => entry(map, key, wit::EntryState::AbsentOrEqual, text),
        Expectation::Log { log, first, next } => wit::Expectation::Log(wit::ExpectedLog { log, first, next }),
        Expectation::Room { map, limit } => wit::Expectation::Room(wit::ExpectedRoom { map_name: map, limit }),
    }
}

fn entry<'a>(map_name: &'a str, key: &'a str, state: wit::EntryState, text: &'a str) -> wit::Expectation<'a> {
    wit::Expectation::Entry(wit::ExpectedEntry { map_name, key, state, text })
}

/// What of the lists later operations hold, in their order.
struct Rest<'a> {
    entries: &'a [wit::EntryParam<'a>],
    marks: &'a [wit::PositionMark<'a>],
    spans: &'a [wit::Span],
    records: &'a [wit::PositionedRecord<'a>],
    documents: &'a [wit::Posting<'a>],
}

/// The next so many.
fn take<'a, T>(list: &mut &'a [T], count: usize) -> &'a [T] {
    let (taken, after) = list.split_at_checked(count).unwrap_or_default();
    *list = after;
    taken
}

fn lower_operation<'a>(operation: &'a Operation<'a>, rest: &mut Rest<'a>) -> wit::Operation<'a> {
    match *operation {
        Operation::Get { map: map_name, ref key, max_bytes } => {
            wit::Operation::Get(wit::GetOperation { map_name, keys: std::slice::from_ref(key), max_bytes })
        }
        Operation::GetSome { map: map_name, keys, max_bytes } => {
            wit::Operation::Get(wit::GetOperation { map_name, keys, max_bytes })
        }
        Operation::GetAll { map: map_name, max_entries, max_bytes } => {
            wit::Operation::GetAll(wit::GetAllOperation { map_name, max_entries, max_bytes })
        }
        Operation::PageKeys { map: map_name, cursor, max_entries, max_bytes } => {
            wit::Operation::Page(wit::PageOperation { map_name, cursor, max_entries, max_bytes, keys_only: true })
        }
        Operation::Put { map: map_name, .. } => {
            wit::Operation::Put(wit::PutOperation { map_name, entries: take(&mut rest.entries, 1) })
        }
        Operation::Increment { map: map_name, key, amount } => {
            wit::Operation::Increment(wit::IncrementOperation { map_name, key, amount })
        }
        Operation::Remove { map: map_name, keys } => wit::Operation::Remove(wit::RemoveOperation { map_name, keys }),
        Operation::PutSome { map: map_name, entries } => {
            let entries = take(&mut rest.entries, entries.len());
            wit::Operation::Put(wit::PutOperation { map_name, entries })
        }
        Operation::ResetMap { map: map_name, entries } => {
            let entries = take(&mut rest.entries, entries.len());
            wit::Operation::ResetMap(wit::ResetMapOperation { map_name, entries })
        }
        Operation::Append { log, records, marks } => {
            let marks = take(&mut rest.marks, marks.len());
            wit::Operation::Append(wit::AppendOperation { log, records, marks })
        }
        Operation::Read { log, end, max_records, max_bytes } => wit::Operation::Read(wit::ReadOperation {
            log,
            end: match end {
                LogEnd::Oldest => wit::LogEnd::Oldest,
                LogEnd::Newest => wit::LogEnd::Newest,
            },
            max_records,
            max_bytes,
        }),
        Operation::ReadAt { log, max_bytes, .. } => {
            wit::Operation::ReadAt(wit::ReadAtOperation { log, spans: take(&mut rest.spans, 1), max_bytes })
        }
        Operation::ReadSpans { log, spans, max_bytes } => {
            let spans = take(&mut rest.spans, spans.len());
            wit::Operation::ReadAt(wit::ReadAtOperation { log, spans, max_bytes })
        }
        Operation::Rewrite { log, records } => {
            let records = take(&mut rest.records, records.len());
            wit::Operation::Rewrite(wit::RewriteOperation { log, records })
        }
        Operation::ResetLog { log, records } => {
            wit::Operation::ResetLog(wit::ResetLogOperation { log, records, marks: &[] })
        }
        Operation::Lease { lease, holder, milliseconds } => {
            wit::Operation::Lease(wit::LeaseOperation { lease, holder, milliseconds })
        }
        Operation::Overflow { log, limit, keep, max_records, max_bytes } => {
            wit::Operation::Overflow(wit::OverflowOperation { log, limit, keep, max_records, max_bytes })
        }
        Operation::ReplaceOldest { log, count, records } => {
            wit::Operation::ReplaceOldest(wit::ReplaceOldestOperation { log, count, records })
        }
        Operation::Post { index, documents } => {
            let documents = take(&mut rest.documents, documents.len());
            wit::Operation::Post(wit::PostOperation { index, documents })
        }
        Operation::Unpost { index, positions } => wit::Operation::Unpost(wit::UnpostOperation { index, positions }),
        Operation::Match { index, terms, newest, max_bytes } => {
            wit::Operation::Match(wit::MatchOperation { index, terms, newest, max_bytes })
        }
        Operation::Describe { parts } => wit::Operation::Describe(wit::DescribeOperation { parts }),
    }
}
