//! Decides which transactions and deletions of a component are sent to the store, and what is added to them.
//!
//! A bucket beyond the call's scope is denied, or as if it were not there. Where a bucket has to name its owner, the host
//! adds that as an expectation of its own.

use super::super::{
    instance_state::InstanceState,
    scope::{BucketAccess, asks_for_owner},
};
use crate::{
    contract::storage_names::{NODES_MAP, OWNER_KEY, SESSION_MAP, SESSIONS_MAP},
    store::{
        BucketId, Deletion, EntryState, ExistingBucket, Expectation, ExpectedEntry, Failure, FailureCode,
        IndexedReceipt, IndexedTransaction, Precondition, Receipt, Status, Transaction,
    },
};

/// Whether a component's transaction is sent.
pub(super) enum TransactionAdmission {
    /// It is sent. `condition`: which of its expectations is the host's.
    Admitted { condition: Option<u32> },
    /// Its bucket is as if it were not there.
    Absent,
}

/// Whether a bucket is deleted.
pub(super) enum DeletionAdmission {
    Admitted,
    /// If it names this owner; otherwise the component finds it absent.
    IfOwned((EntryState, String)),
}

/// Whether the current call may make this transaction. It is restricted to what the call may do.
pub(super) fn admit_transaction(
    state: &InstanceState,
    transaction: &mut IndexedTransaction,
) -> Result<TransactionAdmission, Failure> {
    let has_writes = transaction.has_writes();
    let adds_to_lists = state.scope.keeps_lists() && transaction.set_entries().any(|(map, _)| is_list(map));
    let IndexedTransaction { lease, transaction, steps } = transaction;
    let Transaction { bucket, precondition, expectations, operations } = transaction;
    if state.scope.is_withheld(bucket) && matches!(precondition, Precondition::Existing(_)) {
        return Ok(TransactionAdmission::Absent);
    }
    let only_operates = lease.is_none() && steps.is_empty();
    let asks_for_owner = only_operates && !operations.is_empty() && operations.iter().all(asks_for_owner);
    let BucketAccess { reads_only, owner } = check_access(state, bucket, asks_for_owner)?;
    if reads_only {
        match precondition {
            // Reading does not count as a use.
            Precondition::Existing(life) if !has_writes => life.renew = false,
            _ => return Err(deny_access(state, &format!("to change the {}", describe_bucket(bucket)))),
        }
    }
    if adds_to_lists {
        return Err(deny_access(state, &format!("to add to the lists of the {}", describe_bucket(bucket))));
    }
    let condition = owner.map(|owner| {
        expectations.push(expected_owner(owner));
        u32::try_from(expectations.len() - 1).unwrap_or(u32::MAX)
    });
    Ok(TransactionAdmission::Admitted { condition })
}

/// Whether the current call may delete a bucket.
pub(super) fn admit_deletion(state: &InstanceState, bucket: &BucketId) -> Result<DeletionAdmission, Failure> {
    let BucketAccess { reads_only, owner } = check_access(state, bucket, false)?;
    if reads_only {
        return Err(deny_access(state, &format!("to delete the {}", describe_bucket(bucket))));
    }
    let owner = owner.filter(|_| !state.scope.is_user_bucket(bucket));
    Ok(owner.map_or(DeletionAdmission::Admitted, DeletionAdmission::IfOwned))
}

/// Asks a bucket whether it names this owner.
pub(super) fn look_for_owner(bucket: &BucketId, owner: &(EntryState, String)) -> IndexedTransaction {
    let transaction = Transaction {
        bucket: bucket.clone(),
        precondition: Precondition::Existing(ExistingBucket { generation: None, renew: false }),
        expectations: vec![expected_owner(owner.clone())],
        operations: Vec::new(),
    };
    transaction.into()
}

/// How the call at hand may use a bucket.
fn check_access(state: &InstanceState, bucket: &BucketId, asks_for_owner: bool) -> Result<BucketAccess, Failure> {
    let access = state.scope.access_to(bucket, asks_for_owner);
    access.ok_or_else(|| deny_access(state, &format!("for the {}", describe_bucket(bucket))))
}

pub(super) fn deny_access(state: &InstanceState, asked: &str) -> Failure {
    state.report_denied(asked);
    denied_failure()
}

/// The receipt as the component gets it. `condition`: the index of the expectation that the host has added.
pub(super) fn finish_receipt(
    state: &InstanceState,
    transaction: &IndexedTransaction,
    condition: Option<u32>,
    answer: IndexedReceipt,
) -> IndexedReceipt {
    let receipt = &answer.receipt;
    match receipt.status {
        Status::Unmet if condition.is_some() && receipt.unmet == condition => return absent(),
        Status::Applied | Status::Repeated => {
            state.scope.observe_receipt(&transaction.transaction, receipt, condition.is_some());
        }
        _ => {}
    }
    answer
}

fn expected_owner((state, owner): (EntryState, String)) -> Expectation {
    Expectation::Entry(ExpectedEntry {
        map_name: SESSION_MAP.to_owned(),
        key: OWNER_KEY.to_owned(),
        state,
        text: owner,
    })
}

fn describe_bucket(bucket: &BucketId) -> String {
    format!("{} '{}'", bucket.kind, bucket.name)
}

/// Whether a map's entries name sessions or nodes: to set one may be to add to them.
fn is_list(map: &str) -> bool {
    map == SESSIONS_MAP || map == NODES_MAP
}

/// Of a bucket that is not there.
pub(super) fn absent() -> IndexedReceipt {
    let (status, outcomes) = (Status::Absent, Vec::new());
    Receipt { status, now: 0, generation: None, created: false, unmet: None, outcomes }.into()
}

/// The same of its deletion.
pub(super) fn no_deletion() -> Deletion {
    Deletion { status: Status::Absent, now: 0, values: 0, keys: Vec::new() }
}

fn denied_failure() -> Failure {
    let message = "a call reaches only the session, user and node that it is made for, so the store was not asked";
    Failure::new(FailureCode::Denied, "", message)
}
