//! Resolves the thread that a question follows: which records lead to it, as many as the window may need.

use std::cell::OnceCell;

use crate::context::Context;
use crate::contract::{BucketId, Host, LogRun, Problem};
use crate::entry::turn_token::ForkPoint;
use crate::log;
use crate::question::ConversationQuestion;
use crate::question::load::{QuestionSnapshot, fetch_beginnings, fetch_branch};
use crate::transcript::record::StoredRecord;
use crate::transcript::thread::{ConversationThread, ReadRecords};
use crate::transcript::turns::{Turn, group_into_turns};
use crate::window::compose::parse_readable;

/// Runs of records that were fetched on the way to a thread, which borrows them.
#[derive(Default)]
pub(crate) struct FetchedRuns {
    /// Two for each of the threads that one question may look at.
    fetches: [OnceCell<Vec<LogRun>>; 6],
}

impl FetchedRuns {
    fn keep(&self, runs: Vec<LogRun>) -> &[LogRun] {
        let free = self.fetches.iter().find(|fetch| fetch.get().is_none());
        free.map_or(&[], |fetch| fetch.get_or_init(|| runs))
    }
}

/// The thread that a question follows.
pub(crate) struct ResolvedThread<'a> {
    pub thread: ConversationThread<'a>,
    /// The position of the record that the question follows; none: it is the first.
    pub target: Option<u64>,
    /// What the thread weighs.
    pub total: u64,
    /// Whether the message is known that the question names as the one before it, or it is the newest.
    pub is_parent_known: bool,
    /// Where the question goes if it does not follow the newest record.
    pub fork: Option<ForkPoint>,
}

/// Reads threads of the records that a question has read so far.
struct ThreadReader<'a, 'c, H> {
    context: &'c Context<H>,
    seen: &'a QuestionSnapshot,
    bucket: BucketId<'c>,
    fetched: &'a FetchedRuns,
    read: ReadRecords<'a>,
    /// Of the window; the thread weighs `enough`, or is whole.
    budget: u64,
    enough: u64,
}

impl<'a, H: Host> ThreadReader<'a, '_, H> {
    /// The thread that ends at `target`, of what was read.
    fn known(&self, target: Option<u64>) -> ConversationThread<'a> {
        ConversationThread::newest_of(&self.read, &self.seen.branches, target, self.enough)
    }

    /// The same with what is fetched for it: one more wait where it lies further back, and one where not even one turn of it was
    /// read whole.
    fn fetch(&mut self, mut thread: ConversationThread<'a>) -> Result<ConversationThread<'a>, Box<Problem>> {
        for budget in [self.budget, 0] {
            let runs = fetch_branch(self.context, self.seen, self.bucket, &thread, budget)?;
            if !runs.is_empty() {
                thread.extend_with(self.fetched.keep(runs), &mut self.read, &self.seen.branches, self.enough);
            }
        }
        Ok(thread)
    }
}

/// Finds the thread in what was read, and fetches what is missing of it: one more wait where an old branch lies further back, where
/// not even the newest turn was read whole, or a question is asked once more. It weighs `enough`, or is whole.
pub(crate) fn resolve_thread<'a>(
    context: &Context<impl Host>,
    question: &ConversationQuestion<'_>,
    seen: &'a QuestionSnapshot,
    fetched: &'a FetchedRuns,
    budget: u64,
    enough: u64,
) -> Result<ResolvedThread<'a>, Box<Problem>> {
    let bucket = question.bucket();
    let (parent, id) = (question.parent.as_deref(), question.id.as_deref());
    let mut reader = ThreadReader { context, seen, bucket, fetched, read: ReadRecords::default(), budget, enough };
    reader.read.add(&seen.newest);
    let mut parent_at = seen.parent;
    let mut target = seen.resolve_target(parent_at, parent);
    let mut thread = reader.known(target);
    // One more answer to a question does not see the others.
    let mut asked =
        seen.asked.filter(|_| find_continued_turn(&group_into_turns(&thread.records(), 0), [None, id]).is_none());
    if asked.is_some() {
        thread = reader.known(asked);
    }
    thread = reader.fetch(thread)?;
    // An id may be from a time when no transcript was kept: what stands there now is another message.
    let named = asked.or(parent_at).zip(parent.or(id));
    if named.is_some_and(|(position, id)| !thread.ends_with(position, id)) {
        (parent_at, asked) = (None, None);
        target = seen.resolve_target(None, None);
        thread = reader.fetch(reader.known(target))?;
    }
    if let Some(asked) = asked {
        target = reader.read.before_question(&seen.branches, asked);
        // All that was read may be of the question's own turn.
        thread = reader.fetch(reader.known(target))?;
    }
    if thread.unreadable > 0 {
        let count = thread.unreadable.to_string();
        let what = ["Passed over ", &count, " records of the transcript of ", bucket.name, " that can't be read"];
        log::warn(&context.host, log::VALUE, &what);
    }
    let next = seen.newest.extent.next();
    let is_newest = target == next.checked_sub(1);
    let total = if is_newest { seen.total.max(thread.total_weight()) } else { thread.total_weight() };
    let fork = target.filter(|_| !is_newest).map(|after| ForkPoint { after, total, next });
    let is_parent_known =
        target.is_some() && (parent_at.is_some() || seen.is_head(question.directives.parent.as_deref()));
    Ok(ResolvedThread { thread, target, total, is_parent_known, fork })
}

impl ResolvedThread<'_> {
    /// Of turns that went on after others, the beginning may lie before what was read: the runs that hold some of those.
    pub(crate) fn fetch_beginnings(
        &self,
        context: &Context<impl Host>,
        question: &ConversationQuestion<'_>,
        seen: &QuestionSnapshot,
        turns: &[Turn<'_, '_>],
    ) -> Result<Vec<LogRun>, Box<Problem>> {
        match self.thread.older {
            Some(_) => fetch_beginnings(context, seen, question.bucket(), turns),
            None => Ok(Vec::new()),
        }
    }
}

/// The records of runs that can be read.
pub(crate) fn records_of_runs(runs: &[LogRun]) -> Vec<(u64, StoredRecord<'_>)> {
    runs.iter().flat_map(parse_readable).collect()
}

/// Complete turns with the records before those that were read.
pub(crate) fn complete_turns<'r, 'a>(
    turns: &mut [Turn<'r, 'a>],
    earlier: &'r [(u64, StoredRecord<'a>)],
    seen: &QuestionSnapshot,
    target: Option<u64>,
) {
    for turn in turns.iter_mut().skip(1).filter(|turn| !turn.is_whole && !earlier.is_empty()) {
        let is_of = |(at, record): &&(u64, StoredRecord<'_>)| {
            record.turn == turn.id && target.is_some_and(|target| seen.branches.is_on_thread(target, *at))
        };
        let own: Vec<_> = earlier.iter().filter(is_of).map(|(at, record)| (*at, record)).collect();
        *turn = turn.with_earlier(&own);
    }
}

/// The open turn that a question continues: that of the message which it names as the one before it, or as itself.
pub(crate) fn find_continued_turn<'t, 'r, 'a>(
    turns: &'t [Turn<'r, 'a>],
    named: [Option<&str>; 2],
) -> Option<(usize, &'t Turn<'r, 'a>)> {
    let has = |turn: &Turn<'_, '_>| named.iter().flatten().any(|id| turn.has_message(id));
    turns.iter().enumerate().rev().find(|(_, turn)| turn.is_open() && has(turn))
}
