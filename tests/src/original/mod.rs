//! The original node's rules, as the documentation of that node tells them and without its faults, written down
//! once more as plainly as can be: sessions in a map, a history in a vector, time in whole seconds. Whatever
//! random traffic comes to on a real store is held against what it comes to here.
//!
//! What it leaves out: stamps, timestamps, and what a message says.

mod metadata;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fastrand::Rng;
use keepline::{pipe::Effect, sessions::SessionErrorCode as Code};
use serde_json::{Value, json};

pub use self::metadata::{Claim, Metadata};

/// A life that no sum of minutes comes near, so that what a server's own clock adds makes no difference.
pub const LIFE_SECONDS: u64 = 3636;

/// What the model knows of the configuration.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Sessions live for [`LIFE_SECONDS`], or for ever.
    pub expires: bool,
    /// From the last use, not from the creation.
    pub sliding: bool,
    /// History records before the older ones become a summary.
    pub max_history: usize,
    /// Whether they do.
    pub auto_summarize: bool,
    /// A question without a session loses a `memory_context`.
    pub strips: bool,
    /// The longest value.
    pub max_value_bytes: usize,
    /// Keys a session.
    pub max_keys: usize,
}

impl Rules {
    /// Any that are allowed.
    pub fn random(random: &mut Rng) -> Self {
        Self {
            expires: random.u8(..3) > 0,
            sliding: random.bool(),
            max_history: random.usize(..12),
            auto_summarize: random.u8(..5) > 0,
            strips: random.bool(),
            max_value_bytes: random.usize(40..160),
            max_keys: random.usize(2..7),
        }
    }

    /// As the filter takes them: field and JSON.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let text = |choice: &str| format!("\"{choice}\"");
        let hours = if self.expires { "1.01" } else { "0" };
        vec![
            ("session_ttl_hours", hours.into()),
            ("session_ttl_mode", text(if self.sliding { "sliding" } else { "fixed" })),
            ("max_history", self.max_history.to_string()),
            ("auto_summarize", self.auto_summarize.to_string()),
            ("unbound_context", text(if self.strips { "strip" } else { "keep" })),
            ("max_value_bytes", self.max_value_bytes.to_string()),
            ("max_keys", self.max_keys.to_string()),
        ]
    }

    /// The same as one JSON object.
    pub fn json(&self) -> String {
        let members: Vec<_> = self.fields().iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    }
}

/// Which life of which session a question saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    session: String,
    life: u64,
}

/// The turns of a stream of entries.
#[derive(Debug, Default)]
pub struct Turns {
    sessions: HashMap<String, Turn>,
    last: Option<Turn>,
}

impl Turns {
    /// A question was asked.
    pub fn ask(&mut self, turn: Option<Turn>) {
        self.sessions.extend(turn.iter().map(|turn| (turn.session.clone(), turn.clone())));
        self.last = turn;
    }

    /// A new object begins.
    pub fn open(&mut self) {
        *self = Self::default();
    }

    /// There was an entry that nobody could read.
    pub fn end_last(&mut self) {
        self.last = None;
    }

    /// That of an answer: of the session that it names, else of the question asked last.
    pub fn of(&self, metadata: &Metadata) -> Option<&Turn> {
        match &metadata.claim {
            Claim::Session(name) => self.sessions.get(name),
            Claim::Nothing => self.last.as_ref(),
            Claim::Malformed => None,
        }
    }
}

/// What becomes of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What the filter says that it did.
    pub effect: Effect,
    /// The metadata to be sent on; none: as they came.
    pub metadata: Option<String>,
    /// For the answers.
    pub turn: Option<Turn>,
}

