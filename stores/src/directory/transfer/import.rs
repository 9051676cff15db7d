//! Imports a bucket from another store, piece by piece. Until it is complete, its rows belong to a hidden bucket, of a kind
//! that no call can name. That one expires unless pieces keep coming, and is swept like any other, so that a transfer that
//! was killed leaves nothing for good.
//!
//! Refuses what a directory can't hold: bytes that are no text, and names that no call may have.

use std::collections::BTreeMap;

use rusqlite::params;

use crate::{
    BucketId, Failure, FailureCode,
    bucket::{Expiry, incarnation},
    directory::{
        DirectoryStore, Writes,
        error::Stop,
        rows::{
            Form, Part, Rows,
            buckets::BucketRow,
            writers::{MARGIN_MS, MEMORY_MS},
        },
        time::{Moment, signed},
    },
    failure,
    index::segments::Field,
    names::{VALUES, check_key, check_part, is_part, is_token},
    transfer::{Head, Incoming, Keyed, Piece, Replaces, Stamp, Taken, metadata},
};

/// For how long the next piece is waited for, in milliseconds.
const WAIT_MS: u64 = 10 * 60 * 1000;

/// A bucket on its way in, and what is known of it.
struct Arriving {
    bucket: BucketId,
    /// Its kind until it is there.
    kind: String,
    /// The name of the copying.
    id: String,
}

/// A [`Head`] as text.
struct Known {
    expires_at: Option<u64>,
    fields: BTreeMap<String, String>,
    logs: Vec<String>,
}

impl DirectoryStore {
    pub(crate) async fn take_in(&self, incoming: Incoming<'_>, piece: Piece<'_>) -> Result<Taken, Failure> {
        let Incoming { bucket, head, id } = incoming;
        let arriving =
            Arriving { bucket: bucket.clone(), kind: format!("arriving-{}", bucket.kind.name()), id: id.to_owned() };
        match piece {
            Piece::Begin { overwrite } => {
                let known = Known::of(head)?;
                self.run(Writes::Something, false, move |at| at.begin_arrival(&arriving, &known, overwrite)).await
            }
            Piece::Entries { of: Keyed::Index(index), entries } => {
                let index = part("index", index)?;
                let field = |(name, bytes): &(&[u8], &[u8])| {
                    let name = text("field of an index", name)?;
                    let field = Field::named(&name).ok_or_else(|| no_field(&index, &name))?;
                    Ok::<_, Failure>((field, bytes.to_vec()))
                };
                let fields = entries.iter().map(field).collect::<Result<Vec<_>, _>>()?;
                self.run(Writes::Something, false, move |at| at.add_fields(&arriving, &index, &fields)).await
            }
            Piece::Entries { of: Keyed::Map(map), entries } => {
                let map = part("map", map)?;
                let entries = entries.iter().map(|(key, value)| {
                    let key = text("key", key)?;
                    check_key(&map, &key)?;
                    let value = text_of(value).ok_or_else(|| no_text(format!("the value of {key}")))?;
                    Ok::<_, Failure>((key, value))
                });
                let entries = entries.collect::<Result<Vec<_>, _>>()?;
                self.run(Writes::Something, false, move |at| at.add_entries(&arriving, &map, &entries)).await
            }
            Piece::Records { log, before, records } => {
                let log = part("log", log)?;
                let record =
                    |record: &Vec<u8>| text_of(record).ok_or_else(|| no_text(format!("a record of the log {log}")));
                let records = records.iter().map(record).collect::<Result<Vec<_>, _>>()?;
                self.run(Writes::Something, false, move |at| at.add_records(&arriving, &log, before, &records)).await
            }
            Piece::Stamps(stamps) => {
                let stamps = stamps.to_vec();
                self.run(Writes::Something, false, move |at| at.add_stamps(&arriving, &stamps)).await
            }
            Piece::End { replaces } => {
                let known = Known::of(head)?;
                let replaces = replaces.clone();
                let end = move |at: &Moment<'_>| at.end_arrival(&arriving, &known, &replaces);
                self.run(Writes::ToDisk, false, end).await
            }
            Piece::Abandon => self.run(Writes::Something, true, move |at| at.abandon_arrival(&arriving)).await,
        }
    }
}

