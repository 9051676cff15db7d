//! What was said, kept as the tree that a transcript stands for, and the messages that its threads come to.
//!
//! Promises to be told by the test alone, but for one thing: which records retention has taken, and where it has put others,
//! is read from the store and held against what retention promises.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

const MISSING: &str = "[No result was recorded for this call]";

/// A record.
#[derive(Clone)]
pub struct Event {
    pub what: What,
    /// A word that occurs in it, or is its id, and in nothing else of any session.
    pub mark: String,
    pub position: u64,
    pub state: State,
}

#[derive(Clone)]
pub enum What {
    /// The message's content, as chat APIs have it.
    User(Value),
    /// The id under which it is shown first.
    Call(String),
    /// The mark of its call, and what it gave.
    Result(String, String),
    Said(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    There,
    /// By an operator: the record stays, and is empty.
    Removed,
    /// By retention.
    Gone,
}

/// Records of a turn that follow each other.
pub struct Step {
    before: Option<usize>,
    pub turn: u64,
    pub events: Vec<Event>,
    /// Known: retention has put a record where the one stood that this one follows, which is taken for that.
    is_misled: bool,
}

/// A call that has no result yet.
#[derive(Clone)]
pub struct Open {
    pub turn: u64,
    pub mark: String,
    pub call_id: String,
}

#[derive(Default)]
pub struct Transcript {
    pub steps: Vec<Step>,
    oldest: u64,
    next: u64,
    /// The ids of answers, and their steps.
    pub answers: Vec<(String, usize)>,
    /// Turns, and the steps of their questions.
    pub asked: Vec<(u64, usize)>,
    pub open: Vec<Open>,
    /// Where retention has put records of the newest turn, in the place of others.
    pub carried: BTreeSet<u64>,
}

/// A turn of a thread, as it is to be shown.
pub struct Turn {
    pub messages: Vec<Value>,
    /// The position of its last record.
    pub last: u64,
    /// Retention has taken its beginning.
    pub is_cut: bool,
    /// What comes before it is not known.
    pub is_misled: bool,
    pub marks: BTreeSet<String>,
}

impl Transcript {
    pub fn add(&mut self, before: Option<usize>, turn: u64, events: Vec<(String, What)>) -> usize {
        let positions = self.next..;
        let event = |((mark, what), position)| Event { what, mark, position, state: State::There };
        let events: Vec<Event> = events.into_iter().zip(positions).map(event).collect();
        self.next += events.len() as u64;
        self.steps.push(Step { before, turn, events, is_misled: false });
        self.steps.len() - 1
    }

    pub fn newest(&self) -> Option<usize> {
        self.steps.len().checked_sub(1)
    }

    /// The step before a turn's question.
    pub fn before(&self, step: usize) -> Option<usize> {
        self.steps[step].before
    }

    /// The newest step, if a turn is on its thread.
    pub fn end_with(&self, turn: u64) -> Option<usize> {
        self.path(self.newest()).any(|step| self.steps[step].turn == turn).then(|| self.newest()).flatten()
    }

    /// From a step back to the first.
    fn path(&self, end: Option<usize>) -> impl Iterator<Item = usize> {
        std::iter::successors(end, |step| self.steps[*step].before)
    }

    fn events(&self) -> impl Iterator<Item = &Event> {
        self.steps.iter().flat_map(|step| &step.events)
    }

    pub fn is_there(&self, mark: &str) -> bool {
        self.events().any(|event| event.mark == mark && event.state == State::There)
    }

    /// Where an answer that a question names leads to; one that retention has taken is as good as unknown: to the newest.
    pub fn end_at(&self, parent: Option<&(String, usize)>) -> Option<usize> {
        let has = |(id, step): &&(String, usize)| {
            self.steps[*step].events.iter().any(|event| event.mark == *id && event.state != State::Gone)
        };
        parent.filter(has).map(|(_, step)| *step).or(self.newest())
    }

    /// The turns that lead to a step, in the order in which they last went on.
    pub fn thread(&self, end: Option<usize>) -> Vec<Turn> {
        let mut path: Vec<usize> = self.path(end).collect();
        path.reverse();
        let is_misled = path.iter().any(|step| self.steps[*step].is_misled);
        let mut turns: Vec<(u64, Vec<&Event>)> = Vec::new();
        for step in path.into_iter().map(|step| &self.steps[step]) {
            let known = turns.iter().position(|(turn, _)| *turn == step.turn);
            let (_, mut events) = known.map_or_else(|| (0, Vec::new()), |index| turns.remove(index));
            events.extend(&step.events);
            turns.push((step.turn, events));
        }
        let turn = |(_, all): (u64, Vec<&Event>)| {
            let events: Vec<&Event> = all.iter().copied().filter(|event| event.state != State::Gone).collect();
            Some(Turn {
                last: events.iter().map(|event| event.position).max()?,
                is_cut: !matches!(events[0].what, What::User(_)),
                is_misled,
                messages: messages(&events),
                marks: events.iter().map(|event| event.mark.clone()).collect(),
            })
        };
        turns.into_iter().filter_map(turn).collect()
    }