#[derive(Clone, Debug)]
enum Record {
    One { op: &'static str, key: Option<String>, cleared: Option<Vec<String>> },
    Summary { count: usize, ops: Vec<(String, usize)>, keys: BTreeSet<String> },
}

#[derive(Debug)]
struct Session {
    life: u64,
    ends: Option<u64>,
    values: BTreeMap<String, String>,
    history: Vec<Record>,
}

/// All sessions, and the time.
#[derive(Debug)]
pub struct Model {
    rules: Rules,
    now: u64,
    lives: u64,
    sessions: BTreeMap<String, Session>,
}

/// What an operator is told: the reply as JSON, or the kind of problem.
pub type Said = Result<Value, Code>;

impl Model {
    /// A store without sessions.
    pub fn new(rules: Rules) -> Self {
        Self { rules, now: 0, lives: 0, sessions: BTreeMap::new() }
    }

    /// Time passes.
    pub fn pass(&mut self, seconds: u64) {
        self.now += seconds;
        let now = self.now;
        self.sessions.retain(|_, session| session.ends.is_none_or(|ends| now < ends));
    }

    /// A question on its way.
    pub fn question(&mut self, metadata: &Metadata) -> Asked {
        let Claim::Session(name) = &metadata.claim else {
            let effect = if metadata.claim == Claim::Malformed { Effect::Ignored } else { Effect::Passed };
            let stripped = if self.rules.strips { metadata.stripped() } else { None };
            return Asked { effect, metadata: stripped, turn: None };
        };
        let session = self.open_or_create(name);
        let turn = Some(Turn { session: name.clone(), life: session.life });
        if session.values.is_empty() {
            return Asked { effect: Effect::Resumed, metadata: metadata.stripped(), turn };
        }
        let members: Vec<_> = session.values.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        let metadata = metadata.with(&format!("{{{}}}", members.join(",")));
        Asked { effect: Effect::Enriched, metadata: Some(metadata), turn }
    }

    /// An answer on its way, of the turn at hand if there is one.
    pub fn answer(&mut self, text: &str, metadata: &Metadata, turn: Option<&Turn>) -> Effect {
        let (name, life) = match (&metadata.claim, turn) {
            (Claim::Malformed, _) => return Effect::Ignored,
            (Claim::Session(name), Some(turn)) if turn.session == *name => (name.clone(), Some(turn.life)),
            (Claim::Session(name), _) => (name.clone(), None),
            (Claim::Nothing, Some(turn)) => (turn.session.clone(), Some(turn.life)),
            (Claim::Nothing, None) => return Effect::Passed,
        };
        let value = serde_json::to_string(text).unwrap();
        if value.len() > self.rules.max_value_bytes {
            return Effect::Limited;
        }
        if let Some(life) = life
            && self.sessions.get(&name).is_none_or(|session| session.life != life)
        {
            return Effect::Ended;
        }
        let max_keys = self.rules.max_keys;
        let is_there = self.sessions.contains_key(&name);
        if is_there && !has_room(&self.sessions[&name], &["last_answer", "answer_count"], max_keys) {
            return Effect::Limited;
        }
        let session = self.open_or_create(&name);
        let count: i64 = session.values.get("answer_count").map_or(0, |count| count.parse().unwrap());
        session.values.insert("last_answer".into(), value);
        session.values.insert("answer_count".into(), (count + 1).to_string());
        let one = |op, key: &str| Record::One { op, key: Some(key.into()), cleared: None };
        self.note(&name, [one("put", "last_answer"), one("increment", "answer_count")]);
        Effect::Stored
    }

    /// Create a session.
    pub fn create(&mut self, name: &str) -> Said {
        valid_session(name)?;
        if self.sessions.contains_key(name) {
            return Err(Code::AlreadyExists);
        }
        self.open_or_create(name);
        Ok(json!(name))
    }

    /// Keys and records of a session.
    pub fn resume(&mut self, name: &str) -> Said {
        let session = self.open(name)?;
        Ok(json!([session.values.len(), session.history.len()]))
    }

