//! Appends messages to a conversation, for the command line and the service.

use keepline::{
    Sessions,
    sessions::{SessionError, SessionErrorCode, Transcript, TranscriptChanged, chat_messages},
};

use crate::jsonl::chat_messages::ChatMessage;

/// Attempts while others store messages.
const TRIES: u32 = 8;

/// Appends messages, all or none. A missing session is created, and becomes the user's, if one is named; one without an owner
/// becomes the user's, too.
///
/// # Errors
/// The library's. `AlreadyExists`: it belongs to another user.
pub async fn append_messages(
    sessions: &mut Sessions,
    transcript: Transcript<'_>,
    user: Option<&str>,
    messages: &[ChatMessage],
) -> Result<TranscriptChanged, SessionError> {
    let texts: Vec<String> = messages.iter().map(ChatMessage::numbered_text).collect();
    let has_node = transcript.node_id.is_some();
    match sessions.describe(transcript.session.into()).await {
        Err(SessionError { code: SessionErrorCode::NotFound | SessionErrorCode::Expired, .. }) => {
            sessions.create(transcript.session).await?;
        }
        described => drop(described?),
    }
    if let Some(user) = user {
        sessions.register(transcript.session.into(), Some(user)).await?;
    }
    let mut tries = 0;
    let changed = loop {
        let next = match sessions.describe(transcript).await {
            Ok(state) => Some(state.next),
            // A node's transcript is created by its first message.
            Err(error) if error.code == SessionErrorCode::NotFound && has_node => None,
            Err(error) => return Err(error),
        };
        tries += 1;
        match sessions.set_messages(transcript, &chat_messages(&texts), next).await {
            Err(error) if error.code == SessionErrorCode::Conflict && tries < TRIES => {}
            changed => break changed?,
        }
    };
    if has_node {
        sessions.register(transcript, None).await?;
    }
    Ok(changed)
}
