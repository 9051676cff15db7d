//! Limits which buckets of the store a call reaches: those of the entry that it serves, and no others.
//!
//! Promises that a component touches nothing else, whatever it is passed or has seen before. Only names in the entry
//! count; which names are valid, and what a missing one means, the component decides.

mod owner;
mod pipelines;
mod subject;

use std::{
    collections::HashSet,
    sync::{Arc, OnceLock},
};

use compact_str::CompactString;
use keepline_options::bucket_names::SessionIds;
use parking_lot::Mutex;

pub(super) use self::subject::NamedSubjects;
pub(crate) use self::{
    owner::EntryOwner,
    pipelines::{PipelineAccess, PipelineScope},
    subject::TaskSubject,
};
use crate::{
    contract::{
        lanes::TaskBucket,
        storage_names::{NODES_MAP, OWNER_KEY, SESSION_MAP, SESSIONS_MAP},
        transcripts::Transcript,
    },
    store::{BucketId, EntryState, Operation, Outcome, Receipt, Transaction, kind},
};

/// The buckets that one call may reach.
#[derive(Clone, Debug, Default)]
pub(crate) enum CallScope {
    /// None at all.
    #[default]
    Nothing,
    /// Those of whom an entry is.
    Entry(Arc<EntryOwner>),
    /// The same, to read them.
    ReadOnly(Arc<EntryOwner>),
    /// The same, for an operator who corrects or removes all that is there.
    Correction(Arc<EntryOwner>),
    /// The same, and the nodes that the session's bucket lists.
    Removal(Arc<EntryOwner>, Arc<ObservedBuckets>),
    /// This one.
    Bucket(BucketId),
    /// Those that a task is about.
    Task(TaskScope),
    /// Definitions and data sets, for pipelines.
    Pipelines(Box<PipelineScope>),
    /// None, but the names of all sessions.
    SessionNames,
    /// To read it, a user's bucket, and of the sessions that it lists those that name the user as their owner.
    List(Arc<EntryOwner>, Arc<ObservedBuckets>),
    /// A user's bucket, and of the sessions and nodes that it lists, and the nodes of those sessions, those that name no
    /// other owner.
    Forget(Arc<EntryOwner>, Arc<ObservedBuckets>),
}

/// The buckets of a task.
#[derive(Clone, Debug)]
pub(crate) struct TaskScope {
    pub(crate) subject: TaskSubject,
    /// Whether the user's bucket is as if it were not there.
    pub(crate) is_user_withheld: bool,
}

/// What the store has returned about a call's buckets so far, as the host sees it on the way to the component.
#[derive(Debug, Default)]
pub(crate) struct ObservedBuckets(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// Sessions and nodes that the user's list names, or that of a session of the user's.
    listed: HashSet<BucketId>,
    /// Those of which it is known that they are the user's.
    theirs: HashSet<BucketId>,
}

impl ObservedBuckets {
    /// One that a list is known to name.
    pub(crate) fn with_listed_session(session: &str) -> Self {
        let found = Self::default();
        found.0.lock().listed.insert(BucketId::session(session));
        found
    }

    fn is_listed(&self, bucket: &BucketId) -> bool {
        self.0.lock().listed.contains(bucket)
    }

    pub(crate) fn is_user_bucket(&self, bucket: &BucketId) -> bool {
        let seen = self.0.lock();
        seen.listed.contains(bucket) && seen.theirs.contains(bucket)
    }
}

/// How a call may use a bucket that it reaches.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BucketAccess {
    pub(in crate::runtime) reads_only: bool,
    /// What the bucket has to say of its owner: otherwise it is as if it were not there.
    pub(in crate::runtime) owner: Option<(EntryState, String)>,
}

impl CallScope {
    /// The session that an operator names.
    pub(crate) fn for_session(name: &str) -> Self {
        Self::Bucket(BucketId::session(name))
    }

    /// The transcript of a session, or of one of its nodes, that an operator names.
    pub(crate) fn for_transcript(transcript: &Transcript<'_>) -> Self {
        let Transcript { session, app_id, node_id } = *transcript;
        let named = |name: Option<&str>| name.filter(|name| !name.is_empty()).map(CompactString::from);
        let owner = EntryOwner {
            session: named(Some(session)),
            app: named(app_id),
            node: named(node_id),
            ..EntryOwner::default()
        };
        Self::Entry(owner.into())
    }