    /// Delete a session.
    pub fn delete(&mut self, name: &str) -> Said {
        valid_session(name)?;
        let session = self.sessions.remove(name).ok_or(Code::NotFound)?;
        Ok(json!(session.values.into_keys().collect::<Vec<_>>()))
    }

    /// Store a value.
    pub fn put(&mut self, name: &str, key: &str, value: &str) -> Said {
        valid_session(name).and(valid_key(key))?;
        if value.len() > self.rules.max_value_bytes {
            return Err(Code::Limit);
        }
        let is_json = serde_json::from_str::<&serde_json::value::RawValue>(value).is_ok();
        if !is_json || !fits_own_key(key, value.trim()) {
            return Err(Code::InvalidValue);
        }
        let max_keys = self.rules.max_keys;
        let session = self.sessions.get(name).ok_or(Code::NotFound)?;
        if !has_room(session, &[key], max_keys) {
            return Err(Code::Limit);
        }
        self.open(name)?.values.insert(key.into(), value.trim().into());
        self.note(name, [Record::One { op: "put", key: Some(key.into()), cleared: None }]);
        Ok(json!(key))
    }

    /// A value.
    pub fn get(&mut self, name: &str, key: &str) -> Said {
        valid_session(name).and(valid_key(key))?;
        Ok(json!(self.open(name)?.values.get(key)))
    }

    /// The keys.
    pub fn keys(&mut self, name: &str) -> Said {
        Ok(json!(self.open(name)?.values.keys().collect::<Vec<_>>()))
    }

    /// Clear one key, or all.
    pub fn clear(&mut self, name: &str, key: Option<&str>) -> Said {
        valid_session(name).and(key.map_or(Ok(()), valid_key))?;
        let session = self.open(name)?;
        let (cleared, record) = match key {
            Some(key) => {
                let cleared: Vec<String> = session.values.remove_entry(key).into_iter().map(|(key, _)| key).collect();
                (cleared, Record::One { op: "clear", key: Some(key.into()), cleared: None })
            }
            None => {
                let cleared: Vec<String> = std::mem::take(&mut session.values).into_keys().collect();
                (cleared.clone(), Record::One { op: "clear", key: None, cleared: Some(cleared) })
            }
        };
        self.note(name, [record]);
        Ok(json!(cleared))
    }

    /// Add to a counter.
    pub fn increment(&mut self, name: &str, key: &str, amount: i64) -> Said {
        valid_session(name).and(valid_key(key))?;
        let max_keys = self.rules.max_keys;
        let session = self.sessions.get(name).ok_or(Code::NotFound)?;
        let text = session.values.get(key).map_or("0", String::as_str);
        // Spelt as a counter is: neither `-0` nor `007` nor `1.0`.
        let count = text.parse::<i64>().ok().filter(|count| count.to_string() == text);
        let sum = count.and_then(|count| count.checked_add(amount));
        let has_room = has_room(session, &[key], max_keys);
        if key == "answer_count" {
            // To look at it is a use of the session.
            self.open(name)?;
            if !sum.is_some_and(|sum| fits_own_key(key, &sum.to_string())) {
                return Err(Code::InvalidValue);
            }
        }
        if !has_room {
            return Err(Code::Limit);
        }
        let sum = sum.ok_or(if count.is_none() { Code::NotACounter } else { Code::CounterOverflow })?;
        self.open(name)?.values.insert(key.into(), sum.to_string());
        self.note(name, [Record::One { op: "increment", key: Some(key.into()), cleared: None }]);
        Ok(json!(sum))
    }

    /// The newest records; 0: all.
    pub fn history(&mut self, name: &str, limit: usize) -> Said {
        let history = &self.open(name)?.history;
        let limit = if limit == 0 { history.len() } else { limit };
        Ok(history.iter().skip(history.len().saturating_sub(limit)).map(Record::json).collect())
    }

    /// The ids of all sessions.
    pub fn list(&self) -> Vec<String> {
        self.sessions.keys().cloned().collect()
    }

