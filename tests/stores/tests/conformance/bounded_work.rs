//! Bounds of the work that one transaction makes Redis do. Observed from outside: what is over a limit is not read.

use std::{collections::BTreeMap, sync::Arc};

use keepline_stores::{FailureCode, IndexedTransaction, Outcome, Status};
use keepline_stores_tests::{requests::*, stores::StoreUnderTest};

fn run<F: Future<Output = ()>>(case: impl Fn(Arc<StoreUnderTest>) -> F) {
    keepline_stores_tests::stores::run(StoreUnderTest::redis(), &case);
    keepline_stores_tests::stores::run(StoreUnderTest::redis_general(), &case);
}

/// What a transaction on bucket `b` is answered with, and the commands that it took.
async fn watched(s: &StoreUnderTest, asked: &IndexedTransaction) -> (Vec<Outcome>, Vec<Vec<String>>) {
    let watch = s.raw().watch();
    let receipt = s.ask(asked).await;
    assert_eq!(receipt.status, Status::Applied);
    (receipt.outcomes, watch.commands())
}

/// How often each was called.
fn calls(commands: &[Vec<String>]) -> BTreeMap<&str, usize> {
    let mut calls = BTreeMap::new();
    for command in commands {
        *calls.entry(command[0].as_str()).or_default() += 1;
    }
    calls
}

/// How many records the commands asked for, at most.
fn records_read(commands: &[Vec<String>]) -> i64 {
    let reads = commands.iter().filter(|command| command[0] == "LRANGE");
    reads.map(|read| read[3].parse::<i64>().unwrap() - read[2].parse::<i64>().unwrap() + 1).sum()
}

#[test]
fn values_over_the_byte_limit_are_measured_and_at_most_two_of_them_read() {
    run(async |s| {
        let value = "x".repeat(10_000);
        let puts: Vec<_> = (0..20).map(|n| put(&format!("k{n}"), &value)).collect();
        s.apply("b", create(), puts).await;
        let (outcomes, commands) = watched(&s, &transaction("b", existing(), [get_all_within(50_000, ALL)])).await;
        let size = oversize_of(&outcomes[0]);
        assert!(size.bytes > 50_000 && size.entries == 20);
        let calls = calls(&commands);
        assert_eq!((calls["GETRANGE"], calls["STRLEN"]), (2, 3));
        assert!(!calls.contains_key("MGET"), "{commands:?}");
    });
}

#[test]
fn key_names_are_not_read_if_there_are_far_too_many() {
    run(async |s| {
        let puts: Vec<_> = (0..5000).map(|n| put(&format!("k{n}"), "1")).collect();
        s.apply("b", create(), puts).await;
        let (outcomes, commands) = watched(&s, &transaction("b", existing(), [get_all_within(ALL, 1000)])).await;
        assert_eq!(oversize_of(&outcomes[0]).entries, 5000);
        let calls = calls(&commands);
        assert!(!calls.contains_key("SMEMBERS") && !calls.contains_key("MGET"), "{calls:?}");
    });
}

#[test]
fn a_map_over_its_limits_is_refused_without_reading_its_texts() {
    run(async |s| {
        let all: Vec<_> = (0..5000).map(|n| (format!("k{n}"), "x".repeat(100))).collect();
        s.apply("b", create(), [put_in("notes", &all)]).await;
        for asked in [get_all_in_within("notes", ALL, 1000), get_all_in_within("notes", 1000, ALL)] {
            let (outcomes, commands) = watched(&s, &transaction("b", existing(), [asked])).await;
            assert_eq!(oversize_of(&outcomes[0]).entries, 5000);
            assert!(!calls(&commands).contains_key("HGETALL"), "{:?}", calls(&commands));
        }
        // A page looks at about as many as it gives.
        let (_, commands) = watched(&s, &transaction("b", existing(), [page("notes", "", 50, ALL)])).await;
        let calls = calls(&commands);
        assert!(commands.len() < 250 && !calls.contains_key("HGETALL"), "{calls:?}");
    });
}

#[test]
fn a_range_that_ends_early_is_not_read_much_farther() {
    run(async |s| {
        let many: Vec<_> = (0..1000).map(|n| format!("{n:1500}")).collect();
        s.apply("b", create(), [append("l", &many)]).await;
        for asked in [
            read_newest("l", ALL, 20_000),
            read_oldest("l", ALL, 20_000),
            read_at("l", &[(300, 600)], 20_000),
            read_surplus("l", 10, 5, ALL, 20_000),
        ] {
            let (outcomes, commands) = watched(&s, &transaction("b", existing(), [asked])).await;
            assert_eq!(records_of(&outcomes[0]).len(), 13, "{outcomes:?}");
            assert!(records_read(&commands) <= 2 * 13 + 8, "{commands:?}");
        }
    });
}

