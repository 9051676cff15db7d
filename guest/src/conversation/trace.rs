//! `memory_trace`: what a question got, what it did not get, and why.

use keepline_json::{push_number, push_string};

use super::tokens::FORMULA;
use super::turns::Turn;
use super::window::Window;

/// No more turns are told of, counted from the newest.
const TURNS: usize = 64;

/// What is told.
pub(super) struct Facts<'f, 'r, 'a> {
    pub budget: u64,
    pub total: u64,
    pub summary_to: Option<u64>,
    pub unreadable: u64,
    pub turns: &'f [Turn<'r, 'a>],
    pub window: &'f Window<'r, 'a>,
}

impl Facts<'_, '_, '_> {
    /// As a JSON object.
    pub(super) fn write(&self) -> String {
        let mut out = String::from("{\"estimate\":");
        push_string(&mut out, FORMULA);
        let counts = [
            ("budget", Some(self.budget)),
            ("tokens", Some(self.window.cost)),
            ("thread_tokens", Some(self.total)),
            ("stable_since", Some(self.window.stable_since)),
            ("start", self.window.items.first().map(|item| item.position)),
            ("summary_to", self.summary_to),
            ("cleared_results", Some(self.window.cleared)),
            ("unreadable", Some(self.unreadable)),
        ];
        for (name, count) in counts {
            if let Some(count) = count {
                out.push_str(",\"");
                out.push_str(name);
                out.push_str("\":");
                push_number(&mut out, count);
            }
        }
        if self.window.has_gap {
            out.push_str(",\"gap\":true");
        }
        out.push_str(",\"turns\":[");
        let skipped = self.turns.len().saturating_sub(TURNS);
        for (index, turn) in self.turns.iter().enumerate().skip(skipped) {
            if index > skipped {
                out.push(',');
            }
            out.push_str("{\"turn\":");
            push_string(&mut out, turn.id);
            out.push_str(",\"position\":");
            push_number(&mut out, turn.first());
            out.push_str(",\"tokens\":");
            push_number(&mut out, turn.cost());
            out.push_str(",\"fate\":\"");
            out.push_str(self.fate(turn));
            out.push_str("\"}");
        }
        out.push_str("]}");
        out
    }

    fn fate(&self, turn: &Turn<'_, '_>) -> &'static str {
        let is_shown = self.window.items.iter().any(|item| item.record.turn == turn.id);
        match () {
            () if is_shown && self.window.is_cut => "cut",
            () if is_shown => "kept",
            () if !turn.is_whole => "beginning not read",
            () if turn.is_open => "open",
            () if self.summary_to.is_some_and(|to| turn.first() <= to) => "summarized",
            () => "over budget",
        }
    }
}
