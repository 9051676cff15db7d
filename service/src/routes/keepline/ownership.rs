//! Checks that a session is one that the caller reaches, before anything is done with it.
//!
//! A caller whose key names a user reaches the sessions of that user. Another's, one that is nobody's, one that has expired
//! and one that never was are all the same 404, with the same body. A caller without a user reaches all of the tenant's.
//!
//! The owner is read before an operation, and once more after one that only reads, so that nothing is told of a session
//! that was another's at the end. What writes is checked in the transaction itself ([`Call::sessions`]): between looking and
//! writing, a session can be deleted and begun again by somebody else.

use keepline::{
    SessionError,
    sessions::{SessionErrorCode, Transcript, TranscriptState, user_bucket},
};

use crate::{
    events::needs_owner,
    http::{ApiError, Call},
};

/// The id of a session that the caller reaches. There is no other way to make one.
#[derive(Clone, Debug)]
pub struct OwnedSession {
    id: String,
    /// The bucket of the caller's user, if the caller has one.
    owner: Option<String>,
}

impl OwnedSession {
    /// The session that the path names.
    ///
    /// # Errors
    /// 404, for a caller with a user, unless it is that user's.
    pub async fn of_path(call: &Call) -> Result<Self, ApiError> {
        Self::open(call, call.path("id")).await
    }

    /// A session that has to be there, for a caller with a user.
    ///
    /// # Errors
    /// 404, unless it is that user's.
    pub async fn open(call: &Call, id: &str) -> Result<Self, ApiError> {
        let session = Self::unchecked(call, id);
        session.confirm(call).await?;
        Ok(session)
    }

    /// A session that may yet be begun.
    ///
    /// # Errors
    /// 404, if it is there and not the user's.
    pub async fn open_or_absent(call: &Call, id: &str) -> Result<Self, ApiError> {
        let session = Self::unchecked(call, id);
        match session.state(call).await? {
            Some(state) if !session.owns(&state) => Err(session.not_found()),
            _ => Ok(session),
        }
    }

    /// A session that is begun for the caller's user, if it is not there: a question alone leaves a session nobody's, and
    /// then its own user would not reach it.
    ///
    /// # Errors
    /// 404, if it is there and not the user's.
    pub async fn open_or_begin(call: &Call, id: &str) -> Result<Self, ApiError> {
        let session = Self::unchecked(call, id);
        let Some(user) = &call.caller.user else { return Ok(session) };
        match session.state(call).await? {
            Some(state) if !session.owns(&state) => return Err(session.not_found()),
            Some(_) => return Ok(session),
            None => {}
        }
        match begin(call, id, Some(user)).await {
            // Of an id that no session can have, the operation itself says so.
            Err(SessionError { code: SessionErrorCode::InvalidSession, .. }) => {}
            // Somebody was faster.
            Err(SessionError { code: SessionErrorCode::AlreadyExists, .. }) => session.confirm(call).await?,
            begun => begun?,
        }
        Ok(session)
    }

    fn unchecked(call: &Call, id: &str) -> Self {
        Self { id: id.to_owned(), owner: call.caller.user.as_deref().map(user_bucket) }
    }

    /// The session's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// That it still is the caller's: for what was read meanwhile.
    ///
    /// # Errors
    /// 404 otherwise.
    pub async fn confirm(&self, call: &Call) -> Result<(), ApiError> {
        if self.owner.is_none() {
            return Ok(());
        }
        match self.state(call).await? {
            Some(state) if self.owns(&state) => Ok(()),
            _ => Err(self.not_found()),
        }
    }

