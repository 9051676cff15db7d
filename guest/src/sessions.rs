//! What an operator, or another part of a pipeline, does to a session.
//!
//! Promises the lanes' rules for names, values, history and limits, and the original node's words when
//! it refuses. Refuses to create a session by the way: all but `create` want one that is there.

use crate::config::{Config, MAX_KEYS};
use crate::filter::{ANSWER_COUNT, LIMIT_LOG};
use crate::history::{self, LOG};
use crate::json;
use crate::names::{check_key, check_session, is_session, repr};
use crate::store::{Expectation, Failure, FailureCode, Host, Level, Opening, Operation, Outcome, Receipt, Status};

mod read;

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the codes are those of the contract")]
pub enum SessionProblemCode {
    InvalidSession,
    InvalidKey,
    InvalidValue,
    NotFound,
    Expired,
    AlreadyExists,
    NotACounter,
    Limit,
    TooManySessions,
    Store,
}

use SessionProblemCode as Code;

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionProblem {
    /// Why.
    pub code: SessionProblemCode,
    /// For people.
    pub message: String,
}

impl SessionProblem {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// What a session looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionState {
    /// Its creation stamp.
    pub incarnation: String,
    /// How many keys it has.
    pub key_count: u64,
    /// How many history records it has.
    pub history_length: u64,
    /// Milliseconds of life left; none: it does not expire.
    pub expires_in: Option<u64>,
}

/// A page of session ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionPage {
    /// Sorted.
    pub sessions: Vec<String>,
    /// Empty after the last page.
    pub cursor: String,
}

type Answer<T> = Result<T, SessionProblem>;

const ANY: Opening<'static> = Opening::Existing { incarnation: None };

/// How often to begin again when other writers come between two transactions.
const TRIES: u32 = 8;
/// A page when the caller does not say.
const PAGE: u32 = 100;
const PAGE_MAX: u32 = 10_000;
/// The most that an operator may set the count of answers to: all readers of JSON read it exactly, and it leaves
/// room for more answers than there will ever be.
const MAX_COUNT: i64 = (1 << 53) - 1;

/// The operations on sessions: options, and a host to work with.
#[derive(Clone, Copy, Debug)]
pub struct Sessions<H> {
    host: H,
    config: Config,
}

impl<H: Host> Sessions<H> {
    /// Operations with these options.
    pub fn new(host: H, config: Config) -> Self {
        Self { host, config }
    }

    /// Create a session that must not be there; its incarnation.
    pub fn create(&self, session: &str) -> Answer<String> {
        valid_session(session)?;
        let opening = Opening::CreateNew { time_to_live: self.config.time_to_live() };
        let receipt = self.transact(session, opening, &[], &[])?;
        Ok(receipt.incarnation)
    }

    /// Look at a session, which counts as a use of it.
    pub fn resume(&self, session: &str) -> Answer<SessionState> {
        valid_session(session)?;
        self.transact(session, ANY, &[], &[])?;
        let found = self.host.describe_bucket(session);
        let found = found.map_err(|failure| store_problem(session, &failure))?;
        check_status(session, found.status)?;
        let history = found.logs.iter().find(|log| log.log == LOG);
        Ok(SessionState {
            incarnation: found.incarnation,
            key_count: found.keys,
            history_length: history.map_or(0, |log| log.length),
            expires_in: found.expires_in,
        })
    }

    /// A page of session ids, from the empty cursor on.
    pub fn list(&self, cursor: &str, limit: u32) -> Answer<SessionPage> {
        let limit = if limit == 0 { PAGE } else { limit.min(PAGE_MAX) };
        let page = self.host.list_buckets(cursor, limit);
        let page = page.map_err(|failure| store_problem("", &failure))?;
        let mut sessions = page.buckets;
        sessions.retain(|name| is_session(name));
        Ok(SessionPage { sessions, cursor: page.cursor })
    }

    /// Delete a session; the keys it had.
    pub fn delete(&self, session: &str) -> Answer<Vec<String>> {
        valid_session(session)?;
        let deletion = self.host.delete_bucket(session);
        let deletion = deletion.map_err(|failure| store_problem(session, &failure))?;
        check_status(session, deletion.status)?;
        Ok(deletion.keys)
    }

    /// Store a value, which is JSON text.
    pub fn put(&self, session: &str, key: &str, value: &str) -> Answer<()> {
        valid_names(session, key)?;
        let limit = self.config.max_value_bytes;
        if value.len() as u64 > limit {
            let size = value.len();
            return Err(self.limit(format!("Value of {size} bytes is over max_value_bytes ({limit})")));
        }
        let Some(value) = json::value(value) else {
            return Err(SessionProblem::new(
                Code::InvalidValue,
                format!("Value of key {} is not valid JSON", repr(key)),
            ));
        };
        if key == ANSWER_COUNT && !is_plain_count(value) {
            return Err(no_count(session));
        }
        let put = Operation::Put { key, value };
        self.write(session, key, put, "put").map(|_| ())
    }

