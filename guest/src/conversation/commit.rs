//! The answers' lane of a conversation: a step is written once, whole, where it belongs.
//!
//! Promises one transaction as a rule, under expectations of what the question saw. Where one does not hold, because
//! others were faster or the answer is one more to its question, two to four transactions find the step's place. Refuses
//! to store what was stored already, and to put a turn on a branch that it does not belong to. Here is what an answer
//! comes with; its transaction is in [`write`](super::write).

use keepline_json as json;

use super::activity;
use super::ask::{self, own_key, turn_id};
use super::intake::{self, Skip};
use super::options::Options;
use super::owner::{self, Registered};
use super::parts;
use super::recall::options::Recall;
use super::scope::{self, Said};
use super::state::{self, State};
use super::step::{self, About, Step};
use super::title;
use super::upkeep;
use super::write::{Commit, Due, Place};
use crate::filter::{AnswerEntry, AnswerReply, Effect, Filter, Problem, ToolActivity};
use crate::history;
use crate::log;
use crate::metadata::{Metadata, Session};
use crate::names::token;
use crate::reply;
use crate::store::{Bucket, Failure, Host, Opening, Status, Transaction};
use crate::turn::Turn;

impl<H: Host> Filter<H> {
    /// An answer on its way back, or a step of it.
    pub(crate) fn commit(&self, options: &Options, entry: &AnswerEntry<'_>, metadata: &Metadata<'_>) -> AnswerReply {
        let said = Said::of(entry.metadata);
        let is_named = |session: &str| match &metadata.session {
            Session::Named(named) => *named == *session,
            _ => true,
        };
        if let Some(session) = state::foreign_session(entry.turn).filter(|session| is_named(session)) {
            return self.foreign(session);
        }
        let mut state = match Turn::parse(entry.turn) {
            // Of a question that was asked before conversations were configured.
            Some(turn) => Some(State {
                session: turn.session.into(),
                incarnation: turn.incarnation.unwrap_or_default().into(),
                ..State::default()
            }),
            None => State::parse(entry.turn),
        };
        if state.is_none() && !entry.turn.is_empty() {
            self.invalid_turn(entry.turn);
        }
        if let Session::Named(named) = &metadata.session {
            // That of another session counts as none.
            state = Some(
                state
                    .filter(|state| state.session == *named)
                    .unwrap_or_else(|| State { session: named.clone(), ..State::default() }),
            );
        }
        let Some(mut state) = state else {
            return match self.lacks_session(entry.metadata) {
                Some(problem) => AnswerReply::with(Effect::Failed, problem),
                None => AnswerReply::of(Effect::Passed),
            };
        };
        said.warn(&self.host, &state.session);
        if said.is_user_bad {
            log::warn(&self.host, log::SESSION, &["Answer not stored in session ", &state.session, ask::BAD_USER]);
            return AnswerReply::of(Effect::Foreign);
        }
        if said.names_another_transcript(&state) {
            state = State { session: state.session, user: state.user, ..State::default() };
        }
        if let Some(node) = said.another_node(&state) {
            // As without a question, but for what it leaves out.
            state = State {
                session: state.session,
                node: Some(node.into()),
                app_id: state.app_id,
                node_id: state.node_id,
                user: state.user,
                ..State::default()
            };
            (state.app_id, state.node_id) =
                (said.app_id.clone().or(state.app_id), said.node_id.clone().or(state.node_id));
        } else if state.turn.is_empty() {
            match said.node(options, &state.session) {
                Ok(node) => state.node = node,
                Err(_) => return self.without_node(options, &state.session),
            }
        }

        // Whatever is made of the text, a value of the session as well as a message, is made of what is left of it.
        let text = intake::cleaned(options, entry.text.into(), true);
        let entry = &AnswerEntry { text: &text, ..*entry };
        let spoken = json::spoken(entry.text);
        let has_activity = !entry.activity.is_empty();
        let answer_files = step::files(said.files.as_deref());
        let has_files = answer_files.is_some() || parts::have_files(entry.text);
        let skip = intake::skip(options, &spoken, has_activity, has_files);
        let skip = if said.is_written == Some(false) { Some(Skip::SwitchedOff) } else { skip };
        let named = said.user_id.as_deref().map(owner::name);
        if let Some(skip) = skip {
            return self.skipped(&state, named.as_deref(), skip);
        }
        let is_said = !spoken.trim().is_empty();
        let value = if is_said { self.encode(&spoken) } else { None };

        // Without a question the turn is the answer's own.
        let is_paired = !state.turn.is_empty();
        // A question that failed knows whose the turn is, and nothing of the conversation.
        let is_seen = is_paired && !state.incarnation.is_empty();
        if !is_paired {
            state.turn = turn_id(self.host.now_micros(), 0, entry.text).into();
            state.question = own_key(&state.turn).into();
            state.parent = said.parent.as_deref().map(|parent| token(parent).into_owned().into());
        }
        let at = history::timestamp(self.host.now_micros());
        if let (Some(user), Some(named)) = (&state.user, &named)
            && user != named
        {
            return self.foreign(&state.session);
        }
        state.user = state.user.or(named.map(|name| name.into_owned().into()));
        state.app_id = state.app_id.or(said.app_id.clone());
        state.node_id = state.node_id.or(said.node_id.clone());
        let is_first = !state.is_owned && state.user.is_some();
        let registers = is_first || (state.node.is_some() && (state.is_new || !is_seen));
        let mut is_long = false;
        if registers {
            match self.register(options, &mut state, &at, is_seen) {
                Ok(Registered::Done { is_long: told }) => is_long = told,
                Ok(Registered::Foreign) => return self.foreign(&state.session),
                Ok(Registered::Ended) => return self.ended(&state.session),
                Err(failure) => return self.failed(&state.session, &failure),
            }
        }
        let continues = continues(entry.activity);
        let open = state.open.take();
        let goes_on = continues && open.is_some();
        if let Some(open) = open.as_ref().filter(|_| continues) {
            state.turn.clone_from(open);
        }
        let id = entry.message_id.filter(|id| !id.is_empty()).or(metadata.message_id.as_deref()).map(token);
        let id = id.as_deref().filter(|id| *id != state.question);
        let budget = state.budget.unwrap_or_else(|| options.budget());
        let asked = entry.question_text.or(said.question.as_deref()).filter(|text| !text.trim().is_empty());
        // Of files alone there is a message without a text.
        let asked = asked.or(state.files.is_some().then_some(""));
        let details = said.details().unwrap_or_default();
        let about = About {
            turn: &state.turn,
            question_id: &state.question,
            answer_id: id,
            at: &at,
            question: asked.filter(|_| !state.is_unwritten),
            question_files: state.files.as_deref(),
            answer_files: answer_files.as_deref(),
            total: is_seen.then_some(state.total),
            parent: state.parent.as_deref(),
            value_bytes: value.as_ref().map_or(0, String::len),
            budget,
            details: &details,
        };
        let lacks_question = state.has_text && about.question.is_none_or(str::is_empty) && !state.is_unwritten;
        let step = Step::new(options, entry, &about);
        if step.is_empty() {
            return self.skipped(&state, None, Skip::Blank);
        }
        let beginning = Place {
            asks: true,
            begins: !goes_on,
            checks_head: state.parent.is_some() && state.fork.is_none(),
            fork: state.fork,
            turn: None,
        };
        // Where the step goes on with a turn, that has its branch already.
        let going_on = Place { asks: false, begins: false, checks_head: false, fork: None, turn: None };
        let is_asked = is_paired && continues && (state.is_asked || !goes_on);
        let place = if is_asked { going_on } else { beginning.clone() };
        let bucket = scope::bucket(&state.session, state.node.as_deref());
        let opening = match (&*state.incarnation, &state.node) {
            ("", None) => self.config.create(),
            ("", Some(_)) => scope::create_node(options),
            (incarnation, _) => Opening::Existing { incarnation: Some(incarnation), renew: true },
        };
        let parent = state.parent.as_deref();
        let owner = state.user.as_deref();
        let used = state.session_life.as_deref().unwrap_or(&state.incarnation);
        let activity = match owner {
            Some(user) if is_long => Some(activity::tidying(user)),
            Some(user) if !registers && !state.is_latest && !used.is_empty() => {
                Some(activity::note(user, &state, used, &at))
            }
            _ => None,
        };
        // Of a node, nobody reads a title.
        let may_title = options.auto_generate_titles && state.node.is_none();
        let is_titled = may_title && state.wants_title;
        let question = about.question.filter(|text| !text.is_empty());
        let asked = question.filter(|_| is_titled);
        let recalls = options.recall.scope != Recall::Off && self.host.capabilities().indexes;
        let due = Due {
            summarized: Some(state.summarized).filter(|_| is_seen),
            threshold: budget,
            summaries: options.summaries && said.is_summarized != Some(false),
            title: asked.is_some(),
            retitles: options.auto_generate_titles && options.update_existing_titles && state.node.is_none(),
            max_records: options.max_session_messages,
            max_bytes: options.max_session_bytes,
            recall: recalls.then(|| match owner {
                Some(user) if options.recall.scope == Recall::User && state.node.is_none() => {
                    upkeep::subject_of_two(bucket, owner::bucket(user))
                }
                _ => upkeep::subject(bucket),
            }),
            vectors: options.recall.vectors,
            activity,
        };
        let is_title_late = may_title && !is_paired && question.is_some();
        let is_untitled = is_title_late || (asked.is_some() && state.is_new);
        let title = question
            .filter(|_| is_untitled && options.title_from_first_message)
            .map(|text| title::of_message(&intake::take(options, text, false).text, options.title_max_length));
        // A node that is registered is nobody's yet, or this user's.
        let is_first = is_first || registers;
        self.place(
            &Commit {
                bucket,
                opening,
                step,
                about,
                parent,
                beginning,
                open,
                lacks_question,
                is_said,
                value,
                owner,
                is_first,
                is_untitled,
                title,
                is_title_late,
                due,
            },
            place,
        )
    }

