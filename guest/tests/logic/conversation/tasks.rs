//! Deferred work: summaries, titles, retention.

use std::collections::BTreeMap;

use crate::admin_calls as admin;
use keepline_filter::contract::needs;
use keepline_filter::entry::types::TaskBucket;
use keepline_filter::tasks::job::{
    CompletionNeed, FailedResult, Job, MissingResult, Need, NeedOutcome, NeedResult, Progress, Step, TextResult,
    Vector, VectorsResult,
};
use keepline_filter::transcript::address::TranscriptId;
use keepline_filter::{Config, Context, Effect, Filter, Host};
use serde_json::{Value, json};

use super::{STORED, act, ask, attached, call, entry, filter, messages, reply, result, s, say, transcript, turn};
use crate::test_host::TestHost;

/// A task as a host keeps it.
pub struct Work {
    pub buckets: Vec<TaskBucket>,
    pub name: &'static str,
    pub state: String,
}

impl Work {
    pub fn of(due: &[keepline_filter::Task], name: &'static str) -> Self {
        let task = due.iter().find(|task| task.name == name).unwrap();
        assert!(task.state.len() <= 4096 && task.state.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        Self { buckets: task.buckets.clone(), name, state: task.state.clone() }
    }

    pub fn step(&mut self, filter: &Filter<impl Host>, holder: &str, result: Option<&str>) -> Progress {
        let result = result.map(|text| match text {
            "" => missing(),
            text => completed(text),
        });
        self.go_on(filter, holder, result)
    }

    pub fn go_on(&mut self, filter: &Filter<impl Host>, holder: &str, result: Option<NeedOutcome>) -> Progress {
        let results: Vec<_> = result.into_iter().map(|outcome| NeedResult { id: 1, outcome }).collect();
        let progress = filter.advance(&Job {
            buckets: &self.buckets,
            name: self.name,
            state: &self.state,
            holder,
            lease_milliseconds: 1000,
            results: &results,
        });
        if let Some(state) = &progress.state {
            assert!(state.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            self.state.clone_from(state);
        }
        progress
    }
}

pub fn completion(asked: Progress) -> CompletionNeed {
    match asked.need {
        Some(Need::Completion(need)) => need,
        other => panic!("{other:?}"),
    }
}

/// Buckets of a task: kinds and names.
pub fn buckets(text: &str) -> Vec<TaskBucket> {
    let bucket = |text: &str| {
        let (kind, name) = text.split_once(' ').unwrap();
        TaskBucket { kind: kind.into(), name: name.into() }
    };
    text.split(", ").map(bucket).collect()
}

/// What a host brings of a step's needs.
pub fn completed(text: &str) -> NeedOutcome {
    NeedOutcome::Text(TextResult { text: text.to_owned() })
}

pub fn embedded(vectors: Vec<Vector>) -> NeedOutcome {
    NeedOutcome::Vectors(VectorsResult { vectors })
}

pub fn missing() -> NeedOutcome {
    NeedOutcome::Missing(MissingResult { message: String::new() })
}

pub fn failed() -> NeedOutcome {
    NeedOutcome::Failed(FailedResult { message: String::new() })
}

/// Turns until a summary is due.
pub fn until_due(filter: &Filter<impl Host>, from: usize) -> (usize, Work) {
    for number in from..from + 1000 {
        let question = format!("question {number}: what is this about?");
        let asked = ask(filter, &question, &s());
        let due = reply(filter, &question, &format!("It is about {number}."), &asked.turn).due;
        if due.iter().any(|task| task.name == "summary") {
            return (number, Work::of(&due, "summary"));
        }
    }
    panic!("no summary is due");
}

pub fn summary(host: &TestHost) -> Value {
    serde_json::from_str(&entry(host, "session", "summary").unwrap()).unwrap()
}

#[test]
fn turns_that_no_longer_fit_are_summarized_up_to_a_position() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 500, "memory_trace": true"#);
    let (last, mut work) = until_due(&filter, 0);
    let before = transcript(&host, "s");
    let asked = work.step(&filter, "h", None);
    assert_eq!(asked.step, Step::Needs);
    let need = completion(asked);
    assert_eq!((need.purpose.as_str(), need.id, need.max_tokens), ("summary", 1, 125));
    assert!(need.input.starts_with("User:\n```\nquestion 0: what"), "{}", need.input);
    assert!(!need.input.contains(&format!("about {last}.")), "the newest stay");
    assert_eq!(work.step(&filter, "h", Some(" All about numbers.\n")).step, Step::Done);
    assert_eq!(transcript(&host, "s"), before, "nothing is deleted");

    let reach = summary(&host)["to"].as_u64().unwrap();
    assert_eq!(reach % 2, 1, "no turn is split");
    let asked = ask(&filter, "?", &s());
    assert_eq!(
        attached(&asked, "memory_summary"),
        json!({"role": "user", "content": "[Summary of the conversation so far]\nAll about numbers."})
    );
    let first = reach.div_ceil(2);
    assert!(messages(&asked)[0].starts_with(&format!("user: question {first}:")), "the window begins where it ends");
    let trace = attached(&asked, "memory_trace");
    assert_eq!((&trace["summary_to"], &trace["gap"]), (&json!(reach), &json!(null)));
    let rest: u64 = before[first as usize * 2..].iter().map(|record| record["weight"].as_u64().unwrap()).sum();
    assert!(rest <= 150, "{rest}");

    // It is not due again before there is as much anew, and the next one is made of it.
    let (_, mut work) = until_due(&filter, last + 1);
    let need = completion(work.step(&filter, "h", None));
    assert!(need.input.starts_with("Earlier summary:\n```\nAll about numbers.\n```\nUser:\n"), "{}", need.input);
    assert!(need.input.contains(&format!("question {first}:")) && !need.input.contains("question 0:"));
    assert_eq!(work.step(&filter, "h", Some("More numbers.")).step, Step::Done);
    assert!(summary(&host)["to"].as_u64().unwrap() > reach);
}

#[test]
fn without_a_model_there_is_a_digest() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 500, "summary_max_tokens": 200"#);
    let turn = ask(&filter, "Weather in Rome?", &s()).turn;
    act(&filter, "Weather in Rome?", "Hot.", &turn, &[call("c", "weather", "{}"), result("c", "weather", "40")]);
    let (last, mut work) = until_due(&filter, 0);
    work.step(&filter, "h", None);
    assert_eq!(work.step(&filter, "h", Some("")).step, Step::Done);
    let text = summary(&host)["text"].as_str().unwrap().to_owned();
    assert!(
        text.len() <= 400 && text.contains("- The user asked: question") && text.contains("- Answered: It is"),
        "{text}"
    );
    assert_eq!(attached(&ask(&filter, "?", &s()), "memory_summary")["role"], "user");
    let (_, mut work) = until_due(&filter, last + 1);
    work.step(&filter, "h", None);
    work.step(&filter, "h", Some(""));
    let text = summary(&host)["text"].as_str().unwrap().to_owned();
    assert!(text.len() <= 400 && text.contains("The user asked: question"), "{text}");
}

