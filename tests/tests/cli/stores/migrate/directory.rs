//! Migrations through a directory return the same sessions, byte for byte.

use std::path::Path;

use keepline_tests::servers;
use rusqlite::{Connection as Database, types::Value as Cell};
use tempfile::TempDir;

use super::*;
use crate::call;

/// A place for a store that is not there yet, and its path.
pub(super) fn place() -> (TempDir, String) {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("memory").to_str().unwrap().to_owned();
    (parent, path)
}

/// A migration from a directory to somewhere else.
pub(super) fn from_directory(path: &str, arguments: &[&str]) -> Ran {
    call(&[&["migrate", "--dir", path], arguments].concat(), b"")
}

pub(super) fn to_redis(server: &RedisServer) -> Vec<String> {
    vec!["--to=backend=redis".to_owned(), format!("--to=redis_url={}", server.url())]
}

/// All that is in a directory's database, but for the numbers that rows go by and for the writers.
pub(super) fn tables(path: &str) -> Vec<Vec<Vec<Cell>>> {
    let db = Database::open(Path::new(path).join("keepline.db")).unwrap();
    [
        "SELECT kind, name, milliseconds, sliding, expires_at FROM bucket ORDER BY 1, 2",
        "SELECT b.kind, b.name, form, p.name, first, length FROM bucket b JOIN part p USING (life) ORDER BY 1, 2, 3, 4",
        "SELECT b.kind, b.name, p.name, key, text FROM bucket b JOIN part p USING (life) JOIN entry ON map = p.id
         WHERE form = 0 ORDER BY 1, 2, 3, 4",
        "SELECT b.kind, b.name, p.name, position, text FROM bucket b JOIN part p USING (life) JOIN record ON log = p.id
         WHERE form = 1 AND position >= first ORDER BY 1, 2, 3, 4",
        "SELECT kind, b.name, l.name, holder, ends_at FROM bucket b JOIN lease l USING (life) ORDER BY 1, 2, 3",
    ]
    .map(|sql| {
        let mut rows = db.prepare(sql).unwrap();
        let columns = rows.column_count();
        let rows = rows.query_map([], |row| (0..columns).map(|column| row.get(column)).collect()).unwrap();
        rows.map(Result::unwrap).collect()
    })
    .into()
}

/// What `keepline session` says of some sessions.
fn said(arguments: &[&str]) -> Vec<Vec<u8>> {
    let mut said = Vec::new();
    for (command, session) in
        [("show", "fixed"), ("show", "sliding"), ("show", "empty"), ("history", "long"), ("show", "many-7")]
    {
        let environment = [("KEEPLINE_BACKEND", "redis")];
        said.push(call_with(&environment, &[&["session", command, session, "--json"], arguments].concat()).ok().out);
    }
    said
}

/// As it is shown, but for the time that is left.
fn without_what_passes(said: Vec<Vec<u8>>) -> Vec<serde_json::Value> {
    let mut all: Vec<serde_json::Value> =
        said.into_iter().map(|out| serde_json::from_slice(&out).unwrap_or_default()).collect();
    for one in all.iter_mut().filter_map(serde_json::Value::as_object_mut) {
        one.retain(|name, _| !name.starts_with("expires_in"));
    }
    all
}

#[test]
fn sessions_of_every_kind_go_through_directories_and_a_cluster_and_come_back_unchanged() {
    let (from, back, prefix) = (RedisServer::start().unwrap(), RedisServer::start().unwrap(), prefix());
    let ((_a, first), (_b, second), (_c, third)) = (place(), place(), place());
    fill(&from);
    // A name without a session, which a migration may drop from the list.
    send(&from, &[b"SREM", b"rr:memory:__sessions__", b"dead"]);
    let before = dump(&from);
    // A directory holds text only.
    let there = migrate(&from, &["--to-dir", &first, "--json"]);
    let json = there.json();
    assert_eq!((there.code, &json["copied"], json["left"][0]["session"].as_str()), (1, &json!(55), Some("wide")));
    assert!(json["left"][0]["why"].as_str().unwrap().contains("the value of bytes is not UTF-8"), "{json}");
    assert_eq!(dump(&from), before);
    send(&from, &[b"DEL", b"rr:memory:wide:bytes"]);
    send(&from, &[b"SREM", b"rr:memory:wide:__keys__", b"bytes"]);
    let before = dump(&from);
    let there = migrate(&from, &["--to-dir", &first]).ok();
    assert_eq!(
        told(&there),
        "1 session copied, 55 already there; all that the source lists is in the target, with the same contents\n"
    );
    let shown = without_what_passes(said(&[&format!("--set=redis_url={}", from.url())]));
    assert_eq!(without_what_passes(said(&["--dir", &first])), shown);

    // To a directory, to a cluster, to a directory, and back.
    from_directory(&first, &["--to-dir", &second]).ok();
    assert_eq!(tables(&second), tables(&first));
    let cluster = to_cluster(&prefix);
    from_directory(&second, &[&["--to=backend=redis"], &texts(&cluster)[..]].concat()).ok();
    let as_source: Vec<_> = cluster.iter().map(|field| field.replace("--to=", "--set=")).collect();
    let from_cluster = [&["migrate", "--to-dir", &third], &texts(&as_source)[..]].concat();
    call_with(&[("KEEPLINE_BACKEND", "redis")], &from_cluster).ok();
    assert_eq!(tables(&third), tables(&first));
    from_directory(&third, &texts(&to_redis(&back))).ok();
    let after = dump(&back);
    for (key, was) in &before {
        assert_eq!(after.get(key), Some(was), "{key}");
    }
    assert_eq!(after.len(), before.len());
    for path in [&first, &second, &third] {
        let checked = call(&["store", "check", "--dir", path], b"").ok();
        assert!(checked.text().starts_with("no problems: 56 buckets"), "{checked:?}");
    }
}

