//! Appends a step to the transcript, with all that goes with it, in one transaction.
//!
//! Where an expectation fails, the step looks for its place and tries again, a few times; where a part of the session is broken,
//! the rest is stored without it.

use std::borrow::Cow;
use std::slice::from_ref;

use crate::answer::insertion_point::{LocatedMessage, QuestionTurn};
use crate::answer::turn_records::{InsertionPoint, TurnContext, TurnRecords};
use crate::context::Context;
use crate::contract::{
    BucketId, EntryState, Expectation, Host, Operation, Outcome, PositionMark, Precondition, Problem, PutEntry,
    Receipt, Status, Transaction, VALUES, codes,
};
use crate::entry::turn_token::ForkPoint;
use crate::entry::types::{AnswerReply, Effect, Task, TaskBucket};
use crate::tasks::{embed, generate_title, index_passages, retention, summarize, task};
use crate::text::ids::{ANSWER_COUNT, LAST_ANSWER};
use crate::transcript::schema::{
    BRANCHES, BYTES, HEAD, MESSAGES, OWNER, RESULTS, SESSION, TITLE, TITLE_OF, TOTAL, TRANSCRIPT, UNTITLED,
};
use crate::transcript::skip_counters::TRUNCATED;
use crate::transcript::thread::Branches;
use crate::transcript::title;
use crate::users::registry;
use crate::values::history;
use crate::values::record_answer::{
    AnswerParts, answer_ended, answer_failed, answer_finds_no_room, answer_is_foreign, answer_repeated, answer_stored,
};
use crate::{log, store};

/// How often to begin again when others come in between.
const TRIES: u32 = 8;

/// As a problem's code.
const MISSING_QUESTION: &str = "missing-question";

const WITHOUT_QUESTION: &str = "without its question's message: the host has to hand the question's text in with its answers, \
                                as `answer-entry.question` or in the member `memory_question` of their metadata";

/// A step to be committed.
pub(crate) struct PendingStep<'a> {
    pub bucket: BucketId<'a>,
    pub precondition: Precondition<'a>,
    pub step: TurnRecords<'a>,
    pub about: TurnContext<'a>,
    /// Of map `messages`.
    pub parent: Option<&'a str>,
    /// Where the step goes if nothing of its question is stored yet.
    pub beginning: InsertionPoint,
    /// The open turn that the question went on with.
    pub open: Option<Cow<'a, str>>,
    /// Whether its question had a text that did not come with it.
    pub lacks_question: bool,
    /// Whether anything was said, which is counted.
    pub is_said: bool,
    /// That as a JSON string; none: it is longer than a value may be.
    pub value: Option<String>,
    /// The session's, if there is one.
    pub owner: Option<&'a str>,
    /// Whether the bucket becomes theirs now.
    pub is_first: bool,
    pub titling: TitlePlan,
    pub due: DueTasks,
}

/// What becomes of a conversation's title with a step.
pub(crate) struct TitlePlan {
    /// The task that makes one is due.
    pub is_due: bool,
    /// The conversation has no title yet, and is to get one.
    pub is_untitled: bool,
    /// Nothing is known of the conversation: it gets one only once it has turned out to be new.
    pub is_late: bool,
    /// The one that it gets with this step.
    pub title: Option<String>,
}

/// What decides whether there is more to be done after a step.
pub(crate) struct DueTasks {
    /// What of the thread's weight its summary holds; none: not known.
    pub summarized: Option<u64>,
    pub threshold: u64,
    pub summaries: bool,
    pub title: bool,
    pub retitles: bool,
    pub max_records: u64,
    pub max_bytes: u64,
    /// Of which buckets, if it is not off.
    pub recall: Option<Vec<TaskBucket>>,
    /// Whether passages get vectors.
    pub vectors: bool,
    /// Of the user's, whatever becomes of the rest.
    pub activity: Option<Task>,
}

