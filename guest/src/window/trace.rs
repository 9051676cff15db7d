//! `memory_trace`: what a question got, what it did not get, and why.

use keepline_json::ObjectWriter;

use crate::text::json_values::array;
use crate::text::tokens::FORMULA;
use crate::transcript::skip_counters::{OmissionCounts, write_counts};
use crate::transcript::turns::Turn;
use crate::window::select::ContextWindow;

/// How many turns the trace lists, counted from the newest.
const TURNS: usize = 64;

/// What the trace reports.
pub(crate) struct WindowTrace<'f, 'r, 'a> {
    pub budget: u64,
    pub message_limit: u64,
    pub total: u64,
    pub summary_to: Option<u64>,
    pub unreadable: u64,
    pub omissions: &'f OmissionCounts,
    /// Why the first turn does not stand before the window, though it is to.
    pub unpinned: Option<&'f str>,
    pub turns: &'f [Turn<'r, 'a>],
    pub window: &'f ContextWindow<'r, 'a>,
}

impl WindowTrace<'_, '_, '_> {
    /// As a JSON object.
    pub(crate) fn write(&self) -> String {
        let mut out = ObjectWriter::with_capacity(512);
        out.text("estimate", Some(FORMULA));
        out.count("budget", Some(self.budget));
        out.count("tokens", Some(self.window.cost));
        out.count("thread_tokens", Some(self.total));
        out.count("stable_since", self.window.stable_since);
        out.count("start", self.window.items.first().map(|item| item.position));
        out.count("summary_to", self.summary_to);
        out.count("cleared_results", Some(self.window.cleared));
        out.count("unreadable", Some(self.unreadable));
        write_counts(self.omissions, &mut out);
        out.text("first_turn", self.unpinned);
        out.json("gap", self.window.has_gap.then_some("true"));
        out.json("turns", Some(&self.turns()));
        out.finish()
    }

    /// What became of the newest turns, as a JSON array.
    fn turns(&self) -> String {
        let skipped = self.turns.len().saturating_sub(TURNS);
        let shown = self.turns.get(skipped..).unwrap_or_default();
        let mut newer =
            shown.iter().fold((0, 0), |(cost, messages), turn| (cost + turn.cost(), messages + turn.messages()));
        let mut told = Vec::with_capacity(shown.len());
        for turn in shown {
            let mut out = ObjectWriter::with_capacity(96);
            out.text("turn", Some(turn.id));
            out.count("position", Some(turn.first));
            out.count("tokens", Some(turn.cost()));
            out.text("fate", Some(self.fate(turn, newer)));
            told.push(out.finish());
            newer = (newer.0 - turn.cost(), newer.1 - turn.messages());
        }
        array(&told)
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
