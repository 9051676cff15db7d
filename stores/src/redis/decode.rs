//! Reads the replies of the scripts.
//!
//! The scripts write them: a change to what a step of a transaction replies belongs here and in its `.lua` file. A reply is not
//! trusted: one of another shape is an error, never a panic.

use redis::Value;

pub(super) use super::reply::{ReplyReader, unexpected_reply, value_to_bytes, value_to_text};
use super::{cursor::ScanCursor, reply::key_of};
use crate::{
    BucketPart, ChangedEntries, CounterValue, Description, Entry, Failure, FailureCode, FoundDocuments, FoundEntries,
    GetAllOperation, GetOperation, IndexExtent, IndexStep, IndexedReceipt, IndexedTransaction, LeaseState, LogRecords,
    Operation, Outcome, ReadMarksStep, Receipt, RecordRun, SearchStep, Size, Status,
    bucket::may_write,
    failure,
    index::{
        self, HitCollector, SEGMENT, found_nothing, marks_to_read,
        segments::{SoughtTerms, collect_marks},
    },
    limits,
    names::{is_part, is_token},
    part,
    transfer::metadata::{created_at_ms, time_to_live},
};

pub(super) enum ScriptReply<T> {
    Answer(T),
    /// An answer to what has changed something.
    Written(T),
    /// An answer to what would have written, had somebody not done so before: an earlier try of the same, perhaps.
    Found(T),
    /// The transaction's time had passed on the store's clock; nothing was changed.
    Late,
}

/// What `transact.lua` answers.
pub(super) fn read_receipt(
    reply: Value,
    request: &IndexedTransaction,
) -> Result<(ScriptReply<IndexedReceipt>, u64), Failure> {
    answer(reply, |status, now, mut reply| {
        let created = reply.integer()? == 1;
        // Somebody may have written something there that is no text.
        let generation = reply.text().map_err(|_| wrong_type("__meta__"))?;
        let generation = Some(generation).filter(|generation| !generation.is_empty());
        let unmet = match status {
            Status::Unmet => Some(u32::try_from(reply.unsigned()?).map_err(|_| unexpected_reply())?),
            _ => None,
        };
        let (mut lease, mut outcomes, mut found) = (None, Vec::new(), Vec::new());
        if matches!(status, Status::Applied | Status::Repeated) {
            let IndexedTransaction { lease: requested, transaction, steps } = request;
            lease = requested.as_ref().map(|_| lease_state(&mut reply)).transpose()?;
            outcomes.reserve(transaction.operations.len());
            for operation in &transaction.operations {
                outcomes.push(outcome(operation, &mut reply)?);
            }
            for step in steps {
                found.push(found_documents(step, &mut reply)?);
            }
        }
        let writes = created || may_write(request);
        let receipt = Receipt { status, now, generation, created, unmet, outcomes };
        let receipt = IndexedReceipt { lease, receipt, found };
        Ok(match status {
            Status::Applied if writes => ScriptReply::Written(receipt),
            Status::Repeated | Status::Exists | Status::Unmet if writes => ScriptReply::Found(receipt),
            _ => ScriptReply::Answer(receipt),
        })
    })
}

/// What any script answers, with the store's clock: `read` is given the status, the clock, and the rest of the reply.
pub(super) fn answer<T>(
    reply: Value,
    read: impl FnOnce(Status, u64, ReplyReader) -> Result<ScriptReply<T>, Failure>,
) -> Result<(ScriptReply<T>, u64), Failure> {
    let mut reply = ReplyReader::new(reply)?;
    let code = reply.integer()?;
    let now = reply.unsigned()?;
    let said = match status(code) {
        Some(status) => read(status, now, reply)?,
        None => read_failure(code, &mut reply)?,
    };
    Ok((said, now))
}

fn status(code: i64) -> Option<Status> {
    Some(match code {
        0 => Status::Applied,
        1 => Status::Repeated,
        2 => Status::Absent,
        3 => Status::Expired,
        4 => Status::Exists,
        5 => Status::GenerationMismatch,
        6 => Status::Unmet,
        _ => return None,
    })
}

