//! Requests as the scripts read them, and replies as the scripts write them.
//!
//! Both sides of this are in this directory: change an argument here and in the script of that name.
//! A reply is checked as if anybody had sent it: what does not have its shape is an error, never a panic.

use redis::{Cmd, Value};

use crate::store::{
    AllValues, CounterValue, Entry, Expectation, Failure, FailureCode, FoundValue, KeyNames, LogEnd, LogExtent,
    LogRecords, Opening, Operation, Outcome, Receipt, Size, Status, Transaction, WriteDone, failure, names::is_key,
    request,
};

/// What a script said.
pub(super) enum Said<T> {
    Answer(T),
    /// The transaction's time had passed on the store's clock; nothing was changed.
    Late,
}

/// The arguments of `transact.lua` after the keys.
pub(super) fn transact_arguments(command: &mut Cmd, writer: (&str, u64), deadline: u64, transaction: &Transaction) {
    let touched = Touched::by(transaction);
    let (opening, incarnation, ttl) = match &transaction.opening {
        Opening::Existing(life) => (u8::from(life.incarnation.is_some()), life.incarnation.as_deref(), None),
        Opening::Create(life) => (2, None, life.time_to_live),
        Opening::CreateNew(life) => (3, None, life.time_to_live),
    };
    let flags = opening
        + 4 * u8::from(request::writes(&transaction.operations))
        + 8 * u8::from(ttl.is_some_and(|ttl| ttl.sliding))
        + 16 * u8::from(touched.whole);
    command.arg(writer.0).arg(writer.1).arg(deadline).arg(flags);
    match ttl {
        Some(ttl) => command.arg(ttl.milliseconds),
        None => command.arg(incarnation.unwrap_or_default()),
    };
    command.arg(touched.logs.len()).arg(touched.logs);
    command.arg(touched.keys.len()).arg(touched.keys);
    for expectation in &transaction.expectations {
        match expectation {
            Expectation::Oldest(expected) => {
                command.arg("expect-oldest").arg(&expected.log);
                texts(command, &expected.records);
            }
            Expectation::Keys(expected) => {
                command.arg("expect-keys");
                texts(command, &expected.keys);
            }
            Expectation::Room(expected) => {
                command.arg("expect-room").arg(&expected.key).arg(number(expected.limit));
            }
        }
    }
    for operation in &transaction.operations {
        self::operation(command, operation);
    }
}

fn texts(command: &mut Cmd, texts: &[String]) {
    command.arg(texts.len());
    for text in texts {
        command.arg(text);
    }
}

/// Lua's numbers are exact up to 2^53, and no log or bucket comes near: a larger limit is no limit.
fn number(limit: u64) -> u64 {
    limit.min(1 << 53)
}

fn operation(command: &mut Cmd, operation: &Operation) {
    match operation {
        Operation::Get(get) => command.arg("get").arg(&get.key).arg(number(get.max_bytes)),
        Operation::GetAll(all) => command.arg("get-all").arg(number(all.max_bytes)).arg(number(all.max_keys)),
        Operation::ListKeys(list) => command.arg("list-keys").arg(number(list.max_keys)),
        Operation::Put(put) => command.arg("put").arg(&put.key).arg(&put.value),
        Operation::Increment(increment) => command.arg("increment").arg(&increment.key).arg(increment.amount),
        Operation::Remove(remove) => command.arg("remove").arg(&remove.key),
        Operation::RemoveAll(remove) => command.arg("remove-all").arg(number(remove.max_names)),
        Operation::Append(append) => {
            texts(command.arg("append").arg(&append.log), &append.records);
            command
        }
        Operation::Read(read) => command
            .arg("read")
            .arg(&read.log)
            .arg(match read.end {
                LogEnd::Oldest => "oldest",
                LogEnd::Newest => "newest",
            })
            .arg(number(read.skip))
            .arg(number(read.max_records))
            .arg(number(read.max_bytes)),
        Operation::Overflow(overflow) => command
            .arg("overflow")
            .arg(&overflow.log)
            .arg(number(overflow.limit))
            .arg(number(overflow.keep))
            .arg(number(overflow.max_records))
            .arg(number(overflow.max_bytes)),
        Operation::ReplaceOldest(replace) => {
            texts(command.arg("replace-oldest").arg(&replace.log).arg(number(replace.count)), &replace.records);
            command
        }
        Operation::Rewrite(rewrite) => {
            command.arg("rewrite").arg(&rewrite.log).arg(number(rewrite.position)).arg(&rewrite.record_text)
        }
        Operation::Count(count) => command.arg("count").arg(&count.log),
    };
}

/// What a transaction will touch: the script looks at all of it before it begins.
#[derive(Default)]
struct Touched<'a> {
    /// Each once.
    logs: Vec<&'a str>,
    /// A key that is read and written is here twice.
    keys: Vec<&'a str>,
    /// Whether it touches the set of all keys.
    whole: bool,
}

