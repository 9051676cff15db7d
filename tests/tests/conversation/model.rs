//! Random conversations against a model of windows that knows nothing of how they are made.
//!
//! Several processes ask and answer in sessions that interleave, each with options of its own: plain turns and branches,
//! answers given anew, tools whose calls and results interleave, share ids, come late or never, files, blank answers. At each
//! question the window is one that APIs for chat completions take; its messages are those of the newest turns of the
//! question's thread, word by word; it is within its budget; and a gap is reported exactly where turns are in neither the
//! window nor the summary. At the end everything is still there. `KEEPLINE_SEED` repeats a run, `KEEPLINE_ROUNDS` sets how
//! many steps it takes.

use std::{collections::BTreeMap, env, sync::Arc};

use fastrand::Rng;
use keepline::{
    maintenance::{Maintenance, MaintenanceOptions, NoModel},
    pipe::{Effect, Question, ToolActivity},
};
use keepline_tests::{lanes::Node, on_every_store, valid_window::fault};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::{Given, talking};

on_every_store! {
    random_conversations_come_back_as_the_model_has_them,
}

/// On each of five stores.
const ROUNDS: u64 = 1000;
const SESSIONS: usize = 12;
const MISSING: &str = "[No result was recorded for this call]";

/// What happens in a turn.
#[derive(Clone)]
enum Event {
    User(Value),
    /// Shown id, and name.
    Call(String, u64),
    /// Of which call, and what it gave.
    Result(u64, String),
    Said(String),
}

/// What one transaction adds to a thread.
struct Step {
    before: Option<usize>,
    turn: u64,
    events: Vec<Event>,
    /// The position of its last record.
    last: u64,
}

#[derive(Default)]
struct Session {
    steps: Vec<Step>,
    records: u64,
    /// What answers with ids lead to.
    answers: Vec<(String, usize)>,
    /// Turns, and the steps with their questions.
    asked: Vec<(u64, usize)>,
    /// Turns with a call that waits: the turn, the call, and its id.
    open: Vec<(u64, u64, String)>,
}

/// A turn of a thread, as it is to be shown.
struct Turn {
    messages: Vec<Value>,
    last: u64,
}

impl Session {
    /// The turns that lead to a step, in the order in which they last went on.
    fn thread(&self, end: Option<usize>) -> Vec<Turn> {
        let mut path = Vec::new();
        let mut next = end;
        while let Some(step) = next {
            path.push(&self.steps[step]);
            next = self.steps[step].before;
        }
        let mut turns: Vec<(u64, Vec<Event>, u64)> = Vec::new();
        for step in path.into_iter().rev() {
            let known = turns.iter().position(|(turn, ..)| *turn == step.turn);
            let (_, mut events, _) = known.map_or_else(|| (0, Vec::new(), 0), |index| turns.remove(index));
            events.extend(step.events.iter().cloned());
            turns.push((step.turn, events, step.last));
        }
        turns.into_iter().map(|(_, events, last)| Turn { messages: shown(&events), last }).collect()
    }

    fn add(&mut self, before: Option<usize>, turn: u64, events: Vec<Event>, records: u64) -> usize {
        self.records += records;
        self.steps.push(Step { before, turn, events, last: self.records - 1 });
        self.steps.len() - 1
    }

    fn newest(&self) -> Option<usize> {
        self.steps.len().checked_sub(1)
    }
}

