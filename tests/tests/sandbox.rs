//! A plugin that nobody trusts: what it does, it does to itself. Each misdeed is stopped within its limit
//! and reported in one line, its entry goes on unchanged, and the next one is served.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use keepline::{
    CodeCache, Keepline, KeeplineError, OnStoreError, Options, Passed, Plugin, PluginError, Sandbox,
    lend::LogLevel,
    pipe::Effect,
    plugin::{BUNDLED, inspect},
    store::{
        BucketPage, Deadline, Deletion, Description, Failure, MemoryLimits, MemoryStore, NewLife, Opening, Receipt,
        RedisOptions, RedisStore, Store, StoreCapabilities, Transaction, Writer,
    },
};
use keepline_tests::{
    guests::{HOSTILE, core_guest},
    watch::{KeptLog, in_own_process, peak_bytes, resident_bytes},
};
use tokio::time::timeout;

/// More than any of this takes, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);
/// Metadata that must come back as they are: by not coming back.
const METADATA: &str = r#"{"a":1}"#;

fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::default();
    sandbox.cpu_time = Duration::from_millis(200);
    sandbox.cache = CodeCache::At(Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled"));
    sandbox
}

/// What a plugin does is stopped by the sandbox alone.
fn patient() -> Options {
    let mut options = Options::default();
    options.entry_timeout = PATIENCE;
    options
}

/// A plugin at work, and what it logs.
struct Cell {
    keepline: Keepline,
    log: Arc<KeptLog>,
    store: Arc<MemoryStore>,
}

impl Cell {
    async fn of(component: &[u8], sandbox: &Sandbox) -> Self {
        Self::with(component, sandbox, |_| {}).await.unwrap()
    }

    async fn hostile() -> Self {
        Self::of(HOSTILE, &sandbox()).await
    }

    async fn with(
        component: &[u8],
        sandbox: &Sandbox,
        change: impl FnOnce(&mut Options),
    ) -> Result<Self, KeeplineError> {
        let plugin = Plugin::from_bytes(component, sandbox).unwrap();
        let (log, store) = (Arc::new(KeptLog::default()), Arc::new(MemoryStore::new(MemoryLimits::default())));
        let mut options = patient();
        options.log = log.clone();
        change(&mut options);
        let keepline = timeout(PATIENCE, Keepline::new(plugin, store.clone(), options)).await.unwrap()?;
        Ok(Self { keepline, log, store })
    }

    async fn ask(&self, text: &str) -> Passed {
        timeout(PATIENCE, self.keepline.pipe().question(text, METADATA)).await.unwrap().unwrap()
    }

    /// What the plugin tells in its reply's metadata.
    async fn told(&self, text: &str) -> String {
        let passed = self.ask(text).await;
        passed.metadata.unwrap_or_else(|| panic!("{text}: {:?}", passed.problem))
    }

    /// The misdeed is stopped for that reason, and nothing else happens to anybody.
    async fn stops(&self, misdeed: &str, reason: &str) {
        let (mut pipe, mut other) = (self.keepline.pipe(), self.keepline.pipe());
        let before = (self.keepline.counters(), self.log.of("keepline.plugin").len());
        assert_eq!(pipe.question("nothing", METADATA).await.unwrap().effect, Effect::Passed);

        let passed = timeout(PATIENCE, pipe.question(misdeed, METADATA)).await.unwrap().unwrap();
        let problem = passed.problem.unwrap();
        assert_eq!((passed.metadata, passed.effect, passed.attached), (None, Effect::Failed, 0), "{misdeed}");
        assert_eq!(problem.code, "plugin");
        assert!(problem.message.contains(reason), "{misdeed}: {}", problem.message);
        assert!(problem.message.len() < 300 && !problem.message.contains('\n'), "{:?}", problem.message);

        let lines = self.log.of("keepline.plugin").split_off(before.1);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!((lines[0].level, &lines[0].message), (LogLevel::Error, &problem.message));
        let after = self.keepline.counters();
        assert_eq!((after.faults - before.0.faults, after.failed - before.0.failed), (1, 1));

        for pipe in [&mut pipe, &mut other] {
            assert_eq!(pipe.question("nothing", METADATA).await.unwrap().effect, Effect::Passed);
            assert_eq!(pipe.answer("nothing", METADATA).await.unwrap().effect, Effect::Passed);
        }
    }
}

// Time. ----------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_plugin_that_loops_for_ever_is_stopped() {
    Cell::hostile().await.stops("loop", "computed for longer than 200 ms").await;
}

#[tokio::test]
async fn calls_of_the_host_do_not_buy_a_loop_more_time() {
    let cell = Cell::hostile().await;
    cell.stops("loop-over-clock", "computed for longer").await;
    cell.stops("loop-over-capabilities", "computed for longer").await;
}

