//! Options of deferred work, and the trait of archives.

use std::{fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;

/// How deferred work is done. Start from [`MaintenanceOptions::default`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MaintenanceOptions {
    /// Tasks that are done at one time, at least 1. Default 4.
    pub concurrency: usize,
    /// Tasks that are at work or wait. One more is dropped, and is due again at the next answer of its session. Default
    /// 256.
    pub max_tasks: usize,
    /// How long the model may take for one completion, or the embedder for one call, whatever it does to get it. Default 60 s. The lease of a step is
    /// that long and a little longer: who is killed keeps others from its session's task until it has run out.
    pub model_timeout: Duration,
    /// Keeps copies of what is about to be removed because a transcript is too long. Default: none are kept.
    pub archive: Option<Arc<dyn Archive>>,
}

impl Default for MaintenanceOptions {
    fn default() -> Self {
        Self { concurrency: 4, max_tasks: 256, model_timeout: Duration::from_secs(60), archive: None }
    }
}

/// Keeps copies of what retention is about to remove.
#[async_trait]
pub trait Archive: Debug + Send + Sync {
    /// Keep a copy of a transcript's bucket, as `session/NAME` or `node/NAME`. Called when something is about to be
    /// removed, and only then; one call for the same one at a time. Nothing is removed before it has returned, nor if it takes longer than
    /// [`MaintenanceOptions::model_timeout`].
    ///
    /// # Errors
    /// For people: why there is no copy. Then nothing is removed, and it will be due again.
    async fn keep(&self, subject: &str) -> Result<(), String>;
}
