//! When replies that go on have to end.

use tokio::sync::watch;

use crate::access::Authenticated;

/// Ends a stream: when its key is revoked, or the service stops.
pub struct StreamEnd {
    stopping: watch::Receiver<bool>,
    authenticated: Authenticated,
}

impl StreamEnd {
    pub fn new(stopping: watch::Receiver<bool>, authenticated: Authenticated) -> Self {
        Self { stopping, authenticated }
    }

    /// Whether the service is about to stop.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Waits until the stream has to end.
    pub async fn wait(self) {
        let Self { mut stopping, authenticated } = self;
        tokio::select! {
            // An error: the service is gone.
            _ = stopping.wait_for(|stopping| *stopping) => {}
            () = authenticated.revoked() => {}
        }
    }
}
