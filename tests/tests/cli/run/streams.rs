//! Sessions interleaved on one stream have whole turns, with any number of pipes.

use serde_json::{Value, json};

use crate::{Ran, call};

const PIPES: [&str; 4] = ["1", "2", "4", "8"];

fn run(pipes: &str, input: &str) -> Ran {
    call(&["run", "--pipes", pipes, "--set", "conversation=true"], input.as_bytes())
}

/// What all numbers of pipes make of it, line by line.
fn passed(input: &str) -> (Vec<Value>, String) {
    let one = run("1", input);
    for pipes in PIPES {
        assert_eq!(run(pipes, input).text(), one.text(), "{pipes} pipes");
    }
    (one.text().lines().filter_map(|line| serde_json::from_str(line).ok()).collect(), one.err)
}

/// Who said what, of what a question got.
fn window(line: &Value) -> Vec<String> {
    let messages = line["metadata"]["memory_messages"].as_array().cloned().unwrap_or_default();
    messages
        .iter()
        .map(|message| match message["tool_calls"].as_array() {
            Some(calls) => calls.iter().map(|call| format!("call: {}", call["function"]["arguments"])).collect(),
            None => format!("{}: {}", message["role"].as_str().unwrap(), message["content"].as_str().unwrap()),
        })
        .collect()
}

#[test]
fn interleaved_sessions_have_whole_turns_with_their_tools() {
    let (lines, err) = passed(include_str!("../../../cases/sessions-interleaved.jsonl"));
    assert_eq!(window(&lines[4]), ["user: I am Eva, which berth?", "assistant: Berth 7, Eva"]);
    assert_eq!(window(&lines[5]), ["user: I am Hen, which pier?", "assistant: Pier 2, Hen"]);
    assert_eq!(err, "");
    let (lines, err) = passed(include_str!("../../../cases/sessions-interleaved-tools.jsonl"));
    let evas = ["user: I am Eva, which berth?", "call: \"{}\"", "tool: 7", "assistant: Berth 7, Eva"];
    assert_eq!(window(&lines[6]), evas);
    assert_eq!(window(&lines[7]), ["user: I am Hen, which pier?", "assistant: Pier 2, Hen"]);
    assert_eq!(err, "");
}

#[test]
fn interleaved_calls_are_kept() {
    for (input, results) in [
        (include_str!("../../../cases/calls-interleaved.jsonl"), &["4", "5", "6"][..]),
        (include_str!("../../../cases/calls-same-id.jsonl"), &["Oslo: snow"][..]),
    ] {
        let (lines, err) = passed(input);
        let said = window(lines.last().unwrap());
        for result in results {
            assert!(said.contains(&format!("tool: {result}")), "{result}: {said:?}");
        }
        assert_eq!(err, "");
    }
}

/// A transcript: who uses it, and what it must hold in the end.
struct Lane {
    named: Value,
    user: String,
    script: Vec<Value>,
    expected: Vec<String>,
}

impl Lane {
    fn new(session: usize, node: Option<usize>, random: &mut fastrand::Rng) -> Self {
        let mut named = json!({"session_id": format!("s{session}")});
        if let Some(node) = node {
            (named["memory_mode"], named["node_id"]) = (json!("node"), json!(format!("n{node}")));
        } else if random.bool() {
            named["memory_mode"] = json!("conversation");
        }
        let mut lane = Self { named, user: format!("u{session}"), script: Vec::new(), expected: Vec::new() };
        for turn in 0..random.usize(1..4) {
            lane.turn(&format!("{session}/{node:?}/{turn}"), random);
        }
        lane
    }

    fn question(&self, text: &str, user: &str) -> Value {
        let mut metadata = self.named.clone();
        metadata["user_id"] = user.into();
        json!({"lane": "questions", "text": text, "metadata": metadata})
    }

    /// Its answer and its tools name the transcript, and not the user.
    fn turn(&mut self, name: &str, random: &mut fastrand::Rng) {
        self.script.push(self.question(&format!("question {name}"), &self.user.clone()));
        self.expected.push(format!("user: question {name}"));
        for number in 0..random.usize(..3) {
            // Sessions have the same ids, as models number their calls anew.
            let (id, arguments) = (format!("call_{number}"), format!("{{\"of\":\"{name}\"}}"));
            for tool in [
                json!({"call_id": id, "name": "look", "arguments": arguments}),
                json!({"call_id": id, "output": format!("result {name} {number}")}),
            ] {
                self.script.push(json!({"lane": "tools", "tool": tool, "metadata": self.named}));
            }
            self.expected.push(format!("call: {}", json!(arguments)));
            self.expected.push(format!("tool: result {name} {number}"));
        }
        self.script.push(json!({"lane": "answers", "text": format!("answer {name}"), "metadata": self.named}));
        self.expected.push(format!("assistant: answer {name}"));
    }
}

