//! The task `recall`: cuts new messages into passages, appends them, moves terms into the index, drops what has expired.

use crate::context::Context;
use crate::contract::{
    BucketId, BucketKind, Expectation, Failure, Host, LogEnd, LogExtent, LogRecords, Opening, Operation, Posting,
    PutEntry, Status, Transaction,
};
use crate::options::conversation::Options;
use crate::recall::cursor;
use crate::recall::cursor::{CutStretch, IndexCursor, TranscriptStretch};
use crate::recall::passage::{Passage, PassageBatch, decode_posting, is_older_than, oldest_at};
use crate::recall::remove::{READ_ORPHANS, RESET_PASSAGES, parse_orphans};
use crate::recall::schema::{
    COMPACT_BATCH, INDEX, KEPT_PASSAGES_MAX, PASSAGES, READ_OLDEST_PASSAGE, RECALLED, RUN, TERMS, WHERE_TERMS_ARE,
};
use crate::recall::vectors::{VECTORS, vector_keys};
use crate::store;
use crate::store::Outcomes;
use crate::tasks::checkpoint::Checkpoint;
use crate::tasks::job::{Job, Progress, Step};
use crate::tasks::task;
use crate::tasks::task::{lease_operation, read_leased, write_back};
use crate::transcript::schema::{OWNER, REVISION, SESSION};
use keepline_options::words::Recall;

/// The task, and its lease.
pub(crate) const TASK: &str = "recall";

/// To forget all that was kept, so that the task above makes it anew. Nobody but an operator asks for it.
pub(crate) const RESET: &str = "recall-reset";

/// What is read of passages that may go.
const DROP_BYTES: u64 = 2 << 20;

/// Where the passages of a transcript are kept.
pub(crate) struct PassageHome<'a> {
    pub bucket: BucketId<'a>,
    pub opening: Opening<'a>,
    /// Where the transcript is, and the lease on it.
    pub transcript: BucketId<'a>,
    /// The entry that tells how far it was read, and what stands there before that.
    pub entry: (&'a str, &'a str),
    pub prefix: &'a str,
    /// Nothing was corrected, and nobody else has kept anything of this transcript.
    pub unchanged: &'a [Expectation<'a>],
}

/// How it stands there.
pub(crate) struct PassageState {
    pub read: IndexCursor,
    pub terms: LogExtent,
    pub oldest: LogRecords,
    /// Of the transcript.
    pub newest: LogRecords,
}

/// Keep what was said beside the transcript.
pub(crate) fn index_passages(
    context: &Context<impl Host>,
    options: &Options,
    bucket: BucketId<'_>,
    job: &Job<'_>,
    mut basis: Checkpoint,
) -> Result<Progress, Failure> {
    if !context.host.capabilities().indexes {
        return Ok(Progress::of(Step::Done));
    }
    let operations = [
        Operation::get_some(SESSION, &[OWNER, RECALLED, REVISION], 8192),
        WHERE_TERMS_ARE,
        READ_OLDEST_PASSAGE,
        cursor::READ_NEWEST_RECORDS,
    ];
    let mut outcomes = match read_leased(context, bucket, job, &mut basis, &operations)? {
        Ok(outcomes) => outcomes,
        Err(progress) => return Ok(progress),
    };
    let mut once = outcomes.take_entries_by_key()?;
    (basis.before, basis.revision) = (once.take(RECALLED), once.take(REVISION));
    let owner = once.take(OWNER);
    // It is kept with the user, whenever an entry names them.
    if options.recall == Recall::User && owner.is_some() && bucket.kind == BucketKind::Session {
        return Ok(Progress::of(write_back(context, bucket, job, &basis, &[], &[])?));
    }
    let kept = PassageState {
        read: IndexCursor::parse(basis.before.as_deref().unwrap_or_default()),
        terms: outcomes.take_records()?.extent,
        oldest: outcomes.take_records()?,
        newest: outcomes.take_records()?,
    };
    let unchanged = basis.expect_unchanged(RECALLED);
    let home = PassageHome {
        bucket,
        opening: Opening::life(&basis.incarnation),
        transcript: bucket,
        entry: (SESSION, RECALLED),
        prefix: "",
        unchanged: &unchanged,
    };
    let (first, oldest) = (kept.newest.extent.first, oldest_at(context, options));
    let is_gone = |passage: &Passage<'_>| passage.position < first || is_older_than(passage, oldest);
    let step = advance_index(context, &home, job, &basis, kept, PassageBatch::default(), &is_gone)?;
    Ok(Progress { state: Some(task::initial_state(&basis.incarnation)), ..Progress::of(step) })
}

