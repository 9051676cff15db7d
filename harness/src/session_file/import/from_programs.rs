//! Stages conversations of other programs, written by the component into the staging store.
//!
//! A conversation of any length follows the same rules as one that came as entries. The other program's store is only
//! read. Names that no session can have are refused.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use anyhow::{Context, Result};
use keepline::{
    Keepline,
    sessions::{Transcript, chat_messages},
    store::{
        BucketId, RedisOptions, RedisStore, TransferStore, kind,
        names::{VALUES, is_bucket, is_key},
        transfer::{BucketHead, list_all_buckets},
    },
};
use keepline_json::for_each_member;
use keepline_session_file::{ImportedSession, Problem, Reason, StagedBucket, StagedSession, read_node_buckets};
use redis::{AsyncCommands, ScanOptions};
use serde_json::Value;

use super::{ImportRun, lines::InputLines};
use crate::{
    app,
    args::ImportFormat,
    session_file::{
        importers::{
            ForeignConversation, FoundConversations, SourceItem, SourceValue,
            redis_keys::{self, key_pattern, read_key},
            rocketride::{self, RocketRideSession},
        },
        sessions_without_deadline,
    },
};

/// Messages, and bytes of them, that are passed to the component at a time.
const PIECE_MESSAGES: usize = 2000;
const PIECE_BYTES: usize = 4 << 20;
const TITLE_MAX: usize = 200;
/// Keys of a server that are listed at a time.
const KEYS_PER_SCAN: usize = 1000;

/// Imports a dump of keys.
pub async fn stage_dump(
    import: &mut ImportRun,
    mut lines: InputLines,
    format: ImportFormat,
    prefix: &str,
) -> Result<()> {
    let mut stager = ConversationStager::new(import).await?;
    let mut documents: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut sessions = BTreeMap::new();
    while let Some(line) = lines.next_line()? {
        let item = line.and_then(SourceItem::parse_dump_line);
        let place = format!("line {}", lines.number());
        let found = match item {
            Ok(item) if format == ImportFormat::Rocketride => {
                (place, rocketride::add_dump_key(&mut sessions, item, prefix).map(|()| Vec::new()))
            }
            Ok(SourceItem { key, value: SourceValue::Documents(one) }) => {
                documents.entry(key).or_default().extend(one);
                continue;
            }
            Ok(item) => match format.read_item(item, prefix) {
                (key, Ok(found)) if !key.is_empty() => (format!("{key} ({place})"), Ok(found)),
                (_, found) => (place, found),
            },
            Err(what) => (place, Err(what)),
        };
        stager.add_found(import, found).await?;
    }
    for (key, documents) in documents {
        let item = SourceItem { key, value: SourceValue::Documents(documents) };
        stager.add_found(import, format.read_item(item, prefix)).await?;
    }
    for (name, session) in sessions {
        if let Err(problem) = stage_rocketride_session(import, &name, session).await {
            import.sessions.leave_out(&name, None, "", problem)?;
        }
    }
    stager.finish_session(import).await
}

/// Imports what was found in files.
pub async fn stage_found(import: &mut ImportRun, found: impl IntoIterator<Item = FoundConversations>) -> Result<()> {
    let mut stager = ConversationStager::new(import).await?;
    for found in found {
        stager.add_found(import, found).await?;
    }
    stager.finish_session(import).await
}

/// Imports the keys of a server.
pub async fn stage_redis_keys(import: &mut ImportRun, url: &str, format: ImportFormat, prefix: &str) -> Result<()> {
    if format == ImportFormat::Rocketride {
        return copy_rocketride_store(import, url, prefix).await;
    }
    let mut stager = ConversationStager::new(import).await?;
    let mut server = redis_keys::connect(url).await?;
    let mut scanning = server.clone();
    let options = ScanOptions::default().with_pattern(key_pattern(prefix)).with_count(KEYS_PER_SCAN);
    let mut keys = scanning.scan_options::<Vec<u8>>(options).await.context("can't list the keys")?;
    let mut seen = HashSet::new();
    while let Some(key) = keys.next_item().await {
        let Ok(key) = String::from_utf8(key.context("can't list the keys")?) else {
            import.sessions.leave_out("", None, "", Problem::invalid("a key is not UTF-8"))?;
            continue;
        };
        // A scan may return a key twice.
        if !seen.insert(key.clone()) {
            continue;
        }
        let found = match read_key(&mut server, key.clone()).await? {
            Ok(item) => format.read_item(item, prefix),
            Err(what) => (key, Err(what)),
        };
        stager.add_found(import, found).await?;
    }
    stager.finish_session(import).await
}

