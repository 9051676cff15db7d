//! Redis behind the store's back: what is there has another type, is no text, or was left by an earlier life.

use std::time::Duration;

use keepline_stores::{Deadline, EntryState, FailureCode, Operation, Status, kind};
use keepline_stores_tests::{raw::RawRedis, requests::*};

use super::layout::{keys_of_b, run, seeded};

const HOUR: Duration = Duration::from_secs(3600);

/// Operations that fail on what is stored under each address, and the subject of the failure: whatever reads or
/// writes a log, and whatever writes to a map.
fn meetings() -> Vec<(&'static str, &'static str, Vec<Operation>)> {
    let log = |log: &str| {
        vec![
            append(log, &["x"]),
            read_all(log),
            count(log),
            read_at(log, &[(0, 1)], ALL),
            read_surplus(log, 1, 0, ALL, ALL),
            replace_oldest(log, 1, &["x"]),
            rewrite(log, 0, "x"),
        ]
    };
    let values = vec![put("k", "1"), put("new", "1"), add("n", 1)];
    let notes = vec![put_in("notes", &[("x", "1")]), put_in("notes", &[("new", "1")]), add_in("notes", "n", 1)];
    let writes =
        [values.clone(), notes.clone(), vec![append("l", &["x"]), append("new", &["x"]), remove("k")]].concat();
    vec![
        ("b:k", "k", vec![put("k", "1"), add("k", 1)]),
        ("b:n", "n", vec![put("n", "1"), add("n", 1)]),
        ("b:__history__", "history", log("history")),
        ("b:__log.l__", "l", log("l")),
        ("b:__map.notes__", "notes", notes),
        ("b:__keys__", "__keys__", values),
        ("b:__meta__", "__meta__", [writes.clone(), log("history"), vec![get("k"), get_all()]].concat()),
        ("b:__writers__", "__writers__", writes),
    ]
}

/// Put something of another type there.
fn break_it(raw: &RawRedis, address: &str, kind: &str) {
    raw.on::<()>("DEL", address, &[]);
    match kind {
        "string" => raw.on::<()>("SET", address, &["somebody else's"]),
        "list" => raw.on::<()>("RPUSH", address, &["somebody else's"]),
        "set" => raw.on::<()>("SADD", address, &["somebody else's"]),
        "hash" => raw.on::<()>("HSET", address, &["somebody", "else's"]),
        _ => raw.on::<()>("ZADD", address, &["1", "somebody else's"]),
    }
}

#[test]
fn a_transaction_that_meets_a_wrong_type_says_which_and_changes_nothing() {
    run(async |s| {
        for (address, subject, operations) in meetings() {
            seeded(&s, create_for(HOUR)).await;
            let right: String = s.raw().on("TYPE", address, &[]);
            for kind in ["string", "list", "set", "hash", "zset"].into_iter().filter(|kind| *kind != right) {
                break_it(s.raw(), address, kind);
                let before = s.raw().dump();
                for operation in &operations {
                    // Before the writes around it, and after them.
                    let around = [append("beside", &["x"]), append("elsewhere", &["x"])];
                    for place in 0..=2 {
                        let mut all = around.to_vec();
                        all.insert(place, operation.clone());
                        let failure = s.try_send(&transaction("b", create(), all)).await.unwrap_err();
                        let told = (failure.code, &*failure.subject);
                        assert_eq!(told, (FailureCode::WrongType, subject), "{address} is a {kind}: {operation:?}");
                        s.assert_unchanged(&before, (address, kind, operation)).await;
                    }
                }
            }
            s.delete("b").await;
            s.raw().on::<()>("DEL", "b:__writers__", &[]);
        }
    });
}

