//! The filter's logic compiled natively, on the memory store: what an entry costs without a sandbox.

use std::{cell::RefCell, sync::Arc};

use anyhow::{Result, bail};
use futures::FutureExt;
use keepline::store::{self, BucketId, BucketKind, Deadline, MemoryStore, Store, Transaction, Writer};
use keepline_filter as filter;
use keepline_filter::{AnswerEntry, Config, Filter, QuestionEntry, contract as logic};

use crate::{
    contenders::{QUESTION_TEXT, SESSIONS, Turns, answer_text},
    measure::Contender,
};

/// The filter's logic compiled natively, on the same memory store.
pub struct Native {
    filter: Filter<NativeHost>,
    turns: Turns,
    answer: String,
    turn: String,
}

impl Native {
    pub fn new(store: Arc<MemoryStore>, name: &str) -> Result<Self> {
        let host = NativeHost { store, writer: RefCell::new(Writer::new()) };
        let config = Config::parse("{}").map_err(|problem| anyhow::anyhow!(problem.message))?;
        let filter = Filter::new(host, config);
        Ok(Self { filter, turns: Turns::new(name, SESSIONS), answer: answer_text(), turn: String::new() })
    }
}

impl Contender for Native {
    async fn question(&mut self) -> Result<()> {
        let entry = QuestionEntry { text: QUESTION_TEXT, metadata: self.turns.next(), ..QuestionEntry::default() };
        let reply = self.filter.question(&entry);
        self.turn = reply.turn;
        match reply.effect {
            filter::Effect::Enriched | filter::Effect::Resumed => Ok(()),
            effect => bail!("unexpected effect of a question: {effect:?}"),
        }
    }

    async fn answer(&mut self) -> Result<()> {
        let entry = AnswerEntry { text: &self.answer, metadata: "{}", turn: &self.turn, ..AnswerEntry::default() };
        match self.filter.answer(&entry).effect {
            filter::Effect::Stored => Ok(()),
            effect => bail!("unexpected effect of an answer: {effect:?}"),
        }
    }
}

/// Lends the memory store without a component in between.
struct NativeHost {
    store: Arc<MemoryStore>,
    writer: RefCell<Writer>,
}

impl logic::Host for NativeHost {
    fn transact(&self, transaction: &logic::Transaction<'_>) -> Result<logic::Receipt, logic::Failure> {
        let transaction = Transaction {
            bucket: BucketId { kind: BucketKind::Session, name: transaction.bucket.name.to_owned() },
            opening: lower_opening(transaction.opening),
            expectations: transaction.expectations.iter().map(lower_expectation).collect(),
            operations: transaction.operations.iter().map(lower_operation).collect(),
        };
        let mut writer = self.writer.borrow_mut();
        // The memory store never waits.
        match self.store.transact(writer.advance(), &transaction, Deadline::NEVER).now_or_never() {
            Some(Ok(receipt)) => Ok(logic::Receipt {
                status: lift_status(receipt.status),
                incarnation: receipt.incarnation,
                unmet: receipt.unmet,
                outcomes: receipt.outcomes.into_iter().map(lift_outcome).collect(),
            }),
            Some(Err(failure)) => Err(unexpected(&failure.message)),
            None => Err(unexpected("the memory store waits")),
        }
    }

