//! Short names for what is asked of a store and for what it answers. Where no map is named, it is `values`; where a
//! bucket is a string, it is a session.

use std::time::Duration;

use keepline_stores::{
    AddDocumentsStep, AddOperation, AppendOperation, BucketId, ChangedEntries, CounterValue, DeleteRequest,
    DescribeOperation, Description, Document, Entry, EntryState, ExistingBucket, Expectation, ExpectedEntry,
    ExpectedLog, ExpectedRoom, FoundDocuments, FoundEntries, GetAllOperation, GetOperation, IndexExtent, IndexStep,
    IndexedTransaction, LeaseRequest, LogExtent, LogRecords, MarkRun, NewBucket, Operation, Outcome, PositionMark,
    PositionedRecord, Precondition, ReadAtOperation, ReadMarksStep, ReadOperation, RecordRun, RemoveDocumentsStep,
    ReplaceOldestOperation, RewriteOperation, SearchStep, SetOperation, Size, Span, TermHits, TimeToLive, Transaction,
    names::VALUES,
};

/// No limit.
pub const ALL: u64 = u64::MAX;

/// What a bucket can be named by.
pub trait Named {
    /// Its whole name.
    fn id(self) -> BucketId;
}

impl Named for &str {
    fn id(self) -> BucketId {
        session(self)
    }
}

impl Named for &String {
    fn id(self) -> BucketId {
        session(self)
    }
}

impl Named for &BucketId {
    fn id(self) -> BucketId {
        self.clone()
    }
}

impl Named for BucketId {
    fn id(self) -> BucketId {
        self
    }
}

/// A session.
pub fn session(name: &str) -> BucketId {
    BucketId::session(name)
}

/// What a transaction does: operations, steps on indexes, a lease, or a pair of those.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// What it does with maps and logs.
    pub operations: Vec<Operation>,
    /// What it does with indexes.
    pub steps: Vec<IndexStep>,
    /// The lease that it asks for.
    pub lease: Option<LeaseRequest>,
}

impl<const N: usize> From<[Operation; N]> for Work {
    fn from(operations: [Operation; N]) -> Self {
        Vec::from(operations).into()
    }
}

impl From<Vec<Operation>> for Work {
    fn from(operations: Vec<Operation>) -> Self {
        Self { operations, ..Self::default() }
    }
}

impl From<Operation> for Work {
    fn from(operation: Operation) -> Self {
        vec![operation].into()
    }
}

impl From<IndexStep> for Work {
    fn from(step: IndexStep) -> Self {
        Self { steps: vec![step], ..Self::default() }
    }
}

impl From<LeaseRequest> for Work {
    fn from(lease: LeaseRequest) -> Self {
        Self { lease: Some(lease), ..Self::default() }
    }
}

impl<A: Into<Self>, B: Into<Self>> From<(A, B)> for Work {
    fn from((first, second): (A, B)) -> Self {
        let (mut work, second): (Self, Self) = (first.into(), second.into());
        work.operations.extend(second.operations);
        work.steps.extend(second.steps);
        assert!(work.lease.is_none() || second.lease.is_none(), "a transaction asks for one lease");
        work.lease = work.lease.or(second.lease);
        work
    }
}

impl FromIterator<Self> for Work {
    fn from_iter<T: IntoIterator<Item = Self>>(all: T) -> Self {
        all.into_iter().fold(Self::default(), |work, more| (work, more).into())
    }
}

/// A transaction without expectations.
pub fn transaction(bucket: impl Named, precondition: Precondition, work: impl Into<Work>) -> IndexedTransaction {
    expecting(bucket, precondition, [], work)
}

/// A transaction with expectations.
pub fn expecting(
    bucket: impl Named,
    precondition: Precondition,
    expectations: impl Into<Vec<Expectation>>,
    work: impl Into<Work>,
) -> IndexedTransaction {
    let Work { operations, steps, lease } = work.into();
    let (bucket, expectations) = (bucket.id(), expectations.into());
    IndexedTransaction { lease, transaction: Transaction { bucket, precondition, expectations, operations }, steps }
}

