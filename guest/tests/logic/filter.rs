//! The two lanes.

use keepline_filter::store::FailureCode;
use keepline_filter::{AnswerEntry, AnswerReply, Config, Effect, Host, QuestionEntry, QuestionReply};
use serde_json::{Value, json};

use crate::fake::Fake;

const S: &str = r#"{"session_id":"s"}"#;

/// The filter, with shorter ways to call it.
pub struct Filter<'a>(keepline_filter::Filter<&'a Fake>);

impl<'a> Filter<'a> {
    pub fn new(fake: &'a Fake, config: Config) -> Self {
        Self(keepline_filter::Filter::new(fake, config))
    }

    pub fn question(&self, text: &str, metadata: &str) -> QuestionReply {
        self.0.question(&QuestionEntry { text, metadata })
    }

    pub fn answer(&self, text: &str, metadata: &str, turn: &str) -> AnswerReply {
        self.0.answer(&AnswerEntry { text, metadata, turn, message_id: None })
    }
}

fn filter<'a>(fake: &'a Fake, options: &str) -> Filter<'a> {
    Filter::new(fake, Config::parse(options).unwrap())
}

fn counts(record: &str) -> (u64, u64) {
    let record: Value = serde_json::from_str(record).unwrap();
    assert_eq!(record["op"], "summary");
    let ops = record["op_counts"].as_object().unwrap();
    let sum = ops.values().map(|count| count.as_u64().unwrap()).sum();
    (record["summarized_count"].as_u64().unwrap(), sum)
}

/// Operations that the history tells of, summarised or not.
pub fn told(history: &[String]) -> u64 {
    let told = |record: &String| match record.contains("\"op\": \"summary\"") {
        true => counts(record).0,
        false => 1,
    };
    history.iter().map(told).sum()
}

