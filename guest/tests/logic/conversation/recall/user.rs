//! Recall over all of a user's sessions: what was said in one comes back in the next, and nothing outlives what it is a
//! copy of, whoever is interrupted when.

mod forgotten;
mod within;

use crate::admin_calls as admin;
use keepline_filter::contract::FailureCode;
use keepline_filter::tasks::job::Step;
use keepline_filter::transcript::address::TranscriptId;
use keepline_filter::{Config, Context, Filter, Host};
use serde_json::{Value, json};

use super::super::tasks::{Work, buckets};
use super::super::{STORED, ask, attached, filter, reply};
use crate::test_host::TestHost;

const OPTIONS: &str = r#""recall": "user", "summaries": false"#;

fn of(user: &str, session: &str) -> Value {
    json!({"session_id": session, "user_id": user})
}

/// A turn of a session, and its deferred work.
fn talk(filter: &Filter<impl Host>, user: &str, session: &str, text: &str) {
    let asked = ask(filter, text, &of(user, session));
    let done = reply(filter, text, "Well.", &asked.turn);
    assert_eq!(done.effect, STORED);
    finish(filter, &mut Work::of(&done.due, "recall"));
}

fn finish(filter: &Filter<impl Host>, work: &mut Work) -> Step {
    for _ in 0..1000 {
        match work.step(filter, "h", None) {
            progress if progress.step == Step::Again => {}
            progress => return progress.step,
        }
    }
    panic!("it never ends");
}

fn work(session: &str, name: &'static str) -> Work {
    Work { buckets: buckets(&format!("session {session}, user anna")), name, state: String::new() }
}

fn recalled(filter: &Filter<impl Host>, metadata: &Value, question: &str) -> Vec<String> {
    let found = attached(&ask(filter, question, metadata), "memory_recall");
    let passages = found["passages"].as_array().cloned().unwrap_or_default();
    passages.iter().map(|passage| passage["text"].as_str().unwrap().to_owned()).collect()
}

fn sessions(host: &TestHost) -> Context<&TestHost> {
    Context::new(host, Config::parse(&format!("{{\"conversation\": true, {OPTIONS}}}")).unwrap())
}

fn transcript(session: &str) -> TranscriptId<'_> {
    TranscriptId { session, ..TranscriptId::default() }
}

/// All texts of all buckets.
fn everything(host: &TestHost) -> String {
    let buckets = host.buckets();
    buckets.iter().map(|(name, bucket)| format!("{name} {:?} {:?}\n", bucket.logs, bucket.maps)).collect()
}

fn documents(host: &TestHost) -> usize {
    host.bucket("User/anna").indexes.get("recall").copied().unwrap_or_default()
}

#[test]
fn passages_of_one_session_are_found_in_the_next() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, "anna", "one", "Our dog is called Bello.");
    talk(&filter, "ben", "other", "Our dog is called Rex.");
    let asked = ask(&filter, "How is the dog called?", &of("anna", "two"));
    let found = attached(&asked, "memory_recall");
    let first = &found["passages"][0];
    assert_eq!((&first["text"], &first["session"]), (&json!("Our dog is called Bello."), &json!("one")));
    assert!(!found.to_string().contains("Rex"));
    // Its own window has it.
    assert_eq!(recalled(&filter, &of("anna", "one"), "dog?"), [""; 0]);
    // Nobody's, and another user's, sessions get nothing of it.
    assert_eq!(recalled(&filter, &json!({"session_id": "three"}), "dog?"), [""; 0]);
    assert_eq!(recalled(&filter, &of("carl", "four"), "dog?"), [""; 0]);
}

#[test]
fn user_recall_costs_a_question_one_more_wait_and_an_answer_none() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, "anna", "one", "Our dog is called Bello.");
    let waits = |question: &str, metadata: &Value| {
        let before = host.waits.get();
        let asked = ask(&filter, question, metadata);
        (host.waits.get() - before, attached(&asked, "memory_recall") != Value::Null)
    };
    assert_eq!(waits("dog?", &of("anna", "two")), (2, true));
    assert_eq!(waits("Zanzibar?", &of("anna", "two")), (1, false));
    let asked = ask(&filter, "And now?", &of("anna", "one"));
    let before = host.waits.get();
    let done = reply(&filter, "And now?", "Nothing.", &asked.turn);
    assert_eq!((done.effect, host.waits.get() - before), (STORED, 1));
    // Reading both buckets, and writing to one while the lease is given back.
    let before = host.waits.get();
    assert_eq!(finish(&filter, &mut Work::of(&done.due, "recall")), Step::Done);
    assert_eq!(host.waits.get() - before, 2);
}

