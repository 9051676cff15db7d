//! `keepline store` maintains a directory: check, compact, backup, restore, repair; and checks and repairs a Redis.

use std::{fs, path::Path, process::Command};

use keepline_tests::{programs::signal, servers};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Ran, answer, call, context, question, run::coprocess::Running};

/// A store with some sessions.
fn filled(sessions: usize) -> (TempDir, String) {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("memory").to_str().unwrap().to_owned();
    let text = "x".repeat(5000);
    let input: String = (0..sessions).map(|n| question(&format!("s{n}"), "?") + &answer(&text)).collect();
    call(&["run", "--dir", &path], input.as_bytes()).ok();
    (parent, path)
}

fn store(path: &str, arguments: &[&str]) -> Ran {
    call(&[&["store", "--dir", path], arguments].concat(), b"")
}

fn beside(parent: &TempDir, name: &str) -> String {
    parent.path().join(name).to_str().unwrap().to_owned()
}

fn memory(path: &str, session: &str) -> Value {
    context(call(&["run", "--dir", path], question(session, "?").as_bytes()).ok().text())
}

#[test]
fn a_store_is_checked_while_it_is_used() {
    let (_parent, path) = filled(3);
    let mut running = Running::start(&["run", "--dir", &path]);
    running.send(&question("s0", "?"));
    running.line();
    let ran = store(&path, &["check"]).ok();
    assert!(ran.text().starts_with("no problems: 3 buckets"), "{ran:?}");
    // No bar and no message where nobody looks.
    assert_eq!(ran.err, "");
    let (_parent, other) = filled(1);
    assert!(store(&other, &["check"]).ok().text().starts_with("no problems: 1 bucket (sessions and others), "));
    let all = store(&path, &["check", "--json"]).ok().json();
    assert_eq!((&all["problems"], &all["buckets"]), (&json!([]), &json!(3)));
    assert!(all["bytes"].as_u64().unwrap() > all["free_bytes"].as_u64().unwrap());
}

#[test]
fn damage_is_reported_and_repaired_while_the_store_is_unused() {
    let (_parent, path) = filled(2);
    let database = Connection::open(Path::new(&path).join("keepline.db")).unwrap();
    database.execute_batch("UPDATE part SET length = length + 7 WHERE form = 0 AND name = 'values'").unwrap();
    drop(database);
    let ran = store(&path, &["check"]);
    assert_eq!(ran.code, 1);
    assert!(ran.text().starts_with("2 problems; see above"), "{ran:?}");
    assert!(ran.err.contains("error: ") && ran.err.contains("keepline store repair"), "{}", ran.err);
    let all = store(&path, &["check", "--json"]);
    assert_eq!((all.code, all.json()["problems"].as_array().unwrap().len()), (1, 2));
    let mut running = Running::start(&["run", "--dir", &path]);
    running.send(&question("s0", "?"));
    running.line();
    let ran = store(&path, &["repair"]);
    assert!(ran.code == 1 && ran.err.contains("another process has the store open; stop it first"), "{ran:?}");
    drop(running.child.stdin.take());
    assert_eq!(running.end(), Some(0));
    assert_eq!(store(&path, &["repair", "--json"]).ok().json()["recounted"], 2);
    store(&path, &["check"]).ok();
    assert_eq!(memory(&path, "s1")["answer_count"], 1);
}

#[test]
fn a_backup_is_made_while_the_store_is_used_and_overwrites_none() {
    let (parent, path) = filled(200);
    let target = beside(&parent, "copy");
    let mut running = Running::start(&["run", "--dir", &path]);
    running.send(&(question("live", "?") + &answer("before")));
    running.line();
    running.line();
    let ran = store(&path, &["backup", &target]).ok();
    assert!(ran.text().contains("copied to") && ran.err.is_empty(), "{ran:?}");
    running.send(&answer("after"));
    running.line();
    assert_eq!(memory(&path, "live")["last_answer"], "after");
    assert_eq!(memory(&target, "live")["last_answer"], "before");
    assert_eq!(call(&["session", "list", "--all", "--dir", &target], b"").ok().text().lines().count(), 201);
    store(&target, &["check"]).ok();
    for occupied in [&*target, &*path] {
        let ran = store(&path, &["backup", occupied]);
        assert!(ran.code == 2 && ran.err.contains("already has a store") && ran.err.contains("empty"), "{ran:?}");
    }
    assert_eq!(memory(&target, "live")["last_answer"], "before");
    let ran = store(&path, &["backup", &beside(&parent, "second"), "--json"]).ok().json();
    assert_eq!(ran["target"], *beside(&parent, "second"));
    assert!(ran["bytes"].as_u64().unwrap() > 1_000_000);
}

/// As an interrupted one leaves it.
#[test]
fn a_backup_replaces_the_rest_of_an_interrupted_one() {
    let (parent, path) = filled(1);
    let target = beside(&parent, "copy");
    fs::create_dir(&target).unwrap();
    for file in ["keepline.db.partial", "keepline.db.partial-journal"] {
        fs::write(Path::new(&target).join(file), [7; 10_000]).unwrap();
    }
    store(&path, &["backup", &target]).ok();
    store(&target, &["check"]).ok();
    assert_eq!(memory(&target, "s0")["answer_count"], 1);
    assert!(!Path::new(&target).join("keepline.db.partial").exists());
}

