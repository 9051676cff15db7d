//! Copies staged sessions to the target, each whole or not at all.
//!
//! A session and its nodes appear together: its nodes come first, and are found only once their session names them.
//! Leftovers of an interrupted import are replaced by the next. Existing sessions are not overwritten unless
//! `--replace` says so.

use std::{collections::BTreeSet, sync::Arc};

use keepline::store::{
    BucketId, Deadline, DeleteRequest, Failure, Transfer, TransferStore, Transferred, Writer, transfer::WeighedBucket,
};

use super::StagingStore;
use crate::session_file::schema::NODES;

/// A complete session in the staging store.
pub struct StagedSession {
    pub session: BucketId,
    pub nodes: Vec<BucketId>,
    /// Whether it has nodes only, which may be added to an existing session.
    pub is_shell: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    Imported,
    /// An identical session exists.
    AlreadyThere,
    /// A different session of that name exists and was left alone.
    Exists,
    Expired,
}

pub struct SessionDelivery {
    /// `None`: the directory does not exist, and a dry run does not create it.
    pub target: Option<Arc<dyn TransferStore>>,
    pub staging: StagingStore,
    pub replaces: bool,
    pub is_dry_run: bool,
}

impl SessionDelivery {
    pub async fn session_exists(&self, session: &BucketId) -> Result<bool, Failure> {
        match &self.target {
            Some(target) => Ok(target.head(session).await?.is_some()),
            None => Ok(false),
        }
    }

    /// Removes a session from the staging store.
    pub async fn discard_staged(&self, staged: &StagedSession) -> Result<(), Failure> {
        for bucket in staged.nodes.iter().chain([&staged.session]) {
            self.staging.remove_bucket(bucket).await?;
        }
        Ok(())
    }

    /// Digests of all that is staged.
    pub async fn staged_digests(&self, staged: &StagedSession) -> Result<Vec<String>, Failure> {
        let mut digests = Vec::new();
        for bucket in [&staged.session].into_iter().chain(&staged.nodes) {
            if let WeighedBucket::There(weight) = self.staging.store.weigh(bucket).await? {
                digests.push(weight.digest);
            }
        }
        Ok(digests)
    }

    /// Copies a session from a store, which is only read.
    pub async fn deliver_from(
        &self,
        from: &Arc<dyn TransferStore>,
        staged: &StagedSession,
    ) -> Result<DeliveryOutcome, Failure> {
        match &self.target {
            Some(target) if !self.is_dry_run => self.copy_to_target(from, target, staged).await,
            _ => self.predict_outcome(from, staged).await,
        }
    }

    pub async fn predict_outcome(
        &self,
        from: &Arc<dyn TransferStore>,
        staged: &StagedSession,
    ) -> Result<DeliveryOutcome, Failure> {
        let WeighedBucket::There(weight) = from.weigh(&staged.session).await? else {
            return Ok(DeliveryOutcome::Expired);
        };
        let Some(target) = &self.target else { return Ok(DeliveryOutcome::Imported) };
        Ok(match target.weigh(&staged.session).await? {
            WeighedBucket::There(there) if there.digest == weight.digest => DeliveryOutcome::AlreadyThere,
            WeighedBucket::There(_) if staged.is_shell => DeliveryOutcome::Imported,
            WeighedBucket::There(_) if !self.replaces => DeliveryOutcome::Exists,
            _ => DeliveryOutcome::Imported,
        })
    }

    async fn copy_to_target(
        &self,
        from: &Arc<dyn TransferStore>,
        target: &Arc<dyn TransferStore>,
        staged: &StagedSession,
    ) -> Result<DeliveryOutcome, Failure> {
        let StagedSession { session, nodes, is_shell } = staged;
        let is_there = target.head(session).await?.is_some();
        let transfer = |overwrite| Transfer { from: from.clone(), to: target.clone(), overwrite };
        if is_there && *is_shell {
            let mut all = DeliveryOutcome::Imported;
            for node in nodes {
                let told = outcome_of_transfer(transfer(self.replaces).copy_bucket(node).await?);
                if told != DeliveryOutcome::Imported {
                    all = told;
                }
            }
            return Ok(all);
        }
        if is_there && !self.replaces {
            let told = outcome_of_transfer(transfer(false).copy_bucket(session).await?);
            if told == DeliveryOutcome::AlreadyThere {
                for node in nodes {
                    transfer(false).copy_bucket(node).await?;
                }
            }
            return Ok(told);
        }
        let before = if is_there { read_node_buckets(&**target, session).await? } else { BTreeSet::new() };
        for node in nodes {
            // A node without its session is left from an interrupted import.
            transfer(true).copy_bucket(node).await?;
        }
        let told = outcome_of_transfer(transfer(self.replaces).copy_bucket(session).await?);
        if told == DeliveryOutcome::Imported {
            let mut writer = Writer::new();
            for node in before.into_iter().filter(|node| !nodes.contains(node)) {
                let request = DeleteRequest { bucket: node, generation: None, max_keys: 0 };
                target.delete(writer.advance(), &request, Deadline::NEVER).await?;
            }
        }
        Ok(told)
    }
}

fn outcome_of_transfer(transferred: Transferred) -> DeliveryOutcome {
    match transferred {
        Transferred::Copied { .. } => DeliveryOutcome::Imported,
        Transferred::AlreadyThere { .. } => DeliveryOutcome::AlreadyThere,
        Transferred::Gone => DeliveryOutcome::Expired,
        // Only this process writes to the staging store: a difference after the copy was written to the target since.
        _ => DeliveryOutcome::Exists,
    }
}

pub async fn read_node_buckets(store: &dyn TransferStore, session: &BucketId) -> Result<BTreeSet<BucketId>, Failure> {
    let maps = store.head(session).await?.map(|head| head.maps).unwrap_or_default();
    let keys = maps.into_iter().filter(|(map, _)| map == NODES.as_bytes()).flat_map(|(_, keys)| keys);
    let node = |name| Some(BucketId::node(String::from_utf8(name).ok()?));
    Ok(keys.filter_map(node).collect())
}