/// RocketRide stores sessions as Keepline does: they are copied.
async fn copy_rocketride_store(import: &mut ImportRun, url: &str, prefix: &str) -> Result<()> {
    let options =
        RedisOptions { url: Some(url.to_owned().into()), key_prefix: prefix.to_owned(), ..RedisOptions::default() };
    let from: Arc<dyn TransferStore> = Arc::new(RedisStore::new(options)?);
    for session in list_all_buckets(&*from).await?.into_iter().filter(|bucket| bucket.kind == kind::SESSION) {
        let name = session.name.clone();
        let staged = StagedSession { session, nodes: Vec::new(), is_shell: false };
        if let Err(problem) = import.sessions.deliver_from(&from, &staged, &ImportedSession::default()).await {
            import.sessions.leave_out(&name, None, "", problem)?;
        }
    }
    Ok(())
}

/// Imports a session of RocketRide from all of its keys.
async fn stage_rocketride_session(
    import: &mut ImportRun,
    name: &str,
    session: RocketRideSession,
) -> Result<(), Problem> {
    if !is_bucket(name) {
        return Err(Problem::invalid(invalid_id_message(name)));
    }
    let expires_at = session.expires_at();
    let Some(fields) = session.metadata else {
        return Err(Problem::invalid("its key __meta__ is missing, so it has expired"));
    };
    let head = BucketHead {
        expires_at,
        fields: fields.into_iter().map(|(name, text)| (name.into_bytes(), text.into_bytes())).collect(),
        maps: Vec::new(),
        indexes: Vec::new(),
        logs: vec![(b"history".to_vec(), 0)],
    };
    let mut arriving = StagedBucket::begin(&import.sessions.delivery.staging, kind::SESSION, name, head).await?;
    for (key, text) in &session.values {
        if !is_key(key) {
            return Err(Problem::invalid(format!("{key:?} can't be a key")));
        }
        arriving.add_entry(VALUES, key, text).await?;
    }
    for record in &session.history {
        arriving.add_record("history", record).await?;
    }
    let staged = StagedSession { session: arriving.bucket().clone(), nodes: Vec::new(), is_shell: false };
    arriving.finish_staging().await?;
    import.sessions.deliver_session(&staged, &ImportedSession::default()).await
}

fn invalid_id_message(name: &str) -> String {
    format!(
        "{name:?} can't be a session's id; allowed are 1 to 128 letters, digits, hyphens and underscores: give it another \
         one with --rename, or have it hashed with --hash-ids"
    )
}

/// Writes conversations to the staging store.
struct ConversationStager {
    keepline: Keepline,
    /// Conversations of one session: its nodes come one by one.
    held: Vec<ForeignConversation>,
}

impl ConversationStager {
    async fn new(import: &ImportRun) -> Result<Self> {
        let store = import.sessions.delivery.staging.store().clone();
        let keepline = app::open_keepline_on(store, import.plugin.clone(), &import.config).await?;
        Ok(Self { keepline, held: Vec::new() })
    }

    async fn add_found(&mut self, import: &mut ImportRun, (place, found): FoundConversations) -> Result<()> {
        match found {
            Ok(conversations) => {
                for conversation in conversations {
                    self.add_conversation(import, conversation, place.clone()).await?;
                }
                Ok(())
            }
            Err(what) => import.sessions.leave_out("", None, &place, what.into()),
        }
    }

    /// Adds a conversation, with its source. The first one of another session completes the previous session.
    async fn add_conversation(
        &mut self,
        import: &mut ImportRun,
        mut conversation: ForeignConversation,
        source: String,
    ) -> Result<()> {
        conversation.session = import.ids.apply_rename(conversation.session);
        if conversation.node.is_none() && conversation.user.is_none() {
            conversation.user.clone_from(&import.ids.user);
        }
        let id = match &conversation.node {
            None => conversation.session.clone(),
            Some((app, node)) => format!("{}/{}/{node}", conversation.session, app.as_deref().unwrap_or_default()),
        };
        // It is written again by the component, so its digest always differs.
        if let Err(problem) = import.sessions.record_source(id, source, None) {
            return import.sessions.leave_out(&conversation.session, None, "", problem);
        }
        if self.held.last().is_some_and(|held| held.session != conversation.session || conversation.node.is_none()) {
            self.finish_session(import).await?;
        }
        self.held.push(conversation);
        Ok(())
    }

