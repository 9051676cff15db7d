//! How far a session was copied into its user's memory: an entry of the map `posted`, by the session's name.
//!
//! Two buckets can't be changed at once, so corrections come in two steps: first the user's copies are taken out and the
//! entry gets the revision that the session is about to have, then the session is changed. Promises that copies are made
//! only where the entry's revision is the session's: whoever has read the old words either finds another revision, or an
//! entry that has changed since. Where the entry is ahead, because a correction is under way or was given up, the session's
//! revision is raised to it, so that a correction that is under way begins anew.

use super::super::record::integer;
use super::reading::Read;

/// As an entry tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Posted {
    /// What was copied of this life of the session, which ends then: in milliseconds since 1970; 0: not by itself.
    Of { life: String, revision: u64, until: u64, read: Read },
    /// This life is being deleted, since that second: nothing of it is copied any more.
    Gone { life: String, since: u64 },
}

impl Posted {
    /// Nothing yet.
    pub(super) fn none(life: &str, revision: u64) -> Self {
        Self::Of { life: life.to_owned(), revision, until: 0, read: Read::default() }
    }

    /// Whether this life has not ended yet, as far as is known.
    pub(super) fn is_alive(&self, of: &str, now: u64) -> bool {
        matches!(self, Self::Of { life, until, .. } if life == of && (*until == 0 || *until > now))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some((life, since)) = text.strip_prefix(GONE).and_then(|text| text.split_once(' ')) {
            return Some(Self::Gone { life: life.to_owned(), since: integer(since)? });
        }
        let (life, rest) = text.split_once(' ')?;
        let (revision, rest) = rest.split_once(' ')?;
        let (until, read) = rest.split_once(' ')?;
        let (revision, until) = (integer(revision)?, integer(until)?);
        Some(Self::Of { life: life.to_owned(), revision, until, read: Read::parse(read) })
    }

    pub(super) fn write(&self) -> String {
        match self {
            Self::Of { life, revision, until, read } => [&*prefix(life, *revision, *until), &*read.write()].concat(),
            Self::Gone { life, since } => [GONE, life, " ", &since.to_string()].concat(),
        }
    }
}

/// What stands before how far it was read.
pub(super) fn prefix(life: &str, revision: u64, until: u64) -> String {
    [life, " ", &revision.to_string(), " ", &until.to_string(), " "].concat()
}

/// What an entry begins with that is no life: lives have no blanks.
const GONE: &str = " ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let read = Read { to: 7, again: vec![1, 3] };
        let of = Posted::Of { life: "17.5-1".into(), revision: 2, until: 9, read };
        for posted in [of, Posted::none("1", 0), Posted::Gone { life: "1".into(), since: 5 }] {
            assert_eq!(Posted::parse(&posted.write()), Some(posted));
        }
        for text in ["", "1", "1 2", "1 2 3", "1 x 3 4", " 1", " 1 x"] {
            assert_eq!(Posted::parse(text), None, "{text:?}");
        }
    }
}