#[test]
fn many_sessions_are_compacted_together_and_found() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, "anna", "s0", "Our dog is called Bello.");
    for number in 0..150 {
        talk(&filter, "anna", &format!("s{}", number % 7), &format!("remark {number} about nothing much"));
    }
    assert!(documents(&host) >= 128, "{}", documents(&host));
    assert_eq!(recalled(&filter, &of("anna", "new"), "Who is called Bello?")[0], "Our dog is called Bello.");
    // Each message once.
    assert_eq!(host.records("User/anna", "passages").len(), 2 * 151);
}

#[test]
fn a_correction_at_any_point_of_indexing_erases_the_old_text() {
    // The deferred work, with a correction before each of its calls of the store.
    for (is_kept, is_second) in [(false, false), (true, false), (false, true)] {
        for call in 1..40 {
            let host = TestHost::new();
            let filter = filter(&host, OPTIONS);
            talk(&filter, "anna", "one", "A first word.");
            let asked = ask(&filter, "Our dog is called Bello.", &of("anna", "one"));
            let due = reply(&filter, "Our dog is called Bello.", "Well.", &asked.turn).due;
            if is_second {
                finish(&filter, &mut Work::of(&due, "recall"));
                admin::rewrite_message(&sessions(&host), &transcript("one"), 0, None).unwrap();
            }
            let begin = host.transactions.get();
            host.before_each(move |host, count| {
                if count == begin + call {
                    let text = is_kept.then_some("Our dog is called Rex.");
                    admin::rewrite_message(&sessions(host), &transcript("one"), 2, text).unwrap();
                    let theirs = format!("{:?}", host.bucket("User/anna").logs);
                    assert!(!theirs.contains("Bello"), "{theirs}");
                }
            });
            for _ in 0..3 {
                finish(&filter, &mut work("one", "recall"));
            }
            let was_late = host.transactions.get() < begin + call;
            host.before_each(|_, _| {});
            if was_late {
                admin::rewrite_message(&sessions(&host), &transcript("one"), 2, None).unwrap();
            }
            finish(&filter, &mut work("one", "recall"));
            let all = everything(&host);
            assert!(!all.lines().any(|line| line.starts_with("User") && line.contains("Bello")), "{call} {all}");
            let found = recalled(&filter, &of("anna", "two"), "How is the dog called?");
            let has_new = found.iter().any(|text| text.contains("Rex"));
            assert_eq!(has_new, is_kept && !was_late, "{call} {found:?} {all}");
        }
    }
}

#[test]
fn an_interrupted_correction_is_applied_fully_or_not_at_all() {
    for call in 1..30 {
        let host = TestHost::new();
        let filter = filter(&host, OPTIONS);
        talk(&filter, "anna", "one", "Our dog is called Bello.");
        talk(&filter, "anna", "one", "And the cat Mia.");
        let begin = host.transactions.get();
        host.before_each(move |host, count| {
            // Nobody reaches the store from then on; before it, somebody else does the deferred work.
            if count == begin + call {
                host.fail(FailureCode::Unavailable);
            }
        });
        let done = admin::rewrite_message(&sessions(&host), &transcript("one"), 0, None);
        host.before_each(|_, _| {});
        host.works();
        for _ in 0..3 {
            finish(&filter, &mut work("one", "recall"));
        }
        let said = recalled(&filter, &of("anna", "two"), "How is the dog called? And the cat?");
        let is_there = everything(&host).lines().any(|line| line.starts_with("one ") && line.contains("dog is called"));
        assert_eq!(is_there, done.is_err(), "{call}");
        assert_eq!(said.iter().any(|text| text.contains("Bello")), is_there, "{call} {said:?}");
        assert!(said.iter().any(|text| text.contains("Mia")), "{call} {said:?}");
        if done.is_ok() {
            assert!(call > 3 && !everything(&host).contains("Bello"));
            return;
        }
    }
    panic!("it never ends");
}