fn read_failure<T>(code: i64, reply: &mut ReplyReader) -> Result<ScriptReply<T>, Failure> {
    // It goes into messages, whose text must not come from the server.
    let subject = Some(reply.text()?).filter(|name| is_spelt_like_a_key(name)).unwrap_or_else(|| "?".to_owned());
    Err(match code {
        10 => wrong_type(&subject),
        11 => failure(FailureCode::NotACounter, &*subject, format!("the value of {subject} is not a 64-bit integer")),
        12 => failure(FailureCode::CounterOverflow, &*subject, format!("{subject} would leave the range of 64 bits")),
        13 => failure(FailureCode::Invalid, &*subject, format!("the log {subject} has no record at that position")),
        14 => failure(
            FailureCode::Invalid,
            &*subject,
            format!("more records than there are to replace in the log {subject}"),
        ),
        15 => return Ok(ScriptReply::Late),
        16 => limits::too_many_writers(),
        17 => limits::too_many_parts(),
        18 => limits::too_many_values(),
        19 => limits::too_deep(&subject),
        20 => index::not_above(&subject),
        _ => return Err(unexpected_reply()),
    })
}

fn wrong_type(subject: &str) -> Failure {
    let message = format!("what is stored under {subject} has the wrong type; nothing was changed");
    failure(FailureCode::WrongType, subject, message)
}

