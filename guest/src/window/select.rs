//! The window: which turns a question gets.
//!
//! Promises what APIs for chat completions take, whatever was stored: it begins with a user's message, each call has one
//! result, directly after its message, under an id that the message has once, and no message is empty. A call that has no
//! result gets one that says so, unless the question comes with it.
//!
//! Promises whole turns within the budget, at least the newest, and a beginning that stays where it is while the
//! conversation grows by a step. The beginning follows from the records alone: with the budget `B` and the step `S` (what
//! is not kept when a full window is cut back), a thread that weighs `T > B` before the question is in epoch
//! `e = ⌈(T − B) / S⌉`, and its window begins with the first turn that begins at `e·S` or later. So every process comes
//! to the same beginning, without a pointer that moves. What else changes old messages (results that become
//! placeholders) depends on the epoch too, and on records older than its beginning. Refuses to look at what a turn says.
//!
//! The budget by weights decides; what the host has counted, and the number of messages, are checked afterwards, and take
//! further steps if need be: smaller ones, where otherwise less would be left than is kept when a window is cut back, as it
//! would where a long turn begins just before a step. So does a beginning that lies before what was read. After a summary the window begins where that ends, as long as it fits.

use keepline_json as json;
use std::borrow::Cow;

use crate::store;
use crate::text::{tokens, truncate};
use crate::transcript::record::{RecordKind, Role, StoredRecord};
use crate::transcript::turns::{MISSING_RESULT, MISSING_USER_MESSAGE, Turn};

/// What stands for a result that is too old to be shown.
const CLEARED: &str = "[Old result of this tool removed]";

/// What stands for the contents of a file that were read again later.
const READ_AGAIN: &str = "[This file is read again below]";

/// What stands for a message of which nothing fits.
const NO_ROOM: &str = "…";

/// What stands for one that has files alone, where there is no room for them.
const NO_FILES: &str = "[file]";

/// The names of the argument that says which file is read.
const PATHS: [&str; 5] = ["path", "file_path", "filepath", "file", "filename"];

/// What decides.
#[derive(Clone, Copy, Debug)]
pub struct WindowLimits {
    /// Tokens of all messages together, at most.
    pub budget: u64,
    /// Percent of it that stay when a full window is cut back.
    pub keep: u64,
    /// Messages of users and assistants, at most.
    pub messages: u64,
    /// The newest results of so many tokens are shown whole.
    pub results: u64,
    /// The summary reaches to this position.
    pub reach: Option<u64>,
    /// The last position of the turn that stands before the window.
    pub pinned: Option<u64>,
}

/// A message as it is shown.
#[derive(Clone, Debug)]
pub struct WindowItem<'r, 'a> {
    /// Its place in the log.
    pub position: u64,
    /// As it is stored.
    pub record: &'r StoredRecord<'a>,
    /// Who speaks.
    pub role: Role,
    /// What it is.
    pub kind: RecordKind,
    /// The id of its call, where another call of the message has the one that is stored.
    pub call_id: Option<String>,
    /// What is shown instead of its content.
    pub instead: Option<Cow<'r, str>>,
    /// Without its files.
    pub is_bare: bool,
    /// Nothing of the record is shown: it stands for what was not stored.
    pub is_made: bool,
}

impl<'r, 'a> WindowItem<'r, 'a> {
    fn of((position, record): (u64, &'r StoredRecord<'a>)) -> Self {
        let role = match record.kind {
            RecordKind::ToolCall => Role::Assistant,
            RecordKind::ToolResult => Role::Tool,
            RecordKind::Message | RecordKind::Instruction | RecordKind::Other => record.role,
        };
        let (call_id, instead, is_bare, is_made) = (None, None, false, false);
        Self { position, record, role, kind: record.kind, call_id, instead, is_bare, is_made }
    }

    /// What stands for something that was not stored, beside a record.
    fn made(record: (u64, &'r StoredRecord<'a>), role: Role, kind: RecordKind, text: &'static str) -> Self {
        Self { role, kind, instead: Some(text.into()), is_bare: true, is_made: true, ..Self::of(record) }
    }

    /// The id of its call, as it is shown.
    pub fn call_id(&self) -> &str {
        let stored = || self.record.tool.as_ref().map_or("", |tool| &*tool.call_id);
        self.call_id.as_deref().unwrap_or_else(stored)
    }

