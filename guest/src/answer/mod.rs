//! Stores answers of a conversation.
//!
//! Promises one transaction for an ordinary answer, under expectations of what the question saw. Where one fails, because others
//! were faster or this is one more answer to the question, two to four transactions find the place. What is stored already is not
//! stored again, and a turn never lands on a branch that it does not belong to.

pub(crate) mod append;
pub(crate) mod insertion_point;
pub(crate) mod turn_records;

use keepline_json as json;
use keepline_options::bucket_names::user_bucket_name;
use keepline_options::words::Recall;
use std::borrow::Cow;

use crate::answer::append::{DueTasks, PendingStep, TitlePlan, append_step};
use crate::answer::turn_records::{InsertionPoint, TurnContext, TurnRecords};
use crate::context::Context;
use crate::contract::{BucketId, Host, Operation, Precondition, Problem, Status, Transaction};
use crate::entry::directives::{Directives, missing_session_problem};
use crate::entry::metadata::{EntryMetadata, EntrySession};
use crate::entry::turn_token::{PlainTurnToken, TurnToken};
use crate::entry::types::{AnswerEntry, AnswerReply, Effect, ToolActivity};
use crate::entry::{directives, turn_token};
use crate::options::conversation::Options;
use crate::tasks::{activity, task};
use crate::text::ids::to_map_key;
use crate::text::timestamp;
use crate::transcript::sanitize::SkipReason;
use crate::transcript::schema::SESSION;
use crate::transcript::turn_id::{fallback_message_key, new_turn_id};
use crate::transcript::{parts, sanitize, title};
use crate::users::registry;
use crate::users::registry::RegistrationOutcome;
use crate::values::record_answer::{answer_ended, answer_failed, answer_is_foreign, encode_answer, log_invalid_turn};
use crate::{log, store};

