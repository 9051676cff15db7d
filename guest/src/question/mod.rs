//! Answers a question of a conversation: reads what is stored, and attaches window, summary and recall.
//!
//! Costs one wait for the store, bounded by the window and not by the conversation; recall takes a second one, and so does a branch
//! that lies further back than what was read. Records that can't be read are skipped with a warning. A question about a session of
//! another user gets nothing.

pub(crate) mod load;
pub(crate) mod thread;

use keepline_json as json;
use keepline_options::bucket_names::user_bucket_name;
use keepline_options::words::Recall;
use std::borrow::Cow;

use crate::context::Context;
use crate::contract::{BucketId, Host, Problem};
use crate::entry::directives::{Directives, INVALID_USER_ID, NO_NODE};
use crate::entry::metadata::EntryMetadata;
use crate::entry::turn_token::TurnToken;
use crate::entry::types::{Effect, QuestionEntry, QuestionReply};
use crate::entry::{directives, turn_token};
use crate::log;
use crate::options::conversation::Options;
use crate::question::load::{QuestionSnapshot, ReadPlan, load_snapshot, read_oldest};
use crate::question::thread::{
    FetchedRuns, ResolvedThread, complete_turns, find_continued_turn, records_of_runs, resolve_thread,
};
use crate::recall::passage::oldest_at;
use crate::recall::search::{RecallQuery, RecallScope, RecallSnapshot, search_passages};
use crate::text::ids::to_map_key;
use crate::text::json_values::push_member;
use crate::transcript::schema::is_conversation_failure;
use crate::transcript::summary::ThreadSummary;
use crate::transcript::turn_id::{fallback_message_key, new_turn_id};
use crate::transcript::turns::{Turn, group_into_turns, move_turn_to_end};
use crate::users::registry;
use crate::values::attach::{attach_values, open_and_attach};
use crate::values::session_id::keep_session_id;
use crate::window::compose::{ComposedWindow, FirstTurn, OldestRecords, TraceInput, WindowInput};
use crate::window::render;

/// A question of a conversation, and what its metadata say.
pub(crate) struct ConversationQuestion<'q> {
    pub session: &'q str,
    pub entry: &'q QuestionEntry<'q>,
    pub directives: &'q Directives<'q>,
    /// The bucket of the node, if it is not about the session's transcript.
    pub node: Option<Cow<'static, str>>,
    /// The key of the question's message.
    pub id: Option<Cow<'q, str>>,
    /// The key of the message that it follows.
    pub parent: Option<Cow<'q, str>>,
    /// The name of the user's bucket.
    pub user: Option<Cow<'q, str>>,
    /// Whether a trace is attached.
    pub is_traced: bool,
}

impl<'q> ConversationQuestion<'q> {
    fn new(
        session: &'q str,
        entry: &'q QuestionEntry<'q>,
        directives: &'q Directives<'q>,
        metadata: &'q EntryMetadata<'_>,
        node: Option<Cow<'static, str>>,
    ) -> Self {
        let id = entry.message_id.filter(|id| !id.is_empty()).or(metadata.message_id.as_deref()).map(to_map_key);
        let parent = directives.parent.as_deref().map(to_map_key);
        let user = directives.user_id.as_deref().map(user_bucket_name);
        Self { session, entry, directives, node, id, parent, user, is_traced: false }
    }

