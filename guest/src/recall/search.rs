//! Finds the passages that a question bears on.
//!
//! Costs one more wait, for the texts: candidates came with everything else. Passages are scored together with their neighbours, the
//! best are taken until the budget is full, and stand in order of time. Leaves out what stands in the window, in another branch or
//! no longer in the transcript, and what an option excludes.

use keepline_options::words::{Recall, RecallLife, Word as _};
use keepline_recall::{
    DocumentMark, Embedding, IndexMatches, PassageCandidate, PassageQuery, count_tokens, rank_documents,
    select_passages,
};

use crate::context::Context;
use crate::contract::{BucketId, Entry, Host, IndexStep, LogRun, Operation, Precondition, Problem, Span};
use crate::entry::directives::Directives;
use crate::entry::types::QuestionEntry;
use crate::options::conversation::{Options, bounded};
use crate::recall::copies::CopyState;
use crate::recall::matches::RecallMatches;
use crate::recall::passage::{Passage, PassageOrigin, TermMatcher, is_older_than, message_facet, session_facet};
use crate::recall::render::{
    INTRODUCTION, RecalledPassage, lowest_scored, render_text, sort_by_time, write_recall_json,
};
use crate::recall::schema::{INDEX, MATCH_BYTES, NEWEST, PASSAGES, READ_COPY_STATES, READ_TERMS_TAIL};
use crate::recall::vectors;
use crate::recall::vectors::VectorSnapshot;
use crate::store;
use crate::store::Outcomes;
use crate::transcript::thread::Branches;
use crate::users::registry;

/// Tokens of the line above passages that follow each other.
const HEADER: u32 = 4;

/// More is read than is attached, for the best of it may stand in the window; in tokens at most.
const SPARE_MAX: u32 = 8000;

/// Windows count tokens in their own way: by so many more than these, passages may still stand in one.
const SHOWN_SPARE: u64 = 512;

/// Bytes of a token at most: it has four, and JSON writes six for a control character.
const TOKEN_BYTES: u64 = 24;

/// Bytes of a stored passage beside its text, at most: names of sessions are as long as the plugin allows.
const RECORD_BYTES: u64 = 1024;

/// How many are scored.
const CANDIDATES: usize = 512;

/// What scores less, as a part of the best, has nothing to do with the question but a word that many have.
const LEAST: f32 = 0.1;

/// How often texts are read: more than once only if much of what was read is not to be attached.
const READS: u32 = 4;

/// Tokens of a passage at most, with a line above it.
const ONE: u32 = 127 + HEADER;

/// What a question looks for.
pub(crate) struct RecallQuery {
    query: PassageQuery,
    /// Of the query; in a user's memory also what the passages of the session that asks have in common; and what those of
    /// the message have that is asked once more.
    terms: Vec<u32>,
    /// How many of them are the query's.
    words: usize,
    /// The places of these two among them.
    own: Option<usize>,
    asked: Option<usize>,
    /// Among all that the user's sessions have, and not in the transcript that asks.
    pub(crate) is_of_user: bool,
    /// Of the question.
    embedding: Option<Embedding>,
}

impl RecallQuery {
    /// The question's embedding, as it is kept.
    pub(crate) fn kept_embedding(&self) -> Option<&str> {
        self.embedding.as_ref().map(Embedding::as_str)
    }

    /// None: nothing can be found, or is to be. `session_of_user`: the session that asks, if it asks in its user's memory.
    /// `now` in milliseconds.
    pub(crate) fn for_question(
        options: &Options,
        entry: &QuestionEntry<'_>,
        session_of_user: Option<&str>,
        said: &Directives<'_>,
        now: impl FnOnce() -> u64,
    ) -> Option<Self> {
        if options.recall == Recall::Off {
            return None;
        }
        let mut query = PassageQuery::new(entry.text, now(), options.recall_hints);
        query.is_own_only = said.neighbors == Some(false);
        let mut terms = query.terms();
        // With the two below.
        terms.truncate(bounded(usize::MAX, options.limits.search_terms - 2));
        let words = terms.len();
        let vector = entry.vector.filter(|_| options.recall_vectors);
        let embedding = vector.and_then(|(model, data)| Embedding::new(model, data));
        if terms.is_empty() && embedding.is_none() {
            return None;
        }
        let is_of_user = session_of_user.is_some();
        // Two may be the same number, and each is asked for once.
        let mut place = |facet| {
            terms.iter().position(|term| *term == facet).unwrap_or_else(|| {
                terms.push(facet);
                terms.len() - 1
            })
        };
        let own = session_of_user.map(|session| place(session_facet(session, None)));
        // The message that the question is, if the transcript has it already.
        let asked = said.asked.map(|position| {
            place(
                session_of_user
                    .map_or_else(|| message_facet(position), |session| session_facet(session, Some(position))),
            )
        });
        Some(Self { query, terms, words, own, asked, is_of_user, embedding })
    }