#[test]
fn an_answer_repeated_after_the_migration_counts_once() {
    let (server, ((_a, first), (_b, second))) = (RedisServer::start().unwrap(), (place(), place()));
    let entry = json!({"lane": "answers", "text": "one", "metadata": {"session_id": "a", "message_id": "m-1"}});
    let run = |path: &str| {
        call(&["run", "--dir", path], format!("{entry}\n").as_bytes()).ok();
        call(&["session", "get", "a", "answer_count", "--dir", path], b"").ok().text().to_owned()
    };
    assert_eq!(run(&first), "1\n");
    from_directory(&first, &[&texts(&to_redis(&server))[..], &["--delete"]].concat()).ok();
    migrate(&server, &["--to-dir", &second]).ok();
    assert_eq!(run(&second), "1\n");
    assert_eq!(call(&["session", "list", "--dir", &first], b"").ok().text(), "");
}

#[test]
fn existing_sessions_are_left_alone_and_copied_ones_deleted_on_request() {
    let ((_a, first), (_b, second)) = (place(), place());
    let session = |path: &str, arguments: &[&str]| call(&[&["session", "--dir", path], arguments].concat(), b"").ok();
    for name in ["a", "b"] {
        session(&first, &["create", name]);
        session(&first, &["put", name, "k", "1"]);
    }
    let to = ["--to-dir", &*second];
    assert!(told(&from_directory(&first, &to).ok()).starts_with("2 sessions copied;"));
    session(&first, &["put", "b", "k", "2"]);
    let told = from_directory(&first, &[&to[..], &["--delete"]].concat());
    assert!(
        told.code == 1 && told.err.contains("session b: the target has one of that name with different contents"),
        "{told:?}"
    );
    assert!(told.text().contains("1 already there, 1 deleted from the source, 1 not migrated"), "{told:?}");
    assert_eq!(session(&second, &["get", "b", "k"]).text(), "1\n");
    let json =
        from_directory(&first, &[&to[..], &["--delete", "--overwrite", "--scan", "--json"]].concat()).ok().json();
    assert_eq!((&json["copied"], &json["deleted"], &json["unlisted"]), (&json!(1), &json!(1), &json!(0)));
    assert_eq!(session(&second, &["get", "b", "k"]).text(), "2\n");
    assert_eq!(session(&first, &["list"]).text(), "");
}

#[test]
fn invalid_sources_and_targets_are_refused_and_nothing_is_created() {
    let (parent, path) = place();
    let refused = |ran: Ran, told: &[&str]| {
        assert!(ran.code == 2 && told.iter().all(|text| ran.err.contains(text)), "{told:?}: {ran:?}");
        assert_eq!(ran.text(), "");
    };
    let beside = |name: &str| parent.path().join(name).to_str().unwrap().to_owned();
    refused(from_directory(&path, &["--to-dir", &beside("x")]), &["the source can't be used", "no store in", &path]);
    assert!(!Path::new(&path).exists() && !Path::new(&beside("x")).exists());
    call(&["session", "create", "a", "--dir", &path], b"").ok();
    let before = tables(&path);

    refused(from_directory(&path, &["--to-dir", &path]), &["source and target are the same store"]);
    refused(from_directory(&path, &["--to-dir", &format!("{path}/../memory")]), &["source and target are the same"]);
    refused(from_directory(&path, &["--to=directory_sync=off", "--delete"]), &["source and target are the same"]);
    refused(from_directory(&path, &["--to-dir", &beside("x"), "--to=backend=redis"]), &["--to-dir", "contradicts"]);
    refused(from_directory(&path, &["--to=backend=memory"]), &["exists only within a process", "--to-dir"]);
    refused(call(&["migrate", "--to-dir", &beside("x")], b""), &["exists only within a process", "--dir"]);
    refused(from_directory(&path, &[]), &["--to"]);
    assert!(!Path::new(&beside("x")).exists());

    std::fs::write(beside("file"), "precious").unwrap();
    refused(from_directory(&path, &["--to-dir", &beside("file")]), &["the target can't be used"]);
    std::fs::create_dir(beside("foreign")).unwrap();
    std::fs::write(beside("foreign/keepline.db"), "something precious; ".repeat(500)).unwrap();
    refused(from_directory(&path, &["--to-dir", &beside("foreign")]), &["not a Keepline store"]);
    refused(from_directory(&beside("foreign"), &["--to-dir", &path]), &["the source", "not a Keepline store"]);

    call(&["session", "create", "b", "--dir", &beside("newer")], b"").ok();
    let db = Database::open(beside("newer/keepline.db")).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    drop(db);
    refused(from_directory(&path, &["--to-dir", &beside("newer")]), &["the target", "version 99"]);
    refused(from_directory(&beside("newer"), &["--to-dir", &path]), &["the source", "version 99"]);
    let nobody = format!("--to=redis_port={}", servers::dead_port());
    let unreachable = from_directory(&path, &["--to=backend=redis", &nobody]);
    assert!(unreachable.code == 1 && unreachable.err.contains("the target can't be used"), "{unreachable:?}");
    assert_eq!(tables(&path), before);
}
