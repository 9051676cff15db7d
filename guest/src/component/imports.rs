//! What the host lends, as the filter sees it.

use super::bindings::keepline::memory::key_value as wit;
use super::bindings::wasi::clocks::wall_clock;
use super::bindings::wasi::logging::logging;
use super::{CAPABILITIES, LOG_FROM};
use crate::store::{
    Bucket, BucketKind, BucketPage, Capabilities, Deletion, Description, Entry, Expectation, Failure, FailureCode,
    FoundEntries, Host, KeyPage, Level, LogEnd, LogExtent, LogRecords, Opening, Operation, Outcome, PositionMark,
    Receipt, Span, Status, TimeToLive, Transaction,
};

/// What the host lends.
#[derive(Clone, Copy)]
pub(super) struct Imports;

impl Host for Imports {
    fn transact(&self, transaction: &Transaction<'_>) -> Result<Receipt, Failure> {
        let lists = Lists::of(transaction);
        let parts = lists.parts(transaction);
        received(wit::transact(parts.transaction(transaction)))
    }

    fn transact_each(&self, transactions: &[Transaction<'_>]) -> Vec<Result<Receipt, Failure>> {
        let lists: Vec<_> = transactions.iter().map(Lists::of).collect();
        let parts: Vec<_> = lists.iter().zip(transactions).map(|(lists, of)| lists.parts(of)).collect();
        let lowered: Vec<_> = parts.iter().zip(transactions).map(|(parts, of)| parts.transaction(of)).collect();
        let attempts = wit::transact_each(&lowered).into_iter().map(|attempt| match attempt {
            wit::Attempt::Receipt(receipt) => received(Ok(receipt)),
            wit::Attempt::Failure(failure) => received(Err(failure)),
        });
        attempts.collect()
    }

    fn list_sessions(&self, cursor: &str, limit: u32) -> Result<BucketPage, Failure> {
        let page = wit::list_buckets(wit::BucketKind::Session, cursor, limit)?;
        Ok(BucketPage { names: page.names, cursor: page.cursor })
    }

    fn delete(&self, bucket: Bucket<'_>, incarnation: Option<&str>, max_keys: u32) -> Result<Deletion, Failure> {
        let deletion = wit::delete_bucket(lower_bucket(bucket), incarnation, max_keys)?;
        Ok(Deletion { status: deletion.status.into(), values: deletion.values, keys: deletion.keys })
    }

    fn capabilities(&self) -> Capabilities {
        if let Some(known) = CAPABILITIES.get() {
            return known;
        }
        let told = wit::capabilities();
        let capabilities = Capabilities {
            atomic: told.atomic,
            expiring: told.expiring,
            exactly_once: told.exactly_once,
            listing: told.listing,
            leases: told.leases,
        };
        CAPABILITIES.set(Some(capabilities));
        capabilities
    }

    fn now_micros(&self) -> u64 {
        let now = wall_clock::now();
        now.seconds.saturating_mul(1_000_000).saturating_add(u64::from(now.nanoseconds / 1000))
    }

    fn log(&self, level: Level, context: &str, message: &str) {
        logging::log(level.into(), context, message);
    }

    fn logs(&self, level: Level) -> bool {
        logging::Level::from(level) as u8 >= LOG_FROM.get() as u8
    }
}

impl From<Level> for logging::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Debug => Self::Debug,
            Level::Warn => Self::Warn,
        }
    }
}

#[inline(never)]
fn received(answer: Result<wit::Receipt, wit::Failure>) -> Result<Receipt, Failure> {
    Ok(answer?.into())
}

/// Lists of records within a transaction's operations, which need a place of their own. Most transactions have none of
/// them.
#[derive(Default)]
struct Lists<'a> {
    entries: Vec<wit::EntryParam<'a>>,
    marks: Vec<wit::PositionMark<'a>>,
    spans: Vec<wit::Span>,
    records: Vec<wit::PositionedRecord<'a>>,
}

/// A transaction's parts in the contract's terms.
struct Parts<'a> {
    expectations: Vec<wit::Expectation<'a>>,
    operations: Vec<wit::Operation<'a>>,
}

