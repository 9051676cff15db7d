//! Questions, answers and tools of the kit, in the two forms that the lanes' routes take.

use std::collections::BTreeMap;

use serde_json::{Value, json, value::RawValue};

use super::text;
use crate::server::{Lines, Reply, Server};

/// The turns that a stream holds.
const MAX_TURNS: usize = 10_000;

/// How entries are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Each is a request, and the client brings the turn back.
    Requests,
    /// All are lines of one stream.
    Lines,
}

/// Members by name, as they were written.
type Members = BTreeMap<String, Box<RawValue>>;

/// Sends entries.
pub enum Lanes {
    Requests(CarriedTurns),
    Lines(Option<Lines>),
}

impl Lanes {
    pub fn new(way: Way) -> Self {
        match way {
            Way::Requests => Self::Requests(CarriedTurns::default()),
            Way::Lines => Self::Lines(None),
        }
    }

    /// Goes on without a turn that is open.
    pub fn restart(&mut self) {
        match self {
            Self::Requests(turns) => *turns = CarriedTurns::default(),
            Self::Lines(lines) => *lines = None,
        }
    }

    /// What came of an entry.
    pub fn take(&mut self, server: &Server, step: &Value) -> Value {
        match self {
            Self::Requests(turns) => turns.take(server, step),
            Self::Lines(lines) => pass(lines.get_or_insert_with(|| server.lines()), step),
        }
    }
}

/// An entry, with its metadata as they are.
fn entry(step: &Value, lane: &str, more: &[(&str, &str)]) -> String {
    let mut members = vec![format!("\"lane\":\"{lane}\"")];
    members.extend(step.get("text").map(|text| format!("\"text\":{text}")));
    members.extend(step["metadata"].as_str().map(|metadata| format!("\"metadata\":{metadata}")));
    members.extend(step["status"].as_str().map(|status| format!("\"status\":\"{status}\"")));
    if let Some(tool) = step["tool"].as_object() {
        let named = tool.iter().map(|(name, part)| (name.replace('-', "_"), part.clone()));
        members.push(format!("\"tool\":{}", Value::Object(named.collect())));
    }
    members.extend(more.iter().map(|(name, text)| format!("\"{name}\":{}", json!(text))));
    format!("{{{}}}", members.join(","))
}

/// A client that keeps the newest turn of each session, and that of the question asked last.
#[derive(Default)]
pub struct CarriedTurns {
    /// The newest last.
    open: Vec<(Asker, String)>,
    last: Option<String>,
}

/// Whose a turn is, as metadata name it.
#[derive(Clone)]
struct Asker {
    transcript: [Value; 3],
    user: Value,
}

impl Asker {
    /// None: they name no session.
    fn of(metadata: &str) -> Option<Self> {
        let members: Members = serde_json::from_str(metadata).ok()?;
        let member = |name: &str| members.get(name).and_then(|raw| serde_json::from_str(raw.get()).ok());
        let member = |name: &str| member(name).unwrap_or(Value::Null);
        let transcript = ["session_id", "app_id", "node_id"].map(member);
        (!transcript[0].is_null()).then(|| Self { transcript, user: member("user_id") })
    }

    fn may_answer(&self, asked: &Self) -> bool {
        self.transcript == asked.transcript && (self.user.is_null() || self.user == asked.user)
    }
}

