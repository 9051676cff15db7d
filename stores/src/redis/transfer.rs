//! Carrying buckets from one Redis to another: from a single server to a cluster and back, to another prefix,
//! to another machine.
//!
//! A bucket is copied part by part, so that its size does not matter, and its meta-data come last: before
//! that, the other side has no such bucket. Then both sides are read and compared. What was copied is left
//! alone by a second transfer, so that one which was broken off goes on where it was.
//!
//! Values, records, meta-data and expiry arrive byte for byte. The writers' numbers do not: they are of use
//! only to retries of transactions under way, and whoever transfers stops the pipes first, or has what they
//! write meanwhile found out by the comparison.

use redis::{Cmd, Value};

use super::{
    RedisStore,
    decode::{self, Reply, Said},
    keys,
    removal::Weighed,
    script::Script,
};
use crate::{BucketId, Deadline, Failure, FailureCode, Status, failure, names::check_bucket};

/// Of one request or answer; one value or record may be larger.
const PART_BYTES: usize = 1 << 20;
/// Keys or records of one request. Lua's `unpack` ends at about 8000.
const PART_COUNT: usize = 500;
/// How often a bucket that changes meanwhile is copied anew.
const TRIES: u32 = 3;
/// Two servers' reckoning of one instant, milliseconds, where it has to be computed (Redis before 7).
pub(super) const SAME_INSTANT_MS: u64 = 10;

/// From where to where. Whoever replaces or removes by it proves first that they are [apart](Transfer::prove_apart).
#[derive(Debug)]
pub struct Transfer {
    /// Where the buckets are.
    pub from: RedisStore,
    /// Where they are to be.
    pub to: RedisStore,
    /// Whether a bucket that is there already, with other contents, is replaced.
    pub overwrite: bool,
}

/// What became of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transferred {
    /// It was copied, and both sides were found to be the same.
    Copied {
        /// Values and records, bytes.
        bytes: u64,
        /// When it expires, milliseconds since 1970; none: never.
        expires_at: Option<u64>,
    },
    /// The same is there already.
    AlreadyThere {
        /// When it expires, milliseconds since 1970; none: never.
        expires_at: Option<u64>,
    },
    /// There is one of that name with other contents. Nothing was changed.
    Conflict,
    /// It has expired or was deleted meanwhile.
    Gone,
    /// It was changed each time while it was copied. The copy may be of a state that never was: stop the
    /// pipes and transfer it again, with `overwrite`.
    Changing,
}

impl Transfer {
    /// Copies one bucket and compares both sides.
    ///
    /// # Errors
    /// When one of the two stores fails, or when what is stored has other types than it should have. What was
    /// copied so far is no bucket yet, and the next transfer clears it away.
    pub async fn bucket(&self, bucket: &BucketId) -> Result<Transferred, Failure> {
        check_bucket(bucket)?;
        let Some(mut head) = self.from.head(bucket).await? else { return Ok(Transferred::Gone) };
        if let Some(there) = self.to.head(bucket).await? {
            if self.is_same(bucket, &head, &there).await? {
                return Ok(Transferred::AlreadyThere { expires_at: head.expires_at });
            }
            if !self.overwrite {
                return Ok(Transferred::Conflict);
            }
        }
        let mut overwrite = self.overwrite;
        for _ in 0..TRIES {
            let Some(bytes) = self.copy(bucket, &head, overwrite).await? else { return Ok(Transferred::Conflict) };
            // What it replaces now is its own.
            overwrite = true;
            let Some(now) = self.from.head(bucket).await? else {
                self.take_back(bucket, &head).await?;
                return Ok(Transferred::Gone);
            };
            if let Some(there) = self.to.head(bucket).await?
                && self.is_same(bucket, &now, &there).await?
            {
                return Ok(Transferred::Copied { bytes, expires_at: now.expires_at });
            }
            head = now;
        }
        Ok(Transferred::Changing)
    }

    /// Removes a copy whose original has gone meanwhile, unless somebody has used it already.
    async fn take_back(&self, bucket: &BucketId, head: &Head) -> Result<(), Failure> {
        let Weighed::There(weight) = self.to.weigh(bucket).await? else { return Ok(()) };
        if self.to.head(bucket).await?.is_some_and(|there| there.is_copy_of(head)) {
            self.to.remove_if(bucket, &weight).await?;
        }
        Ok(())
    }

