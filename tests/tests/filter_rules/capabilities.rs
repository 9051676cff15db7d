//! A store's missing capability is reported when the filter is configured, or when it is needed.

use std::sync::Arc;

use keepline::{
    KeeplineError,
    pipe::Effect,
    sessions::SessionErrorCode as Code,
    store::{FailureCode, MemoryStore, Store, StoreInfo, capability},
};
use keepline_tests::{
    intercept::{Intercept, Intercepted},
    lanes::{Node, plugin, untouched},
};

/// A store that says of itself that it can't do something.
#[derive(Debug)]
struct Lacks(&'static [&'static str]);

impl Intercept for Lacks {
    fn about(&self, mut of_store: StoreInfo) -> StoreInfo {
        of_store.capabilities.retain(|name| !self.0.contains(&&**name));
        of_store
    }
}

fn without(capabilities: &'static [&'static str]) -> Arc<dyn Store> {
    Arc::new(Intercepted::new(Arc::new(MemoryStore::default()), Lacks(capabilities)))
}

async fn stores_and_attaches(node: &mut Node) {
    assert!(untouched(Effect::Resumed, &node.ask("s1").await));
    assert!(untouched(Effect::Stored, &node.reply("x").await));
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":1,"last_answer":"x"}"#);
}

#[tokio::test]
async fn a_time_to_live_is_refused_for_a_store_without_expiry() {
    let store = without(&[capability::EXPIRING]);
    for options in [r#"{"session_ttl_hours":1}"#, r#"{"session_ttl_hours":1e-7,"session_ttl_mode":"sliding"}"#] {
        let refused = Node::of(plugin(), &store, options, |_| {}).await.err().unwrap();
        let KeeplineError::Config { field, message } = refused else { panic!("{refused}") };
        assert_eq!(field, "session_ttl_hours");
        assert!(!message.is_empty() && message.len() < 300, "{message}");
    }
    for options in ["{}", r#"{"session_ttl_hours":0}"#, r#"{"session_ttl_mode":"sliding"}"#] {
        let store = without(&[capability::EXPIRING]);
        stores_and_attaches(&mut Node::new(&store, options).await).await;
    }
}

#[tokio::test]
async fn listing_sessions_is_refused_for_a_store_without_listing() {
    let store = without(&[capability::LISTING]);
    let mut node = Node::new(&store, "{}").await;
    stores_and_attaches(&mut node).await;
    let refused = node.sessions.list("", 10).await.unwrap_err();
    assert_eq!(refused.code, Code::Store(FailureCode::Unsupported));
    assert!(node.sessions.resume("s1").await.is_ok());
}

#[tokio::test]
async fn a_store_without_exact_counts_is_reported_once_and_used() {
    for lacks in [&[capability::ATOMIC], &[capability::EXACTLY_ONCE]] {
        let store = without(lacks);
        let mut node = Node::new(&store, "{}").await;
        let told = node.log.take();
        assert_eq!(told.len(), 1, "{told:?}");
        stores_and_attaches(&mut node).await;
        assert!(node.log.take().iter().all(|line| line.starts_with("plugin: keepline.session: ")));
    }
    // Of one that lacks nothing that counts, nothing is told.
    let store = without(&[capability::DURABLE, capability::LEASES, capability::INDEXES]);
    let mut node = Node::new(&store, "{}").await;
    assert_eq!(node.log.take(), [""; 0]);
    stores_and_attaches(&mut node).await;
}