/// Forget what was kept beside the transcript: the logs first, then what the index has of them.
pub(crate) fn reset_recall(
    context: &Context<impl Host>,
    bucket: BucketId<'_>,
    job: &Job<'_>,
    mut basis: Checkpoint,
) -> Result<Progress, Failure> {
    if !context.host.capabilities().indexes {
        return Ok(Progress::of(Step::Done));
    }
    let is_begun = basis.to > 0;
    let mut outcomes = match read_leased(context, bucket, job, &mut basis, &READ_ORPHANS)? {
        Ok(outcomes) => outcomes,
        Err(progress) => return Ok(progress),
    };
    let positions = parse_orphans(&mut outcomes)?;
    let step = if !is_begun {
        let mut operations = RESET_PASSAGES.to_vec();
        operations.push(Operation::remove(SESSION, &[RECALLED]));
        basis.to = 1;
        write_back(context, bucket, job, &basis, &[], &operations)?
    } else if positions.is_empty() {
        return Ok(Progress::of(write_back(context, bucket, job, &basis, &[], &[])?));
    } else {
        write_back(context, bucket, job, &basis, &[], &[Operation::unpost(INDEX, &positions)])?
    };
    let step = if step == Step::Done { Step::Again } else { step };
    Ok(Progress { state: Some(basis.write()), ..Progress::of(step) })
}

