//! Where messages go that are put in the place of a transcript: their turns, their branches, the keys that lead to them.
//!
//! Promises what the answers' lane promises of its records, whoever wrote them first. Refuses what
//! `replace` refuses.

use keepline_json as json;

use super::ask::{own_key, turn_id};
use super::options::Options;
use super::record::{Kind, Record, Role};
use super::step;
use super::take_in::take_in;
use super::thread::Branches;
use crate::history;
use crate::names::{repr, token};
use crate::sessions::{Answer, Code, SessionProblem};

/// Of a record, in JSON.
const RECORD_BYTES: usize = 2 << 20;

/// What a position and a time begin with.
#[derive(Clone, Copy)]
pub(super) struct Base {
    /// The position that the first message gets.
    pub next: u64,
    pub micros: u64,
}

/// Whether it is what a user said.
pub(super) fn is_asked(record: &Record<'_>) -> bool {
    record.kind == Kind::Message && record.role == Role::User
}

/// What a message comes after: its position, what its thread weighs, and its turn, if that is known.
pub(super) struct Follows {
    pub after: u64,
    pub total: u64,
    pub turn: String,
}

/// A message as it was handed in.
pub(super) struct Given {
    /// As a record of this schema.
    text: String,
    number: usize,
    pub role: Role,
    has_turn: bool,
    /// The key of the message that it is said to follow.
    pub parent: Option<String>,
}

impl Given {
    pub(super) fn of(index: usize, text: &str, ids: &mut Vec<(String, usize)>) -> Answer<Self> {
        let (mut role, mut has_turn, mut id, mut parent, mut is_text) = (None, false, None, None, true);
        let string = |raw| json::string(raw).filter(|text| !text.is_empty());
        let is_read = json::members(text, |key, raw| match json::string(key).as_deref() {
            Some("role") => role = json::string(raw),
            Some("turn") => has_turn = string(raw).is_some(),
            Some("id") => id = string(raw),
            Some("parent") => parent = string(raw),
            Some("content") => is_text = raw.starts_with(['"', '[']) || raw == "null",
            _ => {}
        });
        let parent = parent.map(|id| token(&id).into_owned());
        let mut given = Self { text: String::new(), number: index + 1, role: Role::User, has_turn, parent };
        let body = text.trim_end().strip_suffix('}').filter(|_| is_read.is_some());
        let Some(body) = body else { return Err(given.bad("it is not a JSON object")) };
        given.role = match role.as_deref() {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some("tool") => Role::Tool,
            Some(other) => {
                return Err(given.bad(&["its role is ", &repr(other), ", not user, assistant or tool"].concat()));
            }
            None => return Err(given.bad("it has no role")),
        };
        if !is_text {
            return Err(given.bad("its content is neither a string nor an array"));
        }
        if let Some(id) = id {
            ids.push((token(&id).into_owned(), index));
        }
        // What comes last counts.
        given.text = [body, ",\"v\":1,\"weight\":0", if has_turn { "}" } else { ",\"turn\":\"-\"}" }].concat();
        Ok(given)
    }

    pub(super) fn bad(&self, what: &str) -> SessionProblem {
        SessionProblem::new(Code::InvalidValue, ["Message ", &*self.number.to_string(), ": ", what].concat())
    }
}

/// Messages as they are to be stored.
#[derive(Default)]
pub(super) struct Placed<'a> {
    pub records: Vec<String>,
    pub spots: Vec<Spot>,
    /// Ids of all messages, sorted, and which they are.
    pub ids: &'a [(String, usize)],
    /// Keys of the messages placed so far, and which they are.
    pub keys: Vec<(String, usize)>,
    /// Positions where branches begin.
    pub branches: Vec<(String, String)>,
    /// Whole results.
    pub results: Vec<(String, String)>,
    /// Calls that were made: their turns, and whether there is a result.
    pub calls: Vec<(String, String, bool)>,
    /// What was said first.
    pub first: Option<String>,
    /// The key of the newest.
    pub head: Option<String>,
}

/// What is known of a message that is placed.
pub(super) struct Spot {
    /// What the thread weighs that ends with it.
    pub total: u64,
    turn: String,
    /// The message that its key leads to: of a question the end of its turn, as long as nothing in that has an id.
    pub end: usize,
    /// The one whose key leads to the end of its turn.
    question: Option<usize>,
}

impl Spot {
    pub(super) fn follows(&self, after: u64) -> Follows {
        Follows { after, total: self.total, turn: self.turn.clone() }
    }
}

