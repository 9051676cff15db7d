//! Calls of the store that a component makes, within its budgets, its scope and its call's deadline.
//!
//! The stores' own types cross the boundary. The component sees the store's failures; a request that is over a budget
//! ends it.

use super::{
    super::{instance_state::InstanceState, limits::call_deadline::CallDeadline},
    admission::{
        DeletionAdmission, TransactionAdmission, absent, admit_deletion, admit_transaction, deny_access,
        finish_receipt, look_for_owner, no_deletion,
    },
    payload_size::PayloadSize,
    read_limits::limit_reads,
};
use crate::store::{
    BucketPage, DeleteRequest, Deletion, Failure, FailureCode, IndexedReceipt, IndexedTransaction, Status, Store,
    StoreGuard, Writer,
    guard::{self, Call, Missed},
};

/// The most names on one page.
const MAX_PAGE: u32 = 10_000;

/// The outer error ends the instance.
type StoreAnswer<T> = wasmtime::Result<Result<T, Failure>>;

/// Lets the store apply a transaction of so many pieces.
pub(super) async fn transact(
    state: &mut InstanceState,
    mut transaction: IndexedTransaction,
    pieces: u64,
) -> StoreAnswer<IndexedReceipt> {
    state.begin_store_calls(1, pieces)?;
    let condition = match admit_transaction(state, &mut transaction) {
        Ok(TransactionAdmission::Admitted { condition }) => condition,
        Ok(TransactionAdmission::Absent) => return Ok(Ok(absent())),
        Err(denied) => return Ok(Err(denied)),
    };
    limit_reads(std::slice::from_mut(&mut transaction), || state.max_read())?;
    let (deadline, writer) = (state.due.deadline, state.writer.advance());
    let answer = call_store(&state.store, &mut state.due, |store| store.transact(writer, &transaction, deadline)).await;
    let answer = to_import_result(state, answer).and_then(|answer| answer);
    Ok(answer.map(|receipt| finish_receipt(state, &transaction, condition, receipt)))
}

/// Lets the store apply transactions of so many pieces, each on a bucket of its own.
pub(super) async fn transact_each(
    state: &mut InstanceState,
    mut transactions: Vec<IndexedTransaction>,
    pieces: u64,
) -> wasmtime::Result<Vec<Result<IndexedReceipt, Failure>>> {
    state.begin_store_calls(transactions.len(), pieces)?;
    let count = transactions.len();
    let admissions: Result<Vec<_>, _> =
        transactions.iter_mut().map(|transaction| admit_transaction(state, transaction)).collect();
    let admissions = match admissions {
        Ok(admissions) => admissions,
        // A call that asks for a bucket beyond its scope is denied as a whole.
        Err(denied) => return Ok(vec![Err(denied); count]),
    };
    let mut is_sent = admissions.iter().map(|admission| matches!(admission, TransactionAdmission::Admitted { .. }));
    transactions.retain(|_| is_sent.next().unwrap_or(false));
    limit_reads(&mut transactions, || state.max_read())?;
    let sent = if transactions.is_empty() && count > 0 {
        Vec::new()
    } else {
        let (deadline, writer) = (state.due.deadline, state.writer.advance());
        let answer =
            call_store(&state.store, &mut state.due, |store| store.transact_each(writer, &transactions, deadline))
                .await;
        each_of(to_import_result(state, answer), transactions.len())
    };
    let mut sent = transactions.iter().zip(sent);
    let answers = admissions.into_iter().map(|admission| match admission {
        TransactionAdmission::Absent => Ok(absent()),
        TransactionAdmission::Admitted { condition } => match sent.next() {
            Some((transaction, answer)) => answer.map(|receipt| finish_receipt(state, transaction, condition, receipt)),
            None => Ok(absent()),
        },
    });
    Ok(answers.collect())
}

/// Lets the store delete buckets. Where a bucket has to name its owner for that, all of those are asked first, in one wait.
pub(super) async fn delete_each(
    state: &mut InstanceState,
    mut requests: Vec<DeleteRequest>,
) -> wasmtime::Result<Vec<Result<Deletion, Failure>>> {
    let count = requests.len();
    state.begin_store_calls(count, count as u64)?;
    state.max_read()?;
    let admissions: Result<Vec<_>, _> = requests.iter().map(|request| admit_deletion(state, &request.bucket)).collect();
    let admissions = match admissions {
        Ok(admissions) => admissions,
        Err(denied) => return Ok(vec![Err(denied); count]),
    };
    let looks = requests.iter().zip(&admissions).filter_map(|(request, admission)| match admission {
        DeletionAdmission::IfOwned(owner) => Some(look_for_owner(&request.bucket, owner)),
        DeletionAdmission::Admitted => None,
    });
    let looks: Vec<IndexedTransaction> = looks.collect();
    let mut owned = Vec::new().into_iter();
    if !looks.is_empty() {
        let (deadline, writer) = (state.due.deadline, state.writer.advance());
        let answer =
            call_store(&state.store, &mut state.due, |store| store.transact_each(writer, &looks, deadline)).await;
        owned = each_of(to_import_result(state, answer), looks.len()).into_iter();
    }
    // What is not sent, and why.
    let mut withheld: Vec<Option<Result<Deletion, Failure>>> = Vec::with_capacity(count);
    for admission in admissions {
        withheld.push(match admission {
            DeletionAdmission::Admitted => None,
            DeletionAdmission::IfOwned(_) => match owned.next() {
                Some(Ok(receipt)) if receipt.receipt.status == Status::Unmet => Some(Ok(no_deletion())),
                Some(Err(failure)) => Some(Err(failure)),
                _ => None,
            },
        });
    }
    let mut is_sent = withheld.iter().map(Option::is_none);
    requests.retain(|_| is_sent.next().unwrap_or(false));
    requests.iter_mut().for_each(|request| request.max_keys = request.max_keys.min(MAX_PAGE));
    let mut sent = Vec::new().into_iter();
    if !requests.is_empty() {
        let (deadline, writer) = (state.due.deadline, state.writer.advance());
        let answer =
            call_store(&state.store, &mut state.due, |store| store.delete_each(writer, &requests, deadline)).await;
        sent = each_of(to_import_result(state, answer), requests.len()).into_iter();
    }
    let answers =
        withheld.into_iter().map(|withheld| withheld.or_else(|| sent.next()).unwrap_or_else(|| Ok(no_deletion())));
    Ok(answers.collect())
}

