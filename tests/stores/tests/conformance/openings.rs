//! Opening, deleting and describing buckets, and the names that a store accepts.

use std::{sync::Arc, time::Duration};

use keepline_stores::{Deadline, FailureCode, LogDescription, Status, StoreCapabilities};
use keepline_stores_tests::{
    on_every_store,
    requests::*,
    stores::{StoreUnderTest, new_writer},
};

const HOUR: Duration = Duration::from_secs(3600);

async fn a_store_says_what_it_can_promise_and_that_it_is_well(s: Arc<StoreUnderTest>) {
    let all = StoreCapabilities { atomic: true, expiring: true, exactly_once: true, listing: true };
    assert_eq!(s.store.capabilities(), all);
    s.store.check().await.unwrap();
}

async fn an_absent_bucket_is_told_to_be_absent_and_not_created(s: Arc<StoreUnderTest>) {
    let before = s.everything().await;
    let receipt = s.ask(&transaction("b", existing(), [put("k", "1"), get("k")])).await;
    assert_eq!((receipt.status, receipt.created, &*receipt.incarnation), (Status::Absent, false, ""));
    assert_eq!(receipt.outcomes, []);
    assert_eq!(s.status("b", life("1795186917.032595")).await, Status::Absent);
    s.assert_unchanged(&before, ()).await;
    assert!(!s.is_there("b").await);
}

async fn a_bucket_is_created_once(s: Arc<StoreUnderTest>) {
    let first = s.ask(&transaction("b", create(), [put("k", "1")])).await;
    assert_eq!((first.status, first.created), (Status::Applied, true));
    assert!(!first.incarnation.is_empty());
    let second = s.ask(&transaction("b", create(), [get("k")])).await;
    assert_eq!((second.status, second.created), (Status::Applied, false));
    assert_eq!(second.incarnation, first.incarnation);
    assert_eq!(second.outcomes, [found("1")]);
    let third = s.ask(&transaction("b", existing(), [get("k")])).await;
    assert_eq!((third.status, third.created, third.incarnation), (Status::Applied, false, first.incarnation));
}

async fn a_bucket_that_was_not_to_be_there_exists(s: Arc<StoreUnderTest>) {
    let first = s.ask(&transaction("b", create_new(), [put("k", "1")])).await;
    assert_eq!((first.status, first.created), (Status::Applied, true));
    let second = s.ask(&transaction("b", create_new(), [put("k", "2")])).await;
    assert_eq!((second.status, second.created), (Status::Exists, false));
    assert_eq!((second.outcomes, second.incarnation), (vec![], first.incarnation));
    assert_eq!(s.apply_one("b", get("k")).await, found("1"));
}

async fn each_life_has_an_incarnation_of_its_own_that_can_be_asked_for(s: Arc<StoreUnderTest>) {
    let mut lives = Vec::new();
    for _ in 0..5 {
        let receipt = s.ask(&transaction("b", create_new(), [put("k", "1")])).await;
        assert!(!lives.contains(&receipt.incarnation));
        for earlier in &lives {
            let refused = s.ask(&transaction("b", life(earlier), [put("k", "2"), get("k")])).await;
            assert_eq!((refused.status, &refused.outcomes[..]), (Status::AnotherLife, &[][..]));
            assert_eq!(refused.incarnation, receipt.incarnation, "it tells which one is there");
        }
        let accepted = s.ask(&transaction("b", life(&receipt.incarnation), [get("k")])).await;
        assert_eq!((accepted.status, accepted.outcomes), (Status::Applied, vec![found("1")]));
        assert_eq!(accepted.incarnation, "", "who named it knows it");
        let unmet = s.ask(&expecting("b", life(&receipt.incarnation), [keys_are(NONE)], [])).await;
        assert_eq!((unmet.status, &*unmet.incarnation), (Status::Unmet, ""));
        lives.push(receipt.incarnation);
        s.delete("b").await;
    }
    assert_eq!(s.status("b", life(&lives[0])).await, Status::Absent);
}

