//! The contract's types in the kit's JSON form. A call that has another form than the contract ends the test.

use keepline_stores::{
    AppendOperation, BucketId, BucketKind, BucketPage, Deletion, DescribeOperation, Description, Entry, EntryState,
    ExistingBucket, Expectation, ExpectedEntry, ExpectedLog, ExpectedRoom, Failure, GetAllOperation, GetOperation,
    IncrementOperation, LeaseOperation, LogEnd, LogExtent, MatchOperation, NewBucket, Operation, Outcome,
    OverflowOperation, PageOperation, PositionMark, PositionedRecord, PostOperation, Posting, Precondition,
    PutOperation, ReadAtOperation, ReadOperation, Receipt, RemoveOperation, ReplaceOldestOperation, ResetLogOperation,
    ResetMapOperation, RewriteOperation, Span, StoreCapabilities, TimeToLive, Transaction, UnpostOperation,
};
use serde_json::{Value, json};

// From JSON.

fn member<'a>(record: &'a Value, name: &str) -> &'a Value {
    record.get(name).unwrap_or_else(|| panic!("there is no member {name} in {record}"))
}

/// The case of a variant, and what it carries.
fn case(variant: &Value) -> (&str, &Value) {
    match variant.as_object().map(|members| members.iter().collect::<Vec<_>>()).as_deref() {
        Some([(name, content)]) => (name, content),
        _ => panic!("a variant has one member: {variant}"),
    }
}

pub(super) fn text(record: &Value, name: &str) -> String {
    member(record, name).as_str().unwrap_or_else(|| panic!("{name} is no string in {record}")).to_owned()
}

/// An integer, which is a string when it is large.
pub(super) fn number<T: TryFrom<i128>>(record: &Value, name: &str) -> T {
    integer(member(record, name))
        .and_then(|integer| T::try_from(integer).ok())
        .unwrap_or_else(|| panic!("{name} is no such integer in {record}"))
}

fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::String(digits) => digits.parse().ok(),
        other => other.as_i64().map(i128::from),
    }
}

fn boolean(record: &Value, name: &str) -> bool {
    member(record, name).as_bool().unwrap_or_else(|| panic!("{name} is no boolean in {record}"))
}

/// Nothing where there is `null`.
pub(super) fn option<'a, T>(record: &'a Value, name: &str, some: impl Fn(&'a Value) -> T) -> Option<T> {
    Some(member(record, name)).filter(|value| !value.is_null()).map(some)
}

pub(super) fn list<T>(record: &Value, name: &str, each: impl Fn(&Value) -> T) -> Vec<T> {
    let members = member(record, name).as_array().unwrap_or_else(|| panic!("{name} is no list in {record}"));
    members.iter().map(each).collect()
}

fn texts(record: &Value, name: &str) -> Vec<String> {
    list(record, name, |text| text.as_str().unwrap_or_else(|| panic!("{text} is no string")).to_owned())
}

fn numbers<T: TryFrom<i128>>(record: &Value, name: &str) -> Vec<T> {
    let each = |value: &Value| integer(value).and_then(|integer| T::try_from(integer).ok());
    list(record, name, |value| each(value).unwrap_or_else(|| panic!("{value} is no such integer")))
}

pub(super) fn kind(name: &str) -> BucketKind {
    match name {
        "session" => BucketKind::Session,
        "user" => BucketKind::User,
        "node" => BucketKind::Node,
        "definition" => BucketKind::Definition,
        "dataset" => BucketKind::Dataset,
        "service" => BucketKind::Service,
        _ => panic!("there is no kind {name}"),
    }
}

pub(super) fn bucket(bucket: &Value) -> BucketId {
    BucketId { kind: kind(&text(bucket, "kind")), name: text(bucket, "name") }
}

pub(super) fn transaction(asked: &Value) -> Transaction {
    Transaction {
        bucket: bucket(member(asked, "bucket")),
        precondition: precondition(member(asked, "precondition")),
        expectations: list(asked, "expectations", expectation),
        operations: list(asked, "operations", operation),
    }
}

fn precondition(precondition: &Value) -> Precondition {
    let (name, content) = case(precondition);
    let life = || NewBucket {
        time_to_live: option(content, "time-to-live", |time| TimeToLive {
            milliseconds: number(time, "milliseconds"),
            sliding: boolean(time, "sliding"),
        }),
    };
    match name {
        "existing" => Precondition::Existing(ExistingBucket {
            generation: option(content, "generation", |_| text(content, "generation")),
            renew: boolean(content, "renew"),
        }),
        "create" => Precondition::Create(life()),
        "create-new" => Precondition::CreateNew(life()),
        "replace" => Precondition::Replace(life()),
        _ => panic!("there is no precondition {name}"),
    }
}

