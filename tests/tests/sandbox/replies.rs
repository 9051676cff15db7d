//! Traps, and replies that are refused.

use std::sync::atomic::{AtomicUsize, Ordering};

use keepline::maintenance::{CompletionNeed, Maintenance, MaintenanceOptions, Model, ModelError, Outcome};
use tokio::runtime::Handle;

use super::*;

#[tokio::test]
async fn a_plugin_that_traps_is_stopped() {
    let cell = Cell::hostile().await;
    cell.stops("trap", "it gave up (unreachable code)").await;
    cell.stops("panic", "it gave up (unreachable code)").await;
}

#[tokio::test]
async fn a_stopped_plugin_is_an_error_with_on_store_error_fail() {
    let fail = |options: &mut Options| options.on_store_error = OnStoreError::Fail;
    let cell = Cell::with(HOSTILE, &sandbox(), fail).await.unwrap();
    let mut pipe = cell.keepline.pipe();
    for misdeed in ["trap", "loop"] {
        let error = pipe.question(misdeed, METADATA).await.unwrap_err();
        assert_eq!(error.code, ProblemCode::Plugin);
        assert!(error.message.starts_with("the plugin was stopped: "), "{error}");
        let error = pipe.answer(misdeed, METADATA).await.unwrap_err();
        assert_eq!(error.code, ProblemCode::Plugin);
        assert_eq!(pipe.question("nothing", METADATA).await.unwrap().effect, Effect::Passed);
    }
}

#[tokio::test]
async fn a_plugin_fault_in_a_session_call_fails_only_that_call() {
    let cell = Cell::hostile().await;
    let mut sessions = cell.keepline.sessions();
    let error = sessions.create("trap").await.unwrap_err();
    assert_eq!(error.code, SessionErrorCode::Plugin);
    assert!(error.message.contains("gave up"), "{error}");
    assert_eq!(sessions.create("nothing").await.unwrap_err().code, SessionErrorCode::NotFound);
}

#[tokio::test]
async fn a_reply_over_its_size_limit_is_refused() {
    let mut sandbox = sandbox();
    sandbox.cpu_time = Duration::from_secs(20);
    let cell = Cell::of(HOSTILE, &sandbox).await;
    cell.stops("reply 50000000", "").await;
    cell.stops("reply 500000000", "").await;
    // More than may be attached, by the options or, where they say nothing, by their defaults.
    cell.stops("reply 2200000", "bytes long, over 2162713").await;
    assert_eq!(cell.told("reply 2100000").await.len(), 2_100_000);
    let most = |options: &mut Options| options.filter = r#"{"max_context_bytes":8389632}"#.into();
    let cell = Cell::with(HOSTILE, &sandbox, most).await.unwrap();
    cell.stops("reply 10000000", "bytes long, over 8").await;
    assert_eq!(cell.told("reply 8000000").await.len(), 8_000_000);
    let few = |options: &mut Options| options.filter = r#"{"max_context_bytes":1000000}"#.into();
    let cell = Cell::with(HOSTILE, &sandbox, few).await.unwrap();
    cell.stops("reply 1100000", "bytes long, over 1").await;
    assert_eq!(cell.told("reply 1000000").await.len(), 1_000_000);
}