    /// The same, for an operator's correction, and the bucket of the session's owner, by its name; without one, that of the
    /// user who is to be it.
    pub(crate) fn for_correction(transcript: &Transcript<'_>, owner: Option<&str>, user: Option<&str>) -> Self {
        let Self::Entry(named) = Self::for_transcript(transcript) else { return Self::Nothing };
        let mut all = EntryOwner::clone(&named);
        all.user = owner.or(user).filter(|name| !name.is_empty()).map(CompactString::from);
        if let Some(name) = owner {
            // It is hashed already, if it had to be.
            all.hashes.user = OnceLock::from(name.to_owned());
        }
        Self::Correction(all.into())
    }

    /// Of a correction, the one that finds no bucket of the session's owner.
    pub(crate) fn without_user(self) -> Self {
        let Self::Correction(owner) = self else { return self };
        Self::Correction(EntryOwner { is_user_withheld: true, ..EntryOwner::clone(&owner) }.into())
    }

    /// Of a correction, the removal of all.
    pub(crate) fn into_removal(self) -> Self {
        if let Self::Correction(owner) = self { Self::Removal(owner, Arc::default()) } else { self }
    }

    /// The bucket of the user that an operator names.
    pub(crate) fn for_user(user: &str) -> Self {
        Self::Entry(EntryOwner::from_user(user).into())
    }

    /// A session that an operator names, to read it.
    pub(crate) fn for_reading(session: &str) -> Self {
        let Self::Entry(owner) = Self::for_transcript(&session.into()) else { return Self::Nothing };
        Self::ReadOnly(owner)
    }

    /// The same, of the session whose id it was made with in place of the name.
    pub(crate) fn with_session_ids(mut self, ids: SessionIds) -> Self {
        match &mut self {
            Self::Bucket(bucket) if bucket.kind == kind::SESSION => {
                bucket.name = ids.bucket_name_or_id(&bucket.name).into_owned();
            }
            Self::Entry(owner) | Self::ReadOnly(owner) | Self::Correction(owner) | Self::Removal(owner, _) => {
                let id = owner.session.clone().unwrap_or_default();
                let name = ids.bucket_name_or_id(&id);
                if *name != *id {
                    // No node's name has been made yet.
                    Arc::make_mut(owner).session = Some(CompactString::from(&*name));
                }
            }
            _ => {}
        }
        self
    }

    /// All that is a user's, to forget it.
    pub(crate) fn for_forgetting(user: &str) -> Self {
        Self::Forget(EntryOwner::from_user(user).into(), Arc::default())
    }

    /// What a user's list names, to read it.
    pub(crate) fn for_user_list(user: Arc<EntryOwner>, found: Arc<ObservedBuckets>) -> Self {
        Self::List(user, found)
    }

    /// How a call may use the bucket. None: it does not reach it. To ask for a bucket's owner alone is less than to read it.
    pub(crate) fn access_to(&self, bucket: &BucketId, asks_for_owner: bool) -> Option<BucketAccess> {
        if let Self::Pipelines(scope) = self {
            return scope.access_to(bucket);
        }
        let is_part = bucket.kind == kind::SESSION || bucket.kind == kind::NODE;
        let (reads_only, owner) = match self {
            Self::Entry(owner) | Self::Correction(owner) if owner.has_bucket(bucket) => (false, None),
            Self::ReadOnly(owner) if owner.has_bucket(bucket) => (true, None),
            Self::Removal(_, found) if bucket.kind == kind::NODE && found.is_listed(bucket) => (false, None),
            Self::Removal(owner, _) if owner.has_bucket(bucket) => (false, None),
            Self::Bucket(only) if only == bucket => (false, None),
            Self::Task(task) if task.is_reachable(bucket) => (false, None),
            Self::List(owner, _) if owner.has_bucket(bucket) => (true, None),
            Self::List(owner, found) if bucket.kind == kind::SESSION && found.is_listed(bucket) => {
                (true, Some((EntryState::Equal, owner.user_bucket_name()?.to_owned())))
            }
            Self::Forget(owner, _) if owner.has_bucket(bucket) => (false, None),
            Self::Forget(..) if is_part && asks_for_owner => (true, None),
            Self::Forget(owner, found) if is_part && found.is_listed(bucket) => {
                (false, Some((EntryState::AbsentOrEqual, owner.user_bucket_name()?.to_owned())))
            }
            _ => return None,
        };
        Some(BucketAccess { reads_only, owner })
    }

