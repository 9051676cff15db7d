//! Replies of a plugin that are too large, or that the reader is slow to take.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    thread,
};

use keepline_tests::{confined::Usage, programs::until_it_rests};

use super::*;

/// More than the lines that may be under way, at the least: 64 MiB, a finished line for each pipe, and the program.
const MOST: u64 = 320 << 20;
const REPLY: usize = 1_000_000;
/// What would be held if nobody counted.
const LINES: usize = 400;

#[test]
fn unread_replies_are_bounded_and_written_in_order() {
    for pipes in ["1", "4"] {
        // However busy the machine is: nothing here is about time.
        let patient = ["--set", "max_context_bytes=1000000", "--set", "store_timeout_ms=60000"];
        let attack = hostile(&[&patient[..], &["run", "--pipes", pipes]].concat()).memory_bytes(1 << 30);
        let mut child = attack.spawn();
        let mut stdin = child.stdin.take().unwrap();
        let writer = thread::spawn(move || {
            for number in 0..LINES {
                stdin.write_all(question(&format!("s{number}"), &format!("reply {REPLY}")).as_bytes()).unwrap();
            }
        });
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut usage = Usage::default();
        for number in 0..LINES {
            if number == 1 {
                // It has done all that it can without a reader.
                until_it_rests(&child);
            }
            let line = lines.next().unwrap().unwrap();
            let own = format!("\"session_id\":\"s{number}\",\"told\":\"xxx");
            assert!(line.contains(&own) && line.len() > REPLY, "{number}: {}", &line[..100.min(line.len())]);
            usage.look(child.id());
        }
        assert!(lines.next().is_none());
        writer.join().unwrap();
        assert!(child.wait().unwrap().success());
        assert!(usage.peak_bytes < MOST, "{pipes}: {usage:?}");
    }
}

#[test]
fn a_reply_larger_than_an_entry_and_its_memory_is_refused() {
    let lines: String = (0..20).map(|_| question("s1", "reply 31000000")).collect();
    // A busy machine may take long to make such a reply.
    let ended = hostile(&["--set", "max_context_bytes=1000000"])
        .args(["--set", "sandbox_cpu_ms=60000", "--set", "store_timeout_ms=60000", "run", "--summary"])
        .input(&*lines)
        .run();
    assert_eq!((ended.code, ended.stdout), (Some(0), lines), "{}", ended.stderr);
    assert!(ended.stderr.contains("its metadata is 31000") && ended.stderr.contains("faults"), "{}", ended.stderr);
    assert!(ended.peak_bytes < 480 << 20, "{}", ended.peak_bytes);
}

/// A line is read as a whole to be looked at; no more than one, and what the budget has room for.
#[test]
fn lines_read_ahead_count_towards_the_memory_budget() {
    let line = question("s1", &"x".repeat(12_000_000));
    let lines = line.repeat(24);
    let mut child = hostile(&["run"]).memory_bytes(1 << 30).spawn();
    let mut stdin = child.stdin.take().unwrap();
    let writer = thread::spawn(move || stdin.write_all(lines.as_bytes()).unwrap());
    let mut usage = Usage::default();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    for number in 0..24 {
        if number == 1 {
            until_it_rests(&child);
        }
        usage.look(child.id());
        assert!(out.next().unwrap().unwrap() == line.trim_end());
    }
    writer.join().unwrap();
    assert!(child.wait().unwrap().success() && usage.peak_bytes < 224 << 20, "{usage:?}");
}