#[test]
fn a_late_summary_does_not_overwrite_a_newer_one() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 500"#);
    let (_, mut one) = until_due(&filter, 0);
    let mut two = Work { buckets: one.buckets.clone(), name: "summary", state: one.state.clone() };
    assert_eq!(one.step(&filter, "one", None).step, Step::Needs);
    assert_eq!(two.step(&filter, "two", None).step, Step::Taken);
    // The first one takes too long; its lease runs out.
    host.pass(1001);
    assert_eq!(two.step(&filter, "two", None).step, Step::Needs);
    assert_eq!(two.step(&filter, "two", Some("By the second.")).step, Step::Done);
    assert_eq!(one.step(&filter, "one", Some("By the first.")).step, Step::Taken);
    assert_eq!(summary(&host)["text"], "By the second.");
    // Nothing is left to be done, and no lease either.
    let mut three = Work { state: "{}".into(), buckets: two.buckets.clone(), name: "summary" };
    assert_eq!(three.step(&filter, "three", None).step, Step::Done);
    assert!(host.leases("s").is_empty());
}

#[test]
fn a_turn_written_while_a_summary_is_made_is_kept() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 500"#);
    let (_, mut work) = until_due(&filter, 0);
    work.step(&filter, "h", None);
    turn(&filter, "meanwhile", None);
    assert_eq!(work.step(&filter, "h", Some("Numbers.")).step, Step::Done);
    assert_eq!(messages(&ask(&filter, "?", &s())).last().unwrap(), "assistant: answer meanwhile");
    // But not if messages were changed.
    let (_, mut work) = until_due(&filter, 500);
    work.step(&filter, "h", None);
    let mut buckets = host.buckets_mut();
    buckets.get_mut("s").unwrap().maps.get_mut("session").unwrap().insert("revision".into(), "1".into());
    drop(buckets);
    assert_eq!(work.step(&filter, "h", Some("Old numbers.")).step, Step::Taken);
    assert!(host.leases("s").is_empty(), "nobody has to wait");
}

