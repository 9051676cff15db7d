//! Short names for what is asked of a store and for what it answers.

use std::time::Duration;

use keepline_stores::{
    AllValues, AppendOperation, CountOperation, CounterValue, Entry, ExistingLife, Expectation, ExpectedKeys,
    ExpectedOldest, ExpectedRoom, FoundValue, GetAllOperation, GetOperation, IncrementOperation, KeyNames,
    ListKeysOperation, LogEnd, LogExtent, LogRecords, NewLife, Opening, Operation, Outcome, OverflowOperation,
    PutOperation, ReadOperation, RemoveAllOperation, RemoveOperation, ReplaceOldestOperation, RewriteOperation, Size,
    TimeToLive, Transaction, WriteDone,
};

/// No limit.
pub const ALL: u64 = u64::MAX;

/// A transaction without expectations.
pub fn transaction(bucket: &str, opening: Opening, operations: impl Into<Vec<Operation>>) -> Transaction {
    expecting(bucket, opening, [], operations)
}

/// A transaction with expectations.
pub fn expecting(
    bucket: &str,
    opening: Opening,
    expectations: impl Into<Vec<Expectation>>,
    operations: impl Into<Vec<Operation>>,
) -> Transaction {
    Transaction { bucket: bucket.into(), opening, expectations: expectations.into(), operations: operations.into() }
}

fn strings<T: AsRef<str>>(texts: &[T]) -> Vec<String> {
    texts.iter().map(|text| text.as_ref().to_owned()).collect()
}

// Openings.

/// It must be there.
pub fn existing() -> Opening {
    Opening::Existing(ExistingLife { incarnation: None })
}

/// This life of it must be there.
pub fn life(incarnation: &str) -> Opening {
    Opening::Existing(ExistingLife { incarnation: Some(incarnation.into()) })
}

/// Create it for ever when it is absent.
pub fn create() -> Opening {
    Opening::Create(NewLife { time_to_live: None })
}

/// Create it for ever; it must be absent.
pub fn create_new() -> Opening {
    Opening::CreateNew(NewLife { time_to_live: None })
}

/// Create it with a fixed time to live.
pub fn create_for(time: Duration) -> Opening {
    Opening::Create(NewLife { time_to_live: Some(time_to_live(time, false)) })
}

/// Create it with a time to live that starts anew with each use.
pub fn create_sliding(time: Duration) -> Opening {
    Opening::Create(NewLife { time_to_live: Some(time_to_live(time, true)) })
}

/// A time to live.
pub fn time_to_live(time: Duration, sliding: bool) -> TimeToLive {
    TimeToLive { milliseconds: u64::try_from(time.as_millis()).unwrap(), sliding }
}

// Expectations.

/// The oldest records of a log are these.
pub fn oldest_are<T: AsRef<str>>(log: &str, records: &[T]) -> Expectation {
    Expectation::Oldest(ExpectedOldest { log: log.into(), records: strings(records) })
}

/// The keys are these.
pub fn keys_are<T: AsRef<str>>(keys: &[T]) -> Expectation {
    Expectation::Keys(ExpectedKeys { keys: strings(keys) })
}

/// There is room for the keys that are created.
pub fn room_within(limit: u64) -> Expectation {
    Expectation::Room(ExpectedRoom { limit })
}

// Operations.

/// Read a value of any length.
pub fn get(key: &str) -> Operation {
    get_within(key, ALL)
}

/// Read a value that is not too long.
pub fn get_within(key: &str, max_bytes: u64) -> Operation {
    Operation::Get(GetOperation { key: key.into(), max_bytes })
}

/// Read all values.
pub fn get_all() -> Operation {
    get_all_within(ALL, ALL)
}

/// Read all values, unless they are too many.
pub fn get_all_within(max_bytes: u64, max_keys: u64) -> Operation {
    Operation::GetAll(GetAllOperation { max_bytes, max_keys })
}

/// Name the keys.
pub fn list_keys(max_keys: u64) -> Operation {
    Operation::ListKeys(ListKeysOperation { max_keys })
}

/// Set a value.
pub fn put(key: &str, value: &str) -> Operation {
    Operation::Put(PutOperation { key: key.into(), value: value.into() })
}

/// Count.
pub fn increment(key: &str, amount: i64) -> Operation {
    Operation::Increment(IncrementOperation { key: key.into(), amount })
}

/// Remove a value.
pub fn remove(key: &str) -> Operation {
    Operation::Remove(RemoveOperation { key: key.into() })
}

/// Remove all values and name some of them.
pub fn remove_all(max_names: u64) -> Operation {
    Operation::RemoveAll(RemoveAllOperation { max_names })
}

/// Append to a log.
pub fn append<T: AsRef<str>>(log: &str, records: &[T]) -> Operation {
    Operation::Append(AppendOperation { log: log.into(), records: strings(records) })
}

/// Read a range from the oldest record on.
pub fn read_oldest(log: &str, skip: u64, max_records: u64, max_bytes: u64) -> Operation {
    Operation::Read(ReadOperation { log: log.into(), end: LogEnd::Oldest, skip, max_records, max_bytes })
}

/// Read a range that ends with the newest record.
pub fn read_newest(log: &str, skip: u64, max_records: u64, max_bytes: u64) -> Operation {
    Operation::Read(ReadOperation { log: log.into(), end: LogEnd::Newest, skip, max_records, max_bytes })
}

/// Read a log from end to end.
pub fn read_all(log: &str) -> Operation {
    read_oldest(log, 0, ALL, ALL)
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
    Operation::Rewrite(RewriteOperation { log: log.into(), position, record_text: record.into() })
}

/// Ask where a log stands.
pub fn count(log: &str) -> Operation {
    Operation::Count(CountOperation { log: log.into() })
}

/// No records.
pub const NONE: &[&str] = &[];

// Outcomes.

/// A value that is there.
pub fn found(json: &str) -> Outcome {
    Outcome::Value(FoundValue { json: Some(json.into()), unreadable: false })
}

/// A value that is not there.
pub fn not_found() -> Outcome {
    Outcome::Value(FoundValue { json: None, unreadable: false })
}

/// A value that is not UTF-8.
pub fn unreadable() -> Outcome {
    Outcome::Value(FoundValue { json: None, unreadable: true })
}

/// All values.
pub fn values<K: AsRef<str>, V: AsRef<str>>(entries: &[(K, V)]) -> Outcome {
    let entries =
        entries.iter().map(|(key, json)| Entry { key: key.as_ref().into(), json: json.as_ref().into() }).collect();
    Outcome::Values(AllValues { entries, unreadable: Vec::new() })
}

/// More than was asked for.
pub fn oversize(bytes: u64, keys: u64) -> Outcome {
    Outcome::Oversize(Size { bytes, keys })
}

/// Names of keys, and how many there are in all.
pub fn names<T: AsRef<str>>(names: &[T], total: u64) -> Outcome {
    Outcome::Names(KeyNames { names: strings(names), total })
}

/// Written.
pub fn done(created: bool) -> Outcome {
    Outcome::Done(WriteDone { created })
}

/// Counted.
pub fn counter(value: i64) -> Outcome {
    Outcome::Counter(CounterValue { value })
}

/// Where a log stands.
pub fn extent(first: u64, length: u64) -> Outcome {
    Outcome::Extent(LogExtent { first, length })
}

/// Records of a log.
pub fn records<T: AsRef<str>>(first: u64, length: u64, records: &[T]) -> Outcome {
    Outcome::Records(LogRecords { first, length, records: strings(records) })
}
