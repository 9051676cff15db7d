//! From the staging store to the target: whole sessions, which are not there before they are whole.
//!
//! Promises that a session and its nodes are there together: its nodes come first, and nobody meets them before their
//! session names them. What an interrupted import left is replaced by the next. Refuses to overwrite a session that is there,
//! unless it is told to.

use std::{collections::BTreeSet, sync::Arc};

use keepline::store::{
    BucketId, BucketKind, Deadline, Failure, Transfer, TransferStore, Transferred, Writer, transfer::Weighed,
};

use super::{form::NODES, staging::Staging};

/// A session that is whole.
pub struct Staged {
    pub session: BucketId,
    pub nodes: Vec<BucketId>,
    /// Whether there is nothing in it but its nodes: they may be added to one that is there.
    pub is_shell: bool,
}

/// What became of it, or would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    Imported,
    /// The same is there already.
    AlreadyThere,
    /// There is another one of that name, which was left alone.
    Exists,
    /// Its time is over.
    Expired,
}

/// Where sessions go.
pub struct Delivery {
    /// None: nothing is there, and nothing is to be made.
    pub target: Option<Arc<dyn TransferStore>>,
    pub staging: Staging,
    pub replaces: bool,
    pub is_dry_run: bool,
}

impl Delivery {
    /// Whether there is a session of that name.
    pub async fn is_there(&self, session: &BucketId) -> Result<bool, Failure> {
        match &self.target {
            Some(target) => Ok(target.head(session).await?.is_some()),
            None => Ok(false),
        }
    }

    /// From the staging store.
    pub async fn deliver(&self, staged: &Staged) -> Result<Delivered, Failure> {
        let from: Arc<dyn TransferStore> = self.staging.store.clone();
        let delivered = self.deliver_from(&from, staged).await;
        self.discard(staged).await?;
        delivered
    }

    /// It leaves the staging store.
    pub async fn discard(&self, staged: &Staged) -> Result<(), Failure> {
        for bucket in staged.nodes.iter().chain([&staged.session]) {
            self.staging.remove(bucket).await?;
        }
        Ok(())
    }

    /// Digests of all that is staged.
    pub async fn contents(&self, staged: &Staged) -> Result<Vec<String>, Failure> {
        let mut digests = Vec::new();
        for bucket in [&staged.session].into_iter().chain(&staged.nodes) {
            if let Weighed::There(weight) = self.staging.store.weigh(bucket).await? {
                digests.push(weight.digest);
            }
        }
        Ok(digests)
    }

    /// From a store that is only read.
    pub async fn deliver_from(&self, from: &Arc<dyn TransferStore>, staged: &Staged) -> Result<Delivered, Failure> {
        match &self.target {
            Some(target) if !self.is_dry_run => self.carry(from, target, staged).await,
            _ => self.foresee(from, staged).await,
        }
    }

    /// What would become of it.
    pub async fn foresee(&self, from: &Arc<dyn TransferStore>, staged: &Staged) -> Result<Delivered, Failure> {
        let Weighed::There(weight) = from.weigh(&staged.session).await? else {
            return Ok(Delivered::Expired);
        };
        let Some(target) = &self.target else { return Ok(Delivered::Imported) };
        Ok(match target.weigh(&staged.session).await? {
            Weighed::There(there) if there.digest == weight.digest => Delivered::AlreadyThere,
            Weighed::There(_) if staged.is_shell => Delivered::Imported,
            Weighed::There(_) if !self.replaces => Delivered::Exists,
            _ => Delivered::Imported,
        })
    }

    async fn carry(
        &self,
        from: &Arc<dyn TransferStore>,
        target: &Arc<dyn TransferStore>,
        staged: &Staged,
    ) -> Result<Delivered, Failure> {
        let Staged { session, nodes, is_shell } = staged;
        let is_there = target.head(session).await?.is_some();
        let transfer = |overwrite| Transfer { from: from.clone(), to: target.clone(), overwrite };
        if is_there && *is_shell {
            let mut all = Delivered::Imported;
            for node in nodes {
                let told = told(transfer(self.replaces).bucket(node).await?);
                if told != Delivered::Imported {
                    all = told;
                }
            }
            return Ok(all);
        }
        if is_there && !self.replaces {
            let told = told(transfer(false).bucket(session).await?);
            if told == Delivered::AlreadyThere {
                for node in nodes {
                    transfer(false).bucket(node).await?;
                }
            }
            return Ok(told);
        }
        let before = if is_there { nodes_of(&**target, session).await? } else { BTreeSet::new() };
        for node in nodes {
            // Without its session, it is what an interrupted import left.
            transfer(true).bucket(node).await?;
        }
        let told = told(transfer(self.replaces).bucket(session).await?);
        if told == Delivered::Imported {
            let mut writer = Writer::new();
            for node in before.iter().filter(|node| !nodes.contains(node)) {
                target.delete_bucket(writer.advance(), node, None, 0, Deadline::NEVER).await?;
            }
        }
        Ok(told)
    }
}

fn told(transferred: Transferred) -> Delivered {
    match transferred {
        Transferred::Copied { .. } => Delivered::Imported,
        Transferred::AlreadyThere { .. } => Delivered::AlreadyThere,
        Transferred::Gone => Delivered::Expired,
        // Nobody else writes to the staging store: what differs after the copy was written to the target since.
        _ => Delivered::Exists,
    }
}

/// The nodes that a session names.
pub async fn nodes_of(store: &dyn TransferStore, session: &BucketId) -> Result<BTreeSet<BucketId>, Failure> {
    let maps = store.head(session).await?.map(|head| head.maps).unwrap_or_default();
    let keys = maps.into_iter().filter(|(map, _)| map == NODES.as_bytes()).flat_map(|(_, keys)| keys);
    let node = |name| Some(BucketId { kind: BucketKind::Node, name: String::from_utf8(name).ok()? });
    Ok(keys.filter_map(node).collect())
}