#[test]
fn deferred_work_during_a_correction_does_not_restore_the_old_text() {
    let corrections = [("remove", 20), ("clear", 20), ("set", 20), ("delete", 10)];
    for (what, last, resets) in
        corrections.iter().flat_map(|(what, last)| [(*what, *last, false), (*what, *last, true)])
    {
        for call in 1..last {
            let host = TestHost::new();
            let filter = filter(&host, OPTIONS);
            talk(&filter, "anna", "one", "Our dog is called Bello.");
            talk(&filter, "anna", "other", "And the cat Mia.");
            let begin = host.transactions.get();
            host.before_each(move |host, count| {
                if count == begin + call {
                    let filter = super::super::filter(host, OPTIONS);
                    if resets {
                        finish(&filter, &mut work("one", "recall-reset"));
                    }
                    finish(&filter, &mut work("one", "recall"));
                    finish(&filter, &mut work("one", "recall"));
                }
            });
            let sessions = sessions(&host);
            let message = r#"{"role": "user", "content": "A parrot."}"#.to_owned();
            match what {
                "remove" => drop(admin::rewrite_message(&sessions, &transcript("one"), 0, None).unwrap()),
                "clear" => drop(admin::clear_messages(&sessions, &transcript("one"), None).unwrap()),
                "set" => drop(admin::set_messages(&sessions, &transcript("one"), &[message], None).unwrap()),
                _ => drop(admin::delete_session(&sessions, "one").unwrap()),
            }
            host.before_each(|_, _| {});
            assert!(!everything(&host).contains("Bello"), "{what} {call} {}", everything(&host));
            finish(&filter, &mut work("one", "recall"));
            assert!(!everything(&host).contains("Bello"), "{what} {call} {}", everything(&host));
            let found = recalled(&filter, &of("anna", "two"), "dog, cat or parrot?");
            assert!(found.iter().any(|text| text.contains("Mia")), "{what} {call} {found:?}");
            assert_eq!(found.iter().any(|text| text.contains("parrot")), what == "set", "{what} {call} {found:?}");
        }
    }
}

#[test]
fn indexing_does_not_restore_a_session_deleted_meanwhile() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    let asked = ask(&filter, "Our dog is called Bello.", &of("anna", "one"));
    reply(&filter, "Our dog is called Bello.", "Well.", &asked.turn);
    let begin = host.transactions.get();
    host.before_each(move |host, count| {
        // What it needs is read: of the session, then of the user.
        if count == begin + 3 {
            admin::delete_session(&sessions(host), "one").unwrap();
        }
    });
    assert_eq!(work("one", "recall").step(&filter, "h", None).step, Step::Taken);
    host.before_each(|_, _| {});
    assert!(!everything(&host).contains("Bello"));
    // A new session of that name is another one, and is remembered again.
    talk(&filter, "anna", "one", "Our dog is called Rex.");
    assert_eq!(recalled(&filter, &of("anna", "two"), "dog?")[0], "Our dog is called Rex.");
}

#[test]
fn passages_outlive_the_end_of_a_session_but_not_its_deletion() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, "anna", "one", "Our dog is called Bello.");
    host.end("one");
    talk(&filter, "anna", "one", "Our cat is called Mia.");
    let asked = of("anna", "two");
    assert_eq!(recalled(&filter, &asked, "dog?")[0], "Our dog is called Bello.");
    assert_eq!(recalled(&filter, &asked, "cat?")[0], "Our cat is called Mia.");
    // To the session of that name, too: it is another one.
    assert_eq!(recalled(&filter, &of("anna", "one"), "dog?")[0], "Our dog is called Bello.");
    admin::rewrite_message(&sessions(&host), &transcript("one"), 0, None).unwrap();
    assert_eq!(recalled(&filter, &asked, "dog?")[0], "Our dog is called Bello.");
    assert!(!everything(&host).contains("Mia"));
    admin::delete_session(&sessions(&host), "one").unwrap();
    assert!(!everything(&host).contains("Bello"));
    assert_eq!(recalled(&filter, &asked, "dog?"), [""; 0]);
}

#[test]
fn removed_records_are_not_recalled_in_their_session() {
    let host = TestHost::new();
    let filter = filter(&host, &format!("{OPTIONS}, \"max_session_messages\": 20"));
    for number in 0..40 {
        let text = if number == 0 { "Our dog is called Bello." } else { &*format!("remark {number} about nothing") };
        let asked = ask(&filter, text, &of("anna", "one"));
        let due = reply(&filter, text, "Well.", &asked.turn).due;
        for name in ["retention", "recall"] {
            if due.iter().any(|task| task.name == name) {
                finish(&filter, &mut Work::of(&due, name));
            }
        }
    }
    let mut asking = of("anna", "one");
    asking["memory"] = json!({"window": false});
    assert_eq!(recalled(&filter, &asking, "dog?"), [""; 0]);
    assert_eq!(recalled(&filter, &asking, "remark 30?")[0], "remark 30 about nothing");
    // The copy stays, as those of sessions do that have ended.
    assert_eq!(recalled(&filter, &of("anna", "two"), "dog?")[0], "Our dog is called Bello.");
}

