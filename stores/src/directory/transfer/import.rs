//! Imports a bucket from another store, piece by piece. Until it is complete, its rows belong to a hidden bucket, of a kind
//! that no call may name. That one expires unless pieces keep coming, and is swept like any other, so that a transfer that
//! was killed leaves nothing for good.
//!
//! Refuses what a directory can't hold: bytes that are no text, and names that no call may have.

use std::collections::BTreeMap;

use rusqlite::params;

use crate::{
    BucketId, Entry, Failure, FailureCode,
    bucket::{Expiry, format_generation},
    directory::{
        DirectoryStore, WriteDurability,
        error::TransactionError,
        rows::{
            BucketRows, PartKind, PartState,
            buckets::BucketRow,
            writers::{MARGIN_MS, MEMORY_MS},
        },
        time::{TransactionContext, to_column},
    },
    failure,
    index::segments::IndexField,
    names::{VALUES, check_key, check_part, is_part, is_token},
    transfer::{
        BucketHead, IncomingBucket, KeyedPart, PieceOutcome, ReplaceCondition, TransferPiece, WriterStamp, metadata,
    },
};

/// How the kind of a hidden bucket begins, before that of the bucket that arrives. A colon is in no kind of a call.
const ARRIVING: &str = "arriving:";
/// For how long the next piece is waited for, in milliseconds.
const WAIT_MS: u64 = 10 * 60 * 1000;

/// A bucket on its way in, and what is known of it.
struct Arriving {
    bucket: BucketId,
    /// What its rows belong to until it is there.
    hidden: BucketId,
    id: String,
}

type PieceJob = Box<dyn Fn(&TransactionContext<'_>) -> Result<PieceOutcome, TransactionError> + Send>;

/// A [`BucketHead`] as text.
struct TextHead {
    expires_at: Option<u64>,
    fields: BTreeMap<String, String>,
    logs: Vec<String>,
}

impl DirectoryStore {
    pub(crate) async fn import_piece(
        &self,
        incoming: IncomingBucket<'_>,
        piece: TransferPiece<'_>,
    ) -> Result<PieceOutcome, Failure> {
        let IncomingBucket { bucket, head, id } = incoming;
        let hidden = BucketId { kind: format!("{ARRIVING}{}", bucket.kind), name: bucket.name.clone() };
        let arriving = Arriving { bucket: bucket.clone(), hidden, id: id.to_owned() };
        let (writes, frees) = match piece {
            TransferPiece::End { .. } => (WriteDurability::ToDisk, false),
            TransferPiece::Abandon => (WriteDurability::Something, true),
            _ => (WriteDurability::Something, false),
        };
        let job: PieceJob = match piece {
            TransferPiece::Begin { overwrite } => {
                let known = TextHead::from_head(head)?;
                Box::new(move |at| at.begin_arrival(&arriving, &known, overwrite))
            }
            TransferPiece::Entries { of: KeyedPart::Index(index), entries } => {
                let index = checked_part_name("index", index)?;
                let field = |(name, bytes): &(&[u8], &[u8])| {
                    let name = name_text("field of an index", name)?;
                    let field = IndexField::from_name(&name).ok_or_else(|| no_field(&index, &name))?;
                    Ok::<_, Failure>((field, bytes.to_vec()))
                };
                let fields = entries.iter().map(field).collect::<Result<Vec<_>, _>>()?;
                Box::new(move |at| {
                    at.add_to_arrival(&arriving, |rows| {
                        fields.iter().try_for_each(|(field, bytes)| rows.put_field(&index, *field, bytes))?;
                        Ok(PieceOutcome::Yes)
                    })
                })
            }
            TransferPiece::Entries { of: KeyedPart::Map(map), entries } => {
                let map = checked_part_name("map", map)?;
                let entry = |(key, value): &(&[u8], &[u8])| {
                    let key = name_text("key", key)?;
                    check_key(&map, &key)?;
                    let text = text_of(value).ok_or_else(|| no_text(format!("the value of {key}")))?;
                    Ok::<_, Failure>(Entry { key, text })
                };
                let entries = entries.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
                Box::new(move |at| {
                    at.add_to_arrival(&arriving, |rows| {
                        rows.put_entries(&map, &entries)?;
                        Ok(PieceOutcome::Yes)
                    })
                })
            }
            TransferPiece::Records { log, before, records } => {
                let log = checked_part_name("log", log)?;
                let record =
                    |record: &Vec<u8>| text_of(record).ok_or_else(|| no_text(format!("a record of the log {log}")));
                let records = records.iter().map(record).collect::<Result<Vec<_>, _>>()?;
                Box::new(move |at| {
                    at.add_to_arrival(&arriving, |rows| {
                        let length = rows.load_part(PartKind::Log, &log)?.length;
                        if length == before {
                            rows.append_records(&log, &records)?;
                        } else if length != before.saturating_add(records.len() as u64) {
                            // Else it is a piece whose answer was lost.
                            return Ok(PieceOutcome::Displaced);
                        }
                        Ok(PieceOutcome::Yes)
                    })
                })
            }
            TransferPiece::Stamps(stamps) => {
                let stamps = stamps.to_vec();
                Box::new(move |at| at.add_stamps(&arriving, &stamps))
            }
            TransferPiece::End { replaces } => {
                let known = TextHead::from_head(head)?;
                let replaces = replaces.clone();
                Box::new(move |at| at.end_arrival(&arriving, &known, &replaces))
            }
            TransferPiece::Abandon => Box::new(move |at| at.abandon_arrival(&arriving)),
        };
        self.run_job(writes, frees, job).await
    }
}

impl TextHead {
    fn from_head(head: &BucketHead) -> Result<Self, Failure> {
        let mut fields = BTreeMap::new();
        for (name, value) in &head.fields {
            let name = name_text("field of the metadata", name)?;
            let value = text_of(value).ok_or_else(|| no_text(format!("the field {name} of the metadata")))?;
            fields.insert(name, value);
        }
        let logs = head.logs.iter().map(|(log, _)| checked_part_name("log", log)).collect::<Result<_, _>>()?;
        Ok(Self { expires_at: head.expires_at, fields, logs })
    }

    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// Parts of a kind that the metadata names. A name that no part can have is somebody else's.
    fn named_parts<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let named = self.fields.iter().filter_map(move |(field, value)| Some((field.strip_prefix(kind)?, &**value)));
        named.filter(|(name, _)| is_part(name))
    }
}

