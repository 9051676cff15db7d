//! Proves that two stores are apart, so that no session of the one is a session of the other.
//!
//! Addresses don't tell: one server has many names, a cluster's nodes, replicas and proxies have more, and a directory
//! has as many as there are links and mounts. So each store leaves a mark where it would keep a session of some random
//! name, and the other looks for it where it would keep that one. Prefixes and layouts are tried by that, too. A mark is
//! no part of any session, and expires.

use std::time::Duration;

use super::{MarkAction, Transfer};
use crate::{Failure, FailureCode};

/// What is written on one server may be seen on another a little later, where that is its replica.
const LAG: Duration = Duration::from_millis(200);

/// Why two stores are not known to be apart.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotApart {
    /// What the one writes, the other reads.
    #[error("source and target are the same store, even if they are addressed differently")]
    Same,
    /// The source can't be read or written.
    #[error("the source can't be used: {}", .0.message)]
    Source(Failure),
    /// The target can't be read or written.
    #[error("the target can't be used: {}", .0.message)]
    Target(Failure),
}

impl Transfer {
    /// Proves that both stores are apart: before anything is replaced or removed in one of them because of what the
    /// other holds. Some ten round trips and a fifth of a second.
    ///
    /// A source that is full takes no mark. Then it suffices that the target takes one, and that the source
    /// does not see it.
    ///
    /// # Errors
    /// When they are the same, or when one of them can't be read or written, so that it can't be proved.
    pub async fn prove_apart(&self) -> Result<(), NotApart> {
        let [mine, theirs] = [(); 2].map(|()| format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..)));
        let outcome = self.look_for_marks(&mine, &theirs).await;
        // They would expire by themselves.
        let _ = self.from.mark(MarkAction::Take, &mine).await;
        let _ = self.to.mark(MarkAction::Take, &theirs).await;
        outcome
    }

    async fn look_for_marks(&self, mine: &str, theirs: &str) -> Result<(), NotApart> {
        match self.from.mark(MarkAction::Leave, mine).await {
            Err(failure) if failure.code != FailureCode::Full => return Err(NotApart::Source(failure)),
            _ => {}
        }
        self.to.mark(MarkAction::Leave, theirs).await.map_err(NotApart::Target)?;
        for is_again in [false, true] {
            if is_again {
                tokio::time::sleep(LAG).await;
            }
            let is_in_source = self.from.mark(MarkAction::Look, theirs).await.map_err(NotApart::Source)?;
            let is_in_target = self.to.mark(MarkAction::Look, mine).await.map_err(NotApart::Target)?;
            if is_in_source || is_in_target {
                return Err(NotApart::Same);
            }
        }
        Ok(())
    }
}
