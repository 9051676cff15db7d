//! Maps, logs and leases in Redis, looked at behind the store's back: where they are, what a wrong type means for them,
//! what is left over, and that all of a bucket has one expiry.

use std::{sync::Arc, time::Duration};

use keepline_stores::{BucketId, Expectation, Failure, FailureCode, IndexedTransaction, Operation, Status};
use keepline_stores_tests::{requests::*, stores::StoreUnderTest};

const HOUR: Duration = Duration::from_secs(3600);

fn run<F: Future<Output = ()>>(case: impl Fn(Arc<StoreUnderTest>) -> F) {
    keepline_stores_tests::stores::run(StoreUnderTest::redis(), &case);
    keepline_stores_tests::stores::run(StoreUnderTest::redis_general(), &case);
}

/// A bucket with a part of every sort.
fn everything() -> impl Into<Work> {
    let operations = [
        put("k", "1"),
        put_in("notes", &[("a:b", "1")]),
        append("history", &["{}"]),
        append_marked("turns", &["x"], &[("places", "x", 0)]),
    ];
    (operations, lease("work", "me", HOUR))
}

async fn refused(s: &StoreUnderTest, asked: &IndexedTransaction) -> (FailureCode, String) {
    let before = s.everything().await;
    let Failure { code, subject, .. } = s.try_send(asked).await.unwrap_err();
    s.assert_unchanged(&before, asked).await;
    (code, subject)
}

#[test]
fn each_part_is_where_the_layout_says_and_all_expire_at_one_instant() {
    run(async |s| {
        s.apply("b", create_sliding(HOUR), everything()).await;
        let places = ["__history__", "__keys__", "__log.turns__", "__map.notes__", "__map.places__", "__meta__", "k"];
        let addresses = places.map(|place| format!("b:{place}"));
        let mut keys = s.raw().keys();
        keys.retain(|key| !key.ends_with("__writers__") && !key.ends_with("__sessions__"));
        assert_eq!(keys, addresses);
        let is_at_one_instant = || {
            let expiry = s.raw().expires_at("b:__meta__");
            assert!(addresses.iter().all(|key| s.raw().expires_at(key) == expiry));
            expiry
        };
        let first = is_at_one_instant();
        let mut fields: Vec<String> = s.raw().on("HKEYS", "b:__meta__", &[]);
        fields.sort_unstable();
        let ours = ["lease:work", "log:turns", "map:notes", "map:places"];
        assert_eq!(
            fields,
            ["created_at", "lease:work", "log:turns", "map:notes", "map:places", "sliding_ms", "ttl_seconds"]
        );
        // A use renews all of it, and a look nothing.
        s.pass_time(HOUR / 2);
        let passed = is_at_one_instant();
        assert!(passed < first);
        s.apply("b", unused(), [get_all_in("notes")]).await;
        assert_eq!(is_at_one_instant(), passed);
        s.apply("b", existing(), [get_all_in("notes")]).await;
        assert!(is_at_one_instant() > passed);
        // What is empty is unknown.
        s.apply("b", existing(), [remove_in("notes", &["a:b"]), reset_map::<&str, &str>("places", &[])]).await;
        s.take_lease("b", lease("work", "me", Duration::ZERO)).await;
        let fields: Vec<String> = s.raw().on("HKEYS", "b:__meta__", &[]);
        assert!(fields.contains(&ours[1].to_owned()));
        assert!(![ours[0], ours[2], ours[3]].iter().any(|gone| fields.contains(&(*gone).to_owned())), "{fields:?}");
        s.delete("b").await;
        assert!(s.raw().keys().iter().all(|key| key.ends_with("__writers__")), "{:?}", s.raw().keys());
    });
}

#[test]
fn buckets_of_other_kinds_have_separate_prefixes() {
    let case = async |s: Arc<StoreUnderTest>| {
        s.apply("b", create(), [put("k", "1")]).await;
        s.apply(BucketId::user("b"), create(), [put("k", "2"), put_in("sessions", &[("b", "3")])]).await;
        let keys = s.raw().keys();
        let of_user = |rest: &str| keys.iter().filter(|key| key.starts_with("@user:") && key.ends_with(rest)).count();
        for rest in [":b:k", ":b:__map.sessions__", ":b:__meta__", ":__sessions__", ":b:__keys__", ":b:__writers__"] {
            assert_eq!(of_user(rest), 1, "{rest}: {keys:?}");
        }
        assert_eq!(s.apply_one("b", get("k")).await, entries(&[("k", "1")]));
        assert_eq!(s.delete("b").await.0, Status::Applied);
        assert_eq!(s.apply_one(BucketId::user("b"), get("k")).await, entries(&[("k", "2")]));
    };
    run(case);
    keepline_stores_tests::stores::run(StoreUnderTest::cluster(), case);
}