    /// What comes before the first turn of a user's session, or of a node.
    fn register(
        &self,
        options: &Options,
        state: &mut State<'_>,
        at: &str,
        has_question: bool,
    ) -> Result<Registered, Failure> {
        if let Some(node) = state.node.as_deref().filter(|_| state.incarnation.is_empty() && state.user.is_some()) {
            // So that it is this life, or none, that the answer is stored in.
            let (bucket, opening) = (scope::bucket(&state.session, Some(node)), scope::create_node(options));
            let opened = Transaction { bucket, opening, expectations: &[], operations: &[] };
            state.incarnation = reply::transact(&self.host, &opened)?.incarnation.into();
        }
        let known = if state.node.is_some() { state.session_life.take() } else { Some(state.incarnation.clone()) };
        let mut incarnation = known.unwrap_or_default().into_owned();
        if incarnation.is_empty() {
            // Without a question: the session has to be there before it is registered.
            let owner = state.user.as_deref().map(owner::owned_by);
            let (bucket, opening) = (Bucket::session(&state.session), self.config.create());
            let expectations = owner.as_slice();
            let opened = Transaction { bucket, opening, expectations, operations: &[] };
            let receipt = reply::transact(&self.host, &opened)?;
            match receipt.status {
                Status::Applied | Status::Repeated => incarnation = receipt.incarnation,
                Status::Unmet => return Ok(Registered::Foreign),
                _ => return Err(Failure::out_of_turn()),
            }
            if state.node.is_none() {
                state.incarnation = incarnation.clone().into();
            }
        }
        owner::register(&self.host, state, &incarnation, at, has_question)
    }

