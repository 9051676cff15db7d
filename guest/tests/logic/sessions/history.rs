//! History as an operator reads it, page by page.

use super::*;
use crate::admin_calls as admin;

/// All pages of the history, the newest record last.
fn pages(sessions: &Context<&TestHost>, limit: u32) -> Vec<HistoryRecord> {
    let mut page = admin::read_history(sessions, "s", None, limit).unwrap();
    let mut newest_first: Vec<_> = page.records.drain(..).rev().collect();
    while page.first > page.oldest {
        let before = page.first;
        page = admin::read_history(sessions, "s", Some(before), limit).unwrap();
        assert_eq!(page.first + page.records.len() as u64, before.max(page.oldest));
        newest_first.extend(page.records.drain(..).rev());
    }
    newest_first.reverse();
    newest_first
}

/// What is stored, as the contract has it.
fn records(host: &TestHost) -> Vec<HistoryRecord> {
    let read = |text: &String| {
        let record: serde_json::Value = serde_json::from_str(text).unwrap();
        let at = record["timestamp"].as_f64().unwrap_or_default() * 1000.0;
        HistoryRecord {
            operation: record["op"].as_str().unwrap().to_owned(),
            key: record["key"].as_str().map(ToOwned::to_owned),
            cleared: Vec::new(),
            summary: None,
            at: at as u64,
            extras: None,
        }
    };
    host.history("s").iter().map(read).collect()
}

#[test]
fn history_is_read_page_by_page_in_order_and_without_a_gap() {
    let host = TestHost::new();
    let sessions = sessions(&host, r#"{"auto_summarize":false}"#);
    admin::create_session(&sessions, "s").unwrap();
    let empty = HistoryPage { records: vec![], first: 0, oldest: 0, next: 0 };
    for before in [None, Some(0), Some(7), Some(u64::MAX)] {
        assert_eq!(admin::read_history(&sessions, "s", before, 0).unwrap(), empty);
    }
    admin::increment_value(&sessions, "s", "first", 1).unwrap();
    for n in 0..25_000 {
        host.push("s", &format!("{{\"op\": \"put\", \"key\": \"k{n}\", \"timestamp\": {n}.25}}"));
    }
    host.rewrite("s", |first, _| *first = 100);
    let all = records(&host);
    assert_eq!((&*all[0].operation, all[0].key.as_deref()), ("increment", Some("first")));
    assert_eq!((all[9].key.as_deref(), all[9].at), (Some("k8"), 8250));
    let before = host.transactions.get();
    let page = admin::read_history(&sessions, "s", None, 0).unwrap();
    assert_eq!((page.first, page.oldest, page.next), (15_101, 100, 25_101));
    assert_eq!(page.records, all[15_001..]);
    assert_eq!(admin::read_history(&sessions, "s", Some(25_101), 3).unwrap().records, all[24_998..]);
    assert_eq!(admin::read_history(&sessions, "s", Some(102), 3).unwrap().records, all[..2]);
    // One transaction a page.
    assert_eq!(host.transactions.get() - before, 3);
    // What is still to come is no place to end at.
    assert_eq!(admin::read_history(&sessions, "s", Some(25_105), 3).unwrap().records, all[24_998..]);
    for before in [0, 7, 100] {
        let page = admin::read_history(&sessions, "s", Some(before), 3).unwrap();
        assert_eq!((page.records.len(), page.first, page.oldest), (0, before, 100));
    }
    for limit in [0, 999, 9999] {
        assert!(pages(&sessions, limit) == all, "{limit}");
    }
}

#[test]
fn a_page_of_huge_records_is_cut_at_its_oldest_end() {
    let host = TestHost::new();
    let sessions = sessions(&host, r#"{"auto_summarize":false}"#);
    admin::create_session(&sessions, "s").unwrap();
    admin::increment_value(&sessions, "s", "first", 1).unwrap();
    for n in 0..40 {
        host.push("s", &format!("{{\"op\": \"put\", \"key\": \"{n:02}{}\"}}", "x".repeat(1_000_000)));
    }
    let page = admin::read_history(&sessions, "s", None, 0).unwrap();
    assert_eq!((page.records.len(), page.first), (8, 33));
    let before = host.transactions.get();
    let page = admin::read_history(&sessions, "s", Some(33), 0).unwrap();
    assert!(
        page.records.len() >= 4 && page.records.last().unwrap().key.as_ref().unwrap().starts_with("31"),
        "{}",
        page.records.len()
    );
    assert!(host.transactions.get() - before <= 6);
    assert!(pages(&sessions, 0) == records(&host));
}

#[test]
fn history_has_no_gap_while_others_write_and_summarise() {
    let host = TestHost::new();
    let sessions = sessions(&host, r#"{"auto_summarize":false}"#);
    admin::create_session(&sessions, "s").unwrap();
    admin::increment_value(&sessions, "s", "first", 1).unwrap();
    for _ in 0..12_000 {
        host.push("s", r#"{"op": "put", "key": "k"}"#);
    }
    let mut done = false;
    let last = host.transactions.get() + 2;
    host.before_each(move |host, n| {
        host.push("s", r#"{"op": "put", "key": "new"}"#);
        if n == last && !std::mem::replace(&mut done, true) {
            host.rewrite("s", |first, log| {
                let count = 5000;
                let ops = format!("{{\"put\": {count}}}");
                let summary = format!("{{\"op\": \"summary\", \"summarized_count\": {count}, \"op_counts\": {ops}}}");
                log.splice(..count, [summary]);
                *first += count as u64 - 1;
            });
        }
    });
    // The first page saw one record that was new; no count is lost.
    let told = |record: &HistoryRecord| record.summary.as_ref().map_or(1, |summary| summary.count);
    assert_eq!(pages(&sessions, 4000).iter().map(told).sum::<u64>(), 12_001 + 1);
}

#[test]
fn a_clear_and_a_summary_are_told_in_full() {
    let host = TestHost::new();
    let sessions = sessions(&host, "{}");
    admin::create_session(&sessions, "s").unwrap();
    for record in [
        r#"{"op": "clear", "key": null, "cleared": ["a", "b\"c"], "timestamp": 1.5}"#,
        r#"{"op": "summary", "summarized_count": 7, "op_counts": {"put": 5, "clear": 2}, "keys_touched": ["k"], "timestamp": 2}"#,
        "1795570983430-d2",
    ] {
        host.push("s", record);
    }
    let records = admin::read_history(&sessions, "s", None, 0).unwrap().records;
    assert_eq!((&*records[0].operation, records[0].key.as_deref(), records[0].at), ("clear", None, 1500));
    assert_eq!(records[0].cleared, ["a", "b\"c"]);
    let summary = records[1].summary.as_ref().unwrap();
    let operations: Vec<_> = summary.operations.iter().map(|operation| (&*operation.name, operation.count)).collect();
    assert_eq!((summary.count, operations, &*summary.keys[0]), (7, vec![("put", 5), ("clear", 2)], "k"));
    assert_eq!((&*records[2].operation, records[2].at), ("", 0));
}
