//! Reads and writes Dify's node memory: a JSON document of version 1 for each node,
//! `node_memory/{app}/{conversation}/{node}.json`.
//!
//! Both forms of that version are read: a list of `messages`, and `turns` by workflow run. The list is written.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use keepline_json::{for_each_member, member};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    ForeignConversation, FoundConversations, SourceItem, SourceValue, build_message, parse_time_seconds, set_member,
};
use crate::{args::ImportFormat, operations::records::text_member, terminal::json_text};

/// The parent id of a first message.
const NO_PARENT_ID: &str = "00000000-0000-0000-0000-000000000000";

pub fn read_conversation(item: &SourceItem) -> Result<ForeignConversation, String> {
    let (app, session, node) = parse_document_path(&item.key)
        .ok_or("the path of a node's document is node_memory/APP/CONVERSATION/NODE.json".to_owned())?;
    let SourceValue::Text(text) = &item.value else { return Err("it is not a document".to_owned()) };
    let document: Map<String, Value> =
        json_text::parse_lenient(text).map_err(|error| format!("it is not a JSON object: {error}"))?;
    if document.get("version") != Some(&json!(1)) {
        return Err(format!(
            "its version is {}, and only version 1 can be read",
            document.get("version").unwrap_or(&Value::Null)
        ));
    }
    let mut conversation = ForeignConversation {
        session: session.to_owned(),
        node: Some((Some(app.to_owned()), node.to_owned())),
        ..ForeignConversation::default()
    };
    if let Some(messages) = document.get("messages").and_then(Value::as_array) {
        for (number, row) in messages.iter().enumerate() {
            conversation.add_message(number, read_message(messages, number, row));
        }
    } else if document.get("turns").is_some_and(Value::is_object) {
        // In the order in which they are written, which a map does not keep.
        let _ = for_each_member(member(text, "turns").unwrap_or_default(), |key, raw| {
            let (run, turn) = (json_text::parse_lenient::<String>(key), json_text::parse_lenient::<Value>(raw));
            if let (Ok(run), Ok(turn)) = (run, turn) {
                add_turn(&mut conversation, &run, &turn);
            }
        });
    } else {
        return Err("it has neither messages nor turns".to_owned());
    }
    Ok(conversation)
}

/// App, conversation and node of a document's path.
fn parse_document_path(path: &str) -> Option<(&str, &str, &str)> {
    let mut parts = path.rsplit('/');
    let node = parts.next()?.strip_suffix(".json")?;
    let (session, app) = (parts.next()?, parts.next()?);
    (parts.next()? == "node_memory").then_some((app, session, node))
}

/// A message with its files.
fn build_message_with_files(
    role: &str,
    content: Option<&Value>,
    id: Option<&Value>,
    files: Option<&Value>,
) -> Result<Value, String> {
    let mut message = build_message(role, content.unwrap_or(&Value::Null), id)?;
    let files = files.filter(|files| files.as_array().is_some_and(|files| !files.is_empty()));
    set_member(&mut message, "files", files.cloned());
    Ok(message)
}

fn read_message(messages: &[Value], number: usize, row: &Value) -> Result<Value, String> {
    let role = text_member(row, "role");
    if !["user", "assistant"].contains(&&*role) {
        return Err("its role is neither a user's nor an assistant's".to_owned());
    }
    let id = text_member(row, "message_id");
    let has_same_id = |other: Option<&Value>| other.is_some_and(|other| text_member(other, "message_id") == id);
    // Question and answer of one message have its id: it is the answer's.
    let next = messages.get(number + 1).filter(|next| text_member(next, "role") == "assistant");
    let is_shared = role == "user" && has_same_id(next);
    let own_id = row.get("message_id").filter(|_| !is_shared);
    let mut message = build_message_with_files(&role, row.get("content"), own_id, row.get("files"))?;
    let parent = text_member(row, "parent_message_id");
    let is_own = has_same_id(number.checked_sub(1).and_then(|before| messages.get(before)));
    if !parent.is_empty() && parent != NO_PARENT_ID && !is_own {
        set_member(&mut message, "parent", json!(parent));
    }
    let tokens = row.get("token_count").and_then(Value::as_u64).filter(|tokens| *tokens > 0);
    set_member(&mut message, "tokens", tokens.map(Value::from));
    set_member(&mut message, "at", parse_time_seconds(&text_member(row, "created_at")));
    Ok(message)
}

