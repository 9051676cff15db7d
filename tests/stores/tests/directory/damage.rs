//! Files that a disk or a person spoiled: what is left is a state that once was, or it is refused. (Bytes that change
//! within a text, in the database itself, are seen by nobody: SQLite has no checksums there.)

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use fastrand::Rng;
use keepline_stores_tests::work::{self, Sent};

use super::*;

const PAGE: usize = 4096;

/// A directory as a process left it that was killed, what that process sent, and what was acknowledged.
fn left_behind(seed: &mut Rng) -> (Bench, Vec<Sent>, Vec<Sent>) {
    let bench = Bench::new();
    let mut worker = Command::new(env!("CARGO_BIN_EXE_directory-worker"))
        .arg(bench.path())
        .args(["off", "0", "8", &u64::MAX.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut sent, mut acknowledged) = (Vec::new(), Vec::new());
    let until = seed.usize(1000..4000);
    for (number, line) in BufReader::new(worker.stdout.take().unwrap()).lines().enumerate() {
        match line.unwrap().split_once(' ') {
            Some(("sent", id)) => sent.push(id.parse().unwrap()),
            Some(("ack", id)) => acknowledged.push(id.parse().unwrap()),
            other => panic!("told {other:?}"),
        }
        if number == until {
            worker.kill().unwrap();
        }
    }
    worker.wait().unwrap();
    (bench, sent, acknowledged)
}

fn copy(from: &Path, to: &Path) {
    for file in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// Spoils a file and says how.
fn spoil(file: &Path, rng: &mut Rng) -> String {
    let mut bytes = fs::read(file).unwrap();
    let pages = bytes.len() / PAGE;
    let how = match rng.u32(0..4) {
        0 => {
            bytes.truncate(rng.usize(0..=bytes.len()));
            format!("cut to {}", bytes.len())
        }
        1 if pages > 0 => {
            bytes.truncate(rng.usize(0..pages) * PAGE);
            format!("cut to the pages before {}", bytes.len())
        }
        what if pages > 0 => {
            let page = rng.usize(0..pages);
            let garbage: Vec<_> = (0..PAGE).map(|_| if what == 2 { rng.u8(..) } else { 0 }).collect();
            bytes[page * PAGE..][..PAGE].copy_from_slice(&garbage);
            format!("page {page} is {}", if what == 2 { "random" } else { "zero" })
        }
        _ => {
            bytes = (0..100).map(|_| rng.u8(..)).collect();
            "random".to_owned()
        }
    };
    fs::write(file, bytes).unwrap();
    format!("{}: {how}", file.display())
}

#[test]
fn damaged_files_are_refused_or_recovered_to_an_earlier_state() {
    let (rounds, mut rng) = (random::rounds(60), Rng::with_seed(random::seed()));
    let (mut refused, mut failed, mut recovered) = (0, 0, 0);
    let files = ["keepline.db", "keepline.db-wal", "keepline.db-shm", "keepline.lock"];
    let mut left = left_behind(&mut rng);
    for round in 0..rounds {
        if round % 20 == 19 {
            left = left_behind(&mut rng);
        }
        let (from, sent, acknowledged) = &left;
        let bench = Bench::new();
        copy(from.path(), bench.path());
        if round % 8 < 4 {
            // What the log has it gives back to the database, whatever became of that.
            drop(bench.open());
            fs::write(bench.path().join("keepline.db-shm"), [0; 3 * PAGE]).unwrap();
            fs::write(bench.path().join("keepline.db-wal"), "").unwrap();
        }
        let file = files[round % files.len()];
        let how = spoil(&bench.path().join(file), &mut rng);
        let Ok(store) = bench.try_open() else {
            refused += 1;
            assert!(file == "keepline.db" || file == "keepline.db-wal", "{how}: refused");
            continue;
        };
        // Of these two nothing depends on a byte.
        let harmless = file == "keepline.db-shm" || file == "keepline.lock";
        let there = if harmless { &acknowledged[..] } else { &[] };
        println!("{how}");
        match block_on(work::verify(&store, sent, there)) {
            Ok(()) => recovered += 1,
            Err(failure) => {
                assert!(!harmless, "{how}: {failure}");
                failed += 1;
            }
        }
        // Whatever it is like, it can be written to, or says that it can't.
        _ = block_on(send(&store, &transaction("new", create(), [put("k", "1")])));
    }
    println!("{recovered} recovered, {refused} refused, {failed} found damaged");
    if rounds >= 60 {
        assert!(recovered > rounds / 4 && refused + failed > 0);
    }
}