#[test]
fn reads_of_maps_name_entries_of_a_wrong_type_instead_of_failing() {
    run(async |s| {
        for kind in ["list", "set", "hash", "zset"] {
            seeded(&s, create()).await;
            break_it(s.raw(), "b:k", kind);
            let before = s.raw().dump();
            let outcomes = s.apply("b", existing(), [get("k"), get_in("values", &["n", "k"], ALL), get_all()]).await;
            let both = unreadable(&[("n", "42")], &["k"]);
            assert_eq!(outcomes, [unreadable(&[], &["k"]), both.clone(), both], "{kind}");
            let page = entries_of(s.apply_one("b", page("values", "", 10, ALL)).await);
            assert_eq!((page.entries.len(), page.unreadable()), (1, &["k".to_owned()][..]));
            assert_eq!(s.apply("b", existing(), [get("n"), read_all("l")]).await[0], entries(&[("n", "42")]));
            s.assert_unchanged(&before, ()).await;
            assert_eq!(s.apply("b", existing(), [remove("k"), get("k")]).await, [changed(0, 1), nothing()], "{kind}");
            break_it(s.raw(), "b:n", kind);
            assert_eq!(s.apply("b", existing(), [remove_all(), get_all()]).await, [changed(0, 1), nothing()], "{kind}");
            assert_eq!(s.apply_one("b", add("n", 1)).await, counter(1));
            s.delete("b").await;
        }
    });
}

#[test]
fn expectations_that_meet_a_wrong_type_say_so_too() {
    run(async |s| {
        let in_notes = |state| entry_in("notes", "x", state, "1");
        for (address, subject, expectation, operations) in [
            ("b:__keys__", "__keys__", room_within(10), vec![put("new", "1")]),
            ("b:__map.notes__", "notes", room_in("notes", 10), vec![put_in("notes", &[("new", "1")])]),
            ("b:__map.notes__", "notes", in_notes(EntryState::Present), vec![]),
            ("b:__map.notes__", "notes", in_notes(EntryState::Absent), vec![]),
            ("b:__map.notes__", "notes", in_notes(EntryState::Equal), vec![]),
            ("b:k", "k", equal("k", "\"text\""), vec![]),
            ("b:k", "k", entry_in("values", "k", EntryState::AbsentOrEqual, "1"), vec![]),
            ("b:__log.l__", "l", log_at("l", 0, 2), vec![]),
            ("b:__history__", "history", log_at("history", 0, None), vec![append("l", &["x"])]),
        ] {
            seeded(&s, create_for(HOUR)).await;
            break_it(s.raw(), address, "zset");
            let before = s.raw().dump();
            let asked = expecting("b", existing(), [expectation.clone()], operations);
            let failure = s.try_send(&asked).await.unwrap_err();
            assert_eq!((failure.code, &*failure.subject), (FailureCode::WrongType, subject), "{expectation:?}");
            s.assert_unchanged(&before, ()).await;
            s.delete("b").await;
        }
    });
}

#[test]
fn a_bucket_with_wrong_types_can_be_deleted_and_created_again() {
    run(async |s| {
        for (address, _, _) in meetings() {
            for kind in ["string", "list", "set", "hash", "zset"] {
                seeded(&s, create_for(HOUR)).await;
                break_it(s.raw(), address, kind);
                assert_eq!(s.delete("b").await.0, Status::Applied, "{address} is a {kind}");
                assert!(!s.is_there("b").await);
                assert_eq!(s.list(10).await, [""; 0]);
                if !address.ends_with("__") || address.ends_with("history__") {
                    assert_eq!(keys_of_b(s.raw()), [""; 0], "{address} is a {kind}");
                }
                // Whoever broke the writers' numbers has to mend them, or wait.
                s.raw().on::<()>("DEL", "b:__writers__", &[]);
                let reads = [get("k"), get_all(), get_all_in("notes"), count("history"), count("l")];
                let outcomes = s.apply("b", create_new(), reads).await;
                let empty = [nothing(), nothing(), nothing(), extent(0, 0), extent(0, 0)];
                assert_eq!(outcomes, empty, "{address} is a {kind}");
                seeded(&s, existing()).await;
                assert_eq!(s.apply_one("b", read_all("l")).await, whole(0, &["l0", "l1"]));
                s.delete("b").await;
            }
        }
    });
}

#[test]
fn a_registry_of_a_wrong_type_is_reported_and_left_unchanged() {
    run(async |s| {
        seeded(&s, create()).await;
        break_it(s.raw(), "__sessions__", "string");
        let before = s.raw().dump();
        let wrong_type = |failure: keepline_stores::Failure| {
            assert_eq!((failure.code, &*failure.subject), (FailureCode::WrongType, "__sessions__"));
        };
        wrong_type(s.try_send(&transaction("new", create(), [put("k", "1")])).await.unwrap_err());
        wrong_type(s.try_send(&transaction("new", existing(), [put("k", "1")])).await.unwrap_err());
        wrong_type(s.store.list_buckets(kind::SESSION, "", 10, Deadline::NEVER).await.unwrap_err());
        s.assert_unchanged(&before, ()).await;
        // Who needs no registry does not suffer.
        assert_eq!(s.apply_one("b", get("n")).await, entries(&[("n", "42")]));
        assert!(s.is_there("b").await);
        assert_eq!(s.delete("b").await.0, Status::Applied);
        assert_eq!(keys_of_b(s.raw()), [""; 0]);
    });
}