    /// The text that is shown.
    pub fn text(&self) -> &str {
        self.instead.as_deref().unwrap_or(&self.record.content)
    }

    /// Its tokens as it is shown.
    pub fn cost(&self) -> u64 {
        if self.is_bare {
            tokens::MESSAGE_TOKENS + tokens::estimate_tokens(self.text())
        } else {
            cost_with(self.record, self.instead.as_deref())
        }
    }
}

/// A record's tokens. By the same formula, with another text: what is left when its own is taken away, and the other.
fn cost_with(record: &StoredRecord<'_>, instead: Option<&str>) -> u64 {
    match instead {
        Some(text) => record.frame() + tokens::estimate_tokens(text),
        None => record.cost(),
    }
}

/// What a question gets.
#[derive(Debug, Default)]
pub struct ContextWindow<'r, 'a> {
    /// Oldest first.
    pub items: Vec<WindowItem<'r, 'a>>,
    /// The first turn that is shown, as an index; the number of turns if none is.
    pub start: usize,
    /// What the thread weighed when the window's beginning was decided; from then on its prefix is stable. None: more was
    /// left out than the budget by weights asks for, and since when is not known.
    pub stable_since: Option<u64>,
    /// Results that became placeholders.
    pub cleared: u64,
    /// Whether the newest turn had to be cut.
    pub is_cut: bool,
    /// Whether there are turns that neither the summary nor the window holds.
    pub has_gap: bool,
    /// Their tokens.
    pub cost: u64,
}

