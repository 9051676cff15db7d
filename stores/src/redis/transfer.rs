//! Exports and imports buckets in Redis, each step a script. A bucket arrives under a name that no bucket has, and the last step
//! moves it to its place. Remains of an earlier try are removed by the next, or expire within a day.

use async_trait::async_trait;
use redis::{Cmd, Value};

use super::{
    RedisStore,
    decode::{self, ReplyReader, ScriptReply},
    servers::permissions::CommandNeeds,
    write_bucket_keys,
};
use crate::{
    BucketId, Deadline, Failure, Status, Writer,
    transfer::{
        BucketHead, BucketWeight, IncomingBucket, KeyedPart, NamedKeys, PART_BYTES, PieceOutcome, RemovalOutcome,
        ReplaceCondition, SAME_INSTANT_MS, TransferPiece, TransferStore, WeighedBucket, WriterStamp, digest_of,
    },
};

#[async_trait]
impl TransferStore for RedisStore {
    async fn head(&self, bucket: &BucketId) -> Result<Option<BucketHead>, Failure> {
        let read = |mut reply: ReplyReader| {
            let expires_at = u64::try_from(reply.integer()?).ok();
            let mut fields: Vec<_> = reply.parse()?;
            let maps = read_named_keys(&mut reply)?;
            let mut logs: Vec<_> = reply.parse()?;
            let indexes = read_named_keys(&mut reply)?;
            fields.sort_unstable();
            logs.sort_unstable();
            Ok(BucketHead { expires_at, fields, maps, indexes, logs })
        };
        self.export(bucket, "head", [], read).await
    }

    async fn entries(
        &self,
        bucket: &BucketId,
        of: KeyedPart<'_>,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<u8>>>, Failure> {
        let (part, name) = command_and_name(of);
        let arguments = [name].into_iter().chain(keys.iter().map(Vec::as_slice));
        let values = self.export(bucket, part, arguments, |mut reply| reply.parse::<Vec<_>>());
        // Expired meanwhile: there are no values any more.
        Ok(values.await?.unwrap_or_else(|| vec![None; keys.len()]))
    }

    async fn records(&self, bucket: &BucketId, log: &[u8], before: u64) -> Result<Vec<Vec<u8>>, Failure> {
        let before = before.to_string();
        let records = self.export(bucket, "records", [log, before.as_bytes()], |mut reply| reply.parse());
        Ok(records.await?.unwrap_or_default())
    }

    async fn stamps(&self, bucket: &BucketId) -> Result<Vec<WriterStamp>, Failure> {
        let stamps = self.export(bucket, "stamps", [], |mut reply| {
            Ok(reply.parse::<Vec<_>>()?.into_iter().filter_map(stamp).collect())
        });
        Ok(stamps.await?.unwrap_or_default())
    }

    async fn import(&self, incoming: IncomingBucket<'_>, piece: TransferPiece<'_>) -> Result<PieceOutcome, Failure> {
        match piece {
            TransferPiece::Begin { overwrite } => {
                let mode: &[u8] = if overwrite { b"overwrite" } else { b"keep" };
                let parts: Vec<_> = incoming.head.named_parts().collect();
                self.send(incoming, "begin", [mode].into_iter().chain(parts.iter().map(Vec::as_slice))).await
            }
            TransferPiece::Abandon => self.send(incoming, "abandon", []).await,
            TransferPiece::Entries { of, entries } => {
                let (part, name) = command_and_name(of);
                let pairs = entries.iter().flat_map(|(key, text)| [*key, *text]);
                self.send(incoming, part, [name].into_iter().chain(pairs)).await
            }
            TransferPiece::Records { log, before, records } => {
                let before = before.to_string();
                let arguments = [log, before.as_bytes()].into_iter().chain(records.iter().map(Vec::as_slice));
                self.send(incoming, "records", arguments).await
            }
            TransferPiece::Stamps(stamps) => {
                let text = |WriterStamp { writer, sequence, deadline }: &WriterStamp| {
                    [writer.clone(), format!("{sequence}.{deadline}")]
                };
                let texts: Vec<_> = stamps.iter().flat_map(text).collect();
                self.send(incoming, "stamps", texts.iter().map(String::as_bytes)).await
            }
            TransferPiece::End { replaces } => {
                let how = match replaces {
                    ReplaceCondition::Nothing => ["keep", ""],
                    ReplaceCondition::Anything => ["overwrite", ""],
                    ReplaceCondition::Unchanged(weight) => ["unchanged", &*weight.digest],
                    ReplaceCondition::Seen(weight) => ["seen", &*weight.digest],
                };
                let how = how.map(str::as_bytes).into_iter();
                let fields = incoming.head.fields.iter().flat_map(|(name, value)| [name.as_slice(), value.as_slice()]);
                self.send(incoming, "end", how.chain(fields)).await
            }
        }
    }

