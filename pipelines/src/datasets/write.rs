//! Puts items into collections, removes them, and lists them.
//!
//! All items of a call are checked before the first is written. They are written in chunks, each at once and all or none;
//! to put the same items again changes nothing but replaces them.

use std::{
    collections::{BTreeMap, HashSet},
    rc::Rc,
};

use keepline_options::{bucket_names::to_map_key, registered_names};
use keepline_recall::{Embedding, extract_terms};
use keepline_store_client::{
    BucketId, Document, Entry, Expectation, Host, IndexStep, IndexedTransaction, LogEnd, Operation, PositionMark,
    PositionedRecord, Precondition, Problem, PutEntry, Span, Status, Transaction,
    checked::{self, EntriesOutcome, EntryPage, Outcomes},
    codes,
};

use super::{
    Owner, STALE, dataset, documents, entry_keys, events, graph, indexed::as_terms, reader::require_indexes, values,
};
use crate::{
    value::items::parse_instant,
    value::{Object, Value},
};

registered_names! {
    /// What a collection holds.
    DataKind {
        Values = "values",
        Events = "events",
        Documents = "documents",
        Nodes = "nodes",
        Edges = "edges",
        Views = "views",
    }
}

impl DataKind {
    /// What its bucket is called: nodes, edges and views are one graph.
    pub(super) fn bucket(self) -> &'static str {
        match self {
            Self::Nodes | Self::Edges | Self::Views => "graph",
            other => other.name(),
        }
    }
}

/// Where items are: of values an instance and a namespace, of events an instance, of documents a collection, of a graph
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collection {
    pub name: String,
    /// Of values only.
    pub namespace: String,
}

/// An item of a collection.
#[derive(Clone, Debug, PartialEq)]
pub struct DataItem {
    /// Key or id; of an event, the one under which it counts once, or empty; of an edge, the JSON list of from, kind and to.
    pub id: Rc<str>,
    /// A value, event, document, node, edge or view.
    pub value: Value,
}

/// What a write changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemsChanged {
    pub added: u64,
    /// Replaced or removed.
    pub changed: u64,
}

impl ItemsChanged {
    fn add(&mut self, more: Self) {
        self.added += more.added;
        self.changed += more.changed;
    }
}

type Outcome<T> = Result<T, Box<Problem>>;

/// Items written at once.
const CHUNK: usize = 64;
/// Others may write in between so often before a write gives up.
const TRIES: usize = 64;
const STATE: &str = "state";
const NEWEST: &str = "newest";
const POSITIONS: &str = "positions";
const ENTRY_BYTES: u64 = 8 << 20;
/// Instances and collections that stand for the asking session and user.
const RESERVED: [&str; 2] = ["session", "user"];

/// A collection with its bucket.
struct Place<'a, H> {
    host: &'a H,
    kind: DataKind,
    bucket: String,
}

fn place<'a, H: Host>(host: &'a H, owner: &Owner, kind: DataKind, collection: &Collection) -> Outcome<Place<'a, H>> {
    if RESERVED.contains(&&*collection.name) {
        let what = format!("{} is the asking {0}'s own: no data set can have this name", collection.name);
        return Err(Problem::invalid("collection", what));
    }
    let parts: &[&str] = match kind {
        DataKind::Values => &[&collection.name, &collection.namespace],
        DataKind::Events | DataKind::Documents => &[&collection.name],
        DataKind::Nodes | DataKind::Edges | DataKind::Views => &[],
    };
    if let Some(member) =
        ["collection", "namespace"].iter().zip(parts).find_map(|(member, part)| part.is_empty().then_some(member))
    {
        return Err(Problem::invalid(member, format!("{} need a {member}", kind.name())));
    }
    Ok(Place { host, kind, bucket: owner.dataset_bucket(kind, parts) })
}

