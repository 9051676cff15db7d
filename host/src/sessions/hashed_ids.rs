//! Looks up the ids of sessions whose names are hashes, in the store, without the plugin.
//!
//! Promises an id that leads to the session's name again, or else the name itself.

use std::collections::{BTreeSet, HashMap};

use keepline_options::bucket_names::{ID_MAX, hashed, is_hash};
use tokio::time::Instant;

use super::{SessionError, Sessions};
use crate::{
    contract::storage_names::SESSION_ID_ENTRY,
    store::{
        BucketId, ExistingBucket, GetOperation, IndexedTransaction, Operation, Outcome, Precondition, Receipt,
        Transaction, Writer, guard::Missed,
    },
};

/// Buckets that are looked at in one wait.
const LOOKUP_BATCH_SIZE: usize = 64;

#[allow(clippy::multiple_inherent_impl, reason = "methods of the same room's type, by what they are for")]
impl Sessions {
    /// Replaces names that are hashes by the ids that they are hashes of.
    pub(crate) async fn replace_hashes_by_ids(&self, names: &mut [String]) -> Result<(), SessionError> {
        // An id may be another session's name.
        let hashes: BTreeSet<String> = names.iter().filter(|name| is_hash(name)).cloned().collect();
        let hashes: Vec<String> = hashes.into_iter().collect();
        let mut ids = HashMap::new();
        for chunk in hashes.chunks(LOOKUP_BATCH_SIZE) {
            let transactions: Vec<IndexedTransaction> =
                chunk.iter().map(|name| build_entry_read(name, SESSION_ID_ENTRY, ID_MAX + 64)).collect();
            let deadline = self.inner.call_deadline(Instant::now(), self.deadline).deadline;
            let mut writer = Writer::new();
            let writer = writer.advance();
            let asked = self.store.call(deadline, |store| store.transact_each(writer, &transactions, deadline)).await;
            for (name, receipt) in chunk.iter().zip(asked.map_err(Missed::to_failure)?) {
                let id = kept_id(receipt?.receipt, name);
                ids.extend(id.map(|id| (name.as_str(), id)));
            }
        }
        for name in names {
            if let Some(id) = ids.get(name.as_str()) {
                name.clone_from(id);
            }
        }
        Ok(())
    }
}

/// One entry of a session's bucket. To look is no use of it.
pub(super) fn build_entry_read(name: &str, (map, key): (&str, &str), max_bytes: usize) -> IndexedTransaction {
    let transaction = Transaction {
        bucket: BucketId::session(name),
        precondition: Precondition::Existing(ExistingBucket { generation: None, renew: false }),
        expectations: Vec::new(),
        operations: vec![Operation::Get(GetOperation {
            map_name: map.to_owned(),
            keys: vec![key.to_owned()],
            max_bytes: max_bytes as u64,
        })],
    };
    transaction.into()
}

/// The text of the entry that was read, if there is one.
pub(super) fn extract_entry_text(receipt: Receipt) -> Option<String> {
    let Some(Outcome::Entries(found)) = receipt.outcomes.into_iter().next() else { return None };
    found.entries.into_iter().next().map(|entry| entry.text)
}

fn kept_id(receipt: Receipt, name: &str) -> Option<String> {
    let id = extract_entry_text(receipt)?;
    (hashed(&id) == name).then_some(id)
}
