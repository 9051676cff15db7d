//! Recall from the shell: previewed, rebuilt and evaluated.

use std::fs;

use keepline_tests::{
    programs::{end, signal},
    until::until,
};
use serde_json::{Value, json};

use crate::{PATIENT, Ran, call, keepline, sessions::transcripts::Place};

const ON: &str = "--set=recall=session";
const SMALL: &str = "--set=max_context_tokens=64";
const DOG: &str = "Which animal did the dog Bruno chase?";

/// A session whose first turn the window has lost.
fn long_ago() -> Place {
    let place = Place::new();
    place.append("a", "Yesterday our dog Bruno chased a squirrel.", "How exciting!", &[ON, SMALL]);
    for number in 0..8 {
        place.append("a", &format!("Please explain topic {number}?"), "Gladly: it has many chapters.", &[ON, SMALL]);
    }
    place
}

fn recalled(place: &Place) -> Value {
    place.told(&["recall", "a", DOG, ON, SMALL])
}

#[test]
fn recalled_passages_are_shown_with_reasons_and_nothing_is_written() {
    let place = long_ago();
    assert_eq!(recalled(&place), Value::Null, "nobody has indexed it");
    let told = place.told(&["session", "upkeep", "a", ON, SMALL]);
    assert_eq!(told["tasks"]["recall"], "done");
    let before = place.ran(&["session", "export", "a"]).ok().out;
    let found = recalled(&place);
    let first = &found["passages"][0];
    assert_eq!((&first["text"], &first["position"]), (&json!("Yesterday our dog Bruno chased a squirrel."), &json!(0)));
    assert!(found["text"].as_str().unwrap().contains("Bruno"));
    let ran = place.ran(&["recall", "a", DOG, ON, SMALL]).ok();
    let line: Vec<&str> = ran.text().lines().next().unwrap().split('\t').collect();
    let [session, position, date, role, score, why, text] = line[..] else { panic!("{line:?}") };
    assert_eq!((session, position, role, score, text), ("a", "0", "user", "1", first["text"].as_str().unwrap()));
    assert!(date.len() == "2026-11-22 19:40".len() && why.contains("terms"), "{line:?}");
    assert_eq!(place.told(&["explain", "a", "--query", DOG, ON, SMALL])["recalled"], found);
    assert!(place.ran(&["explain", "a", "--query", DOG, ON, SMALL]).ok().text().contains("Bruno"));
    let nothing = place.ran(&["recall", "a", "Zanzibar", ON, SMALL]).ok();
    assert!(nothing.text().is_empty() && nothing.err.contains("nothing is recalled"), "{nothing:?}");
    assert_eq!(place.ran(&["session", "export", "a"]).ok().out, before);
    assert!(place.ran(&["recall", "a", "squirrel", ON, SMALL, "--node", "n"]).code == 1);
}

#[test]
fn an_index_is_rebuilt() {
    let place = long_ago();
    let node = ["--node", "n", "--app", "shop", ON, SMALL];
    place.append("a", "Our dog Bruno barks.", "Does it?", &node);
    for _ in 0..6 {
        place.append("a", "Anything else to explain?", "No.", &node);
    }
    for arguments in [&["a"][..], &["--all"], &["a", "a"]] {
        let told = place.told(&[&["recall", "rebuild", ON], arguments].concat());
        assert_eq!(
            told,
            json!({"sessions": 1 + u64::from(arguments.len() > 1), "nodes": 1 + u64::from(arguments.len() > 1)})
        );
        assert_eq!(recalled(&place)["passages"][0]["position"], 0);
        // All of it is in a large window.
        assert_eq!(place.told(&["recall", "a", DOG, "--budget", "10000", ON, SMALL]), Value::Null);
        let of_node = place.told(&[&["recall", "a", "Bruno"], &node[..]].concat());
        assert_eq!(of_node["passages"][0]["text"], "Our dog Bruno barks.");
    }
}

#[test]
fn the_index_is_not_exported_and_is_derived_again() {
    let place = long_ago();
    let plain = place.ran(&["session", "export", "a"]).ok().out;
    place.told(&["recall", "rebuild", "a", ON]);
    let exported = place.ran(&["session", "export", "a"]).ok();
    assert_eq!(exported.out, plain);
    let (other, file) = (Place::new(), format!("{}.jsonl", place.path));
    fs::write(&file, &exported.out).unwrap();
    other.ran(&["session", "import", &file]).ok();
    assert_eq!(recalled(&other), Value::Null);
    other.append("a", "Please explain the end?", "Gladly.", &[ON, SMALL]);
    assert_eq!(other.told(&["session", "upkeep", "a", ON, SMALL])["tasks"]["recall"], "done");
    assert_eq!(recalled(&other)["passages"][0]["position"], 0);
}

