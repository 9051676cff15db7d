//! Plugins that take more memory than they may, of their own or of the host.

use super::*;

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
         (i32.store (i32.const 28) ({what}.size))
         i32.const 0"
    );
    let body = body.replace("(memory.grow)", "(memory.grow (i32.const 1))");
    let body = body.replace("(table.grow)", "(table.grow $table (ref.null func) (i32.const 10))");
    core_guest(2, &body.replace("(table.size)", "(table.size $table)"), more)
}

#[tokio::test]
async fn memory_and_tables_grow_only_to_the_sandbox_limits() {
    // The instance's own state takes less than a page.
    for (memory_bytes, pages) in [(64 << 20, 1023), (1 << 20, 15)] {
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
async fn a_plugin_whose_initial_memory_or_table_is_over_the_limit_is_refused() {
    for component in [
        core_guest(2000, "i32.const 0", ""),
        core_guest(65536, "i32.const 0", ""),
        core_guest(2, "i32.const 0", "(table 50000 funcref)"),
    ] {
        let refused = Cell::with(&component, &sandbox(), |_| {}).await.err().unwrap();
        assert!(matches!(refused, KeeplineError::Plugin(_)), "{refused:?}");
    }
}

#[tokio::test]
async fn shared_64_bit_and_multiple_memories_are_refused() {
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

#[test]
fn host_memory_does_not_grow_with_the_number_of_faults() {
    in_own_process("memory::host_memory_does_not_grow_with_the_number_of_faults", || {
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
                "operations 10000",
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
fn no_fault_takes_more_host_memory_than_the_sandbox_allows() {
    in_own_process("memory::no_fault_takes_more_host_memory_than_the_sandbox_allows", || {
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
                "get-all-again 16",
                "get-all-again 10000",
                "page-again 10000",
                "read-again 16",
                "spans-again 19000",
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
                let problem =
                    passed.problem.map(|problem| (problem.code.to_string(), problem.message)).unwrap_or_default();
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
            for bucket in ["again", "many", "big"].map(session) {
                let mut writer = Writer::new();
                cell.store.delete(writer.advance(), &deletion_of(&bucket), Deadline::NEVER).await.unwrap();
            }
            let after = resident_bytes().saturating_sub(before) >> 20;
            assert!(after < 64, "{after} MiB stay");
        });
    });
}
