//! Retention: of a conversation that is over its limits the oldest turns go.
//!
//! Promises that whole turns go, the newest never, and all that belongs to them: ids, whole results, branches. The summary
//! stays, and so does a turn that waits for a tool, with all after it, until the limit is exceeded twofold. A tenth of the limit is freed at once, so that it is due seldom. The first step only finds out whether there is
//! anything to free, so that copies are made only then, and no more goes than was there at that step. Refuses to touch what
//! others change meanwhile.

use super::ask::own_key;
use super::options::Options;
use super::record::{Record, integer};
use super::turns::turns;
use super::upkeep::{Basis, Job, Progress, Step};
use super::{BRANCHES, BYTES, MESSAGES, RESULTS, SESSION, TRANSCRIPT};
use crate::filter::Filter;
use crate::reply;
use crate::store::{Bucket, Expectation, Failure, Host, LogEnd, LogRecords, Operation};

/// The task, and its lease.
pub(super) const TASK: &str = "retention";
/// What one step looks at.
const READ_RECORDS: u64 = 1024;
const READ_BYTES: u64 = 4 << 20;

impl<H: Host> Filter<H> {
    pub(super) fn retain(
        &self,
        options: &Options,
        bucket: Bucket<'_>,
        job: &Job<'_>,
        mut basis: Basis,
    ) -> Result<Progress, Failure> {
        let operations = [
            Operation::Get { map: SESSION, key: BYTES, max_bytes: 32 },
            Operation::GetAll { map: BRANCHES, max_entries: 10_000, max_bytes: 1 << 20 },
            Operation::Read { log: TRANSCRIPT, end: LogEnd::Oldest, max_records: READ_RECORDS, max_bytes: READ_BYTES },
        ];
        let mut outcomes = match self.read_leased(bucket, job, &mut basis, &operations)? {
            Ok(outcomes) => outcomes,
            Err(progress) => return Ok(progress),
        };
        let bytes = outcomes.text()?.as_deref().and_then(integer).unwrap_or(0);
        let branches = outcomes.readable()?;
        let mut run = outcomes.records()?;
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
        let gone = surplus.taken_from(&run);
        if basis.to == 0 && gone.count > 0 {
            // The lease stays for the step that frees it.
            basis.to = run.extent.next();
            return Ok(Progress { state: Some(basis.write()), ..Progress::of(Step::Again) });
        }
        let first = run.extent.first + gone.count as u64;
        let is_gone = |begin: &str| integer(begin).is_some_and(|begin| begin < first);
        let ids: Vec<&str> = gone.ids.iter().map(String::as_str).collect();
        let results: Vec<&str> = gone.results.iter().map(String::as_str).collect();
        let begins: Vec<&str> = branches.iter().map(|entry| &*entry.key).filter(|begin| is_gone(begin)).collect();
        let freed = i64::try_from(gone.bytes.min(bytes)).unwrap_or(0);
        let removals = [
            Operation::ReplaceOldest { log: TRANSCRIPT, count: gone.count as u64, records: &[] },
            Operation::Remove { map: MESSAGES, keys: &ids },
            Operation::Remove { map: RESULTS, keys: &results },
            Operation::Remove { map: BRANCHES, keys: &begins },
            Operation::Increment { map: SESSION, key: BYTES, amount: -freed },
        ];
        let removals = if gone.count > 0 { &removals[..] } else { &[] };
        let expectations = [Expectation::Log { log: TRANSCRIPT, first: Some(run.extent.first), next: None }];
        let is_left = gone.count > 0 && gone.records_left > 0;
        Ok(Progress::of(match self.write_back(bucket, job, &basis, &expectations, removals)? {
            Step::Done if is_left => Step::Again,
            step => step,
        }))
    }
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
    count: usize,
    bytes: u64,
    ids: Vec<String>,
    results: Vec<String>,
    /// How many more would have to go than were looked at.
    records_left: u64,
}

impl Surplus {
    /// As few of the oldest whole turns as it takes, of those that were read; but for the last of them, which may go on.
    fn taken_from(&self, run: &LogRecords) -> Gone {
        let records: Vec<Option<Record<'_>>> = run.records.iter().map(|text| Record::parse(text)).collect();
        // Where a turn's last record is that was read.
        let last_of = |turn: &str| records.iter().rposition(|record| record.as_ref().is_some_and(|it| it.turn == turn));
        let newest = records.iter().rev().flatten().next().map(|record| record.turn.to_string()).unwrap_or_default();
        let placed: Vec<_> = (run.first..).zip(&records).filter_map(|(at, it)| Some((at, it.as_ref()?))).collect();
        let turns = turns(&placed, 0);
        let is_open = |id: &str| self.spares_open && turns.iter().any(|turn| turn.is_open() && turn.id == id);
        let (mut whole_until, mut bytes, mut cut) = (0, 0, None);
        for (index, (record, text)) in records.iter().zip(&run.records).enumerate() {
            bytes += text.len() as u64;
            if let Some(record) = record {
                if record.turn == newest || is_open(&record.turn) {
                    break;
                }
                whole_until = whole_until.max(last_of(&record.turn).unwrap_or(index));
            }
            if index >= whole_until {
                let count = index + 1;
                let is_enough = count as u64 >= self.records && bytes >= self.bytes;
                cut = Some((count, bytes));
                if is_enough {
                    break;
                }
            }
        }
        if self.records == 0 && self.bytes == 0 {
            return Gone::default();
        }
        let Some((count, bytes)) = cut else { return Gone::default() };
        let mut gone = Gone { count, bytes, ..Gone::default() };
        for record in records.iter().take(count).flatten() {
            gone.ids.extend(record.id.as_deref().map(ToOwned::to_owned));
            gone.ids.push(own_key(&record.turn));
            gone.results.extend(record.tool.as_ref().and_then(|tool| tool.whole.as_deref()).map(ToOwned::to_owned));
        }
        reply::sort(&mut gone.ids);
        reply::sort(&mut gone.results);
        gone.ids.dedup();
        gone.records_left = self.records.saturating_sub(count as u64) + u64::from(self.bytes > bytes);
        gone
    }
}
