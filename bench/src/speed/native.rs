//! The filter's logic compiled natively, on the memory store: what an entry costs without a sandbox.

#[path = "../../../guest/tests/logic/memory.rs"]
mod memory;

use std::sync::Arc;

use anyhow::{anyhow, bail, ensure};
use keepline::store as stores;
use keepline_filter::{
    AnswerEntry, Config, Effect, Filter, Host, QuestionEntry,
    contract::{
        BucketPage, DeleteRequest, Deletion, IndexedReceipt, IndexedTransaction, Level, Problem, Receipt, StoreProfile,
        Transaction,
    },
};

use self::memory::Memory;
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
    pub fn new(store: Arc<stores::MemoryStore>) -> anyhow::Result<Self> {
        let host = NativeHost { memory: Memory::new(store) };
        let config = Config::parse("{}").map_err(|problem| anyhow!(problem.message))?;
        let (filter, turns) = (Filter::new(host, config), Turns::new("native", SESSIONS));
        Ok(Self { filter, turns, answer: answer_of(ANSWER), turn: String::new() })
    }
}

impl Contender for Native {
    async fn prepare(&mut self) -> anyhow::Result<()> {
        self.turns.advance();
        Ok(())
    }

    async fn question(&mut self) -> anyhow::Result<()> {
        let entry = QuestionEntry { text: QUESTION_TEXT, metadata: &self.turns.metadata, ..QuestionEntry::default() };
        let reply = self.filter.question(&entry);
        self.turn = reply.turn;
        match reply.effect {
            Effect::Enriched | Effect::Resumed => Ok(()),
            effect => bail!("unexpected effect of a question: {effect:?}"),
        }
    }

    async fn answer(&mut self) -> anyhow::Result<()> {
        let entry = AnswerEntry { text: &self.answer, metadata: "{}", turn: &self.turn, ..AnswerEntry::default() };
        let effect = self.filter.answer(&entry).effect;
        ensure!(effect == Effect::Stored, "unexpected effect of an answer: {effect:?}");
        Ok(())
    }
}

/// Lends the memory store without a component in between.
struct NativeHost {
    memory: Memory,
}

impl Host for NativeHost {
    fn transact(&self, transaction: &Transaction<'_>) -> Result<Receipt, Problem> {
        self.memory.transact(&(*transaction).into()).map(|reply| reply.receipt)
    }

    fn transact_each(&self, transactions: &[IndexedTransaction<'_>]) -> Vec<Result<IndexedReceipt, Problem>> {
        transactions.iter().map(|transaction| self.memory.transact(transaction)).collect()
    }

    fn delete_each(&self, requests: &[DeleteRequest<'_>]) -> Vec<Result<Deletion, Problem>> {
        requests.iter().map(|request| self.memory.delete(*request)).collect()
    }

    fn list_buckets(&self, kind: &str, cursor: &str, limit: u32) -> Result<BucketPage, Problem> {
        self.memory.list(kind, cursor, limit)
    }

    fn store_profile(&self) -> StoreProfile {
        StoreProfile::of(&self.memory.about())
    }

    fn now_micros(&self) -> u64 {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        u64::try_from(now.as_micros()).unwrap_or_default()
    }

    fn log(&self, _: Level, _: &str, message: &str) {
        // As far as the component's messages get when they are below the level.
        std::hint::black_box(message);
    }
}