/// The entry's time is over: what is left is for the reply, however much the plugin might compute otherwise.
#[tokio::test]
async fn a_plugin_has_little_time_left_when_its_entrys_is_over() {
    let mut sandbox = sandbox();
    sandbox.cpu_time = PATIENCE * 2;
    let short = |options: &mut Options| options.entry_timeout = Duration::from_millis(20);
    let cell = Cell::with(HOSTILE, &sandbox, short).await.unwrap();
    for misdeed in ["loop", "loop-over-clock", "loop-over-capabilities"] {
        cell.stops(misdeed, "went on computing for 250 ms after its entry's deadline").await;
    }
}

/// On one thread: the loop has to make way.
#[tokio::test(flavor = "current_thread")]
async fn other_pipes_are_served_while_a_plugin_loops() {
    let cell = Cell::hostile().await;
    let (mut looping, mut other) = (cell.keepline.pipe(), cell.keepline.pipe());
    let finished = AtomicUsize::new(0);
    let (stopped_at, served_at) = tokio::join!(
        async {
            looping.question("loop", METADATA).await.unwrap();
            finished.fetch_add(1, Ordering::Relaxed)
        },
        async {
            for _ in 0..5 {
                assert_eq!(other.question("nothing", METADATA).await.unwrap().effect, Effect::Passed);
                tokio::task::yield_now().await;
            }
            finished.fetch_add(1, Ordering::Relaxed)
        }
    );
    assert_eq!((served_at, stopped_at), (0, 1));
}

#[tokio::test]
async fn waiting_for_a_slow_store_is_not_computing() {
    let sandbox = sandbox();
    let plugin = Plugin::from_bytes(HOSTILE, &sandbox).unwrap();
    let store = Slow { inner: MemoryStore::new(MemoryLimits::default()), delay: sandbox.cpu_time * 3 };
    let keepline = Keepline::new(plugin, Arc::new(store), patient()).await.unwrap();
    assert_eq!(keepline.pipe().question("store 2", METADATA).await.unwrap().effect, Effect::Passed);
    // Each part is within the limit, all together are not.
    let each = sandbox.cpu_time.as_millis() * 2 / 3;
    let passed = keepline.pipe().question(&format!("store-and-compute {each}"), METADATA).await.unwrap();
    assert_eq!(passed.effect, Effect::Passed, "{:?}", passed.problem);
}

#[tokio::test]
async fn a_plugin_that_loops_while_it_starts_is_no_plugin() {
    let start = core_guest(2, "i32.const 0", "(func $start (loop (br 0))) (start $start)");
    let refused = Cell::with(&start, &sandbox(), |_| {}).await.err().unwrap();
    assert!(matches!(&refused, KeeplineError::Plugin(why) if why.contains("computed for longer")), "{refused}");
    for (misdeed, reason) in [("loop", "computed for longer"), ("trap", "gave up"), ("recurse", "trap")] {
        let configure = |options: &mut Options| options.filter = format!("misdeed: {misdeed}");
        let refused = Cell::with(HOSTILE, &sandbox(), configure).await.err().unwrap();
        assert!(matches!(&refused, KeeplineError::Plugin(why) if why.contains(reason)), "{refused}");
    }
}

#[tokio::test]
async fn options_that_the_plugin_refuses_are_an_error_with_the_field() {
    let refused = Cell::with(HOSTILE, &sandbox(), |options| options.filter = "refuse".into()).await.err().unwrap();
    assert!(matches!(&refused, KeeplineError::Config { field, .. } if field == "field"), "{refused:?}");
}

// Memory. --------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_plugin_that_allocates_without_end_is_stopped() {
    let mut sandbox = sandbox();
    sandbox.cpu_time = Duration::from_secs(20);
    let cell = Cell::of(HOSTILE, &sandbox).await;
    cell.stops("allocate", "gave up").await;
}

#[tokio::test]
async fn a_plugin_that_grows_its_memory_without_end_is_stopped() {
    Cell::hostile().await.stops("grow-memory", "computed for longer").await;
}

/// How far it got is told in the reply's `attached`, at address 24.
fn grows(what: &str, more: &str) -> Vec<u8> {
    let body = format!(
        "(loop $more (br_if $more (i32.ge_s ({what}.grow) (i32.const 0))))
         (i32.store (i32.const 24) ({what}.size))
         i32.const 0"
    );
    let body = body.replace("(memory.grow)", "(memory.grow (i32.const 1))");
    let body = body.replace("(table.grow)", "(table.grow $table (ref.null func) (i32.const 10))");
    core_guest(2, &body.replace("(table.size)", "(table.size $table)"), more)
}

