//! A store that answers anything, whether it was asked for or not.

use async_trait::async_trait;
use keepline::store::{
    BucketId, BucketKind, BucketPage, CounterValue, Deadline, Deletion, Description, Entry, EntryCount, EntryPage,
    Failure, FailureCode, FoundEntries, LeaseState, LogDescription, LogExtent, LogRecords, LogSpans, MapDescription,
    Operation, Outcome, Receipt, Size, SpanRecords, Status, Store, StoreCapabilities, TimeToLive, Transaction, Writer,
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
        match self.0.u8(..10) {
            0 => Outcome::Entries(FoundEntries { entries: self.entries(), unreadable: self.many(Self::text) }),
            1 => Outcome::Oversize(Size { bytes: self.number(), entries: self.number() }),
            2 => Outcome::Page(EntryPage {
                entries: self.entries(),
                unreadable: self.many(Self::text),
                cursor: self.text(),
            }),
            3 => Outcome::Changed(EntryCount { count: self.number() }),
            #[allow(clippy::cast_possible_wrap, reason = "any number will do")]
            4 => Outcome::Counter(CounterValue { value: self.number() as i64 }),
            5 => Outcome::Extent(self.extent()),
            6 => Outcome::Records(LogRecords {
                extent: self.extent(),
                first: self.number(),
                records: self.many(Self::text),
            }),
            7 => Outcome::Spans(LogSpans {
                extent: self.extent(),
                spans: self.many(|tongue| SpanRecords { first: tongue.number(), records: tongue.many(Self::text) }),
            }),
            8 => Outcome::Lease(LeaseState { held: self.0.bool(), holder: self.text(), expires_in: self.number() }),
            _ => Outcome::Described(self.description()),
        }
    }

    fn description(&mut self) -> Description {
        let sliding = self.0.bool();
        Description {
            time_to_live: self.0.bool().then(|| TimeToLive { milliseconds: self.number(), sliding }),
            expires_in: self.0.bool().then(|| self.number()),
            values: self.number(),
            maps: self.many(|tongue| MapDescription { map_name: tongue.text(), entries: tongue.number() }),
            logs: self.many(|tongue| LogDescription { log: tongue.text(), extent: tongue.extent() }),
            indexes: Vec::new(),
        }
    }

    /// What was asked for, in form at least.
    fn fitting(&mut self, operation: &Operation) -> Outcome {
        loop {
            let outcome = self.outcome();
            let fits = match operation {
                Operation::Get(_) | Operation::GetAll(_) => {
                    matches!(outcome, Outcome::Entries(_) | Outcome::Oversize(_))
                }
                Operation::Page(_) => matches!(outcome, Outcome::Page(_)),
                Operation::Put(_) | Operation::Remove(_) | Operation::ResetMap(_) => {
                    matches!(outcome, Outcome::Changed(_))
                }
                Operation::Increment(_) => matches!(outcome, Outcome::Counter(_)),
                Operation::Read(_) => matches!(outcome, Outcome::Records(_)),
                Operation::Overflow(_) => matches!(outcome, Outcome::Records(_) | Outcome::Extent(_)),
                Operation::ReadAt(_) => matches!(outcome, Outcome::Spans(_)),
                Operation::Lease(_) => matches!(outcome, Outcome::Lease(_)),
                Operation::Describe(_) => matches!(outcome, Outcome::Described(_)),
                _ => matches!(outcome, Outcome::Extent(_)),
            };
            if fits {
                return outcome;
            }
        }
    }
}

#[async_trait]
impl Store for Liar {
    async fn transact(&self, _: &Writer, transaction: &Transaction, _: Deadline) -> Result<Receipt, Failure> {
        self.fail_at_times()?;
        Ok(self.with(|tongue| {
            let outcomes = if tongue.0.u8(..4) > 0 {
                transaction.operations.iter().map(|operation| tongue.fitting(operation)).collect()
            } else {
                tongue.many(Tongue::outcome)
            };
            Receipt {
                status: tongue.status(),
                now: tongue.number(),
                generation: tongue.text(),
                created: tongue.0.bool(),
                unmet: tongue.0.bool().then(|| tongue.0.u32(..9)),
                outcomes,
            }
        }))
    }

    async fn list_buckets(&self, _: BucketKind, _: &str, _: u32, _: Deadline) -> Result<BucketPage, Failure> {
        self.fail_at_times()?;
        Ok(self.with(|tongue| BucketPage { names: tongue.many(Tongue::text), cursor: tongue.text() }))
    }

    async fn delete_bucket(
        &self,
        _: &Writer,
        _: &BucketId,
        _: Option<&str>,
        _: u32,
        _: Deadline,
    ) -> Result<Deletion, Failure> {
        self.fail_at_times()?;
        Ok(self.with(|tongue| Deletion {
            status: tongue.status(),
            now: tongue.number(),
            values: tongue.number(),
            keys: tongue.many(Tongue::text),
        }))
    }

    /// Of all, so that the filter relies on it.
    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities::ALL
    }
}
