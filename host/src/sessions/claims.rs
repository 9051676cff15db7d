//! Whose a session is: what the plugin says, held against the store before it is lent that user's bucket.
//!
//! Promises that a plugin gets at no user's memory by its word alone. What a session's own bucket says of its owner proves
//! nothing, since the plugin writes there as it likes: the list in the user's bucket counts.

use tokio::time::Instant;

use super::{SessionError, SessionErrorCode, Sessions};
use crate::store::{
    BucketId, BucketKind, EntryState, ExistingLife, Expectation, ExpectedEntry, Failure, Opening, Status, Transaction,
    Writer, guard::Missed, names::is_bucket,
};

/// A user's map of sessions, a session's map of what there is once of it, and the owner in it: names of the contract's
/// storage, see `guest/src/conversation/owner.rs`.
const SESSIONS: &str = "sessions";
const SESSION: &str = "session";
const OWNER: &str = "owner";

/// What a user's bucket says of a session that is said to be theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    Listed,
    Unlisted,
    /// There is no such bucket.
    NoBucket,
}

impl Sessions {
    /// Whether the user's bucket lists the session. One transaction.
    pub(super) async fn listing(&self, session: &str, owner: &str) -> Result<Listing, SessionError> {
        let listed = entry(SESSIONS, session, EntryState::Present, "");
        Ok(match self.expected(BucketKind::User, owner, session, listed).await? {
            Some(Status::Applied | Status::Repeated) => Listing::Listed,
            Some(Status::Unmet) | None => Listing::Unlisted,
            Some(_) => Listing::NoBucket,
        })
    }

    /// Whether the session's bucket names this owner. One transaction.
    pub(super) async fn names_owner(&self, session: &str, owner: &str) -> Result<bool, SessionError> {
        let named = entry(SESSION, OWNER, EntryState::Equal, owner);
        let status = self.expected(BucketKind::Session, session, owner, named).await?;
        Ok(matches!(status, Some(Status::Applied | Status::Repeated)))
    }

    /// What becomes of a transaction on that bucket that expects this and does nothing. None: a name is none, so there is
    /// nothing to ask.
    async fn expected(
        &self,
        kind: BucketKind,
        name: &str,
        other: &str,
        expected: ExpectedEntry,
    ) -> Result<Option<Status>, SessionError> {
        if !is_bucket(name) || !is_bucket(other) {
            return Ok(None);
        }
        let transaction = Transaction {
            bucket: BucketId { kind, name: name.to_owned() },
            // To look is no use of it.
            opening: Opening::Existing(ExistingLife { incarnation: None, renew: false }),
            expectations: vec![Expectation::Entry(expected)],
            operations: Vec::new(),
        };
        let deadline = self.shared.due(Instant::now(), self.deadline).deadline;
        let mut writer = Writer::new();
        let writer = writer.advance();
        let asked = self.store.call(deadline, |store| store.transact(writer, &transaction, deadline)).await;
        let receipt = asked.map_err(Missed::failure).and_then(|answer| answer).map_err(|failure| of_store(&failure))?;
        Ok(Some(receipt.status))
    }
}

fn entry(map: &str, key: &str, state: EntryState, text: &str) -> ExpectedEntry {
    ExpectedEntry { map_name: map.to_owned(), key: key.to_owned(), state, text: text.to_owned() }
}

fn of_store(failure: &Failure) -> SessionError {
    SessionError { code: SessionErrorCode::Store(failure.code), message: failure.message.clone() }
}
