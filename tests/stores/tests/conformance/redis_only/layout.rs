//! Redis behind the store's back: the layout and the expiry of each key.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use keepline_stores::{BucketId, IndexedTransaction, Status, kind};
use keepline_stores_tests::{raw::RawRedis, requests::*, stores::StoreUnderTest};

const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn run<F: Future<Output = ()>>(case: impl Fn(Arc<StoreUnderTest>) -> F) {
    keepline_stores_tests::stores::run(StoreUnderTest::redis(), &case);
    keepline_stores_tests::stores::run(StoreUnderTest::redis_general(), &case);
}

/// A bucket `b` with a value, a counter, another map, the original's log and one of ours.
pub(super) async fn seeded(s: &StoreUnderTest, precondition: keepline_stores::Precondition) {
    let operations = [
        put("k", "\"text\""),
        add("n", 42),
        put_in("notes", &[("x", "1"), ("y", "2")]),
        append("history", &["h0", "h1"]),
        append("l", &["l0", "l1"]),
    ];
    s.apply("b", precondition, operations).await;
}

/// The keys of bucket `b`, but for the numbers of its writers, which outlive it.
pub(super) fn keys_of_b(raw: &RawRedis) -> Vec<String> {
    raw.keys().into_iter().filter(|key| key.starts_with("b:") && key != "b:__writers__").collect()
}

#[test]
fn a_bucket_is_stored_where_and_how_the_layout_says() {
    run(async |s| {
        let receipt = s.ask(&transaction("b", create_for(86_400 * Duration::from_secs(1)), [])).await;
        let generation = receipt.generation.unwrap();
        seeded(&s, existing()).await;
        s.apply("b", existing(), ([replace_oldest("history", 1, NONE)], lease("work", "me:1", HOUR))).await;
        let raw = s.raw();
        let expected = ["__history__", "__keys__", "__log.l__", "__map.notes__", "__meta__", "__writers__", "k", "n"]
            .map(|key| format!("b:{key}"));
        assert_eq!(raw.keys(), [vec!["__sessions__".to_owned()], expected.to_vec()].concat());
        assert_eq!(raw.on::<String>("GET", "b:k", &[]), "\"text\"");
        assert_eq!(raw.on::<String>("GET", "b:n", &[]), "42");
        assert_eq!(raw.on::<Vec<String>>("LRANGE", "b:__history__", &["0", "-1"]), ["h1"]);
        assert_eq!(raw.on::<Vec<String>>("LRANGE", "b:__log.l__", &["0", "-1"]), ["l0", "l1"]);
        assert_eq!(raw.on::<Vec<String>>("SORT", "b:__keys__", &["ALPHA"]), ["k", "n"]);
        assert_eq!(
            raw.on::<BTreeMap<String, String>>("HGETALL", "b:__map.notes__", &[]),
            map(&[("x", "1"), ("y", "2")])
        );
        assert_eq!(raw.on::<Vec<String>>("SMEMBERS", "__sessions__", &[]), ["b"]);
        let mut meta: BTreeMap<String, String> = raw.on("HGETALL", "b:__meta__", &[]);
        let lease = meta.remove("lease:work").unwrap();
        let until: i64 = lease.strip_suffix(" me:1").unwrap().parse().unwrap();
        assert!((until - raw.now() - 3_600_000).abs() < 30_000, "{lease}");
        let fields = [
            ("created_at", &*generation),
            ("log:history", "1"),
            ("log:l", "0"),
            ("map:notes", "1"),
            ("ttl_seconds", "86400.0"),
        ];
        assert_eq!(meta, map(&fields));
        let (seconds, micros) = generation.split_once('.').unwrap();
        assert!(micros.len() == 6 && seconds.parse::<i64>().unwrap() > 1_700_000_000, "{generation}");
    });
}

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn a_plain_session_has_only_the_keys_and_fields_of_the_original() {
    run(async |s| {
        // No map but the values, no log but the history: not one key or field more than the original writes.
        s.apply("b", create(), [put("k", "1"), append("history", &["x"])]).await;
        let raw = s.raw();
        let keys = ["__sessions__", "b:__history__", "b:__keys__", "b:__meta__", "b:__writers__", "b:k"];
        assert_eq!(raw.keys(), keys);
        let fields: BTreeMap<String, String> = raw.on("HGETALL", "b:__meta__", &[]);
        let names: Vec<_> = fields.keys().filter(|name| *name != "log:history").collect();
        assert_eq!(names, ["created_at", "ttl_seconds"]);
        assert_eq!(fields["ttl_seconds"], "None");
    });
}

