//! Indexes in Redis, looked at behind the store's back: where and how they are kept, what others put there, that they
//! expire with the bucket, and how much one call makes Redis do.

use std::{sync::Arc, time::Duration};

use keepline_stores::{FailureCode, Status};
use keepline_stores_tests::{requests::*, stores::StoreUnderTest};

const HOUR: Duration = Duration::from_secs(3600);
const INDEX: &str = "b:__index.recall__";

fn run<F: Future<Output = ()>>(case: impl Fn(Arc<StoreUnderTest>) -> F) {
    keepline_stores_tests::stores::run(StoreUnderTest::redis(), &case);
    keepline_stores_tests::stores::run(StoreUnderTest::redis_general(), &case);
}

fn bytes(s: &StoreUnderTest, field: &str) -> Vec<u8> {
    s.raw().run(redis::cmd("HGET").arg(s.raw().address(INDEX)).arg(field))
}

#[test]
fn an_index_is_one_hash_of_marks_and_shards_with_the_expiry_of_its_bucket() {
    run(async |s| {
        s.apply("b", create_for(HOUR), add_documents("recall", [document(2, &[12, 0x20_0d0c]), document(1025, &[12])]))
            .await;
        let mut fields: Vec<String> = s.raw().on("HKEYS", INDEX, &[]);
        fields.sort_unstable();
        assert_eq!(fields, ["0", "0:0c", "1", "1:0c"]);
        assert_eq!(bytes(&s, "0"), [0, 0b1000_0000, 0, 3]);
        assert_eq!(bytes(&s, "0:0c"), [0, 0b1000_0000, 0, 0, 0b1010_0000, 0x0d]);
        assert_eq!(bytes(&s, "1"), [0, 0b0100_0000, 4, 2]);
        let stands = || s.raw().on::<String>("HGET", "b:__meta__", &["index:recall"]);
        assert_eq!(stands(), "1026 2 3");
        let is_at_one_instant = || assert_eq!(s.raw().expires_at(INDEX), s.raw().expires_at("b:__meta__"));
        is_at_one_instant();
        // Empty, it is no key of Redis; what comes then expires, too.
        s.apply_step("b", remove_documents("recall", [1025, 2])).await;
        assert_eq!((stands(), s.raw().on::<u64>("EXISTS", INDEX, &[])), ("1026 0 0".to_owned(), 0));
        s.apply_step("b", add_documents("recall", [document(1026, &[12])])).await;
        is_at_one_instant();
        assert_eq!(stands(), "1027 1 1");
        // It is renewed with the rest, and goes with it.
        s.apply("b", replace(), []).await;
        assert_eq!(s.raw().on::<u64>("EXISTS", INDEX, &[]), 0);
        s.delete("b").await;
        s.apply("b", create_sliding(HOUR), add_documents("recall", [document(0, &[1])])).await;
        s.pass_time(HOUR / 2);
        s.apply_step("b", search("recall", &[1])).await;
        is_at_one_instant();
        s.pass_time(HOUR / 2);
        assert_eq!(s.apply_step("b", search("recall", &[1])).await, found(index_at(1, 1, 1), 0, &[(0, &[1])], &[&[0]]));
        s.delete("b").await;
        assert!(s.raw().keys().iter().all(|key| key.ends_with("__writers__")), "{:?}", s.raw().keys());
    });
}

