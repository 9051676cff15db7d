//! A store that answers anything, whether it was asked for or not.

use async_trait::async_trait;
use keepline::store::{
    BucketPage, BucketPart, ChangedEntries, CounterValue, Deadline, DeleteRequest, Deletion, Description, Entry,
    Failure, FailureCode, FoundDocuments, FoundEntries, IndexExtent, IndexedReceipt, IndexedTransaction, LeaseState,
    LogExtent, LogRecords, MarkRun, MissingEntries, Operation, Outcome, Receipt, RecordRun, Size, Status, Store,
    StoreInfo, TermHits, TimeToLive, Writer, capability,
};

#[derive(Debug)]
pub struct Liar(parking_lot::Mutex<fastrand::Rng>);

impl Liar {
    pub fn with_seed(seed: u64) -> Self {
        Self(parking_lot::Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    fn with<T>(&self, say: impl FnOnce(&mut Tongue) -> T) -> T {
        say(&mut Tongue(&mut self.0.lock()))
    }

    fn fail_at_times(&self) -> Result<(), Failure> {
        self.with(|tongue| if tongue.0.u8(..8) == 0 { Err(tongue.failure()) } else { Ok(()) })
    }
}

struct Tongue<'a>(&'a mut fastrand::Rng);

impl Tongue<'_> {
    fn number(&mut self) -> u64 {
        match self.0.u8(..4) {
            0 => u64::MAX - self.0.u64(..3),
            1 => self.0.u64(..),
            _ => self.0.u64(..4),
        }
    }

    fn text(&mut self) -> String {
        let known = [
            "",
            "1",
            "\"x\"",
            "{",
            "[1,\n2]",
            "null",
            "a\0b",
            "k",
            "last_answer",
            "__keys__",
            "not json",
            "\u{2028}",
            "{\"op\": \"summary\", \"summarized_count\": 1e400, \"op_counts\": {\"\": -1}, \"keys_touched\": 5}",
            "{\"op\": \"summary\", \"summarized_count\": 3}",
            "{\"op\": \"put\", \"key\": \"k\"}",
        ];
        match self.0.u8(..8) {
            0 => (0..self.0.usize(..300)).map(|_| self.0.char(..)).collect(),
            1 => "[".repeat(self.0.usize(..5000)),
            _ => known[self.0.usize(..known.len())].to_owned(),
        }
    }

