//! The filter's logic compiled natively, on the memory store: what an entry costs without a sandbox.

use std::{cell::RefCell, sync::Arc};

use anyhow::{Result, anyhow, bail};
use futures::FutureExt;
use keepline::store::{self, BucketId, BucketKind, Deadline, MemoryStore, Store, Transaction, Writer};
use keepline_filter::{AnswerEntry, Config, Effect, Filter, QuestionEntry, contract as logic};

use crate::{
    contenders::{ANSWER, QUESTION_TEXT, SESSIONS, Turns, answer_of},
    measure::Contender,
};

pub struct Native {
    filter: Filter<NativeHost>,
    turns: Turns,
    answer: String,
    turn: String,
}

impl Native {
    pub fn new(store: Arc<MemoryStore>) -> Result<Self> {
        let host = NativeHost { store, writer: RefCell::new(Writer::new()) };
        let config = Config::parse("{}").map_err(|problem| anyhow!(problem.message))?;
        let (filter, turns) = (Filter::new(host, config), Turns::new("native", SESSIONS));
        Ok(Self { filter, turns, answer: answer_of(ANSWER), turn: String::new() })
    }
}

impl Contender for Native {
    async fn prepare(&mut self) -> Result<()> {
        self.turns.advance();
        Ok(())
    }

    async fn question(&mut self) -> Result<()> {
        let entry = QuestionEntry { text: QUESTION_TEXT, metadata: &self.turns.metadata, ..QuestionEntry::default() };
        let reply = self.filter.question(&entry);
        self.turn = reply.turn;
        match reply.effect {
            Effect::Enriched | Effect::Resumed => Ok(()),
            effect => bail!("unexpected effect of a question: {effect:?}"),
        }
    }

    async fn answer(&mut self) -> Result<()> {
        let entry = AnswerEntry { text: &self.answer, metadata: "{}", turn: &self.turn, ..AnswerEntry::default() };
        match self.filter.answer(&entry).effect {
            Effect::Stored => Ok(()),
            effect => bail!("unexpected effect of an answer: {effect:?}"),
        }
    }
}

/// Lends the memory store without a component in between, as far as entries without a conversation need it.
struct NativeHost {
    store: Arc<MemoryStore>,
    writer: RefCell<Writer>,
}

impl logic::Host for NativeHost {
    fn transact(&self, transaction: &logic::Transaction<'_>) -> Result<logic::Receipt, logic::Failure> {
        let transaction = Transaction {
            bucket: BucketId { kind: BucketKind::Session, name: transaction.bucket.name.to_owned() },
            opening: lower_opening(transaction.opening).ok_or_else(unneeded)?,
            expectations: lower_all(transaction.expectations, lower_expectation)?,
            operations: lower_all(transaction.operations, lower_operation)?,
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
            Some(Err(_)) | None => Err(unneeded()),
        }
    }

    fn transact_each(&self, _: &[logic::Transaction<'_>]) -> Vec<Result<logic::Receipt, logic::Failure>> {
        vec![Err(unneeded())]
    }

    fn list_sessions(&self, _: &str, _: u32) -> Result<logic::BucketPage, logic::Failure> {
        Err(unneeded())
    }

    fn delete(&self, _: logic::Bucket<'_>, _: Option<&str>, _: u32) -> Result<logic::Deletion, logic::Failure> {
        Err(unneeded())
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
        // As far as the component's messages get when they are below the level.
        std::hint::black_box(message);
    }
}

/// What is asked for by no entry without a conversation ends the benchmark.
fn unneeded() -> logic::Failure {
    let message = "entries without a conversation do not need that".to_owned();
    logic::Failure { code: logic::FailureCode::Other, subject: String::new(), limit: 0, message }
}

fn lower_all<T, U>(all: &[T], lower: impl Fn(&T) -> Option<U>) -> Result<Vec<U>, logic::Failure> {
    all.iter().map(|one| lower(one).ok_or_else(unneeded)).collect()
}

fn lower_opening(opening: logic::Opening<'_>) -> Option<store::Opening> {
    Some(match opening {
        logic::Opening::Existing { incarnation, renew } => {
            store::Opening::Existing(store::ExistingLife { incarnation: incarnation.map(str::to_owned), renew })
        }
        logic::Opening::Create { time_to_live: None } => store::Opening::Create(store::NewLife { time_to_live: None }),
        _ => return None,
    })
}

fn lower_expectation(expectation: &logic::Expectation<'_>) -> Option<store::Expectation> {
    Some(match *expectation {
        logic::Expectation::Log { log, first, next } => {
            store::Expectation::Log(store::ExpectedLog { log: log.into(), first, next })
        }
        logic::Expectation::Room { map, limit } => {
            store::Expectation::Room(store::ExpectedRoom { map_name: map.into(), limit })
        }
        _ => return None,
    })
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

fn lower_operation(operation: &logic::Operation<'_>) -> Option<store::Operation> {
    use store::Operation as To;
    Some(match *operation {
        logic::Operation::GetAll { map, max_entries, max_bytes } => {
            To::GetAll(store::GetAllOperation { map_name: map.into(), max_entries, max_bytes })
        }
        logic::Operation::Put { map, key, text } => {
            let entries = vec![store::Entry { key: key.into(), text: text.into() }];
            To::Put(store::PutOperation { map_name: map.into(), entries })
        }
        logic::Operation::Increment { map, key, amount } => {
            To::Increment(store::IncrementOperation { map_name: map.into(), key: key.into(), amount })
        }
        logic::Operation::Append { log, records, marks: [] } => {
            To::Append(store::AppendOperation { log: log.into(), records: texts(records), marks: Vec::new() })
        }
        logic::Operation::Overflow { log, limit, keep, max_records, max_bytes } => {
            To::Overflow(store::OverflowOperation { log: log.into(), limit, keep, max_records, max_bytes })
        }
        logic::Operation::ReplaceOldest { log, count, records } => {
            To::ReplaceOldest(store::ReplaceOldestOperation { log: log.into(), count, records: texts(records) })
        }
        _ => return None,
    })
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
        store::Outcome::Changed(changed) => logic::Outcome::Changed(changed.count),
        store::Outcome::Counter(counter) => logic::Outcome::Counter(counter.value),
        store::Outcome::Extent(extent) => logic::Outcome::Extent(lift_extent(extent)),
        store::Outcome::Records(found) => {
            let (extent, first, records) = (lift_extent(found.extent), found.first, found.records);
            logic::Outcome::Records(logic::LogRecords { extent, first, records })
        }
        _ => logic::Outcome::Other,
    }
}