fn expectation(expectation: &Value) -> Expectation {
    let (name, content) = case(expectation);
    match name {
        "entry" => Expectation::Entry(ExpectedEntry {
            map_name: text(content, "map-name"),
            key: text(content, "key"),
            state: match &*text(content, "state") {
                "absent" => EntryState::Absent,
                "present" => EntryState::Present,
                "equal" => EntryState::Equal,
                "absent-or-equal" => EntryState::AbsentOrEqual,
                other => panic!("there is no state {other}"),
            },
            text: text(content, "text"),
        }),
        "log" => Expectation::Log(ExpectedLog {
            log: text(content, "log"),
            first: option(content, "first", |_| number(content, "first")),
            next: option(content, "next", |_| number(content, "next")),
        }),
        "room" => {
            Expectation::Room(ExpectedRoom { map_name: text(content, "map-name"), limit: number(content, "limit") })
        }
        _ => panic!("there is no expectation {name}"),
    }
}

fn entries(content: &Value) -> Vec<Entry> {
    list(content, "entries", |entry| Entry { key: text(entry, "key"), text: text(entry, "text") })
}

fn marks(content: &Value) -> Vec<PositionMark> {
    list(content, "marks", |mark| PositionMark {
        map_name: text(mark, "map-name"),
        key: text(mark, "key"),
        record_index: number(mark, "record-index"),
    })
}

fn operation(operation: &Value) -> Operation {
    let (name, content) = case(operation);
    let map_name = || text(content, "map-name");
    let log = || text(content, "log");
    let index = || text(content, "index");
    let max_bytes = || number(content, "max-bytes");
    match name {
        "get" => {
            Operation::Get(GetOperation { map_name: map_name(), keys: texts(content, "keys"), max_bytes: max_bytes() })
        }
        "get-all" => Operation::GetAll(GetAllOperation {
            map_name: map_name(),
            max_entries: number(content, "max-entries"),
            max_bytes: max_bytes(),
        }),
        "page" => Operation::Page(PageOperation {
            map_name: map_name(),
            cursor: text(content, "cursor"),
            max_entries: number(content, "max-entries"),
            max_bytes: max_bytes(),
            keys_only: boolean(content, "keys-only"),
        }),
        "put" => Operation::Put(PutOperation { map_name: map_name(), entries: entries(content) }),
        "increment" => Operation::Increment(IncrementOperation {
            map_name: map_name(),
            key: text(content, "key"),
            amount: number(content, "amount"),
        }),
        "remove" => Operation::Remove(RemoveOperation { map_name: map_name(), keys: texts(content, "keys") }),
        "reset-map" => Operation::ResetMap(ResetMapOperation { map_name: map_name(), entries: entries(content) }),
        "append" => {
            Operation::Append(AppendOperation { log: log(), records: texts(content, "records"), marks: marks(content) })
        }
        "read" => Operation::Read(ReadOperation {
            log: log(),
            end: match &*text(content, "end") {
                "oldest" => LogEnd::Oldest,
                "newest" => LogEnd::Newest,
                other => panic!("a log has no end {other}"),
            },
            max_records: number(content, "max-records"),
            max_bytes: max_bytes(),
        }),
        "read-at" => Operation::ReadAt(ReadAtOperation {
            log: log(),
            spans: list(content, "spans", |span| Span {
                position: number(span, "position"),
                count: number(span, "count"),
            }),
            max_bytes: max_bytes(),
        }),
        "overflow" => Operation::Overflow(OverflowOperation {
            log: log(),
            limit: number(content, "limit"),
            keep: number(content, "keep"),
            max_records: number(content, "max-records"),
            max_bytes: max_bytes(),
        }),
        "replace-oldest" => Operation::ReplaceOldest(ReplaceOldestOperation {
            log: log(),
            count: number(content, "count"),
            records: texts(content, "records"),
        }),
        "rewrite" => Operation::Rewrite(RewriteOperation {
            log: log(),
            records: list(content, "records", |record| PositionedRecord {
                position: number(record, "position"),
                text: text(record, "text"),
            }),
        }),
        "reset-log" => Operation::ResetLog(ResetLogOperation {
            log: log(),
            records: texts(content, "records"),
            marks: marks(content),
        }),
        "lease" => Operation::Lease(LeaseOperation {
            lease: text(content, "lease"),
            holder: text(content, "holder"),
            milliseconds: number(content, "milliseconds"),
        }),
        "post" => Operation::Post(PostOperation {
            index: index(),
            documents: list(content, "documents", |document| Posting {
                position: number(document, "position"),
                mark: number(document, "mark"),
                terms: numbers(document, "terms"),
            }),
        }),
        "unpost" => Operation::Unpost(UnpostOperation { index: index(), positions: numbers(content, "positions") }),
        "match" => Operation::Match(MatchOperation {
            index: index(),
            terms: numbers(content, "terms"),
            newest: number(content, "newest"),
            max_bytes: max_bytes(),
        }),
        "describe" => Operation::Describe(DescribeOperation { parts: boolean(content, "parts") }),
        _ => panic!("there is no operation {name}"),
    }
}

// To JSON.

/// An integer, as a string when it is large.
fn large(integer: impl Into<i128>) -> Value {
    let integer = integer.into();
    match i64::try_from(integer) {
        Ok(exact) if exact.unsigned_abs() < 1 << 53 => exact.into(),
        _ => integer.to_string().into(),
    }
}

