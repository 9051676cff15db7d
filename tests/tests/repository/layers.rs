//! Each layer knows only those below it, and nobody compiles what another layer is for.

use std::{collections::BTreeSet, env, fs, path::Path, process::Command};

/// What a package is compiled with, all that it depends on included, but not what only its build or its tests take.
fn compiled_with(package: &str, features: &[&str]) -> BTreeSet<String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut tree = Command::new(cargo);
    tree.args(["tree", "--offline", "--package", package, "--edges", "normal", "--prefix", "none"]);
    let tree = tree.args(features).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let names = String::from_utf8(tree.stdout).unwrap();
    names.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

fn assert_none_of(package: &str, features: &[&str], foreign: &[&str]) {
    let compiled = compiled_with(package, features);
    let found: Vec<_> = foreign.iter().filter(|name| compiled.contains(**name)).collect();
    assert!(found.is_empty(), "{package} {features:?} is compiled with {found:?}");
}

const COMMAND_LINE: [&str; 9] = [
    "clap",
    "comfy-table",
    "hdrhistogram",
    "indicatif",
    "mimalloc",
    "owo-colors",
    "plotters",
    "prometheus-client",
    "axum",
];

#[test]
fn the_stores_depend_on_neither_wasmtime_nor_the_filter() {
    let foreign = ["keepline", "keepline-filter", "serde_json"];
    for features in ["directory", "redis"] {
        assert_none_of("keepline-stores", &["--features", features], &["wasmtime"]);
        assert_none_of("keepline-stores", &["--features", features], &foreign);
        assert_none_of("keepline-stores", &["--features", features], &COMMAND_LINE);
    }
    // Only who lends it to a component asks for the component's types.
    let lent = compiled_with("keepline-stores", &["--features", "component"]);
    assert!(lent.contains("wasmtime") && !lent.contains("keepline"));
}

/// A package carries the component; only the repository has what builds it.
#[test]
fn the_library_depends_on_wit_component_only_when_built_from_source() {
    // wasmtime's macros know it, for whoever writes bindings with them.
    let builds = ["--edges", "normal,build", "--no-default-features", "--prune", "wasmtime"];
    assert_none_of("keepline", &builds, &["wit-component"]);
    let making = [&builds[..], &["--features", "from-source"]].concat();
    assert!(compiled_with("keepline", &making).contains("wit-component"));
}

#[test]
fn the_library_depends_on_no_command_line_plots_allocator_or_filter() {
    assert_none_of("keepline", &[], &COMMAND_LINE);
    assert_none_of("keepline", &[], &["keepline-filter", "keepline-harness", "keepline-local-redis", "tempfile"]);
}

#[test]
fn without_configuration_no_redis_and_no_directory_is_used() {
    let redis = ["redis", "rustls", "ring", "backon"];
    for package in ["keepline", "keepline-stores"] {
        assert_none_of(package, &["--no-default-features"], &redis);
        assert_none_of(package, &["--no-default-features"], &["rusqlite", "libsqlite3-sys"]);
        assert_none_of(package, &["--no-default-features", "--features", "directory"], &redis);
        assert_none_of(package, &["--no-default-features", "--features", "redis"], &["rusqlite", "libsqlite3-sys"]);
    }
}

#[test]
fn the_filter_depends_on_no_host() {
    assert_none_of("keepline-filter", &[], &["wasmtime", "redis", "tokio", "keepline", "keepline-stores"]);
}

#[test]
fn only_one_file_of_the_filter_uses_wit_bindgen() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest/src");
    let mut knowing = Vec::new();
    let mut folders = vec![sources];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if fs::read_to_string(entry.path()).unwrap().contains("wit_bindgen") {
                knowing.push(entry.file_name().into_string().unwrap());
            }
        }
    }
    assert_eq!(knowing, ["bindings.rs"]);
}

#[test]
fn the_harness_does_not_depend_on_wasmtime_directly() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../harness/Cargo.toml")).unwrap();
    assert!(!manifest.lines().any(|line| line.starts_with("wasmtime")), "{manifest}");
}
