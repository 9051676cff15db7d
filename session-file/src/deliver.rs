//! Copies staged sessions to the target, each whole or not at all.
//!
//! A session and its nodes appear together: its nodes come first, and are found only once their session names them.
//! Leftovers of an interrupted import are replaced by the next. Existing sessions are not overwritten unless that is asked
//! for, and those of other users never, where the owner is named: what takes their place is put only where the one whose
//! owner was looked at still is.

use std::{collections::BTreeSet, sync::Arc};

use keepline::store::{
    BucketId, Deadline, DeleteRequest, Failure, Transfer, TransferStore, Transferred, Writer,
    transfer::{KeyedPart, WeighedBucket},
};

use crate::{
    schema::{NODES, ONCE, OWNER_KEY},
    staging::StagingStore,
};

/// A complete session in the staging store.
#[derive(Clone, Debug)]
pub struct StagedSession {
    /// Its bucket.
    pub session: BucketId,
    /// Those of its nodes.
    pub nodes: Vec<BucketId>,
    /// Whether it has nodes only, which may be added to an existing session.
    pub is_shell: bool,
}

/// What became of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// It is new.
    Imported,
    /// It has taken the place of another one.
    Replaced,
    /// An identical session exists.
    AlreadyThere,
    /// A different session of that name exists and was left alone.
    Exists,
    /// A session of that name exists and belongs to another user, or to nobody.
    Foreign,
    /// The session of that name changed while it was to be replaced.
    Changed,
    /// Its time is over.
    Expired,
}

/// Copies sessions to a target.
#[derive(Debug)]
pub struct SessionDelivery {
    /// `None`: the directory does not exist, and a dry run does not create it.
    pub target: Option<Arc<dyn TransferStore>>,
    /// Where sessions wait for the rest of them.
    pub staging: StagingStore,
    /// Whether existing sessions are replaced.
    pub replaces: bool,
    /// Whether nothing is written to the target.
    pub is_dry_run: bool,
    /// The name of the bucket of the only user whose sessions may be replaced: any other one counts as foreign. None: anybody's
    /// may.
    pub owner: Option<String>,
}

impl SessionDelivery {
    /// Whether the target has a session of this name.
    ///
    /// # Errors
    /// When the target fails.
    pub async fn session_exists(&self, session: &BucketId) -> Result<bool, Failure> {
        match &self.target {
            Some(target) => Ok(target.head(session).await?.is_some()),
            None => Ok(false),
        }
    }

    /// Removes a session from the staging store.
    ///
    /// # Errors
    /// When that fails.
    pub async fn discard_staged(&self, staged: &StagedSession) -> Result<(), Failure> {
        for bucket in staged.nodes.iter().chain([&staged.session]) {
            self.staging.remove_bucket(bucket).await?;
        }
        Ok(())
    }

    /// Digests of all that is staged.
    ///
    /// # Errors
    /// When the staging store fails.
    pub async fn staged_digests(&self, staged: &StagedSession) -> Result<Vec<String>, Failure> {
        let mut digests = Vec::new();
        for bucket in [&staged.session].into_iter().chain(&staged.nodes) {
            if let WeighedBucket::There(weight) = self.staging.store().weigh(bucket).await? {
                digests.push(weight.digest);
            }
        }
        Ok(digests)
    }

    /// Copies a session from a store, which is only read; in a dry run, tells what would come of that.
    ///
    /// # Errors
    /// When one of the stores fails.
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

    /// What would become of a session.
    ///
    /// # Errors
    /// When one of the stores fails.
    pub async fn predict_outcome(
        &self,
        from: &Arc<dyn TransferStore>,
        staged: &StagedSession,
    ) -> Result<DeliveryOutcome, Failure> {
        let WeighedBucket::There(weight) = from.weigh(&staged.session).await? else {
            return Ok(DeliveryOutcome::Expired);
        };
        let Some(target) = &self.target else { return Ok(DeliveryOutcome::Imported) };
        let WeighedBucket::There(there) = target.weigh(&staged.session).await? else {
            return Ok(DeliveryOutcome::Imported);
        };
        if !self.may_replace(&**target, &staged.session).await? {
            return Ok(DeliveryOutcome::Foreign);
        }
        let is_same = there.digest == weight.digest && !differs_in_a_node(&**from, &**target, &staged.nodes).await?;
        Ok(match () {
            () if is_same => DeliveryOutcome::AlreadyThere,
            () if staged.is_shell => DeliveryOutcome::Imported,
            () if self.replaces => DeliveryOutcome::Replaced,
            () => DeliveryOutcome::Exists,
        })
    }

