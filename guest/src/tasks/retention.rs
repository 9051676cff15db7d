//! Removes the oldest turns of a conversation that is over its limits.
//!
//! Promises:
//! - About a tenth of the limit is freed at once, and at most twice that, so that the task is seldom due.
//! - Whole lines go where that is possible, a line being a turn with one of its answers. Of a turn that went on after many
//!   others the beginning may go without the end.
//! - The newest turn, and a turn that waits for a tool, stay with everything after their beginning, until a limit is exceeded
//!   twofold.
//! - What belongs to a removed record goes with it: ids, whole results, branches. The summary stays.
//! - Positions are not used again: what still names a removed one finds nothing, never something else.
//!
//! The first step removes nothing. It finds out whether there is anything to remove, so that hosts make copies only then; what is
//! stored after that step stays. If others change the conversation in between, the task ends without effect.

use crate::contract::{Entry, Expectation, Host, LogEnd, LogRun, Operation};
use crate::options::conversation::Options;
use crate::store;
use crate::tasks::checkpoint::expect_session_entry;
use crate::tasks::job::{Progress, Step};
use crate::tasks::task::{StepResult, TaskStep};
use crate::text::json_values::parse_count;
use crate::transcript::record::StoredRecord;
use crate::transcript::schema::{BRANCHES, BYTES, MESSAGES, RESULTS, REVISION, SESSION, TRANSCRIPT};
use crate::transcript::thread::Branches;
use crate::transcript::turn_id::fallback_message_key;
use crate::transcript::turns::group_into_turns;

/// The task, and its lease.
pub(crate) const TASK: &str = "retention";

/// What one step reads of the oldest records.
const READ_RECORDS: u64 = 1024;

const READ_BYTES: u64 = 4 << 20;

/// What it reads to know the newest turn, which the last readable record names.
const NEWEST_RECORDS: u64 = 64;

const NEWEST_BYTES: u64 = 1 << 20;

pub(crate) fn enforce_limits(mut step: TaskStep<'_, impl Host>) -> StepResult {
    // With each goes its key, that of its turn, and a whole result.
    let most = READ_RECORDS.min(step.options.limits.call_pieces / 4);
    let operations = [
        Operation::get_some(SESSION, &[BYTES, REVISION], 128),
        Operation::get_all(BRANCHES, 10_000, 1 << 20),
        Operation::read(TRANSCRIPT, LogEnd::Oldest, most, READ_BYTES),
        Operation::read(TRANSCRIPT, LogEnd::Newest, NEWEST_RECORDS, NEWEST_BYTES),
    ];
    let mut outcomes = step.read(&operations)?;
    let mut once = outcomes.take_entries_by_key()?;
    let bytes = once.take(BYTES).as_deref().and_then(parse_count).unwrap_or(0);
    step.basis.revision = once.take(REVISION);
    let branches = outcomes.take_readable_entries()?;
    let mut run = outcomes.take_records()?;
    let newest = outcomes.take_records()?;
    let surplus = RetentionSurplus::of(step.options, run.extent.length, bytes);
    if step.basis.to > 0 {
        run.records.truncate(usize::try_from(step.basis.to.saturating_sub(run.first)).unwrap_or(usize::MAX));
    }
    let oldest = RetentionRecords::of(&run, &newest, &Branches::of(&branches));
    let Some(cut) = surplus.cut(&oldest) else { return step.finish() };
    if step.basis.to == 0 {
        // The lease stays for the step that removes them.
        step.basis.to = run.extent.next();
        return Ok(Progress { state: Some(step.basis.write()), ..Progress::of(Step::Again) });
    }
    let mut removal = oldest.removal(cut);
    removal.take_ids_before(run.first + cut as u64, &positions_of(&step, &removal.shared_ids)?);
    let freed = removal.bytes.min(bytes);
    let ids: Vec<&str> = removal.ids.iter().map(String::as_str).collect();
    let results: Vec<&str> = removal.results.iter().map(String::as_str).collect();
    let begins = begins_before(run.first + cut as u64, &branches);
    let operations = [
        Operation::replace_oldest(TRANSCRIPT, cut as u64, &[]),
        Operation::remove(MESSAGES, &ids),
        Operation::remove(RESULTS, &results),
        Operation::remove(BRANCHES, &begins),
        Operation::add(SESSION, BYTES, -i64::try_from(freed).unwrap_or(i64::MAX)),
    ];
    let expectations = [
        // A step that was appended meanwhile may go on with a turn that is about to be removed.
        Expectation::log(TRANSCRIPT, Some(run.extent.first), Some(run.extent.next())),
        expect_session_entry(REVISION, step.basis.revision.as_deref()),
    ];
    let done = step.write(&expectations, &operations)?;
    let is_left = surplus.records > cut as u64 || surplus.bytes > removal.bytes;
    Ok(Progress::of(if done == Step::Done && is_left { Step::Again } else { done }))
}