#[test]
fn foreign_data_in_an_index_are_ignored() {
    run(async |s| {
        s.raw().on::<()>("HSET", INDEX, &["0", "left"]);
        let empty = || found(index_at(0, 0, 0), 0, &[], &[&[]]);
        let new = (search("recall", &[1]), add_documents("recall", [document(0, &[1]), document(1, &[1, 2])]));
        let receipt = s.try_send(&transaction("b", create(), new)).await.unwrap();
        assert_eq!(receipt.found, [empty(), indexed(2, 2, 3)]);
        s.raw().on::<()>("HSET", INDEX, &["odd", "x", "0:zz", "x", "7", "x", "0:05", "odd"]);
        let both = found(index_at(2, 2, 3), 0, &[(0, &[1, 2])], &[&[0, 1], &[1], &[]]);
        assert_eq!(s.apply_step("b", search("recall", &[1, 2, 5])).await, both);
        assert_eq!(s.apply_step("b", remove_documents("recall", [0])).await, indexed(2, 1, 2));
        // Evicted, it finds nothing and goes on.
        s.raw().on::<()>("DEL", INDEX, &[]);
        assert_eq!(s.apply_step("b", search("recall", &[1])).await, found(index_at(2, 1, 2), 0, &[], &[&[]]));
        let unmarked = found(index_at(2, 1, 2), 0, &[(0, &[0, 0])], &[]);
        assert_eq!(s.apply_step("b", read_marks("recall", 0, 9)).await, unmarked);
        assert_eq!(s.apply_step("b", add_documents("recall", [document(2, &[1])])).await, indexed(3, 2, 3));
        let new = found(index_at(3, 2, 3), 0, &[(2, &[3])], &[&[2]]);
        assert_eq!(s.apply_step("b", search("recall", &[1])).await, new);
        // Metadata that make no sense are none of an index.
        for garbage in ["", "x", "1 2", "-1 2 3", "1 2 3 4", "1 2 3\n"] {
            s.raw().on::<()>("HSET", "b:__meta__", &["index:recall", garbage]);
            assert_eq!(s.apply_step("b", search("recall", &[1])).await, empty(), "{garbage:?}");
            assert_eq!(s.describe("b").await.parts, []);
        }
        assert_eq!(s.apply_step("b", add_documents("recall", [document(0, &[7])])).await, indexed(1, 1, 1));
        let one = found(index_at(1, 1, 1), 0, &[(0, &[1])], &[&[0], &[]]);
        assert_eq!(s.apply_step("b", search("recall", &[7, 1])).await, one);
    });
}

#[test]
fn an_index_key_that_is_not_a_hash_is_reported_and_left_unchanged() {
    run(async |s| {
        s.apply("b", create(), (add_documents("recall", [document(0, &[1])]), put("k", "1"))).await;
        s.raw().on::<()>("DEL", INDEX, &[]);
        s.raw().on::<()>("SET", INDEX, &["stranger"]);
        for step in [
            add_documents("recall", [document(1, &[1])]),
            remove_documents("recall", [0]),
            search("recall", &[1]),
            read_marks("recall", 0, 1),
        ] {
            let before = s.everything().await;
            let asked = transaction("b", existing(), (put("k", "2"), step));
            let failure = s.try_send(&asked).await.unwrap_err();
            assert_eq!((failure.code, &*failure.subject), (FailureCode::WrongType, "recall"));
            s.assert_unchanged(&before, asked).await;
        }
        assert_eq!(s.describe("b").await.parts, []);
        assert_eq!(s.delete("b").await.0, Status::Applied);
        assert_eq!(s.raw().on::<u64>("EXISTS", INDEX, &[]), 0);
    });
}

#[test]
fn an_index_call_reads_only_the_fields_that_it_needs() {
    run(async |s| {
        let documents: Vec<_> =
            (0..3000).map(|n| document(n, &[1, 2, 257, 1000 + u32::try_from(n).unwrap()])).collect();
        s.apply("b", create(), add_documents("recall", documents)).await;
        let calls = async |step| {
            let watch = s.raw().watch();
            s.apply_step("b", step).await;
            let of_index = |command: &Vec<String>| command.get(1).is_some_and(|key| key.ends_with("__index.recall__"));
            let calls = watch.commands().into_iter().filter(of_index).filter(|command| command[0] != "HLEN");
            calls.map(|command| (command[0].clone(), command.len() - 2)).collect::<Vec<_>>()
        };
        let call = |name: &str, arguments| (name.to_owned(), arguments);
        // Of each segment the marks and two shards, for three terms.
        assert_eq!(calls(search("recall", &[1, 2, 257])).await, vec![call("HMGET", 3); 3]);
        assert_eq!(calls(search_within("recall", &[2], 900, 8, ALL)).await, [call("HMGET", 2)]);
        assert_eq!(calls(search_within("recall", &[2], 0, 8, ALL)).await, []);
        // The marks of the two segments that have some of the positions.
        assert_eq!(calls(read_marks("recall", 1000, 100)).await, vec![call("HMGET", 1); 2]);
        assert_eq!(calls(read_marks("recall", 3000, 100)).await, []);
        assert_eq!(calls(remove_documents("recall", [5000, 9000])).await, [call("HGET", 1), call("HGET", 1)]);
        let one = calls(remove_documents("recall", [500])).await;
        // The marks and three shards: two of its terms are in one.
        assert_eq!(one, [call("HGET", 1), call("HMGET", 257), call("HSET", 8)]);
        let posted = calls(add_documents("recall", [document(3000, &[1, 2, 257])])).await;
        assert_eq!(posted, [call("HMGET", 3), call("HSET", 6)]);
    });
}