    /// A message that an operator may remove: not of the newest turn, whose records retention moves. Its mark and position.
    pub fn removable(&self) -> Vec<(String, u64)> {
        let newest = self.steps.last().map(|step| step.turn);
        let steps = self.steps.iter().filter(|step| Some(step.turn) != newest);
        let is_message =
            |event: &&Event| matches!(event.what, What::User(_) | What::Said(_)) && event.state == State::There;
        steps.flat_map(|step| &step.events).filter(is_message).map(|it| (it.mark.clone(), it.position)).collect()
    }

    /// Its message is there no more.
    pub fn remove(&mut self, mark: &str) {
        for event in self.steps.iter_mut().flat_map(|step| &mut step.events).filter(|event| event.mark == mark) {
            event.state = State::Removed;
        }
        self.forget_what_is_not_there();
    }

    /// How many records there are.
    pub fn count(&self) -> u64 {
        self.events().filter(|event| event.state != State::Gone).count() as u64
    }

    /// Whether a call lacks its result.
    pub fn waits(&self) -> bool {
        let is_result = |call: &str| {
            let mut there = self.events().filter(|event| event.state != State::Gone);
            there.any(|event| matches!(&event.what, What::Result(of, _) if of == call))
        };
        let is_call = |event: &&Event| event.state != State::Gone && matches!(event.what, What::Call(_));
        self.events().filter(is_call).any(|event| !is_result(&event.mark))
    }

    /// Such questions are asked no more, and such calls get no result.
    fn forget_what_is_not_there(&mut self) {
        let mut asked = std::mem::take(&mut self.asked);
        asked.retain(|(_, step)| self.steps[*step].events[0].state == State::There);
        self.asked = asked;
        let mut open = std::mem::take(&mut self.open);
        open.retain(|open| self.is_there(&open.mark) && self.is_there(&question(open.turn)));
        self.open = open;
    }

    /// Whether it stands elsewhere in the store.
    pub fn has_moved(&self, oldest: u64, next: u64) -> Result<bool, String> {
        if next != self.next {
            return Err(format!("the next record gets position {next}, not {}", self.next));
        }
        Ok(oldest != self.oldest)
    }

