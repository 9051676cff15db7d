//! Requests as the scripts read them, and replies as the scripts write them.
//!
//! Both sides of this are in this directory: change an argument here and in the script of that name, a step of
//! a transaction here and in `operations.lua`.
//! A reply is checked as if anybody had sent it: what does not have its shape is an error, never a panic.

use std::{borrow::Cow, collections::HashMap, string::FromUtf8Error};

use redis::{Cmd, Value};

use crate::{
    AllValues, CounterValue, Entry, Expectation, Failure, FailureCode, FoundValue, KeyNames, LogEnd, LogExtent,
    LogRecords, NewLife, Opening, Operation, Outcome, Receipt, Size, Status, Transaction, WriteDone, Writer, failure,
    names::is_key,
    request::{self, MAX_RECORDS},
};

/// What a script said.
pub(super) enum Said<T> {
    Answer(T),
    /// An answer to what has changed something.
    Written(T),
    /// The transaction's time had passed on the store's clock; nothing was changed.
    Late,
}

/// A transaction as `transact.lua` reads it.
pub(super) struct Request<'a> {
    /// The incarnation that it must be, or how long a new bucket lives, milliseconds.
    wanted: Cow<'a, str>,
    parts: Vec<Part<'a>>,
}

/// A part of a request. The first two kinds are the request's shape: a process sees few of them, again and
/// again, and they come from here or are small numbers, so that a script may hold them (see `transact.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part<'a> {
    /// An operation or expectation begins.
    Step(&'static str),
    /// A limit, a count, or the place of a key or log among those that are touched.
    Fixed(u64),
    Number(u64),
    Integer(i64),
    Text(&'a str),
}

impl Part<'_> {
    /// What there is of it in the request's shape.
    pub(super) fn fixed(self) -> Option<Part<'static>> {
        match self {
            Self::Step(name) => Some(Part::Step(name)),
            Self::Fixed(number) => Some(Part::Fixed(number)),
            Self::Number(_) | Self::Integer(_) | Self::Text(_) => None,
        }
    }
}

impl<'a> Request<'a> {
    pub(super) fn new(transaction: &'a Transaction) -> Self {
        let touched = Touched::by(transaction);
        let (opening, wanted, sliding) = match &transaction.opening {
            Opening::Existing(life) => match &life.incarnation {
                None => (0, Cow::Borrowed(""), false),
                Some(incarnation) => (1, Cow::Borrowed(&**incarnation), false),
            },
            Opening::Create(life) => created(2, life),
            Opening::CreateNew(life) => created(3, life),
        };
        let flags = opening
            + 4 * u64::from(request::writes(&transaction.operations))
            + 8 * u64::from(sliding)
            + 16 * u64::from(touched.whole);
        let mut parts = Parts { parts: Vec::with_capacity(48), touched };
        parts.header(flags);
        transaction.expectations.iter().for_each(|expectation| parts.expectation(expectation));
        transaction.operations.iter().for_each(|operation| parts.operation(operation));
        Self { wanted, parts: parts.parts }
    }

    pub(super) fn parts(&self) -> &[Part<'a>] {
        &self.parts
    }

    /// Writes the arguments after the keys, for a script that holds the request's shape or for one that is
    /// told it.
    pub(super) fn write(&self, command: &mut Cmd, writer: &Writer, deadline: u64, holds_shape: bool) {
        let stamp = format!("{}.{deadline}", writer.sequence());
        command.arg(writer.id()).arg(stamp).arg(deadline).arg(&*self.wanted);
        for part in &self.parts {
            if holds_shape && part.fixed().is_some() {
                continue;
            }
            match part {
                Part::Step(text) | Part::Text(text) => command.arg(text),
                Part::Fixed(number) | Part::Number(number) => command.arg(number),
                Part::Integer(number) => command.arg(number),
            };
        }
    }
}

