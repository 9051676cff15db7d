//! Retention: of a conversation that is over its limits the oldest turns go.
//!
//! Promises that a tenth of the limit is freed at once, so that it is due seldom, and no more than twice that, whatever the
//! shape: of whole lines, if that is possible, a line being a turn with one of its answers. Where a turn went on after many
//! others, its beginning goes without its end; but of the newest turn nothing goes: what lies among the oldest records is
//! put in the place of the last of them. With what goes goes all that belongs to it: ids, whole results, branches. The summary stays, and so does a
//! turn that waits for a tool, with all after it, until the limit is exceeded twofold. The first step only finds out whether
//! there is anything to free, so that copies are made only then, and no more goes than was there at that step. Refuses to
//! touch what others change meanwhile.

use crate::context::Context;
use crate::contract::{Bucket, Expectation, Failure, Host, LogEnd, LogRecords, Operation, Transaction};
use crate::options::conversation::Options;
use crate::store;
use crate::store::Outcomes;
use crate::tasks::checkpoint::{Checkpoint, unchanged};
use crate::tasks::job::{Job, Progress, Step};
use crate::tasks::task::{read_leased, release, write_back};
use crate::text::json_values::integer;
use crate::transcript::record::Record;
use crate::transcript::schema::{BRANCHES, BYTES, MESSAGES, RESULTS, REVISION, SESSION, TRANSCRIPT};
use crate::transcript::thread::Branches;
use crate::transcript::turn_id::own_key;
use crate::transcript::turns::turns;

/// The task, and its lease.
pub(crate) const TASK: &str = "retention";

/// What one step looks at.
const READ_RECORDS: u64 = 1024;

const READ_BYTES: u64 = 4 << 20;

/// What it looks at to know the newest turn.
const NEWEST_RECORDS: u64 = 64;

const NEWEST_BYTES: u64 = 1 << 20;

