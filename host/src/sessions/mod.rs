//! Operations on sessions, conversations and users, for operators and other parts of a pipeline: the component's
//! exports `sessions`, `transcripts` and `users`.

mod conditions;
mod error;
mod hashed_ids;
mod owned_data;
mod owned_nodes;
mod ownership;
mod search;
mod stored_json;

use std::sync::Arc;

use keepline_options::bucket_names::user_bucket_name;
use tokio::time::Instant;

use self::ownership::ListingStatus;
pub(crate) use self::ownership::UserListing;
pub use self::{
    conditions::{ExpectedValue, WriteConditions},
    error::{SessionError, SessionErrorCode},
    search::{FoundMessage, UserSearch},
};
pub use crate::contract::{
    Member,
    sessions::{
        HistoryPage, HistoryRecord, HistorySummary, KeyCounted, KeyList, NameCount, NamedValue, SessionDeleted,
        SessionPage, SessionState, ValueChanged, ValueList,
    },
    transcripts::{
        ChatMessage, ContentLine, FoundLines, LineQuery, Message, MessageContent, MessagePage, MessageQuery,
        NewMessage, TitleState, ToolPart, Transcript, TranscriptChanged, TranscriptRegistered, TranscriptSettings,
        TranscriptState,
    },
    users::{SessionList, SessionSummary, UserForgotten},
};
use crate::{
    contract::shared::Problem,
    keepline::inner::KeeplineInner,
    runtime::{CallScope, Exports, InstanceStore},
    store::{Deadline, FailureCode, StoreGuard},
};

impl<'a> From<&'a str> for Transcript<'a> {
    /// A session's own.
    fn from(session: &'a str) -> Self {
        Self { session, app_id: None, node_id: None }
    }
}

impl Copy for Transcript<'_> {}
impl Copy for MessageQuery<'_> {}
impl Copy for LineQuery<'_> {}

impl Default for MessageQuery<'_> {
    /// The newest messages.
    fn default() -> Self {
        Self { id: None, thread: None, role: None, contains: None, before: None, limit: 0 }
    }
}

/// Messages to store, each as chat APIs write it: a JSON object.
pub fn chat_messages<T: AsRef<str>>(texts: &[T]) -> Vec<NewMessage<'_>> {
    texts.iter().map(|text| NewMessage::Chat(ChatMessage { text: text.as_ref() })).collect()
}

/// The name of a user's bucket, as [`TranscriptState::owner`] has it: a plain id as it is, any other hashed.
pub fn user_bucket(user: &str) -> String {
    user_bucket_name(user).into_owned()
}

impl ValueList {
    /// That of one key, if there is one.
    pub fn value(&self) -> Option<&str> {
        self.values.first().map(|found| &*found.value)
    }
}

impl TranscriptState {
    /// What stands for the messages, title and settings that it has, for
    /// [`WriteConditions::expected_version`]. None: the component is older than versions.
    pub fn version(&self) -> Option<String> {
        let member = self.extras.iter().flatten().find(|member| member.name == "version")?;
        keepline_json::decode_string(&member.value).map(|version| version.into_owned())
    }
}

impl Default for LineQuery<'_> {
    /// The first lines.
    fn default() -> Self {
        Self { text: "", ignore_case: false, context: 0, from_line: 0, limit: 0 }
    }
}

impl Default for TranscriptSettings {
    /// As the configuration has it.
    fn default() -> Self {
        Self { max_context_tokens: None, context_window: None, reserve_tokens: None, model: None }
    }
}

/// Sessions, by id. The rules are the lanes', checked in the same place: the component. See the package `keepline:admin` in
/// `wit/deps/admin` for what each call promises; each fails with a [`SessionError`], in time: it has
/// [`Options::entry_timeout`](crate::Options::entry_timeout), as an entry has, or a deadline of the caller's.
pub struct Sessions {
    pub(crate) inner: Arc<KeeplineInner>,
    store: Arc<StoreGuard>,
    /// Of all calls; none: each has its own.
    deadline: Option<Deadline>,
    /// [`WriteConditions`] as a call takes them.
    conditions: Vec<Member>,
    /// The bucket of the user whose the sessions have to be.
    owner: Option<String>,
}

/// What a call may reach.
enum CallReach<'a> {
    Known(CallScope),
    /// A transcript, and the memory of its session's owner.
    Owned(Transcript<'a>),
    /// All of a session.
    Whole(&'a str),
}

impl From<CallScope> for CallReach<'_> {
    fn from(scope: CallScope) -> Self {
        Self::Known(scope)
    }
}