    /// Whether a session that is there belongs to the one whose sessions may be replaced.
    async fn may_replace(&self, target: &dyn TransferStore, session: &BucketId) -> Result<bool, Failure> {
        let Some(owner) = &self.owner else { return Ok(true) };
        let (map, key) = (KeyedPart::Map(ONCE.as_bytes()), OWNER_KEY.as_bytes().to_vec());
        let found = target.entries(session, map, &[key]).await?;
        Ok(found.first().and_then(Option::as_deref) == Some(owner.as_bytes()))
    }

    async fn copy_to_target(
        &self,
        from: &Arc<dyn TransferStore>,
        target: &Arc<dyn TransferStore>,
        staged: &StagedSession,
    ) -> Result<DeliveryOutcome, Failure> {
        let StagedSession { session, nodes, is_shell } = staged;
        // Weighed before its owner is read: what takes its place is put only if it still comes to this.
        let there = match target.weigh(session).await? {
            WeighedBucket::There(weight) => Some(weight),
            WeighedBucket::Absent { .. } => None,
        };
        if there.is_some() && !self.may_replace(&**target, session).await? {
            return Ok(DeliveryOutcome::Foreign);
        }
        let transfer = |overwrite| Transfer { from: from.clone(), to: target.clone(), overwrite };
        if there.is_some() && *is_shell {
            let mut all = DeliveryOutcome::Imported;
            for node in nodes {
                let told = outcome_of_transfer(transfer(self.replaces).copy_bucket(node).await?);
                if told != DeliveryOutcome::Imported {
                    all = told;
                }
            }
            return Ok(all);
        }
        if there.is_some() && !self.replaces {
            let mut told = outcome_of_transfer(transfer(false).copy_bucket(session).await?);
            if told == DeliveryOutcome::AlreadyThere {
                for node in nodes {
                    if outcome_of_transfer(transfer(false).copy_bucket(node).await?) == DeliveryOutcome::Exists {
                        told = DeliveryOutcome::Exists;
                    }
                }
            }
            return Ok(told);
        }
        let before = if there.is_some() { read_node_buckets(&**target, session).await? } else { BTreeSet::new() };
        let mut is_node_new = false;
        for node in nodes {
            // A node without its session is left from an interrupted import.
            is_node_new |= matches!(transfer(true).copy_bucket(node).await?, Transferred::Copied { .. });
        }
        let transferred = match (&there, &self.owner) {
            (Some(weight), Some(_)) => match from.weigh(session).await? {
                WeighedBucket::There(own) if own == *weight => Transferred::AlreadyThere { expires_at: own.expires_at },
                _ => transfer(true).replace_seen(session, weight).await?,
            },
            _ => transfer(self.replaces && self.owner.is_none()).copy_bucket(session).await?,
        };
        let told = match outcome_of_transfer(transferred) {
            DeliveryOutcome::Imported if there.is_some() => DeliveryOutcome::Replaced,
            DeliveryOutcome::Exists if self.owner.is_some() => DeliveryOutcome::Changed,
            told => told,
        };
        if told == DeliveryOutcome::Replaced {
            let gone = before.iter().filter(|node| !nodes.contains(node));
            remove_buckets(&**target, gone).await?;
        }
        if told == DeliveryOutcome::AlreadyThere && is_node_new {
            return Ok(DeliveryOutcome::Replaced);
        }
        let is_well =
            matches!(told, DeliveryOutcome::Imported | DeliveryOutcome::Replaced | DeliveryOutcome::AlreadyThere);
        if !is_well && (there.is_none() || !self.may_replace(&**target, session).await?) {
            // Nobody may find them in a session that somebody else has begun meanwhile.
            for node in nodes {
                withdraw_copy(&**from, &**target, node).await?;
            }
        }
        Ok(told)
    }
}

