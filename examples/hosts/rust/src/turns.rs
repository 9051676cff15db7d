//! Open turns: what a question leaves for its answers.

use std::collections::VecDeque;

use crate::bindings::lanes::ToolActivity;
use crate::metadata;

/// What metadata name.
#[derive(Clone, Default)]
pub struct Names {
    /// The session; a malformed id, as its JSON, is never that of a turn.
    pub session: Option<String>,
    user: Option<String>,
    app: Option<String>,
    node: Option<String>,
    /// Whether `memory_mode` is `node`, if they say.
    by_node: Option<bool>,
    /// The members that say so, as they were written, each with a comma.
    pub members: String,
}

impl Names {
    /// Read them.
    pub fn read(json: &str) -> Self {
        let found = metadata::members(json).unwrap_or_default();
        let value = |name: &str| found.get(name).and_then(|place| json.get(place.clone()));
        let named = |name: &str| value(name).map(metadata::text).filter(|text| !text.is_empty());
        let none = ["0", "false", "[]", "{}"];
        let members = ["session_id", "user_id", "memory_mode", "app_id", "node_id"].into_iter();
        Self {
            session: named("session_id").filter(|_| value("session_id").is_some_and(|json| !none.contains(&json))),
            user: named("user_id"),
            app: named("app_id"),
            node: named("node_id"),
            by_node: named("memory_mode")
                .filter(|mode| mode == "node" || mode == "conversation")
                .map(|mode| mode == "node"),
            members: members.filter_map(|name| value(name).map(|json| format!("\"{name}\":{json},"))).collect(),
        }
    }
}

/// A question that waits for its answer, or for more answers.
#[derive(Default)]
pub struct Turn {
    number: u64,
    is_node: bool,
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
    /// Whether the option `memory_mode` is `node`.
    pub by_node: bool,
    next: u64,
    /// The question asked last, if it may have answers that name no session.
    last: Option<u64>,
}

impl Turns {
    /// At most so many.
    pub fn new(limit: usize) -> Self {
        Self { turns: VecDeque::new(), limit, by_node: false, next: 0, last: None }
    }

    /// A question was asked; what it left takes the place of an older turn of the same names. Whether a question that
    /// waits was dropped.
    pub fn ask(&mut self, turn: Turn) -> bool {
        let (names, is_node) = (&turn.names, turn.names.by_node.unwrap_or(self.by_node));
        let of_node = |names: &Names| is_node.then(|| (names.app.clone(), names.node.clone()));
        self.turns.retain(|old| {
            let is_same_owner = old.names.session == names.session && old.names.user == names.user;
            !is_same_owner || old.is_node != is_node || of_node(&old.names) != of_node(names)
        });
        self.last = Some(self.next);
        self.add(turn)
    }

    fn add(&mut self, turn: Turn) -> bool {
        let is_node = turn.names.by_node.unwrap_or(self.by_node);
        self.turns.push_back(Turn { number: self.next, is_node, ..turn });
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

    /// The turn of an answer. What it leaves out is as in the turn; of several, one that waits comes first, and of those
    /// the one of the transcript that is meant where none is named.
    pub fn of_answer(&mut self, names: &Names) -> Option<&mut Turn> {
        if names.session.is_none() {
            return self.turns.iter_mut().find(|turn| Some(turn.number) == self.last);
        }
        let agree = |named: &Option<String>, own: &Option<String>| named.is_none() || named == own;
        let fits = |turn: &&mut Turn| {
            let own = &turn.names;
            own.session == names.session
                && (own.user.is_none() || agree(&names.user, &own.user))
                && names.by_node.is_none_or(|by_node| by_node == turn.is_node)
                && (!turn.is_node || agree(&names.app, &own.app) && agree(&names.node, &own.node))
        };
        let rank = |turn: &&mut Turn| match names.node {
            Some(_) => (turn.is_node, false, turn.number),
            None => {
                let waits = turn.question.is_some();
                (waits, waits && turn.is_node == self.by_node, turn.number)
            }
        };
        self.turns.iter_mut().filter(fits).max_by_key(rank)
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
