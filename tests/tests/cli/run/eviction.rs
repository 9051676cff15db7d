//! A full memory refuses new sessions or evicts the least recently used; stores without eviction refuse the option.

use serde_json::Value;

use crate::{Ran, answer, call, context, question};

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
fn a_full_memory_refuses_new_sessions_by_default() {
    for policy in [&[][..], &["--set", "session_limit_policy=refuse"]] {
        let ran = three_for_two(policy);
        assert_eq!(last_answers(&ran), [Value::Null, Value::from("three")]);
        assert!(ran.err.contains("Maximum sessions (2) reached"), "{ran:?}");
    }
}

#[test]
fn a_full_memory_evicts_the_least_recently_used_if_configured() {
    let ran = three_for_two(&["--set", "session_limit_policy=evict"]);
    assert_eq!(last_answers(&ran), [Value::from("four"), Value::from("three")]);
    assert_eq!(ran.err, "");
}

#[test]
fn eviction_is_refused_for_stores_without_it() {
    let directory = tempfile::tempdir().unwrap();
    for backend in [&["--profile", "redis"][..], &["--dir", directory.path().to_str().unwrap()]] {
        let ran = call(&[&["run", "--set", "session_limit_policy=evict"], backend].concat(), b"");
        assert!(ran.code == 2 && ran.err.contains("which only the backend \"memory\" can do"), "{ran:?}");
    }
    let ran = call(&["run", "--set", "session_limit_policy=lru"], b"");
    assert!(ran.code == 2 && ran.err.contains("must be \"refuse\" or \"evict\""), "{ran:?}");
}
