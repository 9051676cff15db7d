//! The task `recall`: cuts new messages into passages, appends them, moves terms into the index, drops what has expired.

use std::ops::Range;

use crate::contract::{
    BucketId, Document, Expectation, Host, IndexStep, IndexedTransaction, LogEnd, LogExtent, LogRun, Operation,
    Precondition, Problem, PutEntry, Status, Transaction, kind,
};
use crate::recall::cursor;
use crate::recall::cursor::{CutStretch, IndexCursor, TranscriptStretch};
use crate::recall::passage::{Passage, PassageBatch, is_older_than, oldest_at};
use crate::recall::remove::{RESET_PASSAGES, WHERE_PASSAGES_ARE, find_orphans};
use crate::recall::schema::{
    COMPACT_BATCH, INDEX, KEPT_PASSAGES_MAX, PASSAGES, READ_OLDEST_PASSAGE, RECALLED, RUN, TERMS, WHERE_TERMS_ARE,
};
use crate::recall::vectors::{VECTORS, vector_keys};
use crate::store;
use crate::store::Outcomes;
use crate::tasks::job::{Progress, Step};
use crate::tasks::task::{StepEnd, StepResult, TaskStep};
use crate::transcript::schema::{IMPORT, OWNER, REVISION, SESSION, parse_import};
use keepline_options::words::Recall;
use keepline_recall::Posting;

/// The task, and its lease.
pub(crate) const TASK: &str = "recall";

/// To forget all that was kept, so that the task above makes it anew. Nobody but an operator asks for it.
pub(crate) const RESET: &str = "recall-reset";

/// What is read of passages that may go.
const DROP_BYTES: u64 = 2 << 20;

/// Where the passages of a transcript are kept.
pub(crate) struct PassageHome<'a> {
    pub bucket: BucketId<'a>,
    pub precondition: Precondition<'a>,
    /// The entry that tells how far it was read, and what stands there before that.
    pub entry: (&'a str, &'a str),
    pub prefix: &'a str,
    /// Nothing was corrected, and no other task has indexed any of this transcript.
    pub unchanged: &'a [Expectation<'a>],
}

/// How it stands there.
pub(crate) struct PassageState {
    pub read: IndexCursor,
    pub terms: LogExtent,
    pub oldest: LogRun,
    /// Of the transcript.
    pub newest: LogRun,
    /// What no thread leads to.
    pub hidden: Vec<Range<u64>>,
}

/// Keep what was said beside the transcript.
pub(crate) fn index_passages(mut step: TaskStep<'_, impl Host>) -> StepResult {
    let (bucket, options) = (step.bucket, step.options);
    if !step.context.host.store_profile().indexes {
        return Ok(Progress::of(Step::Done));
    }
    let operations = [
        Operation::get_some(SESSION, &[OWNER, RECALLED, REVISION, IMPORT], 8192),
        WHERE_TERMS_ARE,
        READ_OLDEST_PASSAGE,
        cursor::READ_NEWEST_RECORDS,
    ];
    let mut outcomes = step.read(&operations)?;
    let basis = &mut step.basis;
    let mut once = outcomes.take_entries_by_key()?;
    (basis.before, basis.revision) = (once.take(RECALLED), once.take(REVISION));
    let owner = once.take(OWNER);
    // It is kept with the user, whenever an entry names them.
    if options.recall == Recall::User && owner.is_some() && bucket.kind == kind::SESSION {
        return step.finish();
    }
    let kept = PassageState {
        read: IndexCursor::parse(basis.before.as_deref().unwrap_or_default()),
        terms: outcomes.take_records()?.extent,
        oldest: outcomes.take_records()?,
        newest: outcomes.take_records()?,
        hidden: once.take(IMPORT).as_deref().map(parse_import).unwrap_or_default(),
    };
    let unchanged = step.basis.expect_unchanged(RECALLED);
    let home = PassageHome {
        bucket,
        precondition: step.basis.precondition(),
        entry: (SESSION, RECALLED),
        prefix: "",
        unchanged: &unchanged,
    };
    let (first, oldest) = (kept.newest.extent.first, oldest_at(step.context, options));
    let is_gone = |passage: &Passage<'_>| passage.position < first || is_older_than(passage, oldest);
    let done = advance_index(&step, &home, kept, PassageBatch::default(), &is_gone)?;
    Ok(step.begin_anew(done))
}