async fn buckets_know_nothing_of_each_other(s: Arc<StoreUnderTest>) {
    for bucket in ["a", "A", "ab", "a-b", "a_b", "a_", "_a", "-", "__sessions__", "__keys__", "a__keys__"] {
        assert_eq!(s.status(bucket, create_new()).await, Status::Applied, "{bucket}");
        s.apply(bucket, existing(), [put("k", bucket), put("b", "1"), append("history", &[bucket])]).await;
    }
    s.delete("a").await;
    assert!(!s.is_there("a").await);
    for bucket in ["A", "ab", "a-b", "a_b", "a_", "_a", "-", "__sessions__", "__keys__", "a__keys__"] {
        let outcomes = s.apply(bucket, existing(), [get("k"), read_all("history")]).await;
        assert_eq!(outcomes, [found(bucket), records(0, 1, &[bucket])]);
    }
}

async fn expectations_that_hold_let_a_transaction_through(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [put("a", "1"), put("b", "1"), append("l", &["x", "y", "z"])]).await;
    for expectation in [
        oldest_are("l", NONE),
        oldest_are("l", &["x"]),
        oldest_are("l", &["x", "y", "z"]),
        oldest_are("absent", NONE),
        keys_are(&["a", "b"]),
        keys_are(&["b", "a"]),
        keys_are(&["b", "a", "b"]),
        room_within(0),
        room_within(2),
        room_within(ALL),
    ] {
        let receipt = s.ask(&expecting("b", existing(), [expectation.clone()], [increment("a", 1)])).await;
        assert_eq!(receipt.status, Status::Applied, "{expectation:?}");
    }
    let receipt = s.ask(&expecting("new", create(), [keys_are(NONE), room_within(0), oldest_are("l", NONE)], [])).await;
    assert_eq!((receipt.status, receipt.created), (Status::Applied, true));
}

async fn expectations_that_do_not_hold_are_an_outcome_and_change_nothing(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [put("a", "1"), put("b", "1"), append("l", &["x", "y"])]).await;
    s.apply("empty", create(), []).await;
    let before = s.everything().await;
    let incarnation = s.store.describe_bucket("b", Deadline::NEVER).await.unwrap().incarnation;
    for expectation in [
        oldest_are("l", &["y"]),
        oldest_are("l", &["x", "x"]),
        oldest_are("l", &["x", "y", "z"]),
        oldest_are("l", &[""]),
        oldest_are("absent", &["x"]),
        keys_are(NONE),
        keys_are(&["a"]),
        keys_are(&["a", "a"]),
        keys_are(&["a", "c"]),
        keys_are(&["a", "b", "c"]),
        room_within(2),
        room_within(1),
        room_within(0),
    ] {
        // One that holds, before and after, makes no difference.
        let expectations = [keys_are(&["a", "b"]), expectation.clone(), room_within(3)];
        let operations = [put("a", "2"), put("new", "1"), append("l", &["z"]), get("a")];
        let receipt = s.ask(&expecting("b", existing(), expectations, operations)).await;
        assert_eq!((receipt.status, receipt.created), (Status::Unmet, false), "{expectation:?}");
        assert_eq!((receipt.outcomes, &receipt.incarnation), (vec![], &incarnation));
    }
    let receipt = s.ask(&expecting("empty", create(), [room_within(0)], [put("k", "1")])).await;
    assert_eq!(receipt.status, Status::Unmet);
    for expectation in [keys_are(&["k"]), room_within(0), oldest_are("l", &["x"])] {
        let receipt = s.ask(&expecting("absent", create(), [expectation.clone()], [put("k", "1")])).await;
        assert_eq!((receipt.status, receipt.created, &*receipt.incarnation), (Status::Unmet, false, ""));
        assert!(!s.is_there("absent").await, "{expectation:?}");
    }
    s.assert_unchanged(&before, ()).await;
}