/// The deletion of a bucket, whichever generation it is.
pub fn deletion_of(bucket: impl Named) -> DeleteRequest {
    DeleteRequest { bucket: bucket.id(), generation: None, max_keys: 10 }
}

fn strings<T: AsRef<str>>(texts: &[T]) -> Vec<String> {
    texts.iter().map(|text| text.as_ref().to_owned()).collect()
}

fn entry_list<K: AsRef<str>, V: AsRef<str>>(entries: &[(K, V)]) -> Vec<Entry> {
    entries.iter().map(|(key, text)| Entry { key: key.as_ref().into(), text: text.as_ref().into() }).collect()
}

// Preconditions.

/// It must be there.
pub fn existing() -> Precondition {
    Precondition::Existing(ExistingBucket { generation: None, renew: true })
}

/// It must be there, and this is no use of it.
pub fn unused() -> Precondition {
    Precondition::Existing(ExistingBucket { generation: None, renew: false })
}

/// This life of it must be there.
pub fn life(generation: &str) -> Precondition {
    Precondition::Existing(ExistingBucket { generation: Some(generation.into()), renew: true })
}

/// Create it for ever when it is absent.
pub fn create() -> Precondition {
    Precondition::Create(NewBucket { time_to_live: None })
}

/// Create it for ever; it must be absent.
pub fn create_new() -> Precondition {
    Precondition::CreateNew(NewBucket { time_to_live: None })
}

/// Create it for ever in the place of what is there.
pub fn replace() -> Precondition {
    Precondition::Replace(NewBucket { time_to_live: None })
}

/// Create it with a fixed time to live.
pub fn create_for(time: Duration) -> Precondition {
    Precondition::Create(NewBucket { time_to_live: Some(time_to_live(time, false)) })
}

/// Create it with a time to live that starts again with each use.
pub fn create_sliding(time: Duration) -> Precondition {
    Precondition::Create(NewBucket { time_to_live: Some(time_to_live(time, true)) })
}

/// A time to live.
pub fn time_to_live(time: Duration, sliding: bool) -> TimeToLive {
    TimeToLive { milliseconds: u64::try_from(time.as_millis()).unwrap(), sliding }
}

// Expectations.

/// An entry is in this state.
pub fn entry_in(map: &str, key: &str, state: EntryState, text: &str) -> Expectation {
    Expectation::Entry(ExpectedEntry { map_name: map.into(), key: key.into(), state, text: text.into() })
}

/// There is no such value.
pub fn absent(key: &str) -> Expectation {
    entry_in(VALUES, key, EntryState::Absent, "")
}

/// There is such a value.
pub fn present(key: &str) -> Expectation {
    entry_in(VALUES, key, EntryState::Present, "")
}

/// The value is this.
pub fn equal(key: &str, text: &str) -> Expectation {
    entry_in(VALUES, key, EntryState::Equal, text)
}

/// A log stands here.
pub fn log_at(log: &str, first: impl Into<Option<u64>>, next: impl Into<Option<u64>>) -> Expectation {
    Expectation::Log(ExpectedLog { log: log.into(), first: first.into(), next: next.into() })
}

/// There is room for the values that are created.
pub fn room_within(limit: u64) -> Expectation {
    room_in(VALUES, limit)
}

/// There is room in a map.
pub fn room_in(map: &str, limit: u64) -> Expectation {
    Expectation::Room(ExpectedRoom { map_name: map.into(), limit })
}

// Operations.

/// Read a value of any length.
pub fn get(key: &str) -> Operation {
    get_within(key, ALL)
}

/// Read a value that is not too long.
pub fn get_within(key: &str, max_bytes: u64) -> Operation {
    get_in(VALUES, &[key], max_bytes)
}

/// Read entries of a map.
pub fn get_in<K: AsRef<str>>(map: &str, keys: &[K], max_bytes: u64) -> Operation {
    Operation::Get(GetOperation { map_name: map.into(), keys: strings(keys), max_bytes })
}

