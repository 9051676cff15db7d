//! Groups the records of a thread into turns, in the order that chat APIs require.
//!
//! A turn is shown whole or not at all, whatever was stored between its steps, and the results of a message's calls follow it
//! directly. A result belongs to the oldest call of its id that has none yet. Results without a call and messages that say nothing
//! are not shown.

use crate::store;
use crate::text::tokens;
use crate::transcript::record::{RecordKind, Role, StoredRecord};

/// What stands for the result of a call that has none.
pub const MISSING_RESULT: &str = "[No result was recorded for this call]";

/// What stands for the user's message of a turn that has none, where a window begins with it.
pub const MISSING_USER_MESSAGE: &str = "[The user's message was not recorded]";

/// A turn of a thread.
#[derive(Clone, Debug, Default)]
pub struct Turn<'r, 'a> {
    /// Its id.
    pub id: &'r str,
    /// Position and record, in the order in which they are shown.
    pub records: Vec<(u64, &'r StoredRecord<'a>)>,
    /// What is not shown: messages without content, results without a call, what is neither.
    pub hidden: Vec<(u64, &'r StoredRecord<'a>)>,
    /// The positions of calls that have no result, ascending.
    pub missing: Vec<u64>,
    /// The position of its first record.
    pub first: u64,
    /// The position of its last record.
    pub last: u64,
    /// What the thread weighed before it.
    pub begin: u64,
    /// Whether its first record is there.
    pub is_whole: bool,
}

impl<'r, 'a> Turn<'r, 'a> {
    /// With records of it that come before the others, and were read apart from them.
    pub fn with_earlier(&self, earlier: &[(u64, &'r StoredRecord<'a>)]) -> Self {
        let mut turn = Self { records: Vec::new(), hidden: Vec::new(), ..self.clone() };
        let all = earlier.iter().filter(|(at, _)| *at < self.first).chain(&self.records).chain(&self.hidden);
        for &(position, record) in all {
            if let Err(at) = turn.records.binary_search_by_key(&position, |(other, _)| *other) {
                turn.records.insert(at, (position, record));
            }
        }
        turn.is_whole = turn.records.first().is_some_and(|(_, record)| record.begins);
        turn.first = turn.records.first().map_or(0, |(position, _)| *position);
        arrange(&mut turn);
        turn
    }

    /// Whether a call lacks its result.
    pub fn is_open(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Its tokens as it is shown.
    pub fn cost(&self) -> u64 {
        self.records.iter().map(|(_, record)| record.cost()).sum::<u64>() + self.made_cost()
    }

    /// The tokens of what stands for what it lacks.
    pub fn made_cost(&self) -> u64 {
        let unasked = if self.lacks_question() {
            tokens::MESSAGE_TOKENS + tokens::estimate_tokens(MISSING_USER_MESSAGE)
        } else {
            0
        };
        unasked + self.missing.len() as u64 * (tokens::MESSAGE_TOKENS + tokens::estimate_tokens(MISSING_RESULT))
    }

    /// What it weighs.
    pub fn weight(&self) -> u64 {
        self.records.iter().chain(&self.hidden).map(|(_, record)| record.weight).sum()
    }

    /// Whether it has a message of this id.
    pub fn has_message(&self, id: &str) -> bool {
        self.records.iter().chain(&self.hidden).any(|(_, record)| record.id.as_deref() == Some(id))
    }

    /// Messages of users and assistants.
    pub fn messages(&self) -> u64 {
        let said = self.records.iter().filter(|(_, record)| record.kind == RecordKind::Message).count() as u64;
        said + u64::from(self.lacks_question())
    }

    /// Whether what is shown of it does not begin with a user's message, instructions aside.
    pub fn lacks_question(&self) -> bool {
        let mut said = self.records.iter().filter(|(_, record)| record.kind != RecordKind::Instruction);
        said.next().is_some_and(|(_, record)| record.kind != RecordKind::Message || record.role != Role::User)
    }
}

/// Of the turn at `index`: it goes on after all others, and after so much. So a turn that was left open and goes on later
/// stands where it is read, and not among what a question has seen, or a summary has told, without it.
pub fn move_turn_to_end(turns: &mut Vec<Turn<'_, '_>>, index: usize, begin: u64) {
    if index + 1 < turns.len() {
        let turn = turns.remove(index);
        turns.push(Turn { begin, ..turn });
    }
}

/// The turns of a thread that weighs `total`, in the order in which they began, or last went on.
pub fn group_into_turns<'r, 'a>(records: &[(u64, &'r StoredRecord<'a>)], total: u64) -> Vec<Turn<'r, 'a>> {
    let sum: u64 = records.iter().map(|(_, record)| record.weight).sum();
    // What is older than what was read.
    let mut before = total.saturating_sub(sum);
    let mut turns: Vec<Turn<'r, 'a>> = Vec::new();
    let mut places = TurnIndex::default();
    for &(position, record) in records {
        if turns.last().is_none_or(|last| last.id != record.turn) {
            // What begins a turn is the first of it.
            let known = if record.begins { None } else { places.find(&turns, &record.turn) };
            let mut turn = Turn { id: &record.turn, first: position, is_whole: record.begins, ..Turn::default() };
            match known.and_then(|index| turns.get_mut(index)) {
                Some(known) => turn = std::mem::take(known),
                None => turn.records.reserve(2),
            }
            places.note(turn.id, turns.len());
            turns.push(Turn { begin: before, ..turn });
        }
        if let Some(turn) = turns.last_mut() {
            turn.records.push((position, record));
            turn.last = position;
        }
        before = before.saturating_add(record.weight);
    }
    if places.is_used {
        // Those that went on stand where they did so.
        turns.retain(|turn| !turn.records.is_empty());
    }
    turns.iter_mut().for_each(arrange);
    turns
}

/// Where turns stand, by their ids: made once it is asked for, since few turns go on after others.
#[derive(Default)]
struct TurnIndex<'r> {
    sorted: Vec<(&'r str, usize)>,
    is_used: bool,
}

impl<'r> TurnIndex<'r> {
    /// The last of this id.
    fn find(&mut self, turns: &[Turn<'r, '_>], id: &str) -> Option<usize> {
        if !self.is_used {
            self.is_used = true;
            self.sorted = store::heap_sorted(turns.iter().enumerate().map(|(index, turn)| (turn.id, index)).collect());
        }
        let after = self.sorted.partition_point(|(other, _)| *other <= id);
        self.sorted.get(after.checked_sub(1)?).filter(|(other, _)| *other == id).map(|(_, index)| *index)
    }

