//! Removes passages of messages that are about to be rewritten, replaced or deleted.
//!
//! Promises that text, terms and vectors are removed before the transcript changes, beside it and among the user's copies, and that
//! indexing which read the old words writes nothing: each of its writes expects what is written here. If the correction fails, the
//! messages are indexed again.

use crate::context::Context;
use crate::contract::{Failure, Host, Opening, Operation, PutEntry};
use crate::entry::session_problem::{SessionResult, conflict, store_result};
use crate::recall::copies::{Copies, CopyState, RAISE_REVISION, unchanged_entry};
use crate::recall::cursor::Cursor;
use crate::recall::passage::{Passage, facet};
use crate::recall::remove::{RemovalResult, Removing};
use crate::recall::schema::{POSTED, RECALLED};
use crate::store;
use crate::transcript::address::TranscriptAddress;
use crate::transcript::schema::SESSION;
use crate::users::registry;

/// How often to begin again when others come in between.
const TRIES: u32 = 64;

/// What becomes of the messages that are corrected.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate<'a> {
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
    if !context.host.capabilities().indexes {
        return Ok(recalled);
    }
    let facets: Vec<u32> = positions.iter().map(|position| facet(*position)).collect();
    let is_meant = |passage: &Passage<'_>| positions.contains(&passage.position);
    let (bucket, opening) = (at.bucket(), Opening::life(life));
    let removing = Removing { bucket, opening, facets: &facets, is_meant: &is_meant };
    for _ in 0..TRIES {
        let Some(before) = &recalled else { return Ok(None) };
        let mut read = Cursor::parse(before);
        read.repeat(positions);
        let after = read.write();
        let expected = [unchanged_entry(SESSION, RECALLED, Some(before))];
        let cursor = [PutEntry { key: RECALLED, text: &after }];
        let put = [Operation::put(SESSION, &cursor)];
        match store_result(at.session, removing.take_out(&context.host, &expected, &put, None))? {
            RemovalResult::Whole => return Ok(Some(after)),
            RemovalResult::Some => recalled = Some(after),
            // Others have read on meanwhile.
            RemovalResult::Unmet => {
                recalled = store_result(at.session, store::text_of(&context.host, bucket, SESSION, RECALLED))?;
            }
            RemovalResult::Nowhere => break,
        }
    }
    Err(conflict(at.session))
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
    fate: Fate<'_>,
) -> SessionResult<()> {
    let Some(owner) = owner.filter(|_| context.host.capabilities().indexes) else { return Ok(()) };
    for _ in 0..TRIES {
        if store_result(session, try_remove_copies(context, session, life, owner, revision, fate))? {
            return Ok(());
        }
    }
    Err(conflict(session))
}

/// Whether it was done; otherwise others came in between.
fn try_remove_copies(
    context: &Context<impl Host>,
    session: &str,
    life: &str,
    user: &str,
    revision: u64,
    fate: Fate<'_>,
) -> Result<bool, Failure> {
    let before = store::text_of(&context.host, registry::user_bucket(user), POSTED, session)?;
    let mut after = CopyState::none(life, revision + 1);
    let mut copies = Copies { user, session, life: Some(life), positions: None };
    match fate {
        Fate::Changed(positions) => {
            copies.positions = Some(positions);
            if let Some(CopyState::Of { life: of, mut read, until, .. }) = before.as_deref().and_then(CopyState::parse)
                && of == life
            {
                read.repeat(positions);
                after = CopyState::Of { life: of, revision: revision + 1, until, read };
            }
        }
        Fate::Replaced => {}
        Fate::Deleted => {
            copies.life = None;
            after = CopyState::Gone { life: life.to_owned(), since: context.host.now_micros() / 1_000_000 };
        }
    }
    let text = after.write();
    let copied = [PutEntry { key: session, text: &text }];
    let put = Operation::put(POSTED, &copied);
    let operations = match fate {
        Fate::Deleted => vec![FOR_REMOVAL, RAISE_REVISION, put],
        Fate::Changed(_) | Fate::Replaced => vec![RAISE_REVISION, put],
    };
    let mut before = before.as_deref();
    loop {
        match copies.take_out(&context.host, &[unchanged_entry(POSTED, session, before)], &operations, None)? {
            RemovalResult::Some => before = Some(&text),
            RemovalResult::Unmet => return Ok(false),
            // Without a bucket of theirs nothing is copied.
            RemovalResult::Whole | RemovalResult::Nowhere => return Ok(true),
        }
    }
}

/// A store that is full takes what removes something: so the mark of a session that is about to be deleted is written beside
/// the removal of an entry that nobody has.
const FOR_REMOVAL: Operation<'static> = Operation::remove("removal", &["-"]);

/// What is forgotten with a transcript that begins anew.
pub(crate) const ONCE: &str = RECALLED;
