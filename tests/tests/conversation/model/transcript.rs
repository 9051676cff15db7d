//! The model's transcript: the tree of what was said, and the messages of its threads.
//!
//! Promises to be told by the test alone, but for one thing: which records retention has taken is read from the store and held
//! against what retention promises.

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
    /// How many steps there were before the last answer.
    steps_before: usize,
}

/// What is to be held against a limit of records.
#[derive(Clone, Copy)]
pub enum Limit {
    /// Nobody removes any.
    None,
    /// It was just enforced.
    Enforced(u64),
    /// A program enforces it, or a greater one, after its answers.
    Deferred(u64),
}

/// A turn of a thread, as it is to be shown.
pub struct Turn {
    pub messages: Vec<Value>,
    /// The position of its last record.
    pub last: u64,
    /// Retention has taken its beginning.
    pub is_cut: bool,
    pub marks: BTreeSet<String>,
}

impl Transcript {
    pub fn add(&mut self, before: Option<usize>, turn: u64, events: Vec<(String, What)>) -> usize {
        let positions = self.next..;
        let event = |((mark, what), position)| Event { what, mark, position, state: State::There };
        let events: Vec<Event> = events.into_iter().zip(positions).map(event).collect();
        self.next += events.len() as u64;
        self.steps.push(Step { before, turn, events });
        self.steps.len() - 1
    }

