//! Short names for what is asked of a store and for what it answers. Where no map is named, it is `values`; where a
//! bucket is a string, it is a session.

use std::time::Duration;

use keepline_stores::{
    AppendOperation, BucketId, BucketKind, CounterValue, DescribeOperation, Description, Entry, EntryCount, EntryState,
    ExistingBucket, Expectation, ExpectedEntry, ExpectedLog, ExpectedRoom, FoundEntries, FoundMatches, GetAllOperation,
    GetOperation, IncrementOperation, IndexExtent, LeaseOperation, LogEnd, LogExtent, LogRecords, LogSpans,
    MatchOperation, NewBucket, Operation, Outcome, OverflowOperation, PageOperation, PositionMark, PositionedRecord,
    PostOperation, Posting, Precondition, PutOperation, ReadAtOperation, ReadOperation, RemoveOperation,
    ReplaceOldestOperation, ResetLogOperation, ResetMapOperation, RewriteOperation, Size, Span, SpanRecords,
    TermMatches, TimeToLive, Transaction, UnpostOperation, names::VALUES,
};

/// No limit.
pub const ALL: u64 = u64::MAX;

/// All kinds of buckets.
pub const KINDS: [BucketKind; 6] = [
    BucketKind::Session,
    BucketKind::User,
    BucketKind::Node,
    BucketKind::Definition,
    BucketKind::Dataset,
    BucketKind::Service,
];

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
    bucket(BucketKind::Session, name)
}

/// A bucket of any kind.
pub fn bucket(kind: BucketKind, name: &str) -> BucketId {
    BucketId { kind, name: name.into() }
}

/// A transaction without expectations.
pub fn transaction(
    bucket: impl Named,
    precondition: Precondition,
    operations: impl Into<Vec<Operation>>,
) -> Transaction {
    expecting(bucket, precondition, [], operations)
}

/// A transaction with expectations.
pub fn expecting(
    bucket: impl Named,
    precondition: Precondition,
    expectations: impl Into<Vec<Expectation>>,
    operations: impl Into<Vec<Operation>>,
) -> Transaction {
    Transaction { bucket: bucket.id(), precondition, expectations: expectations.into(), operations: operations.into() }
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
    Operation::GetAll(GetAllOperation { map_name: map.into(), max_entries, max_bytes })
}

/// Read a page of a map.
pub fn page(map: &str, cursor: &str, max_entries: u64, max_bytes: u64) -> Operation {
    Operation::Page(PageOperation {
        map_name: map.into(),
        cursor: cursor.into(),
        max_entries,
        max_bytes,
        keys_only: false,
    })
}

/// Read the keys of a page of a map.
pub fn page_of_keys(map: &str, cursor: &str, max_entries: u64) -> Operation {
    let Operation::Page(page) = page(map, cursor, max_entries, ALL) else { unreachable!() };
    Operation::Page(PageOperation { keys_only: true, ..page })
}

/// Set a value.
pub fn put(key: &str, text: &str) -> Operation {
    put_in(VALUES, &[(key, text)])
}

/// Set entries of a map.
pub fn put_in<K: AsRef<str>, V: AsRef<str>>(map: &str, entries: &[(K, V)]) -> Operation {
    Operation::Put(PutOperation { map_name: map.into(), entries: entry_list(entries) })
}

/// Count.
pub fn increment(key: &str, amount: i64) -> Operation {
    increment_in(VALUES, key, amount)
}

/// Count in a map.
pub fn increment_in(map: &str, key: &str, amount: i64) -> Operation {
    Operation::Increment(IncrementOperation { map_name: map.into(), key: key.into(), amount })
}

/// Remove a value.
pub fn remove(key: &str) -> Operation {
    remove_in(VALUES, &[key])
}

/// Remove entries of a map.
pub fn remove_in<K: AsRef<str>>(map: &str, keys: &[K]) -> Operation {
    Operation::Remove(RemoveOperation { map_name: map.into(), keys: strings(keys) })
}

/// Remove all values.
pub fn remove_all() -> Operation {
    reset_map::<&str, &str>(VALUES, &[])
}

/// Remove all entries of a map and set others.
pub fn reset_map<K: AsRef<str>, V: AsRef<str>>(map: &str, entries: &[(K, V)]) -> Operation {
    Operation::ResetMap(ResetMapOperation { map_name: map.into(), entries: entry_list(entries) })
}

