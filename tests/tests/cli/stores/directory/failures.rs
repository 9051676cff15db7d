//! Directories that fail while in use: entries pass with a warning, and stored data stay.

use std::{fs::OpenOptions, os::unix::fs::FileExt as _, path::Path};

use rusqlite::Connection;

use super::{answer, call, memory, place, question, run};

/// As another process that hangs holds it.
fn lock(path: &str) -> Connection {
    let db = Connection::open(Path::new(path).join("keepline.db")).unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    db
}

#[test]
fn a_locked_directory_costs_memory_but_no_entry() {
    let (_parent, path) = place();
    run(&path, &(question("a", "1") + &answer("one"))).ok();
    let hung = lock(&path);
    let input = (0..20).map(|n| question("b", "?") + &answer(&n.to_string())).collect::<String>() + &question("a", "2");
    let ran =
        call(&["run", "--dir", &path, "--set=store_timeout_ms=200", "--set=breaker_failures=1"], input.as_bytes());
    let ran = ran.ok();
    assert_eq!(ran.text().lines().count(), input.lines().count());
    assert!(ran.text().starts_with(&(question("b", "?") + &answer("0"))), "{ran:?}");
    let warnings = ran.err.lines().filter(|line| line.starts_with("warning: ")).count();
    assert!((1..=6).contains(&warnings), "{}", ran.err);
    hung.execute_batch("ROLLBACK").unwrap();
    // Of what was not stored nothing appears later.
    assert_eq!(memory(&path, "b"), serde_json::Value::Null);
    assert_eq!(memory(&path, "a")["last_answer"], "one");
}

#[test]
fn a_full_directory_costs_memory_but_no_entry() {
    let (_parent, path) = place();
    run(&path, &(question("a", "1") + &answer("one"))).ok();
    let long = "x".repeat(100_000);
    let input = (0..30).map(|n| question(&format!("s{n}"), "?") + &answer(&long)).collect::<String>();
    let ran = call(&["run", "--dir", &path, "--set=directory_max_bytes=1048576", "--summary"], input.as_bytes()).ok();
    assert_eq!(ran.text(), input);
    assert!(ran.err.contains("warning: ") && ran.err.contains("full"), "{}", ran.err);
    assert!(ran.err.lines().count() < 30, "{}", ran.err);
    // What is there stays, and can be read, and room can be made.
    assert_eq!(memory(&path, "a")["last_answer"], "one");
    assert_eq!(memory(&path, "s0")["last_answer"], *long);
    let within = ["--dir", &path, "--set=directory_max_bytes=1048576"];
    for n in 0..5 {
        call(&[&["session", "delete", &format!("s{n}")], &within[..]].concat(), b"").ok();
    }
    call(&[&["store", "check"], &within[..]].concat(), b"").ok();
    let input = question("new", "?") + &answer(&long) + &question("new", "?");
    let ran = call(&[&["run"], &within[..]].concat(), input.as_bytes()).ok();
    assert!(ran.text().contains("\"answer_count\":1") && ran.err.is_empty(), "{}", ran.err);
}

#[test]
fn a_damaged_directory_is_refused_or_costs_memory_and_a_check_reports_it() {
    let (_parent, path) = place();
    let input = (0..50).map(|n| question(&format!("s{n}"), "?") + &answer(&"y".repeat(2000))).collect::<String>();
    run(&path, &input).ok();
    let database = Path::new(&path).join("keepline.db");
    // Whoever was killed leaves the write-ahead log as it is, and what is in it hides the damage.
    Connection::open(&database).unwrap().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let length = database.metadata().unwrap().len();
    // The second half, whatever is there.
    let file = OpenOptions::new().write(true).open(&database).unwrap();
    file.write_all_at(&vec![0xa5; usize::try_from(length / 2).unwrap()], length / 2).unwrap();
    let checked = call(&["store", "check", "--dir", &path], b"");
    assert_eq!(checked.code, 1, "{checked:?}");
    let ran = run(&path, &input);
    match ran.code {
        0 => assert!(ran.text().lines().count() == input.lines().count() && ran.err.contains("damaged"), "{}", ran.err),
        1 => assert!(ran.out.is_empty() && ran.err.contains("damaged"), "{}", ran.err),
        _ => panic!("{ran:?}"),
    }
}
