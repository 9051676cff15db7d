//! A session ends with its time to live, and the next one begins empty.

use std::time::Duration;

use keepline::pipe::Effect;
use keepline_tests::{
    lanes::{Node, untouched},
    on_every_store,
};

use crate::{Given, HOUR};

const MINUTE: Duration = Duration::from_secs(60);

async fn a_fixed_time_to_live_runs_from_creation(given: Given) {
    let mut node = Node::new(&given.store, r#"{"session_ttl_hours": 1}"#).await;
    node.ask("s1").await;
    for _ in 0..5 {
        given.pass_time(10 * MINUTE);
        assert_eq!(node.reply("x").await.effect, Effect::Stored);
        node.ask("s1").await;
        node.sessions.resume("s1").await.unwrap();
    }
    given.pass_time(9 * MINUTE);
    let left = node.sessions.resume("s1").await.unwrap().expires_in.unwrap();
    assert!((30_000..=60_000).contains(&left), "{left}");
    given.pass_time(MINUTE);
    assert!(!given.is_there("s1").await);
    assert!(untouched(Effect::Ended, &node.reply("late").await));
}

async fn a_sliding_time_to_live_runs_from_the_last_use(given: Given) {
    let mut node = Node::new(&given.store, r#"{"session_ttl_hours": 1, "session_ttl_mode": "sliding"}"#).await;
    node.ask("s1").await;
    node.reply("x").await;
    for _ in 0..3 {
        given.pass_time(50 * MINUTE);
        assert_eq!(node.reply("x").await.effect, Effect::Stored);
        given.pass_time(50 * MINUTE);
        assert_eq!(node.ask("s1").await.effect, Effect::Enriched);
        given.pass_time(50 * MINUTE);
        let left = node.sessions.resume("s1").await.unwrap().expires_in.unwrap();
        assert!(left > 3_500_000, "{left}");
        // A renewal that is due for less than 1 % may be left out.
        given.pass_time(Duration::from_secs(20));
        node.sessions.get("s1", "last_answer").await.unwrap();
    }
    given.pass_time(HOUR);
    assert!(!given.is_there("s1").await);
    assert!(untouched(Effect::Ended, &node.reply("late").await));
}

async fn without_a_time_to_live_a_session_stays(given: Given) {
    for options in ["{}", r#"{"session_ttl_hours": 0}"#, r#"{"session_ttl_hours": 0.0, "session_ttl_mode": "sliding"}"#]
    {
        let mut node = Node::new(&given.store, options).await;
        node.say("s1", "x").await;
        assert_eq!(node.sessions.resume("s1").await.unwrap().expires_in, None);
        given.pass_time(24 * 365 * 50 * HOUR);
        assert_eq!(node.ask("s1").await.effect, Effect::Enriched);
    }
}

async fn an_expired_session_starts_again_with_its_next_question(given: Given) {
    let mut node = Node::new(&given.store, r#"{"session_ttl_hours": 1}"#).await;
    for _ in 0..3 {
        assert!(untouched(Effect::Resumed, &node.ask("s1").await));
        node.reply("x").await;
        node.sessions.put("s1", "k", "1").await.unwrap();
        assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":1,"k":1,"last_answer":"x"}"#);
        assert_eq!(node.history("s1").await.len(), 3);
        given.pass_time(HOUR);
    }
}

on_every_store! {
    a_fixed_time_to_live_runs_from_creation,
    a_sliding_time_to_live_runs_from_the_last_use,
    without_a_time_to_live_a_session_stays,
    an_expired_session_starts_again_with_its_next_question,
}