    pub(super) fn foreign(&self, session: &str) -> AnswerReply {
        log::warn(&self.host, log::SESSION, &["Answer not stored: session ", session, " belongs to another user"]);
        AnswerReply::of(Effect::Foreign)
    }

    /// `named` is the user whom the answer names.
    fn skipped(&self, state: &State<'_>, named: Option<&str>, skip: Skip) -> AnswerReply {
        self.count_skip(state, named.or(state.user.as_deref()), skip);
        let message = format!("Answer in session {} not stored: {}", state.session, skip.reason());
        log::debug(&self.host, |line| line.push_str(&message));
        AnswerReply::with(Effect::Skipped, Problem { code: skip.code(), message })
    }

    fn without_node(&self, options: &Options, session: &str) -> AnswerReply {
        let message = scope::no_node(session);
        log::warn(&self.host, log::SESSION, &[&message]);
        if options.require_node {
            return AnswerReply::with(Effect::Failed, Problem { code: ask::NO_NODE, message });
        }
        AnswerReply::of(Effect::Passed)
    }
}

/// Whether a step goes on with a turn: it has a result whose call is not a part of it.
fn continues(activity: &[ToolActivity<'_>]) -> bool {
    let is_call = |call_id| move |other: &ToolActivity<'_>| other.arguments.is_some() && other.call_id == call_id;
    // A step has few calls, and the newest of them are asked about first.
    (1..=activity.len()).any(|count| {
        let told = activity.get(..count).unwrap_or_default();
        told.last().is_some_and(|last| !told.iter().rev().any(is_call(last.call_id)))
    })
}

/// Whether a failure is about what only conversations need.
pub(crate) fn is_conversation(failure: &Failure) -> bool {
    ask::is_ours(failure)
}
