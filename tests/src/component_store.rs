//! A store that is a component, as a store of the library: each call goes through the narrowest interface that takes it.

use std::sync::Arc;

use async_trait::async_trait;
use keepline::store::{
    Attempt, BucketPage, Deadline, DeleteAttempt, DeleteRequest, Deletion, Failure, FailureCode, IndexedAttempt,
    IndexedReceipt, IndexedTransaction, LeasedAttempt, LeasedReceipt, LeasedTransaction, ManualClock, Problem, Receipt,
    Store, StoreInfo, Transaction, Writer, capability,
};
use parking_lot::Mutex;
use wasmtime::component::{ComponentNamedList, Instance, Lift, Lower};

use crate::component_host::{Host, HostedComponent};

/// A compiled component of the world `store-provider`.
pub struct StoreComponent(HostedComponent);

impl StoreComponent {
    pub fn compile(bytes: &[u8]) -> Self {
        Self(HostedComponent::compile(bytes))
    }

    /// An empty store, by this clock.
    pub fn instantiate(&self, clock: ManualClock) -> Arc<ComponentStore> {
        let HostedComponent { engine, component, linker } = &self.0;
        let mut store = wasmtime::Store::new(engine, Host { clock, ..Host::default() });
        let instance = linker.instantiate(&mut store, component).unwrap();
        let mut lent = Lent { store, instance };
        let (mut about,): (StoreInfo,) = lent.call("core", "about", ());
        // This host sends each call once, and so never as a repetition.
        about.capabilities.retain(|name| name != capability::EXACTLY_ONCE);
        Arc::new(ComponentStore { lent: Mutex::new(lent), about })
    }
}

pub struct ComponentStore {
    lent: Mutex<Lent>,
    about: StoreInfo,
}

/// Calls of an instance never overlap.
struct Lent {
    store: wasmtime::Store<Host>,
    instance: Instance,
}

impl Lent {
    fn call<P, R>(&mut self, interface: &str, function: &str, parameters: P) -> R
    where
        P: ComponentNamedList + Lower,
        R: ComponentNamedList + Lift + 'static,
    {
        let interface = format!("keepline:store/{interface}@0.3.0");
        let index = self.instance.get_export_index(&mut self.store, None, &interface).unwrap();
        let index = self.instance.get_export_index(&mut self.store, Some(&index), function).unwrap();
        let function = self.instance.get_typed_func::<P, R>(&mut self.store, index).unwrap();
        function.call(&mut self.store, parameters).unwrap()
    }
}

impl std::fmt::Debug for ComponentStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a store that is a component")
    }
}

#[async_trait]
impl Store for ComponentStore {
    async fn transact(
        &self,
        writer: &Writer,
        transaction: &IndexedTransaction,
        deadline: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        if transaction.lease.is_none() && transaction.steps.is_empty() {
            let (answer,): (Result<Receipt, Problem>,) =
                self.lent.lock().call("core", "transact", (&transaction.transaction,));
            return answer.map(IndexedReceipt::from).map_err(failure);
        }
        let mut answers = self.transact_each(writer, std::slice::from_ref(transaction), deadline).await;
        answers.pop().unwrap()
    }

    async fn transact_each(
        &self,
        _: &Writer,
        transactions: &[IndexedTransaction],
        _: Deadline,
    ) -> Vec<Result<IndexedReceipt, Failure>> {
        let mut lent = self.lent.lock();
        if transactions.iter().any(|one| !one.steps.is_empty()) {
            let (answers,): (Vec<IndexedAttempt>,) = lent.call("indexes", "transact-each", (transactions,));
            let answer = |attempt| match attempt {
                IndexedAttempt::Receipt(receipt) => Ok(receipt),
                IndexedAttempt::Problem(problem) => Err(failure(problem)),
            };
            return answers.into_iter().map(answer).collect();
        }
        if transactions.iter().any(|one| one.lease.is_some()) {
            let leased = |one: &IndexedTransaction| LeasedTransaction {
                lease: one.lease.clone(),
                transaction: one.transaction.clone(),
            };
            let leased: Vec<_> = transactions.iter().map(leased).collect();
            let (answers,): (Vec<LeasedAttempt>,) = lent.call("leases", "transact-each", (&*leased,));
            let answer = |attempt| match attempt {
                LeasedAttempt::Receipt(LeasedReceipt { lease, receipt }) => {
                    Ok(IndexedReceipt { lease, ..receipt.into() })
                }
                LeasedAttempt::Problem(problem) => Err(failure(problem)),
            };
            return answers.into_iter().map(answer).collect();
        }
        let plain: Vec<Transaction> = transactions.iter().map(|one| one.transaction.clone()).collect();
        let (answers,): (Vec<Attempt>,) = lent.call("core", "transact-each", (&*plain,));
        let answer = |attempt| match attempt {
            Attempt::Receipt(receipt) => Ok(receipt.into()),
            Attempt::Problem(problem) => Err(failure(problem)),
        };
        answers.into_iter().map(answer).collect()
    }

    async fn delete(&self, writer: &Writer, request: &DeleteRequest, deadline: Deadline) -> Result<Deletion, Failure> {
        self.delete_each(writer, std::slice::from_ref(request), deadline).await.pop().unwrap()
    }

    async fn delete_each(&self, _: &Writer, requests: &[DeleteRequest], _: Deadline) -> Vec<Result<Deletion, Failure>> {
        let (answers,): (Vec<DeleteAttempt>,) = self.lent.lock().call("core", "delete-each", (requests,));
        let answer = |attempt| match attempt {
            DeleteAttempt::Deletion(deletion) => Ok(deletion),
            DeleteAttempt::Problem(problem) => Err(failure(problem)),
        };
        answers.into_iter().map(answer).collect()
    }

    async fn list_buckets(&self, kind: &str, cursor: &str, limit: u32, _: Deadline) -> Result<BucketPage, Failure> {
        let (answer,): (Result<BucketPage, Problem>,) =
            self.lent.lock().call("listing", "list-buckets", (kind, cursor, limit));
        answer.map_err(failure)
    }

    fn about(&self) -> StoreInfo {
        self.about.clone()
    }
}

fn failure(problem: Problem) -> Failure {
    let code = FailureCode::named(&problem.code).unwrap_or(FailureCode::Other);
    Failure { limit: problem.limit, ..Failure::new(code, problem.subject, problem.message) }
}
