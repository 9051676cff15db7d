//! Recall over all of a user's sessions, over every store: found in the next session, gone with what it is a copy of.

use std::time::Duration;

use futures::future::join_all;
use keepline::{
    maintenance::{Maintenance, MaintenanceOptions, NoModel, Outcome, Task, session_buckets},
    pipe::Effect,
    sessions::chat_messages,
};
use keepline_tests::{lanes::Node, on_every_store};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::{Given, ask, reply, talking};

on_every_store! {
    messages_of_one_session_are_recalled_in_the_next,
    recall_across_sessions_costs_a_question_one_more_wait,
    a_corrected_text_is_found_nowhere,
    messages_removed_while_many_write_are_found_nowhere,
    messages_of_a_forgotten_user_are_not_recalled,
    the_memory_is_rebuilt_from_the_messages,
}

async fn recalling(given: &Given) -> Node {
    let options = json!({"recall": "user", "summaries": false, "auto_generate_titles": false});
    talking(given, &options).await
}

fn of(user: &str, session: &str) -> Value {
    json!({"session_id": session, "user_id": user})
}

/// What an answer has made due, done.
async fn work(node: &Node, due: Vec<Task>) {
    let maintenance = Maintenance::new(
        node.keepline.clone(),
        std::sync::Arc::new(NoModel),
        MaintenanceOptions::default(),
        Handle::current(),
    );
    for task in due {
        let outcome = maintenance.run(task).await;
        assert!(matches!(outcome, Outcome::Done | Outcome::Taken | Outcome::Ended), "{outcome:?}");
    }
}

async fn index(node: &Node, user: &str, session: &str) {
    work(node, vec![task(session, user, "recall")]).await;
}

fn task(session: &str, user: &str, name: &str) -> Task {
    Task { buckets: session_buckets(session, Some(user)), name: name.into(), state: String::new() }
}

async fn talk(node: &mut Node, user: &str, session: &str, text: &str) {
    node.pipe.open();
    ask(node, text, &of(user, session)).await;
    let passed = reply(node, "I see.", &json!({})).await;
    assert_eq!(passed.effect, Effect::Stored, "{:?}", passed.problem);
    work(node, passed.due).await;
}

/// The texts that another session of the user gets.
async fn recalled(node: &mut Node, user: &str, question: &str) -> Vec<String> {
    node.pipe.open();
    let got = ask(node, question, &of(user, "another")).await;
    let passages = got["memory_recall"]["passages"].as_array().cloned().unwrap_or_default();
    passages.iter().map(|passage| passage["text"].as_str().unwrap().to_owned()).collect()
}

async fn stored(given: &Given) -> String {
    format!("{:?}", given.everything().await)
}

const DOG: &str = "Which animal did the dog Bruno chase?";

async fn messages_of_one_session_are_recalled_in_the_next(given: Given) {
    let mut node = recalling(&given).await;
    talk(&mut node, "anna", "s", "Yesterday our dog Bruno chased a squirrel.").await;
    talk(&mut node, "ben@example.org", "t", "Our dog Bruno chased a hedgehog.").await;
    // Every process recalls the same.
    let mut other = recalling(&given).await;
    for node in [&mut node, &mut other] {
        node.pipe.open();
        let got = ask(node, DOG, &of("anna", "new")).await;
        let first = &got["memory_recall"]["passages"][0];
        assert_eq!((&first["session"], &first["position"]), (&json!("s"), &json!(0)), "{got}");
        assert!(!got.to_string().contains("hedgehog"), "{got}");
        assert!(recalled(node, "ben@example.org", DOG).await[0].contains("hedgehog"));
        assert_eq!(recalled(node, "carl", DOG).await, [""; 0]);
        node.pipe.open();
        // Its own window shows it; and who names nobody gets nothing.
        for metadata in [of("anna", "s"), json!({"session_id": "nobody-s"})] {
            let got = ask(node, DOG, &metadata).await;
            assert!(!got["memory_recall"].to_string().contains("squirrel"), "{got}");
            node.pipe.open();
        }
    }
}

async fn recall_across_sessions_costs_a_question_one_more_wait(given: Given) {
    let mut node = recalling(&given).await;
    talk(&mut node, "anna", "s", "Yesterday our dog Bruno chased a squirrel.").await;
    node.pipe.open();
    ask(&mut node, DOG, &of("anna", "new")).await;
    node.store.calls();
    for (question, waits) in [(DOG, 2), ("xyzzy", 1), ("?", 1)] {
        ask(&mut node, question, &of("anna", "new")).await;
        assert_eq!(node.store.calls(), waits, "{question}");
    }
    node.pipe.open();
    ask(&mut node, "And now?", &of("anna", "s")).await;
    node.store.calls();
    let passed = reply(&mut node, "Nothing.", &json!({})).await;
    assert_eq!((passed.effect, node.store.calls()), (Effect::Stored, 1));
}

