//! `keepline session append`: appends a whole turn, as the lanes store it, or a file of messages.

use anyhow::Result;
use keepline::{
    Keepline,
    pipe::{Answer, Effect},
};
use keepline_service::{
    append,
    jsonl::chat_messages::ChatMessage,
    preview::{entry_metadata, require_parent, require_valid_user},
};
use serde_json::{Value, json};

use super::arguments::AppendArguments;
use crate::{
    app::error::coded_error,
    operations::transcripts::{as_transcript, require_conversations, sessions_with_long_timeout},
    terminal::{self, print_result},
};

pub async fn append_turn(keepline: &Keepline, json: bool, arguments: &AppendArguments) -> Result<()> {
    require_conversations(keepline)?;
    let mut sessions = keepline.sessions();
    let AppendArguments { transcript, file: _, question, answer: said, id, parent, user } = arguments;
    if keepline.session_ids().bucket_name(&transcript.session).is_none() {
        let message = "invalid session id: it must be 1 to 128 letters, digits, hyphens and underscores, or with session_ids \
                       \"hash\", any text of at most 1,024 bytes";
        return Err(coded_error("invalid-session", message));
    }
    // As in an entry, an empty id means no user.
    require_valid_user(&mut sessions, user.as_deref().filter(|user| !user.is_empty())).await?;
    require_parent(&mut sessions, as_transcript(transcript), parent.as_deref()).await?;
    let mut metadata = entry_metadata(as_transcript(transcript), parent.as_deref(), user.as_deref());
    if let Some(id) = id {
        metadata.insert("message_id".to_owned(), id.as_str().into());
    }
    let metadata = Value::from(metadata).to_string();
    let question_text = Some(question.as_str()).filter(|question| !question.is_empty());
    let said = said.as_deref().unwrap_or_default();
    let told = Answer { text: said, metadata: &metadata, question_text, ..Answer::default() };
    let passed = keepline.pipe().reply(told, None).await?;
    let told = passed.problem.map(|problem| problem.message);
    match passed.effect {
        Effect::Stored | Effect::Repeated => {
            if let Some(told) = told {
                terminal::print_warning(&told);
            }
            let is_new = passed.effect == Effect::Stored;
            print_result(json, &json!({"session": transcript.session, "stored": is_new}), "")
        }
        Effect::Foreign => Err(not_stored_error(format!("session '{}' belongs to another user", transcript.session))),
        Effect::Ended => {
            Err(not_stored_error("the session ended meanwhile, or its user was forgotten less than a day ago".into()))
        }
        _ => Err(not_stored_error(told.unwrap_or_else(|| "the turn was not stored".into()))),
    }
}

/// Appends messages, all or none; creates a missing session.
pub async fn append_messages(
    keepline: &Keepline,
    json: bool,
    arguments: &AppendArguments,
    messages: &[ChatMessage],
) -> Result<()> {
    require_conversations(keepline)?;
    let AppendArguments { transcript, user, .. } = arguments;
    let mut sessions = sessions_with_long_timeout(keepline, &transcript.session).await?;
    require_valid_user(&mut sessions, user.as_deref()).await?;
    let appended = append::append_messages(&mut sessions, as_transcript(transcript), user.as_deref(), messages).await;
    let count = appended?.count;
    print_result(json, &json!({"session": transcript.session, "count": count}), &count.to_string())
}

fn not_stored_error(message: String) -> anyhow::Error {
    coded_error("not-stored", message)
}
