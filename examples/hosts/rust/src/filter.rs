//! One instance of the filter, and what it imports.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wasmtime::component::types::{ComponentFunc, ComponentItem};
use wasmtime::component::{Component, HasSelf, Instance, InstancePre, Linker, Val};
use wasmtime::error::Context;
use wasmtime::{Config, Engine, Error, Result, Store, StoreLimits, StoreLimitsBuilder, bail};

use crate::bindings::lanes::{self, AnswerEntry, AnswerReply, Configured, QuestionEntry, QuestionReply};
use crate::bindings::tasks::{self, Job, Progress};
use crate::bindings::types::{Attempt, DeleteAttempt, DeleteRequest, Deletion, Receipt, StoreInfo, Transaction};
use crate::bindings::{Problem, core, listing, log, wall_clock};

const TICK: Duration = Duration::from_millis(10);
const MEMORY: usize = 64 << 20;

/// A store as the host lends it. An error that is no [`Problem`] becomes `other`, without its message. A call runs on
/// the thread of the entry, so a store that waits must give up in time by itself.
pub trait KeepStore: Send {
    /// What the store can do.
    fn about(&self) -> StoreInfo;
    /// Apply transactions, each on a bucket of its own.
    fn transact_each(&mut self, transactions: &[Transaction]) -> Vec<Result<Receipt>>;
    /// Delete buckets.
    fn delete_each(&mut self, requests: &[DeleteRequest]) -> Vec<Result<Deletion>>;
    /// Name the buckets of a kind.
    fn list_buckets(&mut self, kind: &str, cursor: &str, limit: u32) -> Result<listing::BucketPage>;
}

/// What a host calls. An error means that the instance is dead; `time` is what is left for the entry.
#[allow(missing_docs)]
pub trait Filter {
    fn configure(&mut self, options: &str, time: Duration) -> Result<Result<Configured, Problem>>;
    fn question(&mut self, entry: &QuestionEntry, time: Duration) -> Result<QuestionReply>;
    fn answer(&mut self, entry: &AnswerEntry, time: Duration) -> Result<AnswerReply>;
    fn advance(&mut self, job: &Job, time: Duration) -> Result<Progress>;
    /// An operator's call, such as `sessions.get`.
    fn administer(&mut self, function: &str, arguments: &Arguments<'_>, time: Duration) -> Result<Val>;
}

/// Makes the arguments of a function of this type.
pub type Arguments<'a> = dyn Fn(&ComponentFunc) -> Result<Vec<Val>> + 'a;

/// What one instance has.
struct State {
    store: Arc<Mutex<dyn KeepStore>>,
    limits: StoreLimits,
    log_from: log::Level,
}

/// The compiled component, from which instances are made.
pub struct Program {
    engine: Engine,
    instances: InstancePre<State>,
}

impl Program {
    /// Compile the component.
    pub fn new(component: &[u8]) -> Result<Self> {
        let engine = Engine::new(Config::new().epoch_interruption(true))?;
        let component = Component::new(&engine, component)?;
        let mut linker = Linker::new(&engine);
        core::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
        listing::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
        log::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
        wall_clock::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
        link_missing_interfaces(&mut linker, &component)?;
        let instances = linker.instantiate_pre(&component)?;
        let clock = engine.weak();
        std::thread::spawn(move || {
            while let Some(engine) = clock.upgrade() {
                engine.increment_epoch();
                drop(engine);
                std::thread::sleep(TICK);
            }
        });
        Ok(Self { engine, instances })
    }

    /// A new instance on a store. It has the defaults until it is configured.
    pub fn instantiate(&self, store: Arc<Mutex<dyn KeepStore>>, log_from: log::Level) -> Result<Box<dyn Filter>> {
        let limits = StoreLimitsBuilder::new().memory_size(MEMORY).build();
        let mut store = Store::new(&self.engine, State { store, limits, log_from });
        store.limiter(|state| &mut state.limits);
        store.set_epoch_deadline(1_000);
        let instance = self.instances.instantiate(&mut store)?;
        // Each by itself: a filter may lack what it has no use for, or what its version of the contract did not have.
        let lanes = lanes::GuestIndices::new(&self.instances)?.load(&mut store, &instance)?;
        let tasks = tasks::GuestIndices::new(&self.instances).and_then(|tasks| tasks.load(&mut store, &instance)).ok();
        Ok(Box::new(Wasm { store, instance, lanes, tasks }))
    }
}

/// What the linker has, as the contract's packages name it.
const LENT: [&str; 4] =
    ["keepline:store/core", "keepline:store/listing", "keepline:host/log", "wasi:clocks/wall-clock"];

/// Interfaces that the store lacks, and those of later filters, are linked to traps: no component calls them. Wasmtime's
/// `define_unknown_imports_as_traps` compares whole names, so that of a later filter's `keepline:store/core@0.3.1` it would make
/// a trap, too, although `0.3.0` is linked and fits.
fn link_missing_interfaces(linker: &mut Linker<State>, component: &Component) -> Result<()> {
    let engine = component.engine();
    for (name, import) in component.component_type().imports(engine) {
        let ComponentItem::ComponentInstance(interface) = import.ty else { continue };
        if name.split('@').next().is_some_and(|interface| LENT.contains(&interface)) {
            continue;
        }
        let mut missing = linker.instance(name)?;
        for (function, export) in interface.exports(engine) {
            if let ComponentItem::ComponentFunc(_) = export.ty {
                let full_name = format!("{name}#{function}");
                missing.func_new(function, move |_, _, _, _| bail!("{full_name} is not there, and was called"))?;
            }
        }
    }
    Ok(())
}

struct Wasm {
    store: Store<State>,
    instance: Instance,
    lanes: lanes::Guest,
    tasks: Option<tasks::Guest>,
}

impl Wasm {
    /// Start the time of an entry. Time that is spent in the store counts.
    fn within(&mut self, time: Duration) -> (&lanes::Guest, &mut Store<State>) {
        let ticks = time.as_millis() / TICK.as_millis() + 1;
        self.store.set_epoch_deadline(u64::try_from(ticks).unwrap_or(u64::MAX));
        (&self.lanes, &mut self.store)
    }
}

impl Filter for Wasm {
    fn configure(&mut self, options: &str, time: Duration) -> Result<Result<Configured, Problem>> {
        let log_from = self.store.data().log_from;
        let (lanes, store) = self.within(time);
        lanes.call_configure(store, options, log_from)
    }