#[test]
fn a_summary_of_another_branch_is_not_attached() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 500"#);
    turn(&filter, "root", None);
    let (_, mut work) = until_due(&filter, 0);
    work.step(&filter, "h", None);
    work.step(&filter, "h", Some("Numbers."));
    let other = ask(&filter, "?", &json!({"session_id": "s", "parent_message_id": "aroot"}));
    assert_eq!(attached(&other, "memory_summary"), json!(null));
    assert_eq!(messages(&other), ["user: question root", "assistant: answer root"]);
}

#[test]
fn tasks_of_absent_sessions_end_and_unknown_tasks_fail() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 500"#);
    let (_, mut work) = until_due(&filter, 0);
    host.buckets_mut().clear();
    for name in ["summary", "title", "retention"] {
        work.name = name;
        assert_eq!(work.step(&filter, "h", None).step, Step::Ended, "{name}");
    }
    for (named, name, state) in [
        ("session s", "dance", "{}"),
        ("user s", "summary", "{}"),
        ("sessions s", "summary", "{}"),
        ("session s", "summary", "x"),
    ] {
        let mut work = Work { buckets: buckets(named), name, state: state.into() };
        let progress = work.step(&filter, "h", None);
        assert_eq!(progress.step, Step::Failed);
        assert!(progress.problem.is_some());
    }
    assert!(host.names().is_empty());
}

#[test]
fn a_conversation_gets_its_title_with_the_first_turn() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let question = "Where is my parcel? I have waited for it since the beginning of the month.";
    let asked = ask(&filter, question, &s());
    let stored = reply(&filter, question, "In Leipzig.", &asked.turn);
    assert_eq!(entry(&host, "session", "title").unwrap(), "Where is my parcel? I have waited for it since...");
    let mut work = Work::of(&stored.due, "title");
    let need = completion(work.step(&filter, "h", None));
    assert_eq!((&*need.purpose, &*need.input), ("title", &*format!("```\n{question}\n```\n")));
    assert_eq!(work.step(&filter, "h", Some("Title: \"Lost Parcel\".")).step, Step::Done);
    assert_eq!(entry(&host, "session", "title").unwrap(), "Lost Parcel");
    // With a second turn nothing is due; and what others gave is kept.
    assert_eq!(reply(&filter, "2", "two", &ask(&filter, "2", &s()).turn).due, []);
    assert_eq!(work.step(&filter, "h", Some("Another one")).step, Step::Taken);
    assert_eq!(entry(&host, "session", "title").unwrap(), "Lost Parcel");

    let none = super::filter(&host, r#""auto_generate_titles": false"#);
    let other = json!({"session_id": "t"});
    let asked = ask(&none, "?", &other);
    assert_eq!(say(&none, "?", "!", &asked.turn, &other).due, []);
}

#[test]
fn retention_removes_the_oldest_turns_over_the_limits() {
    for options in [r#""max_session_messages": 20"#, r#""max_session_bytes": 4000"#] {
        let host = TestHost::new();
        let filter = filter(&host, &format!("{options}, \"max_context_tokens\": 2000"));
        let long = "x".repeat(900);
        let mut most = 0;
        for number in 0..60 {
            let name = number.to_string();
            let metadata = json!({"session_id": "s", "message_id": format!("q{name}")});
            let asked = ask(&filter, &name, &metadata);
            let activity = [call("c", "look", "{}"), result("c", "look", &long)];
            let stored = act(&filter, &name, "done", &asked.turn, &activity);
            assert_eq!(stored.effect, STORED);
            let records = transcript(&host, "s");
            most = most.max(records.len());
            assert_eq!(records[0]["begins"], true, "whole turns go");
            if stored.due.iter().any(|task| task.name == "retention") {
                let mut work = Work::of(&stored.due, "retention");
                // The first step only looks, and keeps others out until what is to go has been copied.
                assert_eq!(work.step(&filter, "h", None).step, Step::Again);
                assert_eq!(transcript(&host, "s"), records);
                let mut other = Work::of(&stored.due, "retention");
                assert_eq!(other.step(&filter, "other", None).step, Step::Taken);
                while work.step(&filter, "h", None).step == Step::Again {}
            }
        }
        assert!(most <= 30, "{options}: {most}");
        let records = transcript(&host, "s");
        let bucket = host.bucket("s");
        let results = records.iter().filter(|record| record["tool"]["whole"].is_string()).count();
        assert_eq!(bucket.maps["results"].len(), results);
        assert_eq!(bucket.maps["messages"].len(), records.len() / 4);
        let (_, texts) = &bucket.logs["transcript"];
        let bytes: usize = texts.iter().map(String::len).sum();
        assert_eq!(bucket.maps["session"]["bytes"], bytes.to_string());
        assert_eq!(messages(&ask(&filter, "?", &s())).last().unwrap(), "assistant: done");
        // What was stored long ago and is sent again is stored again.
        let metadata = json!({"session_id": "s", "message_id": "q0"});
        assert_eq!(say(&filter, "0", "again", &ask(&filter, "0", &metadata).turn, &json!({})).effect, Effect::Stored);
    }
}

