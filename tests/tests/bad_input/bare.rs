//! A minimal host that can hand back any turn: the contract with nothing around it.

use std::sync::OnceLock;

use futures::FutureExt;
use keepline::{
    plugin::BUNDLED,
    store::{Deadline, DeleteAttempt, DeleteRequest, MemoryStore, Problem, Store, Transaction, Writer},
};
use keepline_tests::component_host::{Datetime, Level};
use wasmtime::{
    Config, Engine, StoreContextMut,
    component::{Component, Func, Linker, Val},
};

pub struct Bare {
    store: wasmtime::Store<Lent>,
    question: Func,
    answer: Func,
}

struct Lent {
    store: MemoryStore,
    writer: Writer,
}

/// The store in memory answers at once.
fn now<T>(call: impl Future<Output = T>) -> T {
    call.now_or_never().unwrap()
}

fn lend(linker: &mut Linker<Lent>) -> wasmtime::Result<()> {
    type Context<'a> = StoreContextMut<'a, Lent>;
    let mut core = linker.instance("keepline:store/core@0.3.0")?;
    core.func_wrap("about", |context: Context<'_>, ()| Ok((context.data().store.about(),)))?;
    core.func_wrap("transact", |mut context: Context<'_>, (transaction,): (Transaction,)| {
        let Lent { store, writer } = context.data_mut();
        let answer = now(store.transact(writer.advance(), &transaction.into(), Deadline::NEVER));
        Ok((answer.map(|indexed| indexed.receipt).map_err(Problem::from),))
    })?;
    core.func_wrap("delete-each", |mut context: Context<'_>, (requests,): (Vec<DeleteRequest>,)| {
        let Lent { store, writer } = context.data_mut();
        let answers = now(store.delete_each(writer.advance(), &requests, Deadline::NEVER));
        Ok((answers.into_iter().map(DeleteAttempt::from).collect::<Vec<_>>(),))
    })?;
    let mut listing = linker.instance("keepline:store/listing@0.3.0")?;
    listing.func_wrap("list-buckets", |context: Context<'_>, (kind, cursor, limit): (String, String, u32)| {
        let page = now(context.data().store.list_buckets(&kind, &cursor, limit, Deadline::NEVER));
        Ok((page.map_err(Problem::from),))
    })?;
    let mut log = linker.instance("keepline:host/log@0.3.0")?;
    log.func_wrap("write", |_: Context<'_>, (_, _, _): (Level, String, String)| Ok(()))?;
    let latest = || Datetime { seconds: u64::MAX, nanoseconds: u32::MAX };
    linker.instance("wasi:clocks/wall-clock@0.2.0")?.func_wrap("now", move |_: Context<'_>, ()| Ok((latest(),)))
}

impl Bare {
    pub fn new() -> Self {
        static COMPILED: OnceLock<(Engine, Component, Linker<Lent>)> = OnceLock::new();
        let (engine, component, linker) = COMPILED.get_or_init(|| {
            let mut config = Config::new();
            config.concurrency_support(false);
            let engine = Engine::new(&config).unwrap();
            let component = Component::from_binary(&engine, BUNDLED).unwrap();
            let mut linker = Linker::new(&engine);
            lend(&mut linker).unwrap();
            linker.define_unknown_imports_as_traps(&component).unwrap();
            (engine, component, linker)
        });
        let lent = Lent { store: MemoryStore::default(), writer: Writer::new() };
        let mut store = wasmtime::Store::new(engine, lent);
        let instance = linker.instantiate(&mut store, component).unwrap();
        let lanes = instance.get_export_index(&mut store, None, "keepline:memory/lanes@0.3.0").unwrap();
        let mut function = |name| {
            let index = instance.get_export_index(&mut store, Some(&lanes), name).unwrap();
            instance.get_func(&mut store, index).unwrap()
        };
        let (question, answer) = (function("question"), function("answer"));
        Self { store, question, answer }
    }

    /// The turn that it gives.
    pub fn question(&mut self, text: &str, metadata: &str) -> String {
        let entry = record([
            ("text", string(text)),
            ("metadata", string(metadata)),
            ("message-id", none()),
            ("tokens", none()),
            ("vector", none()),
            ("extras", none()),
        ]);
        match self.call(self.question, entry, "turn") {
            Val::String(turn) => turn,
            other => panic!("{other:?}"),
        }
    }

    pub fn answer(&mut self, text: &str, metadata: &str, turn: &str, message_id: Option<&str>) {
        let entry = record([
            ("text", string(text)),
            ("metadata", string(metadata)),
            ("turn", string(turn)),
            ("message-id", Val::Option(message_id.map(|id| Box::new(string(id))))),
            ("question", record([("text", string("")), ("tokens", none())])),
            ("tools", Val::List(Vec::new())),
            ("status", none()),
            ("tokens", none()),
            ("details", none()),
            ("extras", none()),
        ]);
        assert_eq!(self.call(self.answer, entry, "extras"), none());
    }

    /// One field of the reply.
    fn call(&mut self, function: Func, entry: Val, field: &str) -> Val {
        let mut replies = [Val::Bool(false)];
        function.call(&mut self.store, &[entry], &mut replies).unwrap();
        let [Val::Record(fields)] = replies else { panic!("{replies:?}") };
        fields.into_iter().find(|(name, _)| name == field).unwrap().1
    }
}

fn record<const N: usize>(fields: [(&str, Val); N]) -> Val {
    Val::Record(fields.map(|(name, value)| (name.to_owned(), value)).into())
}

fn string(text: &str) -> Val {
    Val::String(text.to_owned())
}

fn none() -> Val {
    Val::Option(None)
}
