//! The owner of an entry, as its metadata names it, and the names of the owner's buckets.

use std::sync::{Arc, OnceLock};

use compact_str::CompactString;
use keepline_options::bucket_names::{is_plain_user, node_bucket_name, user_bucket_name};

use crate::store::{BucketId, kind};

/// Whom an entry belongs to, as its metadata name them: texts that are not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryOwner {
    pub(crate) session: Option<CompactString>,
    pub(crate) user: Option<CompactString>,
    pub(crate) app: Option<CompactString>,
    pub(crate) node: Option<CompactString>,
    /// Whether the user's bucket is as if it were not there.
    pub(crate) is_user_withheld: bool,
    pub(crate) hashes: Hashes,
}

/// The names of its buckets that are hashes, each made once: a name in metadata can be as long as an entry, and a plugin
/// can ask for its bucket hundreds of times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hashes {
    pub(super) user: OnceLock<String>,
    pub(super) node: OnceLock<String>,
}

impl PartialEq for Hashes {
    /// They follow from the names.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Hashes {}

impl EntryOwner {
    pub(crate) fn from_user(name: &str) -> Self {
        Self { user: Some(name).filter(|name| !name.is_empty()).map(CompactString::from), ..Self::default() }
    }

    /// Whom an answer belongs to that names these, after a question of the other's: what it leaves out is as it was,
    /// unless it is of another session.
    pub(crate) fn merge_with_question(self, question: &Arc<Self>) -> Arc<Self> {
        if self == Self::default() {
            return question.clone();
        }
        if self.session.is_some() && self.session != question.session {
            return self.into();
        }
        let owner = Self {
            session: self.session.or_else(|| question.session.clone()),
            user: self.user.or_else(|| question.user.clone()),
            app: self.app.or_else(|| question.app.clone()),
            node: self.node.or_else(|| question.node.clone()),
            ..Self::default()
        };
        owner.into()
    }

    pub(super) fn has_bucket(&self, bucket: &BucketId) -> bool {
        let name = bucket.name.as_str();
        match &*bucket.kind {
            kind::SESSION => self.session.as_deref() == Some(name),
            kind::USER => !self.is_user_withheld && self.user_bucket_name() == Some(name),
            kind::NODE => self.node_bucket_name() == Some(name),
            _ => false,
        }
    }

    pub(super) fn is_bucket_withheld(&self, bucket: &BucketId) -> bool {
        self.is_user_withheld && bucket.kind == kind::USER && self.user_bucket_name() == Some(bucket.name.as_str())
    }

    /// The name of the user's bucket.
    pub(crate) fn user_bucket_name(&self) -> Option<&str> {
        let user = self.user.as_deref()?;
        Some(if is_plain_user(user) { user } else { self.hashes.user.get_or_init(|| user_bucket_name(user).into()) })
    }

    fn node_bucket_name(&self) -> Option<&str> {
        let (session, node) = (self.session.as_deref()?, self.node.as_deref()?);
        Some(self.hashes.node.get_or_init(|| node_bucket_name(self.app.as_deref(), session, node)))
    }
}