    async fn weigh(&self, bucket: &BucketId) -> Result<WeighedBucket, Failure> {
        let listed = self.export(bucket, "listed", [], |mut reply| Ok((reply.integer()? == 1, reply.unsigned()?)));
        let (is_listed, now) = listed.await?.ok_or_else(decode::unexpected_reply)?;
        let Some(head) = self.head(bucket).await? else { return Ok(WeighedBucket::Absent { now }) };
        let digest = digest_of(self, bucket, &head).await?;
        Ok(WeighedBucket::There(BucketWeight { digest, expires_at: head.expires_at, is_listed }))
    }

    async fn remove_if(&self, bucket: &BucketId, weight: &BucketWeight) -> Result<RemovalOutcome, Failure> {
        let mut writer = Writer::new();
        writer.advance();
        let bucket = self.layout.bucket_keys(bucket);
        let expires_at = text_of(weight.expires_at);
        let arguments = |command: &mut Cmd, deadline: u64| {
            write_bucket_keys(command, &bucket);
            command.arg(deadline).arg(writer.id()).arg(writer.sequence());
            command.arg(&weight.digest).arg(&expires_at).arg(SAME_INSTANT_MS);
        };
        let read = |reply: Value| {
            decode::answer(reply, |status, _, _| match status {
                Status::Applied => Ok(ScriptReply::Written(RemovalOutcome::Done)),
                Status::Repeated => Ok(ScriptReply::Found(RemovalOutcome::Done)),
                Status::Absent => Ok(ScriptReply::Found(RemovalOutcome::Gone)),
                Status::Unmet => Ok(ScriptReply::Answer(RemovalOutcome::Differs)),
                _ => Err(decode::unexpected_reply()),
            })
        };
        self.requester
            .run_script(
                &bucket.registry,
                (&self.scripts.remove, CommandNeeds::Transferring),
                arguments,
                read,
                Deadline::NEVER,
            )
            .await
    }

    async fn has_moved(&self, bucket: &BucketId, generation: &[u8]) -> Result<bool, Failure> {
        let moved = self.export(bucket, "moved", [generation], |mut reply| Ok(reply.integer()? == 1));
        Ok(moved.await?.unwrap_or_default())
    }

    async fn scan_buckets(&self) -> Result<Vec<BucketId>, Failure> {
        // The method of its own.
        Self::scan_buckets(self).await
    }
}

/// What the scripts call it, and its name.
fn command_and_name(of: KeyedPart<'_>) -> (&'static str, &[u8]) {
    match of {
        KeyedPart::Map(map) => ("entries", map),
        KeyedPart::Index(index) => ("fields", index),
    }
}

/// Names of parts, each with its keys; all of them sorted.
fn read_named_keys(reply: &mut ReplyReader) -> Result<Vec<NamedKeys>, Failure> {
    let mut keyed: Vec<NamedKeys> = reply.parse()?;
    keyed.iter_mut().for_each(|(_, keys)| keys.sort_unstable());
    keyed.sort_unstable();
    Ok(keyed)
}

/// A writer and its stamp, as they are stored. Others' are none.
fn stamp((writer, stamp): (Vec<u8>, Vec<u8>)) -> Option<WriterStamp> {
    let (sequence, deadline) = std::str::from_utf8(&stamp).ok()?.split_once('.')?;
    let writer = String::from_utf8(writer).ok()?;
    Some(WriterStamp { writer, sequence: sequence.parse().ok()?, deadline: deadline.parse().ok()? })
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
        read: impl Fn(ReplyReader) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        let bucket = self.layout.bucket_keys(bucket);
        let rest: Vec<&[u8]> = arguments.into_iter().collect();
        let arguments = |command: &mut Cmd, _| {
            write_bucket_keys(command, &bucket);
            command.arg(part).arg(PART_BYTES).arg(&rest);
        };
        let read = |reply| {
            decode::answer(reply, |status, _, reply| {
                Ok(ScriptReply::Answer(if status == Status::Applied { Some(read(reply)?) } else { None }))
            })
        };
        self.requester
            .run_script(
                &bucket.registry,
                (&self.scripts.export, CommandNeeds::Reading),
                arguments,
                read,
                Deadline::NEVER,
            )
            .await
    }

    async fn send<'a>(
        &self,
        incoming: IncomingBucket<'_>,
        part: &str,
        arguments: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<PieceOutcome, Failure> {
        let IncomingBucket { bucket, head, id } = incoming;
        let bucket = self.layout.bucket_keys(bucket);
        let rest: Vec<&[u8]> = arguments.into_iter().collect();
        let expires_at = text_of(head.expires_at);
        let arguments = |command: &mut Cmd, deadline: u64| {
            write_bucket_keys(command, &bucket);
            command.arg(deadline).arg(part).arg(id).arg(&expires_at).arg(&rest);
        };
        let read = |reply| decode::answer(reply, |status, _, _| Ok(ScriptReply::Written(status)));
        let script = (&self.scripts.import, CommandNeeds::Transferring);
        match self.requester.run_script(&bucket.registry, script, arguments, read, Deadline::NEVER).await? {
            Status::Applied => Ok(PieceOutcome::Yes),
            Status::Exists => Ok(PieceOutcome::Exists),
            _ => Ok(PieceOutcome::Displaced),
        }
    }
}
