//! Reads the exchanges that found messages belong to from their transcripts.
//!
//! Promises that nothing of a session is read for a user whom it does not belong to, and that a page is read once for all
//! that is found in it.

use std::sync::Arc;

use serde_json::Value;

use super::{FoundMemory, pair::content_text};
use crate::sessions::{Message, MessageQuery, SessionError, Sessions, UserListing};

/// Records of a turn that are read on each side of a message: tools may have been at work between its ends.
const RECORDS_AROUND: u64 = 64;

/// A message of a transcript.
pub(super) struct TranscriptMessage {
    pub position: u64,
    pub turn: String,
    pub text: String,
    role: String,
    id: Option<String>,
    at: Option<f64>,
    /// As it is stored.
    metadata: Option<String>,
    is_said: bool,
    /// A branch begins with it: another answer to the question, say.
    begins_branch: bool,
}

impl From<Message> for TranscriptMessage {
    fn from(Message { position, id, turn, role, kind, at, content, extras, .. }: Message) -> Self {
        let extra = |name: &str| extras.iter().flatten().find(|member| member.name == name);
        let text = match extra("parts").and_then(|parts| serde_json::from_str::<Value>(&parts.value).ok()) {
            Some(parts) => content_text(&parts),
            None => content,
        };
        Self {
            position,
            text,
            id: Some(id).filter(|id| !id.is_empty()),
            #[allow(clippy::cast_precision_loss, reason = "milliseconds since 1970")]
            at: (at > 0).then(|| at as f64 / 1000.0),
            metadata: extra("metadata").map(|metadata| metadata.value.clone()),
            is_said: kind == "message",
            begins_branch: extra("after").is_some(),
            turn,
            role,
        }
    }
}

impl TranscriptMessage {
    fn is_by(&self, role: &str) -> bool {
        self.is_said && self.role == role
    }
}

/// What was read, session by session.
pub(super) struct TranscriptReader<'a> {
    sessions: &'a mut Sessions,
    user: &'a UserListing,
    /// The session without an owner that may be read: the named one.
    named: Option<&'a str>,
    read: Vec<ReadSession>,
}

struct ReadSession {
    session: String,
    title: Option<String>,
    /// How it may be read. None: it is not there, or not the user's.
    from: Option<ReadPermission>,
    messages: Vec<TranscriptMessage>,
}

/// The reason why a session may be read.
#[derive(Clone)]
enum ReadPermission {
    /// It is on the user's list.
    List(Arc<UserListing>),
    /// The caller has named it.
    Name,
}

impl<'a> TranscriptReader<'a> {
    pub(super) fn new(sessions: &'a mut Sessions, user: &'a UserListing, named: Option<&'a str>) -> Self {
        Self { sessions, user, named, read: Vec::new() }
    }

    /// The exchange that holds the message, with its turn. None: it is not there any more, or not for the user.
    pub(super) async fn read_exchange(
        &mut self,
        session: &str,
        position: u64,
    ) -> Result<Option<(String, u64, FoundMemory)>, SessionError> {
        let index = match self.read.iter().position(|read| read.session == session) {
            Some(index) => index,
            None => {
                let allowed = self.title_if_allowed(session).await?;
                let (title, from) = allowed.map_or((None, None), |(title, from)| (title, Some(from)));
                self.read.push(ReadSession { session: session.to_owned(), title, from, messages: Vec::new() });
                self.read.len() - 1
            }
        };
        let Some(ReadSession { title, from: Some(from), messages, .. }) = self.read.get_mut(index) else {
            return Ok(None);
        };
        if !messages.iter().any(|message| message.position == position) {
            let before = Some(position.saturating_add(RECORDS_AROUND));
            let query = MessageQuery { before, limit: 2 * RECORDS_AROUND as u32, ..MessageQuery::default() };
            let listed = match from {
                ReadPermission::List(listed) => Some(&**listed),
                ReadPermission::Name => None,
            };
            let page = self.sessions.read_messages(listed, session, query).await?;
            let known = messages.len();
            for message in page.into_iter().flat_map(|page| page.messages) {
                if !messages.iter().take(known).any(|other| other.position == message.position) {
                    messages.push(message.into());
                }
            }
        }
        let Some(found) = messages.iter().find(|message| message.position == position) else { return Ok(None) };
        let in_turn = |role: &'static str| {
            let turn = &found.turn;
            messages.iter().filter(move |message| message.turn == *turn && message.is_by(role))
        };
        let question = in_turn("user").min_by_key(|message| message.position);
        // A turn has a line for each answer to its question. What an answer says is of its own; a question leads to the newest.
        let begin_of_line = |position: u64| {
            let begins = messages.iter().filter(|other| other.turn == found.turn && other.begins_branch);
            begins.map(|begin| begin.position).filter(|begin| *begin <= position).max()
        };
        let line = begin_of_line(found.position);
        let is_on_line = |message: &&TranscriptMessage| found.is_by("user") || begin_of_line(message.position) == line;
        let answer = in_turn("assistant").filter(is_on_line).max_by_key(|message| message.position);
        let text =
            |message: Option<&TranscriptMessage>| message.map(|message| message.text.clone()).unwrap_or_default();
        let memory = FoundMemory {
            id: answer.and_then(|answer| answer.id.clone()),
            position: question.or(answer).unwrap_or(found).position,
            title: title.clone(),
            created_at: answer.or(question).unwrap_or(found).at,
            metadata: answer.and_then(|answer| answer.metadata.clone()),
            ..FoundMemory::of(session, &text(question), &text(answer))
        };
        let position = answer.map_or(found.position, |answer| answer.position);
        Ok(Some((found.turn.clone(), position, memory)))
    }

    /// The session's title, if the session may be read: it is on the user's list, or has no owner and was named.
    async fn title_if_allowed(
        &mut self,
        session: &str,
    ) -> Result<Option<(Option<String>, ReadPermission)>, SessionError> {
        if let Some(listed) = self.sessions.narrow_if_listed(self.user, session).await? {
            return match self.sessions.describe_of(&listed, session).await {
                Ok(state) => Ok(Some((state.title, ReadPermission::List(listed.into())))),
                Err(error) if error.is_gone() => Ok(None),
                Err(error) => Err(error),
            };
        }
        if self.named != Some(session) {
            return Ok(None);
        }
        match self.sessions.describe(session.into()).await {
            Ok(state) => Ok(state.owner.is_none().then_some((state.title, ReadPermission::Name))),
            Err(error) if error.is_gone() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