#[tokio::test]
async fn memory_and_tables_end_where_the_sandbox_says() {
    for (memory_bytes, pages) in [(64 << 20, 1024), (1 << 20, 16)] {
        let mut sandbox = sandbox();
        sandbox.memory_bytes = memory_bytes;
        assert_eq!(Cell::of(&grows("memory", ""), &sandbox).await.ask("").await.attached, pages);
    }
    for table_elements in [10_000, 500] {
        let mut sandbox = sandbox();
        sandbox.table_elements = table_elements;
        let table = grows("table", "(table $table 10 funcref)");
        assert_eq!(Cell::of(&table, &sandbox).await.ask("").await.attached as usize, table_elements);
    }
}

#[tokio::test]
async fn a_plugin_that_begins_with_too_much_is_no_plugin() {
    for component in [
        core_guest(2000, "i32.const 0", ""),
        core_guest(65536, "i32.const 0", ""),
        core_guest(2, "i32.const 0", "(table 1000000 funcref)"),
    ] {
        let refused = Cell::with(&component, &sandbox(), |_| {}).await.err().unwrap();
        assert!(matches!(refused, KeeplineError::Plugin(_)), "{refused:?}");
    }
}

#[tokio::test]
async fn memories_that_can_be_shared_or_are_64_bits_wide_are_refused() {
    for memory in ["(memory 1 2 shared)", "(memory i64 1)", "(memory 1) (memory 1)"] {
        let component = wat::parse_str(format!("(component (core module {memory}))")).unwrap();
        let refused = Plugin::from_bytes(&component, &sandbox()).unwrap_err();
        assert!(matches!(refused, PluginError::NotAComponent(_)), "{memory}: {refused}");
    }
}

#[tokio::test]
async fn a_plugin_that_recurses_without_end_is_stopped() {
    Cell::hostile().await.stops("recurse", "").await;
    let recursing = core_guest(
        2,
        "(if (i32.eqz (local.get 1)) (then (return (i32.const 0)))) call $r i32.const 0",
        "(func $r (call $r))",
    );
    Cell::of(&recursing, &sandbox()).await.stops_core("it overflowed its stack").await;
}

impl Cell {
    /// As `stops`, of a core guest that does harm whenever a question has a text.
    async fn stops_core(&self, reason: &str) {
        let passed = self.ask("x").await;
        let problem = passed.problem.unwrap();
        assert_eq!((passed.metadata, passed.effect, &*problem.code), (None, Effect::Failed, "plugin"));
        assert!(problem.message.contains(reason), "{}", problem.message);
        assert_eq!(self.log.of("keepline.plugin").len(), 1);
        assert_eq!(self.ask("").await.effect, Effect::Passed);
    }
}

#[test]
fn the_host_does_not_grow_with_the_number_of_misdeeds() {
    in_own_process("the_host_does_not_grow_with_the_number_of_misdeeds", || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut sandbox = sandbox();
            (sandbox.cpu_time, sandbox.memory_bytes) = (Duration::from_secs(20), 16 << 20);
            sandbox.copy_bytes = 8 << 20;
            let cell = Cell::of(HOSTILE, &sandbox).await;
            let misdeeds = [
                "trap",
                "recurse",
                "allocate",
                "reply 10000000",
                "log-long-line 10000000",
                "operations 20000",
                "turn x",
            ];
            let mut after_warming_up = 0;
            for round in 0..60 {
                for misdeed in misdeeds {
                    cell.ask(misdeed).await;
                }
                if round == 15 {
                    after_warming_up = resident_bytes();
                }
            }
            let grown = resident_bytes().saturating_sub(after_warming_up);
            assert!(grown < 24 << 20, "{grown} bytes more");
        });
    });
}

/// What an instance may hold and copy, some more of it while it is at work, and nothing of it afterwards: however
/// little it takes to ask for much.
#[test]
fn no_misdeed_takes_more_of_the_host_than_the_sandbox_allows() {
    in_own_process("no_misdeed_takes_more_of_the_host_than_the_sandbox_allows", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut sandbox = sandbox();
            (sandbox.cpu_time, sandbox.memory_bytes, sandbox.copy_bytes) = (Duration::from_secs(20), 32 << 20, 8 << 20);
            let cell = Cell::of(HOSTILE, &sandbox).await;
            let mut sessions = cell.keepline.sessions();
            cell.ask("nothing").await;
            let before = resident_bytes();
            for misdeed in [
                "get-again 10000",
                "get-again 31",
                "get-all-again 8",
                "get-all-again 10000",
                "keys-again 10000",
                "read-again 8",
                "read-again 10000",
                "turn-of 7000000",
                "turn-of 20000000",
                "problem 7000000",
                "problem 20000000",
                "reply 7000000",
                "reply 30000000",
                "log-long-line 7000000",
                "operations 10000",
                "operations 200000",
                "records 1000000",
                "big-value 7000000",
                "allocate",
            ] {
                let passed = cell.ask(misdeed).await;
                let problem = passed.problem.map(|problem| (problem.code, problem.message)).unwrap_or_default();
                assert!(problem.0.len() <= 300 && problem.1.len() <= 5000, "{misdeed}");
                let peak = peak_bytes().saturating_sub(before) >> 20;
                println!(
                    "{misdeed}: {peak} MiB; {:?} {}",
                    passed.effect,
                    problem.1.chars().take(80).collect::<String>()
                );
                assert!(peak < 160, "{misdeed}: {peak} MiB");
            }
            for number in [100_000, 1_000_000, u32::MAX] {
                let _ = sessions.list("", number).await;
                let _ = sessions.history("x", None, number).await;
                let peak = peak_bytes().saturating_sub(before) >> 20;
                println!("lists of {number}: {peak} MiB");
                assert!(peak < 160, "lists of {number}: {peak} MiB");
            }
            cell.store.delete_bucket(Writer::new().advance(), "again", Deadline::NEVER).await.unwrap();
            for bucket in ["many", "big"] {
                cell.store.delete_bucket(Writer::new().advance(), bucket, Deadline::NEVER).await.unwrap();
            }
            let after = resident_bytes().saturating_sub(before) >> 20;
            assert!(after < 64, "{after} MiB stay");
        });
    });
}

