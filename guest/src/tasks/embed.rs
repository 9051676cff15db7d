//! The task `vectors`: has passages embedded, the oldest first, and stores the vectors.
//!
//! Promises that removed passages get no vector: each write expects what the passages were read with. When the model changes, all
//! passages are embedded again. `embedded` (in map `session`; with a user, in map `user`) says how far it got and with which model:
//! `{to} {number of the model} {its dimensions} {its name}`.

use keepline_json::push_number;
use keepline_recall::Embedding;

use crate::contract::{BucketId, Expectation, Host, LogEnd, Operation, PutEntry, Span, kind};
use crate::recall::copies::expect_entry;
use crate::recall::passage::Passage;
use crate::recall::schema::PASSAGES;
use crate::recall::vectors::{VECTORS, read_vectors_operation, vector_keys};
use crate::tasks::checkpoint::Checkpoint;
use crate::tasks::copy_to_user::copy_to_user;
use crate::tasks::index_passages;
use crate::tasks::index_passages::index_passages;
use crate::tasks::job::{Job, Need, NeedOutcome, Progress, Step, Vector, VectorsNeed};
use crate::tasks::task::{NEED_ID, StepResult, TaskStep};
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

/// Where they are recorded: beside the transcript, or with the user.
fn once(bucket: BucketId<'_>) -> &'static str {
    if bucket.kind == kind::USER { USER } else { SESSION }
}

/// A step: passages that have no vector yet get one. Those of a `user` lie in their bucket.
pub(crate) fn embed_passages<'a>(mut step: TaskStep<'a, impl Host>, user: Option<&'a str>) -> StepResult {
    if step.result.is_none() && step.basis.to == 0 {
        // What was said meanwhile is cut before: whoever was to do that may come later.
        let begun = Checkpoint {
            generation: if user.is_some() { String::new() } else { step.basis.generation.clone() },
            to: 1,
            ..Checkpoint::default()
        };
        let cut = TaskStep { job: Job { name: index_passages::TASK, ..step.job }, ..step };
        let progress = match user {
            None => index_passages(cut)?,
            Some(user) => copy_to_user(cut, user)?,
        };
        return Ok(match progress.step {
            Step::Done | Step::Taken => Progress { state: Some(begun.write()), ..Progress::of(Step::Again) },
            _ => progress,
        });
    }
    step.bucket = user.map_or(step.bucket, registry::user_bucket);
    match step.result {
        None => read_to_embed(step),
        Some(NeedOutcome::Vectors(found)) => keep_vectors(step, &found.vectors),
        // It will be due again, and need not wait for the lease to run out.
        Some(NeedOutcome::Failed(_)) => step.give_up(),
        // The host has none: another time, perhaps.
        Some(_) => step.finish(),
    }
}

/// Read passages that have no vector yet, and say what is needed for them.
fn read_to_embed(mut step: TaskStep<'_, impl Host>) -> StepResult {
    // A vector takes up to 6 KiB.
    let batch = BATCH.min(step.options.limits.call_bytes >> 13);
    let operations = [
        Operation::get_some(once(step.bucket), &[EMBEDDED, REVISION], 8192),
        Operation::read(PASSAGES, LogEnd::Newest, batch, BATCH_BYTES),
    ];
    let mut outcomes = step.read(&operations)?;
    let mut once = outcomes.take_entries_by_key()?;
    (step.basis.before, step.basis.revision) = (once.take(EMBEDDED), once.take(REVISION));
    let mut run = outcomes.take_records()?;
    let extent = run.extent;
    let (to, by) = embedded(&step.basis);
    let mut by = by.to_owned();
    let to = to.clamp(extent.first, extent.next());
    if to == extent.next() {
        return step.finish();
    }
    // Some came with their messages.
    let keys = vector_keys(to..to + batch);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let span = [Span { position: to, count: batch as u32 }];
    let more = [read_vectors_operation(&keys), Operation::read_at(PASSAGES, &span, BATCH_BYTES)];
    let is_read = to >= run.first;
    let mut outcomes = step.read_more(if is_read { &more[..1] } else { &more })?;
    let known = outcomes.take_readable_entries()?;
    if !is_read {
        run = outcomes.take_records()?;
    }
    step.basis.key = None;
    if by.is_empty()
        && let Some(first) = known.first()
    {
        model_number(&first.text).clone_into(&mut by);
        step.basis.key = Some(by.clone());
    }
    let is_known = |position: u64| {
        let found = known.iter().find(|entry| parse_count(&entry.key) == Some(position));
        found.is_some_and(|entry| model_number(&entry.text) == model_number(&by))
    };
    let mut texts = Vec::new();
    let basis = &mut step.basis;
    basis.fallback.clear();
    for (position, record) in (run.first..).zip(&run.records) {
        // What was removed has none.
        if position >= to
            && !is_known(position)
            && let Some(passage) = Passage::parse(record)
        {
            if !texts.is_empty() {
                basis.fallback.push(' ');
            }
            push_number(&mut basis.fallback, position);
            texts.push((*passage.text).to_owned());
        }
    }
    basis.to = run.end().max(to + 1);
    basis.total = extent.first;
    if texts.is_empty() {
        return write_vectors(&step, &by, &[]);
    }
    Ok(step.need(Need::Vectors(VectorsNeed { id: NEED_ID, texts })))
}

