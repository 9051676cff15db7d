//! The kit of `conformance/`, replayed on every store.

use keepline_stores_tests::{kit, stores::StoreUnderTest};

macro_rules! topics {
    ($($topic:ident,)*) => {
        /// A file that is replayed by nobody promises nothing.
        #[test]
        fn every_topic_is_replayed() {
            let mut replayed = [$(stringify!($topic).replace('_', "-"),)*];
            replayed.sort_unstable();
            assert_eq!(kit::topics(), replayed);
        }

        topics!(memory: $($topic,)*);
        topics!(memory_evicting: $($topic,)*);
        topics!(directory: $($topic,)*);
        topics!(redis: $($topic,)*);
        topics!(redis_general: $($topic,)*);
        topics!(cluster: $($topic,)*);
    };
    ($store:ident: $($topic:ident,)*) => {
        mod $store {
            $(#[test] fn $topic() { super::replay(stringify!($topic), super::StoreUnderTest::$store); })*
        }
    };
}

fn replay(topic: &str, store: fn() -> StoreUnderTest) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(kit::replay(&topic.replace('_', "-"), store));
}

topics![
    buckets,
    counters,
    exactly_once,
    expectations,
    expiry,
    indexes,
    leases,
    limits,
    logs,
    maps,
    openings,
    transactions,
    values,
];