impl DueTasks {
    /// After a step that was applied.
    fn tasks(&self, bucket: BucketId<'_>, generation: &str, written: &Transaction<'_>, receipt: &Receipt) -> Vec<Task> {
        let counted = |wanted: &str| {
            let mut answered = written.operations.iter().zip(&receipt.outcomes);
            answered.find_map(|(operation, outcome)| match (operation, outcome) {
                (Operation::Add(counter), Outcome::Counter(counted))
                    if counter.map_name == SESSION && counter.key == wanted =>
                {
                    u64::try_from(counted.value).ok()
                }
                (Operation::Set(set), _) if set.map_name == SESSION => {
                    set.put.iter().find(|entry| entry.key == wanted)?.text.parse().ok()
                }
                _ => None,
            })
        };
        let new = counted(TOTAL).zip(self.summarized).map_or(0, |(total, summarized)| total.saturating_sub(summarized));
        let has_summary = self.summaries && new >= self.threshold;
        let is_over = (self.max_bytes > 0 && counted(BYTES).is_some_and(|bytes| bytes > self.max_bytes))
            || store::surplus_records(written, receipt, TRANSCRIPT).is_some();
        let due = [
            (has_summary, summarize::TASK),
            (self.title || (self.retitles && has_summary), generate_title::TASK),
            (is_over, retention::TASK),
        ];
        let due = due.into_iter().filter(|(is_due, _)| *is_due);
        let mut due: Vec<Task> = due.map(|(_, name)| task::generation_task(bucket, name, generation)).collect();
        // Passages are embedded once they are there.
        let tasks = [index_passages::TASK, embed::TASK].into_iter().take(1 + usize::from(self.vectors));
        if let Some(buckets) = &self.recall {
            due.extend(tasks.map(|name| Task {
                buckets: buckets.clone(),
                name: name.to_owned(),
                state: task::initial_state(generation),
            }));
        }
        due.extend(self.activity.clone());
        due
    }
}

/// Write the step where it goes: if not where it seemed to, then where it does.
pub(crate) fn append_step(
    context: &Context<impl Host>,
    commit: &PendingStep<'_>,
    mut place: InsertionPoint,
) -> AnswerReply {
    let name = commit.bucket.name;
    // Of what is too long for a value, the message is cut.
    let is_long = commit.is_said && commit.value.is_none();
    let mut parts =
        if is_long { AnswerParts::without_text(context.config.max_value_bytes) } else { AnswerParts::all() };
    for _ in 0..TRIES {
        let wanted = match write_step(context, commit, &place, &mut parts) {
            Ok(WriteOutcome::Done(reply)) => return reply,
            Ok(WriteOutcome::Conflict(why)) => why,
            // Nothing was changed by it: a transaction is applied as a whole.
            Err(failure) if parts.leave_out(&failure) => continue,
            Err(failure) => return answer_failed(context, name, failure),
        };
        place = match find_insertion_point(context, commit, &place, wanted) {
            Ok(Some(place)) => place,
            Ok(None) => return answer_repeated(context, name),
            Err(failure) => return answer_failed(context, name, failure),
        };
    }
    let message = format!("Answer in session {name} not stored: others kept writing in between");
    log::warn(&context.host, log::SESSION, &[&message]);
    AnswerReply::with(Effect::Failed, Problem::new(codes::OTHER, "", message))
}

/// A step as it is written at a place: texts that the transaction's operations borrow.
struct StepTexts {
    records: Vec<String>,
    /// What it weighs, and how many of its texts were cut.
    weight: u64,
    cut: i64,
    fork: Option<ForkTexts>,
    /// Of the history of values.
    put: String,
    increment: String,
    /// What the title is recorded as.
    title_of: Option<String>,
}

/// Where the step begins a branch, or goes on with one that is not the newest.
struct ForkTexts {
    fork: ForkPoint,
    begin: String,
    entry: String,
    total: String,
}

impl StepTexts {
    fn of(commit: &PendingStep<'_>, place: &InsertionPoint) -> Self {
        let PendingStep { step, about, titling, .. } = commit;
        let (weight, cut) = step.weight_and_cuts(place.asks);
        let fork = place.fork.map(|fork| ForkTexts {
            begin: fork.next.to_string(),
            entry: Branches::write_entry(fork.after, fork.total),
            total: fork.total.saturating_add(weight).to_string(),
            fork,
        });
        Self {
            records: step.records(about, place),
            weight,
            cut,
            fork,
            put: history::format_record("put", LAST_ANSWER, about.at),
            increment: history::format_record("increment", ANSWER_COUNT, about.at),
            title_of: titling.title.as_deref().map(|text| title::format_origin(about.question_id, text)),
        }
    }

    /// What the history of values has of the step.
    fn history(&self, commit: &PendingStep<'_>, parts: &AnswerParts) -> Vec<&str> {
        let all = [(parts.text, &*self.put), (parts.count, &*self.increment)];
        let stored = all.into_iter().filter(|(is_stored, _)| *is_stored && commit.is_said && parts.history);
        stored.map(|(_, record)| record).collect()
    }

