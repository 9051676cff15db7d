//! Waits for a state, not for a time: however busy the machine is, a test goes on once it is reached.

use std::{
    thread,
    time::{Duration, Instant},
};

/// More than anything here takes, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);

/// Looks until there is something to return, and blocks the thread meanwhile. `what` completes "waited in vain until".
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain until {what}");
        thread::sleep(PAUSE);
    }
}

/// Asks until the answer is yes, and lets other tasks run meanwhile.
pub async fn until_true(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < end, "waited in vain until {what}");
        tokio::time::sleep(PAUSE).await;
    }
}
