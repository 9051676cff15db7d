//! Plugins that take too long, or never stop calling the host.

use super::*;

#[tokio::test]
async fn a_plugin_that_loops_for_ever_is_stopped() {
    Cell::hostile().await.stops("loop", "computed for longer than 200 ms").await;
}

#[tokio::test]
async fn host_calls_do_not_extend_a_loops_time_limit() {
    let cell = Cell::hostile().await;
    cell.stops("loop-over-clock", "computed for longer").await;
    cell.stops("loop-over-about", "computed for longer").await;
}

/// The entry's time is over: what is left is for the reply, however much the plugin might compute otherwise.
#[tokio::test]
async fn a_plugin_is_stopped_soon_after_its_entrys_deadline() {
    let mut sandbox = sandbox();
    sandbox.cpu_time = PATIENCE * 2;
    let short = |options: &mut Options| options.entry_timeout = Duration::from_millis(20);
    let cell = Cell::with(HOSTILE, &sandbox, short).await.unwrap();
    for misdeed in ["loop", "loop-over-clock", "loop-over-about"] {
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
async fn waiting_for_a_slow_store_does_not_count_as_computing_time() {
    let sandbox = sandbox();
    let plugin = Plugin::from_bytes(HOSTILE, &sandbox).unwrap();
    let store = Intercepted::new(Arc::new(MemoryStore::default()), Slow(sandbox.cpu_time * 3));
    let keepline = Keepline::new(plugin, Arc::new(store), patient()).await.unwrap();
    assert_eq!(keepline.pipe().question("store 2", METADATA).await.unwrap().effect, Effect::Passed);
    // Each part is within the limit, all together are not.
    let each = sandbox.cpu_time.as_millis() * 2 / 3;
    // Where others keep the processors busy, most of a part is none of its computing.
    loop {
        let passed = keepline.pipe().question(&format!("store-and-compute {each}"), METADATA).await.unwrap();
        let Some(problem) = passed.problem else { continue };
        assert!(problem.message.contains("computed for longer"), "{}", problem.message);
        break;
    }
}

#[tokio::test]
async fn a_plugin_that_faults_at_start_or_configuration_is_refused() {
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