#[test]
fn each_other_kind_has_a_prefix_of_its_own() {
    run(async |s| {
        for kind in kind::REGISTERED.into_iter().skip(1).chain(["x", "not-registered-0"]) {
            let infix = format!("@{kind}:");
            s.apply(
                BucketId::new(kind, "b"),
                create(),
                [put("k", "1"), put_in("notes", &[("x", "1")]), append("l", &["x"])],
            )
            .await;
            let parts =
                ["__sessions__", "b:__keys__", "b:__log.l__", "b:__map.notes__", "b:__meta__", "b:__writers__", "b:k"];
            assert_eq!(s.raw().keys(), parts.map(|part| format!("{infix}{part}")));
            assert_eq!(s.raw().on::<Vec<String>>("SMEMBERS", &format!("{infix}__sessions__"), &[]), ["b"]);
            assert_eq!(s.list(10).await, [""; 0], "no session");
            s.delete(BucketId::new(kind, "b")).await;
            assert_eq!(s.raw().keys(), [format!("{infix}b:__writers__")]);
            s.raw().on::<()>("DEL", &format!("{infix}b:__writers__"), &[]);
        }
    });
}

#[test]
fn a_cluster_keeps_buckets_of_one_name_and_different_kinds_apart() {
    keepline_stores_tests::stores::run(StoreUnderTest::cluster(), async |s| {
        let kinds = kind::REGISTERED.into_iter().chain(["not-registered-0"]);
        for kind in kinds.clone() {
            s.apply(BucketId::new(kind, "b"), create(), [put("k", "1")]).await;
        }
        // CRC16 of `b` modulo 4096, where sessions have always been, and of `@user:b`.
        let keys: BTreeSet<_> = s.raw().keys().into_iter().filter(|key| key.ends_with("}:b:k")).collect();
        assert_eq!(keys.len(), 7, "{keys:?}");
        assert!(keys.contains("{0ce4}:b:k") && keys.contains("@user:{0d60}:b:k"), "{keys:?}");
        for kind in kinds {
            assert_eq!(s.list_kind(kind, 10).await, ["b"]);
        }
    });
}

#[test]
fn a_time_to_live_is_stored_in_the_format_of_the_original() {
    run(async |s| {
        for (bucket, precondition, expected) in [
            ("none", create(), "None"),
            ("whole", create_for(HOUR), "3600.0"),
            ("sliding", create_sliding(HOUR), "3600.0"),
            ("half", create_for(Duration::from_millis(1500)), "1.5"),
            ("milli", create_for(Duration::from_millis(90_061_001)), "90061.001"),
        ] {
            s.apply(bucket, precondition, []).await;
            let noted: String = s.raw().on("HGET", &format!("{bucket}:__meta__"), &["ttl_seconds"]);
            assert_eq!(noted, expected);
        }
    });
}

#[test]
fn each_transaction_is_one_round_trip() {
    run(async |s| {
        seeded(&s, create_for(HOUR)).await;
        let calls: [IndexedTransaction; 5] = [
            transaction("b", existing(), [get_all()]),
            transaction("b", create(), [put("a", "1"), add("n", 1), append("l", &["x"]), get_all(), read_all("l")]),
            expecting(
                "new",
                create_sliding(HOUR),
                [absent("a"), log_at("l", 0, 0)],
                [put("a", "1"), read_surplus("l", 1, 1, 1, 1)],
            ),
            transaction("b", replace(), [put_in("notes", &[("a", "1")]), page("notes", "", 10, ALL), describe()]),
            transaction("absent", existing(), [remove_all()]),
        ];
        for call in calls {
            let before = s.store.round_trips();
            s.ask(&call).await;
            assert_eq!(s.store.round_trips() - before, 1, "{call:?}");
        }
    });
}