/// Read all values.
pub fn get_all() -> Operation {
    get_all_within(ALL, ALL)
}

/// Read all values, unless they are too many.
pub fn get_all_within(max_bytes: u64, max_entries: u64) -> Operation {
    get_all_in_within(VALUES, max_bytes, max_entries)
}

/// Read a whole map.
pub fn get_all_in(map: &str) -> Operation {
    get_all_in_within(map, ALL, ALL)
}

/// Read a whole map, unless it is too much.
pub fn get_all_in_within(map: &str, max_bytes: u64, max_entries: u64) -> Operation {
    let (map_name, cursor, keys_only) = (map.into(), None, false);
    Operation::GetAll(GetAllOperation { map_name, cursor, max_entries, max_bytes, keys_only })
}

/// Read a page of a map.
pub fn page(map: &str, cursor: &str, max_entries: u64, max_bytes: u64) -> Operation {
    let (map_name, cursor, keys_only) = (map.into(), Some(cursor.into()), false);
    Operation::GetAll(GetAllOperation { map_name, cursor, max_entries, max_bytes, keys_only })
}

/// Read the keys of a page of a map.
pub fn page_of_keys(map: &str, cursor: &str, max_entries: u64) -> Operation {
    let (map_name, cursor, keys_only) = (map.into(), Some(cursor.into()), true);
    Operation::GetAll(GetAllOperation { map_name, cursor, max_entries, max_bytes: ALL, keys_only })
}

/// Set a value.
pub fn put(key: &str, text: &str) -> Operation {
    put_in(VALUES, &[(key, text)])
}

/// Set entries of a map.
pub fn put_in<K: AsRef<str>, V: AsRef<str>>(map: &str, entries: &[(K, V)]) -> Operation {
    set(map, false, NONE, entries)
}

/// Remove entries of a map, all others, too, if it is reset, and put others.
pub fn set<R: AsRef<str>, K: AsRef<str>, V: AsRef<str>>(
    map: &str,
    reset: bool,
    remove: &[R],
    put: &[(K, V)],
) -> Operation {
    Operation::Set(SetOperation { map_name: map.into(), reset, remove: strings(remove), put: entry_list(put) })
}

/// Count.
pub fn add(key: &str, amount: i64) -> Operation {
    add_in(VALUES, key, amount)
}

/// Count in a map.
pub fn add_in(map: &str, key: &str, amount: i64) -> Operation {
    Operation::Add(AddOperation { map_name: map.into(), key: key.into(), amount })
}

/// Remove a value.
pub fn remove(key: &str) -> Operation {
    remove_in(VALUES, &[key])
}

/// Remove entries of a map.
pub fn remove_in<K: AsRef<str>>(map: &str, keys: &[K]) -> Operation {
    set::<_, &str, &str>(map, false, keys, &[])
}

/// Remove all values.
pub fn remove_all() -> Operation {
    reset_map::<&str, &str>(VALUES, &[])
}

/// Remove all entries of a map and put others.
pub fn reset_map<K: AsRef<str>, V: AsRef<str>>(map: &str, entries: &[(K, V)]) -> Operation {
    set(map, true, NONE, entries)
}

/// Append to a log.
pub fn append<T: AsRef<str>>(log: &str, records: &[T]) -> Operation {
    append_marked(log, records, &[])
}

/// Append to a log, and put positions into a map: the map, the key, and which of the records.
pub fn append_marked<T: AsRef<str>>(log: &str, records: &[T], marks: &[(&str, &str, u32)]) -> Operation {
    append_to(log, false, records, marks)
}

/// Drop all records and append others.
pub fn reset_log<T: AsRef<str>>(log: &str, records: &[T]) -> Operation {
    append_to(log, true, records, &[])
}

fn append_to<T: AsRef<str>>(log: &str, reset: bool, records: &[T], marks: &[(&str, &str, u32)]) -> Operation {
    let mark = |(map, key, record_index): &(&str, &str, u32)| PositionMark {
        map_name: (*map).into(),
        key: (*key).into(),
        record_index: *record_index,
    };
    let (records, marks) = (strings(records), marks.iter().map(mark).collect());
    Operation::Append(AppendOperation { log: log.into(), reset, records, marks })
}