pub(crate) fn enforce_limits(
    context: &Context<impl Host>,
    options: &Options,
    bucket: Bucket<'_>,
    job: &Job<'_>,
    mut basis: Checkpoint,
) -> Result<Progress, Failure> {
    let operations = [
        Operation::GetSome { map: SESSION, keys: &[BYTES, REVISION], max_bytes: 128 },
        Operation::GetAll { map: BRANCHES, max_entries: 10_000, max_bytes: 1 << 20 },
        Operation::Read { log: TRANSCRIPT, end: LogEnd::Oldest, max_records: READ_RECORDS, max_bytes: READ_BYTES },
        Operation::Read { log: TRANSCRIPT, end: LogEnd::Newest, max_records: NEWEST_RECORDS, max_bytes: NEWEST_BYTES },
    ];
    let mut outcomes = match read_leased(context, bucket, job, &mut basis, &operations)? {
        Ok(outcomes) => outcomes,
        Err(progress) => return Ok(progress),
    };
    let mut once = outcomes.once()?;
    let bytes = once.take(BYTES).as_deref().and_then(integer).unwrap_or(0);
    basis.revision = once.take(REVISION);
    let entries = outcomes.readable()?;
    let branches = Branches::of(&entries);
    let mut run = outcomes.records()?;
    let newest = outcomes.records()?;
    let surplus = Surplus {
        records: over(run.extent.length, options.max_session_messages),
        bytes: over(bytes, options.max_session_bytes),
        // Whose tools never answer holds up the others only so long.
        spares_open: over(run.extent.length, options.max_session_messages.saturating_mul(2)) == 0
            && over(bytes, options.max_session_bytes.saturating_mul(2)) == 0,
    };
    if basis.to > 0 {
        run.records.truncate(usize::try_from(basis.to.saturating_sub(run.first)).unwrap_or(usize::MAX));
    }
    let oldest = Oldest::of(&run, &newest, &branches);
    let Some(cut) = surplus.cut(&oldest) else {
        return Ok(Progress::of(write_back(context, bucket, job, &basis, &[], &[])?));
    };
    if basis.to == 0 {
        // The lease stays for the step that frees it.
        basis.to = run.extent.next();
        return Ok(Progress { state: Some(basis.write()), ..Progress::of(Step::Again) });
    }
    let mut gone = oldest.gone(cut, &newest, &branches);
    let first = run.first + cut as u64;
    // Of what is left of their turns, some keys lead to records that stay.
    let known = if gone.shared_ids.is_empty() { Vec::new() } else { results_of(context, bucket, &basis, &gone)? };
    let mut moved = Vec::new();
    for (key, at) in &known {
        match gone.carried.iter().position(|(from, _)| from == at) {
            Some(index) => moved.push((&**key, (first - gone.carried.len() as u64 + index as u64).to_string())),
            None if *at < first => gone.ids.push(key.clone()),
            None => {}
        }
    }
    store::sort(&mut gone.ids);
    let is_gone = |begin: &str| integer(begin).is_some_and(|begin| begin < first);
    let ids: Vec<&str> = gone.ids.iter().map(String::as_str).collect();
    let results: Vec<&str> = gone.results.iter().map(String::as_str).collect();
    let begins: Vec<&str> = entries.iter().map(|entry| &*entry.key).filter(|begin| is_gone(begin)).collect();
    let moved: Vec<(&str, &str)> = moved.iter().map(|(key, at)| (*key, &**at)).collect();
    let linked: Vec<(&str, &str)> = gone.branches.iter().map(|(begin, text)| (&**begin, &**text)).collect();
    let carried: Vec<&str> = gone.carried.iter().map(|(_, text)| &**text).collect();
    let rewritten: Vec<(u64, &str)> = gone.rewritten.iter().map(|(at, text)| (*at, &**text)).collect();
    let freed = gone.bytes.clamp(-(1 << 50), i64::try_from(bytes).unwrap_or(0));
    let mut removals = vec![
        Operation::ReplaceOldest { log: TRANSCRIPT, count: cut as u64, records: &carried },
        Operation::Remove { map: MESSAGES, keys: &ids },
        Operation::Remove { map: RESULTS, keys: &results },
        Operation::Remove { map: BRANCHES, keys: &begins },
        Operation::Increment { map: SESSION, key: BYTES, amount: -freed },
    ];
    if !moved.is_empty() {
        removals.push(Operation::PutSome { map: MESSAGES, entries: &moved });
    }
    let expectations = [
        Expectation::Log { log: TRANSCRIPT, first: Some(run.extent.first), next: None },
        unchanged(REVISION, basis.revision.as_deref()),
    ];
    let is_short = |freed: i64| i64::try_from(surplus.bytes).is_ok_and(|wanted| wanted > freed);
    let is_left = surplus.records > (cut - carried.len()) as u64 || is_short(gone.bytes);
    let step = if rewritten.is_empty() {
        write_back(context, bucket, job, &basis, &expectations, &removals)?
    } else {
        // A log is written once in a transaction: what follows what was carried is linked to it afterwards.
        let (opening, operations) = (basis.opening(), &*removals);
        let removal = Transaction { bucket, opening, expectations: &expectations, operations };
        let receipt = store::transact(&context.host, &removal)?;
        if !receipt.is_applied() {
            return release(context, bucket, job, &basis);
        }
        let begin = Some(first - carried.len() as u64);
        let expectations = [
            Expectation::Log { log: TRANSCRIPT, first: begin, next: None },
            unchanged(REVISION, basis.revision.as_deref()),
        ];
        let links = [
            Operation::Rewrite { log: TRANSCRIPT, records: &rewritten },
            Operation::PutSome { map: BRANCHES, entries: &linked },
        ];
        write_back(context, bucket, job, &basis, &expectations, &links)?
    };
    Ok(Progress::of(if step == Step::Done && is_left { Step::Again } else { step }))
}

/// Where the keys lead that may be of what stays.
fn results_of(
    context: &Context<impl Host>,
    bucket: Bucket<'_>,
    basis: &Checkpoint,
    gone: &Gone,
) -> Result<Vec<(String, u64)>, Failure> {
    let keys: Vec<&str> = gone.shared_ids.iter().map(String::as_str).collect();
    let get = [Operation::GetSome { map: MESSAGES, keys: &keys, max_bytes: 1 << 20 }];
    let look = Transaction { bucket, opening: basis.opening(), expectations: &[], operations: &get };
    let receipt = store::transact(&context.host, &look)?;
    if !receipt.is_applied() {
        return Ok(Vec::new());
    }
    let found = Outcomes::of(receipt).readable()?;
    Ok(found.into_iter().filter_map(|entry| Some((entry.key, integer(&entry.text)?))).collect())
}

