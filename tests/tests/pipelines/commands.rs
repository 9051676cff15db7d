//! `keepline pipeline` as people and scripts use it: editors, files that are ingested again, a project's own files, errors.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use keepline_tests::programs::{self, program};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}", self.err);
        self.out
    }

    fn json(self) -> Value {
        serde_json::from_str(&self.ok()).unwrap()
    }
}

/// A folder with a store, and files beside it.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn call_with(&self, environment: &[(&str, &Path)], arguments: &[&str], input: &str) -> Ran {
        let mut command = programs::command(program("--bin", "keepline"));
        command.arg("pipeline").args(arguments).arg("--dir").arg(self.0.path().join("store"));
        command.env("KEEPLINE_STORE_TIMEOUT_MS", "30000").current_dir(self.0.path());
        command.envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { code: status.code().unwrap_or(-1), out: text(stdout), err: text(stderr) }
    }

    fn call(&self, arguments: &[&str], input: &str) -> Ran {
        self.call_with(&[], arguments, input)
    }
}

fn definition(label: &str) -> String {
    let pipeline = json!([{"type": "kv_get", "instance": "i", "namespace": "n", "keys": ["k"]}]);
    json!({"id": "m", "label": label, "inputs_scope": [], "retrieval": {"pipeline": pipeline}}).to_string()
}