/// The window over the turns of a thread that weighs `total`. `older`: the newest of its records that was not read, if
/// there is one. `continued`: the turn that the question goes on with, and brings the results of.
pub fn select_window<'r, 'a>(
    turns: &'r [Turn<'r, 'a>],
    total: u64,
    older: Option<u64>,
    limits: &WindowLimits,
    continued: Option<&str>,
) -> ContextWindow<'r, 'a> {
    // Of what retention has taken the beginning of, the rest is all there is. So it is of turns too long to be read.
    let is_any_whole = turns.iter().any(|turn| turn.is_whole && !turn.records.is_empty());
    let is_whole = older.is_none() || !is_any_whole;
    let is_shown = |turn: &Turn<'_, '_>| (turn.is_whole || is_whole) && !turn.records.is_empty();
    let is_empty = |turn: &Turn<'_, '_>| turn.is_whole && turn.records.is_empty();
    // What the summary does not tell.
    let is_untold = |turn: &Turn<'_, '_>| limits.reach.is_none_or(|reach| turn.last > reach);
    let is_lost = |turn: &Turn<'_, '_>| is_untold(turn) && limits.pinned != Some(turn.last);
    let has_older = older.is_some_and(|older| [limits.reach, limits.pinned].iter().flatten().all(|to| *to < older));
    let has_gap = |start: usize| {
        let lacks = |(index, turn): (usize, &Turn<'_, '_>)| {
            !is_empty(turn) && is_lost(turn) && (index < start || !is_shown(turn))
        };
        has_older || turns.iter().enumerate().any(lacks)
    };
    let Some(newest) = turns.iter().rposition(is_shown) else {
        return ContextWindow { start: turns.len(), has_gap: has_gap(turns.len()), ..ContextWindow::default() };
    };
    let epoch = WindowEpoch::of(total, limits);
    let placeholders = placeholders(turns, &epoch, limits);
    let begins_at = |index: usize| turns.get(index).map_or(u64::MAX, |turn| turn.begin);
    let start_of =
        |bound: u64| turns.iter().position(|turn| turn.begin >= bound).map_or(newest, |start| start.min(newest));

    // Where the epoch's window begins, and the first turn that was read whole.
    let bound = extended(turns, &placeholders, &epoch, limits).saturating_mul(epoch.step);
    let known =
        if is_whole { 0 } else { turns.iter().position(|turn| turn.is_whole).map_or(newest, |at| at.min(newest)) };
    let after_summary = limits.reach.map_or(0, |_| turns.iter().position(is_untold).unwrap_or(turns.len()).min(newest));
    let shown = shown_from_each(turns.get(..=newest).unwrap_or_default(), &placeholders, is_shown);
    let shown_from = |start: usize| shown.get(start.max(after_summary)).copied().unwrap_or_default();
    let fits = |start| {
        let (cost, messages) = shown_from(start);
        cost <= limits.budget && messages <= limits.messages
    };
    // What is kept when it is cut back: of what there may be, if less was read.
    let (most, most_messages) = shown_from(known);
    let (most, most_messages) = (most.min(limits.budget), most_messages.min(limits.messages));
    let fills = |start| {
        let (cost, messages) = shown_from(start);
        cost * 100 >= most * limits.keep || messages * 100 >= most_messages * limits.keep
    };
    // The same of a beginning that follows from weights: unless a long turn before it is left out.
    let keeps = |start| {
        (total.saturating_sub(begins_at(start)) + spare(limits)) * 100 >= limits.budget.min(total) * limits.keep
    };

    let begin = start_of(bound);
    // Where less was read than the epoch's window, it begins at a step as well.
    let is_short = !is_whole && begins_at(known) > bound;
    let over = total.saturating_sub(limits.budget);
    let begin_in = |step: u64| match is_short {
        true => start_of(begins_at(known).div_ceil(step).saturating_mul(step)),
        false if step == epoch.step => begin,
        false => start_of(over.div_ceil(step).saturating_mul(step)).clamp(known, begin.max(known)),
    };
    let (mut by_budget, mut step) = (begin_in(epoch.step), epoch.step);
    loop {
        let from = by_budget;
        // To the step at which the next turn goes.
        while !fits(by_budget) && by_budget < newest {
            by_budget = start_of((begins_at(by_budget) + 1).div_ceil(step).saturating_mul(step)).max(by_budget + 1);
        }
        // Where too little would be left, steps are smaller.
        let is_enough = if by_budget == from && !is_short { keeps(by_budget) } else { fills(by_budget) };
        if is_enough || step == 1 {
            break;
        }
        step /= 2;
        by_budget = begin_in(step);
    }
    // What a summary does not tell stays as long as there is room for it.
    let (start, is_stable) = match limits.reach {
        Some(_) if after_summary >= known && fits(after_summary) => (after_summary, true),
        _ => (by_budget.max(after_summary), !is_short && by_budget == begin),
    };
    // Retention may have taken what it began with, and nobody knows when a summary was made, or stopped to fit.
    let is_cut_short =
        (is_whole && start == 0 && begins_at(0) > 0) || turns.iter().skip(start).any(|turn| !turn.is_whole);
    let is_known = is_stable && limits.reach.is_none() && !is_cut_short;
    let stable_since = is_known.then(|| stable_since(turns, start, &epoch, limits));
    let mut window = ContextWindow { start, stable_since, ..ContextWindow::default() };
    let shown = turns.get(start..=newest).unwrap_or_default().iter().filter(|turn| is_shown(turn));
    window.items = Vec::with_capacity(shown.clone().map(|turn| turn.records.len() + turn.missing.len()).sum());
    shown.for_each(|turn| push_turn(&mut window.items, turn, continued == Some(turn.id), &placeholders));
    begin_with_user(&mut window.items);
    window.cost = cost_of(&window.items);
    if window.cost > limits.budget {
        cut(&mut window.items, limits.budget);
        window.cost = cost_of(&window.items);
        window.is_cut = true;
    }
    window.has_gap = has_gap(start) || window.items.is_empty();
    let is_placeholder = |item: &&WindowItem<'_, '_>| !item.is_made && placeholders.get(item.position).is_some();
    window.cleared = window.items.iter().filter(is_placeholder).count() as u64;
    window
}

/// What is shown from each turn on: tokens and messages.
fn shown_from_each<'r, 'a>(
    turns: &'r [Turn<'r, 'a>],
    placeholders: &Placeholders,
    is_shown: impl Fn(&Turn<'r, 'a>) -> bool,
) -> Vec<(u64, u64)> {
    let mut shown = vec![(0, 0); turns.len()];
    let (mut cost, mut messages) = (0, 0);
    for (turn, from_here) in turns.iter().zip(&mut shown).rev() {
        if is_shown(turn) {
            cost += placeholders.cost(turn);
            messages += turn.messages();
        }
        *from_here = (cost, messages);
    }
    shown
}

/// What of the budget is not kept by a window over long turns.
fn spare(limits: &WindowLimits) -> u64 {
    limits.budget / 10
}

