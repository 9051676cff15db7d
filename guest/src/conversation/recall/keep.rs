//! The deferred work of recall: what was said is cut into passages, and their terms are folded into the index.
//!
//! Promises that each message is kept once, whoever works on it: what was read, and that no message was changed since, is
//! expected by the transaction that appends its passages. What the transcript holds no more goes, text and terms. One
//! step does one of these things, and the next step the next.

use super::super::options::Options;
use super::super::upkeep::{self, Basis, Job, Progress, Step};
use super::super::{OWNER, REVISION, SESSION};
use super::options::Recall;
use super::passage::{Cut, Passage, read_terms};
use super::reading::{self, Passages, Read, Stretch};
use super::remove::{ANEW, ORPHANS, orphans};
use super::vectors::{VECTORS, keys};
use super::{FOLD, INDEX, KEPT, OLDEST, PASSAGES, RECALLED, RUN, TERMS, WHERE_TERMS_ARE};
use crate::filter::Filter;
use crate::history::milliseconds_of;
use crate::reply::{self, Outcomes};
use crate::store::{
    Bucket, BucketKind, Expectation, Failure, Host, LogEnd, LogExtent, LogRecords, Opening, Operation, Posting, Status,
    Transaction,
};

/// The task, and its lease.
pub(in super::super) const TASK: &str = "recall";
/// To forget all that was kept, so that the task above makes it anew. Nobody but an operator asks for it.
pub(in super::super) const RESET: &str = "recall-reset";
/// What is read of passages that may go.
const DROP_BYTES: u64 = 2 << 20;

/// Where the passages of a transcript are kept.
pub(super) struct Home<'a> {
    pub bucket: Bucket<'a>,
    pub opening: Opening<'a>,
    /// Where the transcript is, and the lease on it.
    pub transcript: Bucket<'a>,
    /// The entry that tells how far it was read, and what stands there before that.
    pub entry: (&'a str, &'a str),
    pub prefix: &'a str,
    /// Nothing was corrected, and nobody else has kept anything of this transcript.
    pub unchanged: &'a [Expectation<'a>],
}

/// How it stands there.
pub(super) struct Kept {
    pub read: Read,
    pub terms: LogExtent,
    pub oldest: LogRecords,
    /// Of the transcript.
    pub newest: LogRecords,
}

impl<H: Host> Filter<H> {
    /// Keep what was said beside the transcript.
    pub(in super::super) fn recollect(
        &self,
        options: &Options,
        bucket: Bucket<'_>,
        job: &Job<'_>,
        mut basis: Basis,
    ) -> Result<Progress, Failure> {
        if !self.host.capabilities().indexes {
            return Ok(Progress::of(Step::Done));
        }
        let operations = [
            Operation::GetSome { map: SESSION, keys: &[OWNER, RECALLED, REVISION], max_bytes: 8192 },
            WHERE_TERMS_ARE,
            OLDEST,
            reading::NEWEST,
        ];
        let mut outcomes = match self.read_leased(bucket, job, &mut basis, &operations)? {
            Ok(outcomes) => outcomes,
            Err(progress) => return Ok(progress),
        };
        let mut once = outcomes.once()?;
        (basis.before, basis.revision) = (once.take(RECALLED), once.take(REVISION));
        let owner = once.take(OWNER);
        // It is kept with the user, whenever an entry names them.
        if options.recall.scope == Recall::User && owner.is_some() && bucket.kind == BucketKind::Session {
            return Ok(Progress::of(self.write_back(bucket, job, &basis, &[], &[])?));
        }
        let kept = Kept {
            read: Read::parse(basis.before.as_deref().unwrap_or_default()),
            terms: outcomes.records()?.extent,
            oldest: outcomes.records()?,
            newest: outcomes.records()?,
        };
        let unchanged = basis.unchanged(RECALLED);
        let home = Home {
            bucket,
            opening: Opening::life(&basis.incarnation),
            transcript: bucket,
            entry: (SESSION, RECALLED),
            prefix: "",
            unchanged: &unchanged,
        };
        let (first, oldest) = (kept.newest.extent.first, self.oldest_at(options));
        let is_gone = |passage: &Passage<'_>| passage.position < first || is_before(passage, oldest);
        let step = self.keep(&home, job, &basis, kept, Cut::default(), &is_gone)?;
        Ok(Progress { state: Some(upkeep::state(&basis.incarnation)), ..Progress::of(step) })
    }

