//! The store in a directory: durable, within this process, shared with all others that open the same directory on the
//! same machine. Nothing has to be installed or started.
//!
//! Its files are `keepline.db`, an SQLite database (`schema` says what is in it), that database's `-wal` and `-shm`,
//! and `keepline.lock`, and they belong together. It promises:
//!
//! - A transaction is applied all or none, also when the process is killed or the machine loses power in the middle of
//!   it, and in one order for all processes.
//! - What was acknowledged is on disk, as far as was chosen ([`DirectorySync`]).
//! - A call that is repeated counts once, in whichever process.
//! - No task of a runtime waits for a file. There are threads for that: one that writes ([`write`]), some that read
//!   (`read`), two that sync (`sync`) and one that makes checkpoints (`checkpoint`). Who only asks is not held
//!   up by the sync of who writes.
//! - What a transaction costs depends on what it touches, not on what the bucket or the store holds.
//! - Time never goes back, even if the machine's clock does, and a clock that was set ahead is not believed for a minute.
//!
//! It refuses: another program's file, a later release's, a damaged one, a database beside another one's log, a network
//! file system, and a clock that stands more than a day behind what was stored.

mod connection;
mod error;
mod files;
mod maintenance;
mod options;
mod rows;
mod schema;
mod threads;
mod time;
mod transact;
mod transfer;

use std::{
    fmt,
    path::Path,
    sync::{Arc, atomic::Ordering},
    thread::{self, JoinHandle},
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

pub use self::{
    error::DirectoryError,
    maintenance::{CheckReport, RepairReport, backup, check, compact, repair, restore},
    options::{DirectoryOptions, DirectorySync},
};
use self::{
    error::TransactionError,
    files::{StoreFiles, reserve::with_reserve},
    threads::{
        checkpoint::CheckpointThread,
        read::ReadThread,
        shared::{RequestedWork, SharedState, StoreRequest, WorkAnswer, store_closed, timed_out},
        sync::SyncThread,
        write::WriteThread,
    },
    time::{StoreTime, StoredProgress, TransactionContext},
};
use crate::{
    BucketPage, Deadline, DeleteRequest, Deletion, Failure, FailureCode, IndexStep, IndexedReceipt, IndexedTransaction,
    Operation, Store, StoreInfo, Writer, bucket::may_write, capability, check as checks, failure, kind,
    names::check_kind,
};

/// How long a process is waited for that is just making the store.
const MAKING: Duration = Duration::from_secs(10);

/// A store in a directory. See [`Store`].
///
/// When it is dropped, it waits for what is under way to end.
pub struct DirectoryStore {
    shared: Arc<SharedState>,
    id: String,
    threads: Vec<JoinHandle<()>>,
    /// Closes after all threads have: of two connections that close at the same time none is the last one, which puts what
    /// is in the write-ahead log into the database.
    last: Option<Mutex<Connection>>,
}

/// What a store has done since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryCounters {
    /// Commits of one call or of several.
    pub commits: u64,
    /// Syncs for which a call was held up; those around checkpoints are not counted.
    pub syncs: u64,
}

impl DirectoryStore {
    /// Opens the store in a directory, and makes one if there is none and the options allow it. This waits for the disk: milliseconds, and
    /// seconds after a crash that left a long write-ahead log.
    pub fn open(path: impl AsRef<Path>, options: DirectoryOptions) -> Result<Self, DirectoryError> {
        Self::open_place(StoreFiles::open_or_create(path.as_ref())?, options, true)
    }

    /// The same for a store that must be there: nothing is created.
    ///
    /// # Errors
    /// See [`DirectoryError`]: [`Missing`](DirectoryError::Missing) where there is none.
    pub fn open_existing(path: impl AsRef<Path>, options: DirectoryOptions) -> Result<Self, DirectoryError> {
        Self::open_place(StoreFiles::open_existing(path.as_ref())?, options, false)
    }

    fn open_place(place: StoreFiles, options: DirectoryOptions, creates: bool) -> Result<Self, DirectoryError> {
        // Before anybody writes to it; but whether it is a store at all is reported first.
        let length = place.check_length();
        let (db, noted) = with_reserve(&place, || {
            prepare(&place, &options, creates)?;
            let db = options.open(&place.database(), false, MAKING)?;
            let noted = StoredProgress::read(&db)?;
            Ok((db, noted))
        })?;
        length?;
        place.ensure_reserve();
        let time = StoreTime::load(&db, options.clock.clone())?;
        let id = db.query_row("SELECT id FROM store", [], |row| row.get(0))?;
        if let Some(ahead) = time.too_far_ahead(noted.now) {
            return Err(DirectoryError::ClockAhead { ahead });
        }
        let shared = Arc::new(SharedState::new(options, time, place));
        let mut store = Self { shared: shared.clone(), id, threads: Vec::new(), last: Some(Mutex::new(db)) };
        let writer = WriteThread::new(shared.clone())?;
        store.start("writer", move || writer.run())?;
        for _ in 0..shared.options.readers.clamp(1, 64) {
            let reader = ReadThread::new(shared.clone())?;
            store.start("reader", move || reader.run())?;
        }
        for _ in 0..threads::sync::AT_A_TIME {
            let syncer = SyncThread::new(shared.clone())?;
            store.start("sync", move || syncer.run())?;
        }
        let checkpoints = CheckpointThread::new(shared)?;
        store.start("checkpoint", move || checkpoints.run())?;
        Ok(store)
    }