    /// None: somebody else has made a bucket of that name there.
    async fn copy(&self, bucket: &BucketId, head: &Head, overwrite: bool) -> Result<Option<u64>, Failure> {
        let mode = if overwrite { "overwrite" } else { "keep" };
        let parts = head.parts();
        let parts = parts.iter().map(Vec::as_slice);
        if !self.to.import(bucket, "begin", head, [mode.as_bytes()].into_iter().chain(parts)).await? {
            return Ok(None);
        }
        let mut copied = 0;
        for (map, names) in &head.maps {
            let mut names = names.as_slice();
            while !names.is_empty() {
                let (part, rest) = self.from.entries(bucket, map, names).await?;
                let held = part.iter().filter_map(|(name, text)| Some((*name, text.as_deref()?)));
                let pairs: Vec<_> = held.flat_map(|(name, text)| [name, text]).collect();
                copied += pairs.iter().skip(1).step_by(2).map(|text| text.len() as u64).sum::<u64>();
                let arguments = [map.as_slice()].into_iter().chain(pairs.iter().copied());
                if !pairs.is_empty() && !self.to.import(bucket, "entries", head, arguments).await? {
                    return Ok(None);
                }
                names = rest;
            }
        }
        for (log, length) in &head.logs {
            let mut at = 0;
            while at < *length {
                let records = self.from.records(bucket, log, at).await?;
                if records.is_empty() {
                    break;
                }
                copied += records.iter().map(|record| record.len() as u64).sum::<u64>();
                let before = at.to_string();
                let arguments = [log.as_slice(), before.as_bytes()];
                let arguments = arguments.into_iter().chain(records.iter().map(Vec::as_slice));
                if !self.to.import(bucket, "records", head, arguments).await? {
                    return Ok(None);
                }
                at += records.len() as u64;
            }
        }
        // The first field tells a copy from a stranger's bucket.
        let fields = head.fields.iter().flat_map(|(name, value)| [name.as_slice(), value.as_slice()]);
        Ok(self.to.import(bucket, "end", head, fields).await?.then_some(copied))
    }

    /// Whether both sides hold the same, byte for byte.
    async fn is_same(&self, bucket: &BucketId, here: &Head, there: &Head) -> Result<bool, Failure> {
        let same_expiry = match (here.expires_at, there.expires_at) {
            (Some(here), Some(there)) => here.abs_diff(there) <= SAME_INSTANT_MS,
            (here, there) => here == there,
        };
        if !same_expiry || here.fields != there.fields || here.logs != there.logs {
            return Ok(false);
        }
        if here.maps.len() != there.maps.len() {
            return Ok(false);
        }
        for ((map, names), (same, theirs)) in here.maps.iter().zip(&there.maps) {
            if map != same || !self.is_same_map(bucket, map, names, theirs.len()).await? {
                return Ok(false);
            }
        }
        for (log, length) in &here.logs {
            let mut at = 0;
            while at < *length {
                let mine = self.from.records(bucket, log, at).await?;
                if mine.is_empty() || mine != self.to.records(bucket, log, at).await? {
                    return Ok(false);
                }
                at += mine.len() as u64;
            }
        }
        Ok(true)
    }

    /// Whether both sides hold the same under these names, of which there are so many on the other side.
    async fn is_same_map(
        &self,
        bucket: &BucketId,
        map: &[u8],
        names: &[Vec<u8>],
        theirs: usize,
    ) -> Result<bool, Failure> {
        // A key whose value was evicted is none: it is not copied.
        let mut missing = 0;
        let mut left = names;
        while !left.is_empty() {
            let (mine, rest) = self.from.entries(bucket, map, left).await?;
            let asked: Vec<_> = mine.iter().filter(|(_, text)| text.is_some()).map(|(name, _)| name.to_vec()).collect();
            missing += mine.len() - asked.len();
            let mut unseen = asked.as_slice();
            let mut wanted = mine.iter().filter(|(_, text)| text.is_some());
            while !unseen.is_empty() {
                let (theirs, rest) = self.to.entries(bucket, map, unseen).await?;
                if !theirs.iter().all(|part| wanted.next() == Some(part)) {
                    return Ok(false);
                }
                unseen = rest;
            }
            left = rest;
        }
        Ok(names.len() == theirs + missing)
    }
}

/// What a bucket is, apart from its contents.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    /// Milliseconds since 1970; none: never.
    expires_at: Option<u64>,
    /// Of the metadata, sorted.
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// Names and keys of the maps, sorted, the values among them.
    maps: Vec<(Vec<u8>, Vec<Vec<u8>>)>,
    /// Names and lengths of the logs, sorted.
    logs: Vec<(Vec<u8>, u64)>,
}

impl Head {
    /// Logs and maps, as fields of the metadata name them.
    fn parts(&self) -> Vec<Vec<u8>> {
        let logs = self.logs.iter().map(|(log, _)| [b"log:", log.as_slice()].concat());
        logs.chain(self.maps.iter().map(|(map, _)| [b"map:", map.as_slice()].concat())).collect()
    }

    /// As far as a head tells: every write of ours and of the original's is told by a log or by the meta-data.
    fn is_copy_of(&self, original: &Self) -> bool {
        // A key whose value was evicted is not copied.
        self.fields == original.fields
            && self.logs == original.logs
            && self.maps.len() == original.maps.len()
            && self.maps.iter().zip(&original.maps).all(|((map, names), (same, theirs))| {
                map == same && names.iter().all(|name| theirs.binary_search(name).is_ok())
            })
    }
}

/// Some keys with their texts, if they have one, and the keys that are left.
type Entries<'a> = (Vec<(&'a [u8], Option<Vec<u8>>)>, &'a [Vec<u8>]);