#[test]
fn alternating_branches_each_keep_their_summary() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 500, "auto_generate_titles": false"#);
    turn(&filter, "root", None);
    let mut parents = ["aroot".to_owned(), "aroot".to_owned()];
    let (mut completions, mut attached_to) = (0, [false; 2]);
    for number in 0..240 {
        let branch = number % 2;
        let name = format!("b{number}");
        let asked = ask(&filter, "?", &json!({"session_id": "s", "parent_message_id": parents[branch]}));
        let summary = attached(&asked, "memory_summary")["content"].as_str().map(str::to_owned);
        assert!(summary.is_some() || !attached_to[branch], "branch {branch} lost its summary at {number}");
        assert!(summary.is_none_or(|text| text.ends_with(&format!("Branch {branch}."))));
        let due = turn(&filter, &name, Some(&parents[branch])).due;
        parents[branch] = format!("a{name}");
        if due.iter().any(|task| task.name == "summary") {
            let mut work = Work::of(&due, "summary");
            assert_eq!(work.step(&filter, "h", None).step, Step::Needs);
            assert_eq!(work.step(&filter, "h", Some(&format!("Branch {branch}."))).step, Step::Done);
            completions += 1;
            attached_to[branch] = true;
        }
    }
    assert_eq!(attached_to, [true; 2]);
    assert!(completions <= 12, "{completions}");
    // A message that is removed is in none of them.
    let sessions = Context::new(&host, Config::parse(r#"{"conversation": true}"#).unwrap());
    admin::rewrite_message(&sessions, &TranscriptId { session: "s", app_id: None, node_id: None }, 0, None).unwrap();
    assert_eq!(entry(&host, "session", "summary"), None);
}

#[test]
fn a_summary_reaches_as_far_as_the_turns_the_model_read() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 4000, "auto_generate_titles": false"#);
    let sessions = Context::new(&host, Config::parse(r#"{"conversation": true}"#).unwrap());
    admin::create_session(&sessions, "s").unwrap();
    let message = |number: usize| {
        let role = ["user", "assistant"][number % 2];
        // A few are long.
        let text = if number % 100 == 50 { "long ".repeat(1600) } else { String::new() };
        json!({"role": role, "content": format!("message {number}. {text}")}).to_string()
    };
    let given: Vec<String> = (0..14_000).map(message).collect();
    let s = TranscriptId { session: "s", app_id: None, node_id: None };
    for (at, part) in given.chunks(7000).enumerate() {
        admin::set_messages(&sessions, &s, part, Some(7000 * at as u64)).unwrap();
    }
    let mut work = Work { buckets: buckets("session s"), name: "summary", state: String::new() };
    let (mut next, mut step) = (0, Step::Again);
    while step == Step::Again {
        let need = completion(work.step(&filter, "h", None));
        step = work.step(&filter, "h", Some("What was said.")).step;
        let to = summary(&host)["to"].as_u64().unwrap() as usize;
        assert!(to % 2 == 1 && need.input.len() < 600 << 10, "{to}");
        let shown = need.input.split("message ").skip(1).map(|rest| rest.split_once(". ").unwrap().0);
        let shown: Vec<usize> = shown.map(|number| number.parse().unwrap()).collect();
        assert_eq!(shown, (next..=to).collect::<Vec<_>>());
        next = to + 1;
    }
    assert_eq!(step, Step::Done);
    assert!((13_500..14_000).contains(&next), "{next}");
    let asked = ask(&filter, "?", &super::s());
    assert!(messages(&asked)[0].starts_with(&format!("user: message {next}.")));
}

/// Runs retention until there is nothing to remove: how many records are left. Each stays where it was.
fn retain(host: &TestHost, filter: &Filter<&TestHost>) -> usize {
    let placed = |host: &TestHost| {
        let (first, texts) = host.bucket("s").logs["transcript"].clone();
        (first..).zip(texts).collect::<BTreeMap<_, _>>()
    };
    let before = placed(host);
    loop {
        let after = placed(host);
        assert!(after.iter().all(|(position, text)| before.get(position) == Some(text)), "a position is used again");
        let mut work = Work { buckets: buckets("session s"), name: "retention", state: String::new() };
        let step = work.step(filter, "h", None).step;
        if step == Step::Done {
            return transcript(host, "s").len();
        }
        assert_eq!(step, Step::Again);
        while work.step(filter, "h", None).step == Step::Again {}
    }
}

#[test]
fn a_resumed_old_turn_is_kept_whole_while_it_is_the_newest() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_session_messages": 40"#);
    let named = json!({"session_id": "s", "message_id": "u0"});
    let open = ask(&filter, "Look.", &named).turn;
    act(&filter, "Look.", "", &open, &[call("a", "look", "{}")]);
    for number in 0..19 {
        turn(&filter, &number.to_string(), None);
    }
    act(&filter, "", "Seen.", &open, &[result("a", "look", "a tree")]);
    assert_eq!(transcript(&host, "s").len(), 42);
    assert_eq!(retain(&host, &filter), 42);
    let expected = ["user: Look.", "assistant: null", "tool: a tree", "assistant: Seen."];
    let shown = messages(&ask(&filter, "?", &s()));
    assert_eq!(shown[shown.len() - 4..], expected);
    // Once another comes after it, its beginning is what is oldest.
    turn(&filter, "next", None);
    let left = retain(&host, &filter);
    assert!((34..=36).contains(&left), "{left}");
    let shown = messages(&ask(&filter, "?", &s()));
    assert!(!shown.iter().any(|text| text == "user: Look."), "{shown:?}");
    assert_eq!(shown[shown.len() - 2..], ["user: question next", "assistant: answer next"]);
    let (_, texts) = host.bucket("s").logs["transcript"].clone();
    let bytes: usize = texts.iter().map(String::len).sum();
    assert_eq!(entry(&host, "session", "bytes").unwrap(), bytes.to_string());
    // Its id leads to the part of it that stayed.
    assert_eq!(entry(&host, "messages", "u0").unwrap(), "41");
}

#[test]
fn the_start_of_the_newest_turn_is_removed_beyond_twice_the_limit() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_session_messages": 40"#);
    let long = ask(&filter, "Begin.", &s()).turn;
    let mut most = 0;
    for number in 0..60 {
        turn(&filter, &number.to_string(), None);
        act(&filter, "Begin.", &format!("part {number}"), &long, &[]);
        most = most.max(transcript(&host, "s").len());
        retain(&host, &filter);
        let shown = messages(&ask(&filter, "?", &s()));
        assert_eq!(shown.last().unwrap(), &format!("assistant: part {number}"));
    }
    assert!((81..=84).contains(&most), "{most}");
}

