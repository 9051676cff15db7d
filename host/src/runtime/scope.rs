//! What of the store a call may reach: the buckets of whom it serves, and no others.
//!
//! Promises that a component, whatever it is told or has seen before, touches nothing but that. Whether a name is a
//! valid one, and what a missing one means, is the component's business: only names that stand in the entry are taken.

use std::sync::{Arc, OnceLock};

use compact_str::CompactString;
use keepline_json::push_base32;
use sha2::{Digest as _, Sha256};

use crate::{
    contract::transcripts::Transcript,
    store::{BucketId, BucketKind},
};

/// The buckets that one call may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scope {
    /// None at all.
    #[default]
    Nothing,
    /// Those of whom an entry is.
    Entry(Arc<Owner>),
    /// The same, for an operator who corrects or removes all that is there.
    Correction(Arc<Owner>),
    /// The same, and every node: which of them are the session's, its bucket tells.
    Removal(Arc<Owner>),
    /// This one.
    Bucket(BucketId),
    /// Those that a task is about: `{kind}/{name}`, of several with a blank between them.
    Task(String),
    /// None, but the names of all sessions.
    SessionNames,
    /// That of a user, and every session and node: which of them are the user's, their buckets tell.
    User(Arc<Owner>),
}

/// Whom an entry belongs to, as its metadata name them: texts that are not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
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
    user: OnceLock<String>,
    node: OnceLock<String>,
}

impl PartialEq for Hashes {
    /// They follow from the names.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Hashes {}

impl Scope {
    /// The session that an operator names.
    pub(crate) fn session(name: &str) -> Self {
        Self::Bucket(BucketId { kind: BucketKind::Session, name: name.into() })
    }

    /// The transcript of a session, or of one of its nodes, that an operator names.
    pub(crate) fn transcript(transcript: &Transcript<'_>) -> Self {
        let Transcript { session, app_id, node_id } = *transcript;
        let named = |name: Option<&str>| name.filter(|name| !name.is_empty()).map(CompactString::from);
        let owner =
            Owner { session: named(Some(session)), app: named(app_id), node: named(node_id), ..Owner::default() };
        Self::Entry(owner.into())
    }

    /// The same, for an operator's correction, and the bucket of the session's owner, by its name; without one, that of the
    /// user who is to be it.
    pub(crate) fn registered(transcript: &Transcript<'_>, owner: Option<&str>, user: Option<&str>) -> Self {
        let Self::Entry(named) = Self::transcript(transcript) else { return Self::Nothing };
        let mut all = Owner::clone(&named);
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
        Self::Correction(Owner { is_user_withheld: true, ..Owner::clone(&owner) }.into())
    }

    /// Of a correction, the removal of all.
    pub(crate) fn whole(self) -> Self {
        if let Self::Correction(owner) = self { Self::Removal(owner) } else { self }
    }

    /// The bucket of the user that an operator names.
    pub(crate) fn of_user(user: &str) -> Self {
        Self::Entry(Owner::user(user).into())
    }

    /// All that may be a user's.
    pub(crate) fn all_of_user(user: &str) -> Self {
        Self::User(Owner::user(user).into())
    }

    pub(crate) fn holds(&self, bucket: &BucketId) -> bool {
        match self {
            Self::Entry(owner) | Self::Correction(owner) => owner.has(bucket),
            Self::Removal(owner) => bucket.kind == BucketKind::Node || owner.has(bucket),
            Self::User(owner) => matches!(bucket.kind, BucketKind::Session | BucketKind::Node) || owner.has(bucket),
            Self::Bucket(only) => only == bucket,
            Self::Task(subject) => buckets(subject).any(|one| one.as_ref() == Some(bucket)),
            Self::Nothing | Self::SessionNames => false,
        }
    }

    /// Whether a bucket that it does not hold is to be found absent, and not denied.
    pub(crate) fn withholds(&self, bucket: &BucketId) -> bool {
        match self {
            Self::Correction(owner) | Self::Removal(owner) => owner.withholds(bucket),
            _ => false,
        }
    }

    /// How many entries' work a call may do: what takes all out of a large memory is no entry, and whoever asks for it is no
    /// client.
    pub(crate) fn entries(&self) -> u64 {
        if matches!(self, Self::Correction(_) | Self::Removal(_)) { 64 } else { 1 }
    }

    /// Whether a task about this subject works within it.
    pub(crate) fn holds_subject(&self, subject: &str) -> bool {
        match self {
            // Also one that is none: who handed it in gets it back.
            Self::Task(own) => own == subject,
            _ => buckets(subject).all(|bucket| bucket.is_some_and(|bucket| self.holds(&bucket))),
        }
    }