    /// Whether a call may change the bucket's lists of sessions and nodes: not if what it may reach follows from them.
    pub(in crate::runtime) fn keeps_lists(&self) -> bool {
        matches!(self, Self::Removal(..) | Self::Forget(..))
    }

    /// What a transaction brought, before the component knows it. `is_theirs`: it was applied only because the bucket is the
    /// user's.
    pub(in crate::runtime) fn observe_receipt(&self, transaction: &Transaction, receipt: &Receipt, is_theirs: bool) {
        let (owner, found) = match self {
            Self::Removal(owner, found) | Self::List(owner, found) | Self::Forget(owner, found) => (owner, found),
            _ => return,
        };
        let bucket = &transaction.bucket;
        let mut seen = found.0.lock();
        if is_theirs {
            seen.theirs.insert(bucket.clone());
        }
        let is_own = match &*bucket.kind {
            kind::USER => owner.user_bucket_name() == Some(&*bucket.name),
            kind::SESSION => is_theirs || owner.session.as_deref() == Some(&*bucket.name),
            _ => false,
        };
        for (operation, outcome) in transaction.operations.iter().zip(&receipt.outcomes) {
            let map = match operation {
                Operation::Get(get) => &get.map_name,
                Operation::GetAll(all) => &all.map_name,
                _ => continue,
            };
            let Outcome::Entries(found) = outcome else { continue };
            let (entries, unreadable) = (&found.entries, found.unreadable());
            let kind = match &**map {
                SESSIONS_MAP if bucket.kind == kind::USER => kind::SESSION,
                NODES_MAP => kind::NODE,
                SESSION_MAP if asks_for_owner(operation) && unreadable.is_empty() => {
                    if entries.iter().all(|entry| Some(&*entry.text) == owner.user_bucket_name()) {
                        seen.theirs.insert(bucket.clone());
                    }
                    continue;
                }
                _ => continue,
            };
            if is_own {
                let names = entries.iter().map(|entry| &entry.key).chain(unreadable);
                seen.listed.extend(names.map(|name| BucketId::new(kind, name)));
            }
        }
    }

    /// Whether it is known that a bucket that this call reaches is the user's.
    pub(in crate::runtime) fn is_user_bucket(&self, bucket: &BucketId) -> bool {
        matches!(self, Self::List(_, found) | Self::Forget(_, found) if found.is_user_bucket(bucket))
    }

    fn is_reachable(&self, bucket: &BucketId) -> bool {
        self.access_to(bucket, false).is_some()
    }

    /// Whether a bucket beyond the scope is reported as absent rather than denied.
    pub(crate) fn is_withheld(&self, bucket: &BucketId) -> bool {
        match self {
            Self::Correction(owner) | Self::Removal(owner, _) => owner.is_bucket_withheld(bucket),
            Self::Task(task) => task.is_user_withheld && task.subject.user.as_ref() == Some(bucket),
            _ => false,
        }
    }

    /// How many entries' work a call may do: correcting or clearing a large memory takes more than an entry, and only
    /// operators ask for it.
    pub(crate) fn entry_allowance(&self) -> u64 {
        if matches!(self, Self::Correction(_) | Self::Removal(..)) { 64 } else { 1 }
    }

    /// Whether a task on these buckets stays within it.
    pub(crate) fn holds_task(&self, buckets: &[TaskBucket]) -> bool {
        TaskSubject::of(buckets).is_some_and(|subject| match self {
            Self::Task(own) => own.subject == subject,
            _ => subject.buckets().all(|bucket| self.is_reachable(bucket)),
        })
    }

    pub(crate) fn may_list_buckets(&self, kind: &str) -> bool {
        matches!(self, Self::SessionNames) && kind == kind::SESSION
    }
}

impl TaskScope {
    fn is_reachable(&self, bucket: &BucketId) -> bool {
        *bucket == self.subject.bucket || (!self.is_user_withheld && self.subject.user.as_ref() == Some(bucket))
    }
}

