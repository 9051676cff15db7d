//! Answers a question of a conversation: reads what is stored, and attaches window, summary and recall.
//!
//! Costs one wait for the store, bounded by the window and not by the conversation; recall takes a second one, and so does a branch
//! that lies further back than what was read. Records that can't be read are skipped with a warning. A question about a session of
//! another user gets nothing.

pub(crate) mod load;

use keepline_json as json;
use std::borrow::Cow;

use crate::context::Context;
use crate::contract::{Failure, Host, Opening};
use crate::entry::directives::{BAD_USER, Directives, NO_NODE};
use crate::entry::metadata::Metadata;
use crate::entry::turn_token::{Fork, TurnToken};
use crate::entry::types::{Effect, Problem, QuestionEntry, QuestionReply};
use crate::entry::{directives, turn_token};
use crate::log;
use crate::options::conversation::Options;
use crate::options::recall::Recall;
use crate::question::load::{ReadPlan, Snapshot, fetch_beginnings, fetch_branch, load, read_oldest, widen};
use crate::recall::passage::oldest_at;
use crate::recall::search;
use crate::recall::search::search;
use crate::text::ids::token;
use crate::text::json_values::push_member;
use crate::transcript::record::Record;
use crate::transcript::schema::is_conversation_failure;
use crate::transcript::summary::Summary;
use crate::transcript::thread::{ReadRecords, Thread};
use crate::transcript::turn_id::{own_key, turn_id};
use crate::transcript::turns::{Turn, go_on, turns};
use crate::users::registry;
use crate::values::attach::{attach_found, open_and_attach};
use crate::values::session_id::keep_session_id;
use crate::window::compose::{ComposedWindow, FirstTurn, OldestRecords, TraceInput, WindowInput, readable};
use crate::window::render;

