//! Writes transactions as the arguments of their script.
//!
//! The scripts read them: a change to the parameters of a step belongs here and in its `.lua` file. One operation of the
//! contract may be several steps: to put two values is to put one, twice.

use std::{borrow::Cow, collections::HashMap, fmt::Write as _};

use redis::Cmd;

use super::key_set::{KeySet, Names, each_set_key};
use crate::{
    Entry, Expectation, LogEnd, NewLife, Opening, Operation, PositionMark, PostOperation, Transaction, Writer, check,
    index::{
        self, Run,
        segments::{self, Sought},
    },
    limits::{MAX_NEWEST, MAX_RECORDS, PAGE},
    names::VALUES,
    redis::cursor::Cursor,
};

/// A transaction as `transact.lua` reads it.
pub(crate) struct Request<'a> {
    /// The incarnation that it must be, or how long a new bucket lives, milliseconds.
    wanted: Cow<'a, str>,
    parts: Vec<Part<'a>>,
    owned: Vec<Vec<u8>>,
}

/// A part of a request. The first two kinds are the request's shape: a process sees few of them, again and
/// again, and they come from here or are small numbers, so that a script may hold them (see `transact.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part<'a> {
    /// An operation or expectation begins.
    Step(&'static str),
    /// A limit, a count, or the place of a key or log among those that the request names.
    Fixed(u64),
    Number(u64),
    Integer(i64),
    Text(&'a str),
    /// A text that is none of the transaction's, by its place among those that the request holds.
    Owned(usize),
    /// Of the metadata: a kind of part, and the part's name.
    Field(&'static str, &'a str),
    /// Whose position it is, if that matters.
    Server(Option<u32>),
}

impl Part<'_> {
    /// What there is of it in the request's shape.
    pub(crate) fn fixed(self) -> Option<Part<'static>> {
        match self {
            Self::Step(name) => Some(Part::Step(name)),
            Self::Fixed(number) => Some(Part::Fixed(number)),
            _ => None,
        }
    }
}

impl<'a> Request<'a> {
    pub(crate) fn new(transaction: &'a Transaction) -> Self {
        let (opening, wanted, sliding, renews) = match &transaction.opening {
            Opening::Existing(life) => match &life.incarnation {
                None => (0, Cow::Borrowed(""), false, life.renew),
                Some(incarnation) => (1, Cow::Borrowed(&**incarnation), false, life.renew),
            },
            Opening::Create(life) => created(2, life),
            Opening::CreateNew(life) => created(3, life),
            Opening::Replace(life) => created(4, life),
        };
        let key_set = KeySet::new(&transaction.operations);
        let mut parts = Parts { parts: Vec::with_capacity(48), owned: Vec::new(), key_set };
        for (index, expectation) in (0..).zip(&transaction.expectations) {
            parts.expectation(index, expectation, &transaction.operations);
        }
        if matches!(transaction.opening, Opening::Replace(_)) {
            parts.step("replace");
        }
        transaction.operations.iter().for_each(|operation| parts.operation(operation));
        let flags = opening
            + 8 * u64::from(check::writes(&transaction.operations))
            + 16 * u64::from(sliding)
            + 32 * u64::from(parts.key_set.whole)
            + 64 * u64::from(renews)
            + 128 * u64::from(check::makes_room(transaction));
        Self { wanted, parts: parts.behind_header(flags), owned: parts.owned }
    }

    pub(crate) fn parts(&self) -> &[Part<'a>] {
        &self.parts
    }

    /// Writes the arguments after the keys, for a script that holds the request's shape or for one that is
    /// told it.
    pub(crate) fn write(&self, command: &mut Cmd, writer: &Writer, deadline: u64, holds_shape: bool) {
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
                Part::Field(kind, name) => command.arg([kind, *name].concat()),
                Part::Owned(place) => command.arg(self.owned.get(*place)),
                Part::Server(server) => command.arg(server.map(|server| format!("{server:08x}")).unwrap_or_default()),
            };
        }
    }
}