impl<'a> Touched<'a> {
    fn by(transaction: &'a Transaction) -> Self {
        let mut touched = Self::default();
        for expectation in &transaction.expectations {
            match expectation {
                Expectation::Oldest(expected) => touched.log(&expected.log),
                Expectation::Room(expected) => touched.keys.push(&expected.key),
                Expectation::Keys(_) => touched.whole = true,
            }
        }
        for operation in &transaction.operations {
            match operation {
                Operation::Get(get) => touched.keys.push(&get.key),
                Operation::Put(put) => touched.keys.push(&put.key),
                Operation::Increment(increment) => touched.keys.push(&increment.key),
                Operation::Remove(remove) => touched.keys.push(&remove.key),
                Operation::GetAll(_) | Operation::ListKeys(_) | Operation::RemoveAll(_) => touched.whole = true,
                Operation::Append(append) => touched.log(&append.log),
                Operation::Read(read) => touched.log(&read.log),
                Operation::Overflow(overflow) => touched.log(&overflow.log),
                Operation::ReplaceOldest(replace) => touched.log(&replace.log),
                Operation::Rewrite(rewrite) => touched.log(&rewrite.log),
                Operation::Count(count) => touched.log(&count.log),
            }
        }
        // What an expectation names is mostly written too, and asked for once.
        if touched.keys.len() <= 16 {
            touched.keys.sort_unstable();
            touched.keys.dedup();
        }
        touched
    }

    fn log(&mut self, log: &'a str) {
        if !self.logs.contains(&log) {
            self.logs.push(log);
        }
    }
}

/// What `transact.lua` answers.
pub(super) fn receipt(reply: Value, transaction: &Transaction) -> Result<(Said<Receipt>, u64), Failure> {
    let mut reply = Reply::new(reply)?;
    let code = reply.integer()?;
    let now = reply.unsigned()?;
    let Some(status) = status(code) else { return Ok((failed(code, &mut reply)?, now)) };
    let created = reply.integer()? == 1;
    let incarnation = reply.text()?;
    let mut outcomes = Vec::new();
    if matches!(status, Status::Applied | Status::Repeated) {
        outcomes.reserve(transaction.operations.len());
        for operation in &transaction.operations {
            outcomes.push(outcome(operation, reply.next()?)?);
        }
    }
    Ok((Said::Answer(Receipt { status, created, incarnation, outcomes }), now))
}

/// What the other scripts answer, begun: a status, the store's clock, and the rest.
pub(super) fn begun(reply: Value) -> Result<(Said<(Status, Reply)>, u64), Failure> {
    let mut reply = Reply::new(reply)?;
    let code = reply.integer()?;
    let now = reply.unsigned()?;
    match status(code) {
        Some(status) => Ok((Said::Answer((status, reply)), now)),
        None => Ok((failed(code, &mut reply)?, now)),
    }
}

fn status(code: i64) -> Option<Status> {
    Some(match code {
        0 => Status::Applied,
        1 => Status::Repeated,
        2 => Status::Absent,
        3 => Status::Expired,
        4 => Status::Exists,
        5 => Status::AnotherLife,
        6 => Status::Unmet,
        _ => return None,
    })
}

fn failed<T>(code: i64, reply: &mut Reply) -> Result<Said<T>, Failure> {
    // It goes into messages, which whoever answers there is not to write.
    let subject = Some(reply.text()?).filter(|name| is_spelt_like_a_key(name)).unwrap_or_else(|| "?".to_owned());
    Err(match code {
        10 => failure(
            FailureCode::WrongType,
            &*subject,
            format!("what is stored under {subject} is not of the type that belongs there; nothing was changed"),
        ),
        11 => failure(FailureCode::NotACounter, &*subject, format!("the value of {subject} is not a 64-bit integer")),
        12 => failure(FailureCode::CounterOverflow, &*subject, format!("{subject} would leave the range of 64 bits")),
        13 => failure(FailureCode::Invalid, &*subject, format!("the log {subject} has no record at that position")),
        14 => failure(
            FailureCode::Invalid,
            &*subject,
            format!("more records for the log {subject} than there are to replace"),
        ),
        15 => return Ok(Said::Late),
        _ => return Err(garbled()),
    })
}