/// Read from an end of a log that has more than `only_over` records, but never the newest that are to be left.
pub fn read(log: &str, newest: bool, (only_over, leave): (u64, u64), max_records: u64, max_bytes: u64) -> Operation {
    Operation::Read(ReadOperation { log: log.into(), newest, only_over, leave, max_records, max_bytes })
}

/// Read from the oldest record on.
pub fn read_oldest(log: &str, max_records: u64, max_bytes: u64) -> Operation {
    read(log, false, (0, 0), max_records, max_bytes)
}

/// Read what ends with the newest record.
pub fn read_newest(log: &str, max_records: u64, max_bytes: u64) -> Operation {
    read(log, true, (0, 0), max_records, max_bytes)
}

/// Read a log from end to end.
pub fn read_all(log: &str) -> Operation {
    read_oldest(log, ALL, ALL)
}

/// Ask where a log stands.
pub fn count(log: &str) -> Operation {
    read_oldest(log, 0, 0)
}

/// Read runs of records: position and count of each.
pub fn read_at(log: &str, spans: &[(u64, u32)], max_bytes: u64) -> Operation {
    let spans = spans.iter().map(|(position, count)| Span { position: *position, count: *count }).collect();
    Operation::ReadAt(ReadAtOperation { log: log.into(), spans, max_bytes })
}

/// Read the oldest records of a log that has more than `only_over`, but not the newest that are to be left.
pub fn read_surplus(log: &str, only_over: u64, leave: u64, max_records: u64, max_bytes: u64) -> Operation {
    read(log, false, (only_over, leave), max_records, max_bytes)
}

/// Replace the oldest records.
pub fn replace_oldest<T: AsRef<str>>(log: &str, count: u64, records: &[T]) -> Operation {
    Operation::ReplaceOldest(ReplaceOldestOperation { log: log.into(), count, records: strings(records) })
}

/// Replace one record.
pub fn rewrite(log: &str, position: u64, record: &str) -> Operation {
    rewrite_each(log, &[(position, record)])
}

/// Replace some records.
pub fn rewrite_each(log: &str, records: &[(u64, &str)]) -> Operation {
    let positioned =
        |(position, text): &(u64, &str)| PositionedRecord { position: *position, text: (*text).to_owned() };
    Operation::Rewrite(RewriteOperation { log: log.into(), records: records.iter().map(positioned).collect() })
}

/// Take a lease.
pub fn lease(name: &str, holder: &str, time: Duration) -> LeaseRequest {
    let milliseconds = u64::try_from(time.as_millis()).unwrap();
    LeaseRequest { name: name.into(), holder: holder.into(), milliseconds }
}

/// A document of an index, with a mark that follows from its position.
pub fn document(position: u64, terms: &[u32]) -> Document {
    Document { position, mark: mark_of(position), terms: terms.to_vec() }
}

/// The mark of a [`document`].
pub fn mark_of(position: u64) -> u16 {
    u16::try_from(position % 60_000).unwrap() + 1
}

/// Add documents to an index.
pub fn add_documents(index: &str, documents: impl Into<Vec<Document>>) -> IndexStep {
    IndexStep::AddDocuments(AddDocumentsStep { index: index.into(), documents: documents.into() })
}

/// Take documents out of an index.
pub fn remove_documents(index: &str, positions: impl Into<Vec<u64>>) -> IndexStep {
    IndexStep::RemoveDocuments(RemoveDocumentsStep { index: index.into(), positions: positions.into() })
}

/// Look for terms among all positions, without what is around the hits.
pub fn search(index: &str, terms: &[u32]) -> IndexStep {
    search_within(index, terms, ALL, 0, ALL)
}

/// Look for terms among the newest positions, with the marks around the hits, for so many bytes of reply.
pub fn search_within(index: &str, terms: &[u32], newest: u64, around: u32, max_bytes: u64) -> IndexStep {
    IndexStep::Search(SearchStep { index: index.into(), terms: terms.to_vec(), newest, around, max_bytes })
}

