//! Checks of a transaction that need no store: names, numbers, and one write a key and a log.

use std::collections::HashSet;

use super::{
    Expectation, Failure, FailureCode, Opening, Operation, Transaction, failure,
    names::{check_bucket, check_key, check_log},
};

/// More than a filter asks for in one transaction, and few enough for a store to do at one go.
pub(super) const MAX_OPERATIONS: usize = 10_000;
/// Records in one answer, whatever was asked for: reading them holds up everybody else.
pub(super) const MAX_RECORDS: u64 = 10_000;
/// Keys that one answer names; of more it names none.
#[cfg(feature = "redis")]
pub(super) const MAX_NAMES: u64 = 100_000;
/// Writers of one bucket that a store remembers because a try of theirs may still be under way; it takes no more.
pub(super) const MAX_WRITERS: u64 = 16_384;
/// A hundred years: more than anybody means, and far from where milliseconds since 1970 overflow.
pub(super) const MAX_TIME_TO_LIVE_MS: u64 = 100 * 366 * 24 * 3600 * 1000;

/// Refuses a transaction that breaks a rule of the contract, before any store sees it.
pub(super) fn check(transaction: &Transaction) -> Result<(), Failure> {
    check_bucket(&transaction.bucket)?;
    check_opening(&transaction.opening)?;
    if transaction.operations.len() + transaction.expectations.len() > MAX_OPERATIONS {
        return Err(failure(
            FailureCode::Invalid,
            "operations",
            format!("a transaction has at most {MAX_OPERATIONS} operations and expectations"),
        ));
    }
    for expectation in &transaction.expectations {
        match expectation {
            Expectation::Oldest(expected) => check_log(&expected.log)?,
            Expectation::Keys(expected) => expected.keys.iter().try_for_each(|key| check_key(key))?,
            Expectation::Room(_) => {}
        }
    }
    check_operations(&transaction.operations)
}

fn check_opening(opening: &Opening) -> Result<(), Failure> {
    let (Opening::Create(life) | Opening::CreateNew(life)) = opening else { return Ok(()) };
    match &life.time_to_live {
        Some(ttl) if !(1..=MAX_TIME_TO_LIVE_MS).contains(&ttl.milliseconds) => Err(failure(
            FailureCode::Invalid,
            "time-to-live",
            format!("a time to live is 1 to {MAX_TIME_TO_LIVE_MS} milliseconds, not {}", ttl.milliseconds),
        )),
        _ => Ok(()),
    }
}

fn check_operations(operations: &[Operation]) -> Result<(), Failure> {
    let mut written = Written::default();
    for operation in operations {
        match operation {
            Operation::Get(get) => check_key(&get.key)?,
            Operation::Put(put) => written.key(&put.key)?,
            Operation::Increment(increment) => written.key(&increment.key)?,
            Operation::Remove(remove) => written.key(&remove.key)?,
            Operation::RemoveAll(_) => written.all_keys()?,
            Operation::Append(append) => written.log(&append.log)?,
            Operation::ReplaceOldest(replace) => {
                written.log(&replace.log)?;
                if replace.records.len() as u64 > replace.count {
                    return Err(failure(
                        FailureCode::Invalid,
                        "records",
                        format!("{} records can't take the place of {}", replace.records.len(), replace.count),
                    ));
                }
            }
            Operation::Rewrite(rewrite) => written.log(&rewrite.log)?,
            Operation::Read(read) => check_log(&read.log)?,
            Operation::Overflow(overflow) => check_log(&overflow.log)?,
            Operation::Count(count) => check_log(&count.log)?,
            Operation::GetAll(_) | Operation::ListKeys(_) => {}
        }
    }
    Ok(())
}

/// What the transaction writes so far. A second write to one place would depend on the first, and a
/// store checks everything before its first write.
#[derive(Default)]
struct Written<'a> {
    keys: Names<'a>,
    all_keys: bool,
    logs: Names<'a>,
}