async fn a_corrected_text_is_found_nowhere(given: Given) {
    let mut node = recalling(&given).await;
    for what in ["edited", "removed", "cleared", "replaced", "deleted"] {
        talk(&mut node, "anna", "s", "Yesterday our dog Bruno chased a squirrel.").await;
        talk(&mut node, "anna", "t", "A cat has nine lives.").await;
        assert!(recalled(&mut node, "anna", DOG).await[0].contains("squirrel"), "{what}");
        let hedgehog = "Yesterday our dog Bruno chased a hedgehog.";
        let message = json!({"role": "user", "content": hedgehog}).to_string();
        match what {
            "edited" => drop(node.sessions.rewrite("s".into(), 0, Some(hedgehog)).await.unwrap()),
            "removed" => drop(node.sessions.rewrite("s".into(), 0, None).await.unwrap()),
            "cleared" => drop(node.sessions.clear_messages("s".into(), None).await.unwrap()),
            "replaced" => drop(node.sessions.set_messages("s".into(), &chat_messages(&[message]), None).await.unwrap()),
            _ => drop(node.sessions.delete("s").await.unwrap()),
        }
        for is_indexed_again in [false, true] {
            let all = stored(&given).await;
            assert!(!all.contains("squirrel"), "{what} {is_indexed_again}: {all}");
            let found = recalled(&mut node, "anna", DOG).await;
            let has_new = found.iter().any(|text| text.contains("hedgehog"));
            assert_eq!(has_new, is_indexed_again && matches!(what, "edited" | "replaced"), "{what}: {found:?}");
            assert!(recalled(&mut node, "anna", "How many lives has a cat?").await[0].contains("nine"));
            index(&node, "anna", "s").await;
        }
        if what != "deleted" {
            node.sessions.delete("s").await.unwrap();
        }
        node.sessions.delete("t").await.unwrap();
        assert_eq!(recalled(&mut node, "anna", "Which lives, and which dog?").await, [""; 0], "{what}");
    }
}

async fn messages_removed_while_many_write_are_found_nowhere(given: Given) {
    const SESSIONS: usize = 4;
    const TURNS: usize = 12;
    let said = |session: usize, turn: usize| match turn % 3 {
        0 => format!("The secret {session}{turn:02} is a squirrel."),
        _ => format!("The remark {session}{turn:02} is a hedgehog."),
    };
    let writers = (0..SESSIONS).map(|session| {
        let given = &given;
        async move {
            let mut node = recalling(given).await;
            let name = format!("s{session}");
            for turn in 0..TURNS {
                node.pipe.open();
                ask(&mut node, &said(session, turn), &of("anna", &name)).await;
                let passed = reply(&mut node, "I see.", &json!({})).await;
                assert_eq!(passed.effect, Effect::Stored, "{:?}", passed.problem);
                let position = 2 * turn as u64;
                // Each secret is taken back, while its copy is on its way.
                let remover = recalling(given).await;
                let take_back = async {
                    let mut sessions = remover.keepline.sessions();
                    if turn % 3 == 0 {
                        let removed = sessions.rewrite(name.as_str().into(), position, None).await;
                        assert_eq!(removed.unwrap().count, 1);
                    }
                };
                tokio::join!(work(&node, passed.due.clone()), work(&remover, passed.due), take_back);
            }
        }
    });
    join_all(writers).await;
    let mut node = recalling(&given).await;
    // Values of sessions hold answers only.
    assert!(!stored(&given).await.contains("secret"));
    for session in 0..SESSIONS {
        index(&node, "anna", &format!("s{session}")).await;
    }
    let all = stored(&given).await;
    assert!(!all.contains("secret"));
    // Everything else is there, once.
    for session in 0..SESSIONS {
        for turn in (0..TURNS).filter(|turn| turn % 3 > 0) {
            let text = said(session, turn);
            let found = recalled(&mut node, "anna", &format!("Which remark is {session}{turn:02}?")).await;
            assert_eq!(found.iter().filter(|one| **one == text).count(), 1, "{text}: {found:?}");
            // In the transcript, and as a copy.
            assert_eq!(all.matches(&text).count(), 2, "{text}");
        }
    }
}

async fn messages_of_a_forgotten_user_are_not_recalled(given: Given) {
    let mut node = recalling(&given).await;
    talk(&mut node, "anna", "s", "Yesterday our dog Bruno chased a squirrel.").await;
    node.pipe.open();
    ask(&mut node, "And a hedgehog, too.", &of("anna", "late")).await;
    let due = reply(&mut node, "I see.", &json!({})).await.due;
    while node.sessions.forget_user("anna").await.unwrap().remaining > 0 {}
    work(&node, due).await;
    let all = stored(&given).await;
    assert!(!all.contains("squirrel") && !all.contains("hedgehog"), "{all}");
    assert_eq!(recalled(&mut node, "anna", DOG).await, [""; 0]);
    // A user who comes back is remembered again.
    node.clock.advance(Duration::from_secs(1));
    talk(&mut node, "anna", "s", "Today our dog Bruno chased a mole.").await;
    assert!(recalled(&mut node, "anna", DOG).await[0].contains("mole"));
}

async fn the_memory_is_rebuilt_from_the_messages(given: Given) {
    let mut node = recalling(&given).await;
    talk(&mut node, "anna", "s", "Yesterday our dog Bruno chased a squirrel.").await;
    for number in 0..70 {
        talk(&mut node, "anna", if number % 2 == 0 { "s" } else { "t" }, &format!("Explain topic {number}, please."))
            .await;
    }
    let before = recalled(&mut node, "anna", DOG).await;
    assert!(before[0].contains("squirrel"));
    work(&node, vec![task("s", "anna", "recall-reset")]).await;
    assert_eq!(recalled(&mut node, "anna", DOG).await, [""; 0]);
    assert!(recalled(&mut node, "anna", "topic 69").await.contains(&"Explain topic 69, please.".to_owned()));
    index(&node, "anna", "s").await;
    assert!(recalled(&mut node, "anna", DOG).await[0].contains("squirrel"));
}