/// Stores an answer, or a step of it: resolves its turn, cleans its text, registers a first turn, builds the records and appends them.
/// `Err`: the reply of a stage that ends it.
pub(crate) fn commit_answer(
    context: &Context<impl Host>,
    options: &Options,
    entry: &AnswerEntry<'_>,
    metadata: &EntryMetadata<'_>,
) -> Result<AnswerReply, AnswerReply> {
    let said = &*metadata.directives();
    let mut state = resolve_turn(context, options, entry, metadata, said)?;

    // Whatever is made of the text, a value of the session as well as a message, is made of what is left of it.
    let text = sanitize::clean_message(options, entry.text.into(), true);
    let entry = &AnswerEntry { text: &text, ..*entry };
    let spoken = json::spoken_text(entry.text);
    let answer_files = directives::file_references(said.files.as_deref());
    let has_files = answer_files.is_some() || parts::have_files(entry.text);
    let named = said.user_id.as_deref().map(user_bucket_name);
    let skip = match said.is_written {
        Some(false) => Some(SkipReason::SwitchedOff),
        _ => sanitize::skip_reason(options, &spoken, !entry.activity.is_empty(), has_files),
    };
    if let Some(skip) = skip {
        return Err(skip_answer(context, &state, named.as_deref(), skip));
    }
    let is_said = !spoken.trim().is_empty();
    let value = if is_said { encode_answer(context, &spoken) } else { None };

    let is_paired = !state.turn.is_empty();
    // A question that failed knows whose the turn is, and nothing of the conversation.
    let is_seen = is_paired && !state.generation.is_empty();
    if !is_paired {
        // Without a question the turn is the answer's own.
        state.turn = new_turn_id(context.host.now_micros(), 0, entry.text).into();
        state.question = fallback_message_key(&state.turn).into();
        state.parent = said.parent.as_deref().map(|parent| to_map_key(parent).into_owned().into());
    }
    let at = timestamp::format_timestamp(context.host.now_micros());
    let registration = register(context, options, &mut state, said, named, &at, is_seen)?;

    let continues = continues(entry.activity);
    let open = state.open.take();
    let goes_on = continues && open.is_some();
    if let Some(open) = open.as_ref().filter(|_| continues) {
        state.turn.clone_from(open);
    }
    let id = entry.message_id.filter(|id| !id.is_empty()).or(metadata.message_id.as_deref()).map(to_map_key);
    let id = id.as_deref().filter(|id| *id != state.question);
    let budget = state.budget.unwrap_or_else(|| options.budget());
    let mut asked = [Some(entry.question_text), said.question.as_deref()].into_iter().flatten();
    let asked = asked.find(|text| !text.trim().is_empty());
    // Of files alone there is a message without a text.
    let asked = asked.or(state.files.is_some().then_some(""));
    let details = said.answer_details().unwrap_or_default();
    let about = TurnContext {
        turn: &state.turn,
        question_id: &state.question,
        answer_id: id,
        at: &at,
        question: asked.filter(|_| !state.is_unwritten),
        question_files: state.files.as_deref(),
        question_vector: state.vector.as_deref(),
        answer_files: answer_files.as_deref(),
        total: is_seen.then_some(state.total),
        parent: state.parent.as_deref(),
        value_bytes: value.as_ref().map_or(0, String::len),
        budget,
        details: &details,
    };
    let step = TurnRecords::new(options, entry, &about);
    if step.is_empty() {
        return Err(skip_answer(context, &state, None, SkipReason::Blank));
    }
    let beginning = InsertionPoint {
        asks: true,
        begins: !goes_on,
        checks_head: state.parent.is_some() && state.fork.is_none(),
        fork: state.fork,
        turn: None,
    };
    // Where the step goes on with a turn, that has its branch already.
    let going_on = InsertionPoint { asks: false, begins: false, checks_head: false, fork: None, turn: None };
    let is_asked = is_paired && continues && (state.is_asked || !goes_on);
    let place = if is_asked { going_on } else { beginning.clone() };
    let question = about.question.filter(|text| !text.is_empty());
    let titling = TitlePlan::of(options, &state, question, is_paired);
    let pending = PendingStep {
        bucket: directives::transcript_bucket(&state.session, state.node.as_deref()),
        precondition: match (&*state.generation, &state.node) {
            ("", None) => context.config.create(),
            ("", Some(_)) => directives::node_precondition(options),
            (generation, _) => Precondition::existing(Some(generation)),
        },
        lacks_question: state.has_text && question.is_none() && !state.is_unwritten,
        due: due_tasks(context, options, &state, said, &about, &registration, titling.is_due),
        step,
        about,
        parent: state.parent.as_deref(),
        beginning,
        open,
        is_said,
        value,
        owner: state.user.as_deref(),
        is_first: registration.is_first,
        titling,
    };
    Ok(append_step(context, &pending, place))
}

/// The turn that an answer belongs to, as its token and its metadata say. `Err`: it belongs to none, or may not be stored.
fn resolve_turn<'a>(
    context: &Context<impl Host>,
    options: &Options,
    entry: &AnswerEntry<'a>,
    metadata: &EntryMetadata<'a>,
    said: &Directives<'a>,
) -> Result<TurnToken<'a>, AnswerReply> {
    let is_named = |session: &str| match &metadata.session {
        EntrySession::Named(named) => *named == *session,
        _ => true,
    };
    if let Some(session) = turn_token::session_of_foreign_token(entry.turn).filter(|session| is_named(session)) {
        return Err(answer_is_foreign(context, session));
    }
    let mut state = match PlainTurnToken::parse(entry.turn) {
        // Of a question that was asked before conversations were configured.
        Some(turn) => Some(TurnToken {
            session: turn.session.into(),
            generation: turn.generation.unwrap_or_default().into(),
            ..TurnToken::default()
        }),
        None => TurnToken::parse(entry.turn),
    };
    if state.is_none() && !entry.turn.is_empty() {
        log_invalid_turn(context, entry.turn);
    }
    if let EntrySession::Named(named) = &metadata.session {
        // The token of another session counts as none.
        let of_session = state.filter(|state| state.session == *named);
        state = of_session.or_else(|| Some(TurnToken { session: named.clone(), ..TurnToken::default() }));
    }
    let Some(mut state) = state else {
        return Err(match missing_session_problem(context, said) {
            Some(problem) => AnswerReply::with(Effect::Failed, problem),
            None => AnswerReply::of(Effect::Passed),
        });
    };
    said.warn_ignored_members(&context.host, &state.session);
    if said.is_user_bad {
        let what = ["Answer not stored in session ", &state.session, directives::INVALID_USER_ID];
        log::warn(&context.host, log::SESSION, &what);
        return Err(AnswerReply::with(Effect::Ignored, directives::invalid_user_problem()));
    }
    if said.names_another_transcript(&state) {
        state = TurnToken { session: state.session, user: state.user, ..TurnToken::default() };
    }
    if let Some(node) = said.another_node(&state) {
        // As without a question, but for what it leaves out.
        state = TurnToken {
            session: state.session,
            node: Some(node.into()),
            app_id: said.app_id.clone().or(state.app_id),
            node_id: said.node_id.clone().or(state.node_id),
            user: state.user,
            ..TurnToken::default()
        };
    } else if state.turn.is_empty() {
        let node = said.resolve_node(options, &state.session);
        state.node = node.map_err(|_| answer_without_node(context, options, &state.session))?;
    }
    Ok(state)
}