/// What the thread weighed when the window got the beginning that it has in an epoch: the turn that it begins with may have
/// come later, and so may one that went on after others.
fn stable_since(turns: &[Turn<'_, '_>], start: usize, epoch: &WindowEpoch, limits: &WindowLimits) -> u64 {
    // Before that, too little would have been left.
    let enough = (limits.budget * limits.keep).div_ceil(100).saturating_sub(spare(limits));
    let kept_from = turns.get(start).map_or(u64::MAX, |turn| turn.begin).saturating_add(enough);
    // An epoch begins when the thread weighs more than the one before it holds.
    let mut since = if epoch.number > 0 { kept_from.max(epoch.full_at + 1) } else { 0 };
    let mut newest = 0;
    for (index, turn) in turns.iter().enumerate() {
        if index == start || (index > start && turn.first < newest) {
            since = since.max(turn.begin.saturating_add(u64::from(turn.begin > 0)));
        }
        newest = newest.max(turn.last);
    }
    since
}

/// A stretch of the conversation in which the window's beginning stays.
struct WindowEpoch {
    number: u64,
    step: u64,
    /// What the thread weighed at its beginning. Older records are what the epoch knows.
    full_at: u64,
}

impl WindowEpoch {
    fn of(total: u64, limits: &WindowLimits) -> Self {
        let step = (limits.budget * (100 - limits.keep.min(99)) / 100).max(1);
        let number = total.saturating_sub(limits.budget).div_ceil(step);
        let full_at = if number == 0 { 0 } else { limits.budget + (number - 1) * step };
        Self { number, step, full_at }
    }
}