// Traps and replies. ---------------------------------------------------------------------------------

#[tokio::test]
async fn a_plugin_that_traps_is_stopped() {
    let cell = Cell::hostile().await;
    cell.stops("trap", "it gave up (unreachable code)").await;
    cell.stops("panic", "it gave up (unreachable code)").await;
}

#[tokio::test]
async fn a_misdeed_is_an_error_for_who_wants_errors() {
    let fail = |options: &mut Options| options.on_store_error = OnStoreError::Fail;
    let cell = Cell::with(HOSTILE, &sandbox(), fail).await.unwrap();
    let mut pipe = cell.keepline.pipe();
    for misdeed in ["trap", "loop"] {
        let error = pipe.question(misdeed, METADATA).await.unwrap_err();
        assert_eq!(error.code, "plugin");
        assert!(error.message.starts_with("the plugin was stopped: "), "{error}");
        let error = pipe.answer(misdeed, METADATA).await.unwrap_err();
        assert_eq!(error.code, "plugin");
        assert_eq!(pipe.question("nothing", METADATA).await.unwrap().effect, Effect::Passed);
    }
}

#[tokio::test]
async fn a_misdeed_in_a_call_on_sessions_is_an_error_of_that_call_alone() {
    let cell = Cell::hostile().await;
    let mut sessions = cell.keepline.sessions();
    let error = sessions.create("trap").await.unwrap_err();
    assert_eq!(error.code, None);
    assert!(error.message.contains("gave up"), "{error}");
    assert!(sessions.create("nothing").await.unwrap_err().code.is_some());
}

#[tokio::test]
async fn an_absurdly_large_reply_is_refused() {
    let mut sandbox = sandbox();
    sandbox.cpu_time = Duration::from_secs(20);
    let cell = Cell::of(HOSTILE, &sandbox).await;
    cell.stops("reply 50000000", "").await;
    cell.stops("reply 500000000", "").await;
    assert_eq!(cell.told("reply 1000000").await.len(), 1_000_000);
}

#[tokio::test]
async fn a_reply_that_is_no_reply_is_refused() {
    let reply = |fields: &str| {
        let harmless = "(if (i32.eqz (local.get 1)) (then (return (i32.const 0))))";
        core_guest(2, &format!("{harmless} {fields} i32.const 1024"), "")
    };
    let store = |offset: u32, value: i64| format!("(i32.store (i32.const {}) (i32.const {value}))", 1024 + offset);
    let string = |length: i64| store(0, 1) + &store(4, 2048) + &store(8, length);
    for (what, fields) in [
        ("an address out of the memory", store(12, 0x7000_0000) + &store(16, 1)),
        ("a length out of the memory", store(12, 2048) + &store(16, 0x7fff_ffff)),
        ("metadata as long as the address space", string(0xffff_ffff)),
        ("an effect that is none", store(20, 99)),
        ("neither some nor none", store(0, 77)),
        ("text that is not UTF-8", string(2) + "(i32.store16 (i32.const 2048) (i32.const 0xffff))"),
    ] {
        println!("{what}");
        Cell::of(&reply(&fields), &sandbox()).await.stops_core("").await;
    }
    let nowhere = core_guest(2, "(if (i32.eqz (local.get 1)) (then (return (i32.const 0)))) i32.const -8", "");
    Cell::of(&nowhere, &sandbox()).await.stops_core("").await;
}

#[tokio::test]
async fn whatever_a_plugin_takes_for_a_turn_is_handed_back_as_it_is() {
    let cell = Cell::hostile().await;
    for turn in ["{\"session\":", "\u{0}\u{1b}[2J", "", &"é".repeat(32_768)] {
        let mut pipe = cell.keepline.pipe();
        pipe.question(&format!("turn {turn}"), METADATA).await.unwrap();
        let answer = pipe.answer("nothing", METADATA).await.unwrap();
        assert_eq!(answer.metadata.as_deref(), Some(turn));
        pipe.open();
        assert_eq!(pipe.answer("nothing", METADATA).await.unwrap().metadata.as_deref(), Some(""));
    }
}

