//! Ids that are not their sessions' names: kept with them, and looked up.
//!
//! Promises that a session whose name is a hash is reached by the id that it was made of and by no other text. Costs
//! nothing where the id is the name.

use crate::conversation::SESSION;
use crate::filter::{Filter, Problem};
use crate::log;
use crate::metadata::{Metadata, Session};
use crate::names::{InvalidId, SessionIds, check_session, hashed, is_hash, repr};
use crate::reply;
use crate::sessions::{Answer, Code, SessionProblem, Sessions, store_problem};
use crate::store::{Bucket, Expectation, Failure, Host, Opening, Operation, Transaction};

/// The id that a session's name was made of; of map `session`.
pub(crate) const ID: &str = "id";
/// Longer ones than can be, so that they are told from none.
const ID_BYTES: u64 = 4096;

/// What is read to know whether the id is kept.
pub(crate) const READ_ID: Operation<'static> = Operation::Get { map: SESSION, key: ID, max_bytes: ID_BYTES };

/// The id of the session of that name, if this is what is kept with it.
pub(crate) fn kept_id<'a>(name: &str, kept: Option<&'a str>) -> Option<&'a str> {
    kept.filter(|id| hashed(id) == name)
}

/// Keep the id with its session, which is there.
pub(crate) fn keep(host: &impl Host, name: &str, id: &str) -> Result<(), Failure> {
    let expectations = [Expectation::Absent { map: SESSION, key: ID }];
    let operations = [Operation::Put { map: SESSION, key: ID, text: id }];
    let bucket = Bucket::session(name);
    let keep = Transaction { bucket, opening: Opening::LOOK, expectations: &expectations, operations: &operations };
    reply::transact(host, &keep).map(drop)
}

/// Whether there is a session of that name that keeps no other id: what was called so before ids were hashed.
fn is_plain(host: &impl Host, name: &str) -> Result<bool, Failure> {
    let (bucket, opening) = (Bucket::session(name), Opening::LOOK);
    let look = Transaction { bucket, opening, expectations: &[], operations: &[READ_ID] };
    let receipt = reply::transact(host, &look)?;
    Ok(receipt.is_applied() && reply::Outcomes::of(receipt).text()?.is_none())
}

impl<H: Host> Filter<H> {
    /// The metadata of an entry, and whose it is. The store is asked only for a session that is called like a hash.
    pub(crate) fn read<'a>(&self, text: &'a str, unbound: bool) -> Result<Metadata<'a>, Failure> {
        let ids = self.config.session_ids;
        let mut metadata = Metadata::parse(text, unbound, ids);
        if let (SessionIds::Strict, Session::Named(name)) = (ids, &metadata.session)
            && is_hash(name)
            && !is_plain(&self.host, name)?
        {
            metadata.session = Session::Malformed { shown: repr(name), why: InvalidId::Reserved };
        }
        Ok(metadata)
    }

    /// Why an entry has no session that names one.
    pub(crate) fn invalid_id(&self, shown: &str, why: InvalidId) -> Problem {
        let message = ["session_id ", shown, " is not allowed: ", self.config.session_ids.allowed()].concat();
        Problem { code: why.code(), message }
    }

    /// Keep the id of an entry's session, if it has another one than its name. That it can't be is no reason to fail.
    pub(crate) fn keep_id(&self, metadata: &Metadata<'_>) {
        let (Some(id), Session::Named(name)) = (metadata.session_id.as_deref(), &metadata.session) else { return };
        if let Err(failure) = keep(&self.host, name, id) {
            let what = ["The id of session ", name, " can't be kept with it: ", &failure.sentence()];
            log::warn(&self.host, log::STORE, &what);
        }
    }
}

impl<H: Host> Sessions<H> {
    /// A call on the session with this id, by its name. What is refused names the id.
    pub fn on<T>(&self, id: &str, call: impl FnOnce(&Self, &str) -> Answer<T>) -> Answer<T> {
        let name = self.name(id)?;
        let called = call(self, &name);
        if *name == *id {
            return called;
        }
        called.map_err(|problem| SessionProblem { message: problem.message.replace(&*name, &shown(id)), ..problem })
    }

    /// Create the session with this id, which must not be there; its incarnation.
    pub fn create_with_id(&self, id: &str) -> Answer<String> {
        self.on(id, |sessions, name| {
            let incarnation = sessions.create(name)?;
            if name != id {
                keep(sessions.host(), name, id).map_err(|failure| store_problem(name, &failure))?;
            }
            Ok(incarnation)
        })
    }

    /// The name of the session with this id.
    fn name<'a>(&self, id: &'a str) -> Answer<std::borrow::Cow<'a, str>> {
        let ids = self.config().session_ids;
        let invalid = |message: String| SessionProblem::new(Code::InvalidSession, message);
        let name = match (ids.name(id), ids) {
            (Ok(name), _) => name,
            (Err(_), SessionIds::Strict) => {
                let refused = check_session(id).err().unwrap_or_default();
                return Err(invalid(refused + " With session_ids \"hash\", any text of at most 1,024 bytes."));
            }
            (Err(_), SessionIds::Hash) => {
                return Err(invalid(["Invalid session_id: ", &repr(id), ". Must be 1-1,024 bytes."].concat()));
            }
        };
        if ids == SessionIds::Strict
            && is_hash(&name)
            && !is_plain(self.host(), &name).map_err(|failure| store_problem(id, &failure))?
        {
            let why = ". There is no such session, and new ones must not have the form of a hash.";
            return Err(invalid(["Invalid session_id: ", &repr(id), why].concat()));
        }
        Ok(name)
    }
}

/// Without the quotes, which are there already.
fn shown(id: &str) -> String {
    let shown = repr(id);
    shown.get(1..shown.len() - 1).unwrap_or(id).to_owned()
}
