//! An answer without a session belongs to the question right before it, or to none.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::{answer, call, context, question};

/// Lines of a run, and the memory that each must come out with: none for what must come out as it is.
#[derive(Default)]
struct Model {
    input: Vec<Vec<u8>>,
    expected: Vec<Option<Value>>,
    /// How many answers, and the last one.
    memory: HashMap<String, (u64, String)>,
    turn: Option<String>,
}

impl Model {
    fn line(&mut self, line: impl Into<Vec<u8>>, expected: Option<Value>) {
        let mut line = line.into();
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        self.input.push(line);
        self.expected.push(expected);
    }

    fn question(&mut self, line: String, session: &str) {
        let found = self.memory.get(session);
        let memory = found.map_or(Value::Null, |(count, last)| json!({"answer_count": count, "last_answer": last}));
        self.line(line, Some(memory));
        self.turn = Some(session.to_owned());
    }

    fn answer(&mut self, line: String, session: Option<&str>, text: &str) {
        self.line(line, None);
        if let Some(session) = session.map(str::to_owned).or(self.turn.clone()) {
            let (count, last) = self.memory.entry(session).or_default();
            *count += 1;
            text.clone_into(last);
        }
    }

    /// Whatever it was: no answer after it is the last question's.
    fn end_turn(&mut self, line: impl Into<Vec<u8>>) {
        self.line(line, None);
        self.turn = None;
    }

    fn check(&self, pipes: &str) {
        let input = self.input.concat();
        let ran = call(&["run", "--pipes", pipes, "--set", "max_entry_bytes=3000"], &input);
        let lines: Vec<&[u8]> = ran.out.split_inclusive(|byte| *byte == b'\n').collect();
        assert_eq!(lines.len(), self.input.len());
        for (number, (line, expected)) in lines.iter().zip(&self.expected).enumerate() {
            let before = self.input[number.saturating_sub(5)..=number].iter();
            let before: Vec<_> = before.map(|line| String::from_utf8_lossy(&line[..line.len().min(200)])).collect();
            match expected {
                Some(memory) => {
                    let line = String::from_utf8(line.to_vec()).unwrap();
                    assert_eq!(context(&line.replace("NaN", "0")), *memory, "line {}: {before:#?}", number + 1);
                }
                None => assert!(*line == self.input[number], "line {} changed: {before:#?}", number + 1),
            }
        }
    }
}

/// Lines that no reader of entries can make anything of, though people can guess what they were.
fn refused(random: &mut fastrand::Rng) -> Vec<u8> {
    match random.u32(..10) {
        0 => question("s3", "cut").as_bytes()[..40].to_vec(),
        1 => b"{\"lane\":\"questions\",\"text\":\"\xff\",\"metadata\":{\"session_id\":\"s3\"}}".to_vec(),
        2 => br#"{"lane":"question","text":"x","metadata":{"session_id":"s3"}}"#.to_vec(),
        3 => br#"{"lane":["questions"],"metadata":{"session_id":"s3"}}"#.to_vec(),
        4 => br#"{"text":"x","metadata":{"session_id":"s3"}}"#.to_vec(),
        5 => br#"{"lane":"questions","metadata":{"session_id":"s3","score":nan}}"#.to_vec(),
        6 => br#"[{"lane":"questions"}]"#.to_vec(),
        7 => b"{\"lane\":\"open\",\"x\":\"\0\"}".to_vec(),
        8 => b"\r".to_vec(),
        _ => br#"{"lane":"questions","metadata":{"session_id":"s3"}},"#.to_vec(),
    }
}

fn traffic(count: usize, seed: u64) -> Model {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut model = Model::default();
    for number in 0..count {
        let session = format!("s{}", random.u32(..6));
        match random.u32(..100) {
            0..30 => model.question(question(&session, "x"), &session),
            30..35 => {
                let line = format!(
                    r#"{{"lane":"questions","metadata":{{"session_id":"{session}","score":[NaN,-Infinity]}}}}"#
                );
                model.question(line.replace("-Infinity", "NaN"), &session);
            }
            35..65 => {
                let text = format!("a{number}");
                model.answer(answer(&text), None, &text);
            }
            65..70 => {
                let text = format!("a{number}");
                let line = json!({"lane": "answers", "text": text, "metadata": {"session_id": session}});
                model.answer(line.to_string(), Some(&session), &text);
            }
            70..73 => model.end_turn("{\"lane\":\"open\"}"),
            // Questions that pass without memory.
            73..76 => model.end_turn(question("no session id", "x")),
            76..79 => model.end_turn(question(&session, &"x".repeat(3000))),
            79..81 => model.end_turn("{\"lane\":\"questions\",\"text\":7}\r"),
            81..84 => {
                let odd = ["null", "7", "[{\"session_id\":\"s1\"}]", "\"{}\"", "{\"session_id\":[\"s1\"]}", "NaN"];
                let odd = random.choice(odd).unwrap();
                model.end_turn(format!("{{\"lane\":\"questions\",\"metadata\":{odd}}}"));
            }
            _ => {
                let line = refused(&mut random);
                model.end_turn(line);
            }
        }
    }
    model
}

#[test]
fn an_invalid_line_ends_the_turn_for_later_answers() {
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..30 {
        let line = refused(&mut random);
        let mut model = Model::default();
        model.question(question("b", "1"), "b");
        model.end_turn(line);
        model.answer(answer("for whoever was refused"), None, "for whoever was refused");
        model.question(question("b", "2"), "b");
        model.check("1");
    }
}

#[test]
fn an_overlong_line_ends_the_turn_for_later_answers() {
    let mut model = Model::default();
    model.question(question("b", "1"), "b");
    model.end_turn(question("c", &"x".repeat(2 << 20)));
    model.answer(answer("c's"), None, "c's");
    model.question(question("b", "2"), "b");
    model.check("1");
    model.check("3");
}

#[test]
fn an_answer_belongs_to_the_question_right_before_it() {
    for (seed, pipes) in [(1, "1"), (2, "2"), (3, "5"), (4, "64")] {
        traffic(4000, seed).check(pipes);
    }
}
