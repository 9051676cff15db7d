//! A user's values, for operators.
//!
//! Promises the rules of those of sessions, and a name for whomever metadata can name.

use std::borrow::Cow;

use keepline_json as json;

use super::owner;
use crate::reply::{self, Found, Outcomes};
use crate::sessions::{Answer, Code, SessionProblem, Sessions, check_status, store_problem, valid_key};
use crate::store::{Entry, Expectation, Host, Opening, Operation, Status, Transaction, VALUES};

/// A longer id names nobody in metadata either.
const ID_MAX: usize = 1024;

/// The name of a user's bucket.
pub(super) fn valid_user(user: &str) -> Answer<Cow<'_, str>> {
    if (1..=ID_MAX).contains(&user.len()) {
        return Ok(owner::name(user));
    }
    let message = format!("Invalid user_id of {} bytes. Must be 1-{ID_MAX} bytes.", user.len());
    Err(SessionProblem::new(Code::InvalidValue, message))
}

impl<H: Host> Sessions<H> {
    /// The name of a user's bucket, and the values in it, sorted; or the one under that key.
    pub fn user_values(&self, user: &str, key: Option<&str>) -> Answer<(String, Vec<Entry>)> {
        let name = valid_user(user)?;
        let config = self.config();
        let (max_entries, max_bytes) = (config.max_keys, config.max_context_bytes);
        let read = match key {
            Some(key) => {
                valid_key(key)?;
                Operation::Get { map: VALUES, key, max_bytes: config.max_value_bytes }
            }
            None => Operation::GetAll { map: VALUES, max_entries, max_bytes },
        };
        let Some(mut outcomes) = self.of_user(&name, &[read])? else { return Ok((name.into_owned(), Vec::new())) };
        match self.told(&name, outcomes.entries())? {
            Found::Entries(mut found) => {
                found.entries.retain(|entry| json::value(&entry.text).is_some());
                Ok((name.into_owned(), found.entries))
            }
            Found::Oversize { .. } => {
                let limits = format!("max_keys ({max_entries}) or max_context_bytes ({max_bytes})");
                Err(self.limit(format!("The values of the user are over {limits}")))
            }
        }
    }

    /// Store a value of a user; none: remove it.
    pub fn put_user_value(&self, user: &str, key: &str, value: Option<&str>) -> Answer<String> {
        let name = valid_user(user)?;
        let value = match value {
            Some(value) => Some(self.checked_value(key, value)?),
            None => valid_key(key).map(|()| None)?,
        };
        let write = match value {
            Some(text) => Operation::Put { map: VALUES, key, text },
            None => Operation::Remove { map: VALUES, keys: &[key] },
        };
        let limit = self.config().max_keys;
        let transaction = Transaction {
            bucket: owner::bucket(&name),
            opening: Opening::Create { time_to_live: None },
            expectations: &[Expectation::Room { map: VALUES, limit }],
            operations: &[write],
        };
        let receipt = reply::transact(self.host(), &transaction).map_err(|failure| store_problem(&name, &failure))?;
        match receipt.status {
            Status::Unmet => Err(self.limit(format!("The user holds max_keys ({limit}) values"))),
            status => check_status(&name, status).map(|()| name.into_owned()),
        }
    }

    /// Of a user whom something is known of.
    pub(super) fn of_user(&self, name: &str, operations: &[Operation<'_>]) -> Answer<Option<Outcomes>> {
        let (bucket, opening) = (owner::bucket(name), Opening::LOOK);
        let look = Transaction { bucket, opening, expectations: &[], operations };
        let receipt = reply::transact(self.host(), &look).map_err(|failure| store_problem(name, &failure))?;
        Ok(receipt.is_applied().then(|| Outcomes::of(receipt)))
    }
}
