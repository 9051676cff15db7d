//! Composes what a question gets of its conversation: window, summary and trace, as members of its metadata.
//!
//! Stays within `max_window_bytes`: where the JSON is longer than its tokens suggest, the window is made for half of the tokens. What
//! is too long even then is left out and reported, the summary first, then the trace.

use crate::contract::LogRun;
use crate::options::conversation::{BUDGET_MIN, Options};
use crate::store;
use crate::text::json_values::push_member;
use crate::text::tokens;
use crate::transcript::record::{Role, StoredRecord};
use crate::transcript::skip_counters::OmissionCounts;
use crate::transcript::summary::ThreadSummary;
use crate::transcript::thread::Branches;
use crate::transcript::turns::{Turn, group_into_turns};
use crate::window::select::{
    ContextWindow, Placeholders, WindowItem, WindowLimits, begin_with_user, cost_of, push_turn, select_window,
};
use crate::window::{render, trace};
use keepline_options::words::WindowForm;

/// Why the first turn does not stand before the window, where it would but for the newest one.
const NO_ROOM: &str = "no room beside the newest turn";

/// What it is made of.
pub(crate) struct WindowInput<'r, 'a> {
    /// Of the thread, which weighs so much.
    pub turns: &'r [Turn<'r, 'a>],
    pub total: u64,
    /// The newest record of the thread that is not a part of them, if there is one.
    pub older: Option<u64>,
    /// The open turn that the question goes on with.
    pub continued: Option<&'r str>,
    /// The turn that stands before the window.
    pub pinned: Option<Turn<'r, 'a>>,
    pub summary: Option<&'r ThreadSummary<'r>>,
    /// The question.
    pub query: &'r str,
    /// The trace is wanted, too.
    pub told: Option<TraceInput<'r>>,
}

/// What only the trace tells.
pub(crate) struct TraceInput<'r> {
    pub budget: u64,
    pub unreadable: u64,
    /// What was left out when it was stored.
    pub omissions: &'r OmissionCounts,
    /// Why the first turn does not stand before the window, though it is to.
    pub unpinned: Option<&'r str>,
}

/// What is attached.
#[derive(Default)]
pub(crate) struct ComposedWindow {
    /// Of a JSON object, without its braces.
    pub members: String,
    /// The positions that are shown, ascending, and the tokens that they come to.
    pub shown: Vec<u64>,
    pub tokens: u64,
}

impl WindowInput<'_, '_> {
    /// What fits, and what was left out for it: a summary or a trace that alone takes up most of the bytes.
    pub(crate) fn compose_fitting(mut self, options: &Options, budget: u64) -> (ComposedWindow, Vec<&'static str>) {
        let mut left_out = Vec::new();
        let most = usize::try_from(options.max_window_bytes).unwrap_or(usize::MAX);
        if self.summary.is_some_and(|summary| render::render_summary(&summary.text).len() > most / 2) {
            self.summary = None;
            left_out.push("summary");
        }
        if let Some(attached) = self.attach_whole(options, budget) {
            return (attached, left_out);
        }
        if self.told.take().is_some() {
            left_out.push("trace");
            if let Some(attached) = self.attach_whole(options, budget) {
                return (attached, left_out);
            }
        }
        left_out.push("conversation");
        (ComposedWindow::default(), left_out)
    }

    /// None: it is too long.
    fn attach_whole(&self, options: &Options, budget: u64) -> Option<ComposedWindow> {
        let summary = self.summary.map_or(0, |summary| render::summary_weight(&summary.text));
        let room = budget - summary;
        let newest = self.turns.last().map_or(0, Turn::cost);
        // The newest turn is not cut for the first one's sake.
        let has_room = |first: &&Turn<'_, '_>| newest > room || newest + first.cost() <= room;
        let pinned = self.pinned.as_ref().filter(has_room);
        let mut limits = WindowLimits {
            budget: room - pinned.map_or(0, Turn::cost),
            keep: options.window_keep,
            messages: options.message_limit,
            results: options.tool_result_tokens,
            reach: self.summary.map(|summary| summary.to),
            pinned: pinned.map(|turn| turn.last),
        };
        let most = usize::try_from(options.max_window_bytes).unwrap_or(usize::MAX);
        loop {
            let attached = self.within(options, &limits, pinned);
            if attached.members.len() <= most {
                return Some(attached);
            }
            if limits.budget <= BUDGET_MIN {
                return None;
            }
            limits.budget /= 2;
        }
    }

