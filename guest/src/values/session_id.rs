//! The session that an entry names, and ids that are kept beside a hashed name.
//!
//! A session whose name is a hash is reached by the id that it was made of and by no other text. Costs nothing where the id is the
//! name.

use crate::context::Context;
use crate::contract::{BucketId, Expectation, Host, Operation, Precondition, Problem, PutEntry, Transaction};
use crate::entry::metadata::{EntryMetadata, EntrySession};
use crate::entry::types::Effect;
use crate::text::ids::{InvalidId, SessionIds, allowed_ids, hashed, is_hash};
use crate::text::quoting::python_repr;
use crate::transcript::schema::SESSION;
use crate::{log, store};

/// The id that a session's name was made of; of map `session`.
pub(crate) const SESSION_ID_KEY: &str = "id";

/// Reads one byte more than an id may have, so that an oversize one is recognised.
const ID_BYTES: u64 = 4096;

/// What is read to know whether the id is kept.
pub(crate) const READ_SESSION_ID: Operation<'static> = Operation::get(SESSION, &SESSION_ID_KEY, ID_BYTES);

/// The id of the session of that name, if this is what is kept with it.
pub(crate) fn kept_id<'a>(name: &str, kept: Option<&'a str>) -> Option<&'a str> {
    kept.filter(|id| hashed(id) == name)
}

/// Keep the id with its session, which is there.
pub(crate) fn store_session_id(host: &impl Host, name: &str, id: &str) -> Result<(), Box<Problem>> {
    let expectations = [Expectation::absent(SESSION, SESSION_ID_KEY)];
    let entry = [PutEntry { key: SESSION_ID_KEY, text: id }];
    let operations = [Operation::put(SESSION, &entry)];
    let bucket = BucketId::session(name);
    let keep =
        Transaction { bucket, precondition: Precondition::LOOK, expectations: &expectations, operations: &operations };
    store::transact(host, &keep).map(drop)
}

/// Whether there is a session of that name that keeps no other id: what was called so before ids were hashed.
pub(crate) fn is_plain(host: &impl Host, name: &str) -> Result<bool, Box<Problem>> {
    let found = store::read_bucket(host, BucketId::session(name), Precondition::LOOK, &[READ_SESSION_ID])?;
    found.map_or(Ok(false), |mut outcomes| Ok(outcomes.take_text()?.is_none()))
}

/// The metadata of an entry, and whose it is. The store is asked only for a session that is called like a hash.
pub(crate) fn parse_entry_metadata<'a>(
    context: &Context<impl Host>,
    text: &'a str,
    unbound: bool,
) -> Result<EntryMetadata<'a>, Box<Problem>> {
    let ids = context.config.session_ids;
    let parse =
        if context.config.conversation.is_some() { EntryMetadata::parse_of_conversation } else { EntryMetadata::parse };
    let mut metadata = parse(text, unbound, ids);
    if let (SessionIds::Strict, EntrySession::Named(name)) = (ids, &metadata.session)
        && is_hash(name)
        && !is_plain(&context.host, name)?
    {
        metadata.session = EntrySession::Malformed { shown: python_repr(name), why: InvalidId::Reserved };
    }
    Ok(metadata)
}

/// Why an entry has no session that names one.
pub(crate) fn invalid_id_problem(context: &Context<impl Host>, shown: &str, why: InvalidId) -> Box<Problem> {
    let message = ["session_id ", shown, " is not allowed: ", allowed_ids(context.config.session_ids)].concat();
    Problem::new(why.code(), "session_id", message)
}

/// Keep the id of an entry's session, if it has another one than its name. That it can't be is no reason to fail.
pub(crate) fn keep_session_id(context: &Context<impl Host>, metadata: &EntryMetadata<'_>) {
    let (Some(id), EntrySession::Named(name)) = (metadata.session_id.as_deref(), &metadata.session) else { return };
    if let Err(failure) = store_session_id(&context.host, name, id) {
        let what = ["The id of session ", name, " can't be kept with it: ", &failure.message];
        log::warn(&context.host, log::STORE, &what);
    }
}

/// An entry whose metadata name no session that could be used: say why, if there is a reason.
pub(crate) fn sessionless_effect(
    context: &Context<impl Host>,
    metadata: &EntryMetadata<'_>,
    lane: &str,
) -> (Effect, Option<Box<Problem>>) {
    match &metadata.session {
        EntrySession::Malformed { shown, why } => {
            log::debug(&context.host, &["Ignoring invalid session_id in ", lane, " metadata: ", shown]);
            (Effect::Ignored, Some(invalid_id_problem(context, shown, *why)))
        }
        EntrySession::None | EntrySession::Named(_) => {
            if metadata.unreadable {
                log::debug(&context.host, &["No JSON object in ", lane, " metadata: no session"]);
            }
            (Effect::Passed, None)
        }
    }
}