/// A call of an interface, which the component may lack.
macro_rules! call {
    ($self:ident, $scope:expr, $interface:ident.$function:ident($($argument:expr),*)) => {
        $self.call($scope, async |exports: &Exports, store: &mut InstanceStore| match exports.$interface() {
            Ok(interface) => interface.$function(store, $($argument),*).await,
            Err(missing) => Ok(Err(missing)),
        })
    };
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) in $reach:expr
        => $interface:ident.$function:ident($($passed:expr),*) -> $reply:ty;)*) => {
        $(
            $(#[$doc])*
            pub async fn $name(&mut self, $($argument: $type),*) -> Result<$reply, SessionError> {
                let scope = self.resolve_scope($reach.into()).await?.with_session_ids(self.inner.session_ids);
                call!(self, scope, $interface.$function($($passed),*)).await
            }
        )*
    };
}

/// The same, waited for, with the conditions as the last argument.
macro_rules! conditional_call {
    ($self:ident, $scope:expr, $interface:ident.$function:ident($($argument:expr),*)) => {{
        let conditions = $self.conditions.clone();
        let members: Vec<&Member> = conditions.iter().collect();
        let extras = Some(&*members).filter(|members| !members.is_empty());
        call!($self, $scope, $interface.$function($($argument,)* extras)).await
    }};
}

/// Calls that write, under the conditions.
macro_rules! writes {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) in $reach:expr
        => $interface:ident.$function:ident($($passed:expr),*) -> $reply:ty;)*) => {
        $(
            $(#[$doc])*
            pub async fn $name(&mut self, $($argument: $type),*) -> Result<$reply, SessionError> {
                let scope = self.resolve_scope($reach.into()).await?.with_session_ids(self.inner.session_ids);
                conditional_call!(self, scope, $interface.$function($($passed),*))
            }
        )*
    };
}

