//! A host for components that import no more than this: a clock, logs, standard error, and `wasi:keyvalue` in memory.

use keepline::store::{Clock as _, KeyValue as _, KeyValueError, ManualClock};
use keepline_stores_tests::key_value::MemoryKeyValue;
use wasmtime::{
    Config, Engine, StoreContextMut,
    component::{Component, ComponentType, Lift, Linker, Lower, Resource, ResourceType},
};

/// What an instance is lent.
#[derive(Clone, Debug, Default)]
pub struct Host {
    pub clock: ManualClock,
    pub values: MemoryKeyValue,
    /// What has been written to standard error.
    pub stderr: Vec<u8>,
    /// What has been written to `wasi:logging`: context and message.
    pub logged: Vec<(String, String)>,
}

type Context<'a> = StoreContextMut<'a, Host>;

/// What the contract's clock returns.
#[derive(ComponentType, Lift, Lower)]
#[component(record)]
pub struct Datetime {
    pub seconds: u64,
    pub nanoseconds: u32,
}

/// What the contract's log is called with.
#[derive(Clone, Copy, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
pub enum Level {
    #[component(name = "trace")]
    Trace,
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
    #[component(name = "critical")]
    Critical,
}

/// An opened key-value store, of which there is one.
struct Opened;
struct OutputStream;
struct IoError;

#[derive(ComponentType, Lower)]
#[component(variant)]
enum StoreError {
    #[component(name = "no-such-store")]
    NoSuchStore,
    #[component(name = "access-denied")]
    AccessDenied,
    #[component(name = "other")]
    Other(String),
}

impl From<KeyValueError> for StoreError {
    fn from(error: KeyValueError) -> Self {
        match error {
            KeyValueError::NoSuchStore => Self::NoSuchStore,
            KeyValueError::AccessDenied => Self::AccessDenied,
            KeyValueError::Other => Self::Other("redis://user:password@a-host:6379 is gone".to_owned()),
        }
    }
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct KeyResponse {
    keys: Vec<String>,
    cursor: Option<u64>,
}

#[derive(ComponentType, Lower)]
#[component(variant)]
#[allow(dead_code, reason = "nothing fails")]
enum StreamError {
    #[component(name = "last-operation-failed")]
    LastOperationFailed(Resource<IoError>),
    #[component(name = "closed")]
    Closed,
}

/// A compiled component, ready for this host.
pub struct HostedComponent {
    pub engine: Engine,
    pub component: Component,
    pub linker: Linker<Host>,
}

impl HostedComponent {
    pub fn compile(bytes: &[u8]) -> Self {
        let mut config = Config::new();
        config.concurrency_support(false);
        let engine = Engine::new(&config).unwrap();
        let component = Component::from_binary(&engine, bytes).unwrap();
        let mut linker = Linker::new(&engine);
        add_clock_and_log(&mut linker);
        add_stderr(&mut linker);
        add_key_value(&mut linker);
        Self { engine, component, linker }
    }