    /// The title, and what it was made of.
    fn title<'a>(&'a self, titling: &'a TitlePlan) -> impl Iterator<Item = PutEntry<'a>> {
        let title = titling.title.as_deref().zip(self.title_of.as_deref());
        title
            .into_iter()
            .flat_map(|(text, of)| [(TITLE, text), (TITLE_OF, of)])
            .map(|(key, text)| PutEntry { key, text })
    }

    /// The records, and what the session notes of them.
    fn lists<'a>(&'a self, commit: &'a PendingStep<'_>, marks: Vec<PositionMark<'a>>) -> StepLists<'a> {
        let PendingStep { about, titling, owner, .. } = commit;
        let mut session = vec![PutEntry { key: HEAD, text: about.answer_id.unwrap_or(about.question_id) }];
        session.extend(owner.filter(|_| commit.is_first).map(|text| PutEntry { key: OWNER, text }));
        session.extend(self.fork.as_ref().map(|fork| PutEntry { key: TOTAL, text: &fork.total }));
        session.extend((titling.is_untitled && !titling.is_late).then_some(PutEntry { key: UNTITLED, text: "1" }));
        session.extend(self.title(titling).filter(|_| !titling.is_late));
        let branch = self.fork.as_ref().filter(|ForkTexts { fork, .. }| fork.after + 1 != fork.next);
        StepLists {
            records: self.records.iter().map(String::as_str).collect(),
            marks,
            session,
            branches: branch.map(|fork| PutEntry { key: &fork.begin, text: &fork.entry }).into_iter().collect(),
            results: commit.step.results.iter().map(|(key, text)| PutEntry { key, text }).collect(),
        }
    }
}

/// Lists of a step's texts that the transaction's operations borrow.
struct StepLists<'a> {
    records: Vec<&'a str>,
    marks: Vec<PositionMark<'a>>,
    session: Vec<PutEntry<'a>>,
    branches: Vec<PutEntry<'a>>,
    results: Vec<PutEntry<'a>>,
}

impl StepLists<'_> {
    fn push<'a>(&'a self, operations: &mut Vec<Operation<'a>>, texts: &StepTexts, max_records: u64) {
        let increment = |key, amount| Operation::add(SESSION, key, amount);
        operations.push(Operation::append(TRANSCRIPT, &self.records, &self.marks));
        operations.push(Operation::put(SESSION, &self.session));
        if texts.fork.is_none() {
            operations.push(increment(TOTAL, i64::try_from(texts.weight).unwrap_or(0)));
        }
        let bytes: usize = self.records.iter().map(|record| record.len()).sum();
        operations.push(increment(BYTES, i64::try_from(bytes).unwrap_or(0)));
        operations.extend((texts.cut > 0).then(|| increment(TRUNCATED, texts.cut)));
        if max_records > 0 {
            operations.push(Operation::read_surplus(TRANSCRIPT, max_records, max_records, 1, 0));
        }
        for (map, entries) in [(BRANCHES, &self.branches), (RESULTS, &self.results)] {
            operations.extend((!entries.is_empty()).then(|| Operation::put(map, entries)));
        }
    }
}

/// What must hold for the step to be written at a place.
fn expectations<'a>(
    context: &Context<impl Host>,
    commit: &'a PendingStep<'_>,
    place: &InsertionPoint,
    has_records: bool,
) -> Vec<Expectation<'a>> {
    let about = &commit.about;
    let mut expectations = Vec::with_capacity(5);
    expectations.extend(commit.owner.map(registry::expect_owner));
    if has_records {
        expectations.extend(about.answer_id.map(|key| Expectation::absent(MESSAGES, key)));
        expectations.push(match place.asks {
            true => Expectation::absent(MESSAGES, about.question_id),
            false => Expectation::present(MESSAGES, about.question_id),
        });
        match (place.fork, commit.parent) {
            (Some(fork), _) => {
                expectations.push(Expectation::log(TRANSCRIPT, None, Some(fork.next)));
            }
            (None, Some(parent)) if place.checks_head => {
                expectations.push(Expectation::absent_or_equal(SESSION, HEAD, parent));
            }
            _ => {}
        }
    }
    expectations.push(Expectation::room(VALUES, context.config.max_keys));
    expectations
}

