//! Corrections: messages are put in other words, or removed.
//!
//! Promises that what is removed is nowhere in the transcript afterwards: not in a whole result, a summary or the title
//! that was made of it. Threads, weights and positions stay as they are, so that every process goes on with the same window.
//! Refuses to change what others have changed meanwhile, and to make anything of a record that it can't read.

use super::desk::{Address, Transcript, WHERE_IT_STANDS};
use super::omissions::COUNTERS;
use super::options::Options;
use super::recall::correct::Fate;
use super::record::{Kind, Record, integer};
use super::thread::Branches;
use super::upkeep::unchanged;
use super::{
    BRANCHES, BYTES, HEAD, MESSAGES, OWNER, RESULTS, REVISION, SESSION, SUMMARY, TITLE, TITLE_OF, TOTAL, TRANSCRIPT,
    UNTITLED, ask::Summary, intake, recall, step, title,
};
use crate::names::repr;
use crate::reply::{self, Found, Outcomes};
use crate::sessions::{Answer, Code, SessionProblem, Sessions, check_status, conflict, store_problem};
use crate::store::{Expectation, Host, Opening, Operation, Span, Status, Transaction};

/// How often to begin again when others come in between.
const TRIES: u32 = 8;
/// Records of a branch that are looked for, and changed, at a time.
const READ_RECORDS: u32 = 1000;
const CHANGED_RECORDS: usize = 100;
const READ_BYTES: u64 = 8 << 20;
/// What there is once, the summary among it.
const SESSION_BYTES: u64 = 1 << 20;

impl<H: Host> Sessions<H> {
    /// Put other words in a message's place; none: remove it. How many were changed: one, or none that is removed already.
    pub fn rewrite(&self, transcript: &Transcript<'_>, position: u64, content: Option<&str>) -> Answer<u64> {
        let at = transcript.address()?;
        match self.change(&at, &[position], content)? {
            Changed { looked: 0, .. } => Err(at.no_message(position)),
            Changed { changed: 0, .. } if content.is_some() => Err(at.no_message(position)),
            Changed { changed, .. } => Ok(changed),
        }
    }

    /// Remove all messages, or a branch: those from a position on that go on from there. How many.
    pub fn clear_messages(&self, transcript: &Transcript<'_>, branch: Option<u64>) -> Answer<u64> {
        let at = transcript.address()?;
        let Some(from) = branch else { return self.clear_transcript(&at) };
        let mut members = self.branch(&at, from)?;
        if members.is_empty() {
            return Err(at.no_message(from));
        }
        let mut count = 0;
        while !members.is_empty() {
            let newest = members.split_off(members.len().saturating_sub(CHANGED_RECORDS));
            let mut rest = &*newest;
            while let Some((last, _)) = rest.split_last() {
                let done = self.change(&at, rest, None)?;
                count += done.changed;
                // Retention may have taken the rest.
                let looked = if done.looked == 0 { rest.len() } else { done.looked };
                rest = rest.get(..rest.len().saturating_sub(looked)).unwrap_or_default();
                let _ = last;
            }
        }
        Ok(count)
    }

    fn clear_transcript(&self, at: &Address<'_>) -> Answer<u64> {
        for _ in 0..TRIES {
            let once = [Operation::GetSome { map: SESSION, keys: &[OWNER, REVISION], max_bytes: 1024 }];
            let (life, mut outcomes) = self.look(at.session, at.bucket(), Opening::ANY, &once)?;
            let mut once = self.told(at.session, outcomes.once())?;
            let (owner, revision) = (once.take(OWNER), once.take(REVISION));
            let revision = revision.as_deref();
            self.withdrawn(at.session, &life, owner.as_deref(), number(revision), Fate::Replaced)?;
            let gone = [HEAD, TOTAL, BYTES, SUMMARY, TITLE, TITLE_OF, UNTITLED, recall::correct::ONCE];
            let gone = [gone.as_slice(), COUNTERS.as_slice()].concat();
            let mut operations = vec![
                WHERE_IT_STANDS,
                Operation::ResetLog { log: TRANSCRIPT, records: &[] },
                Operation::ResetMap { map: MESSAGES, entries: &[] },
                Operation::ResetMap { map: BRANCHES, entries: &[] },
                Operation::ResetMap { map: RESULTS, entries: &[] },
                Operation::Remove { map: SESSION, keys: &gone },
                Operation::Increment { map: SESSION, key: REVISION, amount: 1 },
            ];
            operations.extend(recall::remove::ANEW);
            let (bucket, opening) = (at.bucket(), Opening::life(&life));
            let expectations = [unchanged(REVISION, revision)];
            let cleared = Transaction { bucket, opening, expectations: &expectations, operations: &operations };
            let receipt = self.told(at.session, reply::transact(self.host(), &cleared))?;
            if receipt.status == Status::Unmet {
                continue;
            }
            check_status(at.session, receipt.status)?;
            let count = self.told(at.session, Outcomes::of(receipt).records())?.extent.length;
            self.told(at.session, recall::remove::drop_orphans(self.host(), bucket))?;
            return Ok(count);
        }
        Err(conflict(at.session))
    }