fn created(opening: u64, life: &NewLife) -> (u64, Cow<'static, str>, bool) {
    match life.time_to_live {
        None => (opening, Cow::Borrowed(""), false),
        Some(ttl) => (opening, Cow::Owned(ttl.milliseconds.to_string()), ttl.sliding),
    }
}

/// Lua's numbers are exact up to 2^53, and no log or bucket comes near: a larger limit is no limit.
fn exact(limit: u64) -> u64 {
    limit.min(1 << 53)
}

/// Requests in the making. The order of the parts is that of the parameters in `operations.lua`.
struct Parts<'a> {
    parts: Vec<Part<'a>>,
    touched: Touched<'a>,
}

impl<'a> Parts<'a> {
    fn header(&mut self, flags: u64) {
        let Touched { logs, keys, .. } = &self.touched;
        self.parts.extend([Part::Fixed(flags), Part::Fixed(logs.len() as u64), Part::Fixed(keys.len() as u64)]);
        self.parts.extend(logs.iter().chain(keys.iter()).map(Part::Text));
    }

    fn expectation(&mut self, expectation: &'a Expectation) {
        match expectation {
            Expectation::Oldest(expected) => self.step("expect-oldest").log(&expected.log).texts(&expected.records),
            Expectation::Keys(expected) => self.step("expect-keys").texts(&expected.keys),
            Expectation::Room(expected) => {
                let set_count = self.touched.set_count;
                self.step("expect-room").limit(expected.limit).part(Part::Fixed(set_count))
            }
        };
    }

    fn operation(&mut self, operation: &'a Operation) {
        match operation {
            Operation::Get(get) => self.step("get").key(&get.key).limit(get.max_bytes),
            Operation::GetAll(all) => self.step("get-all").limit(all.max_bytes).limit(all.max_keys),
            Operation::ListKeys(list) => self.step("list-keys").number(list.max_keys),
            Operation::Put(put) => self.step("put").key(&put.key).text(&put.value),
            Operation::Increment(increment) => {
                self.step("increment").key(&increment.key).part(Part::Integer(increment.amount))
            }
            Operation::Remove(remove) => self.step("remove").key(&remove.key),
            Operation::RemoveAll(remove) => self.step("remove-all").number(remove.max_names),
            Operation::Append(append) => self.step("append").log(&append.log).texts(&append.records),
            Operation::Read(read) => self
                .step("read")
                .log(&read.log)
                .part(Part::Fixed(u64::from(read.end == LogEnd::Newest)))
                .number(read.skip)
                .number(read.max_records.min(MAX_RECORDS))
                .number(read.max_bytes),
            Operation::Overflow(overflow) => self
                .step("overflow")
                .log(&overflow.log)
                .limit(overflow.limit)
                .limit(overflow.keep)
                .limit(overflow.max_records.min(MAX_RECORDS))
                .limit(overflow.max_bytes),
            Operation::ReplaceOldest(replace) => {
                self.step("replace-oldest").log(&replace.log).number(replace.count).texts(&replace.records)
            }
            Operation::Rewrite(rewrite) => {
                self.step("rewrite").log(&rewrite.log).number(rewrite.position).text(&rewrite.record_text)
            }
            Operation::Count(count) => self.step("count").log(&count.log),
        };
    }

    fn part(&mut self, part: Part<'a>) -> &mut Self {
        self.parts.push(part);
        self
    }

    fn step(&mut self, name: &'static str) -> &mut Self {
        self.part(Part::Step(name))
    }

    fn key(&mut self, key: &str) -> &mut Self {
        self.part(Part::Fixed(self.touched.keys.place(key)))
    }

    fn log(&mut self, log: &str) -> &mut Self {
        self.part(Part::Fixed(self.touched.logs.place(log)))
    }

    fn limit(&mut self, limit: u64) -> &mut Self {
        self.part(Part::Fixed(exact(limit)))
    }

    fn number(&mut self, number: u64) -> &mut Self {
        self.part(Part::Number(exact(number)))
    }

    fn text(&mut self, text: &'a str) -> &mut Self {
        self.part(Part::Text(text))
    }

