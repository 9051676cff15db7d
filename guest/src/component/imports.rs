//! What the host lends, as the filter sees it.

use super::bindings::keepline::memory::key_value as wit;
use super::bindings::wasi::clocks::wall_clock;
use super::bindings::wasi::logging::logging;
use super::{CAPABILITIES, LOG_FROM};
use crate::store::{
    BucketPage, Capabilities, Deletion, Description, Entry, Expectation, Failure, FailureCode, FoundEntries, Host,
    KeyPage, Level, LogEnd, LogExtent, LogRecords, Opening, Operation, Outcome, PositionMark, Receipt, Status,
    TimeToLive, Transaction,
};

/// What the host lends.
#[derive(Clone, Copy)]
pub(super) struct Imports;

impl Host for Imports {
    fn transact(&self, transaction: &Transaction<'_>) -> Result<Receipt, Failure> {
        let expectations: Vec<_> = transaction.expectations.iter().map(lower_expectation).collect();
        // Lists of records need a place of their own. Most transactions have none of them.
        let (mut entries, mut marks, mut spans) = (Vec::new(), Vec::new(), Vec::new());
        for operation in transaction.operations {
            match *operation {
                Operation::Put { key, text, .. } => entries.push(wit::EntryParam { key, text }),
                Operation::Append { mark: Some(PositionMark { map, key, record_index }), .. } => {
                    marks.push(wit::PositionMark { map_name: map, key, record_index });
                }
                Operation::ReadAt { position, count, .. } => spans.push(wit::Span { position, count }),
                _ => {}
            }
        }
        let mut lists = Lists { entries: entries.iter(), marks: marks.iter(), spans: spans.iter() };
        let operations: Vec<_> =
            transaction.operations.iter().map(|operation| lower_operation(operation, &mut lists)).collect();
        let receipt = wit::transact(wit::Transaction {
            bucket: bucket(transaction.session),
            opening: match transaction.opening {
                Opening::Existing { incarnation, renew } => {
                    wit::Opening::Existing(wit::ExistingLife { incarnation, renew })
                }
                Opening::Create { time_to_live } => wit::Opening::Create(new_life(time_to_live)),
                Opening::CreateNew { time_to_live } => wit::Opening::CreateNew(new_life(time_to_live)),
            },
            expectations: &expectations,
            operations: &operations,
        })?;
        Ok(Receipt {
            status: receipt.status.into(),
            incarnation: receipt.incarnation,
            unmet: receipt.unmet,
            outcomes: receipt.outcomes.into_iter().map(Into::into).collect(),
        })
    }

    fn list_sessions(&self, cursor: &str, limit: u32) -> Result<BucketPage, Failure> {
        let page = wit::list_buckets(wit::BucketKind::Session, cursor, limit)?;
        Ok(BucketPage { names: page.names, cursor: page.cursor })
    }

    fn delete_session(&self, session: &str, max_keys: u32) -> Result<Deletion, Failure> {
        let deletion = wit::delete_bucket(bucket(session), None, max_keys)?;
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

fn bucket(session: &str) -> wit::BucketId<'_> {
    wit::BucketId { kind: wit::BucketKind::Session, name: session }
}

fn new_life(time_to_live: Option<TimeToLive>) -> wit::NewLife {
    wit::NewLife {
        time_to_live: time_to_live
            .map(|life| wit::TimeToLive { milliseconds: life.milliseconds, sliding: life.sliding }),
    }
}

fn lower_expectation<'a>(expectation: &Expectation<'a>) -> wit::Expectation<'a> {
    match *expectation {
        Expectation::Absent { map, key } => {
            wit::Expectation::Entry(wit::ExpectedEntry { map_name: map, key, state: wit::EntryState::Absent, text: "" })
        }
        Expectation::Log { log, first, next } => wit::Expectation::Log(wit::ExpectedLog { log, first, next }),
        Expectation::Room { map, limit } => wit::Expectation::Room(wit::ExpectedRoom { map_name: map, limit }),
    }
}

/// The lists that operations hold, in their order.
struct Lists<'a> {
    entries: std::slice::Iter<'a, wit::EntryParam<'a>>,
    marks: std::slice::Iter<'a, wit::PositionMark<'a>>,
    spans: std::slice::Iter<'a, wit::Span>,
}

fn one<'a, T>(list: &mut std::slice::Iter<'a, T>) -> &'a [T] {
    list.next().map_or(&[], std::slice::from_ref)
}

fn lower_operation<'a>(operation: &'a Operation<'a>, lists: &mut Lists<'a>) -> wit::Operation<'a> {
    match *operation {
        Operation::Get { map: map_name, ref key, max_bytes } => {
            wit::Operation::Get(wit::GetOperation { map_name, keys: std::slice::from_ref(key), max_bytes })
        }
        Operation::GetAll { map: map_name, max_entries, max_bytes } => {
            wit::Operation::GetAll(wit::GetAllOperation { map_name, max_entries, max_bytes })
        }
        Operation::PageKeys { map: map_name, cursor, max_entries, max_bytes } => {
            wit::Operation::Page(wit::PageOperation { map_name, cursor, max_entries, max_bytes, keys_only: true })
        }
        Operation::Put { map: map_name, .. } => {
            wit::Operation::Put(wit::PutOperation { map_name, entries: one(&mut lists.entries) })
        }
        Operation::Increment { map: map_name, key, amount } => {
            wit::Operation::Increment(wit::IncrementOperation { map_name, key, amount })
        }
        Operation::Remove { map: map_name, keys } => wit::Operation::Remove(wit::RemoveOperation { map_name, keys }),
        Operation::ResetMap { map: map_name } => {
            wit::Operation::ResetMap(wit::ResetMapOperation { map_name, entries: &[] })
        }
        Operation::Append { log, records, mark } => {
            let marks = if mark.is_some() { one(&mut lists.marks) } else { &[] };
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
            wit::Operation::ReadAt(wit::ReadAtOperation { log, spans: one(&mut lists.spans), max_bytes })
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
                let (first, records) = found
                    .spans
                    .into_iter()
                    .next()
                    .map_or((extent.next(), Vec::new()), |span| (span.first, span.records));
                Self::Span(LogRecords { extent, first, records })
            }
            wit::Outcome::Described(found) => Self::Described(Description {
                expires_in: found.expires_in,
                values: found.values,
                logs: found.logs.into_iter().map(|log| (log.log, log.extent.into())).collect(),
            }),
            wit::Outcome::Lease(_) | wit::Outcome::Indexed(_) | wit::Outcome::Matches(_) => Self::Other,
        }
    }
}

impl From<wit::LogExtent> for LogExtent {
    fn from(extent: wit::LogExtent) -> Self {
        Self { first: extent.first, length: extent.length }
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