#[test]
fn compaction_returns_space_to_the_disk_while_the_store_is_used() {
    let (_parent, path) = filled(300);
    let mut running = Running::start(&["run", "--dir", &path]);
    running.send(&question("s0", "?"));
    running.line();
    for n in 0..5 {
        call(&["session", "delete", &format!("s{n}"), "--dir", &path], b"").ok();
    }
    let freed = store(&path, &["compact", "--json"]).ok().json()["freed_bytes"].as_u64().unwrap();
    let after = store(&path, &["check", "--json"]).ok().json();
    // What was deleted last may still be being erased; of the rest nothing is left.
    assert!(freed > 0 || after["free_bytes"].as_u64().unwrap() < 100_000, "{freed} {after}");
    running.send(&question("s7", "?"));
    assert_eq!(context(&running.line())["answer_count"], 1);
    signal(&running.child, "-KILL");
    running.end();
    let told = store(&path, &["compact"]).ok();
    assert!(told.text().contains("returned to the disk"), "{told:?}");
}

#[test]
fn a_backup_replaces_a_store_after_confirmation() {
    let (parent, path) = filled(2);
    let backup = beside(&parent, "backup");
    store(&path, &["backup", &backup]).ok();
    let remembered = memory(&path, "s0");
    call(&["run", "--dir", &path], (question("s0", "?") + &answer("later")).as_bytes()).ok();
    assert_ne!(memory(&path, "s0"), remembered);
    let ran = store(&path, &["restore", &backup]);
    assert!(ran.code == 2 && ran.err.contains(&path) && ran.err.contains("--yes"), "{ran:?}");
    assert_ne!(memory(&path, "s0"), remembered);
    let mut running = Running::start(&["run", "--dir", &path]);
    running.send(&question("s0", "?"));
    running.line();
    let ran = store(&path, &["restore", &backup, "--yes"]);
    assert!(ran.code == 1 && ran.err.contains("another process"), "{ran:?}");
    drop(running.child.stdin.take());
    assert_eq!(running.end(), Some(0));
    let ran = store(&path, &["restore", &backup, "--yes", "--json"]).ok();
    assert_eq!(ran.json()["directory"], path);
    assert_eq!(memory(&path, "s0"), remembered);
    // To a directory that is not there yet, nothing has to be confirmed.
    let new = beside(&parent, "new");
    store(&new, &["restore", &backup]).ok();
    assert_eq!(memory(&new, "s0"), remembered);
}

#[test]
fn a_redis_is_checked_and_repaired_and_the_rest_is_named() {
    let redis = servers::start();
    let ask = |arguments: &[&str]| {
        let mut command = Command::new("redis-cli");
        assert!(command.args(["-p", &redis.port().to_string()]).args(arguments).output().unwrap().status.success());
    };
    let ran = |arguments: &[&str]| {
        let url = format!("redis_url={}", servers::url(&redis));
        call(&[arguments, &["--set", "backend=redis", "--set", &url]].concat(), b"")
    };
    for session in ["a", "b"] {
        ran(&["session", "create", session]).ok();
        ran(&["session", "put", session, "k", "1"]).ok();
    }
    let denied = ran(&["store", "check"]);
    assert!(denied.code != 0 && denied.err.contains("`keepline config --acl --scan`"), "{denied:?}");
    ask(&["ACL", "SETUSER", servers::USER, "+scan"]);
    assert_eq!(ran(&["store", "check"]).ok().text(), "no problems: 2 buckets (sessions and others)\n");

    ask(&["DEL", "rr:memory:a:__keys__"]);
    ask(&["HSET", "rr:memory:b:__meta__", "log:history", "x"]);
    let checked = ran(&["store", "check"]);
    assert_eq!((checked.code, checked.text()), (1, "2 problems; see above: 2 buckets (sessions and others)\n"));
    for problem in [
        "session a: rr:memory:a:__keys__ does not name existing values: k",
        "session b: rr:memory:b:__history__ is a log whose first position, in the metadata, is not a number",
        "`keepline store repair`",
    ] {
        assert!(checked.err.contains(problem), "{checked:?}");
    }
    let first = &ran(&["store", "check", "--json"]).json()["problems"][0];
    assert_eq!((&first["kind"], &first["bucket"], &first["names"]), (&json!("session"), &json!("a"), &json!(["k"])));

    let repaired = ran(&["store", "repair"]);
    assert!(repaired.code == 1 && repaired.text().ends_with("\n1 problem repaired, 1 left\n"), "{repaired:?}");
    assert!(repaired.err.contains("not repaired: session b") && repaired.err.contains("`keepline session delete"));
    assert_eq!(ran(&["session", "get", "a", "k"]).ok().text(), "1\n");
    assert_eq!(ran(&["store", "repair", "--json"]).json()["left"].as_array().unwrap().len(), 1);
    ran(&["session", "delete", "b"]).ok();
    ran(&["store", "repair"]).ok();
    ran(&["store", "check"]).ok();
    assert!(ran(&["store", "compact"]).err.contains("add --dir PATH"));
}