    fn transact_each(&self, _: &[logic::Transaction<'_>]) -> Vec<Result<logic::Receipt, logic::Failure>> {
        vec![Err(unexpected("the lanes without a user need one transaction"))]
    }

    fn list_sessions(&self, _: &str, _: u32) -> Result<logic::BucketPage, logic::Failure> {
        Err(unexpected("lanes do not list"))
    }

    fn delete(&self, _: logic::Bucket<'_>, _: Option<&str>, _: u32) -> Result<logic::Deletion, logic::Failure> {
        Err(unexpected("lanes do not delete"))
    }

    fn capabilities(&self) -> logic::Capabilities {
        let store::StoreCapabilities { atomic, expiring, exactly_once, listing, leases, indexes, .. } =
            self.store.capabilities();
        logic::Capabilities { atomic, expiring, exactly_once, listing, leases, indexes }
    }

    fn now_micros(&self) -> u64 {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        u64::try_from(now.as_micros()).unwrap_or_default()
    }

    fn log(&self, _: logic::Level, _: &str, message: &str) {
        // As far as the component's messages get when nobody wants them.
        std::hint::black_box(message);
    }
}

fn unexpected(message: &str) -> logic::Failure {
    logic::Failure { code: logic::FailureCode::Other, subject: String::new(), limit: 0, message: message.to_owned() }
}

fn lower_opening(opening: logic::Opening<'_>) -> store::Opening {
    let life = |ttl: Option<logic::TimeToLive>| store::NewLife {
        time_to_live: ttl.map(|ttl| store::TimeToLive { milliseconds: ttl.milliseconds, sliding: ttl.sliding }),
    };
    match opening {
        logic::Opening::Existing { incarnation, renew } => {
            store::Opening::Existing(store::ExistingLife { incarnation: incarnation.map(str::to_owned), renew })
        }
        logic::Opening::Create { time_to_live } => store::Opening::Create(life(time_to_live)),
        logic::Opening::CreateNew { time_to_live } => store::Opening::CreateNew(life(time_to_live)),
        logic::Opening::Replace => store::Opening::Replace(life(None)),
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

fn lower_expectation(expectation: &logic::Expectation<'_>) -> store::Expectation {
    match *expectation {
        logic::Expectation::Absent { map, key } => lower_entry(map, key, store::EntryState::Absent, ""),
        logic::Expectation::Present { map, key } => lower_entry(map, key, store::EntryState::Present, ""),
        logic::Expectation::Equal { map, key, text } => lower_entry(map, key, store::EntryState::Equal, text),
        logic::Expectation::AbsentOrEqual { map, key, text } => {
            lower_entry(map, key, store::EntryState::AbsentOrEqual, text)
        }
        logic::Expectation::Log { log, first, next } => {
            store::Expectation::Log(store::ExpectedLog { log: log.into(), first, next })
        }
        logic::Expectation::Room { map, limit } => {
            store::Expectation::Room(store::ExpectedRoom { map_name: map.into(), limit })
        }
    }
}

fn lower_entry(map: &str, key: &str, state: store::EntryState, text: &str) -> store::Expectation {
    store::Expectation::Entry(store::ExpectedEntry { map_name: map.into(), key: key.into(), state, text: text.into() })
}

fn entries_of(entries: &[(&str, &str)]) -> Vec<store::Entry> {
    entries.iter().map(|&(key, text)| store::Entry { key: key.into(), text: text.into() }).collect()
}

fn lower_operation(operation: &logic::Operation<'_>) -> store::Operation {
    use store::Operation as To;
    match *operation {
        logic::Operation::Get { map, key, max_bytes } => {
            To::Get(store::GetOperation { map_name: map.into(), keys: vec![key.into()], max_bytes })
        }
        logic::Operation::GetSome { map, keys, max_bytes } => {
            To::Get(store::GetOperation { map_name: map.into(), keys: texts(keys), max_bytes })
        }
        logic::Operation::GetAll { map, max_entries, max_bytes } => {
            To::GetAll(store::GetAllOperation { map_name: map.into(), max_entries, max_bytes })
        }
        logic::Operation::PageKeys { map, cursor, max_entries, max_bytes } => To::Page(store::PageOperation {
            map_name: map.into(),
            cursor: cursor.into(),
            max_entries,
            max_bytes,
            keys_only: true,
        }),
        logic::Operation::Put { map, key, text } => {
            let entries = vec![store::Entry { key: key.into(), text: text.into() }];
            To::Put(store::PutOperation { map_name: map.into(), entries })
        }
        logic::Operation::PutSome { map, entries } => {
            To::Put(store::PutOperation { map_name: map.into(), entries: entries_of(entries) })
        }
        logic::Operation::ResetMap { map, entries } => {
            To::ResetMap(store::ResetMapOperation { map_name: map.into(), entries: entries_of(entries) })
        }
        logic::Operation::ResetLog { log, records } => {
            To::ResetLog(store::ResetLogOperation { log: log.into(), records: texts(records), marks: Vec::new() })
        }
        logic::Operation::Increment { map, key, amount } => {
            To::Increment(store::IncrementOperation { map_name: map.into(), key: key.into(), amount })
        }
        logic::Operation::Remove { map, keys } => {
            To::Remove(store::RemoveOperation { map_name: map.into(), keys: texts(keys) })
        }
        logic::Operation::Append { log, records, marks } => To::Append(store::AppendOperation {
            log: log.into(),
            records: texts(records),
            marks: marks.iter().map(lower_mark).collect(),
        }),
        logic::Operation::Read { log, end, max_records, max_bytes } => To::Read(store::ReadOperation {
            log: log.into(),
            end: match end {
                logic::LogEnd::Oldest => store::LogEnd::Oldest,
                logic::LogEnd::Newest => store::LogEnd::Newest,
            },
            max_records,
            max_bytes,
        }),
        logic::Operation::ReadAt { log, position, count, max_bytes } => To::ReadAt(store::ReadAtOperation {
            log: log.into(),
            spans: vec![store::Span { position, count }],
            max_bytes,
        }),
        logic::Operation::Overflow { log, limit, keep, max_records, max_bytes } => {
            To::Overflow(store::OverflowOperation { log: log.into(), limit, keep, max_records, max_bytes })
        }
        logic::Operation::ReplaceOldest { log, count, records } => {
            To::ReplaceOldest(store::ReplaceOldestOperation { log: log.into(), count, records: texts(records) })
        }
        logic::Operation::ReadSpans { log, spans, max_bytes } => To::ReadAt(store::ReadAtOperation {
            log: log.into(),
            spans: spans.iter().map(|&logic::Span { position, count }| store::Span { position, count }).collect(),
            max_bytes,
        }),
        logic::Operation::Rewrite { log, records } => {
            let record = |&(position, text): &(u64, &str)| store::PositionedRecord { position, text: text.into() };
            To::Rewrite(store::RewriteOperation { log: log.into(), records: records.iter().map(record).collect() })
        }
        logic::Operation::Lease { lease, holder, milliseconds } => {
            To::Lease(store::LeaseOperation { lease: lease.into(), holder: holder.into(), milliseconds })
        }
        logic::Operation::Post { index, documents } => {
            let document = |&logic::Posting { position, mark, terms }: &logic::Posting<'_>| store::Posting {
                position,
                mark,
                terms: terms.to_vec(),
            };
            let documents = documents.iter().map(document).collect();
            To::Post(store::PostOperation { index: index.into(), documents })
        }
        logic::Operation::Unpost { index, positions } => {
            To::Unpost(store::UnpostOperation { index: index.into(), positions: positions.to_vec() })
        }
        logic::Operation::Match { index, terms, newest, max_bytes } => {
            To::Match(store::MatchOperation { index: index.into(), terms: terms.to_vec(), newest, max_bytes })
        }
        logic::Operation::Describe { parts } => To::Describe(store::DescribeOperation { parts }),
    }
}

fn lower_mark(mark: &logic::PositionMark<'_>) -> store::PositionMark {
    store::PositionMark { map_name: mark.map.into(), key: mark.key.into(), record_index: mark.record_index }
}

fn lift_status(status: store::Status) -> logic::Status {
    match status {
        store::Status::Applied => logic::Status::Applied,
        store::Status::Repeated => logic::Status::Repeated,
        store::Status::Absent => logic::Status::Absent,
        store::Status::Expired => logic::Status::Expired,
        store::Status::Exists => logic::Status::Exists,
        store::Status::AnotherLife => logic::Status::AnotherLife,
        store::Status::Unmet => logic::Status::Unmet,
    }
}

fn lift_extent(extent: store::LogExtent) -> logic::LogExtent {
    logic::LogExtent { first: extent.first, length: extent.length }
}

fn lift_outcome(outcome: store::Outcome) -> logic::Outcome {
    match outcome {
        store::Outcome::Entries(found) => {
            let entry = |entry: store::Entry| logic::Entry { key: entry.key, text: entry.text };
            let entries = found.entries.into_iter().map(entry).collect();
            logic::Outcome::Entries(logic::FoundEntries { entries, unreadable: found.unreadable })
        }
        store::Outcome::Oversize(size) => logic::Outcome::Oversize { bytes: size.bytes, entries: size.entries },
        store::Outcome::Changed(changed) => logic::Outcome::Changed(changed.count),
        store::Outcome::Counter(counter) => logic::Outcome::Counter(counter.value),
        store::Outcome::Extent(extent) => logic::Outcome::Extent(lift_extent(extent)),
        store::Outcome::Records(found) => logic::Outcome::Records(logic::LogRecords {
            extent: lift_extent(found.extent),
            first: found.first,
            records: found.records,
        }),
        // What lanes do not ask for.
        _ => logic::Outcome::Other,
    }
}