    fn texts(&mut self, texts: &'a [String]) -> &mut Self {
        self.part(Part::Fixed(texts.len() as u64));
        self.parts.extend(texts.iter().map(|text| Part::Text(text)));
        self
    }
}

/// What a transaction will touch: the script looks at all of it before it begins.
#[derive(Default)]
struct Touched<'a> {
    logs: Names<'a>,
    /// Those that are set come first.
    keys: Names<'a>,
    set_count: u64,
    /// Whether it touches the set of all keys.
    whole: bool,
}

impl<'a> Touched<'a> {
    fn by(transaction: &'a Transaction) -> Self {
        let mut touched = Self::default();
        transaction.operations.iter().filter_map(request::set_key).for_each(|key| touched.keys.insert(key));
        touched.set_count = touched.keys.len() as u64;
        for expectation in &transaction.expectations {
            match expectation {
                Expectation::Oldest(expected) => touched.logs.insert(&expected.log),
                Expectation::Keys(_) => touched.whole = true,
                Expectation::Room(_) => {}
            }
        }
        for operation in &transaction.operations {
            match operation {
                Operation::Get(get) => touched.keys.insert(&get.key),
                Operation::Put(_) | Operation::Increment(_) => {}
                Operation::Remove(remove) => touched.keys.insert(&remove.key),
                Operation::GetAll(_) | Operation::ListKeys(_) | Operation::RemoveAll(_) => touched.whole = true,
                Operation::Append(append) => touched.logs.insert(&append.log),
                Operation::Read(read) => touched.logs.insert(&read.log),
                Operation::Overflow(overflow) => touched.logs.insert(&overflow.log),
                Operation::ReplaceOldest(replace) => touched.logs.insert(&replace.log),
                Operation::Rewrite(rewrite) => touched.logs.insert(&rewrite.log),
                Operation::Count(count) => touched.logs.insert(&count.log),
            }
        }
        touched
    }
}

/// Names, each once, with their places from 1: a few are searched, many hashed.
#[derive(Default)]
struct Names<'a> {
    names: Vec<&'a str>,
    /// Places of those after the first few.
    later: HashMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    const FEW: usize = 8;

    fn insert(&mut self, name: &'a str) {
        if self.place(name) == 0 {
            self.names.push(name);
            if self.names.len() > Self::FEW {
                self.later.insert(name, self.names.len());
            }
        }
    }

    fn len(&self) -> usize {
        self.names.len()
    }

    fn iter(&self) -> impl Iterator<Item = &'a str> {
        self.names.iter().copied()
    }

    /// 0: nowhere.
    fn place(&self, name: &str) -> u64 {
        let early = self.names.iter().take(Self::FEW).position(|known| *known == name).map(|index| index + 1);
        early.or_else(|| self.later.get(name).copied()).unwrap_or(0) as u64
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
            outcomes.push(outcome(operation, &mut reply)?);
        }
    }
    let has_written = status == Status::Applied && (created || request::writes(&transaction.operations));
    let receipt = Receipt { status, created, incarnation, outcomes };
    Ok((if has_written { Said::Written(receipt) } else { Said::Answer(receipt) }, now))
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
            format!("what is stored under {subject} has the wrong type; nothing was changed"),
        ),
        11 => failure(FailureCode::NotACounter, &*subject, format!("the value of {subject} is not a 64-bit integer")),
        12 => failure(FailureCode::CounterOverflow, &*subject, format!("{subject} would leave the range of 64 bits")),
        13 => failure(FailureCode::Invalid, &*subject, format!("the log {subject} has no record at that position")),
        14 => failure(
            FailureCode::Invalid,
            &*subject,
            format!("more records than there are to replace in the log {subject}"),
        ),
        15 => return Ok(Said::Late),
        16 => request::too_many_writers(),
        _ => return Err(garbled()),
    })
}