    async fn finish_session(&mut self, import: &mut ImportRun) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        let Some(name) = held.first().map(|first| first.session.clone()) else { return Ok(()) };
        for conversation in &held {
            let told = conversation.left_out.iter().map(|what| (name.clone(), what.clone()));
            import.sessions.report.skipped.extend(told);
        }
        if let Err(problem) = self.stage_session(import, &name, &held).await {
            import.sessions.leave_out(&name, None, "", problem)?;
        }
        Ok(())
    }

    async fn stage_session(
        &self,
        import: &mut ImportRun,
        name: &str,
        conversations: &[ForeignConversation],
    ) -> Result<(), Problem> {
        let Some(bucket) = self.keepline.session_ids().bucket_name(name) else {
            return Err(Problem::invalid(invalid_id_message(name)));
        };
        let session = BucketId::session(bucket);
        let is_shell = conversations.iter().all(|conversation| conversation.node.is_some());
        if !is_shell && !import.sessions.delivery.replaces && import.sessions.delivery.session_exists(&session).await? {
            return Err(Problem::Left(Reason::Exists, "there is already a session with that name".to_owned()));
        }
        import.sessions.delivery.staging.remove_bucket(&session).await?;
        let mut sessions = sessions_without_deadline(&self.keepline);
        sessions.create(name).await?;
        let mut about = ImportedSession::default();
        for conversation in conversations {
            let node = conversation.node.as_ref();
            let app_id = node.and_then(|(app, _)| app.as_deref());
            let transcript = Transcript { session: name, app_id, node_id: node.map(|(_, node)| &**node) };
            let mut next = None;
            let texts: Vec<String> = conversation.messages.iter().map(Value::to_string).collect();
            for piece in split_into_pieces(&texts) {
                let count = sessions.set_messages(transcript, &chat_messages(piece), next).await?.count;
                about.messages += count;
                next = Some(next.unwrap_or(0) + count);
            }
            if let Some((app, node)) = node {
                if conversation.messages.is_empty() {
                    continue;
                }
                sessions.register(transcript, None).await?;
                about.nodes.push((app.clone(), node.clone()));
            }
            if let Some(title) = &conversation.title {
                let title: String = title.chars().take(TITLE_MAX).collect();
                sessions.set_title(transcript, Some(&title)).await?;
            }
            if let Some(user) = &conversation.user {
                sessions.register(name.into(), Some(user)).await?;
                about.user = Some(user.clone());
            }
        }
        let nodes =
            read_node_buckets(&**import.sessions.delivery.staging.store(), &session).await?.into_iter().collect();
        import.sessions.deliver_session(&StagedSession { session, nodes, is_shell }, &about).await
    }
}

/// Splits messages, JSON objects, into pieces that begin with a user's message where possible.
pub fn split_into_pieces(messages: &[String]) -> Vec<&[String]> {
    let (mut pieces, mut rest) = (Vec::new(), messages);
    while !rest.is_empty() {
        let (mut bytes, mut end, mut last) = (0, 0, 0);
        for (index, message) in rest.iter().enumerate().take(PIECE_MESSAGES) {
            bytes += message.len();
            if index > 0 && bytes > PIECE_BYTES {
                break;
            }
            end = index + 1;
            if rest.get(end).is_some_and(|next| is_user_message(next)) {
                last = end;
            }
        }
        let count = if end == rest.len() || last == 0 { end } else { last };
        let (piece, after) = rest.split_at_checked(count.max(1)).unwrap_or((rest, &[]));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn is_user_message(message: &str) -> bool {
    let mut is_asked = false;
    let _ = for_each_member(message, |key, raw| {
        if key == "\"role\"" {
            is_asked = raw == "\"user\"";
        }
    });
    is_asked
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pieces_begin_with_a_message_of_the_user() {
        let role = |number: usize| if number.is_multiple_of(3) { "user" } else { "assistant" };
        let messages: Vec<String> = (0..5000).map(|number| json!({"role": role(number)}).to_string()).collect();
        let found = split_into_pieces(&messages);
        assert_eq!(found.iter().map(|piece| piece.len()).collect::<Vec<_>>(), [1998, 1998, 1004]);
        assert!(found.iter().all(|piece| is_user_message(&piece[0])));
        // One turn that is longer than a piece, and one message that is.
        let long = vec![json!({"role": "tool"}).to_string(); 4500];
        assert_eq!(split_into_pieces(&long).iter().map(|piece| piece.len()).collect::<Vec<_>>(), [2000, 2000, 500]);
        let large = vec![json!({"role": "tool", "content": "x".repeat(5 << 20)}).to_string(); 2];
        assert_eq!(split_into_pieces(&large).len(), 2);
    }
}
