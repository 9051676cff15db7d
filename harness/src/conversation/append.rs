//! `keepline session append`: a whole turn, as the lanes store it.

use anyhow::Result;
use keepline::{
    Keepline, Sessions,
    pipe::{Answer, Effect},
    store::names::is_bucket,
};
use serde_json::{Value, json};

use super::{are_kept, can_be_user, is_there, metadata};
use crate::{cli::AppendArguments, error::Coded, session::answer, terminal};

/// Store a question and its answer.
pub async fn append(
    keepline: &Keepline,
    sessions: &mut Sessions,
    json: bool,
    arguments: &AppendArguments,
) -> Result<()> {
    are_kept(keepline)?;
    let AppendArguments { transcript, question, answer: said, id, parent, user } = arguments;
    if !is_bucket(&transcript.session) {
        let message = "invalid session id: it must be 1 to 128 letters, digits, hyphens and underscores";
        return Err(Coded { code: "invalid-session", message: message.to_owned() }.into());
    }
    // As in an entry, an empty one is nobody's.
    can_be_user(sessions, user.as_deref().filter(|user| !user.is_empty())).await?;
    is_there(sessions, transcript, parent.as_deref()).await?;
    let mut metadata = metadata(transcript, parent.as_deref(), user.as_deref());
    if let Some(id) = id {
        metadata.insert("message_id".to_owned(), id.as_str().into());
    }
    let metadata = Value::from(metadata).to_string();
    let question_text = Some(question.as_str()).filter(|question| !question.is_empty());
    let told = Answer { text: said, metadata: &metadata, question_text, ..Answer::default() };
    let passed = keepline.pipe().reply(told, None).await?;
    let told = passed.problem.map(|problem| problem.message);
    match passed.effect {
        Effect::Stored | Effect::Repeated => {
            if let Some(told) = told {
                terminal::warning(&told);
            }
            let is_new = passed.effect == Effect::Stored;
            answer(json, &json!({"session": transcript.session, "stored": is_new}), "")
        }
        Effect::Foreign => Err(refused(format!("session '{}' belongs to another user", transcript.session))),
        Effect::Ended => {
            Err(refused("the session ended meanwhile, or its user was forgotten less than a day ago".into()))
        }
        _ => Err(refused(told.unwrap_or_else(|| "the turn was not stored".into()))),
    }
}

fn refused(message: String) -> anyhow::Error {
    Coded { code: "not-stored", message }.into()
}