    /// The positions of a message and of all that goes on from it, ascending. None: there is no such message.
    fn branch(&self, at: &Address<'_>, from: u64) -> Answer<Vec<u64>> {
        let mut members: Vec<u64> = Vec::new();
        let (mut position, mut life) = (from, String::new());
        loop {
            let operations = [
                Operation::GetAll { map: BRANCHES, max_entries: 10_000, max_bytes: 1 << 20 },
                Operation::ReadAt { log: TRANSCRIPT, position, count: READ_RECORDS, max_bytes: READ_BYTES },
            ];
            let opening = if life.is_empty() { Opening::ANY } else { Opening::life(&life) };
            let (incarnation, mut outcomes) = self.look(at.session, at.bucket(), opening, &operations)?;
            if life.is_empty() {
                life = incarnation;
            }
            let branches = Branches::of(&self.told(at.session, outcomes.readable())?);
            let run = self.told(at.session, outcomes.records())?;
            if run.records.is_empty() || (position == from && run.first != from) {
                return Ok(members);
            }
            for (here, text) in (run.first..).zip(&run.records) {
                let after = Record::parse(text).and_then(|record| record.after).or_else(|| branches.after(here));
                let before = after.or(here.checked_sub(1));
                let is_one = here == from || before.is_some_and(|before| members.binary_search(&before).is_ok());
                if is_one {
                    members.push(here);
                }
            }
            position = run.first + run.records.len() as u64;
            if position >= run.extent.next() {
                return Ok(members);
            }
        }
    }