    /// The names of all that it imports, but for interfaces that only have types.
    pub fn imports(&self) -> Vec<String> {
        let imports = self.component.component_type();
        let names = imports.imports(&self.engine).map(|(name, _)| name.to_owned());
        let types = ["keepline:common/shared", "keepline:store/types", "keepline:host/needs"];
        names.filter(|name| !types.iter().any(|types| name.starts_with(types))).collect()
    }
}

fn add_clock_and_log(linker: &mut Linker<Host>) {
    let mut clock = linker.instance("wasi:clocks/wall-clock@0.2.0").unwrap();
    let datetime = |seconds, nanoseconds| Ok((Datetime { seconds, nanoseconds },));
    let now = move |context: Context<'_>, ()| {
        let now = context.data().clock.now();
        datetime(now.as_secs(), now.subsec_nanos())
    };
    clock.func_wrap("now", now).unwrap();
    clock.func_wrap("resolution", move |_: Context<'_>, ()| datetime(0, 1_000_000)).unwrap();
    let mut log = linker.instance("keepline:host/log@0.3.0").unwrap();
    log.func_wrap("write", |_: Context<'_>, (_, _, _): (Level, String, String)| Ok(())).unwrap();
    let mut logging = linker.instance("wasi:logging/logging@0.1.0-draft").unwrap();
    let write = |mut context: Context<'_>, (_, topic, message): (Level, String, String)| {
        context.data_mut().logged.push((topic, message));
        Ok(())
    };
    logging.func_wrap("log", write).unwrap();
}

fn add_stderr(linker: &mut Linker<Host>) {
    let mut errors = linker.instance("wasi:io/error@0.2.0").unwrap();
    errors.resource("error", ResourceType::host::<IoError>(), |_, _| Ok(())).unwrap();
    let mut streams = linker.instance("wasi:io/streams@0.2.0").unwrap();
    streams.resource("output-stream", ResourceType::host::<OutputStream>(), |_, _| Ok(())).unwrap();
    let write = |mut context: Context<'_>, (_, bytes): (Resource<OutputStream>, Vec<u8>)| {
        assert!(bytes.len() <= 4096, "more than a stream takes at a time");
        context.data_mut().stderr.extend(bytes);
        Ok((Ok::<(), StreamError>(()),))
    };
    streams.func_wrap("[method]output-stream.blocking-write-and-flush", write).unwrap();
    let mut stderr = linker.instance("wasi:cli/stderr@0.2.0").unwrap();
    let get = |_: Context<'_>, ()| Ok((Resource::<OutputStream>::new_own(0),));
    stderr.func_wrap("get-stderr", get).unwrap();
}

fn told<T>(answer: Result<T, KeyValueError>) -> wasmtime::Result<(Result<T, StoreError>,)> {
    Ok((answer.map_err(StoreError::from),))
}

fn add_key_value(linker: &mut Linker<Host>) {
    type Bucket = Resource<Opened>;
    let mut store = linker.instance("wasi:keyvalue/store@0.2.0-draft").unwrap();
    store.resource("bucket", ResourceType::host::<Opened>(), |_, _| Ok(())).unwrap();
    let open = |_: Context<'_>, (identifier,): (String,)| {
        let is_known = identifier.is_empty();
        told(if is_known { Ok(Bucket::new_own(0)) } else { Err(KeyValueError::NoSuchStore) })
    };
    store.func_wrap("open", open).unwrap();
    let get = |context: Context<'_>, (_, key): (Bucket, String)| told(context.data().values.get(&key));
    store.func_wrap("[method]bucket.get", get).unwrap();
    let set = |context: Context<'_>, (_, key, value): (Bucket, String, Vec<u8>)| {
        told(context.data().values.set(&key, &value))
    };
    store.func_wrap("[method]bucket.set", set).unwrap();
    let list = |context: Context<'_>, (_, cursor): (Bucket, Option<u64>)| {
        told(context.data().values.list_keys(cursor).map(|(keys, cursor)| KeyResponse { keys, cursor }))
    };
    store.func_wrap("[method]bucket.list-keys", list).unwrap();
    let mut atomics = linker.instance("wasi:keyvalue/atomics@0.2.0-draft").unwrap();
    let increment =
        |context: Context<'_>, (_, key, by): (Bucket, String, u64)| told(context.data().values.increment(&key, by));
    atomics.func_wrap("increment", increment).unwrap();
    let mut batch = linker.instance("wasi:keyvalue/batch@0.2.0-draft").unwrap();
    let get_many = |context: Context<'_>, (_, keys): (Bucket, Vec<String>)| {
        let found = context.data().values.get_many(&keys);
        let named = |found: Vec<Option<Vec<u8>>>| keys.into_iter().zip(found).map(|(key, value)| Some((key, value?)));
        told(found.map(|found| named(found).collect::<Vec<_>>()))
    };
    batch.func_wrap("get-many", get_many).unwrap();
    let set_many = |context: Context<'_>, (_, values): (Bucket, Vec<(String, Vec<u8>)>)| {
        told(context.data().values.set_many(&values))
    };
    batch.func_wrap("set-many", set_many).unwrap();
    let delete_many =
        |context: Context<'_>, (_, keys): (Bucket, Vec<String>)| told(context.data().values.delete_many(&keys));
    batch.func_wrap("delete-many", delete_many).unwrap();
}
