//! Damage in Redis that other programs or evictions have done: a check names it, a repair mends what can be mended without
//! a guess, and neither disturbs whoever writes meanwhile.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use keepline_stores::{BucketDamage, Precondition, RedisStore};
use keepline_stores_tests::{on_stores, raw::RawRedis, requests::*, stores::StoreUnderTest};
use tokio::task::JoinSet;

use super::layout::seeded;

on_stores![run on redis, cluster: [
    each_kind_of_damage_is_reported_and_repaired_where_possible,
    one_repair_rebuilds_a_lost_key_set,
    remains_of_a_bucket_without_metadata_are_left_to_its_deletion,
    a_repair_rebuilds_a_lost_or_replaced_list_of_buckets,
    keys_of_other_prefixes_are_no_damage,
]];

mod beside_writers {
    use super::*;

    on_stores![run_in_parallel on redis, cluster: [running_writers_are_neither_reported_as_damage_nor_disturbed,]];
}

const HOUR: Duration = Duration::from_secs(3600);

/// What breaks a bucket, the damage, and whether it can be repaired. `{}` is a key of the bucket.
const DAMAGE: [(&str, &str, &str, bool); 17] = [
    ("DEL {__keys__}", "__keys__", "does not name existing values: k, n", true),
    ("SREM {__keys__} k", "__keys__", "does not name existing values: k", true),
    ("SADD {__keys__} ghost a:b __meta__", "__keys__", "names values that do not exist: __meta__, a:b, ghost", true),
    ("DEL {k}", "__keys__", "names values that do not exist: k", true),
    ("SET {__keys__} x", "__keys__", "has the wrong type", true),
    ("SET {__writers__} x", "__writers__", "has the wrong type", true),
    ("PERSIST {k}", "k", "never expires, but its bucket does", true),
    ("PERSIST {__keys__}", "__keys__", "never expires, but its bucket does", true),
    ("PERSIST {__map.notes__}", "__map.notes__", "never expires, but its bucket does", true),
    ("RPUSH {__log.lost__} x", "__log.lost__", "is in no way part of the bucket", true),
    ("HSET {__map.lost__} x 1", "__map.lost__", "is in no way part of the bucket", true),
    ("HDEL {__meta__} created_at", "__meta__", "has no created_at", false),
    ("HSET {__meta__} ttl_seconds soon", "__meta__", "has a ttl_seconds that is neither", false),
    ("HSET {__meta__} log:l somewhere", "__log.l__", "first position, in the metadata, is not a number", false),
    ("HSET {__meta__} log:history 1234567890123456", "__history__", "first position, in the metadata", false),
    ("SET {k} x|LPUSH {k} x", "k", "has the wrong type", false),
    ("SET {__meta__} x", "__meta__", "has the wrong type", false),
];

/// The store as an operator opens it, who may scan.
fn opened(s: &StoreUnderTest) -> RedisStore {
    s.raw().allow_scan();
    RedisStore::new(s.raw().options.clone()).unwrap()
}

/// Where the keys of bucket `b` are, behind the prefix.
fn base(raw: &RawRedis) -> String {
    let keys = raw.keys();
    let meta = keys.iter().find(|key| key.ends_with("b:__meta__")).unwrap();
    meta.trim_end_matches("__meta__").to_owned()
}

/// Runs `COMMAND {key} arguments`; of a type that is to change, what was there is removed.
fn damage(raw: &RawRedis, base: &str, command: &str) {
    if command.starts_with("SET ") {
        let key = command.split(['{', '}']).nth(1).unwrap();
        raw.on::<()>("DEL", &format!("{base}{key}"), &[]);
    }
    let command = command.rsplit('|').next().unwrap();
    let words: Vec<&str> = command.split(' ').collect();
    let key = words[1].trim_matches(['{', '}']);
    raw.on::<::redis::Value>(words[0], &format!("{base}{key}"), &words[2..]);
}

fn texts(damage: &[BucketDamage]) -> Vec<String> {
    damage.iter().map(ToString::to_string).collect()
}