/// Put items into a collection, which is created if it is not there. Events are appended in the order of time; one older than
/// the newest that is there is refused, and one with the id of an event that is there is left out.
///
/// # Errors
/// `invalid` names the item and the member that breaks a rule, and nothing is written; otherwise the store's.
pub fn put_items(
    host: &impl Host,
    owner: &Owner,
    kind: DataKind,
    collection: &Collection,
    items: &[DataItem],
) -> Outcome<ItemsChanged> {
    let place = place(host, owner, kind, collection)?;
    let mut checked = Vec::new();
    for (number, item) in items.iter().enumerate() {
        checked.push(check_item(kind, item).map_err(|(member, message)| {
            let dot = if member.is_empty() { "" } else { "." };
            Problem::invalid(&format!("items[{number}]{dot}{member}"), message)
        })?);
    }
    if kind == DataKind::Events {
        // Of equal times, as they were given.
        checked.sort_by_key(|item| item.at);
    }
    let mut changed = ItemsChanged::default();
    for chunk in checked.chunks(CHUNK) {
        changed.add(place.in_parts(chunk, &|chunk| match kind {
            DataKind::Values => place.put_entries(values::ENTRIES, chunk),
            DataKind::Views => place.put_entries(graph::VIEWS, chunk),
            DataKind::Events => place.append_events(chunk),
            DataKind::Documents | DataKind::Nodes => place.put_indexed(chunk),
            DataKind::Edges => place.change_edges(chunk, true),
        })?);
    }
    Ok(changed)
}

/// Remove items by id. Those that are not there are skipped. Events can't be removed.
///
/// # Errors
/// As [`put_items`].
pub fn remove_items(
    host: &impl Host,
    owner: &Owner,
    kind: DataKind,
    collection: &Collection,
    ids: &[Rc<str>],
) -> Outcome<ItemsChanged> {
    let place = place(host, owner, kind, collection)?;
    let mut changed = ItemsChanged::default();
    for chunk in ids.chunks(CHUNK) {
        changed.add(place.in_parts(chunk, &|chunk| match kind {
            DataKind::Values => place.remove_entries(values::ENTRIES, chunk),
            DataKind::Views => place.remove_entries(graph::VIEWS, chunk),
            DataKind::Events => Err(Problem::invalid("kind", "events are kept: a log is only appended to")),
            DataKind::Documents | DataKind::Nodes => place.remove_indexed(chunk),
            DataKind::Edges => {
                let edges: Option<Vec<_>> = chunk.iter().map(edge_of_id).collect();
                let edges =
                    edges.ok_or_else(|| Problem::invalid("ids", "an edge's id is the list of from, kind and to"))?;
                place.change_edges(&edges, false)
            }
        })?);
    }
    Ok(changed)
}

/// An item that can be written.
#[derive(Default)]
struct Checked {
    id: Rc<str>,
    key: String,
    /// As it is stored.
    text: String,
    terms: Vec<u32>,
    /// Of an event: milliseconds since 1970.
    at: i64,
    /// Of a document, as it is compared.
    vector: Option<String>,
    /// Of an edge.
    ends: [Rc<str>; 2],
    value: Value,
}

