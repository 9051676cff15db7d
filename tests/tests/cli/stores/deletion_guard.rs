//! Data is deleted only from the store that the command line names.

use std::fs;

use keepline_local_redis::RedisServer;

use crate::{Ran, answer, call, finish, keepline, question};

/// As a shell in which the README's variables are exported.
fn with_exported(directory: &str, arguments: &[&str], input: &[u8]) -> Ran {
    let exported = [("KEEPLINE_BACKEND", "directory"), ("KEEPLINE_DIRECTORY", directory)];
    finish(keepline(arguments.iter().copied()).envs(exported).spawn().unwrap(), input)
}

#[test]
fn nothing_is_deleted_from_a_store_that_replaced_the_typed_one() {
    let server = RedisServer::start().unwrap();
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("memory").to_str().unwrap().to_owned();
    call(&["run", "--dir", &directory], (question("a", "1") + &answer("one")).as_bytes()).ok();
    let exported = call(&["session", "export", "--all", "--dir", &directory], b"").ok();
    let export = place.path().join("export.jsonl");
    fs::write(&export, &exported.out).unwrap();
    let export = export.to_str().unwrap();
    let file = place.path().join("redis.json");
    fs::write(&file, format!(r#"{{"backend": "redis", "redis_url": "{}"}}"#, server.url())).unwrap();
    let file = file.to_str().unwrap();

    for typed in [["--profile", "redis"], ["--config", file]] {
        for command in [
            &["session", "clear-all", "--yes"][..],
            &["session", "delete", "a"],
            &["session", "clear", "a", "--all"],
            &["session", "clear-messages", "a", "--all"],
            &["session", "set-messages", "a", export],
            &["session", "remove", "a", "0"],
            &["session", "edit", "a", "0", "other"],
            &["session", "import", export, "--replace"],
            &["user", "forget", "a", "--yes"],
            &["user", "remove", "a", "key"],
            &["migrate", "--to-dir", &format!("{directory}-2"), "--delete"],
            &["store", "repair"],
        ] {
            let ran = with_exported(&directory, &[command, &typed].concat(), b"");
            assert_eq!(ran.code, 2, "{command:?} {ran:?}");
            for part in ["KEEPLINE_BACKEND", "the store in use is the directory", &directory, "--dir"] {
                assert!(ran.err.contains(part), "{command:?} {ran:?}");
            }
        }
        let left = call(&["session", "export", "--all", "--dir", &directory], b"").ok();
        assert_eq!(left.out, exported.out);

        // Whoever only reads is told which store that is.
        let read = with_exported(&directory, &[&["session", "list"][..], &typed].concat(), b"").ok();
        assert_eq!(read.text(), "a\n");
        assert!(read.err.contains("KEEPLINE_BACKEND") && read.err.contains(&directory), "{read:?}");
    }
    // Once the store itself is typed, there is nothing to doubt.
    let typed = ["session", "delete", "a", "--profile", "redis", "--dir", &directory];
    assert_eq!(with_exported(&directory, &typed, b"").ok().err, "");
    assert_eq!(call(&["session", "list", "--dir", &directory], b"").ok().text(), "");
}

#[test]
fn a_store_from_the_environment_alone_is_accepted() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("memory").to_str().unwrap().to_owned();
    let file = place.path().join("limits.json");
    fs::write(&file, r#"{"max_keys": 50}"#).unwrap();
    let entries = question("a", "1") + &answer("one");
    for typed in [&["--profile", "chat"][..], &["--config", file.to_str().unwrap()], &[]] {
        let ran = with_exported(&directory, &[&["run"][..], typed].concat(), entries.as_bytes()).ok();
        assert_eq!(ran.err, "", "{typed:?}");
        let ran = with_exported(&directory, &[&["session", "delete", "a"][..], typed].concat(), b"").ok();
        assert_eq!(ran.err, "", "{typed:?}");
    }
}

#[test]
fn the_confirmation_names_the_store() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("memory").to_str().unwrap().to_owned();
    for command in [&["session", "clear-all"][..], &["user", "forget", "anna"]] {
        let ran = call(&[command, &["--dir", &directory]].concat(), b"");
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains(&format!("deleted from the directory {directory}")), "{ran:?}");
        let redis = ["--set=backend=redis", "--set=redis_url=redis://u:secret@localhost:1/3", "--set=key_prefix=t:a"];
        let ran = call(&[command, &redis].concat(), b"");
        assert!(ran.err.contains("Redis at localhost:1, database 3, key prefix t:a"), "{ran:?}");
        assert!(!ran.err.contains("secret"), "{ran:?}");
    }
}
