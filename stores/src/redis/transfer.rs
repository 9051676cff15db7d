//! Exports and imports buckets in Redis, each step a script. A bucket arrives under a name that no bucket has, and the last step
//! moves it to its place. Remains of an earlier try are removed by the next, or expire within a day.

use async_trait::async_trait;
use redis::{Cmd, Value};

use super::{
    RedisStore,
    decode::{self, Reply, Said},
    keys,
    servers::permissions::Needs,
};
use crate::{
    BucketId, BucketKind, Deadline, Failure, Status, Writer,
    transfer::{
        Head, Incoming, Keyed, Mark, NamedKeys, PART_BYTES, Piece, Removed, Replaces, SAME_INSTANT_MS, Stamp, Taken,
        TransferStore, Weighed, Weight, digest_of,
    },
};

#[async_trait]
impl TransferStore for RedisStore {
    async fn head(&self, bucket: &BucketId) -> Result<Option<Head>, Failure> {
        let read = |mut reply: Reply| {
            let expires_at = u64::try_from(reply.integer()?).ok();
            let pairs: Vec<_> = Reply::new(reply.next()?)?.rest().map(decode::bytes).collect::<Result<_, _>>()?;
            let mut fields: Vec<_> =
                pairs.chunks_exact(2).filter_map(|pair| Some((pair.first()?.clone(), pair.get(1)?.clone()))).collect();
            let maps = keyed(reply.next()?)?;
            let mut logs = Vec::new();
            let mut pairs = Reply::new(reply.next()?)?.rest();
            while let (Some(log), Some(Value::Int(length))) = (pairs.next(), pairs.next()) {
                logs.push((decode::bytes(log)?, u64::try_from(length).map_err(|_| decode::garbled())?));
            }
            let indexes = keyed(reply.next()?)?;
            fields.sort_unstable();
            logs.sort_unstable();
            Ok(Head { expires_at, fields, maps, indexes, logs })
        };
        self.export(bucket, "head", [], read).await
    }

    async fn entries(
        &self,
        bucket: &BucketId,
        of: Keyed<'_>,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<u8>>>, Failure> {
        let (part, name) = named(of);
        let arguments = [name].into_iter().chain(keys.iter().map(Vec::as_slice));
        let values = self.export(bucket, part, arguments, |mut reply| {
            let value = |value| match value {
                Value::Nil => Ok(None),
                value => decode::bytes(value).map(Some),
            };
            Reply::new(reply.next()?)?.rest().map(value).collect::<Result<Vec<_>, _>>()
        });
        // Expired meanwhile: there are no values any more.
        Ok(values.await?.unwrap_or_else(|| vec![None; keys.len()]))
    }

    async fn records(&self, bucket: &BucketId, log: &[u8], before: u64) -> Result<Vec<Vec<u8>>, Failure> {
        let before = before.to_string();
        let records = self.export(bucket, "records", [log, before.as_bytes()], |mut reply| {
            Reply::new(reply.next()?)?.rest().map(decode::bytes).collect::<Result<Vec<_>, _>>()
        });
        Ok(records.await?.unwrap_or_default())
    }

    async fn stamps(&self, bucket: &BucketId) -> Result<Vec<Stamp>, Failure> {
        let stamps = self.export(bucket, "stamps", [], |mut reply| {
            let texts = Reply::new(reply.next()?)?.rest().map(decode::bytes).collect::<Result<Vec<_>, _>>()?;
            Ok(texts.chunks_exact(2).filter_map(stamp).collect())
        });
        Ok(stamps.await?.unwrap_or_default())
    }

    async fn import(&self, incoming: Incoming<'_>, piece: Piece<'_>) -> Result<Taken, Failure> {
        match piece {
            Piece::Begin { overwrite } => {
                let mode: &[u8] = if overwrite { b"overwrite" } else { b"keep" };
                let parts: Vec<_> = incoming.head.parts().collect();
                self.send(incoming, "begin", [mode].into_iter().chain(parts.iter().map(Vec::as_slice))).await
            }
            Piece::Abandon => self.send(incoming, "abandon", []).await,
            Piece::Entries { of, entries } => {
                let (part, name) = named(of);
                let pairs = entries.iter().flat_map(|(key, text)| [*key, *text]);
                self.send(incoming, part, [name].into_iter().chain(pairs)).await
            }
            Piece::Records { log, before, records } => {
                let before = before.to_string();
                let arguments = [log, before.as_bytes()].into_iter().chain(records.iter().map(Vec::as_slice));
                self.send(incoming, "records", arguments).await
            }
            Piece::Stamps(stamps) => {
                let text =
                    |Stamp { writer, sequence, deadline }: &Stamp| [writer.clone(), format!("{sequence}.{deadline}")];
                let texts: Vec<_> = stamps.iter().flat_map(text).collect();
                self.send(incoming, "stamps", texts.iter().map(String::as_bytes)).await
            }
            Piece::End { replaces } => {
                let how = match replaces {
                    Replaces::Nothing => ["keep", ""],
                    Replaces::Anything => ["overwrite", ""],
                    Replaces::Unchanged(weight) => ["unchanged", &*weight.digest],
                    Replaces::Seen(weight) => ["seen", &*weight.digest],
                };
                let how = how.map(str::as_bytes).into_iter();
                let fields = incoming.head.fields.iter().flat_map(|(name, value)| [name.as_slice(), value.as_slice()]);
                self.send(incoming, "end", how.chain(fields)).await
            }
        }
    }

