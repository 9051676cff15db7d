//! One instance: calls go in, and a reply or a fault comes out. After a fault it can't be used.

use std::{pin::pin, sync::Arc};

use wasmtime::{Store, Trap, UpdateDeadline};

use super::{
    exports::Exports,
    fault::PluginFault,
    instance_state::{HostServices, InstanceState},
    limits::{call_deadline::CallDeadline, cpu_meter::CpuMeter},
    program::PluginProgram,
    reply_bounds::BoundedReply,
    scope::CallScope,
};
use crate::{
    contract::{lanes::Configured, logging::LogLevel, shared::Problem},
    store::{StoreGuard, Writer},
};

/// Handles of a component's own resources that are alive at one time. The contract has none.
const MAX_HANDLES: usize = 10_000;

/// An instance's own store, in wasmtime's sense.
pub(crate) type InstanceStore = Store<InstanceState>;

/// An instance, configured.
pub(crate) struct PluginInstance {
    store: Store<InstanceState>,
    /// Boxed: an instance changes hands with each call.
    exports: Box<Exports>,
    meter: Arc<CpuMeter>,
    copy_bytes: usize,
    calls_left: u64,
}

impl PluginInstance {
    /// Cost: some 20 µs, and as much again in the first call.
    pub(crate) async fn new(
        program: &PluginProgram,
        services: HostServices,
        due: CallDeadline,
    ) -> Result<Self, PluginFault> {
        let sandbox = &program.sandbox;
        let state = InstanceState::new(services, sandbox, program.ticks.clone());
        let meter = state.meter().clone();
        let mut store = Store::new(program.pre.engine(), state);
        store.limiter(|state| &mut state.memory);
        store.set_max_component_handles(MAX_HANDLES);
        let measured = meter.clone();
        store.epoch_deadline_callback(move |mut context| {
            let Some(patience) = context.data_mut().on_tick()? else { return Ok(UpdateDeadline::Continue(1)) };
            let meter = measured.clone();
            // 0: asked again as soon as it goes on.
            Ok(UpdateDeadline::YieldCustom(0, Box::pin(async move { meter.make_way(patience).await })))
        });
        store.set_epoch_deadline(1);
        store.set_hostcall_fuel(sandbox.copy_bytes);
        store.data_mut().begin_call(Writer::new(), due, CallScope::Nothing);
        if !store.data_mut().memory.try_grow(program.state_bytes) {
            let why = "the state of its instances (globals, functions) is more than the memory that it may hold";
            return Err(PluginFault {
                is_pool_exhausted: store.data().memory.is_pool_exhausted(),
                ..PluginFault::from_reason(why.into())
            });
        }
        let instance = meter.run_measured(pin!(program.pre.instantiate_async(&mut store))).await;
        let instance = match instance {
            Ok(instance) => instance,
            Err(error) => {
                let is_pool_exhausted = store.data().memory.is_pool_exhausted();
                return Err(PluginFault { is_pool_exhausted, ..PluginFault::from(error) });
            }
        };
        let exports = Box::new(Exports::of(&instance, &mut store, &program.indices)?);
        let calls_left = sandbox.calls_per_instance.max(1);
        Ok(Self { store, exports, meter, copy_bytes: sandbox.copy_bytes, calls_left })
    }