    /// The store's own name, random: two paths that lead to stores of the same name lead to the same store, or to a copy.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What it has done since it was opened.
    pub fn counters(&self) -> DirectoryCounters {
        DirectoryCounters {
            commits: self.shared.commits.load(Ordering::Relaxed),
            syncs: self.shared.syncs.load(Ordering::Relaxed),
        }
    }

    fn start(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), DirectoryError> {
        let guard = PanicGuard(self.shared.clone());
        let thread = thread::Builder::new().name(format!("keepline-{name}")).spawn(move || {
            let _guard = guard;
            run();
        });
        self.threads.push(thread.map_err(DirectoryError::unusable(&self.shared.place.directory))?);
        Ok(())
    }

    async fn send_request<T: Send + 'static>(
        &self,
        work: impl Fn(&TransactionContext<'_>) -> Result<T, TransactionError> + Send + 'static,
        writes: WriteDurability,
        frees: bool,
        deadline: Deadline,
    ) -> Result<T, Failure> {
        let limit = deadline.left().map_or(self.shared.options.timeout, |left| left.min(self.shared.options.timeout));
        let deadline = deadline.or_after(self.shared.options.timeout);
        let (reply, answer) = oneshot::channel();
        let work: RequestedWork = Box::new(move |at| Ok(Box::new(work(at)?) as WorkAnswer));
        let request = StoreRequest { work, frees, deadline, needs_disk: writes == WriteDurability::ToDisk, reply };
        let queue = if writes == WriteDurability::Nothing { &self.shared.reads } else { &self.shared.writes };
        queue.add(request).map_err(|_| store_closed())?;
        let answered = match deadline.instant() {
            Some(end) => tokio::time::timeout_at(end, answer).await.map_err(|_| timed_out(limit))?,
            None => answer.await,
        };
        let answer = answered.unwrap_or_else(|_| Err(store_closed()))?;
        answer.downcast().map(|answer| *answer).map_err(|_| other_question())
    }

    /// Have something done in a transaction of SQLite's, within the store's own time-out.
    async fn run_job<T: Send + 'static>(
        &self,
        writes: WriteDurability,
        frees: bool,
        job: impl Fn(&TransactionContext<'_>) -> Result<T, TransactionError> + Send + 'static,
    ) -> Result<T, Failure> {
        self.send_request(job, writes, frees, Deadline::NEVER).await
    }
}

/// Whether a transaction removes something and brings nothing of its own but what takes its place, or only reads.
fn frees_room(indexed: &IndexedTransaction) -> bool {
    let frees = |operation: &Operation| match operation {
        Operation::ReplaceOldest(_) => true,
        Operation::Set(set) => set.put.is_empty(),
        Operation::Append(append) => append.records.is_empty(),
        Operation::Add(_) | Operation::Rewrite(_) => false,
        Operation::Get(_)
        | Operation::GetAll(_)
        | Operation::Read(_)
        | Operation::ReadAt(_)
        | Operation::Describe(_) => true,
    };
    let step_frees = |step: &IndexStep| match step {
        IndexStep::AddDocuments(_) => false,
        IndexStep::RemoveDocuments(_) | IndexStep::Search(_) | IndexStep::ReadMarks(_) => true,
    };
    let IndexedTransaction { lease, transaction, steps } = indexed;
    lease.is_none() && transaction.operations.iter().all(frees) && steps.iter().all(step_frees)
}

/// What a call writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteDurability {
    /// As far as is known beforehand.
    Nothing,
    /// Something that no caller relies on yet.
    Something,
    /// What is on disk when it is answered.
    ToDisk,
}

/// What can't be: each work has one type of answer, and each request one answer.
fn other_question() -> Failure {
    failure(FailureCode::Other, "", "the store answered another question")
}

/// Ends the store when a thread panics.
struct PanicGuard(Arc<SharedState>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.abandon();
        }
    }
}

impl Drop for DirectoryStore {
    fn drop(&mut self) {
        // Readers hand to the writer, the writer to the others.
        self.shared.reads.close();
        self.shared.writes.close();
        self.shared.pending_acks.close();
        self.shared.checkpoints.close();
        for thread in self.threads.drain(..) {
            _ = thread.join();
        }
        self.last = None;
        // What it was opened with on a full disk, perhaps: the files that this took are gone.
        self.shared.place.ensure_reserve();
    }
}

impl fmt::Debug for DirectoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryStore")
            .field("id", &self.id)
            .field("sync", &self.shared.options.sync)
            .finish_non_exhaustive()
    }
}