/// Like a key, a log, or bookkeeping.
fn is_spelt_like_a_key(name: &str) -> bool {
    name.len() <= 256 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

fn lease_state(reply: &mut ReplyReader) -> Result<LeaseState, Failure> {
    let (held, holder, expires_in) = (reply.integer()? == 1, reply.text()?, reply.unsigned()?);
    // Who has written something else into the metadata holds nothing.
    let holder = Some(holder).filter(|holder| is_token(holder)).unwrap_or_default();
    Ok(LeaseState { held, holder, expires_in })
}

fn outcome(operation: &Operation, reply: &mut ReplyReader) -> Result<Outcome, Failure> {
    Ok(match operation {
        Operation::Get(get) => Outcome::Entries(named_entries(get, reply)?),
        Operation::GetAll(all) => Outcome::Entries(match &all.cursor {
            None => whole_map(all, reply)?,
            Some(cursor) => page(all, cursor, reply)?,
        }),
        Operation::Set(_) => Outcome::Changed(ChangedEntries { added: reply.unsigned()?, removed: reply.unsigned()? }),
        Operation::Add(_) => {
            let value = match reply.next_value()? {
                Value::Int(value) => value,
                // As text where Lua's numbers would not be exact. A repeated addition finds what is there
                // by now, which may be no counter any more, and then counts as 0.
                value => {
                    let text = String::from_utf8(value_to_bytes(value)?).unwrap_or_default();
                    text.parse::<i64>().ok().filter(|number| number.to_string() == text).unwrap_or_default()
                }
            };
            Outcome::Counter(CounterValue { value })
        }
        Operation::Append(_) | Operation::ReplaceOldest(_) | Operation::Rewrite(_) => Outcome::Extent(reply.extent()?),
        Operation::Read(_) => {
            let (extent, run) = (reply.extent()?, record_run(reply)?);
            if run.records.is_empty() {
                Outcome::Extent(extent)
            } else {
                Outcome::Records(LogRecords { extent, runs: vec![run] })
            }
        }
        Operation::ReadAt(_) => {
            let (extent, count) = (reply.extent()?, reply.count()?);
            let runs = (0..count).map(|_| record_run(reply)).collect::<Result<_, _>>()?;
            Outcome::Records(LogRecords { extent, runs })
        }
        Operation::Describe(_) => Outcome::Described(description(reply)?),
    })
}

fn record_run(reply: &mut ReplyReader) -> Result<RecordRun, Failure> {
    Ok(RecordRun { first: reply.unsigned()?, records: reply.records()? })
}

fn named_entries(get: &GetOperation, reply: &mut ReplyReader) -> Result<FoundEntries, Failure> {
    let count = match begun_entries(reply)? {
        Err(size) => return Ok(FoundEntries::oversize(size)),
        Ok(_) => get.keys.len(),
    };
    let mut read = ReadEntries::with_capacity(count);
    for (key, text) in get.keys.iter().zip(reply.next_values(count)?) {
        read.add(key.clone(), text)?;
    }
    Ok(FoundEntries::new(read.entries, read.unreadable))
}

fn whole_map(all: &GetAllOperation, reply: &mut ReplyReader) -> Result<FoundEntries, Failure> {
    let count = match begun_entries(reply)? {
        Err(size) => return Ok(FoundEntries::oversize(size)),
        Ok(count) => count,
    };
    let names = reply.next_values(count)?.collect::<Vec<_>>();
    let mut read = ReadEntries::with_capacity(count);
    for (name, text) in names.into_iter().zip(reply.next_values(count)?) {
        if let Some(key) = key_of(&all.map_name, name) {
            read.add(key, text)?;
        }
    }
    read.entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    read.entries.dedup_by(|a, b| a.key == b.key);
    read.unreadable.sort_unstable();
    Ok(FoundEntries::new(read.entries, read.unreadable))
}

fn page(all: &GetAllOperation, cursor: &str, reply: &mut ReplyReader) -> Result<FoundEntries, Failure> {
    let next = reply.text()?.parse().map_err(|_| unexpected_reply())?;
    let server = reply.server()?;
    let cursor = ScanCursor::parse_or_start(cursor).next_cursor(next, server, reply.integer()? == 1);
    let count = reply.count()?;
    let mut read = ReadEntries::with_capacity(0);
    for _ in 0..count {
        let (name, text) = (reply.next_value()?, reply.next_value()?);
        if let Some(key) = key_of(&all.map_name, name) {
            read.add(key, text)?;
        }
    }
    Ok(FoundEntries::page(read.entries, read.unreadable, cursor.map(ScanCursor::text).unwrap_or_default()))
}

/// How a reply to what reads entries begins: with their number, or with their size if they are too many or too long.
fn begun_entries(reply: &mut ReplyReader) -> Result<Result<usize, Size>, Failure> {
    match usize::try_from(reply.integer()?) {
        Ok(count) => Ok(Ok(count)),
        Err(_) => Ok(Err(Size { bytes: reply.unsigned()?, entries: reply.unsigned()? })),
    }
}

/// Entries of a reply, and keys of those that can't be returned.
struct ReadEntries {
    entries: Vec<Entry>,
    unreadable: Vec<String>,
}

impl ReadEntries {
    fn with_capacity(entries: usize) -> Self {
        Self { entries: Vec::with_capacity(entries), unreadable: Vec::new() }
    }

    /// What a script says of a key: its text, nothing where there is none, and a number where there is one that it
    /// can't tell.
    fn add(&mut self, key: String, text: Value) -> Result<(), Failure> {
        match text {
            Value::Nil => {}
            Value::Int(_) => self.unreadable.push(key),
            text => match String::from_utf8(value_to_bytes(text)?) {
                Ok(text) => self.entries.push(Entry { key, text }),
                Err(_) => self.unreadable.push(key),
            },
        }
        Ok(())
    }
}

fn description(reply: &mut ReplyReader) -> Result<Description, Failure> {
    let (ttl_seconds, sliding_ms, created_at) = (reply.text()?, reply.text()?, reply.text()?);
    let expires_in = u64::try_from(reply.integer()?).ok();
    let values = reply.unsigned()?;
    let mut parts = Vec::new();
    for _ in 0..reply.count()? {
        let (kind, name, extent) = (reply.text()?, value_to_bytes(reply.next_value()?)?, reply.extent()?);
        let occurrences = if kind == "index:" { reply.unsigned()? } else { 0 };
        // A field of the metadata that somebody else put there is not seen.
        let Some(name) = String::from_utf8(name).ok().filter(|name| is_part(name)) else { continue };
        let (kind, position, bytes) = match &*kind {
            "map:" => (part::MAP, 0, 0),
            "index:" => {
                let index = IndexExtent { next: extent.first, documents: extent.length, occurrences };
                (part::INDEX, index.next, index::estimate_bytes(&index))
            }
            _ => (part::LOG, extent.first, 0),
        };
        parts.push(BucketPart { kind: kind.to_owned(), name, position, count: extent.length, bytes });
    }
    parts.sort_unstable_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
    let time_to_live = time_to_live(&ttl_seconds, &sliding_ms);
    Ok(Description { time_to_live, created_at: created_at_ms(&created_at), expires_in, values, parts })
}

fn found_documents(step: &IndexStep, reply: &mut ReplyReader) -> Result<FoundDocuments, Failure> {
    match step {
        IndexStep::AddDocuments(_) | IndexStep::RemoveDocuments(_) => Ok(found_nothing(reply.index_extent()?)),
        IndexStep::Search(step) => search_hits(step, reply),
        IndexStep::ReadMarks(step) => read_marks(step, reply),
    }
}

fn search_hits(step: &SearchStep, reply: &mut ReplyReader) -> Result<FoundDocuments, Failure> {
    let sought = SoughtTerms::new(&step.terms);
    let ReadSegments { extent, oldest, segments } = read_segments(sought.shards().len(), reply)?;
    let mut hits = HitCollector::new(extent, step);
    hits.begin_at(oldest);
    for SegmentFields { segment, shards, .. } in segments.iter().rev() {
        sought.collect_segment(*segment, shards, &mut hits);
    }
    let mut found = hits.finish();
    segments.iter().for_each(|fields| collect_marks(fields.segment, &fields.marks, &mut found));
    Ok(found)
}

fn read_marks(step: &ReadMarksStep, reply: &mut ReplyReader) -> Result<FoundDocuments, Failure> {
    let ReadSegments { extent, oldest, segments } = read_segments(0, reply)?;
    // Less than was asked for is read only where somebody else has put very much into the index.
    let from_position = step.from_position.max(oldest);
    let left_out = u32::try_from(from_position - step.from_position).unwrap_or(u32::MAX);
    let count = step.count.saturating_sub(left_out);
    let mut found = marks_to_read(extent, &ReadMarksStep { index: String::new(), from_position, count });
    segments.iter().for_each(|fields| collect_marks(fields.segment, &fields.marks, &mut found));
    Ok(found)
}

/// What a step read of an index.
struct ReadSegments {
    extent: IndexExtent,
    /// Below this position nothing was read; 0: nothing was left out.
    oldest: u64,
    /// From the newest on.
    segments: Vec<SegmentFields>,
}

struct SegmentFields {
    segment: u64,
    marks: Vec<u8>,
    /// Those that were asked for.
    shards: Vec<Option<Vec<u8>>>,
}

fn read_segments(shards: usize, reply: &mut ReplyReader) -> Result<ReadSegments, Failure> {
    let (extent, oldest, count) = (reply.index_extent()?, reply.unsigned()?, reply.count()?);
    let mut segments = Vec::new();
    for _ in 0..count {
        let (segment, marks) = (reply.unsigned()?, value_to_bytes(reply.next_value()?)?);
        let shards = (0..shards).map(|_| reply.parse()).collect::<Result<_, _>>()?;
        segments.push(SegmentFields { segment, marks, shards });
    }
    Ok(ReadSegments { extent, oldest: oldest.saturating_mul(SEGMENT), segments })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BucketId, NewBucket, Precondition, Transaction};

    #[test]
    fn invalid_names_in_a_reply_are_not_copied_into_messages() {
        let transaction = Transaction {
            bucket: BucketId::session("b"),
            precondition: Precondition::Create(NewBucket { time_to_live: None }),
            expectations: Vec::new(),
            operations: Vec::new(),
        };
        let request = transaction.into();
        let long = "x".repeat(1000);
        for (name, told) in [("__meta__", "__meta__"), ("a.b", "a.b"), ("a\nb", "?"), ("a b", "?"), (&long, "?")] {
            let reply = [Value::Int(10), Value::Int(1), Value::BulkString(name.into())];
            let failure = read_receipt(Value::Array(reply.into()), &request).err().unwrap();
            assert_eq!((failure.code, &*failure.subject), (FailureCode::WrongType, told));
            assert!(failure.message.contains(told) && failure.message.len() < 200, "{failure:?}");
        }
    }
}