    /// To be looked up in the index with the rest of what the question needs.
    pub(crate) fn search_step(&self) -> IndexStep<'_> {
        IndexStep::search(INDEX, &self.terms, NEWEST, MATCH_BYTES)
    }

    /// To be read with it.
    pub(crate) fn push_operations(&self, operations: &mut Vec<Operation<'_>>) {
        operations.push(READ_TERMS_TAIL);
        if self.embedding.is_some() {
            operations.push(vectors::READ_ALL_VECTORS);
        }
    }
}

/// What the store found.
pub(crate) struct RecallSnapshot {
    found: RecallMatches,
    tail: LogRun,
    near: VectorSnapshot,
}

impl RecallSnapshot {
    pub(crate) fn of(wanted: &RecallQuery, outcomes: &mut Outcomes) -> Result<Self, Box<Problem>> {
        let found = RecallMatches::of(outcomes.take_found()?, if wanted.is_of_user { 2 } else { 1 });
        let tail = outcomes.take_records()?;
        let near = if wanted.embedding.is_some() { VectorSnapshot::of(outcomes)? } else { VectorSnapshot::Unasked };
        Ok(Self { found, tail, near })
    }

    /// The best first.
    fn candidates(&mut self, wanted: &RecallQuery) -> Vec<PassageCandidate> {
        let first = if self.found.marks.is_empty() { self.tail.first } else { self.found.first };
        self.found.first = first;
        let RecallMatches { marks, terms, .. } = &mut self.found;
        let sought = TermMatcher::of(&wanted.terms);
        for (position, text) in (self.tail.first..).zip(&self.tail.records) {
            let Some(offset) = position.checked_sub(first).and_then(|offset| u32::try_from(offset).ok()) else {
                continue;
            };
            let mark = sought.match_passage(text, |place| {
                if let Some(term) = terms.get_mut(place) {
                    term.offsets.push(offset);
                }
            });
            // What was taken out leaves a hole, and so does what lies between.
            if let Some(mark) = mark {
                marks.resize(offset as usize, 0);
                marks.push(mark);
            }
        }
        // It would find itself, and lend its words to what stands beside it: as if it had been taken out.
        for offset in wanted.asked.and_then(|place| terms.get(place)).into_iter().flat_map(|term| &term.offsets) {
            if let Some(mark) = marks.get_mut(*offset as usize) {
                *mark = 0;
            }
        }
        let rows: Vec<&[u32]> = terms.iter().take(wanted.words).map(|term| &*term.offsets).collect();
        let mut candidates = rank_documents(&wanted.query, IndexMatches { first, marks, rows: &rows }, CANDIDATES);
        let least = candidates.first().map_or(0.0, |best| best.score * LEAST);
        candidates.retain(|candidate| candidate.score >= least);
        let (VectorSnapshot::All(all), Some(embedding)) = (&self.near, &wanted.embedding) else { return candidates };
        vectors::rerank_by_vectors(&candidates, embedding, all, &|position| self.mark(position))
    }

    /// From which position on passages may be of what the window shows, which is the newest of its session: going back,
    /// as many tokens. Once candidates were found.
    fn shown_from(&self, wanted: &RecallQuery, asking: &RecallScope<'_>) -> u64 {
        let Some(oldest) = asking.shown.first() else { return u64::MAX };
        if !asking.branches.is_linear_after(*oldest) {
            return 0;
        }
        let mut left = asking.shown_tokens + asking.shown_tokens / 4 + SHOWN_SPARE;
        let mut from = u64::MAX;
        let mut passed = |offset: usize| {
            from = self.found.first + offset as u64;
            let mark = self.found.marks.get(offset).and_then(|mark| DocumentMark::decode(*mark));
            left = left.saturating_sub(mark.map_or(0, |mark| mark.tokens.into()));
            left > 0
        };
        match wanted.own.and_then(|own| self.found.terms.get(own)) {
            Some(own) => _ = own.offsets.iter().rev().all(|offset| passed(*offset as usize)),
            None => _ = (0..self.found.marks.len()).rev().all(passed),
        }
        from
    }

    /// Of a position, once candidates were found.
    fn mark(&self, position: u64) -> Option<DocumentMark> {
        let offset = usize::try_from(position.checked_sub(self.found.first)?).ok()?;
        DocumentMark::decode(*self.found.marks.get(offset)?)
    }
}

