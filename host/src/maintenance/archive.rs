//! The trait of archives: they keep conversations before retention removes parts of them.

use std::fmt::Debug;

use async_trait::async_trait;

/// Keeps copies of what retention is about to remove.
#[async_trait]
pub trait Archive: Debug + Send + Sync {
    /// Keep a copy of a transcript's bucket, as `session/NAME` or `node/NAME`. Called when something is about to be
    /// removed, and only then; one call for the same one at a time. Nothing is removed before it has returned, nor if it takes longer than
    /// [`MaintenanceOptions::model_timeout`](super::MaintenanceOptions::model_timeout).
    ///
    /// # Errors
    /// For people: why there is no copy. Then nothing is removed, and it will be due again.
    async fn keep(&self, subject: &str) -> Result<(), String>;
}
