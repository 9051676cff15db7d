//! Writes transactions as the arguments of their script.
//!
//! The scripts read them: a change to the parameters of a step belongs here and in its `.lua` file. One operation of the
//! contract may be several steps: to put two values is to put one, twice.

use std::{borrow::Cow, collections::HashMap, fmt::Write as _};

use redis::Cmd;

use super::key_set::{KeySet, NamePositions, set_keys};
use crate::{
    Entry, Expectation, LogEnd, NewBucket, Operation, PositionMark, PostOperation, Precondition, Transaction, Writer,
    check,
    index::{
        self, PositionRun,
        segments::{self, SoughtTerms},
    },
    limits::{MAX_NEWEST, MAX_RECORDS, PAGE},
    names::VALUES,
    redis::cursor::ScanCursor,
};

/// A transaction as `transact.lua` reads it.
pub(crate) struct EncodedRequest<'a> {
    /// The generation that it must be, or how long a new bucket lives, milliseconds.
    wanted: Cow<'a, str>,
    parts: Vec<RequestPart<'a>>,
}

/// A part of a request. The first two kinds are the request's shape: a process sees few of them, again and
/// again, and they come from here or are small numbers, so that a script may hold them (see `transact.rs`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RequestPart<'a> {
    /// An operation or expectation begins.
    Step(&'static str),
    /// A limit, a count, or the place of a key or log among those that the request names.
    Fixed(u64),
    Number(u64),
    Integer(i64),
    Text(&'a str),
    /// A text that is none of the transaction's.
    Owned(Vec<u8>),
}

impl RequestPart<'_> {
    /// What there is of it in the request's shape.
    pub(crate) fn as_shape_part(&self) -> Option<RequestPart<'static>> {
        match self {
            Self::Step(name) => Some(RequestPart::Step(name)),
            Self::Fixed(number) => Some(RequestPart::Fixed(*number)),
            _ => None,
        }
    }
}

impl<'a> EncodedRequest<'a> {
    pub(crate) fn new(transaction: &'a Transaction) -> Self {
        let (precondition, wanted, sliding, renews) = match &transaction.precondition {
            Precondition::Existing(life) => match &life.generation {
                None => (0, Cow::Borrowed(""), false, life.renew),
                Some(generation) => (1, Cow::Borrowed(&**generation), false, life.renew),
            },
            Precondition::Create(life) => created(2, life),
            Precondition::CreateNew(life) => created(3, life),
            Precondition::Replace(life) => created(4, life),
        };
        let key_set = KeySet::new(&transaction.operations);
        let mut parts = RequestBuilder { parts: Vec::with_capacity(48), key_set };
        for (index, expectation) in (0..).zip(&transaction.expectations) {
            parts.expectation(index, expectation, &transaction.operations);
        }
        if matches!(transaction.precondition, Precondition::Replace(_)) {
            parts.step("replace");
        }
        transaction.operations.iter().for_each(|operation| parts.operation(operation));
        let flags = precondition
            + 8 * u64::from(check::has_writes(&transaction.operations))
            + 16 * u64::from(sliding)
            + 32 * u64::from(parts.key_set.whole)
            + 64 * u64::from(renews)
            + 128 * u64::from(check::makes_room(transaction));
        Self { wanted, parts: parts.behind_header(flags) }
    }

    pub(crate) fn parts(&self) -> &[RequestPart<'a>] {
        &self.parts
    }

    /// Writes the arguments after the keys, for a script that holds the request's shape or for one that is
    /// sent it.
    pub(crate) fn write_arguments(&self, command: &mut Cmd, writer: &Writer, deadline: u64, holds_shape: bool) {
        let stamp = format!("{}.{deadline}", writer.sequence());
        command.arg(writer.id()).arg(stamp).arg(deadline).arg(&*self.wanted);
        for part in &self.parts {
            if holds_shape && part.as_shape_part().is_some() {
                continue;
            }
            match part {
                RequestPart::Step(text) | RequestPart::Text(text) => command.arg(text),
                RequestPart::Fixed(number) | RequestPart::Number(number) => command.arg(number),
                RequestPart::Integer(number) => command.arg(number),
                RequestPart::Owned(text) => command.arg(&**text),
            };
        }
    }
}

fn created(precondition: u64, life: &NewBucket) -> (u64, Cow<'static, str>, bool, bool) {
    match life.time_to_live {
        None => (precondition, Cow::Borrowed(""), false, true),
        Some(ttl) => (precondition, Cow::Owned(ttl.milliseconds.to_string()), ttl.sliding, true),
    }
}