    fn note(&mut self, id: &'r str, index: usize) {
        if self.is_used {
            let at = self.sorted.partition_point(|(other, _)| *other <= id);
            self.sorted.insert(at, (id, index));
        }
    }
}

/// Put each result after the calls of its call's message, and set aside what can't be shown.
fn arrange(turn: &mut Turn<'_, '_>) {
    let is_tool = |record: &StoredRecord<'_>| matches!(record.kind, RecordKind::ToolCall | RecordKind::ToolResult);
    if !turn.records.iter().any(|(_, record)| is_tool(record)) {
        if !turn.records.iter().all(|(_, record)| says(record)) {
            let (shown, hidden) = turn.records.iter().partition(|(_, record)| says(record));
            (turn.records, turn.hidden) = (shown, hidden);
        }
        return;
    }
    let all = std::mem::take(&mut turn.records);
    turn.records.reserve(all.len());
    // Calls without a result so far: id, position, and the message that makes it.
    let mut open: Vec<(&str, u64, usize)> = Vec::new();
    // Where each message's calls and their results end among what is shown.
    let mut ends: Vec<usize> = Vec::new();
    let mut joins = false;
    for (index, &(position, record)) in all.iter().enumerate() {
        let id = record.tool.as_ref().map_or("", |tool| &*tool.call_id);
        match record.kind {
            RecordKind::Message | RecordKind::Instruction
                if says(record) || carries(record, all.get(index + 1..).unwrap_or_default()) =>
            {
                turn.records.push((position, record));
                joins = false;
            }
            RecordKind::ToolCall => {
                if !joins {
                    ends.push(0);
                    joins = true;
                }
                turn.records.push((position, record));
                if let Some(end) = ends.last_mut() {
                    *end = turn.records.len();
                }
                open.push((id, position, ends.len() - 1));
            }
            RecordKind::ToolResult => {
                let Some(at) = open.iter().position(|(call, ..)| *call == id) else {
                    turn.hidden.push((position, record));
                    continue;
                };
                let (_, _, message) = open.remove(at);
                joins &= message + 1 != ends.len();
                turn.records.insert(ends.get(message).copied().unwrap_or(turn.records.len()), (position, record));
                ends.iter_mut().skip(message).for_each(|end| *end += 1);
            }
            RecordKind::Message | RecordKind::Instruction | RecordKind::Other => turn.hidden.push((position, record)),
        }
    }
    turn.missing = open.into_iter().map(|(_, position, _)| position).collect();
}

/// Whether a message has content.
fn says(record: &StoredRecord<'_>) -> bool {
    let is_said = record.kind == RecordKind::Message && record.role != Role::Tool;
    (is_said || record.kind == RecordKind::Instruction) && record.has_content()
}

/// Whether an assistant's message is what its calls come with, given what follows it in the log.
fn carries(record: &StoredRecord<'_>, after: &[(u64, &StoredRecord<'_>)]) -> bool {
    let next = after
        .iter()
        .map(|(_, record)| record.kind)
        .find(|kind| matches!(kind, RecordKind::Message | RecordKind::ToolCall));
    record.role == Role::Assistant && next == Some(RecordKind::ToolCall)
}
