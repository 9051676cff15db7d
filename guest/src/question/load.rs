//! Reads what a question needs: values, the newest records, branches, the user, and candidates for recall.

use crate::context::Context;
use crate::contract::transcripts::TranscriptSettings;
use crate::contract::{
    BucketId, Host, IndexStep, IndexedReceipt, IndexedTransaction, LogEnd, LogRun, Operation, Precondition, Problem,
    Receipt, Span, Status, Transaction, VALUES, codes, kind,
};
use crate::entry::directives;
use crate::options::config;
use crate::options::conversation::Options;
use crate::question::ConversationQuestion;
use crate::recall::{search, session_filter};
use crate::store::{EntriesOutcome, Outcomes};
use crate::text::ids::to_map_key;
use crate::text::json_values::parse_count;
use crate::text::tokens;
use crate::transcript::schema::{
    BRANCHES, HEAD, MESSAGES, OWNER, SESSION, SETTINGS, SUMMARY, TITLE, TOTAL, TRANSCRIPT, UNTITLED,
};
use crate::transcript::skip_counters::{COUNTERS, OmissionCounts, take_counts};
use crate::transcript::summary::ThreadSummary;
use crate::transcript::thread::{Branches, ConversationThread};
use crate::transcript::title;
use crate::transcript::turn_id::begins_about;
use crate::transcript::turns::Turn;
use crate::users::registry;
use crate::values::session_id::SESSION_ID_KEY;
use crate::{log, store};

/// What is read of map `branches`: more of them than any conversation that people lead.
const BRANCHES_MAX: u64 = 512;

const BRANCHES_BYTES: u64 = 64 << 10;

/// What there is once, the summary among it.
const ONCE: [&str; 7] = [HEAD, TOTAL, SUMMARY, OWNER, TITLE, UNTITLED, SETTINGS];

const SESSION_BYTES: u64 = 1 << 20;

/// Of the transcript, whatever the budget: a transaction's answers may have 16 MiB, the session's values among them.
const READ_BYTES: u64 = 6 << 20;

/// More records than a step has (`step`), with both messages.
const STEP_RECORDS: u64 = 4096;

/// What is read to find the first turn.
const PIN_RECORDS: u64 = 32;

const PIN_BYTES: u64 = 64 << 10;

/// How many turns are completed that went on after others, and what is read to find where each of them began.
const BEGINNINGS: usize = 4;

const BEGINNING_RECORDS: u64 = 64;

/// Of all of them: what a window has room for says nothing of what stands between the records of a turn.
const BEGINNING_BYTES: u64 = 1 << 20;

/// What is to be read.
pub(crate) struct ReadPlan<'a, H> {
    pub context: &'a Context<H>,
    pub options: &'a Options,
    pub question: &'a ConversationQuestion<'a>,
    /// The key of the message of which the place is wanted: of the one that the question follows or, if it follows none, of the
    /// question's own, which may be stored already.
    pub marked: Option<&'a str>,
    /// What is to be looked up.
    pub recall: Option<&'a search::RecallQuery>,
    /// Whether the session has an id that is not its name, which it is to keep.
    pub has_id: bool,
}

/// What was read in the first transaction.
#[derive(Default)]
pub(crate) struct QuestionSnapshot {
    pub generation: String,
    /// The session's, if that is another bucket.
    pub session_life: Option<String>,
    pub values: EntriesOutcome,
    pub head: Option<String>,
    pub total: u64,
    pub summary: Option<String>,
    pub owner: Option<String>,
    /// A title is due: there is none, or one that is still to be refined; unless that was tried.
    pub wants_title: bool,
    pub settings: TranscriptSettings,
    /// For the trace.
    pub omissions: OmissionCounts,
    pub user: registry::UserSnapshot,
    pub branches: Branches,
    pub newest: LogRun,
    /// Where the message is that the question follows.
    pub parent: Option<u64>,
    /// Where the question's own message is, if it was asked before.
    pub asked: Option<u64>,
    pub oldest: Option<LogRun>,
    pub recall: Option<search::RecallSnapshot>,
    /// Whether the session's id is still to be kept with it.
    pub lacks_id: bool,
}

