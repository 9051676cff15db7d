//! Users, over every store: their values, the list of their sessions, and what is found in them.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::stream::{self, StreamExt};
use keepline::{
    Keepline, Passed,
    maintenance::{Maintenance, MaintenanceOptions, NoModel, Outcome, Task},
    pipe::Effect,
    sessions::{SessionSummary, UserForgotten},
    store::{BucketId, Deadline, Store, Writer, kind},
};
use keepline_tests::{
    lanes::Node,
    on_every_store,
    requests::{append, create, existing, put_in, read_newest, records_of, remove_in, transaction},
};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::{Given, ask, reply, talking};

on_every_store! {
    values_come_with_each_question_of_the_user,
    sessions_are_listed_by_their_last_use,
    three_thousand_sessions_are_paged_and_forgotten,
    words_are_found_in_the_user_s_sessions_and_no_others,
    a_session_missing_from_its_owners_list_can_be_corrected_and_deleted,
}

/// As it is stored.
pub async fn records(store: &Arc<dyn Store>, session: &str) -> Vec<String> {
    let look = transaction(session, existing(), [read_newest("transcript", 10_000, 8 << 20)]);
    let found = store.transact(Writer::new().advance(), &look, Deadline::NEVER).await.unwrap();
    records_of(&found.receipt.outcomes[0])
}

pub fn of(session: &str, user: &str) -> Value {
    json!({"session_id": session, "user_id": user})
}

/// A question of a user and its answer.
pub async fn turn(node: &mut Node, session: &str, user: &str, text: &str) -> Passed {
    ask(node, text, &of(session, user)).await;
    let passed = reply(node, &format!("about {text}"), &json!({})).await;
    assert_eq!(passed.effect, Effect::Stored, "{:?}", passed.problem);
    node.clock.advance(Duration::from_secs(1));
    passed
}

/// Has done what is due; how much of it noted a use.
async fn upkeep(keepline: &Keepline, due: Vec<Task>) -> usize {
    let options = MaintenanceOptions::default();
    let maintenance = Maintenance::new(keepline.clone(), Arc::new(NoModel), options, Handle::current());
    let mut notes = 0;
    for task in due {
        notes += usize::from(task.name == "activity");
        assert_eq!(maintenance.run(task).await, Outcome::Done);
    }
    notes
}

/// What is known of a listed session; times in seconds.
fn summary_value(listed: &SessionSummary) -> Value {
    let SessionSummary { session, title, created_at, last_at, preview, records, .. } = listed;
    let seconds = |at: u64| (at > 0).then(|| at as f64 / 1000.0);
    let mut all = json!({
        "session": session, "title": title, "began_at": seconds(*created_at), "last_at": seconds(*last_at),
        "records": records, "preview": (!preview.is_empty()).then_some(preview),
    });
    all.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    all
}

/// All sessions of a user, page by page.
pub async fn listed(node: &mut Node, user: &str, limit: u32) -> Vec<Value> {
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let page = node.sessions.user_sessions(user, before, limit).await.unwrap();
        assert!(page.sessions.len() <= limit as usize);
        all.extend(page.sessions.iter().map(summary_value));
        before = page.older;
        if before.is_none() {
            return all;
        }
    }
}

pub fn names(listed: &[Value]) -> Vec<&str> {
    listed.iter().map(|entry| entry["session"].as_str().unwrap()).collect()
}

/// Until nothing is left; all that was deleted.
pub async fn forget(node: &mut Node, user: &str) -> UserForgotten {
    let mut all = node.sessions.forget_user(user).await.unwrap();
    while all.remaining > 0 {
        let done = node.sessions.forget_user(user).await.unwrap();
        all = UserForgotten { sessions: all.sessions + done.sessions, nodes: all.nodes + done.nodes, ..done };
    }
    all
}

/// All buckets that are there.
pub async fn buckets(given: &Given) -> Vec<String> {
    let mut all = Vec::new();
    for (kind, name) in [(kind::SESSION, "s"), (kind::NODE, "n"), (kind::USER, "u")] {
        all.extend(given.list_kind(kind, 1000).await.into_iter().map(|bucket| format!("{name}/{bucket}")));
    }
    all.sort_unstable();
    all.dedup();
    all
}