/// What became of the registration that comes before the first turn of a user's session, or of a node.
struct RegistrationFlags {
    /// It was needed, so that the bucket is the user's from this answer on.
    is_first: bool,
    /// The user's list of sessions is so long that it is to be tidied.
    is_long: bool,
}

/// Registers the session of a user, or a node, before its first turn. `Err`: it is another user's, is gone, or that failed.
fn register<'a>(
    context: &Context<impl Host>,
    options: &Options,
    state: &mut TurnToken<'a>,
    said: &Directives<'a>,
    named: Option<Cow<'_, str>>,
    at: &str,
    is_seen: bool,
) -> Result<RegistrationFlags, AnswerReply> {
    if let (Some(user), Some(named)) = (&state.user, &named)
        && user != named
    {
        return Err(answer_is_foreign(context, &state.session));
    }
    state.user = state.user.take().or(named.map(|name| name.into_owned().into()));
    state.app_id = state.app_id.take().or(said.app_id.clone());
    state.node_id = state.node_id.take().or(said.node_id.clone());
    let is_new_node = state.node.is_some() && (state.is_new || !is_seen);
    let is_first = is_new_node || (!state.is_owned && state.user.is_some());
    let mut is_long = false;
    if is_first {
        match register_first_turn(context, options, state, at, is_seen) {
            Ok(RegistrationOutcome::Done { is_long: told }) => is_long = told,
            Ok(RegistrationOutcome::Foreign) => return Err(answer_is_foreign(context, &state.session)),
            Ok(RegistrationOutcome::Ended) => return Err(answer_ended(context, &state.session)),
            Err(failure) => return Err(answer_failed(context, &state.session, failure)),
        }
    }
    Ok(RegistrationFlags { is_first, is_long })
}

impl TitlePlan {
    /// Nodes have no titles.
    fn of(options: &Options, state: &TurnToken<'_>, question: Option<&str>, is_paired: bool) -> Self {
        let may_title = options.auto_generate_titles && state.node.is_none();
        let is_due = may_title && state.wants_title && question.is_some();
        let is_late = may_title && !is_paired && question.is_some();
        let is_untitled = is_late || (is_due && state.is_new);
        let title = question.filter(|_| is_untitled && options.title_from_first_message).map(|text| {
            title::title_from_message(&sanitize::sanitize_message(options, text, false).text, options.title_max_length)
        });
        Self { is_due, is_late, is_untitled, title }
    }
}

/// What decides which tasks are due after the step.
fn due_tasks(
    context: &Context<impl Host>,
    options: &Options,
    state: &TurnToken<'_>,
    said: &Directives<'_>,
    about: &TurnContext<'_>,
    registration: &RegistrationFlags,
    title: bool,
) -> DueTasks {
    let bucket = directives::transcript_bucket(&state.session, state.node.as_deref());
    let owner = state.user.as_deref();
    let used = state.session_life.as_deref().unwrap_or(&state.generation);
    let activity = match owner {
        Some(user) if registration.is_long => Some(activity::tidy_task(user)),
        Some(user) if !registration.is_first && !state.is_latest && !used.is_empty() => {
            Some(activity::activity_task(user, state, used, about.at))
        }
        _ => None,
    };
    let recalls = options.recall != Recall::Off && context.host.store_profile().indexes;
    DueTasks {
        summarized: about.total.is_some().then_some(state.summarized),
        threshold: about.budget,
        summaries: options.summaries && said.is_summarized != Some(false),
        title,
        retitles: options.auto_generate_titles && options.update_existing_titles && state.node.is_none(),
        max_records: options.max_session_messages,
        max_bytes: options.max_session_bytes,
        recall: recalls.then(|| match owner {
            Some(user) if options.recall == Recall::User && state.node.is_none() => {
                [bucket, registry::user_bucket(user)].map(task::task_bucket).into()
            }
            _ => vec![task::task_bucket(bucket)],
        }),
        vectors: options.recall_vectors,
        activity,
    }
}