    fn within(&self, options: &Options, limits: &WindowLimits, pinned: Option<&Turn<'_, '_>>) -> ComposedWindow {
        let mut window = select_window(self.turns, self.total, self.older, limits, self.continued);
        if let Some(pinned) = pinned.filter(|turn| is_before(turn, &window)) {
            pin(&mut window, pinned);
        }
        // About as many bytes as the tokens stand for.
        let mut members = String::with_capacity(tokens::max_bytes_for(window.cost) + 48 * window.items.len() + 64);
        if !window.items.is_empty() {
            members.push_str("\"memory_messages\":");
            match options.window_form {
                WindowForm::Messages => render::push_messages(&mut members, &window.items),
                WindowForm::Text => members.push_str(&render::to_json_string(&render::render_as_text(
                    options,
                    &window.items,
                    self.query,
                ))),
            }
        }
        if let Some(summary) = self.summary {
            push_member(&mut members, "memory_summary", &render::render_summary(&summary.text));
        }
        if let Some(TraceInput { budget, unreadable, omissions, unpinned }) = self.told {
            let facts = trace::WindowTrace {
                budget,
                message_limit: options.message_limit,
                total: self.total,
                summary_to: limits.reach,
                unreadable,
                omissions,
                unpinned: unpinned.or((self.pinned.is_some() && pinned.is_none()).then_some(NO_ROOM)),
                turns: self.turns,
                window: &window,
            };
            push_member(&mut members, "memory_trace", &facts.write());
        }
        let shown =
            store::heap_sorted(window.items.iter().filter(|item| !item.is_made).map(|item| item.position).collect());
        ComposedWindow { members, shown, tokens: window.cost }
    }
}

/// The oldest records of a transcript.
pub(crate) struct OldestRecords<'a> {
    /// Up to the first that can't be read.
    records: Vec<(u64, StoredRecord<'a>)>,
    /// Whether there are no others.
    is_all: bool,
}

impl<'a> OldestRecords<'a> {
    pub(crate) fn of(run: &'a LogRun) -> Self {
        Self { records: parse_readable(run).collect(), is_all: run.records.len() as u64 == run.extent.length }
    }
}

/// The first turn of a thread, of the transcript's oldest records.
pub(crate) enum FirstTurn<'r, 'a> {
    /// There is none, or retention took it.
    None,
    Whole(Turn<'r, 'a>),
    /// So much of it was read that it is too long to stand before the window.
    Long,
    /// It waits for a tool's result, or went on where it was not read.
    Open,
    /// More of the transcript is to be read.
    Cut,
}

impl<'r, 'a> FirstTurn<'r, 'a> {
    /// Of the thread that ends at `target`; no more than a quarter of the budget goes to it. `turns`: those that the window is
    /// made of.
    pub(crate) fn from_oldest(
        oldest: &'r OldestRecords<'a>,
        branches: &Branches,
        target: u64,
        turns: &[Turn<'r, 'a>],
        budget: u64,
    ) -> Self {
        let line: Vec<_> = oldest.records.iter().filter(|(at, _)| branches.is_on_thread(target, *at)).collect();
        let first = line.first().filter(|(_, first)| first.begins && first.total.unwrap_or(0) == 0);
        let Some((_, first)) = first else { return Self::None };
        let own: Vec<_> =
            line.iter().filter(|(_, it)| it.turn == first.turn).map(|(at, record)| (*at, record)).collect();
        let ends = oldest.is_all || line.last().is_some_and(|(at, last)| *at == target || last.turn != first.turn);
        let turn = match turns.iter().find(|turn| turn.id == &*first.turn) {
            Some(known) if known.is_whole => known.clone(),
            // It went on after others.
            Some(known) => known.with_earlier(&own),
            None => return Self::read(&own, ends, budget),
        };
        if turn.cost() > budget / 4 { Self::Long } else { Self::Whole(turn) }
    }

    /// Why it does not stand before the window.
    pub(crate) fn unpinned(&self) -> Option<&'static str> {
        match self {
            Self::Long | Self::Cut => Some("over a quarter of the budget"),
            Self::Open => Some("without a result of a tool"),
            Self::None | Self::Whole(_) => None,
        }
    }

    fn read(own: &[(u64, &'r StoredRecord<'a>)], ends: bool, budget: u64) -> Self {
        let Some(turn) = group_into_turns(own, 0).into_iter().next() else { return Self::None };
        match turn.cost() > budget / 4 {
            true => Self::Long,
            false if ends && turn.is_open() => Self::Open,
            false if ends => Self::Whole(turn),
            false => Self::Cut,
        }
    }
}

/// The records up to the first that can't be read.
pub(crate) fn parse_readable(run: &LogRun) -> impl Iterator<Item = (u64, StoredRecord<'_>)> {
    (run.first..).zip(&run.records).map_while(|(at, text)| Some((at, StoredRecord::parse(text)?)))
}

fn is_before(turn: &Turn<'_, '_>, window: &ContextWindow<'_, '_>) -> bool {
    !turn.records.is_empty()
        && window.items.first().is_some_and(|item| turn.first < item.position)
        && !window.items.iter().any(|item| item.record.turn == turn.id)
}

fn pin<'r, 'a>(window: &mut ContextWindow<'r, 'a>, turn: &Turn<'r, 'a>) {
    let mut items: Vec<WindowItem<'r, 'a>> = Vec::new();
    push_turn(&mut items, turn, false, &Placeholders::default());
    begin_with_user(&mut items);
    // What stands for the beginning of a window stands there no more.
    let is_kept = |item: &WindowItem<'_, '_>| !(item.is_made && item.role == Role::User);
    items.extend(std::mem::take(&mut window.items).into_iter().filter(is_kept));
    window.cost = cost_of(&items);
    window.items = items;
}