async fn values_come_with_each_question_of_the_user(given: Given) {
    let mut node = talking(&given, &json!({"max_keys": 3})).await;
    let user = "anna@example.org";
    for (key, value) in [("language", "\"es\""), ("answer_count", "7"), ("city", " [1] ")] {
        assert!(!node.sessions.put_user_value(user, key, Some(value)).await.unwrap().existed);
    }
    assert!(node.sessions.put_user_value(user, "more", Some("1")).await.is_err(), "max_keys");
    turn(&mut node, "s", user, "1").await;
    // The session's own come first; another process sees the same, and another user nothing.
    node.sessions.put_user_value(user, "city", None).await.unwrap();
    let mut other = talking(&given, &json!({})).await;
    let got = ask(&mut other, "?", &of("s", user)).await;
    assert_eq!(got["memory_context"], json!({"answer_count": 1, "language": "es", "last_answer": "about 1"}));
    assert_eq!(ask(&mut other, "?", &of("t", "anna")).await, of("t", "anna"));
    let values = node.sessions.user_values(user, None).await.unwrap().values;
    assert_eq!(values.iter().map(|value| &*value.key).collect::<Vec<_>>(), ["answer_count", "language"]);
    assert_eq!(node.sessions.user_values(user, Some("city")).await.unwrap().values, []);
}

/// Whose bucket has another name.
const ANNA: &str = "anna@example.org";

async fn sessions_are_listed_by_their_last_use(given: Given) {
    let mut node = talking(&given, &json!({})).await;
    for session in ["a", "b", "c"] {
        let due = turn(&mut node, session, "anna", session).await.due;
        assert_eq!(upkeep(&node.keepline, due).await, 0, "its registration notes it");
    }
    turn(&mut node, "x", "ben", "x").await;
    let due = turn(&mut node, "c", "anna", "c again").await.due;
    assert_eq!(due, [], "it is the newest");
    // By another process.
    let mut other = talking(&given, &json!({})).await;
    other.clock.advance(Duration::from_secs(60));
    let due = turn(&mut other, "a", "anna", "a again").await.due;
    assert_eq!(names(&listed(&mut node, "anna", 10).await), ["c", "b", "a"], "as of the last note");
    assert_eq!(upkeep(&other.keepline, due).await, 1);
    for limit in [1, 2, 10] {
        let all = listed(&mut node, "anna", limit).await;
        assert_eq!(names(&all), ["a", "c", "b"], "{limit}");
        assert_eq!((&all[0]["title"], &all[0]["records"]), (&json!("a"), &json!(4)));
        assert_eq!(all[0]["preview"], "about a again");
        assert!(all[0]["last_at"].is_number() && all[0]["began_at"].is_number(), "{}", all[0]);
    }
    node.sessions.delete("c").await.unwrap();
    assert_eq!(names(&listed(&mut node, "anna", 1).await), ["a", "b"]);
    assert_eq!(names(&listed(&mut node, "ben", 1).await), ["x"]);
}

const MANY: usize = 3000;

/// A user with so many sessions, as turns leave them behind: in the list, and each with its owner.
async fn with_many_sessions(given: &Given, user: &str) {
    let name = |number: usize| format!("s{number:04}");
    let make = async |number: usize| {
        given.apply(&*name(number), create(), [put_in("session", &[("owner", user)])]).await;
    };
    stream::iter(0..MANY).map(make).buffer_unordered(32).collect::<Vec<()>>().await;
    for first in (0..MANY).step_by(500) {
        let entry = |number: usize| (name(number), format!("{{\"incarnation\":\"x\",\"at\":{number}.5}}"));
        let entries: Vec<_> = (first..first + 500).map(entry).collect();
        let records =
            (first..first + 500).map(|number| format!("{{\"session\":\"{}\",\"at\":{number}.5}}", name(number)));
        let operations = [put_in("sessions", &entries), append("activity", &records.collect::<Vec<_>>())];
        given.apply(BucketId::user(user), create(), operations).await;
    }
}