/// One thing that is to be done: drop what is gone, fold, or read on.
pub(crate) fn advance_index(
    context: &Context<impl Host>,
    home: &PassageHome<'_>,
    job: &Job<'_>,
    basis: &Checkpoint,
    kept: PassageState,
    cut: PassageBatch<'_>,
    is_gone: &dyn Fn(&Passage<'_>) -> bool,
) -> Result<Step, Failure> {
    // What is no passage has gone before.
    let is_gone = |text: &String| Passage::parse(text).is_none_or(|passage| is_gone(&passage));
    let surplus = kept.oldest.extent.length.saturating_sub(KEPT_PASSAGES_MAX);
    let step = if surplus > 0 || kept.oldest.records.first().is_some_and(is_gone) {
        drop_oldest(context, home, job, basis, surplus, &is_gone)?
    } else if kept.terms.length >= 2 * COMPACT_BATCH {
        compact_terms(context, home, job, basis)?
    } else {
        return index_next(context, home, job, basis, kept, cut);
    };
    Ok(if step == Step::Done { Step::Again } else { step })
}

/// Read on in the transcript, and keep the passages of what is there.
fn index_next(
    context: &Context<impl Host>,
    home: &PassageHome<'_>,
    job: &Job<'_>,
    basis: &Checkpoint,
    kept: PassageState,
    cut: PassageBatch<'_>,
) -> Result<Step, Failure> {
    let Some(stretch) = TranscriptStretch::next_after(kept.read, kept.newest) else {
        return write_passages(context, home, job, basis, &[], &[]);
    };
    let runs = match stretch.read_operation() {
        None => None,
        Some(read) => match read_existing_bucket(context, home.transcript, Opening::life(&basis.incarnation), &[read])?
        {
            Some(mut outcomes) => Some(outcomes.take_spans()?),
            None => return Ok(Step::Ended),
        },
    };
    let CutStretch { cut, read, is_more } = stretch.cut_records(runs, cut);
    let text = [home.prefix, &read.write()].concat();
    let passages = cut.passages.iter().map(String::as_str).collect::<Vec<_>>();
    let terms: Vec<&str> = cut.terms.iter().map(String::as_str).collect();
    let (map, key) = home.entry;
    let cursor = [PutEntry { key, text: &text }];
    let operations = [
        Operation::append(PASSAGES, &passages, &[]),
        Operation::append(TERMS, &terms, &[]),
        Operation::put(map, &cursor),
    ];
    let step = write_passages(context, home, job, basis, home.unchanged, &operations)?;
    let is_more = is_more || kept.terms.length + terms.len() as u64 >= 2 * COMPACT_BATCH;
    Ok(if step == Step::Done && is_more { Step::Again } else { step })
}

/// The oldest terms that no index has yet become a part of it.
fn compact_terms(
    context: &Context<impl Host>,
    home: &PassageHome<'_>,
    job: &Job<'_>,
    basis: &Checkpoint,
) -> Result<Step, Failure> {
    let read = Operation::read(TERMS, LogEnd::Oldest, COMPACT_BATCH, 1 << 20);
    let Some(mut outcomes) = read_existing_bucket(context, home.bucket, home.opening, &[read])? else {
        return Ok(Step::Ended);
    };
    let run = outcomes.take_records()?;
    let found: Vec<_> = (run.first..)
        .zip(&run.records)
        .filter_map(|(position, text)| Some((position, decode_posting(text)?)))
        .collect();
    let documents: Vec<Posting<'_>> = found
        .iter()
        .map(|(position, found)| Posting { position: *position, mark: found.mark, terms: &found.terms })
        .collect();
    let operations =
        [Operation::post(INDEX, &documents), Operation::replace_oldest(TERMS, run.records.len() as u64, &[])];
    write_passages(context, home, job, basis, &[home.unchanged, &[begins(TERMS, run.extent)]].concat(), &operations)
}

/// The oldest passages that are gone, as many as one call can drop.
fn drop_oldest(
    context: &Context<impl Host>,
    home: &PassageHome<'_>,
    job: &Job<'_>,
    basis: &Checkpoint,
    surplus: u64,
    is_gone: &dyn Fn(&String) -> bool,
) -> Result<Step, Failure> {
    let oldest = Operation::read(PASSAGES, LogEnd::Oldest, RUN, DROP_BYTES);
    let Some(mut outcomes) = read_existing_bucket(context, home.bucket, home.opening, &[oldest, WHERE_TERMS_ARE])?
    else {
        return Ok(Step::Ended);
    };
    let run = outcomes.take_records()?;
    let terms = outcomes.take_records()?.extent;
    let gone = run.records.iter().take_while(|text| is_gone(text)).count() as u64;
    let count = gone.max(surplus.min(run.records.len() as u64));
    let positions: Vec<u64> = (run.first..run.first + count).collect();
    let tail = (run.first + count).saturating_sub(terms.first).min(terms.length);
    let keys = vector_keys(positions.iter().copied());
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let operations = [
        Operation::remove(VECTORS, &keys),
        Operation::replace_oldest(PASSAGES, count, &[]),
        Operation::replace_oldest(TERMS, tail, &[]),
        Operation::unpost(INDEX, &positions),
    ];
    let expectations = [home.unchanged, &[begins(PASSAGES, run.extent), begins(TERMS, terms)]].concat();
    write_passages(context, home, job, basis, &expectations, &operations)
}

pub(crate) fn read_existing_bucket(
    context: &Context<impl Host>,
    bucket: BucketId<'_>,
    opening: Opening<'_>,
    operations: &[Operation<'_>],
) -> Result<Option<Outcomes>, Failure> {
    let look = Transaction { bucket, opening, expectations: &[], operations };
    let receipt = store::transact(&context.host, &look)?;
    Ok(receipt.is_applied().then(|| Outcomes::of(receipt)))
}

/// Write where passages are kept, and give the transcript's lease back, in one wait.
pub(crate) fn write_passages(
    context: &Context<impl Host>,
    home: &PassageHome<'_>,
    job: &Job<'_>,
    basis: &Checkpoint,
    expectations: &[Expectation<'_>],
    operations: &[Operation<'_>],
) -> Result<Step, Failure> {
    if home.bucket == home.transcript || operations.is_empty() {
        return write_back(context, home.transcript, job, basis, expectations, operations);
    }
    let written = Transaction { bucket: home.bucket, opening: home.opening, expectations, operations };
    let released: Vec<Operation<'_>> = lease_operation(context, job, 0).into_iter().collect();
    let opening = Opening::life(&basis.incarnation);
    let release = Transaction { bucket: home.transcript, opening, expectations: &[], operations: &released };
    let receipts = store::transact_each(&context.host, &[written, release]);
    let receipt = receipts.into_iter().next().unwrap_or_else(|| Err(Failure::out_of_turn()))?;
    Ok(match receipt.status {
        Status::Applied | Status::Repeated => Step::Done,
        Status::Unmet => Step::Taken,
        _ => Step::Ended,
    })
}

fn begins(log: &'static str, extent: LogExtent) -> Expectation<'static> {
    Expectation::log(log, Some(extent.first), None)
}
