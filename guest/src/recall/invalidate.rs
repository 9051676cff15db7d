//! Removes passages of messages that are about to be rewritten, replaced or deleted.
//!
//! Promises that text, terms and vectors are removed before the transcript changes, beside it and among the user's copies, and that
//! indexing which read the old words writes nothing: each of its writes expects what is written here. If the correction fails, the
//! messages are indexed again.

use crate::context::Context;
use crate::contract::{Host, Operation, Precondition, Problem, PutEntry};
use crate::entry::session_problem::{SessionResult, conflict_problem, write_problem};
use crate::recall::copies::{CopyState, RAISE_REVISION, SessionCopies, expect_entry};
use crate::recall::cursor::IndexCursor;
use crate::recall::passage::{Passage, message_facet};
use crate::recall::remove::{PassageRemoval, RemovalResult};
use crate::recall::schema::{COPY_STATES, RECALLED};
use crate::store;
use crate::transcript::address::TranscriptAddress;
use crate::transcript::schema::SESSION;
use crate::users::registry;

/// How often to begin again when others come in between.
const TRIES: u32 = 64;

/// What becomes of the messages that are corrected.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MessageFate<'a> {
    /// These are removed, or put in other words.
    Changed(&'a [u64]),
    /// All make room for others, or for none.
    Replaced,
    /// The session is deleted.
    Deleted,
}

/// Take out what there is beside a transcript of messages that are about to be corrected; `recalled` is how far it was
/// read. What that is afterwards: the correction expects it. Three waits; none where nothing was.
pub(crate) fn remove_passages(
    context: &Context<impl Host>,
    at: &TranscriptAddress<'_>,
    life: &str,
    recalled: Option<&str>,
    positions: &[u64],
) -> SessionResult<Option<String>> {
    let mut recalled = recalled.map(ToOwned::to_owned);
    if !context.host.store_profile().indexes {
        return Ok(recalled);
    }
    let facets: Vec<u32> = positions.iter().map(|position| message_facet(*position)).collect();
    let is_meant = |passage: &Passage<'_>| positions.contains(&passage.position);
    let (bucket, precondition) = (at.bucket(), Precondition::life(life));
    let removing = PassageRemoval { bucket, precondition, facets: &facets, is_meant: &is_meant };
    for _ in 0..TRIES {
        let Some(before) = &recalled else { return Ok(None) };
        let mut read = IndexCursor::parse(before);
        read.schedule_reread(positions);
        let after = read.write();
        let expected = [expect_entry(SESSION, RECALLED, Some(before))];
        let cursor = [PutEntry { key: RECALLED, text: &after }];
        let put = [Operation::put(SESSION, &cursor)];
        match removing.remove_batch(&context.host, &expected, &put, None)? {
            RemovalResult::Complete => return Ok(Some(after)),
            RemovalResult::Partial => recalled = Some(after),
            // Others have read on meanwhile.
            RemovalResult::Unmet => {
                recalled = store::read_entry_text(&context.host, bucket, SESSION, RECALLED)?;
            }
            RemovalResult::NoBucket => break,
        }
    }
    Err(conflict_problem(at.session))
}

/// Take out of the owner's memory what is about to be corrected: nobody copies the old words from here on, unless the
/// correction does not come about. `revision` is that of the session as it is now. Four waits; three if nothing was
/// copied.
pub(crate) fn remove_copies(
    context: &Context<impl Host>,
    session: &str,
    life: &str,
    owner: Option<&str>,
    revision: u64,
    fate: MessageFate<'_>,
) -> SessionResult<()> {
    let Some(owner) = owner.filter(|_| context.host.store_profile().indexes) else { return Ok(()) };
    for _ in 0..TRIES {
        let tried = try_remove_copies(context, session, life, owner, revision, fate);
        if tried.map_err(|failure| write_problem(session, failure))? {
            return Ok(());
        }
    }
    Err(conflict_problem(session))
}

/// Whether it was done; otherwise others came in between.
fn try_remove_copies(
    context: &Context<impl Host>,
    session: &str,
    life: &str,
    user: &str,
    revision: u64,
    fate: MessageFate<'_>,
) -> Result<bool, Box<Problem>> {
    let before = store::read_entry_text(&context.host, registry::user_bucket(user), COPY_STATES, session)?;
    let mut after = CopyState::not_copied(life, revision + 1);
    let mut copies = SessionCopies { user, session, life: Some(life), positions: None };
    match fate {
        MessageFate::Changed(positions) => {
            copies.positions = Some(positions);
            if let Some(CopyState::Of { life: of, mut read, until, .. }) = before.as_deref().and_then(CopyState::parse)
                && of == life
            {
                read.schedule_reread(positions);
                after = CopyState::Of { life: of, revision: revision + 1, until, read };
            }
        }
        MessageFate::Replaced => {}
        MessageFate::Deleted => {
            copies.life = None;
            after = CopyState::Gone { life: life.to_owned(), since: context.host.now_micros() / 1_000_000 };
        }
    }
    let text = after.write();
    let copied = [PutEntry { key: session, text: &text }];
    let put = Operation::put(COPY_STATES, &copied);
    let operations = match fate {
        MessageFate::Deleted => vec![FOR_REMOVAL, RAISE_REVISION, put],
        MessageFate::Changed(_) | MessageFate::Replaced => vec![RAISE_REVISION, put],
    };
    let mut before = before.as_deref();
    loop {
        match copies.remove_batch(&context.host, &[expect_entry(COPY_STATES, session, before)], &operations, None)? {
            RemovalResult::Partial => before = Some(&text),
            RemovalResult::Unmet => return Ok(false),
            // Without a bucket of theirs nothing is copied.
            RemovalResult::Complete | RemovalResult::NoBucket => return Ok(true),
        }
    }
}

/// A store that is full takes what removes something: so the mark of a session that is about to be deleted is written beside
/// the removal of an entry that does not exist.
const FOR_REMOVAL: Operation<'static> = Operation::remove("removal", &["-"]);

/// What is dropped when a transcript begins again.
pub(crate) const INDEX_CURSOR_KEY: &str = RECALLED;
