//! A temporary store for sessions that are being imported.
//!
//! Nothing of a session reaches the target before all of it has been read and checked. The store is a directory, so a
//! session may be large; only its owner can read it. What a killed process leaves there is removed by the next import to
//! the same place.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use keepline::store::{
    BucketId, Deadline, DeleteRequest, DirectoryOptions, DirectoryStore, DirectorySync, Failure, FailureCode, Store,
    TransferStore, Writer,
    names::VALUES,
    transfer::{BucketHead, IncomingBucket, KeyedPart, PieceOutcome, ReplaceCondition, TransferPiece},
};

use crate::{private_folder::PrivateFolder, schema::LineCounts};

/// The time-out of a store that sessions are copied from or to: no entry waits for it.
pub const TRANSFER_TIMEOUT: Duration = Duration::from_secs(30);
/// Approximate size of a piece of a staged bucket.
const PIECE_BYTES: usize = 1 << 20;
const PIECE_COUNT: usize = 500;

/// A store for sessions on their way in, which is removed when it is dropped.
#[derive(Debug)]
pub struct StagingStore {
    store: Arc<DirectoryStore>,
    _folder: PrivateFolder,
}

impl StagingStore {
    /// A new one in the first of these folders where one can be made, or else among the system's temporary files.
    ///
    /// # Errors
    /// When it can't be made anywhere.
    pub fn new(places: &[PathBuf]) -> Result<Self> {
        let folder = PrivateFolder::create_in_any(places).context("can't make a folder for what is imported")?;
        let options =
            DirectoryOptions { sync: DirectorySync::Off, timeout: TRANSFER_TIMEOUT, ..DirectoryOptions::default() };
        let store = DirectoryStore::open(folder.path(), options)
            .with_context(|| format!("can't stage sessions in {}", folder.path().display()))?;
        Ok(Self { store: Arc::new(store), _folder: folder })
    }

    /// The store itself.
    pub fn store(&self) -> &Arc<DirectoryStore> {
        &self.store
    }

    /// Removes a bucket that was delivered or left out.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn remove_bucket(&self, bucket: &BucketId) -> Result<(), Failure> {
        let request = DeleteRequest { bucket: bucket.clone(), generation: None, max_keys: 0 };
        self.store.delete(Writer::new().advance(), &request, Deadline::NEVER).await.map(drop)
    }
}

/// A bucket on its way into the staging store.
#[derive(Debug)]
pub struct StagedBucket {
    store: Arc<DirectoryStore>,
    bucket: BucketId,
    head: BucketHead,
    id: String,
    counts: LineCounts,
    /// Number of records of each log.
    lengths: HashMap<String, u64>,
    held: BufferedItems,
    bytes: usize,
}

/// Entries or records that are not written yet.
#[derive(Debug)]
enum BufferedItems {
    Nothing,
    Entries { map: String, entries: Vec<(String, String)> },
    Records { log: String, before: u64, records: Vec<Vec<u8>> },
}

impl StagedBucket {
    /// A bucket without contents, in the place of one that is staged already.
    ///
    /// # Errors
    /// When the staging store can't hold it.
    pub async fn begin(staging: &StagingStore, kind: &str, name: &str, head: BucketHead) -> Result<Self, Failure> {
        let arriving = Self {
            store: staging.store.clone(),
            bucket: BucketId::new(kind, name),
            head,
            id: format!("{:016x}", fastrand::u64(..)),
            counts: LineCounts::default(),
            lengths: HashMap::new(),
            held: BufferedItems::Nothing,
            bytes: 0,
        };
        arriving.send_piece(TransferPiece::Begin { overwrite: true }).await?;
        Ok(arriving)
    }

    async fn send_piece(&self, piece: TransferPiece<'_>) -> Result<(), Failure> {
        let incoming = IncomingBucket { bucket: &self.bucket, head: &self.head, id: &self.id };
        match self.store.import(incoming, piece).await? {
            PieceOutcome::Yes => Ok(()),
            _ => Err(Failure::new(FailureCode::Other, "", "another process writes to this import's staging store")),
        }
    }

