//! Embeddings with recall over all of a user's sessions, where the work takes both buckets.

use super::*;
use crate::admin_calls as admin;

const OPTIONS: &str = r#""recall": "user", "summaries": false, "recall_vectors": true"#;

fn of(session: &str) -> Value {
    json!({"session_id": session, "user_id": "anna"})
}

/// A turn, and what it makes due.
fn talk(filter: &Filter<impl Host>, session: &str, text: &str, model: &str) {
    let asked = ask(filter, text, &of(session));
    let due = reply(filter, text, "Well.", &asked.turn).due;
    for name in ["recall", "vectors"] {
        let (mut work, mut result) = (Work::of(&due, name), None);
        assert_eq!(work.buckets, buckets(&format!("session {session}, user anna")));
        loop {
            let asked = work.go_on(filter, "h", result.take());
            match asked.step {
                Step::Again => {}
                Step::Needs => result = Some(vectors(model, &texts(&asked))),
                step => {
                    assert_eq!(step, Step::Done, "{asked:?}");
                    break;
                }
            }
        }
    }
}

fn recalled(filter: &Filter<impl Host>, question: &str, model: &str) -> Value {
    let (metadata, Vector { model, data }) = (of("another").to_string(), vector(model, question));
    let vector = Some((&*model, &*data));
    let entry = QuestionEntry { text: question, metadata: &metadata, vector, ..QuestionEntry::default() };
    attached(&filter.question(&entry), "memory_recall")
}

fn stored(host: &TestHost) -> usize {
    host.bucket("User/anna").maps.get("vectors").map_or(0, std::collections::BTreeMap::len)
}

#[test]
fn vectors_find_passages_of_other_sessions_and_are_removed_with_messages() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, "one", "Our dog is called Bello.", "m");
    for number in 0..12 {
        talk(&filter, "two", &format!("remark {number} about nothing much"), "m");
    }
    assert_eq!(stored(&host), 26);
    let found = recalled(&filter, PARAPHRASE, "m");
    let first = &found["passages"][0];
    assert_eq!((&first["text"], &first["session"]), (&json!("Our dog is called Bello."), &json!("one")), "{found}");
    assert_eq!(first["why"], json!(["vector"]));
    // By another model nothing is like it; and then everything is made anew.
    assert_eq!(recalled(&filter, PARAPHRASE, "n"), Value::Null);
    talk(&filter, "two", "one thing more", "n");
    assert_eq!(recalled(&filter, PARAPHRASE, "n")["passages"][0]["text"], "Our dog is called Bello.");

    let sessions = Context::new(&host, Config::parse(&format!("{{\"conversation\": true, {OPTIONS}}}")).unwrap());
    let before = stored(&host);
    let one = TranscriptId { session: "one", ..TranscriptId::default() };
    admin::rewrite_message(&sessions, &one, 0, None).unwrap();
    assert_eq!(stored(&host), before - 1);
    assert_eq!(recalled(&filter, PARAPHRASE, "n"), Value::Null);
    admin::delete_session(&sessions, "two").unwrap();
    assert_eq!(stored(&host), 1);
    while admin::forget_user(&sessions, "anna").unwrap().remaining > 0 {}
    assert_eq!(stored(&host), 0);
}

#[test]
fn a_vector_of_a_passage_removed_meanwhile_is_not_kept() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    let asked = ask(&filter, "Our dog is called Bello.", &of("one"));
    let due = reply(&filter, "Our dog is called Bello.", "Well.", &asked.turn).due;
    let mut work = Work::of(&due, "vectors");
    // It cuts what nobody has cut before.
    let asked = begin(&filter, &mut work);
    assert_eq!(texts(&asked), ["Our dog is called Bello.", "Well."]);
    let sessions = Context::new(&host, Config::parse(&format!("{{\"conversation\": true, {OPTIONS}}}")).unwrap());
    admin::rewrite_message(&sessions, &TranscriptId { session: "one", ..TranscriptId::default() }, 0, None).unwrap();
    let late = work.go_on(&filter, "h", Some(vectors("m", &texts(&asked))));
    assert_eq!((late.step, stored(&host)), (Step::Again, 0));
    assert!(host.names().iter().all(|bucket| host.leases(bucket).is_empty()));
    // Nobody to ask, and a model that fails, leave no lease behind.
    for result in [missing(), failed()] {
        let mut work = Work { buckets: buckets("session one, user anna"), name: "vectors", state: String::new() };
        assert_eq!(begin(&filter, &mut work).step, Step::Needs);
        work.go_on(&filter, "h", Some(result));
        let now = host.micros.get() / 1000;
        assert!(host.leases("User/anna").values().all(|(_, until)| *until <= now));
    }
}
