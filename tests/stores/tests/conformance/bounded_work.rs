//! What one transaction can make Redis do at one go. Seen by watching it: what is over a limit is not read.

use std::{collections::BTreeMap, sync::Arc};

use keepline_stores::{Outcome, Status, Transaction};
use keepline_stores_tests::{requests::*, stores::StoreUnderTest};

fn run<F: Future<Output = ()>>(case: impl Fn(Arc<StoreUnderTest>) -> F) {
    keepline_stores_tests::stores::run(StoreUnderTest::redis(), &case);
    keepline_stores_tests::stores::run(StoreUnderTest::redis_general(), &case);
}

/// What a transaction on bucket `b` is answered with, and the commands that it took.
async fn watched(s: &StoreUnderTest, asked: &Transaction) -> (Vec<Outcome>, Vec<Vec<String>>) {
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
fn of_values_that_are_too_long_together_all_but_two_are_only_measured() {
    run(async |s| {
        let value = "x".repeat(10_000);
        let puts: Vec<_> = (0..20).map(|n| put(&format!("k{n}"), &value)).collect();
        s.apply("b", create(), puts).await;
        let (outcomes, commands) = watched(&s, &transaction("b", existing(), [get_all_within(50_000, ALL)])).await;
        assert!(matches!(outcomes[..], [Outcome::Oversize(size)] if size.bytes > 50_000 && size.entries == 20));
        let calls = calls(&commands);
        assert_eq!((calls["MGET"], calls["STRLEN"]), (1, 3));
        assert!(commands.iter().all(|command| command[0] != "MGET" || command.len() == 3), "{commands:?}");
    });
}

#[test]
fn of_far_too_many_keys_not_even_the_names_are_read() {
    run(async |s| {
        let puts: Vec<_> = (0..5000).map(|n| put(&format!("k{n}"), "1")).collect();
        s.apply("b", create(), puts).await;
        let (outcomes, commands) = watched(&s, &transaction("b", existing(), [get_all_within(ALL, 1000)])).await;
        assert!(matches!(outcomes[..], [Outcome::Oversize(size)] if size.entries == 5000));
        let calls = calls(&commands);
        assert!(!calls.contains_key("SMEMBERS") && !calls.contains_key("MGET"), "{calls:?}");
    });
}

#[test]
fn of_a_map_over_its_limits_no_text_is_read() {
    run(async |s| {
        let all: Vec<_> = (0..5000).map(|n| (format!("k{n}"), "x".repeat(100))).collect();
        s.apply("b", create(), [put_in("notes", &all)]).await;
        for asked in [get_all_in_within("notes", ALL, 1000), get_all_in_within("notes", 1000, ALL)] {
            let (outcomes, commands) = watched(&s, &transaction("b", existing(), [asked])).await;
            assert!(matches!(outcomes[..], [Outcome::Oversize(size)] if size.entries == 5000), "{outcomes:?}");
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
            overflow("l", 10, 5, ALL, 20_000),
        ] {
            let (outcomes, commands) = watched(&s, &transaction("b", existing(), [asked])).await;
            let read = match &outcomes[..] {
                [Outcome::Records(read)] => read.records.len(),
                [Outcome::Spans(read)] => read.spans[0].records.len(),
                other => panic!("{other:?}"),
            };
            assert_eq!(read, 13, "{outcomes:?}");
            assert!(records_read(&commands) <= 2 * 13 + 8, "{commands:?}");
        }
        let (_, commands) = watched(&s, &transaction("b", existing(), [read_all("l")])).await;
        assert!(calls(&commands)["LRANGE"] < 12, "{:?}", calls(&commands));
    });
}

#[test]
fn no_read_asks_for_more_than_10_000_records_whatever_it_is_told() {
    run(async |s| {
        s.apply("b", create(), [append("l", &vec![""; 15_000])]).await;
        for asked in [read_all("l"), read_newest("l", ALL, ALL), overflow("l", 0, 0, ALL, ALL)] {
            let (outcomes, commands) = watched(&s, &transaction("b", existing(), [asked])).await;
            assert!(matches!(&outcomes[..], [Outcome::Records(read)] if read.records.len() == 10_000));
            assert_eq!(records_read(&commands), 10_000);
        }
    });
}

#[test]
fn what_may_be_large_is_freed_beside_the_others() {
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