#[tokio::test]
async fn a_malformed_reply_is_refused() {
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
        ("an effect out of the memory", store(20, 0x7000_0000) + &store(24, 1)),
        ("tasks out of the memory", store(32, 0x7000_0000) + &store(36, 1)),
        ("tasks as many as the address space has room for", store(32, 2048) + &store(36, 0x0fff_ffff)),
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
async fn a_plugin_s_turn_state_is_handed_back_unchanged() {
    let cell = Cell::hostile().await;
    for turn in ["{\"session\":", "~", " ", "", &"x".repeat(4096)] {
        let mut pipe = cell.keepline.pipe();
        pipe.question(&format!("turn {turn}"), METADATA).await.unwrap();
        let answer = pipe.answer("nothing", METADATA).await.unwrap();
        assert_eq!(told(&answer).as_deref(), Some(turn));
        pipe.open();
        assert_eq!(told(&pipe.answer("nothing", METADATA).await.unwrap()).as_deref(), Some(""));
    }
}

/// It would be kept as long as the pipe.
#[tokio::test]
async fn an_overlong_or_unprintable_turn_token_is_refused() {
    let cell = Cell::hostile().await;
    assert_eq!(cell.ask("turn-of 4096").await.effect, Effect::Passed);
    for length in [4097, 1 << 20] {
        cell.stops(&format!("turn-of {length}"), "its turn is over 4096 bytes").await;
    }
    for turn in ["\u{0}", "\u{1b}[2J", "é", "a\nb"] {
        // Of one kind of error, a log gets a few.
        let cell = Cell::hostile().await;
        cell.stops(&format!("turn {turn}"), "its turn is not printable ASCII").await;
    }
}

/// Whoever runs tasks keeps them.
#[tokio::test]
async fn tasks_over_their_limits_or_of_other_sessions_are_refused() {
    let mut sandbox = sandbox();
    sandbox.cpu_time = Duration::from_secs(20);
    let cell = Cell::of(HOSTILE, &sandbox).await;
    for (due, tasks) in [("due 0", 0), ("due 1", 1), ("due 64", 64), ("due state-of|4096", 1)] {
        assert_eq!(cell.ask(due).await.due.len(), tasks, "{due}");
        let answer = cell.keepline.pipe().answer(due, METADATA).await.unwrap();
        assert_eq!(answer.due.len(), tasks, "{due}");
    }
    let annas = r#"{"session_id":"s1","user_id":"anna"}"#;
    let told = cell.keepline.pipe().question("due user/anna|fold|state", annas).await.unwrap().due;
    assert_eq!(told, [task("user/anna", "fold", "state")]);

    let long = "x".repeat(129);
    for (due, reason) in [
        ("due 65", "names more than 64 tasks"),
        ("due 1000000", ""),
        ("due state-of|4097", "its task's state is over 4096 bytes"),
        ("due session/s1|fold|\u{1b}[2J", "its task's state is not printable ASCII"),
        ("due session/é|fold|", "its task's bucket is not printable ASCII"),
        ("due session/s1|a\nb|", "its task's name is not printable ASCII"),
        (&format!("due session/{long}|fold|"), "its task's bucket is over 128 bytes"),
        ("due session/s2|fold|", "it names a task of 'session/s2', which does not belong to the entry that it serves"),
        ("due user/anna|fold|", "it names a task of 'user/anna'"),
        ("due service/s1|fold|", "it names a task of 'service/s1'"),
        (&format!("due session/s1|{long}|"), "its task's name is over 64 bytes"),
    ] {
        let cell = Cell::of(HOSTILE, &sandbox).await;
        cell.stops(due, reason).await;
        let mut pipe = cell.keepline.pipe();
        let faults = cell.keepline.counters().faults;
        let problem = pipe.answer(due, METADATA).await.unwrap().problem.unwrap();
        assert_eq!(problem.code, ProblemCode::Plugin);
        assert!(problem.message.contains(reason), "{due}: {}", problem.message);
        assert_eq!(cell.keepline.counters().faults, faults + 1);
    }
}

fn job(name: &str, state: &str) -> Job {
    Job {
        task: task("session/s1", name, state),
        holder: "holder".into(),
        lease_milliseconds: 1000,
        results: Vec::new(),
    }
}

#[tokio::test]
async fn a_step_of_a_task_within_its_bounds_is_returned() {
    let cell = Cell::hostile().await;
    let progress = cell.keepline.advance(&job("nothing", "as it was"), None).await;
    assert_eq!((progress.step, progress.task), (Step::Done, job("nothing", "as it was").task));
    let progress = cell.keepline.advance(&job("state-of", "1048576"), None).await;
    assert_eq!((progress.step, progress.task.state.len()), (Step::Again, 1 << 20));
    for name in ["needs", "need-of"] {
        let progress = cell.keepline.advance(&job(name, "64"), None).await;
        let needs = if name == "needs" { 64 } else { 1 };
        assert_eq!((progress.step, progress.needs.len(), progress.problem), (Step::Needs, needs, None));
    }
    let problem = cell.keepline.advance(&job("problem", "1000000"), None).await.problem.unwrap();
    let told = format!("{}{}", problem.code, problem.message);
    assert!(told.len() < 25_000 && !told.contains(char::is_control), "{}", told.len());
    assert_eq!(cell.keepline.counters().faults, 0);
}

/// The task is as it was, and nobody but this step is the worse for it.
#[tokio::test]
async fn a_plugin_fault_in_a_task_fails_only_that_step() {
    let cell = Cell::hostile().await;
    for (name, state, reason) in [
        ("trap", "", "gave up"),
        ("loop", "", "computed for longer"),
        ("state-of", "1048577", "its task's state is over 1048576 bytes"),
        ("needs", "65", "needs more than 64 things"),
        ("need-of", "50000000", ""),
        ("need-of", "9000000", "come to more than 8388608 bytes at a time"),
        ("texts", "1025", "embeddings of more than 1024 texts at a time"),
        ("store-for-ever", "", "called the store more than"),
    ] {
        let before = (cell.keepline.counters().faults, cell.log.of("keepline.plugin").len());
        let progress = timeout(PATIENCE, cell.keepline.advance(&job(name, state), None)).await.unwrap();
        assert_eq!((progress.step, progress.task, progress.needs), (Step::Failed, job(name, state).task, vec![]));
        let problem = progress.problem.unwrap();
        assert_eq!(problem.code, ProblemCode::Plugin, "{name}");
        assert!(problem.message.contains(reason), "{name}: {}", problem.message);
        let after = (cell.keepline.counters().faults, cell.log.of("keepline.plugin").len());
        // A few of one kind pass.
        assert!(after.0 == before.0 + 1 && (after.1 == before.1 + 1 || after.1 >= 3), "{name}: {before:?} {after:?}");
        assert_eq!(cell.ask("nothing").await.effect, Effect::Passed);
    }
}

/// Of a later version of the contract, or of another plugin.
#[tokio::test]
async fn names_that_the_host_does_not_know_mean_what_the_contract_says() {
    let cell = Cell::hostile().await;
    let asked = cell.ask("effect compared").await;
    assert_eq!((asked.effect, asked.metadata), (Effect::Passed, None));
    let answer = cell.keepline.pipe().answer("effect shelved", METADATA).await.unwrap();
    assert_eq!(answer.effect, Effect::Stored);
    // An unknown step ends its task.
    let progress = cell.keepline.advance(&job("step", "paused"), None).await;
    assert_eq!((progress.step, progress.problem), (Step::Done, None));
    let (runtime, options) = (Handle::current(), MaintenanceOptions::default());
    let maintenance = Maintenance::new(cell.keepline.clone(), Arc::new(Counting::default()), options, runtime);
    assert_eq!(maintenance.run(job("call", "").task).await, Outcome::Done);
    let told = cell.log.of("plugin: task");
    assert!(told.len() == 1 && told[0].message.contains("Missing") && told[0].message.contains("id: 7"), "{told:?}");
    assert_eq!(cell.keepline.counters().faults, 0);
}

/// Counts what it is asked for.
#[derive(Default)]
struct Counting(AtomicUsize);

#[async_trait::async_trait]
impl Model for Counting {
    async fn complete(&self, _: &CompletionNeed) -> Result<Option<String>, ModelError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Some("x".into()))
    }
}

