//! `keepline inspect` shows a plugin's imports; the bundled plugin runs from a file.

use std::fs;

use keepline::plugin::{BUNDLED, BUNDLED_PIPELINES};
use keepline_adapters::{Log, STORE_KEYVALUE, keyvalue, keyvalue_http};
use keepline_tests::programs::program;
use memchr::memmem;
use serde_json::{Value, json};

use crate::{answer, call, call_with, context, question};

#[test]
fn inspect_shows_all_that_the_plugin_imports() {
    let found = call(&["inspect", "--json"], b"").ok().json();
    let imports: Vec<&str> = found["imports"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(
        imports,
        [
            "keepline:common/shared@0.3.0",
            "keepline:store/types@0.3.0",
            "keepline:store/core@0.3.0",
            "keepline:store/leases@0.3.0",
            "keepline:store/indexes@0.3.0",
            "keepline:store/listing@0.3.0",
            "keepline:host/log@0.3.0",
            "wasi:clocks/wall-clock@0.2.0",
            "keepline:host/needs@0.3.0",
        ]
    );
    assert_eq!(found["trapping"], json!([]));
    assert_eq!((&found["loads"], &found["refusal"]), (&json!(true), &Value::Null));
    let text = call(&["inspect"], b"").ok();
    assert!(imports.iter().all(|import| text.text().contains(import)), "{}", text.text());
}

#[test]
fn the_bundled_plugin_is_written_to_a_file_and_runs_from_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keepline.wasm");
    let file = file.to_str().unwrap();
    call(&["component", "--output", file], b"").ok();
    let bytes = fs::read(file).unwrap();
    assert_eq!(bytes, BUNDLED);
    assert_eq!(call(&["component", "-o", "-"], b"").ok().out, bytes);
    let bundled = call(&["inspect", "--json"], b"").json();
    assert_eq!(call(&["inspect", file, "--json"], b"").ok().json()["sha256"], bundled["sha256"]);

    let input = question("a", "1") + &answer("x") + &question("a", "2");
    let ran = call(&["run", "--plugin", file], input.as_bytes()).ok();
    assert_eq!(context(ran.text().lines().last().unwrap())["last_answer"], "x");
    let ran = call_with(&[("KEEPLINE_PLUGIN", file)], &["inspect", "--json"]).ok();
    assert_eq!(ran.json()["plugin"], file);
}

/// The component is much of what people download: the wheel once had it twice, and was over its limit.
#[test]
fn the_program_holds_each_component_once() {
    let program = fs::read(program("--bin", "keepline")).unwrap();
    let logs = [Log::Stderr, Log::WasiLogging, Log::None];
    let composed = logs.map(|log| [keyvalue(log), keyvalue_http(log)]);
    for component in [BUNDLED, BUNDLED_PIPELINES, STORE_KEYVALUE] {
        let middle = &component[component.len() / 2..][..256];
        let count = |bytes: &[u8]| memmem::find_iter(bytes, middle).count();
        let parts: usize = composed.iter().flatten().map(|whole| count(whole)).sum();
        assert_eq!(count(&program), 1 + parts);
    }
}

#[test]
fn the_components_for_other_hosts_are_written_whole() {
    let written = |more: &[&str]| call(&[&["component", "--output", "-"], more].concat(), b"").ok().out;
    assert!(written(&["--world", "pipelines"]) == BUNDLED_PIPELINES);
    assert!(written(&["--world", "store-keyvalue"]) == STORE_KEYVALUE);
    for (name, log) in [("stderr", Log::Stderr), ("wasi-logging", Log::WasiLogging), ("none", Log::None)] {
        assert!(written(&["--world", "keyvalue", "--log", name]) == keyvalue(log), "{name}");
        assert!(written(&["--world", "keyvalue-http", "--log", name]) == keyvalue_http(log), "{name}");
    }
    assert!(written(&["--world", "keyvalue"]) == keyvalue(Log::Stderr));
    let refused = call(&["component", "--world", "filter", "--log", "none", "--output", "-"], b"");
    assert!(refused.err.contains("--log is for --world keyvalue and keyvalue-http"), "{}", refused.err);
    let refused = call(&["component", "--world", "other", "--output", "-"], b"");
    assert!(refused.err.contains("keyvalue-http"), "{}", refused.err);
}
