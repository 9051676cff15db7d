//! What of a conversation is attached to a question: its window, its summary and the trace, as members of the metadata.
//!
//! Promises no more bytes than `max_window_bytes`: JSON can be longer than tokens tell, and then the window is made for
//! half of the tokens. Refuses what is too long even so.

use super::ask::Summary;
use super::options::{BUDGET_MIN, Form, Options};
use super::record::Record;
use super::thread::Branches;
use super::turns::{Turn, turns};
use super::window::{Item, Limits, Window, window};
use super::{render, tokens, trace};
use crate::reply;
use crate::store::LogRecords;

/// What it is made of.
pub(super) struct Source<'r, 'a> {
    /// Of the thread, which weighs so much.
    pub turns: &'r [Turn<'r, 'a>],
    pub total: u64,
    /// Whether the thread's first turn is among them.
    pub is_whole: bool,
    /// The open turn that the question goes on with.
    pub continued: Option<&'r str>,
    /// The turn that stands before the window.
    pub pinned: Option<Turn<'r, 'a>>,
    pub summary: Option<&'r Summary<'r>>,
    /// The question.
    pub query: &'r str,
    /// The trace is wanted, too.
    pub told: Option<Told<'r>>,
}

/// What only the trace tells.
pub(super) struct Told<'r> {
    pub budget: u64,
    pub unreadable: u64,
    /// Members of the trace: what was left out when it was stored.
    pub omissions: &'r str,
}

/// What is attached.
#[derive(Default)]
pub(super) struct Attached {
    /// Of a JSON object, without its braces.
    pub members: String,
    /// The positions that are shown, ascending, and the tokens that they come to.
    pub shown: Vec<u64>,
    pub tokens: u64,
}

impl Source<'_, '_> {
    /// None: it is too long.
    pub(super) fn attach(&self, options: &Options, budget: u64) -> Option<Attached> {
        let summary = self.summary.map_or(0, |summary| render::summary_weight(&summary.text));
        let mut limits = Limits {
            budget: budget - summary - self.pinned.as_ref().map_or(0, Turn::cost),
            keep: options.window_keep,
            messages: options.message_limit,
            results: options.tool_result_tokens,
            reach: self.summary.map(|summary| summary.to),
        };
        let most = usize::try_from(options.max_window_bytes).unwrap_or(usize::MAX);
        loop {
            let attached = self.within(options, &limits);
            if attached.members.len() <= most {
                return Some(attached);
            }
            if limits.budget <= BUDGET_MIN {
                return None;
            }
            limits.budget /= 2;
        }
    }

    fn within(&self, options: &Options, limits: &Limits) -> Attached {
        let mut window = window(self.turns, self.total, self.is_whole, limits, self.continued);
        if let Some(pinned) = self.pinned.as_ref().filter(|turn| is_before(turn, &window)) {
            pin(&mut window, pinned);
        }
        // About as many bytes as the tokens stand for.
        let mut members = String::with_capacity(tokens::bytes_of(window.cost) + 48 * window.items.len() + 64);
        if !window.items.is_empty() {
            members.push_str("\"memory_messages\":");
            match options.window_form {
                Form::Messages => render::push_messages(&mut members, &window.items),
                Form::Text => members.push_str(&render::quoted(&render::text(options, &window.items, self.query))),
            }
        }
        if let Some(summary) = self.summary {
            push_member(&mut members, "memory_summary", &render::summary(&summary.text));
        }
        if let Some(Told { budget, unreadable, omissions }) = self.told {
            let facts = trace::Facts {
                budget,
                message_limit: options.message_limit,
                total: self.total,
                summary_to: limits.reach,
                unreadable,
                omissions,
                turns: self.turns,
                window: &window,
            };
            push_member(&mut members, "memory_trace", &facts.write());
        }
        let shown = reply::sorted(window.items.iter().map(|item| item.position).collect());
        Attached { members, shown, tokens: window.cost }
    }
}

/// The thread's first turn, of its oldest records, if it was read whole and takes no more than a quarter of the budget.
pub(super) fn pinned<'r, 'a>(
    oldest: &'r [(u64, Record<'a>)],
    branches: &Branches,
    target: u64,
    budget: u64,
) -> Option<Turn<'r, 'a>> {
    let (at, first) = oldest.first()?;
    let is_first = first.begins && first.total.unwrap_or(0) == 0 && branches.hold(target, *at);
    let records: Vec<_> = oldest.iter().map(|(at, record)| (*at, record)).collect();
    let turn = turns(&records, 0).into_iter().find(|turn| turn.id == &*first.turn)?;
    (is_first && !turn.is_open && turn.cost() <= budget / 4).then_some(turn)
}

/// The records up to the first that can't be read.
pub(super) fn readable(run: &LogRecords) -> impl Iterator<Item = (u64, Record<'_>)> {
    (run.first..).zip(&run.records).map_while(|(at, text)| Some((at, Record::parse(text)?)))
}

fn is_before(turn: &Turn<'_, '_>, window: &Window<'_, '_>) -> bool {
    window.items.first().is_some_and(|item| turn.first() < item.position)
        && !window.items.iter().any(|item| item.record.turn == turn.id)
}

fn pin<'r, 'a>(window: &mut Window<'r, 'a>, turn: &Turn<'r, 'a>) {
    let item = |&(position, record)| Item { position, record, instead: None, is_bare: false };
    let mut items: Vec<Item<'r, 'a>> = turn.records.iter().map(item).collect();
    window.cost += items.iter().map(Item::cost).sum::<u64>();
    items.append(&mut window.items);
    window.items = items;
}

/// Append a member to others.
pub(super) fn push_member(out: &mut String, name: &str, json: &str) {
    if !out.is_empty() {
        out.push(',');
    }
    out.push('"');
    out.push_str(name);
    out.push_str("\":");
    out.push_str(json);
}