#[test]
fn an_answer_given_again_keeps_its_question_while_its_turn_is_the_newest() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_session_messages": 200, "auto_generate_titles": false"#);
    for number in 0..100 {
        turn(&filter, &number.to_string(), None);
    }
    let first = json!({"session_id": "s", "message_id": "q0"});
    let again = ask(&filter, "question 0", &first).turn;
    say(&filter, "question 0", "again", &again, &json!({"message_id": "b0"}));
    assert_eq!(retain(&host, &filter), 201);
    assert_eq!(messages(&ask(&filter, "?", &s())), ["user: question 0", "assistant: again"]);
    // The other branch goes on, and what is oldest goes.
    turn(&filter, "100", Some("a99"));
    let left = retain(&host, &filter);
    assert!((160..=180).contains(&left), "{left}");
    let shown = messages(&ask(&filter, "?", &s()));
    assert!(shown.len() > 150 && !shown.iter().any(|text| text == "user: question 0"), "{:?}", &shown[..2]);
    // The answer that was given again stays, without its question.
    let shown = messages(&ask(&filter, "?", &json!({"session_id": "s", "parent_message_id": "b0"})));
    assert_eq!(shown, ["user: [The user's message was not recorded]", "assistant: again"]);
}

#[test]
fn tasks_without_a_state_do_all_pending_work() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 64"#);
    until_due(&filter, 0);
    let work = |name| Work { buckets: buckets("session s"), name, state: String::new() };
    for name in ["title", "summary"] {
        let mut work = work(name);
        assert_eq!(work.step(&filter, "h1", None).step, Step::Needs, "{name}");
        assert_eq!(work.step(&filter, "h1", Some("What it is about")).step, Step::Done, "{name}");
    }
    assert_eq!(entry(&host, "session", "title").unwrap(), "What it is about");
    assert_eq!(summary(&host)["text"], "What it is about");
    // Now there is no more to do; a title that a model or somebody gave stays. No lease is left behind.
    for holder in ["h2", "h3"] {
        for name in ["title", "summary", "retention"] {
            assert_eq!(work(name).step(&filter, holder, None).step, Step::Done, "{name}");
        }
    }
}