/// Reads what the window may need, in one wait. None: the session is another user's.
pub(crate) fn load_snapshot(plan: &ReadPlan<'_, impl Host>) -> Result<Option<QuestionSnapshot>, Box<Problem>> {
    let ReadPlan { context, question, recall, .. } = plan;
    let (session, user, only_looks) = (question.session, question.user.as_deref(), question.only_looks());
    let (bucket, precondition) = (question.bucket(), plan.precondition());
    let of_user = plan.recalls_of_user();
    let once = plan.session_keys();
    let operations = plan.operations(&once);
    // A node has its session's owner. That is opened, too, so that the node can be registered in it.
    let is_node = bucket.kind != kind::SESSION;
    let owned = user.map(registry::expect_owner);
    let expectations = owned.as_slice();
    let search = recall.map(search::RecallQuery::search_step);
    let steps = |is_searched: bool| if is_searched { search.as_slice() } else { &[] };
    let transaction = Transaction { bucket, precondition, expectations, operations: &operations };
    let mut transactions = vec![IndexedTransaction { lease: None, transaction, steps: steps(!of_user) }];
    let checked = [[OWNER].as_slice(), plan.id_key()].concat();
    let check = [Operation::get_some(SESSION, &checked, 4096)];
    if is_node {
        let precondition = if only_looks { Precondition::LOOK } else { context.config.create() };
        let bucket = BucketId::session(session);
        transactions.push(Transaction { bucket, precondition, expectations, operations: &check }.into());
    }
    let config::Config { max_keys, max_context_bytes, .. } = context.config;
    let mut reads = registry::user_read_operations(max_keys, max_context_bytes).to_vec();
    if let Some(query) = recall.filter(|_| of_user) {
        query.push_operations(&mut reads);
    }
    if let Some(name) = user {
        let (bucket, precondition) =
            (registry::user_bucket(name), if only_looks { Precondition::LOOK } else { Precondition::ANY });
        let transaction = Transaction { bucket, precondition, expectations: &[], operations: &reads };
        transactions.push(IndexedTransaction { lease: None, transaction, steps: steps(of_user) });
    }
    let mut receipts = match &*transactions {
        [one] => vec![store::transact_indexed(&context.host, one)],
        several => store::transact_each(&context.host, several),
    }
    .into_iter();
    let mut next = || receipts.next().unwrap_or_else(|| Err(Problem::out_of_turn()));
    let reply = next()?;
    let receipt = &reply.receipt;
    let of_session = if is_node { Some(next()?.receipt) } else { None };
    if receipt.status == Status::Unmet || of_session.as_ref().is_some_and(|of| of.status == Status::Unmet) {
        return Ok(None);
    }
    let (user, recalled) = match user {
        Some(_) => {
            next().and_then(|receipt| plan.user_snapshot(receipt, &reads, steps(of_user))).unwrap_or_else(|failure| {
                let what = ["No values of the user for a question of session ", session, ": ", &failure.message];
                log::warn(&context.host, log::STORE, &what);
                (registry::UserSnapshot::default(), None)
            })
        }
        None => (registry::UserSnapshot::default(), None),
    };
    if !receipt.is_applied() || of_session.as_ref().is_some_and(|of| !of.is_applied()) {
        // A session that is still to come can ask what its user has said.
        if only_looks && of_user && receipt.status == Status::Absent {
            return Ok(Some(QuestionSnapshot { user, recall: recalled, ..QuestionSnapshot::default() }));
        }
        let missing = || Problem::new(codes::OTHER, "", "There is no such session, or it has no such node");
        return Err(if only_looks { missing() } else { Problem::out_of_turn() });
    }
    let mut snapshot = plan.snapshot(reply, of_session)?;
    snapshot.user = user;
    snapshot.recall = recalled.or(snapshot.recall);
    Ok(Some(snapshot))
}

