//! A turn on its way to another process: all that its answer needs, as data.
//!
//! A program whose callers bring the answer later, and perhaps to another machine, exports the turn with the question's
//! reply and makes it again when the answer comes. The state is as trusted as whoever brought it: an answer reaches the
//! session and the user that the state and the answer's metadata name, and no others, so a program that serves several
//! users compares [`TurnState::session`] and [`TurnState::user`] with what the caller may reach.

use std::sync::{Arc, atomic::AtomicUsize};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{StagedContent, Turn, TurnContent, TurnInner, TurnKind};
use crate::{pipe::ToolActivity, runtime::EntryOwner};

/// What [`Turn::export`] returns. With serde it becomes text and text becomes it; its members are not to be relied on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct TurnState {
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    app: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    is_node: bool,
    kind: TurnKind,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    question_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    activity: Vec<ToolActivity>,
    may_wait: bool,
}

impl TurnState {
    pub(super) fn of(turn: &Turn) -> Self {
        let TurnInner { owner, is_node, kind, content, .. } = &*turn.0;
        let content = content.lock();
        let StagedContent { question_text, question_tokens, model, activity, .. } = &content.staged;
        let [session, user, app, node] =
            [&owner.session, &owner.user, &owner.app, &owner.node].map(|name| name.as_deref().map(str::to_owned));
        Self {
            session,
            user,
            app,
            node,
            is_node: *is_node,
            kind: *kind,
            state: content.state.clone(),
            question: question_text.clone(),
            question_tokens: *question_tokens,
            model: model.clone(),
            activity: activity.clone(),
            may_wait: content.may_wait,
        }
    }

    /// The session that the question named.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// The application, if it named one, and the node, of a question of a node.
    pub fn node(&self) -> Option<(Option<&str>, &str)> {
        Some((self.app.as_deref(), self.node.as_deref().filter(|_| self.is_node)?))
    }

    /// The user whom the question named.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }
}

impl From<TurnState> for Turn {
    /// The turn once more, for one answer after another, and outside of any [`OpenTurns`](super::OpenTurns).
    fn from(state: TurnState) -> Self {
        let owner = EntryOwner {
            session: state.session.map(Into::into),
            user: state.user.map(Into::into),
            app: state.app.map(Into::into),
            node: state.node.map(Into::into),
            ..EntryOwner::default()
        };
        let staged = StagedContent {
            question_text: state.question,
            question_tokens: state.question_tokens,
            model: state.model,
            activity_bytes: state.activity.iter().map(ToolActivity::size).sum(),
            activity: state.activity,
        };
        let content = TurnContent { state: state.state, staged, may_wait: state.may_wait, ..TurnContent::default() };
        Self(Arc::new(TurnInner {
            owner: owner.into(),
            number: 0,
            is_node: state.is_node,
            kind: state.kind,
            content: Mutex::new(content),
            unstored: Arc::new(AtomicUsize::new(0)),
        }))
    }
}
