//! Processes that share a directory, and are killed in the middle of what they do: what was acknowledged is there, nothing
//! is there twice, and what is counted, noted and marked in one step agrees.
//! A seed repeats a run as far as processes let themselves be repeated.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use fastrand::Rng;
use keepline_stores::{DirectoryOptions, DirectoryStore, DirectorySync};
use keepline_stores_tests::{
    random,
    work::{self, Sent},
};

/// Of an ordinary run.
const KILLS: usize = 100;
/// Kills in one directory.
const EACH: usize = 20;
const WRITERS: &str = "8";

fn worker(directory: &Path, sync: &str, tag: &str, rounds: u64) -> Child {
    let mut worker = Command::new(env!("CARGO_BIN_EXE_directory-worker"));
    worker.arg(directory).args([sync, tag, WRITERS, &rounds.to_string()]).stdout(Stdio::piped());
    worker.spawn().unwrap()
}

fn open(directory: &Path) -> DirectoryStore {
    DirectoryStore::open(directory, DirectoryOptions { sync: DirectorySync::Off, ..Default::default() }).unwrap()
}

/// What a worker told so far.
#[derive(Default)]
struct Told {
    sent: Vec<Sent>,
    acknowledged: Vec<Sent>,
}

impl Told {
    fn note(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("sent", sent)) => self.sent.push(sent.parse().unwrap()),
            Some(("ack", sent)) => self.acknowledged.push(sent.parse().unwrap()),
            _ => panic!("told {line:?}"),
        }
    }

    /// What was under way: the last of each writer, if it was not acknowledged.
    fn under_way(&self, since: usize) -> Vec<Sent> {
        let news = &self.sent[since..];
        let last =
            |sent: &&Sent| !news.iter().any(|other| other.writer == sent.writer && other.sequence > sent.sequence);
        news.iter().filter(last).filter(|sent| !self.acknowledged.contains(sent)).cloned().collect()
    }
}

#[test]
fn a_killed_process_loses_no_acknowledged_call_and_counts_none_twice() {
    let (kills, mut rng) = (random::rounds(KILLS), Rng::with_seed(random::seed()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut applied, mut lost, mut acknowledged) = (0, 0, 0);
    for start in (0..kills).step_by(EACH) {
        let directory = tempfile::tempdir().unwrap();
        let mut told = Told::default();
        for kill in start..kills.min(start + EACH) {
            // Now and then another process has the store open all the while.
            let beside = rng.bool().then(|| open(directory.path()));
            let sync = ["group", "group", "off", "always"][rng.usize(0..4)];
            let mut worker = worker(directory.path(), sync, &kill.to_string(), u64::MAX);
            let mut lines = BufReader::new(worker.stdout.take().unwrap());
            let since = told.sent.len();
            let until = rng.usize(0..120);
            for _ in 0..until {
                let mut line = String::new();
                assert!(lines.read_line(&mut line).unwrap() > 0, "the worker ended by itself");
                told.note(line.trim_end());
            }
            std::thread::sleep(Duration::from_micros(rng.u64(0..3000)));
            worker.kill().unwrap();
            assert!(!worker.wait().unwrap().success());
            let mut rest = String::new();
            lines.read_to_string(&mut rest).unwrap();
            // A line that was cut off by the end told nothing.
            let whole = rest.rfind('\n').map_or("", |end| &rest[..end]);
            whole.lines().for_each(|line| told.note(line));

            let store = beside.unwrap_or_else(|| open(directory.path()));
            runtime.block_on(async {
                work::verify(&store, &told.sent, &told.acknowledged).await.unwrap();
                for sent in told.under_way(since) {
                    let again = if rng.bool() {
                        work::send_again(&store, &sent).await
                    } else {
                        work::send_as_another(&store, &sent).await
                    };
                    if again {
                        applied += 1
                    } else {
                        lost += 1
                    }
                    assert!(work::send_as_another(&store, &sent).await, "{sent} is applied now");
                    told.acknowledged.push(sent);
                }
                work::verify(&store, &told.sent, &told.acknowledged).await.unwrap();
            });
        }
        acknowledged += told.acknowledged.len();
        let checked = keepline_stores::directory::check(directory.path(), &DirectoryOptions::default()).unwrap();
        assert_eq!(checked.problems, [""; 0]);
    }
    println!("{kills} kills: {acknowledged} acknowledged; of what was under way {applied} were applied and {lost} not");
}

#[test]
fn four_processes_write_to_one_directory() {
    let directory = tempfile::tempdir().unwrap();
    let workers: Vec<_> = ["group", "off", "always", "group"]
        .iter()
        .enumerate()
        .map(|(tag, sync)| {
            let mut worker = worker(directory.path(), sync, &tag.to_string(), 60);
            let mut lines = BufReader::new(worker.stdout.take().unwrap());
            let told = std::thread::spawn(move || {
                let mut told = Told::default();
                let mut line = String::new();
                while lines.read_line(&mut line).unwrap() > 0 {
                    told.note(line.trim_end());
                    line.clear();
                }
                told
            });
            (worker, told)
        })
        .collect();
    let mut all = Told::default();
    for (mut worker, told) in workers {
        assert!(worker.wait().unwrap().success());
        let told = told.join().unwrap();
        all.sent.extend(told.sent);
        all.acknowledged.extend(told.acknowledged);
    }
    assert_eq!(all.acknowledged.len(), 4 * 8 * 60);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work::verify(&open(directory.path()), &all.sent, &all.acknowledged)).unwrap();
}
