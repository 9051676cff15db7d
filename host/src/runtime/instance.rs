//! One instance: calls go in, replies or a fault come out. After a fault it is done for.

use std::fmt;

use wasmtime::{Store, Trap};

use super::{Due, InstanceState, state::Lent};
use crate::{
    contract::{MemoryFilter, filter, sessions},
    lend::LogLevel,
    plugin::Plugin,
    store::Writer,
};

/// An instance, configured.
pub(crate) struct Instance {
    store: Store<InstanceState>,
    /// Boxed: an instance changes hands with each call.
    bindings: Box<MemoryFilter>,
    copy_bytes: usize,
    calls_left: u64,
}

/// Why an instance did not answer: it trapped or went over a limit.
#[derive(Clone, Debug)]
pub(crate) struct Fault(String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the plugin was stopped: {}", self.0)
    }
}

impl std::error::Error for Fault {}

impl Fault {
    /// What it answered can't be accepted.
    pub(crate) fn of(why: String) -> Self {
        Self(why)
    }
}

impl From<wasmtime::Error> for Fault {
    /// One line: the trap if it is one, else the host's own words.
    fn from(error: wasmtime::Error) -> Self {
        let told = error.root_cause().to_string();
        Self(match error.downcast_ref::<Trap>() {
            Some(Trap::UnreachableCodeReached) => "it gave up (unreachable code)".into(),
            Some(Trap::StackOverflow) => "it overflowed its stack".into(),
            Some(Trap::AllocationTooLarge) => "it asked for too much memory".into(),
            Some(trap) => trap.to_string(),
            None => told,
        })
    }
}

impl Instance {
    /// Cost: some 20 µs, and as much again in the first call.
    pub(crate) async fn new(plugin: &Plugin, lent: Lent, due: Due) -> Result<Self, Fault> {
        let sandbox = &plugin.sandbox;
        let state = InstanceState::new(lent, sandbox);
        let mut store = Store::new(plugin.pre.engine(), state);
        store.limiter(|state| &mut state.growth);
        store.set_hostcall_fuel(sandbox.copy_bytes);
        store.epoch_deadline_callback(|mut context| context.data_mut().on_tick());
        store.set_epoch_deadline(1);
        store.data_mut().begin(Writer::new(), due);
        let bindings = Box::new(plugin.pre.instantiate_async(&mut store).await?);
        Ok(Self { store, bindings, copy_bytes: sandbox.copy_bytes, calls_left: sandbox.calls_per_instance.max(1) })
    }

    /// Whether it has served its time, or holds far more memory than it needs.
    pub(crate) fn is_worn(&self) -> bool {
        self.calls_left == 0 || self.store.data().growth.is_grown()
    }

    pub(crate) async fn configure(
        &mut self,
        options: &str,
        log_from: LogLevel,
        due: Due,
    ) -> Result<Result<filter::Configured, filter::ConfigProblem>, Fault> {
        self.begin(Writer::new(), due);
        let filter = self.bindings.keepline_memory_filter();
        let configured = filter.call_configure(&mut self.store, options, log_from).await?;
        self.store.data_mut().growth.started();
        Ok(configured)
    }

    /// The writer comes back with the reply: what it counted during the call is part of it.
    pub(crate) async fn question(
        &mut self,
        writer: Writer,
        due: Due,
        text: &str,
        metadata: &str,
    ) -> Result<(filter::QuestionReply, Writer), Fault> {
        self.begin(writer, due);
        let reply = self.bindings.keepline_memory_filter().call_question(&mut self.store, text, metadata).await?;
        Ok((reply, self.end()))
    }

    pub(crate) async fn answer(
        &mut self,
        writer: Writer,
        due: Due,
        text: &str,
        metadata: &str,
        turn: &str,
    ) -> Result<(filter::AnswerReply, Writer), Fault> {
        self.begin(writer, due);
        let reply = self.bindings.keepline_memory_filter().call_answer(&mut self.store, text, metadata, turn).await?;
        Ok((reply, self.end()))
    }

    /// A call of the `sessions` export.
    pub(crate) async fn sessions<R>(
        &mut self,
        writer: Writer,
        due: Due,
        call: impl AsyncFnOnce(&sessions::Guest, &mut Store<InstanceState>) -> wasmtime::Result<R>,
    ) -> Result<(R, Writer), Fault> {
        self.begin(writer, due);
        let reply = call(self.bindings.keepline_memory_sessions(), &mut self.store).await?;
        Ok((reply, self.end()))
    }

    fn begin(&mut self, writer: Writer, due: Due) {
        self.store.set_hostcall_fuel(self.copy_bytes);
        self.store.data_mut().begin(writer, due);
    }

    fn end(&mut self) -> Writer {
        self.calls_left = self.calls_left.saturating_sub(1);
        std::mem::replace(&mut self.store.data_mut().writer, Writer::nobody())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        lend::{RateLimitedLog, SystemClock, TracingLog},
        plugin::Sandbox,
        store::{Deadline, MemoryStore},
    };

    fn never() -> Due {
        Due::by(Deadline::NEVER)
    }

    async fn bundled() -> Instance {
        let plugin = Plugin::bundled(&Sandbox::default()).unwrap();
        let log = Arc::new(RateLimitedLog::new(Arc::new(TracingLog)));
        let lent = Lent { store: Arc::new(MemoryStore::default()), clock: Arc::new(SystemClock), log };
        let mut instance = Instance::new(&plugin, lent, never()).await.unwrap();
        instance.configure("{}", LogLevel::Warn, never()).await.unwrap().unwrap();
        instance
    }

    async fn pair(instance: &mut Instance, answer: &str) -> usize {
        let metadata = r#"{"session_id":"s"}"#;
        let (asked, writer) = instance.question(Writer::new(), never(), "?", metadata).await.unwrap();
        let (answered, _) = instance.answer(writer, never(), answer, "{}", &asked.turn).await.unwrap();
        assert_eq!(answered.effect, filter::Effect::Stored);
        instance.store.data().growth.bytes()
    }

    #[tokio::test]
    async fn an_instance_begins_small_and_usual_entries_leave_it_so() {
        let mut instance = bundled().await;
        let at_start = instance.store.data().growth.bytes();
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
    async fn an_instance_that_met_a_large_entry_is_worn() {
        let mut instance = bundled().await;
        pair(&mut instance, &"x".repeat(1_000_000)).await;
        assert!(instance.is_worn());
    }
}