/// The positions that these keys of messages lead to.
fn positions_of(step: &TaskStep<'_, impl Host>, ids: &[String]) -> StepResult<Vec<(String, u64)>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<&str> = ids.iter().map(String::as_str).collect();
    let found = step.read_more(&[Operation::get_some(MESSAGES, &keys, 1 << 20)])?.take_readable_entries()?;
    Ok(found.into_iter().filter_map(|entry| Some((entry.key, parse_count(&entry.text)?))).collect())
}

/// The keys of branches that begin before `first`.
fn begins_before(first: u64, branches: &[Entry]) -> Vec<&str> {
    let begins = branches.iter().map(|entry| &*entry.key);
    begins.filter(|begin| parse_count(begin).is_some_and(|begin| begin < first)).collect()
}

/// How much is to be removed.
struct RetentionSurplus {
    records: u64,
    bytes: u64,
    /// Whether a turn that is not finished stays, and everything after its beginning: only until a limit is exceeded twofold.
    spares_unfinished: bool,
}

impl RetentionSurplus {
    fn of(options: &Options, records: u64, bytes: u64) -> Self {
        // Down to nine tenths of a limit that is exceeded; 0 means no limit.
        let over = |held: u64, limit: u64| if limit == 0 || held <= limit { 0 } else { held - (limit - limit / 10) };
        let is_twofold = |held: u64, limit: u64| over(held, limit.saturating_mul(2)) > 0;
        let (max_records, max_bytes) = (options.max_session_messages, options.max_session_bytes);
        Self {
            records: over(records, max_records),
            bytes: over(bytes, max_bytes),
            spares_unfinished: !is_twofold(records, max_records) && !is_twofold(bytes, max_bytes),
        }
    }

    /// How many of the oldest records go. None: nothing has to, or can.
    fn cut(&self, oldest: &RetentionRecords<'_>) -> Option<usize> {
        if self.records == 0 && self.bytes == 0 {
            return None;
        }
        let (mut records, mut bytes, mut line_end) = (0, 0, 0);
        let (mut whole, mut part) = (None, None::<(usize, bool)>);
        let removable = if self.spares_unfinished { oldest.first_unfinished() } else { oldest.records.len() };
        for index in 0..oldest.tail.min(removable) {
            records += 1;
            bytes += oldest.bytes(index);
            line_end = line_end.max(oldest.line_ends.get(index).copied().unwrap_or(index));
            let cut = index + 1;
            if oldest.turn(index).is_some() && oldest.turn(index) == oldest.turn(cut) {
                continue;
            }
            let is_enough = records >= self.records && bytes >= self.bytes;
            if index >= line_end {
                whole = Some((cut, is_enough));
                if is_enough {
                    break;
                }
            } else if part.is_none_or(|(_, is_enough)| !is_enough) {
                part = Some((cut, is_enough));
            }
            let is_too_much = |freed: u64, wanted: u64| wanted > 0 && freed > wanted.saturating_mul(2);
            if is_enough && (is_too_much(records, self.records) || is_too_much(bytes, self.bytes)) {
                break;
            }
        }
        match (whole, part) {
            (Some((cut, true)), _) | (_, Some((cut, true))) | (Some((cut, _)), _) | (None, Some((cut, _))) => Some(cut),
            (None, None) => None,
        }
    }
}

/// What is removed.
#[derive(Default)]
struct RetentionRemoval {
    bytes: u64,
    ids: Vec<String>,
    /// Ids of turns of which a part stays: those that lead to a record that stays, stay.
    shared_ids: Vec<String>,
    results: Vec<String>,
}

impl RetentionRemoval {
    /// Takes those of the shared ids that lead to a record before `first`.
    fn take_ids_before(&mut self, first: u64, positions: &[(String, u64)]) {
        let led = positions.iter().filter(|(_, position)| *position < first);
        self.ids.extend(led.map(|(id, _)| id.clone()));
        store::sort_names(&mut self.ids);
    }
}

/// The oldest records, as many as were read.
struct RetentionRecords<'a> {
    texts: &'a [String],
    records: Vec<Option<StoredRecord<'a>>>,
    first: u64,
    /// For each record, the index of the last one of its line.
    line_ends: Vec<usize>,
    /// The newest turn of the conversation.
    newest: Option<String>,
    /// The first record of the newest turn's newest line.
    newest_from: Option<usize>,
    /// From here on they are of the last turn that was read, which may go on in what was not.
    tail: usize,
}

