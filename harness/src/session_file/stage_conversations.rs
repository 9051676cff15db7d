//! Stages conversations of other programs, written by the component into the staging store.
//!
//! A conversation of any length follows the same rules as one that came as entries. The other program's store is only
//! read. Names that no session can have are refused.

use std::{
    collections::{BTreeMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

use anyhow::Result;
use keepline::{
    Keepline, Plugin,
    config::Config,
    sessions::Transcript,
    store::{
        BucketId, BucketKind, RedisOptions, RedisStore, TransferStore,
        names::{VALUES, is_bucket, is_key},
        transfer::{Head, listed},
    },
};
use keepline_json::members;
use serde_json::Value;

use super::{
    deliver::{Staged, nodes_of},
    import_session::{Import, ImportError, ImportedSession, sessions_without_deadline},
    importers::{
        Conversation, Item, Program, Stored, dify,
        redis_keys::Server,
        rocketride::{self, Session},
    },
    lines::Lines,
    staging::StagedBucket,
    store_error,
};
use crate::app;

/// The component gets so many messages, and bytes of them, at a time.
const PIECE: usize = 2000;
const PIECE_BYTES: usize = 4 << 20;
/// Characters of a title.
const TITLE_MAX: usize = 200;

/// Imports a dump of keys.
pub async fn dump(
    import: &mut Import,
    mut lines: Lines,
    program: Program,
    prefix: &str,
    plugin: Plugin,
    config: &Config,
) -> Result<()> {
    let mut staging = ConversationStager::new(import, plugin, config).await?;
    let mut documents: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut sessions = BTreeMap::new();
    while let Some(line) = lines.next()? {
        let item = line.and_then(Item::of);
        let place = format!("line {}", lines.number);
        let done = match item {
            Err(what) => Err(ImportError::Input(what)),
            Ok(item) if program == Program::RocketRide => {
                rocketride::add(&mut sessions, item, prefix).map_err(ImportError::Input)
            }
            Ok(Item { key, value: Stored::Documents(one) }) => {
                documents.entry(key).or_default().extend(one);
                Ok(())
            }
            Ok(item) => match program.read(&item, prefix) {
                Ok(Some(conversation)) => {
                    let key = Some(&item.key).filter(|key| !key.is_empty());
                    let source = key.map_or_else(|| place.clone(), |key| format!("{key} ({place})"));
                    staging.add(import, conversation, source).await?;
                    Ok(())
                }
                Ok(None) => Ok(()),
                Err(what) => Err(ImportError::Input(what)),
            },
        };
        if let Err(wrong) = done {
            import.leave_out("", &place, wrong)?;
        }
    }
    for (key, documents) in documents {
        let item = Item { key, value: Stored::Documents(documents) };
        match program.read(&item, prefix) {
            Ok(Some(conversation)) => staging.add(import, conversation, item.key).await?,
            Ok(None) => {}
            Err(what) => import.leave_out(&item.key, "", ImportError::Left(what))?,
        }
    }
    for (name, session) in sessions {
        if let Err(wrong) = dumped(import, &name, session).await {
            import.leave_out(&name, "", wrong)?;
        }
    }
    staging.finish(import).await
}

/// Imports items that were parsed already.
pub async fn items(
    import: &mut Import,
    items: Vec<Item>,
    program: Program,
    plugin: Plugin,
    config: &Config,
) -> Result<()> {
    let mut staging = ConversationStager::new(import, plugin, config).await?;
    for item in items {
        match program.read(&item, program.prefix()) {
            Ok(Some(conversation)) => staging.add(import, conversation, item.key).await?,
            Ok(None) => {}
            Err(what) => import.leave_out("", &item.key, ImportError::Input(what))?,
        }
    }
    staging.finish(import).await
}

/// Imports Dify documents, one by one.
pub async fn documents(import: &mut Import, paths: Vec<PathBuf>, plugin: Plugin, config: &Config) -> Result<()> {
    let (program, mut staging) = (Program::Dify, ConversationStager::new(import, plugin, config).await?);
    for path in paths {
        let item = match dify::document(&path) {
            Ok(item) => item,
            Err(error) => {
                import.leave_out("", &path.display().to_string(), ImportError::Input(error.to_string()))?;
                continue;
            }
        };
        match program.read(&item, program.prefix()) {
            Ok(Some(conversation)) => staging.add(import, conversation, item.key).await?,
            Ok(None) => {}
            Err(what) => import.leave_out("", &item.key, ImportError::Input(what))?,
        }
    }
    staging.finish(import).await
}

/// Imports conversations of a file, each with the place it comes from.
pub async fn conversations(
    import: &mut Import,
    found: Vec<(String, Result<Vec<Conversation>, String>)>,
    plugin: Plugin,
    config: &Config,
) -> Result<()> {
    let mut staging = ConversationStager::new(import, plugin, config).await?;
    for (place, conversations) in found {
        match conversations {
            Ok(conversations) => {
                for conversation in conversations {
                    staging.add(import, conversation, place.clone()).await?;
                }
            }
            Err(what) => import.leave_out("", &place, ImportError::Input(what))?,
        }
    }
    staging.finish(import).await
}

/// Imports the keys of a server.
pub async fn read_redis(
    import: &mut Import,
    url: &str,
    program: Program,
    prefix: &str,
    plugin: Plugin,
    config: &Config,
) -> Result<()> {
    if program == Program::RocketRide {
        return read_their_store(import, url, prefix).await;
    }
    let mut staging = ConversationStager::new(import, plugin, config).await?;
    let mut server = Server::connect(url, prefix).await?;
    let mut seen = HashSet::new();
    while let Some(keys) = server.keys().await? {
        for key in keys {
            let Ok(key) = String::from_utf8(key) else {
                import.leave_out("", "", ImportError::Left("a key is not UTF-8".to_owned()))?;
                continue;
            };
            if !seen.insert(key.clone()) {
                continue;
            }
            let read = server.item(key.clone()).await?.and_then(|item| program.read(&item, prefix));
            match read {
                Ok(Some(conversation)) => staging.add(import, conversation, key).await?,
                Ok(None) => {}
                Err(what) => import.leave_out("", &key, ImportError::Input(what))?,
            }
        }
    }
    staging.finish(import).await
}

/// RocketRide stores sessions as Keepline does: they are copied.
async fn read_their_store(import: &mut Import, url: &str, prefix: &str) -> Result<()> {
    let options =
        RedisOptions { url: Some(url.to_owned().into()), key_prefix: prefix.to_owned(), ..RedisOptions::default() };
    let from: Arc<dyn TransferStore> = Arc::new(RedisStore::new(options)?);
    let found = listed(&*from).await.map_err(|failure| store_error(&failure))?;
    for session in found.into_iter().filter(|bucket| bucket.kind == BucketKind::Session) {
        let name = session.name.clone();
        let staged = Staged { session, nodes: Vec::new(), is_shell: false };
        if let Err(wrong) = carry_over(import, &from, &staged).await {
            import.leave_out(&name, "", wrong)?;
        }
    }
    Ok(())
}

async fn carry_over(import: &mut Import, from: &Arc<dyn TransferStore>, staged: &Staged) -> Result<(), ImportError> {
    import.withdraw(from, staged).await?;
    let delivered = import.delivery.deliver_from(from, staged).await?;
    import.delivered(staged, &ImportedSession::default(), delivered).await
}

/// Imports a session of RocketRide from all of its keys.
async fn dumped(import: &mut Import, name: &str, session: Session) -> Result<(), ImportError> {
    if !is_bucket(name) {
        return Err(ImportError::Left(no_name(name)));
    }
    let expires_at = session.expires_at();
    let Some(fields) = session.metadata else {
        return Err(ImportError::Left("its key __meta__ is missing, so it has expired".to_owned()));
    };
    let head = Head {
        expires_at,
        fields: fields.into_iter().map(|(name, text)| (name.into_bytes(), text.into_bytes())).collect(),
        maps: Vec::new(),
        indexes: Vec::new(),
        logs: vec![(b"history".to_vec(), 0)],
    };
    let mut arriving = StagedBucket::begin(&import.delivery.staging, BucketKind::Session, name, head).await?;
    for (key, text) in &session.values {
        if !is_key(key) {
            return Err(ImportError::Left(format!("{key:?} can't be a key")));
        }
        arriving.entry(VALUES, key, text).await?;
    }
    for record in &session.history {
        arriving.record("history", record).await?;
    }
    let staged = Staged { session: arriving.bucket.clone(), nodes: Vec::new(), is_shell: false };
    arriving.end().await?;
    import.deliver(&staged, &ImportedSession::default()).await
}

fn no_name(name: &str) -> String {
    format!(
        "{name:?} can't be a session's id; allowed are 1 to 128 letters, digits, hyphens and underscores: give it another \
         one with --rename, or have it hashed with --hash-ids"
    )
}

/// Writes conversations to the staging store.
struct ConversationStager {
    keepline: Keepline,
    /// Those of one session: nodes come one by one.
    held: Vec<Conversation>,
}

impl ConversationStager {
    async fn new(import: &Import, plugin: Plugin, config: &Config) -> Result<Self> {
        let store = import.delivery.staging.store.clone();
        Ok(Self { keepline: app::keepline_on(store, plugin, config).await?, held: Vec::new() })
    }

    /// Adds a conversation, with the place it comes from. If it belongs to another session, the previous one is complete.
    async fn add(&mut self, import: &mut Import, mut conversation: Conversation, source: String) -> Result<()> {
        conversation.session = import.ids.renamed(conversation.session);
        if conversation.node.is_none() && conversation.user.is_none() {
            conversation.user.clone_from(&import.ids.user);
        }
        let id = match &conversation.node {
            None => conversation.session.clone(),
            Some((app, node)) => format!("{}/{}/{node}", conversation.session, app.as_deref().unwrap_or_default()),
        };
        // It is written again by the component, so its digest always differs.
        if let Err(wrong) = import.comes_again(id, source, None) {
            return import.leave_out(&conversation.session, "", wrong);
        }
        if self.held.last().is_some_and(|held| held.session != conversation.session || conversation.node.is_none()) {
            self.finish(import).await?;
        }
        self.held.push(conversation);
        Ok(())
    }

    async fn finish(&mut self, import: &mut Import) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        let Some(name) = held.first().map(|first| first.session.clone()) else { return Ok(()) };
        for conversation in &held {
            let told = conversation.left_out.iter().map(|what| (name.clone(), what.clone()));
            import.tally.skipped.extend(told);
        }
        if let Err(wrong) = self.session(import, &name, &held).await {
            import.leave_out(&name, "", wrong)?;
        }
        Ok(())
    }

    async fn session(
        &self,
        import: &mut Import,
        name: &str,
        conversations: &[Conversation],
    ) -> Result<(), ImportError> {
        let Some(bucket) = self.keepline.session_ids().bucket_name(name) else {
            return Err(ImportError::Left(no_name(name)));
        };
        let session = BucketId { kind: BucketKind::Session, name: bucket.into_owned() };
        let is_shell = conversations.iter().all(|conversation| conversation.node.is_some());
        if !is_shell && !import.delivery.replaces && import.delivery.is_there(&session).await? {
            return Err(ImportError::Left(
                "there is already a session with that name; use --replace to replace it".to_owned(),
            ));
        }
        import.delivery.staging.remove(&session).await?;
        let mut sessions = sessions_without_deadline(&self.keepline);
        sessions.create(name).await?;
        let mut about = ImportedSession::default();
        for conversation in conversations {
            let node = conversation.node.as_ref();
            let app_id = node.and_then(|(app, _)| app.as_deref());
            let transcript = Transcript { session: name, app_id, node_id: node.map(|(_, node)| &**node) };
            let mut next = None;
            let texts: Vec<String> = conversation.messages.iter().map(Value::to_string).collect();
            for piece in pieces(&texts) {
                let count = sessions.set_messages(transcript, piece, next).await?.count;
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
        let nodes = nodes_of(&*import.delivery.staging.store, &session).await?.into_iter().collect();
        import.deliver(&Staged { session, nodes, is_shell }, &about).await
    }
}

/// Splits messages, JSON objects, into pieces that begin with a user's message where possible.
pub fn pieces(messages: &[String]) -> Vec<&[String]> {
    let (mut pieces, mut rest) = (Vec::new(), messages);
    while !rest.is_empty() {
        let (mut bytes, mut end, mut last) = (0, 0, 0);
        for (index, message) in rest.iter().enumerate().take(PIECE) {
            bytes += message.len();
            if index > 0 && bytes > PIECE_BYTES {
                break;
            }
            end = index + 1;
            if rest.get(end).is_some_and(|next| is_asked(next)) {
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

fn is_asked(message: &str) -> bool {
    let mut is_asked = false;
    let _ = members(message, |key, raw| {
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
        let found = pieces(&messages);
        assert_eq!(found.iter().map(|piece| piece.len()).collect::<Vec<_>>(), [1998, 1998, 1004]);
        assert!(found.iter().all(|piece| is_asked(&piece[0])));
        // One turn that is longer than a piece, and one message that is.
        let long = vec![json!({"role": "tool"}).to_string(); 4500];
        assert_eq!(pieces(&long).iter().map(|piece| piece.len()).collect::<Vec<_>>(), [2000, 2000, 500]);
        let large = vec![json!({"role": "tool", "content": "x".repeat(5 << 20)}).to_string(); 2];
        assert_eq!(pieces(&large).len(), 2);
    }
}