/// Lets the store name buckets.
pub(super) async fn list_buckets(
    state: &mut InstanceState,
    kind: &str,
    cursor: &str,
    limit: u32,
) -> StoreAnswer<BucketPage> {
    state.begin_store_calls(1, 1)?;
    state.max_read()?;
    if !state.scope.may_list_buckets(kind) {
        let asked = format!("for the names of all buckets of the kind {kind}");
        return Ok(Err(deny_access(state, &asked)));
    }
    let (deadline, limit) = (state.due.deadline, limit.min(MAX_PAGE));
    let answer =
        call_store(&state.store, &mut state.due, |store| store.list_buckets(kind, cursor, limit, deadline)).await;
    Ok(to_import_result(state, answer).and_then(|answer| answer))
}

/// An answer to each of so many requests.
fn each_of<T: Clone>(answer: Result<Vec<Result<T, Failure>>, Failure>, count: usize) -> Vec<Result<T, Failure>> {
    match answer {
        Ok(answers) if answers.len() == count => answers,
        Ok(_) => {
            let message = "the store did not answer each of the requests";
            vec![Err(Failure::new(FailureCode::Other, "", message)); count]
        }
        Err(failure) => vec![Err(failure); count],
    }
}

/// The result of a store call as the instance gets it.
fn to_import_result<T: PayloadSize>(
    state: &mut InstanceState,
    answer: Result<T, StoreCallError>,
) -> Result<T, Failure> {
    let failure = match answer {
        Ok(answer) => {
            state.record_read_bytes(answer.payload_bytes());
            return Ok(answer);
        }
        Err(StoreCallError::TooLate) => {
            let message = "this entry ran out of time (entry_timeout), so the store was not asked";
            Failure::new(FailureCode::TimedOut, "", message)
        }
        Err(StoreCallError::Missed(missed)) => missed.to_failure(),
    };
    // What it sent last may still be on its way.
    state.writer = Writer::new();
    Err(failure)
}

/// Why there is no answer of the store.
enum StoreCallError {
    /// The deadline was over already.
    TooLate,
    Missed(Missed),
}

/// The store's answer, if it comes by the deadline: whatever the store does, its caller goes on.
async fn call_store<'a, T: guard::Answer>(
    store: &'a StoreGuard,
    due: &mut CallDeadline,
    call: impl FnOnce(&'a dyn Store) -> Call<'a, T>,
) -> Result<T, StoreCallError> {
    if due.is_over() {
        return Err(StoreCallError::TooLate);
    }
    let answer = store.call(due.deadline, call).await;
    due.mark_waited();
    answer.map_err(StoreCallError::Missed)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        runtime::{CallScope, EntryOwner, HostServices},
        sandbox::Sandbox,
        store::{BucketId, Deadline, NewBucket, Precondition, Transaction, kind},
    };

    #[tokio::test]
    async fn a_batch_takes_one_writer_number_and_one_budget_call_per_transaction() {
        let services = HostServices::for_tests();
        let sandbox = Sandbox { store_calls_per_entry: 5, ..Sandbox::default() };
        let mut state = InstanceState::new(services, &sandbox, Arc::default());
        let owner = Arc::new(EntryOwner { session: Some("a".into()), user: Some("a".into()), ..EntryOwner::default() });
        let scope = || CallScope::Entry(owner.clone());
        state.begin_call(Writer::new(), CallDeadline::by(Deadline::NEVER), scope());
        let create = |kind: &str| {
            IndexedTransaction::from(Transaction {
                bucket: BucketId::new(kind, "a"),
                precondition: Precondition::Create(NewBucket { time_to_live: None }),
                expectations: vec![],
                operations: vec![],
            })
        };
        let applied = |answers: Vec<Result<IndexedReceipt, Failure>>| -> Vec<bool> {
            answers.into_iter().map(|answer| answer.is_ok_and(|one| one.receipt.status == Status::Applied)).collect()
        };
        let attempts = transact_each(&mut state, vec![create(kind::USER), create(kind::SESSION)], 0).await.unwrap();
        assert_eq!(applied(attempts), [true, true]);
        assert_eq!(state.writer.sequence(), 1);
        // The same bucket twice.
        let attempts = transact_each(&mut state, vec![create(kind::USER), create(kind::USER)], 0).await.unwrap();
        assert_eq!(applied(attempts), [false, false]);
        assert!(transact_each(&mut state, vec![create(kind::USER), create(kind::SESSION)], 0).await.is_err());
        assert!(transact(&mut state, create(kind::USER), 0).await.is_err());

        state.begin_call(Writer::new(), CallDeadline::by(Deadline::after(Duration::ZERO)), scope());
        let attempts = transact_each(&mut state, vec![create(kind::USER), create(kind::SESSION)], 0).await.unwrap();
        let codes: Vec<_> = attempts.into_iter().map(|answer| answer.unwrap_err().code).collect();
        assert_eq!(codes, [FailureCode::TimedOut; 2]);
    }
}