    /// The value of a key, as JSON text; none: there is no such key.
    pub fn get(&self, session: &str, key: &str) -> Answer<Option<String>> {
        valid_names(session, key)?;
        let limit = self.config.max_value_bytes;
        let get = Operation::Get { key, max_bytes: limit };
        let receipt = self.transact(session, ANY, &[], &[get])?;
        let unreadable = || {
            let message = format!("Stored value of key {} is not valid JSON", repr(key));
            SessionProblem::new(Code::InvalidValue, message)
        };
        match first(receipt) {
            Some(Outcome::Value { unreadable: true, .. }) => Err(unreadable()),
            Some(Outcome::Value { json: Some(text), .. }) => match json::value(&text) {
                Some(value) if value.len() == text.len() => Ok(Some(text)),
                Some(value) => Ok(Some(value.to_owned())),
                None => Err(unreadable()),
            },
            Some(Outcome::Value { json: None, .. }) => Ok(None),
            Some(Outcome::Oversize { .. }) => {
                Err(self.limit(format!("Stored value of key {} is over max_value_bytes ({limit})", repr(key))))
            }
            _ => Err(out_of_turn(session)),
        }
    }

    /// The keys of a session, sorted.
    pub fn keys(&self, session: &str) -> Answer<Vec<String>> {
        valid_session(session)?;
        self.list_keys(session).map(|(keys, _)| keys)
    }

    /// Clear one key, or all; the keys that were cleared.
    pub fn clear(&self, session: &str, key: Option<&str>) -> Answer<Vec<String>> {
        valid_session(session)?;
        let Some(key) = key else {
            return self.clear_all(session);
        };
        valid_key(key)?;
        let receipt = self.write(session, key, Operation::Remove { key }, "clear")?;
        match first(receipt) {
            Some(Outcome::Names { names, .. }) => Ok(names),
            _ => Err(out_of_turn(session)),
        }
    }

    /// The record of it names the keys, so they are listed first and must still be those when they are
    /// removed.
    fn clear_all(&self, session: &str) -> Answer<Vec<String>> {
        for _ in 0..TRIES {
            let (keys, incarnation) = self.list_keys(session)?;
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let stamp = history::timestamp(self.host.now_micros());
            let opening = Opening::life(&incarnation);
            let receipt = history::write(
                &self.host,
                &self.config,
                session,
                opening,
                &[Expectation::Keys { keys: &keys }],
                &[Operation::RemoveAll { max_names: MAX_KEYS }],
                &[&history::record_clear_all(&keys, &stamp)],
            )
            .map_err(|failure| store_problem(session, &failure))?;
            if matches!(receipt.status, Status::Unmet | Status::AnotherLife) {
                continue;
            }
            check_status(session, receipt.status)?;
            history::tidy(&self.host, &self.config, session, opening, &receipt, &stamp);
            // A repeated call finds nothing left to remove: the expectation tells what was there.
            return Ok(keys.into_iter().map(str::to_owned).collect());
        }
        Err(SessionProblem::new(
            Code::Store,
            format!("Session {} is written to faster than it can be cleared", repr(session)),
        ))
    }

    /// Add to a counter; its new value.
    pub fn increment(&self, session: &str, key: &str, amount: i64) -> Answer<i64> {
        valid_names(session, key)?;
        if key == ANSWER_COUNT {
            self.check_count(session, amount)?;
        }
        let increment = Operation::Increment { key, amount };
        let receipt = self.write(session, key, increment, "increment")?;
        match first(receipt) {
            Some(Outcome::Counter(value)) => Ok(value),
            _ => Err(out_of_turn(session)),
        }
    }

    /// The count of answers must stay one. Who changes it between this look and the increment can at worst
    /// make it leave its bounds by as much: answers still are counted.
    fn check_count(&self, session: &str, amount: i64) -> Answer<()> {
        let get = Operation::Get { key: ANSWER_COUNT, max_bytes: self.config.max_value_bytes };
        let count = match first(self.transact(session, ANY, &[], &[get])?) {
            Some(Outcome::Value { json: None, unreadable: false }) => Some(0),
            Some(Outcome::Value { json: Some(text), .. }) => text.parse::<i64>().ok(),
            _ => None,
        };
        // What is no counter, the increment itself will say so.
        let sum = count.map(|count| count.checked_add(amount));
        if sum.is_some_and(|sum| !sum.is_some_and(|sum| (0..=MAX_COUNT).contains(&sum))) {
            return Err(no_count(session));
        }
        Ok(())
    }