async fn each_kind_of_damage_is_reported_and_repaired_where_possible(s: Arc<StoreUnderTest>) {
    let store = opened(&s);
    for (command, key, problem, is_mended) in DAMAGE {
        seeded(&s, create_for(HOUR)).await;
        let base = base(s.raw());
        assert_eq!(
            (store.check_buckets().await.unwrap().buckets, damaged(&store).await),
            (1, vec![]),
            "before {command}"
        );
        let whole = s.everything().await;
        damage(s.raw(), &base, command);
        let before = s.raw().dump();
        let found = store.check_buckets().await.unwrap().damage;
        s.assert_unchanged(&before, "a look").await;
        let [one, rest @ ..] = &found[..] else { panic!("{command}: no damage") };
        let told = one.to_string();
        assert!(told.contains(&format!("session b: {}{base}{key} ", s.raw().address(""))), "{command}: {told}");
        assert!(told.contains(problem), "{command}: {told}");
        // A key that was made again has lost its expiry, too.
        assert!(rest.iter().all(|other| other.key == one.key), "{command}: {found:?}");
        let repaired = store.repair_buckets().await.unwrap();
        let (expected, other) =
            if is_mended { (&repaired.mended, &repaired.left) } else { (&repaired.left, &repaired.mended) };
        assert_eq!(expected.first().map(ToString::to_string), Some(told), "{command}");
        assert!(!is_mended || other.is_empty(), "{command}: {other:?}");
        if is_mended {
            assert_eq!(damaged(&store).await, [""; 0], "{command}");
            assert_eq!(texts(&store.repair_buckets().await.unwrap().mended), [""; 0], "{command}");
            if !["DEL {k}", "SET {__writers__} x"].contains(&command) {
                assert_eq!(s.everything().await, whole, "{command}");
            }
            s.apply("b", existing(), [put("new", "1"), append("l", &["l2"]), add("n", 1)]).await;
        }
        s.delete("b").await;
        // What broken metadata named can't be found by them.
        s.raw().keys().iter().filter(|key| key.contains("b:")).for_each(|key| s.raw().on("DEL", key, &[]));
        assert_eq!(damaged(&store).await, [""; 0], "{command}");
    }
}

async fn damaged(store: &RedisStore) -> Vec<String> {
    texts(&store.check_buckets().await.unwrap().damage)
}

async fn one_repair_rebuilds_a_lost_key_set(s: Arc<StoreUnderTest>) {
    let (store, names) = (opened(&s), (0..3000).map(|n| format!("k{n:04}")).collect::<Vec<_>>());
    let entries: Vec<_> = names.iter().map(|name| (&**name, "1")).collect();
    s.apply("b", create_for(HOUR), entries.chunks(1000).map(|entries| put_in("values", entries)).collect::<Vec<_>>())
        .await;
    let keys = format!("{}__keys__", base(s.raw()));
    s.raw().on::<()>("DEL", &keys, &[]);
    let found = store.check_buckets().await.unwrap().damage;
    assert_eq!((found.len(), &found[0].names), (1, &names));
    assert!(found[0].to_string().ends_with(": k0000, k0001, k0002, k0003, k0004 and 2995 more"), "{}", found[0]);
    assert_eq!(store.repair_buckets().await.unwrap().mended, found);
    assert_eq!(s.raw().expires_at(&keys), s.raw().expires_at(&keys.replace("__keys__", "__meta__")));
    assert_eq!(s.describe("b").await.values, 3000);
    assert_eq!(damaged(&store).await, [""; 0]);
}

