//! Resolves references to files in the messages that a question gets, so that the model's caller can fetch them.

use std::{
    fmt::{self, Debug},
    ops::Range,
};

use async_trait::async_trait;
use keepline_json as json;
use serde_json::{Map, Value};

use crate::logging::{LogLevel, RateLimitedLog};

/// What begins a reference among the parts of a message.
const FILE_PART_PREFIX: &str = "{\"type\":\"file\"";

/// Knows where files are.
#[async_trait]
pub trait FileResolver: Debug + Send + Sync {
    /// What there is to know of a file. `file` is the reference, as its message's metadata had it: any JSON.
    ///
    /// Called on a question's path, once for each file in its window, one after the other: the question waits. A URL that
    /// is signed again each time makes each prompt begin differently, which defeats providers' caches.
    ///
    /// # Errors
    /// For people: why not. The reference is left out then, with a warning.
    async fn resolve(&self, file: &Value) -> Result<ResolvedFile, String>;
}

/// Where a file is, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedFile {
    /// Where the model, or its caller, gets it.
    pub url: String,
    /// Its media type, as `image/png`.
    pub mime_type: String,
    /// In bytes, if that is known.
    pub size: Option<u64>,
}

impl ResolvedFile {
    /// Beside what the reference says.
    fn added_to(self, reference: Value) -> Value {
        let mut file = match reference {
            Value::Object(members) => members,
            other => Map::from_iter([("id".to_owned(), other)]),
        };
        file.insert("url".into(), self.url.into());
        file.insert("mime_type".into(), self.mime_type.into());
        if let Some(size) = self.size {
            file.insert("size".into(), size.into());
        }
        Value::Object(file)
    }
}

/// Metadata with the files of its messages resolved; `messages` is where their array is. None: there are no files.
pub(crate) async fn resolve_files(
    metadata: &str,
    messages: Range<usize>,
    resolver: &dyn FileResolver,
    log: &RateLimitedLog,
) -> Option<String> {
    let Range { start: begin, end } = messages;
    let raw = metadata.get(begin..end)?;
    if !raw.contains(FILE_PART_PREFIX) {
        return None;
    }
    let mut messages: Vec<Value> = serde_json::from_str(&json::mend_json(raw)?).ok()?;
    for message in &mut messages {
        let Some(parts) = message.get_mut("content").and_then(Value::as_array_mut) else { continue };
        for part in std::mem::take(parts) {
            parts.extend(resolved_part(part, resolver, log).await);
        }
    }
    let (before, after) = (metadata.get(..begin)?, metadata.get(end..)?);
    Some([before, &Value::Array(messages).to_string(), after].concat())
}

async fn resolved_part(mut part: Value, resolver: &dyn FileResolver, log: &RateLimitedLog) -> Option<Value> {
    let is_file = part.get("type").is_some_and(|kind| kind == "file");
    let Some(file) = part.get_mut("file").filter(|_| is_file) else { return Some(part) };
    match resolver.resolve(file).await {
        Ok(found) => {
            *file = found.added_to(file.take());
            Some(part)
        }
        Err(why) => {
            let message = format!("the file {} is left out of a window: {why}", Short(file));
            log.log_from_host(LogLevel::Warn, "keepline.files", &message);
            None
        }
    }
}

/// A reference as a log shows it.
struct Short<'a>(&'a Value);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CHARACTERS: usize = 120;
        let text = self.0.to_string();
        let shown: String = text.chars().take(CHARACTERS).collect();
        f.write_str(&shown)?;
        if shown.len() < text.len() { f.write_str("…") } else { Ok(()) }
    }
}
