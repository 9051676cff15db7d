//! Forgets users, in as many calls as it takes.

use anyhow::{Result, bail};
use keepline::Sessions;

use super::pages::Pages;

/// Successive calls of `forget` that delete nothing although something is left.
const IDLE_CALLS: u32 = 100;
/// Successive calls of `forget` after which no less is left. The remainder is counted up to a bound, so for a user with very
/// many sessions it stays the same for a while.
const STALLED_CALLS: u32 = 10_000;

/// Forgets a user, batch by batch. Returns the numbers of deleted sessions and nodes.
pub async fn forget_all(sessions: &mut Sessions, user: &str) -> Result<(u64, u64)> {
    let (mut gone, mut nodes) = (0_u64, 0_u64);
    let (mut idle, mut stalled, mut least) = (0, 0, u64::MAX);
    let mut pages = Pages::default();
    loop {
        let done = sessions.forget_user(user).await?;
        gone = gone.saturating_add(done.sessions);
        nodes = nodes.saturating_add(done.nodes);
        if done.remaining == 0 {
            return Ok((gone, nodes));
        }
        idle = if done.sessions == 0 && done.nodes == 0 { idle + 1 } else { 0 };
        if idle > IDLE_CALLS {
            bail!("entries keep coming for this user: stop them, and run the same command again");
        }
        // The count of deletions is only what the plugin claims.
        stalled = if done.remaining < least { 0 } else { stalled + 1 };
        least = least.min(done.remaining);
        if stalled > STALLED_CALLS {
            bail!(
                "the plugin makes no progress: after {STALLED_CALLS} calls as much is left as before; if the user has \
                 very many sessions, run the same command again"
            );
        }
        pages.turn(true)?;
    }
}