    /// Takes over which records there are, as `(mark, position)`; `most`: how many there may be, if it was to be seen to.
    pub fn retained(&mut self, oldest: u64, records: &[(String, u64)], most: Option<u64>) -> Result<(), String> {
        let there: BTreeMap<&str, u64> = records.iter().map(|(mark, position)| (&**mark, *position)).collect();
        if there.len() != records.len() {
            return Err(format!("records twice: {records:?}"));
        }
        let newest = self.steps.last().map(|step| step.turn);
        let line: BTreeSet<usize> =
            self.path(self.newest()).filter(|step| Some(self.steps[*step].turn) == newest).collect();
        let places: BTreeSet<u64> = there.values().copied().collect();
        let stood: BTreeMap<String, u64> = self.events().map(|event| (event.mark.clone(), event.position)).collect();
        let mut moved = BTreeSet::new();
        let (mut gone, mut stays, mut count) = (None, None, (0_u64, 0));
        for (index, step) in self.steps.iter_mut().enumerate() {
            for event in step.events.iter_mut().filter(|event| event.state != State::Gone) {
                count.0 += 1;
                let was = event.position;
                // What is empty has no mark.
                let known = there.get(&*event.mark).copied();
                // What is empty may not be read.
                let may_be = event.state == State::Removed && was >= oldest && !places.contains(&was);
                let position = known.or(Some(was).filter(|_| may_be));
                match position {
                    Some(position) => {
                        count.1 += 1;
                        event.position = position;
                        if position != was {
                            moved.insert(index);
                            self.carried.insert(position);
                        }
                        if !line.contains(&index) {
                            stays = stays.min(Some(was)).or(Some(was));
                        }
                        if position != was && !line.contains(&index) {
                            return Err(format!("{} moved from {was} to {position}", event.mark));
                        }
                    }
                    None if line.contains(&index) => return Err(format!("{} of the newest turn is gone", event.mark)),
                    None => {
                        gone = gone.max(Some(was));
                        event.state = State::Gone;
                    }
                }
            }
        }
        if gone.is_some() && stays.is_some() && gone > stays {
            return Err(format!("{gone:?} is gone, and {stays:?} is not"));
        }
        self.oldest = oldest;
        // What is not on the newest thread is not linked to what has moved.
        let path: BTreeSet<usize> = self.path(self.newest()).collect();
        let is_gone = |step: &Step| step.events.iter().all(|event| event.state == State::Gone);
        let lost: BTreeSet<usize> =
            (0..self.steps.len()).filter(|step| is_gone(&self.steps[*step]) || moved.contains(step)).collect();
        let last = |step: &Step| stood.get(&step.events[step.events.len() - 1].mark).copied();
        let misled: Vec<bool> = (0..self.steps.len())
            .map(|index| {
                let before = self.steps[index].before.filter(|before| lost.contains(before));
                before.and_then(|before| last(&self.steps[before])).is_some_and(|at| self.carried.contains(&at))
            })
            .collect();
        for (index, step) in self.steps.iter_mut().enumerate().filter(|(index, _)| !path.contains(index)) {
            step.is_misled |= misled[index];
            step.before = step.before.filter(|before| !lost.contains(before));
        }
        // A tenth, and no more than twice that and a turn; unless a call waits for its result.
        if let Some(most) = most {
            let (held, left) = count;
            let wanted = held.saturating_sub(most - most / 10);
            let is_enough = held - left >= wanted || self.waits();
            if held <= most || !is_enough || held - left > 2 * wanted + 16 {
                return Err(format!("of {held} records {left} are left, where {most} may be"));
            }
        }
        self.forget_what_is_not_there();
        Ok(())
    }
}

/// A question's mark, and its id.
pub fn question(turn: u64) -> String {
    format!("mk{turn}qz")
}

/// Chat messages: calls that nothing comes between are one message, and their results follow it.
fn messages(events: &[&Event]) -> Vec<Value> {
    /// With its calls and results, each by the call's mark.
    struct Message {
        message: Value,
        calls: Vec<(String, String)>,
        results: Vec<(String, String)>,
    }
    let message = |message: Value| Message { message, calls: Vec::new(), results: Vec::new() };
    let mut all: Vec<Message> = Vec::new();
    let mut joins = false;
    for (index, event) in events.iter().enumerate() {
        // What has no text is shown where calls come with it.
        let next = events[index + 1..].iter().map(|event| &event.what).find(|what| !matches!(what, What::Result(..)));
        let carries = matches!(next, Some(What::Call(_)));
        match &event.what {
            What::User(content) if event.state == State::There => {
                all.push(message(json!({"role": "user", "content": content})));
                joins = false;
            }
            What::Said(text) if event.state == State::There && (carries || !text.is_empty()) => {
                all.push(message(json!({"role": "assistant", "content": text})));
                joins = true;
            }
            What::User(_) | What::Said(_) => {}
            What::Call(id) => {
                if !joins || all.last().is_none_or(|last| !last.results.is_empty()) {
                    all.push(message(json!({"role": "assistant", "content": null})));
                    joins = true;
                }
                all.last_mut().unwrap().calls.push((event.mark.clone(), id.clone()));
            }
            // Of a call that is gone, it is not shown.
            What::Result(call, text) => {
                let of = all.iter_mut().find(|message| message.calls.iter().any(|(other, _)| other == call));
                of.into_iter().for_each(|message| message.results.push((call.clone(), text.clone())));
            }
        }
    }
    let mut out = Vec::new();
    for Message { mut message, calls, results } in all {
        // An id that a message has twice gets a number.
        let mut ids: BTreeMap<&str, String> = BTreeMap::new();
        for (call, id) in &calls {
            let same = ids.values().filter(|other| *other == id || other.starts_with(&format!("{id}-"))).count();
            ids.insert(call, if same == 0 { id.clone() } else { format!("{id}-{}", same + 1) });
        }
        if !calls.is_empty() {
            let call = |(call, _): &(String, String)| json!({"id": ids[&**call], "type": "function", "function": {"name": "look", "arguments": arguments(call)}});
            message["tool_calls"] = calls.iter().map(call).collect();
        }
        out.push(message);
        let result = |call: &str, text: &str| json!({"role": "tool", "tool_call_id": ids[call], "content": text});
        out.extend(results.iter().map(|(call, text)| result(call, text)));
        let is_missing = |call: &str| !results.iter().any(|(other, _)| other == call);
        out.extend(calls.iter().filter(|(call, _)| is_missing(call)).map(|(call, _)| result(call, MISSING)));
    }
    out
}

/// Of the call with that mark.
pub fn arguments(mark: &str) -> String {
    format!("{{\"n\":\"{mark}\"}}")
}