/// It would be kept as long as the pipe.
#[tokio::test]
async fn a_turn_that_is_no_turn_but_a_store_of_its_own_is_refused() {
    let cell = Cell::hostile().await;
    assert_eq!(cell.ask("turn-of 65536").await.effect, Effect::Passed);
    cell.stops("turn-of 65537", "its turn state is over 65536 bytes").await;
}

#[tokio::test]
async fn what_a_plugin_tells_people_is_short_and_harmless() {
    let is_tame = |text: &str| text.len() <= 20_500 && !text.contains(|c: char| c.is_control());
    let cell = Cell::hostile().await;
    for length in ["5", "1000000"] {
        let passed = cell.ask(&format!("problem {length}")).await;
        let problem = passed.problem.unwrap();
        assert_eq!(passed.effect, Effect::Failed);
        assert!(is_tame(&problem.code) && is_tame(&problem.message), "{}", problem.message.len());
        let error = cell.keepline.sessions().create(&format!("problem {length}")).await.unwrap_err();
        assert!(is_tame(&error.message), "{}", error.message.len());
        let refuses = |options: &mut Options| options.filter = format!("refuse at length {length}");
        let refused = Cell::with(HOSTILE, &sandbox(), refuses).await.err().unwrap();
        let KeeplineError::Config { field, message } = refused else { panic!("{refused}") };
        assert!(is_tame(&field) && is_tame(&message), "{}", message.len());
    }
}

#[tokio::test]
async fn an_instance_is_replaced_when_it_has_served_its_time() {
    for calls in [1, 3] {
        let mut sandbox = sandbox();
        sandbox.calls_per_instance = calls;
        let cell = Cell::of(HOSTILE, &sandbox).await;
        for entry in 0..7 {
            assert_eq!(cell.told("served").await, (entry % calls + 1).to_string());
        }
    }
}

#[tokio::test]
async fn an_instance_that_was_stopped_is_never_used_again() {
    let cell = Cell::hostile().await;
    assert_eq!(cell.told("served").await, "1");
    assert_eq!(cell.told("served").await, "2");
    cell.ask("trap").await;
    assert_eq!(cell.told("served").await, "1");
}

#[tokio::test]
async fn an_entry_that_is_dropped_half_way_takes_its_instance_with_it() {
    // It is the caller who gives up, however busy the machine is.
    let mut sandbox = sandbox();
    sandbox.cpu_time = PATIENCE;
    let cell = Cell::of(HOSTILE, &sandbox).await;
    let mut pipe = cell.keepline.pipe();
    assert_eq!(cell.told("served").await, "1");
    assert!(timeout(Duration::from_millis(30), pipe.question("loop", METADATA)).await.is_err());
    assert_eq!(pipe.question("served", METADATA).await.unwrap().metadata.as_deref(), Some("1"));
}

/// Linear memory never shrinks: what one large entry took would be held as long as the instance lives.
#[tokio::test]
async fn an_instance_that_has_grown_far_beyond_its_start_is_not_kept() {
    let cell = Cell::hostile().await;
    for (entry, calls) in [("served", "1"), ("reply 100000", ""), ("served", "3"), ("reply 10000000", "")] {
        let told = cell.told(entry).await;
        assert!(calls.is_empty() || told == calls, "{entry}: {told}");
    }
    assert_eq!(cell.told("served").await, "1");
}

// The log. -------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_plugin_that_floods_the_log_is_cut_short() {
    let cell = Cell::hostile().await;
    cell.ask("log-lines 1000000").await;
    assert_eq!(cell.log.of("flood").len(), 64);
    let before = cell.log.lines().len();
    cell.ask("log-warnings 100000").await;
    assert!(cell.log.lines().len() - before <= 64 + 1);
    cell.stops("loop-over-log", "computed for longer").await;
    assert!(cell.log.of("loop").len() <= 64);
}

#[tokio::test]
async fn no_chatter_keeps_the_host_from_reporting_what_it_stopped() {
    let cell = Cell::hostile().await;
    cell.ask("log-errors keepline.plugin").await;
    cell.ask("log-warnings 64").await;
    cell.ask("log-errors ").await;
    cell.stops("trap", "gave up").await;
}

#[tokio::test]
async fn a_gigantic_line_is_cut_and_a_larger_one_stops_its_plugin() {
    let mut sandbox = sandbox();
    sandbox.cpu_time = Duration::from_secs(20);
    let cell = Cell::of(HOSTILE, &sandbox).await;
    assert_eq!(cell.ask("log-long-line 10000000").await.effect, Effect::Passed);
    assert!(cell.log.of("long")[0].message.len() <= 4096);
    cell.stops("log-long-line 50000000", "").await;
}

