//! Writes transactions as the arguments of their script.
//!
//! The scripts read them: a change to the parameters of a step belongs here and in its `.lua` file. One operation of the
//! contract may be several steps: to set two values is a step that begins, and one for each value.

use std::{borrow::Cow, collections::HashMap, fmt::Write as _};

use redis::Cmd;

use super::key_set::{KeySet, set_keys};
use crate::{
    AddDocumentsStep, AppendOperation, Entry, Expectation, GetAllOperation, IndexStep, IndexedTransaction,
    LeaseRequest, NewBucket, Operation, PositionMark, Precondition, ReadOperation, SetOperation, Writer, check,
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
    pub(crate) fn new(request: &'a IndexedTransaction) -> Self {
        let IndexedTransaction { lease, transaction, steps } = request;
        let (precondition, wanted, sliding, renews) = match &transaction.precondition {
            Precondition::Existing(life) => match &life.generation {
                None => (0, Cow::Borrowed(""), false, life.renew),
                Some(generation) => (1, Cow::Borrowed(&**generation), false, life.renew),
            },
            Precondition::Create(life) => created(2, life),
            Precondition::CreateNew(life) => created(3, life),
            Precondition::Replace(life) => created(4, life),
        };
        let key_set = KeySet::new(request);
        let mut parts = RequestBuilder { parts: Vec::with_capacity(48), key_set };
        for (index, expectation) in (0..).zip(&transaction.expectations) {
            parts.expectation(index, expectation, request);
        }
        if matches!(transaction.precondition, Precondition::Replace(_)) {
            parts.step("replace");
        }
        if let Some(LeaseRequest { name, holder, milliseconds }) = lease {
            parts.key_set.lease = Some(name);
            parts.step("lease").text(holder).number(*milliseconds);
        }
        transaction.operations.iter().for_each(|operation| _ = parts.operation(operation));
        steps.iter().for_each(|step| _ = parts.index_step(step));
        let flags = precondition
            + 8 * u64::from(request.has_writes())
            + 16 * u64::from(sliding)
            + 32 * u64::from(parts.key_set.whole)
            + 64 * u64::from(renews)
            + 128 * u64::from(check::makes_room(request));
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
        let KeySet { logs, maps, indexes, lease, keys, set_count, whole: _ } = &self.key_set;
        let counts = [logs.len(), maps.len(), indexes.len(), usize::from(lease.is_some()), keys.len()];
        let mut parts = Vec::with_capacity(counts.len() + 2 + counts.iter().sum::<usize>() + self.parts.len());
        parts.push(RequestPart::Fixed(flags));
        parts.extend(counts.map(|count| RequestPart::Fixed(count as u64)));
        parts.push(RequestPart::Fixed(*set_count));
        let named = |kind, name: &str| RequestPart::Owned([kind, name].concat().into());
        for (kind, names) in [("log:", logs), ("map:", maps), ("index:", indexes)] {
            parts.extend(names.iter().map(|name| named(kind, name)));
        }
        parts.extend(lease.map(|name| named("lease:", name)));
        parts.extend(keys.iter().map(RequestPart::Text));
        parts.append(&mut self.parts);
        parts
    }

    fn expectation(&mut self, index: u64, expectation: &'a Expectation, request: &'a IndexedTransaction) {
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
                let set = set_keys(request, map).map(RequestPart::Text).collect();
                self.step("expect-map-room").limit(index).map(map).limit(expected.limit).texts(set)
            }
        };
    }

    fn operation(&mut self, operation: &'a Operation) -> &mut Self {
        match operation {
            Operation::Get(get) if get.map_name == VALUES => self.step("get").limit(get.max_bytes).keys(&get.keys),
            Operation::Get(get) => {
                self.step("map-get").map(&get.map_name).limit(get.max_bytes).texts(text_parts(&get.keys))
            }
            Operation::GetAll(all) => self.get_all(all),
            Operation::Set(set) => self.set(set),
            Operation::Add(add) => {
                let amount = RequestPart::Integer(add.amount);
                match add.map_name == VALUES {
                    true => self.step("add").key(&add.key).part(amount),
                    false => self.step("map-add").map(&add.map_name).text(&add.key).part(amount),
                }
            }
            Operation::Append(append) => self.append(append),
            Operation::Read(read) => self.read(read),
            Operation::ReadAt(read) => {
                let mut spans = String::with_capacity(12 * read.spans.len());
                for span in &read.spans {
                    _ = write!(spans, "{} {} ", clamp_to_exact(span.position), span.count);
                }
                self.step("read-at").log(&read.log).number(read.max_bytes).owned(spans.into())
            }
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
            Operation::Describe(describe) => {
                self.key_set.whole = true;
                self.step("describe").limit(u64::from(describe.parts))
            }
        }
    }

    fn get_all(&mut self, all: &'a GetAllOperation) -> &mut Self {
        let Some(cursor) = &all.cursor else {
            return self
                .map_step("get-all", "map-get-all", &all.map_name)
                .limit(all.max_entries.min(MAX_RECORDS))
                .limit(all.max_bytes)
                .limit(u64::from(all.keys_only));
        };
        let cursor = ScanCursor::parse_or_start(cursor);
        let most = if all.max_entries == 0 { PAGE } else { all.max_entries };
        let server = cursor.expected_server().map(|server| format!("{server:08x}")).unwrap_or_default();
        self.map_step("page", "map-page", &all.map_name)
            .part(RequestPart::Number(cursor.position))
            .owned(server.into())
            .limit(most.min(MAX_RECORDS))
            .number(all.max_bytes)
            .limit(u64::from(all.keys_only))
    }

    fn set(&mut self, set: &'a SetOperation) -> &mut Self {
        // With all others, the keys to remove go, too.
        let remove = if set.reset { &[] } else { &*set.remove };
        if set.map_name != VALUES {
            let removed = remove.iter().map(|key| RequestPart::Text(key));
            let put = set.put.iter().flat_map(|Entry { key, text }| [RequestPart::Text(key), RequestPart::Text(text)]);
            return self
                .step("map-set")
                .map(&set.map_name)
                .limit(u64::from(set.reset))
                .limit(remove.len() as u64)
                .texts(removed.chain(put).collect());
        }
        self.step("set");
        let put = match set.reset {
            false => "put",
            true => {
                self.key_set.whole = true;
                self.step("clear");
                "put-again"
            }
        };
        let parts = remove.iter().fold(self, |parts, key| parts.step("remove").key(key));
        set.put.iter().fold(parts, |parts, entry| parts.step(put).key(&entry.key).text(&entry.text))
    }

    fn append(&mut self, append: &'a AppendOperation) -> &mut Self {
        self.step("append").log(&append.log).limit(u64::from(append.reset)).texts(text_parts(&append.records)).marks(
            &append.log,
            append.records.len(),
            &append.marks,
        )
    }

    fn read(&mut self, read: &'a ReadOperation) -> &mut Self {
        let (newest, most) = (u64::from(read.newest), read.max_records.min(MAX_RECORDS));
        if read.only_over == 0 && read.leave == 0 {
            return self.step("read").log(&read.log).limit(newest).number(most).number(read.max_bytes);
        }
        self.step("read-over")
            .log(&read.log)
            .limit(newest)
            .limit(read.only_over)
            .limit(read.leave)
            .limit(most)
            .limit(read.max_bytes)
    }

    fn index_step(&mut self, step: &'a IndexStep) -> &mut Self {
        match step {
            IndexStep::AddDocuments(add) => self.add_documents(add),
            IndexStep::RemoveDocuments(remove) => {
                let run = |PositionRun { segment, low, high }| [segment, low, high].map(RequestPart::Number);
                let runs = index::group_into_runs(&remove.positions).into_iter().flat_map(run).collect();
                self.step("remove-documents").index(&remove.index).texts(runs)
            }
            IndexStep::Search(search) => {
                let shards: String =
                    SoughtTerms::new(&search.terms).shards().map(|shard| format!(":{shard:02x}")).collect();
                self.step("search").index(&search.index).number(search.newest.min(MAX_NEWEST)).owned(shards.into())
            }
            IndexStep::ReadMarks(read) => self
                .step("read-marks")
                .index(&read.index)
                .number(read.from_position)
                .number(u64::from(read.count).min(MAX_NEWEST)),
        }
    }

    fn part(&mut self, part: RequestPart<'a>) -> &mut Self {
        self.parts.push(part);
        self
    }

    fn step(&mut self, name: &'static str) -> &mut Self {
        self.part(RequestPart::Step(name))
    }

    /// A step that is one for values, and another for other maps.
    fn map_step(&mut self, of_values: &'static str, of_map: &'static str, map: &'a str) -> &mut Self {
        if map == VALUES {
            self.key_set.whole = true;
            self.step(of_values)
        } else {
            self.step(of_map).map(map)
        }
    }

    fn add_documents(&mut self, add: &'a AddDocumentsStep) -> &mut Self {
        let terms: usize = add.documents.iter().map(|document| document.terms.len()).sum();
        let first = add.documents.first().map_or(0, |document| document.position);
        self.step("add-documents")
            .index(&add.index)
            .number(first)
            .number(index::next_after(add, first))
            .number(add.documents.len() as u64)
            .number(terms as u64);
        let appended = segments::appended_fields(&add.documents);
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