    /// An answer is about to come.
    pub fn begin_answer(&mut self) {
        self.steps_before = self.steps.len();
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
                messages: messages(&events),
                marks: events.iter().map(|event| event.mark.clone()).collect(),
            })
        };
        turns.into_iter().filter_map(turn).collect()
    }

    /// The messages that an operator may remove: mark and position.
    pub fn removable(&self) -> Vec<(String, u64)> {
        let is_message =
            |event: &&Event| matches!(event.what, What::User(_) | What::Said(_)) && event.state == State::There;
        self.events().filter(is_message).map(|it| (it.mark.clone(), it.position)).collect()
    }

    /// The message at a position is there no more.
    pub fn remove(&mut self, position: u64) {
        let is_it = |event: &&mut Event| event.position == position && event.state == State::There;
        self.steps.iter_mut().flat_map(|step| &mut step.events).filter(is_it).for_each(|event| {
            event.state = State::Removed;
        });
        self.forget_removed_steps();
    }

    /// How many records there are.
    pub fn count(&self) -> u64 {
        self.events().filter(|event| event.state != State::Gone).count() as u64
    }

    /// Such questions are asked no more, and such calls get no result.
    fn forget_removed_steps(&mut self) {
        let mut asked = std::mem::take(&mut self.asked);
        asked.retain(|(_, step)| self.steps[*step].events[0].state == State::There);
        self.asked = asked;
        let mut open = std::mem::take(&mut self.open);
        open.retain(|open| self.is_there(&open.mark) && self.is_there(&question(open.turn)));
        self.open = open;
    }

    /// Whether retention has taken something, by the extent of what there is.
    pub fn has_moved(&self, oldest: u64, next: u64) -> Result<bool, String> {
        if next != self.next {
            return Err(format!("the next record gets position {next}, not {}", self.next));
        }
        Ok(oldest != self.oldest)
    }

    /// The position of the record that comes next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The position of a step's first record.
    pub fn position(&self, step: usize) -> u64 {
        self.steps[step].events[0].position
    }

    /// Takes over which records there are, as `(mark, position)`.
    pub fn retained(&mut self, oldest: u64, records: &[(String, u64)], limit: Limit) -> Result<(), String> {
        let there: BTreeMap<u64, &str> = records.iter().map(|(mark, position)| (*position, &**mark)).collect();
        let mut known = 0;
        for event in self.events().filter(|event| event.state != State::Gone && event.position >= oldest) {
            let mark = there.get(&event.position);
            known += usize::from(mark.is_some());
            // What is empty has no mark, and may not be read.
            let may_lack = event.state == State::Removed && mark.is_none();
            if mark != Some(&&*event.mark) && !may_lack {
                return Err(format!("there is {mark:?}, not {} at {}", event.mark, event.position));
            }
        }
        if known != records.len() || there.len() != records.len() {
            return Err(format!("records of nobody, or twice: {records:?}"));
        }
        self.check_limit(oldest, limit)?;
        self.oldest = oldest;
        for event in self.steps.iter_mut().flat_map(|step| &mut step.events).filter(|it| it.position < oldest) {
            event.state = State::Gone;
        }
        self.forget_removed_steps();
        Ok(())
    }

    /// Whether retention may, and has to, go as far as `oldest`: it frees a tenth, and no more than twice that and a turn;
    /// nothing of what is not finished, unless the limit is exceeded twofold.
    pub fn check_limit(&self, oldest: u64, limit: Limit) -> Result<(), String> {
        let held = self.count();
        let gone = self.events().filter(|it| it.state != State::Gone && it.position < oldest).count() as u64;
        let (most, is_deferred) = match limit {
            Limit::None if gone == 0 => return Ok(()),
            Limit::None => return Err(format!("{gone} records are gone, and nobody removes any")),
            Limit::Enforced(most) => (most, false),
            Limit::Deferred(most) => (most, true),
        };
        let wanted = if held > most { held - (most - most / 10) } else { 0 };
        // Two programs may have come after each other.
        let turns = if is_deferred { 2 } else { 1 };
        let is_too_much = gone > 0 && (wanted == 0 || gone > 2 * wanted + turns * 16);
        let spares = held <= 2 * most;
        let mut unfinished = self.first_unfinished(self.steps.len());
        if is_deferred {
            // It may have come before the last answer.
            unfinished = unfinished.max(self.first_unfinished(self.steps_before));
        }
        let (is_enough, is_spared) = (gone >= wanted, !spares || oldest <= unfinished);
        let may_be_less = is_deferred || !self.can_free(wanted, if spares { unfinished } else { u64::MAX });
        if is_too_much || !is_spared || (!is_enough && !may_be_less) {
            return Err(format!(
                "of {held} records {gone} are gone, where {most} may be, the oldest is {oldest}, what is not finished begins \
                 at {unfinished}"
            ));
        }
        Ok(())
    }

    /// Whether there is more than a limit, and it can go.
    pub fn may_free(&self, most: u64) -> bool {
        let held = self.count();
        let before = if held <= 2 * most { self.first_unfinished(self.steps.len()) } else { u64::MAX };
        held > most && self.can_free(held - (most - most / 10), before)
    }

    /// Where the first turn begins that waits for a tool, or is the newest, as it was after so many steps.
    fn first_unfinished(&self, steps: usize) -> u64 {
        let Some(newest) = steps.checked_sub(1) else { return u64::MAX };
        let steps = &self.steps[..steps];
        let there = |step: &Step| {
            step.events.iter().filter(|event| event.state != State::Gone).map(|it| it.position).collect::<Vec<u64>>()
        };
        let events = || steps.iter().flat_map(|step| step.events.iter().map(move |event| (step.turn, event)));
        let events = || events().filter(|(_, event)| event.state != State::Gone);
        let has_result =
            |call: &str| events().any(|(_, event)| matches!(&event.what, What::Result(of, _) if of == call));
        let is_open = |(_, event): &(u64, &Event)| matches!(event.what, What::Call(_)) && !has_result(&event.mark);
        let open: BTreeSet<u64> = events().filter(is_open).map(|(turn, _)| turn).collect();
        let of_open = steps.iter().filter(|step| open.contains(&step.turn)).flat_map(there);
        let line = self.path(Some(newest)).map(|step| &steps[step]);
        let of_newest = line.filter(|step| step.turn == steps[newest].turn).flat_map(there);
        of_open.chain(of_newest).min().unwrap_or(u64::MAX)
    }

    /// Whether so many records can go, of whole turns' runs before a position, and before the last run.
    fn can_free(&self, wanted: u64, before: u64) -> bool {
        let turns = self.steps.iter().flat_map(|step| step.events.iter().map(move |event| (step.turn, event)));
        let all: Vec<(u64, u64)> =
            turns.filter(|(_, event)| event.state != State::Gone).map(|(turn, event)| (turn, event.position)).collect();
        let ends = all.windows(2).enumerate().filter(|(_, two)| two[0].0 != two[1].0 && two[1].1 <= before);
        ends.map(|(index, _)| index as u64 + 1).max().is_some_and(|most| most >= wanted)
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