fn write_step(
    context: &Context<impl Host>,
    commit: &PendingStep<'_>,
    place: &InsertionPoint,
    parts: &mut AnswerParts,
) -> Result<WriteOutcome, Box<Problem>> {
    let PendingStep { bucket, precondition, step, about, .. } = commit;
    let (bucket, precondition) = (*bucket, *precondition);
    let texts = StepTexts::of(commit, place);
    let last = u32::try_from(texts.records.len().saturating_sub(1)).unwrap_or(0);
    // A question without an id of its answer names the whole turn, so far.
    let asked = step.question_index(place).filter(|_| about.answer_id.is_some());
    let question_index = asked.and_then(|index| u32::try_from(index).ok()).unwrap_or(last);
    let mark = |key, record_index| PositionMark { map_name: MESSAGES, key, record_index };
    // It stays where it is if the step has a name of its own, or is one more answer.
    let moves = place.asks || (about.answer_id.is_none() && place.fork.is_none());
    let marks = moves.then(|| mark(about.question_id, question_index)).into_iter();
    let marks = marks.chain(about.answer_id.map(|id| mark(id, last)));
    let lists = texts.lists(commit, marks.collect());

    let recorded = texts.history(commit, parts);
    let value = commit.value.as_deref().filter(|_| parts.text).map(|text| PutEntry { key: LAST_ANSWER, text });
    let mut operations = Vec::with_capacity(12);
    if commit.is_said {
        operations.extend(value.as_ref().map(|value| Operation::put(VALUES, from_ref(value))));
        operations.extend(parts.count.then(|| Operation::add(VALUES, ANSWER_COUNT, 1)));
        history::push_history_operations(&mut operations, &context.config, &recorded);
    }
    if parts.conversation {
        lists.push(&mut operations, &texts, commit.due.max_records);
    }
    let expectations = expectations(context, commit, place, parts.conversation);
    let transaction = Transaction { bucket, precondition, expectations: &expectations, operations: &operations };
    let receipt = store::transact(&context.host, &transaction)?;
    let name = bucket.name;
    Ok(match receipt.status {
        Status::Applied | Status::Repeated => {
            history::compact_history(&context.host, &context.config, &transaction, &receipt, about.at);
            if !step.left_out.is_empty() {
                let what = step.left_out.join(", ");
                log::warn(&context.host, log::LIMIT, &["Answer in session ", name, " stored without ", &what]);
            }
            let generation = precondition.generation().unwrap_or(receipt.named_generation());
            let mut due = commit.due.tasks(bucket, generation, &transaction, &receipt);
            if commit.titling.is_late && is_alone(&transaction, &receipt, texts.records.len()) {
                due.extend(entitle_late(context, commit, &texts, generation));
            }
            if place.asks && parts.conversation && commit.lacks_question {
                parts.add_reason(MISSING_QUESTION, "question", WITHOUT_QUESTION);
            }
            WriteOutcome::Done(AnswerReply { due, ..answer_stored(context, name, parts.take_problem()) })
        }
        Status::Absent | Status::Expired | Status::GenerationMismatch => {
            WriteOutcome::Done(answer_ended(context, name))
        }
        Status::Unmet => match store::unmet_expectation(&receipt, &transaction) {
            Some(Expectation::Entry(entry)) => match entry.state {
                EntryState::Absent if entry.key == about.question_id => WriteOutcome::Conflict(StepConflict::Asked),
                EntryState::Absent => WriteOutcome::Done(answer_repeated(context, name)),
                EntryState::Present => WriteOutcome::Conflict(StepConflict::Unknown),
                EntryState::AbsentOrEqual if entry.key == OWNER => WriteOutcome::Done(answer_is_foreign(context, name)),
                EntryState::AbsentOrEqual | EntryState::Equal => WriteOutcome::Conflict(StepConflict::Head),
            },
            Some(Expectation::Log(_)) => WriteOutcome::Conflict(StepConflict::Head),
            Some(Expectation::Room(_)) | None => WriteOutcome::Done(answer_finds_no_room(context, name)),
        },
        Status::Exists => return Err(Problem::out_of_turn()),
    })
}