/// What comes before the first turn of a user's session, or of a node.
fn register_first_turn(
    context: &Context<impl Host>,
    options: &Options,
    state: &mut TurnToken<'_>,
    at: &str,
    has_question: bool,
) -> Result<RegistrationOutcome, Box<Problem>> {
    if let Some(node) = state.node.as_deref().filter(|_| state.generation.is_empty() && state.user.is_some()) {
        // So that it is this life, or none, that the answer is stored in.
        let (bucket, precondition) =
            (directives::transcript_bucket(&state.session, Some(node)), directives::node_precondition(options));
        let opened = Transaction { bucket, precondition, expectations: &[], operations: &[] };
        state.generation = store::transact(&context.host, &opened)?.generation.unwrap_or_default().into();
    }
    let known = if state.node.is_some() { state.session_life.take() } else { Some(state.generation.clone()) };
    let mut generation = known.unwrap_or_default().into_owned();
    if generation.is_empty() {
        // Without a question: the session has to be there before it is registered.
        let owner = state.user.as_deref().map(registry::expect_owner);
        let (bucket, precondition) = (BucketId::session(&state.session), context.config.create());
        let expectations = owner.as_slice();
        let opened = Transaction { bucket, precondition, expectations, operations: &[] };
        let receipt = store::transact(&context.host, &opened)?;
        match receipt.status {
            Status::Applied | Status::Repeated => generation = receipt.generation.unwrap_or_default(),
            Status::Unmet => return Ok(RegistrationOutcome::Foreign),
            _ => return Err(Problem::out_of_turn()),
        }
        if state.node.is_none() {
            state.generation = generation.clone().into();
        }
    }
    registry::register_session(&context.host, state, &generation, at, has_question)
}

/// `named` is the user whom the answer names.
fn skip_answer(
    context: &Context<impl Host>,
    state: &TurnToken<'_>,
    named: Option<&str>,
    skip: SkipReason,
) -> AnswerReply {
    count_skip(context, state, named.or(state.user.as_deref()), skip);
    let message = format!("Answer in session {} not stored: {}", state.session, skip.reason());
    log::debug(&context.host, &[&message]);
    AnswerReply::with(Effect::Skipped, Problem::new(skip.code(), skip.option(), message))
}

fn answer_without_node(context: &Context<impl Host>, options: &Options, session: &str) -> AnswerReply {
    let message = directives::node_missing_message(session);
    log::warn(&context.host, log::SESSION, &[&message]);
    if options.require_node {
        return AnswerReply::with(Effect::Failed, Problem::new(directives::NO_NODE, "node_id", message));
    }
    AnswerReply::of(Effect::Passed)
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

/// One more answer that was skipped, in the life that its question saw; `user` is whose it is.
pub(crate) fn count_skip(context: &Context<impl Host>, state: &TurnToken<'_>, user: Option<&str>, skip: SkipReason) {
    let Some(key) = skip.counter() else { return };
    let bucket = directives::transcript_bucket(&state.session, state.node.as_deref());
    let owner = user.map(registry::expect_owner);
    let operations = [Operation::add(SESSION, key, 1)];
    let precondition = Precondition::life(&state.generation);
    let counted = Transaction { bucket, precondition, expectations: owner.as_slice(), operations: &operations };
    if let Err(failure) = store::transact(&context.host, &counted) {
        let what = ["Skipped answer not counted in session ", &state.session, ": ", &failure.message];
        log::warn(&context.host, log::STORE, &what);
    }
}