    /// Which bucket it is.
    pub fn bucket(&self) -> &BucketId {
        &self.bucket
    }

    /// What was added so far.
    pub fn counts(&self) -> LineCounts {
        self.counts
    }

    /// Whether the header names this map.
    pub fn has_map(&self, map: &str) -> bool {
        self.head.maps.iter().any(|(name, _)| name == map.as_bytes())
    }

    /// Adds an entry of a map, or a value.
    ///
    /// # Errors
    /// When the staging store can't hold it.
    pub async fn add_entry(&mut self, map: &str, key: &str, text: &str) -> Result<(), Failure> {
        *(if map == VALUES { &mut self.counts.values } else { &mut self.counts.entries }) += 1;
        if !matches!(&self.held, BufferedItems::Entries { map: held, .. } if held == map) {
            self.flush().await?;
        }
        self.bytes += key.len() + text.len();
        let entry = (key.to_owned(), text.to_owned());
        match &mut self.held {
            BufferedItems::Entries { entries, .. } => entries.push(entry),
            held => *held = BufferedItems::Entries { map: map.to_owned(), entries: vec![entry] },
        }
        self.flush_if_full().await
    }

    /// The position that the next record of a log must have. `None`: the header does not name the log.
    pub fn next_position(&self, log: &str) -> Option<u64> {
        self.head.logs.iter().find(|(name, _)| name == log.as_bytes())?;
        let field = self.head.fields.iter().find(|(name, _)| name.strip_prefix(b"log:") == Some(log.as_bytes()));
        let first = field.and_then(|(_, first)| std::str::from_utf8(first).ok()?.parse::<u64>().ok()).unwrap_or(0);
        Some(first + self.lengths.get(log).copied().unwrap_or_default())
    }

    /// Adds a record to the end of a log.
    ///
    /// # Errors
    /// When the staging store can't hold it.
    pub async fn add_record(&mut self, log: &str, text: &str) -> Result<(), Failure> {
        self.counts.records += 1;
        if !matches!(&self.held, BufferedItems::Records { log: held, .. } if held == log) {
            self.flush().await?;
        }
        self.bytes += text.len();
        let length = self.lengths.entry(log.to_owned()).or_default();
        let before = *length;
        *length += 1;
        let record = text.as_bytes().to_vec();
        match &mut self.held {
            BufferedItems::Records { records, .. } => records.push(record),
            held => *held = BufferedItems::Records { log: log.to_owned(), before, records: vec![record] },
        }
        self.flush_if_full().await
    }

    async fn flush_if_full(&mut self) -> Result<(), Failure> {
        let count = match &self.held {
            BufferedItems::Nothing => 0,
            BufferedItems::Entries { entries, .. } => entries.len(),
            BufferedItems::Records { records, .. } => records.len(),
        };
        if count >= PIECE_COUNT || self.bytes >= PIECE_BYTES { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), Failure> {
        self.bytes = 0;
        match std::mem::replace(&mut self.held, BufferedItems::Nothing) {
            BufferedItems::Nothing => Ok(()),
            BufferedItems::Entries { map, entries } => {
                let entries: Vec<_> = entries.iter().map(|(key, text)| (key.as_bytes(), text.as_bytes())).collect();
                self.send_piece(TransferPiece::Entries { of: KeyedPart::Map(map.as_bytes()), entries: &entries }).await
            }
            BufferedItems::Records { log, before, records } => {
                self.send_piece(TransferPiece::Records { log: log.as_bytes(), before, records: &records }).await
            }
        }
    }

    /// Completes the bucket. Returns the number of entries and values, which is smaller than the count if a key came twice.
    /// `None`: it has expired.
    ///
    /// # Errors
    /// When the staging store can't hold it.
    pub async fn finish_staging(mut self) -> Result<Option<u64>, Failure> {
        self.flush().await?;
        self.send_piece(TransferPiece::End { replaces: &ReplaceCondition::Anything }).await?;
        let head = self.store.head(&self.bucket).await?;
        Ok(head.map(|head| head.maps.iter().map(|(_, keys)| keys.len() as u64).sum()))
    }
}
