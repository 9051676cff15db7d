//! Memory use of a run.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
};

use keepline_tests::until::until;

use crate::{answer, keepline, question};

/// What a run with so many pipes holds, beside its program, when each has passed some entries; KiB.
fn held_by(pipes: usize, cache: &Path) -> u64 {
    let (pipes, cache) = (pipes.to_string(), format!("cache_dir={}", cache.display()));
    let mut child = keepline(["run", "--pipes", &pipes, "--set", &cache]).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut line = String::new();
    for session in 0..1000 {
        for entry in [question(&format!("s{session}"), "?"), answer("yes")] {
            input.write_all(entry.as_bytes()).unwrap();
            output.read_line(&mut line).unwrap();
        }
    }
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let of = |name| status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let held = ["RssAnon:", "RssShmem:"].map(|name| of(name).trim_end_matches("kB").trim().parse::<u64>().unwrap());
    drop(input);
    assert!(child.wait().unwrap().success());
    held.iter().sum()
}

#[test]
fn a_pipe_takes_little_memory() {
    const PIPES: u64 = 200;
    let cache = tempfile::tempdir().unwrap();
    // What the compiler leaves behind is no pipe's.
    held_by(1, cache.path());
    until("the code is kept", || fs::read_dir(cache.path()).unwrap().next().map(|_| ()));
    let (one, many) = (held_by(1, cache.path()), held_by(200, cache.path()));
    let each = many.saturating_sub(one) / PIPES;
    assert!(each < 128, "{each} KiB a pipe: {one} KiB with one, {many} KiB with {PIPES}");
}