impl Known {
    fn of(head: &Head) -> Result<Self, Failure> {
        let mut fields = BTreeMap::new();
        for (name, value) in &head.fields {
            let name = text("field of the metadata", name)?;
            let value = text_of(value).ok_or_else(|| no_text(format!("the field {name} of the metadata")))?;
            fields.insert(name, value);
        }
        let logs = head.logs.iter().map(|(log, _)| part("log", log)).collect::<Result<_, _>>()?;
        Ok(Self { expires_at: head.expires_at, fields, logs })
    }

    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// Parts of a kind that the metadata names. A name that no part can have is somebody else's.
    fn named<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let named = self.fields.iter().filter_map(move |(field, value)| Some((field.strip_prefix(kind)?, &**value)));
        named.filter(|(name, _)| is_part(name))
    }
}

fn text_of(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

fn text(what: &str, name: &[u8]) -> Result<String, Failure> {
    text_of(name).ok_or_else(|| no_text(format!("the name of a {what}, {:?},", String::from_utf8_lossy(name))))
}

/// The name of a map or a log that has something in it.
fn part(what: &str, name: &[u8]) -> Result<String, Failure> {
    let name = text(what, name)?;
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

impl Moment<'_> {
    fn begin_arrival(&self, arriving: &Arriving, known: &Known, overwrite: bool) -> Result<Taken, Stop> {
        if !overwrite && self.living(&arriving.bucket)?.is_some() {
            return Ok(Taken::Exists);
        }
        // Whatever one that was broken off left.
        if let Some(left) = self.find_as(&arriving.kind, &arriving.bucket.name)? {
            self.bury(&arriving.kind, &arriving.bucket.name, left.stamp)?;
        }
        let expiry = Expiry { time_to_live: None, at: Some(self.now_ms.saturating_add(WAIT_MS)) };
        let life = BucketRow { stamp: self.next_stamp(), incarnation: arriving.id.clone(), expiry };
        self.settle_as(&arriving.kind, &arriving.bucket.name, &life)?;
        let rows = Rows::new(self, life.stamp, life.expiry);
        // The original's log has no name, and begins at 0.
        let unnamed = known.logs.iter().map(|log| (log.as_str(), "0"));
        for (log, first) in unnamed.chain(known.named("log:")) {
            let id = rows.part(Form::Log, log)?.id.unwrap_or_else(|| signed(self.next_stamp()));
            let first = first.parse().unwrap_or_default();
            rows.set_part(Form::Log, log, Part { id: Some(id), first, ..Part::default() });
        }
        for (index, stands) in known.named("index:") {
            // What others wrote there is no index. The rest is counted as it arrives.
            let mut numbers = stands.split(' ').map(|number| number.parse::<u64>().ok());
            if let (Some(Some(first)), Some(Some(_)), Some(Some(_)), None) =
                (numbers.next(), numbers.next(), numbers.next(), numbers.next())
            {
                rows.part(Form::Index, index)?;
                let id = Some(signed(self.next_stamp()));
                rows.set_part(Form::Index, index, Part { id, first, ..Part::default() });
            }
        }
        rows.flush()?;
        let mut lease = self.db.prepare_cached("INSERT INTO lease VALUES (?1, ?2, ?3, ?4)")?;
        for (name, value) in known.named("lease:") {
            let Some((ends_at, holder)) = value.split_once(' ') else { continue };
            if let Ok(ends_at) = ends_at.parse::<u64>()
                && is_token(holder)
            {
                lease.execute(params![signed(life.stamp), name, holder, signed(ends_at)])?;
            }
        }
        Ok(Taken::Yes)
    }

    fn add_entries(&self, arriving: &Arriving, map: &str, entries: &[(String, String)]) -> Result<Taken, Stop> {
        let Some(life) = self.arriving(arriving)? else { return Ok(Taken::Displaced) };
        let rows = Rows::new(self, life.stamp, life.expiry);
        for (key, text) in entries {
            rows.set(map, key, text)?;
        }
        rows.flush()?;
        Ok(Taken::Yes)
    }

    fn add_fields(&self, arriving: &Arriving, index: &str, fields: &[(Field, Vec<u8>)]) -> Result<Taken, Stop> {
        let Some(life) = self.arriving(arriving)? else { return Ok(Taken::Displaced) };
        let rows = Rows::new(self, life.stamp, life.expiry);
        for (field, bytes) in fields {
            rows.put_field(index, *field, bytes)?;
        }
        rows.flush()?;
        Ok(Taken::Yes)
    }

    fn add_records(&self, arriving: &Arriving, log: &str, before: u64, records: &[String]) -> Result<Taken, Stop> {
        let Some(life) = self.arriving(arriving)? else { return Ok(Taken::Displaced) };
        let rows = Rows::new(self, life.stamp, life.expiry);
        let length = rows.part(Form::Log, log)?.length;
        if length == before {
            rows.append(log, records)?;
            rows.flush()?;
        } else if length != before.saturating_add(records.len() as u64) {
            // Else it is a piece whose answer was lost.
            return Ok(Taken::Displaced);
        }
        Ok(Taken::Yes)
    }

    fn add_stamps(&self, arriving: &Arriving, stamps: &[Stamp]) -> Result<Taken, Stop> {
        if self.arriving(arriving)?.is_none() {
            return Ok(Taken::Displaced);
        }
        let BucketId { kind, name } = &arriving.bucket;
        let mut add = self.db.prepare_cached(
            "INSERT INTO writer VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (kind, bucket, id) DO UPDATE
             SET sequence = excluded.sequence, until = excluded.until WHERE excluded.sequence > sequence",
        )?;
        let latest = self.now_ms.saturating_add(MEMORY_MS);
        for Stamp { writer, sequence, deadline } in stamps {
            let until = deadline.saturating_add(MARGIN_MS).min(latest);
            if until > self.now_ms {
                add.execute(params![kind.name(), name, writer, signed(*sequence), signed(until)])?;
            }
        }
        Ok(Taken::Yes)
    }

    fn end_arrival(&self, arriving: &Arriving, known: &Known, replaces: &Replaces) -> Result<Taken, Stop> {
        let Some(BucketRow { stamp, .. }) = self.arriving(arriving)? else { return Ok(Taken::Displaced) };
        let BucketId { kind, name } = &arriving.bucket;
        let mut expires_at = known.expires_at;
        if let Replaces::Unchanged(weight) | Replaces::Seen(weight) = replaces {
            let Some(there) = self.living(&arriving.bucket)? else { return Ok(Taken::Exists) };
            if self.digest(&there)? != weight.digest {
                return Ok(Taken::Exists);
            }
            if matches!(replaces, Replaces::Unchanged(_)) {
                expires_at = there.expiry.at;
            }
        }
        if let Some(there) = self.find(&arriving.bucket)? {
            if matches!(replaces, Replaces::Nothing) && !there.expiry.is_over(self.now_ms) {
                return Ok(Taken::Exists);
            }
            self.bury(kind.name(), name, there.stamp)?;
        }
        let created_at = known.field("created_at");
        let incarnation = if is_token(created_at) { created_at.to_owned() } else { incarnation(stamp).into() };
        let time_to_live = metadata::time_to_live(known.field("ttl_seconds"), known.field("sliding_ms"));
        let life = BucketRow { stamp, incarnation, expiry: Expiry { time_to_live, at: expires_at } };
        self.db.prepare_cached("DELETE FROM bucket WHERE kind = ?1 AND name = ?2")?.execute([&arriving.kind, name])?;
        self.settle(&arriving.bucket, &life)?;
        self.keep_foreign_fields(&life, known)?;
        Ok(Taken::Yes)
    }

    /// Note where the metadata that came differ from what the rows make of them.
    fn keep_foreign_fields(&self, life: &BucketRow, known: &Known) -> Result<(), rusqlite::Error> {
        let own = self.own_fields(life)?;
        let mut keep = self.db.prepare_cached("INSERT INTO field VALUES (?1, ?2, ?3, ?4)")?;
        let stamp = signed(life.stamp);
        for (name, text) in known.fields.iter().filter(|(name, text)| own.get(*name) != Some(text)) {
            keep.execute(params![stamp, name, own.get(name), text])?;
        }
        for (name, text) in own.iter().filter(|(name, _)| !known.fields.contains_key(*name)) {
            keep.execute(params![stamp, name, text, None::<&str>])?;
        }
        Ok(())
    }

    fn abandon_arrival(&self, arriving: &Arriving) -> Result<Taken, Stop> {
        if let Some(left) = self.find_as(&arriving.kind, &arriving.bucket.name)?
            && left.incarnation == arriving.id
        {
            self.bury(&arriving.kind, &arriving.bucket.name, left.stamp)?;
        }
        Ok(Taken::Yes)
    }

    /// What has arrived so far, which is waited for again. None: another arrival has taken its place, or it came too slowly.
    fn arriving(&self, arriving: &Arriving) -> Result<Option<BucketRow>, Stop> {
        let found = self.find_as(&arriving.kind, &arriving.bucket.name)?;
        let Some(life) = found.filter(|life| life.incarnation == arriving.id) else { return Ok(None) };
        let mut renew = self.db.prepare_cached("UPDATE bucket SET expires_at = ?3 WHERE kind = ?1 AND name = ?2")?;
        let until = signed(self.now_ms.saturating_add(WAIT_MS));
        renew.execute(params![arriving.kind, arriving.bucket.name, until])?;
        Ok(Some(life))
    }
}