/// What asks.
pub(crate) struct RecallScope<'a> {
    /// In whose sessions it is looked for; none: in this transcript.
    pub user: Option<&'a str>,
    pub bucket: BucketId<'a>,
    pub generation: &'a str,
    pub session: &'a str,
    /// Positions that the window shows, ascending.
    pub shown: Vec<u64>,
    /// The tokens that they come to.
    pub shown_tokens: u64,
    /// Where the transcript begins.
    pub first: u64,
    pub branches: &'a Branches,
    /// The record that the question follows; none: it is the first.
    pub target: Option<u64>,
    /// Milliseconds since 1970.
    pub now: u64,
    /// What was said before that is not recalled: milliseconds since 1970.
    pub oldest_at: u64,
}

/// What is recalled, as JSON. None: nothing.
pub(crate) fn search_passages(
    context: &Context<impl Host>,
    options: &Options,
    wanted: &RecallQuery,
    mut seen: RecallSnapshot,
    asking: &RecallScope<'_>,
) -> Result<Option<String>, Box<Problem>> {
    let mut candidates = seen.candidates(wanted);
    let keys = seen.near.keys(&candidates);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let budget =
        u32::try_from(options.recall_tokens.saturating_sub(count_tokens(INTRODUCTION) as u64)).unwrap_or(u32::MAX);
    let spare = u32::try_from(asking.shown_tokens).unwrap_or(u32::MAX).min(SPARE_MAX);
    // Where the order is not known yet, there is a choice.
    let choice = if keys.is_empty() { 0 } else { budget.min(SPARE_MAX) };
    let (bucket, precondition) = match asking.user {
        Some(user) => (registry::user_bucket(user), Precondition::LOOK),
        None => (asking.bucket, Precondition::life(asking.generation)),
    };
    let of_life = asking.user.is_some() && options.recall_life == RecallLife::Session;
    let shown_from = seen.shown_from(wanted, asking);
    let mut unread = candidates.clone();
    let mut read = to_read(&unread, budget.saturating_add(choice), spare, shown_from);
    let (mut runs, mut posted): (Vec<LogRun>, Option<Vec<Entry>>) = (Vec::new(), None);
    let mut reads = 0;
    while !read.is_empty() {
        reads += 1;
        let is_first = reads == 1;
        let spans = spans_of(&read);
        let max_bytes = read.iter().map(|one| u64::from(one.mark.tokens) * TOKEN_BYTES + RECORD_BYTES).sum();
        let mut operations = vec![Operation::read_at(PASSAGES, &spans, max_bytes)];
        operations.extend((is_first && of_life).then_some(READ_COPY_STATES));
        operations.extend((is_first && !keys.is_empty()).then(|| vectors::read_vectors_operation(&keys)));
        let found = store::read_bucket(&context.host, bucket, precondition, &operations)?;
        let Some(mut outcomes) = found else { return Ok(None) };
        runs.extend(outcomes.take_spans()?);
        if is_first && of_life {
            posted = Some(outcomes.take_readable_entries()?);
        }
        if let Some(embedding) = wanted.embedding.as_ref().filter(|_| is_first && !keys.is_empty()) {
            let vectors = outcomes.take_readable_entries()?;
            candidates = vectors::rerank_by_vectors(&candidates, embedding, &vectors, &|position| seen.mark(position));
        }
        let passages = readable_passages(&runs, |passage| {
            // Of versions that could not cut every text: they would leave no room for any other.
            count_tokens(&passage.text) <= ONE as usize
                && asking.wants(options, passage)
                && posted.as_ref().is_none_or(|posted| lives(posted, passage, asking.now))
        });
        let left = distinct(&candidates, &passages);
        let taken = select_passages(&left, budget, HEADER);
        let used: u32 = taken.iter().map(|one| u32::from(one.mark.tokens) + HEADER).sum();
        let is_short = budget.saturating_sub(used) > ONE;
        // Much of it was not to be attached: what comes next is read in its place.
        let is_left = |one: &PassageCandidate| read.binary_search_by_key(&one.position, |it| it.position).is_err();
        unread.retain(is_left);
        read = if is_short && reads < READS { to_read(&unread, SPARE_MAX, spare, shown_from) } else { Vec::new() };
        if read.is_empty() {
            let best = left.first().map_or(0.0, |candidate| candidate.score);
            let taken = taken.into_iter().filter_map(|candidate| {
                Some(RecalledPassage { candidate, passage: passage_of(&candidate, &passages)? })
            });
            return Ok(recalled_json(options.recall_tokens, asking.session, taken.collect(), best));
        }
    }
    Ok(None)
}

