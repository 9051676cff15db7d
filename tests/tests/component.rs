//! The bundled components: their imports, their exports and their size.

use std::path::Path;

use keepline::plugin::{BUNDLED, BUNDLED_PIPELINES, Sandbox, inspect};
use wit_component::{DecodedWasm, decode, targets};
use wit_parser::{Resolve, WorldId, WorldItem, WorldKey};

fn decoded(component: &[u8]) -> (Resolve, WorldId) {
    match decode(component).unwrap() {
        DecodedWasm::Component(resolve, world) => (resolve, world),
        DecodedWasm::WitPackage(..) => panic!("the bundled bytes are no component"),
    }
}

fn contract() -> (Resolve, WorldId) {
    let mut resolve = Resolve::default();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit");
    let (package, _) = resolve.push_dir(directory).unwrap();
    let world = resolve.select_world(&[package], Some("memory-filter")).unwrap();
    (resolve, world)
}

fn names<'a>(resolve: &Resolve, items: impl Iterator<Item = (&'a WorldKey, &'a WorldItem)>) -> Vec<String> {
    let mut names: Vec<_> = items.map(|(key, _)| resolve.name_world_key(key)).collect();
    names.sort_unstable();
    names
}

/// All functions that a component imports, by interface.
fn imported_functions(component: &[u8]) -> Vec<String> {
    let (resolve, world) = decoded(component);
    let mut functions = Vec::new();
    for (key, item) in &resolve.worlds[world].imports {
        let (name, WorldItem::Interface { id, .. }) = (resolve.name_world_key(key), item) else { panic!("{item:?}") };
        let name = name.split_once('@').unwrap().0.to_owned();
        functions.extend(resolve.interfaces[*id].functions.keys().map(|function| format!("{name}#{function}")));
    }
    functions.sort_unstable();
    functions
}

#[test]
fn the_component_imports_only_functions_of_a_store_a_clock_and_a_log() {
    assert_eq!(
        imported_functions(BUNDLED),
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
    let (resolve, world) = decoded(BUNDLED);
    let exports = names(&resolve, resolve.worlds[world].exports.iter());
    let promised = ["admin/sessions", "admin/transcripts", "admin/users", "memory/lanes", "memory/tasks"];
    assert_eq!(exports, promised.map(|name| format!("keepline:{name}@0.3.0")));
}

#[test]
fn every_function_that_the_contract_promises_is_there() {
    let ((resolve, world), (contract, promised)) = (decoded(BUNDLED), contract());
    let functions = |resolve: &Resolve, world: WorldId| -> Vec<String> {
        let mut functions = Vec::new();
        for item in resolve.worlds[world].exports.values() {
            let WorldItem::Interface { id, .. } = item else { panic!("{item:?}") };
            functions.extend(resolve.interfaces[*id].functions.keys().cloned());
        }
        functions.sort_unstable();
        functions
    };
    assert_eq!(functions(&resolve, world), functions(&contract, promised));
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
    let (filter, pipelines) = (imported_functions(BUNDLED), imported_functions(BUNDLED_PIPELINES));
    assert!(pipelines.iter().all(|function| filter.contains(function)), "{pipelines:?}");
    let (resolve, world) = decoded(BUNDLED_PIPELINES);
    let exports = names(&resolve, resolve.worlds[world].exports.iter());
    let promised = ["configuration", "datasets", "definitions", "runs"];
    assert_eq!(exports, promised.map(|name| format!("keepline:pipelines/{name}@0.3.0")));
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
