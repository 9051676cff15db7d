//! The task `vectors`: has passages embedded, the oldest first, and stores the vectors.
//!
//! Promises that removed passages get no vector: each write expects what the passages were read with. When the model changes, all
//! passages are embedded again. `embedded` (in map `session`; with a user, in map `user`) says how far it got and with which model:
//! `{to} {number of the model} {its dimensions} {its name}`.

use keepline_json::push_number;
use keepline_recall::Embedding;

use crate::context::Context;
use crate::contract::{BucketId, BucketKind, Expectation, Failure, Host, LogEnd, Opening, Operation, PutEntry, Span};
use crate::options::conversation::Options;
use crate::recall::copies::expect_entry;
use crate::recall::passage::Passage;
use crate::recall::schema::PASSAGES;
use crate::recall::vectors::VECTORS;
use crate::tasks::checkpoint::Checkpoint;
use crate::tasks::copy_to_user::copy_to_user;
use crate::tasks::index_passages;
use crate::tasks::index_passages::{index_passages, read_existing_bucket};
use crate::tasks::job::{Job, Need, NeedResult, Progress, Step, Vector, VectorsNeed};
use crate::tasks::task::{read_leased, release_lease, write_back};
use crate::text::json_values::parse_count;
use crate::text::truncate::head_within;
use crate::transcript::schema::{REVISION, SESSION};
use crate::users::registry;
use crate::users::registry::USER;

/// How far it got, and by which model.
const EMBEDDED: &str = "embedded";

/// The task, and its lease.
pub(crate) const TASK: &str = "vectors";

/// Passages of one step.
const BATCH: u64 = 64;

const BATCH_BYTES: u64 = 1 << 20;

/// Of a model's name.
const NAME_BYTES: usize = 256;