/// The member that breaks a rule, and what the rule is.
type ItemFault = (&'static str, String);

fn check_item(kind: DataKind, item: &DataItem) -> Result<Checked, ItemFault> {
    let value = &item.value;
    let fault = |member: &'static str, what: &str| Err((member, what.to_owned()));
    let text = |member: &'static str| match value.member(member) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Text(text)) => Ok(Some(Rc::clone(text))),
        Some(other) => Err((member, format!("{} where a text is required", other.kind()))),
    };
    let instant = |member: &'static str| match text(member)? {
        None => Ok(None),
        Some(text) => parse_instant(&text).map(Some).ok_or_else(|| (member, format!("{text} is no RFC 3339 time"))),
    };
    if kind != DataKind::Values && value.as_object().is_none() {
        return fault("", &format!("{} where an object is required", value.kind()));
    }
    let id = match kind {
        DataKind::Events => Rc::clone(&item.id),
        DataKind::Edges => {
            let (from, to) = (text("from")?, text("to")?);
            let edge_kind = text("kind")?;
            for (member, end) in [("from", &from), ("to", &to), ("kind", &edge_kind)] {
                if end.as_ref().is_none_or(|end| end.is_empty()) {
                    return Err((member, "a text is required".into()));
                }
            }
            Rc::from(edge_id(&from.unwrap_or_default(), &edge_kind.unwrap_or_default(), &to.unwrap_or_default()))
        }
        _ if item.id.is_empty() => return fault("id", "an id is required"),
        _ => Rc::clone(&item.id),
    };
    let mut checked = Checked { key: to_map_key(&id).into_owned(), id, value: value.clone(), ..Checked::default() };
    match kind {
        DataKind::Values => {
            let key = Value::Text(Rc::clone(&checked.id));
            checked.text = Value::object([("key", key), ("value", value.clone())]).to_json();
        }
        DataKind::Views => checked.text = with_id(value, &checked.id).to_json(),
        DataKind::Events => {
            let Some(at) = instant("timestamp")? else { return fault("timestamp", "an RFC 3339 time is required") };
            let Some(event_type) = text("event_type")? else { return fault("event_type", "a text is required") };
            checked.at = at;
            checked.terms = as_terms(events::facets(text("stream_id")?.as_deref(), [event_type].iter()));
            checked.text = value.to_json();
        }
        DataKind::Documents => {
            let Some(content) = text("text")? else { return fault("text", "a text is required") };
            checked.terms = as_terms(extract_terms(&content));
            checked.vector = vector_of(value)?;
            let mut stored = with_id(value, &checked.id).as_object().cloned().unwrap_or_default();
            stored.shift_remove("vector");
            checked.text = Value::from(stored).to_json();
        }
        DataKind::Nodes => {
            for member in ["kind", "name"] {
                text(member)?;
            }
            for member in ["valid_from", "valid_to"] {
                instant(member)?;
            }
            let node = with_id(value, &checked.id);
            checked.terms = graph::facets(&node);
            checked.text = node.to_json();
        }
        DataKind::Edges => {
            for member in ["valid_from", "valid_to"] {
                instant(member)?;
            }
            checked.ends = [text("from")?.unwrap_or_default(), text("to")?.unwrap_or_default()];
        }
    }
    Ok(checked)
}

/// An object with this id as its first member.
fn with_id(value: &Value, id: &Rc<str>) -> Value {
    let mut members = Object::from_iter([("id".into(), Value::Text(Rc::clone(id)))]);
    let others = value.as_object().into_iter().flatten().filter(|(name, _)| &***name != "id");
    members.extend(others.map(|(name, value)| (Rc::clone(name), value.clone())));
    Value::from(members)
}

/// A document's vector `{"model", "data"}` as it is compared: data are base64 of 32-bit little-endian floats.
fn vector_of(document: &Value) -> Result<Option<String>, ItemFault> {
    let Some(vector) = document.member("vector").filter(|vector| !vector.is_null()) else { return Ok(None) };
    let part = |name| vector.member(name).and_then(Value::as_text);
    let embedding = part("model").zip(part("data")).and_then(|(model, data)| Embedding::new(model, data));
    let embedding =
        embedding.ok_or(("vector", "an object of model and data (base64 of 32-bit floats) is required".into()))?;
    Ok(Some(embedding.as_str().to_owned()))
}

fn edge_id(from: &str, kind: &str, to: &str) -> String {
    Value::list(vec![from.into(), kind.into(), to.into()]).to_json()
}

/// An edge that is to be removed.
fn edge_of_id(id: &Rc<str>) -> Option<Checked> {
    let parts = Value::parse(id).ok()?;
    let [from, _, to] = parts.as_list()? else { return None };
    Some(Checked { id: Rc::clone(id), ends: [from.as_text()?.into(), to.as_text()?.into()], ..Checked::default() })
}