/// Chat messages: calls that nothing comes between are one message, and their results follow it.
fn shown(events: &[Event]) -> Vec<Value> {
    // Each with its calls and their results.
    type Calls = Vec<(u64, String)>;
    let mut messages: Vec<(Value, Calls, Calls)> = Vec::new();
    let mut joins = false;
    for event in events {
        match event {
            Event::User(content) => {
                messages.push((json!({"role": "user", "content": content}), Vec::new(), Vec::new()));
                joins = false;
            }
            Event::Said(text) => {
                messages.push((json!({"role": "assistant", "content": text}), Vec::new(), Vec::new()));
                // Calls that it makes are a part of it.
                joins = true;
            }
            Event::Call(id, call) => {
                if !joins || messages.last().is_none_or(|(_, _, results)| !results.is_empty()) {
                    messages.push((json!({"role": "assistant", "content": null}), Vec::new(), Vec::new()));
                    joins = true;
                }
                messages.last_mut().unwrap().1.push((*call, id.clone()));
            }
            Event::Result(call, text) => {
                let of =
                    messages.iter().position(|(_, calls, _)| calls.iter().any(|(other, _)| other == call)).unwrap();
                messages[of].2.push((*call, text.clone()));
            }
        }
    }
    let mut out = Vec::new();
    for (mut message, calls, results) in messages {
        // An id that a message has twice gets a number.
        let mut ids: BTreeMap<u64, String> = BTreeMap::new();
        for (call, id) in &calls {
            let same = ids.values().filter(|other| *other == id || other.starts_with(&format!("{id}-"))).count();
            ids.insert(*call, if same == 0 { id.clone() } else { format!("{id}-{}", same + 1) });
        }
        if !calls.is_empty() {
            let call = |(call, _): &(u64, String)| json!({"id": ids[call], "type": "function", "function": {"name": "look", "arguments": format!("{{\"n\":{call}}}")}});
            message["tool_calls"] = calls.iter().map(call).collect();
        }
        out.push(message);
        let result = |call: &u64, text: &str| json!({"role": "tool", "tool_call_id": ids[call], "content": text});
        out.extend(results.iter().map(|(call, text)| result(call, text)));
        let is_missing = |call: &u64| !results.iter().any(|(other, _)| other == call);
        out.extend(calls.iter().filter(|(call, _)| is_missing(call)).map(|(call, _)| result(call, MISSING)));
    }
    out
}

/// A process with options of its own.
struct Process {
    node: Node,
    maintenance: Maintenance,
    budget: u64,
    pins: bool,
}

impl Process {
    async fn start(given: &Given, options: &Value) -> Self {
        let node = talking(given, options).await;
        let (model, all) = (Arc::new(NoModel), MaintenanceOptions::default());
        let maintenance = Maintenance::new(node.keepline.clone(), model, all, Handle::current());
        let budget = options["max_context_tokens"].as_u64().unwrap();
        Self { node, maintenance, budget, pins: options["pin_first_turn"] == true }
    }

    async fn ask(&mut self, text: &str, metadata: &Value) -> Value {
        let metadata = metadata.to_string();
        let asked = Question { text, metadata: &metadata, ..Question::default() };
        let passed = self.node.pipe.ask(asked, None).await.unwrap();
        serde_json::from_str(passed.metadata.as_deref().unwrap_or(&metadata)).unwrap()
    }

    async fn answer(&mut self, text: &str, id: &str) {
        let metadata = json!({"message_id": id}).to_string();
        let passed = self.node.pipe.answer(text, &metadata).await.unwrap();
        assert_eq!(passed.effect, Effect::Stored, "{:?}", passed.problem);
        for task in passed.due {
            self.maintenance.run(task).await;
        }
    }

    /// Turns of other sessions may wait for calls of the same id: entries of tools name theirs.
    fn call(&mut self, session: &str, id: &str, call: u64) {
        let arguments = Some(format!("{{\"n\":{call}}}"));
        self.tool(session, ToolActivity { name: "look".into(), arguments, ..of(id) });
    }

    fn result(&mut self, session: &str, id: &str, text: &str) {
        self.tool(session, ToolActivity { output: Some(text.into()), ..of(id) });
    }

    fn tool(&mut self, session: &str, activity: ToolActivity) {
        assert!(self.node.pipe.tool_of(activity, &json!({"session_id": session}).to_string()));
    }
}

