//! A memory that is full refuses what is new, or ends what was used longest ago; a store that can't do that says so.

use serde_json::Value;

use super::{Ran, answer, call, context, question};

/// Of three sessions, with room for two; the first is used again before the third comes.
fn three_for_two(policy: &[&str]) -> Ran {
    let mut input = String::new();
    for (session, said) in [("a", "one"), ("b", "two"), ("a", "three"), ("c", "four")] {
        input += &(question(session, "?") + &answer(said));
    }
    // From the newest on: looking brings nobody back.
    for session in ["c", "a"] {
        input += &question(session, "?");
    }
    call(&[&["run", "--set", "memory_max_sessions=2"], policy].concat(), input.as_bytes()).ok()
}

/// What the last two questions, of c and a, came with.
fn last_answers(ran: &Ran) -> [Value; 2] {
    let lines: Vec<&str> = ran.text().lines().collect();
    [8, 9].map(|line| context(lines[line])["last_answer"].clone())
}

#[test]
fn refuses_what_is_new_unless_told() {
    for policy in [&[][..], &["--set", "session_limit_policy=refuse"]] {
        let ran = three_for_two(policy);
        assert_eq!(last_answers(&ran), [Value::Null, Value::from("three")]);
        assert!(ran.err.contains("Maximum sessions (2) reached"), "{ran:?}");
    }
}

#[test]
fn ends_what_was_used_longest_ago_if_told() {
    let ran = three_for_two(&["--set", "session_limit_policy=evict"]);
    assert_eq!(last_answers(&ran), [Value::from("four"), Value::from("three")]);
    assert_eq!(ran.err, "");
}

#[test]
fn is_refused_where_the_store_can_not() {
    let directory = tempfile::tempdir().unwrap();
    for backend in [&["--profile", "redis"][..], &["--dir", directory.path().to_str().unwrap()]] {
        let ran = call(&[&["run", "--set", "session_limit_policy=evict"], backend].concat(), b"");
        assert!(ran.code == 2 && ran.err.contains("which only the backend \"memory\" can do"), "{ran:?}");
    }
    let ran = call(&["run", "--set", "session_limit_policy=lru"], b"");
    assert!(ran.code == 2 && ran.err.contains("must be \"refuse\" or \"evict\""), "{ran:?}");
}
