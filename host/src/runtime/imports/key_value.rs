//! The import `key-value`: gives a component the store, within its budgets, its scope and its call's deadline.
//!
//! The stores' own types cross the boundary. The component sees the store's failures; a request that is over a budget
//! ends it.

use wasmtime::{bail, component::Linker};

use super::{
    super::{
        instance_state::InstanceState,
        limits::call_deadline::CallDeadline,
        scope::{BucketAccess, asks_for_owner},
    },
    enter_briefly, enter_host_call,
    payload_size::PayloadSize,
};
use crate::{
    contract::storage_names::{NODES_MAP, OWNER_KEY, SESSION_MAP, SESSIONS_MAP},
    store::{
        Attempt, BucketId, BucketKind, BucketPage, Deletion, EntryState, ExistingBucket, Expectation, ExpectedEntry,
        Failure, FailureCode, Operation, Precondition, Receipt, Status, Store, StoreCapabilities, StoreGuard,
        Transaction, Writer,
        guard::{self, Call, Missed},
        limits::{MAX_RANGES, RequestSize},
    },
};

/// The most names on one page.
const MAX_PAGE: u32 = 10_000;
/// What a call of the import is answered with.
type ImportResult<T> = wasmtime::Result<(Result<T, Failure>,)>;

pub(super) fn add_to_linker(linker: &mut Linker<InstanceState>) -> wasmtime::Result<()> {
    let mut store = linker.instance("keepline:memory/key-value@0.3.0")?;
    store.func_wrap_async("transact", |mut context, (transaction,): (Transaction,)| {
        Box::new(async move {
            let size = RequestSize::of_transactions([&transaction]);
            enter_host_call(&mut context, size.bytes).await?;
            transact(context.data_mut(), transaction, size.pieces).await
        })
    })?;
    store.func_wrap_async("transact-each", |mut context, (transactions,): (Vec<Transaction>,)| {
        Box::new(async move {
            let size = RequestSize::of_transactions(&transactions);
            enter_host_call(&mut context, size.bytes).await?;
            transact_each(context.data_mut(), transactions, size.pieces).await
        })
    })?;
    store.func_wrap_async("list-buckets", |mut context, (kind, cursor, limit): (BucketKind, String, u32)| {
        Box::new(async move {
            enter_host_call(&mut context, cursor.len() as u64).await?;
            list_buckets(context.data_mut(), kind, &cursor, limit).await
        })
    })?;
    store.func_wrap_async(
        "delete-bucket",
        |mut context, (bucket, generation, max_keys): (BucketId, Option<String>, u32)| {
            Box::new(async move {
                let bytes = bucket.name.len() + generation.as_ref().map_or(0, String::len);
                enter_host_call(&mut context, bytes as u64).await?;
                delete_bucket(context.data_mut(), &bucket, generation.as_deref(), max_keys).await
            })
        },
    )?;
    store.func_wrap("capabilities", |mut context, ()| -> wasmtime::Result<(StoreCapabilities,)> {
        enter_briefly(&mut context)?;
        Ok((context.data().store.store().capabilities(),))
    })
}

async fn transact(state: &mut InstanceState, mut transaction: Transaction, pieces: u64) -> ImportResult<Receipt> {
    state.begin_store_calls(1, pieces)?;
    let condition = match admit_transaction(state, &mut transaction) {
        Ok(TransactionAdmission::Admitted { condition }) => condition,
        Ok(TransactionAdmission::Absent) => return Ok((Ok(absent()),)),
        Err(denied) => return Ok((Err(denied),)),
    };
    limit_reads(std::slice::from_mut(&mut transaction), || state.max_read())?;
    let (deadline, writer) = (state.due.deadline, state.writer.advance());
    let answer = call_store(&state.store, &mut state.due, |store| store.transact(writer, &transaction, deadline)).await;
    let answer = to_import_result(state, answer).and_then(|answer| answer);
    Ok((answer.map(|receipt| finish_receipt(state, &transaction, condition, receipt)),))
}