/// `GenerationMismatch` as `generation-mismatch`: the name of a case as the contract spells it.
fn kebab(name: impl std::fmt::Debug) -> String {
    let mut kebab = String::new();
    for character in format!("{name:?}").chars() {
        if character.is_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(character.to_ascii_lowercase());
    }
    kebab
}

pub(super) fn result<T>(result: Result<T, Failure>, told: impl Fn(T) -> Value) -> Value {
    match result {
        Ok(answer) => json!({ "ok": told(answer) }),
        Err(failure) => json!({ "err": told_failure(failure) }),
    }
}

pub(super) fn told_failure(failure: Failure) -> Value {
    let Failure { code, subject, limit, message } = failure;
    json!({ "code": kebab(code), "subject": subject, "limit": large(limit), "message": message })
}

pub(super) fn told_receipt(receipt: Receipt) -> Value {
    let Receipt { status, now, generation, created, unmet, outcomes } = receipt;
    let outcomes: Vec<_> = outcomes.into_iter().map(told_outcome).collect();
    json!({
        "status": kebab(status), "now": large(now), "generation": generation, "created": created, "unmet": unmet,
        "outcomes": outcomes,
    })
}

pub(super) fn told_page(page: BucketPage) -> Value {
    json!({ "names": page.names, "cursor": page.cursor })
}

pub(super) fn told_deletion(deletion: Deletion) -> Value {
    let Deletion { status, now, values, keys } = deletion;
    json!({ "status": kebab(status), "now": large(now), "values": large(values), "keys": keys })
}

pub(super) fn told_capabilities(capabilities: StoreCapabilities) -> Value {
    let StoreCapabilities { atomic, expiring, exactly_once, durable, listing, leases, indexes } = capabilities;
    json!({
        "atomic": atomic, "expiring": expiring, "exactly-once": exactly_once, "durable": durable, "listing": listing,
        "leases": leases, "indexes": indexes,
    })
}

fn told_entries(entries: Vec<Entry>) -> Value {
    entries.into_iter().map(|entry| json!({ "key": entry.key, "text": entry.text })).collect()
}

fn told_extent(extent: LogExtent) -> Value {
    json!({ "first": large(extent.first), "length": large(extent.length) })
}

fn told_outcome(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Entries(found) => {
            json!({ "entries": { "entries": told_entries(found.entries), "unreadable": found.unreadable } })
        }
        Outcome::Oversize(size) => {
            json!({ "oversize": { "bytes": large(size.bytes), "entries": large(size.entries) } })
        }
        Outcome::Page(page) => json!({ "page": {
            "entries": told_entries(page.entries), "unreadable": page.unreadable, "cursor": page.cursor,
        } }),
        Outcome::Changed(changed) => json!({ "changed": { "count": large(changed.count) } }),
        Outcome::Counter(counter) => json!({ "counter": { "value": large(counter.value) } }),
        Outcome::Extent(extent) => json!({ "extent": told_extent(extent) }),
        Outcome::Records(read) => json!({ "records": {
            "extent": told_extent(read.extent), "first": large(read.first), "records": read.records,
        } }),
        Outcome::Spans(read) => {
            let told =
                |span: keepline_stores::SpanRecords| json!({ "first": large(span.first), "records": span.records });
            let spans: Vec<_> = read.spans.into_iter().map(told).collect();
            json!({ "spans": { "extent": told_extent(read.extent), "spans": spans } })
        }
        Outcome::Lease(lease) => json!({ "lease": {
            "held": lease.held, "holder": lease.holder, "expires-in": large(lease.expires_in),
        } }),
        Outcome::Indexed(index) => {
            json!({ "indexed": { "next": large(index.next), "documents": large(index.documents) } })
        }
        Outcome::Matches(found) => {
            let terms: Vec<_> = found.terms.into_iter().map(|term| json!({ "offsets": term.offsets })).collect();
            json!({ "matches": {
                "extent": { "next": large(found.extent.next), "documents": large(found.extent.documents) },
                "first": large(found.first), "marks": found.marks, "terms": terms,
            } })
        }
        Outcome::Described(description) => json!({ "described": told_description(description) }),
    }
}

fn told_description(description: Description) -> Value {
    let Description { time_to_live, expires_in, values, maps, logs, indexes } = description;
    let time = time_to_live.map(|time| json!({ "milliseconds": large(time.milliseconds), "sliding": time.sliding }));
    let maps: Vec<_> =
        maps.into_iter().map(|map| json!({ "map-name": map.map_name, "entries": large(map.entries) })).collect();
    let logs: Vec<_> =
        logs.into_iter().map(|log| json!({ "log": log.log, "extent": told_extent(log.extent) })).collect();
    let told_index = |index: keepline_stores::IndexDescription| {
        let extent = json!({ "next": large(index.extent.next), "documents": large(index.extent.documents) });
        json!({ "index": index.index, "extent": extent, "bytes": large(index.bytes) })
    };
    let indexes: Vec<_> = indexes.into_iter().map(told_index).collect();
    json!({
        "time-to-live": time, "expires-in": expires_in.map(large), "values": large(values), "maps": maps,
        "logs": logs, "indexes": indexes,
    })
}