#[test]
fn an_edit_is_checked_before_it_is_stored() {
    let folder = Folder::new();
    folder.call(&["create", "-"], &definition("first")).ok();
    let editor = |name: &str, script: &str| {
        let path = folder.file(name, &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let edit = |editor: &Path| folder.call_with(&[("EDITOR", editor)], &["edit", "m"], "");
    let changed = edit(&editor("change", "sed -i s/first/second/ \"$1\""));
    assert_eq!(changed.ok(), "m was stored as revision 2\n");
    let unchanged = edit(&editor("look", "true"));
    assert_eq!((unchanged.code, unchanged.err.contains("nothing was changed")), (1, true), "{}", unchanged.err);
    let invalid = edit(&editor("break", "sed -i s/kv_get/kv_got/ \"$1\""));
    assert_eq!(invalid.code, 1);
    let kept = invalid.err.lines().find_map(|line| line.strip_prefix("note: what was edited is in "));
    let kept = kept.unwrap_or_else(|| panic!("{}", invalid.err));
    assert!(fs::read_to_string(kept).unwrap().contains("kv_got"));
    fs::remove_file(kept).unwrap();
    assert!(invalid.err.contains("retrieval.pipeline[0].type"), "{}", invalid.err);
    let renamed = edit(&editor("rename", "sed -i 's/\"m\"/\"n\"/' \"$1\""));
    assert!(renamed.code == 1 && renamed.err.contains("can't change the id"), "{}", renamed.err);
    let missing = edit(Path::new("/no/such/editor"));
    assert!(missing.code == 1 && missing.err.contains("set EDITOR"), "{}", missing.err);
    let shown = folder.call(&["show", "m", "--json"], "").json();
    assert_eq!((&shown["memory"]["label"], &shown["revision"]), (&json!("second"), &json!(2)));
}

#[test]
fn files_that_are_ingested_again_are_there_once() {
    let folder = Folder::new();
    let text: String = (0..300).map(|n| format!("word{n} ")).collect();
    let file = folder.file("notes.txt", &text);
    let lines = folder.file("facts.jsonl", "{\"id\":\"f\",\"text\":\"a fact\"}\n\n{\"text\":\"another\"}\n");
    let ingest = |files: &[&Path]| {
        let files = files.iter().map(|file| file.to_str().unwrap());
        let arguments = ["ingest", "--json", "--collection", "c"].into_iter().chain(files).collect::<Vec<_>>();
        folder.call(&arguments, "")
    };
    let first = ingest(&[&file, &lines]).json();
    let chunks = first["chunks"].as_u64().unwrap();
    assert!(chunks > 6, "{first}");
    assert_eq!((&first["texts"], &first["added"], &first["changed"]), (&json!(3), &json!(chunks), &json!(0)));
    let again = ingest(&[&file, &lines]).json();
    assert_eq!((&again["added"], &again["changed"], &again["removed"]), (&json!(0), &json!(chunks), &json!(0)));
    let items = || folder.call(&["items", "documents", "c", "--all", "--json"], "").json();
    assert_eq!(items()["items"].as_array().unwrap().len() as u64, chunks);
    // A shorter text leaves nothing of the longer one.
    fs::write(&file, "short").unwrap();
    let shorter = ingest(&[&file]).json();
    assert_eq!((&shorter["chunks"], &shorter["removed"]), (&json!(1), &json!(chunks - 3)));
    assert_eq!(items()["items"].as_array().unwrap().len(), 3);
    // What can't be read is reported, and the rest is there.
    let missing = ingest(&[Path::new("missing.txt"), &file]);
    assert!(missing.code == 1 && missing.err.contains("missing.txt"), "{}", missing.err);
    assert_eq!(serde_json::from_str::<Value>(&missing.out).unwrap()["unread"], 1);
}

#[test]
fn a_project_s_own_files_are_its_definitions() {
    let folder = Folder::new();
    let project = folder.0.path().to_str().unwrap().to_owned();
    let call = |arguments: &[&str], input: &str| {
        folder.call(&arguments.iter().copied().chain(["--project", &project]).collect::<Vec<_>>(), input)
    };
    call(&["create", "-"], &definition("ours")).ok();
    let file = folder.0.path().join(".codebolt/PersistentMemory/m.json");
    assert!(fs::read_to_string(&file).unwrap().contains("\"label\": \"ours\""));
    folder.file(".codebolt/PersistentMemory/broken.json", "{");
    folder.file(".codebolt/context-rule-engines/e.json", r#"{"id":"e","name":"E","rules":[]}"#);
    let listed = call(&["list"], "");
    assert!(listed.err.contains("broken.json is left out"), "{}", listed.err);
    assert!(listed.ok().starts_with("m\tours\tactive"));
    assert!(call(&["list", "--rules"], "").ok().starts_with("e\tE (0 rules)\tenabled"));
    call(&["put", "values", "i", "--namespace", "n"], r#"{"key":"k","value":"of the store"}"#).ok();
    assert_eq!(call(&["run", "m"], "").ok(), "- of the store\n");
    call(&["delete", "m", "--yes"], "").ok();
    assert!(!file.exists());
}

#[test]
fn errors_name_what_was_wrong_and_nothing_is_half_done() {
    let folder = Folder::new();
    folder.call(&["create", "-"], &definition("first")).ok();
    let refused = |arguments: &[&str], input: &str, code: i32, told: &str| {
        let ran = folder.call(arguments, input);
        assert!(ran.code == code && ran.err.contains(told), "{arguments:?}: {} {}", ran.code, ran.err);
        assert_eq!(ran.out, "", "{arguments:?}");
    };
    refused(&["create", "-"], &definition("again"), 1, "there is a memory m already");
    refused(&["create", "-"], "{", 1, "not JSON");
    refused(&["create", "missing.json"], "", 1, "can't read missing.json");
    refused(&["validate", "-"], r#"{"id":"m"}"#, 1, "label");
    refused(&["show", "none"], "", 1, "there is no memory none");
    refused(&["show", "none", "--rules"], "", 1, "there is no rule engine none");
    refused(&["update", "m", r#"{"label":""}"#], "", 1, "label");
    refused(&["update", "m", "{}", "--revision", "7"], "", 1, "revision 7");
    refused(&["delete", "m"], "", 2, "use --yes");
    refused(&["list", "--owner", "somebody"], "", 2, "project/NAME");
    refused(&["list", "--scope", "nowhere"], "", 1, "nowhere is none of");
    refused(&["run", "m", "--intent", "[]"], "", 2, "--intent must be a JSON object");
    let values = ["put", "values", "i", "--namespace", "n"];
    refused(&values, "{\"key\":\"k\",\"value\":1}\n{\"key\":\"l\"}\n", 2, "line 2");
    refused(
        &["put", "values", "session", "--namespace", "n"],
        r#"{"key":"k","value":1}"#,
        1,
        "no data set can have this name",
    );
    refused(&["put", "nodes"], "{\"id\":\"a\"}\n{\"kind\":\"k\"}", 1, "items[1].id");
    refused(&["put", "events", "e"], r#"{"timestamp":"yesterday","event_type":"t"}"#, 1, "items[0].timestamp");
    assert_eq!(folder.call(&["items", "values", "i", "--namespace", "n"], "").ok(), "");
    assert_eq!(folder.call(&["items", "nodes"], "").ok(), "");
    let found = folder.call(&["show", "m", "--json"], "").json();
    assert_eq!((&found["memory"]["label"], &found["revision"]), (&json!("first"), &json!(1)));
}