async fn remains_of_a_bucket_without_metadata_are_left_to_its_deletion(s: Arc<StoreUnderTest>) {
    let store = opened(&s);
    seeded(&s, create_for(HOUR)).await;
    let base = base(s.raw());
    s.raw().on::<()>("DEL", &format!("{base}__meta__"), &[]);
    let names = ["__history__", "__keys__", "__log.l__", "__map.notes__", "k", "n"];
    let found = store.check_buckets().await.unwrap();
    assert_eq!((found.buckets, found.damage.len()), (0, names.len()));
    for (damage, name) in found.damage.iter().zip(names) {
        assert_eq!(damage.key, s.raw().address(&format!("{base}{name}")));
        assert!(damage.to_string().ends_with(" belongs to a bucket whose metadata are missing"), "{damage}");
    }
    let before = s.raw().dump();
    let repaired = store.repair_buckets().await.unwrap();
    assert_eq!((repaired.mended.len(), repaired.left), (0, found.damage));
    s.assert_unchanged(&before, "a look").await;
    s.delete("b").await;
    let left = store.check_buckets().await.unwrap().damage;
    // What only the metadata named is for whoever reads this to remove.
    assert_eq!(left.iter().map(|damage| damage.key.rsplit(':').next().unwrap()).collect::<Vec<_>>(), names[2..4]);
}

async fn a_repair_rebuilds_a_lost_or_replaced_list_of_buckets(s: Arc<StoreUnderTest>) {
    let store = opened(&s);
    let names: Vec<String> = (0..20).map(|n| format!("s{n:02}")).collect();
    for name in &names {
        s.apply(name, create(), [put("k", "1")]).await;
    }
    for replaced in [true, false] {
        let lists: Vec<_> = s.raw().keys().into_iter().filter(|key| key.ends_with("__sessions__")).collect();
        for list in &lists {
            s.raw().on::<()>("DEL", list, &[]);
            if replaced {
                s.raw().on::<()>("SET", list, &["x"]);
            }
        }
        let found = store.check_buckets().await.unwrap();
        assert_eq!((found.buckets, found.damage.len()), (20, 20));
        let repaired = store.repair_buckets().await.unwrap();
        assert_eq!((repaired.mended.len() >= lists.len(), repaired.left), (true, vec![]));
        assert_eq!((damaged(&store).await, s.list(100).await), (vec![], names.clone()));
    }
}

async fn keys_of_other_prefixes_are_no_damage(s: Arc<StoreUnderTest>) {
    let store = opened(&s);
    s.apply("b", create(), [put("k", "1")]).await;
    for key in ["c:__sessions__", "c:s1:k", "~confirming", "c:not a key", "{0000}:c:k", "~c:__meta__", "c:__other__"] {
        s.raw().on::<()>("SET", key, &["x"]);
    }
    let before = s.raw().dump();
    let on_cluster = s.name == "cluster";
    // Without a tag it is no bucket's in a cluster, and a session's elsewhere.
    s.raw().on::<()>("SET", "c:k", &["x"]);
    assert_eq!(damaged(&store).await.len(), usize::from(!on_cluster));
    s.raw().on::<()>("DEL", "c:k", &[]);
    assert_eq!(store.repair_buckets().await.unwrap(), Default::default());
    s.assert_unchanged(&before, "a look").await;
}

async fn running_writers_are_neither_reported_as_damage_nor_disturbed(s: Arc<StoreUnderTest>) {
    let (store, stop) = (opened(&s), Arc::new(AtomicBool::new(false)));
    let mut writers = JoinSet::new();
    for task in 0..8 {
        let (s, stop) = (s.clone(), stop.clone());
        writers.spawn(async move {
            let mut round = task;
            while !stop.load(Ordering::Relaxed) {
                let name = format!("s{}", round % 12);
                let precondition: Precondition = if round % 3 == 0 { create() } else { create_for(HOUR) };
                let changes = match round % 5 {
                    0 => vec![put("k", "1"), add("n", 1), append("l", &["x"])],
                    1 => vec![remove("k"), put("m", "2"), put_in("notes", &[("x", "1")])],
                    2 => vec![remove_all(), append("l", &["y"])],
                    _ => vec![append("history", &["h"]), put("k", "4")],
                };
                s.ask(&transaction(&name, precondition, changes)).await;
                if round % 17 == 0 {
                    s.delete(&name).await;
                }
                round += 1;
            }
        });
    }
    for _ in 0..20 {
        assert_eq!(damaged(&store).await, [""; 0]);
        assert_eq!(store.repair_buckets().await.unwrap(), Default::default());
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    assert_eq!(damaged(&store).await, [""; 0]);
}
