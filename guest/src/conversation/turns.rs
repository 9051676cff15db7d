//! Turns: the records of a thread that belong together.
//!
//! Promises that a turn is handed on whole or not at all, with each call followed by its result. Calls and results are
//! paired by id in the order of the log; ids may be used again once their call has its result. Refuses results without
//! a call, and calls that are there twice.

use super::record::{Kind, Record};

/// A turn of a thread.
#[derive(Clone, Debug)]
pub struct Turn<'r, 'a> {
    /// Its id.
    pub id: &'r str,
    /// Position and record, in order. What pairs with nothing is not among them.
    pub records: Vec<(u64, &'r Record<'a>)>,
    /// What the thread weighed before it.
    pub begin: u64,
    /// Whether its first record is there.
    pub is_whole: bool,
    /// Whether a call lacks its result.
    pub is_open: bool,
}

impl Turn<'_, '_> {
    /// Its tokens.
    pub fn cost(&self) -> u64 {
        self.records.iter().map(|(_, record)| record.cost()).sum()
    }

    /// What it weighs.
    pub fn weight(&self) -> u64 {
        self.records.iter().map(|(_, record)| record.weight).sum()
    }

    /// The position of its first record.
    pub fn first(&self) -> u64 {
        self.records.first().map_or(0, |(position, _)| *position)
    }

    /// The position of its last record.
    pub fn last(&self) -> u64 {
        self.records.last().map_or(0, |(position, _)| *position)
    }

    /// Whether it has a message of this id.
    pub fn has_message(&self, id: &str) -> bool {
        self.records.iter().any(|(_, record)| record.id.as_deref() == Some(id))
    }

    /// Messages of users and assistants.
    pub fn messages(&self) -> u64 {
        self.records.iter().filter(|(_, record)| record.kind == Kind::Message).count() as u64
    }
}

/// Of the turn at `index`: it goes on after all others, and after so much. So a turn that was left open and goes on later
/// stands where it is read, and not among what a question has seen, or a summary has told, without it.
pub fn go_on(turns: &mut Vec<Turn<'_, '_>>, index: usize, begin: u64) {
    if index + 1 < turns.len() {
        let turn = turns.remove(index);
        turns.push(Turn { begin, ..turn });
    }
}

/// The turns of a thread that weighs `total`, in the order in which they began, or last went on.
pub fn turns<'r, 'a>(records: &[(u64, &'r Record<'a>)], total: u64) -> Vec<Turn<'r, 'a>> {
    let sum: u64 = records.iter().map(|(_, record)| record.weight).sum();
    // What is older than what was read.
    let mut before = total.saturating_sub(sum);
    let mut turns: Vec<Turn<'r, 'a>> = Vec::new();
    for &(position, record) in records {
        // One of another process may have begun meanwhile, but few are at work at a time. What begins a turn is the
        // first of it.
        let reach = turns.len().saturating_sub(if record.begins { 1 } else { 64 });
        let known = turns.iter().skip(reach).rposition(|turn| turn.id == record.turn);
        match known {
            Some(index) => go_on(&mut turns, reach + index, before),
            None => turns.push(Turn {
                id: &record.turn,
                records: Vec::with_capacity(2),
                begin: before,
                is_whole: record.begins,
                is_open: false,
            }),
        }
        if let Some(turn) = turns.last_mut() {
            turn.records.push((position, record));
        }
        before = before.saturating_add(record.weight);
    }
    for turn in &mut turns {
        pair(turn);
    }
    turns
}

/// Drop what pairs with nothing, and see what is open.
fn pair(turn: &mut Turn<'_, '_>) {
    let mut open: Vec<&str> = Vec::new();
    turn.records.retain(|(_, record)| {
        let id = record.tool.as_ref().map_or("", |tool| &*tool.call_id);
        let found = open.iter().position(|call| *call == id);
        match (record.kind, found) {
            (Kind::ToolCall, None) => {
                open.push(id);
                true
            }
            (Kind::ToolResult, Some(index)) => {
                open.remove(index);
                true
            }
            (Kind::Message, _) => true,
            (Kind::ToolCall, Some(_)) | (Kind::ToolResult, None) | (Kind::Other, _) => false,
        }
    });
    turn.is_open = !open.is_empty();
}
