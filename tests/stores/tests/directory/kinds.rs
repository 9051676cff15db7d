//! Kinds of buckets: any name is one, also those that the store's own rows once had to themselves.

use keepline_stores::{BucketId, FailureCode, directory};

use super::*;

/// Counts in a bucket of any kind.
async fn count_in(store: &DirectoryStore, writer: &Writer, bucket: &BucketId) -> Receipt {
    let transaction = transaction(bucket, create(), [add("n", 1)]);
    store.transact(writer, &transaction, Deadline::NEVER).await.unwrap().receipt
}

#[test]
fn buckets_of_unregistered_kinds_are_kept_apart_and_listed() {
    let bench = Bench::new();
    let store = bench.open();
    block_on(async {
        for kind in ["session", "plan-2", "clock", "arriving-session"] {
            let bucket = BucketId::new(kind, "b");
            assert!(count_in(&store, Writer::new().advance(), &bucket).await.created, "{kind}");
            let listed = store.list_buckets(kind, "", 0, Deadline::NEVER).await.unwrap();
            assert_eq!((listed.names, listed.cursor), (vec!["b".to_owned()], String::new()), "{kind}");
        }
        let hidden = transaction(BucketId::new("arriving:session", "b"), create(), []);
        let refused = store.transact(Writer::new().advance(), &hidden, Deadline::NEVER).await.unwrap_err();
        assert_eq!(refused.code, FailureCode::Invalid, "{refused}");
    });
    assert_eq!(directory::check(bench.path(), &bench.options).unwrap().buckets, 4);
}

#[test]
fn a_repetition_counts_once_in_a_bucket_of_the_kind_clock_after_the_clock_was_set() {
    let bench = Bench::new();
    let store = bench.open();
    let mut writer = Writer::new();
    writer.advance();
    let bucket = BucketId::new("clock", bench.options.clock.boot_id().unwrap());
    block_on(async {
        assert_eq!(count_in(&store, &writer, &bucket).await.status, Status::Applied);
        // The next write notes the jump in place of what was believed before.
        bench.clock.jump_ahead(HOUR);
        apply(&store, "other", create(), [put("k", "1")]).await;
        assert_eq!(count_in(&store, &writer, &bucket).await.status, Status::Repeated);
    });
}
