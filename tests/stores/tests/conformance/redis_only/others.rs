//! Redis behind the store's back: what the original, an eviction, a failover or somebody careless leaves there.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use keepline_local_redis::RedisServer;
use keepline_stores::{Deadline, RedisOptions, RedisStore, Status, Store, TimeToLive, Writer, kind};
use keepline_stores_tests::{
    raw::RawRedis,
    requests::*,
    stores::{StoreUnderTest, new_writer},
};

const HOUR: Duration = Duration::from_secs(3600);

fn run<F: Future<Output = ()>>(case: impl Fn(Arc<StoreUnderTest>) -> F) {
    keepline_stores_tests::stores::run(StoreUnderTest::redis(), &case);
    keepline_stores_tests::stores::run(StoreUnderTest::redis_general(), &case);
}

/// Lose all that the store has registered.
fn forget_the_registered(raw: &RawRedis) {
    for registry in raw.keys().into_iter().filter(|key| key.ends_with("__sessions__")) {
        raw.on::<()>("DEL", &registry, &[]);
    }
}

#[test]
fn a_bucket_missing_from_the_registry_is_registered_by_its_next_use() {
    let case = async |s: Arc<StoreUnderTest>| {
        for precondition in [create(), create_for(HOUR), create_sliding(HOUR)] {
            let receipt = s.ask(&transaction("b", precondition.clone(), [put("k", "1")])).await;
            let life = life(&receipt.generation.unwrap());
            for (precondition, operations) in [
                (precondition, vec![get_all()]),
                (existing(), vec![get("k")]),
                (existing(), vec![]),
                (existing(), vec![put("k", "2")]),
                (life.clone(), vec![read_all("l")]),
                (life, vec![add("n", 1), append("l", &["x"])]),
            ] {
                forget_the_registered(s.raw());
                assert_eq!(s.list(10).await, [""; 0]);
                let asked = transaction("b", precondition, operations);
                let before = s.store.round_trips();
                assert_eq!(s.ask_as(&new_writer(), &asked).await.status, Status::Applied);
                assert_eq!(s.store.round_trips() - before, 1);
                assert_eq!(s.list(10).await, ["b"], "{asked:?}");
            }
            // Also by a pipe that does nothing but write.
            let mut writer = Writer::new();
            let count = transaction("b", existing(), [add("n", 1)]);
            s.ask_as(writer.advance(), &count).await;
            forget_the_registered(s.raw());
            s.pass_time(Duration::from_secs(310));
            s.ask_as(writer.advance(), &count).await;
            assert_eq!(s.list(10).await, ["b"]);
            // What is told to whoever is not served is no use of it.
            forget_the_registered(s.raw());
            assert_eq!(s.status("b", create_new()).await, Status::Exists);
            assert!(s.is_there("b").await);
            assert_eq!(s.list(10).await, [""; 0]);
            s.delete("b").await;
            assert_eq!(s.list(10).await, [""; 0]);
        }
    };
    run(case);
    keepline_stores_tests::stores::run(StoreUnderTest::cluster(), case);
}

/// What the original takes for a key, or somebody else put there.
const STRANGERS: [&[u8]; 8] = [b"k\n", "\u{e9}".as_bytes(), b"__meta__", b"__x__", b"__", b"not\xffutf8", b"", b"\0"];

async fn with_strangers(s: &StoreUnderTest) {
    s.apply("b", create_for(HOUR), [put("k", "\"1\""), put("l", "\"2\""), append("history", &["h"])]).await;
    let raw = s.raw();
    for name in STRANGERS {
        raw.run::<()>(redis::cmd("SADD").arg(raw.address("b:__keys__")).arg(name));
        if !name.starts_with(b"__") {
            let address = [raw.address("b:").as_bytes(), name].concat();
            raw.run::<()>(redis::cmd("SET").arg(address).arg("\"stranger\"").arg("KEEPTTL"));
        }
    }
}

