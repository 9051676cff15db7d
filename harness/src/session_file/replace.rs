//! Replaces a transcript by more messages than one transaction takes: a copy of the session is changed in the staging
//! store and then takes the session's place.
//!
//! The old messages stay until all of the new ones are stored. If values, counts or anything else of the session
//! changes meanwhile, the replacement is repeated, or fails; messages that arrive meanwhile are replaced too, as in one
//! transaction. A set of messages that the component would refuse is refused here.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use anyhow::{Context, Result};
use keepline::{
    Keepline, Plugin,
    config::Config,
    sessions::{SessionErrorCode, chat_messages},
    store::{BucketId, Transfer, TransferStore, Transferred, transfer::WeighedBucket},
};
use keepline_json::{decode_string, for_each_member};
use keepline_session_file::{StagingStore, read_node_buckets};

use super::{
    copies_for_users, import::split_into_pieces, open_durable_store, sessions_without_deadline, staging_store,
    withdraw_copies,
};
use crate::{
    app::{self, error::coded_error, runtime},
    args::{GlobalArguments, TranscriptArguments},
    operations::transcripts::as_transcript,
    terminal::progress_bar,
};

/// Attempts while the session keeps changing.
const TRIES: u32 = 3;

/// Replaces all messages of a transcript by these, JSON objects. Returns their number.
pub fn replace_messages(
    global: &GlobalArguments,
    transcript: &TranscriptArguments,
    messages: &[String],
) -> Result<u64> {
    refuse_duplicate_ids(messages)?;
    let config = app::load_config(global)?;
    let target = open_durable_store(&config, "set-messages", false)?;
    let plugin = app::load_plugin(global, &config)?;
    runtime::build_single_threaded()?.block_on(async {
        target.check().await.context("the store can't be used")?;
        let keepline = app::open_keepline_on(target.clone(), plugin.clone(), &config).await?;
        let replacing = MessageReplacement { target, keepline, plugin, config: &config, transcript, messages };
        for _ in 0..TRIES {
            if let Some(count) = replacing.try_replace().await? {
                return Ok(count);
            }
        }
        let message = format!(
            "session '{}' kept changing: nothing was set; stop its pipes and run the same command again",
            transcript.session
        );
        Err(coded_error("conflict", message))
    })
}

/// The component sees one piece at a time, so an id that occurs twice is refused here, in the component's words.
fn refuse_duplicate_ids(messages: &[String]) -> Result<()> {
    let mut ids = HashSet::new();
    for (number, text) in (1_u64..).zip(messages) {
        let (mut id, mut line) = (None, None);
        let _ = for_each_member(text, |key, raw| match key {
            r#""id""# => id = decode_string(raw).filter(|id| !id.is_empty()),
            r#""line""# => line = raw.parse().ok(),
            _ => {}
        });
        if let Some(id) = id
            && !ids.insert(id.clone().into_owned())
        {
            let number = line.unwrap_or(number);
            let message = format!("Message {number}: an earlier message has its id '{id}', too");
            return Err(coded_error("invalid-value", message));
        }
    }
    Ok(())
}

struct MessageReplacement<'a> {
    target: Arc<dyn TransferStore>,
    keepline: Keepline,
    plugin: Plugin,
    config: &'a Config,
    transcript: &'a TranscriptArguments,
    messages: &'a [String],
}

impl MessageReplacement<'_> {
    /// Returns the number of messages. `None`: the session changed meanwhile.
    async fn try_replace(&self) -> Result<Option<u64>> {
        let id = &*self.transcript.session;
        // It tells best what is wrong with an id.
        sessions_without_deadline(&self.keepline).describe(id.into()).await?;
        let name = self.keepline.session_ids().bucket_name(id).unwrap_or_default().into_owned();
        let session = BucketId::session(name);
        let staging = staging_store(self.config)?;
        let aside: Arc<dyn TransferStore> = staging.store().clone();
        let mut buckets = Vec::new();
        if self.transcript.node.is_some() {
            buckets.extend(read_node_buckets(&*self.target, &session).await?);
        }
        buckets.push(session.clone());
        let mut weights = HashMap::new();
        for bucket in &buckets {
            let WeighedBucket::There(weight) = self.target.weigh(bucket).await? else {
                continue;
            };
            let copy = Transfer { from: self.target.clone(), to: aside.clone(), overwrite: true };
            match copy.copy_bucket(bucket).await? {
                Transferred::Copied { .. } => _ = weights.insert(bucket.clone(), weight),
                _ => return Ok(None),
            }
        }

        let count = self.set_staged_messages(&staging).await?;
        if self.transcript.node.is_none() && copies_for_users(&self.keepline)? {
            withdraw_copies(&self.keepline, &session.name).await?;
        }

        let nodes = read_node_buckets(&*aside, &session).await?;
        // Nodes first: a new one is found only once its session names it.
        let changed = nodes.into_iter().filter(|_| self.transcript.node.is_some()).chain([session]);
        for bucket in changed {
            let back = Transfer { from: aside.clone(), to: self.target.clone(), overwrite: true };
            let transferred = match weights.get(&bucket) {
                Some(weight) => match aside.weigh(&bucket).await? {
                    WeighedBucket::There(made) if made.digest == weight.digest => continue,
                    _ => back.replace(&bucket, weight).await,
                },
                None => back.copy_bucket(&bucket).await,
            };
            if !matches!(transferred?, Transferred::Copied { .. }) {
                return Ok(None);
            }
        }
        Ok(Some(count))
    }

    /// Sets the messages in the copy.
    async fn set_staged_messages(&self, staging: &StagingStore) -> Result<u64> {
        let transcript = as_transcript(self.transcript);
        let keepline = app::open_keepline_on(staging.store().clone(), self.plugin.clone(), self.config).await?;
        let mut sessions = sessions_without_deadline(&keepline);
        let bar = progress_bar(self.messages.len() as u64);
        let (mut done, mut count, mut next) = (0_u64, 0, None);
        for piece in split_into_pieces(self.messages) {
            match sessions.set_messages(transcript, &chat_messages(piece), next).await {
                Ok(changed) => count += changed.count,
                Err(error) if error.code == SessionErrorCode::Limit => {
                    let (first, last) = (done + 1, done + piece.len() as u64);
                    let message =
                        format!("Messages {first} to {last}: together with what belongs to them, they are over 16 MiB");
                    return Err(coded_error("limit", message));
                }
                Err(error) => return Err(error.into()),
            }
            done += piece.len() as u64;
            next = Some(sessions.describe(transcript).await?.next);
            bar.inc(piece.len() as u64);
        }
        bar.finish_and_clear();
        if self.transcript.node.is_some() {
            sessions.register(transcript, None).await?;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_occurs_twice_is_refused() {
        let told = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            refuse_duplicate_ids(&lines).unwrap_err().to_string()
        };
        assert_eq!(
            told(&[r#"{"id": "a"}"#, "{}", r#"{"id": "a"}"#]),
            "Message 3: an earlier message has its id 'a', too"
        );
        assert_eq!(
            told(&[r#"{"id": "a"}"#, r#"{"id": "a","line":9}"#]),
            "Message 9: an earlier message has its id 'a', too"
        );
    }
}