impl<H: Host> ReadPlan<'_, H> {
    fn precondition(&self) -> Precondition<'static> {
        match self.question.node {
            _ if self.question.only_looks() => Precondition::LOOK,
            Some(_) => directives::node_precondition(self.options),
            None => self.context.config.create(),
        }
    }

    /// Whether recall looks among all that the user's sessions have.
    fn recalls_of_user(&self) -> bool {
        self.question.user.is_some() && self.recall.is_some_and(|query| query.is_of_user)
    }

    /// The key of the session's id, if it is to be kept.
    fn id_key(&self) -> &'static [&'static str] {
        if self.has_id { &[SESSION_ID_KEY] } else { &[] }
    }

    fn session_keys(&self) -> Vec<&'static str> {
        let counters = if self.question.is_traced { COUNTERS.as_slice() } else { &[] };
        [ONCE.as_slice(), counters, self.id_key()].concat()
    }

    /// What is read of the transcript's bucket; `snapshot` reads the outcomes in this order.
    fn operations<'a>(&'a self, once: &'a [&'a str]) -> Vec<Operation<'a>> {
        let config::Config { max_keys, max_context_bytes, .. } = self.context.config;
        let (options, budget) = (self.options, self.question.budget(self.options));
        let mut operations = vec![
            Operation::get_all(VALUES, max_keys, max_context_bytes),
            Operation::get_some(SESSION, once, SESSION_BYTES),
            Operation::get_all(BRANCHES, BRANCHES_MAX, BRANCHES_BYTES),
            Operation::read(TRANSCRIPT, LogEnd::Newest, records_of(options, budget), bytes_of(budget)),
        ];
        operations.extend(self.marked.as_ref().map(|key| Operation::get(MESSAGES, key, 32)));
        if options.pin_first_turn {
            let end = LogEnd::Oldest;
            operations.push(Operation::read(TRANSCRIPT, end, PIN_RECORDS, PIN_BYTES));
        }
        if let Some(query) = self.recall.filter(|_| !self.recalls_of_user()) {
            query.push_operations(&mut operations);
        }
        operations
    }

    fn user_snapshot(
        &self,
        mut receipt: IndexedReceipt,
        reads: &[Operation<'_>],
        steps: &[IndexStep<'_>],
    ) -> Result<(registry::UserSnapshot, Option<search::RecallSnapshot>), Box<Problem>> {
        let of_user = self.recalls_of_user();
        if of_user && self.question.directives.recalls_session {
            session_filter::keep_only_session(self.question.session, reads, steps, &mut receipt);
        }
        let (seen, rest) = registry::UserSnapshot::of(receipt)?;
        let found = match (rest, self.recall) {
            (Some(mut rest), Some(query)) if of_user => Some(search::RecallSnapshot::of(query, &mut rest)?),
            _ => None,
        };
        Ok((seen, found))
    }

    /// What the outcomes of `operations` say; `of_session`: what the session says of a node.
    fn snapshot(&self, reply: IndexedReceipt, of_session: Option<Receipt>) -> Result<QuestionSnapshot, Box<Problem>> {
        let mut outcomes = Outcomes::of_indexed(reply);
        let mut snapshot = QuestionSnapshot { generation: outcomes.generation.clone(), ..QuestionSnapshot::default() };
        snapshot.values = outcomes.take_entries()?;
        let mut once = outcomes.take_entries_by_key()?;
        match of_session {
            Some(receipt) => {
                snapshot.session_life = Some(receipt.named_generation().to_owned());
                let mut of_session = Outcomes::of(receipt).take_entries_by_key()?;
                snapshot.owner = of_session.take(OWNER);
                snapshot.lacks_id = self.has_id && of_session.take(SESSION_ID_KEY).is_none();
            }
            None => {
                snapshot.owner = once.take(OWNER);
                snapshot.lacks_id = self.has_id && once.take(SESSION_ID_KEY).is_none();
            }
        }
        snapshot.head = once.take(HEAD);
        snapshot.total = once.take(TOTAL).as_deref().and_then(parse_count).unwrap_or(0);
        snapshot.summary = once.take(SUMMARY);
        snapshot.settings = once.take(SETTINGS).map(|text| TranscriptSettings::parse(&text)).unwrap_or_default();
        let title = once.take(TITLE);
        snapshot.wants_title = once.take(UNTITLED).map_or(title.is_none(), |untitled| untitled != title::SETTLED);
        if self.question.is_traced {
            snapshot.omissions = take_counts(&mut once);
        }
        snapshot.branches = Branches::of(&outcomes.take_readable_entries()?);
        snapshot.newest = outcomes.take_records()?;
        if self.marked.is_some() {
            let extent = snapshot.newest.extent;
            let marked = outcomes.take_text()?.as_deref().and_then(parse_count);
            let position = marked.filter(|at| (extent.first..extent.next()).contains(at));
            *(if self.question.parent.is_some() { &mut snapshot.parent } else { &mut snapshot.asked }) = position;
        }
        if self.options.pin_first_turn {
            snapshot.oldest = Some(outcomes.take_records()?);
        }
        if let Some(query) = self.recall.filter(|_| !self.recalls_of_user()) {
            snapshot.recall = Some(search::RecallSnapshot::of(query, &mut outcomes)?);
        }
        Ok(snapshot)
    }

    /// Reads more of the transcript where the session's budget is more than it was read for.
    pub(crate) fn widen_snapshot(&self, seen: &mut QuestionSnapshot, budget: u64) -> Result<(), Box<Problem>> {
        let LogRun { extent, records, .. } = &seen.newest;
        if budget <= self.question.budget(self.options) || records.len() as u64 >= extent.length {
            return Ok(());
        }
        let (max_records, max_bytes) = (records_of(self.options, budget), bytes_of(budget));
        let read = Operation::read(TRANSCRIPT, LogEnd::Newest, max_records, max_bytes);
        let (bucket, precondition) = (self.question.bucket(), Precondition::life(&seen.generation));
        let found = store::read_bucket(&self.context.host, bucket, precondition, &[read])?;
        if let Some(mut outcomes) = found {
            let extent = *extent;
            let mut newest = outcomes.take_records()?;
            // What was written meanwhile is not what the rest was read with.
            newest.records.truncate(usize::try_from(extent.next().saturating_sub(newest.first)).unwrap_or(usize::MAX));
            seen.newest = LogRun { extent, ..newest };
        }
        Ok(())
    }
}

/// Read the oldest records that weigh so much.
pub(crate) fn read_oldest(
    context: &Context<impl Host>,
    bucket: BucketId<'_>,
    generation: &str,
    tokens: u64,
) -> Result<LogRun, Box<Problem>> {
    // Calls of tools are short, and what is around them is not; and there may be other answers among them.
    let (end, max_records, max_bytes) = (LogEnd::Oldest, STEP_RECORDS, (bytes_of(tokens) * 8).min(READ_BYTES));
    let read = Operation::read(TRANSCRIPT, end, max_records, max_bytes);
    let found = store::read_bucket(&context.host, bucket, Precondition::life(generation), &[read])?;
    found.ok_or_else(Problem::out_of_turn)?.take_records()
}

/// Read where turns began that went on among these, and are not whole: the newest of them.
pub(crate) fn fetch_beginnings(
    context: &Context<impl Host>,
    seen: &QuestionSnapshot,
    bucket: BucketId<'_>,
    turns: &[Turn<'_, '_>],
) -> Result<Vec<LogRun>, Box<Problem>> {
    let first = seen.newest.extent.first;
    let begins = turns.iter().skip(1).rev().filter(|turn| !turn.is_whole);
    // Others may have written between the question and the step with it.
    let span = |turn: &Turn<'_, '_>| {
        let position = begins_about(turn.id)?.max(first);
        let count = turn.first.checked_sub(position)?.min(BEGINNING_RECORDS);
        (count > 0).then_some(Span { position, count: u32::try_from(count).unwrap_or(0) })
    };
    let spans: Vec<Span> = begins.filter_map(span).take(BEGINNINGS).collect();
    if spans.is_empty() {
        return Ok(Vec::new());
    }
    let mut runs = seen.read_spans(context, bucket, &spans, BEGINNING_BYTES)?;
    // What is missing of one that was cut short may hold more of its turn.
    LogRun::keep_whole(&mut runs, &spans);
    Ok(runs)
}

/// Reads what of an old branch was not among the newest records: what its `thread` lacks up to the budget. With a budget of 0,
/// reads on until a turn can be shown from its beginning.
pub(crate) fn fetch_branch(
    context: &Context<impl Host>,
    seen: &QuestionSnapshot,
    bucket: BucketId<'_>,
    thread: &ConversationThread<'_>,
    budget: u64,
) -> Result<Vec<LogRun>, Box<Problem>> {
    let left = budget.saturating_sub(thread.weight());
    // What was read of a thread that is all of the newest records was enough for the budget.
    let is_plain = thread.count() == seen.newest.records.len() as u64;
    let is_wanted = if left > 0 { !is_plain } else { !thread.has_whole_turn() };
    let Some(missing) = thread.missing.filter(|_| is_wanted) else { return Ok(Vec::new()) };
    let (max_records, max_bytes) = if left > 0 { (SPAN_RECORDS, bytes_of(left)) } else { (STEP_RECORDS, READ_BYTES) };
    let spans = seen.branches.newest_spans(missing, seen.newest.extent.first, max_records);
    seen.read_spans(context, bucket, &spans, max_bytes)
}

impl QuestionSnapshot {
    /// Stretches of the transcript. None of them: its life has ended.
    fn read_spans(
        &self,
        context: &Context<impl Host>,
        bucket: BucketId<'_>,
        spans: &[Span],
        max_bytes: u64,
    ) -> Result<Vec<LogRun>, Box<Problem>> {
        let read = [Operation::read_at(TRANSCRIPT, spans, max_bytes)];
        let found = store::read_bucket(&context.host, bucket, Precondition::life(&self.generation), &read)?;
        found.map_or(Ok(Vec::new()), |mut outcomes| outcomes.take_spans())
    }

    pub(crate) fn is_head(&self, parent: Option<&str>) -> bool {
        parent.is_some_and(|parent| self.head.as_deref() == Some(&*to_map_key(parent)))
    }

    /// The summary, if it is of the thread that ends there.
    pub(crate) fn summary_of(&self, target: Option<u64>) -> Option<ThreadSummary<'_>> {
        ThreadSummary::of_thread(self.summary.as_deref()?, &self.branches, target?)
    }

    /// The record that the question follows: its parent's, unless that is the newest message or unknown.
    pub(crate) fn resolve_target(&self, parent_at: Option<u64>, parent: Option<&str>) -> Option<u64> {
        let newest = self.newest.extent.next().checked_sub(1).filter(|_| self.newest.extent.length > 0);
        let is_head = parent.is_some() && parent == self.head.as_deref();
        parent_at.filter(|_| !is_head).or(newest)
    }
}

/// Records of an old branch that are read at most.
const SPAN_RECORDS: u64 = 2048;

/// Records that a window of so many messages may consist of, with those of tools.
fn records_of(options: &Options, budget: u64) -> u64 {
    (options.message_limit * 4).min(budget / tokens::MESSAGE_TOKENS).clamp(16, 10_000)
}

/// Bytes of the records that make up a window: texts, and what is around them.
fn bytes_of(budget: u64) -> u64 {
    (budget * 7 + (8 << 10)).min(READ_BYTES)
}