    pub(crate) fn lists(&self, kind: BucketKind) -> bool {
        *self == Self::SessionNames && kind == BucketKind::Session
    }
}

impl Owner {
    fn user(name: &str) -> Self {
        Self { user: Some(name).filter(|name| !name.is_empty()).map(CompactString::from), ..Self::default() }
    }

    /// Whom an answer belongs to that names these, after a question of the other's: what it leaves out is as it was,
    /// unless it is of another session.
    pub(crate) fn after(self, question: &Arc<Self>) -> Arc<Self> {
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

    fn has(&self, bucket: &BucketId) -> bool {
        let name = bucket.name.as_str();
        match bucket.kind {
            BucketKind::Session => self.session.as_deref() == Some(name),
            BucketKind::User => !self.is_user_withheld && self.user_name() == Some(name),
            BucketKind::Node => self.node_name() == Some(name),
            BucketKind::Definition | BucketKind::Dataset | BucketKind::Service => false,
        }
    }

    fn withholds(&self, bucket: &BucketId) -> bool {
        self.is_user_withheld && bucket.kind == BucketKind::User && self.user_name() == Some(bucket.name.as_str())
    }

    fn user_name(&self) -> Option<&str> {
        let user = self.user.as_deref()?;
        let is_plain = (1..=126).contains(&user.len())
            && !user.starts_with(HASHED)
            && user.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        Some(if is_plain { user } else { self.hashes.user.get_or_init(|| hashed(user)) })
    }

    fn node_name(&self) -> Option<&str> {
        let (session, node) = (self.session.as_deref()?, self.node.as_deref()?);
        let parts = [self.app.as_deref().unwrap_or_default(), session, node];
        Some(self.hashes.node.get_or_init(|| hashed(&parts.join("\0"))))
    }
}

/// What a subject names, one at least; none: that part of it is no bucket.
fn buckets(subject: &str) -> impl Iterator<Item = Option<BucketId>> {
    subject.split(' ').map(|part| {
        let (kind, name) = part.split_once('/')?;
        let kind = BucketKind::ALL.into_iter().find(|known| known.name() == kind)?;
        Some(BucketId { kind, name: name.into() })
    })
}

/// What the names begin with that are hashes.
const HASHED: &str = "h-";

fn hashed(text: &str) -> String {
    let mut name = String::from(HASHED);
    push_base32(&mut name, &Sha256::digest(text));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(session: &str, user: &str, app: &str, node: &str) -> Arc<Owner> {
        let [session, user, app, node] =
            [session, user, app, node].map(|name| (!name.is_empty()).then(|| CompactString::from(name)));
        Owner { session, user, app, node, ..Owner::default() }.into()
    }

    fn after(answer: Arc<Owner>, question: &Arc<Owner>) -> Arc<Owner> {
        Owner::clone(&answer).after(question)
    }

    fn reaches(scope: &Scope, subjects: &[&str]) -> Vec<bool> {
        subjects.iter().map(|subject| scope.holds_subject(subject)).collect()
    }

    #[test]
    fn an_entry_reaches_the_buckets_of_whom_it_names() {
        let anna = Scope::Entry(owner("anna", "", "", ""));
        let others = ["session/bob", "session/", "session/anna/", "user/anna", "node/anna", "service/anna", "anna", ""];
        assert_eq!(reaches(&anna, &["session/anna"]), [true]);
        assert_eq!(reaches(&anna, &others), [false; 8]);
        assert!(!anna.lists(BucketKind::Session));
        let nobody = Scope::Entry(Arc::default());
        assert_eq!(reaches(&nobody, &["session/", "user/", "node/", "session/anna"]), [false; 4]);
    }

    #[test]
    fn users_and_nodes_are_reached_under_the_contract_s_names() {
        // As `printf … | sha256sum | xxd -r -p | base32` has them, in lower case and without padding.
        let (a_b, node) = (
            "user/h-zbuhucfklvxnebcdfd5gu2l2xduw3q2cshumea2k5dby436mnvsq",
            "node/h-fpcvl5jqqkvr3ct3to232gcmz5zr6ayszobyfvudoqo73z5x7rua",
        );
        let scope = Scope::Entry(owner("s", "a b", "app", "n"));
        assert_eq!(reaches(&scope, &[a_b, node, "user/a b", "session/s"]), [true, true, false, true]);
        let plain = Scope::Entry(owner("", "anna", "app", "n"));
        assert_eq!(reaches(&plain, &["user/anna", a_b, node]), [true, false, false]);
        // What looks like a hash is hashed, so that nobody is somebody else by name.
        let posing = Scope::Entry(owner("", a_b.trim_start_matches("user/"), "", ""));
        assert_eq!(reaches(&posing, &[a_b]), [false]);
    }

    #[test]
    fn a_long_name_is_hashed_once_and_only_when_its_bucket_is_asked_for() {
        let owner = owner("s", "a b", "app", "n");
        let hold = |kind| owner.has(&BucketId { kind, name: "x".into() });
        assert!(!hold(BucketKind::Session) && owner.hashes.user.get().is_none() && owner.hashes.node.get().is_none());
        for (kind, kept) in [(BucketKind::User, &owner.hashes.user), (BucketKind::Node, &owner.hashes.node)] {
            assert!(!hold(kind));
            let first = kept.get().map(|name| name.as_ptr());
            assert!(first.is_some() && !hold(kind) && kept.get().map(|name| name.as_ptr()) == first);
        }
    }

    #[test]
    fn an_answer_is_of_whom_its_question_was_unless_it_names_another_session() {
        let asked = owner("s", "u", "a", "n");
        assert_eq!(Owner::default().after(&asked), asked);
        assert_eq!(after(owner("s", "v", "", ""), &asked), owner("s", "v", "a", "n"));
        assert_eq!(after(owner("", "v", "", ""), &asked), owner("s", "v", "a", "n"));
        assert_eq!(after(owner("t", "", "", ""), &asked), owner("t", "", "", ""));
        assert_eq!(after(owner("t", "", "", ""), &Arc::default()), owner("t", "", "", ""));
    }

    #[test]
    fn operators_and_tasks_reach_what_they_name() {
        assert_eq!(reaches(&Scope::session("a"), &["session/a", "session/b", "user/a"]), [true, false, false]);
        let a = |kind| BucketId { kind, name: "a".into() };
        let task = |subject: &str| Scope::Task(subject.to_owned());
        assert_eq!(reaches(&task("user/a"), &["user/a", "session/a"]), [true, false]);
        assert!(task("user/a").holds(&a(BucketKind::User)) && !task("user/a").holds(&a(BucketKind::Session)));
        for none in ["", "session", "sessions/a", "a"] {
            assert!(BucketKind::ALL.into_iter().all(|kind| !task(none).holds(&a(kind))), "{none}");
            assert_eq!(reaches(&task(none), &[none, "session/a"]), [true, false], "{none}");
        }
        // One that takes two buckets reaches both, and an entry has to reach both to name it.
        let both = task("session/a user/b");
        assert!(both.holds(&a(BucketKind::Session)) && !both.holds(&a(BucketKind::User)));
        assert_eq!(reaches(&both, &["session/a user/b", "session/a", "user/b"]), [true, false, false]);
        let entry = Scope::Entry(owner("a", "b", "", ""));
        let foreign = ["session/a user/c", "session/c user/b", "session/a  user/b", "session/a ", " session/a"];
        assert_eq!(reaches(&entry, &["session/a user/b"]), [true]);
        assert_eq!(reaches(&entry, &foreign), [false; 5]);
        let of_anna = ["user/anna", "user/bob", "session/s", "node/n", "service/x"];
        assert_eq!(reaches(&Scope::of_user("anna"), &of_anna), [true, false, false, false, false]);
        assert_eq!(reaches(&Scope::all_of_user("anna"), &of_anna), [true, false, true, true, false]);
        let node = Transcript { session: "s", app_id: Some("app"), node_id: Some("n") };
        let named = "node/h-fpcvl5jqqkvr3ct3to232gcmz5zr6ayszobyfvudoqo73z5x7rua";
        assert_eq!(reaches(&Scope::transcript(&node), &["session/s", named, "user/anna"]), [true, true, false]);
        assert_eq!(reaches(&Scope::transcript(&"s".into()), &["session/s", named, "session/t"]), [true, false, false]);
        // The owner is named by their bucket, and hashed no more.
        let owned = Scope::registered(&node, Some("h-anna"), Some("bob"));
        assert_eq!(reaches(&owned, &["session/s", named, "user/h-anna", "user/bob"]), [true, true, true, false]);
        // Withheld, it is neither held nor denied, and no other one is.
        let withheld = Scope::registered(&"s".into(), Some("h-anna"), None).without_user();
        assert_eq!(reaches(&withheld, &["session/s", "user/h-anna", named]), [true, false, false]);
        let is_withheld = |name: &str| withheld.withholds(&BucketId { kind: BucketKind::User, name: name.into() });
        assert!(is_withheld("h-anna") && !is_withheld("bob") && !owned.withholds(&a(BucketKind::User)));
        let nobodys = Scope::registered(&"s".into(), None, Some("bob"));
        assert_eq!(reaches(&nobodys, &["session/s", "user/bob", "user/anna", named]), [true, true, false, false]);
        assert!(Scope::SessionNames.lists(BucketKind::Session) && !Scope::SessionNames.lists(BucketKind::User));
        assert!(!Scope::SessionNames.holds_subject("session/a") && !Scope::session("a").lists(BucketKind::Session));
    }
}
