//! Checks, copies, compacts and repairs a store in a directory. All but repairing runs beside the processes that use it. These
//! functions block on the disk, and are for threads of their own.

use std::{path::Path, thread, time::Duration};

use rusqlite::{
    Connection,
    backup::{Backup, StepResult},
    wal::CheckpointMode,
};

use super::{
    DirectoryError, DirectoryOptions, MAKING, StoreFiles,
    connection::{PAGE_BYTES, roll_back},
    error::TransactionError,
    files::reserve::with_reserve,
    schema,
    threads::sweep::Sweeper,
    time::{StoreTime, StoredProgress, forget_watch, from_column},
};

/// Pages copied or given back at one go.
const PAGES: i32 = 256;
/// Problems that are named.
const MOST_PROBLEMS: usize = 100;

/// What there is in a store, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// In words, at most a hundred; none: it is whole.
    pub problems: Vec<String>,
    /// Buckets of all kinds, those that have expired and are not cleared away yet among them.
    pub buckets: u64,
    /// Bytes of the database, its empty pages among them.
    pub bytes: u64,
    /// Bytes of its empty pages.
    pub free_bytes: u64,
}

/// What was mended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// By how much the store's time was set back to the machine's clock, if it was ahead.
    pub clock_set_back: Option<Duration>,
    /// Maps whose number of entries was wrong, and indexes whose number of documents or terms was.
    pub recounted: u64,
    /// Rows that belonged to nothing.
    pub removed: u64,
    /// Values that were longer than any may be, and are removed, and such records of logs, whose texts are removed: no call
    /// could read them, and each look-up of a neighbouring key had to read past them.
    pub too_long: u64,
}

/// Rows that must not be there.
struct Fault {
    what: &'static str,
    table: &'static str,
    /// The column that names such a row.
    column: &'static str,
    condition: &'static str,
    remedy: Remedy,
}

/// How [`repair`] ends a [`Fault`].
enum Remedy {
    /// By removing the row, which belongs to nothing.
    RemoveOrphan,
    /// By removing the row, whose text is too long for any call.
    RemoveLong,
    /// By removing the text: a record's position counts, and readers are given an empty text for one that is too long.
    Empty,
    /// Not row by row: maps and indexes are counted again as a whole, the rest can't be repaired.
    None,
}

impl Fault {
    /// A map, log or index whose size is not the noted one.
    const fn miscounted(what: &'static str, condition: &'static str) -> Self {
        Self { what, table: "part", column: "name", condition, remedy: Remedy::None }
    }

    const fn orphan(what: &'static str, table: &'static str, column: &'static str, condition: &'static str) -> Self {
        Self { what, table, column, condition, remedy: Remedy::RemoveOrphan }
    }

    const fn unknown_number(table: &'static str, column: &'static str, condition: &'static str) -> Self {
        let what = "a number was given that the store does not know of";
        Self { what, table, column, condition, remedy: Remedy::None }
    }
}

const WITHOUT_BUCKET: &str = "life NOT IN (SELECT life FROM bucket)";

const FAULTS: [Fault; 14] = [
    Fault::miscounted(
        "a map has another number of entries than noted",
        "form = 0 AND length <> (SELECT count(*) FROM entry WHERE map = part.id)",
    ),
    Fault::miscounted(
        "a log has other records than noted",
        "form = 1 AND length <> (SELECT count(*) FROM record
         WHERE log = part.id AND position >= part.first AND position < part.first + part.length)",
    ),
    Fault::miscounted(
        "an index has other documents than noted",
        "form = 2 AND length <> (SELECT coalesce(sum(octet_length(bytes)), 0) / 4.0 FROM segment
         WHERE idx = part.id AND place % 512 = 0)",
    ),
    Fault::miscounted(
        "an index has other terms than noted",
        "form = 2 AND terms <> (SELECT coalesce(sum(octet_length(bytes)), 0) / 3.0 FROM segment
         WHERE idx = part.id AND place % 512 > 0)",
    ),
    Fault::orphan("a part belongs to no bucket", "part", "name", WITHOUT_BUCKET),
    Fault::orphan("a lease belongs to no bucket", "lease", "name", WITHOUT_BUCKET),
    Fault::orphan("a field belongs to no bucket", "field", "name", WITHOUT_BUCKET),
    Fault::orphan(
        "an entry belongs to no map",
        "entry",
        "key",
        "map NOT IN (SELECT id FROM part WHERE form = 0 UNION ALL SELECT id FROM dead)",
    ),
    Fault::orphan(
        "a record belongs to no log",
        "record",
        "log",
        "log NOT IN (SELECT id FROM part WHERE form = 1 UNION ALL SELECT id FROM dead)",
    ),
    Fault::orphan(
        "a segment belongs to no index",
        "segment",
        "idx",
        "idx NOT IN (SELECT id FROM part WHERE form = 2 UNION ALL SELECT id FROM dead)",
    ),
    // As in `limits`. Another program wrote it; it can also be replaced or removed by its key.
    Fault {
        what: "an entry is longer than any may be",
        table: "entry",
        column: "key",
        condition: "octet_length(text) > 8388608",
        remedy: Remedy::RemoveLong,
    },
    Fault {
        what: "a record is longer than any may be",
        table: "record",
        column: "position",
        condition: "octet_length(text) > 2097152",
        remedy: Remedy::Empty,
    },
    Fault::unknown_number("bucket", "life", "life > (SELECT stamp FROM store)"),
    Fault::unknown_number("part", "id", "id > (SELECT stamp FROM store)"),
];

