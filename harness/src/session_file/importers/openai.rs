//! Reads conversations in the form of chat APIs: messages one by one, or `{"messages": […]}`.

use serde_json::{Map, Value};

use super::ForeignConversation;

pub fn read_conversation(document: &Map<String, Value>) -> Result<ForeignConversation, String> {
    let rows = document.get("messages").and_then(Value::as_array).ok_or("it has no messages")?;
    let mut conversation = conversation_from_rows((0..).zip(rows));
    let text = |name: &str| document.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    conversation.user = ["user", "user_id"].into_iter().find_map(text).map(str::to_owned);
    conversation.title = text("title").map(str::to_owned);
    Ok(conversation)
}

/// Reads messages, with their places in the file. The component reports what of them is not stored.
pub fn conversation_from_rows<'a>(rows: impl Iterator<Item = (usize, &'a Value)>) -> ForeignConversation {
    let mut conversation = ForeignConversation::default();
    for (number, row) in rows {
        // As `session messages --json` prints it.
        let row = row.get("message").filter(|_| row.get("position").is_some()).unwrap_or(row);
        let message = Some(row).filter(|row| row.is_object()).cloned();
        conversation.add_message(number, message.ok_or_else(|| "it is not a JSON object".to_owned()));
    }
    conversation
}