    pub(crate) fn bucket(&self) -> BucketId<'_> {
        directives::transcript_bucket(self.session, self.node.as_deref())
    }

    /// Whether buckets are found as they are, and left so.
    fn only_looks(&self) -> bool {
        self.directives.only_looks == Some(true)
    }

    /// The tokens that it gets at most, as far as that is known without the session's settings.
    fn budget(&self, options: &Options) -> u64 {
        options.budget_of(&[&self.directives.settings])
    }

    /// What recall looks for. None: nothing.
    fn recall_query(&self, context: &Context<impl Host>, options: &Options) -> Option<RecallQuery> {
        let said = self.directives;
        let is_recalled =
            said.is_read != Some(false) && said.recalls != Some(false) && context.host.store_profile().indexes;
        let is_of_user = options.recall == Recall::User && self.user.is_some() && self.node.is_none();
        let session = is_of_user.then_some(self.session);
        let now = || context.host.now_micros() / 1000;
        RecallQuery::for_question(options, self.entry, session, said, now).filter(|_| is_recalled)
    }

    /// What its answers are told by what its metadata say, whatever is stored.
    fn token(&self, turn: String) -> TurnToken<'_> {
        let is_unwritten = self.directives.is_written == Some(false);
        let listed = |id: &'q Option<Cow<'_, str>>| {
            registry::listable_id(id.as_deref().filter(|_| self.node.is_some())).map(Into::into)
        };
        let id = self.id.as_deref();
        TurnToken {
            session: self.session.into(),
            node: self.node.as_deref().map(Into::into),
            question: id.map_or_else(|| fallback_message_key(&turn).into(), Into::into),
            turn: turn.into(),
            is_named: id.is_some(),
            is_unwritten,
            has_text: !self.entry.text.trim().is_empty(),
            files: directives::file_references(self.directives.files.as_deref()).filter(|_| !is_unwritten),
            user: self.user.as_deref().map(Into::into),
            app_id: listed(&self.directives.app_id),
            node_id: listed(&self.directives.node_id),
            ..TurnToken::default()
        }
    }

    /// The same with what was read.
    fn token_of(
        &self,
        options: &Options,
        seen: &QuestionSnapshot,
        user: &registry::UserSnapshot,
        resolved: &ResolvedThread<'_>,
        turn: String,
    ) -> TurnToken<'_> {
        TurnToken {
            generation: seen.generation.clone().into(),
            parent: self.parent.as_deref().filter(|_| resolved.is_parent_known).map(Into::into),
            fork: resolved.fork,
            total: resolved.total,
            session_life: seen.session_life.clone().filter(|life| !life.is_empty()).map(Into::into),
            is_owned: self.user.is_some() && seen.owner.as_deref() == self.user.as_deref(),
            is_new: seen.newest.extent.next() == 0,
            wants_title: seen.wants_title,
            is_latest: user.latest.as_deref() == Some(self.session),
            summarized: seen.summary_of(resolved.target).map_or(0, |summary| summary.total),
            budget: Some(options.budget_of(&[&seen.settings])).filter(|budget| *budget != options.budget()),
            forgotten: user.forgotten.clone().map(Into::into),
            ..self.token(turn)
        }
    }
}

/// A question of a session.
pub(crate) fn enrich_question(
    context: &Context<impl Host>,
    options: &Options,
    session: &str,
    entry: &QuestionEntry<'_>,
    metadata: &EntryMetadata<'_>,
    reply: &mut QuestionReply,
) -> Result<(), Box<Problem>> {
    // What is searched for, and quoted, is what was said.
    let spoken = json::spoken_text(entry.text);
    let entry = &QuestionEntry { text: &spoken, ..*entry };
    let said = &*metadata.directives();
    said.warn_ignored_members(&context.host, session);
    let Some(node) = resolve_question_node(context, options, session, said, reply) else { return Ok(()) };
    let mut question = ConversationQuestion::new(session, entry, said, metadata, node);
    // A trace says why turns are left out, so it needs all that were read, and what was not stored.
    question.is_traced = options.memory_trace || question.only_looks();
    let question = &question;

    let recall = question.recall_query(context, options);
    let (marked, has_id) = (question.parent.as_deref().or(question.id.as_deref()), metadata.session_id.is_some());
    let plan = ReadPlan { context, options, question, marked, recall: recall.as_ref(), has_id };
    let Some(mut seen) = read_snapshot(&plan, metadata, reply)? else { return Ok(()) };
    if seen.lacks_id && !question.only_looks() {
        keep_session_id(context, metadata);
    }
    let budget = options.budget_of(&[&seen.settings, &said.settings]);
    plan.widen_snapshot(&mut seen, budget)?;
    let (mut values, user) = (std::mem::take(&mut seen.values), std::mem::take(&mut seen.user));
    let candidates = seen.recall.take();
    let seen = &seen;

    let turn = new_turn_id(context.host.now_micros(), seen.newest.extent.next(), entry.text);
    let fetched = FetchedRuns::default();
    let enough = if question.is_traced { u64::MAX } else { budget };
    let resolved = resolve_thread(context, question, seen, &fetched, budget, enough)?;
    let mut token = question.token_of(options, seen, &user, &resolved, turn);
    token.vector =
        recall.as_ref().and_then(RecallQuery::kept_embedding).filter(|_| !token.is_unwritten).map(Into::into);
    let records = resolved.thread.records();
    let mut turns = group_into_turns(&records, resolved.total);
    let runs = resolved.fetch_beginnings(context, question, seen, &turns)?;
    let earlier = records_of_runs(&runs);
    complete_turns(&mut turns, &earlier, seen, resolved.target);
    let id = question.id.as_deref();
    if let Some((index, open)) = find_continued_turn(&turns, [token.parent.as_deref(), id]) {
        token.open = Some(open.id.to_owned().into());
        token.is_asked = id.is_some_and(|id| open.has_message(id));
        move_turn_to_end(&mut turns, index, resolved.total);
    }
    let has_room;
    (reply.turn, has_room) = token.write();
    if !has_room {
        let what = ["Files of a question of session ", session, " not remembered: their references are too long"];
        log::warn(&context.host, log::LIMIT, &what);
    }
    if said.is_read == Some(false) {
        return Ok(());
    }

    if !user.merge_into(&mut values, context.config.max_keys, context.config.max_context_bytes) {
        let what = ["Values of the user left out of a question of session ", session, ": over a limit"];
        log::warn(&context.host, log::LIMIT, &what);
    }
    attach_values(context, question.bucket(), &seen.generation, metadata, values, reply)?;
    let loaded = LoadedQuestion { context, options, question, seen, resolved: &resolved, budget };
    let ComposedWindow { mut members, shown, tokens } = if said.has_window == Some(false) {
        // So whatever was said may be recalled.
        ComposedWindow::default()
    } else {
        compose_window(&loaded, &turns, token.open.as_deref(), reply)?
    };
    if let Some(model) = said.settings.model.as_ref().or(seen.settings.model.as_ref()) {
        push_member(&mut members, "memory_model", &render::to_json_string(model));
    }
    if let Some((query, candidates)) = recall.as_ref().zip(candidates)
        && let Some(recalled) = recalled(&loaded, query, candidates, (shown, tokens))
    {
        push_member(&mut members, "memory_recall", &recalled);
    }
    if !members.is_empty() {
        reply.metadata = Some(metadata.extended(reply.metadata.take(), &members));
        reply.effect = Effect::Enriched;
    }
    Ok(())
}