#[test]
fn no_read_fetches_more_than_10_000_records_whatever_its_limit() {
    run(async |s| {
        s.apply("b", create(), [append("l", &vec![""; 15_000])]).await;
        for asked in [read_all("l"), read_newest("l", ALL, ALL), read_surplus("l", 0, 0, ALL, ALL)] {
            let (outcomes, commands) = watched(&s, &transaction("b", existing(), [asked])).await;
            assert_eq!(records_of(&outcomes[0]).len(), 10_000);
            assert_eq!(records_read(&commands), 10_000);
        }
    });
}

#[test]
fn all_reads_of_a_transaction_together_read_20_000_records() {
    run(async |s| {
        s.apply("b", create(), [append("l", &vec![""; 15_000])]).await;
        let asked: Vec<_> = (0..16).map(|_| read_all("l")).collect();
        let (outcomes, commands) = watched(&s, &transaction("b", existing(), asked)).await;
        let read: Vec<_> = outcomes.iter().map(|outcome| records_of(outcome).len()).collect();
        assert_eq!(read[..3], [10_000, 10_000, 0]);
        assert_eq!(records_read(&commands), 20_000);
    });
}

/// Fills a list behind the store's back, all records alike.
fn fill(s: &StoreUnderTest, list: &str, record: &str, records: u32) {
    const FILL: &str = "local some = {} for i = 1, 1000 do some[i] = ARGV[1] end \
                        for i = 1, ARGV[2], 1000 do redis.call('RPUSH', KEYS[1], unpack(some)) end";
    let mut command = redis::cmd("EVAL");
    command.arg(FILL).arg(1).arg(s.raw().address(list)).arg(record).arg(records);
    s.raw().run::<()>(&command);
}

#[test]
fn millions_of_empty_foreign_records_do_not_make_a_call_long() {
    run(async |s| {
        s.apply("b", create(), [append("history", &["first"])]).await;
        fill(&s, "b:__history__", "", 2_000_000);
        let length = 2_000_001;
        for asked in [read_all("history"), read_newest("history", ALL, ALL), read_surplus("history", 10, 5, ALL, ALL)] {
            let (_, commands) = watched(&s, &transaction("b", existing(), [asked])).await;
            assert_eq!(records_read(&commands), 10_000);
        }
        // In the middle each place costs the way there.
        let spans: Vec<_> = (0..10_000).map(|n| (600_000 + 50 * n, 1)).collect();
        let (outcomes, commands) = watched(&s, &transaction("b", existing(), [read_at("history", &spans, ALL)])).await;
        assert_eq!(extent_of(&outcomes[0]).length, length);
        let walked: i64 = commands
            .iter()
            .filter(|command| command[0] == "LRANGE")
            .map(|command| command[2].parse().unwrap())
            .map(|index: i64| index.min(2_000_001 - index))
            .sum();
        assert!((1..=6_000_000).contains(&walked) && !records_of(&outcomes[0]).is_empty(), "{walked}");
        // One place is always within reach.
        let (outcomes, _) =
            watched(&s, &transaction("b", existing(), [read_at("history", &[(1_000_000, 3)], ALL)])).await;
        assert_eq!(records_of(&outcomes[0]).len(), 3);
        s.apply("b", existing(), [rewrite("history", 1_000_000, "x")]).await;
        let positions: Vec<_> = (0..100).map(|n| (1_000_000 + n, "x")).collect();
        let refused =
            s.try_send(&transaction("b", existing(), [rewrite_each("history", &positions)])).await.unwrap_err();
        assert_eq!((refused.code, &*refused.subject), (FailureCode::TooLarge, "history"));
        // As many are replaced as can have been read.
        let outcome = s.apply_one("b", replace_oldest("history", ALL, &["one"])).await;
        assert_eq!(outcome, extent(9_999, length - 9_999));
        assert_eq!(s.apply_one("b", reset_log("history", NONE)).await, extent(length, 0));
    });
}

#[test]
fn an_overlong_foreign_record_is_returned_as_an_empty_text() {
    run(async |s| {
        s.apply("b", create(), [append("history", &["first"])]).await;
        s.raw().on::<()>("RPUSH", "b:__history__", &[&"x".repeat((2 << 20) + 1), "last"]);
        let all = [read_all("history"), read_newest("history", ALL, ALL), read_at("history", &[(0, 3)], ALL)];
        for asked in all {
            assert_eq!(s.apply_one("b", asked).await, whole(0, &["first", "", "last"]));
        }
    });
}

