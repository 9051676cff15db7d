//! The questions' lane of a conversation: one transaction reads what the window is made of.
//!
//! Promises that its cost is bounded by the window, not by the conversation, and one wait for the store: a second one
//! only for a branch that lies further back than what was read. What can't be read in the transcript is passed over and
//! told. Refuses a session of another user.

use std::borrow::Cow;

use keepline_json as json;

use super::attach::{Attached, First, Oldest, Source, Told, push_member, readable};
use super::look::{Seen, Wanted};
use super::omissions::TRUNCATED;
use super::options::Options;
use super::recall::options::Recall;
use super::record::{Record, integer};
use super::render;
use super::scope::{self, Said};
use super::state::{self, Fork, State};
use super::step;
use super::thread::{Branches, Read, Thread};
use super::turns::{Turn, go_on, turns};
use super::{BRANCHES, BYTES, HEAD, MESSAGES, RESULTS, SESSION, TOTAL, TRANSCRIPT, owner, recall};
use crate::filter::{Effect, Filter, Problem, QuestionEntry, QuestionReply};
use crate::log;
use crate::metadata::Metadata;
use crate::names::token;
use crate::store::{Failure, FailureCode, Host, Opening};

/// What a summary says, and how far it reaches.
pub(super) struct Summary<'a> {
    pub text: Cow<'a, str>,
    /// The last position that it holds.
    pub to: u64,
    /// What the thread weighs up to there.
    pub total: u64,
    pub has_low_trust: bool,
}

impl<'a> Summary<'a> {
    /// All in an entry, the newest first: those of other branches stand within it.
    pub(super) fn all(entry: &'a str) -> Vec<Self> {
        let mut all = Vec::new();
        let mut others = None;
        all.extend(Self::parse(entry, |raw| others = Some(raw)));
        let _ = json::elements(others.unwrap_or("[]"), |other| all.extend(Self::parse(other, |_| {})));
        all
    }

    /// That of the thread that ends at a position: the one that reaches furthest.
    pub(super) fn of_thread(entry: &'a str, branches: &Branches, end: u64) -> Option<Self> {
        Self::all(entry).into_iter().filter(|summary| branches.hold(end, summary.to)).max_by_key(|summary| summary.to)
    }

    fn parse(text: &'a str, mut others: impl FnMut(&'a str)) -> Option<Self> {
        let (mut words, mut to, mut total, mut has_low_trust) = (None, None, None, false);
        json::members(text, |key, raw| match key.trim_matches('"') {
            "text" => words = json::string(raw),
            "to" => to = integer(raw),
            "total" => total = integer(raw),
            "trust" => has_low_trust = raw == "\"low\"",
            "others" => others(raw),
            _ => {}
        })?;
        Some(Self { text: words?, to: to?, total: total?, has_low_trust })
    }

    /// As an entry; `others` are entries, too.
    pub(super) fn write(&self, others: &[Self]) -> String {
        let mut out = String::from("{\"text\":");
        json::push_string(&mut out, &self.text);
        for (name, count) in [("to", self.to), ("total", self.total)] {
            out.push_str(",\"");
            out.push_str(name);
            out.push_str("\":");
            json::push_number(&mut out, count);
        }
        if self.has_low_trust {
            out.push_str(",\"trust\":\"low\"");
        }
        let mut separator = ",\"others\":[";
        for other in others {
            out.push_str(separator);
            separator = ",";
            out.push_str(&other.write(&[]));
        }
        out.push_str(if separator == "," { "]}" } else { "}" });
        out
    }
}

/// Why an entry passes that names a user whom nobody can be.
pub(super) const BAD_USER: &str = ": its user_id is no text of at most 1,024 bytes";

