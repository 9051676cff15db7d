//! Answers with message ids, in any order and as often as a pipeline likes: each counts once while it is among the
//! newest 500 ids of its session's life, no id is taken for another, and a session holds no more than 1,000.

use std::collections::{HashMap, HashSet};

use keepline_filter::{AnswerEntry, Config, Effect, Filter};
use serde_json::Value;

use crate::{is_json, test_host::TestHost, tree};

const KEPT: usize = 500;
const MOST: u64 = 1000;
/// Answers by number, of which a few make a session forget its oldest ids.
const MOST_AT_ONCE: u32 = 1300;

/// Parts between bytes of 0xff; the first byte says what one is.
pub fn holds(data: &[u8]) {
    let mut session = Session::new();
    let mut left = MOST_AT_ONCE;
    for part in data.split(|byte| *byte == 0xff).take(64) {
        let Some((kind, rest)) = part.split_first() else { continue };
        let Ok(rest) = std::str::from_utf8(rest) else { continue };
        match kind {
            b'd' => session.delete(),
            b'n' => {
                let count = left.min(rest.bytes().map(|byte| u32::from(byte) * 4).sum());
                left -= count;
                (0..count).for_each(|_| session.answer_by_number());
            }
            b'o' => session.leave(rest),
            b'm' => session.answer(None, rest),
            _ => {
                let (id, raw) = rest.split_once('\n').unwrap_or((rest, "null"));
                session.answer(Some(id), raw);
            }
        }
    }
}

/// One session and what must be true of it.
struct Session {
    host: TestHost,
    /// Stored in this life.
    count: u64,
    /// The ids in the order in which they were stored; none for what others left in the log.
    log: Vec<Option<String>>,
    /// Stored in this life, each with whether others named it, too: it may be forgotten early then.
    stored: HashMap<String, bool>,
    number: u32,
}

impl Session {
    fn new() -> Self {
        Self { host: TestHost::new(), count: 0, log: Vec::new(), stored: HashMap::new(), number: 0 }
    }

    fn delete(&mut self) {
        self.host.end("s");
        (self.count, self.log, self.stored) = (0, Vec::new(), HashMap::new());
    }

    /// What others leave among the ids: anything, an id that is there already among it.
    fn leave(&mut self, record: &str) {
        if let Some(bucket) = self.host.buckets_mut().get_mut("s") {
            bucket.logs.entry("answers".into()).or_default().1.push(record.to_owned());
            self.log.push(None);
            if let Some(named) = tree(record).as_ref().and_then(Value::as_str).and_then(|id| self.stored.get_mut(id)) {
                *named = true;
            }
        }
    }

    fn answer_by_number(&mut self) {
        self.number += 1;
        let id = format!("number {}", self.number);
        self.answer(Some(&id), "null");
    }

    /// `given` comes with the entry and goes before what its metadata say.
    fn answer(&mut self, given: Option<&str>, raw: &str) {
        // Half a surrogate pair is no text of a tree.
        if !is_json(raw) || raw.contains(['\n', '\r']) || tree(raw).is_none() {
            return;
        }
        let metadata = format!("{{\"message_id\":0,\"session_id\":\"s\",\"message_id\":{raw}}}");
        let of_metadata = tree(raw).and_then(|value| value.as_str().map(str::to_owned));
        let id = given.map(str::to_owned).filter(|id| !id.is_empty()).or(of_metadata).filter(|id| !id.is_empty());
        let filter = Filter::new(&self.host, Config { auto_summarize: false, ..Config::default() });
        let entry = AnswerEntry { text: "said", metadata: &metadata, message_id: given, ..AnswerEntry::default() };
        let reply = filter.answer(&entry);
        assert_eq!(reply.problem, None, "{id:?}");
        match reply.effect {
            Effect::Stored => {
                self.count += 1;
                if let Some(id) = id {
                    assert!(!self.must_know(&id), "{id:?} counts twice");
                    self.stored.insert(id.clone(), false);
                    self.log.push(Some(id));
                }
            }
            Effect::Repeated => assert!(id.is_some_and(|id| self.stored.contains_key(&id)), "taken for another"),
            effect => panic!("{effect:?}"),
        }
        // Sizes alone: with a copy of a thousand ids after each answer, an input would take a second.
        let (_, bucket) = self.host.describe("s");
        let size = |kind: &str, name: &str| {
            let part = bucket.parts.iter().find(|part| part.kind == kind && part.name == name);
            part.map_or(0, |part| part.count)
        };
        assert!(size("log", "answers") <= MOST || reply.effect == Effect::Repeated);
        assert!(size("map", "messages") <= MOST);
        assert_eq!(self.host.get("s", "answer_count").unwrap(), self.count.to_string());
    }

    fn must_know(&self, id: &str) -> bool {
        let newest: HashSet<_> = self.log.iter().rev().take(KEPT).flatten().map(String::as_str).collect();
        newest.contains(id) && self.stored.get(id) == Some(&false)
    }
}