    fn open(&mut self, name: &str) -> Result<&mut Session, Code> {
        valid_session(name)?;
        let ends = self.new_end();
        let session = self.sessions.get_mut(name).ok_or(Code::NotFound)?;
        if self.rules.sliding && session.ends.is_some() {
            session.ends = ends;
        }
        Ok(session)
    }

    fn open_or_create(&mut self, name: &str) -> &mut Session {
        if !self.sessions.contains_key(name) {
            self.lives += 1;
            let (life, ends) = (self.lives, self.new_end());
            let session = Session { life, ends, values: BTreeMap::new(), history: Vec::new() };
            self.sessions.insert(name.into(), session);
        }
        self.open(name).unwrap()
    }

    fn new_end(&self) -> Option<u64> {
        self.rules.expires.then_some(self.now + LIFE_SECONDS)
    }

    fn note<const N: usize>(&mut self, name: &str, records: [Record; N]) {
        let Rules { max_history, auto_summarize, .. } = self.rules;
        let history = &mut self.sessions.get_mut(name).unwrap().history;
        history.extend(records);
        if auto_summarize && history.len() > max_history {
            let old: Vec<_> = history.drain(..history.len() - max_history / 2).collect();
            history.insert(0, Record::summary(&old));
        }
    }
}

impl Record {
    fn summary(old: &[Self]) -> Self {
        let (mut count, mut ops, mut keys) = (0, Vec::<(String, usize)>::new(), BTreeSet::new());
        let mut add = |op: &str, number: usize| match ops.iter_mut().find(|(known, _)| known == op) {
            Some((_, total)) => *total += number,
            None => ops.push((op.to_owned(), number)),
        };
        for record in old {
            match record {
                Self::One { op, key, cleared } => {
                    count += 1;
                    add(op, 1);
                    keys.extend(key.iter().chain(cleared.iter().flatten()).cloned());
                }
                Self::Summary { count: before, ops: counts, keys: touched } => {
                    count += before;
                    counts.iter().for_each(|(op, number)| add(op, *number));
                    keys.extend(touched.iter().cloned());
                }
            }
        }
        Self::Summary { count, ops, keys }
    }

    /// Without its timestamp.
    fn json(&self) -> Value {
        match self {
            Self::One { op, key, cleared: None } => json!({"op": op, "key": key}),
            Self::One { op, key, cleared } => json!({"op": op, "key": key, "cleared": cleared}),
            Self::Summary { count, ops, keys } => {
                let ops: BTreeMap<_, _> = ops.iter().cloned().collect();
                json!({"op": "summary", "summarized_count": count, "op_counts": ops, "keys_touched": keys})
            }
        }
    }
}

/// A record of a real history, as the model has it.
pub fn without_timestamp(record: &str) -> Value {
    let mut record: Value = serde_json::from_str(record).unwrap();
    assert!(record.as_object_mut().unwrap().remove("timestamp").is_some_and(|time| time.is_f64()));
    record
}

fn has_room(session: &Session, written: &[&str], max_keys: usize) -> bool {
    let new = written.iter().filter(|key| !session.values.contains_key(**key)).count();
    new == 0 || session.values.len() + new <= max_keys
}

/// The filter's own keys hold what the filter can go on with.
fn fits_own_key(key: &str, value: &str) -> bool {
    match key {
        "answer_count" => {
            value.parse().is_ok_and(|count: i64| (0..1 << 53).contains(&count) && count.to_string() == value)
        }
        _ => true,
    }
}

fn valid_session(name: &str) -> Result<(), Code> {
    let is_valid =
        (1..=128).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    is_valid.then_some(()).ok_or(Code::InvalidSession)
}

fn valid_key(key: &str) -> Result<(), Code> {
    let is_valid = (1..=256).contains(&key.len())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        && !(key.starts_with("__") && key.ends_with("__"));
    is_valid.then_some(()).ok_or(Code::InvalidKey)
}
