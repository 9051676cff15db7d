//! Operators' calls do what they say, and refuse with the rule that was broken.

use keepline::{pipe::Effect, sessions::SessionErrorCode as Code};
use keepline_tests::{
    lanes::{Node, untouched},
    on_every_store,
};

use super::{Given, HOUR, refusal};

async fn create_and_delete_report_their_outcome(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    let created = node.sessions.create("s1").await.unwrap();
    assert_eq!((created.key_count, created.history_length), (0, 0));
    assert_eq!(
        node.sessions.create("s1").await.unwrap_err(),
        refusal(Code::AlreadyExists, "Session 's1' already exists")
    );
    node.say("s1", "x").await;
    let deleted = node.sessions.delete("s1").await.unwrap();
    assert_eq!((deleted.key_count, &*deleted.keys), (2, &["answer_count".to_owned(), "last_answer".into()][..]));
    assert_eq!(node.sessions.delete("s1").await.unwrap_err(), refusal(Code::NotFound, "Session 's1' not found"));
    let again = node.sessions.create("s1").await.unwrap();
    assert_ne!(again.generation, created.generation);
    assert_eq!(node.sessions.resume("s1").await.unwrap().generation, again.generation);
    assert_eq!(node.history("s1").await.len(), 0);
}

async fn calls_on_a_missing_session_report_not_found(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    let missing = refusal(Code::NotFound, "Session 's1' not found");
    assert_eq!(node.sessions.resume("s1").await.unwrap_err(), missing);
    assert_eq!(node.sessions.delete("s1").await.unwrap_err(), missing);
    assert_eq!(node.sessions.put("s1", "k", "1").await.unwrap_err(), missing);
    assert_eq!(node.sessions.get("s1", "k").await.unwrap_err(), missing);
    assert_eq!(node.sessions.keys("s1").await.unwrap_err(), missing);
    assert_eq!(node.sessions.clear("s1", Some("k")).await.unwrap_err(), missing);
    assert_eq!(node.sessions.clear("s1", None).await.unwrap_err(), missing);
    assert_eq!(node.sessions.increment("s1", "k", 1).await.unwrap_err(), missing);
    assert_eq!(node.sessions.history("s1", None, 0).await.unwrap_err(), missing);
    assert_eq!(given.list(100).await, [""; 0]);
}

async fn names_outside_the_rules_are_refused_with_the_rule(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    node.store.calls();
    let long = "x".repeat(129);
    for (name, shown) in [
        ("", "''"),
        ("a\n", "'a\\n'"),
        ("a.b", "'a.b'"),
        ("it's", "\"it's\""),
        ("é", "'é'"),
        (&*long, &*format!("'{long}'")),
    ] {
        let refused = refusal(
            Code::InvalidSession,
            &format!(
                "Invalid session_id: {shown}. Must be 1-128 alphanumeric characters, hyphens, or underscores. With \
                 session_ids \"hash\", any text of at most 1,024 bytes."
            ),
        );
        assert_eq!(node.sessions.create(name).await.unwrap_err(), refused);
        assert_eq!(node.sessions.resume(name).await.unwrap_err(), refused);
        assert_eq!(node.sessions.delete(name).await.unwrap_err(), refused);
        assert_eq!(node.sessions.put(name, "k", "1").await.unwrap_err(), refused);
        assert_eq!(node.sessions.get(name, "k").await.unwrap_err(), refused);
        assert_eq!(node.sessions.keys(name).await.unwrap_err(), refused);
        assert_eq!(node.sessions.clear(name, None).await.unwrap_err(), refused);
        assert_eq!(node.sessions.increment(name, "k", 1).await.unwrap_err(), refused);
        assert_eq!(node.sessions.history(name, None, 0).await.unwrap_err(), refused);
    }
    let long = "x".repeat(257);
    for (name, shown) in
        [("", "''"), ("k\n", "'k\\n'"), ("a b", "'a b'"), ("a:b", "'a:b'"), ("é", "'é'"), (&*long, "'xxx")]
    {
        let begin = format!("Invalid key: {shown}");
        let end = ". Must be 1-256 alphanumeric characters, hyphens, underscores, or dots.";
        for error in [
            node.sessions.put("s1", name, "1").await.unwrap_err(),
            node.sessions.get("s1", name).await.unwrap_err(),
            node.sessions.clear("s1", Some(name)).await.unwrap_err(),
            node.sessions.increment("s1", name, 1).await.unwrap_err(),
        ] {
            assert_eq!(error.code, Code::InvalidKey);
            assert!(error.message.starts_with(&begin) && error.message.ends_with(end), "{error}");
        }
    }
    assert_eq!(node.store.calls(), 0);
    for good in ["x".repeat(256), "-".into(), "..".into(), "_a.B-9".into()] {
        node.sessions.put("s1", &good, "1").await.unwrap();
    }
}

