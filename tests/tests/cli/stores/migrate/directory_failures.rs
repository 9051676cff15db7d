//! Migrations from and to a directory that are killed, run out of room, or meet concurrent writes: the source keeps
//! everything, and the same command finishes them.

use std::{
    process::Child,
    sync::atomic::{AtomicBool, Ordering},
};

use keepline_tests::until::until;
use rusqlite::Connection as Database;

use super::{
    directory::{from_directory, place, tables, to_redis},
    *,
};
use crate::{call, run::coprocess::Running};

/// Sessions with a long history and some larger than a part, in a directory.
fn filled() -> (tempfile::TempDir, String) {
    let (parent, path) = place();
    let mut entries = String::new();
    for n in 0..40 {
        let text = "x".repeat(if n % 10 == 0 { 1_500_000 } else { 20_000 });
        entries.push_str(&format!(
            "{}\n",
            json!({"lane": "answers", "text": text, "metadata": {"session_id": format!("s{n}")}})
        ));
    }
    for n in 0..3000 {
        entries.push_str(&format!(
            "{}\n",
            json!({"lane": "answers", "text": n.to_string(), "metadata": {"session_id": "long"}})
        ));
    }
    let options = ["--set=max_history=100000", "--set=directory_sync=off", "--set=max_value_bytes=8388608"];
    call(&[&["run", "--dir", &path, "--set=max_entry_bytes=8388608"], &options[..]].concat(), entries.as_bytes()).ok();
    (parent, path)
}

/// Waits until so many buckets are there, or the migration has ended.
fn until_there(child: &mut Child, mut there: impl FnMut() -> usize, count: usize) {
    until("buckets arrive", || (there() >= count || child.try_wait().unwrap().is_some()).then_some(()));
}

fn buckets(path: &str) -> usize {
    let Ok(db) = Database::open_with_flags(
        std::path::Path::new(path).join("keepline.db"),
        rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY,
    ) else {
        return 0;
    };
    let count = db.query_row("SELECT count(*) FROM bucket WHERE kind = 'session'", [], |row| row.get::<_, i64>(0));
    usize::try_from(count.unwrap_or(0)).unwrap()
}

fn keys(server: &RedisServer) -> usize {
    redis::cmd("SCARD").arg("rr:memory:__sessions__").query(&mut connect(server)).unwrap()
}

#[test]
fn a_killed_migration_leaves_the_source_unchanged_and_can_be_repeated() {
    let (server, (_a, first), (_b, second)) = (RedisServer::start().unwrap(), filled(), place());
    let before = tables(&first);
    let url = server.url();
    let to_server = to_redis(&server);
    let there = [&["migrate", "--dir", &first], &texts(&to_server)[..]].concat();
    let back = ["migrate", "--set=backend=redis", &format!("--set=redis_url={url}"), "--to-dir", &second];
    for (command, is_there) in
        [(&there[..], &(|| keys(&server)) as &dyn Fn() -> usize), (&back[..], &(|| buckets(&second)))]
    {
        for (count, name) in [(0, "-KILL"), (1, "-KILL"), (12, "-TERM"), (25, "-KILL")] {
            let mut child = keepline(command.iter().copied()).spawn().unwrap();
            until_there(&mut child, is_there, count);
            signal(&child, name);
            let ended = finish(child, b"");
            if name == "-TERM" && ended.code == 1 {
                assert!(ended.err.contains("run the same command again"), "{ended:?}");
            }
            assert_eq!(tables(&first), before);
        }
        let rest = call(&[command, &["--json"]].concat(), b"").ok().json();
        assert_eq!(rest["copied"].as_u64().unwrap() + rest["already_there"].as_u64().unwrap(), 41, "{rest}");
        assert_eq!(is_there(), 41);
    }
    assert_eq!(tables(&second), before);
    let checked = call(&["store", "check", "--dir", &second], b"").ok();
    assert!(checked.text().starts_with("no problems: 41 buckets"), "{checked:?}");
}