    async fn weigh(&self, bucket: &BucketId) -> Result<Weighed, Failure> {
        let listed = self.export(bucket, "listed", [], |mut reply| Ok((reply.integer()? == 1, reply.unsigned()?)));
        let (is_listed, now) = listed.await?.ok_or_else(decode::garbled)?;
        let Some(head) = self.head(bucket).await? else { return Ok(Weighed::Absent { now }) };
        let digest = digest_of(self, bucket, &head).await?;
        Ok(Weighed::There(Weight { digest, expires_at: head.expires_at, is_listed }))
    }

    async fn remove_if(&self, bucket: &BucketId, weight: &Weight) -> Result<Removed, Failure> {
        let mut writer = Writer::new();
        writer.advance();
        let bucket = self.layout.bucket(bucket);
        let expires_at = text_of(weight.expires_at);
        let arguments = |command: &mut Cmd, deadline: u64| {
            keys(command, &bucket);
            command.arg(deadline).arg(writer.id()).arg(writer.sequence());
            command.arg(&weight.digest).arg(&expires_at).arg(SAME_INSTANT_MS);
        };
        let read = |reply: Value| {
            decode::answer(reply, |status, _, _| match status {
                Status::Applied => Ok(Said::Written(Removed::Done)),
                Status::Repeated => Ok(Said::Found(Removed::Done)),
                Status::Absent => Ok(Said::Found(Removed::Gone)),
                Status::Unmet => Ok(Said::Answer(Removed::Differs)),
                _ => Err(decode::garbled()),
            })
        };
        self.requester
            .run(&bucket.registry, (&self.scripts.remove, Needs::Transferring), arguments, read, Deadline::NEVER)
            .await
    }

    async fn has_moved(&self, bucket: &BucketId, incarnation: &[u8]) -> Result<bool, Failure> {
        let moved = self.export(bucket, "moved", [incarnation], |mut reply| Ok(reply.integer()? == 1));
        Ok(moved.await?.unwrap_or_default())
    }

    async fn mark(&self, what: Mark, name: &str) -> Result<bool, Failure> {
        let (key, registry) = self.layout.of(BucketKind::Session).mark(name);
        let part = match what {
            Mark::Leave => "leave",
            Mark::Look => "look",
            Mark::Take => "take",
        };
        let arguments = |command: &mut Cmd, deadline: u64| {
            command.arg(1 + usize::from(registry.guard.is_some())).arg(&key).arg(&registry.guard);
            command.arg(deadline).arg(part).arg(name);
        };
        let read = |reply| decode::answer(reply, |status, _, _| Ok(Said::Answer(status == Status::Applied)));
        self.requester.run(&registry, (&self.scripts.mark, Needs::Writing), arguments, read, Deadline::NEVER).await
    }

    async fn scan_buckets(&self) -> Result<Vec<BucketId>, Failure> {
        // The method of its own.
        Self::scan_buckets(self).await
    }
}

/// What the scripts call it, and its name.
fn named(of: Keyed<'_>) -> (&'static str, &[u8]) {
    match of {
        Keyed::Map(map) => ("entries", map),
        Keyed::Index(index) => ("fields", index),
    }
}

/// Names of parts, each with its keys; all of them sorted.
fn keyed(told: Value) -> Result<Vec<NamedKeys>, Failure> {
    let (mut keyed, mut pairs) = (Vec::new(), Reply::new(told)?.rest());
    while let (Some(name), Some(keys)) = (pairs.next(), pairs.next()) {
        let mut keys: Vec<_> = Reply::new(keys)?.rest().map(decode::bytes).collect::<Result<_, _>>()?;
        keys.sort_unstable();
        keyed.push((decode::bytes(name)?, keys));
    }
    keyed.sort_unstable();
    Ok(keyed)
}

/// A writer and its stamp, as they are stored. Others' are none.
fn stamp(pair: &[Vec<u8>]) -> Option<Stamp> {
    let [writer, stamp] = pair else { return None };
    let (sequence, deadline) = std::str::from_utf8(stamp).ok()?.split_once('.')?;
    let writer = String::from_utf8(writer.clone()).ok()?;
    Some(Stamp { writer, sequence: sequence.parse().ok()?, deadline: deadline.parse().ok()? })
}

/// An expiry as the scripts take it.
fn text_of(expires_at: Option<u64>) -> String {
    expires_at.map_or_else(|| "-1".to_owned(), |at| at.to_string())
}

impl RedisStore {
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
            decode::answer(reply, |status, _, reply| {
                Ok(Said::Answer(if status == Status::Applied { Some(read(reply)?) } else { None }))
            })
        };
        self.requester
            .run(&bucket.registry, (&self.scripts.export, Needs::Reading), arguments, read, Deadline::NEVER)
            .await
    }

    async fn send<'a>(
        &self,
        incoming: Incoming<'_>,
        part: &str,
        arguments: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Taken, Failure> {
        let Incoming { bucket, head, id } = incoming;
        let bucket = self.layout.bucket(bucket);
        let rest: Vec<&[u8]> = arguments.into_iter().collect();
        let expires_at = text_of(head.expires_at);
        let arguments = |command: &mut Cmd, deadline: u64| {
            keys(command, &bucket);
            command.arg(deadline).arg(part).arg(id).arg(&expires_at).arg(&rest);
        };
        let read = |reply| decode::answer(reply, |status, _, _| Ok(Said::Written(status)));
        let script = (&self.scripts.import, Needs::Transferring);
        match self.requester.run(&bucket.registry, script, arguments, read, Deadline::NEVER).await? {
            Status::Applied => Ok(Taken::Yes),
            Status::Exists => Ok(Taken::Exists),
            _ => Ok(Taken::Displaced),
        }
    }
}