#[tokio::test]
async fn a_plugin_can_not_drive_a_terminal_through_the_log() {
    let cell = Cell::hostile().await;
    cell.ask("log-raw \u{1b}[2J\nfake line\r\u{7}\u{9b}x").await;
    let lines = cell.log.lines();
    assert_eq!(lines.len(), 1);
    assert!(!lines[0].message.chars().any(char::is_control) && !lines[0].context.chars().any(char::is_control));
}

// The store. -----------------------------------------------------------------------------------------

#[tokio::test]
async fn a_plugin_that_calls_the_store_for_ever_is_stopped() {
    let cell = Cell::hostile().await;
    cell.stops("store-for-ever", "called the store more than 64 times").await;
    assert_eq!(cell.ask("store 64").await.effect, Effect::Passed);
    cell.stops("store 65", "called the store more than 64 times").await;
}

#[tokio::test]
async fn a_transaction_of_a_million_operations_changes_nothing() {
    let mut sandbox = sandbox();
    sandbox.cpu_time = Duration::from_secs(20);
    let cell = Cell::of(HOSTILE, &sandbox).await;
    for count in [10_001, 100_000, 1_000_000] {
        let passed = cell.ask(&format!("operations {count}")).await;
        let told = passed.metadata.or(passed.problem.map(|problem| problem.message)).unwrap();
        assert!(told.contains("Invalid") || told.contains("stopped"), "{told}");
        assert_eq!(cell.store.list_buckets("", 10, Deadline::NEVER).await.unwrap().buckets, [""; 0]);
    }
    assert_eq!(cell.told("operations 10000").await, "done");
}

#[tokio::test]
async fn a_million_records_are_stored_in_full_or_not_at_all() {
    let mut sandbox = sandbox();
    sandbox.cpu_time = Duration::from_secs(20);
    let cell = Cell::of(HOSTILE, &sandbox).await;
    let passed = cell.ask("records 1000000").await;
    let stored = cell.store.describe_bucket("many", Deadline::NEVER).await.unwrap().logs.first().map(|log| log.length);
    match passed.effect {
        Effect::Failed => assert_eq!(stored, None),
        _ => assert_eq!(stored, Some(1_000_000)),
    }
    assert_eq!(cell.told("big-value 1000000").await, "done");
    cell.stops("big-value 50000000", "").await;
}

#[tokio::test]
async fn names_that_would_reach_beyond_a_bucket_are_refused() {
    let plugin = Plugin::from_bytes(HOSTILE, &sandbox()).unwrap();
    let mut options = RedisOptions::default();
    // Nobody is there: a name is refused before anything is sent.
    (options.host, options.port) = ("127.0.0.1".into(), 1);
    let stores: [Arc<dyn Store>; 2] =
        [Arc::new(MemoryStore::new(MemoryLimits::default())), Arc::new(RedisStore::new(options).unwrap())];
    for store in stores {
        let mut options = Options::default();
        options.log = Arc::new(KeptLog::default());
        let keepline = Keepline::new(plugin.clone(), store, options).await.unwrap();
        let mut pipe = keepline.pipe();
        let long = "x".repeat(1000);
        let buckets = ["", "a:b", "a\nb", "a\n", "*", "a b", "..", "a/b", "é", "a\u{0}", "{a}", &long];
        let keys = ["", "a:b", "a\nb", "*", "__keys__", "__meta__", "__writers__", "__history__", "__x__", "é", &long];
        let logs = ["", "keys", "meta", "writers", "sessions", "History", "a:b", "a\n", "_history__", &long];
        let all =
            [("bucket", &buckets[..]), ("delete", &buckets), ("describe", &buckets), ("key", &keys), ("log", &logs)];
        for (deed, names) in all {
            for name in names {
                let passed = pipe.question(&format!("{deed} {name}"), METADATA).await.unwrap();
                let told = passed.metadata.unwrap();
                assert!(told.starts_with("FailureCode::Invalid"), "{deed} {name:?}: {told}");
                assert!(told.len() < 600);
            }
        }
    }
}

/// Else a value that was stored once and read ten thousand times would be in the host's memory as often.
#[tokio::test]
async fn reading_again_and_again_brings_no_more_than_an_instance_can_hold() {
    let mut sandbox = sandbox();
    sandbox.cpu_time = Duration::from_secs(20);
    let cell = Cell::of(HOSTILE, &sandbox).await;
    for read in ["get-again 10000", "get-again 1", "get-all-again 8", "keys-again 8", "read-again 8"] {
        assert_eq!(cell.told(read).await, "done", "{read}");
    }
    for read in ["get-all-again 9", "keys-again 9", "read-again 9"] {
        cell.stops(read, "asked for more than 8 lists of keys and ranges of logs").await;
    }
}

