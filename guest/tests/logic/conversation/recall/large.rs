//! Recall: corrections that are larger than one call of a store.

use crate::admin_calls as admin;
use keepline_filter::transcript::address::TranscriptId;
use serde_json::json;

use super::super::tasks::Work;
use super::super::{ask, filter, reply, say};
use super::{OPTIONS, S, all_kept, documents, everything, finish, recalled, sessions, talk};
use crate::test_host::TestHost;

#[test]
fn a_branch_of_many_scattered_messages_is_removed_whole() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    // Two branches that grow in turns: none of one's turns is beside another of it.
    let asked = ask(&filter, "Which animals?", &json!({"session_id": "s", "message_id": "q"}));
    say(&filter, "Which animals?", "Tell me.", &asked.turn, &json!({"message_id": "r"}));
    for number in 0..60 {
        for (branch, word) in [("a", "zebra"), ("b", "tiger")] {
            let id = format!("{branch}{number}");
            let parent = if number > 0 { format!("r{branch}{}", number - 1) } else { "r".to_owned() };
            let metadata = json!({"session_id": "s", "message_id": format!("q{id}"), "parent_message_id": parent});
            let text = format!("The {word} number {number}");
            let asked = ask(&filter, &text, &metadata);
            let due = say(&filter, &text, "Well.", &asked.turn, &json!({"message_id": format!("r{id}")})).due;
            finish(&filter, &mut Work::of(&due, "recall"));
        }
    }
    assert!(documents(&host) > 0);
    let first = admin::find_messages(
        &sessions(&host),
        &S,
        &keepline_filter::admin::messages::MessageQuery { id: Some("qa0"), ..Default::default() },
    );
    let first = first.unwrap().messages[0].position;
    assert_eq!(admin::clear_messages(&sessions(&host), &S, Some(first)).unwrap(), 120);
    let left = everything(&host);
    assert!(!left.contains("zebra"), "{left}");
    assert!(left.contains("tiger number 59"));
    all_kept(&filter);
    assert!(!everything(&host).contains("zebra"));
}

#[test]
fn terms_not_yet_compacted_are_found() {
    let host = TestHost::new();
    let options = format!("{OPTIONS}, \"max_message_length\": 0");
    let filter = filter(&host, &options);
    let talk = |text: &str| {
        let asked = ask(&filter, text, &json!({"session_id": "s"}));
        reply(&filter, text, "Well.", &asked.turn).due
    };
    // One step, and no more: its terms wait.
    let due = talk("The zebra is called Zoe.");
    Work::of(&due, "recall").step(&filter, "h", None);
    let long = "Some words about nothing much that make a sentence. ".repeat(12_000);
    let due = talk(&long);
    Work::of(&due, "recall").step(&filter, "h", None);
    let waiting = host.records("s", "terms").len();
    assert!(waiting > 2000, "{waiting}");
    let all = TranscriptId { session: "s", ..TranscriptId::default() };
    admin::rewrite_message(&sessions(&host), &all, 0, None).unwrap();
    assert!(!everything(&host).contains("zebra"));
}

#[test]
fn a_text_that_can_t_be_cut_leaves_room_for_the_others() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    for number in 0..5 {
        talk(&filter, &[&format!("zeppelin {number} e{}", "\u{301}".repeat(4000))], true);
    }
    for number in 0..20 {
        talk(&filter, &[&format!("Fact {number} of the zeppelin.")], true);
    }
    talk(&filter, &["Good night."], true);
    let found = recalled(&filter, "What do you know of the zeppelin?");
    let facts = found.iter().filter(|text| text.starts_with("Fact")).count();
    assert!(facts >= 19, "{facts} {}", found.len());
}