#[test]
fn invalid_key_names_are_neither_returned_nor_extent() {
    run(async |s| {
        with_strangers(&s).await;
        let two = entries(&[("k", "\"1\""), ("l", "\"2\"")]);
        let reads = [get_all(), get_all_within(8, 2)];
        assert_eq!(s.apply("b", existing(), reads).await, [two.clone(), two]);
        let outcome = s.apply_one("b", get_all_within(ALL, 1)).await;
        assert_eq!(oversize_of(&outcome).entries, 2);
        let page = entries_of(s.apply_one("b", page("values", "", 10, ALL)).await);
        assert_eq!((page.entries.len(), page.unreadable().len()), (2, 0));
        assert_eq!(s.describe("b").await.values, 2);
        for (expected, status) in [
            (absent("m"), Status::Applied),
            (present("m"), Status::Unmet),
            (room_within(3), Status::Applied),
            (room_within(2), Status::Unmet),
        ] {
            let asked = expecting("b", existing(), [expected.clone()], [put("m", "1")]);
            assert_eq!(s.ask(&asked).await.status, status, "{expected:?}");
            s.apply_one("b", remove("m")).await;
        }
    });
}

#[test]
fn a_foreign_name_in_the_key_set_does_not_hide_a_valid_key() {
    run(async |s| {
        s.apply("b", create(), [put("k", "1")]).await;
        s.raw().on::<()>("SADD", "b:__keys__", &["k\n"]);
        s.raw().on::<()>("SET", "b:k\n", &["more than fits"]);
        for limits in [get_all(), get_all_within(2, 1), get_all_within(2, ALL), get_all_within(ALL, 1)] {
            assert_eq!(s.apply_one("b", limits).await, entries(&[("k", "1")]));
        }
        let outcome = s.apply_one("b", get_all_within(1, 1)).await;
        assert_eq!(oversize_of(&outcome).entries, 1);
    });
}

#[test]
fn foreign_keys_are_deleted_with_the_values_and_with_the_bucket() {
    run(async |s| {
        let elsewhere = "b:other:last_answer";
        with_strangers(&s).await;
        // A store of a longer prefix has that one.
        s.raw().on::<()>("SADD", "b:__keys__", &["other:last_answer"]);
        s.raw().on::<()>("SET", elsewhere, &["\"theirs\""]);
        assert_eq!(s.apply_one("b", remove_all()).await, changed(0, 2));
        let kept = ["__history__", "__meta__", "__writers__", "other:last_answer"].map(|name| format!("b:{name}"));
        let all = || s.raw().keys().into_iter().filter(|key| key.starts_with("b:")).collect::<Vec<_>>();
        assert_eq!(all(), kept);
        assert_eq!(s.apply("b", existing(), [get_all(), count("history")]).await, [nothing(), extent(0, 1)]);

        with_strangers(&s).await;
        s.raw().on::<()>("SADD", "b:__keys__", &["other:last_answer"]);
        assert_eq!(s.delete("b").await, (Status::Applied, vec!["k".into(), "l".into()]));
        assert_eq!(all(), ["b:__writers__", elsewhere]);

        with_strangers(&s).await;
        s.raw().on::<()>("DEL", "b:__meta__", &[]);
        assert_eq!(s.apply("b", create_new(), [get_all()]).await, [nothing()]);
        assert_eq!(all(), ["b:__meta__", "b:__writers__", elsewhere]);
    });
}

#[test]
fn a_time_to_live_stored_by_the_original_is_reported_in_milliseconds() {
    run(async |s| {
        for (noted, milliseconds) in
            [("86400.0", Some(86_400_000)), ("0.5", Some(500)), ("1e-05", Some(1)), ("None", None), ("junk", None)]
        {
            s.apply("b", create_for(HOUR), []).await;
            s.raw().on::<()>("HSET", "b:__meta__", &["ttl_seconds", noted]);
            let told = s.describe("b").await.time_to_live;
            assert_eq!(told, milliseconds.map(|milliseconds| TimeToLive { milliseconds, sliding: false }), "{noted}");
            assert_eq!(s.apply_one("b", put("k", "1")).await, changed(1, 0));
            s.delete("b").await;
        }
        // Nor does a careless hand in the bookkeeping break a write in its middle.
        s.apply("b", create_sliding(HOUR), [put("k", "1")]).await;
        s.raw().on::<()>("HSET", "b:__meta__", &["sliding_ms", "junk"]);
        s.raw().on::<()>("HSET", "b:__writers__", &["~", "junk"]);
        assert_eq!(s.apply("b", existing(), [add("n", 1), get("k")]).await, [counter(1), entries(&[("k", "1")])]);
    });
}