#[test]
fn every_key_of_a_bucket_has_the_expiry_of_the_bucket_or_none() {
    run(async |s| {
        for (precondition, expires) in [(create_for(HOUR), true), (create_sliding(HOUR), true), (create(), false)] {
            let steps: [Work; 13] = [
                Work::default(),
                [put("a", "1"), add("n", 1), append("history", &["x"]), append("l", &["x", "y"])].into(),
                [put("a", "2"), add("n", 1), append("history", &["x"]), append("l", &["x"]), put("b", "1")].into(),
                [remove("a"), add("m", 5), rewrite("l", 0, "X"), replace_oldest("history", 2, &["xx"])].into(),
                [remove_all(), replace_oldest("history", ALL, NONE), replace_oldest("l", ALL, NONE)].into(),
                [put("a", "1"), append("history", &["x"]), append("l", &["x"]), append("m", &["x"])].into(),
                [get_all()].into(),
                [add("n", 1)].into(),
                [append("m", &["x"])].into(),
                ([put_in("notes", &[("x", "1")]), add_in("counts", "n", 1)], lease("work", "me", HOUR)).into(),
                [append_marked("l", &["x"], &[("marks", "x", 0)]), put_in("notes", &[("x", "2"), ("y", "1")])].into(),
                [reset_map("notes", &[("z", "1")]), reset_log("l", &["y"]), remove_in("counts", &["n"])].into(),
                [put_in("counts", &[("n", "1")])].into(),
            ];
            for step in steps {
                s.apply("b", precondition.clone(), step.clone()).await;
                let raw = s.raw();
                let meta = raw.expires_at("b:__meta__");
                assert_eq!(meta > 0, expires);
                for key in keys_of_b(raw) {
                    assert_eq!(raw.expires_at(&key), meta, "{key} after {step:?}");
                }
                assert!(raw.expires_at("b:__writers__") > 0, "the writers' numbers go by themselves");
                s.pass_time(HOUR / 10);
            }
            s.delete("b").await;
            assert_eq!(keys_of_b(s.raw()), [""; 0]);
        }
    });
}

#[test]
fn a_deleted_bucket_leaves_only_its_writers_numbers_and_those_go() {
    run(async |s| {
        for precondition in [create(), create_for(HOUR)] {
            seeded(&s, precondition).await;
            s.delete("b").await;
            assert_eq!(s.raw().keys(), ["b:__writers__"]);
            s.pass_time(Duration::from_secs(600));
            assert_eq!(s.raw().keys(), [""; 0]);
        }
        s.delete("never-there").await;
        assert_eq!(s.raw().keys(), [""; 0]);
    });
}

#[test]
fn a_session_of_the_original_is_resumed_and_continued() {
    run(async |s| {
        for expiring in [false, true] {
            let raw = s.raw();
            raw.on::<()>("SADD", "__sessions__", &["b"]);
            let ttl = if expiring { "3600.0" } else { "None" };
            raw.on::<()>("HSET", "b:__meta__", &["created_at", "1795186917.032595", "ttl_seconds", ttl]);
            raw.on::<()>("SET", "b:last_answer", &["\"caf\\u00e9\""]);
            raw.on::<()>("SET", "b:answer_count", &["7"]);
            raw.on::<()>("SADD", "b:__keys__", &["last_answer", "answer_count"]);
            raw.on::<()>("RPUSH", "b:__history__", &["{\"op\": \"put\"}"]);
            if expiring {
                for key in keys_of_b(raw) {
                    raw.on::<()>("PEXPIRE", &key, &["3600000"]);
                }
                let at = raw.expires_at("b:__meta__").to_string();
                for key in keys_of_b(raw) {
                    raw.on::<()>("PEXPIREAT", &key, &[&at]);
                }
            }

            let operations = [get_all(), add("answer_count", 1), put("new", "1"), append("history", &["x"])];
            let receipt = s.ask(&transaction("b", life("1795186917.032595"), operations)).await;
            assert_eq!(receipt.status, Status::Applied);
            let all = entries(&[("answer_count", "7"), ("last_answer", "\"caf\\u00e9\"")]);
            assert_eq!(receipt.outcomes, [all, counter(8), changed(1, 0), extent(0, 2)]);
            let description = s.describe("b").await;
            assert_eq!(description.time_to_live, expiring.then(|| time_to_live(HOUR, false)));
            assert_eq!((description.values, description.created_at), (3, 1_795_186_917_032));
            let meta = raw.expires_at("b:__meta__");
            for key in keys_of_b(raw) {
                assert_eq!(raw.expires_at(&key), meta, "{key}");
            }
            assert_eq!(s.apply_one("b", replace_oldest("history", 1, NONE)).await, extent(1, 1));
            s.delete("b").await;
        }
    });
}
