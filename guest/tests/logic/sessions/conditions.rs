//! Conditions of writing calls: whose the session has to be, the id under which a call counts once, and what has to be there.

use keepline_filter::ExpectedValue;
use keepline_filter::admin::conditions::{Conditions, EXPECTED_VALUE, OwnedHost};
use keepline_filter::contract::Member;
use keepline_filter::contract::transcripts::TranscriptSettings;
use keepline_filter::transcript::address::TranscriptId;

use super::*;
use crate::admin_calls as admin;
use crate::filter::Filter;

const S: TranscriptId<'static> = TranscriptId { session: "s", app_id: None, node_id: None };

/// The sessions of Anna.
fn annas(host: &TestHost) -> Context<OwnedHost<&TestHost>> {
    let host = OwnedHost::new(host, "s", Some("anna".into()));
    Context::new(host, Config::parse(r#"{"conversation": true}"#).unwrap())
}

fn messages(of: &str) -> Vec<String> {
    let message = |role: &str| format!(r#"{{"role": "{role}", "content": "{of}'s"}}"#);
    vec![message("user"), message("assistant")]
}

/// The session begins anew, as somebody's.
fn begin(host: &TestHost, owner: Option<&str>) {
    if host.names().contains(&"s".into()) {
        host.end("s");
    }
    let sessions = Context::new(host, Config::parse(r#"{"conversation": true}"#).unwrap());
    admin::create_session(&sessions, "s").unwrap();
    admin::set_messages(&sessions, &S, &messages(owner.unwrap_or("nobody")), None).unwrap();
    admin::put_value(&sessions, "s", "k", "1").unwrap();
    if let Some(owner) = owner {
        host.put("s", "session", "owner", owner);
    }
}

type OwnedCall = fn(&Context<OwnedHost<&TestHost>>) -> Result<(), Box<Problem>>;

/// Each that writes to a session.
const CALLS: [(&str, OwnedCall); 11] = [
    ("put", |s| admin::put_value(s, "s", "k", "2").map(drop)),
    ("clear", |s| admin::clear_values(s, "s", Some("k")).map(drop)),
    ("clear all", |s| admin::clear_values(s, "s", None).map(drop)),
    ("increment", |s| admin::increment_value(s, "s", "k", 1).map(drop)),
    ("increment answer_count", |s| admin::increment_value(s, "s", "answer_count", 1).map(drop)),
    ("delete", |s| admin::delete_session(s, "s").map(drop)),
    ("rewrite", |s| admin::rewrite_message(s, &S, 0, Some("other")).map(drop)),
    ("clear messages", |s| admin::clear_messages(s, &S, None).map(drop)),
    ("set messages", |s| admin::set_messages(s, &S, &messages("new"), None).map(drop)),
    ("set title", |s| admin::set_title(s, &S, Some("title")).map(drop)),
    ("set settings", |s| {
        let settings = TranscriptSettings {
            max_context_tokens: Some(5000),
            context_window: None,
            reserve_tokens: None,
            model: None,
        };
        admin::set_settings(s, &S, &settings)
    }),
];

#[test]
fn a_session_of_another_owner_is_absent_for_every_call_that_writes() {
    for (what, call) in CALLS {
        let host = TestHost::new();
        let absent = call(&annas(&host)).unwrap_err();
        assert_eq!(absent.code, "not-found", "{what}");
        for owner in [Some("boris"), None] {
            begin(&host, owner);
            let before = host.bucket("s");
            assert_eq!(call(&annas(&host)).unwrap_err(), absent, "{what}");
            assert_eq!(host.bucket("s"), before, "{what}");
        }
        begin(&host, Some("anna"));
        call(&annas(&host)).unwrap();
    }
}

/// The session ends and begins again as another user's, before each of a call's transactions.
#[test]
fn a_session_that_changes_its_owner_during_a_call_is_not_written_to() {
    for (what, call) in CALLS {
        for swapped in 1.. {
            let host = TestHost::new();
            begin(&host, Some("anna"));
            host.transactions.set(0);
            let reached = std::rc::Rc::new(std::cell::Cell::new(false));
            let noted = reached.clone();
            host.before_each(move |host, n| {
                if n == swapped && !noted.replace(true) {
                    begin(host, Some("boris"));
                }
            });
            let done = call(&annas(&host));
            if !reached.get() {
                assert!(swapped > 1, "{what} is a transaction");
                done.unwrap();
                break;
            }
            host.before_each(|_, _| {});
            let left = host.bucket("s");
            begin(&host, Some("boris"));
            let fresh = host.bucket("s");
            assert_eq!((left.maps.get("values"), left.maps.get("session").map(|map| &map["owner"])), {
                (fresh.maps.get("values"), fresh.maps.get("session").map(|map| &map["owner"]))
            });
            let texts = |bucket: &crate::test_host::Bucket| format!("{:?}", bucket.logs["transcript"].1.len());
            assert_eq!(texts(&left), texts(&fresh), "{what}, before transaction {swapped}");
            assert!(left.logs["transcript"].1.iter().all(|record| record.contains("boris's")), "{what}");
        }
    }
}

const N: TranscriptId<'static> = TranscriptId { node_id: Some("n"), ..S };

/// Each that writes to a node.
const NODE_CALLS: [(&str, OwnedCall); 5] = [
    ("rewrite", |s| admin::rewrite_message(s, &N, 0, Some("other")).map(drop)),
    ("clear messages", |s| admin::clear_messages(s, &N, None).map(drop)),
    ("clear a branch", |s| admin::clear_messages(s, &N, Some(0)).map(drop)),
    ("set messages", |s| admin::set_messages(s, &N, &messages("new"), None).map(drop)),
    ("append messages", |s| admin::set_messages(s, &N, &messages("new"), Some(2)).map(drop)),
];

/// The nodes of Anna's sessions.
fn annas_nodes(host: &TestHost) -> Context<OwnedHost<&TestHost>> {
    annas(host).with_owner(Some("anna".into()))
}

/// Anna's session has a node that is somebody's; its name.
fn begin_node(host: &TestHost, owner: Option<&str>) -> String {
    begin(host, Some("anna"));
    let names = host.names();
    if let Some(node) = names.iter().find(|name| name.starts_with("Node/")) {
        host.end(node);
    }
    let sessions = Context::new(host, Config::parse(r#"{"conversation": true}"#).unwrap());
    admin::set_messages(&sessions, &N, &messages(owner.unwrap_or("nobody")), None).unwrap();
    let node = host.names().into_iter().find(|name| name.starts_with("Node/")).unwrap();
    if let Some(owner) = owner {
        host.put(&node, "session", "owner", owner);
    }
    node
}

#[test]
fn a_node_of_another_owner_is_absent_for_every_call_that_writes() {
    for (what, call) in NODE_CALLS {
        let host = TestHost::new();
        let node = begin_node(&host, Some("boris"));
        let before = host.bucket(&node);
        let refused = call(&annas_nodes(&host)).unwrap_err();
        assert_eq!((&*refused.code, &*refused.subject), ("not-found", "node"), "{what}");
        assert!(refused.message.contains("'s'") && host.bucket(&node) == before, "{what}: {refused:?}");
        for owner in [Some("anna"), None] {
            let node = begin_node(&host, owner);
            call(&annas_nodes(&host)).unwrap();
            // What is written to a node makes it its writer's.
            let is_theirs = owner.is_some() || what.contains("set") || what.contains("append");
            assert_eq!(host.entry(&node, "session", "owner").as_deref() == Some("anna"), is_theirs, "{what}");
        }
    }
    // One that is not there yet becomes the writer's, also when it goes in several transactions.
    let host = TestHost::new();
    begin(&host, Some("anna"));
    let many: Vec<String> = std::iter::repeat_n(messages("new"), 5_000).flatten().collect();
    admin::set_messages(&annas_nodes(&host), &N, &many, None).unwrap();
    let node = host.names().into_iter().find(|name| name.starts_with("Node/")).unwrap();
    assert_eq!(host.entry(&node, "session", "owner").as_deref(), Some("anna"));
    assert_eq!(host.records(&node, "transcript").len(), 10_000);
    // A session that goes takes its nodes with it, whoever's they are.
    host.put(&node, "session", "owner", "boris");
    host.put("s", "nodes", node.trim_start_matches("Node/"), "{}");
    admin::delete_session(&annas_nodes(&host), "s").unwrap();
    assert!(host.names().is_empty(), "{:?}", host.names());
}

/// The node ends and begins again as another user's, before each of a call's transactions.
#[test]
fn a_node_that_changes_its_owner_during_a_call_is_not_written_to() {
    for (what, call) in NODE_CALLS {
        for swapped in 1.. {
            let host = TestHost::new();
            let node = begin_node(&host, Some("anna"));
            host.transactions.set(0);
            let reached = std::rc::Rc::new(std::cell::Cell::new(false));
            let noted = reached.clone();
            host.before_each(move |host, n| {
                if n == swapped && !noted.replace(true) {
                    begin_node(host, Some("boris"));
                }
            });
            let done = call(&annas_nodes(&host));
            if !reached.get() {
                assert!(swapped > 1, "{what} is a transaction");
                done.unwrap();
                break;
            }
            host.before_each(|_, _| {});
            let left = host.bucket(&node);
            assert_eq!(left.maps["session"]["owner"], "boris", "{what}, before transaction {swapped}");
            assert!(left.logs["transcript"].1.iter().all(|record| record.contains("boris's")), "{what}");
            assert_eq!(left.logs["transcript"].1.len(), 2, "{what}, before transaction {swapped}");
        }
    }
}

#[test]
fn a_call_that_is_made_again_under_its_request_id_changes_nothing() {
    let host = TestHost::new();
    begin(&host, None);
    let sessions = || Context::new(&host, Config::parse(r#"{"conversation": true}"#).unwrap());
    let request = |id: &str| sessions().with_request_id(Some(id.into()));
    for key in ["n", "answer_count"] {
        for (id, value) in [("1", 5), ("1", 5), ("2", 10), ("1", 10), ("2", 10)] {
            let id = format!("{key} {id}");
            assert_eq!(admin::increment_value(&request(&id), "s", key, 5).unwrap(), value, "{id}");
        }
    }
    admin::put_value(&request("put"), "s", "k", "1").unwrap();
    admin::put_value(&sessions(), "s", "k", "2").unwrap();
    admin::put_value(&request("put"), "s", "k", "1").unwrap();
    assert_eq!(host.get("s", "k").unwrap(), "2");
    admin::clear_values(&request("clear"), "s", None).unwrap();
    admin::put_value(&sessions(), "s", "k", "3").unwrap();
    assert!(admin::clear_values(&request("clear"), "s", None).unwrap().is_empty());
    assert_eq!(host.get("s", "k").unwrap(), "3");
    // Messages: those that were appended, and those that took the place of others.
    for next in [Some(2), None] {
        let id = format!("messages {next:?}");
        assert_eq!(admin::set_messages(&request(&id), &S, &messages("more"), next).unwrap(), 2);
        let (before, end) =
            (host.records("s", "transcript"), admin::describe_transcript(&sessions(), &S).unwrap().next);
        for next in [next, Some(end), None] {
            assert_eq!(admin::set_messages(&request(&id), &S, &messages("more"), next).unwrap(), 2);
            assert_eq!(host.records("s", "transcript"), before, "{next:?}");
        }
    }
}

/// Somebody else makes the same call between its two transactions.
#[test]
fn a_call_that_is_made_twice_at_once_under_its_request_id_counts_once() {
    let calls: [fn(&Context<&TestHost>); 3] = [
        |s| assert!(admin::increment_value(s, "s", "answer_count", 1).unwrap() > 0),
        |s| assert!(admin::set_messages(s, &S, &messages("more"), Some(2)).unwrap() > 0),
        |s| assert!(admin::set_messages(s, &S, &messages("more"), None).unwrap() > 0),
    ];
    for call in calls {
        let host = TestHost::new();
        begin(&host, None);
        let once = |host: &TestHost| {
            let config = Config::parse(r#"{"conversation": true}"#).unwrap();
            call(&Context::new(host, config).with_request_id(Some("once".into())));
        };
        host.transactions.set(0);
        let mut is_done = false;
        host.before_each(move |host, n| {
            if n == 2 && !std::mem::replace(&mut is_done, true) {
                let config = Config::parse(r#"{"conversation": true}"#).unwrap();
                call(&Context::new(host, config).with_request_id(Some("once".into())));
            }
        });
        once(&host);
        let after = (host.get("s", "answer_count"), host.records("s", "transcript").len());
        once(&host);
        assert_eq!((host.get("s", "answer_count"), host.records("s", "transcript").len()), after);
        assert!(matches!((after.0.as_deref(), after.1), (Some("1"), 2) | (None, 4 | 2)), "{after:?}");
        assert_eq!(host.records("s", "requests").len(), 1);
    }
}

#[test]
fn the_newest_request_ids_are_known_and_old_ones_make_room() {
    let host = TestHost::new();
    begin(&host, None);
    let mut sum = 0;
    for number in 0..1300 {
        let request = sessions(&host, "{}").with_request_id(Some(format!("{number}")));
        sum += 1;
        assert_eq!(admin::increment_value(&request, "s", "n", 1).unwrap(), sum);
        assert!(host.records("s", "requests").len() <= 1000);
    }
    for number in 800..1300 {
        let request = sessions(&host, "{}").with_request_id(Some(format!("{number}")));
        assert_eq!(admin::increment_value(&request, "s", "n", 1).unwrap(), sum);
    }
}

#[test]
fn conditions_that_are_no_strings_are_refused_by_name() {
    let member = |name: &str, value: &str| Member { name: name.into(), value: value.into() };
    for (name, value) in [("owner", "7"), ("owner", "\"\""), ("request-id", "null"), ("request-id", "\"\"")] {
        let refused = Conditions::parse(Some(&[member(name, value)]), "").unwrap_err();
        assert_eq!(refused.code, "invalid", "{name} {value}");
    }
    let parsed = Conditions::parse(Some(&[member("owner", "\"anna\""), member("new", "7")]), "").unwrap();
    assert_eq!((parsed.owner.as_deref(), parsed.request_id), (Some("anna"), None));
    let read = |value, takes| Conditions::parse(Some(&[member("expected-value", value)]), takes);
    for (value, expected) in [
        ("null", ExpectedValue::Absent),
        ("true", ExpectedValue::Present),
        (r#""null""#, ExpectedValue::Text("null".into())),
    ] {
        assert_eq!(read(value, EXPECTED_VALUE).unwrap().expected_value, Some(expected));
        // A call that would not look at it is not made.
        let refused = read(value, "").unwrap_err();
        assert_eq!((&*refused.code, &*refused.subject), ("invalid", "expected-value"));
    }
    assert_eq!(read("7", EXPECTED_VALUE).unwrap_err().code, "invalid");
}

#[test]
fn a_value_is_written_only_where_the_expected_one_is_there() {
    use ExpectedValue::{Absent, Present};
    let text = |text: &str| ExpectedValue::Text(text.into());
    // What is there, what is expected, and whether it is met.
    let cases = [
        (None, Absent, true),
        (None, Present, false),
        (None, text("1"), false),
        (None, text(""), false),
        (Some("1"), Absent, false),
        (Some("1"), Present, true),
        (Some("1"), text("1"), true),
        (Some("1"), text("1.0"), false),
        (Some("null"), Absent, false),
    ];
    for (there, expected, is_met) in cases {
        let host = TestHost::new();
        admin::create_session(&sessions(&host, "{}"), "s").unwrap();
        if let Some(there) = there {
            admin::put_value(&sessions(&host, "{}"), "s", "k", there).unwrap();
        }
        let before = host.bucket("s");
        let expecting = || sessions(&host, "{}").with_expected_value(Some(expected.clone()));
        let put = admin::put_value(&expecting().with_request_id(Some("a".into())), "s", "k", "2");
        match is_met {
            true => assert_eq!(put.unwrap(), there.is_some(), "{there:?} {expected:?}"),
            false => {
                let refused = put.unwrap_err();
                assert_eq!((&*refused.code, &*refused.subject), ("conflict", "expected-value"));
                let refused = admin::clear_values(&expecting(), "s", Some("k")).unwrap_err();
                assert_eq!((&*refused.code, &*refused.subject), ("conflict", "expected-value"));
                assert_eq!(host.bucket("s"), before, "{there:?} {expected:?}");
                continue;
            }
        }
        // The same call again, though its expectation is not met any more: it was made.
        admin::put_value(&sessions(&host, "{}"), "s", "k", "3").unwrap();
        assert!(admin::put_value(&expecting().with_request_id(Some("a".into())), "s", "k", "2").unwrap());
        assert_eq!(host.get("s", "k").unwrap(), "3");
        let cleared = sessions(&host, "{}").with_expected_value(Some(text("3")));
        assert_eq!(admin::clear_values(&cleared, "s", Some("k")).unwrap(), ["k"]);
    }
    // A session that is full says first what is not as expected.
    let host = TestHost::new();
    let full = || sessions(&host, r#"{"max_keys": 2}"#);
    admin::create_session(&full(), "s").unwrap();
    admin::put_value(&full(), "s", "j", "1").unwrap();
    admin::put_value(&full(), "s", "k", "1").unwrap();
    let expecting = |expected| full().with_expected_value(Some(expected));
    assert_eq!(admin::put_value(&expecting(Present), "s", "l", "1").unwrap_err().code, "conflict");
    assert_eq!(admin::put_value(&expecting(Absent), "s", "l", "1").unwrap_err().code, "limit");
}

#[test]
fn a_value_of_a_user_is_written_only_where_the_one_is_there_that_the_call_expects() {
    use ExpectedValue::{Absent, Present};
    let host = TestHost::new();
    let full = || sessions(&host, r#"{"max_keys": 2}"#);
    admin::put_user_value(&full(), "anna", "j", Some("1")).unwrap();
    let put =
        |expected, key, value| admin::put_user_value(&full().with_expected_value(Some(expected)), "anna", key, value);
    let refused = |expected, key, value| {
        let problem = put(expected, key, value).unwrap_err();
        (problem.code, problem.subject)
    };
    let conflict = || ("conflict".to_owned(), "expected-value".to_owned());
    let text = |text: &str| ExpectedValue::Text(text.into());
    for expected in [Present, text("1"), text("")] {
        assert_eq!(refused(expected.clone(), "k", Some("1")), conflict());
        assert_eq!(refused(expected, "k", None), conflict());
    }
    assert!(admin::read_user_values(&full(), "anna", Some("k")).unwrap().is_empty());
    assert!(!put(Absent, "k", Some("1")).unwrap());
    assert_eq!(refused(Absent, "k", Some("2")), conflict());
    assert_eq!(refused(text("1.0"), "k", Some("2")), conflict());
    assert!(put(text("1"), "k", Some("2")).unwrap());
    assert!(put(Present, "k", Some("3")).unwrap());
    // One who is full: what is not as expected is said first.
    assert_eq!(refused(Present, "l", Some("1")), conflict());
    assert_eq!(refused(Absent, "l", Some("1")).0, "limit");
    assert_eq!(admin::read_user_values(&full(), "anna", Some("k")).unwrap()[0].value, "3");
    assert!(put(text("3"), "k", None).unwrap());
    assert!(admin::read_user_values(&full(), "anna", Some("k")).unwrap().is_empty());
}

type TranscriptCall = fn(&Context<&TestHost>) -> Result<(), Box<Problem>>;

/// Each that changes a transcript in one transaction.
const CHANGES: [(&str, TranscriptCall); 8] = [
    ("rewrite", |s| admin::rewrite_message(s, &S, 0, Some("other")).map(drop)),
    ("remove", |s| admin::rewrite_message(s, &S, 1, None).map(drop)),
    ("append", |s| {
        let next = admin::describe_transcript(s, &S)?.next;
        admin::set_messages(s, &S, &messages("new"), Some(next)).map(drop)
    }),
    ("replace", |s| admin::set_messages(s, &S, &messages("new"), None).map(drop)),
    ("clear", |s| admin::clear_messages(s, &S, None).map(drop)),
    ("title", |s| admin::set_title(s, &S, Some("title")).map(drop)),
    ("no title", |s| admin::set_title(s, &S, None).map(drop)),
    ("settings", |s| admin::set_settings(s, &S, &settings(5000))),
];

fn settings(max_context_tokens: u64) -> TranscriptSettings {
    TranscriptSettings {
        max_context_tokens: Some(max_context_tokens),
        context_window: None,
        reserve_tokens: None,
        model: None,
    }
}

fn of_conversations(host: &TestHost) -> Context<&TestHost> {
    Context::new(host, Config::parse(r#"{"conversation": true}"#).unwrap())
}

fn version(host: &TestHost) -> String {
    let state = admin::describe_transcript(&of_conversations(host), &S).unwrap();
    let member = state.extras.unwrap().into_iter().find(|member| member.name == "version").unwrap();
    keepline_json::decode_string(&member.value).unwrap().into_owned()
}

/// A session with two messages and a title.
fn titled(host: &TestHost) {
    begin(host, None);
    admin::set_title(&of_conversations(host), &S, Some("a title")).unwrap();
}

#[test]
fn a_transcript_is_changed_only_where_it_has_the_expected_version_and_has_another_one_then() {
    for (what, call) in CHANGES {
        let host = TestHost::new();
        titled(&host);
        let first = version(&host);
        // What is no change of the transcript leaves its version.
        admin::put_value(&of_conversations(&host), "s", "k", "2").unwrap();
        assert_eq!(version(&host), first, "{what}");
        let expecting = |expected: &str| of_conversations(&host).with_expected_version(Some(expected.into()));
        let before = host.bucket("s");
        for wrong in ["", "x"] {
            let refused = call(&expecting(wrong)).unwrap_err();
            assert_eq!((&*refused.code, &*refused.subject), ("conflict", "expected-version"), "{what}");
            assert_eq!(host.bucket("s"), before, "{what}");
        }
        call(&expecting(&first)).unwrap();
        let second = version(&host);
        assert_ne!(second, first, "{what}");
        let after = host.bucket("s");
        assert_eq!(call(&expecting(&first)).unwrap_err().code, "conflict", "{what}");
        assert_eq!(host.bucket("s"), after, "{what}");
        // In another life of the session it is another version, whatever it holds.
        titled(&host);
        assert_eq!(call(&expecting(&first)).unwrap_err().code, "conflict", "{what}");
    }
    // So does an answer.
    let host = TestHost::new();
    titled(&host);
    let first = version(&host);
    answer(&host);
    assert_ne!(version(&host), first);
}

/// An answer, as pipelines send it.
fn answer(host: &TestHost) {
    let config = Config::parse(r#"{"conversation": true}"#).unwrap();
    let reply = Filter::new(host, config).answer("!", r#"{"session_id": "s"}"#, "");
    assert_eq!(reply.effect.name(), "stored");
}

/// Somebody else makes one of the changes, answers, or begins the session anew, before each of a call's transactions.
#[test]
fn a_transcript_that_changes_during_a_call_is_not_changed_by_it() {
    type Change = Box<dyn Fn(&TestHost)>;
    let others = || {
        let changes = CHANGES.iter().map(|(name, call)| -> (&str, Change) {
            (name, Box::new(|host: &TestHost| call(&of_conversations(host)).unwrap()))
        });
        changes.chain([("answer", Box::new(answer) as Change), ("begin anew", Box::new(titled))])
    };
    for (what, call) in CHANGES {
        for (number, (other, _)) in others().enumerate() {
            for disturbed in 1.. {
                let host = TestHost::new();
                titled(&host);
                let first = version(&host);
                let expecting = of_conversations(&host).with_expected_version(Some(first.clone()));
                host.transactions.set(0);
                // What the session is before the other change, and after it.
                let seen = std::rc::Rc::new(std::cell::RefCell::new(None));
                let (noted, change) = (seen.clone(), others().nth(number).unwrap().1);
                let mut is_done = false;
                host.before_each(move |host, n| {
                    if n == disturbed && !std::mem::replace(&mut is_done, true) {
                        let before = version(host);
                        change(host);
                        *noted.borrow_mut() = Some((before, host.bucket("s")));
                    }
                });
                let done = call(&expecting);
                host.before_each(|_, _| {});
                let Some((before, after)) = seen.take() else {
                    assert!(disturbed > 1, "{what} is a transaction");
                    done.unwrap();
                    break;
                };
                match done {
                    // It had been made.
                    Ok(()) => assert_ne!(before, first, "{what}, {other}, before transaction {disturbed}"),
                    Err(problem) => {
                        let code = problem.code;
                        assert!(matches!(&*code, "conflict" | "not-found"), "{what}, {other}: {code}");
                        assert_eq!(host.bucket("s"), after, "{what}, {other}, before transaction {disturbed}");
                    }
                }
            }
        }
    }
}