fn keep_vectors(mut step: TaskStep<'_, impl Host>, vectors: &[Vector]) -> StepResult {
    let mut texts: Vec<(&str, Embedding)> = Vec::with_capacity(vectors.len());
    let mut by = String::new();
    let mut model = 0;
    let told = std::mem::take(&mut step.basis.fallback);
    let mut positions = told.split(' ');
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
    let is_too_many = told.split(' ').count() < vectors.len();
    if vectors.is_empty() || is_too_many || (texts.is_empty() && !are_refused) {
        step.write(&[], &[])?;
        return Ok(Progress::failed("invalid", "There is not a vector of a model for each text".to_owned()));
    }
    let (_, before) = embedded(&step.basis);
    // Where nothing was embedded yet, that of the vectors that came with messages was taken for the model.
    let before = step.basis.key.as_deref().unwrap_or(before);
    if by.is_empty() {
        by.push_str(before);
    }
    let oldest = step.basis.total;
    let is_oldest = told.split(' ').next().and_then(parse_count).is_none_or(|at| at <= oldest);
    let is_other = !before.is_empty() && model_number(before) != model_number(&by);
    if is_other && (!is_oldest || step.basis.key.is_some()) {
        step.basis.to = oldest;
        return write_vectors(&step, &by, &[]);
    }
    // What the host has not got to is needed again.
    step.basis.to = positions.next().and_then(parse_count).unwrap_or(step.basis.to);
    write_vectors(&step, &by, &texts)
}

/// Write vectors and how far that gets, if the passages are as they were.
fn write_vectors(step: &TaskStep<'_, impl Host>, by: &str, vectors: &[(&str, Embedding)]) -> StepResult {
    let basis = &step.basis;
    let mut text = basis.to.to_string();
    text.push(' ');
    text.push_str(by);
    let entries: Vec<_> =
        vectors.iter().map(|(position, embedding)| PutEntry { key: position, text: embedding.as_str() }).collect();
    let (map, embedded) = (once(step.bucket), [PutEntry { key: EMBEDDED, text: &text }]);
    let operations = [Operation::put(VECTORS, &entries), Operation::put(map, &embedded)];
    let expectations = [
        expect_entry(map, EMBEDDED, basis.before.as_deref()),
        expect_entry(map, REVISION, basis.revision.as_deref()),
        Expectation::log(PASSAGES, Some(basis.total), None),
    ];
    let mut state = Checkpoint { generation: basis.generation.clone(), to: 1, ..Checkpoint::default() };
    let done = match step.write(&expectations, &operations)? {
        Step::Done => Step::Again,
        // Others came in between, with a correction, say: once more, which the state tells.
        Step::Taken if basis.max_tokens == 0 => {
            state.max_tokens = 1;
            Step::Again
        }
        other => other,
    };
    Ok(Progress { state: Some(state.write()), ..Progress::of(done) })
}

/// What stands for the model of an embedding that is kept, or of how far it got.
fn model_number(text: &str) -> &str {
    text.split_once(' ').map_or(text, |(number, _)| number)
}

/// How far it got, and by which model; empty: by none.
fn embedded(basis: &Checkpoint) -> (u64, &str) {
    let text = basis.before.as_deref().unwrap_or_default();
    let (to, by) = text.split_once(' ').unwrap_or((text, ""));
    (parse_count(to).unwrap_or(0), by)
}