#[test]
fn an_unmet_need_changes_nothing_and_leaves_no_lease() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 64, "max_session_messages": 10"#);
    for number in [0, 100, 200, 300, 400, 500] {
        until_due(&filter, number);
    }
    let before = transcript(&host, "s");
    let title = entry(&host, "session", "title");
    for (name, first) in [("title", Step::Needs), ("summary", Step::Needs), ("retention", Step::Again)] {
        for holder in ["h1", "h2"] {
            let mut work = Work { buckets: buckets("session s"), name, state: String::new() };
            assert_eq!(work.step(&filter, holder, None).step, first, "{name}");
            let job = Job {
                buckets: &work.buckets,
                name,
                state: &work.state,
                holder,
                lease_milliseconds: 1000,
                results: &[NeedResult { id: 1, outcome: failed() }],
            };
            assert_eq!(filter.advance(&job).step, Step::Failed, "{name}");
        }
    }
    assert_eq!((entry(&host, "session", "title"), entry(&host, "session", "summary")), (title, None));
    assert_eq!(transcript(&host, "s"), before);
}

#[test]
fn a_failed_title_is_due_again_until_it_is_settled() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let turn = || reply(&filter, "Where is it?", "In Leipzig.", &ask(&filter, "Where is it?", &s()).turn).due;
    let named = |due: &[keepline_filter::Task]| due.iter().map(|task| task.name.clone()).collect::<Vec<_>>();
    let mut work = Work::of(&turn(), "title");
    work.step(&filter, "h", None);
    let job = Job {
        buckets: &work.buckets,
        name: "title",
        state: &work.state,
        holder: "h",
        lease_milliseconds: 1000,
        results: &[NeedResult { id: 1, outcome: failed() }],
    };
    assert_eq!(filter.advance(&job).step, Step::Failed);
    assert_eq!(entry(&host, "session", "title").unwrap(), "Where is it?");
    // So is one that nobody has begun.
    for _ in 0..2 {
        assert_eq!(named(&turn()), ["title"]);
    }
    let mut again = Work::of(&turn(), "title");
    again.step(&filter, "h", None);
    assert_eq!(again.step(&filter, "h", Some("Lost Parcel")).step, Step::Done);
    assert_eq!(entry(&host, "session", "title").unwrap(), "Lost Parcel");
    assert_eq!(named(&turn()), [""; 0]);
    // Without a model, with one that says nothing of use, and where somebody has given one, it is settled, too.
    for (session, said) in [("t", Some("")), ("u", Some("-")), ("v", None)] {
        let metadata = json!({"session_id": session});
        let asked = ask(&filter, "Where is it?", &metadata);
        let mut work = Work::of(&reply(&filter, "Where is it?", "!", &asked.turn).due, "title");
        match said {
            Some(said) => {
                work.step(&filter, "h", None);
                assert_eq!(work.step(&filter, "h", Some(said)).step, Step::Done);
            }
            None => {
                let mut buckets = host.buckets_mut();
                let map = buckets.get_mut(session).unwrap().maps.get_mut("session").unwrap();
                map.insert("title".into(), "Mine".into());
                drop(buckets);
                assert_eq!(work.step(&filter, "h", None).step, Step::Done);
            }
        }
        let asked = ask(&filter, "2", &metadata);
        assert_eq!(named(&reply(&filter, "2", "two", &asked.turn).due), [""; 0], "{session}");
    }
}