#[test]
fn sessions_that_do_not_fit_are_reported_and_arrive_once_there_is_room() {
    let ((_a, first), (_b, second)) = (filled(), place());
    let before = tables(&first);
    let full = from_directory(&first, &["--to-dir", &second, "--to=directory_max_bytes=2097152"]);
    assert_eq!(full.code, 1, "{full:?}");
    assert!(full.err.contains("error: session s") && full.err.contains("the store is full"), "{full:?}");
    assert!(full.text().contains("not migrated; see above"), "{full:?}");
    assert_eq!(tables(&first), before);
    let arrived = buckets(&second);
    assert!((1..41).contains(&arrived), "{arrived}");
    let checked = call(&["store", "check", "--dir", &second], b"").ok();
    assert!(checked.text().starts_with("no problems: "), "{checked:?}");
    let rest = from_directory(&first, &["--to-dir", &second, "--json"]).ok().json();
    assert_eq!((&rest["already_there"], &rest["left"]), (&json!(arrived), &json!([])));
    assert_eq!(tables(&second), before);
}

/// Migrations of a directory into which somebody writes answers of the session `busy` until they are over: what each said,
/// and how many answers there were.
fn meanwhile(first: &str, arguments: &[&str], times: usize) -> (Vec<Ran>, u64) {
    // An answer that comes too late for the store is sent on and not stored: on a busy machine, a second is too little.
    let mut running =
        Running::start(&["run", "--dir", first, "--set=directory_sync=off", "--set=store_timeout_ms=60000"]);
    let stop = AtomicBool::new(false);
    let (writer, runs) = (&mut running, &stop);
    let (answers, ran) = thread::scope(|scope| {
        let writing = scope.spawn(move || {
            let entry = json!({"lane": "answers", "text": "x", "metadata": {"session_id": "busy"}});
            let mut answers = 0;
            while !runs.load(Ordering::Relaxed) {
                writer.send(&format!("{entry}\n"));
                writer.line();
                answers += 1;
            }
            answers
        });
        let ran = (0..times).map(|_| from_directory(first, arguments)).collect();
        stop.store(true, Ordering::Relaxed);
        (writing.join().unwrap(), ran)
    });
    drop(running.child.stdin.take());
    assert_eq!(running.end(), Some(0));
    (ran, answers)
}

fn answers(arguments: &[&str]) -> u64 {
    let ran = call(&[&["session", "get", "busy", "answer_count"], arguments].concat(), b"");
    ran.text().trim().parse().unwrap_or(0)
}

#[test]
fn concurrent_writes_are_not_lost() {
    let (server, (_a, first)) = (RedisServer::start().unwrap(), filled());
    let url = format!("--set=redis_url={}", server.url());
    let (in_source, in_target) = (["--dir", &*first], ["--set=backend=redis", &*url]);
    let to = to_redis(&server);
    let (ran, all) = meanwhile(&first, &[&texts(&to)[..], &["--overwrite"]].concat(), 3);
    for ran in ran {
        // It may have changed at the wrong moment each time, and is told then.
        assert!(ran.code == 0 || ran.err.contains("session busy: it kept changing"), "{ran:?}");
    }
    assert_eq!(answers(&in_source), all);
    from_directory(&first, &[&texts(&to)[..], &["--overwrite", "--delete"]].concat()).ok();
    assert_eq!((answers(&in_source), answers(&in_target)), (0, all));
    assert_eq!(call(&["session", "list", "--dir", &first], b"").ok().text(), "");
}

#[test]
fn sessions_deleted_during_writes_were_copied_whole() {
    let ((_a, first), (_b, second)) = (filled(), place());
    let (ran, all) = meanwhile(&first, &["--to-dir", &second, "--delete", "--json"], 1);
    let (left, in_source) = (ran[0].json()["left"].to_string(), answers(&["--dir", &first]));
    if left.contains("busy") {
        assert_eq!(in_source, all, "{left}");
    } else {
        // What came after that began a session of its own.
        assert_eq!(in_source + answers(&["--dir", &second]), all);
    }
}