/// What stands for results that are not shown, by position.
#[derive(Default)]
pub(crate) struct Placeholders(Vec<(u64, &'static str)>);

impl Placeholders {
    fn get(&self, position: u64) -> Option<&'static str> {
        self.0.iter().find(|(at, _)| *at == position).map(|(_, text)| *text)
    }

    /// What a turn counts for with them.
    fn cost(&self, turn: &Turn<'_, '_>) -> u64 {
        let cost = |(position, record): &(u64, &StoredRecord<'_>)| cost_with(record, self.get(*position));
        turn.records.iter().map(cost).sum::<u64>() + turn.made_cost()
    }
}

/// The results that are not shown, and what stands for them: those that read a file which is read again,
/// and those beyond the newest ones. In the first epoch there are none.
fn placeholders(turns: &[Turn<'_, '_>], epoch: &WindowEpoch, limits: &WindowLimits) -> Placeholders {
    let mut found = Placeholders::default();
    if epoch.number == 0 {
        return found;
    }
    let mut read: Vec<(&str, Cow<'_, str>)> = Vec::new();
    let mut weight = 0;
    for turn in turns.iter().rev().filter(|turn| turn.begin < epoch.full_at) {
        for (index, (position, record)) in turn.records.iter().enumerate().rev() {
            if record.kind != RecordKind::ToolResult {
                continue;
            }
            let file = call_of(turn, index).and_then(|call| Some((&*call.tool.as_ref()?.name, path(call)?)));
            let is_read_again = file.as_ref().is_some_and(|file| read.contains(file));
            read.extend(file.filter(|_| !is_read_again));
            let stand_in = if is_read_again { READ_AGAIN } else { CLEARED };
            if !is_read_again {
                weight += record.weight;
            }
            if (is_read_again || weight > limits.results) && stand_in.len() < record.body().len() {
                found.0.push((*position, stand_in));
            }
        }
    }
    found
}

/// The call that a turn's record is the result of.
fn call_of<'r, 'a>(turn: &Turn<'r, 'a>, result: usize) -> Option<&'r StoredRecord<'a>> {
    let (_, record) = turn.records.get(result)?;
    let before = turn.records.get(..result)?;
    let of = |kind| move |other: &&StoredRecord<'_>| other.kind == kind && has_call_id(other, record);
    let number = before.iter().map(|(_, other)| *other).filter(of(RecordKind::ToolResult)).count();
    turn.records.iter().map(|(_, other)| *other).filter(of(RecordKind::ToolCall)).nth(number)
}

/// The file that a call reads, if its arguments name one.
fn path<'r>(call: &'r StoredRecord<'_>) -> Option<Cow<'r, str>> {
    let mut path = None;
    json::for_each_member(call.tool.as_ref()?.arguments.as_deref()?, |key, raw| {
        if PATHS.iter().any(|name| json::key_matches(key, name)) {
            path = json::decode_string(raw);
        }
    })?;
    path
}

/// The step at which the window begins: the epoch's, or an earlier one if placeholders make room for it.
fn extended(turns: &[Turn<'_, '_>], placeholders: &Placeholders, epoch: &WindowEpoch, limits: &WindowLimits) -> u64 {
    if placeholders.0.is_empty() {
        return epoch.number;
    }
    let shown = |turn: &Turn<'_, '_>| -> u64 {
        let weight = |(position, record): &(u64, &StoredRecord<'_>)| {
            placeholders.get(*position).map_or(record.weight, |text| cost_with(record, Some(text)))
        };
        turn.records.iter().map(weight).sum()
    };
    let mut number = epoch.number;
    let mut old = turns.iter().rev().skip_while(|turn| turn.begin >= epoch.full_at).peekable();
    let mut weight = epoch.step;
    loop {
        let bound = number * epoch.step;
        while let Some(turn) = old.next_if(|turn| turn.begin >= bound) {
            weight += shown(turn);
        }
        if number < epoch.number && weight > limits.budget {
            return number + 1;
        }
        if number == 0 {
            return 0;
        }
        number -= 1;
    }
}

/// Append what is shown of a turn. Of one that the question goes on with, the last calls wait for their results.
pub(crate) fn push_turn<'r, 'a>(
    out: &mut Vec<WindowItem<'r, 'a>>,
    turn: &Turn<'r, 'a>,
    is_continued: bool,
    placeholders: &Placeholders,
) {
    let mut rest = &*turn.records;
    while let Some((&first, after)) = rest.split_first() {
        let count = |rest: &[(u64, &StoredRecord<'_>)], kind| rest.iter().take_while(|(_, it)| it.kind == kind).count();
        let calls = count(rest, RecordKind::ToolCall);
        if calls == 0 {
            let instead = placeholders.get(first.0).map(Cow::Borrowed);
            out.push(WindowItem { instead, ..WindowItem::of(first) });
            rest = after;
            continue;
        }
        let (calls, after) = rest.split_at_checked(calls).unwrap_or_default();
        let (results, after) = after.split_at_checked(count(after, RecordKind::ToolResult)).unwrap_or_default();
        let waits = is_continued && after.is_empty();
        let begin = out.len();
        out.extend(calls.iter().copied().map(WindowItem::of));
        let ids = distinct_ids(calls);
        for (item, id) in out.iter_mut().skip(begin).zip(&ids) {
            item.call_id.clone_from(id);
        }
        let mut used = vec![false; ids.len()];
        for &result in results {
            // Results are of calls of one id in the order of these.
            let is_of = |(index, (_, call)): (usize, &(u64, &StoredRecord<'_>))| {
                !used.get(index).is_none_or(|used| *used) && has_call_id(call, result.1)
            };
            let of = if ids.is_empty() { None } else { (0..).zip(calls).position(is_of) };
            if let Some(used) = of.and_then(|index| used.get_mut(index)) {
                *used = true;
            }
            let call_id = of.and_then(|index| ids.get(index)).cloned().flatten();
            let instead = placeholders.get(result.0).map(Cow::Borrowed);
            out.push(WindowItem { call_id, instead, ..WindowItem::of(result) });
        }
        let is_missing = |call: &&(u64, &StoredRecord<'_>)| turn.missing.binary_search(&call.0).is_ok();
        for (index, &call) in calls.iter().enumerate().filter(|(_, call)| !waits && is_missing(call)) {
            let call_id = ids.get(index).cloned().flatten();
            out.push(WindowItem {
                call_id,
                ..WindowItem::made(call, Role::Tool, RecordKind::ToolResult, MISSING_RESULT)
            });
        }
        rest = after;
    }
}

fn has_call_id(one: &StoredRecord<'_>, other: &StoredRecord<'_>) -> bool {
    one.tool.as_ref().map(|tool| &*tool.call_id) == other.tool.as_ref().map(|tool| &*tool.call_id)
}

/// For each call of a message another id, if one before has its own; empty: all are distinct.
fn distinct_ids(calls: &[(u64, &StoredRecord<'_>)]) -> Vec<Option<String>> {
    let id_of = |record: &StoredRecord<'_>| record.tool.as_ref().map_or(String::new(), |tool| tool.call_id.to_string());
    if calls.len() < 2 {
        return Vec::new();
    }
    let sorted = store::heap_sorted(calls.iter().filter_map(|(_, call)| Some(&*call.tool.as_ref()?.call_id)).collect());
    if sorted.is_sorted_by(|one, other| one < other) {
        return Vec::new();
    }
    let mut taken: Vec<String> = sorted.iter().map(|id| (*id).to_owned()).collect();
    let mut seen: Vec<(String, u64)> = Vec::new();
    calls
        .iter()
        .map(|(_, call)| {
            let id = id_of(call);
            let at = seen.partition_point(|(other, _)| *other < id);
            let Some((_, number)) = seen.get_mut(at).filter(|(other, _)| *other == id) else {
                seen.insert(at, (id, 1));
                return None;
            };
            loop {
                *number += 1;
                let new = [&*id, "-", &*number.to_string()].concat();
                if let Err(at) = taken.binary_search(&new) {
                    taken.insert(at, new.clone());
                    return Some(new);
                }
            }
        })
        .collect()
}

/// Put a user's message before what does not begin with one, instructions aside.
pub(crate) fn begin_with_user(items: &mut Vec<WindowItem<'_, '_>>) {
    let said = items.iter().position(|item| item.kind != RecordKind::Instruction);
    let first = said.and_then(|at| Some((at, items.get(at)?)));
    if let Some((at, first)) = first.filter(|(_, first)| first.role != Role::User) {
        let unasked =
            WindowItem::made((first.position, first.record), Role::User, RecordKind::Message, MISSING_USER_MESSAGE);
        items.insert(at, unasked);
    }
}

/// Make one turn fit: first its results are cut, then its texts; tools that still leave no room go, and so do files.
fn cut(items: &mut Vec<WindowItem<'_, '_>>, budget: u64) {
    shorten(items, budget, RecordKind::ToolResult);
    if cost_of(items) > budget {
        items.retain(|item| item.kind == RecordKind::Message && (item.is_made || item.record.has_content()));
        // Steps in between said what they were about to do.
        let last = items.len().saturating_sub(1);
        let mut index = 0;
        items.retain(|_| {
            index += 1;
            index == 1 || index == last + 1
        });
        for item in items.iter_mut() {
            item.is_bare = true;
            if item.text().trim().is_empty() {
                item.instead = Some(NO_FILES.into());
            }
        }
        begin_with_user(items);
        shorten(items, budget, RecordKind::Message);
        // Of a few letters there may be none that show anything.
        for item in items.iter_mut().filter(|item| item.text().trim().is_empty()) {
            item.instead = Some(NO_ROOM.into());
        }
    }
}

pub(crate) fn cost_of(items: &[WindowItem<'_, '_>]) -> u64 {
    items.iter().map(WindowItem::cost).sum()
}

/// Cut the longest texts of a kind to the same length, so that all items together fit.
fn shorten(items: &mut [WindowItem<'_, '_>], budget: u64, kind: RecordKind) {
    let whole = cost_of(items);
    if whole <= budget {
        return;
    }
    let texts: Vec<usize> = items.iter().filter(|item| item.kind == kind).map(|item| item.text().len()).collect();
    let fixed: u64 = items
        .iter()
        .map(|item| match item.kind == kind {
            true if item.is_bare => tokens::MESSAGE_TOKENS,
            true => cost_with(item.record, Some("")),
            false => item.cost(),
        })
        .sum();
    let room = budget.saturating_sub(fixed);
    let needed =
        |most: usize| -> u64 { texts.iter().map(|length| tokens::estimate_for_bytes(*length.min(&most))).sum() };
    let (mut least, mut most) = (0, texts.iter().copied().max().unwrap_or(0));
    while least < most {
        let middle = least + (most - least).div_ceil(2);
        if needed(middle) <= room {
            least = middle;
        } else {
            most = middle - 1;
        }
    }
    for item in items.iter_mut().filter(|item| item.kind == kind) {
        let text = item.text();
        // One whose text is as long as before counts by the formula, too, and no more by the host's tokens.
        item.instead = Some(if text.len() <= least {
            Cow::Owned(text.to_owned())
        } else if kind == RecordKind::ToolResult && least >= 256 {
            truncate::head_and_tail(text, least, usize::MAX).into()
        } else {
            truncate::head_within(text, least, usize::MAX).to_owned().into()
        });
    }
}
