//! Naming the buckets, page by page.

use std::{collections::BTreeSet, sync::Arc};

use keepline_stores::{BucketId, Deadline, kind};
use keepline_stores_tests::{on_every_store, requests::*, stores::StoreUnderTest};

async fn pages_have_about_the_requested_size_and_together_hold_everything(s: Arc<StoreUnderTest>) {
    let all: BTreeSet<_> = (0..1000).map(|n| format!("bucket-{n}")).collect();
    for name in &all {
        s.apply(name, create(), []).await;
        s.apply(BucketId::node(format!("node-{name}")), create(), []).await;
    }
    for limit in [0, 1, 50, 999, 5000, u32::MAX] {
        let (mut listed, mut cursor, mut pages) = (BTreeSet::new(), String::new(), 0);
        loop {
            let page = s.store.list_buckets(kind::SESSION, &cursor, limit, Deadline::NEVER).await.unwrap();
            assert!(page.names.is_sorted());
            let about = if limit == 0 { 100 } else { limit };
            assert!(page.names.len() <= about.saturating_mul(2).saturating_add(50) as usize, "of {limit}");
            listed.extend(page.names);
            pages += 1;
            cursor = page.cursor;
            if cursor.is_empty() {
                break;
            }
        }
        assert_eq!(listed, all, "limit {limit}");
        assert!(pages <= 4 + 1000 / limit.max(1) * 4, "{pages} pages of {limit}");
    }
}

async fn a_bucket_that_stays_is_listed_while_others_come_and_go(s: Arc<StoreUnderTest>) {
    let name = |n: usize| format!("bucket-{n}");
    for n in 0..500 {
        s.apply(&name(n), create(), []).await;
    }
    let (mut listed, mut cursor, mut pages) = (BTreeSet::new(), String::new(), 0);
    loop {
        let page = s.store.list_buckets(kind::SESSION, &cursor, 20, Deadline::NEVER).await.unwrap();
        // What was listed just now, the page's last included, which a cursor may stand on, and others.
        let mut doomed: Vec<_> = page.names.iter().rev().take(3).cloned().collect();
        doomed.push(name((pages * 7) % 500));
        listed.extend(page.names);
        for bucket in doomed.iter().filter(|bucket| !bucket.ends_with('5')) {
            s.delete(bucket).await;
        }
        s.apply(&name(1000 + pages), create(), []).await;
        pages += 1;
        cursor = page.cursor;
        if cursor.is_empty() {
            break;
        }
        assert!(pages < 500, "it comes to an end");
    }
    for n in (5..500).step_by(10) {
        assert!(listed.contains(&name(n)), "{} was there all the while", name(n));
    }
}

async fn an_arbitrary_cursor_does_no_harm(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    for cursor in ["x", "-1", "18446744073709551615", "99999999999999999999999", "a\nb", "é", "\0", "*"] {
        // Any answer but a broken store will do.
        let _ = s.store.list_buckets(kind::SESSION, cursor, 10, Deadline::NEVER).await;
    }
    assert_eq!(s.list(10).await, ["b"]);
}

on_every_store![
    pages_have_about_the_requested_size_and_together_hold_everything,
    a_bucket_that_stays_is_listed_while_others_come_and_go,
    an_arbitrary_cursor_does_no_harm,
];