const OF_USER: &str = "--set=recall=user";

#[test]
fn messages_of_one_session_are_recalled_in_the_users_others() {
    let place = Place::new();
    let anna = ["--user", "anna@example.org", OF_USER];
    place.append("a", "Yesterday our dog Bruno chased a squirrel.", "How exciting!", &anna);
    place.append("b", "Please explain topic 1?", "Gladly.", &anna);
    let asks = |arguments: &[&str]| place.told(&[&["recall"], arguments, &anna[..]].concat());
    assert_eq!(asks(&[DOG]), Value::Null, "nobody has copied it");
    for session in ["a", "b"] {
        assert_eq!(place.told(&["session", "upkeep", session, OF_USER])["tasks"]["recall"], "done");
    }
    for arguments in [&[DOG][..], &["b", DOG]] {
        let found = asks(arguments);
        let first = &found["passages"][0];
        assert_eq!((&first["session"], &first["position"]), (&json!("a"), &json!(0)), "{found}");
    }
    // Its own window shows it. To look leaves no session behind.
    assert!(!asks(&["a", DOG]).to_string().contains("squirrel"));
    assert_eq!(place.ran(&["session", "list"]).ok().text().lines().count(), 2);
    let explained = place.told(&[&["explain", "b", "--query", DOG], &anna[..]].concat());
    assert_eq!(explained["recalled"]["passages"][0]["session"], "a");
    // Another user has another memory.
    assert_eq!(place.told(&["recall", "--user", "ben", DOG, OF_USER]), Value::Null);

    let told = place.told(&["recall", "rebuild", "--all", OF_USER]);
    assert_eq!(told, json!({"sessions": 2, "nodes": 0}));
    assert_eq!(asks(&[DOG])["passages"][0]["session"], "a");
    place.told(&["session", "remove", "a", "0", OF_USER]);
    assert!(!asks(&[DOG]).to_string().contains("squirrel"));
    place.ran(&["session", "delete", "b", OF_USER]).ok();
    assert_eq!(asks(&["topic"]), Value::Null);
    let refused = place.ran(&["recall", "--user", "anna@example.org", DOG, ON]);
    assert!(refused.code == 2 && refused.err.contains("recall=user"), "{refused:?}");
}

#[test]
fn a_question_without_a_word_recalls_nothing() {
    let place = Place::new();
    place.append("a", "Yesterday our dog Bruno chased a squirrel.", "How exciting!", &["--user", "anna", OF_USER]);
    place.ran(&["session", "upkeep", "a", OF_USER]).ok();
    for query in ["?!", "💥", "...", "", "   "] {
        for asks in [&["--user", "anna", query][..], &["--user", "ben", query], &["a", query, "--user", "anna"]] {
            let recall = [&["recall"], asks, &[OF_USER]].concat();
            let ran = place.ran(&recall).ok();
            assert_eq!((ran.text(), &*ran.err), ("", "note: nothing is recalled for this question\n"), "{recall:?}");
            let ran = place.ran(&[&recall[..], &["--json"]].concat()).ok();
            assert_eq!((ran.json(), &*ran.err), (Value::Null, ""), "{recall:?}");
        }
    }
    assert_eq!(place.ran(&["session", "list"]).ok().text().lines().count(), 1);
}

#[test]
fn an_invalid_user_id_is_reported() {
    let place = long_ago();
    let long = "x".repeat(1025);
    let is_said = |command: &[&str], user: &str| {
        let ran = place.ran(&[command, &["--user", user, "--json", OF_USER]].concat());
        let said = format!("Invalid user_id of {} bytes. Must be 1-1024 bytes.", user.len());
        let error = json!({"error": {"code": "invalid-value", "message": said}});
        assert_eq!((ran.code, &*ran.err), (1, &*format!("{error}\n")), "{command:?}");
    };
    for command in [
        &["recall", DOG][..],
        &["recall", "a", DOG],
        &["recall", "?!"],
        &["explain", "a", "--query", DOG],
        &["session", "window", "a", "--query", DOG],
    ] {
        is_said(command, &long);
        is_said(command, "");
    }
    is_said(&["session", "append", "a", "--answer", "Gladly."], &long);
}

