//! Maps, page by page: the values and another one.

use std::{collections::BTreeSet, sync::Arc};

use keepline_stores::FoundEntries;
use keepline_stores_tests::{on_every_store, requests::*, stores::StoreUnderTest};

const MAPS: [&str; 2] = ["values", "notes"];

fn key(n: usize) -> String {
    format!("key-{n}")
}

async fn filled(s: &StoreUnderTest, map: &str, count: usize) -> BTreeSet<String> {
    let keys: BTreeSet<_> = (0..count).map(key).collect();
    let all: Vec<_> = keys.iter().map(|key| (key, format!("text of {key}"))).collect();
    assert_eq!(s.apply("b", create(), [put_in(map, &all)]).await, [changed(count as u64, 0)]);
    keys
}

async fn read(s: &StoreUnderTest, map: &str, cursor: &str, max_entries: u64, max_bytes: u64) -> FoundEntries {
    entries_of(s.apply_one("b", page(map, cursor, max_entries, max_bytes)).await)
}

async fn pages_have_about_the_requested_size_and_together_hold_everything(s: Arc<StoreUnderTest>) {
    for map in MAPS {
        let all = filled(&s, map, 3000).await;
        for limit in [0, 10, 500, 2999, 3000, ALL] {
            let (mut seen, mut cursor, mut pages) = (BTreeSet::new(), String::new(), 0);
            loop {
                let page = read(&s, map, &cursor, limit, ALL).await;
                let next = page.cursor().to_owned();
                let about = if limit == 0 { 100 } else { limit };
                assert!(page.entries.len() as u64 <= about.saturating_mul(2).saturating_add(50), "of {limit}");
                assert!(page.entries.iter().all(|entry| entry.text == format!("text of {}", entry.key)));
                assert!(page.unreadable().is_empty(), "{page:?}");
                seen.extend(page.entries.into_iter().map(|entry| entry.key));
                pages += 1;
                cursor = next;
                if cursor.is_empty() {
                    break;
                }
                assert!(pages < 4000, "it comes to an end");
            }
            assert_eq!(seen, all, "{map} by {limit}");
            let few = 4 + 3000 / limit.max(1) * 4;
            assert!(limit == 0 || pages <= few, "{pages} pages of {limit}");
            assert!(limit < 3000 || pages == 1, "a map that is no longer comes in one page");
        }
    }
}

async fn keys_alone_come_in_pages_too(s: Arc<StoreUnderTest>) {
    for map in MAPS {
        let all = filled(&s, map, 700).await;
        let (mut seen, mut cursor) = (BTreeSet::new(), String::new());
        loop {
            let page = entries_of(s.apply_one("b", page_of_keys(map, &cursor, 50)).await);
            let next = page.cursor().to_owned();
            assert!(page.entries.iter().all(|entry| entry.text.is_empty()) && page.unreadable().is_empty());
            seen.extend(page.entries.into_iter().map(|entry| entry.key));
            cursor = next;
            if cursor.is_empty() {
                break;
            }
        }
        assert_eq!(seen, all, "{map}");
    }
}

async fn a_page_is_no_longer_than_its_bytes_and_names_what_does_not_fit(s: Arc<StoreUnderTest>) {
    for map in MAPS {
        let all = filled(&s, map, 300).await;
        let long = "x".repeat(5000);
        s.apply_one("b", put_in(map, &[("long", &long)])).await;
        for max_bytes in [0, 20, 400, 4000] {
            let (mut seen, mut cursor, mut pages) = (BTreeSet::new(), String::new(), 0);
            loop {
                let page = read(&s, map, &cursor, 40, max_bytes).await;
                let next = page.cursor().to_owned();
                let bytes: usize = page.entries.iter().map(|entry| entry.key.len() + entry.text.len()).sum();
                assert!(bytes as u64 <= max_bytes, "{bytes} of {max_bytes}");
                seen.extend(page.unreadable().to_vec());
                seen.extend(page.entries.into_iter().map(|entry| entry.key));
                pages += 1;
                cursor = next;
                if cursor.is_empty() {
                    break;
                }
                assert!(pages < 1000, "it comes to an end");
            }
            assert!(seen.remove("long") && seen == all, "{map} within {max_bytes}: {} of {}", seen.len(), all.len());
        }
        s.delete("b").await;
    }
}

async fn an_entry_that_stays_is_on_a_page_while_others_come_and_go(s: Arc<StoreUnderTest>) {
    for map in MAPS {
        filled(&s, map, 1000).await;
        let (mut seen, mut cursor, mut pages) = (BTreeSet::new(), String::new(), 0);
        loop {
            let page = read(&s, map, &cursor, 20, ALL).await;
            let next = page.cursor().to_owned();
            // What was on this page, the last included, which a cursor may stand on, and others.
            let mut doomed: Vec<_> = page.entries.iter().rev().take(3).map(|entry| entry.key.clone()).collect();
            doomed.push(key(pages * 7 % 1000));
            seen.extend(page.entries.into_iter().map(|entry| entry.key));
            doomed.retain(|key| !key.ends_with('5'));
            doomed.dedup();
            let doomed: BTreeSet<_> = doomed.into_iter().collect();
            let doomed: Vec<_> = doomed.iter().collect();
            s.apply("b", existing(), [remove_in(map, &doomed), put_in(map, &[(key(1000 + pages), "new")])]).await;
            pages += 1;
            cursor = next;
            if cursor.is_empty() {
                break;
            }
            assert!(pages < 1000, "it comes to an end");
        }
        for n in (5..1000).step_by(10) {
            assert!(seen.contains(&key(n)), "{} was there all the while, in {map}", key(n));
        }
    }
}

async fn an_arbitrary_cursor_does_no_harm(s: Arc<StoreUnderTest>) {
    for map in MAPS {
        filled(&s, map, 200).await;
        let long = "9".repeat(512);
        for cursor in ["x", "-1", "18446744073709551615", "99999999999999999999999", "a\nb", "é", "\0", "*", &long] {
            // Any answer but a broken store will do.
            let _ = s.try_send(&transaction("b", existing(), [page(map, cursor, 10, ALL)])).await;
        }
        assert_eq!(read(&s, map, "", 1000, ALL).await.entries.len(), 200);
    }
}

on_every_store![
    pages_have_about_the_requested_size_and_together_hold_everything,
    keys_alone_come_in_pages_too,
    a_page_is_no_longer_than_its_bytes_and_names_what_does_not_fit,
    an_entry_that_stays_is_on_a_page_while_others_come_and_go,
    an_arbitrary_cursor_does_no_harm,
];