/// What was read of a candidate, if it may be attached.
fn passage_of<'p>(candidate: &PassageCandidate, passages: &'p [(u64, Passage<'_>)]) -> Option<&'p Passage<'p>> {
    let index = passages.binary_search_by_key(&candidate.position, |(at, _)| *at).ok()?;
    passages.get(index).map(|(_, passage)| passage)
}

/// Those that may be attached: of the same text, the best.
fn distinct(candidates: &[PassageCandidate], passages: &[(u64, Passage<'_>)]) -> Vec<PassageCandidate> {
    let mut said: Vec<&str> = Vec::with_capacity(passages.len());
    let is_new = |candidate: &&PassageCandidate| {
        let text = passage_of(candidate, passages).map(|passage| &*passage.text);
        let is_new = text.is_some_and(|text| !said.contains(&text));
        said.extend(text);
        is_new
    };
    candidates.iter().filter(is_new).copied().collect()
}

/// As JSON. None: nothing.
fn recalled_json(most: u64, session: &str, taken: Vec<RecalledPassage<'_>>, best: f32) -> Option<String> {
    let mut taken = sort_by_time(taken);
    let mut text = render_text(&taken);
    // Counted one by one, tokens are rounded: all together may be a few more, or take a line more.
    while count_tokens(&text) as u64 > most
        && let Some(last) = lowest_scored(&taken)
    {
        taken.remove(last);
        text = render_text(&taken);
    }
    (!taken.is_empty()).then(|| write_recall_json(session, &text, &taken, best))
}

fn spans_of(read: &[PassageCandidate]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for candidate in read {
        match spans.last_mut() {
            Some(span) if span.position + u64::from(span.count) == candidate.position => span.count += 1,
            _ => spans.push(Span { position: candidate.position, count: 1 }),
        }
    }
    spans
}

/// The best, in order of position: as many as go into a budget, and those as good as them that may stand in the window,
/// which is not known before they are read.
fn to_read(candidates: &[PassageCandidate], budget: u32, spare: u32, shown_from: u64) -> Vec<PassageCandidate> {
    let (mut perhaps, sure): (Vec<PassageCandidate>, Vec<PassageCandidate>) =
        candidates.iter().partition(|candidate| candidate.position >= shown_from);
    let mut read = select_passages(&sure, budget, HEADER);
    // Of all that come before the last of them.
    let is_taken =
        |candidate: &&PassageCandidate| read.binary_search_by_key(&candidate.position, |it| it.position).is_ok();
    let worst = sure.iter().rfind(is_taken).filter(|_| read.len() < sure.len());
    perhaps.retain(|candidate| worst.is_none_or(|worst| candidate.score >= worst.score));
    read.extend(select_passages(&perhaps, budget.saturating_add(spare), HEADER));
    read
}

/// Whether the session that a passage is from has not ended.
fn lives(posted: &[Entry], passage: &Passage<'_>, now: u64) -> bool {
    let of = passage.session.as_deref().zip(passage.life.as_deref());
    of.is_some_and(|(session, life)| {
        let at = posted.binary_search_by(|entry| (*entry.key).cmp(session));
        let entry = at.ok().and_then(|at| posted.get(at)).and_then(|entry| CopyState::parse(&entry.text));
        entry.is_some_and(|posted| posted.is_alive(life, now))
    })
}

impl RecallScope<'_> {
    fn wants(&self, options: &Options, passage: &Passage<'_>) -> bool {
        let origin = PassageOrigin { session: self.session, life: self.generation };
        let is_own = self.user.is_none() || passage.is_from(&origin);
        let is_in_reach = !is_own
            || (passage.position >= self.first
                && self.shown.binary_search(&passage.position).is_err()
                && self.target.is_some_and(|target| self.branches.is_on_thread(target, passage.position)));
        is_in_reach
            && !is_older_than(passage, self.oldest_at)
            && !passage
                .source
                .as_deref()
                .is_some_and(|source| options.recall_exclude.iter().any(|other| other.as_str() == source))
    }
}

/// What of these records may be attached, by position.
fn readable_passages<'r>(runs: &'r [LogRun], may: impl Fn(&Passage<'r>) -> bool) -> Vec<(u64, Passage<'r>)> {
    let mut passages: Vec<(u64, Passage<'r>)> = Vec::with_capacity(runs.iter().map(|run| run.records.len()).sum());
    for run in runs {
        for (position, text) in (run.first..).zip(&run.records) {
            let Some(passage) = Passage::parse(text).filter(|passage| may(passage)) else { continue };
            let at = passages.partition_point(|(other, _)| *other < position);
            passages.insert(at, (position, passage));
        }
    }
    passages
}