/// Lua's numbers are exact up to 2^53, and no log or bucket comes near: a larger limit is no limit.
fn clamp_to_exact(limit: u64) -> u64 {
    limit.min(1 << 53)
}

/// No position is -1.
fn position_or_none(position: Option<u64>) -> RequestPart<'static> {
    RequestPart::Integer(position.and_then(|position| i64::try_from(clamp_to_exact(position)).ok()).unwrap_or(-1))
}

/// Requests in the making. The order of the parts is that of the parameters in the step's heading.
struct RequestBuilder<'a> {
    parts: Vec<RequestPart<'a>>,
    key_set: KeySet<'a>,
}

impl<'a> RequestBuilder<'a> {
    /// All parts, the header first: what the steps touch.
    fn behind_header(&mut self, flags: u64) -> Vec<RequestPart<'a>> {
        let KeySet { logs, maps, leases, indexes, keys, set_count, .. } = &self.key_set;
        let counts = [logs, maps, leases, indexes, keys].map(NamePositions::len);
        let mut parts = Vec::with_capacity(counts.len() + 2 + counts.iter().sum::<usize>() + self.parts.len());
        parts.push(RequestPart::Fixed(flags));
        parts.extend(counts.map(|count| RequestPart::Fixed(count as u64)));
        parts.push(RequestPart::Fixed(*set_count));
        for (kind, names) in [("log:", logs), ("map:", maps), ("lease:", leases), ("index:", indexes)] {
            parts.extend(names.iter().map(|name| RequestPart::Owned([kind, name].concat().into())));
        }
        parts.extend(keys.iter().map(RequestPart::Text));
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
                let map = &expected.map_name;
                let set = set_keys(operations, map).map(RequestPart::Text).collect();
                self.step("expect-map-room").limit(index).map(map).limit(expected.limit).texts(set)
            }
        };
    }

    fn operation(&mut self, operation: &'a Operation) {
        match operation {
            Operation::Get(get) if get.map_name == VALUES => self.step("get").limit(get.max_bytes).keys(&get.keys),
            Operation::Get(get) => {
                self.step("map-get").map(&get.map_name).limit(get.max_bytes).texts(text_parts(&get.keys))
            }
            Operation::GetAll(all) => {
                self.map_step("get-all", "map-get-all", &all.map_name);
                self.limit(all.max_entries.min(MAX_RECORDS)).limit(all.max_bytes)
            }
            Operation::Page(page) => {
                let cursor = ScanCursor::parse_or_start(&page.cursor);
                let most = if page.max_entries == 0 { PAGE } else { page.max_entries };
                let server = cursor.expected_server().map(|server| format!("{server:08x}")).unwrap_or_default();
                self.map_step("page", "map-page", &page.map_name);
                self.part(RequestPart::Number(cursor.position))
                    .owned(server.into())
                    .limit(most.min(MAX_RECORDS))
                    .number(page.max_bytes)
                    .limit(u64::from(page.keys_only))
            }
            Operation::Put(put) if put.map_name == VALUES => self.put("put", &put.entries),
            Operation::Put(put) => self.step("map-put").map(&put.map_name).texts(pairs(&put.entries)),
            Operation::Increment(increment) => {
                let amount = RequestPart::Integer(increment.amount);
                match increment.map_name == VALUES {
                    true => self.step("increment").key(&increment.key).part(amount),
                    false => self.step("map-increment").map(&increment.map_name).text(&increment.key).part(amount),
                }
            }
            Operation::Remove(remove) if remove.map_name == VALUES => {
                remove.keys.iter().fold(self, |parts, key| parts.step("remove").key(key))
            }
            Operation::Remove(remove) => self.step("map-remove").map(&remove.map_name).texts(text_parts(&remove.keys)),
            Operation::ResetMap(reset) if reset.map_name == VALUES => {
                self.key_set.whole = true;
                self.step("clear").put("put-again", &reset.entries)
            }
            Operation::ResetMap(reset) => self.step("map-reset").map(&reset.map_name).texts(pairs(&reset.entries)),
            Operation::Append(append) => {
                self.step("append").log(&append.log).texts(text_parts(&append.records));
                self.marks(&append.log, append.records.len(), &append.marks)
            }
            Operation::Read(read) => self
                .step("read")
                .log(&read.log)
                .part(RequestPart::Fixed(u64::from(read.end == LogEnd::Newest)))
                .number(read.max_records.min(MAX_RECORDS))
                .number(read.max_bytes),
            Operation::ReadAt(read) => {
                let mut spans = String::with_capacity(12 * read.spans.len());
                for span in &read.spans {
                    _ = write!(spans, "{} {} ", clamp_to_exact(span.position), span.count);
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
                .texts(text_parts(&replace.records)),
            Operation::Rewrite(rewrite) => {
                let record = rewrite.records.iter();
                let record = record.flat_map(|record| {
                    [RequestPart::Number(clamp_to_exact(record.position)), RequestPart::Text(&record.text)]
                });
                self.step("rewrite").log(&rewrite.log).texts(record.collect())
            }
            Operation::ResetLog(reset) => {
                self.step("reset-log").log(&reset.log).texts(text_parts(&reset.records));
                self.marks(&reset.log, reset.records.len(), &reset.marks)
            }
            Operation::Lease(lease) => {
                let place = self.key_set.leases.position_of(&lease.lease);
                self.step("lease").part(RequestPart::Fixed(place)).text(&lease.holder).number(lease.milliseconds)
            }
            Operation::Describe(describe) => {
                self.key_set.whole = true;
                self.step("describe").limit(u64::from(describe.parts))
            }
            Operation::Post(post) => self.post(post),
            Operation::Unpost(unpost) => {
                let run = |PositionRun { segment, low, high }| [segment, low, high].map(RequestPart::Number);
                let runs = index::group_into_runs(&unpost.positions).into_iter().flat_map(run).collect();
                self.step("unpost").index(&unpost.index).texts(runs)
            }
            Operation::Match(step) => {
                let shards: String =
                    SoughtTerms::new(&step.terms).shards().map(|shard| format!(":{shard:02x}")).collect();
                self.step("match").index(&step.index).number(step.newest.min(MAX_NEWEST)).owned(shards.into())
            }
        };
    }

    fn part(&mut self, part: RequestPart<'a>) -> &mut Self {
        self.parts.push(part);
        self
    }

    fn step(&mut self, name: &'static str) -> &mut Self {
        self.part(RequestPart::Step(name))
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
        let appended = segments::appended_fields(&post.documents);
        self.part(RequestPart::Fixed(2 * appended.len() as u64));
        appended.into_iter().fold(self, |parts, (field, bytes)| parts.owned(field.name().into()).owned(bytes))
    }

    /// One step for each map.
    fn marks(&mut self, log: &'a str, records: usize, marks: &'a [PositionMark]) -> &mut Self {
        let mut of_each: Vec<(&'a str, Vec<RequestPart<'a>>)> = Vec::new();
        let mut places = HashMap::new();
        for mark in marks {
            let back = RequestPart::Number((records as u64).saturating_sub(mark.record_index.into()));
            let texts = [RequestPart::Text(&mark.key), back];
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
        let place = self.key_set.keys.position_of(key);
        self.part(RequestPart::Fixed(place))
    }

    fn keys(&mut self, keys: &'a [String]) -> &mut Self {
        keys.iter().fold(self.part(RequestPart::Fixed(keys.len() as u64)), |parts, key| parts.key(key))
    }

    fn log(&mut self, log: &'a str) -> &mut Self {
        let place = self.key_set.logs.position_of(log);
        self.part(RequestPart::Fixed(place))
    }

    fn map(&mut self, map: &'a str) -> &mut Self {
        let place = self.key_set.maps.position_of(map);
        self.part(RequestPart::Fixed(place))
    }

    fn index(&mut self, index: &'a str) -> &mut Self {
        let place = self.key_set.indexes.position_of(index);
        self.part(RequestPart::Fixed(place))
    }

    fn owned(&mut self, text: Vec<u8>) -> &mut Self {
        self.part(RequestPart::Owned(text))
    }

    fn limit(&mut self, limit: u64) -> &mut Self {
        self.part(RequestPart::Fixed(clamp_to_exact(limit)))
    }

    fn number(&mut self, number: u64) -> &mut Self {
        self.part(RequestPart::Number(clamp_to_exact(number)))
    }

    fn text(&mut self, text: &'a str) -> &mut Self {
        self.part(RequestPart::Text(text))
    }

    fn texts(&mut self, texts: Vec<RequestPart<'a>>) -> &mut Self {
        self.part(RequestPart::Fixed(texts.len() as u64));
        self.parts.extend(texts);
        self
    }
}

fn text_parts(texts: &[String]) -> Vec<RequestPart<'_>> {
    texts.iter().map(|text| RequestPart::Text(text)).collect()
}

fn pairs(entries: &[Entry]) -> Vec<RequestPart<'_>> {
    entries.iter().flat_map(|entry| [RequestPart::Text(&entry.key), RequestPart::Text(&entry.text)]).collect()
}