/// Read the marks of some positions.
pub fn read_marks(index: &str, from_position: u64, count: u32) -> IndexStep {
    IndexStep::ReadMarks(ReadMarksStep { index: index.into(), from_position, count })
}

/// Describe the bucket, with all its parts.
pub fn describe() -> Operation {
    Operation::Describe(DescribeOperation { parts: true })
}

/// No records, no keys.
pub const NONE: &[&str] = &[];

// Outcomes.

/// Entries that are there.
pub fn entries<K: AsRef<str>, V: AsRef<str>>(entries: &[(K, V)]) -> Outcome {
    Outcome::Entries(FoundEntries { entries: entry_list(entries), missing: None })
}

/// No entries.
pub fn nothing() -> Outcome {
    entries::<&str, &str>(&[])
}

/// Entries, some of which can't be returned.
pub fn unreadable(found: &[(&str, &str)], unreadable: &[&str]) -> Outcome {
    Outcome::Entries(FoundEntries::new(entry_list(found), strings(unreadable)))
}

/// More than was asked for.
pub fn oversize(bytes: u64, entries: u64) -> Outcome {
    Outcome::Entries(FoundEntries::oversize(Size { bytes, entries }))
}

/// The size of what was more than was asked for.
pub fn oversize_of(outcome: &Outcome) -> Size {
    match outcome {
        Outcome::Entries(FoundEntries { missing: Some(missing), .. }) if missing.oversize.is_some() => {
            missing.oversize.unwrap()
        }
        other => panic!("{other:?} is not oversize"),
    }
}

/// The entries that were found.
pub fn entries_of(outcome: Outcome) -> FoundEntries {
    match outcome {
        Outcome::Entries(found) if found.size_over_limit().is_none() => found,
        other => panic!("{other:?} has no entries"),
    }
}

/// So many entries were written that were not there, and so many removed that were.
pub fn changed(added: u64, removed: u64) -> Outcome {
    Outcome::Changed(ChangedEntries { added, removed })
}

/// Counted.
pub fn counter(value: i64) -> Outcome {
    Outcome::Counter(CounterValue { value })
}

/// Where a log stands after it was written to, or where nothing was read of it.
pub fn extent(first: u64, length: u64) -> Outcome {
    Outcome::Extent(LogExtent { first, length })
}

/// Records of a log that stands there.
pub fn records<T: AsRef<str>>((oldest, length): (u64, u64), first: u64, records: &[T]) -> Outcome {
    if records.is_empty() {
        return extent(oldest, length);
    }
    let runs = vec![RecordRun { first, records: strings(records) }];
    Outcome::Records(LogRecords { extent: LogExtent { first: oldest, length }, runs })
}

/// A whole log, from its first position on.
pub fn whole<T: AsRef<str>>(first: u64, all: &[T]) -> Outcome {
    records((first, all.len() as u64), first, all)
}

/// Runs of records, each with the position of its first.
pub fn runs(first: u64, length: u64, runs: &[(u64, &[&str])]) -> Outcome {
    let runs = runs.iter().map(|(first, records)| RecordRun { first: *first, records: strings(records) }).collect();
    Outcome::Records(LogRecords { extent: LogExtent { first, length }, runs })
}

/// The records that were read, in their order: none where there is only an extent.
pub fn records_of(outcome: &Outcome) -> Vec<String> {
    match outcome {
        Outcome::Records(read) => read.runs.iter().flat_map(|run| run.records.clone()).collect(),
        Outcome::Extent(_) => Vec::new(),
        other => panic!("{other:?} is not what a log is read as"),
    }
}

/// Where a log stands, whatever was read of it.
pub fn extent_of(outcome: &Outcome) -> LogExtent {
    match outcome {
        Outcome::Records(LogRecords { extent, .. }) | Outcome::Extent(extent) => *extent,
        other => panic!("{other:?} tells of no log"),
    }
}

