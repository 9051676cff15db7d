//! The operations on sessions.

mod conditions;
mod history;

use crate::admin_calls as admin;
use keepline_filter::contract::StoreProfile;
use keepline_filter::contract::sessions::{HistoryPage, HistoryRecord};
use keepline_filter::{Config, Context, Host, Problem};

use crate::filter::told;
use crate::test_host::TestHost;

fn sessions<'a>(host: &'a TestHost, options: &str) -> Context<&'a TestHost> {
    Context::new(host, Config::parse(options).unwrap())
}

type Call = fn(&Context<&TestHost>) -> Result<(), Box<Problem>>;

#[track_caller]
fn refused<T>(result: Result<T, Box<Problem>>, code: &str, message: &str) {
    let problem = result.err().unwrap();
    assert_eq!((&*problem.code, &*problem.message), (code, message));
}

#[test]
fn what_is_refused_names_the_id_of_a_session_whose_name_is_a_hash() {
    let host = TestHost::new();
    let sessions = sessions(&host, r#"{"session_ids": "hash"}"#);
    let resumed = admin::with_session_name(&sessions, "ärger 7", |sessions, name| {
        assert!(name.starts_with("h-"), "{name}");
        admin::resume_session(sessions, name)
    });
    refused(resumed, "not-found", "Session 'ärger 7' not found");
}

#[test]
fn a_session_is_created_once() {
    let host = TestHost::with_room_for(1);
    let sessions = sessions(&host, "{}");
    assert_eq!(admin::create_session(&sessions, "s").unwrap().generation, "life-1");
    refused(admin::create_session(&sessions, "s"), "already-exists", "Session 's' already exists");
    refused(admin::create_session(&sessions, "t"), "too-many-buckets", "Maximum sessions (1) reached");
    refused(
        admin::create_session(&sessions, "a b"),
        "invalid",
        "Invalid session_id: 'a b'. Must be 1-128 alphanumeric characters, hyphens, or underscores.",
    );
}

#[test]
fn all_calls_but_create_require_an_existing_session() {
    let host = TestHost::new();
    let sessions = sessions(&host, r#"{"session_ttl_hours":1}"#);
    let calls: [Call; 10] = [
        |s| admin::resume_session(s, "s").map(|_| ()),
        |s| admin::delete_session(s, "s").map(|_| ()),
        |s| admin::put_value(s, "s", "k", "1").map(|_| ()),
        |s| admin::read_value(s, "s", "k").map(|_| ()),
        |s| admin::list_session_keys(s, "s").map(|_| ()),
        |s| admin::clear_values(s, "s", None).map(|_| ()),
        |s| admin::clear_values(s, "s", Some("k")).map(|_| ()),
        |s| admin::increment_value(s, "s", "k", 1).map(|_| ()),
        |s| admin::read_history(s, "s", None, 0).map(|_| ()),
        |s| admin::read_history(s, "s", Some(5), 5).map(|_| ()),
    ];
    for call in calls {
        refused(call(&sessions), "not-found", "Session 's' not found");
        admin::create_session(&sessions, "s").unwrap();
        host.pass(3_600_000);
        refused(call(&sessions), "expired", "Session 's' has expired");
        admin::create_session(&sessions, "s").unwrap();
        call(&sessions).unwrap();
        let _ = admin::delete_session(&sessions, "s");
    }
}

#[test]
fn values_are_returned_as_they_were_put() {
    let host = TestHost::new();
    let sessions = sessions(&host, "{}");
    admin::create_session(&sessions, "s").unwrap();
    for value in [r#"{"a": [1, 2.50]}"#, "\"Héllo\"", "null", "-0", "1e400"] {
        admin::put_value(&sessions, "s", "k", value).unwrap();
        assert_eq!(admin::read_value(&sessions, "s", "k").unwrap().as_deref(), Some(value));
    }
    assert_eq!(admin::read_value(&sessions, "s", "other").unwrap(), None);
    assert_eq!(admin::list_session_keys(&sessions, "s").unwrap(), ["k"]);
    let state = admin::resume_session(&sessions, "s").unwrap();
    assert_eq!((state.key_count, state.history_length, state.expires_in), (1, 5, None));
}

#[test]
fn put_refuses_what_is_not_json_too_long_or_without_room() {
    let host = TestHost::new();
    let sessions = sessions(&host, r#"{"max_value_bytes":8,"max_keys":2}"#);
    admin::create_session(&sessions, "s").unwrap();
    for value in ["", "x", "NaN", "1 2", "\"\n\"", "{"] {
        refused(admin::put_value(&sessions, "s", "k", value), "invalid", "Value of key 'k' is not valid JSON");
    }
    refused(
        admin::put_value(&sessions, "s", "k", "\"1234567\""),
        "limit",
        "Value of 9 bytes is over max_value_bytes (8)",
    );
    admin::put_value(&sessions, "s", "a", "1").unwrap();
    admin::increment_value(&sessions, "s", "b", 1).unwrap();
    refused(admin::put_value(&sessions, "s", "c", "1"), "limit", "Session 's' holds max_keys (2) keys");
    refused(admin::increment_value(&sessions, "s", "c", 1), "limit", "Session 's' holds max_keys (2) keys");
    admin::put_value(&sessions, "s", "a", "2").unwrap();
    assert_eq!(host.lines().len(), 3);
    assert_eq!(host.history("s").len(), 3);
}

#[test]
fn keys_are_checked() {
    let host = TestHost::new();
    let sessions = sessions(&host, "{}");
    admin::create_session(&sessions, "s").unwrap();
    for key in ["", "a b", "a\n", "__keys__", "__history__", "__meta__"] {
        for problem in [
            admin::put_value(&sessions, "s", key, "1").unwrap_err(),
            admin::read_value(&sessions, "s", key).unwrap_err(),
            admin::clear_values(&sessions, "s", Some(key)).unwrap_err(),
            admin::increment_value(&sessions, "s", key, 1).unwrap_err(),
        ] {
            assert_eq!(problem.code, "invalid");
            assert!(problem.message.starts_with("Invalid key: '"), "{}", problem.message);
        }
    }
}

#[test]
fn get_refuses_stored_values_that_are_invalid_or_too_long() {
    let host = TestHost::new();
    let sessions = sessions(&host, r#"{"max_value_bytes":8}"#);
    host.set("s", "nan", "NaN");
    host.set("s", "bytes", b"\xff".to_vec());
    host.set("s", "long", "123456789");
    let message = "Stored value of key 'nan' is not valid JSON";
    refused(admin::read_value(&sessions, "s", "nan"), "invalid", message);
    assert_eq!(admin::read_value(&sessions, "s", "bytes").unwrap_err().code, "invalid");
    assert_eq!(admin::read_value(&sessions, "s", "long").unwrap_err().code, "limit");
}

#[test]
fn only_integer_values_can_be_incremented() {
    let host = TestHost::new();
    let sessions = sessions(&host, "{}");
    admin::create_session(&sessions, "s").unwrap();
    assert_eq!(admin::increment_value(&sessions, "s", "n", 5).unwrap(), 5);
    assert_eq!(admin::increment_value(&sessions, "s", "n", -7).unwrap(), -2);
    admin::put_value(&sessions, "s", "t", "\"7\"").unwrap();
    let message = "Value of key 't' in session 's' is not a counter";
    refused(admin::increment_value(&sessions, "s", "t", 1), "not-a-counter", message);
    admin::put_value(&sessions, "s", "n", "9223372036854775807").unwrap();
    let message = "Counter 'n' in session 's' would leave the range of a signed 64-bit integer";
    refused(admin::increment_value(&sessions, "s", "n", 1), "counter-overflow", message);
    assert_eq!(host.history("s")[0], r#"{"op": "increment", "key": "n", "timestamp": 1795186917.032595}"#);
}

#[test]
fn answer_count_accepts_only_integers_within_its_range() {
    let host = TestHost::new();
    let sessions = sessions(&host, "{}");
    admin::create_session(&sessions, "s").unwrap();
    let message =
        "Key 'answer_count' in session 's' counts the answers: it must be an integer from 0 to 9007199254740991";
    for value in [
        "\"x\"",
        "null",
        "1.0",
        "1e3",
        "-1",
        "-0",
        "[]",
        "true",
        "9007199254740992",
        "9223372036854775807",
        "99999999999999999999",
    ] {
        refused(admin::put_value(&sessions, "s", "answer_count", value), "invalid", message);
    }
    refused(admin::increment_value(&sessions, "s", "answer_count", -1), "invalid", message);
    for value in ["0", " 7 ", "9007199254740991"] {
        admin::put_value(&sessions, "s", "answer_count", value).unwrap();
    }
    for amount in [1, i64::MAX, i64::MIN] {
        refused(admin::increment_value(&sessions, "s", "answer_count", amount), "invalid", message);
    }
    assert_eq!(admin::increment_value(&sessions, "s", "answer_count", -9_007_199_254_740_990).unwrap(), 1);
    refused(admin::increment_value(&sessions, "s", "answer_count", -2), "invalid", message);
    assert_eq!(host.history("s").len(), 4);
    // What others left can be brought back, or is told for what it is.
    host.set("s", "answer_count", "-5");
    assert_eq!(admin::increment_value(&sessions, "s", "answer_count", 5).unwrap(), 0);
    host.set("s", "answer_count", "\"x\"");
    assert_eq!(admin::increment_value(&sessions, "s", "answer_count", 1).unwrap_err().code, "not-a-counter");
    admin::put_value(&sessions, "s", "answer_count", "3").unwrap();
    // The text of the last answer may be anything: nothing is computed with it.
    admin::put_value(&sessions, "s", "last_answer", "[1]").unwrap();
}

#[test]
fn keys_are_collected_from_host_pages_of_any_size() {
    let host = TestHost::new();
    let sessions = sessions(&host, "{}");
    admin::create_session(&sessions, "s").unwrap();
    for n in 0..10_000 {
        host.set("s", &format!("k{n:04}"), "1");
    }
    for page in [10_000, 4999, 100] {
        host.page.set(page);
        let keys = admin::list_session_keys(&sessions, "s").unwrap();
        assert!(keys.len() == 10_000 && keys.is_sorted(), "{page}");
    }
    // Names that are none of ours are not told.
    host.set("s", "not a key", "1");
    assert_eq!(admin::list_session_keys(&sessions, "s").unwrap().len(), 10_000);
    host.set("s", "one-more", "1");
    let message = "Session 's' holds more than the 10000 keys that can be listed";
    for page in [10_000, 100] {
        host.page.set(page);
        refused(admin::list_session_keys(&sessions, "s"), "limit", message);
        refused(admin::clear_values(&sessions, "s", None), "limit", message);
    }
}

#[test]
fn a_broken_history_fails_only_the_calls_that_write_it() {
    let host = TestHost::new();
    let sessions = sessions(&host, "{}");
    host.set("s", "k", "1");
    host.spoil("history");
    assert_eq!(admin::list_session_keys(&sessions, "s").unwrap(), ["k"]);
    assert_eq!(admin::read_value(&sessions, "s", "k").unwrap().as_deref(), Some("1"));
    for problem in [
        admin::clear_values(&sessions, "s", None).unwrap_err(),
        admin::put_value(&sessions, "s", "k", "2").unwrap_err(),
    ] {
        assert_eq!(problem.code, "wrong-type");
    }
    assert_eq!(admin::delete_session(&sessions, "s").unwrap().key_count, 1);
}

#[test]
fn clearing_one_key_reports_whether_it_existed() {
    let host = TestHost::new();
    let sessions = sessions(&host, "{}");
    admin::create_session(&sessions, "s").unwrap();
    admin::put_value(&sessions, "s", "k", "1").unwrap();
    assert_eq!(admin::clear_values(&sessions, "s", Some("k")).unwrap(), ["k"]);
    assert_eq!(admin::clear_values(&sessions, "s", Some("k")).unwrap(), Vec::<String>::new());
    let record = r#"{"op": "clear", "key": "k", "timestamp": 1795186917.032595}"#;
    assert_eq!(host.history("s")[1..], [record, record]);
}

#[test]
fn clearing_all_keeps_the_session_and_names_the_keys() {
    let host = TestHost::new();
    let sessions = sessions(&host, "{}");
    admin::create_session(&sessions, "s").unwrap();
    admin::put_value(&sessions, "s", "b", "1").unwrap();
    admin::put_value(&sessions, "s", "a", "1").unwrap();
    assert_eq!(admin::clear_values(&sessions, "s", None).unwrap(), ["a", "b"]);
    assert_eq!(admin::clear_values(&sessions, "s", None).unwrap(), Vec::<String>::new());
    assert_eq!(
        host.history("s")[2..],
        [
            r#"{"op": "clear", "key": null, "cleared": ["a", "b"], "timestamp": 1795186917.032595}"#,
            r#"{"op": "clear", "key": null, "cleared": [], "timestamp": 1795186917.032595}"#,
        ]
    );
    assert_eq!(admin::resume_session(&sessions, "s").unwrap().generation, "life-1");
}

#[test]
fn clearing_all_is_retried_after_a_concurrent_write() {
    let host = TestHost::new();
    let sessions = sessions(&host, "{}");
    admin::create_session(&sessions, "s").unwrap();
    let theirs = |host: &TestHost, key: &str| {
        host.set("s", key, "1");
        let mut buckets = host.buckets_mut();
        buckets.get_mut("s").unwrap().logs.entry("history".into()).or_default().1.push("{}".into());
    };
    host.before_each(move |host, n| {
        if n == 3 {
            theirs(host, "theirs");
        }
    });
    assert_eq!(admin::clear_values(&sessions, "s", None).unwrap(), ["theirs"]);
    assert_eq!(host.transactions.get(), 5);
    // And gives up when one always does.
    host.before_each(move |host, n| theirs(host, &format!("k{n}")));
    let message = "Session 's' was written to by others each time; nothing was changed";
    refused(admin::clear_values(&sessions, "s", None), "conflict", message);
    assert!(host.get("s", "k6").is_some());
    // As does the count of answers.
    refused(admin::increment_value(&sessions, "s", "answer_count", 1), "conflict", message);
    assert_eq!(host.get("s", "answer_count"), None);
}

#[test]
fn answer_count_stays_within_its_range_under_concurrent_writes() {
    let host = TestHost::new();
    let sessions = sessions(&host, "{}");
    admin::create_session(&sessions, "s").unwrap();
    admin::put_value(&sessions, "s", "answer_count", "5").unwrap();
    let next = host.transactions.get() + 2;
    host.before_each(move |host, n| {
        if n == next {
            host.set("s", "answer_count", "3");
            host.push("s", "{}");
        }
    });
    let problem = admin::increment_value(&sessions, "s", "answer_count", -4).unwrap_err();
    assert_eq!(problem.code, "invalid");
    assert_eq!(admin::increment_value(&sessions, "s", "answer_count", -3).unwrap(), 0);
    // A session that ended meanwhile, and began anew, is looked at anew.
    let next = host.transactions.get() + 2;
    host.before_each(move |host, n| {
        if n == next {
            host.end("s");
            admin::create_session(&self::sessions(host, "{}"), "s").unwrap();
        }
    });
    assert_eq!(admin::increment_value(&sessions, "s", "answer_count", 2).unwrap(), 2);
}

#[test]
fn history_stays_within_max_history_for_every_kind_of_write() {
    let host = TestHost::new();
    let sessions = sessions(&host, r#"{"max_history":5}"#);
    admin::create_session(&sessions, "s").unwrap();
    for n in 1..=40 {
        match n % 4 {
            0 => admin::put_value(&sessions, "s", "a", "1").map(|_| ()).unwrap(),
            1 => admin::increment_value(&sessions, "s", "b", 1).map(|_| ()).unwrap(),
            2 => admin::clear_values(&sessions, "s", Some("c")).map(|_| ()).unwrap(),
            _ => admin::clear_values(&sessions, "s", None).map(|_| ()).unwrap(),
        }
        let history = host.history("s");
        assert!(history.len() <= 5);
        assert_eq!(told(&history), n);
    }
}

#[test]
fn sessions_are_listed_page_by_page() {
    let host = TestHost::new();
    let sessions = sessions(&host, "{}");
    for name in ["c", "a", "b"] {
        admin::create_session(&sessions, name).unwrap();
    }
    host.set("not a session", "k", "1");
    let first = admin::list_sessions(&sessions, "", 2).unwrap();
    assert_eq!((first.sessions, &*first.cursor), (vec!["a".into(), "b".into()], "b"));
    let rest = admin::list_sessions(&sessions, "b", 0).unwrap();
    assert_eq!((rest.sessions, &*rest.cursor), (vec!["c".to_owned()], ""));
    let capabilities = Host::store_profile(&&host);
    host.profile.set(Some(StoreProfile { listing: false, ..capabilities }));
    let problem = admin::list_sessions(&sessions, "", 2).unwrap_err();
    assert_eq!(problem.code, "unsupported");
}

#[test]
fn deleting_names_the_keys() {
    let host = TestHost::new();
    let sessions = sessions(&host, "{}");
    admin::create_session(&sessions, "s").unwrap();
    admin::put_value(&sessions, "s", "k", "1").unwrap();
    let deleted = admin::delete_session(&sessions, "s").unwrap();
    assert_eq!((deleted.key_count, deleted.keys), (1, vec!["k".to_owned()]));
    refused(admin::delete_session(&sessions, "s"), "not-found", "Session 's' not found");
}

#[test]
fn a_failing_store_is_reported_in_its_words() {
    let host = TestHost::new();
    host.fail("denied");
    let sessions = sessions(&host, "{}");
    refused(admin::create_session(&sessions, "s"), "denied", "It broke");
    assert_eq!(admin::create_session(&sessions, "s").unwrap_err().code, "denied");
    assert_eq!(admin::create_session(&sessions, "a b").unwrap_err().code, "invalid");
    refused(admin::list_sessions(&sessions, "", 1), "denied", "It broke");
}