async fn bookkeeping_names_are_reserved(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    for name in ["__keys__", "__history__", "__meta__", "__writers__", "__transcript__", "__x__", "____", "__"] {
        let message = format!("Invalid key: '{name}'. Names that begin and end with two underscores are reserved.");
        let refused = refusal(Code::InvalidKey, &message);
        assert_eq!(node.sessions.put("s1", name, "1").await.unwrap_err(), refused);
        assert_eq!(node.sessions.get("s1", name).await.unwrap_err(), refused);
        assert_eq!(node.sessions.clear("s1", Some(name)).await.unwrap_err(), refused);
        assert_eq!(node.sessions.increment("s1", name, 1).await.unwrap_err(), refused);
    }
    for name in ["__keys", "keys__", "_keys_"] {
        node.sessions.put("s1", name, "1").await.unwrap();
    }
    assert_eq!(node.say("s1", "x").await.effect, Effect::Stored);
}

async fn put_accepts_only_json(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    let stored = node.sessions.put("s1", "k", " {\"a\": [1, null]} \n").await.unwrap();
    assert!(!stored.existed);
    assert_eq!(node.sessions.get("s1", "k").await.unwrap().value(), Some("{\"a\": [1, null]}"));
    let refused = refusal(Code::InvalidValue, "Value of key 'k' is not valid JSON");
    for value in ["", " ", "x", "{", "1 2", "NaN", "Infinity", "'a'", "[1,]", "\"\n\"", "01", "+1", "\"\\x\"", "tru"] {
        assert_eq!(node.sessions.put("s1", "k", value).await.unwrap_err(), refused, "{value}");
    }
    assert_eq!(node.history("s1").await.len(), 1);
}

async fn get_of_a_missing_key_is_not_an_error(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    let found = node.sessions.get("s1", "k").await.unwrap();
    assert_eq!(found.values, []);
}

async fn keys_are_listed_sorted(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    assert_eq!(node.sessions.keys("s1").await.unwrap().keys, [""; 0]);
    for key in ["b", "a.z", "B", "-", "_", "10", "9", "a"] {
        node.sessions.put("s1", key, "1").await.unwrap();
    }
    assert_eq!(node.sessions.keys("s1").await.unwrap().keys, ["-", "10", "9", "B", "_", "a", "a.z", "b"]);
}

async fn clear_names_the_cleared_keys_and_leaves_the_session(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    let created = node.sessions.create("s1").await.unwrap();
    for key in ["c", "a", "b"] {
        node.sessions.put("s1", key, "1").await.unwrap();
    }
    assert_eq!(node.sessions.clear("s1", Some("b")).await.unwrap().keys, ["b"]);
    assert_eq!(node.sessions.clear("s1", Some("b")).await.unwrap().keys, [""; 0]);
    assert_eq!(node.sessions.clear("s1", None).await.unwrap().keys, ["a", "c"]);
    assert_eq!(node.sessions.clear("s1", None).await.unwrap().keys, [""; 0]);
    let state = node.sessions.resume("s1").await.unwrap();
    assert_eq!((state.key_count, state.history_length, state.generation), (0, 7, created.generation));
    // A counter starts anew.
    node.say("s1", "x").await;
    assert!(node.memory("s1").await.unwrap().contains("\"answer_count\":1,"));
}

async fn increment_accepts_only_64_bit_integers(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    assert_eq!(node.sessions.increment("s1", "n", 3).await.unwrap().value, 3);
    assert_eq!(node.sessions.increment("s1", "n", -5).await.unwrap().value, -2);
    assert_eq!(node.sessions.increment("s1", "n", 0).await.unwrap().value, -2);
    node.sessions.put("s1", "n", "9007199254740993").await.unwrap();
    assert_eq!(node.sessions.increment("s1", "n", 2).await.unwrap().value, 9_007_199_254_740_995);
    assert_eq!(node.sessions.get("s1", "n").await.unwrap().value(), Some("9007199254740995"));

    let message = "Counter 'n' in session 's1' would leave the range of a signed 64-bit integer";
    node.sessions.put("s1", "n", &i64::MAX.to_string()).await.unwrap();
    assert_eq!(node.sessions.increment("s1", "n", 1).await.unwrap_err(), refusal(Code::CounterOverflow, message));
    node.sessions.put("s1", "n", &(i64::MIN + 1).to_string()).await.unwrap();
    assert_eq!(node.sessions.increment("s1", "n", -2).await.unwrap_err(), refusal(Code::CounterOverflow, message));
    assert_eq!(node.sessions.increment("s1", "n", i64::MAX).await.unwrap().value, 0);
    assert_eq!(node.sessions.increment("s1", "m", i64::MIN).await.unwrap().value, i64::MIN);

    let refused = refusal(Code::NotACounter, "Value of key 'v' in session 's1' is not a counter");
    for value in ["\"7\"", "1.5", "1.0", "true", "null", "[1]", "9223372036854775808", "-0", "1e2"] {
        node.sessions.put("s1", "v", value).await.unwrap();
        assert_eq!(node.sessions.increment("s1", "v", 1).await.unwrap_err(), refused, "{value}");
        assert_eq!(node.sessions.get("s1", "v").await.unwrap().value(), Some(value));
    }
}