#[test]
fn foreign_names_are_never_returned() {
    run(async |s| {
        seeded(&s, create()).await;
        let described = s.describe("b").await;
        s.raw().on::<()>("SADD", "b:__keys__", &["bad name", "a:b", "__x__", "line\nbreak", ""]);
        for log in ["bad log", "Upper", "line\nbreak"] {
            s.raw().on::<()>("HSET", "b:__meta__", &[&*format!("log:{log}"), "0"]);
            s.raw().on::<()>("RPUSH", &format!("b:__log.{log}__"), &["x"]);
            s.raw().on::<()>("HSET", "b:__meta__", &[&*format!("map:{log}"), "1"]);
            s.raw().on::<()>("HSET", &format!("b:__map.{log}__"), &["x", "1"]);
        }
        let now = s.describe("b").await;
        assert_eq!((now.parts, now.values), (described.parts, described.values));
        s.raw().on::<()>("HSET", "b:__map.notes__", &["bad key", "1", "line\nbreak", "1", "", "1"]);
        assert_eq!(s.apply_one("b", get_all_in("notes")).await, entries(&[("x", "1"), ("y", "2")]));
        assert_eq!(s.delete("b").await, (Status::Applied, vec!["k".to_owned(), "n".to_owned()]));
    });
}

#[test]
fn remains_of_a_dead_session_are_invisible_and_removed_by_the_next() {
    run(async |s| {
        let leave = |raw: &RawRedis| {
            raw.on::<()>("SET", "b:k", &["left"]);
            raw.on::<()>("SET", "b:n", &["41"]);
            raw.on::<()>("RPUSH", "b:list", &["left"]);
            raw.on::<()>("SADD", "b:__keys__", &["k", "n", "list", "gone"]);
            raw.on::<()>("RPUSH", "b:__history__", &["left"]);
            raw.on::<()>("RPUSH", "b:__log.l__", &["left"]);
            raw.on::<()>("HSET", "b:__map.notes__", &["x", "left", "y", "left"]);
            // Not even known to the key set.
            raw.on::<()>("SET", "b:orphan", &["left"]);
            raw.on::<()>("SET", "b:counter", &["41"]);
            raw.on::<()>("RPUSH", "b:__log.unnamed__", &["left"]);
        };
        for registered in [false, true] {
            leave(s.raw());
            if registered {
                s.raw().on::<()>("SADD", "__sessions__", &["b"]);
            }
            assert!(!s.is_there("b").await);
            assert_eq!(s.list(10).await, [""; 0]);
            assert_ne!(s.status("b", existing()).await, Status::Applied);
            let reads = [
                get_all(),
                get("k"),
                get("orphan"),
                get_all_in("notes"),
                get_in("notes", &["x"], ALL),
                read_all("history"),
                read_all("l"),
            ];
            let expected = vec![nothing(); 5].into_iter().chain([extent(0, 0), extent(0, 0)]);
            assert_eq!(s.apply("b", create_for(HOUR), reads).await, expected.collect::<Vec<_>>());
            let raw = s.raw();
            for key in ["k", "n", "list", "__keys__", "__history__"] {
                assert_eq!(raw.expires_at(&format!("b:{key}")), -2, "{key}");
            }
            assert_eq!(s.apply_one("b", read_all("unnamed")).await, extent(0, 0));
            let writes = [
                add("counter", 1),
                put("orphan", "1"),
                append("l", &["x"]),
                append("unnamed", &["x"]),
                put_in("notes", &[("x", "1")]),
            ];
            let expected = [counter(1), changed(1, 0), extent(0, 1), extent(0, 1), changed(1, 0)];
            assert_eq!(s.apply("b", existing(), writes).await, expected);
            let outcomes = s.apply("b", existing(), [read_all("unnamed"), get_all_in("notes")]).await;
            assert_eq!(outcomes, [whole(0, &["x"]), entries(&[("x", "1")])]);
            let meta = raw.expires_at("b:__meta__");
            for key in keys_of_b(raw) {
                assert_eq!(raw.expires_at(&key), meta, "{key}");
            }
            s.delete("b").await;
            assert_eq!(keys_of_b(s.raw()), [""; 0]);
        }
    });
}