/// Like a key, a log, or bookkeeping.
fn is_spelt_like_a_key(name: &str) -> bool {
    name.len() <= 256 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

fn outcome(operation: &Operation, value: Value) -> Result<Outcome, Failure> {
    Ok(match operation {
        Operation::Put(_) => Outcome::Done(WriteDone { created: integer(&value)? == 1 }),
        Operation::Increment(_) => {
            let value = match value {
                Value::Int(value) => value,
                // As text where Lua's numbers would not be exact. A repeated increment finds what is there
                // by now, which may be no counter any more, and then counts as 0.
                value => {
                    let text = String::from_utf8(bytes(value)?).unwrap_or_default();
                    text.parse::<i64>().ok().filter(|number| number.to_string() == text).unwrap_or_default()
                }
            };
            Outcome::Counter(CounterValue { value })
        }
        Operation::Append(_) | Operation::ReplaceOldest(_) | Operation::Rewrite(_) | Operation::Count(_) => {
            let mut extent = Reply::new(value)?;
            Outcome::Extent(LogExtent { first: extent.unsigned()?, length: extent.unsigned()? })
        }
        Operation::Read(_) | Operation::Overflow(_) => {
            let mut range = Reply::new(value)?;
            let (first, length) = (range.unsigned()?, range.unsigned()?);
            let records = range.rest().map(lossy_text).collect::<Result<_, _>>()?;
            Outcome::Records(LogRecords { first, length, records })
        }
        Operation::Get(_) => {
            let mut found = Reply::new(value)?;
            match found.values.next() {
                None => Outcome::Value(FoundValue { json: None, unreadable: false }),
                Some(Value::Nil) => Outcome::Oversize(Size { bytes: found.unsigned()?, keys: found.unsigned()? }),
                Some(value) => {
                    let json = String::from_utf8(bytes(value)?).ok();
                    Outcome::Value(FoundValue { unreadable: json.is_none(), json })
                }
            }
        }
        Operation::GetAll(_) => all_values(Reply::new(value)?)?,
        Operation::ListKeys(_) | Operation::Remove(_) | Operation::RemoveAll(_) => {
            let mut names = Reply::new(value)?;
            let total = names.unsigned()?;
            Outcome::Names(KeyNames { total, names: names.rest().filter_map(key).collect() })
        }
    })
}

fn all_values(mut reply: Reply) -> Result<Outcome, Failure> {
    let names = match reply.next()? {
        Value::Nil => return Ok(Outcome::Oversize(Size { bytes: reply.unsigned()?, keys: reply.unsigned()? })),
        names => Reply::new(names)?,
    };
    let mut entries = Vec::with_capacity(names.values.len());
    let mut unreadable = Vec::new();
    for (key, value) in names.rest().zip(Reply::new(reply.next()?)?.rest()) {
        // A value that was evicted, or is no string, is not seen.
        let (Some(key), Value::BulkString(value)) = (self::key(key), value) else { continue };
        match String::from_utf8(value) {
            Ok(json) => entries.push(Entry { key, json }),
            Err(_) => unreadable.push(key),
        }
    }
    entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    unreadable.sort_unstable();
    Ok(Outcome::Values(AllValues { entries, unreadable }))
}

/// An array, taken apart from the front.
pub(super) struct Reply {
    values: std::vec::IntoIter<Value>,
}

impl Reply {
    pub(super) fn new(value: Value) -> Result<Self, Failure> {
        match value {
            Value::Array(values) => Ok(Self { values: values.into_iter() }),
            _ => Err(garbled()),
        }
    }

    pub(super) fn next(&mut self) -> Result<Value, Failure> {
        self.values.next().ok_or_else(garbled)
    }

    pub(super) fn integer(&mut self) -> Result<i64, Failure> {
        integer(&self.next()?)
    }

    pub(super) fn unsigned(&mut self) -> Result<u64, Failure> {
        u64::try_from(self.integer()?).map_err(|_| garbled())
    }

    pub(super) fn text(&mut self) -> Result<String, Failure> {
        text(self.next()?)
    }

    pub(super) fn keys(&mut self) -> Result<Vec<String>, Failure> {
        Ok(Self::new(self.next()?)?.rest().filter_map(key).collect())
    }

    pub(super) fn rest(self) -> impl Iterator<Item = Value> {
        self.values
    }
}

fn integer(value: &Value) -> Result<i64, Failure> {
    match value {
        Value::Int(integer) => Ok(*integer),
        _ => Err(garbled()),
    }
}

fn bytes(value: Value) -> Result<Vec<u8>, Failure> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(garbled()),
    }
}

pub(super) fn text(value: Value) -> Result<String, Failure> {
    String::from_utf8(bytes(value)?).map_err(|_| garbled())
}

/// A name that somebody else put into the set of keys, and that is no key's, is not seen.
fn key(value: Value) -> Option<String> {
    text(value).ok().filter(|name| is_key(name))
}

fn lossy_text(value: Value) -> Result<String, Failure> {
    Ok(match String::from_utf8(bytes(value)?) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

pub(super) fn garbled() -> Failure {
    failure(FailureCode::Other, "", "what Redis answered is not what the script answers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::NewLife;

    #[test]
    fn whoever_answers_writes_no_messages() {
        let transaction = Transaction {
            bucket: "b".into(),
            opening: Opening::Create(NewLife { time_to_live: None }),
            expectations: Vec::new(),
            operations: Vec::new(),
        };
        let long = "x".repeat(1000);
        for (name, told) in [("__meta__", "__meta__"), ("a.b", "a.b"), ("a\nb", "?"), ("a b", "?"), (&long, "?")] {
            let reply = [Value::Int(10), Value::Int(1), Value::BulkString(name.into())];
            let failure = receipt(Value::Array(reply.into()), &transaction).err().unwrap();
            assert_eq!((failure.code, &*failure.subject), (FailureCode::WrongType, told));
            assert!(failure.message.contains(told) && failure.message.len() < 200, "{failure:?}");
        }
    }
}