/// Whether a node that is there has other contents. One that is missing is only added.
async fn differs_in_a_node(
    from: &dyn TransferStore,
    target: &dyn TransferStore,
    nodes: &[BucketId],
) -> Result<bool, Failure> {
    for node in nodes {
        if let (WeighedBucket::There(own), WeighedBucket::There(there)) =
            (from.weigh(node).await?, target.weigh(node).await?)
            && own.digest != there.digest
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes a bucket from the target, if it still is what was copied there.
async fn withdraw_copy(from: &dyn TransferStore, target: &dyn TransferStore, bucket: &BucketId) -> Result<(), Failure> {
    if let (WeighedBucket::There(own), WeighedBucket::There(there)) =
        (from.weigh(bucket).await?, target.weigh(bucket).await?)
        && own.digest == there.digest
    {
        target.remove_if(bucket, &there).await?;
    }
    Ok(())
}

async fn remove_buckets(store: &dyn TransferStore, buckets: impl Iterator<Item = &BucketId>) -> Result<(), Failure> {
    let mut writer = Writer::new();
    for bucket in buckets {
        let request = DeleteRequest { bucket: bucket.clone(), generation: None, max_keys: 0 };
        store.delete(writer.advance(), &request, Deadline::NEVER).await?;
    }
    Ok(())
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

/// The buckets of the nodes that a session names.
///
/// # Errors
/// When the store fails.
pub async fn read_node_buckets(store: &dyn TransferStore, session: &BucketId) -> Result<BTreeSet<BucketId>, Failure> {
    let maps = store.head(session).await?.map(|head| head.maps).unwrap_or_default();
    let keys = maps.into_iter().filter(|(map, _)| map == NODES.as_bytes()).flat_map(|(_, keys)| keys);
    let node = |name| Some(BucketId::node(String::from_utf8(name).ok()?));
    Ok(keys.filter_map(node).collect())
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use keepline::store::{
        AppendOperation, DirectoryOptions, DirectoryStore, Entry, NewBucket, Operation, Precondition, SetOperation,
        Store, Transaction, kind,
    };
    use keepline_stores_tests::intercept::{Intercept, Intercepted};
    use tempfile::TempDir;

    use super::*;

    fn directory() -> (TempDir, Arc<DirectoryStore>) {
        let folder = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap();
        (folder, Arc::new(store))
    }

    /// Begins a bucket with an owner and a record.
    async fn begin(store: &dyn Store, bucket: &BucketId, owner: &str) {
        let put = vec![Entry { key: OWNER_KEY.to_owned(), text: owner.to_owned() }];
        let once = SetOperation { map_name: ONCE.to_owned(), reset: false, remove: Vec::new(), put };
        let records = vec![format!("{{\"of\":\"{owner}\"}}")];
        let log = AppendOperation { log: "transcript".to_owned(), reset: false, records, marks: Vec::new() };
        let transaction = Transaction {
            bucket: bucket.clone(),
            precondition: Precondition::CreateNew(NewBucket { time_to_live: None }),
            expectations: Vec::new(),
            operations: vec![Operation::Set(once), Operation::Append(log)],
        };
        store.transact(Writer::new().advance(), &transaction.into(), Deadline::NEVER).await.unwrap();
    }

    /// Begins the session anew in the target as another user's, while it is copied there.
    #[derive(Debug)]
    struct Overtaken {
        target: Arc<DirectoryStore>,
    }

    #[async_trait]
    impl Intercept for Overtaken {
        async fn after_records(&self, _: &dyn Store, bucket: &BucketId) {
            if bucket.kind == kind::SESSION && owner_of(&*self.target, bucket).await.as_deref() != Some("bob") {
                remove_buckets(&*self.target, [bucket].into_iter()).await.unwrap();
                begin(&*self.target, bucket, "bob").await;
            }
        }
    }

    async fn owner_of(store: &dyn TransferStore, session: &BucketId) -> Option<String> {
        let (map, key) = (KeyedPart::Map(ONCE.as_bytes()), OWNER_KEY.as_bytes().to_vec());
        store.head(session).await.unwrap()?;
        let found = store.entries(session, map, &[key]).await.unwrap().pop()??;
        Some(String::from_utf8(found).unwrap())
    }

    #[tokio::test]
    async fn a_session_that_becomes_another_users_while_it_is_replaced_or_begun_stays_as_it_is() {
        for is_there in [true, false] {
            let (_folder, target) = directory();
            let (session, node) = (BucketId::session("s"), BucketId::node("n"));
            let staging = StagingStore::new(&[]).unwrap();
            if is_there {
                begin(&*target, &session, "anna").await;
            }
            for bucket in [&session, &node] {
                begin(&**staging.store(), bucket, "anna").await;
            }
            let staged = StagedSession { session: session.clone(), nodes: vec![node.clone()], is_shell: false };
            let from: Arc<dyn TransferStore> =
                Arc::new(Intercepted::with_transfers(staging.store().clone(), Overtaken { target: target.clone() }));
            let owner = Some("anna".to_owned());
            let delivery =
                SessionDelivery { target: Some(target.clone()), staging, replaces: true, is_dry_run: false, owner };
            assert_eq!(delivery.deliver_from(&from, &staged).await.unwrap(), DeliveryOutcome::Changed);
            assert_eq!(owner_of(&*target, &session).await.as_deref(), Some("bob"));
            // What was copied for a session that did not come is gone.
            assert!(target.head(&node).await.unwrap().is_none());
            assert_eq!(delivery.deliver_from(&from, &staged).await.unwrap(), DeliveryOutcome::Foreign);
            assert_eq!(delivery.predict_outcome(&from, &staged).await.unwrap(), DeliveryOutcome::Foreign);
        }
    }
}