#[test]
fn few_long_records_are_read_beyond_the_byte_limit() {
    run(async |s| {
        s.apply("b", create(), [append("history", &["first"])]).await;
        let record = "x".repeat(1 << 20);
        fill(&s, "b:__history__", "", 1000);
        for _ in 0..40 {
            s.raw().on::<()>("RPUSH", "b:__history__", &[&record]);
        }
        let asked: Vec<_> = (0..16).map(|_| read_newest("history", ALL, 10)).collect();
        let (outcomes, commands) = watched(&s, &transaction("b", existing(), asked)).await;
        assert_eq!(records_of(&outcomes[0]).len(), 1, "one at least");
        // Each of these reads as many at first; what it does not tell is counted all the same.
        assert!(records_read(&commands) <= 24, "{}", records_read(&commands));
    });
}

#[test]
fn a_value_too_long_for_a_counter_is_refused_without_being_read() {
    run(async |s| {
        s.apply("b", create(), [put("k", &"1".repeat(1 << 20)), put_in("notes", &[("k", "1".repeat(1 << 20))])]).await;
        for asked in [add("k", 1), add_in("notes", "k", 1)] {
            let watch = s.raw().watch();
            let failure = s.try_send(&transaction("b", existing(), [asked])).await.unwrap_err();
            assert_eq!((failure.code, &*failure.subject), (FailureCode::NotACounter, "k"));
            let commands = watch.commands();
            assert!(!calls(&commands).contains_key("GET") && !calls(&commands).contains_key("HGET"), "{commands:?}");
        }
    });
}

#[test]
fn metadata_with_many_foreign_fields_are_not_read_in_full() {
    run(async |s| {
        s.apply("b", create(), [append("l", &["x"]), put_in("notes", &[("k", "1")])]).await;
        let fields: Vec<_> = (0..50_000).flat_map(|n| [format!("junk-{n}"), "1".to_owned()]).collect();
        let fields: Vec<_> = fields.iter().map(String::as_str).collect();
        s.raw().on::<()>("HSET", "b:__meta__", &fields);
        for asked in [describe(), put_in("other", &[("k", "1")])] {
            let watch = s.raw().watch();
            s.apply("b", existing(), [asked]).await;
            let commands = watch.commands();
            assert!(!calls(&commands).contains_key("HGETALL") && commands.len() < 100, "{:?}", calls(&commands));
        }
    });
}

#[test]
fn a_page_of_a_map_asks_for_its_texts_together() {
    run(async |s| {
        let all: Vec<_> = (0..500).map(|n| (format!("k{n}"), "x".repeat(100))).collect();
        for map in ["values", "notes"] {
            s.apply("b", create(), [put_in(map, &all)]).await;
            let (outcomes, commands) = watched(&s, &transaction("b", existing(), [page(map, "", 1000, 40_000)])).await;
            let page = entries_of(outcomes[0].clone());
            assert_eq!(page.entries.len() + page.unreadable().len(), 500);
            let calls = calls(&commands);
            let (of_all, of_one) = if map == "values" { ("MGET", "GET") } else { ("HMGET", "HGET") };
            assert!(calls[of_all] <= 2 && !calls.contains_key(of_one), "{calls:?}");
        }
    });
}

#[test]
fn large_keys_are_freed_in_the_background() {
    run(async |s| {
        let fill = [put("k", "1"), append("l", &["x"]), append("history", &["x"])];
        s.apply("b", create(), fill).await;
        let watch = s.raw().watch();
        s.apply("b", existing(), [remove("k")]).await;
        s.apply("b", existing(), [put("k", "1")]).await;
        s.apply("b", existing(), [remove_all()]).await;
        s.delete("b").await;
        for leftover in ["b:__l__", "b:__history__"] {
            s.raw().on::<()>("RPUSH", leftover, &["x"]);
        }
        s.apply("b", create(), [append("l", &["x"])]).await;
        let commands = watch.commands();
        let calls = calls(&commands);
        assert!(calls["UNLINK"] >= 5 && !calls.contains_key("DEL"), "{calls:?}");
    });
}

#[test]
fn a_new_writer_costs_the_same_however_many_there_are() {
    run(async |s| {
        s.apply("b", create(), []).await;
        let deadline = s.raw().now() + 60_000;
        let fields: Vec<_> = (0..5000).flat_map(|n| [format!("{n:024x}"), format!("1.{deadline}")]).collect();
        let fields: Vec<_> = fields.iter().map(String::as_str).collect();
        s.raw().on::<()>("HSET", "b:__writers__", &fields);
        let watch = s.raw().watch();
        for _ in 0..10 {
            let writer = keepline_stores_tests::stores::new_writer();
            s.ask_as(&writer, &transaction("b", existing(), [put("k", "1")])).await;
        }
        let commands = watch.commands();
        let looked: Vec<_> = commands.iter().filter(|command| command[0] == "HRANDFIELD").collect();
        assert_eq!(looked.len(), 10);
        assert!(looked.iter().all(|command| command[2] == "-4"), "{looked:?}");
        assert!(!calls(&commands).contains_key("HGETALL"));
    });
}
