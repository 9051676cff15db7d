//! Open turns: what a question leaves for its answers.

use std::collections::VecDeque;

use crate::bindings::lanes::ToolActivity;
use crate::metadata;

/// What metadata name. A user may be missing in an answer's.
#[derive(Clone, Default)]
pub struct Names {
    /// The session; a malformed id, as its JSON, is never that of a turn.
    pub session: Option<String>,
    node: Option<(String, String)>,
    user: Option<String>,
    /// The members that say so, as they were written, each with a comma.
    pub members: String,
}

impl Names {
    /// Read them. `by_node`: whether the option `memory_mode` is `node`.
    pub fn read(json: &str, by_node: bool) -> Self {
        let found = metadata::members(json).unwrap_or_default();
        let value = |name: &str| found.get(name).and_then(|place| json.get(place.clone()));
        let named = |name: &str| value(name).map(metadata::text).filter(|text| !text.is_empty());
        let none = ["0", "false", "[]", "{}"];
        let by_node = match named("memory_mode").as_deref() {
            Some("node") => true,
            Some("conversation") => false,
            _ => by_node,
        };
        let members = ["session_id", "user_id", "memory_mode", "app_id", "node_id"].into_iter();
        Self {
            session: named("session_id").filter(|_| value("session_id").is_some_and(|json| !none.contains(&json))),
            node: named("node_id").filter(|_| by_node).map(|node| (named("app_id").unwrap_or_default(), node)),
            user: named("user_id"),
            members: members.filter_map(|name| value(name).map(|json| format!("\"{name}\":{json},"))).collect(),
        }
    }
}

/// A question that waits for its answer, or for more answers.
#[derive(Default)]
pub struct Turn {
    number: u64,
    /// What the question names.
    pub names: Names,
    /// The filter's own note of the turn. Empty: the question did not reach the filter.
    pub turn: String,
    /// The question's text, until an answer was stored.
    pub question: Option<String>,
    /// What tools did since the last answer that was stored.
    pub tools: Vec<ToolActivity>,
    /// Calls that have no result yet, also those that were handed in.
    calls: Vec<String>,
}

impl Turn {
    /// Of a question that was asked now.
    pub fn new(names: Names, turn: String, question: String) -> Self {
        Self { names, turn, question: Some(question), ..Self::default() }
    }
}

/// The turns of a host, the oldest first.
pub struct Turns {
    turns: VecDeque<Turn>,
    limit: usize,
    next: u64,
    /// The question asked last, if it may have answers that name no session.
    last: Option<u64>,
}

impl Turns {
    /// At most so many.
    pub fn new(limit: usize) -> Self {
        Self { turns: VecDeque::new(), limit, next: 0, last: None }
    }

    /// A question was asked; what it left takes the place of an older turn of the same names. Whether a question that
    /// waits was dropped.
    pub fn ask(&mut self, turn: Turn) -> bool {
        let names = &turn.names;
        let is_same = |old: &Turn| {
            old.names.session == names.session && old.names.node == names.node && old.names.user == names.user
        };
        self.turns.retain(|old| !is_same(old));
        self.last = Some(self.next);
        self.add(turn)
    }

    fn add(&mut self, turn: Turn) -> bool {
        self.turns.push_back(Turn { number: self.next, ..turn });
        self.next += 1;
        self.turns.len() > self.limit && self.turns.pop_front().is_some_and(|turn| turn.question.is_some())
    }

    /// Nothing that names no session belongs to a question before.
    pub fn end_last(&mut self) {
        self.last = None;
    }

    /// A new conversation, of a session or of all.
    pub fn open(&mut self, names: &Names) {
        self.turns.retain(|turn| names.session.is_some() && turn.names.session != names.session);
    }

    /// The turn of an answer.
    pub fn of_answer(&mut self, names: &Names) -> Option<&mut Turn> {
        if names.session.is_none() {
            return self.turns.iter_mut().find(|turn| Some(turn.number) == self.last);
        }
        self.turns.iter_mut().rev().find(|turn| {
            turn.names.session == names.session
                && turn.names.node == names.node
                && (names.user.is_none() || turn.names.user == names.user)
        })
    }

    /// Keep what a tool did with its turn. None: it can't be assigned; otherwise whether a question was dropped for it.
    pub fn tool(&mut self, names: Names, activity: ToolActivity) -> Option<bool> {
        let has_result = activity.output.is_some() || activity.error.is_some();
        let is_call = activity.arguments.is_some() || !has_result;
        let mut dropped = false;
        if names.session.is_some() && self.of_answer(&names).is_none() {
            dropped = self.add(Turn { names: names.clone(), ..Turn::default() });
        }
        let mut callers = self.turns.iter().filter(|turn| turn.calls.contains(&activity.call_id));
        let caller = match (callers.next(), callers.next()) {
            (Some(turn), None) => Some(turn.number),
            (None, _) => self.last,
            _ => None,
        };
        let turn = if names.session.is_none() && !is_call {
            self.turns.iter_mut().find(|turn| Some(turn.number) == caller)?
        } else {
            self.of_answer(&names)?
        };
        match (is_call, has_result) {
            (true, false) => turn.calls.push(activity.call_id.clone()),
            (false, _) => {
                let answered = turn.calls.iter().position(|call| *call == activity.call_id);
                answered.map(|index| turn.calls.remove(index));
            }
            _ => {}
        }
        turn.tools.push(activity);
        Some(dropped)
    }
}
