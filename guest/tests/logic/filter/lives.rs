//! In which life of which session an answer lands.

use keepline_filter::Effect;

use super::{S, filter};
use crate::test_host::TestHost;

#[test]
fn an_answers_own_session_wins_over_its_questions() {
    let host = TestHost::new();
    let filter = filter(&host, "{}");
    let turn = filter.question("q", S).turn;
    filter.answer("own", r#"{"session_id":"other"}"#, &turn);
    assert_eq!(host.get("other", "last_answer").unwrap(), "\"own\"");
    assert_eq!(host.get("s", "last_answer"), None);
    // A falsy one falls back.
    filter.answer("fallen", r#"{"session_id":""}"#, &turn);
    assert_eq!(host.get("s", "last_answer").unwrap(), "\"fallen\"");
}

#[test]
fn an_answer_is_not_stored_in_another_generation() {
    let host = TestHost::new();
    let filter = filter(&host, r#"{"session_ttl_hours":1}"#);
    let turn = filter.question("q", S).turn;
    host.pass(3_600_000);
    host.lines();
    for _ in 0..2 {
        // Expired, then absent.
        let answer = filter.answer("late", "{}", &turn);
        assert_eq!((answer.effect, answer.problem), (Effect::Ended, None));
    }
    filter.question("q", S);
    // Another life.
    assert_eq!(filter.answer("late", "{}", &turn).effect, Effect::Ended);
    assert_eq!(host.get("s", "last_answer"), None);
    assert_eq!(host.lines(), ["Warn keepline.session Answer not stored: its question's session has ended: s"; 3]);
}

#[test]
fn an_answer_that_names_its_questions_ended_session_does_not_revive_it() {
    let host = TestHost::new();
    let filter = filter(&host, "{}");
    let turn = filter.question("q", S).turn;
    assert_eq!(filter.answer("in time", S, &turn).effect, Effect::Stored);
    host.end("s");
    assert_eq!(filter.answer("late", S, &turn).effect, Effect::Ended);
    assert!(host.names().is_empty());
    // Nor does it land in another life.
    filter.question("q", S);
    assert_eq!(filter.answer("late", S, &turn).effect, Effect::Ended);
    assert_eq!(host.get("s", "last_answer"), None);
    // Without a turn nothing is known of a life, nor from the turn of a question that failed.
    assert_eq!(filter.answer("new", S, "").effect, Effect::Stored);
    host.end("s");
    assert_eq!(filter.answer("new", S, "k1:s").effect, Effect::Stored);
    // That of another session's question says nothing of this one's.
    assert_eq!(filter.answer("new", r#"{"session_id":"t"}"#, &turn).effect, Effect::Stored);
}

#[test]
fn an_answer_without_a_turn_recreates_its_expired_session() {
    let host = TestHost::new();
    let filter = filter(&host, r#"{"session_ttl_hours":1}"#);
    filter.answer("a", S, "");
    host.pass(3_600_000);
    assert_eq!(filter.answer("b", S, "").effect, Effect::Stored);
    assert_eq!(host.get("s", "answer_count").unwrap(), "1");
    assert!(host.bucket("s").expires_at.is_some());
}

#[test]
fn a_failed_question_still_names_the_session_to_its_answers() {
    let host = TestHost::new();
    let filter = filter(&host, "{}");
    host.fail("timed-out");
    let question = filter.question("q", S);
    assert_eq!(question.effect, Effect::Failed);
    assert_eq!(question.problem.unwrap().code, "timed-out");
    assert_eq!(host.lines(), ["Warn keepline.store No memory for a question of session s: It broke"]);
    host.works();
    assert_eq!(filter.answer("a", "{}", &question.turn).effect, Effect::Stored);
}

#[test]
fn an_invalid_turn_token_is_ignored() {
    let host = TestHost::new();
    let answer = filter(&host, "{}").answer("a", "{}", "k1:s:\n\u{0}");
    assert_eq!(answer.effect, Effect::Passed);
    assert_eq!(host.transactions.get(), 0);
    assert_eq!(host.lines(), ["Debug keepline.session Ignoring invalid turn state: 'k1:s:\\n\\x00'"]);
}
