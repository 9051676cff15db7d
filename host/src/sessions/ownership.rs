//! Checks a plugin's claim about a session's owner against the store, before that user's bucket is opened to it.
//!
//! Promises that a plugin's word alone gives access to no user's memory. What a session's own bucket says about its
//! owner proves nothing, because the plugin writes there; the list in the user's bucket counts.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    SessionError, Sessions,
    hashed_ids::{build_entry_read, extract_entry_text},
};
use crate::{
    contract::storage_names::{OWNER_KEY, SESSION_MAP, SESSIONS_MAP},
    logging::{LogLevel, MAX_MESSAGE, make_printable},
    runtime::{CallScope, EntryOwner, ObservedBuckets, TaskScope, TaskSubject},
    store::{
        BucketId, EntryState, ExistingBucket, Expectation, ExpectedEntry, IndexedTransaction, Precondition, Receipt,
        Status, Transaction, Writer, guard::Missed, kind, names::is_bucket,
    },
};

/// Bytes that an owner's name may have.
const OWNER_MAX: usize = 256;

/// What a user's bucket says of a session that is said to be theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListingStatus {
    Listed,
    Unlisted,
    /// There is no such bucket.
    NoBucket,
}

/// A user, whose bucket's name the host makes itself, and sessions that their list has.
pub(crate) struct UserListing {
    user: Arc<EntryOwner>,
    found: Arc<ObservedBuckets>,
}

impl UserListing {
    pub(crate) fn for_user(user: &str) -> Self {
        Self { user: EntryOwner::from_user(user).into(), found: Arc::default() }
    }

    /// The name of the user's bucket.
    pub(crate) fn name(&self) -> &str {
        self.user.user_bucket_name().unwrap_or_default()
    }

    /// To read what the list names.
    pub(super) fn scope(&self) -> CallScope {
        CallScope::for_user_list(self.user.clone(), self.found.clone())
    }

    /// Whether the store says so: the user's list has it, and it names the user as its owner.
    pub(super) fn is_verified_session(&self, session: &str) -> bool {
        self.found.is_user_bucket(&BucketId::session(session))
    }

    /// The same user, and this session alone.
    fn narrow_to_session(&self, session: &str) -> Self {
        Self { user: self.user.clone(), found: ObservedBuckets::with_listed_session(session).into() }
    }
}

#[allow(clippy::multiple_inherent_impl, reason = "methods of the same room's type, by what they are for")]
impl Sessions {
    /// What a task may reach: the bucket that its subject begins with, and that of the user in it if entries of both have
    /// named it, or the user's list has the session. Otherwise the user's bucket is as if it were not there.
    pub(crate) async fn task_scope(&self, subject: TaskSubject) -> Result<CallScope, SessionError> {
        let is_user_withheld = match &subject.user {
            Some(user) if !self.inner.pool.services().named.contains(&self.store, &subject) => {
                let (session, user) = (&*subject.bucket.name, &*user.name);
                self.listing_reported(session, user).await? != ListingStatus::Listed
            }
            _ => false,
        };
        Ok(CallScope::Task(TaskScope { subject, is_user_withheld }))
    }

    /// To read a session that may be the user's. None: it is not on their list.
    pub(crate) async fn narrow_if_listed(
        &self,
        listed: &UserListing,
        session: &str,
    ) -> Result<Option<UserListing>, SessionError> {
        let session = self.inner.session_ids.bucket_name_or_id(session);
        let listing = self.check_listing(&session, listed.name()).await?;
        Ok((listing == ListingStatus::Listed).then(|| listed.narrow_to_session(&session)))
    }

    /// The same as [`Self::check_listing`]; a session that is not on the user's list is reported.
    pub(super) async fn listing_reported(&self, session: &str, owner: &str) -> Result<ListingStatus, SessionError> {
        let listing = self.check_listing(session, owner).await?;
        if listing == ListingStatus::Unlisted {
            self.report_unlisted(session, owner);
        }
        Ok(listing)
    }

    pub(super) fn report_unlisted(&self, session: &str, owner: &str) {
        let mut message = format!(
            "the plugin says that session '{session}' belongs to user '{owner}', whose list does not have it: nothing of \
             that user was read or changed"
        );
        make_printable(&mut message, MAX_MESSAGE);
        self.inner.log().log_from_host(LogLevel::Warn, "keepline.owner", &message);
    }

    /// Whether the user's bucket lists the session of this name. One transaction.
    pub(super) async fn check_listing(&self, session: &str, owner: &str) -> Result<ListingStatus, SessionError> {
        let listed = expected_entry(SESSIONS_MAP, session, EntryState::Present, "");
        Ok(match self.check_expectation(kind::USER, owner, session, listed).await? {
            Some(Status::Applied | Status::Repeated) => ListingStatus::Listed,
            Some(Status::Unmet) | None => ListingStatus::Unlisted,
            Some(_) => ListingStatus::NoBucket,
        })
    }

    /// Whether the session's bucket names this owner. One transaction.
    pub(super) async fn names_owner(&self, session: &str, owner: &str) -> Result<bool, SessionError> {
        let named = expected_entry(SESSION_MAP, OWNER_KEY, EntryState::Equal, owner);
        let status = self.check_expectation(kind::SESSION, session, owner, named).await?;
        Ok(matches!(status, Some(Status::Applied | Status::Repeated)))
    }

    /// The owner whom the session's bucket names. One transaction.
    pub(super) async fn read_stored_owner(&self, session: &str) -> Result<Option<String>, SessionError> {
        if !is_bucket(session) {
            return Ok(None);
        }
        let transaction = build_entry_read(session, (SESSION_MAP, OWNER_KEY), OWNER_MAX);
        Ok(extract_entry_text(self.run_read_transaction(&transaction).await?))
    }

    /// What becomes of a transaction on that bucket that expects this and does nothing. None: a name is none, so there is
    /// nothing to ask.
    async fn check_expectation(
        &self,
        kind: &str,
        name: &str,
        other: &str,
        expected: ExpectedEntry,
    ) -> Result<Option<Status>, SessionError> {
        if !is_bucket(name) || !is_bucket(other) {
            return Ok(None);
        }
        let transaction = look_expecting(BucketId::new(kind, name), expected);
        Ok(Some(self.run_read_transaction(&transaction.into()).await?.status))
    }

    pub(super) async fn run_read_transaction(&self, transaction: &IndexedTransaction) -> Result<Receipt, SessionError> {
        let deadline = self.inner.call_deadline(Instant::now(), self.deadline).deadline;
        let mut writer = Writer::new();
        let writer = writer.advance();
        let asked = self.store.call(deadline, |store| store.transact(writer, transaction, deadline)).await;
        let answer = asked.map_err(Missed::to_failure).and_then(|answer| answer);
        Ok(answer?.receipt)
    }
}

pub(super) fn expected_entry(map: &str, key: &str, state: EntryState, text: &str) -> ExpectedEntry {
    ExpectedEntry { map_name: map.to_owned(), key: key.to_owned(), state, text: text.to_owned() }
}

/// A transaction that expects this and does nothing.
pub(super) fn look_expecting(bucket: BucketId, expected: ExpectedEntry) -> Transaction {
    Transaction {
        bucket,
        // To look is no use of it.
        precondition: Precondition::Existing(ExistingBucket { generation: None, renew: false }),
        expectations: vec![Expectation::Entry(expected)],
        operations: Vec::new(),
    }
}