async fn expectations_speak_of_the_state_before_the_transaction(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [append("l", &["x", "y"])]).await;
    let operations = [put("k", "1"), replace_oldest("l", 2, &["xy"])];
    let expectations = [oldest_are("l", &["x", "y"]), keys_are(NONE), room_within(1)];
    assert_eq!(s.ask(&expecting("b", existing(), expectations, operations)).await.status, Status::Applied);
    let receipt = s.ask(&expecting("b", existing(), [keys_are(NONE)], [remove_all(ALL)])).await;
    assert_eq!(receipt.status, Status::Unmet);
}

async fn room_is_for_the_keys_that_the_transaction_creates(s: Arc<StoreUnderTest>) {
    let two = || vec![get("x"), remove("y"), put("c", "1"), get_all(), increment("d", 1)];
    let cases = [
        // None.
        (0, vec![], Status::Applied),
        (0, vec![get("c"), remove("c"), append("l", &["x"]), increment("a", 1), put("b", "2")], Status::Applied),
        (0, vec![remove_all(ALL)], Status::Applied),
        // One.
        (2, vec![put("c", "1")], Status::Unmet),
        (3, vec![put("c", "1")], Status::Applied),
        (2, vec![put("a", "2"), increment("c", 1)], Status::Unmet),
        (3, vec![put("a", "2"), increment("c", 1)], Status::Applied),
        // Two.
        (3, two(), Status::Unmet),
        (4, two(), Status::Applied),
        (ALL, two(), Status::Applied),
        // What is removed leaves no room for what comes at the same time.
        (2, vec![remove("a"), put("c", "1")], Status::Unmet),
        (3, vec![remove("a"), put("c", "1")], Status::Applied),
    ];
    for (limit, operations, status) in cases {
        s.apply("b", create_new(), [put("a", "1"), put("b", "1")]).await;
        let asked = expecting("b", existing(), [room_within(limit)], operations);
        assert_eq!(s.ask(&asked).await.status, status, "{asked:?}");
        s.delete("b").await;
    }
    // In a bucket that is created, and of several limits the lowest.
    for (limits, status) in [([1, 9], Status::Unmet), ([9, 1], Status::Unmet), ([2, 9], Status::Applied)] {
        let asked = expecting("b", create_new(), limits.map(room_within), two());
        assert_eq!(s.ask(&asked).await.status, status, "{asked:?}");
        assert_eq!(s.is_there("b").await, status == Status::Applied);
    }
}

async fn a_deleted_bucket_names_its_keys_and_is_gone(s: Arc<StoreUnderTest>) {
    assert_eq!(s.delete("b").await, (Status::Absent, vec![]));
    s.apply("b", create(), [put("c", "1"), increment("a", 1), put("b.b", "1"), append("history", &["x"])]).await;
    s.apply("b", existing(), [append("other", &["x"])]).await;
    assert_eq!(s.delete("b").await, (Status::Applied, ["a", "b.b", "c"].map(String::from).to_vec()));
    assert_eq!(s.delete("b").await, (Status::Absent, vec![]));
    assert_eq!(s.status("b", existing()).await, Status::Absent);
    let everything = [get_all(), list_keys(ALL), read_all("history"), read_all("other")];
    let outcomes = s.apply("b", create_new(), everything).await;
    let nothing = records(0, 0, NONE);
    assert_eq!(outcomes, [values::<&str, &str>(&[]), names(NONE, 0), nothing.clone(), nothing]);
    s.delete("b").await;
    s.apply("b", create(), []).await;
    assert_eq!(s.delete("b").await, (Status::Applied, vec![]), "an empty bucket is one too");
}

