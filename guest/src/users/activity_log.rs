//! The log of which of a user's sessions was used when.
//!
//! Each record has the time of a use, and the session's entry in the map `sessions` has the latest one: superseded records are
//! skipped on read and compacted periodically.

use keepline_json::{self as json, ObjectWriter};

use crate::contract::{LogExtent, ReadEntries};
use crate::text::ids::is_session;

/// After so many notes records are dropped that are no longer true.
const TIDY_EVERY: u64 = 512;

/// A use of a session, noted: its record, and its session's entry.
pub(crate) struct ActivityRecord {
    pub record: String,
    pub entry: String,
}

impl ActivityRecord {
    pub(crate) fn new(session: &str, generation: &str, at: &str) -> Self {
        let text = |name: &str, text: &str| {
            let mut out = ObjectWriter::with_capacity(64);
            out.text(name, Some(text));
            out.json("at", Some(at));
            out.finish()
        };
        Self { record: text("session", session), entry: text("incarnation", generation) }
    }
}

/// Whether a session's entry is about this life of it.
pub(crate) fn entry_has_generation(entry: &str, generation: &str) -> bool {
    let mut is_its_life = false;
    let read = json::for_each_member(entry, |key, raw| {
        is_its_life |= json::key_matches(key, "incarnation") && json::decode_string(raw).as_deref() == Some(generation);
    });
    read.is_some() && is_its_life
}

/// Whether it is time to drop records, after one was added.
pub(crate) fn is_compaction_due(extent: LogExtent) -> bool {
    extent.next().is_multiple_of(TIDY_EVERY)
}

/// The session that a record of the list is about.
pub(crate) fn parse_session(record: &str) -> Option<String> {
    Some(ListedSession::parse(record)?.session)
}

/// A record of the list.
pub(crate) struct ListedSession {
    pub(crate) session: String,
    /// JSON.
    pub(crate) at: String,
}

impl ListedSession {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (mut session, mut at) = (None, None);
        json::for_each_member(text, |key, raw| {
            if json::key_matches(key, "session") {
                session = json::decode_string(raw).map(std::borrow::Cow::into_owned);
            } else if json::key_matches(key, "at") && json::parse_number(raw).is_some() {
                at = Some(raw.to_owned());
            }
        })?;
        Some(Self { session: session.filter(|name| is_session(name))?, at: at? })
    }

    /// Whether the session's entry, of these that are sorted by key, has its time.
    pub(crate) fn is_latest_in(&self, entries: &ReadEntries) -> bool {
        let Ok(at) = entries.entries.binary_search_by(|entry| entry.key.cmp(&self.session)) else { return false };
        let mut is_its_time = false;
        let read = entries.entries.get(at).and_then(|entry| {
            json::for_each_member(&entry.text, |key, raw| is_its_time |= json::key_matches(key, "at") && raw == self.at)
        });
        read.is_some() && is_its_time
    }
}