    fn question(&mut self, entry: &QuestionEntry, time: Duration) -> Result<QuestionReply> {
        let (lanes, store) = self.within(time);
        lanes.call_question(store, entry)
    }

    fn answer(&mut self, entry: &AnswerEntry, time: Duration) -> Result<AnswerReply> {
        let (lanes, store) = self.within(time);
        lanes.call_answer(store, entry)
    }

    fn advance(&mut self, job: &Job, time: Duration) -> Result<Progress> {
        self.within(time);
        self.tasks.as_ref().context("the filter has no tasks")?.call_advance(&mut self.store, job)
    }

    fn administer(&mut self, function: &str, arguments: &Arguments<'_>, time: Duration) -> Result<Val> {
        self.within(time);
        let (interface, name) = function.split_once('.').context("no interface")?;
        let interface = format!("keepline:admin/{interface}@0.3.0");
        let index = self.instance.get_export_index(&mut self.store, None, &interface).context("unknown interface")?;
        let index = self.instance.get_export_index(&mut self.store, Some(&index), name).context("unknown function")?;
        let Some(function) = self.instance.get_func(&mut self.store, index) else { bail!("no function") };
        let arguments = arguments(&function.ty(&self.store))?;
        let mut results = [Val::Bool(false)];
        function.call(&mut self.store, &arguments, &mut results)?;
        let [result] = results;
        Ok(result)
    }
}

impl State {
    /// The boundary to the store: an unexpected error's own message might hold a stored text or a password.
    fn with_store<T>(&self, call: impl FnOnce(&mut dyn KeepStore) -> T) -> T {
        call(&mut *self.store.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn problem(error: Error) -> Problem {
    error.downcast().unwrap_or_else(|_| Problem::new("other", "", 0, "The store met with an unexpected error"))
}

impl core::Host for State {
    fn about(&mut self) -> StoreInfo {
        self.with_store(|store| store.about())
    }

    fn transact(&mut self, transaction: Transaction) -> Result<Receipt, Problem> {
        let attempt = self.with_store(|store| store.transact_each(&[transaction]).pop());
        attempt.context("no attempt").flatten().map_err(problem)
    }

    fn transact_each(&mut self, transactions: Vec<Transaction>) -> Vec<Attempt> {
        let attempts = self.with_store(|store| store.transact_each(&transactions)).into_iter();
        attempts
            .map(|attempt| attempt.map_or_else(|error| Attempt::Problem(problem(error)), Attempt::Receipt))
            .collect()
    }

    fn delete_each(&mut self, requests: Vec<DeleteRequest>) -> Vec<DeleteAttempt> {
        let attempts = self.with_store(|store| store.delete_each(&requests)).into_iter();
        attempts
            .map(|attempt| attempt.map_or_else(|error| DeleteAttempt::Problem(problem(error)), DeleteAttempt::Deletion))
            .collect()
    }
}

impl listing::Host for State {
    fn list_buckets(&mut self, kind: String, cursor: String, limit: u32) -> Result<listing::BucketPage, Problem> {
        self.with_store(|store| store.list_buckets(&kind, &cursor, limit)).map_err(problem)
    }
}

impl log::Host for State {
    fn write(&mut self, level: log::Level, context: String, message: String) {
        if level as u8 >= self.log_from as u8 {
            eprintln!("{level:?} {context}: {message}");
        }
    }
}

impl wall_clock::Host for State {
    fn now(&mut self) -> wall_clock::Datetime {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        wall_clock::Datetime { seconds: now.as_secs(), nanoseconds: now.subsec_nanos() }
    }

    fn resolution(&mut self) -> wall_clock::Datetime {
        wall_clock::Datetime { seconds: 0, nanoseconds: 1 }
    }
}