async fn three_thousand_sessions_are_paged_and_forgotten(given: Given) {
    let mut node = talking(&given, &json!({})).await;
    with_many_sessions(&given, "anna").await;
    turn(&mut node, "s0007", "anna", "?").await;
    let due = turn(&mut node, "s1234", "anna", "?").await.due;
    upkeep(&node.keepline, due).await;
    // A page costs the same however many there are: two waits, and one for each 16 sessions.
    node.store.calls();
    let page = node.sessions.user_sessions("anna", None, 20).await.unwrap();
    assert_eq!((page.sessions.len(), node.store.calls()), (20, 4));
    let all = listed(&mut node, "anna", 100).await;
    let names = names(&all);
    assert_eq!(names[..3], ["s1234", "s2999", "s2998"]);
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), MANY);
    assert_eq!(names.len(), MANY);
    turn(&mut node, "bens", "ben", "?").await;
    let done = forget(&mut node, "anna").await;
    assert_eq!((done.sessions, done.remaining), (MANY as u64, 0));
    assert_eq!(buckets(&given).await, ["s/bens", "u/anna", "u/ben"]);
}

async fn words_are_found_in_the_user_s_sessions_and_no_others(given: Given) {
    let mut node = talking(&given, &json!({})).await;
    turn(&mut node, "a", ANNA, "Where is the RED parcel?").await;
    turn(&mut node, "a", ANNA, "And the blue one?").await;
    turn(&mut node, "b", ANNA, "A red größe").await;
    turn(&mut node, "c", "ben", "red parcel").await;
    let found = async |node: &mut Node, words: &str, limit: u32| {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = node.sessions.search_user(ANNA, words, after.as_deref(), limit).await.unwrap();
            assert!(page.found.len() <= limit as usize);
            all.extend(
                page.found.into_iter().map(|message| format!("{}/{}", message.session, message.message.position)),
            );
            after = page.next;
            if after.is_none() {
                return all;
            }
        }
    };
    for limit in [1, 2, 100] {
        assert_eq!(found(&mut node, "red", limit).await, ["b/1", "b/0", "a/1", "a/0"]);
        assert_eq!(found(&mut node, "parcel Red", limit).await, ["a/1", "a/0"]);
        assert_eq!(found(&mut node, "GRÖßE", limit).await, ["b/1", "b/0"]);
        assert_eq!(found(&mut node, "blue.", limit).await, [""; 0]);
        assert_eq!(found(&mut node, "about", limit).await, ["b/1", "a/3", "a/1"]);
    }
    assert_eq!(node.sessions.search_user("ben", "red", None, 0).await.unwrap().found.len(), 2);
    let page = node.sessions.search_user(ANNA, "größe", None, 1).await.unwrap();
    assert_eq!(page.found[0].title.as_deref(), Some("A red größe"));
    // What is removed, gone, or another's by now, is not found, also not halfway.
    node.sessions.rewrite("b".into(), 0, None).await.unwrap();
    assert_eq!(found(&mut node, "red", 100).await, ["b/1", "a/1", "a/0"]);
    let first = node.sessions.search_user(ANNA, "red", None, 1).await.unwrap();
    node.sessions.delete("a").await.unwrap();
    turn(&mut node, "a", "ben", "red secret").await;
    let rest = node.sessions.search_user(ANNA, "red", first.next.as_deref(), 100).await.unwrap();
    assert_eq!((rest.found, rest.next), (vec![], None));
}

/// As after an import that was interrupted, or where somebody has deleted the user's bucket.
async fn a_session_missing_from_its_owners_list_can_be_corrected_and_deleted(given: Given) {
    let mut node = talking(&given, &json!({})).await;
    let anna = BucketId::user("anna");
    for session in ["unlisted", "unowned"] {
        turn(&mut node, session, "anna", "red").await;
        if session == "unlisted" {
            given.apply(&anna, existing(), [remove_in("sessions", &[session])]).await;
        } else {
            given.delete(&anna).await;
        }
        node.sessions.rewrite(session.into(), 0, Some("blue")).await.unwrap();
        assert!(records(&given.store, session).await[0].contains("blue"));
        node.sessions.delete(session).await.unwrap();
        assert_eq!(node.keepline.counters().denied, 0);
    }
    // A user who has a list is told of, one who has no bucket has nothing to be kept.
    assert_eq!(node.log.of("keepline.owner").len(), 2);
}