/// Like a key, a log, or bookkeeping.
fn is_spelt_like_a_key(name: &str) -> bool {
    name.len() <= 256 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

fn outcome(operation: &Operation, reply: &mut Reply) -> Result<Outcome, Failure> {
    Ok(match operation {
        Operation::Put(_) => Outcome::Done(WriteDone { created: reply.integer()? == 1 }),
        Operation::Increment(_) => {
            let value = match reply.next()? {
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
            Outcome::Extent(LogExtent { first: reply.unsigned()?, length: reply.unsigned()? })
        }
        Operation::Read(_) | Operation::Overflow(_) => {
            let (first, length) = (reply.unsigned()?, reply.unsigned()?);
            let records = reply.list()?.map(lossy_text).collect::<Result<_, _>>()?;
            Outcome::Records(LogRecords { first, length, records })
        }
        Operation::Get(_) => match reply.next()? {
            Value::Nil => Outcome::Value(FoundValue { json: None, unreadable: false }),
            Value::Int(bytes) => Outcome::Oversize(Size { bytes: u64::try_from(bytes).unwrap_or(0), keys: 1 }),
            value => {
                let json = String::from_utf8(bytes(value)?).ok();
                Outcome::Value(FoundValue { unreadable: json.is_none(), json })
            }
        },
        Operation::GetAll(_) => all_values(reply)?,
        Operation::ListKeys(_) | Operation::Remove(_) | Operation::RemoveAll(_) => {
            let total = reply.unsigned()?;
            let mut names: Vec<_> = reply.list()?.filter_map(key).collect();
            names.sort_unstable();
            Outcome::Names(KeyNames { total, names })
        }
    })
}

fn all_values(reply: &mut Reply) -> Result<Outcome, Failure> {
    let Ok(count) = usize::try_from(reply.integer()?) else {
        return Ok(Outcome::Oversize(Size { bytes: reply.unsigned()?, keys: reply.unsigned()? }));
    };
    let names = reply.take(count)?.collect::<Vec<_>>();
    let mut entries = Vec::with_capacity(count);
    let mut unreadable = Vec::new();
    for (key, value) in names.into_iter().zip(reply.take(count)?) {
        // A value that was evicted, or is no string, is not seen.
        let (Some(key), Value::BulkString(value)) = (self::key(key), value) else { continue };
        match String::from_utf8(value) {
            Ok(json) => entries.push(Entry { key, json }),
            Err(_) => unreadable.push(key),
        }
    }
    entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    entries.dedup_by(|a, b| a.key == b.key);
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

    /// Sorted.
    pub(super) fn keys(&mut self) -> Result<Vec<String>, Failure> {
        let mut keys: Vec<_> = Self::new(self.next()?)?.rest().filter_map(key).collect();
        keys.sort_unstable();
        Ok(keys)
    }

    /// The next values, of which there must be so many.
    fn take(&mut self, count: usize) -> Result<impl Iterator<Item = Value> + '_, Failure> {
        if count > self.values.len() { Err(garbled()) } else { Ok(self.values.by_ref().take(count)) }
    }

    /// Values after their number.
    fn list(&mut self) -> Result<impl Iterator<Item = Value> + '_, Failure> {
        let count = usize::try_from(self.integer()?).map_err(|_| garbled())?;
        self.take(count)
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

pub(super) fn bytes(value: Value) -> Result<Vec<u8>, Failure> {
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
    let name = String::from_utf8(bytes(value).ok()?);
    match name {
        Ok(name) if is_key(&name) => Some(name),
        stranger => {
            let name = stranger.map_or_else(FromUtf8Error::into_bytes, String::into_bytes);
            let shown = name.get(..64).unwrap_or(&name).escape_ascii();
            tracing::debug!(target: "keepline", context = "keepline.store", "redis: no name of a key: \"{shown}\"");
            None
        }
    }
}

fn lossy_text(value: Value) -> Result<String, Failure> {
    Ok(match String::from_utf8(bytes(value)?) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

pub(super) fn garbled() -> Failure {
    failure(FailureCode::Other, "", "unexpected reply from the Redis script")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NewLife;

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
