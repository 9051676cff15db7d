//! The thread that writes: it takes all queued calls and applies them in one transaction of SQLite's.
//!
//! Rarely, a call is refused after it has written: then all are undone and run again, each in a savepoint of its own, so that
//! it undoes only itself. No call is answered before the commit. The thread waits for the disk only if every commit is to be
//! synced by itself, and for SQLite's own sync of the log's header when the log is started again, once in many megabytes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, wal::CheckpointMode};

use super::{
    pending_acks::PendingAck,
    shared::{SharedState, StoreRequest, WorkAnswer, store_broken, timed_out},
    sweep::Sweeper,
};
use crate::{
    Failure,
    directory::{
        DirectorySync,
        connection::{execute, roll_back},
        error::{DirectoryError, TransactionError, store_full},
        files::log_file::LogFile,
    },
};

/// Calls in a commit: as many as make each of them cheap, and no one wait for long.
const MOST: usize = 128;
/// Pages of the write-ahead log that are worth a checkpoint.
const CHECKPOINT_PAGES: usize = 1000;
/// Beyond the limit, for what frees more.
const SPARE_PAGES: u64 = 256;
/// Steps of clearing up for somebody who found no room.
const MAKING_ROOM: usize = 256;
/// How long readers are waited for who keep the log from being emptied.
const EMPTYING: Duration = Duration::from_secs(1);
/// Between two looks whether the reserve is there.
const LOOK: Duration = Duration::from_millis(5);
/// Between two tries for a lock that another process has.
const SHORTEST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// What is undone when a call is refused that has written already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Undo {
    /// It and all that were to be committed with it.
    All,
    /// Just that call: this costs each of them a savepoint.
    Each,
}

pub(crate) struct WriteThread {
    shared: Arc<SharedState>,
    db: Connection,
    log: LogFile,
    sweep: Sweeper,
    /// As the last commit left the log.
    log_pages: Arc<AtomicUsize>,
    /// When a checkpoint was last asked for.
    asked_at: usize,
    /// Whether there is room on the disk beside the reserve, and when that was looked at.
    room: (bool, Instant),
}