    fn list_keys(&self, session: &str) -> Answer<(Vec<String>, String)> {
        let list = Operation::ListKeys { max_keys: MAX_KEYS };
        let receipt = self.transact(session, ANY, &[], &[list])?;
        let incarnation = receipt.incarnation.clone();
        match first(receipt) {
            // Fewer than were asked for are all that have a name of ours, whatever the store counts beside them.
            Some(Outcome::Names { names, total }) if total > MAX_KEYS && names.len() as u64 >= MAX_KEYS => Err(self
                .limit(format!(
                    "Session {} holds {total} keys, more than the {MAX_KEYS} that can be listed",
                    repr(session)
                ))),
            Some(Outcome::Names { names, .. }) => Ok((names, incarnation)),
            _ => Err(out_of_turn(session)),
        }
    }

    /// Write to one key, with its history record.
    fn write(&self, session: &str, key: &str, write: Operation<'_>, op: &str) -> Answer<Receipt> {
        let limit = self.config.max_keys;
        let room = [Expectation::Room { limit }];
        let stamp = history::timestamp(self.host.now_micros());
        let record = history::record(op, key, &stamp);
        let receipt = history::write(&self.host, &self.config, session, ANY, &room, &[write], &[&record])
            .map_err(|failure| store_problem(session, &failure))?;
        if receipt.status == Status::Unmet {
            let session = repr(session);
            return Err(self.limit(format!("Session {session} holds max_keys ({limit}) keys")));
        }
        check_status(session, receipt.status)?;
        history::tidy(&self.host, &self.config, session, ANY, &receipt, &stamp);
        Ok(receipt)
    }

    fn transact(
        &self,
        session: &str,
        opening: Opening<'_>,
        expectations: &[Expectation<'_>],
        operations: &[Operation<'_>],
    ) -> Answer<Receipt> {
        let receipt = self
            .host
            .transact(session, opening, expectations, operations)
            .map_err(|failure| store_problem(session, &failure))?;
        check_status(session, receipt.status)?;
        Ok(receipt)
    }

    /// A refusal for a limit is logged, as on the lanes: the operator may not be who called.
    fn limit(&self, message: String) -> SessionProblem {
        if self.host.logs(Level::Warn) {
            self.host.log(Level::Warn, LIMIT_LOG, &message);
        }
        SessionProblem::new(Code::Limit, message)
    }
}

fn valid_session(session: &str) -> Answer<()> {
    check_session(session).map_err(|message| SessionProblem::new(Code::InvalidSession, message))
}

fn valid_key(key: &str) -> Answer<()> {
    check_key(key).map_err(|message| SessionProblem::new(Code::InvalidKey, message))
}

fn valid_names(session: &str, key: &str) -> Answer<()> {
    valid_session(session)?;
    valid_key(key)
}

/// An integer that the count of answers may be, spelt as a counter is.
fn is_plain_count(value: &str) -> bool {
    let is_canonical = value == "0" || value.starts_with(|digit: char| matches!(digit, '1'..='9'));
    is_canonical && value.parse::<i64>().is_ok_and(|count| count <= MAX_COUNT)
}

fn no_count(session: &str) -> SessionProblem {
    let message = format!(
        "Key '{ANSWER_COUNT}' in session {} counts the answers: it must be an integer from 0 to {MAX_COUNT}",
        repr(session)
    );
    SessionProblem::new(Code::InvalidValue, message)
}

fn first(receipt: Receipt) -> Option<Outcome> {
    receipt.outcomes.into_iter().next()
}

fn check_status(session: &str, status: Status) -> Answer<()> {
    let (code, what) = match status {
        Status::Applied | Status::Repeated => return Ok(()),
        // Another life of it is not the session that the call began with.
        Status::Absent | Status::AnotherLife => (Code::NotFound, "not found"),
        Status::Expired => (Code::Expired, "has expired"),
        Status::Exists => (Code::AlreadyExists, "already exists"),
        Status::Unmet => return Err(out_of_turn(session)),
    };
    Err(SessionProblem::new(code, format!("Session {} {what}", repr(session))))
}

fn out_of_turn(session: &str) -> SessionProblem {
    store_problem(session, &Failure::out_of_turn())
}

fn store_problem(session: &str, failure: &Failure) -> SessionProblem {
    let subject = repr(&failure.subject);
    match failure.code {
        FailureCode::TooManyBuckets => SessionProblem::new(Code::TooManySessions, failure.sentence()),
        FailureCode::NotACounter => SessionProblem::new(
            Code::NotACounter,
            format!("Value of key {subject} in session {} is not a counter", repr(session)),
        ),
        // The contract has no better code: for this amount, it is none.
        FailureCode::CounterOverflow => SessionProblem::new(
            Code::NotACounter,
            format!("Counter {subject} in session {} would leave the range of a signed 64-bit integer", repr(session)),
        ),
        _ => SessionProblem::new(Code::Store, failure.sentence()),
    }
}