#[tokio::test]
async fn an_endless_task_is_given_up_within_its_budget() {
    let cell = Cell::hostile().await;
    let model = Arc::new(Counting::default());
    let (runtime, options) = (Handle::current(), MaintenanceOptions::default());
    let maintenance = Maintenance::new(cell.keepline.clone(), model.clone(), options, runtime);
    for (name, state, told) in [
        ("needs", "5", "more than 16 completions"),
        ("needs", "0", "not finished after 1000 steps"),
        ("state-of", "1", "1000 steps"),
        ("need-of", "5000000", "more than 16777216 bytes of prompts"),
        ("texts", "1024", "embeddings of more than 65536 texts"),
    ] {
        let Outcome::Failed(problem) = maintenance.run(job(name, state).task).await else { panic!("{name}") };
        assert!(problem.code == ProblemCode::Limit && problem.message.contains(told), "{problem:?}");
    }
    assert_eq!(model.0.load(Ordering::Relaxed), 16 + 3);
    assert_eq!(maintenance.counters().others.failed, 5);
}

/// What tasks have the host hold is not held beside the memory of all instances.
#[tokio::test]
async fn prompts_and_vectors_of_tasks_count_towards_the_pools_memory() {
    let mut sandbox = sandbox();
    sandbox.pool_memory_bytes = 20 << 20;
    let cell = Cell::with(HOSTILE, &sandbox, |_| ()).await.unwrap();
    let model = Arc::new(Counting::default());
    let (runtime, options) = (Handle::current(), MaintenanceOptions::default());
    let maintenance = Maintenance::new(cell.keepline.clone(), model.clone(), options, runtime);
    // One needs no more than there is; its many embeddings would.
    let Outcome::Failed(problem) = maintenance.run(job("texts", "1024").task).await else { panic!("it was done") };
    assert_eq!(problem.code, ProblemCode::Busy);
    assert!(problem.message.contains("sandbox_pool_memory_bytes"), "{problem:?}");
    let held = cell.keepline.metrics().instances_bytes;
    maintenance.run(job("needs", "1").task).await;
    assert_eq!(model.0.load(Ordering::Relaxed), 16);
    assert!(cell.keepline.metrics().instances_bytes <= held.max(4 << 20), "it was given back");
}