#[test]
fn writers_whose_deadline_is_over_make_room_for_others() {
    run(async |s| {
        let count = transaction("b", create(), [add("n", 1)]);
        let writers: Vec<_> = (0..400).map(|_| new_writer()).collect();
        for writer in &writers {
            s.ask_as(writer, &count).await;
        }
        assert_eq!(s.raw().on::<usize>("HLEN", "b:__writers__", &[]), writers.len() + 1, "none can be forgotten yet");
        // Past the time-out of this store.
        s.pass_time(Duration::from_secs(60));
        let latest: Vec<_> = (0..400).map(|_| new_writer()).collect();
        for writer in &latest {
            s.ask_as(writer, &count).await;
        }
        let left: usize = s.raw().on("HLEN", "b:__writers__", &[]);
        assert!((401..700).contains(&left), "{left} are left");
        for writer in &latest {
            assert_eq!(s.ask_as(writer, &count).await.status, Status::Repeated);
        }
        assert_eq!(s.apply_one("b", get("n")).await, entries(&[("n", "800")]));
    });
}

#[test]
fn writers_from_before_the_clock_was_set_back_do_not_stay_for_ever() {
    run(async |s| {
        s.apply("b", create(), []).await;
        // By the time that it was, their deadlines were near.
        let deadline = s.raw().now() + 30 * 24 * 3_600_000;
        let fields: Vec<_> = (0..16_384).flat_map(|n| [format!("{n:024x}"), format!("1.{deadline}")]).collect();
        let fields: Vec<_> = fields.iter().map(String::as_str).collect();
        s.raw().on::<()>("HSET", "b:__writers__", &fields);
        for n in 1..=300 {
            let count = transaction("b", existing(), [add("n", 1)]);
            assert_eq!(s.ask_as(&new_writer(), &count).await.outcomes, [counter(n)]);
        }
        assert!(s.raw().on::<usize>("HLEN", "b:__writers__", &[]) < 16_384);
    });
}

#[test]
fn a_listing_continued_on_another_server_leaves_nothing_out() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // A restart keeps the data and orders them again, as a replica does that takes the place of its master.
        let mut server = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]).unwrap();
        let options = RedisOptions {
            host: "127.0.0.1".into(),
            port: server.port(),
            store_timeout: Duration::from_secs(30),
            ..RedisOptions::default()
        };
        let store = RedisStore::new(options).unwrap();
        let all: BTreeSet<_> = (0..500).map(|n| format!("bucket-{n}")).collect();
        let mut writer = Writer::new();
        for bucket in &all {
            store.transact(writer.advance(), &transaction(bucket, create(), []), Deadline::NEVER).await.unwrap();
        }
        let (mut listed, mut cursor, mut pages) = (BTreeSet::new(), String::new(), 0);
        loop {
            let page = store.list_buckets(kind::SESSION, &cursor, 50, Deadline::NEVER).await.unwrap();
            listed.extend(page.names);
            pages += 1;
            cursor = page.cursor;
            if cursor.is_empty() {
                break;
            }
            if [3, 6].contains(&pages) {
                server.kill();
                server.restart().unwrap();
            }
            assert!(pages < 200, "it comes to an end");
        }
        assert!(pages > 9, "{pages} pages");
        let missing: Vec<_> = all.difference(&listed).collect();
        assert!(missing.is_empty(), "{missing:?}");
    });
}