    fn many<T>(&mut self, one: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.0.usize(..6)).map(|_| one(self)).collect()
    }

    fn status(&mut self) -> Status {
        use Status::{Absent, Applied, Exists, Expired, GenerationMismatch, Repeated, Unmet};
        let all = [Applied, Applied, Applied, Applied, Repeated, Absent, Expired, Exists, GenerationMismatch, Unmet];
        all[self.0.usize(..all.len())]
    }

    fn failure(&mut self) -> Failure {
        use FailureCode::{CounterOverflow, Full, Invalid, NotACounter, Other, TooManyBuckets, Unavailable, WrongType};
        let all = [CounterOverflow, Full, Invalid, NotACounter, Other, TooManyBuckets, Unavailable, WrongType];
        Failure {
            code: all[self.0.usize(..all.len())],
            subject: self.text(),
            limit: self.number(),
            message: String::new(),
        }
    }

    fn entries(&mut self) -> Vec<Entry> {
        self.many(|tongue| Entry { key: tongue.text(), text: tongue.text() })
    }

    fn extent(&mut self) -> LogExtent {
        LogExtent { first: self.number(), length: self.number() }
    }

    fn outcome(&mut self) -> Outcome {
        match self.0.u8(..6) {
            0 => Outcome::Entries(FoundEntries {
                entries: self.entries(),
                missing: self.0.bool().then(|| MissingEntries {
                    unreadable: self.many(Self::text),
                    cursor: self.text(),
                    oversize: self.0.bool().then(|| Size { bytes: self.number(), entries: self.number() }),
                }),
            }),
            1 => Outcome::Changed(ChangedEntries { added: self.number(), removed: self.number() }),
            #[allow(clippy::cast_possible_wrap, reason = "any number will do")]
            2 => Outcome::Counter(CounterValue { value: self.number() as i64 }),
            3 => Outcome::Extent(self.extent()),
            4 => Outcome::Records(LogRecords {
                extent: self.extent(),
                runs: self.many(|tongue| RecordRun { first: tongue.number(), records: tongue.many(Self::text) }),
            }),
            _ => Outcome::Described(self.description()),
        }
    }

    fn description(&mut self) -> Description {
        let sliding = self.0.bool();
        Description {
            time_to_live: self.0.bool().then(|| TimeToLive { milliseconds: self.number(), sliding }),
            created_at: self.number(),
            expires_in: self.0.bool().then(|| self.number()),
            values: self.number(),
            parts: self.many(|tongue| BucketPart {
                kind: ["map", "log", "index", "tree"][tongue.0.usize(..4)].into(),
                name: tongue.text(),
                position: tongue.number(),
                count: tongue.number(),
                bytes: tongue.number(),
            }),
        }
    }

    fn lease(&mut self) -> LeaseState {
        LeaseState { held: self.0.bool(), holder: self.text(), expires_in: self.number() }
    }

    fn documents(&mut self) -> FoundDocuments {
        FoundDocuments {
            extent: IndexExtent { next: self.number(), documents: self.number(), occurrences: self.number() },
            from_position: self.number(),
            runs: self
                .many(|tongue| MarkRun { offset: tongue.0.u32(..), marks: tongue.many(|tongue| tongue.0.u16(..)) }),
            terms: self.many(|tongue| TermHits { offsets: tongue.many(|tongue| tongue.0.u32(..)) }),
        }
    }

    /// What was asked for, in form at least.
    fn fitting(&mut self, operation: &Operation) -> Outcome {
        loop {
            let outcome = self.outcome();
            let fits = match operation {
                Operation::Get(_) | Operation::GetAll(_) => matches!(outcome, Outcome::Entries(_)),
                Operation::Set(_) => matches!(outcome, Outcome::Changed(_)),
                Operation::Add(_) => matches!(outcome, Outcome::Counter(_)),
                Operation::Read(_) => matches!(outcome, Outcome::Records(_) | Outcome::Extent(_)),
                Operation::ReadAt(_) => matches!(outcome, Outcome::Records(_)),
                Operation::Describe(_) => matches!(outcome, Outcome::Described(_)),
                Operation::Append(_) | Operation::ReplaceOldest(_) | Operation::Rewrite(_) => {
                    matches!(outcome, Outcome::Extent(_))
                }
            };
            if fits {
                return outcome;
            }
        }
    }
}

#[async_trait]
impl Store for Liar {
    async fn transact(
        &self,
        _: &Writer,
        transaction: &IndexedTransaction,
        _: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        self.fail_at_times()?;
        Ok(self.with(|tongue| {
            let is_fitting = tongue.0.u8(..4) > 0;
            let outcomes = if is_fitting {
                transaction.transaction.operations.iter().map(|operation| tongue.fitting(operation)).collect()
            } else {
                tongue.many(Tongue::outcome)
            };
            let has_lease = if is_fitting { transaction.lease.is_some() } else { tongue.0.bool() };
            let found = if is_fitting { transaction.steps.len() } else { tongue.0.usize(..4) };
            IndexedReceipt {
                lease: has_lease.then(|| tongue.lease()),
                found: (0..found).map(|_| tongue.documents()).collect(),
                receipt: Receipt {
                    status: tongue.status(),
                    now: tongue.number(),
                    generation: tongue.0.bool().then(|| tongue.text()),
                    created: tongue.0.bool(),
                    unmet: tongue.0.bool().then(|| tongue.0.u32(..9)),
                    outcomes,
                },
            }
        }))
    }

    async fn list_buckets(&self, _: &str, _: &str, _: u32, _: Deadline) -> Result<BucketPage, Failure> {
        self.fail_at_times()?;
        Ok(self.with(|tongue| BucketPage { names: tongue.many(Tongue::text), cursor: tongue.text() }))
    }

    async fn delete(&self, _: &Writer, _: &DeleteRequest, _: Deadline) -> Result<Deletion, Failure> {
        self.fail_at_times()?;
        Ok(self.with(|tongue| Deletion {
            status: tongue.status(),
            now: tongue.number(),
            values: tongue.number(),
            keys: tongue.many(Tongue::text),
        }))
    }

    /// Of all, so that the filter relies on it.
    fn about(&self) -> StoreInfo {
        StoreInfo::new(&capability::ALL)
    }
}
