//! Embeddings of passages: how they come to be stored, and what they add to a question.
//!
//! Promises that a question waits no longer for them: they are read with what it reads anyhow. That nothing that was
//! removed gets a vector back: what the passages were read with is expected when their vectors are written. And that those
//! of another model count as none: when the model changes, all are made anew, the oldest first. Refuses to ask anybody:
//! what is needed is returned, and whoever has nobody to ask changes nothing.
//!
//! Map `vectors` holds them by the positions of their passages; `embedded` (of map `session`; with a user, of map `user`)
//! how far it got, and by which model:
//! `{to} {number that stands for the model} {its own dimensions} {its name}`.

use keepline_json::push_number;
use keepline_recall::{Candidate, Embedding, Mark, Similar, fuse};

use super::super::cuts::up_to;
use super::super::options::Options;
use super::super::owner::{self, USER};
use super::super::record::integer;
use super::super::upkeep::{Basis, Job, Need, NeedResult, Progress, Step, Vector, VectorsNeed};
use super::super::{REVISION, SESSION};
use super::passage::Passage;
use super::post::same;
use super::{PASSAGES, keep};
use crate::filter::Filter;
use crate::reply::{Found, Outcomes};
use crate::store::{Bucket, BucketKind, Entry, Expectation, Failure, Host, LogEnd, Opening, Operation};

/// The map of them.
pub(super) const VECTORS: &str = "vectors";
/// How far it got, and by which model.
const EMBEDDED: &str = "embedded";
/// The task, and its lease.
pub(in super::super) const TASK: &str = "vectors";
/// Passages of one step.
const BATCH: u64 = 64;
const BATCH_BYTES: u64 = 1 << 20;
/// Where there are no more than so many, a question looks at all of them; otherwise at those of the best candidates.
const SMALL: u64 = 512;
const SMALL_BYTES: u64 = SMALL * 300;
const LOOKED_AT: usize = 256;
/// Of a model's name.
const NAME_BYTES: usize = 256;

/// To be read with the rest of what a question needs.
pub(super) const ALL: Operation<'static> =
    Operation::GetAll { map: VECTORS, max_entries: SMALL, max_bytes: SMALL_BYTES };

/// With passages that go.
pub(super) const NONE: Operation<'static> = Operation::ResetMap { map: VECTORS, entries: &[] };

/// What a question has seen of the vectors.
pub(super) enum Near {
    /// Nothing, for the question has none.
    Unasked,
    All(Vec<Entry>),
    /// There are too many to look at them all.
    Many,
}

impl Near {
    pub(super) fn of(outcomes: &mut Outcomes) -> Result<Self, Failure> {
        Ok(match outcomes.entries()? {
            Found::Entries(found) => Self::All(found.entries),
            Found::Oversize { .. } => Self::Many,
        })
    }

    /// Of which passages the vectors are to be read with their texts.
    pub(super) fn keys(&self, candidates: &[Candidate]) -> Vec<String> {
        let looked_at = if matches!(self, Self::Many) { LOOKED_AT } else { 0 };
        keys(candidates.iter().take(looked_at).map(|candidate| candidate.position))
    }
}

/// The names of passages' vectors.
pub(super) fn keys(positions: impl Iterator<Item = u64>) -> Vec<String> {
    let mut keys = Vec::new();
    for position in positions {
        keys.push(position.to_string());
    }
    keys
}

