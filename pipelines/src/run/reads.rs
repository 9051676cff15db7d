//! What a run asks for: reads of a store, and needs that only the host can meet.

use std::rc::Rc;

use keepline_options::bucket_names::hashed;
use keepline_recall::Embedding;

use crate::value::{Object, Value};

/// A read of the owner's data sets, or of the asking session's and user's.
#[derive(Clone, Debug, PartialEq)]
pub enum Read {
    /// Items `{key, value}` of the keys that are there, in the order asked for.
    Values { instance: Rc<str>, namespace: Rc<str>, keys: Vec<Rc<str>> },
    /// Events, newest first.
    Events(EventQuery),
    /// Documents `{id, text, score, metadata}`, best first.
    Documents(DocumentQuery),
    /// A stored view, as one item.
    View { id: Rc<str> },
    /// Nodes of these ids, as far as they are there.
    Nodes { ids: Vec<Rc<str>> },
    /// Nodes whose members are equal to these.
    MatchingNodes { members: Vec<(Rc<str>, Value)> },
    /// Edges that start (`Out`) or end (`In`) at one of these nodes.
    Edges { nodes: Vec<Rc<str>>, direction: Direction },
}

/// Which way an edge is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Out,
    In,
}

impl Direction {
    /// The members of an edge that name where it is followed from and where to.
    pub fn ends(self) -> (&'static str, &'static str) {
        match self {
            Self::Out => ("from", "to"),
            Self::In => ("to", "from"),
        }
    }
}

/// Which events of a log are wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct EventQuery {
    pub instance: Rc<str>,
    pub stream: Option<Rc<str>>,
    /// Any of these; empty: all.
    pub types: Vec<Rc<str>>,
    /// Not older than this, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Equal members of the payload.
    pub fields: Vec<(Rc<str>, Value)>,
    /// A text in the payload, whatever its case; in small letters.
    pub text: Option<Rc<str>>,
    pub limit: usize,
}

impl EventQuery {
    /// Whether an event is one of those, but for its time.
    pub fn holds(&self, event: &Value) -> bool {
        let is = |member, wanted: &str| event.member(member).and_then(Value::as_text) == Some(wanted);
        let payload = event.member("payload").unwrap_or(&Value::Null);
        self.stream.as_deref().is_none_or(|stream| is("stream_id", stream))
            && (self.types.is_empty() || self.types.iter().any(|name| is("event_type", name)))
            && self.fields.iter().all(|(field, wanted)| payload.field(field) == Some(wanted))
            && self.text.as_deref().is_none_or(|text| contains_text(payload, text))
    }
}

/// Whether a text anywhere in a value contains another, whatever the case.
fn contains_text(value: &Value, small: &str) -> bool {
    match value {
        Value::Text(text) => text.to_lowercase().contains(small),
        Value::List(items) => items.iter().any(|item| contains_text(item, small)),
        Value::Object(members) => members.values().any(|member| contains_text(member, small)),
        Value::Number(number) => number.to_string().contains(small),
        Value::Null | Value::Bool(_) => false,
    }
}

/// Which documents of a collection are wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentQuery {
    pub collection: Rc<str>,
    pub text: Rc<str>,
    /// The text's; none: words decide.
    pub vector: Option<Rc<Embedding>>,
    pub top_k: usize,
    /// A bound from below on the score, 0 to 1.
    pub min_score: f64,
}

/// What a read found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// None: what should hold it is not there at all.
    pub items: Option<Rc<Vec<Value>>>,
    /// Of the items, as they were stored.
    pub bytes: usize,
    /// Whether there is more that may be wanted, and was not looked at.
    pub is_cut: bool,
}

/// What only the host can do.
#[derive(Clone, Debug, PartialEq)]
pub enum Need {
    /// The vector of a text.
    Vector { text: Rc<str> },
    /// A call of a function that the host registered.
    Handler { name: Rc<str>, input: Value, params: Value },
    /// A run of the component in a file of the project.
    ActionBlock { path: Rc<str>, input: Value, params: Value },
    /// A run of code.
    InlineCode { code: Rc<str>, input: Value, params: Value },
}

impl Need {
    /// Its kind's registered name.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Vector { .. } => "vector",
            Self::Handler { .. } => "handler",
            Self::ActionBlock { .. } => "action-block",
            Self::InlineCode { .. } => "inline-code",
        }
    }

    /// As JSON, for whoever meets it.
    pub fn to_value(&self) -> Value {
        let work = |name: &str, what: &Rc<str>, input: &Value, params: &Value| {
            Value::object([(name, Value::Text(Rc::clone(what))), ("input", input.clone()), ("params", params.clone())])
        };
        match self {
            Self::Vector { text } => Value::object([("text", Value::Text(Rc::clone(text)))]),
            Self::Handler { name, input, params } => work("handler", name, input, params),
            Self::ActionBlock { path, input, params } => work("action_block_path", path, input, params),
            Self::InlineCode { code, input, params } => work("inline_code", code, input, params),
        }
    }

    /// Identifies what is needed with all that goes into it: an answer belongs to this need and to no later one with other
    /// data.
    pub fn digest(&self) -> String {
        hashed(&[self.kind(), " ", &self.to_value().to_json()].concat())
    }
}

/// What the host says to a need.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Vector(Rc<Embedding>),
    Output(Value),
    /// It doesn't do that.
    Refused(String),
    /// It tried.
    Failed(String),
}

/// What was read, and what the host said, so far.
#[derive(Debug, Default)]
pub struct Known {
    reads: Vec<(Read, Found)>,
    answers: Vec<(String, Answer)>,
}

impl Known {
    /// Add what a read found.
    pub fn add_read(&mut self, read: Read, found: Found) {
        self.reads.push((read, found));
    }

    /// Add what the host said to the need of this digest.
    pub fn add_answer(&mut self, digest: String, answer: Answer) {
        self.answers.push((digest, answer));
    }

    pub(super) fn found(&self, read: &Read) -> Option<(usize, &Found)> {
        let mut reads = self.reads.iter().enumerate();
        reads.find_map(|(number, (other, found))| (other == read).then_some((number, found)))
    }

    pub(super) fn answer(&self, need: &Need) -> Option<&Answer> {
        if self.answers.is_empty() {
            return None;
        }
        let digest = need.digest();
        self.answers.iter().find_map(|(other, answer)| (*other == digest).then_some(answer))
    }
}

/// What runs can't go on without. While there are reads, the needs are not all.
#[derive(Debug, Default, PartialEq)]
pub struct Wanted {
    pub reads: Vec<Read>,
    pub needs: Vec<Need>,
}

impl Wanted {
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.needs.is_empty()
    }

    pub(super) fn read(&mut self, read: Read) {
        if !self.reads.contains(&read) {
            self.reads.push(read);
        }
    }

    pub(super) fn need(&mut self, need: Need) {
        if !self.needs.contains(&need) {
            self.needs.push(need);
        }
    }

    /// Add what another run wants, each once.
    pub fn extend(&mut self, other: Self) {
        other.reads.into_iter().for_each(|read| self.read(read));
        other.needs.into_iter().for_each(|need| self.need(need));
    }
}

/// Parameters of a `custom` step for the host, or an empty object.
pub(super) fn params_or_empty(params: &Object) -> Value {
    params.get("params").cloned().unwrap_or_else(|| Value::from(Object::new()))
}
