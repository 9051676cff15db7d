//! A store's missing capability is reported when the filter is configured, or when it is needed.

use std::sync::Arc;

use keepline::{
    KeeplineError,
    pipe::Effect,
    sessions::SessionErrorCode as Code,
    store::{FailureCode, MemoryStore, Store, StoreCapabilities},
};
use keepline_tests::{
    intercept::{Intercept, Intercepted},
    lanes::{Node, plugin, untouched},
};

/// A store that says of itself that it can't do something.
#[derive(Debug)]
struct Lacks(fn(&mut StoreCapabilities));

impl Intercept for Lacks {
    fn capabilities(&self, mut told: StoreCapabilities) -> StoreCapabilities {
        (self.0)(&mut told);
        told
    }
}

fn without(what: fn(&mut StoreCapabilities)) -> Arc<dyn Store> {
    Arc::new(Intercepted::new(Arc::new(MemoryStore::default()), Lacks(what)))
}

async fn stores_and_attaches(node: &mut Node) {
    assert!(untouched(Effect::Resumed, &node.ask("s1").await));
    assert!(untouched(Effect::Stored, &node.reply("x").await));
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":1,"last_answer":"x"}"#);
}

#[tokio::test]
async fn a_time_to_live_is_refused_for_a_store_without_expiry() {
    let store = without(|told| told.expiring = false);
    for options in [r#"{"session_ttl_hours":1}"#, r#"{"session_ttl_hours":1e-7,"session_ttl_mode":"sliding"}"#] {
        let refused = Node::of(plugin(), &store, options, |_| {}).await.err().unwrap();
        let KeeplineError::Config { field, message } = refused else { panic!("{refused}") };
        assert_eq!(field, "session_ttl_hours");
        assert!(!message.is_empty() && message.len() < 300, "{message}");
    }
    for options in ["{}", r#"{"session_ttl_hours":0}"#, r#"{"session_ttl_mode":"sliding"}"#] {
        let store = without(|told| told.expiring = false);
        stores_and_attaches(&mut Node::new(&store, options).await).await;
    }
}

#[tokio::test]
async fn listing_sessions_is_refused_for_a_store_without_listing() {
    let store = without(|told| told.listing = false);
    let mut node = Node::new(&store, "{}").await;
    stores_and_attaches(&mut node).await;
    let refused = node.sessions.list("", 10).await.unwrap_err();
    assert_eq!(refused.code, Code::Store(FailureCode::Unsupported));
    assert!(node.sessions.resume("s1").await.is_ok());
}

#[tokio::test]
async fn a_store_without_exact_counts_is_reported_once_and_used() {
    let lacks: [fn(&mut StoreCapabilities); 2] = [|told| told.atomic = false, |told| told.exactly_once = false];
    for lacks in lacks {
        let store = without(lacks);
        let mut node = Node::new(&store, "{}").await;
        let told = node.log.take();
        assert_eq!(told.len(), 1, "{told:?}");
        stores_and_attaches(&mut node).await;
        assert!(node.log.take().iter().all(|line| line.starts_with("plugin: keepline.session: ")));
    }
    // Of one that lacks nothing that counts, nothing is told.
    let store = without(|told| (told.durable, told.leases, told.indexes) = (false, false, false));
    let mut node = Node::new(&store, "{}").await;
    assert_eq!(node.log.take(), [""; 0]);
    stores_and_attaches(&mut node).await;
}
