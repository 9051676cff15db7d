//! Capabilities that a store reports, and requests that it refuses.

use std::sync::Arc;

use keepline_stores::{BucketId, Deadline, FailureCode, Status, capability, kind, limit};
use keepline_stores_tests::{on_every_store, requests::*, stores::StoreUnderTest};

async fn a_store_reports_its_capabilities_and_passes_its_check(s: Arc<StoreUnderTest>) {
    let about = s.store.about();
    let expected = capability::ALL.into_iter().filter(|name| *name != capability::DURABLE || s.name != "memory");
    assert!(expected.eq(about.capabilities.iter().map(String::as_str)), "{about:?}");
    let limits: Vec<_> = about.limits.iter().map(|limit| &*limit.name).collect();
    assert_eq!(limits, if s.name == "memory" { vec![limit::BUCKETS] } else { vec![] });
    s.store.check().await.unwrap();
}

async fn a_refusal_names_the_part_and_says_why_in_a_sentence(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    let text = "x".repeat((16 << 20) + 1);
    let hour = std::time::Duration::from_secs(3600);
    for (subject, code, asked) in [
        ("bucket", FailureCode::Invalid, transaction("a b", create(), [])),
        ("kind", FailureCode::Invalid, transaction(BucketId::new("Session", "b"), create(), [])),
        ("key", FailureCode::Invalid, transaction("b", create(), [put("__k__", "1")])),
        ("map", FailureCode::Invalid, transaction("b", create(), [get_all_in("A")])),
        ("log", FailureCode::Invalid, transaction("b", create(), [read_all("A")])),
        ("holder", FailureCode::Invalid, transaction("b", create(), lease("l", "", hour))),
        ("generation", FailureCode::Invalid, transaction("b", life("a b"), [])),
        ("time-to-live", FailureCode::Invalid, transaction("b", create_for(std::time::Duration::ZERO), [])),
        ("k", FailureCode::Invalid, transaction("b", create(), [put("k", "1"), put("k", "2")])),
        ("text-bytes", FailureCode::TooLarge, transaction("b", create(), [put("k", &text)])),
    ] {
        let failure = s.try_send(&asked).await.unwrap_err();
        assert_eq!((failure.code, &*failure.subject), (code, subject));
        assert!(!failure.message.is_empty() && !failure.message.ends_with('.'), "{}", failure.message);
        assert!(failure.message.len() < 1000 && !failure.message.contains("xxxx"), "{}", failure.message);
    }
}

async fn lives_of_one_name_never_share_a_generation(s: Arc<StoreUnderTest>) {
    let mut lives = Vec::new();
    for round in 0..20 {
        let precondition = if round % 2 == 0 { create_new() } else { replace() };
        let receipt = s.ask(&transaction("b", precondition, [])).await;
        let generation = receipt.generation.unwrap();
        assert!(receipt.created && !lives.contains(&generation), "{lives:?}");
        for earlier in &lives {
            assert_eq!(s.status("b", life(earlier)).await, Status::GenerationMismatch);
        }
        lives.push(generation);
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
    assert_eq!(outcomes, [all.clone(), all, whole(0, &[&text]), runs(0, 1, &[(0, &[&text])])]);
    let same = [equal("k", &text), entry_in("notes", "k", keepline_stores::EntryState::Equal, &text)];
    assert_eq!(s.ask(&expecting("b", existing(), same, [])).await.status, Status::Applied);
    let longer = [equal("k", &format!("{text}x"))];
    assert_eq!(s.ask(&expecting("b", existing(), longer, [])).await.unmet, Some(0));
}

async fn the_time_of_receipts_never_goes_back(s: Arc<StoreUnderTest>) {
    let mut last = 0;
    for _ in 0..50 {
        let now = s.ask(&transaction("b", create(), [add("n", 1)])).await.now;
        assert!(now >= last && now > 1_700_000_000_000, "{now} after {last}");
        last = now;
    }
}

async fn transactions_sent_together_are_answered_in_order_whatever_their_kind(s: Arc<StoreUnderTest>) {
    let asked: Vec<_> = (0..60)
        .map(|n| {
            let id = BucketId::new(kind::REGISTERED[n % 6], format!("b{}", n / 6));
            transaction(id, create(), [put("k", &n.to_string()), get("k")])
        })
        .collect();
    let receipts = s.ask_each(&asked).await;
    for (n, receipt) in receipts.iter().enumerate() {
        assert_eq!(receipt.outcomes, [changed(1, 0), entries(&[("k", n.to_string())])]);
    }
    assert_eq!(s.list_kind(kind::SERVICE, 100).await.len(), 10);
    let page = s.store.list_buckets(kind::USER, "", 3, Deadline::NEVER).await.unwrap();
    assert!(page.names.iter().all(|name| name.starts_with('b')));
}

on_every_store![
    a_store_reports_its_capabilities_and_passes_its_check,
    a_refusal_names_the_part_and_says_why_in_a_sentence,
    lives_of_one_name_never_share_a_generation,
    a_mebibyte_of_text_survives_in_values_maps_and_logs,
    the_time_of_receipts_never_goes_back,
    transactions_sent_together_are_answered_in_order_whatever_their_kind,
];