impl<H: Host> Filter<H> {
    /// A question of a session.
    pub(crate) fn converse(
        &self,
        options: &Options,
        session: &str,
        entry: &QuestionEntry<'_>,
        metadata: &Metadata<'_>,
        reply: &mut QuestionReply,
    ) -> Result<(), Failure> {
        // What is looked for, and quoted, is what was said.
        let spoken = json::spoken(entry.text);
        let entry = &QuestionEntry { text: &spoken, ..*entry };
        let said = Said::of(entry.metadata);
        said.warn(&self.host, session);
        if said.is_user_bad {
            log::warn(&self.host, log::SESSION, &["No memory for a question of session ", session, BAD_USER]);
            (reply.effect, reply.turn) = (Effect::Foreign, state::foreign(session));
            return Ok(());
        }
        let Ok(node) = said.node(options, session) else {
            let message = scope::no_node(session);
            log::warn(&self.host, log::SESSION, &[&message]);
            reply.effect = if options.require_node { Effect::Failed } else { Effect::Passed };
            reply.problem = options.require_node.then_some(Problem { code: NO_NODE, message });
            return Ok(());
        };
        let bucket = scope::bucket(session, node.as_deref());
        let only_looks = said.only_looks == Some(true);
        // Who is told why turns are left out is told of all that were read, and of what was not stored.
        let is_told = options.memory_trace || only_looks;
        let opening = match node {
            _ if only_looks => Opening::LOOK,
            Some(_) => scope::create_node(options),
            None => self.config.create(),
        };
        let read_for = options.budget_of(&[&said.settings]);
        let parent = said.parent.as_deref().map(token);
        let id = entry.message_id.filter(|id| !id.is_empty()).or(metadata.message_id.as_deref()).map(token);
        let user = said.user_id.as_deref().map(owner::name);
        let is_recalled =
            said.is_read != Some(false) && said.recalls != Some(false) && self.host.capabilities().indexes;
        let now = || self.host.now_micros() / 1000;
        let is_of_user = options.recall.scope == Recall::User && user.is_some() && node.is_none();
        let recall =
            recall::find::Wanted::of(options, entry, is_of_user.then_some(session), &said, now).filter(|_| is_recalled);
        let wanted = Wanted {
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
        let mut seen = match self.look(options, &wanted) {
            Ok(Some(seen)) => seen,
            Ok(None) => {
                let what = ["No memory for a question: session ", session, " belongs to another user"];
                log::warn(&self.host, log::SESSION, &what);
                (reply.effect, reply.turn) = (Effect::Foreign, state::foreign(session));
                return Ok(());
            }
            // What is broken is left as it is; the rest of the memory needs nothing of it.
            Err(failure) if is_ours(&failure) && node.is_none() => {
                let what = ["No conversation for a question of session ", session, ": ", &failure.sentence()];
                log::warn(&self.host, log::VALUE, &what);
                let mut named = metadata.clone();
                named.session_id = None;
                self.remember(session, &named, reply)?;
                reply.problem.get_or_insert_with(|| Problem::store(&failure));
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };

        if seen.lacks_id && !only_looks {
            self.keep_id(metadata);
        }
        let budget = options.budget_of(&[&seen.settings, &said.settings]);
        self.widen(options, &mut seen, bucket, budget, read_for)?;
        let (first, next) = (seen.newest.extent.first, seen.newest.extent.next());
        let turn = turn_id(self.host.now_micros(), next, entry.text);
        let mut target = seen.target(parent.as_deref());
        let enough = if is_told { u64::MAX } else { budget };
        let mut read = Read::default();
        read.add(&seen.newest);
        let mut thread = Thread::newest_of(&read, &seen.branches, target, enough);
        // One more answer to a question is not told the others.
        let mut asked =
            seen.asked.filter(|_| follows_open(&turns(&thread.records(), 0), [None, id.as_deref()]).is_none());
        if asked.is_some() {
            thread = Thread::newest_of(&read, &seen.branches, asked, enough);
        }
        let runs = self.fetch(&seen, bucket, &thread, budget)?;
        runs.iter().for_each(|run| read.add(run));
        if !runs.is_empty() {
            thread = Thread::newest_of(&read, &seen.branches, asked.or(target), enough);
        }
        // Not even its newest turn was read whole.
        let rest = if thread.has_beginning() { Vec::new() } else { self.fetch(&seen, bucket, &thread, 0)? };
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
        let before = if asked.is_some() { self.fetch(&seen, bucket, &thread, budget)? } else { Vec::new() };
        before.iter().for_each(|run| read.add(run));
        if !before.is_empty() {
            thread = Thread::newest_of(&read, &seen.branches, target, enough);
        }
        let is_newest = target == next.checked_sub(1);
        let total = if is_newest { seen.total.max(thread.total()) } else { thread.total() };
        if thread.unreadable > 0 {
            let count = thread.unreadable.to_string();
            let what = ["Passed over ", &count, " records of the transcript of ", bucket.name, " that can't be read"];
            log::warn(&self.host, log::VALUE, &what);
        }

        let follows =
            parent.filter(|_| target.is_some() && (seen.parent.is_some() || seen.is_head(said.parent.as_deref())));
        let fork = Some(Fork { after: target.unwrap_or(0), total, next }).filter(|_| !is_newest && target.is_some());
        let mut state = State {
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
            if thread.older.is_some() { self.fetch_beginnings(&seen, bucket, &found, budget)? } else { Vec::new() };
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
            log::warn(&self.host, log::LIMIT, &what);
        }
        let Seen {
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
        if !user.join(&mut values, self.config.max_keys, self.config.max_context_bytes) {
            let what = ["Values of the user left out of a question of session ", session, ": over a limit"];
            log::warn(&self.host, log::LIMIT, &what);
        }
        self.attach(bucket, &incarnation, metadata, values, reply)?;

        let summary = summary.as_deref().zip(target);
        let summary = summary.and_then(|(entry, target)| Summary::of_thread(entry, &branches, target));
        let summary =
            summary.filter(|summary| !thread.is_empty() && render::summary_weight(&summary.text) <= budget / 2);
        let Attached { mut members, shown, tokens: shown_tokens } = if said.has_window == Some(false) {
            // So whatever was said may be recalled.
            Attached::default()
        } else {
            let first_of = |oldest| match target {
                Some(target) => First::of(oldest, &branches, target, &turns, budget),
                None => First::None,
            };
            let (oldest, more, of_more);
            oldest = oldest_run.as_ref().map(Oldest::of);
            let mut first_turn = oldest.as_ref().map_or(First::None, first_of);
            if matches!(first_turn, First::Cut) {
                more = self.read_oldest(bucket, &incarnation, budget / 4)?;
                of_more = Oldest::of(&more);
                first_turn = first_of(&of_more);
            }
            let unpinned = first_turn.unpinned();
            if let Some(why) = unpinned {
                let what = ["First turn of session ", session, " not shown before the window: it is ", why];
                log::warn(&self.host, log::LIMIT, &what);
            }
            let source = Source {
                turns: &turns,
                total,
                older: thread.older,
                continued: state.open.as_deref(),
                pinned: if let First::Whole(turn) = first_turn { Some(turn) } else { None },
                summary: summary.as_ref(),
                query: entry.text,
                told: is_told.then_some(Told {
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
                log::warn(&self.host, log::LIMIT, &[&message]);
                reply.problem.get_or_insert_with(|| Problem::limit(message));
            }
            attached
        };
        if let Some(model) = said.settings.model.as_ref().or(settings.model.as_ref()) {
            push_member(&mut members, "memory_model", &render::quoted(model));
        }
        if let Some((wanted, found)) = recall.as_ref().zip(found) {
            let asking = recall::find::Asking {
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
                now: self.host.now_micros() / 1000,
                oldest_at: self.oldest_at(options),
            };
            match self.recall(options, wanted, found, &asking) {
                Ok(Some(recalled)) => push_member(&mut members, "memory_recall", &recalled),
                Ok(None) => {}
                Err(failure) => {
                    let what = ["Nothing recalled for a question of session ", session, ": ", &failure.sentence()];
                    log::warn(&self.host, log::STORE, &what);
                }
            }
        }
        if !members.is_empty() {
            reply.metadata = Some(metadata.extended(reply.metadata.take(), &members));
            reply.effect = Effect::Enriched;
        }
        Ok(())
    }
}

/// Of an entry in node mode that names no node, with `require_node`: the host hands its error on, whatever it does with those
/// of the store.
pub(super) const NO_NODE: &str = "no-node";

impl<H: Host> Filter<H> {
    /// Why an entry without a session fails: it is about a node's transcript, and `require_node` is set.
    pub(crate) fn lacks_session(&self, metadata: &str) -> Option<Problem> {
        let options = self.config.conversation.as_ref().filter(|options| options.require_node)?;
        if !Said::of(metadata).is_of_node(options) {
            return None;
        }
        let message = "memory_mode is \"node\", but an entry has no session_id that is valid".to_owned();
        log::warn(&self.host, log::SESSION, &[&message]);
        Some(Problem { code: NO_NODE, message })
    }

    /// What a question of a conversation tells its answers that did not get as far as seeing it: whose turn it is and what
    /// is to be stored of it, as its metadata say. An empty incarnation says that nothing else is known.
    pub(crate) fn unseen(
        &self,
        options: &Options,
        session: &str,
        entry: &QuestionEntry<'_>,
        metadata: &Metadata<'_>,
    ) -> String {
        let said = Said::of(entry.metadata);
        let turn = turn_id(self.host.now_micros(), 0, entry.text);
        let id = entry.message_id.filter(|id| !id.is_empty()).or(metadata.message_id.as_deref()).map(token);
        let node = said.node(options, session).ok().flatten();
        let user = said.user_id.as_deref().map(owner::name);
        let state = State {
            parent: said.parent.as_deref().map(token),
            ..as_said(&said, session, node.as_deref(), id.as_deref(), user.as_deref(), (turn, entry.text))
        };
        state.write().0
    }
}

/// What a question tells its answers by what its metadata say, whatever is there.
fn as_said<'a>(
    said: &'a Said<'_>,
    session: &'a str,
    node: Option<&'a str>,
    id: Option<&'a str>,
    user: Option<&'a str>,
    (turn, text): (String, &str),
) -> State<'a> {
    let is_unwritten = said.is_written == Some(false);
    let listed = |id: &'a Option<Cow<'_, str>>| owner::listed(id.as_deref().filter(|_| node.is_some())).map(Into::into);
    State {
        session: session.into(),
        node: node.map(Into::into),
        question: id.map_or_else(|| own_key(&turn).into(), Into::into),
        turn: turn.into(),
        is_named: id.is_some(),
        is_unwritten,
        has_text: !text.trim().is_empty(),
        files: step::files(said.files.as_deref()).filter(|_| !is_unwritten),
        user: user.map(Into::into),
        app_id: listed(&said.app_id),
        node_id: listed(&said.node_id),
        ..State::default()
    }
}

/// An id for a turn: no two turns of a session have the same, unless the same was asked of the same conversation in the
/// same microsecond.
pub(super) fn turn_id(micros: u64, next: u64, text: &str) -> String {
    // FNV-1a.
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{micros:x}-{next:x}-{hash:x}")
}

/// Where a turn of this id began, or shortly before that. None: the id is none of ours.
pub(super) fn begins_about(turn: &str) -> Option<u64> {
    let mut parts = turn.split('-');
    let (_, next, _) = (parts.next()?, parts.next()?, parts.next()?);
    u64::from_str_radix(next, 16).ok().filter(|next| *next < 1 << 53)
}

/// The key of a message that was given no id.
pub(super) fn own_key(turn: &str) -> String {
    ["t-", turn].concat()
}

/// Whether a transaction failed for what only conversations need.
pub(super) fn is_ours(failure: &Failure) -> bool {
    let parts = [TRANSCRIPT, SESSION, MESSAGES, BRANCHES, RESULTS];
    let key = [HEAD, TOTAL, BYTES, TRUNCATED];
    match failure.code {
        FailureCode::WrongType => parts.contains(&&*failure.subject) || key.contains(&&*failure.subject),
        FailureCode::NotACounter | FailureCode::CounterOverflow => key.contains(&&*failure.subject),
        _ => false,
    }
}

/// The open turn that a question continues: that of the message which it names as the one before it, or as itself.
fn follows_open<'t, 'r, 'a>(turns: &'t [Turn<'r, 'a>], named: [Option<&str>; 2]) -> Option<(usize, &'t Turn<'r, 'a>)> {
    let has = |turn: &Turn<'_, '_>| named.iter().flatten().any(|id| turn.has_message(id));
    turns.iter().enumerate().rev().find(|(_, turn)| turn.is_open() && has(turn))
}
