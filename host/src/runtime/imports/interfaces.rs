//! The interfaces of `keepline:store`: `core`, and those that a store may lack. Each function's transactions become the
//! widest ones, which include the others; what answers them is made narrow again.
//!
//! An interface that the lent store lacks, and one that this host does not know, traps. A component calls neither: it asks
//! for the store's capabilities first.

use wasmtime::{
    Engine, bail,
    component::{Component, ComponentType, Lift, Linker, Lower, types::ComponentItem},
};

use super::{
    super::instance_state::InstanceState,
    calls::{delete_each, list_buckets, transact, transact_each},
    enter_briefly, enter_host_call,
};
use crate::{
    contract::is_unknown_store_interface,
    store::{
        Attempt, BucketPage, DeleteAttempt, DeleteRequest, Failure, IndexedAttempt, IndexedReceipt, IndexedTransaction,
        LeasedAttempt, LeasedTransaction, Problem, Receipt, StoreInfo, Transaction, capability, limits::RequestSize,
    },
};

/// The answer of a function whose WIT is a `result`.
type ImportResult<T> = wasmtime::Result<(Result<T, Problem>,)>;

fn to_problem<T>(answer: Result<T, Failure>) -> ImportResult<T> {
    Ok((answer.map_err(Problem::from),))
}

pub(super) fn add_to_linker(linker: &mut Linker<InstanceState>) -> wasmtime::Result<()> {
    let mut core = linker.instance("keepline:store/core@0.3.0")?;
    core.func_wrap("about", |mut context, ()| -> wasmtime::Result<(StoreInfo,)> {
        enter_briefly(&mut context)?;
        Ok((context.data().store.about().clone(),))
    })?;
    core.func_wrap_async("transact", |mut context, (transaction,): (Transaction,)| {
        Box::new(async move {
            let transaction = IndexedTransaction::from(transaction);
            let size = RequestSize::of_transactions([&transaction]);
            enter_host_call(&mut context, size.bytes).await?;
            let answer = transact(context.data_mut(), transaction, size.pieces).await?;
            to_problem::<Receipt>(answer.map(|indexed| indexed.receipt))
        })
    })?;
    core.func_wrap_async("delete-each", |mut context, (requests,): (Vec<DeleteRequest>,)| {
        Box::new(async move {
            let names = requests.iter().map(|request| {
                request.bucket.name.len()
                    + request.generation.as_ref().map_or(0, String::len)
                    + size_of::<DeleteRequest>()
            });
            let bytes = names.sum::<usize>();
            enter_host_call(&mut context, bytes as u64).await?;
            let answers = delete_each(context.data_mut(), requests).await?;
            Ok((answers.into_iter().map(DeleteAttempt::from).collect::<Vec<_>>(),))
        })
    })?;
    add_transact_each::<Transaction, Attempt>(linker, "core", None)?;
    add_transact_each::<LeasedTransaction, LeasedAttempt>(linker, "leases", Some(capability::LEASES))?;
    add_transact_each::<IndexedTransaction, IndexedAttempt>(linker, "indexes", Some(capability::INDEXES))?;
    let mut listing = linker.instance("keepline:store/listing@0.3.0")?;
    listing.func_wrap_async("list-buckets", |mut context, (kind, cursor, limit): (String, String, u32)| {
        Box::new(async move {
            enter_host_call(&mut context, (kind.len() + cursor.len()) as u64).await?;
            require(context.data(), capability::LISTING)?;
            to_problem::<BucketPage>(list_buckets(context.data_mut(), &kind, &cursor, limit).await?)
        })
    })
}

/// Adds an interface's `transact-each`.
fn add_transact_each<T, A>(
    linker: &mut Linker<InstanceState>,
    interface: &str,
    needed: Option<&'static str>,
) -> wasmtime::Result<()>
where
    T: Into<IndexedTransaction> + ComponentType + Lift + Send + 'static,
    A: From<Result<IndexedReceipt, Failure>> + ComponentType + Lower + Send + 'static,
{
    let mut interface = linker.instance(&format!("keepline:store/{interface}@0.3.0"))?;
    interface.func_wrap_async("transact-each", move |mut context, (transactions,): (Vec<T>,)| {
        Box::new(async move {
            let transactions: Vec<IndexedTransaction> = transactions.into_iter().map(T::into).collect();
            let size = RequestSize::of_transactions(&transactions);
            enter_host_call(&mut context, size.bytes).await?;
            if let Some(capability) = needed {
                require(context.data(), capability)?;
            }
            let answers = transact_each(context.data_mut(), transactions, size.pieces).await?;
            Ok((answers.into_iter().map(A::from).collect::<Vec<_>>(),))
        })
    })
}

/// # Errors
/// When the lent store lacks the capability.
fn require(state: &InstanceState, capability: &str) -> wasmtime::Result<()> {
    if !state.store.about().can(capability) {
        bail!("it called the interface {capability}, which the store lacks");
    }
    Ok(())
}

/// Links the functions of interfaces of `keepline:store` that this host does not know to traps.
///
/// # Errors
/// When such an interface has more than functions and types.
pub(in crate::runtime) fn link_unknown_to_traps(
    linker: &mut Linker<InstanceState>,
    engine: &Engine,
    component: &Component,
) -> wasmtime::Result<()> {
    for (name, item) in component.component_type().imports(engine) {
        let ComponentItem::ComponentInstance(instance) = item.ty else { continue };
        if !is_unknown_store_interface(name) {
            continue;
        }
        let mut unknown = linker.instance(name)?;
        for (function, item) in instance.exports(engine) {
            if let ComponentItem::ComponentFunc(_) = item.ty {
                let message = format!("it called {name}#{function}, which this host does not know");
                unknown.func_new(function, move |_, _, _, _| bail!("{message}"))?;
            }
        }
    }
    Ok(())
}