    /// Change some messages, as many of the newest of them as can be read at once.
    fn change(&self, at: &Address<'_>, positions: &[u64], content: Option<&str>) -> Answer<Changed> {
        let spans: Vec<Span> = positions.iter().rev().map(|&position| Span { position, count: 1 }).collect();
        for _ in 0..TRIES {
            let operations = [
                WHERE_IT_STANDS,
                Operation::GetSome {
                    map: SESSION,
                    keys: &[SUMMARY, TITLE, TITLE_OF, UNTITLED, REVISION, OWNER, recall::correct::ONCE],
                    max_bytes: SESSION_BYTES,
                },
                Operation::ReadSpans { log: TRANSCRIPT, spans: &spans, max_bytes: READ_BYTES },
            ];
            let (life, mut outcomes) = self.look(at.session, at.bucket(), Opening::ANY, &operations)?;
            let extent = self.told(at.session, outcomes.records())?.extent;
            let once = match self.told(at.session, outcomes.entries())? {
                Found::Entries(found) => found.entries,
                Found::Oversize { .. } => return Err(conflict(at.session)),
            };
            let runs = self.told(at.session, outcomes.spans())?;
            let of = |key: &str| once.iter().find(|entry| entry.key == key).map(|entry| &*entry.text);
            let (summary, title, revision) = (of(SUMMARY), of(TITLE), of(REVISION));
            let origin = title::Origin::of(of(TITLE_OF), title.unwrap_or_default());
            let is_settled = of(UNTITLED) == Some(title::SETTLED);

            let options = self.config().conversation.as_deref();
            let default = Options::default();
            let options = options.unwrap_or(&default);
            let (mut texts, mut results, mut is_title) = (Vec::new(), Vec::new(), false);
            let (mut before, mut after, mut lowest) = (0, 0, u64::MAX);
            for (position, text) in runs.iter().filter_map(|run| Some((run.first, run.records.first()?))) {
                let Some(mut record) = Record::parse(text) else {
                    let message =
                        format!("Message at position {position} of session {} can't be read", repr(at.session));
                    return Err(SessionProblem::new(Code::InvalidValue, message));
                };
                if record.is_removed() {
                    continue;
                }
                results.extend(record.tool.as_ref().and_then(|tool| tool.whole.as_deref()).map(ToOwned::to_owned));
                is_title |= title.is_some_and(|title| origin.is_of(title, &record, is_settled));
                match content {
                    Some(content) => edit(options, &mut record, content),
                    None => record.remove(),
                }
                let new = record.write();
                before += text.len();
                after += new.len();
                lowest = lowest.min(position);
                texts.push((position, new));
            }
            let done = Changed { looked: runs.len(), changed: texts.len() as u64 };
            if texts.is_empty() {
                return Ok(done);
            }
            let records: Vec<(u64, &str)> = texts.iter().map(|(position, text)| (*position, &**text)).collect();
            let results: Vec<&str> = results.iter().map(String::as_str).collect();
            let amount = i64::try_from(after).unwrap_or(0) - i64::try_from(before).unwrap_or(0);
            let reach = summary.and_then(|entry| Summary::all(entry).iter().map(|summary| summary.to).max());
            let is_covered = reach.is_some_and(|to| to >= lowest) || (summary.is_some() && reach.is_none());
            let gone = [(is_covered, SUMMARY), (is_title, TITLE), (is_title, TITLE_OF), (is_title, UNTITLED)];
            let gone: Vec<&str> = gone.into_iter().filter(|(is_gone, _)| *is_gone).map(|(_, key)| key).collect();
            let changed: Vec<u64> = texts.iter().map(|(position, _)| *position).collect();
            let owner = of(OWNER).filter(|_| at.node.is_none());
            self.withdrawn(at.session, &life, owner, number(revision), Fate::Changed(&changed))?;
            let recalled = self.recalled(at, &life, of(recall::correct::ONCE), &changed)?;
            let operations = [
                Operation::Rewrite { log: TRANSCRIPT, records: &records },
                Operation::Remove { map: RESULTS, keys: &results },
                Operation::Remove { map: SESSION, keys: &gone },
                Operation::Increment { map: SESSION, key: BYTES, amount },
                Operation::Increment { map: SESSION, key: REVISION, amount: 1 },
            ];
            let expectations = [
                unchanged(REVISION, revision),
                unchanged(recall::correct::ONCE, recalled.as_deref()),
                unchanged(SUMMARY, summary),
                unchanged(TITLE, title),
                Expectation::Log { log: TRANSCRIPT, first: Some(extent.first), next: None },
            ];
            let (bucket, opening) = (at.bucket(), Opening::life(&life));
            let transaction = Transaction { bucket, opening, expectations: &expectations, operations: &operations };
            let receipt = reply::transact(self.host(), &transaction);
            match receipt.map_err(|failure| store_problem(at.session, &failure))?.status {
                Status::Unmet => {}
                status => return check_status(at.session, status).map(|()| done),
            }
        }
        Err(conflict(at.session))
    }
}

/// Which state of the messages it is; none: they were never changed.
pub(super) fn number(revision: Option<&str>) -> u64 {
    revision.and_then(integer).unwrap_or(0)
}

struct Changed {
    /// How many of the newest positions were read.
    looked: usize,
    changed: u64,
}

/// Other words in a record, by the rules of those that are stored. What else tells of the old ones goes.
fn edit(options: &Options, record: &mut Record<'_>, content: &str) {
    let is_answer = record.role != super::record::Role::User;
    let taken = intake::take(options, content, is_answer);
    let mut new = record.clone();
    (new.raw, new.metadata, new.parts, new.tokens, new.truncated) = (None, None, None, None, taken.is_cut);
    if let Some(tool) = &mut new.tool {
        (tool.whole, tool.error) = (None, None);
    }
    let text = taken.text.into_owned();
    match &mut new.tool {
        Some(tool) if record.kind == Kind::ToolCall => tool.arguments = Some(text.into()),
        _ => (new.content, new.parts) = (text.into(), taken.parts.map(Into::into)),
    }
    // The weight is for ever: where the window begins depends on it. What fits is told by the tokens.
    let weight = new.weight;
    let mut weighed = step::weigh(new);
    weighed.tokens = Some(weighed.weight).filter(|tokens| *tokens != weight).map(|all| all - weighed.attached());
    weighed.weight = weight;
    *record = weighed;
}