#[test]
fn remains_of_an_earlier_bucket_are_invisible_and_removed() {
    run(async |s| {
        s.raw().on::<()>("HSET", "b:__map.notes__", &["old", "1"]);
        s.raw().on::<()>("RPUSH", "b:__log.turns__", &["old"]);
        s.raw().on::<()>("SET", "b:__map.places__", &["no map"]);
        let reads = [get_in("notes", &["old"], ALL), get_all_in("notes"), read_all("turns"), get_all_in("places")];
        let none = whole::<&str>(0, &[]);
        assert_eq!(s.apply("b", create(), reads).await, [nothing(), nothing(), none, nothing()]);
        assert_eq!(s.apply("b", existing(), everything()).await[1], changed(1, 0));
        let reads = [get_all_in("notes"), read_all("turns"), get_all_in("places")];
        let new = [entries(&[("a:b", "1")]), whole(0, &["x"]), entries(&[("x", "0")])];
        assert_eq!(s.apply("b", existing(), reads).await, new);
        // Replaced, all of it goes at once.
        s.apply("b", replace(), [put("l", "1")]).await;
        let mut keys = s.raw().keys();
        keys.retain(|key| key.starts_with("b:") && key != "b:__writers__");
        assert_eq!(keys, ["b:__keys__", "b:__meta__", "b:l"]);
    });
}

#[test]
fn a_map_or_log_of_a_wrong_type_is_reported_and_left_unchanged() {
    run(async |s| {
        s.apply("b", create(), everything()).await;
        for (place, name) in [("b:__map.notes__", "notes"), ("b:__log.turns__", "turns"), ("b:__history__", "history")]
        {
            s.raw().on::<()>("DEL", place, &[]);
            s.raw().on::<()>("SET", place, &["stranger"]);
            let operations: Vec<Operation> = match name {
                "notes" => vec![
                    get_in(name, &["k"], ALL),
                    get_all_in(name),
                    page(name, "", 1, 1),
                    put_in(name, &[("k", "1")]),
                    add_in(name, "k", 1),
                    remove_in(name, &["k"]),
                    append_marked("other", &["x"], &[(name, "k", 0)]),
                ],
                _ => vec![
                    append(name, &["x"]),
                    read_all(name),
                    read_at(name, &[(0, 1)], ALL),
                    read_surplus(name, 1, 0, 1, 1),
                    replace_oldest(name, 1, &["x"]),
                    rewrite(name, 0, "x"),
                    reset_log(name, &["x"]),
                ],
            };
            let wrong = (FailureCode::WrongType, name.to_owned());
            for operation in operations {
                let asked = transaction("b", existing(), [put("k", "2"), operation]);
                assert_eq!(refused(&s, &asked).await, wrong, "{asked:?}");
                // An expectation that comes first is reported first.
                let unmet = expecting("b", existing(), [present("nobody")], asked.transaction.operations);
                assert_eq!(s.ask(&unmet).await.status, Status::Unmet);
            }
            let expected: Expectation = if name == "notes" { room_in(name, 1) } else { log_at(name, 0, None) };
            assert_eq!(refused(&s, &expecting("b", existing(), [expected], [])).await, wrong);
        }
        // The rest of the bucket is served.
        assert_eq!(s.apply_one("b", get("k")).await, entries(&[("k", "1")]));
        let parts = s.describe("b").await.parts;
        assert_eq!(parts.iter().map(|part| &*part.name).collect::<Vec<_>>(), ["places"]);
        // To reset a map is to say that nothing in it counts.
        assert_eq!(s.apply_one("b", reset_map("notes", &[("a", "1")])).await, changed(1, 0));
        assert_eq!(s.apply_one("b", get_all_in("notes")).await, entries(&[("a", "1")]));
        assert_eq!(s.delete("b").await.0, Status::Applied);
        assert!(s.raw().keys().iter().all(|key| key.ends_with("__writers__")), "{:?}", s.raw().keys());
    });
}

