//! Operators work with users: values, lists of sessions, and forgetting.

use crate::admin_calls as admin;
use keepline_filter::entry::types::TaskBucket;
use keepline_filter::tasks::job::{Job, Step};
use keepline_filter::transcript::address::TranscriptId;
use keepline_filter::{Config, Context, Effect, Filter, Host, Task};
use serde_json::{Value, json};

use super::tasks::buckets;
use super::{STORED, ask, attached, entry, filter, reply, say};
use crate::test_host::TestHost;

fn sessions(host: &TestHost) -> Context<&TestHost> {
    Context::new(host, Config::parse(r#"{"conversation": true}"#).unwrap())
}

fn of(session: &str, user: &str) -> Value {
    json!({"session_id": session, "user_id": user})
}

#[test]
fn a_users_values_are_attached_to_their_questions() {
    let host = TestHost::new();
    let (filter, sessions) = (filter(&host, ""), sessions(&host));
    assert_eq!(admin::read_user_values(&sessions, "anna", None).unwrap(), []);
    assert!(host.names().is_empty());
    assert!(!admin::put_user_value(&sessions, "anna", "language", Some(r#" "es""#)).unwrap(), "it is new");
    assert!(admin::put_user_value(&sessions, "anna", "language", Some(r#""es""#)).unwrap(), "it was there");
    let asked = ask(&filter, "?", &of("s", "anna"));
    assert_eq!(attached(&asked, "memory_context"), json!({"language": "es"}));
    let values = admin::read_user_values(&sessions, "anna", Some("language")).unwrap();
    assert_eq!((&*values[0].key, &*values[0].value), ("language", r#""es""#));
    assert_eq!(admin::read_user_values(&sessions, "anna", Some("other")).unwrap(), []);
    assert_eq!(admin::put_user_value(&sessions, "anna", "language", Some("es")).unwrap_err().code, "invalid");
    assert_eq!(admin::put_user_value(&sessions, "anna", "a b", None).unwrap_err().code, "invalid");
    assert_eq!(admin::put_user_value(&sessions, "", "k", Some("1")).unwrap_err().code, "invalid");
    assert!(!admin::put_user_value(&sessions, "anna@example.org", "k", Some("1")).unwrap());
    assert!(admin::put_user_value(&sessions, "anna", "language", None).unwrap());
    assert!(!admin::put_user_value(&sessions, "anna", "language", None).unwrap(), "it is gone already");
    assert_eq!(admin::read_user_values(&sessions, "anna", None).unwrap(), []);
}

#[test]
fn a_users_sessions_are_listed_newest_first() {
    let host = TestHost::new();
    let (filter, sessions) = (filter(&host, ""), sessions(&host));
    assert_eq!(admin::list_user_sessions(&sessions, "anna", None, 0).unwrap().sessions, []);
    for name in ["a", "b", "c"] {
        let asked = ask(&filter, &format!("about {name}"), &of(name, "anna"));
        reply(&filter, &format!("about {name}"), &"é".repeat(150), &asked.turn);
        host.pass(1000);
    }
    admin::delete_session(&sessions, "b").unwrap();
    let page = admin::list_user_sessions(&sessions, "anna", None, 0).unwrap();
    let shown = &page.sessions;
    let names: Vec<_> = shown.iter().map(|session| &*session.session).collect();
    assert_eq!((names, page.older), (vec!["c", "a"], None));
    assert_eq!((shown[0].title.as_deref(), shown[0].records), (Some("about c"), 2));
    assert_eq!(shown[0].preview, "é".repeat(100));
    assert_eq!((shown[0].last_at, shown[0].created_at), (1_795_186_919_032, 1_795_186_919_032), "in milliseconds");
    let first = admin::list_user_sessions(&sessions, "anna", None, 1).unwrap();
    assert_eq!((first.sessions.len(), first.older), (1, Some(2)));
    let second = admin::list_user_sessions(&sessions, "anna", first.older, 1).unwrap();
    assert_eq!((second.sessions.len(), second.older), (0, Some(1)), "what is gone is passed over");
    assert_eq!(admin::list_user_sessions(&sessions, "anna", second.older, 1).unwrap().sessions, page.sessions[1..]);
    assert_eq!(admin::list_user_sessions(&sessions, "anna", Some(u64::MAX), 0).unwrap(), page);
    assert_eq!(admin::list_user_sessions(&sessions, "anna", Some(0), 0).unwrap().sessions, []);
}

#[test]
fn forgetting_a_user_erases_their_data_and_refuses_late_answers() {
    let host = TestHost::new();
    let (filter, sessions) = (filter(&host, ""), sessions(&host));
    admin::put_user_value(&sessions, "anna", "language", Some("1")).unwrap();
    for number in 0..40 {
        let asked = ask(&filter, "secret", &of(&format!("s{number}"), "anna"));
        assert_eq!(reply(&filter, "secret", "secret", &asked.turn).effect, STORED);
    }
    let node = json!({"session_id": "s1", "user_id": "anna", "memory_mode": "node", "node_id": "n"});
    reply(&filter, "secret", "secret", &ask(&filter, "secret", &node).turn);
    // One that an entry without a user wrote to, in a session of hers.
    let node = json!({"session_id": "s2", "memory_mode": "node", "node_id": "n"});
    reply(&filter, "secret", "secret", &ask(&filter, "secret", &node).turn);
    let ben = ask(&filter, "?", &of("bens", "ben"));
    reply(&filter, "?", "!", &ben.turn);
    // A registration whose session is another's by now.
    let mut buckets = host.buckets_mut();
    let user = buckets.get_mut("User/anna").unwrap();
    user.maps.get_mut("sessions").unwrap().insert("bens".into(), r#"{"incarnation":"x"}"#.into());
    drop(buckets);
    let late = ask(&filter, "secret", &of("new", "anna"));
    let late_there = ask(&filter, "secret", &of("s3", "anna"));

    let mut done = admin::forget_user(&sessions, "anna").unwrap();
    assert!(done.remaining > 0, "{done:?}");
    let (mut gone, mut nodes) = (done.sessions, done.nodes);
    while done.remaining > 0 {
        done = admin::forget_user(&sessions, "anna").unwrap();
        gone += done.sessions;
        nodes += done.nodes;
    }
    assert_eq!((gone, nodes), (40, 2));
    for (question, session) in [(late, "new"), (late_there, "s3")] {
        assert_eq!(reply(&filter, "secret", "secret", &question.turn).effect, Effect::Ended, "{session}");
    }
    let buckets = host.buckets();
    let left: Vec<_> = buckets.keys().map(String::as_str).collect();
    assert_eq!(left, ["User/anna", "User/ben", "bens", "new"]);
    let told = format!("{:?} {:?}", buckets["User/anna"].logs, buckets["new"].logs);
    assert!(!told.contains("secret") && !told.contains("\"s"), "{told}");
    let user: Vec<_> = buckets["User/anna"].maps["user"].keys().cloned().collect();
    assert_eq!(user, ["erased", "forgotten"]);
    drop(buckets);
    // Who comes back is welcome.
    let back = ask(&filter, "1", &of("s4", "anna"));
    assert_eq!(reply(&filter, "1", "one", &back.turn).effect, STORED);
}

#[test]
fn forgetting_waits_for_the_store_at_most_8_times_for_each_32_sessions() {
    let host = TestHost::new();
    let (filter, sessions) = (filter(&host, ""), sessions(&host));
    for number in 0..64 {
        let asked = ask(&filter, "1", &of(&format!("s{number}"), "anna"));
        reply(&filter, "1", "one", &asked.turn);
        let node = json!({
            "session_id": format!("s{number}"), "user_id": "anna", "memory_mode": "node", "node_id": "n"
        });
        reply(&filter, "1", "one", &ask(&filter, "1", &node).turn);
    }
    for sessions_left in [32, 0] {
        let before = host.waits.get();
        let done = admin::forget_user(&sessions, "anna").unwrap();
        let waits = host.waits.get() - before;
        assert!(done.sessions == 32 && waits <= 8, "{done:?} in {waits} waits");
        assert_eq!(host.names().iter().filter(|name| name.starts_with('s')).count(), sessions_left);
    }
}

#[test]
fn failures_while_a_user_is_forgotten_are_retried_by_the_next_call() {
    let host = TestHost::new();
    let (filter, sessions) = (filter(&host, ""), sessions(&host));
    for number in 0..3 {
        reply(&filter, "1", "one", &ask(&filter, "1", &of(&format!("s{number}"), "anna")).turn);
    }
    for at in 1..8 {
        let before = host.transactions.get();
        host.before_each(move |host, number| {
            if number == before + at {
                host.fail("unavailable");
            }
        });
        let failed = admin::forget_user(&sessions, "anna").is_err();
        host.before_each(|_, _| {});
        host.works();
        if !failed {
            break;
        }
    }
    assert_eq!(admin::forget_user(&sessions, "anna").unwrap().remaining, 0);
    assert_eq!(host.names().len(), 1);
}

/// A turn of a user, and what is due after it.
fn turn(filter: &Filter<impl Host>, session: &str, user: &str) -> Vec<Task> {
    let asked = ask(filter, "1", &of(session, user));
    let stored = reply(filter, "1", "one", &asked.turn);
    assert_eq!(stored.effect, STORED);
    stored.due
}

/// All steps of those that note which session was used last; how many such tasks there were.
fn note(filter: &Filter<impl Host>, due: &[Task]) -> usize {
    let due: Vec<_> = due.iter().filter(|task| task.name == "activity").collect();
    for task in &due {
        assert!(task.buckets[0].kind == "user" && task.state.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        assert_eq!(steps(filter, &task.buckets, &task.state), Step::Done);
    }
    due.len()
}

fn steps(filter: &Filter<impl Host>, buckets: &[TaskBucket], state: &str) -> Step {
    let mut state = state.to_owned();
    loop {
        let job = Job { buckets, name: "activity", state: &state, holder: "h", lease_milliseconds: 1000, results: &[] };
        let progress = filter.advance(&job);
        state = progress.state.unwrap_or(state);
        if progress.step != Step::Again {
            return progress.step;
        }
    }
}

fn listed(sessions: &Context<&TestHost>, user: &str, limit: u32) -> Vec<String> {
    let (mut names, mut before) = (Vec::new(), None);
    loop {
        let page = admin::list_user_sessions(sessions, user, before, limit).unwrap();
        assert!(page.sessions.len() <= limit as usize);
        names.extend(page.sessions.iter().map(|listed| listed.session.clone()));
        assert!(page.older.is_none_or(|older| before.is_none_or(|before| older < before)), "it goes back");
        before = page.older;
        if before.is_none() {
            return names;
        }
    }
}

#[test]
fn the_session_used_last_is_the_first() {
    let host = TestHost::new();
    let (filter, sessions) = (filter(&host, ""), sessions(&host));
    for name in ["a", "b", "c"] {
        assert_eq!(note(&filter, &turn(&filter, name, "anna")), 0, "its registration notes it");
        host.pass(1000);
    }
    // Who goes on with the newest has nothing noted.
    assert_eq!(note(&filter, &turn(&filter, "c", "anna")), 0);
    let due = turn(&filter, "a", "anna");
    assert_eq!(listed(&sessions, "anna", 10), ["c", "b", "a"], "as of the last note");
    assert_eq!(note(&filter, &due), 1);
    assert_eq!(listed(&sessions, "anna", 10), ["a", "c", "b"]);
    assert_eq!(listed(&sessions, "anna", 1), ["a", "c", "b"]);
    // Done twice, it is there once.
    assert_eq!(note(&filter, &due), 1);
    assert_eq!(listed(&sessions, "anna", 2), ["a", "c", "b"]);
    host.pass(1000);
    assert_eq!(note(&filter, &turn(&filter, "b", "anna")), 1);
    assert_eq!(listed(&sessions, "anna", 10), ["b", "a", "c"]);
    // A turn of a node is a use of its session.
    host.pass(1000);
    let of_node = json!({"session_id": "c", "user_id": "anna", "memory_mode": "node", "node_id": "n"});
    for noted in [0, 0] {
        let asked = ask(&filter, "1", &of_node);
        assert_eq!(note(&filter, &reply(&filter, "1", "one", &asked.turn).due), noted);
        assert_eq!(listed(&sessions, "anna", 10)[0], "c");
    }
}

#[test]
fn stale_entries_are_dropped_from_the_list() {
    let host = TestHost::new();
    let (filter, sessions) = (filter(&host, ""), sessions(&host));
    for number in 0..5 {
        turn(&filter, &format!("s{number}"), "anna");
    }
    let length = || host.records("User/anna", "activity").len();
    for round in 0..600 {
        host.pass(10);
        assert_eq!(note(&filter, &turn(&filter, &format!("s{}", round % 3), "anna")), 1);
        assert!(length() <= 5 + 512, "{round}: {}", length());
    }
    assert_eq!(listed(&sessions, "anna", 10), ["s2", "s1", "s0", "s4", "s3"]);
    assert_eq!(listed(&sessions, "anna", 1), ["s2", "s1", "s0", "s4", "s3"]);
    // With an empty state it is done at once, and nothing else is.
    assert_eq!(steps(&filter, &buckets("user anna"), ""), Step::Done);
    assert_eq!(length(), 5);
    assert_eq!(steps(&filter, &buckets("user anna"), ""), Step::Done);
    assert_eq!(listed(&sessions, "anna", 10), ["s2", "s1", "s0", "s4", "s3"]);
    // Answers without questions register each time.
    for _ in 0..600 {
        host.pass(10);
        let stored = say(&filter, "1", "one", "", &of("s3", "anna"));
        assert_eq!(stored.effect, STORED);
        note(&filter, &stored.due);
        assert!(length() <= 5 + 512, "{}", length());
    }
    assert_eq!(listed(&sessions, "anna", 10)[0], "s3");
}

#[test]
fn forgotten_users_and_unregistered_sessions_leave_no_activity() {
    let host = TestHost::new();
    let (filter, sessions) = (filter(&host, ""), sessions(&host));
    turn(&filter, "a", "anna");
    turn(&filter, "b", "anna");
    host.pass(1000);
    let due = turn(&filter, "a", "anna");
    let state = &due.iter().find(|task| task.name == "activity").unwrap().state;
    while admin::forget_user(&sessions, "anna").unwrap().remaining > 0 {}
    assert_eq!(steps(&filter, &buckets("user anna"), state), Step::Ended);
    // Who comes back is noted, and what was on its way from before is not.
    host.pass(1000);
    for name in ["a", "c"] {
        turn(&filter, name, "anna");
        host.pass(1000);
    }
    assert_eq!(steps(&filter, &buckets("user anna"), state), Step::Ended);
    assert_eq!(listed(&sessions, "anna", 10), ["c", "a"]);
    let due = turn(&filter, "a", "anna");
    let now = due.iter().find(|task| task.name == "activity").unwrap();
    for (state, step) in [
        (now.state.clone(), Step::Done),
        (now.state.replacen('a', "never-seen", 1), Step::Ended),
        ("a".into(), Step::Failed),
        ("../a life-1 17.0".into(), Step::Failed),
        ("a life-1 x".into(), Step::Failed),
        ("a  17.0".into(), Step::Failed),
    ] {
        assert_eq!(steps(&filter, &buckets("user anna"), &state), step, "{state}");
    }
    assert_eq!(steps(&filter, &buckets("session a"), &now.state), Step::Failed);
    assert_eq!(steps(&filter, &buckets("user nobody"), ""), Step::Ended);
    assert!(!host.names().iter().any(|name| name == "User/nobody"));
}

#[test]
fn sessions_created_while_a_user_is_forgotten_stay_listed_until_the_next_call() {
    // At whichever transaction of the call somebody comes in between.
    for at in 1..30 {
        let host = TestHost::new();
        let (quiet, sessions) = (filter(&host, ""), sessions(&host));
        for name in ["a", "b"] {
            turn(&quiet, name, "anna");
        }
        let node = json!({"session_id": "a", "user_id": "anna", "memory_mode": "node", "node_id": "n"});
        reply(&quiet, "secret", "secret", &ask(&quiet, "secret", &node).turn);
        host.pass(1000);
        let before = host.transactions.get();
        host.before_each(move |host, number| {
            if number == before + at {
                let filter = filter(host, "");
                for metadata in [of("a", "anna"), node.clone()] {
                    let asked = ask(&filter, "secret", &metadata);
                    reply(&filter, "secret", "secret", &asked.turn);
                }
            }
        });
        let mut done = admin::forget_user(&sessions, "anna").unwrap();
        host.before_each(|_, _| {});
        let is_over = host.transactions.get() < before + at;
        // Whatever there is of the user, the user's lists lead to it.
        if host.names().iter().any(|name| name == "a") {
            let of_user = host.bucket("User/anna").maps.get("sessions").cloned().unwrap_or_default();
            assert!(of_user.contains_key("a"), "{at}");
        }
        host.pass(1000);
        for _ in 0..3 {
            done = admin::forget_user(&sessions, "anna").unwrap();
        }
        assert_eq!(done.remaining, 0);
        let left: Vec<_> = host.names();
        assert_eq!(left, ["User/anna"], "{at}");
        let told = format!("{:?}", host.bucket("User/anna").logs);
        assert!(!told.contains("\"a\""), "{told}");
        if is_over {
            return;
        }
    }
    panic!("a call has fewer transactions than that");
}

#[test]
fn an_answer_without_a_question_counts_as_late_for_a_day() {
    let host = TestHost::new();
    let (filter, sessions) = (filter(&host, ""), sessions(&host));
    let asked = ask(&filter, "1", &of("asked", "anna"));
    admin::forget_user(&sessions, "anna").unwrap();
    let answer = |session: &str| say(&filter, "1", "one", "", &of(session, "anna")).effect;
    assert_eq!(answer("s"), Effect::Ended);
    host.pass(86_399_000);
    assert_eq!(answer("s"), Effect::Ended);
    host.pass(2000);
    assert_eq!(answer("s"), STORED);
    assert_eq!(listed(&sessions, "anna", 10), ["s"]);
    // One whose question was asked before the tombstone is late whenever it comes.
    assert_eq!(reply(&filter, "1", "one", &asked.turn).effect, Effect::Ended);
}

#[test]
fn entries_of_a_new_owner_do_not_reach_nodes_of_the_previous_owner() {
    let host = TestHost::new();
    let (filter, sessions) = (filter(&host, ""), sessions(&host));
    let of_node = |user: &str| json!({"session_id": "s", "user_id": user, "memory_mode": "node", "node_id": "n"});
    reply(&filter, "secret", "secret", &ask(&filter, "secret", &of_node("anna")).turn);
    // Its time is over, that of its node is not.
    host.buckets_mut().remove("s");
    turn(&filter, "s", "ben");
    let asked = ask(&filter, "1", &of_node("ben"));
    assert_eq!((asked.effect, asked.metadata.is_some_and(|it| it.contains("secret"))), (Effect::Foreign, false));
    assert_eq!(say(&filter, "1", "one", "", &of_node("ben")).effect, Effect::Foreign);
    // The session is Ben's by now, the node is not.
    let node = TranscriptId { session: "s", node_id: Some("n"), ..TranscriptId::default() };
    assert_eq!(admin::describe_transcript(&sessions, &node).unwrap().owner.as_deref(), Some("anna"));
    let done = admin::forget_user(&sessions, "anna").unwrap();
    assert_eq!((done.sessions, done.nodes, done.remaining), (0, 1, 0));
    let left: Vec<_> = host.names();
    assert_eq!(left, ["User/anna", "User/ben", "s"]);
    assert_eq!(entry(&host, "session", "owner").unwrap(), "ben");
}

#[test]
fn a_session_is_deleted_with_its_nodes() {
    let host = TestHost::new();
    let (filter, sessions) = (filter(&host, ""), sessions(&host));
    for node in 0..40 {
        let of_node = json!({"session_id": "s", "memory_mode": "node", "node_id": node.to_string()});
        reply(&filter, "secret", "secret", &ask(&filter, "secret", &of_node).turn);
    }
    assert_eq!(host.names().len(), 41);
    host.page.set(7);
    admin::delete_session(&sessions, "s").unwrap();
    assert_eq!(host.names().len(), 0);
}

#[test]
fn a_first_answer_is_refused_if_its_user_is_forgotten_before_it_is_stored() {
    let of_node =
        |session: &str| json!({"session_id": session, "user_id": "anna", "memory_mode": "node", "node_id": "n"});
    // With a question before them and without, each at whichever transaction the user is forgotten.
    for (metadata, has_question) in
        [(of("s", "anna"), true), (of("s", "anna"), false), (of_node("s"), true), (of_node("s"), false)]
    {
        for at in 1..7 {
            let host = TestHost::new();
            let filter = filter(&host, "");
            let turn = if has_question { ask(&filter, "secret", &metadata).turn } else { String::new() };
            let before = host.transactions.get();
            host.before_each(move |host, number| {
                if number == before + at {
                    while admin::forget_user(&sessions(host), "anna").unwrap().remaining > 0 {}
                }
            });
            let answered = say(&filter, "secret", "secret", &turn, &metadata);
            host.before_each(|_, _| {});
            if host.transactions.get() < before + at {
                assert_eq!(answered.effect, STORED);
                break;
            }
            // A title that comes with a transaction of its own comes after the answer.
            let is_stored = at == 4 && !has_question && metadata["memory_mode"].is_null();
            let expected = if is_stored { STORED } else { Effect::Ended };
            assert_eq!(answered.effect, expected, "{metadata} {has_question} {at}");
            let told: String = host.buckets().values().map(|it| format!("{:?} {:?}", it.maps, it.logs)).collect();
            assert!(!told.contains("secret") && !told.contains("owner"), "{metadata} {has_question} {at}: {told}");
        }
    }
}