/// What a plugin says of a task is logged as its own.
#[tokio::test]
async fn a_plugins_message_about_a_task_is_logged_under_the_plugins_name() {
    let cell = Cell::hostile().await;
    let (runtime, options) = (Handle::current(), MaintenanceOptions::default());
    let maintenance = Maintenance::new(cell.keepline.clone(), Arc::new(Counting::default()), options, runtime);
    let Outcome::Failed(problem) = maintenance.run(job("problem", "50").task).await else { panic!("it was done") };
    let hosts = cell.log.of("keepline.maintenance");
    assert!(
        hosts[0].message.starts_with("deferred task 'problem' of session/s1 failed, as the plugin says"),
        "{hosts:?}"
    );
    assert!(hosts.iter().all(|line| !line.message.contains(&problem.message)), "{hosts:?}");
    assert!(cell.log.of("plugin: keepline.maintenance")[0].message.contains(&problem.message));
}

#[tokio::test]
async fn messages_of_a_plugin_are_bounded_and_free_of_control_characters() {
    let is_tame = |text: &str| text.len() <= 20_500 && !text.contains(|c: char| c.is_control());
    let cell = Cell::hostile().await;
    for length in ["5", "1000000"] {
        let passed = cell.ask(&format!("problem {length}")).await;
        let problem = passed.problem.unwrap();
        assert_eq!(passed.effect, Effect::Failed);
        assert!(is_tame(&problem.code.to_string()) && is_tame(&problem.message), "{}", problem.message.len());
        let error = cell.keepline.sessions().create(&format!("problem {length}")).await.unwrap_err();
        assert!(is_tame(&error.message), "{}", error.message.len());
        let refuses = |options: &mut Options| options.filter = format!("refuse at length {length}");
        let refused = Cell::with(HOSTILE, &sandbox(), refuses).await.err().unwrap();
        let KeeplineError::Config { field, message } = refused else { panic!("{refused}") };
        assert!(is_tame(&field) && is_tame(&message), "{}", message.len());
    }
}

#[tokio::test]
async fn a_late_refusal_of_options_is_a_fault_of_the_plugin_in_one_line() {
    let clock = ManualClock::new();
    let now = clock.now().as_secs();
    let mut sandbox = sandbox();
    sandbox.isolation = Isolation::Entry;
    let cell = Cell::with(HOSTILE, &sandbox, |options| {
        options.clock = Arc::new(clock.clone());
        options.filter = format!("refuse from second {}", now + 60);
    });
    let cell = cell.await.unwrap();
    assert_eq!(cell.ask("hello").await.problem, None);
    clock.advance(Duration::from_secs(60));
    let problem = cell.ask("hello").await.problem.unwrap();
    assert_eq!(problem.code, ProblemCode::Plugin);
    let told = problem.message;
    assert!(told.contains("it rejects its own options"), "{told}");
    assert!(told.len() < 5000 && !told.contains(|c: char| c.is_control()), "{}", told.len());
}

#[tokio::test]
async fn effective_options_are_one_strict_json_object_or_empty() {
    let told = async |options: &str| {
        let cell = Cell::with(HOSTILE, &sandbox(), |own| own.filter = options.to_owned()).await.unwrap();
        cell.keepline.filter_options().to_string()
    };
    let sound = r#"{"a":"b"}"#;
    assert_eq!(told(sound).await, sound);
    let long = format!(r#"{{"a":"{}"}}"#, "b".repeat(1 << 20));
    for forged in [
        "",
        "[]",
        "{\"a\":1}\n{\"forged\":1}",
        "{\"a\":1\n2}",
        "{\"a\":NaN}",
        "\u{feff}{}",
        "{\"a\":\"\u{1b}[2J\"}",
        &long,
    ] {
        assert_eq!(told(forged).await, "{}", "{}", forged.len());
    }
}

#[tokio::test]
async fn an_instance_is_replaced_after_its_maximum_number_of_calls() {
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
async fn an_instance_is_discarded_when_its_entry_is_dropped() {
    // It is the caller who gives up, however busy the machine is.
    let mut sandbox = sandbox();
    sandbox.cpu_time = PATIENCE;
    let cell = Cell::of(HOSTILE, &sandbox).await;
    let mut pipe = cell.keepline.pipe();
    assert_eq!(cell.told("served").await, "1");
    assert!(timeout(Duration::from_millis(30), pipe.question("loop", METADATA)).await.is_err());
    assert_eq!(told(&pipe.question("served", METADATA).await.unwrap()).as_deref(), Some("1"));
}

/// Linear memory never shrinks: what one large entry took would be held as long as the instance lives.
#[tokio::test]
async fn an_instance_whose_memory_has_grown_far_is_not_reused() {
    let much = |options: &mut Options| options.filter = r#"{"max_context_bytes":4000000}"#.into();
    let cell = Cell::with(HOSTILE, &sandbox(), much).await.unwrap();
    for (entry, calls) in [("served", "1"), ("reply 100000", ""), ("served", "3"), ("reply 4000000", "")] {
        let told = cell.told(entry).await;
        assert!(calls.is_empty() || told == calls, "{entry}: {told}");
    }
    assert_eq!(cell.told("served").await, "1");
}