/// A question of a session.
pub(crate) fn converse(
    context: &Context<impl Host>,
    options: &Options,
    session: &str,
    entry: &QuestionEntry<'_>,
    metadata: &Metadata<'_>,
    reply: &mut QuestionReply,
) -> Result<(), Failure> {
    // What is looked for, and quoted, is what was said.
    let spoken = json::spoken(entry.text);
    let entry = &QuestionEntry { text: &spoken, ..*entry };
    let said = Directives::of(entry.metadata);
    said.warn(&context.host, session);
    if said.is_user_bad {
        log::warn(&context.host, log::SESSION, &["No memory for a question of session ", session, BAD_USER]);
        (reply.effect, reply.turn) = (Effect::Foreign, turn_token::foreign_token(session));
        return Ok(());
    }
    let Ok(node) = said.node(options, session) else {
        let message = directives::node_missing_message(session);
        log::warn(&context.host, log::SESSION, &[&message]);
        reply.effect = if options.require_node { Effect::Failed } else { Effect::Passed };
        reply.problem = options.require_node.then_some(Problem { code: NO_NODE, message });
        return Ok(());
    };
    let bucket = directives::transcript_bucket(session, node.as_deref());
    let only_looks = said.only_looks == Some(true);
    // Who is told why turns are left out is told of all that were read, and of what was not stored.
    let is_told = options.memory_trace || only_looks;
    let opening = match node {
        _ if only_looks => Opening::LOOK,
        Some(_) => directives::create_node(options),
        None => context.config.create(),
    };
    let read_for = options.budget_of(&[&said.settings]);
    let parent = said.parent.as_deref().map(token);
    let id = entry.message_id.filter(|id| !id.is_empty()).or(metadata.message_id.as_deref()).map(token);
    let user = said.user_id.as_deref().map(registry::user_bucket_name);
    let is_recalled = said.is_read != Some(false) && said.recalls != Some(false) && context.host.capabilities().indexes;
    let now = || context.host.now_micros() / 1000;
    let is_of_user = options.recall.scope == Recall::User && user.is_some() && node.is_none();
    let recall =
        search::RecallQuery::of(options, entry, is_of_user.then_some(session), &said, now).filter(|_| is_recalled);
    let wanted = ReadPlan {
        session,
        user: user.as_deref(),
        bucket,
        opening,
        budget: read_for,
        parent: parent.as_deref(),
        own: id.as_deref().filter(|_| parent.is_none()),
        only_looks,
        is_told,
        recall: recall.as_ref(),
        recalls_session: said.recalls_session,
        has_id: metadata.session_id.is_some(),
    };
    let mut seen = match load(context, options, &wanted) {
        Ok(Some(seen)) => seen,
        Ok(None) => {
            let what = ["No memory for a question: session ", session, " belongs to another user"];
            log::warn(&context.host, log::SESSION, &what);
            (reply.effect, reply.turn) = (Effect::Foreign, turn_token::foreign_token(session));
            return Ok(());
        }
        // What is broken is left as it is; the rest of the memory needs nothing of it.
        Err(failure) if is_conversation_failure(&failure) && node.is_none() => {
            let what = ["No conversation for a question of session ", session, ": ", &failure.sentence()];
            log::warn(&context.host, log::VALUE, &what);
            let mut named = metadata.clone();
            named.session_id = None;
            open_and_attach(context, session, &named, reply)?;
            reply.problem.get_or_insert_with(|| Problem::store(&failure));
            return Ok(());
        }
        Err(failure) => return Err(failure),
    };

    if seen.lacks_id && !only_looks {
        keep_session_id(context, metadata);
    }
    let budget = options.budget_of(&[&seen.settings, &said.settings]);
    widen(context, options, &mut seen, bucket, budget, read_for)?;
    let (first, next) = (seen.newest.extent.first, seen.newest.extent.next());
    let turn = turn_id(context.host.now_micros(), next, entry.text);
    let mut target = seen.target(parent.as_deref());
    let enough = if is_told { u64::MAX } else { budget };
    let mut read = ReadRecords::default();
    read.add(&seen.newest);
    let mut thread = Thread::newest_of(&read, &seen.branches, target, enough);
    // One more answer to a question is not told the others.
    let mut asked = seen.asked.filter(|_| follows_open(&turns(&thread.records(), 0), [None, id.as_deref()]).is_none());
    if asked.is_some() {
        thread = Thread::newest_of(&read, &seen.branches, asked, enough);
    }
    let runs = fetch_branch(context, &seen, bucket, &thread, budget)?;
    runs.iter().for_each(|run| read.add(run));
    if !runs.is_empty() {
        thread = Thread::newest_of(&read, &seen.branches, asked.or(target), enough);
    }
    // Not even its newest turn was read whole.
    let rest = if thread.has_beginning() { Vec::new() } else { fetch_branch(context, &seen, bucket, &thread, 0)? };
    rest.iter().for_each(|run| read.add(run));
    // An id may be from a time when no transcript was kept: what stands there now is another message.
    let named = asked.or(seen.parent).zip(parent.as_deref().or(id.as_deref()));
    let is_another = named.is_some_and(|(position, id)| !thread.ends_with(position, id));
    if is_another {
        (seen.parent, asked) = (None, None);
        target = seen.target(None);
    }
    if is_another || !rest.is_empty() {
        thread = Thread::newest_of(&read, &seen.branches, asked.or(target), enough);
    }
    if let Some(asked) = asked {
        target = read.before_question(&seen.branches, asked);
        thread = Thread::newest_of(&read, &seen.branches, target, enough);
    }
    // All that was read may be of the question's own turn.
    let before = if asked.is_some() { fetch_branch(context, &seen, bucket, &thread, budget)? } else { Vec::new() };
    before.iter().for_each(|run| read.add(run));
    if !before.is_empty() {
        thread = Thread::newest_of(&read, &seen.branches, target, enough);
    }
    let is_newest = target == next.checked_sub(1);
    let total = if is_newest { seen.total.max(thread.total()) } else { thread.total() };
    if thread.unreadable > 0 {
        let count = thread.unreadable.to_string();
        let what = ["Passed over ", &count, " records of the transcript of ", bucket.name, " that can't be read"];
        log::warn(&context.host, log::VALUE, &what);
    }

    let follows =
        parent.filter(|_| target.is_some() && (seen.parent.is_some() || seen.is_head(said.parent.as_deref())));
    let fork = Some(Fork { after: target.unwrap_or(0), total, next }).filter(|_| !is_newest && target.is_some());
    let mut state = TurnToken {
        incarnation: seen.incarnation.clone().into(),
        parent: follows,
        fork,
        total,
        session_life: seen.session_life.take().filter(|life| !life.is_empty()).map(Into::into),
        is_owned: user.is_some() && seen.owner == user.as_deref().map(ToOwned::to_owned),
        is_new: next == 0,
        wants_title: seen.wants_title,
        is_latest: seen.user.latest.as_deref() == Some(session),
        summarized: seen.summary_of(target).map_or(0, |summary| summary.total),
        budget: Some(options.budget_of(&[&seen.settings])).filter(|budget| *budget != options.budget()),
        forgotten: seen.user.forgotten.take().map(Into::into),
        ..as_said(&said, session, node.as_deref(), id.as_deref(), user.as_deref(), (turn, entry.text))
    };
    let found = turns(&thread.records(), total);
    // Of a turn that went on after others, the beginning may lie before what was read.
    let runs =
        if thread.older.is_some() { fetch_beginnings(context, &seen, bucket, &found, budget)? } else { Vec::new() };
    let earlier: Vec<(u64, Record<'_>)> = runs.iter().flat_map(readable).collect();
    let mut turns = found;
    for turn in turns.iter_mut().skip(1).filter(|turn| !turn.is_whole && !earlier.is_empty()) {
        let is_of = |(at, record): &&(u64, Record<'_>)| {
            record.turn == turn.id && target.is_some_and(|target| seen.branches.hold(target, *at))
        };
        let own: Vec<_> = earlier.iter().filter(is_of).map(|(at, record)| (*at, record)).collect();
        *turn = turn.with_earlier(&own);
    }
    if let Some((index, open)) = follows_open(&turns, [state.parent.as_deref(), id.as_deref()]) {
        state.open = Some(open.id.into());
        state.is_asked = id.as_deref().is_some_and(|id| open.has_message(id));
        go_on(&mut turns, index, total);
    }
    let (turn, has_room) = state.write();
    reply.turn = turn;
    if !has_room {
        let what = ["Files of a question of session ", session, " not remembered: their references are too long"];
        log::warn(&context.host, log::LIMIT, &what);
    }
    let Snapshot {
        incarnation,
        mut values,
        summary,
        branches,
        oldest: oldest_run,
        user,
        settings,
        omissions,
        recall: found,
        ..
    } = seen;
    if said.is_read == Some(false) {
        return Ok(());
    }
    if !user.join(&mut values, context.config.max_keys, context.config.max_context_bytes) {
        let what = ["Values of the user left out of a question of session ", session, ": over a limit"];
        log::warn(&context.host, log::LIMIT, &what);
    }
    attach_found(context, bucket, &incarnation, metadata, values, reply)?;

    let summary = summary.as_deref().zip(target);
    let summary = summary.and_then(|(entry, target)| Summary::of_thread(entry, &branches, target));
    let summary = summary.filter(|summary| !thread.is_empty() && render::summary_weight(&summary.text) <= budget / 2);
    let ComposedWindow { mut members, shown, tokens: shown_tokens } = if said.has_window == Some(false) {
        // So whatever was said may be recalled.
        ComposedWindow::default()
    } else {
        let first_of = |oldest| match target {
            Some(target) => FirstTurn::of(oldest, &branches, target, &turns, budget),
            None => FirstTurn::None,
        };
        let (oldest, more, of_more);
        oldest = oldest_run.as_ref().map(OldestRecords::of);
        let mut first_turn = oldest.as_ref().map_or(FirstTurn::None, first_of);
        if matches!(first_turn, FirstTurn::Cut) {
            more = read_oldest(context, bucket, &incarnation, budget / 4)?;
            of_more = OldestRecords::of(&more);
            first_turn = first_of(&of_more);
        }
        let unpinned = first_turn.unpinned();
        if let Some(why) = unpinned {
            let what = ["First turn of session ", session, " not shown before the window: it is ", why];
            log::warn(&context.host, log::LIMIT, &what);
        }
        let source = WindowInput {
            turns: &turns,
            total,
            older: thread.older,
            continued: state.open.as_deref(),
            pinned: if let FirstTurn::Whole(turn) = first_turn { Some(turn) } else { None },
            summary: summary.as_ref(),
            query: entry.text,
            told: is_told.then_some(TraceInput {
                budget,
                unreadable: thread.unreadable,
                omissions: &omissions,
                unpinned,
            }),
        };
        let (attached, left_out) = source.attach(options, budget);
        for what in left_out {
            let most = options.max_window_bytes;
            let message =
                format!("The {what} left out of a question of session {session}: over max_window_bytes ({most})");
            log::warn(&context.host, log::LIMIT, &[&message]);
            reply.problem.get_or_insert_with(|| Problem::limit(message));
        }
        attached
    };
    if let Some(model) = said.settings.model.as_ref().or(settings.model.as_ref()) {
        push_member(&mut members, "memory_model", &render::quoted(model));
    }
    if let Some((wanted, found)) = recall.as_ref().zip(found) {
        let asking = search::RecallScope {
            // A user's, or that of the transcript.
            user: state.user.as_deref().filter(|_| wanted.is_of_user),
            bucket,
            incarnation: &incarnation,
            session,
            shown,
            shown_tokens,
            first,
            branches: &branches,
            target,
            now: context.host.now_micros() / 1000,
            oldest_at: oldest_at(context, options),
        };
        match search(context, options, wanted, found, &asking) {
            Ok(Some(recalled)) => push_member(&mut members, "memory_recall", &recalled),
            Ok(None) => {}
            Err(failure) => {
                let what = ["Nothing recalled for a question of session ", session, ": ", &failure.sentence()];
                log::warn(&context.host, log::STORE, &what);
            }
        }
    }
    if !members.is_empty() {
        reply.metadata = Some(metadata.extended(reply.metadata.take(), &members));
        reply.effect = Effect::Enriched;
    }
    Ok(())
}

/// What a question of a conversation tells its answers that did not get as far as seeing it: whose turn it is and what
/// is to be stored of it, as its metadata say. An empty incarnation says that nothing else is known.
pub(crate) fn token_of_failed_question(
    context: &Context<impl Host>,
    options: &Options,
    session: &str,
    entry: &QuestionEntry<'_>,
    metadata: &Metadata<'_>,
) -> String {
    let said = Directives::of(entry.metadata);
    let turn = turn_id(context.host.now_micros(), 0, entry.text);
    let id = entry.message_id.filter(|id| !id.is_empty()).or(metadata.message_id.as_deref()).map(token);
    let node = said.node(options, session).ok().flatten();
    let user = said.user_id.as_deref().map(registry::user_bucket_name);
    let state = TurnToken {
        parent: said.parent.as_deref().map(token),
        ..as_said(&said, session, node.as_deref(), id.as_deref(), user.as_deref(), (turn, entry.text))
    };
    state.write().0
}

/// What a question tells its answers by what its metadata say, whatever is there.
fn as_said<'a>(
    said: &'a Directives<'_>,
    session: &'a str,
    node: Option<&'a str>,
    id: Option<&'a str>,
    user: Option<&'a str>,
    (turn, text): (String, &str),
) -> TurnToken<'a> {
    let is_unwritten = said.is_written == Some(false);
    let listed =
        |id: &'a Option<Cow<'_, str>>| registry::listed(id.as_deref().filter(|_| node.is_some())).map(Into::into);
    TurnToken {
        session: session.into(),
        node: node.map(Into::into),
        question: id.map_or_else(|| own_key(&turn).into(), Into::into),
        turn: turn.into(),
        is_named: id.is_some(),
        is_unwritten,
        has_text: !text.trim().is_empty(),
        files: directives::file_references(said.files.as_deref()).filter(|_| !is_unwritten),
        user: user.map(Into::into),
        app_id: listed(&said.app_id),
        node_id: listed(&said.node_id),
        ..TurnToken::default()
    }
}

/// The open turn that a question continues: that of the message which it names as the one before it, or as itself.
fn follows_open<'t, 'r, 'a>(turns: &'t [Turn<'r, 'a>], named: [Option<&str>; 2]) -> Option<(usize, &'t Turn<'r, 'a>)> {
    let has = |turn: &Turn<'_, '_>| named.iter().flatten().any(|id| turn.has_message(id));
    turns.iter().enumerate().rev().find(|(_, turn)| turn.is_open() && has(turn))
}