#[tokio::test]
async fn a_page_of_buckets_has_an_end() {
    let mut sandbox = sandbox();
    sandbox.cpu_time = Duration::from_secs(20);
    let limits = MemoryLimits { max_sessions: 100_000, ..MemoryLimits::default() };
    let store = Arc::new(MemoryStore::new(limits));
    let mut writer = Writer::new();
    for number in 0..20_000 {
        let opening = Opening::Create(NewLife { time_to_live: None });
        let (expectations, operations) = (Vec::new(), Vec::new());
        let transaction = Transaction { bucket: format!("s{number}"), opening, expectations, operations };
        store.transact(writer.advance(), &transaction, Deadline::NEVER).await.unwrap();
    }
    let plugin = Plugin::from_bytes(HOSTILE, &sandbox).unwrap();
    let keepline = Keepline::new(plugin, store, patient()).await.unwrap();
    let passed = keepline.pipe().question("count", METADATA).await.unwrap();
    let counted: usize = passed.metadata.unwrap().parse().unwrap();
    assert!((1..=11_000).contains(&counted), "{counted}");
}

#[tokio::test]
async fn a_cursor_that_is_none_does_no_harm() {
    let cell = Cell::hostile().await;
    for cursor in ["", "-1", "99999999999999999999", "*\n", "é"] {
        cell.told(&format!("list {cursor}")).await;
    }
}

// What is no plugin. ---------------------------------------------------------------------------------

#[test]
fn a_component_that_asks_for_more_than_it_is_lent_is_refused_with_the_list() {
    let forbidden = [
        "wasi:sockets/tcp@0.2.0",
        "wasi:filesystem/types@0.2.3",
        "wasi:cli/environment@0.2.0",
        "wasi:clocks/monotonic-clock@0.2.0",
        "wasi:clocks/wall-clock@0.3.0",
        "wasi:clocks/wall-clock@0.20.0",
        "wasi:clocks/wall-clock",
        "wasi:logging/logging@0.2.0",
        "keepline:memory/key-value@0.2.0",
        "keepline:memory/key-valuer@0.1.0",
    ];
    let imports = forbidden.map(|name| format!("(import \"{name}\" (instance))")).concat();
    // What it may have is not in the list.
    let lent = "(import \"keepline:memory/key-value@0.1.0\" (instance))";
    let component = wat::parse_str(format!("(component {lent} {imports} (import \"exec\" (func)))")).unwrap();
    let refused = Plugin::from_bytes(&component, &sandbox()).unwrap_err();
    let PluginError::ForbiddenImports(listed) = &refused else { panic!("{refused}") };
    assert_eq!(listed[..10], forbidden);
    assert_eq!(listed[10..], ["exec"]);
    let told = refused.to_string();
    assert!(told.contains("wasi:sockets/tcp@0.2.0") && !told.contains('\n'), "{told}");
    let inspection = inspect(&component).unwrap();
    assert_eq!(inspection.refusal, Some(told));
    assert_eq!(inspection.imports.len(), 12);
}

#[test]
fn an_interface_of_a_permitted_name_with_other_functions_is_refused() {
    for import in [
        "(import \"wasi:clocks/wall-clock@0.2.0\" (instance (export \"set\" (func))))",
        "(import \"keepline:memory/key-value@0.1.0\" (instance (export \"shell\" (func (param \"line\" string)))))",
        "(import \"keepline:memory/key-value@0.1.0\" (func))",
    ] {
        let component = wat::parse_str(format!("(component {import})")).unwrap();
        let refused = Plugin::from_bytes(&component, &sandbox()).unwrap_err();
        assert!(matches!(refused, PluginError::Misfit(_)), "{refused}");
    }
}

#[test]
fn a_component_without_the_exports_does_not_fit() {
    for component in ["(component)", "(component (import \"wasi:clocks/wall-clock@0.2.8\" (instance)))"] {
        let refused = Plugin::from_bytes(&wat::parse_str(component).unwrap(), &sandbox()).unwrap_err();
        assert!(matches!(refused, PluginError::Misfit(_)), "{refused}");
        assert!(refused.to_string().contains("keepline:memory/filter"), "{refused}");
    }
}

#[test]
fn what_is_no_component_is_told_apart() {
    let module = wat::parse_str("(module (memory 1))").unwrap();
    let text = b"(component)".to_vec();
    let noise: Vec<u8> = b"\0asm".iter().copied().chain((0..1000).map(|_| fastrand::u8(..))).collect();
    for bytes in [module, text, noise, Vec::new(), b"\0asm".to_vec(), HOSTILE[..HOSTILE.len() - 1].to_vec()] {
        let refused = Plugin::from_bytes(&bytes, &sandbox()).unwrap_err();
        assert!(matches!(refused, PluginError::NotAComponent(_)), "{refused}");
        assert!(inspect(&bytes).is_err());
    }
    let missing = Plugin::from_file("/nonexistent/plugin.wasm", &sandbox()).unwrap_err();
    assert!(matches!(missing, PluginError::Read { .. }), "{missing}");
}