impl<'a> Written<'a> {
    fn key(&mut self, key: &'a str) -> Result<(), Failure> {
        check_key(key)?;
        if self.all_keys || !self.keys.insert(key) {
            return Err(twice("key", key));
        }
        Ok(())
    }

    fn all_keys(&mut self) -> Result<(), Failure> {
        if self.all_keys || !self.keys.is_empty() {
            return Err(twice("key", "(all)"));
        }
        self.all_keys = true;
        Ok(())
    }

    fn log(&mut self, log: &'a str) -> Result<(), Failure> {
        check_log(log)?;
        if self.logs.insert(log) { Ok(()) } else { Err(twice("log", log)) }
    }
}

fn twice(what: &str, name: &str) -> Failure {
    failure(FailureCode::Invalid, name, format!("a transaction writes each {what} once, {name} would be written twice"))
}

/// A set of names: a few are searched, and cost no allocation; more are hashed. A transaction mostly writes
/// one or two.
#[derive(Default)]
struct Names<'a> {
    /// A free place is empty, as no name is.
    few: [&'a str; 4],
    many: HashSet<&'a str>,
}

impl<'a> Names<'a> {
    fn insert(&mut self, name: &'a str) -> bool {
        for place in &mut self.few {
            if place.is_empty() {
                *place = name;
                return true;
            }
            if *place == name {
                return false;
            }
        }
        self.many.insert(name)
    }

    fn is_empty(&self) -> bool {
        self.few.iter().all(|name| name.is_empty())
    }
}

/// Refuses a writer whose retry could not be told from its first try.
pub(super) fn too_many_writers() -> Failure {
    let message =
        format!("{MAX_WRITERS} other writers have just written to this session and may still retry; try again later");
    Failure { limit: MAX_WRITERS, ..failure(FailureCode::Full, "writers", message) }
}

/// Whether any of the operations changes a bucket: only then must a retry be recognised, and a late one
/// refused.
pub(super) fn writes(operations: &[Operation]) -> bool {
    operations.iter().any(|operation| match operation {
        Operation::Put(_)
        | Operation::Increment(_)
        | Operation::Remove(_)
        | Operation::RemoveAll(_)
        | Operation::Append(_)
        | Operation::ReplaceOldest(_)
        | Operation::Rewrite(_) => true,
        Operation::Get(_)
        | Operation::GetAll(_)
        | Operation::ListKeys(_)
        | Operation::Read(_)
        | Operation::Overflow(_)
        | Operation::Count(_) => false,
    })
}

/// The key that the operation sets, and creates if it is not there.
pub(super) fn set_key(operation: &Operation) -> Option<&str> {
    match operation {
        Operation::Put(put) => Some(&put.key),
        Operation::Increment(increment) => Some(&increment.key),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewLife, PutOperation, RemoveAllOperation};

    fn put(key: &str) -> Operation {
        Operation::Put(PutOperation { key: key.into(), value: "1".into() })
    }

    fn transaction(operations: Vec<Operation>) -> Transaction {
        let opening = Opening::Create(NewLife { time_to_live: None });
        Transaction { bucket: "b".into(), opening, expectations: vec![], operations }
    }

    #[test]
    fn each_key_is_written_once() {
        assert!(check(&transaction(vec![put("a"), put("b")])).is_ok());
        let many: Vec<_> = (0..100).map(|n| put(&format!("k{n}"))).collect();
        assert!(check(&transaction(many.clone())).is_ok());
        for again in ["k3", "k99"] {
            let operations = many.iter().cloned().chain([put(again)]).collect();
            assert_eq!(check(&transaction(operations)).unwrap_err().code, FailureCode::Invalid);
        }
        let all = Operation::RemoveAll(RemoveAllOperation { max_names: 1 });
        assert!(check(&transaction(vec![put("a"), all.clone()])).is_err());
        assert!(check(&transaction(vec![all, put("a")])).is_err());
    }
}