/// Where they are told of: beside the transcript, or with the user.
fn once(bucket: BucketId<'_>) -> &'static str {
    if bucket.kind == BucketKind::User { USER } else { SESSION }
}

/// A step: passages that have no vector yet get one. Those of a `user` lie in their bucket.
pub(crate) fn embed_passages(
    context: &Context<impl Host>,
    options: &Options,
    transcript: BucketId<'_>,
    user: Option<&str>,
    job: &Job<'_>,
    mut basis: Checkpoint,
) -> Result<Progress, Failure> {
    let bucket = user.map_or(transcript, registry::user_bucket);
    match job.result {
        Some(NeedResult::Vectors(found)) => return keep_vectors(context, bucket, job, &basis, &found.vectors),
        // It will be due again, and need not wait for the lease to run out.
        Some(NeedResult::Failed(_)) => return release_lease(context, bucket, job, &basis),
        // Nobody has any: another time, perhaps.
        Some(_) => return Ok(Progress::of(write_back(context, bucket, job, &basis, &[], &[])?)),
        // What was said meanwhile is cut before: whoever was to do that may come later.
        None if basis.to == 0 => {
            let begun = Checkpoint {
                incarnation: if user.is_some() { String::new() } else { basis.incarnation.clone() },
                to: 1,
                ..Checkpoint::default()
            };
            let cut = Job { name: index_passages::TASK, ..*job };
            let progress = match user {
                None => index_passages(context, options, transcript, &cut, basis)?,
                Some(user) => copy_to_user(context, options, transcript, user, &cut, basis)?,
            };
            return Ok(match progress.step {
                Step::Done | Step::Taken => Progress { state: Some(begun.write()), ..Progress::of(Step::Again) },
                _ => progress,
            });
        }
        None => {}
    }
    let (log, end) = (PASSAGES, LogEnd::Newest);
    let operations =
        [Operation::get_some(once(bucket), &[EMBEDDED, REVISION], 8192), Operation::read(log, end, BATCH, BATCH_BYTES)];
    let mut outcomes = match read_leased(context, bucket, job, &mut basis, &operations)? {
        Ok(outcomes) => outcomes,
        Err(progress) => return Ok(progress),
    };
    let mut once = outcomes.take_entries_by_key()?;
    (basis.before, basis.revision) = (once.take(EMBEDDED), once.take(REVISION));
    let mut run = outcomes.take_records()?;
    let extent = run.extent;
    let (to, by) = embedded(&basis);
    let by = by.to_owned();
    let to = to.clamp(extent.first, extent.next());
    if to == extent.next() {
        return Ok(Progress::of(write_back(context, bucket, job, &basis, &[], &[])?));
    }
    if to < run.first {
        let span = [Span { position: to, count: BATCH as u32 }];
        let read = Operation::read_at(log, &span, BATCH_BYTES);
        match read_existing_bucket(context, bucket, Opening::life(&basis.incarnation), &[read])? {
            Some(mut outcomes) => run = outcomes.take_records()?,
            None => return Ok(Progress::of(Step::Ended)),
        }
    }
    let mut texts = Vec::new();
    basis.fallback.clear();
    for (position, record) in (run.first..).zip(&run.records) {
        // What was removed has none.
        if position >= to
            && let Some(passage) = Passage::parse(record)
        {
            if !texts.is_empty() {
                basis.fallback.push(' ');
            }
            push_number(&mut basis.fallback, position);
            texts.push((*passage.text).to_owned());
        }
    }
    basis.to = (run.first + run.records.len() as u64).max(to + 1);
    basis.total = extent.first;
    if texts.is_empty() {
        return write_vectors(context, bucket, job, &basis, &by, &[]);
    }
    Ok(Progress::needs(basis.write(), Need::Vectors(VectorsNeed { id: 1, texts })))
}

fn keep_vectors(
    context: &Context<impl Host>,
    bucket: BucketId<'_>,
    job: &Job<'_>,
    basis: &Checkpoint,
    vectors: &[Vector],
) -> Result<Progress, Failure> {
    let mut texts: Vec<(&str, Embedding)> = Vec::with_capacity(vectors.len());
    let mut by = String::new();
    let mut model = 0;
    let mut positions = basis.fallback.split(' ');
    let mut are_refused = true;
    for (Vector { model: name, data }, position) in vectors.iter().zip(positions.by_ref()) {
        are_refused &= data.is_empty();
        // What has no direction gets none, and no more what the model refuses.
        let Some(embedding) = Embedding::new(name, data) else { continue };
        if by.is_empty() {
            model = embedding.model();
            push_number(&mut by, u64::from(model));
            by.push(' ');
            push_number(&mut by, embedding.dimensions() as u64);
            by.push(' ');
            by.push_str(head_within(name, NAME_BYTES, usize::MAX));
        }
        if embedding.model() == model {
            texts.push((position, embedding));
        }
    }
    let is_too_many = basis.fallback.split(' ').count() < vectors.len();
    if vectors.is_empty() || is_too_many || (texts.is_empty() && !are_refused) {
        write_back(context, bucket, job, basis, &[], &[])?;
        return Ok(Progress::failed("invalid", "There is not a vector of a model for each text".to_owned()));
    }
    // What the host has not got to is needed again.
    let to = positions.next().and_then(parse_count).unwrap_or(basis.to);
    let basis = &Checkpoint { to, ..basis.clone() };
    let (_, before) = embedded(basis);
    if by.is_empty() {
        by.push_str(before);
    }
    let is_oldest = basis.fallback.split(' ').next().and_then(parse_count).is_none_or(|at| at <= basis.total);
    if !before.is_empty() && before != by && !is_oldest {
        let anew = Checkpoint { to: basis.total, ..basis.clone() };
        return write_vectors(context, bucket, job, &anew, &by, &[]);
    }
    write_vectors(context, bucket, job, basis, &by, &texts)
}

/// Write vectors and how far that gets, if the passages are as they were.
fn write_vectors(
    context: &Context<impl Host>,
    bucket: BucketId<'_>,
    job: &Job<'_>,
    basis: &Checkpoint,
    by: &str,
    vectors: &[(&str, Embedding)],
) -> Result<Progress, Failure> {
    let mut text = basis.to.to_string();
    text.push(' ');
    text.push_str(by);
    let entries: Vec<_> =
        vectors.iter().map(|(position, embedding)| PutEntry { key: position, text: embedding.as_str() }).collect();
    let (map, embedded) = (once(bucket), [PutEntry { key: EMBEDDED, text: &text }]);
    let operations = [Operation::put(VECTORS, &entries), Operation::put(map, &embedded)];
    let expectations = [
        expect_entry(map, EMBEDDED, basis.before.as_deref()),
        expect_entry(map, REVISION, basis.revision.as_deref()),
        Expectation::log(PASSAGES, Some(basis.total), None),
    ];
    let step = write_back(context, bucket, job, basis, &expectations, &operations)?;
    let mut state = Checkpoint { incarnation: basis.incarnation.clone(), to: 1, ..Checkpoint::default() };
    let step = match step {
        Step::Done => Step::Again,
        // Others came in between, with a correction, say: once more, which the state tells.
        Step::Taken if basis.max_tokens == 0 => {
            state.max_tokens = 1;
            Step::Again
        }
        step => step,
    };
    Ok(Progress { state: Some(state.write()), ..Progress::of(step) })
}

/// How far it got, and by which model; empty: by none.
fn embedded(basis: &Checkpoint) -> (u64, &str) {
    let text = basis.before.as_deref().unwrap_or_default();
    let (to, by) = text.split_once(' ').unwrap_or((text, ""));
    (parse_count(to).unwrap_or(0), by)
}