/// How much has to go: down to nine tenths of a limit that is exceeded.
fn over(held: u64, limit: u64) -> u64 {
    if limit == 0 || held <= limit { 0 } else { held - (limit - limit / 10) }
}

struct Surplus {
    records: u64,
    bytes: u64,
    /// Whether nothing goes from the first turn on that waits for a tool.
    spares_open: bool,
}

/// What goes.
#[derive(Default)]
struct Gone {
    bytes: i64,
    ids: Vec<String>,
    /// Ids that records which stay may have as well.
    shared_ids: Vec<String>,
    results: Vec<String>,
    /// What of the newest turn is put in the place of the last of them: the position that it had, and the record.
    carried: Vec<(u64, String)>,
    /// What goes on from there.
    rewritten: Vec<(u64, String)>,
    branches: Vec<(String, String)>,
}

/// The oldest records, as many as were read.
struct Oldest<'a> {
    first: u64,
    texts: &'a [String],
    records: Vec<Option<Record<'a>>>,
    /// Of each, where the line ends that it is a part of.
    ends: Vec<usize>,
    /// Whether it is of the newest turn's line.
    is_newest: Vec<bool>,
    /// The last of them may go on: it stays.
    tail: usize,
}

impl<'a> Oldest<'a> {
    fn of(run: &'a LogRecords, newest: &'a LogRecords, branches: &Branches) -> Self {
        let records: Vec<Option<Record<'_>>> = run.records.iter().map(|text| Record::parse(text)).collect();
        let last = newest.records.iter().rev().find_map(|text| Record::parse(text));
        let turn_of = |index: usize| records.get(index).and_then(Option::as_ref).map(|record| &*record.turn);
        // Another answer to a question is another line of its turn.
        let mut lines: Vec<(&str, usize)> = Vec::new();
        let mut ends: Vec<usize> = (0..records.len()).collect();
        let mut line_of: Vec<Option<usize>> = Vec::with_capacity(records.len());
        for (index, record) in records.iter().enumerate() {
            let Some(record) = record else {
                line_of.push(None);
                continue;
            };
            let position = run.first + index as u64;
            let is_branch = record.after.or_else(|| branches.after(position)).is_some();
            let known = lines.iter().rposition(|(turn, _)| *turn == &*record.turn).filter(|_| !is_branch);
            let line = known.unwrap_or(lines.len());
            if known.is_none() {
                lines.push((&record.turn, index));
            }
            if let Some((_, end)) = lines.get_mut(line) {
                *end = index;
            }
            line_of.push(Some(line));
        }
        for (end, line) in ends.iter_mut().zip(&line_of) {
            *end = line.and_then(|line| lines.get(line)).map_or(*end, |(_, last)| *last);
        }
        let end = newest.extent.next().saturating_sub(1);
        let is_newest = |index: usize| {
            let turn = last.as_ref().map(|last| &*last.turn);
            turn.is_some() && turn_of(index) == turn && branches.hold(end, run.first + index as u64)
        };
        let is_newest: Vec<bool> = (0..records.len()).map(is_newest).collect();
        let tail = (0..records.len()).rev().take_while(|index| turn_of(*index) == turn_of(records.len() - 1)).last();
        Self { first: run.first, texts: &run.records, tail: tail.unwrap_or(0), ends, is_newest, records }
    }

    fn turn(&self, index: usize) -> Option<&str> {
        self.records.get(index).and_then(Option::as_ref).map(|record| &*record.turn)
    }