/// Looks at everything that a store holds, and changes neither the database nor its log. Cost: linear in that.
///
/// # Errors
/// See [`DirectoryError`]; what is found in a database that can be read is no error.
pub fn check(path: impl AsRef<Path>, options: &DirectoryOptions) -> Result<CheckReport, DirectoryError> {
    let place = StoreFiles::open_existing(path.as_ref())?;
    share(&place)?;
    let length = place.check_length();
    // Where there is a log, closing the store would write it into the database.
    let db = with_reserve(&place, || {
        let db = options.open_to_look(&place.database(), MAKING, place.has_log())?;
        ensure_current_schema(&db)?;
        Ok(db)
    })?;
    length?;
    let mut problems: Vec<String> = {
        let mut check = db.prepare(&format!("PRAGMA integrity_check({MOST_PROBLEMS})"))?;
        let told = check.query_map([], |row| row.get(0))?;
        told.collect::<Result<_, _>>()?
    };
    problems.retain(|problem| problem != "ok");
    for Fault { what, table, column, condition, .. } in FAULTS {
        let mut found = db.prepare(&format!("SELECT {column} FROM {table} WHERE {condition}"))?;
        let mut rows = found.query([])?;
        while problems.len() < MOST_PROBLEMS
            && let Some(row) = rows.next()?
        {
            let name = row.get_ref(0)?;
            let name = name.as_str().map_or_else(|_| format!("{name:?}"), str::to_owned);
            problems.push(format!("{what}: {name}"));
        }
    }
    let pages = |name: &str| db.pragma_query_value(None, name, |row| row.get(0)).map(from_column);
    Ok(CheckReport {
        problems,
        buckets: db
            .query_row("SELECT count(*) FROM bucket WHERE kind NOT LIKE 'arriving:%'", [], |row| row.get(0))
            .map(from_column)?,
        bytes: pages("page_count")?.saturating_mul(PAGE_BYTES),
        free_bytes: pages("freelist_count")?.saturating_mul(PAGE_BYTES),
    })
}

