//! Search in languages and scripts other than English.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod reference;

use keepline_recall::{PassageDocument, PassageQuery, cut_passages};
use reference::{Index, index};

/// The text of a memory that is found first.
fn first<'a>(texts: &[&'a str], question: &str) -> &'a str {
    let found = index(texts).ask(&PassageQuery::new(question, 0, true));
    texts[*found.first().unwrap() as usize]
}

#[test]
fn the_matching_passage_of_a_long_technical_answer_is_found() {
    let answer = "Redis keeps each key on one node of the cluster. The slot is a checksum of the key's name, and what \
        stands in braces decides alone. That is why keys which change together share a tag in braces.\n\nExpiry works \
        differently. A key expires at an absolute time, and a replica never expires anything by itself: it waits for \
        the primary's DEL. Reads on a replica compare the time, though, so that nothing stale is seen.\n\nPersistence \
        is a third matter. The append-only file is rewritten in the background when it has doubled its size; with \
        appendfsync everysec you lose one second of writes at most if the machine stops.";
    let passages: Vec<&str> = cut_passages(answer).collect();
    assert!(passages.len() >= 3);
    assert!(first(&passages, "how many writes are lost with appendfsync?").contains("everysec"));
    assert!(first(&passages, "what do replicas do with stale reads").contains("replica never"), "{passages:#?}");
    assert!(first(&passages, "which slots do braces choose?").contains("checksum"));
}

#[test]
fn code_is_found_by_its_names() {
    let texts = [
        "fn parse_header(line: &str) -> Option<(&str, &str)> { line.split_once(':') }",
        "const session = await fetchUserSession(request.headers); if (!session) return res.status(401)",
        "error[E0502]: cannot borrow `*self` as mutable because it is also borrowed as immutable",
        "SELECT count(*) FROM orders WHERE created_at > now() - interval '7 days'",
    ];
    assert_eq!(first(&texts, "what did parse_header return?"), texts[0]);
    assert_eq!(first(&texts, "the user session handler"), texts[1]);
    assert_eq!(first(&texts, "how did we fix E0502"), texts[2]);
    assert_eq!(first(&texts, "the query that counts orders"), texts[3]);
}

#[test]
fn a_tool_result_is_found_by_its_values() {
    let texts = [
        r#"{"city":"Lyon","temperature_c":31.5,"humidity":0.4}"#,
        r#"{"city":"Oslo","temperature_c":12.0,"humidity":0.8}"#,
        r#"{"order_id":"A-20931","status":"shipped","carrier":"DHL"}"#,
        r#"{"order_id":"A-20932","status":"pending","carrier":null}"#,
    ];
    assert_eq!(first(&texts, "How warm was it in Oslo? Which temperature?"), texts[1]);
    assert_eq!(first(&texts, "what is the status of order 20932"), texts[3]);
}

#[test]
fn german_compounds_are_found_by_their_parts() {
    let texts = [
        "Die Krankenversicherungsbeiträge steigen im Januar.",
        "Wir fahren mit dem Zug nach Hamburg.",
        "Der Geschwindigkeitsbegrenzer ist defekt.",
        "Das Haus hat einen Garten.",
    ];
    assert_eq!(first(&texts, "Was kostet die Versicherung?"), texts[0]);
    assert_eq!(first(&texts, "Wie hoch sind die Beiträge?"), texts[0]);
    assert_eq!(first(&texts, "Krankenversicherungsbeitrag"), texts[0]);
    assert_eq!(first(&texts, "Wo ist der Begrenzer?"), texts[2]);
    assert_eq!(first(&texts, "Welche Gärten hatten die Häuser?"), texts[3]);
}

#[test]
fn chinese_is_found_without_spaces() {
    let texts = ["我昨天在北京买了一只小猫。", "明天我们去上海开会。", "他最喜欢的书是红楼梦。", "今天天气很好。"];
    assert_eq!(first(&texts, "你在哪里买的小猫？"), texts[0]);
    assert_eq!(first(&texts, "什么时候去上海？"), texts[1]);
    assert_eq!(first(&texts, "他喜欢什么书？"), texts[2]);
}

#[test]
fn thai_is_found_without_spaces() {
    let texts = ["เมื่อวานฉันซื้อแมวที่เชียงใหม่", "พรุ่งนี้เราจะไปประชุมที่ภูเก็ต", "อาหารโปรดของเขาคือต้มยำกุ้ง"];
    assert_eq!(first(&texts, "ใครซื้อแมว"), texts[0]);
    assert_eq!(first(&texts, "ประชุมที่ไหน"), texts[1]);
    assert_eq!(first(&texts, "เขาชอบต้มยำไหม"), texts[2]);
}

#[test]
fn a_named_speaker_goes_before_others() {
    let said = [("Anna", "I bought a boat."), ("Ben", "I bought a boat."), ("Anna", "The weather is fine.")];
    let index = Index::of(
        said.iter().map(|(speaker, text)| Some(PassageDocument { text, speaker, time: 0, first: true, tokens: 5 })),
    );
    assert_eq!(index.ask(&PassageQuery::new("What did Ben buy? A boat?", 0, true))[0], 1);
    assert_eq!(index.ask(&PassageQuery::new("which boat has anna?", 0, true))[0], 0);
    let plain = PassageQuery::new("a boat of Ben", 0, false);
    assert_eq!(index.ask(&plain)[..2], [0, 1]);
}

#[test]
fn a_neighbour_of_the_session_is_found_and_another_session_is_not() {
    let said = [("Do you know the Matterhorn?", true), ("Yes, climbed it twice.", false), ("Supper is ready.", true)];
    let index = Index::of(
        said.iter().map(|(text, first)| Some(PassageDocument { text, speaker: "", time: 0, first: *first, tokens: 5 })),
    );
    assert_eq!(index.ask(&PassageQuery::new("Matterhorn", 0, true)), [0, 1]);
}