/// Title a conversation that has begun with an answer whose question this filter did not see. What is then due.
fn entitle_late(
    context: &Context<impl Host>,
    commit: &PendingStep<'_>,
    texts: &StepTexts,
    generation: &str,
) -> Option<Task> {
    let mut entries = vec![PutEntry { key: UNTITLED, text: "1" }];
    entries.extend(texts.title(&commit.titling));
    let operations = [Operation::put(SESSION, &entries)];
    let expectations = [TITLE, UNTITLED].map(|key| Expectation::absent(SESSION, key));
    let (bucket, precondition) = (commit.bucket, Precondition::life(generation));
    let titled = Transaction { bucket, precondition, expectations: &expectations, operations: &operations };
    match store::transact(&context.host, &titled) {
        Ok(receipt) if receipt.is_applied() => Some(task::generation_task(bucket, generate_title::TASK, generation)),
        Ok(_) => None,
        Err(failure) => {
            log::warn(&context.host, log::STORE, &["No title for session ", bucket.name, ": ", &failure.message]);
            None
        }
    }
}

/// Where a step goes for which an expectation did not hold. None: it is stored already.
fn find_insertion_point(
    context: &Context<impl Host>,
    commit: &PendingStep<'_>,
    place: &InsertionPoint,
    moved: StepConflict,
) -> Result<Option<InsertionPoint>, Box<Problem>> {
    let about = &commit.about;
    let precondition = commit.precondition.generation().map_or(Precondition::LOOK, Precondition::life);
    let look = Transaction { bucket: commit.bucket, precondition, expectations: &[], operations: &[] };
    let linear = InsertionPoint { checks_head: false, ..place.clone() };
    Ok(Some(match (moved, place.fork) {
        // Its result has no call, or what was stored of the turn was removed.
        (StepConflict::Unknown, _) => commit.beginning.clone(),
        (StepConflict::Asked, _) => {
            let mut found = LocatedMessage::find_by_key(&context.host, &look, about.question_id)?;
            if let Some(found) = &mut found {
                found.read_turn(&context.host, &look)?;
            }
            let asked = found.and_then(|found| found.question_turn(Some(&commit.step)));
            match asked {
                // It was removed meanwhile, or can't be read: the step is a turn of its own.
                None => InsertionPoint { asks: false, begins: true, fork: None, turn: None, ..linear },
                // A last step without tools goes on with the turn that an earlier one closed.
                Some(QuestionTurn { turn, is_open, is_answered: false, .. })
                    if turn == about.turn || (!is_open && commit.open.as_deref() == Some(&*turn)) =>
                {
                    InsertionPoint { asks: false, begins: false, fork: None, turn: Some(turn), ..linear }
                }
                // The pipeline sends a turn again.
                Some(asked) if asked.turn != about.turn && about.answer_id.is_none() && asked.is_repeated => {
                    return Ok(None);
                }
                // One more answer to a question goes on from the question. A question without a message (it was
                // empty, not handed in, or removed) has no place to branch off: there it goes on with the turn.
                Some(QuestionTurn { turn, fork, end, .. }) => {
                    let fork = fork.or_else(|| Some(end).filter(|end| end.after + 1 != end.next));
                    InsertionPoint { asks: false, begins: false, fork, turn: Some(turn), ..linear }
                }
            }
        }
        (StepConflict::Head, Some(fork)) => {
            let next = LocatedMessage::next_position(&context.host, &look)?;
            InsertionPoint { fork: Some(ForkPoint { next, ..fork }), ..linear }
        }
        (StepConflict::Head, None) => {
            let found = match commit.parent {
                Some(parent) => LocatedMessage::find_by_key(&context.host, &look, parent)?,
                None => None,
            };
            let fork = found.map(|found| ForkPoint {
                after: found.position,
                total: about.total.unwrap_or_else(|| found.thread_weight()),
                next: found.next,
            });
            // An unknown parent is no reason to hide the rest.
            InsertionPoint { fork, ..linear }
        }
    }))
}

/// Whether a step's records are all that its transcript ever held.
fn is_alone(written: &Transaction<'_>, receipt: &Receipt, count: usize) -> bool {
    store::appended_extent(written, receipt, TRANSCRIPT)
        .is_some_and(|extent| extent.first == 0 && extent.length == count as u64)
}

/// What became of a try.
enum WriteOutcome {
    Done(AnswerReply),
    Conflict(StepConflict),
}

/// What did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepConflict {
    /// The question is stored already.
    Asked,
    /// The turn that the step continues is not.
    Unknown,
    /// The newest message is another one.
    Head,
}