#[test]
fn streams_in_random_order_give_the_right_windows() {
    for seed in 0..3 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut lanes: Vec<Lane> = Vec::new();
        for session in 0..12 {
            lanes.push(Lane::new(session, None, &mut random));
            for node in 0..random.usize(..3) {
                lanes.push(Lane::new(session, Some(node), &mut random));
            }
        }
        let mut input = String::new();
        let mut scripts: Vec<_> = lanes.iter_mut().map(|lane| std::mem::take(&mut lane.script).into_iter()).collect();
        while !scripts.is_empty() {
            match random.usize(..30) {
                0 => input.push_str("no entry\n"),
                1 => input.push_str("{\"lane\":\"open\",\"metadata\":{\"session_id\":\"another\"}}\n"),
                _ => {}
            }
            let at = random.usize(..scripts.len());
            match scripts[at].next() {
                Some(entry) => input.push_str(&format!("{entry}\n")),
                None => _ = scripts.swap_remove(at),
            }
        }
        let lines = lanes.iter().flat_map(|lane| [lane.question("?", &lane.user), lane.question("?", "eve")]);
        let asked: Vec<String> = lines.map(|line| format!("{line}\n")).collect();
        input.push_str(&asked.concat());
        let (lines, _) = passed(&input);
        let last = lines.iter().skip(lines.len() - asked.len());
        let windows: Vec<Vec<String>> = last.map(window).collect();
        for (lane, windows) in lanes.iter().zip(windows.chunks(2)) {
            assert_eq!(windows[0], lane.expected, "seed {seed}: {}", lane.named);
            assert_eq!(windows[1], Vec::<String>::new(), "seed {seed}: somebody else's, {}", lane.named);
        }
    }
}

/// Which pipe has the last question is nobody's business.
#[test]
fn ended_sessions_end_with_any_number_of_pipes() {
    let question =
        |session: usize| json!({"lane": "questions", "text": "?", "metadata": {"session_id": format!("s{session}")}});
    let answer = json!({"lane": "answers", "text": "!", "metadata": {}});
    let named =
        |session: usize| json!({"lane": "answers", "text": "!", "metadata": {"session_id": format!("s{session}")}});
    let open = json!({"lane": "open"});
    let mut input: Vec<String> = (0..8).map(|session| question(session).to_string()).collect();
    input.extend([open, answer.clone(), question(0), answer.clone()].map(|line| line.to_string()));
    // A line that can't be read ends only what names no session.
    input.extend((1..8).map(|session| question(session).to_string()));
    input.extend(["no entry".to_owned(), answer.to_string()]);
    input.extend((1..8).map(|session| named(session).to_string()));
    input.extend((0..8).map(|session| question(session).to_string()));
    let (lines, err) = passed(&(input.join("\n") + "\n"));
    for line in &lines[lines.len() - 8..] {
        assert_eq!(window(line), ["user: ?", "assistant: !"], "{line}");
    }
    assert!(err.contains("line 20: not JSON"), "{err}");
}

#[test]
fn entries_without_a_session_belong_to_the_last_question() {
    let asked = |session: &str, user: &str| {
        json!({"lane": "questions", "text": "?", "metadata": {"session_id": session, "user_id": user}}).to_string()
    };
    let tool = |tool: Value| json!({"lane": "tools", "tool": tool}).to_string();
    let answer = json!({"lane": "answers", "text": "!"}).to_string();
    let input = [
        asked("a", "anna"),
        tool(json!({"call_id": "x", "name": "look", "arguments": {}})),
        asked("b", "ben"),
        tool(json!({"call_id": "x", "output": "only a has the call"})),
        tool(json!({"call_id": "x", "name": "look", "arguments": {}})),
        tool(json!({"call_id": "x", "output": "whose?"})),
        answer.clone(),
        answer,
        json!({"lane": "answers", "text": "A!", "metadata": {"session_id": "a"}}).to_string(),
        asked("a", "anna"),
        asked("b", "ben"),
    ];
    let (lines, err) = passed(&(input.join("\n") + "\n"));
    let expected = ["user: ?", "call: \"{}\"", "tool: only a has the call", "assistant: A!"];
    assert_eq!(window(&lines[9]), expected);
    assert!(!lines[10].to_string().contains("whose?"), "{}", lines[10]);
    assert_eq!(err.matches("several open turns have a call").count(), 1, "{err}");
    assert_eq!(err.matches("while turns of other users are open").count(), 1, "{err}");
}