/// Append to a log.
pub fn append<T: AsRef<str>>(log: &str, records: &[T]) -> Operation {
    append_marked(log, records, &[])
}

/// Append to a log, and put positions into a map: the map, the key, and which of the records.
pub fn append_marked<T: AsRef<str>>(log: &str, records: &[T], marks: &[(&str, &str, u32)]) -> Operation {
    Operation::Append(AppendOperation { log: log.into(), records: strings(records), marks: mark_list(marks) })
}

fn mark_list(marks: &[(&str, &str, u32)]) -> Vec<PositionMark> {
    let mark = |(map, key, record_index): &(&str, &str, u32)| PositionMark {
        map_name: (*map).into(),
        key: (*key).into(),
        record_index: *record_index,
    };
    marks.iter().map(mark).collect()
}

/// Read from the oldest record on.
pub fn read_oldest(log: &str, max_records: u64, max_bytes: u64) -> Operation {
    Operation::Read(ReadOperation { log: log.into(), end: LogEnd::Oldest, max_records, max_bytes })
}

/// Read what ends with the newest record.
pub fn read_newest(log: &str, max_records: u64, max_bytes: u64) -> Operation {
    Operation::Read(ReadOperation { log: log.into(), end: LogEnd::Newest, max_records, max_bytes })
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

/// Ask for the surplus.
pub fn overflow(log: &str, limit: u64, keep: u64, max_records: u64, max_bytes: u64) -> Operation {
    Operation::Overflow(OverflowOperation { log: log.into(), limit, keep, max_records, max_bytes })
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

/// Drop all records and append others.
pub fn reset_log<T: AsRef<str>>(log: &str, records: &[T]) -> Operation {
    Operation::ResetLog(ResetLogOperation { log: log.into(), records: strings(records), marks: vec![] })
}

/// Take a lease.
pub fn lease(lease: &str, holder: &str, time: Duration) -> Operation {
    let milliseconds = u64::try_from(time.as_millis()).unwrap();
    Operation::Lease(LeaseOperation { lease: lease.into(), holder: holder.into(), milliseconds })
}

/// A document of an index, with a mark that follows from its position.
pub fn document(position: u64, terms: &[u32]) -> Posting {
    Posting { position, mark: mark_of(position), terms: terms.to_vec() }
}

/// The mark of a [`document`].
pub fn mark_of(position: u64) -> u16 {
    u16::try_from(position % 60_000).unwrap() + 1
}

/// Add documents to an index.
pub fn post(index: &str, documents: impl Into<Vec<Posting>>) -> Operation {
    Operation::Post(PostOperation { index: index.into(), documents: documents.into() })
}

/// Take documents out of an index.
pub fn unpost(index: &str, positions: impl Into<Vec<u64>>) -> Operation {
    Operation::Unpost(UnpostOperation { index: index.into(), positions: positions.into() })
}

/// Look for terms among all positions.
pub fn find(index: &str, terms: &[u32]) -> Operation {
    find_within(index, terms, ALL, ALL)
}

/// Look for terms among the newest positions, for so many bytes of reply.
pub fn find_within(index: &str, terms: &[u32], newest: u64, max_bytes: u64) -> Operation {
    Operation::Match(MatchOperation { index: index.into(), terms: terms.to_vec(), newest, max_bytes })
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
    Outcome::Entries(FoundEntries { entries: entry_list(entries), unreadable: Vec::new() })
}

/// No entries.
pub fn nothing() -> Outcome {
    entries::<&str, &str>(&[])
}

/// Entries, some of which can't be returned.
pub fn unreadable(found: &[(&str, &str)], unreadable: &[&str]) -> Outcome {
    Outcome::Entries(FoundEntries { entries: entry_list(found), unreadable: strings(unreadable) })
}

/// More than was asked for.
pub fn oversize(bytes: u64, entries: u64) -> Outcome {
    Outcome::Oversize(Size { bytes, entries })
}

/// So many entries were written that were not there, or removed that were.
pub fn changed(count: u64) -> Outcome {
    Outcome::Changed(EntryCount { count })
}

/// Counted.
pub fn counter(value: i64) -> Outcome {
    Outcome::Counter(CounterValue { value })
}

/// Where a log stands after it was written to.
pub fn extent(first: u64, length: u64) -> Outcome {
    Outcome::Extent(LogExtent { first, length })
}

/// Records of a log that stands there.
pub fn records<T: AsRef<str>>((oldest, length): (u64, u64), first: u64, records: &[T]) -> Outcome {
    let extent = LogExtent { first: oldest, length };
    Outcome::Records(LogRecords { extent, first, records: strings(records) })
}

/// A whole log, from its first position on.
pub fn whole<T: AsRef<str>>(first: u64, all: &[T]) -> Outcome {
    records((first, all.len() as u64), first, all)
}

/// Where a log [stands](count).
pub fn counted(first: u64, length: u64) -> Outcome {
    records((first, length), first + length, NONE)
}

/// Runs of records, each with the position of its first.
pub fn spans(first: u64, length: u64, spans: &[(u64, &[&str])]) -> Outcome {
    let extent = LogExtent { first, length };
    let spans = spans.iter().map(|(first, records)| SpanRecords { first: *first, records: strings(records) });
    Outcome::Spans(LogSpans { extent, spans: spans.collect() })
}

/// Where an index stands after it was written to.
pub fn indexed(next: u64, documents: u64) -> Outcome {
    Outcome::Indexed(IndexExtent { next, documents })
}

/// What was found in an index that stands there: marks from the first position on, and where each term occurs.
pub fn matches((next, documents): (u64, u64), first: u64, marks: &[u16], terms: &[&[u32]]) -> Outcome {
    let terms = terms.iter().map(|offsets| TermMatches { offsets: offsets.to_vec() }).collect();
    Outcome::Matches(FoundMatches { extent: IndexExtent { next, documents }, first, marks: marks.to_vec(), terms })
}

/// What was found, whatever it is.
pub fn found_in(outcome: Outcome) -> FoundMatches {
    match outcome {
        Outcome::Matches(found) => found,
        other => panic!("{other:?} is nothing that was found in an index"),
    }
}

/// What a bucket is described as.
pub fn description(outcome: Outcome) -> Description {
    match outcome {
        Outcome::Described(description) => description,
        other => panic!("{other:?} is no description"),
    }
}

/// Examples of every operation, those that write to `values` among them. What holds for any operation is tried with
/// these: a new one does not compile here until it has some.
pub fn examples() -> Vec<Operation> {
    let mut all = vec![get("k")];
    loop {
        let more = match all.last() {
            Some(last) => examples_after(last),
            None => Vec::new(),
        };
        if more.is_empty() {
            return all;
        }
        all.extend(more);
    }
}

/// Those of the operation that comes after this one.
fn examples_after(operation: &Operation) -> Vec<Operation> {
    match operation {
        Operation::Get(_) => vec![get_all_in("notes"), get_all()],
        Operation::GetAll(_) => vec![page("notes", "", 10, ALL), page(VALUES, "", 10, ALL)],
        Operation::Page(_) => vec![put_in("notes", &[("k", "1")]), put_in(VALUES, &[("k", "1"), ("new", "2")])],
        Operation::Put(_) => vec![increment_in("notes", "n", 1), increment("new", 1)],
        Operation::Increment(_) => vec![remove_in("notes", &["k", "x"]), remove_in(VALUES, &["k", "x"])],
        Operation::Remove(_) => vec![
            remove_all(),
            reset_map("notes", &[("k", "1")]),
            reset_map(VALUES, &[("k", "1"), ("new", "2"), ("newer", "3")]),
        ],
        Operation::ResetMap(_) => {
            vec![append_marked("l", &["a", "b"], &[("notes", "m", 1)]), append("history", &["a"])]
        }
        Operation::Append(_) => vec![read_all("l")],
        Operation::Read(_) => vec![read_at("l", &[(0, 2)], ALL)],
        Operation::ReadAt(_) => vec![overflow("l", 1, 1, ALL, ALL)],
        Operation::Overflow(_) => vec![replace_oldest("l", 2, &["s"])],
        Operation::ReplaceOldest(_) => vec![rewrite("l", 1, "r")],
        Operation::Rewrite(_) => vec![reset_log("l", &["z"])],
        Operation::ResetLog(_) => vec![lease("work", "me", Duration::from_secs(11 * 1800))],
        Operation::Lease(_) => vec![describe()],
        Operation::Describe(_) => vec![post("recall", [Posting { position: 600, mark: 1, terms: vec![1, 2] }])],
        Operation::Post(_) => vec![unpost("recall", [1, 2])],
        Operation::Unpost(_) => vec![find("recall", &[1])],
        Operation::Match(_) => vec![],
    }
}
