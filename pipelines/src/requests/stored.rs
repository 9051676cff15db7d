//! Definitions and rule engines in the store: an owner's bucket, with a revision for each that rises with every write.

use std::{collections::BTreeMap, rc::Rc};

use keepline_store_client::{
    BucketId, Expectation, Host, Operation, Precondition, Problem, PutEntry, Status, Transaction, checked, codes, kind,
};

use crate::{catalog::DefinitionKind, datasets::Owner, value::Value};

impl DefinitionKind {
    fn map(self) -> &'static str {
        match self {
            Self::Memory => "memories",
            Self::Rules => "rules",
        }
    }
}

/// A definition as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredDefinition {
    pub id: Rc<str>,
    /// Rises with each write, from 1.
    pub revision: u64,
    pub form: Value,
}

type Outcome<T> = Result<T, Box<Problem>>;

const BYTES: u64 = 8 << 20;
const PAGE: u64 = 200;

/// Definitions of these ids, as far as they are there. One wait.
///
/// # Errors
/// The store's; `limit` where they are more than 8 MiB together.
pub fn get_definitions(
    host: &impl Host,
    owner: &Owner,
    kind: DefinitionKind,
    ids: &[&str],
) -> Outcome<Vec<StoredDefinition>> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let name = owner.definitions_bucket();
    let get = [Operation::get_some(kind.map(), &ids, BYTES)];
    let Some(mut outcomes) = checked::read_bucket(host, bucket(&name), Precondition::LOOK, &get)? else {
        return Ok(Vec::new());
    };
    match outcomes.take_entries()? {
        checked::EntriesOutcome::Entries(found) => {
            Ok(found.entries.iter().filter_map(|entry| parse(&entry.key, &entry.text)).collect())
        }
        checked::EntriesOutcome::Oversize(_) => {
            let what = format!("{} definitions are over the limit of {BYTES} bytes together", ids.len());
            Err(Box::new(Problem { limit: BYTES, ..*Problem::new(codes::LIMIT, "definitions", what) }))
        }
    }
}

/// All definitions of a kind, by id.
///
/// # Errors
/// The store's.
pub fn list_definitions(host: &impl Host, owner: &Owner, kind: DefinitionKind) -> Outcome<Vec<StoredDefinition>> {
    let mut all: BTreeMap<Rc<str>, StoredDefinition> = BTreeMap::new();
    let mut cursor = String::new();
    loop {
        let page = page_definitions(host, owner, kind, &cursor)?;
        all.extend(page.definitions.into_iter().map(|stored| (Rc::clone(&stored.id), stored)));
        cursor = page.cursor;
        if cursor.is_empty() {
            return Ok(all.into_values().collect());
        }
    }
}

/// Some of the definitions of a kind, in no order.
#[derive(Debug, Default)]
pub struct DefinitionPage {
    pub definitions: Vec<StoredDefinition>,
    /// For the next page; empty after the last.
    pub cursor: String,
}

/// A page of the definitions of a kind.
///
/// # Errors
/// The store's.
pub fn page_definitions(
    host: &impl Host,
    owner: &Owner,
    kind: DefinitionKind,
    cursor: &str,
) -> Outcome<DefinitionPage> {
    let name = owner.definitions_bucket();
    let page = [Operation::page_entries(kind.map(), cursor, PAGE, BYTES)];
    let Some(mut outcomes) = checked::read_bucket(host, bucket(&name), Precondition::LOOK, &page)? else {
        return Ok(DefinitionPage::default());
    };
    let page = outcomes.take_entry_page()?;
    let definitions = page.entries.iter().filter_map(|entry| parse(&entry.key, &entry.text)).collect();
    Ok(DefinitionPage { definitions, cursor: page.cursor })
}

/// Store a definition in place of that one; none: there must be none yet.
///
/// # Errors
/// `conflict` where another revision is there; otherwise the store's.
pub fn put_definition(
    host: &impl Host,
    owner: &Owner,
    kind: DefinitionKind,
    id: &str,
    form: &Value,
    before: Option<&StoredDefinition>,
) -> Outcome<StoredDefinition> {
    let stored = StoredDefinition {
        id: id.into(),
        revision: before.map_or(0, |before| before.revision) + 1,
        form: form.clone(),
    };
    let text = write(&stored);
    let put = [PutEntry { key: id, text: &text }];
    change(host, owner, kind, id, before, &Operation::put(kind.map(), &put))?;
    Ok(stored)
}

/// Remove a definition of that revision.
///
/// # Errors
/// As [`put_definition`].
pub fn remove_definition(
    host: &impl Host,
    owner: &Owner,
    kind: DefinitionKind,
    before: &StoredDefinition,
) -> Outcome<()> {
    change(host, owner, kind, &before.id, Some(before), &Operation::remove(kind.map(), &[&before.id]))
}

fn change(
    host: &impl Host,
    owner: &Owner,
    kind: DefinitionKind,
    id: &str,
    before: Option<&StoredDefinition>,
    operation: &Operation<'_>,
) -> Outcome<()> {
    let name = owner.definitions_bucket();
    let text = before.map(write);
    let expected = match &text {
        Some(text) => Expectation::equal(kind.map(), id, text),
        None => Expectation::absent(kind.map(), id),
    };
    let (expectations, operations) = ([expected], [*operation]);
    let precondition = Precondition::create(None);
    let transaction =
        Transaction { bucket: bucket(&name), precondition, expectations: &expectations, operations: &operations };
    match checked::transact(host, &transaction)?.status {
        Status::Applied | Status::Repeated => Ok(()),
        _ => Err(Problem::new(codes::CONFLICT, "revision", format!("Another revision of {id} was stored meanwhile"))),
    }
}

fn bucket(name: &str) -> BucketId<'_> {
    BucketId { kind: kind::DEFINITION, name }
}

fn write(stored: &StoredDefinition) -> String {
    Value::object([("revision", stored.revision.into()), ("form", stored.form.clone())]).to_json()
}

fn parse(id: &str, text: &str) -> Option<StoredDefinition> {
    let value = Value::parse(text).ok()?;
    let (revision, form) = (value.member("revision")?.as_whole()?, value.member("form")?.clone());
    Some(StoredDefinition { id: id.into(), revision, form })
}