/// The node that a question is about, or none for the session's transcript. `None`: the question gets no memory, and the reply
/// says why.
fn resolve_question_node(
    context: &Context<impl Host>,
    options: &Options,
    session: &str,
    said: &Directives<'_>,
    reply: &mut QuestionReply,
) -> Option<Option<Cow<'static, str>>> {
    if said.is_user_bad {
        log::warn(&context.host, log::SESSION, &["No memory for a question of session ", session, INVALID_USER_ID]);
        // Nor is anything stored that answers it.
        (reply.effect, reply.turn) = (Effect::Ignored, turn_token::foreign_token(session));
        reply.problem = Some(directives::invalid_user_problem());
        return None;
    }
    let Ok(node) = said.resolve_node(options, session) else {
        let message = directives::node_missing_message(session);
        log::warn(&context.host, log::SESSION, &[&message]);
        reply.effect = if options.require_node { Effect::Failed } else { Effect::Passed };
        reply.problem = options.require_node.then_some(Problem::new(NO_NODE, "node_id", message));
        return None;
    };
    Some(node)
}

/// Read what the question needs. None: the reply is complete without it.
fn read_snapshot(
    plan: &ReadPlan<'_, impl Host>,
    metadata: &EntryMetadata<'_>,
    reply: &mut QuestionReply,
) -> Result<Option<QuestionSnapshot>, Box<Problem>> {
    let ReadPlan { context, question, .. } = plan;
    let session = question.session;
    match load_snapshot(plan) {
        Ok(Some(seen)) => Ok(Some(seen)),
        Ok(None) => {
            let what = ["No memory for a question: session ", session, " belongs to another user"];
            log::warn(&context.host, log::SESSION, &what);
            (reply.effect, reply.turn) = (Effect::Foreign, turn_token::foreign_token(session));
            Ok(None)
        }
        // What is broken is left as it is; the rest of the memory needs nothing of it.
        Err(failure) if is_conversation_failure(&failure) && question.node.is_none() => {
            let what = ["No conversation for a question of session ", session, ": ", &failure.message];
            log::warn(&context.host, log::VALUE, &what);
            let mut named = metadata.clone();
            named.session_id = None;
            open_and_attach(context, session, &named, reply)?;
            reply.problem.get_or_insert_with(|| failure.clone());
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

/// A question with what was read for it and the thread that it goes on with.
struct LoadedQuestion<'a, H> {
    context: &'a Context<H>,
    options: &'a Options,
    question: &'a ConversationQuestion<'a>,
    seen: &'a QuestionSnapshot,
    resolved: &'a ResolvedThread<'a>,
    budget: u64,
}

/// The window, with the first turn before it and the summary if they are wanted.
fn compose_window(
    loaded: &LoadedQuestion<'_, impl Host>,
    turns: &[Turn<'_, '_>],
    continued: Option<&str>,
    reply: &mut QuestionReply,
) -> Result<ComposedWindow, Box<Problem>> {
    let LoadedQuestion { context, options, question, seen, resolved, budget } = *loaded;
    let session = question.session;
    let summary = seen.summary.as_deref().zip(resolved.target);
    let summary = summary.and_then(|(entry, target)| ThreadSummary::of_thread(entry, &seen.branches, target));
    let summary =
        summary.filter(|summary| !resolved.thread.is_empty() && render::summary_weight(&summary.text) <= budget / 2);
    let first_of = |oldest| match resolved.target {
        Some(target) => FirstTurn::from_oldest(oldest, &seen.branches, target, turns, budget),
        None => FirstTurn::None,
    };
    let (oldest, more, of_more);
    oldest = seen.oldest.as_ref().map(OldestRecords::of);
    let mut first_turn = oldest.as_ref().map_or(FirstTurn::None, first_of);
    if matches!(first_turn, FirstTurn::Cut) {
        more = read_oldest(context, question.bucket(), &seen.generation, budget / 4)?;
        of_more = OldestRecords::of(&more);
        first_turn = first_of(&of_more);
    }
    let unpinned = first_turn.unpinned();
    if let Some(why) = unpinned {
        let what = ["First turn of session ", session, " not shown before the window: it is ", why];
        log::warn(&context.host, log::LIMIT, &what);
    }
    let trace = TraceInput { budget, unreadable: resolved.thread.unreadable, omissions: &seen.omissions, unpinned };
    let input = WindowInput {
        turns,
        total: resolved.total,
        older: resolved.thread.older,
        continued,
        pinned: if let FirstTurn::Whole(turn) = first_turn { Some(turn) } else { None },
        summary: summary.as_ref(),
        query: question.entry.text,
        told: question.is_traced.then_some(trace),
    };
    let (composed, left_out) = input.compose_fitting(options, budget);
    for what in left_out {
        let most = options.max_window_bytes;
        let message = format!("The {what} left out of a question of session {session}: over max_window_bytes ({most})");
        log::warn(&context.host, log::LIMIT, &[&message]);
        reply.problem.get_or_insert_with(|| Problem::limit("max_window_bytes", most, message));
    }
    Ok(composed)
}

/// What is recalled beside a window that shows these positions, of so many tokens. A failure is logged, and no reason to fail.
fn recalled(
    loaded: &LoadedQuestion<'_, impl Host>,
    query: &RecallQuery,
    candidates: RecallSnapshot,
    (shown, shown_tokens): (Vec<u64>, u64),
) -> Option<String> {
    let LoadedQuestion { context, options, question, seen, resolved, .. } = *loaded;
    let scope = RecallScope {
        // A user's, or that of the transcript.
        user: question.user.as_deref().filter(|_| query.is_of_user),
        bucket: question.bucket(),
        generation: &seen.generation,
        session: question.session,
        shown,
        shown_tokens,
        first: seen.newest.extent.first,
        branches: &seen.branches,
        target: resolved.target,
        now: context.host.now_micros() / 1000,
        oldest_at: oldest_at(context, options),
    };
    search_passages(context, options, query, candidates, &scope).unwrap_or_else(|failure| {
        let what = ["Nothing recalled for a question of session ", question.session, ": ", &failure.message];
        log::warn(&context.host, log::STORE, &what);
        None
    })
}

/// The token of a question that failed before its session was read: whose turn it is and what is to be stored of it, as its
/// metadata say. An empty generation says that nothing else is known.
pub(crate) fn token_of_failed_question(
    context: &Context<impl Host>,
    options: &Options,
    session: &str,
    entry: &QuestionEntry<'_>,
    metadata: &EntryMetadata<'_>,
) -> String {
    let said = &*metadata.directives();
    let turn = new_turn_id(context.host.now_micros(), 0, entry.text);
    let node = said.resolve_node(options, session).ok().flatten();
    let question = ConversationQuestion::new(session, entry, said, metadata, node);
    let parent = question.parent.as_deref().map(Into::into);
    TurnToken { parent, ..question.token(turn) }.write().0
}
