//! `memory_trace`: what a question got, what it did not get, and why.

use keepline_json::{push_number, push_string};

use crate::text::tokens::FORMULA;
use crate::transcript::turns::Turn;
use crate::window::select::ContextWindow;

/// No more turns are told of, counted from the newest.
const TURNS: usize = 64;

/// What is told.
pub(crate) struct WindowTrace<'f, 'r, 'a> {
    pub budget: u64,
    pub message_limit: u64,
    pub total: u64,
    pub summary_to: Option<u64>,
    pub unreadable: u64,
    /// More members, each after a comma.
    pub omissions: &'f str,
    /// Why the first turn does not stand before the window, though it is to.
    pub unpinned: Option<&'f str>,
    pub turns: &'f [Turn<'r, 'a>],
    pub window: &'f ContextWindow<'r, 'a>,
}

impl WindowTrace<'_, '_, '_> {
    /// As a JSON object.
    pub(crate) fn write(&self) -> String {
        let mut out = String::from("{\"estimate\":");
        push_string(&mut out, FORMULA);
        let counts = [
            ("budget", Some(self.budget)),
            ("tokens", Some(self.window.cost)),
            ("thread_tokens", Some(self.total)),
            ("stable_since", self.window.stable_since),
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
        out.push_str(self.omissions);
        if let Some(why) = self.unpinned {
            out.push_str(",\"first_turn\":");
            push_string(&mut out, why);
        }
        if self.window.has_gap {
            out.push_str(",\"gap\":true");
        }
        out.push_str(",\"turns\":[");
        let skipped = self.turns.len().saturating_sub(TURNS);
        let mut newer = self
            .turns
            .iter()
            .skip(skipped)
            .fold((0, 0), |(cost, messages), turn| (cost + turn.cost(), messages + turn.messages()));
        for (index, turn) in self.turns.iter().enumerate().skip(skipped) {
            if index > skipped {
                out.push(',');
            }
            out.push_str("{\"turn\":");
            push_string(&mut out, turn.id);
            out.push_str(",\"position\":");
            push_number(&mut out, turn.first);
            out.push_str(",\"tokens\":");
            push_number(&mut out, turn.cost());
            out.push_str(",\"fate\":\"");
            out.push_str(self.fate(turn, newer));
            out.push_str("\"}");
            newer = (newer.0 - turn.cost(), newer.1 - turn.messages());
        }
        out.push_str("]}");
        out
    }

    /// `newer`: what it and all turns after it count for.
    fn fate(&self, turn: &Turn<'_, '_>, newer: (u64, u64)) -> &'static str {
        let is_shown = self.window.items.iter().any(|item| item.record.turn == turn.id);
        match () {
            () if is_shown && self.window.is_cut => "cut",
            () if is_shown => "kept",
            () if !turn.is_whole => "beginning not read",
            () if self.summary_to.is_some_and(|to| turn.last <= to) => "summarized",
            () if turn.records.is_empty() && turn.hidden.iter().all(|(_, record)| record.is_removed()) => "removed",
            () if turn.records.is_empty() => "empty",
            () if newer.0 > self.budget => "over budget",
            () if newer.1 > self.message_limit => "over message_limit",
            // It would fit, and comes no more, so that the window's beginning stays where it is.
            () => "cut back",
        }
    }
}
