//! One instance: calls go in, replies or a fault come out. After a fault it is done for.

use std::{fmt, sync::Arc};

use wasmtime::{Store, Trap};

use super::{Due, InstanceState, Program, bounds::Bounded, exports::Exports, state::Lent};
use crate::{
    contract::{
        filter::{AnswerEntry, AnswerReply, ConfigProblem, Configured, Question, QuestionReply},
        logging::LogLevel,
        maintenance::{Job, ToldProgress},
        sessions::{
            HistoryPage, KeyCounted, KeyList, KeysCleared, SessionCreated, SessionDeleted, SessionPage, SessionState,
            ValueFound, ValueStored,
        },
    },
    runtime::SessionReply,
    store::{Guard, Writer},
};

/// An instance, configured.
pub(crate) struct Instance {
    store: Store<InstanceState>,
    /// Boxed: an instance changes hands with each call.
    exports: Box<Exports>,
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
    pub(crate) async fn new(program: &Program, lent: Lent, due: Due) -> Result<Self, Fault> {
        let sandbox = &program.sandbox;
        let state = InstanceState::new(lent, sandbox);
        let mut store = Store::new(program.pre.engine(), state);
        store.limiter(|state| &mut state.growth);
        store.set_hostcall_fuel(sandbox.copy_bytes);
        store.epoch_deadline_callback(|mut context| context.data_mut().on_tick());
        store.set_epoch_deadline(1);
        store.data_mut().begin(Writer::new(), due);
        let instance = program.pre.instantiate_async(&mut store).await?;
        let exports = Box::new(Exports::of(&instance, &mut store, &program.indices)?);
        Ok(Self { store, exports, copy_bytes: sandbox.copy_bytes, calls_left: sandbox.calls_per_instance.max(1) })
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
    ) -> Result<Result<Configured, ConfigProblem>, Fault> {
        self.begin(Writer::new(), due);
        let configured = self.exports.configure(&mut self.store, options, log_from).await?;
        self.store.data_mut().growth.started();
        Ok(configured)
    }

    /// The store that the next calls use.
    pub(crate) fn lend(&mut self, store: &Arc<Guard>) {
        let lent = &mut self.store.data_mut().store;
        if !Arc::ptr_eq(lent, store) {
            *lent = store.clone();
        }
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

/// Each call has the writer of whoever calls, and gives it back with the reply: what it counted during the call is part
/// of it.
macro_rules! calls {
    ($($name:ident($($argument:ident: $type:ty),*) -> $reply:ty;)*) => {
        impl Instance {
            $(
                pub(crate) async fn $name(
                    &mut self,
                    writer: Writer,
                    due: Due,
                    $($argument: $type),*
                ) -> Result<($reply, Writer), Fault> {
                    self.begin(writer, due);
                    let reply = self.exports.$name(&mut self.store, $($argument),*).await?;
                    reply.check()?;
                    Ok((reply, self.end()))
                }
            )*
        }
    };
}

calls! {
    question(entry: Question<'_>) -> QuestionReply;
    answer(entry: AnswerEntry<'_>) -> AnswerReply;
    advance(job: &Job) -> ToldProgress;
    create(session: &str) -> SessionReply<SessionCreated>;
    resume(session: &str) -> SessionReply<SessionState>;
    list_sessions(cursor: &str, limit: u32) -> SessionReply<SessionPage>;
    delete(session: &str) -> SessionReply<SessionDeleted>;
    put(session: &str, key: &str, value: &str) -> SessionReply<ValueStored>;
    get(session: &str, key: &str) -> SessionReply<ValueFound>;
    keys(session: &str) -> SessionReply<KeyList>;
    clear(session: &str, key: Option<&str>) -> SessionReply<KeysCleared>;
    increment(session: &str, key: &str, amount: i64) -> SessionReply<KeyCounted>;
    history(session: &str, before: Option<u64>, limit: u32) -> SessionReply<HistoryPage>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        contract::filter::Effect,
        entry::Answer,
        lend::{RateLimitedLog, SystemClock, TracingLog},
        plugin::Plugin,
        sandbox::Sandbox,
        store::{BreakerOptions, Deadline, MemoryStore},
    };

    fn never() -> Due {
        Due::by(Deadline::NEVER)
    }

    async fn bundled() -> Instance {
        let plugin = Plugin::bundled(&Sandbox::default()).unwrap();
        let log = Arc::new(RateLimitedLog::new(Arc::new(TracingLog)));
        let store = Arc::new(Guard::new(Arc::new(MemoryStore::default()), BreakerOptions::default()));
        let lent = Lent { store, clock: Arc::new(SystemClock), log };
        let mut instance = Instance::new(plugin.program(), lent, never()).await.unwrap();
        instance.configure("{}", LogLevel::Warn, never()).await.unwrap().unwrap();
        instance
    }

    async fn pair(instance: &mut Instance, answer: &str) -> usize {
        let question = Question { text: "?", metadata: r#"{"session_id":"s"}"#, ..Question::default() };
        let (asked, writer) = instance.question(Writer::new(), never(), question).await.unwrap();
        let entry = Answer { text: answer, ..Answer::default() }.entry(&asked.turn, None, &[]);
        let (answered, _) = instance.answer(writer, never(), entry).await.unwrap();
        assert_eq!(answered.effect, Effect::Stored);
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