impl WriteThread {
    pub(crate) fn new(shared: Arc<SharedState>) -> Result<Self, DirectoryError> {
        let mut db = shared.connect(Duration::ZERO)?;
        shared.options.limit_pages(&db, 0)?;
        let log = shared.place.open_wal_file()?;
        let log_pages = Arc::new(AtomicUsize::new(0));
        let pages = log_pages.clone();
        db.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, count: std::ffi::c_int| {
            pages.store(usize::try_from(count).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        let room = (shared.place.ensure_reserve(), Instant::now());
        Ok(Self { shared, db, log, sweep: Sweeper::new(), log_pages, asked_at: 0, room })
    }

    pub(crate) fn run(mut self) {
        use super::queue::DequeueOutcome;
        let most = if self.shared.options.sync == DirectorySync::Always { 1 } else { MOST };
        loop {
            match self.shared.writes.wait_for_items(most, self.sweep.time_until_due()) {
                DequeueOutcome::Items(requests) => self.serve_requests(requests),
                DequeueOutcome::TimedOut => {}
                DequeueOutcome::Closed => break,
            }
            if self.sweep.is_due() && !self.shared.is_broken() {
                self.sweep_a_little(false);
                if !self.room.0 {
                    self.has_room();
                }
            }
            self.ask_for_a_checkpoint();
        }
        let Self { shared, db, .. } = self;
        shared.disconnect(db);
    }

    fn serve_requests(&mut self, mut requests: Vec<StoreRequest>) {
        self.sweep.expect_work();
        if !self.has_room() {
            // What is free is for what frees more.
            let (freeing, others) = requests.into_iter().partition(|request| request.frees);
            let failure = store_full(self.shared.options.max_bytes);
            Vec::into_iter(others).for_each(|request: StoreRequest| request.send_answer(Err(failure.clone())));
            requests = freeing;
        }
        let mut served = self.serve_together(requests, Undo::All);
        if let Err((TransactionError::Refused(_), requests)) = served {
            served = self.serve_together(requests, Undo::Each);
        }
        let Err((stop, requests)) = served else { return };
        if requests.len() == 1 {
            return self.serve_once_more(stop, requests);
        }
        // All was undone because of one of them: which one, each tells by itself.
        for request in requests {
            if let Err((stop, requests)) = self.serve_together(vec![request], Undo::Each) {
                self.serve_once_more(stop, requests);
            }
        }
    }

    /// Expired buckets may make room for a request that found none. For one that removes something, which takes room, too,
    /// before it gives some back, there is some beyond the limit, and the reserve. Every other failure is reported.
    fn serve_once_more(&mut self, stop: TransactionError, requests: Vec<StoreRequest>) {
        let frees = requests.iter().all(|request| request.frees);
        let remedies: &[fn(&mut Self)] = match frees {
            true => &[Self::make_room, Self::use_spare_pages, Self::use_reserve],
            false => &[Self::make_room],
        };
        let mut served = Err((stop, requests));
        for remedy in remedies {
            served = match served {
                Err((stop, requests)) if stop.is_full() => {
                    remedy(self);
                    self.serve_together(requests, Undo::Each)
                }
                served => served,
            };
        }
        _ = self.shared.options.limit_pages(&self.db, 0);
        if let Err((stop, requests)) = served {
            let failure = self.shared.to_failure(&stop);
            requests.into_iter().for_each(|request| request.send_answer(Err(failure.clone())));
        }
    }

    /// Serve requests in one commit, or none of them, which are given back.
    fn serve_together(
        &mut self,
        mut requests: Vec<StoreRequest>,
        undo: Undo,
    ) -> Result<(), (TransactionError, Vec<StoreRequest>)> {
        loop {
            requests = self.without_overdue(requests);
            if requests.is_empty() {
                return Ok(());
            }
            if self.shared.is_broken() {
                requests.into_iter().for_each(|request| request.send_answer(Err(store_broken())));
                return Ok(());
            }
            let answers = match self.begin(&requests) {
                Ok(true) => self.apply_requests(&requests, undo),
                Ok(false) => continue,
                Err(error) => Err(error),
            };
            let answers = match answers {
                Ok(answers) => answers,
                Err(stop) => {
                    self.roll_back();
                    return Err((stop, requests));
                }
            };
            // What is answered as timed out is not applied later.
            if requests.iter().any(StoreRequest::is_over) {
                self.roll_back();
                continue;
            }
            if let Err(error) = execute(&self.db, "COMMIT") {
                self.roll_back();
                return Err((error.into(), requests));
            }
            self.shared.commits.fetch_add(1, Ordering::Relaxed);
            self.deliver(requests, answers);
            return Ok(());
        }
    }

    /// Lock the database for writing; false: some request has become too old meanwhile.
    fn begin(&self, requests: &[StoreRequest]) -> Result<bool, TransactionError> {
        let began = Instant::now();
        let mut pause = SHORTEST_PAUSE;
        loop {
            match execute(&self.db, "BEGIN IMMEDIATE").map_err(TransactionError::from) {
                Ok(()) => return Ok(true),
                Err(stop) if stop.is_busy() && began.elapsed() < self.shared.options.timeout => {}
                Err(stop) => return Err(stop),
            }
            if requests.iter().any(StoreRequest::is_over) {
                return Ok(false);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn apply_requests(
        &self,
        requests: &[StoreRequest],
        undo: Undo,
    ) -> Result<Vec<Result<WorkAnswer, Failure>>, TransactionError> {
        let at = self.shared.time.begin_context(&self.db)?;
        let before = self.db.total_changes();
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            let written = self.db.total_changes();
            if undo == Undo::Each {
                execute(&self.db, "SAVEPOINT request")?;
            }
            match (request.work)(&at) {
                Ok(answer) => answers.push(Ok(answer)),
                Err(TransactionError::Refused(failure)) => {
                    if undo == Undo::Each {
                        execute(&self.db, "ROLLBACK TO request")?;
                    } else if self.db.total_changes() != written {
                        return Err(TransactionError::Refused(failure));
                    }
                    answers.push(Err(failure));
                }
                Err(stop) => return Err(stop),
            }
            if undo == Undo::Each {
                execute(&self.db, "RELEASE request")?;
            }
        }
        if self.db.total_changes() != before {
            at.save_progress()?;
        }
        Ok(answers)
    }

    fn deliver(&self, requests: Vec<StoreRequest>, answers: Vec<Result<WorkAnswer, Failure>>) {
        let kept = match self.shared.options.sync {
            DirectorySync::Always => {
                self.shared.syncs.fetch_add(1, Ordering::Relaxed);
                self.log.sync(&self.db)
            }
            DirectorySync::Off => self.log.check_place(&self.db),
            // With the sync that is to come.
            DirectorySync::Group => Ok(()),
        };
        if let Err(error) = kept {
            self.shared.mark_broken(&error);
            requests.into_iter().for_each(|request| request.send_answer(Err(store_broken())));
            return;
        }
        let mut acks = Vec::with_capacity(requests.len());
        for (request, answer) in requests.into_iter().zip(answers) {
            match answer {
                Ok(answer) if request.needs_disk && self.shared.options.sync == DirectorySync::Group => {
                    acks.push(PendingAck { answer, reply: request.reply });
                }
                answer => request.send_answer(answer),
            }
        }
        // Together, as they were committed: so that one sync is for all of them.
        self.shared.pending_acks.add_acks(acks);
    }

    fn without_overdue(&self, requests: Vec<StoreRequest>) -> Vec<StoreRequest> {
        let (over, left): (Vec<_>, Vec<_>) = requests.into_iter().partition(StoreRequest::is_over);
        over.into_iter().for_each(|request| request.send_answer(Err(timed_out(self.shared.options.timeout))));
        left
    }

    fn roll_back(&self) {
        roll_back(&self.db);
        self.shared.time.watch_not_stored();
    }

    /// Whether others had the database locked.
    fn sweep_a_little(&mut self, at_once: bool) -> bool {
        let mut swept = self.sweep.run_step(&self.shared.time, &self.db, at_once);
        if swept.as_ref().is_err_and(TransactionError::is_full) {
            self.roll_back();
            self.use_reserve();
            swept = self.sweep.run_step(&self.shared.time, &self.db, at_once);
        }
        if !self.room.0 {
            // So that it begins again, in place of growing.
            self.empty_log();
        }
        let Err(stop) = swept else { return false };
        self.roll_back();
        self.sweep.schedule_rest();
        if !stop.is_busy() {
            self.shared.to_failure(&stop);
        }
        stop.is_busy()
    }

    /// Whether there is room on the disk beside the reserve, which is made again as soon as there is.
    fn has_room(&mut self) -> bool {
        // While something is being cleared up, that needs the room.
        if self.room.1.elapsed() >= LOOK && (self.room.0 || !self.sweep.is_busy()) {
            self.room = (self.shared.place.ensure_reserve(), Instant::now());
            self.sweep.keeps_no_pages = !self.room.0;
        }
        self.room.0
    }

    /// Let the database grow beyond its limit, for what frees more.
    fn use_spare_pages(&mut self) {
        _ = self.shared.options.limit_pages(&self.db, SPARE_PAGES);
    }

    /// Make room on a full disk for what frees more: with the reserve, if it is there, and with the log.
    fn use_reserve(&mut self) {
        self.shared.place.give_reserve();
        self.room = (false, Instant::now());
        self.sweep.keeps_no_pages = true;
        self.empty_log();
    }

    /// Have all of the log in the database and give its room back to the disk. Readers are waited for: they are soon done.
    fn empty_log(&self) {
        let began = Instant::now();
        while !self.shared.try_checkpoint(&self.db, CheckpointMode::TRUNCATE) && began.elapsed() < EMPTYING {
            thread::sleep(SHORTEST_PAUSE);
        }
    }

    /// Have everything erased that is dead already, as far as that makes a difference to somebody who waits.
    fn make_room(&mut self) {
        // Erasing takes room, too, before it gives some back.
        self.use_spare_pages();
        let (began, mut steps) = (Instant::now(), 0);
        while steps < MAKING_ROOM {
            if self.sweep_a_little(true) {
                // A checkpoint, or another process: soon over.
                if began.elapsed() >= self.shared.options.timeout {
                    break;
                }
                thread::sleep(SHORTEST_PAUSE);
                continue;
            }
            steps += 1;
            if !self.sweep.is_busy() {
                break;
            }
        }
        _ = self.shared.options.limit_pages(&self.db, 0);
    }

    fn ask_for_a_checkpoint(&mut self) {
        let pages = self.log_pages.load(Ordering::Relaxed);
        if pages < self.asked_at {
            self.asked_at = 0;
        }
        if pages >= self.asked_at + CHECKPOINT_PAGES {
            self.asked_at = pages;
            _ = self.shared.checkpoints.add(pages);
        }
    }
}