    /// What there is to tell of it, for a caller with a user. None: it is not there, or can't be.
    async fn state(&self, call: &Call) -> Result<Option<TranscriptState>, ApiError> {
        use SessionErrorCode::{Expired, InvalidSession, NotFound};
        if self.owner.is_none() {
            return Ok(None);
        }
        match call.sessions().describe((&*self.id).into()).await {
            Ok(state) => Ok(Some(state)),
            // Of an id that no session can have, the operation itself says so.
            Err(SessionError { code: NotFound | Expired | InvalidSession, .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn owns(&self, state: &TranscriptState) -> bool {
        self.owner.is_none() || state.owner == self.owner
    }

    fn not_found(&self) -> ApiError {
        session_not_found(&self.id)
    }
}

/// The transcript of a session that the caller reaches, or of one of its nodes.
#[derive(Clone, Debug)]
pub struct OwnedTranscript {
    session: OwnedSession,
    node: Option<NodeName>,
}

/// A node, as metadata name it.
#[derive(Clone, Debug)]
pub struct NodeName {
    node_id: String,
    app_id: Option<String>,
}

impl NodeName {
    /// None: the session's own transcript is meant, whatever app is named.
    pub fn new(node_id: Option<&str>, app_id: Option<&str>) -> Option<Self> {
        let node_id = node_id.filter(|node| !node.is_empty())?.to_owned();
        Some(Self { node_id, app_id: app_id.map(str::to_owned) })
    }

    fn of_query(call: &Call) -> Option<Self> {
        Self::new(call.query.get("node"), call.query.get("app"))
    }
}

impl OwnedTranscript {
    /// The transcript of the path's session, or of its node that the query names.
    ///
    /// # Errors
    /// 404, for a caller with a user, unless session and node are that user's.
    pub async fn of_path(call: &Call) -> Result<Self, ApiError> {
        Self::open(call, call.path("id"), NodeName::of_query(call)).await
    }

    /// A transcript that has to be there, for a caller with a user.
    ///
    /// # Errors
    /// As [`Self::of_path`].
    pub async fn open(call: &Call, session: &str, node: Option<NodeName>) -> Result<Self, ApiError> {
        let transcript = Self { session: OwnedSession::open(call, session).await?, node };
        transcript.confirm_node(call).await?;
        Ok(transcript)
    }

    /// A transcript of the path's session whose node may yet be begun.
    ///
    /// # Errors
    /// 404, if the session or the node is there and not the user's, or if the session is not there.
    pub async fn to_write(call: &Call) -> Result<Self, ApiError> {
        Self::begun_by(call, OwnedSession::of_path(call).await?).await
    }

    /// The same where the session may yet be begun, too.
    ///
    /// # Errors
    /// 404, if the session or the node is there and not the user's.
    pub async fn to_begin(call: &Call) -> Result<Self, ApiError> {
        Self::begun_by(call, OwnedSession::open_or_absent(call, call.path("id")).await?).await
    }

    async fn begun_by(call: &Call, session: OwnedSession) -> Result<Self, ApiError> {
        let transcript = Self { session, node: NodeName::of_query(call) };
        match transcript.node_owner(call).await? {
            Some(Some(owner)) if Some(&owner) != transcript.session.owner.as_ref() => Err(transcript.node_not_found()),
            _ => Ok(transcript),
        }
    }

    /// The session.
    pub fn session(&self) -> &OwnedSession {
        &self.session
    }

    /// As the library takes it.
    pub fn transcript(&self) -> Transcript<'_> {
        let (node_id, app_id) =
            self.node.as_ref().map_or((None, None), |node| (Some(&*node.node_id), node.app_id.as_deref()));
        Transcript { session: self.session.id(), app_id, node_id }
    }

    /// That it still is the caller's: for what was read meanwhile.
    ///
    /// # Errors
    /// 404 otherwise.
    pub async fn confirm(&self, call: &Call) -> Result<(), ApiError> {
        self.session.confirm(call).await?;
        self.confirm_node(call).await
    }

    /// A node outlives its session, whose name somebody else may have by now.
    async fn confirm_node(&self, call: &Call) -> Result<(), ApiError> {
        if self.session.owner.is_none() || self.node.is_none() {
            return Ok(());
        }
        match self.node_owner(call).await? {
            Some(owner) if owner.is_none() || owner == self.session.owner => Ok(()),
            _ => Err(self.node_not_found()),
        }
    }

    /// Who the node says it belongs to, for a caller with a user; a node that was written by nobody in particular is its
    /// session's. None: there is no such node.
    async fn node_owner(&self, call: &Call) -> Result<Option<Option<String>>, ApiError> {
        use SessionErrorCode::{Expired, NotFound};
        if self.session.owner.is_none() || self.node.is_none() {
            return Ok(None);
        }
        match call.sessions().describe(self.transcript()).await {
            Ok(state) => Ok(Some(state.owner)),
            Err(SessionError { code: NotFound | Expired, .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The one reply for a node that is not there for a caller with a user.
    fn node_not_found(&self) -> ApiError {
        let id: String = self.session.id().chars().take(128).collect();
        ApiError::not_found(format!("session {id:?} has no such node"))
    }
}

/// The bucket of a session's owner, where followers of events have to be told apart by it.
pub async fn owner_bucket(call: &Call, id: &str) -> Option<String> {
    if let Some(user) = &call.caller.user {
        return Some(user_bucket(user));
    }
    if !needs_owner(&call.caller) {
        return None;
    }
    // Of one that can't be read nothing is announced to those who reach one user only.
    call.sessions().describe(id.into()).await.ok()?.owner
}

/// Begins a session that must not be there, as that user's.
///
/// # Errors
/// `AlreadyExists`, or another of the library's.
pub async fn begin(call: &Call, id: &str, user: Option<&str>) -> Result<(), SessionError> {
    let mut sessions = call.sessions_of_anyone();
    sessions.create(id).await?;
    let Some(user) = user else { return Ok(()) };
    let registered = sessions.register(id.into(), Some(user)).await;
    if registered.is_err() {
        // Without its owner it would be nobody's.
        let _ = sessions.delete(id).await;
    }
    registered.map(drop)
}

/// The one reply for a session that is not there for the caller.
pub fn session_not_found(id: &str) -> ApiError {
    let id: String = id.chars().take(128).collect();
    ApiError::not_found(format!("there is no session {id:?}"))
}

/// The user whom a request is about: the caller's own, or the one that it names.
///
/// # Errors
/// 404 for a caller with a user who names another one.
pub fn reached_user(call: &Call, named: Option<&str>) -> Result<Option<String>, ApiError> {
    let own = call.caller.user.as_deref();
    match (own, named.filter(|named| !named.is_empty())) {
        (Some(own), Some(named)) if own != named => Err(user_not_found()),
        (own, named) => Ok(own.or(named).map(str::to_owned)),
    }
}

/// The one reply for a user whom the caller does not reach.
pub fn user_not_found() -> ApiError {
    ApiError::not_found("there is no such user")
}
