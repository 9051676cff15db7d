//! Recall: what the window shows is left out, and takes no room from what it does not.

use serde_json::{Value, json};

use super::super::tasks::Work;
use super::super::{ask, attached, filter, reply};
use super::finish;
use crate::test_host::TestHost;

/// How many passages about it are recalled that the window does not show, when those that it shows are more about it.
fn recalled(options: &str, sessions: [&str; 3]) -> usize {
    let host = TestHost::new();
    let filter = filter(&host, &format!(r#"{options}, "recall_tokens": 120, "summaries": false"#));
    let of = |session: &str| json!({"session_id": session, "user_id": "anna"});
    let talk = |session: &str, text: &str| {
        let asked = ask(&filter, text, &of(session));
        let done = reply(&filter, text, "Well.", &asked.turn);
        finish(&filter, &mut Work::of(&done.due, "recall"));
    };
    let [old, asking, other] = sessions;
    let chatter = || (0..90).map(|number| format!("remark {number} about nothing much"));
    (0..12).for_each(|number| talk(old, &format!("The harbor crane {number} stands still")));
    chatter().for_each(|text| talk(other, &text));
    (0..12).for_each(|number| talk(asking, &format!("The harbor crane {number} creaks loudly")));
    if other != asking {
        chatter().for_each(|text| talk(other, &text));
    }
    let asked = ask(&filter, "Which harbor crane creaks loudly?", &of(asking));
    let shown = attached(&asked, "memory_messages").to_string();
    assert!(shown.contains("crane 11 creaks") && !shown.contains("stands"), "{shown}");
    let found = attached(&asked, "memory_recall")["passages"].as_array().cloned().unwrap_or_default();
    let texts: Vec<&str> = found.iter().filter_map(|passage| passage["text"].as_str()).collect();
    let is_shown = |text: &&&str| shown.contains(&Value::from(**text).to_string()) && **text != "Well.";
    assert_eq!(texts.iter().find(is_shown), None);
    texts.iter().filter(|text| text.contains("harbor crane")).count()
}

#[test]
fn passages_in_the_window_take_no_room_from_others() {
    let in_session = recalled(r#""recall": "session", "max_context_tokens": 200"#, ["s", "s", "s"]);
    assert!(in_session >= 5, "{in_session}");
    // The window's session is not the user's newest.
    let of_user = recalled(r#""recall": "user""#, ["old", "asking", "other"]);
    assert!(of_user >= 5, "{of_user}");
}
