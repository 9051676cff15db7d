//! What an operator, or another part of a pipeline, does to sessions: the component's `sessions` export.

use std::sync::Arc;

use crate::{
    contract::sessions::{
        Guest, HistoryPage, KeyCounted, KeyList, KeysCleared, SessionCreated, SessionDeleted, SessionPage,
        SessionProblem, SessionState, ValueFound, ValueStored,
    },
    keepline::Shared,
    lend::{MAX_MESSAGE, tame},
    store::{Deadline, Writer},
};

pub use crate::contract::sessions::SessionProblemCode;

/// Why a call on a session failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct SessionError {
    /// What kind of problem; none: the plugin itself was stopped, or no instance of it was to be had.
    pub code: Option<SessionProblemCode>,
    /// One sentence.
    pub message: String,
}

impl From<SessionProblem> for SessionError {
    fn from(mut problem: SessionProblem) -> Self {
        tame(&mut problem.message, MAX_MESSAGE);
        Self { code: Some(problem.code), message: problem.message }
    }
}

/// Sessions, by id. The rules are the lanes', checked in the same place: the component. See
/// `wit/sessions.wit` for what each call promises; each fails with a [`SessionError`], in time: it has
/// [`Options::entry_timeout`](crate::Options::entry_timeout), as an entry has, or a deadline of the caller's.
pub struct Sessions {
    shared: Arc<Shared>,
    /// Of all calls; none: each has its own.
    deadline: Option<Deadline>,
    writer: Option<Writer>,
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $call:ident($($argument:ident: $type:ty),*) -> $reply:ty;)*) => {
        impl Sessions {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// See [`SessionError`].
                pub async fn $name(&mut self, $($argument: $type),*) -> Result<$reply, SessionError> {
                    let due = self.shared.due(self.deadline);
                    let called = self.shared.call(&mut self.writer, due, async |instance, writer, due| {
                        let call = async |guest: &Guest, store: &mut _| guest.$call(store, $($argument),*).await;
                        instance.sessions(writer, due, call).await
                    });
                    let reply =
                        called.await.map_err(|refusal| SessionError { code: None, message: refusal.to_string() })?;
                    Ok(reply?)
                }
            )*
        }
    };
}

calls! {
    /// Create a session that must not be there.
    create = call_create(session: &str) -> SessionCreated;
    /// Look at a session. It counts as a use of it.
    resume = call_resume(session: &str) -> SessionState;
    /// A page of session ids, from the empty cursor on.
    list = call_list(cursor: &str, limit: u32) -> SessionPage;
    /// Delete a session and all that it holds.
    delete = call_delete(session: &str) -> SessionDeleted;
    /// Store a JSON text under a key.
    put = call_put(session: &str, key: &str, value: &str) -> ValueStored;
    /// The JSON text under a key.
    get = call_get(session: &str, key: &str) -> ValueFound;
    /// The session's keys, sorted.
    keys = call_keys(session: &str) -> KeyList;
    /// Clear one key, or all.
    clear = call_clear(session: &str, key: Option<&str>) -> KeysCleared;
    /// Add to a counter.
    increment = call_increment(session: &str, key: &str, amount: i64) -> KeyCounted;
    /// The newest `limit` history records, oldest first; 0: all.
    history = call_history(session: &str, limit: u32) -> HistoryPage;
}

impl Sessions {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, deadline: None, writer: None }
    }

    /// All calls end by this deadline, in place of a time for each: for a service whose request has one.
    /// [`Deadline::NEVER`]: only the store's own limits hold.
    #[must_use]
    pub fn by(mut self, deadline: Deadline) -> Self {
        self.deadline = Some(deadline);
        self
    }
}
