//! The confinement that the other attacks rely on: its limits hold, and it reports what a program used.

use std::time::Duration;

use keepline_tests::confined::{Confined, in_confinement};

#[test]
fn the_end_and_the_output_of_a_program_are_reported() {
    let ended = Confined::new("sh").args(["-c", "cat; echo $NAME >&2; exit 7"]).env("NAME", "x").input("in").run();
    assert_eq!((ended.code, ended.signal, ended.timed_out), (Some(7), None, false), "{ended:?}");
    assert_eq!((&*ended.stdout, &*ended.stderr), ("in", "x\n"));
}

#[test]
fn memory_is_limited_and_reported_with_that_of_children() {
    let take = |megabytes: u32| format!("head -c {megabytes}000000 /dev/zero | tail -c {megabytes}000000 | wc -c");
    let held = Confined::new("sh").args(["-c", &take(100)]).run();
    assert_eq!(held.stdout, "100000000\n");
    assert!((100_000_000..200_000_000).contains(&held.peak_bytes), "{held:?}");
    let refused = Confined::new("sh").args(["-c", &take(100)]).memory_bytes(50 << 20).run();
    assert!(refused.stdout != held.stdout && refused.peak_bytes < 100_000_000, "{refused:?}");
}

#[test]
fn processor_time_is_limited_and_reported() {
    let ended = Confined::new("sh").args(["-c", "while :; do :; done"]).cpu(Duration::from_secs(1)).run();
    assert_eq!((ended.code, ended.signal, ended.timed_out), (None, Some(9), false), "{ended:?}");
    // The kernel ends it by whole ticks of its clock, and reports what it took to the microsecond.
    assert!(ended.cpu >= Duration::from_millis(500) && ended.cpu <= Duration::from_secs(3), "{ended:?}");
}

#[test]
fn a_program_is_killed_with_its_children_after_its_time_limit() {
    let ended = Confined::new("sh").args(["-c", "sleep 1000 & sleep 1000"]).time(Duration::from_millis(300)).run();
    assert_eq!((ended.signal, ended.timed_out), (Some(9), true), "{ended:?}");
}

#[test]
fn a_test_of_the_library_can_be_confined_as_well() {
    let name = "confinement::a_test_of_the_library_can_be_confined_as_well";
    let ended = in_confinement(
        name,
        |limits| limits.memory_bytes(1 << 30),
        || {
            assert_eq!(std::hint::black_box(vec![1_u8; 64 << 20]).len(), 64 << 20);
        },
    );
    assert!(ended.is_none_or(|ended| ended.peak_bytes > 64 << 20));
}