/// Erases what was deleted or has expired, and gives empty pages and the write-ahead log back to the disk, in small steps
/// beside other users of the store: if there are none, nothing that was deleted is left in its files. `progress` is called with how many
/// pages are done, and how many there are to do. Returns how many bytes the database became smaller by.
pub fn compact(
    path: impl AsRef<Path>,
    options: &DirectoryOptions,
    mut progress: impl FnMut(u64, u64),
) -> Result<u64, DirectoryError> {
    let (place, db) = open_shared(path.as_ref(), options)?;
    let (time, mut sweep) = (StoreTime::load(&db, options.clock.clone())?, Sweeper::new());
    while sweep.is_busy() {
        let knows_time = with_room(&place, &db, || match sweep.run_step(&time, &db, true) {
            Ok(()) => Ok(true),
            Err(TransactionError::Database(error)) => Err(error.into()),
            // A clock that is behind: what has expired is not known.
            Err(TransactionError::Refused(_) | TransactionError::NeedsWriter) => Ok(false),
        })?;
        if !knows_time {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    let free = |db: &Connection| db.pragma_query_value(None, "freelist_count", |row| row.get(0)).map(from_column);
    let all = free(&db)?;
    let mut left = all;
    while left > 0 {
        with_room(&place, &db, || Ok(give_back(&db, i64::from(PAGES))?))?;
        let now = free(&db)?;
        if now >= left {
            break;
        }
        left = now;
        progress(all.saturating_sub(left), all);
        // Others get the lock in between.
        thread::sleep(Duration::from_millis(1));
    }
    with_room(&place, &db, || Ok(db.wal_checkpoint_v2(Some(c"main"), CheckpointMode::TRUNCATE)?))?;
    drop(db);
    place.ensure_reserve();
    Ok(all.saturating_sub(left).saturating_mul(PAGE_BYTES))
}

/// Does work that frees room in the end. On a full disk that takes the log, once all of it is in the database, and the
/// reserve.
fn with_room<T>(
    place: &StoreFiles,
    db: &Connection,
    mut work: impl FnMut() -> Result<T, DirectoryError>,
) -> Result<T, DirectoryError> {
    let mut is_full = false;
    loop {
        match work() {
            Err(DirectoryError::Full) if !is_full || place.give_reserve() => {
                is_full = true;
                roll_back(db);
                _ = db.wal_checkpoint_v2(Some(c"main"), CheckpointMode::TRUNCATE);
            }
            done => return done,
        }
    }
}

/// Gives so many empty pages back to the disk.
pub(super) fn give_back(db: &Connection, pages: i64) -> Result<(), rusqlite::Error> {
    let mut vacuum = db.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = vacuum.query([])?;
    // A page with each row.
    while rows.next()?.is_some() {}
    Ok(())
}

/// Copies a store as it is at this moment to an empty directory, while it is used. `progress` is called with how many pages are
/// copied, and how many there are. The copy is there when it is whole, and not before. Returns its bytes.
///
/// Meanwhile the write-ahead log keeps all that is written.
pub fn backup(
    path: impl AsRef<Path>,
    target: impl AsRef<Path>,
    options: &DirectoryOptions,
    mut progress: impl FnMut(u64, u64),
) -> Result<u64, DirectoryError> {
    let (_place, db) = open_shared(path.as_ref(), options)?;
    let target = StoreFiles::open_or_create(target.as_ref())?;
    // SQLite would write what lies beside a database into the copy.
    let is_occupied = || target.database().exists() || target.has_leftovers();
    let occupied = || DirectoryError::Occupied { path: target.directory.clone() };
    // Before waiting for the lock, which a store that is open there would never release; and after it, for one may just
    // have been made.
    if is_occupied() {
        return Err(occupied());
    }
    target.lock_exclusive(MAKING, "a backup can't be made there")?;
    if is_occupied() {
        return Err(occupied());
    }
    copy(&db, &target, options, &mut progress)
}

/// Puts a backup in the place of the store in a directory, if there is one: that one is gone then, whatever state it was in.
/// The backup stays as it is. `progress` is called with how many pages are copied, and how many there are. Returns the bytes of
/// the store.
///
/// # Errors
/// See [`DirectoryError`]: [`InUse`](DirectoryError::InUse) while somebody has the directory open.
pub fn restore(
    backup: impl AsRef<Path>,
    path: impl AsRef<Path>,
    options: &DirectoryOptions,
    mut progress: impl FnMut(u64, u64),
) -> Result<u64, DirectoryError> {
    let (_backup, db) = open_shared(backup.as_ref(), options)?;
    let target = StoreFiles::open_or_create(path.as_ref())?;
    target.lock_exclusive(Duration::ZERO, "a backup can't be restored there")?;
    copy(&db, &target, options, &mut progress)
}

/// Makes a copy of a store that of a directory, which is held alone.
fn copy(
    db: &Connection,
    target: &StoreFiles,
    options: &DirectoryOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<u64, DirectoryError> {
    let mut copy = options.open(&target.begin_partial()?, true, MAKING)?;
    // One state of the store for all steps: else each write of others would start the copy again.
    db.execute_batch("BEGIN")?;
    StoredProgress::read(db)?;
    let steps = Backup::new(db, &mut copy)?;
    loop {
        let step = steps.step(PAGES)?;
        let (all, left) = (steps.progress().pagecount, steps.progress().remaining);
        progress(from_column((all - left).into()), from_column(all.into()));
        match step {
            StepResult::Done => break,
            StepResult::More => {}
            _ => thread::sleep(Duration::from_millis(5)),
        }
    }
    let bytes = from_column(steps.progress().pagecount.into()).saturating_mul(PAGE_BYTES);
    drop(steps);
    db.execute_batch("COMMIT")?;
    let state: String = copy.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if state != "ok" {
        return Err(DirectoryError::Damaged { detail: state });
    }
    schema::assign_random_number(&copy)?;
    drop(copy);
    target.finish_partial()?;
    Ok(bytes)
}

/// Repairs what can be repaired without losing anything that could be read: a time in the future, wrong counts, rows that
/// belong to nothing, texts that are too long for any call, indexes. The store must not be open anywhere else.
///
/// # Errors
/// See [`DirectoryError`]: [`InUse`](DirectoryError::InUse) while somebody has it open.
pub fn repair(path: impl AsRef<Path>, options: &DirectoryOptions) -> Result<RepairReport, DirectoryError> {
    let place = StoreFiles::open_existing(path.as_ref())?;
    place.lock_exclusive(Duration::ZERO, "it can't be repaired")?;
    place.has_database()?;
    place.check_log_matches_database()?;
    let repaired = with_reserve(&place, || {
        let mut db = open_current(&place, options)?;
        repair_database(&mut db, options)
    });
    place.ensure_reserve();
    repaired
}

fn repair_database(db: &mut Connection, options: &DirectoryOptions) -> Result<RepairReport, DirectoryError> {
    db.execute_batch("REINDEX")?;
    let mut repaired = RepairReport::default();
    let transaction = db.transaction()?;
    // A repair takes the clock as right.
    forget_watch(&transaction)?;
    let (noted, clock) =
        (StoredProgress::read(&transaction)?, StoreTime::load(&transaction, options.clock.clone())?.clock_ms());
    if noted.now > clock {
        repaired.clock_set_back = Some(Duration::from_millis(noted.now - clock));
        StoredProgress { now: clock, ..noted }.write(&transaction)?;
    }
    for Fault { table, condition, remedy, .. } in FAULTS {
        let (repair, count) = match remedy {
            Remedy::None => continue,
            Remedy::RemoveOrphan => (format!("DELETE FROM {table}"), &mut repaired.removed),
            Remedy::RemoveLong => (format!("DELETE FROM {table}"), &mut repaired.too_long),
            Remedy::Empty => (format!("UPDATE {table} SET text = ''"), &mut repaired.too_long),
        };
        *count += transaction.execute(&format!("{repair} WHERE {condition}"), [])? as u64;
    }
    let recounted = transaction.execute(
        "UPDATE part SET length = (SELECT count(*) FROM entry WHERE map = part.id)
         WHERE form = 0 AND length <> (SELECT count(*) FROM entry WHERE map = part.id)",
        [],
    )?;
    transaction.execute("DELETE FROM part WHERE form = 0 AND length = 0", [])?;
    let counted =
        "(SELECT coalesce(sum(octet_length(bytes)), 0) / 4 FROM segment WHERE idx = part.id AND place % 512 = 0),
         (SELECT coalesce(sum(octet_length(bytes)), 0) / 3 FROM segment WHERE idx = part.id AND place % 512 > 0)";
    let recount =
        format!("UPDATE part SET (length, terms) = ({counted}) WHERE form = 2 AND (length, terms) <> ({counted})");
    repaired.recounted = (recounted + transaction.execute(&recount, [])?) as u64;
    transaction.commit()?;
    Ok(repaired)
}

/// Opens an existing store, beside its other users.
fn open_shared(path: &Path, options: &DirectoryOptions) -> Result<(StoreFiles, Connection), DirectoryError> {
    let place = StoreFiles::open_existing(path)?;
    share(&place)?;
    let db = with_reserve(&place, || open_current(&place, options))?;
    Ok((place, db))
}

fn open_current(place: &StoreFiles, options: &DirectoryOptions) -> Result<Connection, DirectoryError> {
    let db = options.open(&place.database(), false, MAKING)?;
    ensure_current_schema(&db)?;
    Ok(db)
}

/// Holds a store together with others, after its files were looked at unless somebody else has it open.
fn share(place: &StoreFiles) -> Result<(), DirectoryError> {
    if place.try_own()? {
        place.check_log_matches_database()?;
    }
    place.lock_shared(MAKING)?;
    match place.has_database()? {
        true => Ok(()),
        false => Err(DirectoryError::Missing { path: place.directory.clone() }),
    }
}

/// Refuses an earlier version: the next open migrates it.
fn ensure_current_schema(db: &Connection) -> Result<(), DirectoryError> {
    if schema::is_current(db)? { Ok(()) } else { Err(DirectoryError::Foreign) }
}
