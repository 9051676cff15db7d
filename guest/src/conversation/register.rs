//! Sessions and nodes that came from elsewhere: noted in the lists where those are that began here.
//!
//! Promises that what is noted once is not noted again, and that a user who is forgotten later loses it as well. Refuses to
//! take a session over.

use super::desk::Transcript;
use super::owner::{self, FORGOTTEN, Registered, SESSIONS, USER, listed};
use super::profile::valid_user;
use super::recall;
use super::state::State;
use super::{OWNER, SESSION};
use crate::history;
use crate::names::{self, repr};
use crate::reply::{self, Outcomes};
use crate::sessions::{Answer, Code, SessionProblem, Sessions, check_status, conflict, store_problem};
use crate::store::{Bucket, Host, Opening, Operation, Status, Transaction};

impl<H: Host> Sessions<H> {
    /// Note a session with its owner, and a node with its session. Of nobody's: it becomes this user's. The name of the
    /// owner's bucket.
    pub fn register(&self, transcript: &Transcript<'_>, user: Option<&str>) -> Answer<Option<String>> {
        let at = transcript.address()?;
        let session = Bucket::session(at.session);
        let get = [Operation::Get { map: SESSION, key: OWNER, max_bytes: 256 }];
        let (life, mut outcomes) = self.look(at.session, session, Opening::LOOK, &get)?;
        let owner = self.told(at.session, outcomes.text())?;
        let named = user.map(valid_user).transpose()?;
        let foreign = || {
            let message = format!("Session {} belongs to another user", repr(at.session));
            SessionProblem::new(Code::AlreadyExists, message)
        };
        if let (Some(owner), Some(named)) = (&owner, &named)
            && owner != named
        {
            return Err(foreign());
        }
        let name = owner.clone().or(named.map(std::borrow::Cow::into_owned));
        let mut state = State {
            session: at.session.into(),
            node: at.node.as_deref().map(Into::into),
            app_id: listed(transcript.app_id).map(Into::into),
            node_id: listed(transcript.node_id).map(Into::into),
            user: name.as_deref().map(Into::into),
            ..State::default()
        };
        if let Some(name) = &name {
            let operations = [
                Operation::Get { map: SESSIONS, key: at.session, max_bytes: 256 },
                Operation::Get { map: USER, key: FORGOTTEN, max_bytes: 64 },
            ];
            let (bucket, opening) = (owner::bucket(name), Opening::LOOK);
            let look = Transaction { bucket, opening, expectations: &[], operations: &operations };
            let receipt = reply::transact(self.host(), &look).map_err(|failure| store_problem(name, &failure))?;
            if receipt.is_applied() {
                let mut outcomes = Outcomes::of(receipt);
                let is_of_life = |entry: String| !life.is_empty() && names::find(&entry, &life).is_some();
                state.is_owned = self.told(name, outcomes.text())?.is_some_and(is_of_life);
                state.forgotten = self.told(name, outcomes.text())?.map(Into::into);
            }
        }
        let stamp = history::timestamp(self.host().now_micros());
        let done = owner::register(self.host(), &mut state, &life, &stamp, true);
        match done.map_err(|failure| store_problem(at.session, &failure))? {
            Registered::Done { .. } => {
                if let (Some(name), None) = (&name, &at.node) {
                    let allowed = recall::post::allow_again(self.host(), name, at.session, &life);
                    allowed.map_err(|failure| store_problem(name, &failure))?;
                }
            }
            Registered::Foreign => return Err(foreign()),
            Registered::Ended => return Err(conflict(at.session)),
        }
        if let (Some(text), None, None) = (&name, &owner, &at.node) {
            let (expectations, operations) =
                ([owner::owned_by(text)], [Operation::Put { map: SESSION, key: OWNER, text }]);
            let opening = Opening::life(&life);
            let own = Transaction { bucket: session, opening, expectations: &expectations, operations: &operations };
            match reply::transact(self.host(), &own).map_err(|failure| store_problem(at.session, &failure))?.status {
                Status::Unmet => return Err(foreign()),
                status => check_status(at.session, status)?,
            }
        }
        Ok(name)
    }
}