    /// What goes with the records before `cut`.
    fn gone(&self, cut: usize, newest: &'a LogRecords, branches: &Branches) -> Gone {
        let mut gone = Gone::default();
        let at = |index: usize| self.first + index as u64;
        let stays = |turn: &str| (cut..self.records.len()).any(|index| self.turn(index) == Some(turn));
        let of_newest = newest.records.iter().rev().find_map(|text| Record::parse(text));
        let goes_on = |turn: &str| stays(turn) || of_newest.as_ref().is_some_and(|last| last.turn == turn);
        for index in 0..cut {
            let length = self.texts.get(index).map_or(0, String::len);
            gone.bytes += i64::try_from(length).unwrap_or(0);
            let Some(record) = self.records.get(index).and_then(Option::as_ref) else { continue };
            let keys = record.id.as_deref().map(ToOwned::to_owned).into_iter().chain([own_key(&record.turn)]);
            if goes_on(&record.turn) {
                gone.shared_ids.extend(keys)
            } else {
                gone.ids.extend(keys)
            }
            if self.is_newest.get(index) == Some(&true) {
                let mut carried = record.clone();
                carried.after = None;
                gone.carried.push((at(index), carried.write()));
            } else {
                gone.results.extend(record.tool.as_ref().and_then(|tool| tool.whole.as_deref()).map(ToOwned::to_owned));
            }
        }
        store::sort(&mut gone.ids);
        gone.ids.dedup();
        store::sort(&mut gone.shared_ids);
        store::sort(&mut gone.results);
        gone.bytes -= gone.carried.iter().map(|(_, text)| i64::try_from(text.len()).unwrap_or(0)).sum::<i64>();
        if let Some(&(last, _)) = gone.carried.last() {
            self.link(&mut gone, last, at(cut), newest, branches);
        }
        gone
    }

    /// What followed the last record that is carried follows it where it is then: before `first`. Whatever else comes first
    /// there follows nothing.
    fn link(&self, gone: &mut Gone, last: u64, first: u64, newest: &'a LogRecords, branches: &Branches) {
        let end = newest.extent.next().saturating_sub(1);
        let before = (first - 1).saturating_sub(gone.carried.len() as u64);
        let of = |run: u64, texts: &'a [String], at: u64| texts.get(usize::try_from(at.checked_sub(run)?).ok()?);
        let mut rewrite = |at: u64, after: u64| {
            let text = of(self.first, self.texts, at).or_else(|| of(newest.first, &newest.records, at))?;
            let mut record = Record::parse(text)?;
            record.after = Some(after);
            let (new, total) = (record.write(), record.total.unwrap_or(0));
            gone.bytes += i64::try_from(text.len()).ok()? - i64::try_from(new.len()).ok()?;
            gone.rewritten.push((at, new));
            gone.branches.push((at.to_string(), Branches::entry(after, total)));
            Some(())
        };
        // A branch that begins there.
        let begins = (newest.first..=end).find(|at| branches.after(*at) == Some(last) && branches.hold(end, *at));
        if let Some(begin) = begins {
            rewrite(begin, first - 1);
        }
        if !branches.hold(end, first) && branches.after(first).is_none() {
            rewrite(first, before);
        }
    }
}

impl Surplus {
    /// How many of the oldest records go. None: nothing has to, or can.
    fn cut(&self, oldest: &Oldest<'_>) -> Option<usize> {
        if self.records == 0 && self.bytes == 0 {
            return None;
        }
        let placed = (oldest.first..).zip(&oldest.records).filter_map(|(at, it)| Some((at, it.as_ref()?)));
        let placed: Vec<_> = placed.collect();
        let turns = turns(&placed, 0);
        let is_open = |id: &str| self.spares_open && turns.iter().any(|turn| turn.is_open() && turn.id == id);
        let (mut records, mut bytes, mut ends) = (0, 0, 0);
        let (mut whole, mut part) = (None, None::<(usize, bool)>);
        for index in 0..oldest.tail {
            if oldest.turn(index).is_some_and(&is_open) {
                break;
            }
            // What is carried frees nothing, and ends nothing.
            if oldest.is_newest.get(index) != Some(&true) {
                records += 1;
                bytes += oldest.texts.get(index).map_or(0, String::len) as u64;
                ends = ends.max(oldest.ends.get(index).copied().unwrap_or(index));
            }
            let cut = index + 1;
            if records == 0 || (oldest.turn(index).is_some() && oldest.turn(index) == oldest.turn(cut)) {
                continue;
            }
            let is_enough = records >= self.records && bytes >= self.bytes;
            if index >= ends {
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
