//! A session's history, read for people page by page.
//!
//! Promises records in order and without a gap, and one transaction a page as long as they are not very long. Refuses
//! to leave out a record between two others: a page that is too much for one reply is cut at its oldest end.

use super::{Answer, Sessions, store_problem, valid_session};
use crate::history::LOG;
use crate::store::{Host, LogEnd, LogRecords, Opening, Operation};

/// Records of one reply, and their bytes.
const MAX_RECORDS: u32 = 10_000;
const MAX_BYTES: u64 = 8 << 20;

/// Records of a session's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryPage {
    /// Oldest first.
    pub entries: Vec<String>,
    /// The position of the first one.
    pub first: u64,
    /// The position of the oldest record that there is.
    pub oldest: u64,
    /// The position that the next record gets.
    pub next: u64,
}

impl<H: Host> Sessions<H> {
    /// At most so many of the newest records before a position, or of all; 0: as many as one reply holds.
    pub fn history(&self, session: &str, before: Option<u64>, limit: u32) -> Answer<HistoryPage> {
        valid_session(session)?;
        let limit = if limit == 0 { MAX_RECORDS } else { limit.min(MAX_RECORDS) };
        let found = match before {
            None => self.newest(session, limit)?,
            Some(before) => self.records_before(session, before, limit)?,
        };
        let LogRecords { extent, first, records: entries } = found;
        Ok(HistoryPage { entries, first, oldest: extent.first, next: extent.next() })
    }

    fn newest(&self, session: &str, limit: u32) -> Answer<LogRecords> {
        let (end, max_records) = (LogEnd::Newest, u64::from(limit));
        self.records(session, Opening::ANY, Operation::Read { log: LOG, end, max_records, max_bytes: MAX_BYTES })
    }

    fn records_before(&self, session: &str, before: u64, limit: u32) -> Answer<LogRecords> {
        let mut count = u32::try_from(before).unwrap_or(limit).min(limit);
        let mut opening = Opening::ANY;
        loop {
            let position = before.saturating_sub(u64::from(count));
            let read = Operation::ReadAt { log: LOG, position, count, max_bytes: MAX_BYTES };
            let mut found = self.records(session, opening, read)?;
            if before > found.extent.next() {
                // Before what is still to come is all that there is.
                return self.newest(session, limit);
            }
            let end = found.first.saturating_add(found.records.len() as u64);
            if before <= found.extent.first || end == before {
                return Ok(LogRecords { first: before - found.records.len() as u64, ..found });
            }
            if count == 1 {
                found.records.clear();
                return Ok(LogRecords { first: before, ..found });
            }
            // They are too much, and a store leaves out the newest of them: fewer will fit. This was a use of the
            // session already.
            opening = Opening::Existing { incarnation: None, renew: false };
            count = u32::try_from(found.records.len()).unwrap_or(count).min(count / 2).max(1);
        }
    }

    fn records(&self, session: &str, opening: Opening<'_>, read: Operation<'_>) -> Answer<LogRecords> {
        let (_, mut outcomes) = self.transact(session, opening, &[read])?;
        outcomes.records().map_err(|failure| store_problem(session, &failure))
    }
}