fn of(call_id: &str) -> ToolActivity {
    ToolActivity { call_id: call_id.into(), ..ToolActivity::default() }
}

/// What a question got is what its thread has, as far as there is room.
fn check(got: &Value, turns: &[Turn], budget: u64, pins: bool) -> Result<(), String> {
    let window = got["memory_messages"].as_array().map_or(&[][..], Vec::as_slice);
    if let Some(fault) = fault(window, false) {
        return Err(fault);
    }
    let trace = &got["memory_trace"];
    if trace["tokens"].as_u64().is_none_or(|tokens| tokens > budget) {
        return Err(format!("{} tokens of {budget}", trace["tokens"]));
    }
    // What is too long for the window of who stored it, or too old, is shown in part, or not at all.
    let is_placeholder = |text: &str| text.starts_with("[Old result") || text.contains("bytes omitted");
    let is_same = |one: &Value, other: &Value| {
        let is_cleared = one["role"] == "tool" && one["content"].as_str().is_some_and(is_placeholder);
        one == other || (is_cleared && one["tool_call_id"] == other["tool_call_id"])
    };
    let are_same = |some: &[Value], others: &[Value]| {
        some.len() == others.len() && some.iter().zip(others).all(|(one, other)| is_same(one, other))
    };
    // The newest turns, from the end on.
    let (mut rest, mut start) = (window, turns.len());
    while let Some(turn) = start.checked_sub(1).and_then(|index| turns.get(index)) {
        let Some((before, tail)) = rest.split_at_checked(rest.len().wrapping_sub(turn.messages.len())) else { break };
        if !are_same(tail, &turn.messages) {
            break;
        }
        (rest, start) = (before, start - 1);
    }
    let is_cut = trace["turns"].as_array().is_some_and(|turns| turns.iter().any(|turn| turn["fate"] == "cut"));
    // A first turn that went on after others has its place among them.
    let is_first = |turn: &Turn| are_same(rest, &turn.messages);
    let mut pinned = turns.iter().take(start).position(is_first).filter(|_| pins && !rest.is_empty());
    if is_cut {
        // One turn that is too long: its question, and as much of the rest as there is room for.
        let question = &turns.last().unwrap().messages[0];
        let first = rest.iter().rfind(|message| message["role"] == "user").unwrap_or(&window[0]);
        let text = |message: &Value| message["content"].to_string().chars().skip(1).take(5).collect::<String>();
        if first["role"] != question["role"] || (question["content"].is_string() && text(first) != text(question)) {
            return Err(format!("cut to {first}, not {question}"));
        }
        start = turns.len() - 1;
        let is_first =
            |turn: &Turn| window.get(..turn.messages.len()).is_some_and(|some| are_same(some, &turn.messages));
        pinned = turns.iter().take(start).position(is_first).filter(|_| pins);
    } else if !rest.is_empty() && pinned.is_none() {
        let expected = start.checked_sub(1).map(|index| &turns[index].messages);
        return Err(format!("{} messages are not those of the thread, such as {expected:#?}", rest.len()));
    }
    if window.is_empty() && !turns.is_empty() {
        return Err("there is nothing".into());
    }
    let told = trace["summary_to"].as_u64();
    let left_out = turns.iter().enumerate().take(start).filter(|(index, _)| Some(*index) != pinned);
    let is_gap = left_out.into_iter().any(|(_, turn)| told.is_none_or(|told| turn.last > told));
    if is_gap != (trace["gap"] == true) {
        return Err(format!(
            "gap {}, but {start} turns of {} are left out, told up to {told:?}",
            trace["gap"],
            turns.len()
        ));
    }
    Ok(())
}

