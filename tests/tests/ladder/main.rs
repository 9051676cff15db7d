//! Stores that are components, filters composed with them, and the ladder: the filter and the store of each published
//! version of the contract, kept as files in `data/ladder/`, work with those of this version, and so do those of the next.

use std::{env, fs, sync::Arc};

use keepline::{
    Deadline, Plugin,
    pipe::Effect,
    plugin::BUNDLED,
    store::{ManualClock, MemoryStore, Store, kind},
};
use keepline_stores_tests::{kit, stores::StoreUnderTest};
use keepline_tests::{
    component_store::StoreComponent,
    interfaces::{Interfaces, WorldInterfaces},
    ladder::{self, Rung},
    lanes::{Node, sandbox},
};
use wac_graph::{CompositionGraph, EncodeOptions, plug, types::Package};

/// The memory store as a component: `examples/stores/rust`.
const STORE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/memory-store.wasm"));

/// The published versions, this one, and the next.
fn rungs() -> Vec<Rung> {
    let unpublished = [Rung::of_this_version(BUNDLED, STORE), Rung::of_next_version(BUNDLED, STORE)];
    ladder::published().into_iter().chain(unpublished).collect()
}

fn compose(filter: &[u8], store: &[u8]) -> Vec<u8> {
    let mut graph = CompositionGraph::new();
    let package = Package::from_bytes("keepline:filter", None, filter.to_vec(), graph.types_mut()).unwrap();
    let filter = graph.register_package(package).unwrap();
    let package = Package::from_bytes("keepline:lent", None, store.to_vec(), graph.types_mut()).unwrap();
    let store = graph.register_package(package).unwrap();
    plug(&mut graph, vec![store], filter).unwrap();
    graph.encode(EncodeOptions::default()).unwrap()
}

/// A plugin answers, and remembers.
async fn assert_remembers(plugin: &[u8], lent: &Arc<dyn Store>) {
    let plugin = Plugin::from_bytes(plugin, &sandbox()).unwrap();
    let mut node = Node::of(plugin, lent, r#"{"conversation": true}"#, |_| {}).await.unwrap();
    for text in ["first", "second"] {
        assert_eq!(node.ask("s").await.problem, None);
        let said = node.say("s", text).await;
        assert_eq!((said.effect, said.problem), (Effect::Stored, None));
    }
    let metadata = node.ask("s").await.metadata.unwrap();
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    assert_eq!(metadata["memory_context"], serde_json::json!({"answer_count": 2, "last_answer": "second"}));
    assert_eq!(metadata["memory_messages"].as_array().map(Vec::len), Some(4), "{metadata}");
}

/// `KEEPLINE_PUBLISH=1` makes this build the published one of the version that `wit/` has now.
#[test]
fn the_version_of_the_contract_is_published() {
    let folder = ladder::folder().join(ladder::contract_version());
    if env::var_os("KEEPLINE_PUBLISH").is_some() {
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(ladder::FILTER), BUNDLED).unwrap();
        fs::write(folder.join(ladder::STORE), STORE).unwrap();
    }
    assert!(folder.is_dir(), "{} is missing: run this test with KEEPLINE_PUBLISH=1", folder.display());
}

/// Hosts with generated bindings would find nothing of an interface in a component that lacks one of its functions: a new
/// function goes into an interface of its own.
#[test]
fn published_interfaces_have_the_functions_that_they_were_published_with() {
    for ours in [Rung::of_this_version(BUNDLED, STORE), Rung::of_next_version(BUNDLED, STORE)] {
        let (filter, store) = (exports_by_minor_version(&ours.filter), exports_by_minor_version(&ours.store));
        for rung in ladder::published() {
            let published_filter = exports_by_minor_version(&rung.filter);
            let published_store = exports_by_minor_version(&rung.store);
            for (published, ours) in [(published_filter, &filter), (published_store, &store)] {
                for (interface, functions) in published {
                    assert_eq!(ours.get(&interface), Some(&functions), "{interface}, since {}", rung.version);
                }
            }
        }
    }
}

/// Exported interfaces, under names that all versions share: `keepline:memory/lanes@0.3`.
fn exports_by_minor_version(component: &[u8]) -> Interfaces {
    let exports = WorldInterfaces::of_component(component).exports.into_iter();
    exports.map(|(name, functions)| (name.rsplit_once('.').unwrap().0.to_owned(), functions)).collect()
}

#[tokio::test]
async fn stores_that_are_components_pass_the_store_kit() {
    for Rung { version, store, .. } in rungs() {
        let component = StoreComponent::compile(&store);
        for topic in kit::topics() {
            println!("{version}: {topic}");
            kit::replay(&topic, || {
                let clock = ManualClock::new();
                StoreUnderTest::component(component.instantiate(clock.clone()), clock)
            })
            .await;
        }
    }
}

#[tokio::test]
async fn filters_run_composed_with_stores_of_every_version() {
    let rungs = rungs();
    for filter in &rungs {
        for store in &rungs {
            println!("filter of {}, store of {}", filter.version, store.version);
            let lent: Arc<dyn Store> = Arc::new(MemoryStore::default());
            assert_remembers(&compose(&filter.filter, &store.store), &lent).await;
            let names = lent.list_buckets(kind::SESSION, "", 0, Deadline::NEVER).await.unwrap().names;
            assert_eq!(names, Vec::<String>::new(), "the host's own store is not asked");
        }
    }
}

#[tokio::test]
async fn filters_of_every_version_run_on_this_host() {
    for Rung { version, filter, .. } in rungs() {
        println!("filter of {version}");
        let lent: Arc<dyn Store> = Arc::new(MemoryStore::default());
        assert_remembers(&filter, &lent).await;
    }
}
