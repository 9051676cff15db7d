//! Proves that two stores are apart, so that no session of the one is a session of the other.
//!
//! Addresses don't tell: one server has many names, a cluster's nodes, replicas and proxies have more, and a directory
//! has as many as there are links and mounts. So each store is asked to delete a session of some random name. It remembers
//! that call, and the other one, asked the same, must not. Prefixes and layouts are tried by that, too.

use std::time::Duration;

use super::{Transfer, TransferStore};
use crate::{BucketId, BucketKind, Deadline, Failure, FailureCode, Status, Writer, failure};

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

/// The deletion of a session that there never was. A store forgets it after some minutes.
struct Mark {
    writer: Writer,
    session: BucketId,
}

impl Mark {
    fn new() -> Self {
        let mut writer = Writer::new();
        writer.advance();
        let session = BucketId { kind: BucketKind::Session, name: format!("{:032x}", fastrand::u128(..)) };
        Self { writer, session }
    }

    /// Leaves it in a store. Tells whether it was there already.
    async fn leave(&self, store: &dyn TransferStore) -> Result<bool, Failure> {
        let deletion = store.delete_bucket(&self.writer, &self.session, None, 0, Deadline::NEVER).await?;
        Ok(deletion.status == Status::Repeated)
    }
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
        let (in_source, in_target) = (Mark::new(), Mark::new());
        match in_source.leave(&*self.from).await {
            Err(failure) if failure.code != FailureCode::Full => return Err(NotApart::Source(failure)),
            _ => {}
        }
        in_target.leave(&*self.to).await.map_err(NotApart::Target)?;
        // Redis deletes even where it has no room to remember it.
        if !in_target.leave(&*self.to).await.map_err(NotApart::Target)? {
            return Err(NotApart::Target(failure(FailureCode::Full, "", "it takes nothing new")));
        }
        tokio::time::sleep(LAG).await;
        let is_in_source = match in_target.leave(&*self.from).await {
            Err(failure) if failure.code == FailureCode::Full => false,
            left => left.map_err(NotApart::Source)?,
        };
        if is_in_source || in_source.leave(&*self.to).await.map_err(NotApart::Target)? {
            return Err(NotApart::Same);
        }
        Ok(())
    }
}