/// Forget what was kept beside the transcript: the logs first, then what the index has of them.
pub(crate) fn reset_recall(mut step: TaskStep<'_, impl Host>) -> StepResult {
    if !step.context.host.store_profile().indexes {
        return Ok(Progress::of(Step::Done));
    }
    let first = step.read(&[WHERE_PASSAGES_ARE])?.take_records()?.extent.first;
    let done = if step.basis.to == 0 {
        let mut operations = RESET_PASSAGES.to_vec();
        operations.push(Operation::remove(SESSION, &[RECALLED]));
        step.basis.to = 1;
        step.write(&[], &operations)?
    } else {
        let positions = find_orphans(&step.context.host, step.bucket, step.basis.precondition(), first, &[])?;
        if positions.is_empty() {
            return step.finish();
        }
        step.write_indexed(&[], &[], &[IndexStep::remove_documents(INDEX, &positions)])?
    };
    Ok(Progress { state: Some(step.basis.write()), ..Progress::of(again_if_done(done)) })
}

/// There is more to be done.
fn again_if_done(step: Step) -> Step {
    if step == Step::Done { Step::Again } else { step }
}

/// One thing that is to be done: drop what is gone, fold, or read on.
pub(crate) fn advance_index(
    step: &TaskStep<'_, impl Host>,
    home: &PassageHome<'_>,
    kept: PassageState,
    cut: PassageBatch<'_>,
    is_gone: &dyn Fn(&Passage<'_>) -> bool,
) -> StepResult<Step> {
    // What is no passage has gone before.
    let is_gone = |text: &String| Passage::parse(text).is_none_or(|passage| is_gone(&passage));
    let surplus = kept.oldest.extent.length.saturating_sub(KEPT_PASSAGES_MAX);
    if surplus > 0 || kept.oldest.records.first().is_some_and(is_gone) {
        Ok(again_if_done(drop_oldest(step, home, surplus, &is_gone)?))
    } else if kept.terms.length >= 2 * COMPACT_BATCH {
        Ok(again_if_done(compact_terms(step, home)?))
    } else {
        index_next(step, home, kept, cut)
    }
}

/// Read on in the transcript, and keep the passages of what is there.
fn index_next(
    step: &TaskStep<'_, impl Host>,
    home: &PassageHome<'_>,
    kept: PassageState,
    cut: PassageBatch<'_>,
) -> StepResult<Step> {
    let Some(stretch) = TranscriptStretch::next_after(kept.read, kept.newest, kept.hidden) else {
        return write_passages(step, home, &[], &[], &[]);
    };
    let runs = match stretch.read_operation() {
        None => None,
        Some(read) => Some(step.read_more(&[read])?.take_spans()?),
    };
    let CutStretch { cut, read, is_more } = stretch.cut_records(runs, cut, step.options.limits);
    let text = [home.prefix, &read.write()].concat();
    let passages = cut.passages.iter().map(String::as_str).collect::<Vec<_>>();
    let terms: Vec<&str> = cut.terms.iter().map(String::as_str).collect();
    let (map, key) = home.entry;
    let cursor = [PutEntry { key, text: &text }];
    let next = kept.oldest.extent.next();
    let keys = vector_keys(cut.vectors.iter().map(|(index, _)| next + *index as u64));
    let vectors: Vec<_> =
        keys.iter().zip(&cut.vectors).map(|(key, (_, vector))| PutEntry { key, text: vector }).collect();
    let operations = [
        Operation::append(PASSAGES, &passages, &[]),
        Operation::append(TERMS, &terms, &[]),
        Operation::put(map, &cursor),
        Operation::put(VECTORS, &vectors),
    ];
    // Others may have kept passages of the user's other sessions meanwhile.
    let stands = [Expectation::log(PASSAGES, None, Some(next))];
    let stands = if vectors.is_empty() { &[] } else { stands.as_slice() };
    let (expectations, count) = ([home.unchanged, stands].concat(), operations.len() - usize::from(vectors.is_empty()));
    let done = write_passages(step, home, &expectations, operations.get(..count).unwrap_or_default(), &[])?;
    let is_more = is_more || kept.terms.length + terms.len() as u64 >= 2 * COMPACT_BATCH;
    Ok(if is_more { again_if_done(done) } else { done })
}

/// The oldest terms that no index has yet become a part of it.
fn compact_terms(step: &TaskStep<'_, impl Host>, home: &PassageHome<'_>) -> StepResult<Step> {
    let run = home.read(step, &[Operation::read(TERMS, LogEnd::Oldest, COMPACT_BATCH, 1 << 20)])?.take_records()?;
    let (mut found, mut count, mut terms) = (Vec::new(), 0, 0);
    for (position, text) in (run.first..).zip(&run.records) {
        if let Some(posting) = Posting::from_text(text) {
            terms += posting.terms.len() as u64;
            if terms > step.options.limits.call_terms {
                break;
            }
            found.push((position, posting));
        }
        count += 1;
    }
    let documents: Vec<Document<'_>> = found
        .iter()
        .map(|(position, found)| Document { position: *position, mark: found.mark, terms: &found.terms })
        .collect();
    let operations = [Operation::replace_oldest(TERMS, count, &[])];
    let steps = [IndexStep::add_documents(INDEX, &documents)];
    write_passages(step, home, &[home.unchanged, &[begins(TERMS, run.extent)]].concat(), &operations, &steps)
}

/// The oldest passages that are gone, as many as one call can drop.
fn drop_oldest(
    step: &TaskStep<'_, impl Host>,
    home: &PassageHome<'_>,
    surplus: u64,
    is_gone: &dyn Fn(&String) -> bool,
) -> StepResult<Step> {
    // Each is a key of a vector, and a position in the index.
    let most = RUN.min(step.options.limits.call_pieces / 3);
    let oldest = Operation::read(PASSAGES, LogEnd::Oldest, most, DROP_BYTES);
    let mut outcomes = home.read(step, &[oldest, WHERE_TERMS_ARE])?;
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
    ];
    let steps = [IndexStep::remove_documents(INDEX, &positions)];
    let expectations = [home.unchanged, &[begins(PASSAGES, run.extent), begins(TERMS, terms)]].concat();
    write_passages(step, home, &expectations, &operations, &steps)
}