async fn transact_each(
    state: &mut InstanceState,
    mut transactions: Vec<Transaction>,
    pieces: u64,
) -> wasmtime::Result<(Vec<Attempt>,)> {
    state.begin_store_calls(transactions.len(), pieces)?;
    let count = transactions.len();
    let admissions: Result<Vec<_>, _> =
        transactions.iter_mut().map(|transaction| admit_transaction(state, transaction)).collect();
    let admissions = match admissions {
        Ok(admissions) => admissions,
        // A call that asks for a bucket beyond its scope is denied as a whole.
        Err(denied) => return Ok((vec![Attempt::Failure(denied); count],)),
    };
    let mut is_sent = admissions.iter().map(|admission| matches!(admission, TransactionAdmission::Admitted { .. }));
    transactions.retain(|_| is_sent.next().unwrap_or(false));
    limit_reads(&mut transactions, || state.max_read())?;
    let answer = if transactions.is_empty() && count > 0 {
        Ok(Vec::new())
    } else {
        let (deadline, writer) = (state.due.deadline, state.writer.advance());
        let answer =
            call_store(&state.store, &mut state.due, |store| store.transact_each(writer, &transactions, deadline))
                .await;
        to_import_result(state, answer)
    };
    let sent = match answer {
        Ok(results) if results.len() == transactions.len() => results,
        Ok(_) => {
            let message = "the store did not answer each of the transactions";
            vec![Err(Failure::new(FailureCode::Other, "", message)); transactions.len()]
        }
        Err(failure) => vec![Err(failure); transactions.len()],
    };
    let mut sent = transactions.iter().zip(sent);
    let attempts = admissions.into_iter().map(|admission| match admission {
        TransactionAdmission::Absent => Attempt::Receipt(absent()),
        TransactionAdmission::Admitted { condition } => match sent.next() {
            Some((transaction, Ok(receipt))) => {
                Attempt::Receipt(finish_receipt(state, transaction, condition, receipt))
            }
            Some((_, Err(failure))) => Attempt::Failure(failure),
            None => Attempt::Receipt(absent()),
        },
    });
    Ok((attempts.collect(),))
}

async fn list_buckets(
    state: &mut InstanceState,
    kind: BucketKind,
    cursor: &str,
    limit: u32,
) -> ImportResult<BucketPage> {
    state.begin_store_calls(1, 1)?;
    state.max_read()?;
    if !state.scope.may_list_buckets(kind) {
        let asked = format!("for the names of all buckets of the kind {}", kind.name());
        return Ok((Err(deny_access(state, &asked)),));
    }
    let (deadline, limit) = (state.due.deadline, limit.min(MAX_PAGE));
    let answer =
        call_store(&state.store, &mut state.due, |store| store.list_buckets(kind, cursor, limit, deadline)).await;
    Ok((to_import_result(state, answer).and_then(|answer| answer),))
}

async fn delete_bucket(
    state: &mut InstanceState,
    bucket: &BucketId,
    generation: Option<&str>,
    max_keys: u32,
) -> ImportResult<Deletion> {
    state.begin_store_calls(1, 1)?;
    state.max_read()?;
    match admit_deletion(state, bucket).await {
        Ok(true) => {}
        Ok(false) => return Ok((Ok(no_deletion()),)),
        Err(failure) => return Ok((Err(failure),)),
    }
    let (deadline, writer, max_keys) = (state.due.deadline, state.writer.advance(), max_keys.min(MAX_PAGE));
    let answer = call_store(&state.store, &mut state.due, |store| {
        store.delete_bucket(writer, bucket, generation, max_keys, deadline)
    })
    .await;
    Ok((to_import_result(state, answer).and_then(|answer| answer),))
}