async fn random_conversations_come_back_as_the_model_has_them(given: Given) {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seed = number("KEEPLINE_SEED").unwrap_or_else(|| fastrand::u64(..));
    let rounds = number("KEEPLINE_ROUNDS").unwrap_or(ROUNDS);
    println!("KEEPLINE_SEED={seed} KEEPLINE_ROUNDS={rounds}");
    let mut rng = Rng::with_seed(seed);
    let mut processes = Vec::new();
    for (budget, more) in [
        (rng.u64(200..600), json!({"window_keep": rng.u64(10..90), "summaries": false})),
        (rng.u64(600..4000), json!({"pin_first_turn": true, "tool_result_tokens": rng.u64(0..400)})),
        (rng.u64(2000..50_000), json!({"message_limit": rng.u64(10..200), "summaries": false})),
        (200_000, json!({"summaries": false})),
    ] {
        let mut options = json!({"max_context_tokens": budget, "memory_trace": true, "auto_generate_titles": false});
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        processes.push(Process::start(&given, &options).await);
    }
    let mut sessions: Vec<Session> = (0..SESSIONS).map(|_| Session::default()).collect();
    for round in 0..rounds {
        let index = rng.usize(..SESSIONS);
        let process = rng.usize(..4);
        step(&mut processes, process, &mut sessions[index], &format!("s{index}"), round, &mut rng).await;

        // Any session, any branch, any process: the newest, or what was answered at any time.
        let index = rng.usize(..SESSIONS);
        let (session, process) = (&sessions[index], &mut processes[rng.usize(..4)]);
        let parent = if rng.bool() { rng.choice(&session.answers) } else { None };
        let mut metadata = json!({"session_id": format!("s{index}")});
        if let Some((id, _)) = parent {
            metadata["parent_message_id"] = json!(id);
        }
        let got = process.ask("?", &metadata).await;
        let turns = session.thread(parent.map(|(_, step)| *step).or(session.newest()));
        if let Err(fault) = check(&got, &turns, process.budget, process.pins) {
            panic!("round {round}, session s{index}, budget {}, after {parent:?}: {fault}\n{got:#}", process.budget);
        }
    }
    // Nothing is lost: whoever has room for it gets all of it.
    let mut reader = Process::start(&given, &json!({"max_context_tokens": 2_000_000, "memory_trace": true})).await;
    for (index, session) in sessions.iter().enumerate() {
        for (id, end) in session.answers.iter().rev().take(20) {
            let metadata = json!({"session_id": format!("s{index}"), "parent_message_id": id});
            let got = reader.ask("?", &metadata).await;
            let turns = session.thread(Some(*end));
            check(&got, &turns, 2_000_000, false).unwrap();
            let all: usize = turns.iter().map(|turn| turn.messages.len()).sum();
            let is_told = !got["memory_summary"].is_null();
            assert!(is_told || all > 500 || got["memory_messages"].as_array().map_or(0, Vec::len) == all, "{got:#}");
        }
    }
}

/// One more step of a session.
async fn step(processes: &mut [Process], process: usize, session: &mut Session, name: &str, round: u64, rng: &mut Rng) {
    let answer = format!("a{round}");
    let most = 1 << rng.u32(0..8);
    let said = format!("Answer {round}. {}", "word ".repeat(rng.usize(..most)));
    match rng.u32(0..10) {
        // What an open turn has waited for.
        0..=1 if !session.open.is_empty() => {
            let (turn, call, id) = session.open.swap_remove(rng.usize(..session.open.len()));
            let on_thread = thread_of(session, turn);
            let Some(end) = on_thread else { return };
            // Whoever brings the result names the question, and has room for it.
            let process = &mut processes[3];
            let got = process.ask("", &json!({"session_id": name, "message_id": format!("q{turn}")})).await;
            let window = got["memory_messages"].as_array().map_or(&[][..], Vec::as_slice);
            assert_eq!(fault(window, true), None, "{window:#?}");
            process.result(name, &id, &format!("late {round}"));
            process.answer(&said, &answer).await;
            let events = vec![Event::Result(call, format!("late {round}")), Event::Said(said)];
            let step = session.add(Some(end), turn, events, 2);
            session.answers.push((answer, step));
        }
        // Another answer to a question.
        2 if !session.asked.is_empty() => {
            let (turn, asked) = session.asked[rng.usize(..session.asked.len())];
            if session.open.iter().any(|(open, ..)| *open == turn) {
                return;
            }
            let process = &mut processes[process];
            process
                .ask(&format!("Question {turn}."), &json!({"session_id": name, "message_id": format!("q{turn}")}))
                .await;
            process.answer(&said, &answer).await;
            let question = session.steps[asked].events[0].clone();
            // It goes on from the question, which is a step of its own in the model.
            let before = session.steps[asked].before;
            let step = session.add(before, turn, vec![question, Event::Said(said)], 1);
            session.answers.push((answer, step));
        }
        what => turn(&mut processes[process], session, name, round, rng, what, (said, answer)).await,
    }
}