#[test]
fn a_conversation_without_a_title_gets_one_later_also_without_a_model() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let due = |question: &str, turn: &str| reply(&filter, question, "!", turn).due;
    let title_of = |due: &[keepline_filter::Task]| {
        let mut work = Work::of(due, "title");
        completion(work.step(&filter, "h", None));
        assert_eq!(work.step(&filter, "h", Some("")).step, Step::Done);
        entry(&host, "session", "title")
    };
    // An answer alone has nothing to be named after.
    assert!(due("", &ask(&filter, "?", &s()).turn).iter().all(|task| task.name != "title"));
    let due_then = due("Where is it?", &ask(&filter, "Where is it?", &s()).turn);
    assert_eq!(title_of(&due_then).as_deref(), Some("Where is it?"));
    // A title goes with the message that it was made of.
    let sessions = Context::new(&host, Config::parse(r#"{"conversation": true}"#).unwrap());
    let transcript = TranscriptId { session: "s", app_id: None, node_id: None };
    admin::clear_messages(&sessions, &transcript, None).unwrap();
    assert_eq!(entry(&host, "session", "title"), None);
    let due_then = due("And \u{1b}[31mthis\u{202e}?", &ask(&filter, "And this?", &s()).turn);
    assert_eq!(title_of(&due_then).as_deref(), Some("And [31mthis?"));
    // It is settled.
    assert_eq!(due("More?", &ask(&filter, "More?", &s()).turn), []);
}

#[test]
fn a_turn_that_waits_for_a_tool_is_kept_until_the_limit_is_exceeded_twofold() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_session_messages": 20"#);
    let open = ask(&filter, "Book it.", &json!({"session_id": "s", "message_id": "o"}));
    let stored = act(&filter, "Book it.", "I am on it.", &open.turn, &[call("c", "book", "{}")]);
    assert_eq!(stored.effect, STORED);
    let mut kept_at = 0;
    for number in 0..30 {
        let question = format!("question {number}");
        let stored = reply(&filter, &question, "answer", &ask(&filter, &question, &s()).turn);
        if stored.due.iter().any(|task| task.name == "retention") {
            let mut work = Work::of(&stored.due, "retention");
            while work.step(&filter, "h", None).step == Step::Again {}
        }
        let records = transcript(&host, "s");
        if records.iter().any(|record| record["id"] == "o") {
            kept_at = records.len();
        }
    }
    assert!((21..=42).contains(&kept_at), "{kept_at}");
    assert!(transcript(&host, "s").len() <= 22);
}

#[test]
fn a_result_that_no_need_asked_for_is_refused() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 500"#);
    let (_, mut work) = until_due(&filter, 0);
    let of = |ids: &[u32]| ids.iter().map(|&id| NeedResult { id, outcome: completed("Numbers.") }).collect::<Vec<_>>();
    let refused = |work: &Work, ids: &[u32]| {
        let (buckets, state, results) = (&*work.buckets, &*work.state, &*of(ids));
        let job = Job { buckets, name: work.name, state, holder: "h", lease_milliseconds: 1000, results };
        let progress = filter.advance(&job);
        let problem = progress.problem.map(|problem| problem.code);
        assert_eq!((progress.step, problem.as_deref()), (Step::Failed, Some("invalid")), "{ids:?}");
    };
    refused(&work, &[1]);
    assert_eq!(work.step(&filter, "h", None).step, Step::Needs);
    for ids in [[2].as_slice(), &[0], &[1, 1], &[1, 2]] {
        refused(&work, ids);
    }
    let vectors = needs::Outcome::Vectors(needs::VectorsResult { vectors: Vec::new() });
    let job = Job {
        buckets: &work.buckets,
        name: work.name,
        state: &work.state,
        holder: "h",
        lease_milliseconds: 1000,
        results: &[NeedResult { id: 1, outcome: vectors }],
    };
    let problem = filter.advance(&job).problem.unwrap();
    assert!(problem.code == "invalid" && problem.message.contains("1 (vectors)"), "{}", problem.message);
    assert_eq!(entry(&host, "session", "summary"), None);
    assert!(host.leases("s").is_empty());
    assert_eq!(work.step(&filter, "h", Some("Numbers.")).step, Step::Done);
    refused(&Work { buckets: buckets("user anna"), name: "activity", state: String::new() }, &[1]);
}