/// Whether the current call may make this transaction. It is restricted to what the call may do.
fn admit_transaction(state: &InstanceState, transaction: &mut Transaction) -> Result<TransactionAdmission, Failure> {
    let Transaction { bucket, precondition, expectations, operations } = transaction;
    if state.scope.is_withheld(bucket) && matches!(precondition, Precondition::Existing(_)) {
        return Ok(TransactionAdmission::Absent);
    }
    let asks_for_owner = !operations.is_empty() && operations.iter().all(asks_for_owner);
    let BucketAccess { reads_only, owner } = check_access(state, bucket, asks_for_owner)?;
    if reads_only {
        match precondition {
            // Reading does not count as a use.
            Precondition::Existing(life) if operations.iter().all(Operation::is_read) => life.renew = false,
            _ => return Err(deny_access(state, &format!("to change the {}", describe_bucket(bucket)))),
        }
    }
    if state.scope.keeps_lists() && operations.iter().any(adds_to_lists) {
        return Err(deny_access(state, &format!("to add to the lists of the {}", describe_bucket(bucket))));
    }
    let condition = owner.map(|owner| {
        expectations.push(expected_owner(owner));
        u32::try_from(expectations.len() - 1).unwrap_or(u32::MAX)
    });
    Ok(TransactionAdmission::Admitted { condition })
}

/// Whether a bucket may be deleted. False: the component finds it absent.
async fn admit_deletion(state: &mut InstanceState, bucket: &BucketId) -> Result<bool, Failure> {
    let BucketAccess { reads_only, owner } = check_access(state, bucket, false)?;
    if reads_only {
        return Err(deny_access(state, &format!("to delete the {}", describe_bucket(bucket))));
    }
    let Some(owner) = owner.filter(|_| !state.scope.is_user_bucket(bucket)) else { return Ok(true) };
    let transaction = Transaction {
        bucket: bucket.clone(),
        precondition: Precondition::Existing(ExistingBucket { generation: None, renew: false }),
        expectations: vec![expected_owner(owner)],
        operations: Vec::new(),
    };
    let (deadline, writer) = (state.due.deadline, state.writer.advance());
    let answer = call_store(&state.store, &mut state.due, |store| store.transact(writer, &transaction, deadline)).await;
    let receipt = to_import_result(state, answer).and_then(|answer| answer)?;
    Ok(receipt.status != Status::Unmet)
}

/// How the call at hand may use a bucket.
fn check_access(state: &InstanceState, bucket: &BucketId, asks_for_owner: bool) -> Result<BucketAccess, Failure> {
    let access = state.scope.access_to(bucket, asks_for_owner);
    access.ok_or_else(|| deny_access(state, &format!("for the {}", describe_bucket(bucket))))
}

fn deny_access(state: &InstanceState, asked: &str) -> Failure {
    state.report_denied(asked);
    denied_failure()
}