impl PassageHome<'_> {
    fn read(&self, step: &TaskStep<'_, impl Host>, operations: &[Operation<'_>]) -> StepResult<Outcomes> {
        let found = store::read_bucket(&step.context.host, self.bucket, self.precondition, operations)?;
        found.ok_or(StepEnd::Step(Step::Ended))
    }
}

/// Write where passages are kept, and give the transcript's lease back, in one wait.
fn write_passages(
    step: &TaskStep<'_, impl Host>,
    home: &PassageHome<'_>,
    expectations: &[Expectation<'_>],
    operations: &[Operation<'_>],
    steps: &[IndexStep<'_>],
) -> StepResult<Step> {
    if home.bucket == step.bucket || operations.is_empty() {
        return Ok(step.write_indexed(expectations, operations, steps)?);
    }
    let transaction = Transaction { bucket: home.bucket, precondition: home.precondition, expectations, operations };
    let written = IndexedTransaction { lease: None, transaction, steps };
    let (bucket, precondition) = (step.bucket, step.basis.precondition());
    let transaction = Transaction { bucket, precondition, expectations: &[], operations: &[] };
    let release = IndexedTransaction { lease: step.lease(0), transaction, steps: &[] };
    let receipts = store::transact_each(&step.context.host, &[written, release]);
    let reply = receipts.into_iter().next().unwrap_or_else(|| Err(Problem::out_of_turn()))?;
    Ok(match reply.receipt.status {
        Status::Applied | Status::Repeated => Step::Done,
        Status::Unmet => Step::Taken,
        _ => Step::Ended,
    })
}

fn begins(log: &'static str, extent: LogExtent) -> Expectation<'static> {
    Expectation::log(log, Some(extent.first), None)
}