/// Whether an operation asks for the owner that a bucket names, and for nothing else.
pub(in crate::runtime) fn asks_for_owner(operation: &Operation) -> bool {
    matches!(operation, Operation::Get(get) if get.map_name == SESSION_MAP && get.keys == [OWNER_KEY])
}

/// As a text names them: `session/a user/b`.
#[cfg(test)]
pub(in crate::runtime) fn task_buckets(text: &str) -> Vec<TaskBucket> {
    let bucket = |text: &str| {
        let (kind, name) = text.split_once('/').unwrap_or((text, ""));
        TaskBucket { kind: kind.to_owned(), name: name.to_owned() }
    };
    text.split(' ').map(bucket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(session: &str, user: &str, app: &str, node: &str) -> Arc<EntryOwner> {
        let [session, user, app, node] =
            [session, user, app, node].map(|name| (!name.is_empty()).then(|| CompactString::from(name)));
        EntryOwner { session, user, app, node, ..EntryOwner::default() }.into()
    }

    fn after(answer: Arc<EntryOwner>, question: &Arc<EntryOwner>) -> Arc<EntryOwner> {
        EntryOwner::clone(&answer).merge_with_question(question)
    }

    fn reaches(scope: &CallScope, subjects: &[&str]) -> Vec<bool> {
        subjects.iter().map(|subject| scope.holds_task(&task_buckets(subject))).collect()
    }

    #[test]
    fn an_entry_reaches_only_the_buckets_that_it_names() {
        let anna = CallScope::Entry(owner("anna", "", "", ""));
        let others = ["session/bob", "session/", "session/anna/", "user/anna", "node/anna", "service/anna", "anna", ""];
        assert_eq!(reaches(&anna, &["session/anna"]), [true]);
        assert_eq!(reaches(&anna, &others), [false; 8]);
        assert!(!anna.may_list_buckets(kind::SESSION));
        let nobody = CallScope::Entry(Arc::default());
        assert_eq!(reaches(&nobody, &["session/", "user/", "node/", "session/anna"]), [false; 4]);
    }

    #[test]
    fn users_and_nodes_are_reached_under_the_contract_s_names() {
        // As `printf … | sha256sum | xxd -r -p | base32` has them, in lower case and without padding.
        let (a_b, node) = (
            "user/h-zbuhucfklvxnebcdfd5gu2l2xduw3q2cshumea2k5dby436mnvsq",
            "node/h-fpcvl5jqqkvr3ct3to232gcmz5zr6ayszobyfvudoqo73z5x7rua",
        );
        let scope = CallScope::Entry(owner("s", "a b", "app", "n"));
        assert_eq!(reaches(&scope, &[a_b, node, "user/a b", "session/s"]), [true, true, false, true]);
        let plain = CallScope::Entry(owner("", "anna", "app", "n"));
        assert_eq!(reaches(&plain, &["user/anna", a_b, node]), [true, false, false]);
        // A name of the form of a hash is hashed, so no user can take another's bucket by name.
        let posing = CallScope::Entry(owner("", a_b.trim_start_matches("user/"), "", ""));
        assert_eq!(reaches(&posing, &[a_b]), [false]);
    }

    #[test]
    fn a_long_name_is_hashed_once_and_only_when_its_bucket_is_asked_for() {
        let owner = owner("s", "a b", "app", "n");
        let hold = |kind| owner.has_bucket(&BucketId::new(kind, "x"));
        assert!(!hold(kind::SESSION) && owner.hashes.user.get().is_none() && owner.hashes.node.get().is_none());
        for (kind, kept) in [(kind::USER, &owner.hashes.user), (kind::NODE, &owner.hashes.node)] {
            assert!(!hold(kind));
            let first = kept.get().map(|name| name.as_ptr());
            assert!(first.is_some() && !hold(kind) && kept.get().map(|name| name.as_ptr()) == first);
        }
    }

    #[test]
    fn an_answer_inherits_its_questions_owner_unless_it_names_another_session() {
        let asked = owner("s", "u", "a", "n");
        assert_eq!(EntryOwner::default().merge_with_question(&asked), asked);
        assert_eq!(after(owner("s", "v", "", ""), &asked), owner("s", "v", "a", "n"));
        assert_eq!(after(owner("", "v", "", ""), &asked), owner("s", "v", "a", "n"));
        assert_eq!(after(owner("t", "", "", ""), &asked), owner("t", "", "", ""));
        assert_eq!(after(owner("t", "", "", ""), &Arc::default()), owner("t", "", "", ""));
    }

    #[test]
    fn operator_calls_and_tasks_reach_only_what_they_name() {
        assert_eq!(reaches(&CallScope::for_session("a"), &["session/a", "session/b", "user/a"]), [true, false, false]);
        let a = |kind| BucketId::new(kind, "a");
        let task = |subject: &str| {
            CallScope::Task(TaskScope {
                subject: TaskSubject::of(&task_buckets(subject)).unwrap(),
                is_user_withheld: false,
            })
        };
        assert_eq!(reaches(&task("user/a"), &["user/a", "session/a"]), [true, false]);
        assert!(task("user/a").is_reachable(&a(kind::USER)) && !task("user/a").is_reachable(&a(kind::SESSION)));
        // One that takes two buckets reaches both, and an entry has to reach both to name it.
        let both = task("session/a user/b");
        assert!(both.is_reachable(&a(kind::SESSION)) && !both.is_reachable(&a(kind::USER)));
        let b = BucketId::user("b");
        assert!(both.is_reachable(&b) && !both.is_withheld(&b));
        let withheld =
            TaskScope { subject: TaskSubject::of(&task_buckets("session/a user/b")).unwrap(), is_user_withheld: true };
        let withheld = CallScope::Task(withheld);
        assert!(withheld.is_reachable(&a(kind::SESSION)) && !withheld.is_reachable(&b) && withheld.is_withheld(&b));
        assert_eq!(reaches(&both, &["session/a user/b", "session/a", "user/b"]), [true, false, false]);
        let entry = CallScope::Entry(owner("a", "b", "", ""));
        let foreign = ["session/a user/c", "session/c user/b", "session/a  user/b", "session/a ", " session/a"];
        assert_eq!(reaches(&entry, &["session/a user/b"]), [true]);
        assert_eq!(reaches(&entry, &foreign), [false; 5]);
        let of_anna = ["user/anna", "user/bob", "session/s", "node/n", "service/x"];
        assert_eq!(reaches(&CallScope::for_user("anna"), &of_anna), [true, false, false, false, false]);
        assert_eq!(reaches(&CallScope::for_forgetting("anna"), &of_anna), [true, false, false, false, false]);
        let node = Transcript { session: "s", app_id: Some("app"), node_id: Some("n") };
        let named = "node/h-fpcvl5jqqkvr3ct3to232gcmz5zr6ayszobyfvudoqo73z5x7rua";
        assert_eq!(reaches(&CallScope::for_transcript(&node), &["session/s", named, "user/anna"]), [true, true, false]);
        assert_eq!(
            reaches(&CallScope::for_transcript(&"s".into()), &["session/s", named, "session/t"]),
            [true, false, false]
        );
        // The owner is named by their bucket, and hashed no more.
        let owned = CallScope::for_correction(&node, Some("h-anna"), Some("bob"));
        assert_eq!(reaches(&owned, &["session/s", named, "user/h-anna", "user/bob"]), [true, true, true, false]);
        // Withheld, it is neither held nor denied, and no other one is.
        let withheld = CallScope::for_correction(&"s".into(), Some("h-anna"), None).without_user();
        assert_eq!(reaches(&withheld, &["session/s", "user/h-anna", named]), [true, false, false]);
        let is_withheld = |name: &str| withheld.is_withheld(&BucketId::user(name));
        assert!(is_withheld("h-anna") && !is_withheld("bob") && !owned.is_withheld(&a(kind::USER)));
        let nobodys = CallScope::for_correction(&"s".into(), None, Some("bob"));
        assert_eq!(reaches(&nobodys, &["session/s", "user/bob", "user/anna", named]), [true, true, false, false]);
        assert!(
            CallScope::SessionNames.may_list_buckets(kind::SESSION)
                && !CallScope::SessionNames.may_list_buckets(kind::USER)
        );
        assert!(
            !CallScope::SessionNames.holds_task(&task_buckets("session/a"))
                && !CallScope::for_session("a").may_list_buckets(kind::SESSION)
        );
    }
}
