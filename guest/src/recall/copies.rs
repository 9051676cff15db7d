//! Records how far a session was copied into its user's memory: an entry of the map `posted`, by the session's name.
//!
//! Two buckets can't change at once, so a correction comes in two steps: first the user's copies are removed and the entry gets the
//! revision that the session is about to have, then the session changes. Copies are made only where the entry has the session's
//! revision, so a writer that read the old words finds another revision or a changed entry. Where the entry is ahead, because a
//! correction is under way or was given up, the session's revision is raised to it, and a correction under way begins again.

use crate::contract::{Expectation, Host, Operation, Precondition, Problem};
use crate::recall::cursor::IndexCursor;
use crate::recall::passage::{Passage, session_facet};
use crate::recall::remove::{PassageRemoval, RemovalResult};
use crate::recall::schema::COPY_STATES;
use crate::text::json_values::parse_count;
use crate::transcript::schema::REVISION;
use crate::users::registry;
use crate::users::registry::USER;

/// As an entry tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyState {
    /// What was copied of this life of the session, which ends then: in milliseconds since 1970; 0: not by itself.
    Of { life: String, revision: u64, until: u64, read: IndexCursor },
    /// This life is being deleted, since that second: nothing of it is copied any more.
    Gone { life: String, since: u64 },
}

impl CopyState {
    /// Nothing yet.
    pub(crate) fn not_copied(life: &str, revision: u64) -> Self {
        Self::Of { life: life.to_owned(), revision, until: 0, read: IndexCursor::default() }
    }

    /// Whether this life has not ended yet, as far as is known.
    pub(crate) fn is_alive(&self, of: &str, now: u64) -> bool {
        matches!(self, Self::Of { life, until, .. } if life == of && (*until == 0 || *until > now))
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some((life, since)) = text.strip_prefix(GONE).and_then(|text| text.split_once(' ')) {
            return Some(Self::Gone { life: life.to_owned(), since: parse_count(since)? });
        }
        let (life, rest) = text.split_once(' ')?;
        let (revision, rest) = rest.split_once(' ')?;
        let (until, read) = rest.split_once(' ')?;
        let (revision, until) = (parse_count(revision)?, parse_count(until)?);
        Some(Self::Of { life: life.to_owned(), revision, until, read: IndexCursor::parse(read) })
    }

    pub(crate) fn write(&self) -> String {
        match self {
            Self::Of { life, revision, until, read } => {
                [&*copy_state_prefix(life, *revision, *until), &*read.write()].concat()
            }
            Self::Gone { life, since } => [GONE, life, " ", &since.to_string()].concat(),
        }
    }
}

/// What stands before how far it was read.
pub(crate) fn copy_state_prefix(life: &str, revision: u64, until: u64) -> String {
    [life, " ", &revision.to_string(), " ", &until.to_string(), " "].concat()
}

/// What an entry begins with that is no life: lives have no blanks.
const GONE: &str = " ";

/// Copies in a user's bucket: of a session's messages, or of these of them; of one life, or of all.
#[derive(Clone, Copy)]
pub(crate) struct SessionCopies<'a> {
    pub user: &'a str,
    pub session: &'a str,
    pub life: Option<&'a str>,
    pub positions: Option<&'a [u64]>,
}

impl SessionCopies<'_> {
    /// See [`PassageRemoval::remove_batch`].
    pub(crate) fn remove_batch(
        &self,
        host: &impl Host,
        expectations: &[Expectation<'_>],
        operations: &[Operation<'_>],
        last: Option<Operation<'_>>,
    ) -> Result<RemovalResult, Box<Problem>> {
        let Self { user, session, life, positions } = *self;
        let mut facets = Vec::new();
        match positions {
            Some(positions) => facets.extend(positions.iter().map(|&position| session_facet(session, Some(position)))),
            None => facets.push(session_facet(session, None)),
        }
        let is_meant = |passage: &Passage<'_>| {
            passage.session.as_deref() == Some(session)
                && life.is_none_or(|life| passage.life.as_deref() == Some(life))
                && positions.is_none_or(|positions| positions.contains(&passage.position))
        };
        let (bucket, precondition) = (registry::user_bucket(user), Precondition::LOOK);
        PassageRemoval { bucket, precondition, facets: &facets, is_meant: &is_meant }.remove_batch(
            host,
            expectations,
            operations,
            last,
        )
    }
}

/// Changed with each removal of copies: a task that is about to fold their terms begins again.
pub(crate) const RAISE_REVISION: Operation<'static> = Operation::add(USER, REVISION, 1);

/// All copies are removed: those of sessions that still exist are made again.
pub(crate) const RESET_COPY_STATES: Operation<'static> = Operation::reset_map(COPY_STATES);

/// An entry is as it was.
pub(crate) fn expect_entry<'a>(map: &'a str, key: &'a str, text: Option<&'a str>) -> Expectation<'a> {
    match text {
        Some(text) => Expectation::equal(map, key, text),
        None => Expectation::absent(map, key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_record_is_read_back() {
        let read = IndexCursor { to: 7, again: vec![1, 3] };
        let of = CopyState::Of { life: "17.5-1".into(), revision: 2, until: 9, read };
        for posted in [of, CopyState::not_copied("1", 0), CopyState::Gone { life: "1".into(), since: 5 }] {
            assert_eq!(CopyState::parse(&posted.write()), Some(posted));
        }
        for text in ["", "1", "1 2", "1 2 3", "1 x 3 4", " 1", " 1 x"] {
            assert_eq!(CopyState::parse(text), None, "{text:?}");
        }
    }
}
