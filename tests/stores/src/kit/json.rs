//! The contract's types in the kit's JSON form. A call that has another form than the contract ends the test.

use keepline_stores::{
    AddDocumentsStep, AddOperation, AppendOperation, BucketId, BucketPage, BucketPart, DeleteRequest, Deletion,
    DescribeOperation, Description, Document, Entry, EntryState, ExistingBucket, Expectation, ExpectedEntry,
    ExpectedLog, ExpectedRoom, Failure, FoundDocuments, FoundEntries, GetAllOperation, GetOperation, IndexStep,
    IndexedReceipt, IndexedTransaction, LeaseRequest, LeaseState, LogExtent, NewBucket, Operation, Outcome,
    PositionMark, PositionedRecord, Precondition, ReadAtOperation, ReadMarksStep, ReadOperation, Receipt,
    RemoveDocumentsStep, ReplaceOldestOperation, RewriteOperation, SearchStep, SetOperation, Span, StoreInfo,
    TimeToLive, Transaction,
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

fn bucket(bucket: &Value) -> BucketId {
    BucketId::new(text(bucket, "kind"), text(bucket, "name"))
}

pub(super) fn delete_request(asked: &Value) -> DeleteRequest {
    DeleteRequest {
        bucket: bucket(member(asked, "bucket")),
        generation: option(asked, "generation", |_| text(asked, "generation")),
        max_keys: number(asked, "max-keys"),
    }
}

pub(super) fn transaction(asked: &Value) -> IndexedTransaction {
    let transaction = Transaction {
        bucket: bucket(member(asked, "bucket")),
        precondition: precondition(member(asked, "precondition")),
        expectations: list(asked, "expectations", expectation),
        operations: list(asked, "operations", operation),
    };
    transaction.into()
}

pub(super) fn leased_transaction(asked: &Value) -> IndexedTransaction {
    let lease = |lease: &Value| LeaseRequest {
        name: text(lease, "name"),
        holder: text(lease, "holder"),
        milliseconds: number(lease, "milliseconds"),
    };
    IndexedTransaction { lease: option(asked, "lease", lease), ..transaction(member(asked, "transaction")) }
}

pub(super) fn indexed_transaction(asked: &Value) -> IndexedTransaction {
    IndexedTransaction { steps: list(asked, "steps", index_step), ..leased_transaction(asked) }
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
    let max_bytes = || number(content, "max-bytes");
    match name {
        "get" => {
            Operation::Get(GetOperation { map_name: map_name(), keys: texts(content, "keys"), max_bytes: max_bytes() })
        }
        "get-all" => Operation::GetAll(GetAllOperation {
            map_name: map_name(),
            cursor: option(content, "cursor", |_| text(content, "cursor")),
            max_entries: number(content, "max-entries"),
            max_bytes: max_bytes(),
            keys_only: boolean(content, "keys-only"),
        }),
        "set" => Operation::Set(SetOperation {
            map_name: map_name(),
            reset: boolean(content, "reset"),
            remove: texts(content, "remove"),
            put: list(content, "put", |entry| Entry { key: text(entry, "key"), text: text(entry, "text") }),
        }),
        "add" => Operation::Add(AddOperation {
            map_name: map_name(),
            key: text(content, "key"),
            amount: number(content, "amount"),
        }),
        "append" => Operation::Append(AppendOperation {
            log: log(),
            reset: boolean(content, "reset"),
            records: texts(content, "records"),
            marks: marks(content),
        }),
        "read" => Operation::Read(ReadOperation {
            log: log(),
            newest: boolean(content, "newest"),
            only_over: number(content, "only-over"),
            leave: number(content, "leave"),
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
        "describe" => Operation::Describe(DescribeOperation { parts: boolean(content, "parts") }),
        _ => panic!("there is no operation {name}"),
    }
}

fn index_step(step: &Value) -> IndexStep {
    let (name, content) = case(step);
    let index = text(content, "index");
    match name {
        "add-documents" => IndexStep::AddDocuments(AddDocumentsStep {
            index,
            documents: list(content, "documents", |document| Document {
                position: number(document, "position"),
                mark: number(document, "mark"),
                terms: numbers(document, "terms"),
            }),
        }),
        "remove-documents" => {
            IndexStep::RemoveDocuments(RemoveDocumentsStep { index, positions: numbers(content, "positions") })
        }
        "search" => IndexStep::Search(SearchStep {
            index,
            terms: numbers(content, "terms"),
            newest: number(content, "newest"),
            around: number(content, "around"),
            max_bytes: number(content, "max-bytes"),
        }),
        "read-marks" => IndexStep::ReadMarks(ReadMarksStep {
            index,
            from_position: number(content, "from-position"),
            count: number(content, "count"),
        }),
        _ => panic!("there is no step {name}"),
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

fn told_failure(failure: Failure) -> Value {
    let Failure { code, subject, limit, message } = failure;
    json!({ "code": code.name(), "subject": subject, "limit": large(limit), "message": message })
}

/// The attempts of a call that has several.
pub(super) fn attempts<T>(results: Vec<Result<T, Failure>>, name: &str, told: impl Fn(T) -> Value) -> Value {
    let attempt = |result| match result {
        Ok(answer) => json!({ name: told(answer) }),
        Err(failure) => json!({ "problem": told_failure(failure) }),
    };
    results.into_iter().map(attempt).collect()
}

pub(super) fn told_receipt(receipt: IndexedReceipt) -> Value {
    let Receipt { status, now, generation, created, unmet, outcomes } = receipt.receipt;
    let outcomes: Vec<_> = outcomes.into_iter().map(told_outcome).collect();
    json!({
        "status": kebab(status), "now": large(now), "generation": generation, "created": created, "unmet": unmet,
        "outcomes": outcomes,
    })
}

pub(super) fn told_leased_receipt(mut receipt: IndexedReceipt) -> Value {
    let lease = receipt.lease.take().map(|LeaseState { held, holder, expires_in }| {
        json!({ "held": held, "holder": holder, "expires-in": large(expires_in) })
    });
    json!({ "lease": lease, "receipt": told_receipt(receipt) })
}

pub(super) fn told_indexed_receipt(mut receipt: IndexedReceipt) -> Value {
    let found: Vec<_> = std::mem::take(&mut receipt.found).into_iter().map(told_documents).collect();
    let mut told = told_leased_receipt(receipt);
    told["found"] = found.into();
    told
}

fn told_documents(found: FoundDocuments) -> Value {
    let extent = json!({
        "next": large(found.extent.next), "documents": large(found.extent.documents),
        "occurrences": large(found.extent.occurrences),
    });
    let runs: Vec<_> = found.runs.into_iter().map(|run| json!({ "offset": run.offset, "marks": run.marks })).collect();
    let terms: Vec<_> = found.terms.into_iter().map(|term| json!({ "offsets": term.offsets })).collect();
    json!({ "extent": extent, "from-position": large(found.from_position), "runs": runs, "terms": terms })
}

pub(super) fn told_page(page: BucketPage) -> Value {
    json!({ "names": page.names, "cursor": page.cursor })
}

pub(super) fn told_deletion(deletion: Deletion) -> Value {
    let Deletion { status, now, values, keys } = deletion;
    json!({ "status": kebab(status), "now": large(now), "values": large(values), "keys": keys })
}

pub(super) fn told_info(info: StoreInfo) -> Value {
    let limits = info.limits.into_iter().map(|limit| json!({ "name": limit.name, "value": large(limit.value) }));
    json!({ "capabilities": info.capabilities, "limits": limits.collect::<Vec<_>>() })
}

fn told_extent(extent: LogExtent) -> Value {
    json!({ "first": large(extent.first), "length": large(extent.length) })
}

fn told_entries(found: FoundEntries) -> Value {
    let entries: Vec<_> =
        found.entries.into_iter().map(|entry| json!({ "key": entry.key, "text": entry.text })).collect();
    let missing = found.missing.map(|missing| {
        let oversize = missing.oversize;
        let oversize = oversize.map(|size| json!({ "bytes": large(size.bytes), "entries": large(size.entries) }));
        json!({ "unreadable": missing.unreadable, "cursor": missing.cursor, "oversize": oversize })
    });
    json!({ "entries": entries, "missing": missing })
}

fn told_outcome(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Entries(found) => json!({ "entries": told_entries(found) }),
        Outcome::Changed(changed) => {
            json!({ "changed": { "added": large(changed.added), "removed": large(changed.removed) } })
        }
        Outcome::Counter(counter) => json!({ "counter": { "value": large(counter.value) } }),
        Outcome::Extent(extent) => json!({ "extent": told_extent(extent) }),
        Outcome::Records(read) => {
            let runs = read.runs.into_iter().map(|run| json!({ "first": large(run.first), "records": run.records }));
            json!({ "records": { "extent": told_extent(read.extent), "runs": runs.collect::<Vec<_>>() } })
        }
        Outcome::Described(description) => json!({ "described": told_description(description) }),
    }
}

fn told_description(description: Description) -> Value {
    let Description { time_to_live, created_at, expires_in, values, parts } = description;
    let time = time_to_live.map(|time| json!({ "milliseconds": large(time.milliseconds), "sliding": time.sliding }));
    let told_part = |BucketPart { kind, name, position, count, bytes }| {
        json!({
            "kind": kind, "name": name, "position": large(position), "count": large(count), "bytes": large(bytes),
        })
    };
    let parts: Vec<_> = parts.into_iter().map(told_part).collect();
    json!({
        "time-to-live": time, "created-at": large(created_at), "expires-in": expires_in.map(large),
        "values": large(values), "parts": parts,
    })
}