/// Entries that are about to be replaced: all of them, or none.
fn take_all_entries(outcomes: &mut Outcomes) -> Outcome<Vec<Entry>> {
    match outcomes.take_entries()? {
        EntriesOutcome::Entries(found) => Ok(found.entries),
        EntriesOutcome::Oversize(size) => {
            let what = format!("{} bytes are stored where {ENTRY_BYTES} can be replaced at once", size.bytes);
            Err(Box::new(Problem { limit: ENTRY_BYTES, ..*Problem::new(codes::LIMIT, "items", what) }))
        }
    }
}

/// Not written, because others wrote in between.
fn raced() -> Box<Problem> {
    Problem::new(codes::CONFLICT, "", "Others kept writing in between")
}

impl<H: Host> Place<'_, H> {
    fn id(&self) -> BucketId<'_> {
        dataset(&self.bucket)
    }

    /// Do it again as long as others write in between.
    fn retry<T>(&self, mut write: impl FnMut() -> Outcome<T>) -> Outcome<T> {
        let mut last = write();
        for _ in 1..TRIES {
            match &last {
                Err(problem) if problem.code == codes::CONFLICT => last = write(),
                _ => break,
            }
        }
        last
    }

    /// Write items at once, or in halves if the store takes no more.
    fn in_parts<T>(&self, items: &[T], write: &impl Fn(&[T]) -> Outcome<ItemsChanged>) -> Outcome<ItemsChanged> {
        match self.retry(|| write(items)) {
            Err(problem) if [codes::LIMIT, codes::TOO_LARGE].contains(&&*problem.code) && items.len() > 1 => {
                let (first, second) = items.split_at(items.len() / 2);
                let mut changed = self.in_parts(first, write)?;
                changed.add(self.in_parts(second, write)?);
                Ok(changed)
            }
            done => done,
        }
    }

    fn write(
        &self,
        expectations: &[Expectation<'_>],
        operations: &[Operation<'_>],
        steps: &[IndexStep<'_>],
    ) -> Outcome<Outcomes> {
        if !steps.is_empty() {
            require_indexes(self.host)?;
        }
        let precondition = Precondition::create(None);
        let transaction = Transaction { bucket: self.id(), precondition, expectations, operations };
        let receipt = checked::transact_indexed(self.host, &IndexedTransaction { lease: None, transaction, steps })?;
        match receipt.receipt.status {
            Status::Applied | Status::Repeated => Ok(Outcomes::of_indexed(receipt)),
            _ => Err(raced()),
        }
    }

    /// None: there is no such collection.
    fn read(&self, operations: &[Operation<'_>]) -> Outcome<Option<Outcomes>> {
        checked::read_bucket(self.host, self.id(), Precondition::LOOK, operations)
    }

    fn put_entries(&self, map: &str, items: &[Checked]) -> Outcome<ItemsChanged> {
        // Of a key that is given twice, the last holds.
        let last: BTreeMap<&str, &str> = items.iter().map(|item| (&*item.key, &*item.text)).collect();
        let entries: Vec<_> = last.into_iter().map(|(key, text)| PutEntry { key, text }).collect();
        let added = self.write(&[], &[Operation::put(map, &entries)], &[])?.take_changed()?.added;
        Ok(ItemsChanged { added, changed: entries.len() as u64 - added.min(entries.len() as u64) })
    }

    fn remove_entries(&self, map: &str, ids: &[Rc<str>]) -> Outcome<ItemsChanged> {
        let keys = entry_keys(ids);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let removed = self.read(&[Operation::remove(map, &keys)])?;
        let changed = removed.map_or(Ok(0), |mut outcomes| outcomes.take_changed().map(|changed| changed.removed))?;
        Ok(ItemsChanged { added: 0, changed })
    }

    /// In the order of time: the newest's stands in `state`, and nothing older is appended. Of those with an id, the ones that
    /// the log does not have.
    fn append_events(&self, items: &[Checked]) -> Outcome<ItemsChanged> {
        let mut ids: Vec<&str> = items.iter().filter(|item| !item.id.is_empty()).map(|item| &*item.key).collect();
        ids.sort_unstable();
        ids.dedup();
        let look = [
            Operation::get(STATE, &NEWEST, 64),
            Operation::read(events::EVENTS, LogEnd::Newest, 0, 0),
            Operation::get_some(events::IDS, &ids, ENTRY_BYTES),
        ];
        let (newest, next, known) = match self.read(&look)? {
            Some(mut outcomes) => {
                let (newest, extent) = (outcomes.take_text()?, outcomes.take_records()?.extent);
                (newest, extent.next(), take_all_entries(&mut outcomes)?)
            }
            None => (None, 0, Vec::new()),
        };
        // One that comes twice counts where it comes first.
        let mut seen: HashSet<&str> = known.iter().map(|entry| &*entry.key).collect();
        let items: Vec<&Checked> = items.iter().filter(|item| item.id.is_empty() || seen.insert(&item.key)).collect();
        let (Some(first), Some(last)) = (items.first(), items.last()) else { return Ok(ItemsChanged::default()) };
        let at: Option<i64> = newest.as_deref().and_then(|text| text.parse().ok());
        if at.is_some_and(|newest| first.at < newest) {
            let what = format!(
                "an event of {} is older than the newest that the log has",
                first.value.member("timestamp").map(Value::to_json).unwrap_or_default()
            );
            return Err(Problem::invalid("timestamp", what));
        }
        let records: Vec<&str> = items.iter().map(|item| &*item.text).collect();
        let documents: Vec<_> =
            (next..).zip(&items).map(|(position, item)| Document { position, mark: 1, terms: &item.terms }).collect();
        let with_ids = (0..).zip(&items).filter(|(_, item)| !item.id.is_empty());
        let marks: Vec<_> = with_ids
            .map(|(record_index, item)| PositionMark { map_name: events::IDS, key: &item.key, record_index })
            .collect();
        let last = last.at.to_string();
        let newest_entry = [PutEntry { key: NEWEST, text: &last }];
        let same = match &newest {
            Some(newest) => Expectation::equal(STATE, NEWEST, newest),
            None => Expectation::absent(STATE, NEWEST),
        };
        // As long as the log has not moved, no other event with these ids has come.
        self.write(
            &[Expectation::log(events::EVENTS, None, Some(next)), same],
            &[Operation::append(events::EVENTS, &records, &marks), Operation::put(STATE, &newest_entry)],
            &[IndexStep::add_documents(events::FACETS, &documents)],
        )?;
        Ok(ItemsChanged { added: items.len() as u64, changed: 0 })
    }

    /// The log of records, the index that finds them, and the map that knows where each is.
    fn indexed_places(&self) -> (&'static str, &'static str, &'static str) {
        match self.kind {
            DataKind::Nodes => (graph::NODES, graph::FACETS, graph::NODES),
            _ => (documents::DOCUMENTS, documents::TERMS, POSITIONS),
        }
    }

    /// Where items stand, as their entries say.
    fn position(text: &str) -> Option<u64> {
        text.parse().ok().or_else(|| Value::parse(text).ok()?.member("position")?.as_whole())
    }

    /// Appends the new records, and notes the old ones as stale, which no read returns. A transaction writes each log and
    /// index once, so the old records are erased in another, which whoever writes next makes up for.
    fn put_indexed(&self, items: &[Checked]) -> Outcome<ItemsChanged> {
        let (log, index, map) = self.indexed_places();
        let last: BTreeMap<&str, &Checked> = items.iter().map(|item| (&*item.key, item)).collect();
        let keys: Vec<&str> = last.keys().copied().collect();
        let look = [
            Operation::get_some(map, &keys, ENTRY_BYTES),
            Operation::read(log, LogEnd::Newest, 0, 0),
            Operation::page_keys(STALE, "", 1, ENTRY_BYTES),
        ];
        let (known, next, had_stale) = match self.read(&look)? {
            Some(mut outcomes) => {
                let (known, extent) = (take_all_entries(&mut outcomes)?, outcomes.take_records()?.extent);
                (known, extent.next(), !outcomes.take_key_page()?.keys.is_empty())
            }
            None => (Vec::new(), 0, false),
        };
        let old: Vec<u64> = known.iter().filter_map(|entry| Self::position(&entry.text)).collect();
        let mut expectations = vec![Expectation::log(log, None, Some(next))];
        for key in &keys {
            let entry = known.iter().find(|entry| entry.key == *key);
            expectations.push(match entry {
                Some(entry) => Expectation::equal(map, key, &entry.text),
                None => Expectation::absent(map, key),
            });
        }
        let records: Vec<&str> = last.values().map(|item| &*item.text).collect();
        let vectors: Vec<String> = last
            .values()
            .map(|item| item.vector.as_ref().map_or("null".into(), |text| Value::from(&**text).to_json()))
            .collect();
        let vectors: Vec<&str> = vectors.iter().map(String::as_str).collect();
        let documents: Vec<_> = (next..)
            .zip(last.values())
            .map(|(position, item)| Document { position, mark: 1, terms: &item.terms })
            .collect();
        let entries: Vec<String> = (next..)
            .zip(last.values())
            .map(|(position, item)| match self.kind {
                DataKind::Nodes => format!(r#"{{"position":{position},"node":{}}}"#, item.text),
                _ => position.to_string(),
            })
            .collect();
        let entries: Vec<_> = keys.iter().zip(&entries).map(|(key, text)| PutEntry { key, text }).collect();
        let stale: Vec<String> = old.iter().map(u64::to_string).collect();
        let stale: Vec<_> = stale.iter().map(|key| PutEntry { key, text: "" }).collect();
        let mut operations =
            vec![Operation::append(log, &records, &[]), Operation::put(map, &entries), Operation::put(STALE, &stale)];
        if self.kind == DataKind::Documents {
            operations.push(Operation::append(documents::VECTORS, &vectors, &[]));
        }
        self.write(&expectations, &operations, &[IndexStep::add_documents(index, &documents)])?;
        let changed = old.len() as u64;
        if changed > 0 || had_stale {
            self.erase_stale()?;
        }
        Ok(ItemsChanged { added: keys.len() as u64 - changed.min(keys.len() as u64), changed })
    }

    /// Erase what was replaced.
    fn erase_stale(&self) -> Outcome<()> {
        let Some(mut outcomes) = self.read(&[Operation::page_keys(STALE, "", CHUNK as u64, ENTRY_BYTES)])? else {
            return Ok(());
        };
        let page = outcomes.take_key_page()?;
        let keys: Vec<&str> = page.keys.iter().map(String::as_str).collect();
        let mut positions: Vec<u64> = keys.iter().filter_map(|key| key.parse().ok()).collect();
        positions.sort_unstable();
        self.erase(&positions, &[], &[Operation::remove(STALE, &keys)])
    }

    /// Erase records, and do more in the same step.
    fn erase(&self, positions: &[u64], expectations: &[Expectation<'_>], more: &[Operation<'_>]) -> Outcome<()> {
        if positions.is_empty() {
            return Ok(());
        }
        let (log, index, _) = self.indexed_places();
        let erased: Vec<_> =
            positions.iter().map(|position| PositionedRecord { position: *position, text: "null" }).collect();
        let mut operations = vec![Operation::rewrite(log, &erased)];
        if self.kind == DataKind::Documents {
            operations.push(Operation::rewrite(documents::VECTORS, &erased));
        }
        operations.extend(more);
        self.write(expectations, &operations, &[IndexStep::remove_documents(index, positions)]).map(drop)
    }

    fn remove_indexed(&self, ids: &[Rc<str>]) -> Outcome<ItemsChanged> {
        let (_, _, map) = self.indexed_places();
        let keys = entry_keys(ids);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let Some(mut outcomes) = self.read(&[Operation::get_some(map, &keys, ENTRY_BYTES)])? else {
            return Ok(ItemsChanged::default());
        };
        let known = take_all_entries(&mut outcomes)?;
        let mut positions: Vec<u64> = known.iter().filter_map(|entry| Self::position(&entry.text)).collect();
        positions.sort_unstable();
        let expectations: Vec<_> = known.iter().map(|entry| Expectation::equal(map, &entry.key, &entry.text)).collect();
        let keys: Vec<&str> = known.iter().map(|entry| &*entry.key).collect();
        self.erase(&positions, &expectations, &[Operation::remove(map, &keys)])?;
        Ok(ItemsChanged { added: 0, changed: known.len() as u64 })
    }

    /// Put edges into the lists of both their ends, or remove them. A node's list is rewritten as a whole.
    fn change_edges(&self, edges: &[Checked], puts: bool) -> Outcome<ItemsChanged> {
        let ends = |end: usize| edges.iter().filter_map(move |edge| edge.ends.get(end).cloned());
        let starts = entry_keys(&ends(0).collect::<Vec<_>>());
        let ends = entry_keys(&ends(1).collect::<Vec<_>>());
        let start_keys: Vec<&str> = starts.iter().map(String::as_str).collect();
        let end_keys: Vec<&str> = ends.iter().map(String::as_str).collect();
        let look = [
            Operation::get_some(graph::OUT, &start_keys, ENTRY_BYTES),
            Operation::get_some(graph::IN, &end_keys, ENTRY_BYTES),
        ];
        let (out, into) = match self.read(&look)? {
            Some(mut outcomes) => (take_all_entries(&mut outcomes)?, take_all_entries(&mut outcomes)?),
            None => (Vec::new(), Vec::new()),
        };
        let mut changed = ItemsChanged::default();
        let (mut expectations, mut written) = (Vec::new(), Vec::new());
        for (map, keys, known, end) in [(graph::OUT, &start_keys, &out, 0), (graph::IN, &end_keys, &into, 1)] {
            let mut texts = Vec::new();
            for key in keys {
                let entry = known.iter().find(|entry| entry.key == *key);
                expectations.push(match entry {
                    Some(entry) => Expectation::equal(map, key, &entry.text),
                    None => Expectation::absent(map, key),
                });
                let list = entry.and_then(|entry| Value::parse(&entry.text).ok());
                let mut list: BTreeMap<String, Value> = list
                    .iter()
                    .flat_map(|list| list.as_list().unwrap_or_default())
                    .map(|edge| (id_of_edge(edge), edge.clone()))
                    .collect();
                for edge in edges.iter().filter(|edge| edge.ends.get(end).is_some_and(|end| to_map_key(end) == *key)) {
                    let before = if puts {
                        list.insert(edge.id.to_string(), edge.value.clone())
                    } else {
                        list.remove(&*edge.id)
                    };
                    if end == 0 {
                        changed.changed += u64::from(before.is_some());
                        changed.added += u64::from(puts && before.is_none());
                    }
                }
                texts.push(Value::list(list.into_values().collect()).to_json());
            }
            written.push((map, keys, texts));
        }
        let entries: Vec<(&str, Vec<PutEntry<'_>>)> = written
            .iter()
            .map(|(map, keys, texts)| {
                (*map, keys.iter().zip(texts).map(|(key, text)| PutEntry { key, text }).collect())
            })
            .collect();
        let operations: Vec<_> = entries.iter().map(|(map, entries)| Operation::put(map, entries)).collect();
        self.write(&expectations, &operations, &[])?;
        Ok(changed)
    }
}

fn id_of_edge(edge: &Value) -> String {
    let part = |name| edge.member(name).and_then(Value::as_text).unwrap_or_default();
    edge_id(part("from"), part("kind"), part("to"))
}

/// Items of a collection, and where the next page begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemPage {
    pub items: Vec<DataItem>,
    /// For the next page; empty after the last.
    pub cursor: String,
}

/// List a collection: events and documents newest first, the others in no order. A page has about `limit` items.
///
/// # Errors
/// `invalid` for a cursor that is none; otherwise the store's.
pub fn list_items(
    host: &impl Host,
    owner: &Owner,
    kind: DataKind,
    collection: &Collection,
    cursor: &str,
    limit: u32,
) -> Outcome<ItemPage> {
    let place = place(host, owner, kind, collection)?;
    match kind {
        DataKind::Events => place.list_log(events::EVENTS, cursor, limit),
        DataKind::Documents => place.list_log(documents::DOCUMENTS, cursor, limit),
        DataKind::Values => place.list_map(values::ENTRIES, cursor, limit),
        DataKind::Nodes => place.list_map(graph::NODES, cursor, limit),
        DataKind::Edges => place.list_map(graph::OUT, cursor, limit),
        DataKind::Views => place.list_map(graph::VIEWS, cursor, limit),
    }
}

impl<H: Host> Place<'_, H> {
    /// A page of a log, from the cursor's position back.
    fn list_log(&self, log: &str, cursor: &str, limit: u32) -> Outcome<ItemPage> {
        let limit = u64::from(limit.clamp(1, 1_000));
        let before: Option<u64> = if cursor.is_empty() {
            None
        } else {
            Some(cursor.parse().map_err(|_| Problem::invalid("cursor", "not a cursor of this collection"))?)
        };
        let span = before.map(|before| {
            let position = before.saturating_sub(limit);
            [Span { position, count: u32::try_from(before - position).unwrap_or(u32::MAX) }]
        });
        let read = match &span {
            None => Operation::read(log, LogEnd::Newest, limit, ENTRY_BYTES),
            Some(span) => Operation::read_at(log, span, ENTRY_BYTES),
        };
        let stale = Operation::page_keys(STALE, "", 1_000, ENTRY_BYTES);
        let Some(mut outcomes) = self.read(&[read, stale])? else { return Ok(ItemPage::default()) };
        let run = outcomes.take_records()?;
        let stale = outcomes.take_key_page()?.keys;
        let first = if run.records.is_empty() { span.map_or(0, |[span]| span.position) } else { run.first };
        let mut page = ItemPage::default();
        let records: Vec<(u64, &String)> = (run.first..).zip(&run.records).collect();
        for (position, text) in records.into_iter().rev() {
            let value = Value::parse(text).ok().filter(|value| !value.is_null());
            let Some(value) = value.filter(|_| !stale.contains(&position.to_string())) else { continue };
            let id = value.member("id").and_then(Value::as_text).filter(|_| self.kind == DataKind::Documents);
            page.items.push(DataItem { id: id.unwrap_or_default().into(), value });
        }
        if first > run.extent.first {
            page.cursor = first.to_string();
        }
        Ok(page)
    }

    fn list_map(&self, map: &str, cursor: &str, limit: u32) -> Outcome<ItemPage> {
        let page = Operation::page_entries(map, cursor, u64::from(limit.clamp(1, 1_000)), ENTRY_BYTES);
        let Some(mut outcomes) = self.read(&[page])? else { return Ok(ItemPage::default()) };
        let EntryPage { entries, cursor } = outcomes.take_entry_page()?;
        let mut items = Vec::new();
        for entry in entries {
            let Ok(value) = Value::parse(&entry.text) else { continue };
            let named = |name: &str| value.member(name).and_then(Value::as_text).unwrap_or(&entry.key).into();
            match self.kind {
                DataKind::Edges => {
                    let edges = value.as_list().unwrap_or_default().iter();
                    items.extend(edges.map(|edge| DataItem { id: id_of_edge(edge).into(), value: edge.clone() }));
                }
                DataKind::Values => {
                    items
                        .push(DataItem { id: named("key"), value: value.member("value").cloned().unwrap_or_default() });
                }
                DataKind::Nodes => {
                    let node = value.member("node").cloned().unwrap_or_default();
                    let id = node.member("id").and_then(Value::as_text).unwrap_or_default().into();
                    items.push(DataItem { id, value: node });
                }
                _ => items.push(DataItem { id: named("id"), value }),
            }
        }
        Ok(ItemPage { items, cursor })
    }
}
