//! Options of deferred work.

use std::{sync::Arc, time::Duration};

use super::Archive;

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
