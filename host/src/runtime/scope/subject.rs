//! Subjects of tasks: which buckets a task is about.
//!
//! A subject has a closed form, so a text that others chose can't name further buckets. One that names a session and a
//! user gives access to the user's bucket only if the entry that named the task named both, or if the user's own list
//! has the session: see `sessions/ownership.rs`.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use crate::store::{BucketId, StoreGuard, kind, names::is_bucket};

/// What separates a session from its user.
const AND_USER: &str = " user/";

/// `session/NAME`, `node/NAME`, `user/NAME` or `session/NAME user/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskSubject {
    text: String,
    pub(crate) bucket: BucketId,
    /// The user's bucket, where the task works on that beside the session's.
    pub(crate) user: Option<BucketId>,
}

impl TaskSubject {
    /// None: it has another form, or a part of it can't be the name of a bucket.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (first, user) = match text.split_once(AND_USER) {
            Some((first, user)) => (first, Some(checked_bucket_id(kind::USER, user)?)),
            None => (text, None),
        };
        let (kind, name) = first.split_once('/')?;
        let is_allowed = match kind {
            kind::SESSION => true,
            kind::NODE | kind::USER => user.is_none(),
            _ => false,
        };
        let bucket = checked_bucket_id(kind, name).filter(|_| is_allowed)?;
        Some(Self { text: text.to_owned(), bucket, user })
    }

    pub(crate) fn of_session(session: &str, user: Option<&str>) -> Option<Self> {
        let user = user.map(|user| [AND_USER, user].concat()).unwrap_or_default();
        Self::parse(&format!("session/{session}{user}"))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn buckets(&self) -> impl Iterator<Item = &BucketId> {
        [&self.bucket].into_iter().chain(&self.user)
    }
}

fn checked_bucket_id(kind: &str, name: &str) -> Option<BucketId> {
    is_bucket(name).then(|| BucketId::new(kind, name))
}

/// How many subjects are kept. Of one that is forgotten, the user's list is asked.
const MAX_NAMED_SUBJECTS: usize = 1024;

/// Subjects of a session and a user that replies to entries of both have named, by store.
#[derive(Default)]
pub(crate) struct NamedSubjects {
    /// The address of the store stays its own while it is kept here.
    kept: Mutex<HashMap<(usize, String), Weak<StoreGuard>>>,
}

impl NamedSubjects {
    pub(in crate::runtime) fn add_subject(&self, store: &Arc<StoreGuard>, subject: &str) {
        if !subject.contains(AND_USER) {
            return;
        }
        let mut kept = self.kept.lock();
        let key = (address(store), subject.to_owned());
        if kept.len() >= MAX_NAMED_SUBJECTS && !kept.contains_key(&key) {
            kept.clear();
        }
        kept.entry(key).or_insert_with(|| Arc::downgrade(store));
    }

    pub(crate) fn contains(&self, store: &Arc<StoreGuard>, subject: &TaskSubject) -> bool {
        self.kept.lock().contains_key(&(address(store), subject.text.clone()))
    }
}

fn address(store: &Arc<StoreGuard>) -> usize {
    Arc::as_ptr(store) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{BreakerOptions, MemoryStore};

    #[test]
    fn a_subject_has_one_of_four_forms() {
        for text in ["session/a", "node/h-a", "user/a", "session/a user/b"] {
            assert_eq!(TaskSubject::parse(text).unwrap().as_str(), text);
        }
        let two = TaskSubject::parse("session/a user/b").unwrap();
        assert_eq!(two.buckets().map(|bucket| &*bucket.name).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(TaskSubject::of_session("a", Some("b")), Some(two));
        for text in [
            "",
            "a",
            "session",
            "session/",
            "/a",
            "sessions/a",
            "service/a",
            "session/a ",
            " session/a",
            "session/a  user/b",
            "session/a user/",
            "session/a user/b session/c",
            "session/a user/b user/c",
            "session/a session/b",
            "session/a node/b",
            "user/a user/b",
            "node/a user/b",
            "user/b session/a",
            "session/a\tuser/b",
            "session/a/b",
            "session/é",
        ] {
            assert_eq!(TaskSubject::parse(text), None, "{text:?}");
        }
        for owner in ["b session/c", "b node/c", "b user/c", "", " b", "b "] {
            assert_eq!(TaskSubject::of_session("a", Some(owner)), None, "{owner:?}");
        }
    }

    #[test]
    fn a_named_subject_is_known_for_its_store_alone() {
        let store = || Arc::new(StoreGuard::new(Arc::new(MemoryStore::default()), BreakerOptions::default()));
        let (one, other, named) = (store(), store(), NamedSubjects::default());
        let subject = TaskSubject::parse("session/a user/b").unwrap();
        named.add_subject(&one, subject.as_str());
        assert!(named.contains(&one, &subject) && !named.contains(&other, &subject));
        for number in 0..5000 {
            named.add_subject(&one, &format!("session/{number} user/b"));
        }
        assert!(named.kept.lock().len() <= MAX_NAMED_SUBJECTS);
    }
}
