//! Stores that are components, filters composed with them, and the ladder: the filter and the store of each published
//! version of the contract, kept as files in `data/ladder/`, work with those of this version.

mod component_store;

use std::{fs, path::Path, sync::Arc};

use keepline::{
    Deadline, Plugin,
    pipe::Effect,
    plugin::BUNDLED,
    store::{ManualClock, MemoryStore, Store, kind},
};
use keepline_stores_tests::{kit, stores::StoreUnderTest};
use keepline_tests::lanes::{Node, sandbox};
use wac_graph::{CompositionGraph, EncodeOptions, plug, types::Package};

use self::component_store::StoreComponent;

/// The memory store as a component: `examples/stores/rust`.
const STORE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/memory-store.wasm"));

/// A version of the contract, and what was published for it.
struct Rung {
    version: String,
    filter: Vec<u8>,
    store: Vec<u8>,
}

/// The published versions, and this one.
fn rungs() -> Vec<Rung> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/ladder");
    let published = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut rungs: Vec<_> = published
        .map(|path| Rung {
            version: path.file_name().unwrap().to_str().unwrap().to_owned(),
            filter: fs::read(path.join("keepline.wasm")).unwrap(),
            store: fs::read(path.join("memory-store.wasm")).unwrap(),
        })
        .collect();
    assert!(!rungs.is_empty(), "{} holds no version", folder.display());
    rungs.push(Rung { version: "this build".to_owned(), filter: BUNDLED.to_vec(), store: STORE.to_vec() });
    rungs
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
    assert_eq!(node.memory("s").await.as_deref(), Some(r#"{"answer_count":2,"last_answer":"second"}"#));
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
