//! The trait of language models, which complete prompts for the plugin.

use async_trait::async_trait;

use crate::{contract::needs::CompletionNeed, entry::task::ModelError};

/// A language model, or whatever stands in for one.
///
/// It is called off the entries' path and from several tasks at a time. A call may be dropped at any time: when it takes
/// longer than [`MaintenanceOptions::model_timeout`](super::MaintenanceOptions::model_timeout), or at a shutdown.
#[async_trait]
pub trait Model: Send + Sync + 'static {
    /// The completion that is needed. None: there is no model, and the filter does without: of a conversation it makes a
    /// digest, and the first message stays its title.
    ///
    /// `instructions` are the filter's own, `input` quotes what users and models have said: it is data, and fenced.
    ///
    /// # Errors
    /// When the model could not be asked or its answer is of no use. The task is left for the next turn, and everything as
    /// it was.
    async fn complete(&self, need: &CompletionNeed) -> Result<Option<String>, ModelError>;
}

/// No model: the filter does without.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoModel;

#[async_trait]
impl Model for NoModel {
    async fn complete(&self, _: &CompletionNeed) -> Result<Option<String>, ModelError> {
        Ok(None)
    }
}
