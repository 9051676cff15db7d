//! A session's history, read for people.
//!
//! Promises records in order, each once, without a gap, whatever other writers append or summarise meanwhile, and
//! an end after so many transactions. Refuses to leave out a record between two others: a history that changes
//! faster than it can be read is an error, and one beyond the limits of a reply is told from its newest end.

use super::{ANY, Answer, Code, SessionProblem, Sessions, first, out_of_turn, valid_session};
use crate::history::LOG;
use crate::names::repr;
use crate::store::{Host, LogEnd, Opening, Operation, Outcome, Records};

/// Records in one transaction when history is read.
const CHUNK: u64 = 5000;
/// Bytes of history that are read at a time.
const CHUNK_BYTES: u64 = 1 << 20;
/// History records in one reply, and their bytes: a host bounds the calls and the copying that one reply may
/// cost.
const MAX_HISTORY: u64 = 50_000;
const MAX_HISTORY_BYTES: usize = 16 << 20;
/// Transactions that one reply may cost. It takes a few dozen at most, when nobody else writes.
const MAX_ROUNDS: u32 = 200;
impl<H: Host> Sessions<H> {
    /// The newest records of the history, oldest first; 0: all.
    pub fn history(&self, session: &str, limit: u32) -> Answer<Vec<String>> {
        valid_session(session)?;
        let wanted = match limit {
            0 => MAX_HISTORY,
            limit => u64::from(limit).min(MAX_HISTORY),
        };
        let mut rounds = 0;
        while rounds < MAX_ROUNDS {
            if let Some(entries) = self.read_history(session, wanted, &mut rounds)? {
                return Ok(entries);
            }
        }
        Err(SessionProblem::new(
            Code::Store,
            format!("History of session {} is summarized faster than it can be read", repr(session)),
        ))
    }

    /// Read the newest chunk, and from there on towards the oldest record. Where to read on is counted from the
    /// oldest end: what is appended meanwhile does not move it, so every round comes nearer. None: begin anew,
    /// because a summary that was written meanwhile has taken away what was still to be read.
    fn read_history(&self, session: &str, wanted: u64, rounds: &mut u32) -> Answer<Option<Vec<String>>> {
        let (incarnation, newest) = self.read_records(session, ANY, LogEnd::Newest, 0, wanted.min(CHUNK), rounds)?;
        let Records { first: mut lowest, length, records } = newest;
        let oldest = lowest.saturating_add(records.len() as u64).saturating_sub(length);
        // As many as fit into a chunk, as far as is known.
        let mut step = records.len().max(1) as u64;
        let mut taken = Taken { newest_first: Vec::new(), wanted, room: MAX_HISTORY_BYTES };
        taken.take(records);
        while lowest > oldest && taken.wanted > 0 {
            if *rounds >= MAX_ROUNDS {
                return Ok(None);
            }
            let count = step.min(lowest - oldest).min(taken.wanted);
            let from = lowest - count;
            let opening = Opening::life(&incarnation);
            let (_, found) = self.read_records(session, opening, LogEnd::Oldest, from - oldest, count, rounds)?;
            let found_count = found.records.len() as u64;
            if found.first != from || found_count == 0 {
                return Ok(None);
            }
            if found_count < count {
                // These are longer: the newest of them are missing. Fewer will fit.
                step = found_count;
                continue;
            }
            let bytes: usize = found.records.iter().map(String::len).sum();
            if bytes as u64 <= CHUNK_BYTES / 2 {
                step = (step * 2).min(CHUNK);
            }
            lowest = from;
            taken.take(found.records);
        }
        taken.newest_first.reverse();
        Ok(Some(taken.newest_first))
    }

    fn read_records(
        &self,
        session: &str,
        opening: Opening<'_>,
        end: LogEnd,
        skip: u64,
        max_records: u64,
        rounds: &mut u32,
    ) -> Answer<(String, Records)> {
        *rounds += 1;
        let read = Operation::Read { log: LOG, end, skip, max_records, max_bytes: CHUNK_BYTES };
        let receipt = self.transact(session, opening, &[], &[read])?;
        let incarnation = receipt.incarnation.clone();
        match first(receipt) {
            Some(Outcome::Records(found)) => Ok((incarnation, found)),
            _ => Err(out_of_turn(session)),
        }
    }
}

/// Records on their way to people.
struct Taken {
    newest_first: Vec<String>,
    /// How many more. None, as soon as one finds no room.
    wanted: u64,
    room: usize,
}

impl Taken {
    /// Take records that are next to those before, oldest first. The very first one finds room whatever its size.
    fn take(&mut self, records: Vec<String>) {
        for record in records.into_iter().rev() {
            if record.len() > self.room && !self.newest_first.is_empty() {
                self.wanted = 0;
            }
            if self.wanted == 0 {
                return;
            }
            self.wanted -= 1;
            self.room = self.room.saturating_sub(record.len());
            self.newest_first.push(record);
        }
    }
}
