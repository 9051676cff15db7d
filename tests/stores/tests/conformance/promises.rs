//! Capabilities that a store reports, and requests that it refuses.

use std::sync::Arc;

use keepline_stores::{BucketKind, Deadline, FailureCode, Status, StoreCapabilities};
use keepline_stores_tests::{on_every_store, requests::*, stores::StoreUnderTest};

async fn a_store_reports_its_capabilities_and_passes_its_check(s: Arc<StoreUnderTest>) {
    let all = StoreCapabilities { durable: s.name != "memory", ..StoreCapabilities::ALL };
    assert_eq!(s.store.capabilities(), all);
    s.store.check().await.unwrap();
}

async fn a_refusal_names_the_part_and_says_why_in_a_sentence(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    let text = "x".repeat((16 << 20) + 1);
    let hour = std::time::Duration::from_secs(3600);
    for (subject, code, asked) in [
        ("bucket", FailureCode::Invalid, transaction("a b", create(), [])),
        ("key", FailureCode::Invalid, transaction("b", create(), [put("__k__", "1")])),
        ("map", FailureCode::Invalid, transaction("b", create(), [get_all_in("A")])),
        ("log", FailureCode::Invalid, transaction("b", create(), [read_all("A")])),
        ("holder", FailureCode::Invalid, transaction("b", create(), [lease("l", "", hour)])),
        ("generation", FailureCode::Invalid, transaction("b", life("a b"), [])),
        ("time-to-live", FailureCode::Invalid, transaction("b", create_for(std::time::Duration::ZERO), [])),
        ("keep", FailureCode::Invalid, transaction("b", create(), [overflow("l", 1, 2, 1, 1)])),
        ("k", FailureCode::Invalid, transaction("b", create(), [put("k", "1"), put("k", "2")])),
        ("text", FailureCode::TooLarge, transaction("b", create(), [put("k", &text)])),
    ] {
        let failure = s.try_send(&asked).await.unwrap_err();
        assert_eq!((failure.code, &*failure.subject), (code, subject));
        assert!(!failure.message.is_empty() && !failure.message.ends_with('.'), "{}", failure.message);
        assert!(failure.message.len() < 1000 && !failure.message.contains("xxxx"), "{}", failure.message);
    }
}

async fn lives_of_one_name_never_share_an_generation(s: Arc<StoreUnderTest>) {
    let mut lives = Vec::new();
    for round in 0..20 {
        let precondition = if round % 2 == 0 { create_new() } else { replace() };
        let receipt = s.ask(&transaction("b", precondition, [])).await;
        assert!(receipt.created && !lives.contains(&receipt.generation), "{lives:?}");
        for earlier in &lives {
            assert_eq!(s.status("b", life(earlier)).await, Status::GenerationMismatch);
        }
        lives.push(receipt.generation);
        if round % 2 == 1 {
            s.delete("b").await;
        }
    }
}

async fn a_mebibyte_of_text_survives_in_values_maps_and_logs(s: Arc<StoreUnderTest>) {
    let text = "ä".repeat(512 * 1024);
    let writes = [put("k", &text), put_in("notes", &[("k", &text)]), append("l", &[&text])];
    s.apply("b", create(), writes).await;
    s.apply("b", existing(), [rewrite("l", 0, &text)]).await;
    let reads = [get("k"), get_all_in("notes"), read_all("l"), read_at("l", &[(0, 1)], 1)];
    let all = entries(&[("k", &text)]);
    let outcomes = s.apply("b", existing(), reads).await;
    assert_eq!(outcomes, [all.clone(), all, whole(0, &[&text]), spans(0, 1, &[(0, &[&text])])]);
    let same = [equal("k", &text), entry_in("notes", "k", keepline_stores::EntryState::Equal, &text)];
    assert_eq!(s.ask(&expecting("b", existing(), same, [])).await.status, Status::Applied);
    let longer = [equal("k", &format!("{text}x"))];
    assert_eq!(s.ask(&expecting("b", existing(), longer, [])).await.unmet, Some(0));
}

async fn the_time_of_receipts_never_goes_back(s: Arc<StoreUnderTest>) {
    let mut last = 0;
    for _ in 0..50 {
        let now = s.ask(&transaction("b", create(), [increment("n", 1)])).await.now;
        assert!(now >= last && now > 1_700_000_000_000, "{now} after {last}");
        last = now;
    }
}

async fn transactions_sent_together_are_answered_in_order_whatever_their_kind(s: Arc<StoreUnderTest>) {
    let asked: Vec<_> = (0..60)
        .map(|n| {
            let id = bucket(KINDS[n % 6], &format!("b{}", n / 6));
            transaction(id, create(), [put("k", &n.to_string()), get("k")])
        })
        .collect();
    let receipts = s.ask_each(&asked).await;
    for (n, receipt) in receipts.iter().enumerate() {
        assert_eq!(receipt.outcomes, [changed(1), entries(&[("k", n.to_string())])]);
    }
    assert_eq!(s.list_kind(BucketKind::Service, 100).await.len(), 10);
    let page = s.store.list_buckets(BucketKind::User, "", 3, Deadline::NEVER).await.unwrap();
    assert!(page.names.iter().all(|name| name.starts_with('b')));
}

on_every_store![
    a_store_reports_its_capabilities_and_passes_its_check,
    a_refusal_names_the_part_and_says_why_in_a_sentence,
    lives_of_one_name_never_share_an_generation,
    a_mebibyte_of_text_survives_in_values_maps_and_logs,
    the_time_of_receipts_never_goes_back,
    transactions_sent_together_are_answered_in_order_whatever_their_kind,
];