/// The receipt as the component gets it. `condition`: the index of the expectation that the host has added.
fn finish_receipt(
    state: &InstanceState,
    transaction: &Transaction,
    condition: Option<u32>,
    receipt: Receipt,
) -> Receipt {
    match receipt.status {
        Status::Unmet if condition.is_some() && receipt.unmet == condition => return absent(),
        Status::Applied | Status::Repeated => state.scope.observe_receipt(transaction, &receipt, condition.is_some()),
        _ => {}
    }
    receipt
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

/// Whether a component's transaction is sent.
enum TransactionAdmission {
    /// It is sent. `condition`: which of its expectations is the host's.
    Admitted { condition: Option<u32> },
    /// Its bucket is as if it were not there.
    Absent,
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
    format!("{} '{}'", bucket.kind.name(), bucket.name)
}

/// Whether an operation could name more sessions or nodes in a bucket's lists.
fn adds_to_lists(operation: &Operation) -> bool {
    let is_list = |map: &String| map == SESSIONS_MAP || map == NODES_MAP;
    match operation {
        Operation::Put(put) => is_list(&put.map_name),
        Operation::Increment(increment) => is_list(&increment.map_name),
        Operation::ResetMap(reset) => !reset.entries.is_empty() && is_list(&reset.map_name),
        Operation::Append(append) => append.marks.iter().any(|mark| is_list(&mark.map_name)),
        _ => false,
    }
}

/// Of a bucket that is not there.
fn absent() -> Receipt {
    let (now, generation, outcomes) = (0, String::new(), Vec::new());
    Receipt { status: Status::Absent, now, generation, created: false, unmet: None, outcomes }
}

/// The same of its deletion.
fn no_deletion() -> Deletion {
    Deletion { status: Status::Absent, now: 0, values: 0, keys: Vec::new() }
}

fn denied_failure() -> Failure {
    let message = "a call reaches only the session, user and node that it is made for, so the store was not asked";
    Failure::new(FailureCode::Denied, "", message)
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

/// Lowers the limits of all reads so far that what they bring together is no more than that, which is asked for if there
/// are any. Else one value, stored once and read ten thousand times, would fill the host's memory.
fn limit_reads(
    transactions: &mut [Transaction],
    max_bytes: impl FnOnce() -> wasmtime::Result<u64>,
) -> wasmtime::Result<()> {
    let (mut reads, mut ranges) = (0_u64, 0);
    for operation in transactions.iter_mut().flat_map(|transaction| &mut transaction.operations) {
        if let Some(read) = BoundedRead::from_operation(operation) {
            reads += 1;
            ranges += u64::from(read.is_range);
        }
    }
    if reads == 0 {
        return Ok(());
    }
    if ranges > MAX_RANGES {
        bail!("it asked for more than {MAX_RANGES} whole maps, stretches of logs and matches in one call");
    }
    let share = max_bytes()? / reads;
    for operation in transactions.iter_mut().flat_map(|transaction| &mut transaction.operations) {
        if let Some(read) = BoundedRead::from_operation(operation) {
            *read.max_bytes = (*read.max_bytes).min(share);
        }
    }
    Ok(())
}

/// An operation that reads as much as it is allowed to.
struct BoundedRead<'a> {
    max_bytes: &'a mut u64,
    /// Of many entries, records or positions; else of those that it names.
    is_range: bool,
}

impl<'a> BoundedRead<'a> {
    fn from_operation(operation: &'a mut Operation) -> Option<Self> {
        let (max_bytes, is_range) = match operation {
            Operation::Get(get) => (&mut get.max_bytes, false),
            Operation::Match(found) => (&mut found.max_bytes, true),
            Operation::GetAll(all) => (&mut all.max_bytes, true),
            Operation::Page(page) => (&mut page.max_bytes, true),
            Operation::Read(read) => (&mut read.max_bytes, true),
            Operation::ReadAt(read) => (&mut read.max_bytes, true),
            Operation::Overflow(overflow) => (&mut overflow.max_bytes, true),
            // What these answer is small, whatever is stored.
            Operation::Put(_)
            | Operation::Increment(_)
            | Operation::Remove(_)
            | Operation::ResetMap(_)
            | Operation::Append(_)
            | Operation::ReplaceOldest(_)
            | Operation::Rewrite(_)
            | Operation::ResetLog(_)
            | Operation::Lease(_)
            | Operation::Post(_)
            | Operation::Unpost(_)
            | Operation::Describe(_) => return None,
        };
        Some(Self { max_bytes, is_range })
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        runtime::{CallScope, EntryOwner, HostServices},
        sandbox::Sandbox,
        store::{Deadline, ExistingBucket, GetOperation, LogEnd, NewBucket, ReadOperation},
    };

    fn transaction(operations: Vec<Operation>) -> Transaction {
        Transaction {
            bucket: BucketId { kind: BucketKind::Session, name: "s".into() },
            precondition: Precondition::Existing(ExistingBucket { generation: None, renew: true }),
            expectations: vec![],
            operations,
        }
    }

    fn get() -> Operation {
        Operation::Get(GetOperation { map_name: "values".into(), keys: vec!["a".into()], max_bytes: u64::MAX })
    }

    fn read(max_bytes: u64) -> Operation {
        Operation::Read(ReadOperation { log: "history".into(), end: LogEnd::Newest, max_records: 9, max_bytes })
    }

    #[test]
    fn all_reads_of_a_call_share_the_remaining_memory_of_the_instance() {
        let mut calls = vec![transaction(vec![get(), read(7)]), transaction(vec![get(), get()])];
        limit_reads(&mut calls, || Ok(4000)).unwrap();
        let left = |operation: &mut Operation| *BoundedRead::from_operation(operation).unwrap().max_bytes;
        let lowered: Vec<u64> =
            calls.iter_mut().flat_map(|call| call.operations.iter_mut().map(left).collect::<Vec<_>>()).collect();
        assert_eq!(lowered, [1000, 7, 1000, 1000]);
    }

    #[test]
    fn log_reads_are_counted_across_all_transactions() {
        let each = |count| (0..count).map(|_| transaction(vec![read(1)])).collect::<Vec<_>>();
        let nothing = || Err(wasmtime::Error::msg("nothing is left"));
        assert!(limit_reads(&mut each(1), nothing).is_err());
        assert!(limit_reads(&mut [transaction(vec![])], nothing).is_ok());
        assert!(limit_reads(&mut each(16), || Ok(1 << 20)).is_ok());
        assert!(limit_reads(&mut each(17), || Ok(1 << 20)).is_err());
        assert!(limit_reads(&mut [transaction((0..1000).map(|_| get()).collect())], || Ok(1 << 20)).is_ok());
    }

    #[tokio::test]
    async fn a_batch_takes_one_writer_number_and_one_budget_call_per_transaction() {
        let services = HostServices::for_tests();
        let sandbox = Sandbox { store_calls_per_entry: 5, ..Sandbox::default() };
        let mut state = InstanceState::new(services, &sandbox, Arc::default());
        let owner = Arc::new(EntryOwner { session: Some("a".into()), user: Some("a".into()), ..EntryOwner::default() });
        let scope = || CallScope::Entry(owner.clone());
        state.begin_call(Writer::new(), CallDeadline::by(Deadline::NEVER), scope());
        let create = |kind| Transaction {
            bucket: BucketId { kind, name: "a".into() },
            precondition: Precondition::Create(NewBucket { time_to_live: None }),
            ..transaction(vec![])
        };
        let applied = |attempts: Vec<Attempt>| -> Vec<bool> {
            let is_applied = |attempt| matches!(attempt, Attempt::Receipt(Receipt { status: Status::Applied, .. }));
            attempts.into_iter().map(is_applied).collect()
        };
        let (attempts,) =
            transact_each(&mut state, vec![create(BucketKind::User), create(BucketKind::Session)], 0).await.unwrap();
        assert_eq!(applied(attempts), [true, true]);
        assert_eq!(state.writer.sequence(), 1);
        // The same bucket twice.
        let (attempts,) =
            transact_each(&mut state, vec![create(BucketKind::User), create(BucketKind::User)], 0).await.unwrap();
        assert_eq!(applied(attempts), [false, false]);
        assert!(
            transact_each(&mut state, vec![create(BucketKind::User), create(BucketKind::Session)], 0).await.is_err()
        );
        assert!(transact(&mut state, create(BucketKind::User), 0).await.is_err());

        state.begin_call(Writer::new(), CallDeadline::by(Deadline::after(Duration::ZERO)), scope());
        let (attempts,) =
            transact_each(&mut state, vec![create(BucketKind::User), create(BucketKind::Session)], 0).await.unwrap();
        let codes: Vec<_> = attempts
            .into_iter()
            .map(|attempt| match attempt {
                Attempt::Failure(failure) => failure.code,
                Attempt::Receipt(receipt) => panic!("{receipt:?}"),
            })
            .collect();
        assert_eq!(codes, [FailureCode::TimedOut; 2]);
    }
}
