//! What was left out when answers were stored: which of them were skipped, and why, and how many texts were cut.
//!
//! Promises that an answer of which nothing is left out costs nothing more: cut texts are counted in the transaction that
//! stores them, a skipped answer in one of its own, and only a trace reads the counts. Refuses to create a session for
//! that, to prolong its life, to change what becomes of an answer, and to write for an entry that wants nothing written.

use keepline_json::push_number;

use super::intake::Skip;
use super::record::integer;
use super::state::State;
use super::{SESSION, owner, scope};
use crate::filter::Filter;
use crate::log;
use crate::reply::{self, Once};
use crate::store::{Host, Opening, Operation, Transaction};

/// The counters of map `session`: of answers by why they were skipped, and of texts that were cut.
pub(super) const COUNTERS: [&str; 4] = [BLANK, MARKER, SHORT, TRUNCATED];
const BLANK: &str = "skipped-blank";
const MARKER: &str = "skipped-marker";
const SHORT: &str = "skipped-too-short";
pub(super) const TRUNCATED: &str = "truncated";

impl Skip {
    /// None: whoever wants nothing written has nothing counted, either.
    fn counter(self) -> Option<&'static str> {
        match self {
            Self::Blank => Some(BLANK),
            Self::Marker => Some(MARKER),
            Self::Short => Some(SHORT),
            Self::SwitchedOff => None,
        }
    }

    /// As a problem's code.
    pub(super) fn code(self) -> &'static str {
        self.counter().and_then(code).unwrap_or("switched-off")
    }
}

/// The reason of which answers are counted; none: it is texts.
fn code(counter: &'static str) -> Option<&'static str> {
    counter.strip_prefix("skipped-")
}

/// The counts, of what was read, as members that follow others in a JSON object. Empty: nothing was left out.
pub(super) fn members(once: &mut Once) -> String {
    let mut out = String::new();
    let mut begin = ",\"skipped\":{\"";
    for counter in COUNTERS {
        let count = once.take(counter).as_deref().and_then(integer);
        let name = code(counter);
        if name.is_none() && !out.is_empty() {
            out.push('}');
        }
        if let Some(count) = count {
            out.push_str(if name.is_some() { begin } else { ",\"" });
            out.push_str(name.unwrap_or(counter));
            out.push_str("\":");
            push_number(&mut out, count);
            begin = ",\"";
        }
    }
    out
}

impl<H: Host> Filter<H> {
    /// One more answer that was skipped, in the life that its question saw; `user` is whose it is.
    pub(super) fn count_skip(&self, state: &State<'_>, user: Option<&str>, skip: Skip) {
        let Some(key) = skip.counter() else { return };
        let bucket = scope::bucket(&state.session, state.node.as_deref());
        let owner = user.map(owner::owned_by);
        let operations = [Operation::Increment { map: SESSION, key, amount: 1 }];
        let opening = Opening::life(&state.incarnation);
        let counted = Transaction { bucket, opening, expectations: owner.as_slice(), operations: &operations };
        if let Err(failure) = reply::transact(&self.host, &counted) {
            let what = ["Skipped answer not counted in session ", &state.session, ": ", &failure.sentence()];
            log::warn(&self.host, log::STORE, &what);
        }
    }
}
