//! Lists sessions and nodes that came from elsewhere with their users, as if they had begun here.
//!
//! Promises that registering twice changes nothing, and that a user forgotten later loses the session as well. Refuses a session of
//! another user.

use crate::admin::sessions::read_bucket;
use crate::context::Context;
use crate::contract::{BucketId, Host, Operation, Precondition, Problem, PutEntry, Status, Transaction, codes};
use crate::entry::session_problem::{SessionResult, check_status, conflict_problem};
use crate::entry::turn_token::TurnToken;
use crate::tasks::copy_to_user;
use crate::text::quoting::python_repr;
use crate::text::timestamp;
use crate::transcript::address::TranscriptId;
use crate::transcript::schema::{OWNER, SESSION};
use crate::users::registry;
use crate::users::registry::{FORGOTTEN, RegistrationOutcome, SESSIONS, USER, checked_user_bucket_name, listable_id};
use crate::{store, text};

/// Note a session with its owner, and a node with its session. Of nobody's: it becomes this user's. The name of the
/// owner's bucket.
pub fn register_transcript(
    context: &Context<impl Host>,
    transcript: &TranscriptId<'_>,
    user: Option<&str>,
) -> SessionResult<Option<String>> {
    let at = transcript.resolve_address()?;
    let session = BucketId::session(at.session);
    let get = [Operation::get(SESSION, &OWNER, 256)];
    let mut outcomes = read_bucket(context, at.session, session, Precondition::LOOK, &get)?;
    let owner = outcomes.take_text()?;
    let life = &*outcomes.generation;
    let named = user.map(checked_user_bucket_name).transpose()?;
    let foreign = || {
        let message = format!("Session {} belongs to another user", python_repr(at.session));
        Problem::new(codes::ALREADY_EXISTS, "session", message)
    };
    if let (Some(owner), Some(named)) = (&owner, &named)
        && owner != named
    {
        return Err(foreign());
    }
    let name = owner.clone().or(named.map(std::borrow::Cow::into_owned));
    let mut state = TurnToken {
        session: at.session.into(),
        node: at.node.as_deref().map(Into::into),
        app_id: listable_id(transcript.app_id).map(Into::into),
        node_id: listable_id(transcript.node_id).map(Into::into),
        user: name.as_deref().map(Into::into),
        ..TurnToken::default()
    };
    if let Some(name) = &name {
        let operations = [Operation::get(SESSIONS, &at.session, 256), Operation::get(USER, &FORGOTTEN, 64)];
        let (bucket, precondition) = (registry::user_bucket(name), Precondition::LOOK);
        if let Some(mut outcomes) = store::read_bucket(&context.host, bucket, precondition, &operations)? {
            let is_of_life = |entry: String| !life.is_empty() && text::find_substring(&entry, life).is_some();
            state.is_owned = outcomes.take_text()?.is_some_and(is_of_life);
            state.forgotten = outcomes.take_text()?.map(Into::into);
        }
    }
    let stamp = timestamp::format_timestamp(context.host.now_micros());
    match registry::register_session(&context.host, &mut state, life, &stamp, true)? {
        RegistrationOutcome::Done { .. } => {
            if let (Some(name), None) = (&name, &at.node) {
                copy_to_user::allow_copying_again(&context.host, name, at.session, life)?;
            }
        }
        RegistrationOutcome::Foreign => return Err(foreign()),
        RegistrationOutcome::Ended => return Err(conflict_problem(at.session)),
    }
    if let (Some(text), None, None) = (&name, &owner, &at.node) {
        let owner = [PutEntry { key: OWNER, text }];
        let (expectations, operations) = ([registry::expect_owner(text)], [Operation::put(SESSION, &owner)]);
        let precondition = Precondition::life(life);
        let own = Transaction { bucket: session, precondition, expectations: &expectations, operations: &operations };
        match store::transact(&context.host, &own)?.status {
            Status::Unmet => return Err(foreign()),
            status => check_status(at.session, session, status)?,
        }
    }
    Ok(name)
}