/// Where an index stands.
pub fn index_at(next: u64, documents: u64, occurrences: u64) -> IndexExtent {
    IndexExtent { next, documents, occurrences }
}

/// An index that stands there, of which nothing was read: it was written to.
pub fn indexed(next: u64, documents: u64, occurrences: u64) -> FoundDocuments {
    found(index_at(next, documents, occurrences), next, &[], &[])
}

/// What was found in an index from a position on: runs of marks, and where each term occurs, as offsets from there.
pub fn found(extent: IndexExtent, from_position: u64, runs: &[(u32, &[u16])], terms: &[&[u32]]) -> FoundDocuments {
    let runs = runs.iter().map(|(offset, marks)| MarkRun { offset: *offset, marks: marks.to_vec() }).collect();
    let terms = terms.iter().map(|offsets| TermHits { offsets: offsets.to_vec() }).collect();
    FoundDocuments { extent, from_position, runs, terms }
}

/// What a bucket is described as.
pub fn description(outcome: Outcome) -> Description {
    match outcome {
        Outcome::Described(description) => description,
        other => panic!("{other:?} is no description"),
    }
}

/// Examples of all that a transaction can do, those that write to `values` among them. What holds for any work is tried
/// with these: an operation or a step that is new does not compile here until it has some.
pub fn examples() -> Vec<Work> {
    let mut operations = vec![get("k")];
    while let Some(more) = operations.last().map(examples_after).filter(|more| !more.is_empty()) {
        operations.extend(more);
    }
    let mut steps = vec![search("recall", &[1])];
    while let Some(more) = steps.last().map(step_examples_after).filter(|more| !more.is_empty()) {
        steps.extend(more);
    }
    let lease = lease("work", "me", Duration::from_secs(11 * 1800));
    let operations = operations.into_iter().map(Work::from);
    operations.chain(steps.into_iter().map(Work::from)).chain([lease.into()]).collect()
}

/// Those of the operation that comes after this one.
fn examples_after(operation: &Operation) -> Vec<Operation> {
    match operation {
        Operation::Get(_) => {
            vec![page("notes", "", 10, ALL), page(VALUES, "", 10, ALL), get_all_in("notes"), get_all()]
        }
        Operation::GetAll(_) => vec![
            put_in("notes", &[("k", "1")]),
            put_in(VALUES, &[("k", "1"), ("new", "2")]),
            remove_in("notes", &["k", "x"]),
            remove_in(VALUES, &["k", "x"]),
            set(VALUES, false, &["k", "x"], &[("new", "2")]),
            remove_all(),
            reset_map("notes", &[("k", "1")]),
            reset_map(VALUES, &[("k", "1"), ("new", "2"), ("newer", "3")]),
        ],
        Operation::Set(_) => vec![add_in("notes", "n", 1), add("new", 1)],
        Operation::Add(_) => vec![
            append_marked("l", &["a", "b"], &[("notes", "m", 1)]),
            reset_log("l", &["z"]),
            append("history", &["a"]),
        ],
        Operation::Append(_) => vec![read_surplus("l", 1, 1, ALL, ALL), read_newest("l", 1, ALL), read_all("l")],
        Operation::Read(_) => vec![read_at("l", &[(0, 2)], ALL)],
        Operation::ReadAt(_) => vec![replace_oldest("l", 2, &["s"])],
        Operation::ReplaceOldest(_) => vec![rewrite("l", 1, "r")],
        Operation::Rewrite(_) => vec![describe()],
        Operation::Describe(_) => vec![],
    }
}

/// Those of the step that comes after this one.
fn step_examples_after(step: &IndexStep) -> Vec<IndexStep> {
    match step {
        IndexStep::Search(_) => vec![read_marks("recall", 0, 10)],
        IndexStep::ReadMarks(_) => {
            vec![add_documents("recall", [Document { position: 600, mark: 1, terms: vec![1, 2] }])]
        }
        IndexStep::AddDocuments(_) => vec![remove_documents("recall", [1, 2])],
        IndexStep::RemoveDocuments(_) => vec![],
    }
}
