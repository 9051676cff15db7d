//! The settings that a store was made with, as far as its sessions show them: whether conversations are kept, and whether
//! recall indexes them. So commands that read or repair need no flags, and a run with other settings is warned.
//!
//! Nothing is stored for this: it holds for every store that there is, and no secret, address or model can be among it.
//! That recall looks through all sessions of a user (`recall: "user"`) is never concluded from what is stored.

use std::{sync::Arc, time::Duration};

use keepline::{
    Deadline,
    config::Config,
    store::{
        BucketId, BucketKind, DescribeOperation, Description, ExistingLife, Failure, Opening, Operation, Outcome,
        Receipt, Store, Transaction, Writer,
    },
};
use serde_json::{Map, Value};

/// Sessions that are looked at: the first that the store lists.
const SESSIONS: u32 = 32;
/// The log of a session that holds its conversation.
const TRANSCRIPT: &str = "transcript";
/// The log and the index that recall makes of it.
const TERMS: &str = "terms";
const INDEX: &str = "recall";

/// What the sessions of a store show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSettings {
    pub conversation: bool,
    pub recall: bool,
}

impl StoreSettings {
    /// Looks at some sessions, and uses none of them. None: there are no sessions. Waits twice for the store.
    pub async fn of(store: &Arc<dyn Store>, limit: Duration) -> Result<Option<Self>, Failure> {
        let deadline = Deadline::after(limit);
        let page = store.list_buckets(BucketKind::Session, "", SESSIONS, deadline).await?;
        let looks: Vec<_> = page.names.into_iter().take(SESSIONS as usize).map(look).collect();
        if looks.is_empty() {
            return Ok(None);
        }
        let mut found = Self::default();
        // A session that can't be read shows nothing.
        for receipt in store.transact_each(Writer::new().advance(), &looks, deadline).await.into_iter().flatten() {
            for description in described(&receipt) {
                found.conversation |= has_log(description, TRANSCRIPT);
                found.recall |= is_indexed(description);
            }
        }
        Ok(Some(found))
    }

    /// What a filter is configured with.
    fn configured(filter_options: &str) -> Self {
        let options: Map<String, Value> = serde_json::from_str(filter_options).unwrap_or_default();
        let recall = options.get("recall").and_then(Value::as_str).is_some_and(|recall| recall != "off");
        Self { conversation: options.get("conversation") == Some(&Value::Bool(true)), recall }
    }

    /// What somebody probably did not mean who runs the store with other options; none: nothing.
    pub fn differs(self, filter_options: &str) -> Option<&'static str> {
        let run = Self::configured(filter_options);
        match (self.conversation, run.conversation) {
            (true, false) => Some(
                "the sessions in this store are conversations, but this run keeps none: questions get no messages and \
                 answers add none; to go on with them, add --profile chat or --set conversation=true",
            ),
            (true, true) if self.recall && !run.recall => Some(
                "the sessions in this store are indexed for recall, but recall is off in this run: to go on with it, \
                 add --set recall=session",
            ),
            (true, true) if !self.recall && run.recall => Some(
                "recall is on, but the sessions in this store have no index yet: what was said so far is not recalled \
                 before `keepline recall rebuild --all`",
            ),
            _ => None,
        }
    }
}

fn has_log(description: &Description, name: &str) -> bool {
    description.logs.iter().any(|log| log.log == name)
}

/// Whether recall has made an index of a bucket's transcript.
fn is_indexed(description: &Description) -> bool {
    has_log(description, TERMS) || description.indexes.iter().any(|index| index.index == INDEX)
}

/// Whether a session has something said in it, and no index of that.
pub async fn lacks_index(store: &Arc<dyn Store>, session: &str) -> Result<bool, Failure> {
    let receipt = store.transact(Writer::new().advance(), &look(session.to_owned()), Deadline::NEVER).await?;
    Ok(described(&receipt).any(|description| has_log(description, TRANSCRIPT) && !is_indexed(description)))
}

/// What shows the parts of a session, without using it.
fn look(name: String) -> Transaction {
    Transaction {
        bucket: BucketId { kind: BucketKind::Session, name },
        opening: Opening::Existing(ExistingLife { incarnation: None, renew: false }),
        expectations: Vec::new(),
        operations: vec![Operation::Describe(DescribeOperation { parts: true })],
    }
}

fn described(receipt: &Receipt) -> impl Iterator<Item = &Description> {
    receipt.outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Described(description) => Some(description),
        _ => None,
    })
}

/// The configuration with what the store shows of settings that nobody chose. A store that can't be asked shows nothing:
/// what fails then is told by whatever is asked next.
pub async fn adopted(config: &Config, store: &Arc<dyn Store>) -> Config {
    let mut config = config.clone();
    if config.is_durable() && config.has_choice(&["conversation", "recall"]) {
        let limit = Duration::from_millis(config.host.store_timeout_ms);
        if let Ok(Some(found)) = StoreSettings::of(store, limit).await {
            if found.conversation {
                config.adopt("conversation", true.into());
            }
            if found.recall && StoreSettings::configured(&config.filter_options()).conversation {
                config.adopt("recall", "session".into());
            }
        }
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_that_lose_something_are_told() {
        let (plain, conversation, recall) = (
            StoreSettings::default(),
            StoreSettings { conversation: true, recall: false },
            StoreSettings { conversation: true, recall: true },
        );
        let of = |settings: StoreSettings, options| settings.differs(options).unwrap_or_default();
        let (chat, recalls) = (r#"{"conversation":true}"#, r#"{"conversation":true,"recall":"user"}"#);
        for (settings, options) in
            [(plain, "{}"), (plain, chat), (plain, recalls), (conversation, chat), (recall, recalls)]
        {
            assert_eq!(of(settings, options), "");
        }
        assert!(of(conversation, "{}").contains("conversation=true"));
        assert!(of(recall, "{}").contains("conversation=true"));
        assert!(of(recall, chat).contains("recall=session"));
        assert!(of(conversation, recalls).contains("keepline recall rebuild --all"));
    }
}
