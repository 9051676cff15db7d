//! The threads that read, each on a connection of its own, without waiting for the writer. A request that turns out to
//! write is handed on to the writer.
//!
//! Requests that arrive together are served from one snapshot of the database, taken after all of them: pages that one reads
//! are cached for the next. None waits long for another: after a millisecond, the rest is left to a free thread.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::{
    queue::DequeueOutcome,
    shared::{SharedState, StoreRequest, store_closed, timed_out},
};
use crate::directory::{
    connection::{execute, roll_back},
    error::TransactionError,
};

/// For what locks readers out: another process that is the first to open the store after a crash.
const BUSY: Duration = Duration::from_secs(1);
/// Requests served from one state of the database.
const MOST: usize = 16;
/// For how long they may hold each other up.
const PATIENCE: Duration = Duration::from_millis(1);

pub(crate) struct ReadThread {
    shared: Arc<SharedState>,
    db: Connection,
}

impl ReadThread {
    pub(crate) fn new(shared: Arc<SharedState>) -> Result<Self, rusqlite::Error> {
        let db = shared.connect(BUSY)?;
        db.pragma_update(None, "query_only", true)?;
        Ok(Self { shared, db })
    }

    pub(crate) fn run(self) {
        while let DequeueOutcome::Items(requests) = self.shared.reads.wait_for_items(MOST, None) {
            self.serve_requests(requests.into());
        }
        let Self { shared, db } = self;
        shared.disconnect(db);
    }

    fn serve_requests(&self, mut requests: VecDeque<StoreRequest>) {
        let end = Instant::now() + PATIENCE;
        while !requests.is_empty() {
            if let Err(stop) = self.serve_together(&mut requests, end)
                && let Some(request) = requests.pop_front()
            {
                request.send_answer(Err(self.shared.to_failure(&stop)));
            }
            roll_back(&self.db);
            if Instant::now() >= end {
                break;
            }
        }
        if !requests.is_empty() {
            self.shared.reads.give_back(requests);
        }
    }

    /// Serve requests from one state of the database until one fails, or the time is over. On an error, none was served.
    fn serve_together(&self, requests: &mut VecDeque<StoreRequest>, end: Instant) -> Result<(), TransactionError> {
        execute(&self.db, "BEGIN")?;
        let mut at = self.shared.time.begin_context(&self.db)?;
        at.reads_only = true;
        while let Some(request) = requests.pop_front() {
            if request.is_over() {
                request.send_answer(Err(timed_out(self.shared.options.timeout)));
                continue;
            }
            match (request.work)(&at) {
                Ok(answer) => request.send_answer(Ok(answer)),
                Err(TransactionError::NeedsWriter) => {
                    if let Err(request) = self.shared.writes.add(request) {
                        request.send_answer(Err(store_closed()));
                    }
                }
                // SQLite may have ended the transaction with it.
                Err(stop) => {
                    request.send_answer(Err(self.shared.to_failure(&stop)));
                    break;
                }
            }
            if Instant::now() >= end {
                break;
            }
        }
        Ok(())
    }
}