#[test]
fn replaced_messages_are_not_recalled_in_other_sessions() {
    let place = Place::new();
    let anna = ["--user", "anna", OF_USER];
    place.append("a", "Yesterday our dog Bruno chased a squirrel.", "How exciting!", &anna);
    let exported = place.ran(&["session", "export", "a"]).ok().text().to_owned();
    let file = |name: &str, text: String| {
        let path = format!("{}.{name}", place.path);
        fs::write(&path, text).unwrap();
        path
    };
    let other = file("other", exported.replace("squirrel", "rabbit"));
    let few = file("few", json!({"role": "user", "content": "Our dog Bruno chased a cat."}).to_string());
    let many = json!({"role": "user", "content": "Our dog Bruno chased a bee."}).to_string() + "\n";
    let many = file("many", many.repeat(10_001));
    let asks = || place.told(&[&["recall", DOG], &anna[..]].concat()).to_string();
    let replacements = [
        ("squirrel", vec!["session", "import", &other, "--replace"]),
        ("rabbit", vec!["session", "set-messages", "a", &few]),
        ("cat", vec!["session", "set-messages", "a", &many]),
    ];
    for (old, replace) in replacements {
        place.ran(&["session", "upkeep", "a", OF_USER]).ok();
        assert!(asks().contains(old));
        place.ran(&[&replace[..], &[OF_USER]].concat()).ok();
        assert_eq!(asks(), "null", "{replace:?}");
    }
    place.ran(&["session", "upkeep", "a", OF_USER]).ok();
    assert!(asks().contains("bee"));
}

#[test]
fn missing_recall_is_explained() {
    let place = long_ago();
    let refused = |ran: Ran, code: i32, told: &str| assert!(ran.code == code && ran.err.contains(told), "{ran:?}");
    refused(place.ran(&["recall", "a", DOG]), 2, "recall=session");
    refused(place.ran(&["recall", "rebuild", "a"]), 2, "recall=session");
    let off = ["recall", "a", DOG, ON, "--set=conversation=false", "--dir", &place.path];
    refused(call(&off, b""), 2, "conversation");
    refused(place.ran(&["recall", "b", DOG, ON, "--json"]), 1, "\"not-found\"");
    refused(place.ran(&["recall", "rebuild", "b", ON, "--json"]), 1, "\"not-found\"");
    refused(place.ran(&["recall", "rebuild", ON]), 2, "--all");
    refused(place.ran(&["recall", "--user", "anna", DOG, OF_USER, "--parent", "m"]), 2, "--parent");
    refused(place.ran(&["recall", "--user", "anna", DOG, OF_USER, "--node", "n"]), 2, "--node");
    refused(place.ran(&["recall", "a", DOG, ON, "--parent", "m9"]), 1, "no message 'm9'");
    refused(place.ran(&["recall", "a", ON]), 2, "keepline recall SESSION QUERY");
    assert_eq!(place.told(&["session", "upkeep", "a"])["tasks"]["recall"], Value::Null);
}

/// Three sessions of two people; who has a question, finds its words in one turn each.
fn conversations() -> String {
    let turn = |id: &str, speaker: &str, text: &str| json!({"id": id, "speaker": speaker, "text": text});
    let chatter = |session: usize, number: usize| {
        turn(&format!("{session}:{number}"), ["Ann", "Ben"][number % 2], &format!("So topic {session}{number}, then."))
    };
    let session = |number: usize, date: &str, said: &Value| {
        let mut turns: Vec<Value> = (0..10).map(|at| chatter(number, at)).collect();
        turns.insert(5, said.clone());
        json!({"date": date, "turns": turns})
    };
    let mut photo = turn("B", "Ben", "Look at this!");
    photo["caption"] = "a photo of a lighthouse".into();
    let sessions = [
        session(1, "1:56 pm on 8 May, 2023", &turn("A", "Ann", "Our dog Bruno chased a squirrel.")),
        session(2, "2023-06-01T10:00:00Z", &photo),
        session(3, "12:05 am on 2 July, 2023", &turn("C", "Ann", "I play the cello.")),
    ];
    let asked = |question: &str, evidence: &[&str]| json!({"question": question, "evidence": evidence});
    let questions = [
        asked(DOG, &["A"]),
        asked("Who saw the lighthouse?", &["B"]),
        asked("Does Ann play the cello?", &["C", "none"]),
    ];
    let conversation = json!({"conversation": "x", "sessions": sessions, "questions": questions, "more": 1});
    let other = json!({"sessions": [session(4, "2024-01-01T10:00:00Z", &turn("A", "Eve", "I drive a tractor."))],
        "questions": [asked("Who drives a tractor?", &["A"]), asked("Nobody knows?", &[])]});
    format!("{conversation}\n\n{other}\n")
}

