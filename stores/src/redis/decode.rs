//! Reads the replies of the scripts.
//!
//! The scripts write them: a change to what a step of a transaction replies belongs here and in its `.lua` file. A reply is not
//! trusted: one of another shape is an error, never a panic.

use redis::Value;

pub(super) use super::reply::{ReplyReader, unexpected_reply, value_to_bytes, value_to_text};
use super::{cursor::ScanCursor, reply::key_of};
use crate::{
    CounterValue, Description, Entry, EntryCount, EntryPage, Failure, FailureCode, FoundEntries, FoundMatches,
    IndexDescription, IndexExtent, LeaseState, LogDescription, LogRecords, LogSpans, MapDescription, MatchOperation,
    Operation, Outcome, Receipt, Size, SpanRecords, Status, Transaction,
    bucket::may_write,
    failure,
    index::{self, MatchCollector, SEGMENT, segments::SoughtTerms},
    limits,
    names::{VALUES, is_part, is_token},
    transfer::metadata::time_to_live,
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
pub(super) fn read_receipt(reply: Value, transaction: &Transaction) -> Result<(ScriptReply<Receipt>, u64), Failure> {
    answer(reply, |status, now, mut reply| {
        let created = reply.integer()? == 1;
        // Somebody may have written something there that is no text.
        let generation = reply.text().map_err(|_| wrong_type("__meta__"))?;
        let unmet = match status {
            Status::Unmet => Some(u32::try_from(reply.unsigned()?).map_err(|_| unexpected_reply())?),
            _ => None,
        };
        let mut outcomes = Vec::new();
        if matches!(status, Status::Applied | Status::Repeated) {
            outcomes.reserve(transaction.operations.len());
            for operation in &transaction.operations {
                outcomes.push(outcome(operation, &mut reply)?);
            }
        }
        let writes = created || may_write(&transaction.precondition, &transaction.operations);
        let receipt = Receipt { status, now, generation, created, unmet, outcomes };
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

fn outcome(operation: &Operation, reply: &mut ReplyReader) -> Result<Outcome, Failure> {
    Ok(match operation {
        Operation::Get(get) => match begun_entries(reply)? {
            Err(size) => Outcome::Oversize(size),
            Ok(_) => {
                let mut found = FoundEntries { entries: Vec::with_capacity(get.keys.len()), ..FoundEntries::default() };
                for (key, text) in get.keys.iter().zip(reply.next_values(get.keys.len())?) {
                    found.add_entry(key.clone(), text)?;
                }
                Outcome::Entries(found)
            }
        },
        Operation::GetAll(all) => match begun_entries(reply)? {
            Err(size) => Outcome::Oversize(size),
            Ok(count) => {
                let names = reply.next_values(count)?.collect::<Vec<_>>();
                let mut found = FoundEntries { entries: Vec::with_capacity(count), ..FoundEntries::default() };
                for (name, text) in names.into_iter().zip(reply.next_values(count)?) {
                    if let Some(key) = key_of(&all.map_name, name) {
                        found.add_entry(key, text)?;
                    }
                }
                found.entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
                found.entries.dedup_by(|a, b| a.key == b.key);
                found.unreadable.sort_unstable();
                Outcome::Entries(found)
            }
        },
        Operation::Page(page) => {
            let next = reply.text()?.parse().map_err(|_| unexpected_reply())?;
            let server = reply.server()?;
            let cursor = ScanCursor::parse_or_start(&page.cursor).next_cursor(next, server, reply.integer()? == 1);
            let count = reply.count()?;
            let mut found = FoundEntries::default();
            for _ in 0..count {
                let (name, text) = (reply.next_value()?, reply.next_value()?);
                if let Some(key) = key_of(&page.map_name, name) {
                    found.add_entry(key, text)?;
                }
            }
            let cursor = cursor.map(ScanCursor::text).unwrap_or_default();
            Outcome::Page(EntryPage { entries: found.entries, unreadable: found.unreadable, cursor })
        }
        Operation::Put(put) if put.map_name == VALUES => read_changed_count(put.entries.len(), reply)?,
        Operation::Remove(remove) if remove.map_name == VALUES => read_changed_count(remove.keys.len(), reply)?,
        Operation::Put(_) | Operation::Remove(_) | Operation::ResetMap(_) => read_changed_count(1, reply)?,
        Operation::Increment(_) => {
            let value = match reply.next_value()? {
                Value::Int(value) => value,
                // As text where Lua's numbers would not be exact. A repeated increment finds what is there
                // by now, which may be no counter any more, and then counts as 0.
                value => {
                    let text = String::from_utf8(value_to_bytes(value)?).unwrap_or_default();
                    text.parse::<i64>().ok().filter(|number| number.to_string() == text).unwrap_or_default()
                }
            };
            Outcome::Counter(CounterValue { value })
        }
        Operation::Append(_) | Operation::ReplaceOldest(_) | Operation::Rewrite(_) | Operation::ResetLog(_) => {
            Outcome::Extent(reply.extent()?)
        }
        Operation::Read(_) => Outcome::Records(read_records(reply)?),
        Operation::Overflow(_) => {
            let surplus = read_records(reply)?;
            if surplus.records.is_empty() { Outcome::Extent(surplus.extent) } else { Outcome::Records(surplus) }
        }
        Operation::ReadAt(_) => {
            let (extent, count) = (reply.extent()?, reply.count()?);
            let span = |_| Ok(SpanRecords { first: reply.unsigned()?, records: reply.records()? });
            Outcome::Spans(LogSpans { extent, spans: (0..count).map(span).collect::<Result<_, _>>()? })
        }
        Operation::Lease(_) => {
            let (held, holder, expires_in) = (reply.integer()? == 1, reply.text()?, reply.unsigned()?);
            // Who has written something else into the metadata holds nothing.
            let holder = Some(holder).filter(|holder| is_token(holder)).unwrap_or_default();
            Outcome::Lease(LeaseState { held, holder, expires_in })
        }
        Operation::Describe(_) => Outcome::Described(description(reply)?),
        Operation::Post(_) | Operation::Unpost(_) => Outcome::Indexed(reply.index_extent()?),
        Operation::Match(step) => Outcome::Matches(read_matches(step, reply)?),
    })
}

/// Segments from the newest on, of each its number, its marks, and the shards that were asked for.
fn read_matches(step: &MatchOperation, reply: &mut ReplyReader) -> Result<FoundMatches, Failure> {
    let (extent, oldest, count) = (reply.index_extent()?, reply.unsigned()?, reply.count()?);
    let sought = SoughtTerms::new(&step.terms);
    let first = index::oldest_matched_position(step, extent.next).max(oldest.saturating_mul(SEGMENT));
    let mut found = MatchCollector::new(extent, first, step.terms.len());
    let mut segments = Vec::new();
    for _ in 0..count {
        let (segment, marks) = (reply.unsigned()?, value_to_bytes(reply.next_value()?)?);
        let shards = sought.shards().map(|_| reply.parse::<Option<Vec<u8>>>()).collect::<Result<Vec<_>, _>>()?;
        segments.push((segment, marks, shards));
    }
    for (segment, marks, shards) in segments.iter().rev() {
        sought.collect_segment(*segment, marks, shards, &mut found);
    }
    Ok(found.finish(step.max_bytes))
}

fn read_records(reply: &mut ReplyReader) -> Result<LogRecords, Failure> {
    Ok(LogRecords { extent: reply.extent()?, first: reply.unsigned()?, records: reply.records()? })
}

/// How a reply to what reads entries begins: with their number, or with their size if they are too many or too long.
fn begun_entries(reply: &mut ReplyReader) -> Result<Result<usize, Size>, Failure> {
    match usize::try_from(reply.integer()?) {
        Ok(count) => Ok(Ok(count)),
        Err(_) => Ok(Err(Size { bytes: reply.unsigned()?, entries: reply.unsigned()? })),
    }
}

impl FoundEntries {
    /// What a script says of a key: its text, nothing where there is none, and a number where there is one that it
    /// can't tell.
    fn add_entry(&mut self, key: String, text: Value) -> Result<(), Failure> {
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

/// The sum of what so many steps have changed.
fn read_changed_count(steps: usize, reply: &mut ReplyReader) -> Result<Outcome, Failure> {
    let count = (0..steps).map(|_| reply.unsigned()).sum::<Result<_, _>>()?;
    Ok(Outcome::Changed(EntryCount { count }))
}

fn description(reply: &mut ReplyReader) -> Result<Description, Failure> {
    let (ttl_seconds, sliding_ms) = (reply.text()?, reply.text()?);
    let expires_in = u64::try_from(reply.integer()?).ok();
    let values = reply.unsigned()?;
    let (mut maps, mut logs, mut indexes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..reply.count()? {
        let (kind, name, extent) = (reply.text()?, value_to_bytes(reply.next_value()?)?, reply.extent()?);
        let terms = if kind == "index:" { reply.unsigned()? } else { 0 };
        // A field of the metadata that somebody else put there is not seen.
        let Some(name) = String::from_utf8(name).ok().filter(|name| is_part(name)) else { continue };
        match &*kind {
            "map:" => maps.push(MapDescription { map_name: name, entries: extent.length }),
            "index:" => {
                let extent = IndexExtent { next: extent.first, documents: extent.length };
                let bytes = index::estimate_bytes(extent.documents, terms);
                indexes.push(IndexDescription { index: name, extent, bytes });
            }
            _ => logs.push(LogDescription { log: name, extent }),
        }
    }
    maps.sort_unstable_by(|a, b| a.map_name.cmp(&b.map_name));
    logs.sort_unstable_by(|a, b| a.log.cmp(&b.log));
    indexes.sort_unstable_by(|a, b| a.index.cmp(&b.index));
    let time_to_live = time_to_live(&ttl_seconds, &sliding_ms);
    Ok(Description { time_to_live, expires_in, values, maps, logs, indexes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BucketId, BucketKind, NewBucket, Precondition};

    #[test]
    fn invalid_names_in_a_reply_are_not_copied_into_messages() {
        let transaction = Transaction {
            bucket: BucketId { kind: BucketKind::Session, name: "b".into() },
            precondition: Precondition::Create(NewBucket { time_to_live: None }),
            expectations: Vec::new(),
            operations: Vec::new(),
        };
        let long = "x".repeat(1000);
        for (name, told) in [("__meta__", "__meta__"), ("a.b", "a.b"), ("a\nb", "?"), ("a b", "?"), (&long, "?")] {
            let reply = [Value::Int(10), Value::Int(1), Value::BulkString(name.into())];
            let failure = read_receipt(Value::Array(reply.into()), &transaction).err().unwrap();
            assert_eq!((failure.code, &*failure.subject), (FailureCode::WrongType, told));
            assert!(failure.message.contains(told) && failure.message.len() < 200, "{failure:?}");
        }
    }
}