    /// Forget what was kept beside the transcript: the logs first, then what the index has of them.
    pub(in super::super) fn reset_recall(
        &self,
        bucket: Bucket<'_>,
        job: &Job<'_>,
        mut basis: Basis,
    ) -> Result<Progress, Failure> {
        if !self.host.capabilities().indexes {
            return Ok(Progress::of(Step::Done));
        }
        let is_begun = basis.to > 0;
        let mut outcomes = match self.read_leased(bucket, job, &mut basis, &ORPHANS)? {
            Ok(outcomes) => outcomes,
            Err(progress) => return Ok(progress),
        };
        let positions = orphans(&mut outcomes)?;
        let step = if !is_begun {
            let mut operations = ANEW.to_vec();
            operations.push(Operation::Remove { map: SESSION, keys: &[RECALLED] });
            basis.to = 1;
            self.write_back(bucket, job, &basis, &[], &operations)?
        } else if positions.is_empty() {
            return Ok(Progress::of(self.write_back(bucket, job, &basis, &[], &[])?));
        } else {
            self.write_back(bucket, job, &basis, &[], &[Operation::Unpost { index: INDEX, positions: &positions }])?
        };
        let step = if step == Step::Done { Step::Again } else { step };
        Ok(Progress { state: Some(basis.write()), ..Progress::of(step) })
    }