#[test]
fn leftovers_of_any_type_do_not_stop_a_creation() {
    run(async |s| {
        for kind in ["string", "list", "set", "hash", "zset"] {
            for address in ["b:__keys__", "b:__history__", "b:__log.l__", "b:__map.notes__", "b:k", "b:n"] {
                break_it(s.raw(), address, kind);
                let operations = [
                    put("k", "1"),
                    add("n", 1),
                    append("history", &["x"]),
                    append("l", &["x"]),
                    put_in("notes", &[("x", "1")]),
                ];
                let outcomes = s.apply("b", create_new(), operations).await;
                let expected = [changed(1, 0), counter(1), extent(0, 1), extent(0, 1), changed(1, 0)];
                assert_eq!(outcomes, expected, "{address} is a {kind}");
                s.delete("b").await;
                assert_eq!(keys_of_b(s.raw()), [""; 0], "{address} is a {kind}");
            }
        }
    });
}

#[test]
fn text_that_is_not_utf8_is_reported_and_left_unchanged() {
    run(async |s| {
        seeded(&s, create()).await;
        let raw = s.raw();
        raw.run::<()>(redis::cmd("SET").arg(raw.address("b:k")).arg(b"\"\xff\xfe\""));
        raw.run::<()>(redis::cmd("RPUSH").arg(raw.address("b:__log.l__")).arg(b"l\xff2"));
        raw.run::<()>(redis::cmd("HSET").arg(raw.address("b:__map.notes__")).arg("x").arg(b"\xff"));
        let before = raw.dump();
        let reads = [
            get("k"),
            get_all(),
            read_all("l"),
            read_at("l", &[(2, 1)], ALL),
            get_in("notes", &["y", "x"], ALL),
            get_all_in("notes"),
        ];
        let outcomes = s.apply("b", existing(), reads).await;
        let records = whole(0, &["l0", "l1", "l\u{fffd}2"]);
        let one = runs(0, 3, &[(2, &["l\u{fffd}2"])]);
        let notes = unreadable(&[("y", "2")], &["x"]);
        let all = unreadable(&[("n", "42")], &["k"]);
        assert_eq!(outcomes, [unreadable(&[], &["k"]), all, records, one, notes.clone(), notes]);
        let failure = s.try_send(&transaction("b", existing(), [add("k", 1)])).await.unwrap_err();
        assert_eq!((failure.code, &*failure.subject), (FailureCode::NotACounter, "k"));
        let lookalike = [equal("k", "\"\u{fffd}\u{fffd}\"")];
        assert_eq!(s.ask(&expecting("b", existing(), lookalike, [])).await.status, Status::Unmet);
        assert_eq!(
            s.ask(&expecting("b", existing(), [present("k"), log_at("l", 0, 3)], [])).await.status,
            Status::Applied
        );
        s.assert_unchanged(&before, ()).await;
        assert_eq!(s.apply_one("b", put("k", "1")).await, changed(0, 0));
    });
}

#[test]
fn foreign_names_in_the_key_set_are_harmless() {
    run(async |s| {
        seeded(&s, create()).await;
        let raw = s.raw();
        let names = [&b"__meta__"[..], b"__history__", b"not\xffutf8", b"a:b", b"", b"gone"];
        raw.run::<()>(redis::cmd("SADD").arg(raw.address("b:__keys__")).arg(&names));
        let operations = [get_all(), get("n"), put("a", "1"), remove("gone")];
        let receipt = s.ask(&transaction("b", existing(), operations)).await;
        let both = entries(&[("k", "\"text\""), ("n", "42")]);
        assert_eq!(receipt.outcomes, [both, entries(&[("n", "42")]), changed(1, 0), changed(0, 0)]);
        s.apply("b", existing(), [remove_all()]).await;
        assert_eq!(s.apply("b", existing(), [get_all(), count("history")]).await, [nothing(), extent(0, 2)]);
        assert_eq!(s.delete("b").await.0, Status::Applied);
        assert!(!s.is_there("b").await);
    });
}
