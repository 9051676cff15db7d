//! Copies staged sessions to the target, each whole or not at all.
//!
//! A session and its nodes appear together: its nodes come first, and are found only once their session names them.
//! Leftovers of an interrupted import are replaced by the next. Existing sessions are not overwritten unless
//! `--replace` says so.

use std::{collections::BTreeSet, sync::Arc};

use keepline::store::{
    BucketId, BucketKind, Deadline, Failure, Transfer, TransferStore, Transferred, Writer, transfer::Weighed,
};

use super::Staging;
use crate::session_file::schema::NODES;

/// A complete session in the staging store.
pub struct Staged {
    pub session: BucketId,
    pub nodes: Vec<BucketId>,
    /// Whether it has nodes only, which may be added to an existing session.
    pub is_shell: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    Imported,
    /// An identical session exists.
    AlreadyThere,
    /// A different session of that name exists and was left alone.
    Exists,
    Expired,
}

pub struct Delivery {
    /// `None`: the directory does not exist, and a dry run does not create it.
    pub target: Option<Arc<dyn TransferStore>>,
    pub staging: Staging,
    pub replaces: bool,
    pub is_dry_run: bool,
}

impl Delivery {
    pub async fn is_there(&self, session: &BucketId) -> Result<bool, Failure> {
        match &self.target {
            Some(target) => Ok(target.head(session).await?.is_some()),
            None => Ok(false),
        }
    }

    /// Copies a session from the staging store, and removes it there.
    pub async fn deliver(&self, staged: &Staged) -> Result<Delivered, Failure> {
        let from: Arc<dyn TransferStore> = self.staging.store.clone();
        let delivered = self.deliver_from(&from, staged).await;
        self.discard(staged).await?;
        delivered
    }

    /// Removes a session from the staging store.
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

    /// Copies from another store, which is only read.
    pub async fn deliver_from(&self, from: &Arc<dyn TransferStore>, staged: &Staged) -> Result<Delivered, Failure> {
        match &self.target {
            Some(target) if !self.is_dry_run => self.carry(from, target, staged).await,
            _ => self.foresee(from, staged).await,
        }
    }

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
                let told = delivered_by(transfer(self.replaces).bucket(node).await?);
                if told != Delivered::Imported {
                    all = told;
                }
            }
            return Ok(all);
        }
        if is_there && !self.replaces {
            let told = delivered_by(transfer(false).bucket(session).await?);
            if told == Delivered::AlreadyThere {
                for node in nodes {
                    transfer(false).bucket(node).await?;
                }
            }
            return Ok(told);
        }
        let before = if is_there { nodes_of(&**target, session).await? } else { BTreeSet::new() };
        for node in nodes {
            // A node without its session is left from an interrupted import.
            transfer(true).bucket(node).await?;
        }
        let told = delivered_by(transfer(self.replaces).bucket(session).await?);
        if told == Delivered::Imported {
            let mut writer = Writer::new();
            for node in before.iter().filter(|node| !nodes.contains(node)) {
                target.delete_bucket(writer.advance(), node, None, 0, Deadline::NEVER).await?;
            }
        }
        Ok(told)
    }
}

fn delivered_by(transferred: Transferred) -> Delivered {
    match transferred {
        Transferred::Copied { .. } => Delivered::Imported,
        Transferred::AlreadyThere { .. } => Delivered::AlreadyThere,
        Transferred::Gone => Delivered::Expired,
        // Only this process writes to the staging store: a difference after the copy was written to the target since.
        _ => Delivered::Exists,
    }
}

pub async fn nodes_of(store: &dyn TransferStore, session: &BucketId) -> Result<BTreeSet<BucketId>, Failure> {
    let maps = store.head(session).await?.map(|head| head.maps).unwrap_or_default();
    let keys = maps.into_iter().filter(|(map, _)| map == NODES.as_bytes()).flat_map(|(_, keys)| keys);
    let node = |name| Some(BucketId { kind: BucketKind::Node, name: String::from_utf8(name).ok()? });
    Ok(keys.filter_map(node).collect())
}