impl Sessions {
    calls! {
        /// Look at a session. It counts as a use of it.
        resume(session: &str) in CallScope::for_session(session) => sessions.call_resume(session) -> SessionState;
        /// The JSON text under a key, if there is one.
        get(session: &str, key: &str) in CallScope::for_session(session) => sessions.call_get(session, key) -> ValueList;
        /// The session's keys, sorted.
        keys(session: &str) in CallScope::for_session(session) => sessions.call_keys(session) -> KeyList;
        /// At most `limit` records of the session's history before the position `before` (none: the newest), oldest first;
        /// 0: as many as fit in one reply.
        history(session: &str, before: Option<u64>, limit: u32) in CallScope::for_session(session)
            => sessions.call_history(session, before, limit) -> HistoryPage;
        /// What there is to tell of a transcript: owner, title, summary, size. No use of it is counted.
        describe(transcript: Transcript<'_>) in CallScope::for_transcript(&transcript)
            => transcripts.call_describe(transcript) -> TranscriptState;
        /// Messages of a transcript, oldest first, page by page from the newest on: by thread, id, role or text. No use of it
        /// is counted. Cost: two transactions, and no more than 2,048 records or 4 MiB looked at.
        messages(transcript: Transcript<'_>, query: MessageQuery<'_>) in CallScope::for_transcript(&transcript)
            => transcripts.call_messages(transcript, query) -> MessagePage;
        /// The text of a message by characters, at most `limit` (0: 50,000; no more than 200,000) from `offset` on; of a
        /// tool's result that was cut when it was stored, of the whole.
        content(transcript: Transcript<'_>, position: u64, offset: u64, limit: u32)
            in CallScope::for_transcript(&transcript)
            => transcripts.call_content(transcript, position, offset, limit) -> MessageContent;
        /// The lines of a message that hold a text, with their numbers and as many lines around them as asked for; of a tool's
        /// result that was cut when it was stored, of the whole. At most 1,000 that hold it, and 256 KiB; `next` says where to go
        /// on. Cost: one transaction, two for a whole result.
        find_lines(transcript: Transcript<'_>, position: u64, query: LineQuery<'_>)
            in CallScope::for_transcript(&transcript)
            => transcripts.call_find_lines(transcript, position, query) -> FoundLines;
        /// The values of a user, which each question that names the user gets; or the one under that key.
        user_values(user: &str, key: Option<&str>) in CallScope::for_user(user)
            => users.call_values(user, key) -> ValueList;
    }

    writes! {
        /// Create a session that must not be there.
        create(session: &str) in CallScope::for_session(session) => sessions.call_create(session) -> SessionState;
        /// Store a JSON text as a value of a user; none: remove it.
        put_user_value(user: &str, key: &str, value: Option<&str>) in CallScope::for_user(user)
            => users.call_put(user, key, value) -> ValueChanged;
        /// Store a JSON text under a key.
        put(session: &str, key: &str, value: &str) in CallScope::for_session(session)
            => sessions.call_put(session, key, value) -> ValueChanged;
        /// Clear one key, or all. What was cleared.
        clear(session: &str, key: Option<&str>) in CallScope::for_session(session)
            => sessions.call_clear(session, key) -> KeyList;
        /// Add to a counter.
        increment(session: &str, key: &str, amount: i64) in CallScope::for_session(session)
            => sessions.call_increment(session, key, amount) -> KeyCounted;
        /// Give a transcript a title: one line of at most 200 characters; none or blank: it has none.
        set_title(transcript: Transcript<'_>, title: Option<&str>) in CallScope::for_transcript(&transcript)
            => transcripts.call_set_title(transcript, title) -> TitleState;
        /// Set the size of a transcript's window, and the name of its model, in place of all that was set before; with none, the
        /// configuration holds again. `InvalidValue` names the field that is out of range, and its range.
        set_settings(transcript: Transcript<'_>, settings: &TranscriptSettings)
            in CallScope::for_transcript(&transcript)
            => transcripts.call_set_settings(transcript, settings) -> TranscriptSettings;
    }

    // What their owner's memory has of it, is corrected with them.
    writes! {
        /// Delete a session and all that it holds, its nodes, and what its owner's memory has of it.
        delete(session: &str) in CallReach::Whole(session) => sessions.call_delete(session) -> SessionDeleted;
        /// Put other words in a message's place; none: remove it. A summary that covers it is dropped. `last_answer` stays.
        rewrite(transcript: Transcript<'_>, position: u64, content: Option<&str>) in CallReach::Owned(transcript)
            => transcripts.call_rewrite(transcript, position, content) -> TranscriptChanged;
        /// Remove all messages, with summary and title, or those from a position on that go on from there.
        clear_messages(transcript: Transcript<'_>, branch: Option<u64>) in CallReach::Owned(transcript)
            => transcripts.call_clear(transcript, branch) -> TranscriptChanged;
        /// Put messages in place of all that there are or, with `next`, after them, if the transcript stands there. More in
        /// `wit/deps/admin/transcripts.wit`.
        set_messages(transcript: Transcript<'_>, messages: &[NewMessage<'_>], next: Option<u64>)
            in CallReach::Owned(transcript)
            => transcripts.call_set_messages(transcript, messages, next) -> TranscriptChanged;
    }

    /// One call of the component.
    async fn call<R>(
        &mut self,
        scope: CallScope,
        call: impl AsyncFnOnce(&Exports, &mut InstanceStore) -> wasmtime::Result<Result<R, Problem>>,
    ) -> Result<R, SessionError> {
        let due = self.inner.call_deadline(Instant::now(), self.deadline);
        let called = self.inner.call_instance(&self.store, due, async |instance, writer, due| {
            instance.call(writer, due, scope, call).await
        });
        Ok(called.await??)
    }

    pub(crate) fn new(inner: Arc<KeeplineInner>, store: Arc<StoreGuard>) -> Self {
        Self { inner, store, deadline: None, conditions: Vec::new(), owner: None }
    }

    /// Forget a user: a tombstone for late writers, then values, and some 32 sessions with their nodes. To be called again
    /// until nothing is `remaining`; then the definitions and data sets that the user owns are gone, too.
    pub async fn forget_user(&mut self, user: &str) -> Result<UserForgotten, SessionError> {
        let scope = CallScope::for_forgetting(user).with_session_ids(self.inner.session_ids);
        let forgotten: UserForgotten = conditional_call!(self, scope, users.call_forget(user))?;
        if forgotten.remaining == 0 {
            owned_data::delete_owned_data(self, user).await?;
        }
        Ok(forgotten)
    }

    /// A page of session ids, from the empty cursor on; a limit of 0 means 100. Of a session whose name is a hash, the id that
    /// is kept with it: one more wait for each 64 of them.
    pub async fn list(&mut self, cursor: &str, limit: u32) -> Result<SessionPage, SessionError> {
        let mut page: SessionPage =
            call!(self, CallScope::SessionNames, sessions.call_list_sessions(cursor, limit)).await?;
        self.replace_hashes_by_ids(&mut page.sessions).await?;
        Ok(page)
    }

    /// Note a session that was moved here in the lists of its owner, and a node also in its session's. A session that is
    /// without an owner becomes the user's, if one is named. May be called again.
    ///
    /// The plugin reaches the bucket of the user who is named; where none is, that of the owner whom the session's bucket
    /// names, so move only sessions here whose owner you believe. For a node it is the owner's bucket only if that lists the
    /// session, or is not there yet.
    ///
    /// Under the condition of an owner, a node of that user's whose session is another one's by now is deleted: `NotFound`.
    ///
    /// # Errors
    /// See [`SessionError`]; `AlreadyExists`: it belongs to another user.
    pub async fn register(
        &mut self,
        transcript: Transcript<'_>,
        user: Option<&str>,
    ) -> Result<TranscriptRegistered, SessionError> {
        let registered = self.register_unconfirmed(transcript, user).await;
        match &self.owner {
            Some(owner) if is_node(&transcript) => self.confirm_node(&transcript, owner, registered).await,
            _ => registered,
        }
    }

    async fn register_unconfirmed(
        &mut self,
        transcript: Transcript<'_>,
        user: Option<&str>,
    ) -> Result<TranscriptRegistered, SessionError> {
        let scope = match user {
            Some(user) => CallScope::for_correction(&transcript, None, Some(user)),
            None => self.registered_with_owner(&transcript).await?,
        };
        let scope = scope.with_session_ids(self.inner.session_ids);
        call!(self, scope, transcripts.call_register(transcript, user, None)).await
    }

    async fn registered_with_owner(&mut self, transcript: &Transcript<'_>) -> Result<CallScope, SessionError> {
        let session = transcript.session;
        let Some(owner) = self.describe(session.into()).await?.owner else {
            return Ok(CallScope::for_correction(transcript, None, None));
        };
        let name = self.inner.session_ids.bucket_name_or_id(session);
        let is_lent = if is_node(transcript) {
            self.check_listing(&name, &owner).await? != ListingStatus::Unlisted
        } else {
            // That it is listed is what this is for.
            self.names_owner(&name, &owner).await?
        };
        Ok(CallScope::for_correction(transcript, Some(&*owner).filter(|_| is_lent), None))
    }

    /// Of an owned transcript, its session names the owner, even where this plugin keeps no conversations: those
    /// that another one keeps are deleted whole. One call of the plugin more, and one of the store.
    async fn resolve_scope(&mut self, reach: CallReach<'_>) -> Result<CallScope, SessionError> {
        let transcript = match reach {
            CallReach::Known(scope) => return Ok(scope),
            CallReach::Owned(transcript) => transcript,
            CallReach::Whole(session) => return Ok(self.removal_scope(session).await?.into_removal()),
        };
        if is_node(&transcript) {
            return Ok(CallScope::for_correction(&transcript, None, None));
        }
        let has_owners = self.inner.pool.plugin_info().has_owners;
        match Box::pin(self.describe(transcript.session.into())).await {
            Ok(TranscriptState { owner: Some(owner), .. }) => self.correction_scope(&transcript, &owner).await,
            Ok(_) => Ok(CallScope::for_correction(&transcript, None, None)),
            // Reading an expired session clears it away, so this is reported only once.
            Err(error) if error.code == SessionErrorCode::Expired => Err(error),
            // The call itself says it best.
            Err(error) if error.code.is_session_missing() || !has_owners => {
                Ok(CallScope::for_correction(&transcript, None, None))
            }
            Err(error) => Err(error),
        }
    }

    /// Of a session that is to be deleted: what is damaged can be deleted as well, and its owner is read alone, if that can
    /// be read.
    async fn removal_scope(&mut self, session: &str) -> Result<CallScope, SessionError> {
        match Box::pin(self.resolve_scope(CallReach::Owned(session.into()))).await {
            Err(error) if error.code == SessionErrorCode::Store(FailureCode::WrongType) => {
                let transcript = session.into();
                match self.read_stored_owner(&self.inner.session_ids.bucket_name_or_id(session)).await {
                    Ok(Some(owner)) => self.correction_scope(&transcript, &owner).await,
                    Ok(None) => Ok(CallScope::for_correction(&transcript, None, None)),
                    Err(error) if error.code == SessionErrorCode::Store(FailureCode::WrongType) => {
                        Ok(CallScope::for_correction(&transcript, None, None))
                    }
                    Err(error) => Err(error),
                }
            }
            scope => scope,
        }
    }

    /// The owner's bucket is lent only if it lists the session. Otherwise it is as if it were not there: a session whose
    /// owner has no list, or no longer, is still to be corrected and deleted.
    async fn correction_scope(&self, transcript: &Transcript<'_>, owner: &str) -> Result<CallScope, SessionError> {
        let scope = CallScope::for_correction(transcript, Some(owner), None);
        let name = self.inner.session_ids.bucket_name_or_id(transcript.session);
        let listing = self.listing_reported(&name, owner).await?;
        Ok(if listing == ListingStatus::Listed { scope } else { scope.without_user() })
    }

    /// The sessions of a user that are there, the one used last first as of the last note ([`maintenance`] makes it): at most
    /// `limit` (0: 20, no more than 100). Two waits, and one for each 16 sessions. The plugin only reads, of the sessions no
    /// more than those that the user's list has and that name the user as their owner; whatever else it lists is left out
    /// and reported.
    ///
    /// [`maintenance`]: crate::maintenance
    pub async fn user_sessions(
        &mut self,
        user: &str,
        before: Option<u64>,
        limit: u32,
    ) -> Result<SessionList, SessionError> {
        self.list_user_sessions(&UserListing::for_user(user), user, before, limit).await
    }

    /// The same, with the sessions recorded for later reads.
    pub(crate) async fn list_user_sessions(
        &mut self,
        listed: &UserListing,
        user: &str,
        before: Option<u64>,
        limit: u32,
    ) -> Result<SessionList, SessionError> {
        let mut page: SessionList = call!(self, listed.scope(), users.call_list_sessions(user, before, limit)).await?;
        page.sessions.retain(|SessionSummary { session, .. }| {
            // The host has seen the name, and the plugin tells the id.
            let is_listed = listed.is_verified_session(&self.inner.session_ids.bucket_name_or_id(session));
            if !is_listed {
                self.report_unlisted(session, listed.name());
            }
            is_listed
        });
        Ok(page)
    }

    /// What there is to tell of a session that is on a user's list.
    pub(crate) async fn describe_of(
        &mut self,
        listed: &UserListing,
        session: &str,
    ) -> Result<TranscriptState, SessionError> {
        call!(self, listed.scope(), transcripts.call_describe(session.into())).await
    }

    /// Messages of a session that is on a user's list or, without one, that the caller's own caller names. None: it is gone.
    pub(crate) async fn read_messages(
        &mut self,
        listed: Option<&UserListing>,
        session: &str,
        query: MessageQuery<'_>,
    ) -> Result<Option<MessagePage>, SessionError> {
        let scope = match listed {
            Some(listed) => listed.scope(),
            None => CallScope::for_reading(session).with_session_ids(self.inner.session_ids),
        };
        match call!(self, scope, transcripts.call_messages(session.into(), query)).await {
            Ok(page) => Ok(Some(page)),
            Err(error) if error.is_gone() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The id of the session that this is the name of, as lists of users and what is recalled have it: the name itself, or
    /// what that is the hash of. One transaction for a hash, none for other names.
    pub async fn id_of(&self, name: &str) -> Result<String, SessionError> {
        let mut names = [name.to_owned()];
        self.replace_hashes_by_ids(&mut names).await?;
        let [id] = names;
        Ok(id)
    }

    /// Calls that write are made under these conditions, until others are set.
    #[must_use]
    pub fn under(mut self, conditions: &WriteConditions) -> Self {
        self.conditions = conditions.to_extras();
        self.owner = conditions.owner.as_deref().map(user_bucket);
        self
    }

    /// All calls end by this deadline, in place of a time for each: for a service whose request has one.
    /// [`Deadline::NEVER`]: only the store's own limits hold.
    #[must_use]
    pub fn by(mut self, deadline: Deadline) -> Self {
        self.deadline = Some(deadline);
        self
    }
}

fn is_node(transcript: &Transcript<'_>) -> bool {
    transcript.node_id.is_some_and(|node| !node.is_empty())
}