fn add_turn(conversation: &mut ForeignConversation, run: &str, turn: &Value) {
    let place = conversation.messages.len();
    if let Ok(said) = build_message_with_files("user", turn.get("user_content"), None, turn.get("user_files")) {
        conversation.add_message(place, Ok(said));
    }
    let id = Value::from(run);
    let (content, files) = (turn.get("assistant_content"), turn.get("assistant_files"));
    match build_message_with_files("assistant", content, Some(&id), files) {
        Ok(said) => conversation.add_message(place, Ok(said)),
        Err(why) => conversation.left_out.push(format!("the answer of the run {run}: {why}")),
    }
}

/// Bytes of the longest document that is read.
const DOCUMENT_MAX: u64 = 64 << 20;

/// The paths of documents below a directory, sorted, and of what is not read: links, which may lead anywhere, and what is
/// no file.
pub fn find_documents(directory: &Path) -> io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (mut documents, mut skipped, mut folders) = (Vec::new(), Vec::new(), vec![directory.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let is_named = path.extension().is_some_and(|extension| extension == "json");
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && is_named {
                documents.push(path);
            } else if kind.is_symlink() || is_named {
                skipped.push(path);
            }
        }
    }
    documents.sort_unstable();
    skipped.sort_unstable();
    Ok((documents, skipped))
}

/// Reads the conversation of a document.
pub fn read_file(path: PathBuf) -> FoundConversations {
    match read_document(&path) {
        Ok(item) => ImportFormat::Dify.read_item(item, ImportFormat::Dify.prefix()),
        Err(error) => (path.display().to_string(), Err(error.to_string())),
    }
}

/// Reads a document, named by its whole path.
pub fn read_document(path: &Path) -> io::Result<SourceItem> {
    let whole = fs::canonicalize(path)?;
    let metadata = fs::metadata(&whole)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let too_large = || io::Error::other(format!("it is over {DOCUMENT_MAX} bytes"));
    if metadata.len() > DOCUMENT_MAX {
        return Err(too_large());
    }
    let mut text = String::new();
    // It may have grown.
    File::open(&whole)?.take(DOCUMENT_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > DOCUMENT_MAX {
        return Err(too_large());
    }
    Ok(SourceItem { key: whole.to_string_lossy().into_owned(), value: SourceValue::Text(text) })
}

/// A record of a node's transcript, as far as a document holds it.
#[derive(Deserialize)]
struct TranscriptRecord {
    id: Option<String>,
    parent: Option<String>,
    role: String,
    kind: Option<String>,
    #[serde(default)]
    content: Value,
    at: f64,
    weight: u64,
    tokens: Option<u64>,
    files: Option<Value>,
}

/// A node's transcript as a document, without tool calls and results, for which it has no form.
#[derive(Default)]
pub struct DifyDocument {
    messages: Vec<Value>,
    question: Option<String>,
}

impl DifyDocument {
    pub fn add_record(&mut self, record: &str) {
        let Ok(kept) = json_text::parse_lenient::<TranscriptRecord>(record) else { return };
        let TranscriptRecord {
            id,
            parent,
            role,
            kind: None,
            content: Value::String(content),
            at,
            weight,
            tokens,
            files,
        } = kept
        else {
            return;
        };
        if role == "user" {
            self.question.clone_from(&id);
        }
        let own = id.or_else(|| self.question.clone());
        let parent = parent.or_else(|| if role == "assistant" { self.question.clone() } else { self.last_id() });
        let files: Vec<Value> = files.and_then(|files| serde_json::from_value(files).ok()).unwrap_or_default();
        let at =
            jiff::Timestamp::from_microsecond((at * 1e6).round() as i64).map(|at| at.to_string()).unwrap_or_default();
        let parent = parent.filter(|parent| own.as_ref() != Some(parent));
        self.messages.push(json!({
            "message_id": own, "parent_message_id": parent, "role": role, "content": content, "files": files,
            "token_count": tokens.unwrap_or(weight), "created_at": at,
        }));
    }

    fn last_id(&self) -> Option<String> {
        self.messages.last().and_then(|message| message.get("message_id")?.as_str().map(str::to_owned))
    }

    pub fn write_below(self, directory: &Path, session: &str, app: Option<&str>, node: &str) -> io::Result<()> {
        let app = app.unwrap_or("default");
        if [app, session, node]
            .iter()
            .any(|part| part.is_empty() || part.starts_with('.') || part.contains(['/', '\\', '\0']))
        {
            let message = format!("the node {node:?} of app {app:?} can't be the name of a file");
            return Err(io::Error::new(io::ErrorKind::InvalidFilename, message));
        }
        let folder = directory.join("node_memory").join(app).join(session);
        fs::create_dir_all(&folder)?;
        let document = json!({"version": 1, "messages": self.messages});
        fs::write(folder.join(format!("{node}.json")), format!("{document}\n"))
    }
}