#[test]
fn indexing_does_not_restore_a_user_forgotten_meanwhile() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, "anna", "old", "Our dog is called Bello.");
    let asked = ask(&filter, "Our cat is called Mia.", &of("anna", "one"));
    reply(&filter, "Our cat is called Mia.", "Well.", &asked.turn);
    let begin = host.transactions.get();
    host.before_each(move |host, count| {
        if count == begin + 3 {
            assert_eq!(admin::forget_user(&sessions(host), "anna").unwrap().remaining, 0);
        }
    });
    assert_eq!(work("one", "recall").step(&filter, "h", None).step, Step::Ended);
    host.before_each(|_, _| {});
    let all = everything(&host);
    assert!(!all.contains("Bello") && !all.contains("Mia"), "{all}");
    talk(&filter, "anna", "new", "Our bird is called Bo.");
    assert_eq!(recalled(&filter, &of("anna", "two"), "dog, cat or bird?")[0], "Our bird is called Bo.");
}

#[test]
fn copies_are_renewed_after_changes_by_programs_that_ignore_them() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, "anna", "one", "Our dog is called Bello.");
    // By a program that knows nothing of copies.
    let (text, revision) = (r#"{"removed":true}"#, "1");
    {
        let mut buckets = host.buckets_mut();
        let bucket = buckets.get_mut("one").unwrap();
        bucket.logs.get_mut("transcript").unwrap().1[0] = text.to_owned();
        bucket.maps.get_mut("session").unwrap().insert("revision".into(), revision.to_owned());
    }
    assert_eq!(finish(&filter, &mut work("one", "recall")), Step::Done);
    let theirs = format!("{:?}", host.bucket("User/anna").logs);
    assert!(!theirs.contains("Bello") && theirs.contains("Well."), "{theirs}");
}

#[test]
fn the_index_is_rebuilt_and_dropped_on_demand() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    for number in 0..100 {
        talk(&filter, "anna", "one", &format!("Dog number {number} is called Bello."));
        talk(&filter, "anna", "other", &format!("remark {number}"));
    }
    let before = documents(&host);
    assert!(before > 100);
    assert_eq!(finish(&filter, &mut work("one", "recall-reset")), Step::Done);
    let theirs = format!("{:?}", host.bucket("User/anna").logs);
    assert!(!theirs.contains("Bello") && theirs.contains("remark 99"));
    assert_eq!(finish(&filter, &mut work("one", "recall")), Step::Done);
    let found = recalled(&filter, &of("anna", "two"), "Which dogs are called Bello?");
    assert_eq!(found.iter().filter(|text| text.contains("Bello")).count(), 100);
    // Of a session that has ended, too.
    host.end("one");
    assert_eq!(finish(&filter, &mut work("one", "recall-reset")), Step::Done);
    assert!(!everything(&host).contains("Bello"));
    assert!(recalled(&filter, &of("anna", "two"), "remark 7?")[0].starts_with("remark"));
}

#[test]
fn passages_older_than_the_option_are_neither_found_nor_kept() {
    let host = TestHost::new();
    let filter = filter(&host, &format!("{OPTIONS}, \"recall_ttl_hours\": 24"));
    talk(&filter, "anna", "one", "Our dog is called Bello.");
    assert_eq!(recalled(&filter, &of("anna", "two"), "dog?")[0], "Our dog is called Bello.");
    host.pass(25 * 3_600_000);
    assert_eq!(recalled(&filter, &of("anna", "two"), "dog?"), [""; 0]);
    talk(&filter, "anna", "three", "Our cat is called Mia.");
    let theirs = format!("{:?}", host.bucket("User/anna").logs);
    assert!(!theirs.contains("Bello") && theirs.contains("Mia"), "{theirs}");
}

#[test]
fn copies_can_end_with_their_session() {
    let host = TestHost::new();
    let filter = filter(&host, &format!("{OPTIONS}, \"recall_life\": \"session\", \"session_ttl_hours\": 2"));
    talk(&filter, "anna", "one", "Our dog is called Bello.");
    host.pass(3_600_000);
    talk(&filter, "anna", "two", "Our cat is called Mia.");
    let asked = of("anna", "three");
    assert_eq!(recalled(&filter, &asked, "dog?")[0], "Our dog is called Bello.");
    // To the millisecond.
    let left = host.bucket("one").expires_at.unwrap() - host.micros.get() / 1000;
    host.pass(left - 1);
    assert_eq!(recalled(&filter, &asked, "dog?")[0], "Our dog is called Bello.");
    host.pass(1);
    assert_eq!(recalled(&filter, &asked, "dog?"), [""; 0]);
    assert_eq!(recalled(&filter, &asked, "cat?")[0], "Our cat is called Mia.");
    // Whoever is at work next drops it, and the name is free for another.
    let has_bello = || format!("{:?}", host.bucket("User/anna").logs).contains("Bello");
    assert!(has_bello());
    talk(&filter, "anna", "two", "Indeed.");
    assert!(!has_bello());
    talk(&filter, "anna", "one", "Our bird is called Bo.");
    assert_eq!(recalled(&filter, &asked, "bird?")[0], "Our bird is called Bo.");
}