/// Has the directory's database of the present version, shared with others.
fn prepare(place: &StoreFiles, options: &DirectoryOptions, creates: bool) -> Result<(), DirectoryError> {
    schema::check_library()?;
    // A process that has it open has checked its files.
    if place.try_own()? {
        if !place.has_database()? {
            if !creates {
                return Err(DirectoryError::Missing { path: place.directory.clone() });
            }
            create_database(place, options)?;
        } else if !place.check_log_matches_database()? {
            number_database(place, options)?;
        }
    }
    place.lock_shared(MAKING)?;
    // Else this one has been removed since.
    if !place.has_database()? {
        return Err(DirectoryError::Missing { path: place.directory.clone() });
    }
    let db = options.open(&place.database(), false, MAKING)?;
    // SQLite opens a file that it may not write to, and says so when it is asked to write.
    if db.is_readonly(c"main")? {
        return Err(DirectoryError::ReadOnly);
    }
    if schema::is_current(&db)? {
        return Ok(());
    }
    drop(db);
    place.unlock()?;
    place.lock_exclusive(MAKING, "it can't be brought to this release's version")?;
    // Its number changes.
    place.forget_number()?;
    let mut db = options.open(&place.database(), false, MAKING)?;
    if !schema::is_current(&db)? {
        schema::create_or_migrate(&mut db)?;
    }
    drop(db);
    place.lock_shared(MAKING)
}

/// Makes the database of a directory that has none and is held alone: under another name, so that half of it is never
/// found.
fn create_database(place: &StoreFiles, options: &DirectoryOptions) -> Result<(), DirectoryError> {
    let mut db = options.open(&place.begin_partial()?, true, MAKING)?;
    schema::create_or_migrate(&mut db)?;
    schema::assign_random_number(&db)?;
    drop(db);
    place.finish_partial()
}

/// Gives a number of its own to the database of an earlier release, which is held alone and has no log.
fn number_database(place: &StoreFiles, options: &DirectoryOptions) -> Result<(), DirectoryError> {
    let db = options.open(&place.database(), false, MAKING)?;
    if db.is_readonly(c"main")? || !schema::is_current(&db)? {
        return Ok(());
    }
    place.check_length()?;
    schema::assign_random_number(&db)?;
    drop(db);
    // Until all of it is in the file, its number there is the old one.
    if place.has_log() { Ok(()) } else { place.note_number() }
}

#[async_trait]
impl Store for DirectoryStore {
    async fn transact(
        &self,
        writer: &Writer,
        transaction: &IndexedTransaction,
        deadline: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        checks::validate_transaction(transaction, &capability::ALL)?;
        let writes = if may_write(transaction) { WriteDurability::ToDisk } else { WriteDurability::Nothing };
        let frees = frees_room(transaction);
        let memory = rows::writers::writer_memory_ms(deadline);
        let (writer, transaction) = (writer.clone(), transaction.clone());
        let apply = move |at: &TransactionContext<'_>| at.apply_transaction(&writer, memory, &transaction);
        self.send_request(apply, writes, frees, deadline).await
    }

    async fn list_buckets(
        &self,
        kind: &str,
        cursor: &str,
        limit: u32,
        deadline: Deadline,
    ) -> Result<BucketPage, Failure> {
        check_kind(kind)?;
        let (kind, cursor) = (kind.to_owned(), cursor.to_owned());
        let list = move |at: &TransactionContext<'_>| Ok(at.list(&kind, &cursor, limit)?);
        self.send_request(list, WriteDurability::Nothing, false, deadline).await
    }

    async fn delete(&self, writer: &Writer, request: &DeleteRequest, deadline: Deadline) -> Result<Deletion, Failure> {
        let mut deleted = self.delete_each(writer, std::slice::from_ref(request), deadline).await;
        deleted.pop().unwrap_or_else(|| Err(other_question()))
    }

    /// In one commit, for which all wait together.
    async fn delete_each(
        &self,
        writer: &Writer,
        requests: &[DeleteRequest],
        deadline: Deadline,
    ) -> Vec<Result<Deletion, Failure>> {
        if let Err(failure) = checks::validate_deletions(requests) {
            return vec![Err(failure); requests.len()];
        }
        let memory = rows::writers::writer_memory_ms(deadline);
        let (writer, all) = (writer.clone(), requests.to_vec());
        let delete = move |at: &TransactionContext<'_>| at.delete_each(&writer, memory, &all);
        let deleted = self.send_request(delete, WriteDurability::ToDisk, true, deadline).await;
        deleted.unwrap_or_else(|failure| vec![Err(failure); requests.len()])
    }

    fn about(&self) -> StoreInfo {
        StoreInfo::new(&capability::ALL)
    }

    async fn check(&self) -> Result<(), Failure> {
        if self.shared.is_broken() {
            return Err(threads::shared::store_broken());
        }
        self.list_buckets(kind::SESSION, "", 1, Deadline::NEVER).await.map(|_| ())
    }
}