async fn a_description_tells_all_about_a_bucket(s: Arc<StoreUnderTest>) {
    let nothing = s.store.describe_bucket("b", Deadline::NEVER).await.unwrap();
    assert_eq!((nothing.status, &*nothing.incarnation, nothing.keys), (Status::Absent, "", 0));
    assert_eq!((nothing.time_to_live, nothing.expires_in, nothing.logs), (None, None, vec![]));

    let receipt = s.ask(&transaction("b", create(), [put("a", "1"), put("b", "1"), append("z", &["x"])])).await;
    s.apply("b", existing(), [append("history", &["x", "y"]), append("a-1", &["x"]), append("never", NONE)]).await;
    let described = s.store.describe_bucket("b", Deadline::NEVER).await.unwrap();
    assert_eq!((described.status, described.incarnation), (Status::Applied, receipt.incarnation));
    assert_eq!((described.time_to_live, described.expires_in, described.keys), (None, None, 2));
    let log = |log: &str, length| LogDescription { log: log.into(), length };
    let mut logs = described.logs;
    logs.sort_by(|a, b| a.log.cmp(&b.log));
    assert_eq!(logs, [log("a-1", 1), log("history", 2), log("z", 1)]);

    let odd = Duration::from_millis(90_061_001);
    for (bucket, opening, sliding) in [("fixed", create_for(odd), false), ("sliding", create_sliding(odd), true)] {
        s.apply(bucket, opening, []).await;
        let described = s.store.describe_bucket(bucket, Deadline::NEVER).await.unwrap();
        assert_eq!(described.time_to_live, Some(time_to_live(odd, sliding)));
        let left = described.expires_in.unwrap();
        assert!(left <= 90_061_001 && left > 90_061_001 - 30_000, "{left}");
    }
}

async fn names_outside_their_rules_are_refused(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [put("k", "1")]).await;
    let before = s.everything().await;
    let (long_bucket, long_key, long_log) = ("b".repeat(129), "k".repeat(257), "l".repeat(33));
    let refused = async |subject: &str, name: &str, transaction| {
        let failure = s.try_send(&transaction).await.unwrap_err();
        assert_eq!((failure.code, &*failure.subject), (FailureCode::Invalid, subject), "{name:?}");
        assert!(!failure.message.is_empty() && failure.message.len() < 1000, "{name:?}");
    };

    for name in ["", "a\n", "\n", "a b", "a.b", "a:b", "a/b", "é", "a\0", "*", "{a}", "\u{0661}", "..", &long_bucket] {
        refused("bucket", name, transaction(name, create(), [])).await;
        refused("bucket", name, transaction(name, existing(), [get("k")])).await;
        let writer = new_writer();
        assert_eq!(s.store.delete_bucket(&writer, name, Deadline::NEVER).await.unwrap_err().code, FailureCode::Invalid);
        assert_eq!(s.store.describe_bucket(name, Deadline::NEVER).await.unwrap_err().code, FailureCode::Invalid);
    }
    for name in [
        "",
        "a\n",
        "\na",
        "a b",
        "a:b",
        "a/b",
        "é",
        "a\0",
        "__keys__",
        "__meta__",
        "__history__",
        "__writers__",
        "__sessions__",
        "__anything__",
        "____",
        "__",
        "___",
        &long_key,
    ] {
        for operation in [get(name), put(name, "1"), increment(name, 1), remove(name)] {
            refused("key", name, transaction("b", existing(), [operation])).await;
        }
        refused("key", name, expecting("b", existing(), [keys_are(&["k", name])], [])).await;
    }
    for name in ["", "a\n", "History", "1st", "-a", "a_b", "a.b", "a b", "é", "a\0", "__a__", &long_log] {
        for operation in [
            append(name, &["r"]),
            append(name, NONE),
            read_all(name),
            overflow(name, 0, 0, 1, 1),
            replace_oldest(name, 1, NONE),
            rewrite(name, 0, "r"),
            count(name),
        ] {
            refused("log", name, transaction("b", existing(), [operation])).await;
        }
        refused("log", name, expecting("b", existing(), [oldest_are(name, NONE)], [])).await;
    }
    s.assert_unchanged(&before, ()).await;
}