#[test]
fn evidence_is_measured_end_to_end() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("conversations.jsonl");
    fs::write(&file, conversations()).unwrap();
    let file = file.to_str().unwrap();
    let place = Place::new();
    let evaluate = ["recall", "evaluate", file, "--tokens", "64,2000"];
    for (more, sessions) in [(&[][..], 2), (&["--merge"][..], 1), (&["--no-hints"][..], 2), (&["--user"][..], 4)] {
        let told = place.told(&[&evaluate[..], more].concat());
        assert_eq!(
            (&told["sessions"], &told["messages"], &told["questions"]),
            (&json!(sessions), &json!(44), &json!(4))
        );
        let [small, large] = &told["budgets"].as_array().unwrap()[..] else { panic!("{told}") };
        // Of the evidence for one of four questions half is nowhere.
        assert_eq!((&large["whole_percent"], &large["in_part_percent"]), (&json!(87.5), &json!(87.5)), "{told}");
        assert_eq!((&small["tokens"], &large["recall_at_10_percent"]), (&json!(64), &json!(87.5)), "{told}");
        assert!(small["passages"].as_f64() < large["passages"].as_f64(), "{told}");
    }
    // In memory, without a configuration; and nothing stays.
    let ran = call(&evaluate, b"").ok();
    assert_eq!(ran.text().lines().count(), 2, "{ran:?}");
    assert!(ran.text().lines().all(|line| line.split('\t').count() == 8), "{ran:?}");
    assert_eq!(place.told(&["session", "list"])["sessions"], json!([]));
    assert_eq!(place.told(&["stats"])["users"], 0);
    assert!(
        ran.err.contains("evidence ids that no turn of their conversation has: 1, for example \"none\" in line 1;")
    );
    assert!(!ran.err.contains("turn ids"), "{ran:?}");
    for (more, counted) in [("--no-hints", "2 sessions"), ("--user", "4 sessions"), ("--merge", "1 session")] {
        let ran = call(&[&evaluate[..], &[more]].concat(), b"").ok();
        assert!(ran.err.ends_with(&format!("4 questions, 44 messages, {counted}\n")), "{ran:?}");
    }

    for (text, told) in [
        ("{\"sessions\":[{\"date\":\"soon\"}]}", "line 1: the date \"soon\" must be like"),
        ("[", "line 1"),
        ("", "no question"),
    ] {
        fs::write(file, text).unwrap();
        let ran = call(&evaluate, b"");
        assert!(ran.code == 1 && ran.err.contains(told), "{ran:?}");
    }
}

#[test]
fn a_question_without_a_word_is_measured() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("conversations.jsonl");
    let turn = json!({"id": "A", "speaker": "Ann", "text": "Our dog Bruno chased a squirrel."});
    let questions = json!([{"question": DOG, "evidence": ["A"]}, {"question": "?!", "evidence": ["A"]}]);
    let conversation = json!({"sessions": [{"turns": [turn]}], "questions": questions});
    fs::write(&file, conversation.to_string()).unwrap();
    let evaluate = ["recall", "evaluate", file.to_str().unwrap(), "--user", "--tokens", "64", "--json"];
    let told = call(&evaluate, b"").ok().json();
    assert_eq!((&told["questions"], &told["budgets"][0]["whole_percent"]), (&json!(2), &json!(50.0)));
}

#[test]
fn a_signal_during_filling_leaves_no_session_behind() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("conversations.jsonl");
    let turn = |number: usize| json!({"id": number.to_string(), "speaker": "Ann", "text": "So that is that, then."});
    // It takes many calls to write them.
    let turns: Vec<Value> = (0..50_000).map(turn).collect();
    let conversation = json!({"sessions": [{"turns": turns}], "questions": [{"question": DOG, "evidence": ["1"]}]});
    fs::write(&file, conversation.to_string()).unwrap();
    let evaluate = ["recall", "evaluate", file.to_str().unwrap(), "--user", "--tokens", "64"];
    let place = Place::new();
    let mut running = keepline(place.arguments(&evaluate)).envs([PATIENT]).spawn().unwrap();
    // Before the first one, there is no store.
    let list = || place.ran(&["session", "list"]).text().lines().count();
    until("a session is there", || (list() > 0).then_some(()));
    signal(&running, "-TERM");
    assert_eq!(end(&mut running), Some(1));
    assert_eq!((list(), &place.told(&["stats"])["users"]), (0, &json!(0)));
}