impl Placed<'_> {
    pub(super) fn add(&mut self, options: &Options, base: Base, given: &Given, follows: Option<Follows>) -> Answer<()> {
        let Some(mut record) = Record::parse(&given.text) else { return Err(given.bad("it is not a message")) };
        record.role = given.role;
        record.kind = match (record.role, &record.tool, record.kind) {
            (Role::Tool, _, _) => Kind::ToolResult,
            (Role::Assistant, Some(tool), _) if tool.arguments.is_some() => Kind::ToolCall,
            (_, _, Kind::Other) => Kind::Other,
            _ => Kind::Message,
        };
        let index = self.spots.len();
        let position = base.next + index as u64;
        let before = follows.as_ref().map_or(0, |follows| follows.total);
        // The first of a branch.
        record.after = follows.as_ref().map(|follows| follows.after).filter(|after| after + 1 != position);
        if let Some(after) = record.after {
            self.branches.push((position.to_string(), Branches::entry(after, before)));
        }

        // A turn begins with what a user says, or where the message says so.
        let of_other = follows.map(|follows| follows.turn).filter(|turn| !turn.is_empty());
        let turn = match &of_other {
            _ if given.has_turn => token(&record.turn).into_owned(),
            Some(turn) if !is_asked(&record) => turn.clone(),
            _ => turn_id(base.micros, position, &record.content),
        };
        record.begins = of_other.as_ref() != Some(&turn);
        record.total = record.begins.then_some(before);
        record.turn = turn.clone().into();
        record.parent = given.parent.as_deref().map(Into::into);
        record.source = Some("import".into());
        record.trust = Some("low".into());
        if record.at == "0" {
            record.at = history::timestamp(base.micros).into();
        }
        self.pair(given, &record)?;
        if let Some(whole) = take_in(options, &mut record).map_err(|what| given.bad(what))? {
            let key = token(&[&*turn, "/", &*position.to_string()].concat()).into_owned();
            if let Some(tool) = &mut record.tool {
                tool.whole = Some(key.clone().into());
            }
            self.results.push((key, whole));
        }
        if self.first.is_none() && is_asked(&record) {
            self.first = Some(record.content.to_string());
        }
        let question = self.name(&mut record, index);
        let record = step::weigh(record);
        let total = before.saturating_add(record.weight);
        self.spots.push(Spot { total, turn, end: index, question });
        let text = record.write();
        if text.len() > RECORD_BYTES {
            return Err(given.bad("it is longer than 2 MiB"));
        }
        self.records.push(text);
        Ok(())
    }

    /// Notes where the message is found. The one whose key leads to the end of its turn, so far.
    fn name(&mut self, record: &mut Record<'_>, index: usize) -> Option<usize> {
        let own = record.id.take().filter(|id| !id.is_empty()).map(|id| token(&id).into_owned());
        let last = self.spots.last().filter(|spot| record.after.is_none() && spot.turn == record.turn);
        let question = last.and_then(|spot| spot.question);
        let is_question = record.begins && (is_asked(record) || own.is_none());
        let has_id = own.is_some();
        let key = match (own, question) {
            (Some(id), _) => id,
            (None, _) if is_question => own_key(&record.turn),
            (None, Some(question)) => {
                if let Some(spot) = self.spots.get_mut(question) {
                    spot.end = index;
                }
                return Some(question);
            }
            // One more branch of a turn, and nobody can name it.
            (None, None) => [&*own_key(&record.turn), "-", &*index.to_string()].concat(),
        };
        // With an answer that has an id, a question is found where it stands.
        if let (false, Some(question)) = (is_question, question)
            && let Some(spot) = self.spots.get_mut(question)
        {
            spot.end = question;
        }
        if has_id || is_asked(record) {
            record.id = Some(key.clone().into());
        }
        self.head = Some(key.clone());
        self.keys.push((key, index));
        is_question.then_some(index)
    }

    /// A result belongs to a call of its turn.
    fn pair(&mut self, given: &Given, record: &Record<'_>) -> Answer<()> {
        if !matches!(record.kind, Kind::ToolCall | Kind::ToolResult) {
            return Ok(());
        }
        let call = record.tool.as_ref().map(|tool| &*tool.call_id).filter(|call| !call.is_empty());
        let Some(call) = call else { return Err(given.bad("it has no tool.call_id")) };
        if record.kind == Kind::ToolCall {
            self.calls.push((record.turn.to_string(), call.to_owned(), false));
            return Ok(());
        }
        let known = self.calls.iter_mut().rev().find(|(turn, known, _)| *turn == record.turn && known == call);
        match known {
            Some((_, _, has_result)) if !*has_result => {
                *has_result = true;
                Ok(())
            }
            Some(_) => Err(given.bad(&["call ", &repr(call), " has a result already"].concat())),
            None => Err(given.bad(&["no earlier message of its turn makes the call ", &repr(call)].concat())),
        }
    }
}