/// The vectors of some passages.
pub(super) fn some<'a>(keys: &'a [&'a str]) -> Operation<'a> {
    Operation::GetSome { map: VECTORS, keys, max_bytes: SMALL_BYTES }
}

/// Candidates in the order in which words and vectors have them together.
pub(super) fn reordered(
    candidates: &[Candidate],
    question: &Embedding,
    vectors: &[Entry],
    mark: &dyn Fn(u64) -> Option<Mark>,
) -> Vec<Candidate> {
    let mut similar = Vec::with_capacity(vectors.len());
    for entry in vectors {
        if let (Some(position), Some(similarity)) = (integer(&entry.key), question.similarity(&entry.text))
            && mark(position).is_some()
        {
            similar.push(Similar { position, similarity });
        }
    }
    fuse(candidates, &similar, mark)
}

/// Where they are told of: beside the transcript, or with the user.
fn once(bucket: Bucket<'_>) -> &'static str {
    if bucket.kind == BucketKind::User { USER } else { SESSION }
}

impl<H: Host> Filter<H> {
    /// A step: passages that have no vector yet get one. Those of a `user` lie in their bucket.
    pub(in super::super) fn embed(
        &self,
        options: &Options,
        transcript: Bucket<'_>,
        user: Option<&str>,
        job: &Job<'_>,
        mut basis: Basis,
    ) -> Result<Progress, Failure> {
        let bucket = user.map_or(transcript, owner::bucket);
        match job.result {
            Some(NeedResult::Vectors(vectors)) => return self.keep_vectors(bucket, job, &basis, vectors),
            // It will be due again, and need not wait for the lease to run out.
            Some(NeedResult::Failed) => return self.leave(bucket, job, &basis),
            // Nobody has any: another time, perhaps.
            Some(_) => return Ok(Progress::of(self.write_back(bucket, job, &basis, &[], &[])?)),
            // What was said meanwhile is cut before: whoever was to do that may come later.
            None if basis.to == 0 => {
                let begun = Basis {
                    incarnation: if user.is_some() { String::new() } else { basis.incarnation.clone() },
                    to: 1,
                    ..Basis::default()
                };
                let cut = Job { name: keep::TASK, ..*job };
                let progress = match user {
                    None => self.recollect(options, transcript, &cut, basis)?,
                    Some(user) => self.post(options, transcript, user, &cut, basis)?,
                };
                return Ok(match progress.step {
                    Step::Done | Step::Taken => Progress { state: Some(begun.write()), ..Progress::of(Step::Again) },
                    _ => progress,
                });
            }
            None => {}
        }
        let (log, end) = (PASSAGES, LogEnd::Newest);
        let operations = [
            Operation::GetSome { map: once(bucket), keys: &[EMBEDDED, REVISION], max_bytes: 8192 },
            Operation::Read { log, end, max_records: BATCH, max_bytes: BATCH_BYTES },
        ];
        let mut outcomes = match self.read_leased(bucket, job, &mut basis, &operations)? {
            Ok(outcomes) => outcomes,
            Err(progress) => return Ok(progress),
        };
        let mut once = outcomes.once()?;
        (basis.before, basis.revision) = (once.take(EMBEDDED), once.take(REVISION));
        let mut run = outcomes.records()?;
        let extent = run.extent;
        let (to, by) = embedded(&basis);
        let by = by.to_owned();
        let to = to.clamp(extent.first, extent.next());
        if to == extent.next() {
            return Ok(Progress::of(self.write_back(bucket, job, &basis, &[], &[])?));
        }
        if to < run.first {
            let read = Operation::ReadAt { log, position: to, count: BATCH as u32, max_bytes: BATCH_BYTES };
            match self.read_on(bucket, Opening::life(&basis.incarnation), &[read])? {
                Some(mut outcomes) => run = outcomes.records()?,
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
            return self.write_vectors(bucket, job, &basis, &by, &[]);
        }
        Ok(Progress::needs(basis.write(), Need::Vectors(VectorsNeed { id: 1, texts })))
    }

    fn keep_vectors(
        &self,
        bucket: Bucket<'_>,
        job: &Job<'_>,
        basis: &Basis,
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
                by.push_str(up_to(name, NAME_BYTES, usize::MAX));
            }
            if embedding.model() == model {
                texts.push((position, embedding));
            }
        }
        let is_too_many = basis.fallback.split(' ').count() < vectors.len();
        if vectors.is_empty() || is_too_many || (texts.is_empty() && !are_refused) {
            self.write_back(bucket, job, basis, &[], &[])?;
            return Ok(Progress::failed("invalid", "There is not a vector of a model for each text".to_owned()));
        }
        // What the host has not got to is needed again.
        let to = positions.next().and_then(integer).unwrap_or(basis.to);
        let basis = &Basis { to, ..basis.clone() };
        let (_, before) = embedded(basis);
        if by.is_empty() {
            by.push_str(before);
        }
        let is_oldest = basis.fallback.split(' ').next().and_then(integer).is_none_or(|at| at <= basis.total);
        if !before.is_empty() && before != by && !is_oldest {
            let anew = Basis { to: basis.total, ..basis.clone() };
            return self.write_vectors(bucket, job, &anew, &by, &[]);
        }
        self.write_vectors(bucket, job, basis, &by, &texts)
    }

    /// Write vectors and how far that gets, if the passages are as they were.
    fn write_vectors(
        &self,
        bucket: Bucket<'_>,
        job: &Job<'_>,
        basis: &Basis,
        by: &str,
        vectors: &[(&str, Embedding)],
    ) -> Result<Progress, Failure> {
        let mut text = basis.to.to_string();
        text.push(' ');
        text.push_str(by);
        let mut entries: Vec<(&str, &str)> = Vec::with_capacity(vectors.len());
        for (position, embedding) in vectors {
            entries.push((position, embedding.as_str()));
        }
        let map = once(bucket);
        let operations = [
            Operation::PutSome { map: VECTORS, entries: &entries },
            Operation::Put { map, key: EMBEDDED, text: &text },
        ];
        let expectations = [
            same(map, EMBEDDED, basis.before.as_deref()),
            same(map, REVISION, basis.revision.as_deref()),
            Expectation::Log { log: PASSAGES, first: Some(basis.total), next: None },
        ];
        let step = self.write_back(bucket, job, basis, &expectations, &operations)?;
        let mut state = Basis { incarnation: basis.incarnation.clone(), to: 1, ..Basis::default() };
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
}

/// How far it got, and by which model; empty: by none.
fn embedded(basis: &Basis) -> (u64, &str) {
    let text = basis.before.as_deref().unwrap_or_default();
    let (to, by) = text.split_once(' ').unwrap_or((text, ""));
    (integer(to).unwrap_or(0), by)
}