async fn answer_count_accepts_only_integers_within_its_range(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    let refused = refusal(
        Code::InvalidValue,
        "Key 'answer_count' in session 's1' counts the answers: it must be an integer from 0 to 9007199254740991",
    );
    for value in ["\"x\"", "1.0", "-1", "9007199254740992", "9223372036854775807"] {
        assert_eq!(node.sessions.put("s1", "answer_count", value).await.unwrap_err(), refused, "{value}");
    }
    node.sessions.put("s1", "answer_count", "9007199254740991").await.unwrap();
    for amount in [1, i64::MAX, i64::MIN] {
        assert_eq!(node.sessions.increment("s1", "answer_count", amount).await.unwrap_err(), refused, "{amount}");
    }
    assert!(untouched(Effect::Stored, &node.say("s1", "x").await));
    assert_eq!(node.sessions.increment("s1", "answer_count", -9_007_199_254_740_992).await.unwrap().value, 0);
}

async fn resume_reports_the_contents_of_a_session(given: Given) {
    let mut node = Node::new(&given.store, r#"{"session_ttl_hours": 2}"#).await;
    let created = node.sessions.create("s1").await.unwrap();
    node.say("s1", "x").await;
    node.sessions.clear("s1", Some("last_answer")).await.unwrap();
    let state = node.sessions.resume("s1").await.unwrap();
    assert_eq!(state.generation, created.generation);
    assert_eq!((state.key_count, state.history_length), (1, 3));
    let left = state.expires_in.unwrap();
    assert!((7_100_000..=7_200_000).contains(&left), "{left}");
}

async fn sessions_are_listed_page_by_page(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    assert_eq!(node.sessions.list("", 10).await.unwrap().sessions, [""; 0]);
    let mut all: Vec<_> = (0..250).map(|number| format!("s{number}")).collect();
    for session in &all {
        node.sessions.create(session).await.unwrap();
    }
    all.sort_unstable();
    for limit in [0, 1, 7, 100, 250, 10_000, u32::MAX] {
        let (mut listed, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = node.sessions.list(&cursor, limit).await.unwrap();
            assert!(page.sessions.is_sorted());
            listed.extend(page.sessions);
            cursor = page.cursor;
            if cursor.is_empty() {
                break;
            }
        }
        listed.sort_unstable();
        listed.dedup();
        assert_eq!(listed, all, "{limit}");
    }
    node.sessions.list("no cursor of ours", 5).await.unwrap();
}

async fn an_expired_session_is_reported_as_gone(given: Given) {
    let mut node = Node::new(&given.store, r#"{"session_ttl_hours": 1}"#).await;
    let (expired, missing) =
        (refusal(Code::Expired, "Session 's1' has expired"), refusal(Code::NotFound, "Session 's1' not found"));
    for call in 0..9 {
        node.sessions.create("s1").await.unwrap();
        given.pass_time(HOUR);
        let told = match call {
            0 => node.sessions.resume("s1").await.unwrap_err(),
            1 => node.sessions.put("s1", "k", "1").await.unwrap_err(),
            2 => node.sessions.get("s1", "k").await.unwrap_err(),
            3 => node.sessions.keys("s1").await.unwrap_err(),
            4 => node.sessions.clear("s1", Some("k")).await.unwrap_err(),
            5 => node.sessions.clear("s1", None).await.unwrap_err(),
            6 => node.sessions.increment("s1", "k", 1).await.unwrap_err(),
            7 => node.sessions.history("s1", None, 0).await.unwrap_err(),
            _ => node.sessions.delete("s1").await.unwrap_err(),
        };
        assert_eq!(told, expired, "{call}");
        assert_eq!(node.sessions.resume("s1").await.unwrap_err(), missing, "{call}");
    }
}

on_every_store! {
    create_and_delete_report_their_outcome,
    calls_on_a_missing_session_report_not_found,
    names_outside_the_rules_are_refused_with_the_rule,
    bookkeeping_names_are_reserved,
    put_accepts_only_json,
    get_of_a_missing_key_is_not_an_error,
    keys_are_listed_sorted,
    clear_names_the_cleared_keys_and_leaves_the_session,
    increment_accepts_only_64_bit_integers,
    answer_count_accepts_only_integers_within_its_range,
    resume_reports_the_contents_of_a_session,
    sessions_are_listed_page_by_page,
    an_expired_session_is_reported_as_gone,
}