impl CarriedTurns {
    fn take(&mut self, server: &Server, step: &Value) -> Value {
        let metadata = text(step, "metadata");
        let asker = Asker::of(metadata);
        let (lane, before) = match text(step, "call") {
            "question" => ("questions", None),
            "answer" => ("answers", self.of(asker.as_ref())),
            "tool" => ("tools", self.of(asker.as_ref())),
            other => panic!("a client that carries turns has no call {other}"),
        };
        let more: Vec<_> = before.iter().map(|turn| ("turn", &**turn)).collect();
        let reply = server.send("POST", &format!("/{lane}"), &[], &entry(step, lane, &more));
        let mut came = json!({"metadata": metadata, "reported": []});
        if lane == "questions" {
            self.last = None;
        }
        if reply.status != 200 {
            let (code, param) = error_of(&reply);
            came["reported"] = match (&*code, lane) {
                // Another user's, of which nothing is told.
                ("not_found", _) => json!([]),
                ("invalid", "tools") if param.as_deref() == Some("turn") => json!(["tool"]),
                _ => json!([code.replace('_', "-")]),
            };
            return came;
        }
        let members: Members = serde_json::from_str(&reply.body).unwrap();
        let member = |name: &str| -> Value {
            members.get(name).map_or(Value::Null, |raw| serde_json::from_str(raw.get()).unwrap())
        };
        let turn = member("turn").as_str().unwrap().to_owned();
        match asker {
            Some(asker) if lane == "questions" || before.is_none() => {
                self.open.retain(|(asked, _)| asked.transcript != asker.transcript || asked.user != asker.user);
                self.open.push((asker, turn.clone()));
            }
            _ => {}
        }
        if lane == "questions" {
            self.last = Some(turn);
        } else if let Some(before) = before {
            self.replace(&before, &turn);
        }
        if let Some(sent_on) = members.get("metadata") {
            came["metadata"] = kept_blanks(metadata, sent_on.get()).into();
        }
        // That an id can't be a session's is told each time here, and once in the log.
        if let Some(problem) = member("problem")["code"].as_str().filter(|_| member("effect") != "ignored") {
            came["reported"] = json!([problem]);
        }
        came
    }

    fn of(&self, asker: Option<&Asker>) -> Option<String> {
        match asker {
            None => self.last.clone(),
            Some(asker) => {
                self.open.iter().rev().find(|(asked, _)| asker.may_answer(asked)).map(|(_, turn)| turn.clone())
            }
        }
    }

    /// The turn of an answer's or a tool's reply takes the place of the one that was sent.
    fn replace(&mut self, before: &str, turn: &str) {
        let open = self.open.iter_mut().map(|(_, open)| open).chain(&mut self.last);
        open.filter(|open| *open == before).for_each(|open| turn.clone_into(open));
    }
}

fn error_of(reply: &Reply) -> (String, Option<String>) {
    let error = &reply.json()["error"];
    (text(error, "code").to_owned(), error["param"].as_str().map(str::to_owned))
}

/// Blanks around a value are the body's and no part of it.
fn kept_blanks(sent: &str, came: &str) -> String {
    if sent.trim() == came { sent.to_owned() } else { came.to_owned() }
}

/// What came of an entry among the lines of a stream.
fn pass(lines: &mut Lines, step: &Value) -> Value {
    let lane = match text(step, "call") {
        "question" => "questions",
        "answer" => "answers",
        "tool" => "tools",
        "open" => "open",
        "unreadable" => {
            let came: Value = serde_json::from_str(&lines.pass("{")).unwrap();
            assert_eq!(came["error"]["code"], "malformed");
            return json!({"reported": ["entry"]});
        }
        "fill-turns" => {
            for place in 0..MAX_TURNS {
                let line = format!(r#"{{"lane":"questions","text":"?","metadata":{{"session_id":"filler-{place}"}}}}"#);
                assert_eq!(lines.pass(&line), line);
            }
            return json!({});
        }
        other => panic!("there is no call {other}"),
    };
    let metadata = text(step, "metadata");
    let came = lines.pass(&entry(step, lane, &[]));
    let members: Members = serde_json::from_str(&came).unwrap();
    let error = members.get("error").map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap());
    let code = error.as_ref().map(|error| text(error, "code").replace('_', "-")).filter(|code| code != "not-found");
    json!({"metadata": kept_blanks(metadata, members["metadata"].get()), "reported": code.into_iter().collect::<Vec<_>>()})
}
