//! Infers from a store's sessions whether conversations are kept and whether recall indexes them, so that commands that
//! read or repair need no flags, and a run with other settings is warned.
//!
//! Nothing is stored for this, so it works for every existing store and reveals no secret, address or model. `recall:
//! "user"` is never inferred: searching all of a user's sessions takes an explicit setting.

use std::{sync::Arc, time::Duration};

use keepline::{
    Deadline,
    config::Config,
    store::{Description, Failure, Store, Writer, kind, part},
};
use serde_json::{Map, Value};

use super::look::{bucket_description, describe};

/// Sessions that are read: the first ones that the store lists.
const SAMPLED_SESSIONS: u32 = 32;
/// The log of a session that holds its conversation.
const TRANSCRIPT: &str = "transcript";
/// The log and the index that recall derives from it.
const TERMS_LOG: &str = "terms";
const RECALL_INDEX: &str = "recall";

/// Settings that the sessions of a store show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSettings {
    pub conversation: bool,
    pub recall: bool,
}

impl StoreSettings {
    /// Reads some sessions, in two round trips and without counting a use. `None`: there are no sessions.
    pub async fn infer_from_store(store: &Arc<dyn Store>, limit: Duration) -> Result<Option<Self>, Failure> {
        let deadline = Deadline::after(limit);
        let page = store.list_buckets(kind::SESSION, "", SAMPLED_SESSIONS, deadline).await?;
        let names = page.names.iter().take(SAMPLED_SESSIONS as usize);
        let looks: Vec<_> = names.map(|name| describe(kind::SESSION, name)).collect();
        if looks.is_empty() {
            return Ok(None);
        }
        let mut found = Self::default();
        // Sessions that can't be read are skipped.
        for receipt in store.transact_each(Writer::new().advance(), &looks, deadline).await.into_iter().flatten() {
            if let Some(description) = bucket_description(receipt) {
                found.conversation |= has_log(&description, TRANSCRIPT);
                found.recall |= is_indexed(&description);
            }
        }
        Ok(Some(found))
    }

    /// The settings of a run.
    pub fn from_filter_options(filter_options: &str) -> Self {
        let options: Map<String, Value> = serde_json::from_str(filter_options).unwrap_or_default();
        let recall = options.get("recall").and_then(Value::as_str).is_some_and(|recall| recall != "off");
        Self { conversation: options.get("conversation") == Some(&Value::Bool(true)), recall }
    }

    /// A warning for a run whose options lose what the store's sessions have.
    pub fn mismatch_warning(self, filter_options: &str) -> Option<&'static str> {
        let run = Self::from_filter_options(filter_options);
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

fn has_part(description: &Description, kind: &str, name: &str) -> bool {
    description.parts.iter().any(|part| part.kind == kind && part.name == name)
}

fn has_log(description: &Description, name: &str) -> bool {
    has_part(description, part::LOG, name)
}

/// Whether recall has indexed a bucket's transcript.
fn is_indexed(description: &Description) -> bool {
    has_log(description, TERMS_LOG) || has_part(description, part::INDEX, RECALL_INDEX)
}

/// Whether a session has messages but no index of them.
pub async fn lacks_index(store: &Arc<dyn Store>, session: &str) -> Result<bool, Failure> {
    let look = describe(kind::SESSION, session);
    let receipt = store.transact(Writer::new().advance(), &look, Deadline::NEVER).await?;
    Ok(bucket_description(receipt).is_some_and(|found| has_log(&found, TRANSCRIPT) && !is_indexed(&found)))
}

/// The configuration, with unset options as the store's sessions suggest. A store that fails suggests nothing; the next call
/// reports the failure.
pub async fn adopt_store_settings(config: &Config, store: &Arc<dyn Store>) -> Config {
    let mut config = config.clone();
    if config.is_durable() && config.has_choice(&["conversation", "recall"]) {
        let limit = Duration::from_millis(config.host.store_timeout_ms);
        if let Ok(Some(found)) = StoreSettings::infer_from_store(store, limit).await {
            if found.conversation {
                config.adopt("conversation", true.into());
            }
            if found.recall && StoreSettings::from_filter_options(&config.filter_options()).conversation {
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
    fn only_options_that_lose_or_do_not_index_memory_are_warned_of() {
        let (plain, conversation, recall) = (
            StoreSettings::default(),
            StoreSettings { conversation: true, recall: false },
            StoreSettings { conversation: true, recall: true },
        );
        let of = |settings: StoreSettings, options| settings.mismatch_warning(options).unwrap_or_default();
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