impl<'a> Lists<'a> {
    #[inline(never)]
    fn of(transaction: &Transaction<'a>) -> Self {
        let mut lists = Self::default();
        for operation in transaction.operations {
            match *operation {
                Operation::Put { key, text, .. } => lists.entries.push(wit::EntryParam { key, text }),
                Operation::PutSome { entries, .. } | Operation::ReplaceMap { entries, .. } => {
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
                _ => {}
            }
        }
        lists
    }

    #[inline(never)]
    fn parts<'b>(&'b self, transaction: &Transaction<'b>) -> Parts<'b> {
        let mut rest = Rest { entries: &self.entries, marks: &self.marks, spans: &self.spans, records: &self.records };
        Parts {
            expectations: transaction.expectations.iter().map(lower_expectation).collect(),
            operations: transaction.operations.iter().map(|operation| lower_operation(operation, &mut rest)).collect(),
        }
    }
}

impl Parts<'_> {
    fn transaction<'b>(&'b self, transaction: &Transaction<'b>) -> wit::Transaction<'b> {
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

fn lower_bucket(bucket: Bucket<'_>) -> wit::BucketId<'_> {
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
        Operation::ReplaceMap { map: map_name, entries } => {
            let entries = take(&mut rest.entries, entries.len());
            wit::Operation::ResetMap(wit::ResetMapOperation { map_name, entries })
        }
        Operation::ResetMap { map: map_name } => {
            wit::Operation::ResetMap(wit::ResetMapOperation { map_name, entries: &[] })
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
        Operation::ReplaceLog { log, records } => {
            wit::Operation::ResetLog(wit::ResetLogOperation { log, records, marks: &[] })
        }
        Operation::ResetLog { log } => {
            wit::Operation::ResetLog(wit::ResetLogOperation { log, records: &[], marks: &[] })
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
        Operation::Describe { parts } => wit::Operation::Describe(wit::DescribeOperation { parts }),
    }
}

impl From<wit::Outcome> for Outcome {
    fn from(outcome: wit::Outcome) -> Self {
        match outcome {
            wit::Outcome::Entries(found) => {
                let entries = found.entries.into_iter().map(|entry| Entry { key: entry.key, text: entry.text });
                Self::Entries(FoundEntries { entries: entries.collect(), unreadable: found.unreadable })
            }
            wit::Outcome::Oversize(size) => Self::Oversize { bytes: size.bytes, entries: size.entries },
            wit::Outcome::Page(page) => {
                let mut keys: Vec<_> = page.entries.into_iter().map(|entry| entry.key).collect();
                keys.extend(page.unreadable);
                Self::Page(KeyPage { keys, cursor: page.cursor })
            }
            wit::Outcome::Changed(changed) => Self::Changed(changed.count),
            wit::Outcome::Counter(counter) => Self::Counter(counter.value),
            wit::Outcome::Extent(extent) => Self::Extent(extent.into()),
            wit::Outcome::Records(found) => {
                Self::Records(LogRecords { extent: found.extent.into(), first: found.first, records: found.records })
            }
            wit::Outcome::Spans(found) => {
                let extent = LogExtent::from(found.extent);
                let run = |run: wit::SpanRecords| LogRecords { extent, first: run.first, records: run.records };
                Self::Spans(extent, found.spans.into_iter().map(run).collect())
            }
            wit::Outcome::Described(found) => Self::Described(Description {
                expires_in: found.expires_in,
                values: found.values,
                logs: found.logs.into_iter().map(|log| (log.log, log.extent.into())).collect(),
            }),
            wit::Outcome::Lease(state) => Self::Lease(state.held),
            wit::Outcome::Indexed(_) | wit::Outcome::Matches(_) => Self::Other,
        }
    }
}

impl From<wit::LogExtent> for LogExtent {
    fn from(extent: wit::LogExtent) -> Self {
        Self { first: extent.first, length: extent.length }
    }
}

impl From<wit::Receipt> for Receipt {
    fn from(receipt: wit::Receipt) -> Self {
        Self {
            status: receipt.status.into(),
            incarnation: receipt.incarnation,
            unmet: receipt.unmet,
            outcomes: receipt.outcomes.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<wit::Status> for Status {
    fn from(status: wit::Status) -> Self {
        match status {
            wit::Status::Applied => Self::Applied,
            wit::Status::Repeated => Self::Repeated,
            wit::Status::Absent => Self::Absent,
            wit::Status::Expired => Self::Expired,
            wit::Status::Exists => Self::Exists,
            wit::Status::AnotherLife => Self::AnotherLife,
            wit::Status::Unmet => Self::Unmet,
        }
    }
}

impl From<wit::Failure> for Failure {
    fn from(failure: wit::Failure) -> Self {
        Self {
            code: match failure.code {
                wit::FailureCode::Invalid => FailureCode::Invalid,
                wit::FailureCode::TooLarge => FailureCode::TooLarge,
                wit::FailureCode::Unsupported => FailureCode::Unsupported,
                wit::FailureCode::WrongType => FailureCode::WrongType,
                wit::FailureCode::NotACounter => FailureCode::NotACounter,
                wit::FailureCode::CounterOverflow => FailureCode::CounterOverflow,
                wit::FailureCode::TooManyBuckets => FailureCode::TooManyBuckets,
                wit::FailureCode::Full => FailureCode::Full,
                wit::FailureCode::ReadOnly => FailureCode::ReadOnly,
                wit::FailureCode::Denied => FailureCode::Denied,
                wit::FailureCode::Unavailable => FailureCode::Unavailable,
                wit::FailureCode::TimedOut => FailureCode::TimedOut,
                wit::FailureCode::Other => FailureCode::Other,
            },
            subject: failure.subject,
            limit: failure.limit,
            message: failure.message,
        }
    }
}
