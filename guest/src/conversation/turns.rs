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

    /// Whether it has a message of this id.
    pub fn has_message(&self, id: &str) -> bool {
        self.records.iter().any(|(_, record)| record.id.as_deref() == Some(id))
    }

    /// Messages of users and assistants.
    pub fn messages(&self) -> u64 {
        self.records.iter().filter(|(_, record)| record.kind == Kind::Message).count() as u64
    }
}

/// The turns of a thread that weighs `total`, in the order in which they began.
pub fn turns<'r, 'a>(records: &[(u64, &'r Record<'a>)], total: u64) -> Vec<Turn<'r, 'a>> {
    let sum: u64 = records.iter().map(|(_, record)| record.weight).sum();
    // What is older than what was read.
    let mut before = total.saturating_sub(sum);
    let mut turns: Vec<Turn<'r, 'a>> = Vec::new();
    for &(position, record) in records {
        // One of another process may have begun meanwhile, but few are at work at a time. What begins a turn is the
        // first of it.
        let known = turns.iter_mut().rev().take(if record.begins { 1 } else { 64 }).find(|turn| turn.id == record.turn);
        match known {
            Some(turn) => turn.records.push((position, record)),
            None => turns.push(Turn {
                id: &record.turn,
                records: vec![(position, record)],
                begin: before,
                is_whole: record.begins,
                is_open: false,
            }),
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