async fn the_longest_and_the_strangest_allowed_names_work(s: Arc<StoreUnderTest>) {
    let (bucket, key, log) = ("B".repeat(128), "k".repeat(256), "l".repeat(32));
    for (bucket, key, log) in
        [(&*bucket, &*key, &*log), ("-", ".", "a"), ("_", "..", "a--"), ("0", "__a", "z9"), ("1", "a__", "h")]
    {
        let outcomes = s.apply(bucket, create(), [put(key, "1"), append(log, &["r"])]).await;
        assert_eq!(outcomes, [done(true), extent(0, 1)]);
        let outcomes = s.apply(bucket, existing(), [get_all(), read_all(log)]).await;
        assert_eq!(outcomes, [values(&[(key, "1")]), records(0, 1, &["r"])]);
    }
    assert_eq!(s.list(100).await.len(), 5);
}

async fn writing_one_place_twice_is_refused(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [put("k", "1"), append("l", &["x"])]).await;
    let before = s.everything().await;
    for operations in [
        [put("k", "1"), put("k", "2")],
        [put("k", "1"), increment("k", 2)],
        [increment("k", 1), remove("k")],
        [remove("k"), put("k", "2")],
        [remove_all(1), put("other", "1")],
        [increment("other", 1), remove_all(1)],
        [remove_all(1), remove_all(1)],
        [append("l", &["x"]), append("l", &["y"])],
        [append("l", NONE), rewrite("l", 0, "y")],
        [replace_oldest("l", 1, &["y"]), append("l", &["x"])],
        [rewrite("l", 0, "y"), replace_oldest("l", 1, &["y"])],
    ] {
        let failure = s.try_send(&transaction("b", existing(), operations.clone())).await.unwrap_err();
        assert_eq!(failure.code, FailureCode::Invalid, "{operations:?}");
    }
    s.assert_unchanged(&before, ()).await;
    s.apply("b", existing(), [put("k", "1"), append("k", &["a key and a log may share a name"]), get("k"), get("k")])
        .await;
}

async fn numbers_out_of_reason_are_refused(s: Arc<StoreUnderTest>) {
    for milliseconds in [0, u64::MAX, u64::MAX / 2, 1 << 53] {
        let opening = create_for(Duration::from_millis(milliseconds));
        let failure = s.try_send(&transaction("b", opening, [])).await.unwrap_err();
        assert_eq!((failure.code, &*failure.subject), (FailureCode::Invalid, "time-to-live"));
    }
    let many: Vec<_> = (0..10_001).map(|_| get("k")).collect();
    assert_eq!(s.try_send(&transaction("b", create(), many)).await.unwrap_err().code, FailureCode::Invalid);
    assert!(!s.is_there("b").await);

    let century = 100 * 365 * 24 * HOUR;
    s.apply("b", create_for(century), [put("k", "1")]).await;
    assert_eq!(
        s.store.describe_bucket("b", Deadline::NEVER).await.unwrap().time_to_live,
        Some(time_to_live(century, false))
    );
    s.pass_time(century - HOUR);
    assert_eq!(s.apply_one("b", get("k")).await, found("1"));
}

on_every_store![
    a_store_says_what_it_can_promise_and_that_it_is_well,
    an_absent_bucket_is_told_to_be_absent_and_not_created,
    a_bucket_is_created_once,
    a_bucket_that_was_not_to_be_there_exists,
    each_life_has_an_incarnation_of_its_own_that_can_be_asked_for,
    buckets_know_nothing_of_each_other,
    expectations_that_hold_let_a_transaction_through,
    expectations_that_do_not_hold_are_an_outcome_and_change_nothing,
    expectations_speak_of_the_state_before_the_transaction,
    room_is_for_the_keys_that_the_transaction_creates,
    a_deleted_bucket_names_its_keys_and_is_gone,
    a_description_tells_all_about_a_bucket,
    names_outside_their_rules_are_refused,
    the_longest_and_the_strangest_allowed_names_work,
    writing_one_place_twice_is_refused,
    numbers_out_of_reason_are_refused,
];