#[tokio::test]
async fn a_damaged_component_is_refused_or_served_but_never_ends_the_host() {
    let mut sandbox = sandbox();
    sandbox.cache = CodeCache::Off;
    let sound = core_guest(2, "i32.const 0", "");
    let mut random = fastrand::Rng::with_seed(7);
    let mut refused = 0;
    for _ in 0..150 {
        let mut damaged = sound.clone();
        match random.bool() {
            true => damaged.truncate(random.usize(..sound.len())),
            false => damaged[random.usize(8..sound.len())] ^= 1 << random.u8(..8),
        }
        match Plugin::from_bytes(&damaged, &sandbox) {
            Ok(plugin) => {
                let mut options = Options::default();
                options.log = Arc::new(KeptLog::default());
                let store = Arc::new(MemoryStore::new(MemoryLimits::default()));
                if let Ok(keepline) = Keepline::new(plugin, store, options).await {
                    keepline.pipe().question("x", METADATA).await.unwrap();
                }
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 75);
}

// Compiled code. -------------------------------------------------------------------------------------

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut ahead = vec![directory.to_owned()];
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { ahead.push(path) } else { found.push(path) }
        }
    }
    found
}

async fn serves(sandbox: &Sandbox) {
    let plugin = Plugin::from_bytes(BUNDLED, sandbox).unwrap();
    let store = Arc::new(MemoryStore::new(MemoryLimits::default()));
    let keepline = Keepline::new(plugin, store, Options::default()).await.unwrap();
    let passed = keepline.pipe().question("?", r#"{"session_id":"s1"}"#).await.unwrap();
    assert_eq!(passed.effect, Effect::Resumed);
}

#[tokio::test]
async fn compiled_code_is_kept_where_it_is_asked_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let mut sandbox = sandbox();
    sandbox.cache = CodeCache::At(directory.path().to_owned());
    serves(&sandbox).await;
    // Code, without what wasmtime writes about its use, in its own time.
    let code = || {
        let mut code = files(directory.path());
        code.retain(|file| file.extension().is_none());
        code
    };
    let kept = code();
    assert!(!kept.is_empty());
    serves(&sandbox).await;
    assert_eq!(code(), kept);
    sandbox.cache = CodeCache::Off;
    serves(&sandbox).await;
}

#[test]
fn a_damaged_cache_of_compiled_code_is_survived() {
    in_own_process("a_damaged_cache_of_compiled_code_is_survived", || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let directory = tempfile::tempdir().unwrap();
            let mut sandbox = sandbox();
            sandbox.cache = CodeCache::At(directory.path().to_owned());
            serves(&sandbox).await;
            let damages: [fn(&mut Vec<u8>); 4] = [
                |bytes| bytes.clear(),
                |bytes| bytes.truncate(bytes.len() / 2),
                |bytes| bytes.iter_mut().for_each(|byte| *byte = fastrand::u8(..)),
                |bytes| bytes.extend_from_within(..),
            ];
            for damage in damages {
                for file in files(directory.path()) {
                    let mut bytes = fs::read(&file).unwrap();
                    damage(&mut bytes);
                    fs::write(&file, bytes).unwrap();
                }
                serves(&sandbox).await;
            }
            // A place where nothing can be kept.
            let file = directory.path().join("file");
            fs::write(&file, "").unwrap();
            sandbox.cache = CodeCache::At(file);
            serves(&sandbox).await;
        });
    });
}

// A store that takes its time. -----------------------------------------------------------------------

#[derive(Debug)]
struct Slow {
    inner: MemoryStore,
    delay: Duration,
}

#[async_trait]
impl Store for Slow {
    async fn transact(
        &self,
        writer: &Writer,
        transaction: &Transaction,
        deadline: Deadline,
    ) -> Result<Receipt, Failure> {
        tokio::time::sleep(self.delay).await;
        self.inner.transact(writer, transaction, deadline).await
    }

    async fn list_buckets(&self, cursor: &str, limit: u32, deadline: Deadline) -> Result<BucketPage, Failure> {
        self.inner.list_buckets(cursor, limit, deadline).await
    }

    async fn delete_bucket(&self, writer: &Writer, bucket: &str, deadline: Deadline) -> Result<Deletion, Failure> {
        self.inner.delete_bucket(writer, bucket, deadline).await
    }

    async fn describe_bucket(&self, bucket: &str, deadline: Deadline) -> Result<Description, Failure> {
        self.inner.describe_bucket(bucket, deadline).await
    }

    fn capabilities(&self) -> StoreCapabilities {
        self.inner.capabilities()
    }

    fn round_trips(&self) -> u64 {
        self.inner.round_trips()
    }

    async fn check(&self) -> Result<(), Failure> {
        self.inner.check().await
    }
}