/// The newest step of a turn, if it is on the newest step's thread.
fn thread_of(session: &Session, turn: u64) -> Option<usize> {
    let mut next = session.newest();
    let end = next;
    while let Some(step) = next {
        if session.steps[step].turn == turn {
            return end;
        }
        next = session.steps[step].before;
    }
    None
}

/// A turn of its own.
async fn turn(
    process: &mut Process,
    session: &mut Session,
    name: &str,
    round: u64,
    rng: &mut Rng,
    what: u32,
    (said, answer): (String, String),
) {
    let parent = if rng.u32(0..4) == 0 { rng.choice(&session.answers).cloned() } else { None };
    let before = parent.as_ref().map(|(_, step)| *step).or(session.newest());
    let mut metadata = json!({"session_id": name, "message_id": format!("q{round}")});
    if let Some((id, _)) = &parent {
        metadata["parent_message_id"] = json!(id);
    }
    let text = if what == 3 { String::new() } else { format!("Question {round}.") };
    let mut content = json!(text);
    if what <= 3 {
        metadata["files"] = json!([{"url": "x"}]);
        content = json!([{"type": "file", "file": {"url": "x"}}, {"type": "text", "text": text}]);
        if text.is_empty() {
            content.as_array_mut().unwrap().truncate(1);
        }
    }
    process.ask(&text, &metadata).await;
    let mut events = vec![Event::User(content)];
    let call = |number: u64| round * 8 + number;
    let ids = if what == 5 { ["x", "x", "x"] } else { ["a", "b", "c"] };
    let long = "long ".repeat(rng.usize(..200));
    let mut pending = Vec::new();
    if (4..=8).contains(&what) {
        // Two calls, a result, another call, and the other results, if they come at all.
        process.call(name, ids[0], call(0));
        process.call(name, ids[1], call(1));
        process.result(name, ids[0], &long);
        process.call(name, ids[2], call(2));
        process.result(name, ids[1], "two");
        events.extend([
            Event::Call(ids[0].into(), call(0)),
            Event::Call(ids[1].into(), call(1)),
            Event::Result(call(0), long),
            Event::Call(ids[2].into(), call(2)),
            Event::Result(call(1), "two".into()),
        ]);
        if what == 6 {
            // What waits comes after what was said.
            let Some(Event::Call(id, number)) = Some(events.remove(4)) else { return };
            pending.push(Event::Call(id, number));
        } else {
            process.result(name, ids[2], "three");
            events.push(Event::Result(call(2), "three".into()));
        }
    }
    // With tools at work an answer may say nothing.
    let said = if what == 8 { String::new() } else { said };
    process.answer(&said, &answer).await;
    let records = events.len() as u64 + 1 + pending.len() as u64;
    if !said.is_empty() {
        events.push(Event::Said(said));
    }
    events.extend(pending);
    let step = session.add(before, round, events, records);
    if what == 6 {
        session.open.push((round, call(2), ids[2].into()));
    } else {
        session.answers.push((answer, step));
        session.asked.push((round, step));
    }
}
