//! History as an operator reads it, page by page.

use super::*;
use keepline_filter::admin;

/// All pages of the history, the newest record last.
fn pages(sessions: &Context<&TestHost>, limit: u32) -> Vec<String> {
    let mut page = admin::read_history(sessions, "s", None, limit).unwrap();
    let mut newest_first: Vec<_> = page.entries.drain(..).rev().collect();
    while page.first > page.oldest {
        let before = page.first;
        page = admin::read_history(sessions, "s", Some(before), limit).unwrap();
        assert_eq!(page.first + page.entries.len() as u64, before.max(page.oldest));
        newest_first.extend(page.entries.drain(..).rev());
    }
    newest_first.reverse();
    newest_first
}

#[test]
fn history_is_read_page_by_page_in_order_and_without_a_gap() {
    let host = TestHost::new();
    let sessions = sessions(&host, r#"{"auto_summarize":false}"#);
    admin::create_session(&sessions, "s").unwrap();
    let empty = HistoryPage { session: "s".into(), entries: vec![], first: 0, oldest: 0, next: 0 };
    for before in [None, Some(0), Some(7), Some(u64::MAX)] {
        assert_eq!(admin::read_history(&sessions, "s", before, 0).unwrap(), empty);
    }
    admin::increment_value(&sessions, "s", "first", 1).unwrap();
    for n in 0..25_000 {
        host.push("s", &n.to_string());
    }
    host.rewrite("s", |first, _| *first = 100);
    let all = host.history("s");
    let before = host.transactions.get();
    let page = admin::read_history(&sessions, "s", None, 0).unwrap();
    assert_eq!((page.first, page.oldest, page.next), (15_101, 100, 25_101));
    assert_eq!(page.entries, all[15_001..]);
    assert_eq!(admin::read_history(&sessions, "s", Some(25_101), 3).unwrap().entries, all[24_998..]);
    assert_eq!(admin::read_history(&sessions, "s", Some(102), 3).unwrap().entries, all[..2]);
    // One transaction a page.
    assert_eq!(host.transactions.get() - before, 3);
    // What is still to come is no place to end at.
    assert_eq!(admin::read_history(&sessions, "s", Some(25_105), 3).unwrap().entries, all[24_998..]);
    for before in [0, 7, 100] {
        let page = admin::read_history(&sessions, "s", Some(before), 3).unwrap();
        assert_eq!((page.entries.len(), page.first, page.oldest), (0, before, 100));
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
        host.push("s", &format!("{n:02}{}", "x".repeat(1_000_000)));
    }
    let page = admin::read_history(&sessions, "s", None, 0).unwrap();
    assert_eq!((page.entries.len(), page.first), (8, 33));
    let before = host.transactions.get();
    let page = admin::read_history(&sessions, "s", Some(33), 0).unwrap();
    assert!(page.entries.len() >= 4 && page.entries.last().unwrap().starts_with("31"), "{}", page.entries.len());
    assert!(host.transactions.get() - before <= 6);
    assert!(pages(&sessions, 0) == host.history("s"));
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
    assert_eq!(told(&pages(&sessions, 4000)), 12_001 + 1);
}