impl<'a> RetentionRecords<'a> {
    fn of(run: &'a LogRun, newest: &LogRun, branches: &Branches) -> Self {
        let records: Vec<Option<StoredRecord<'_>>> = run.records.iter().map(|text| StoredRecord::parse(text)).collect();
        let line_ends = line_ends(&records, run.first, branches);
        let newest_turn = newest.records.iter().rev().find_map(|text| StoredRecord::parse(text)).map(|last| last.turn);
        let turn_of = |index: usize| records.get(index).and_then(Option::as_ref).map(|record| &*record.turn);
        let end = newest.extent.next().saturating_sub(1);
        let is_newest = |index: &usize| {
            turn_of(*index).is_some_and(|turn| newest_turn.as_deref() == Some(turn))
                && branches.is_on_thread(end, run.first + *index as u64)
        };
        let newest_from = (0..records.len()).find(is_newest);
        let tail = (0..records.len()).rev().take_while(|index| turn_of(*index) == turn_of(records.len() - 1)).last();
        let newest = newest_turn.map(|turn| turn.into_owned());
        let (first, tail) = (run.first, tail.unwrap_or(0));
        Self { texts: &run.records, first, line_ends, newest, newest_from, tail, records }
    }

    fn turn(&self, index: usize) -> Option<&str> {
        self.records.get(index).and_then(Option::as_ref).map(|record| &*record.turn)
    }

    fn bytes(&self, index: usize) -> u64 {
        self.texts.get(index).map_or(0, String::len) as u64
    }

    /// Where the first turn begins that waits for a tool, or is the newest.
    fn first_unfinished(&self) -> usize {
        let placed = (self.first..).zip(&self.records).filter_map(|(at, record)| Some((at, record.as_ref()?)));
        let placed: Vec<_> = placed.collect();
        let turns = group_into_turns(&placed, 0);
        let open: Vec<&str> = turns.iter().filter(|turn| turn.is_open()).map(|turn| turn.id).collect();
        let is_open = |index: &usize| self.turn(*index).is_some_and(|id| open.contains(&id));
        let open_from = (0..self.records.len()).find(is_open);
        open_from.into_iter().chain(self.newest_from).min().unwrap_or(self.records.len())
    }

    /// What goes with the records before `cut`.
    fn removal(&self, cut: usize) -> RetentionRemoval {
        let mut removal = RetentionRemoval::default();
        let stays = |turn: &str| {
            self.newest.as_deref() == Some(turn)
                || (cut..self.records.len()).any(|index| self.turn(index) == Some(turn))
        };
        for index in 0..cut {
            removal.bytes += self.bytes(index);
            let Some(record) = self.records.get(index).and_then(Option::as_ref) else { continue };
            let ids =
                record.id.as_deref().map(ToOwned::to_owned).into_iter().chain([fallback_message_key(&record.turn)]);
            if stays(&record.turn) {
                removal.shared_ids.extend(ids);
            } else {
                removal.ids.extend(ids);
            }
            removal.results.extend(record.tool.as_ref().and_then(|tool| tool.whole.as_deref()).map(ToOwned::to_owned));
        }
        store::sort_names(&mut removal.shared_ids);
        store::sort_names(&mut removal.results);
        removal
    }
}

/// For each record, the index of the last one of its line. Another answer to a question begins another line of its turn.
fn line_ends(records: &[Option<StoredRecord<'_>>], first: u64, branches: &Branches) -> Vec<usize> {
    let mut lines: Vec<(&str, usize)> = Vec::new();
    let mut line_of: Vec<Option<usize>> = Vec::with_capacity(records.len());
    for (index, record) in records.iter().enumerate() {
        let Some(record) = record else {
            line_of.push(None);
            continue;
        };
        let is_branch = record.after.or_else(|| branches.fork_position(first + index as u64)).is_some();
        let known = lines.iter().rposition(|(turn, _)| *turn == &*record.turn).filter(|_| !is_branch);
        let line = known.unwrap_or(lines.len());
        match lines.get_mut(line) {
            Some((_, end)) => *end = index,
            None => lines.push((&record.turn, index)),
        }
        line_of.push(Some(line));
    }
    let end_of = |line: usize| lines.get(line).map(|(_, end)| *end);
    line_of.iter().enumerate().map(|(index, line)| line.and_then(end_of).unwrap_or(index)).collect()
}