fn text_of(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

fn name_text(what: &str, name: &[u8]) -> Result<String, Failure> {
    text_of(name).ok_or_else(|| no_text(format!("the name of a {what}, {:?},", String::from_utf8_lossy(name))))
}

/// The name of a map or a log that has something in it.
fn checked_part_name(what: &str, name: &[u8]) -> Result<String, Failure> {
    let name = name_text(what, name)?;
    if name != VALUES {
        check_part(what, &name)?;
    }
    Ok(name)
}

fn no_field(index: &str, name: &str) -> Failure {
    let message = format!("the index {index} has a field that is none of an index: {name:?}");
    failure(FailureCode::Invalid, index, message)
}

fn no_text(what: String) -> Failure {
    failure(FailureCode::Invalid, "", format!("{what} is not UTF-8, and a directory holds only text"))
}

impl TransactionContext<'_> {
    fn begin_arrival(
        &self,
        arriving: &Arriving,
        known: &TextHead,
        overwrite: bool,
    ) -> Result<PieceOutcome, TransactionError> {
        if !overwrite && self.find_living_bucket(&arriving.bucket)?.is_some() {
            return Ok(PieceOutcome::Exists);
        }
        // Whatever one that was broken off left.
        if let Some(left) = self.find_row(&arriving.hidden)? {
            self.retire_bucket(&arriving.hidden, left.stamp)?;
        }
        let life = BucketRow { stamp: self.next_stamp(), generation: arriving.id.clone(), expiry: self.end_of_wait() };
        self.settle(&arriving.hidden, &life)?;
        let rows = BucketRows::new(self, &life);
        // The original's log has no name, and begins at 0.
        let unnamed = known.logs.iter().map(|log| (log.as_str(), "0"));
        for (log, first) in unnamed.chain(known.named_parts("log:")) {
            let id = rows.load_part(PartKind::Log, log)?.id.unwrap_or_else(|| to_column(self.next_stamp()));
            let first = first.parse().unwrap_or_default();
            rows.set_part(PartKind::Log, log, PartState { id: Some(id), first, ..PartState::default() });
        }
        for (index, stands) in known.named_parts("index:") {
            // What others wrote there is no index. The rest is counted as it arrives.
            let numbers: Option<Vec<u64>> = stands.split(' ').map(|number| number.parse().ok()).collect();
            if let Some([first, _, _]) = numbers.as_deref() {
                rows.load_part(PartKind::Index, index)?;
                let id = Some(to_column(self.next_stamp()));
                rows.set_part(PartKind::Index, index, PartState { id, first: *first, ..PartState::default() });
            }
        }
        rows.flush()?;
        let mut lease = self.db.prepare_cached("INSERT INTO lease VALUES (?1, ?2, ?3, ?4)")?;
        for (name, value) in known.named_parts("lease:") {
            let Some((ends_at, holder)) = value.split_once(' ') else { continue };
            if let Ok(ends_at) = ends_at.parse::<u64>()
                && is_token(holder)
            {
                lease.execute(params![to_column(life.stamp), name, holder, to_column(ends_at)])?;
            }
        }
        Ok(PieceOutcome::Yes)
    }

    fn add_to_arrival(
        &self,
        arriving: &Arriving,
        add: impl FnOnce(&BucketRows<'_, '_>) -> Result<PieceOutcome, rusqlite::Error>,
    ) -> Result<PieceOutcome, TransactionError> {
        let Some(life) = self.renew_arrival(arriving)? else { return Ok(PieceOutcome::Displaced) };
        let rows = BucketRows::new(self, &life);
        let outcome = add(&rows)?;
        rows.flush()?;
        Ok(outcome)
    }

    fn add_stamps(&self, arriving: &Arriving, stamps: &[WriterStamp]) -> Result<PieceOutcome, TransactionError> {
        if self.renew_arrival(arriving)?.is_none() {
            return Ok(PieceOutcome::Displaced);
        }
        let BucketId { kind, name } = &arriving.bucket;
        let mut add = self.db.prepare_cached(
            "INSERT INTO writer VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (kind, bucket, id) DO UPDATE
             SET sequence = excluded.sequence, until = excluded.until WHERE excluded.sequence > sequence",
        )?;
        let latest = self.now_ms.saturating_add(MEMORY_MS);
        for WriterStamp { writer, sequence, deadline } in stamps {
            let until = deadline.saturating_add(MARGIN_MS).min(latest);
            if until > self.now_ms {
                add.execute(params![kind, name, writer, to_column(*sequence), to_column(until)])?;
            }
        }
        Ok(PieceOutcome::Yes)
    }

    fn end_arrival(
        &self,
        arriving: &Arriving,
        known: &TextHead,
        replaces: &ReplaceCondition,
    ) -> Result<PieceOutcome, TransactionError> {
        let Some(BucketRow { stamp, .. }) = self.renew_arrival(arriving)? else { return Ok(PieceOutcome::Displaced) };
        let mut expires_at = known.expires_at;
        if let ReplaceCondition::Unchanged(weight) | ReplaceCondition::Seen(weight) = replaces {
            let Some(there) = self.find_living_bucket(&arriving.bucket)? else { return Ok(PieceOutcome::Exists) };
            if self.digest(&there)? != weight.digest {
                return Ok(PieceOutcome::Exists);
            }
            if matches!(replaces, ReplaceCondition::Unchanged(_)) {
                expires_at = there.expiry.at;
            }
        }
        if let Some(there) = self.find_bucket(&arriving.bucket)? {
            if matches!(replaces, ReplaceCondition::Nothing) && !there.expiry.is_over(self.now_ms) {
                return Ok(PieceOutcome::Exists);
            }
            self.retire_bucket(&arriving.bucket, there.stamp)?;
        }
        let created_at = known.field("created_at");
        let generation = if is_token(created_at) { created_at.to_owned() } else { format_generation(stamp).into() };
        let time_to_live = metadata::time_to_live(known.field("ttl_seconds"), known.field("sliding_ms"));
        let life = BucketRow { stamp, generation, expiry: Expiry { time_to_live, at: expires_at } };
        self.remove_row(&arriving.hidden)?;
        self.settle(&arriving.bucket, &life)?;
        self.keep_foreign_fields(&life, known)?;
        Ok(PieceOutcome::Yes)
    }

    /// Note where the metadata that came differ from what the rows make of them.
    fn keep_foreign_fields(&self, life: &BucketRow, known: &TextHead) -> Result<(), rusqlite::Error> {
        let own = self.own_fields(life)?;
        let mut keep = self.db.prepare_cached("INSERT INTO field VALUES (?1, ?2, ?3, ?4)")?;
        let stamp = to_column(life.stamp);
        for (name, text) in known.fields.iter().filter(|(name, text)| own.get(*name) != Some(text)) {
            keep.execute(params![stamp, name, own.get(name), text])?;
        }
        for (name, text) in own.iter().filter(|(name, _)| !known.fields.contains_key(*name)) {
            keep.execute(params![stamp, name, text, None::<&str>])?;
        }
        Ok(())
    }

    fn abandon_arrival(&self, arriving: &Arriving) -> Result<PieceOutcome, TransactionError> {
        if let Some(left) = self.find_row(&arriving.hidden)?
            && left.generation == arriving.id
        {
            self.retire_bucket(&arriving.hidden, left.stamp)?;
        }
        Ok(PieceOutcome::Yes)
    }

    /// When what has arrived is given up, unless another piece comes.
    fn end_of_wait(&self) -> Expiry {
        Expiry { time_to_live: None, at: Some(self.now_ms.saturating_add(WAIT_MS)) }
    }

    /// What has arrived so far, which is waited for again. None: another arrival has taken its place, or it came too slowly.
    fn renew_arrival(&self, arriving: &Arriving) -> Result<Option<BucketRow>, TransactionError> {
        let found = self.find_row(&arriving.hidden)?;
        let Some(life) = found.filter(|life| life.generation == arriving.id) else { return Ok(None) };
        self.put_expiry(&arriving.hidden, self.end_of_wait())?;
        Ok(Some(life))
    }
}