#[test]
fn deleting_a_session_erases_its_copies_even_without_conversation() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, "anna", "one", "Our dog is called Bello.");
    admin::delete_session(&Context::new(&host, Config::parse("{}").unwrap()), "one").unwrap();
    assert_eq!(recalled(&filter, &of("anna", "two"), "dog?"), [""; 0]);
    assert!(!everything(&host).contains("Bello"));
}

#[test]
fn without_a_user_a_session_recalls_its_own_messages() {
    let host = TestHost::new();
    let filter = filter(&host, &format!("{OPTIONS}, \"max_context_tokens\": 64"));
    let own = json!({"session_id": "own"});
    for text in ["Our dog is called Bello.", "one thing", "another thing", "and a third one"] {
        let asked = ask(&filter, text, &own);
        let due = reply(&filter, text, "Well.", &asked.turn).due;
        assert_eq!(finish(&filter, &mut Work::of(&due, "recall")), Step::Done);
    }
    assert_eq!(recalled(&filter, &own, "How is the dog called?")[0], "Our dog is called Bello.");
    // What an entry does not name, its session's owner gets when one does.
    talk(&filter, "anna", "one", "The cat is called Mia.");
    let asked = ask(&filter, "The bird is called Bo.", &json!({"session_id": "one"}));
    let due = reply(&filter, "The bird is called Bo.", "Well.", &asked.turn).due;
    assert_eq!(finish(&filter, &mut Work::of(&due, "recall")), Step::Done);
    assert_eq!(recalled(&filter, &of("anna", "two"), "bird?"), [""; 0]);
    talk(&filter, "anna", "one", "Yes.");
    assert!(recalled(&filter, &of("anna", "two"), "bird?").contains(&"The bird is called Bo.".to_owned()));
}

#[test]
fn work_that_names_another_user_does_nothing() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, "anna", "one", "Our dog is called Bello.");
    talk(&filter, "ben", "other", "Hello.");
    let mut foreign = Work { buckets: buckets("session one, user ben"), name: "recall", state: String::new() };
    assert_eq!(finish(&filter, &mut foreign), Step::Ended);
    assert!(!format!("{:?}", host.bucket("User/ben").logs).contains("Bello"));
    assert!(host.leases("one").values().all(|(_, until)| *until <= host.micros.get() / 1000));
    for named in ["node one, user anna", "session one, user ", "session one, user a b", "user anna, user anna"] {
        let mut wrong = Work { buckets: buckets(named), name: "recall", state: String::new() };
        assert_eq!(wrong.step(&filter, "h", None).step, Step::Failed, "{named}");
    }
    let mut title = work("one", "title");
    assert_eq!(title.step(&filter, "h", None).step, Step::Failed);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn arbitrary_stored_data_does_not_break_recall(
        passage in ".{0,30}|\\{\"p\":[0-9]{1,20},\"at\":[0-9]{1,3},\"role\":\"user\",\"session\":\"one\",\"text\":\"dog\"\\}",
        posted in "life-1 [0-9] [0-9 ]{0,12}|.{0,9}| life-1 [0-9]{0,3}", question in ".{0,30}",
    ) {
        let host = TestHost::new();
        let filter = filter(&host, OPTIONS);
        talk(&filter, "anna", "one", "Our dog is called Bello.");
        {
            let mut buckets = host.buckets_mut();
            let bucket = buckets.get_mut("User/anna").unwrap();
            bucket.logs.get_mut("passages").unwrap().1.push(passage);
            bucket.logs.get_mut("terms").unwrap().1.push("x".into());
            bucket.maps.get_mut("posted").unwrap().insert("one".into(), posted);
        }
        ask(&filter, &question, &of("anna", "two"));
        finish(&filter, &mut work("one", "recall"));
        finish(&filter, &mut work("one", "recall-reset"));
        finish(&filter, &mut work("one", "recall"));
        let found = recalled(&filter, &of("anna", "two"), "Who is called Bello?");
        proptest::prop_assert!(found.contains(&"Our dog is called Bello.".to_owned()), "{:?}", found);
    }
}
