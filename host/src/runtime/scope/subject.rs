//! What a task works on: one bucket, or a session's and its user's.
//!
//! Only these forms are accepted. A task of a session and a user gives access to the user's bucket only if the entry that
//! named the task named both, or if the user's own list has the session: see `sessions/ownership.rs`.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use crate::{
    contract::lanes::TaskBucket,
    store::{BucketId, StoreGuard, kind, names::is_bucket},
};

/// A session, a node, a user, or a session and its user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TaskSubject {
    pub(crate) bucket: BucketId,
    /// The user's bucket, where the task works on that beside the session's.
    pub(crate) user: Option<BucketId>,
}

impl TaskSubject {
    /// None: they are other buckets, or one has a name that no bucket can have.
    pub(crate) fn of(buckets: &[TaskBucket]) -> Option<Self> {
        let (first, user) = match buckets {
            [first] => (first, None),
            [first, user] => (first, Some(checked_bucket_id(user).filter(|user| user.kind == kind::USER)?)),
            _ => return None,
        };
        let bucket = checked_bucket_id(first)?;
        let is_allowed = match &*bucket.kind {
            kind::SESSION => true,
            kind::NODE | kind::USER => user.is_none(),
            _ => false,
        };
        is_allowed.then_some(Self { bucket, user })
    }

    pub(super) fn buckets(&self) -> impl Iterator<Item = &BucketId> {
        [&self.bucket].into_iter().chain(&self.user)
    }
}

impl fmt::Display for TaskSubject {
    /// For logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bucket.kind, self.bucket.name)?;
        self.user.iter().try_for_each(|user| write!(f, " user/{}", user.name))
    }
}

fn checked_bucket_id(TaskBucket { kind, name }: &TaskBucket) -> Option<BucketId> {
    is_bucket(name).then(|| BucketId::new(kind, name))
}

/// How many subjects are kept. Of one that is forgotten, the user's list is asked.
const MAX_NAMED_SUBJECTS: usize = 1024;

/// Subjects of a session and a user that replies to entries of both have named, by store.
#[derive(Default)]
pub(crate) struct NamedSubjects {
    /// The address of the store stays its own while it is kept here.
    kept: Mutex<HashMap<(usize, TaskSubject), Weak<StoreGuard>>>,
}

impl NamedSubjects {
    pub(in crate::runtime) fn add_subject(&self, store: &Arc<StoreGuard>, subject: &TaskSubject) {
        if subject.user.is_none() {
            return;
        }
        let mut kept = self.kept.lock();
        let key = (address(store), subject.clone());
        if kept.len() >= MAX_NAMED_SUBJECTS && !kept.contains_key(&key) {
            kept.clear();
        }
        kept.entry(key).or_insert_with(|| Arc::downgrade(store));
    }

    pub(crate) fn contains(&self, store: &Arc<StoreGuard>, subject: &TaskSubject) -> bool {
        self.kept.lock().contains_key(&(address(store), subject.clone()))
    }
}

fn address(store: &Arc<StoreGuard>) -> usize {
    Arc::as_ptr(store) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        runtime::scope::task_buckets,
        store::{BreakerOptions, MemoryStore},
    };

    #[test]
    fn a_task_has_one_of_four_forms() {
        for text in ["session/a", "node/h-a", "user/a", "session/a user/b"] {
            assert_eq!(TaskSubject::of(&task_buckets(text)).unwrap().to_string(), text);
        }
        for text in [
            "",
            "session/",
            "/a",
            "sessions/a",
            "service/a",
            "session/a user/",
            "session/a user/b session/c",
            "session/a user/b user/c",
            "session/a session/b",
            "session/a node/b",
            "user/a user/b",
            "node/a user/b",
            "user/b session/a",
            "session/a/b",
            "session/é",
        ] {
            assert_eq!(TaskSubject::of(&task_buckets(text)), None, "{text:?}");
        }
        let [kind, name] = ["session", "a user/b"].map(str::to_owned);
        assert_eq!(TaskSubject::of(&[TaskBucket { kind, name }]), None);
    }

    #[test]
    fn a_named_subject_is_known_for_its_store_alone() {
        let store = || Arc::new(StoreGuard::new(Arc::new(MemoryStore::default()), BreakerOptions::default()));
        let (one, other, named) = (store(), store(), NamedSubjects::default());
        let subject = |text: &str| TaskSubject::of(&task_buckets(text)).unwrap();
        named.add_subject(&one, &subject("session/a user/b"));
        assert!(named.contains(&one, &subject("session/a user/b")));
        assert!(!named.contains(&other, &subject("session/a user/b")));
        for number in 0..5000 {
            named.add_subject(&one, &subject(&format!("session/{number} user/b")));
        }
        assert!(named.kept.lock().len() <= MAX_NAMED_SUBJECTS);
    }
}
