//! Reads and writes the values of a user.

use keepline_json as json;

use std::slice::from_ref;

use crate::admin::sessions::{key_expectations, limit_problem, require_valid_value, unexpected_value};
use crate::context::Context;
use crate::contract::sessions::NamedValue;
use crate::contract::{Expectation, Host, Operation, Precondition, PutEntry, Status, Transaction, VALUES};
use crate::entry::session_problem::{SessionResult, check_status, require_valid_key};
use crate::store;
use crate::store::{EntriesOutcome, Outcomes};
use crate::users::registry;
use crate::users::registry::checked_user_bucket_name;

/// The values of a user, sorted; or the one under that key.
pub fn read_user_values(context: &Context<impl Host>, user: &str, key: Option<&str>) -> SessionResult<Vec<NamedValue>> {
    let name = checked_user_bucket_name(user)?;
    let config = &context.config;
    let (max_entries, max_bytes) = (config.max_keys, config.max_context_bytes);
    let read = match &key {
        Some(key) => {
            require_valid_key(key)?;
            Operation::get(VALUES, key, config.max_value_bytes)
        }
        None => Operation::get_all(VALUES, max_entries, max_bytes),
    };
    let Some(mut outcomes) = read_user_bucket(context, &name, &[read])? else {
        return Ok(Vec::new());
    };
    match outcomes.take_entries()? {
        EntriesOutcome::Entries(found) => {
            let readable = found.entries.into_iter().filter(|entry| json::as_strict_value(&entry.text).is_some());
            Ok(readable.map(|entry| NamedValue { key: entry.key, value: entry.text }).collect())
        }
        EntriesOutcome::Oversize { .. } => {
            let message =
                format!("The values of the user are over max_keys ({max_entries}) or max_context_bytes ({max_bytes})");
            Err(limit_problem(context, "max_context_bytes", max_bytes, message))
        }
    }
}

/// Store a value of a user; none: remove it. Whether the key was there before. `conflict`: something else is under it than the
/// call expects.
pub fn put_user_value(context: &Context<impl Host>, user: &str, key: &str, value: Option<&str>) -> SessionResult<bool> {
    let name = checked_user_bucket_name(user)?;
    let value = match value {
        Some(value) => Some(require_valid_value(context, key, value)?),
        None => require_valid_key(key).map(|()| None)?,
    };
    let entry = value.map(|text| PutEntry { key, text });
    let write = match &entry {
        Some(entry) => Operation::put(VALUES, from_ref(entry)),
        None => Operation::remove(VALUES, from_ref(&key)),
    };
    let expectations = key_expectations(context, key);
    let transaction = Transaction {
        bucket: registry::user_bucket(&name),
        precondition: Precondition::create(None),
        expectations: &expectations,
        operations: &[write],
    };
    let receipt = store::transact(&context.host, &transaction)?;
    match receipt.status {
        Status::Unmet if matches!(store::unmet_expectation(&receipt, &transaction), Some(Expectation::Entry(_))) => {
            return Err(unexpected_value(key));
        }
        Status::Unmet => {
            let limit = context.config.max_keys;
            let message = format!("The user holds max_keys ({limit}) values");
            return Err(limit_problem(context, "max_keys", limit, message));
        }
        status => check_status(&name, transaction.bucket, status)?,
    }
    let changed = Outcomes::of(receipt).take_changed()?;
    Ok(if entry.is_none() { changed.removed > 0 } else { changed.added == 0 })
}

/// Of a user whom something is known of.
pub(crate) fn read_user_bucket(
    context: &Context<impl Host>,
    name: &str,
    operations: &[Operation<'_>],
) -> SessionResult<Option<Outcomes>> {
    store::read_bucket(&context.host, registry::user_bucket(name), Precondition::LOOK, operations)
}