    /// Everything that it holds, bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.store.data().memory.held_bytes()
    }

    /// Whether it has served its time, or holds far more memory than it needs.
    pub(crate) fn is_worn(&self) -> bool {
        self.calls_left == 0 || self.store.data().memory.is_grown()
    }

    pub(crate) async fn configure(
        &mut self,
        options: &str,
        log_from: LogLevel,
        due: CallDeadline,
    ) -> Result<Result<Configured, Problem>, PluginFault> {
        self.begin_call(Writer::new(), due, CallScope::Nothing);
        let (exports, store) = (&self.exports, &mut self.store);
        let call = async {
            match exports.lanes() {
                Ok(lanes) => lanes.call_configure(store, options, log_from).await,
                Err(missing) => match exports.configuration() {
                    Ok(configuration) => {
                        let configured = configuration.call_configure(store, options, log_from).await?;
                        Ok(configured.map(Configured::from))
                    }
                    Err(_) => Ok(Err(missing)),
                },
            }
        };
        let configured = self.meter.run_measured(pin!(call)).await;
        let configured = configured.map_err(|error| self.to_fault(error))?;
        self.store.data_mut().memory.started();
        Ok(configured)
    }

    /// One call of an export, which reaches what is in its scope. It takes its caller's writer, and returns it with the
    /// reply, with what it counted during the call.
    pub(crate) async fn call<R: BoundedReply>(
        &mut self,
        writer: Writer,
        due: CallDeadline,
        scope: CallScope,
        call: impl AsyncFnOnce(&Exports, &mut InstanceStore) -> wasmtime::Result<R>,
    ) -> Result<(R, Writer), PluginFault> {
        self.begin_call(writer, due, scope);
        let reply = {
            let call = pin!(call(&self.exports, &mut self.store));
            self.meter.run_measured(call).await
        };
        let reply = reply.map_err(|error| self.to_fault(error))?;
        reply.check_bounds(&self.store.data().scope)?;
        self.store.data().remember_task_buckets(reply.due_tasks());
        Ok((reply, self.end_call()))
    }

    /// Whether its last calls used that store.
    pub(super) fn is_using_store(&self, store: &Arc<StoreGuard>) -> bool {
        Arc::ptr_eq(&self.store.data().store, store)
    }

    /// The store that the next calls use.
    pub(crate) fn use_store(&mut self, store: &Arc<StoreGuard>) {
        let services = &mut self.store.data_mut().store;
        if !Arc::ptr_eq(services, store) {
            *services = store.clone();
        }
    }

    fn begin_call(&mut self, writer: Writer, due: CallDeadline, scope: CallScope) {
        self.store.set_hostcall_fuel(self.copy_bytes);
        // Ticks that passed while it rested are none that it computes.
        self.store.set_epoch_deadline(1);
        self.store.data_mut().begin_call(writer, due, scope);
    }

    fn to_fault(&self, error: wasmtime::Error) -> PluginFault {
        // Who was refused memory and gave up; not who went on until it was over a budget.
        let gave_up = error.downcast_ref::<Trap>().is_some();
        let is_pool_exhausted = gave_up && self.store.data().memory.is_pool_exhausted();
        // wasmtime's own words, as it gives no type for it.
        if error.root_cause().to_string().starts_with("too much data is being copied") {
            return PluginFault::from_reason(format!(
                "it made the host copy more than {} bytes for one entry",
                self.copy_bytes
            ));
        }
        PluginFault { is_pool_exhausted, ..PluginFault::from(error) }
    }

    fn end_call(&mut self) -> Writer {
        self.calls_left = self.calls_left.saturating_sub(1);
        std::mem::replace(&mut self.store.data_mut().writer, Writer::placeholder())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::runtime::limits::{
        cpu_scheduler::{ComputeSlot, PLACES},
        epoch::{TICK, Ticks},
    };
    use crate::{
        contract::lanes::TurnQuestion,
        entry::{Answer, Question},
        plugin,
        store::Deadline,
    };

    fn never() -> CallDeadline {
        CallDeadline::by(Deadline::NEVER)
    }

    async fn bundled() -> PluginInstance {
        let plugin = plugin::for_tests();
        let mut instance = PluginInstance::new(plugin.program(), HostServices::for_tests(), never()).await.unwrap();
        instance.configure("{}", LogLevel::Warn, never()).await.unwrap().unwrap();
        instance
    }

    async fn pair(instance: &mut PluginInstance, answer: &str) -> usize {
        let question = Question { text: "?", metadata: r#"{"session_id":"s"}"#, ..Question::default() };
        let scope = CallScope::for_session("s");
        let ask = async |exports: &Exports, store: &mut InstanceStore| {
            exports.filter_lanes()?.call_question(store, question.to_contract()).await
        };
        let (asked, writer) = instance.call(Writer::new(), never(), scope.clone(), ask).await.unwrap();
        let answer = Answer { text: answer, ..Answer::default() };
        let entry = answer.to_contract(&asked.turn, TurnQuestion { text: "?", tokens: None }, &[]);
        let reply = async |exports: &Exports, store: &mut InstanceStore| {
            exports.filter_lanes()?.call_answer(store, entry).await
        };
        let (answered, _) = instance.call(writer, never(), scope, reply).await.unwrap();
        assert_eq!(answered.effect, "stored");
        instance.held_bytes()
    }

    #[tokio::test]
    async fn an_instance_starts_small_and_ordinary_entries_do_not_grow_it() {
        let mut instance = bundled().await;
        let at_start = instance.held_bytes();
        assert!(at_start <= 512 << 10, "{at_start}");
        for _ in 0..500 {
            assert_eq!(pair(&mut instance, &"x".repeat(400)).await, at_start);
        }
        for _ in 0..50 {
            pair(&mut instance, &"x".repeat(100_000)).await;
        }
        assert!(!instance.is_worn());
    }

    #[tokio::test]
    async fn an_instance_idle_for_a_tick_does_not_queue_behind_computing_ones() {
        let mut instance = bundled().await;
        // As many as may compute at a time do so, once other tests' instances have made way: at ticks, so these have to pass.
        let plugin = plugin::for_tests();
        let ticks = plugin.program().ticks();
        let mut busy = Vec::new();
        for _ in 0..*PLACES {
            let slot = ComputeSlot::default();
            slot.wait_for_place(ticks, 0, u64::MAX).await;
            busy.push(slot);
        }
        let question = Question { text: "?", metadata: r#"{"session_id":"s"}"#, ..Question::default() };
        let mut quick = 0;
        for _ in 0..20 {
            tokio::time::sleep(TICK * 2).await;
            let ask = async |exports: &Exports, store: &mut InstanceStore| {
                exports.filter_lanes()?.call_question(store, question.to_contract()).await
            };
            let call = instance.call(Writer::new(), never(), CallScope::for_session("s"), ask);
            // It is polled once: one that has to wait for a place is not done then.
            match call.now_or_never() {
                Some(asked) => {
                    asked.unwrap();
                    quick += 1;
                }
                None => instance = bundled_while(&mut busy, ticks).await,
            }
        }
        // A tick may meet one by chance.
        assert!(quick >= 10, "{quick}");
    }

    /// Another instance: to be made, it may have to compute for more than a tick.
    async fn bundled_while(busy: &mut Vec<ComputeSlot>, ticks: &Ticks) -> PluginInstance {
        let count = busy.len();
        busy.clear();
        let instance = bundled().await;
        for _ in 0..count {
            let slot = ComputeSlot::default();
            slot.wait_for_place(ticks, 0, u64::MAX).await;
            busy.push(slot);
        }
        instance
    }

    #[tokio::test]
    async fn an_instance_is_worn_after_a_large_entry() {
        let mut instance = bundled().await;
        pair(&mut instance, &"x".repeat(1_000_000)).await;
        assert!(instance.is_worn());
    }
}