#[test]
fn an_entry_that_is_not_text_is_named_by_reads_and_refused_by_writes() {
    run(async |s| {
        s.apply("b", create(), [put("a", "1"), put("list", "1"), put("bytes", "1"), put("gone", "1")]).await;
        s.apply("b", existing(), [put_in("notes", &[("a", "1"), ("bytes", "1")])]).await;
        s.raw().on::<()>("DEL", "b:list", &[]);
        s.raw().on::<()>("DEL", "b:gone", &[]);
        s.raw().on::<()>("RPUSH", "b:list", &["x"]);
        s.raw().run::<()>(redis::cmd("SET").arg(s.raw().address("b:bytes")).arg(b"\xff"));
        s.raw().run::<()>(redis::cmd("HSET").arg(s.raw().address("b:__map.notes__")).arg("bytes").arg(b"\xff"));
        let some = unreadable(&[("a", "1")], &["list", "bytes"]);
        let reads = [get_in("values", &["list", "a", "bytes", "gone", "no"], ALL), get_all()];
        assert_eq!(s.apply("b", existing(), reads).await, [some, unreadable(&[("a", "1")], &["bytes", "list"])]);
        let read = s.apply("b", existing(), [page("values", "", 10, ALL), page("notes", "", 10, ALL)]).await;
        for (page, names) in read.into_iter().zip([&["bytes", "list"][..], &["bytes"]]) {
            let page = entries_of(page);
            let mut unreadable = page.unreadable().to_vec();
            unreadable.sort_unstable();
            assert_eq!(
                (page.entries.len(), &*unreadable),
                (1, &*names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>())
            );
        }
        for operation in [put("list", "1"), add("list", 1)] {
            let asked = transaction("b", existing(), [operation]);
            assert_eq!(refused(&s, &asked).await, (FailureCode::WrongType, "list".into()));
        }
        let asked = expecting("b", existing(), [equal("list", "1")], []);
        assert_eq!(refused(&s, &asked).await, (FailureCode::WrongType, "list".into()));
        let there = expecting("b", existing(), [present("bytes"), absent("gone"), equal("a", "1")], []);
        assert_eq!(s.ask(&there).await.status, Status::Applied);
        assert_eq!(s.apply_one("b", remove_in("values", &["list", "bytes", "gone"])).await, changed(0, 2));
        s.raw().on::<()>("RPUSH", "b:list", &["x"]);
        // Not the bucket's, as far as it knows.
        let asked = transaction("b", existing(), [reset_map("values", &[("list", "1")])]);
        assert_eq!(refused(&s, &asked).await, (FailureCode::WrongType, "list".into()));
        s.raw().on::<()>("SADD", "b:__keys__", &["list"]);
        assert_eq!(s.apply_one("b", reset_map("values", &[("list", "2")])).await, changed(0, 1));
        assert_eq!(s.apply_one("b", get_all()).await, entries(&[("list", "2")]));
    });
}

#[test]
fn expired_leases_are_ignored_and_removed_when_there_are_too_many() {
    run(async |s| {
        let names: Vec<_> = (0..60).map(|n| format!("l{n}")).collect();
        s.apply("b", create(), []).await;
        for name in &names {
            assert!(s.take_lease("b", lease(name, "me", HOUR)).await.held);
        }
        let records = ["m1", "m2", "m3", "m4"].map(|log| append(log, &["x"]));
        let more = || transaction("b", existing(), (records.clone(), lease("m5", "me", HOUR)));
        let full = s.try_send(&more()).await.unwrap_err();
        assert_eq!((full.code, &*full.subject, full.limit), (FailureCode::TooLarge, "parts", 64));
        s.pass_time(2 * HOUR);
        assert_eq!(s.ask(&more()).await.status, Status::Applied);
        assert_eq!(s.raw().on::<u64>("HLEN", "b:__meta__", &[]), 2 + 5);
        // Garbage is nobody's lease.
        s.raw().on::<()>("HSET", "b:__meta__", &["lease:m5", "garbage"]);
        let state = s.take_lease("b", lease("m5", "you", HOUR)).await;
        assert_eq!((state.held, &*state.holder), (true, "you"));
    });
}