    /// One thing that is to be done: drop what is gone, fold, or read on.
    pub(super) fn keep(
        &self,
        home: &Home<'_>,
        job: &Job<'_>,
        basis: &Basis,
        kept: Kept,
        cut: Cut<'_>,
        is_gone: &dyn Fn(&Passage<'_>) -> bool,
    ) -> Result<Step, Failure> {
        // What is no passage has gone before.
        let is_gone = |text: &String| Passage::parse(text).is_none_or(|passage| is_gone(&passage));
        let surplus = kept.oldest.extent.length.saturating_sub(KEPT);
        let step = if surplus > 0 || kept.oldest.records.first().is_some_and(is_gone) {
            self.drop_oldest(home, job, basis, surplus, &is_gone)?
        } else if kept.terms.length >= 2 * FOLD {
            self.fold(home, job, basis)?
        } else {
            return self.append(home, job, basis, kept, cut);
        };
        Ok(if step == Step::Done { Step::Again } else { step })
    }

    /// Read on in the transcript, and keep the passages of what is there.
    fn append(&self, home: &Home<'_>, job: &Job<'_>, basis: &Basis, kept: Kept, cut: Cut<'_>) -> Result<Step, Failure> {
        let Some(stretch) = Stretch::after(kept.read, kept.newest) else {
            return self.write_home(home, job, basis, &[], &[]);
        };
        let runs = match stretch.operation() {
            None => None,
            Some(read) => match self.read_on(home.transcript, Opening::life(&basis.incarnation), &[read])? {
                Some(mut outcomes) => Some(outcomes.spans()?),
                None => return Ok(Step::Ended),
            },
        };
        let Passages { cut, read, is_more } = stretch.cut(runs, cut);
        let text = [home.prefix, &read.write()].concat();
        let passages = cut.passages.iter().map(String::as_str).collect::<Vec<_>>();
        let terms: Vec<&str> = cut.terms.iter().map(String::as_str).collect();
        let (map, key) = home.entry;
        let operations = [
            Operation::Append { log: PASSAGES, records: &passages, marks: &[] },
            Operation::Append { log: TERMS, records: &terms, marks: &[] },
            Operation::Put { map, key, text: &text },
        ];
        let step = self.write_home(home, job, basis, home.unchanged, &operations)?;
        let is_more = is_more || kept.terms.length + terms.len() as u64 >= 2 * FOLD;
        Ok(if step == Step::Done && is_more { Step::Again } else { step })
    }

    /// The oldest terms that no index has yet become a part of it.
    fn fold(&self, home: &Home<'_>, job: &Job<'_>, basis: &Basis) -> Result<Step, Failure> {
        let read = Operation::Read { log: TERMS, end: LogEnd::Oldest, max_records: FOLD, max_bytes: 1 << 20 };
        let Some(mut outcomes) = self.read_on(home.bucket, home.opening, &[read])? else { return Ok(Step::Ended) };
        let run = outcomes.records()?;
        let found: Vec<_> = (run.first..)
            .zip(&run.records)
            .filter_map(|(position, text)| Some((position, read_terms(text)?)))
            .collect();
        let documents: Vec<Posting<'_>> = found
            .iter()
            .map(|(position, found)| Posting { position: *position, mark: found.mark, terms: &found.terms })
            .collect();
        let operations = [
            Operation::Post { index: INDEX, documents: &documents },
            Operation::ReplaceOldest { log: TERMS, count: run.records.len() as u64, records: &[] },
        ];
        self.write_home(home, job, basis, &[home.unchanged, &[begins(TERMS, run.extent)]].concat(), &operations)
    }

    /// The oldest passages that are gone, as many as one call can drop.
    fn drop_oldest(
        &self,
        home: &Home<'_>,
        job: &Job<'_>,
        basis: &Basis,
        surplus: u64,
        is_gone: &dyn Fn(&String) -> bool,
    ) -> Result<Step, Failure> {
        let oldest = Operation::Read { log: PASSAGES, end: LogEnd::Oldest, max_records: RUN, max_bytes: DROP_BYTES };
        let Some(mut outcomes) = self.read_on(home.bucket, home.opening, &[oldest, WHERE_TERMS_ARE])? else {
            return Ok(Step::Ended);
        };
        let run = outcomes.records()?;
        let terms = outcomes.records()?.extent;
        let gone = run.records.iter().take_while(|text| is_gone(text)).count() as u64;
        let count = gone.max(surplus.min(run.records.len() as u64));
        let positions: Vec<u64> = (run.first..run.first + count).collect();
        let tail = (run.first + count).saturating_sub(terms.first).min(terms.length);
        let keys = keys(positions.iter().copied());
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let operations = [
            Operation::Remove { map: VECTORS, keys: &keys },
            Operation::ReplaceOldest { log: PASSAGES, count, records: &[] },
            Operation::ReplaceOldest { log: TERMS, count: tail, records: &[] },
            Operation::Unpost { index: INDEX, positions: &positions },
        ];
        let expectations = [home.unchanged, &[begins(PASSAGES, run.extent), begins(TERMS, terms)]].concat();
        self.write_home(home, job, basis, &expectations, &operations)
    }

    pub(super) fn read_on(
        &self,
        bucket: Bucket<'_>,
        opening: Opening<'_>,
        operations: &[Operation<'_>],
    ) -> Result<Option<Outcomes>, Failure> {
        let look = Transaction { bucket, opening, expectations: &[], operations };
        let receipt = reply::transact(&self.host, &look)?;
        Ok(receipt.is_applied().then(|| Outcomes::of(receipt)))
    }

    /// Write where passages are kept, and give the transcript's lease back, in one wait.
    pub(super) fn write_home(
        &self,
        home: &Home<'_>,
        job: &Job<'_>,
        basis: &Basis,
        expectations: &[Expectation<'_>],
        operations: &[Operation<'_>],
    ) -> Result<Step, Failure> {
        if home.bucket == home.transcript || operations.is_empty() {
            return self.write_back(home.transcript, job, basis, expectations, operations);
        }
        let written = Transaction { bucket: home.bucket, opening: home.opening, expectations, operations };
        let released: Vec<Operation<'_>> = self.lease(job, 0).into_iter().collect();
        let opening = Opening::life(&basis.incarnation);
        let release = Transaction { bucket: home.transcript, opening, expectations: &[], operations: &released };
        let receipts = reply::transact_each(&self.host, &[written, release]);
        let receipt = receipts.into_iter().next().unwrap_or_else(|| Err(Failure::out_of_turn()))?;
        Ok(match receipt.status {
            Status::Applied | Status::Repeated => Step::Done,
            Status::Unmet => Step::Taken,
            _ => Step::Ended,
        })
    }

    /// What was said before that is not kept: milliseconds since 1970.
    pub(in super::super) fn oldest_at(&self, options: &Options) -> u64 {
        let kept = crate::config::milliseconds(options.recall.ttl_hours).unwrap_or(u64::MAX);
        (self.host.now_micros() / 1000).saturating_sub(kept)
    }
}

/// Whether something was said before that.
pub(super) fn is_before(passage: &Passage<'_>, oldest: u64) -> bool {
    milliseconds_of(&passage.at).is_some_and(|at| at < oldest)
}

fn begins(log: &'static str, extent: LogExtent) -> Expectation<'static> {
    Expectation::Log { log, first: Some(extent.first), next: None }
}
