//! The bundled component: its imports, its exports and its size.

use std::path::Path;

use keepline::plugin::{BUNDLED, Sandbox, inspect};
use wit_component::{DecodedWasm, decode, targets};
use wit_parser::{Resolve, WorldId, WorldItem, WorldKey};

fn decoded() -> (Resolve, WorldId) {
    match decode(BUNDLED).unwrap() {
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

#[test]
fn the_component_imports_only_functions_of_a_store_a_clock_and_a_log() {
    let (resolve, world) = decoded();
    let mut functions = Vec::new();
    for (key, item) in &resolve.worlds[world].imports {
        let (name, WorldItem::Interface { id, .. }) = (resolve.name_world_key(key), item) else { panic!("{item:?}") };
        let name = name.split_once('@').unwrap().0.to_owned();
        functions.extend(resolve.interfaces[*id].functions.keys().map(|function| format!("{name}#{function}")));
    }
    functions.sort_unstable();
    assert_eq!(
        functions,
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
    let (resolve, world) = decoded();
    let exports = names(&resolve, resolve.worlds[world].exports.iter());
    let promised = ["admin/sessions", "admin/transcripts", "admin/users", "memory/lanes", "memory/tasks"];
    assert_eq!(exports, promised.map(|name| format!("keepline:{name}@0.3.0")));
}

#[test]
fn every_function_that_the_contract_promises_is_there() {
    let ((resolve, world), (contract, promised)) = (decoded(), contract());
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
