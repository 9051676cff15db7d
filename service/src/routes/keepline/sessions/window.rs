//! The window of a session: what its next question would get and why; and its branches.

use std::collections::HashMap;

use axum::{http::StatusCode, response::Response};
use keepline::{
    Keepline,
    pipe::Vector,
    sessions::{Message, MessageQuery},
};
use serde::Serialize;
use serde_json::Value;

use super::super::ownership::{OwnedTranscript, reached_user, session_not_found};
use crate::{
    http::{self, ApiError, Call, Page},
    preview::{self, Preview, PreviewError},
};

/// Messages of a page that is read for branches, and pages.
const BRANCH_PAGE: u32 = 1000;
const MOST_PAGES: usize = 100;

impl From<PreviewError> for ApiError {
    fn from(error: PreviewError) -> Self {
        match error {
            PreviewError::Session(error) => error.into(),
            PreviewError::Entry(error) => error.into(),
            PreviewError::Foreign(session) => session_not_found(&session),
            PreviewError::Failed(problem) => http::of_problem(&problem.code, problem.message),
        }
    }
}

/// What the next question would get, and the figures behind it: what `keepline explain --json` prints.
pub async fn window(call: Call) -> Result<Response, ApiError> {
    let owned = OwnedTranscript::of_path(&call).await?;
    require_conversations(call.tenant.keepline())?;
    let allowed = "a whole number from 64 to 2000000";
    let budget: Option<u64> = call.query.parse("budget", allowed)?;
    if budget.is_some_and(|budget| !(64..=2_000_000).contains(&budget)) {
        return Err(ApiError::invalid("budget", format!("budget must be {allowed}")));
    }
    let user = reached_user(&call, call.query.get("user"))?;
    let query = call.query.get("query").unwrap_or_default();
    let keepline = call.tenant.keepline();
    let vector = embed_query(keepline, query).await;
    let preview = Preview {
        transcript: owned.transcript(),
        query,
        budget,
        parent: call.query.get("parent"),
        user: user.as_deref(),
        vector: vector.as_ref(),
    };
    let passed = preview::preview_question(keepline, &mut call.sessions(), preview, Some(call.deadline)).await?;
    owned.confirm(&call).await?;
    let metadata = metadata_of(passed.metadata.as_deref());
    let mut reply = preview::explanation(&metadata);
    if let Some(reply) = reply.as_object_mut() {
        reply.insert("object".to_owned(), "session.window".into());
        reply.insert("session".to_owned(), owned.session().id().into());
    }
    http::json(&reply)
}

/// The metadata of a reply, as JSON.
pub fn metadata_of(text: Option<&str>) -> Value {
    let text = keepline_json::mend_json(text.unwrap_or("{}")).unwrap_or("{}".into());
    serde_json::from_str(&text).unwrap_or_default()
}

/// The vector of a question, where the filter wants one. One without data: there is none, and it is not to be made again.
pub async fn embed_query(keepline: &Keepline, query: &str) -> Option<Vector> {
    if !keepline.wants_vectors() || query.trim().is_empty() {
        return None;
    }
    match keepline.embed(&[query.to_owned()]).await {
        Ok(made) => made.and_then(|mut made| made.pop()),
        Err(_) => Some(Vector { model: String::new(), data: String::new() }),
    }
}

/// # Errors
/// 409, where conversations are off: there are no messages then, and a look would begin a session.
pub fn require_conversations(keepline: &Keepline) -> Result<(), ApiError> {
    let options: Value = serde_json::from_str(&keepline.filter_options()).unwrap_or_default();
    if options.get("conversation") == Some(&Value::Bool(true)) {
        return Ok(());
    }
    let message = "conversations are off: set conversation=true, or choose the profile chat";
    Err(ApiError::new(StatusCode::CONFLICT, "conversations_off", message))
}

/// A way through a conversation, by its newest message.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Branch {
    object: &'static str,
    /// The id of its newest message: what `branch` takes.
    id: String,
    position: u64,
    /// The newest message that it shares with another branch; null: there is only one, or they share none.
    fork_position: Option<u64>,
    messages: u64,
}

/// The branches of a conversation, the newest first.
pub async fn branches(call: Call) -> Result<Response, ApiError> {
    let owned = OwnedTranscript::of_path(&call).await?;
    let mut query = MessageQuery { limit: BRANCH_PAGE, ..MessageQuery::default() };
    let mut sessions = call.sessions();
    let mut messages = Vec::new();
    for _ in 0..MOST_PAGES {
        let page = sessions.messages(owned.transcript(), query).await?;
        messages.extend(page.messages.into_iter().rev());
        match page.older {
            Some(older) if query.before.is_none_or(|before| older < before) => query.before = Some(older),
            _ => break,
        }
    }
    messages.reverse();
    owned.confirm(&call).await?;
    http::json(&Page::new(branches_of(&messages), |branch| branch.id.clone(), None))
}

/// The branches of messages, which are in order.
fn branches_of(messages: &[Message]) -> Vec<Branch> {
    let mut place_of: HashMap<&str, usize> = HashMap::new();
    let mut parents: Vec<Option<usize>> = Vec::with_capacity(messages.len());
    let mut children = vec![0_usize; messages.len()];
    for (at, message) in messages.iter().enumerate() {
        // One that names no parent follows the one before it.
        let parent =
            if message.parent.is_empty() { at.checked_sub(1) } else { place_of.get(&*message.parent).copied() };
        if let Some(count) = parent.and_then(|parent| children.get_mut(parent)) {
            *count += 1;
        }
        parents.push(parent);
        if !message.id.is_empty() {
            place_of.insert(&message.id, at);
        }
    }
    let parent_of = |at: usize| parents.get(at).copied().flatten();
    let leaves = children.iter().enumerate().rev().filter(|(_, children)| **children == 0);
    let branch = |at: usize| {
        let message = messages.get(at)?;
        let (mut fork, mut count, mut place) = (None, 1, parent_of(at));
        while let Some(at) = place {
            let is_fork = children.get(at).is_some_and(|children| *children > 1);
            fork = fork.or_else(|| messages.get(at).filter(|_| is_fork).map(|message| message.position));
            count += 1;
            place = parent_of(at);
        }
        let (id, position) = (message.id.clone(), message.position);
        Some(Branch { object: "branch", id, position, fork_position: fork, messages: count })
    };
    leaves.filter_map(|(at, _)| branch(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(position: u64, id: &str, parent: &str) -> Message {
        Message {
            position,
            id: id.into(),
            parent: parent.into(),
            turn: String::new(),
            role: "user".into(),
            kind: "message".into(),
            at: 0,
            tokens: None,
            content: String::new(),
            tool: None,
            extras: None,
        }
    }

    #[test]
    fn a_conversation_that_forked_has_a_branch_for_each_newest_message() {
        let messages = [message(4, "a", ""), message(5, "b", ""), message(6, "c", "a"), message(7, "d", "c")];
        let found = branches_of(&messages);
        let of = |branch: &Branch| (branch.id.clone(), branch.fork_position, branch.messages);
        assert_eq!(found.iter().map(of).collect::<Vec<_>>(), [("d".into(), Some(4), 3), ("b".into(), Some(4), 2)]);
        assert_eq!(branches_of(&messages[..2]).len(), 1);
        assert!(branches_of(&[]).is_empty());
    }
}