fn created(opening: u64, life: &NewLife) -> (u64, Cow<'static, str>, bool, bool) {
    match life.time_to_live {
        None => (opening, Cow::Borrowed(""), false, true),
        Some(ttl) => (opening, Cow::Owned(ttl.milliseconds.to_string()), ttl.sliding, true),
    }
}

/// Lua's numbers are exact up to 2^53, and no log or bucket comes near: a larger limit is no limit.
fn exact(limit: u64) -> u64 {
    limit.min(1 << 53)
}

/// No position is -1.
fn position_or_none(position: Option<u64>) -> Part<'static> {
    Part::Integer(position.and_then(|position| i64::try_from(exact(position)).ok()).unwrap_or(-1))
}

/// Requests in the making. The order of the parts is that of the parameters in the step's heading.
struct Parts<'a> {
    parts: Vec<Part<'a>>,
    owned: Vec<Vec<u8>>,
    key_set: KeySet<'a>,
}

impl<'a> Parts<'a> {
    /// All parts, the header first: what the steps touch.
    fn behind_header(&mut self, flags: u64) -> Vec<Part<'a>> {
        let KeySet { logs, maps, leases, indexes, keys, set_count, .. } = &self.key_set;
        let counts = [logs, maps, leases, indexes, keys].map(Names::len);
        let mut parts = Vec::with_capacity(counts.len() + 2 + counts.iter().sum::<usize>() + self.parts.len());
        parts.push(Part::Fixed(flags));
        parts.extend(counts.map(|count| Part::Fixed(count as u64)));
        parts.push(Part::Fixed(*set_count));
        for (kind, names) in [("log:", logs), ("map:", maps), ("lease:", leases), ("index:", indexes)] {
            parts.extend(names.iter().map(|name| Part::Field(kind, name)));
        }
        parts.extend(keys.iter().map(Part::Text));
        parts.append(&mut self.parts);
        parts
    }

    fn expectation(&mut self, index: u64, expectation: &'a Expectation, operations: &'a [Operation]) {
        match expectation {
            Expectation::Entry(expected) if expected.map_name == VALUES => self
                .step("expect-entry")
                .limit(index)
                .key(&expected.key)
                .limit(expected.state as u64)
                .text(&expected.text),
            Expectation::Entry(expected) => self
                .step("expect-map-entry")
                .limit(index)
                .map(&expected.map_name)
                .limit(expected.state as u64)
                .text(&expected.key)
                .text(&expected.text),
            Expectation::Log(expected) => self
                .step("expect-log")
                .limit(index)
                .log(&expected.log)
                .part(position_or_none(expected.first))
                .part(position_or_none(expected.next)),
            Expectation::Room(expected) if expected.map_name == VALUES => {
                self.step("expect-room").limit(index).limit(expected.limit)
            }
            Expectation::Room(expected) => {
                let mut set = Vec::new();
                each_set_key(operations, &expected.map_name, |key| set.push(Part::Text(key)));
                let map = &expected.map_name;
                self.step("expect-map-room").limit(index).map(map).limit(expected.limit).texts(set)
            }
        };
    }

    fn operation(&mut self, operation: &'a Operation) {
        match operation {
            Operation::Get(get) if get.map_name == VALUES => self.step("get").limit(get.max_bytes).keys(&get.keys),
            Operation::Get(get) => self.step("map-get").map(&get.map_name).limit(get.max_bytes).texts(texts(&get.keys)),
            Operation::GetAll(all) => {
                self.map_step("get-all", "map-get-all", &all.map_name);
                self.limit(all.max_entries.min(MAX_RECORDS)).limit(all.max_bytes)
            }
            Operation::Page(page) => {
                let cursor = Cursor::read(&page.cursor);
                let most = if page.max_entries == 0 { PAGE } else { page.max_entries };
                self.map_step("page", "map-page", &page.map_name);
                self.part(Part::Number(cursor.position))
                    .part(Part::Server(cursor.server()))
                    .limit(most.min(MAX_RECORDS))
                    .number(page.max_bytes)
                    .limit(u64::from(page.keys_only))
            }
            Operation::Put(put) if put.map_name == VALUES => self.put("put", &put.entries),
            Operation::Put(put) => self.step("map-put").map(&put.map_name).texts(pairs(&put.entries)),
            Operation::Increment(increment) => {
                let amount = Part::Integer(increment.amount);
                match increment.map_name == VALUES {
                    true => self.step("increment").key(&increment.key).part(amount),
                    false => self.step("map-increment").map(&increment.map_name).text(&increment.key).part(amount),
                }
            }
            Operation::Remove(remove) if remove.map_name == VALUES => {
                remove.keys.iter().fold(self, |parts, key| parts.step("remove").key(key))
            }
            Operation::Remove(remove) => self.step("map-remove").map(&remove.map_name).texts(texts(&remove.keys)),
            Operation::ResetMap(reset) if reset.map_name == VALUES => {
                self.key_set.whole = true;
                self.step("clear").put("put-again", &reset.entries)
            }
            Operation::ResetMap(reset) => self.step("map-reset").map(&reset.map_name).texts(pairs(&reset.entries)),
            Operation::Append(append) => {
                self.step("append").log(&append.log).texts(texts(&append.records));
                self.marks(&append.log, append.records.len(), &append.marks)
            }
            Operation::Read(read) => self
                .step("read")
                .log(&read.log)
                .part(Part::Fixed(u64::from(read.end == LogEnd::Newest)))
                .number(read.max_records.min(MAX_RECORDS))
                .number(read.max_bytes),
            Operation::ReadAt(read) => {
                let mut spans = String::with_capacity(12 * read.spans.len());
                for span in &read.spans {
                    _ = write!(spans, "{} {} ", exact(span.position), span.count);
                }
                self.step("read-at").log(&read.log).number(read.max_bytes).owned(spans.into())
            }
            Operation::Overflow(overflow) => self
                .step("overflow")
                .log(&overflow.log)
                .limit(overflow.limit)
                .limit(overflow.keep)
                .limit(overflow.max_records.min(MAX_RECORDS))
                .limit(overflow.max_bytes),
            Operation::ReplaceOldest(replace) => self
                .step("replace-oldest")
                .log(&replace.log)
                .number(replace.count.min(MAX_RECORDS))
                .texts(texts(&replace.records)),
            Operation::Rewrite(rewrite) => {
                let record = rewrite.records.iter();
                let record = record.flat_map(|record| [Part::Number(exact(record.position)), Part::Text(&record.text)]);
                self.step("rewrite").log(&rewrite.log).texts(record.collect())
            }
            Operation::ResetLog(reset) => {
                self.step("reset-log").log(&reset.log).texts(texts(&reset.records));
                self.marks(&reset.log, reset.records.len(), &reset.marks)
            }
            Operation::Lease(lease) => {
                let place = self.key_set.leases.place(&lease.lease);
                self.step("lease").part(Part::Fixed(place)).text(&lease.holder).number(lease.milliseconds)
            }
            Operation::Describe(describe) => {
                self.key_set.whole = true;
                self.step("describe").limit(u64::from(describe.parts))
            }
            Operation::Post(post) => self.post(post),
            Operation::Unpost(unpost) => {
                let run = |Run { segment, low, high }| [segment, low, high].map(Part::Number);
                let runs = index::runs(&unpost.positions).into_iter().flat_map(run).collect();
                self.step("unpost").index(&unpost.index).texts(runs)
            }
            Operation::Match(step) => {
                let shards: String = Sought::new(&step.terms).shards().map(|shard| format!(":{shard:02x}")).collect();
                self.step("match").index(&step.index).number(step.newest.min(MAX_NEWEST)).owned(shards.into())
            }
        };
    }

    fn part(&mut self, part: Part<'a>) -> &mut Self {
        self.parts.push(part);
        self
    }

    fn step(&mut self, name: &'static str) -> &mut Self {
        self.part(Part::Step(name))
    }

    /// A step that reads all of a map: one for values, and another for other maps.
    fn map_step(&mut self, of_values: &'static str, of_map: &'static str, map: &'a str) -> &mut Self {
        if map == VALUES {
            self.key_set.whole = true;
            self.step(of_values)
        } else {
            self.step(of_map).map(map)
        }
    }

    fn put(&mut self, step: &'static str, entries: &'a [Entry]) -> &mut Self {
        entries.iter().fold(self, |parts, entry| parts.step(step).key(&entry.key).text(&entry.text))
    }

    fn post(&mut self, post: &'a PostOperation) -> &mut Self {
        let terms: usize = post.documents.iter().map(|document| document.terms.len()).sum();
        let first = post.documents.first().map_or(0, |document| document.position);
        self.step("post")
            .index(&post.index)
            .number(first)
            .number(index::next_after(post, first))
            .number(post.documents.len() as u64)
            .number(terms as u64);
        let appended = segments::appended(&post.documents);
        self.part(Part::Fixed(2 * appended.len() as u64));
        appended.into_iter().fold(self, |parts, (field, bytes)| parts.owned(field.name().into()).owned(bytes))
    }

    /// One step for each map.
    fn marks(&mut self, log: &'a str, records: usize, marks: &'a [PositionMark]) -> &mut Self {
        let mut of_each: Vec<(&'a str, Vec<Part<'a>>)> = Vec::new();
        let mut places = HashMap::new();
        for mark in marks {
            let back = Part::Number((records as u64).saturating_sub(mark.record_index.into()));
            let texts = [Part::Text(&mark.key), back];
            let place = *places.entry(&*mark.map_name).or_insert(of_each.len());
            match of_each.get_mut(place) {
                Some((_, of_map)) => of_map.extend(texts),
                None => of_each.push((&mark.map_name, texts.into())),
            }
        }
        for (map, marks) in of_each {
            self.step("mark").log(log).map(map).texts(marks);
        }
        self
    }

    fn key(&mut self, key: &'a str) -> &mut Self {
        let place = self.key_set.keys.place(key);
        self.part(Part::Fixed(place))
    }

    fn keys(&mut self, keys: &'a [String]) -> &mut Self {
        keys.iter().fold(self.part(Part::Fixed(keys.len() as u64)), |parts, key| parts.key(key))
    }

    fn log(&mut self, log: &'a str) -> &mut Self {
        let place = self.key_set.logs.place(log);
        self.part(Part::Fixed(place))
    }

    fn map(&mut self, map: &'a str) -> &mut Self {
        let place = self.key_set.maps.place(map);
        self.part(Part::Fixed(place))
    }

    fn index(&mut self, index: &'a str) -> &mut Self {
        let place = self.key_set.indexes.place(index);
        self.part(Part::Fixed(place))
    }

    fn owned(&mut self, text: Vec<u8>) -> &mut Self {
        self.owned.push(text);
        self.part(Part::Owned(self.owned.len() - 1))
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

    fn texts(&mut self, texts: Vec<Part<'a>>) -> &mut Self {
        self.part(Part::Fixed(texts.len() as u64));
        self.parts.extend(texts);
        self
    }
}

fn texts(texts: &[String]) -> Vec<Part<'_>> {
    texts.iter().map(|text| Part::Text(text)).collect()
}

fn pairs(entries: &[Entry]) -> Vec<Part<'_>> {
    entries.iter().flat_map(|entry| [Part::Text(&entry.key), Part::Text(&entry.text)]).collect()
}