impl RedisStore {
    async fn head(&self, bucket: &BucketId) -> Result<Option<Head>, Failure> {
        let read = |mut reply: Reply| {
            let expires_at = u64::try_from(reply.integer()?).ok();
            let pairs: Vec<_> = Reply::new(reply.next()?)?.rest().map(decode::bytes).collect::<Result<_, _>>()?;
            let mut fields: Vec<_> =
                pairs.chunks_exact(2).filter_map(|pair| Some((pair.first()?.clone(), pair.get(1)?.clone()))).collect();
            let mut maps = Vec::new();
            let mut pairs = Reply::new(reply.next()?)?.rest();
            while let (Some(map), Some(names)) = (pairs.next(), pairs.next()) {
                let mut names: Vec<_> = Reply::new(names)?.rest().map(decode::bytes).collect::<Result<_, _>>()?;
                names.sort_unstable();
                maps.push((decode::bytes(map)?, names));
            }
            let mut logs = Vec::new();
            let mut pairs = Reply::new(reply.next()?)?.rest();
            while let (Some(log), Some(Value::Int(length))) = (pairs.next(), pairs.next()) {
                logs.push((decode::bytes(log)?, u64::try_from(length).map_err(|_| decode::garbled())?));
            }
            fields.sort_unstable();
            maps.sort_unstable();
            logs.sort_unstable();
            Ok(Head { expires_at, fields, maps, logs })
        };
        self.export(bucket, "head", [], read).await
    }

    /// As many entries of a map as make a part.
    async fn entries<'a>(&self, bucket: &BucketId, map: &[u8], names: &'a [Vec<u8>]) -> Result<Entries<'a>, Failure> {
        let asked = names.get(..PART_COUNT).unwrap_or(names);
        let arguments = [map].into_iter().chain(asked.iter().map(Vec::as_slice));
        let values = self.export(bucket, "entries", arguments, |mut reply| {
            let value = |value| match value {
                Value::Nil => Ok(None),
                value => decode::bytes(value).map(Some),
            };
            Reply::new(reply.next()?)?.rest().map(value).collect::<Result<Vec<_>, _>>()
        });
        // Expired meanwhile: there are no values any more.
        let values = values.await?.unwrap_or_else(|| vec![None; asked.len()]);
        if values.is_empty() || values.len() > asked.len() {
            return Err(decode::garbled());
        }
        let (_, rest) = names.split_at_checked(values.len()).ok_or_else(decode::garbled)?;
        Ok((names.iter().map(Vec::as_slice).zip(values).collect(), rest))
    }

    /// As many records as make a part, from a place in the log on.
    async fn records(&self, bucket: &BucketId, log: &[u8], from: u64) -> Result<Vec<Vec<u8>>, Failure> {
        let from = from.to_string();
        let records = self.export(bucket, "records", [log, from.as_bytes()], |mut reply| {
            Reply::new(reply.next()?)?.rest().map(decode::bytes).collect::<Result<Vec<_>, _>>()
        });
        Ok(records.await?.unwrap_or_default())
    }

    /// None: there is no such bucket.
    async fn export<'a, T>(
        &self,
        bucket: &BucketId,
        part: &str,
        arguments: impl IntoIterator<Item = &'a [u8]>,
        read: impl Fn(Reply) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        let bucket = self.layout.bucket(bucket);
        let rest: Vec<&[u8]> = arguments.into_iter().collect();
        let arguments = |command: &mut Cmd, _| {
            keys(command, &bucket);
            command.arg(part).arg(PART_BYTES).arg(&rest);
        };
        let read = |reply| {
            let (said, now) = decode::begun(reply)?;
            Ok(match said {
                Said::Answer((Status::Applied, reply)) | Said::Written((Status::Applied, reply)) => {
                    (Said::Answer(Some(read(reply)?)), now)
                }
                Said::Late => (Said::Late, now),
                _ => (Said::Answer(None), now),
            })
        };
        self.link.run(bucket.registry.slot, &self.scripts.export, arguments, read, Deadline::NEVER).await
    }

    /// False: there is a bucket of that name.
    async fn import<'a>(
        &self,
        bucket: &BucketId,
        part: &str,
        head: &Head,
        arguments: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<bool, Failure> {
        let bucket = self.layout.bucket(bucket);
        let rest: Vec<&[u8]> = arguments.into_iter().collect();
        let expires_at = head.expires_at.map_or_else(|| "-1".to_owned(), |at| at.to_string());
        let arguments = |command: &mut Cmd, deadline: u64| {
            keys(command, &bucket);
            command.arg(deadline).arg(part).arg(&expires_at).arg(&rest);
        };
        let read = |reply| {
            let (said, now) = decode::begun(reply)?;
            Ok(match said {
                Said::Answer((status, _)) | Said::Written((status, _)) => (Said::Written(status), now),
                Said::Late => (Said::Late, now),
            })
        };
        let script: &Script = &self.scripts.import;
        match self.link.run(bucket.registry.slot, script, arguments, read, Deadline::NEVER).await? {
            Status::Applied => Ok(true),
            Status::Exists => Ok(false),
            _ => Err(failure(FailureCode::Other, "", "another client is writing to the target session")),
        }
    }
}
