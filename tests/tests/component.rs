//! The bundled components: their imports, their exports and their size.

use std::path::Path;

use keepline::plugin::{BUNDLED, BUNDLED_PIPELINES, Sandbox, inspect};
use keepline_tests::interfaces::WorldInterfaces;
use wit_component::targets;
use wit_parser::{Resolve, WorldId};

fn contract() -> (Resolve, WorldId) {
    let mut resolve = Resolve::default();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit");
    let (package, _) = resolve.push_dir(directory).unwrap();
    let world = resolve.select_world(&[package], Some("memory-filter")).unwrap();
    (resolve, world)
}

#[test]
fn the_component_imports_only_functions_of_a_store_a_clock_and_a_log() {
    let imports = WorldInterfaces::of_component(BUNDLED).imports;
    let functions = imports.iter().flat_map(|(interface, functions)| {
        functions.iter().map(move |function| format!("{}#{function}", interface.split_once('@').unwrap().0))
    });
    assert_eq!(
        functions.collect::<Vec<_>>(),
        [
            "keepline:host/log#write",
            "keepline:store/core#about",
            "keepline:store/core#delete-each",
            "keepline:store/core#transact",
            "keepline:store/core#transact-each",
            "keepline:store/indexes#transact-each",
            "keepline:store/leases#transact-each",
            "keepline:store/listing#list-buckets",
            "wasi:clocks/wall-clock#now",
        ]
    );
}

#[test]
fn it_exports_lanes_tasks_and_administration_and_nothing_else() {
    let exports = WorldInterfaces::of_component(BUNDLED).exports;
    let promised = ["admin/sessions", "admin/transcripts", "admin/users", "memory/lanes", "memory/tasks"];
    assert_eq!(exports.into_keys().collect::<Vec<_>>(), promised.map(|name| format!("keepline:{name}@0.3.0")));
}

#[test]
fn every_function_that_the_contract_promises_is_there() {
    let (contract, promised) = contract();
    let promised = WorldInterfaces::of_world(&contract, promised).exports;
    assert_eq!(WorldInterfaces::of_component(BUNDLED).exports, promised);
}

#[test]
fn the_component_targets_the_world_of_the_contract() {
    let (contract, world) = contract();
    targets(&contract, world, BUNDLED).unwrap();
}

#[test]
fn the_component_is_smaller_than_640_kib() {
    assert!(BUNDLED.len() < 640 * 1024, "{} bytes", BUNDLED.len());
}

#[test]
fn the_host_accepts_the_component() {
    let inspection = inspect(BUNDLED, &Sandbox::default()).unwrap();
    assert_eq!(inspection.refusal, None);
    assert_eq!((inspection.trapping.len(), inspection.exports.len()), (0, 5));
    assert_eq!(inspection.size, BUNDLED.len());
}

#[test]
fn pipelines_import_nothing_that_the_filter_does_not() {
    let filter = WorldInterfaces::of_component(BUNDLED).imports;
    let WorldInterfaces { imports, exports } = WorldInterfaces::of_component(BUNDLED_PIPELINES);
    for (interface, functions) in imports {
        let known = filter.get(&interface).unwrap_or_else(|| panic!("the filter does not import {interface}"));
        assert!(functions.iter().all(|function| known.contains(function)), "{interface}: {functions:?}");
    }
    let promised = ["configuration", "datasets", "definitions", "runs"];
    assert_eq!(
        exports.into_keys().collect::<Vec<_>>(),
        promised.map(|name| format!("keepline:pipelines/{name}@0.3.0"))
    );
}

#[test]
fn pipelines_target_their_world_and_are_smaller_than_a_mebibyte() {
    let mut resolve = Resolve::default();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit/pipelines");
    let (package, _) = resolve.push_dir(directory).unwrap();
    let world = resolve.select_world(&[package], Some("pipelines")).unwrap();
    targets(&resolve, world, BUNDLED_PIPELINES).unwrap();
    assert!(BUNDLED_PIPELINES.len() < 1 << 20, "{} bytes", BUNDLED_PIPELINES.len());
    let inspection = inspect(BUNDLED_PIPELINES, &Sandbox::default()).unwrap();
    assert_eq!(inspection.refusal, None);
}