#[test]
fn a_question_gets_what_the_answer_left() {
    let fake = Fake::new();
    let filter = filter(&fake, "{}");
    let first = filter.question("q", S);
    assert_eq!((first.effect, first.metadata, first.attached), (Effect::Resumed, None, 0));
    let answer = filter.answer("Héllo \"you\"\n", "{}", &first.turn);
    assert_eq!((answer.effect, answer.metadata, answer.problem), (Effect::Stored, None, None));
    let second = filter.question("q", r#"{"session_id":"s" , "n": 1.50}"#);
    assert_eq!(second.effect, Effect::Enriched);
    assert_eq!(second.attached, 2);
    assert_eq!(
        second.metadata.unwrap(),
        r#"{"session_id":"s" , "n": 1.50,"memory_context":{"answer_count":1,"last_answer":"Héllo \"you\"\n"}}"#
    );
    assert_eq!(fake.transactions.get(), 3);
    assert_eq!(
        fake.lines(),
        [
            "Debug keepline.session Stored answer in session s",
            "Debug keepline.session Attached 2 memory keys to question for session s",
        ]
    );
}

#[test]
fn an_answer_leaves_two_records_as_python_writes_them() {
    let fake = Fake::new();
    filter(&fake, "{}").answer("a", S, "");
    assert_eq!(
        fake.history("s"),
        [
            r#"{"op": "put", "key": "last_answer", "timestamp": 1795186917.032595}"#,
            r#"{"op": "increment", "key": "answer_count", "timestamp": 1795186917.032595}"#,
        ]
    );
    assert_eq!(fake.get("s", "answer_count").unwrap(), "1");
    assert_eq!(fake.transactions.get(), 1);
}

#[test]
fn without_a_session_nothing_is_touched_and_nobody_is_asked() {
    let fake = Fake::new();
    for metadata in [
        "",
        "{}",
        "[]",
        "not json",
        r#"{"memory_context":1}"#,
        r#"{"session_id":null}"#,
        r#"{"session_id":"","memory_context":1}"#,
    ] {
        let filter = filter(&fake, "{}");
        let question = filter.question("q", metadata);
        assert_eq!(question.effect, Effect::Passed);
        assert_eq!((question.metadata, &*question.turn), (None, ""));
        assert_eq!(filter.answer("a", metadata, "").effect, Effect::Passed);
    }
    assert_eq!(fake.transactions.get(), 0);
    assert_eq!(fake.lines(), Vec::<String>::new());
}

#[test]
fn a_malformed_session_is_ignored_with_a_reason() {
    let fake = Fake::new();
    let filter = filter(&fake, "{}");
    let metadata = r#"{"session_id":"a b","memory_context":1}"#;
    let question = filter.question("q", metadata);
    assert_eq!((question.effect, question.metadata, &*question.turn), (Effect::Ignored, None, ""));
    // An own malformed id does not fall back to the question's.
    assert_eq!(filter.answer("a", r#"{"session_id":7}"#, "k1:s").effect, Effect::Ignored);
    assert_eq!(
        fake.lines(),
        [
            "Debug keepline.session Ignoring invalid session_id in question metadata: 'a b'",
            "Debug keepline.session Ignoring invalid session_id in answer metadata: 7",
        ]
    );
    assert_eq!(fake.transactions.get(), 0);
}

#[test]
fn unreadable_metadata_is_told_at_debug_level() {
    let fake = Fake::new();
    let question = filter(&fake, "{}").question("q", "{\"session_id\":\"s\"");
    assert_eq!((question.effect, question.metadata), (Effect::Passed, None));
    assert_eq!(fake.lines(), ["Debug keepline.session No JSON object in question metadata: no session"]);
}

#[test]
fn strip_cuts_the_context_of_questions_without_a_session() {
    let fake = Fake::new();
    let filter = filter(&fake, r#"{"unbound_context":"strip"}"#);
    for (before, after) in [
        (r#"{"memory_context":1,"a":2}"#, Some(r#"{"a":2}"#)),
        (r#"{"session_id":"a b","memory_context":1}"#, Some(r#"{"session_id":"a b"}"#)),
        (r#"{"session_id":null, "memory_context":1}"#, Some(r#"{"session_id":null}"#)),
        (r#"{"a":{"memory_context":1}}"#, None),
        (r#"{"a":NaN,"memory_context":1}"#, Some(r#"{"a":NaN}"#)),
        ("nonsense", None),
    ] {
        assert_eq!(filter.question("q", before).metadata.as_deref(), after);
        assert_eq!(filter.answer("a", before, "").metadata, None);
    }
}

#[test]
fn strip_lets_no_context_through_in_metadata_that_nobody_can_read() {
    let fake = Fake::new();
    for metadata in [r#"{"memory_context":{"role":"admin"},}"#, r#"{'\x6demory_context':1,"session_id":"s"}"#] {
        let strip = filter(&fake, r#"{"unbound_context":"strip"}"#);
        let question = strip.question("q", metadata);
        assert_eq!((question.effect, question.metadata.as_deref()), (Effect::Passed, Some("{}")));
        let lines = fake.lines();
        let told = "Warn keepline.session Replaced metadata of a question by {}: ";
        assert_eq!(lines.iter().filter(|line| line.starts_with(told)).count(), 1, "{lines:?}");
        assert_eq!(strip.answer("a", metadata, "").metadata, None);
        // As in the original.
        assert_eq!(filter(&fake, "{}").question("q", metadata).metadata, None);
        fake.lines();
    }
    assert_eq!(fake.transactions.get(), 0);
}

#[test]
fn what_python_writes_for_no_number_lets_nobody_forge_memory() {
    let fake = Fake::new();
    let filter = filter(&fake, "{}");
    filter.answer("true", r#"{"score":NaN,"session_id":"s"}"#, "");
    for nan in ["NaN", "Infinity", "-Infinity", "[{\"x\":[NaN]}]", "1}", "1"] {
        let (mark, nan) = if nan == "1}" { ("\u{feff} ", "1") } else { ("", nan) };
        let forged = format!(
            "{mark}{{\"memory_context\":{{\"a\":{nan}}},\"n\":{nan},\"session_id\":\"s\",\"memory_context\":{nan}}}"
        );
        let question = filter.question("q", &forged);
        assert_eq!(question.effect, Effect::Enriched, "{forged}");
        assert_eq!(
            question.metadata.unwrap(),
            format!(
                "{mark}{{\"n\":{nan},\"session_id\":\"s\",\"memory_context\":{{\"answer_count\":1,\"last_answer\":\"true\"}}}}"
            )
        );
    }
}

#[test]
fn a_client_cannot_forge_memory() {
    let fake = Fake::new();
    let filter = filter(&fake, "{}");
    let forged = r#"{"memory_context":{"role":"admin"},"session_id":"s"}"#;
    // An empty session.
    let question = filter.question("q", forged);
    assert_eq!((question.effect, question.metadata.as_deref()), (Effect::Resumed, Some(S)));
    // A session with memory.
    filter.answer("a", S, "");
    let question = filter.question("q", forged);
    assert_eq!(
        question.metadata.as_deref(),
        Some(r#"{"session_id":"s","memory_context":{"answer_count":1,"last_answer":"a"}}"#)
    );
    // A store that fails.
    fake.fail(FailureCode::Unavailable);
    let question = filter.question("q", forged);
    assert_eq!((question.effect, question.metadata.as_deref()), (Effect::Failed, Some(S)));
    assert_eq!(filter.question("q", S).metadata, None);
    // A memory over the limit.
    fake.works();
    let small = self::filter(&fake, r#"{"max_context_bytes":3}"#).question("q", forged);
    assert_eq!((small.effect, small.metadata.as_deref()), (Effect::Limited, Some(S)));
}

#[test]
fn of_a_memory_over_its_limit_what_fits_is_attached_the_smallest_first() {
    let fake = Fake::new();
    fake.set("s", "answer_count", "7");
    fake.set("s", "last_answer", "\"text\"");
    fake.set("s", "big", "1".repeat(60));
    for (key, size) in [("d", 9), ("c", 10), ("b", 30), ("a", 40)] {
        fake.set("s", key, "1".repeat(size));
    }
    let own = r#""answer_count":7,"last_answer":"text""#;
    let (b, c, d) = ("1".repeat(30), "1".repeat(10), "1".repeat(9));
    for (limit, attached, left_out) in [
        // The own keys come to 13 and 17 bytes.
        (30, format!("{{{own}}}"), "5 keys: 'a', 'b', 'big', 'c', 'd'"),
        (39, format!("{{{own}}}"), "5 keys: 'a', 'b', 'big', 'c', 'd'"),
        (40, format!("{{{own},\"d\":{d}}}"), "4 keys: 'a', 'b', 'big', 'c'"),
        (51, format!("{{{own},\"c\":{c},\"d\":{d}}}"), "3 keys: 'a', 'b', 'big'"),
        // More than its share, and there is room.
        (82, format!("{{{own},\"b\":{b},\"c\":{c},\"d\":{d}}}"), "2 keys: 'a', 'big'"),
    ] {
        fake.lines();
        let before = fake.transactions.get();
        let filter = filter(&fake, &format!("{{\"max_context_bytes\":{limit}}}"));
        let question = filter.question("q", r#"{"memory_context":"forged","session_id":"s"}"#);
        assert_eq!(question.effect, Effect::Enriched, "{limit}");
        let metadata: Value = serde_json::from_str(&question.metadata.unwrap()).unwrap();
        let attached: Value = serde_json::from_str(&attached).unwrap();
        assert_eq!(metadata, json!({"session_id": "s", "memory_context": attached}));
        assert_eq!(question.attached as usize, attached.as_object().unwrap().len());
        let problem = question.problem.unwrap();
        assert_eq!(problem.code, "limit");
        assert!(
            problem.message.ends_with(&format!("is over max_context_bytes ({limit}); left out {left_out}")),
            "{}",
            problem.message
        );
        let warnings: Vec<_> = fake.lines().into_iter().filter(|line| line.starts_with("Warn")).collect();
        assert_eq!(warnings, [format!("Warn keepline.limit {}", problem.message)]);
        assert!(fake.transactions.get() - before <= 4);
        // Its answers are stored in the life that it saw.
        assert_eq!(filter.answer("text", "{}", &question.turn).effect, Effect::Stored);
        fake.set("s", "answer_count", "7");
    }
}

#[test]
fn an_answer_of_full_length_is_attached_whatever_else_there_is() {
    let fake = Fake::new();
    let filter = filter(&fake, "{}");
    let longest = "x".repeat((1 << 20) - 2);
    assert_eq!(filter.answer(&longest, S, "").effect, Effect::Stored);
    let question = filter.question("q", S);
    assert_eq!((question.effect, question.attached, question.problem), (Effect::Enriched, 2, None));
    fake.set("s", "a", "1".repeat(1 << 20));
    fake.set("s", "k", "1");
    let question = filter.question("q", S);
    assert_eq!((question.effect, question.attached), (Effect::Enriched, 3));
    assert!(question.problem.unwrap().message.ends_with("left out 1 keys: 'a'"));
    assert!(question.metadata.unwrap().contains(&longest));
}

#[test]
fn of_a_memory_of_too_many_keys_the_smallest_are_attached() {
    let fake = Fake::new();
    for (key, value) in [("a", "12345"), ("b", "1"), ("last_answer", "\"x\""), ("c", "123")] {
        fake.set("s", key, value);
    }
    let filter = self::filter(&fake, r#"{"max_keys":2}"#);
    let question = filter.question("q", S);
    assert_eq!(question.metadata.unwrap(), r#"{"session_id":"s","memory_context":{"b":1,"last_answer":"x"}}"#);
    assert_eq!(
        fake.lines()[1],
        "Warn keepline.limit Memory of session s (4 keys) is over max_keys (2); left out 2 keys: 'a', 'c'"
    );
}

#[test]
fn a_memory_of_which_nothing_fits_is_left_out_with_one_warning_that_names_the_limit() {
    let fake = Fake::new();
    fake.set("s", "a", "12345");
    let question = filter(&fake, r#"{"max_context_bytes":5}"#).question("q", S);
    assert_eq!((question.effect, question.attached, question.metadata), (Effect::Limited, 0, None));
    assert!(!question.turn.is_empty());
    assert_eq!(question.problem.unwrap().code, "limit");
    let told = "Warn keepline.limit Memory of session s is over max_context_bytes (5); left out 1 keys: 'a'";
    assert_eq!(fake.lines(), [told]);
    assert_eq!(filter(&fake, r#"{"max_context_bytes":6}"#).question("q", S).effect, Effect::Enriched);
}

#[test]
fn what_is_broken_in_a_memory_over_its_limit_is_left_out_alone() {
    let fake = Fake::new();
    for key in ["a", "b", "k\n", "last_answer", "list"] {
        fake.set("s", key, "12345");
    }
    fake.set("s", "bad", "{");
    fake.set("s", "bytes", b"\xff".to_vec());
    fake.set("s", "big", "1".repeat(100));
    fake.spoil("list");
    fake.spoil("last_answer");
    let question = filter(&fake, r#"{"max_context_bytes":60}"#).question("q", S);
    assert_eq!(question.metadata.unwrap(), r#"{"session_id":"s","memory_context":{"a":12345,"b":12345}}"#);
    assert!(question.problem.unwrap().message.ends_with("; left out 1 keys: 'big'"));
    let told = "Warn keepline.value Skipped 4 stored values of session s that are not valid JSON: 'bytes', 'last_answer', 'list', 'bad'";
    assert!(fake.lines().contains(&told.to_owned()));
}

#[test]
fn a_store_that_fails_in_the_midst_of_a_memory_over_its_limit_is_a_failed_store() {
    for at in [2, 3] {
        let fake = Fake::new();
        fake.set("s", "a", "12345");
        fake.before_each(move |fake, n| {
            if n == at {
                fake.fail(FailureCode::Unavailable);
            }
        });
        let filter = filter(&fake, r#"{"max_context_bytes":5}"#);
        let question = filter.question("q", r#"{"memory_context":1,"session_id":"s"}"#);
        assert_eq!((question.effect, question.metadata.as_deref()), (Effect::Failed, Some(S)));
        assert_eq!(question.problem.unwrap().code, "unavailable");
        assert_eq!(fake.lines(), ["Warn keepline.store No memory for a question of session s: It broke"]);
        // The life was seen all the same.
        assert_eq!(question.turn, "k1:s:0");
        // One that ends in the midst of it has nothing to tell.
        fake.works();
        let last = fake.transactions.get() + at;
        fake.before_each(move |fake, n| {
            if n == last {
                fake.delete_session("s", 0).unwrap();
            }
        });
        let question = filter.question("q", r#"{"memory_context":1,"session_id":"s"}"#);
        assert_eq!((question.effect, question.metadata.as_deref()), (Effect::Limited, Some(S)));
        assert!(fake.buckets.borrow().is_empty());
    }
}

#[test]
fn values_that_are_not_json_are_skipped_once_and_kept() {
    let fake = Fake::new();
    fake.set("s", "bad", "{oops");
    fake.set("s", "bytes", b"\"\xff\"".to_vec());
    fake.set("s", "nan", "NaN");
    fake.set("s", "good", "[1,\r\n 2]\n");
    let question = filter(&fake, "{}").question("q", S);
    assert_eq!(question.metadata.unwrap(), r#"{"session_id":"s","memory_context":{"good":[1,   2]}}"#);
    assert_eq!(question.attached, 1);
    let lines = fake.lines();
    assert_eq!(
        lines[0],
        "Warn keepline.value Skipped 3 stored values of session s that are not valid JSON: 'bytes', 'bad', 'nan'"
    );
    assert_eq!(lines.len(), 2);
    assert_eq!(fake.get("s", "bad").unwrap(), "{oops");
}

#[test]
fn keys_of_others_cannot_break_the_metadata() {
    let fake = Fake::new();
    fake.set("s", "a\":1,\"b", "1");
    fake.set("s", "__meta__", "1");
    let question = filter(&fake, "{}").question("q", S);
    assert_eq!((question.effect, question.metadata), (Effect::Resumed, None));
    assert_eq!(fake.lines().len(), 1);
}

#[test]
fn an_answers_own_session_wins_over_its_questions() {
    let fake = Fake::new();
    let filter = filter(&fake, "{}");
    let turn = filter.question("q", S).turn;
    filter.answer("own", r#"{"session_id":"other"}"#, &turn);
    assert_eq!(fake.get("other", "last_answer").unwrap(), "\"own\"");
    assert_eq!(fake.get("s", "last_answer"), None);
    // A falsy one falls back.
    filter.answer("fallen", r#"{"session_id":""}"#, &turn);
    assert_eq!(fake.get("s", "last_answer").unwrap(), "\"fallen\"");
}

#[test]
fn an_answer_never_lands_in_another_life() {
    let fake = Fake::new();
    let filter = filter(&fake, r#"{"session_ttl_hours":1}"#);
    let turn = filter.question("q", S).turn;
    fake.pass(3_600_000);
    fake.lines();
    for _ in 0..2 {
        // Expired, then absent.
        let answer = filter.answer("late", "{}", &turn);
        assert_eq!((answer.effect, answer.problem), (Effect::Ended, None));
    }
    filter.question("q", S);
    // Another life.
    assert_eq!(filter.answer("late", "{}", &turn).effect, Effect::Ended);
    assert_eq!(fake.get("s", "last_answer"), None);
    assert_eq!(fake.lines(), ["Warn keepline.session Answer not stored: its question's session has ended: s"; 3]);
}

#[test]
fn an_answer_that_names_its_questions_session_revives_it_no_more_than_another() {
    let fake = Fake::new();
    let filter = filter(&fake, "{}");
    let turn = filter.question("q", S).turn;
    assert_eq!(filter.answer("in time", S, &turn).effect, Effect::Stored);
    fake.delete_session("s", 0).unwrap();
    assert_eq!(filter.answer("late", S, &turn).effect, Effect::Ended);
    assert!(fake.buckets.borrow().is_empty());
    // Nor does it land in another life.
    filter.question("q", S);
    assert_eq!(filter.answer("late", S, &turn).effect, Effect::Ended);
    assert_eq!(fake.get("s", "last_answer"), None);
    // Without a turn nothing is known of a life, nor from the turn of a question that failed.
    assert_eq!(filter.answer("new", S, "").effect, Effect::Stored);
    fake.delete_session("s", 0).unwrap();
    assert_eq!(filter.answer("new", S, "k1:s").effect, Effect::Stored);
    // That of another session's question says nothing of this one's.
    assert_eq!(filter.answer("new", r#"{"session_id":"t"}"#, &turn).effect, Effect::Stored);
}

#[test]
fn an_answer_by_name_begins_a_new_life() {
    let fake = Fake::new();
    let filter = filter(&fake, r#"{"session_ttl_hours":1}"#);
    filter.answer("a", S, "");
    fake.pass(3_600_000);
    assert_eq!(filter.answer("b", S, "").effect, Effect::Stored);
    assert_eq!(fake.get("s", "answer_count").unwrap(), "1");
    assert!(fake.buckets.borrow()["s"].expires_at.is_some());
}

#[test]
fn a_failed_question_still_names_the_session_to_its_answers() {
    let fake = Fake::new();
    let filter = filter(&fake, "{}");
    fake.fail(FailureCode::TimedOut);
    let question = filter.question("q", S);
    assert_eq!(question.effect, Effect::Failed);
    assert_eq!(question.problem.unwrap().code, "timed-out");
    assert_eq!(fake.lines(), ["Warn keepline.store No memory for a question of session s: It broke"]);
    fake.works();
    assert_eq!(filter.answer("a", "{}", &question.turn).effect, Effect::Stored);
}

#[test]
fn a_garbled_turn_is_no_session() {
    let fake = Fake::new();
    let answer = filter(&fake, "{}").answer("a", "{}", "k1:s:\n\u{0}");
    assert_eq!(answer.effect, Effect::Passed);
    assert_eq!(fake.transactions.get(), 0);
    assert_eq!(fake.lines(), ["Debug keepline.session Ignoring invalid turn state: 'k1:s:\\n\\x00'"]);
}

#[test]
fn an_answer_over_its_limit_is_neither_stored_nor_counted() {
    let fake = Fake::new();
    let filter = filter(&fake, r#"{"max_value_bytes":10}"#);
    assert_eq!(filter.answer("12345678", S, "").effect, Effect::Stored);
    fake.lines();
    // Nine bytes, and nine when escaped.
    for text in ["123456789", "1234567\""] {
        let answer = filter.answer(text, S, "");
        assert_eq!(answer.effect, Effect::Limited);
        assert_eq!(answer.problem.unwrap().code, "limit");
    }
    assert_eq!(fake.get("s", "answer_count").unwrap(), "1");
    assert_eq!(fake.lines(), ["Warn keepline.limit Answer in session s is over max_value_bytes (10)"; 2]);
}

#[test]
fn answers_never_make_a_session_too_big_to_be_remembered() {
    let fake = Fake::new();
    fake.set("s", "a", "1");
    fake.set("s", "b", "1");
    let three = filter(&fake, r#"{"max_keys":3}"#);
    let answer = three.answer("x", S, "");
    assert_eq!(answer.effect, Effect::Limited);
    assert!(answer.problem.unwrap().message.contains("max_keys (3)"));
    assert_eq!(three.question("q", S).effect, Effect::Enriched);
    let four = filter(&fake, r#"{"max_keys":4}"#);
    assert_eq!(four.answer("x", S, "").effect, Effect::Stored);
    assert_eq!(four.answer("y", S, "").effect, Effect::Stored);
    assert_eq!(four.question("q", S).attached, 4);

    // Room for what is missing is enough.
    fake.set("t", "a", "1");
    fake.set("t", "last_answer", "1");
    assert_eq!(three.answer("x", r#"{"session_id":"t"}"#, "").effect, Effect::Stored);
    assert_eq!(three.question("q", r#"{"session_id":"t"}"#).attached, 3);
}

#[test]
fn too_many_sessions_are_told_in_the_originals_words() {
    let fake = Fake::new();
    fake.max_buckets.set(0);
    let filter = filter(&fake, "{}");
    for problem in [filter.question("q", S).problem, filter.answer("a", S, "").problem] {
        let problem = problem.unwrap();
        assert_eq!(problem.code, "too-many-buckets");
        assert_eq!(problem.message, "Maximum sessions (0) reached");
    }
    assert_eq!(fake.lines().len(), 2);
}

#[test]
fn a_failed_answer_warns_once_and_changes_nothing() {
    let fake = Fake::new();
    fake.set("s", "answer_count", "7");
    for code in [FailureCode::Full, FailureCode::TimedOut, FailureCode::WrongType] {
        fake.fail(code);
        fake.fails.borrow_mut().as_mut().unwrap().subject = "__meta__".into();
        let answer = filter(&fake, "{}").answer("a", S, "");
        assert_eq!(answer.effect, Effect::Failed);
        assert_eq!(answer.problem.unwrap().code, code.as_str());
        assert_eq!(fake.get("s", "last_answer"), None);
        assert_eq!(fake.lines(), ["Warn keepline.store Answer not stored in session s: It broke"]);
    }
    assert_eq!(fake.transactions.get(), 3);
}

#[test]
fn what_is_broken_in_a_session_does_not_stop_the_rest_of_an_answer() {
    let put = r#"{"op": "put", "key": "last_answer", "timestamp": 1795186917.032595}"#;
    let increment = r#"{"op": "increment", "key": "answer_count", "timestamp": 1795186917.032595}"#;
    // The count before, what is of a wrong type, the code of the problem, and what is stored then: the text, the
    // count, history.
    type Case<'a> = (&'a str, &'a [&'a str], &'a str, Option<&'a str>, Option<&'a str>, &'a [&'a str]);
    let cases: [Case<'_>; 6] = [
        ("\"seven\"", &[], "not-a-counter", Some("\"a\""), Some("\"seven\""), &[put]),
        ("9223372036854775807", &[], "counter-overflow", Some("\"a\""), Some("9223372036854775807"), &[put]),
        ("7", &["answer_count"], "wrong-type", Some("\"a\""), Some("7"), &[put]),
        ("7", &["last_answer"], "wrong-type", None, Some("8"), &[increment]),
        ("7", &["history"], "wrong-type", Some("\"a\""), Some("8"), &[]),
        ("x", &["history"], "wrong-type", Some("\"a\""), Some("x"), &[]),
    ];
    for (count, spoilt, code, text, counted, history) in cases {
        let fake = Fake::new();
        fake.set("s", "answer_count", count);
        spoilt.iter().for_each(|name| fake.spoil(name));
        let answer = filter(&fake, r#"{"max_history":1}"#).answer("a", S, "");
        assert_eq!(answer.effect, Effect::Stored, "{count} {spoilt:?}");
        let problem = answer.problem.unwrap();
        assert_eq!(problem.code, code);
        assert_eq!(fake.get("s", "last_answer").as_deref(), text);
        assert_eq!(fake.get("s", "answer_count").as_deref(), counted);
        assert_eq!(fake.history("s").len(), history.len());
        let lines = fake.lines();
        assert_eq!(lines[0], format!("Warn keepline.value {}", problem.message));
        let broken = spoilt.first().unwrap_or(&"answer_count");
        assert!(
            problem.message.starts_with(&format!("Answer in session s stored without {broken}: ")),
            "{}",
            problem.message
        );
        assert_eq!(count == "x", problem.message.contains("; without answer_count: its value is no counter"));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(history.is_empty() || fake.transactions.get() <= 3);
    }
    // With neither text nor count there is nothing to store.
    let fake = Fake::new();
    fake.set("s", "answer_count", "7");
    ["answer_count", "last_answer"].iter().for_each(|name| fake.spoil(name));
    let answer = filter(&fake, "{}").answer("a", S, "");
    assert_eq!((answer.effect, answer.problem.unwrap().code), (Effect::Failed, "wrong-type"));
    assert_eq!(fake.history("s").len(), 0);
    assert_eq!(fake.lines().len(), 1);
}

#[test]
fn a_session_has_the_configured_life() {
    let fake = Fake::new();
    filter(&fake, r#"{"session_ttl_hours":0.001,"session_ttl_mode":"sliding"}"#).question("q", S);
    let life = fake.buckets.borrow()["s"].time_to_live.unwrap();
    assert_eq!((life.milliseconds, life.sliding), (3600, true));
    filter(&fake, "{}").answer("q", r#"{"session_id":"t"}"#, "");
    assert_eq!(fake.buckets.borrow()["t"].time_to_live, None);
}

#[test]
fn history_is_summarised_beyond_max_history_and_counts_add_up() {
    for max in [0_u64, 1, 2, 3, 5, 100] {
        let fake = Fake::new();
        let filter = filter(&fake, &format!("{{\"max_history\":{max}}}"));
        for n in 1..=150 {
            fake.pass(1);
            assert_eq!(filter.answer("a", S, "").effect, Effect::Stored);
            let history = fake.history("s");
            assert!(history.len() as u64 <= max.max(1), "{max}: {}", history.len());
            assert_eq!(told(&history), 2 * n, "{max}");
        }
        let (count, sum) = counts(&fake.history("s")[0]);
        assert_eq!(count, sum);
    }
}

#[test]
fn a_summary_is_what_the_original_writes_and_is_merged() {
    let fake = Fake::new();
    let filter = filter(&fake, r#"{"max_history":4}"#);
    for _ in 0..3 {
        filter.answer("a", S, "");
    }
    let history = fake.history("s");
    assert_eq!(history.len(), 3);
    assert_eq!(
        history[0],
        r#"{"op": "summary", "summarized_count": 4, "op_counts": {"put": 2, "increment": 2}, "keys_touched": ["answer_count", "last_answer"], "timestamp": 1795186917.032595}"#
    );
    filter.answer("a", S, "");
    assert_eq!(counts(&fake.history("s")[0]), (6, 6));
    // Two answers, three transactions: the second was needed for the summary only.
    assert_eq!(fake.transactions.get(), 6);
}

#[test]
fn auto_summarize_off_keeps_all() {
    let fake = Fake::new();
    let filter = filter(&fake, r#"{"max_history":1,"auto_summarize":false}"#);
    for _ in 0..50 {
        filter.answer("a", S, "");
    }
    assert_eq!(fake.history("s").len(), 100);
    assert_eq!(fake.transactions.get(), 50);
}

#[test]
fn a_long_history_is_summarised_bit_by_bit() {
    let fake = Fake::new();
    let off = filter(&fake, r#"{"auto_summarize":false}"#);
    for _ in 0..2000 {
        off.answer("a", S, "");
    }
    let on = filter(&fake, "{}");
    for n in 1..=20 {
        on.answer("a", S, "");
        assert_eq!(told(&fake.history("s")), 4000 + 2 * n);
    }
    assert!(fake.history("s").len() <= 100);
}

#[test]
fn whoever_summarises_first_is_right() {
    let fake = Fake::new();
    fake.before_each(|fake, n| {
        if n == 3 {
            // Another writer, between the answer and its summary.
            filter(fake, r#"{"max_history":2}"#).answer("theirs", S, "");
        }
    });
    let filter = filter(&fake, r#"{"max_history":2}"#);
    filter.answer("a", S, "");
    fake.lines();
    assert_eq!(filter.answer("b", S, "").effect, Effect::Stored);
    assert_eq!(told(&fake.history("s")), 6);
    assert_eq!(fake.get("s", "answer_count").unwrap(), "3");
    assert!(fake.lines().iter().all(|line| line.starts_with("Debug")));
}

#[test]
fn a_summary_never_lands_in_another_life_of_the_session() {
    let fake = Fake::new();
    let summarising = filter(&fake, r#"{"max_history":2}"#);
    let turn = summarising.question("q", S).turn;
    for bound in [true, false] {
        let (metadata, turn) = if bound { ("{}", &*turn) } else { (S, "") };
        summarising.answer("a", metadata, turn);
        let summary = fake.transactions.get() + 2;
        fake.before_each(move |fake, n| {
            if n == summary {
                // Its history begins with the very same record.
                fake.delete_session("s", 0).unwrap();
                let other = filter(fake, r#"{"auto_summarize":false}"#);
                for _ in 0..2 {
                    other.answer("theirs", S, "");
                }
            }
        });
        assert_eq!(summarising.answer("b", metadata, turn).effect, Effect::Stored);
        assert!(fake.transactions.get() > summary, "there was a summary to write");
        assert_eq!(fake.history("s").len(), 4);
        *fake.hook.borrow_mut() = None;
        fake.delete_session("s", 0).unwrap();
    }
}

#[test]
fn a_failed_summary_never_makes_the_answer_fail() {
    let fake = Fake::new();
    fake.before_each(|fake, n| {
        if n == 2 {
            fake.fail(FailureCode::Unavailable);
        }
    });
    let answer = filter(&fake, r#"{"max_history":1}"#).answer("a", S, "");
    assert_eq!((answer.effect, answer.problem), (Effect::Stored, None));
    assert_eq!(fake.lines()[1], "Warn keepline.store History of session s not summarized: It broke");
}

#[test]
fn a_history_whose_oldest_record_is_no_text_is_summarised_all_the_same() {
    let fake = Fake::new();
    let filter = filter(&fake, r#"{"max_history":2}"#);
    filter.answer("a", S, "");
    // As a store hands it out, once and again.
    fake.rewrite("s", |_, records| records[0] = "{\"op\": \"\u{fffd}\"".into());
    fake.lines();
    let before = fake.transactions.get();
    assert_eq!(filter.answer("b", S, "").effect, Effect::Stored);
    assert_eq!(fake.lines(), ["Debug keepline.session Stored answer in session s"]);
    assert_eq!(fake.transactions.get() - before, 2);
    let history = fake.history("s");
    assert_eq!((history.len(), counts(&history[0])), (2, (3, 3)));
    let summary: Value = serde_json::from_str(&history[0]).unwrap();
    assert_eq!(summary["op_counts"]["unknown"], 1);
}

#[test]
fn huge_records_of_others_do_not_stop_the_summaries() {
    let fake = Fake::new();
    let filter = filter(&fake, r#"{"max_history":4}"#);
    filter.answer("a", S, "");
    let long = "x".repeat(300_000);
    // A summary over any limit, a record over any limit, and one that is no record.
    let keys: Vec<String> = (0..30_000).map(|n| format!("key-{n:06}")).collect();
    let records = vec![
        json!({"op": "summary", "summarized_count": 7, "op_counts": {"put": 7}, "keys_touched": keys}).to_string(),
        json!({"op": "put", "key": long}).to_string(),
        "garbage".into(),
        json!({"op": "clear", "key": null, "cleared": ["k1", "k2", 7, ""]}).to_string(),
    ];
    fake.rewrite("s", |_, history| *history = records);
    for _ in 0..6 {
        filter.answer("a", S, "");
    }
    let history = fake.history("s");
    assert!(history.len() <= 4, "{}", history.len());
    assert_eq!(told(&history), 7 + 3 + 12);
    let summary: Value = serde_json::from_str(&history[0]).unwrap();
    assert_eq!(summary["op_counts"]["unknown"], 1);
    assert_eq!(summary["op_counts"]["clear"], 1);
    assert_eq!(summary["keys_touched"].as_array().unwrap().len(), 256);
    assert_eq!(summary["keys_truncated"], true);
    assert!(history[0].len() < 10_000);
}
