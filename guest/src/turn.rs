//! What a question tells its answers, by way of the host: the session, and which life of it was seen.
//!
//! Promises to take back whatever comes: a state that a host lost, cut or forged is no session, and
//! never a trap. Refuses to be a secret: it grants nothing that naming the session would not grant.

use crate::names::is_session;
use crate::reply::is_incarnation;
use keepline_json::split_before;

/// Tells our states from other text, and a later form from this one.
const MARK: &str = "k1:";

/// A turn state, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn<'a> {
    /// The session of the question.
    pub session: &'a str,
    /// Its incarnation, if the question got as far as seeing it.
    pub incarnation: Option<&'a str>,
}

impl<'a> Turn<'a> {
    /// Read a state; none if it is not one of ours.
    pub fn parse(state: &'a str) -> Option<Self> {
        let rest = state.strip_prefix(MARK)?;
        let (session, incarnation) = match split_before(rest, b':') {
            Some((session, rest)) => (session, Some(rest.strip_prefix(':').filter(|stamp| is_incarnation(stamp))?)),
            None => (rest, None),
        };
        is_session(session).then_some(Self { session, incarnation })
    }

    /// Write a state.
    pub fn write(session: &str, incarnation: &str) -> String {
        let mut state = String::with_capacity(MARK.len() + session.len() + incarnation.len() + 1);
        state.push_str(MARK);
        state.push_str(session);
        if is_incarnation(incarnation) {
            state.push(':');
            state.push_str(incarnation);
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (session, incarnation) in [("s", "17:3-~"), ("a-b_C", ""), ("x", "1")] {
            let state = Turn::write(session, incarnation);
            let incarnation = Some(incarnation).filter(|text| !text.is_empty());
            assert_eq!(Turn::parse(&state), Some(Turn { session, incarnation }));
        }
    }

    #[test]
    fn garbage_is_no_session() {
        let long = format!("k1:s:{}", "9".repeat(257));
        for state in ["", "s", "k1:", "k1:a b", "k1:s:", "k1::1", "k1:s:\n", "k1:s:é", "k1:s:a b", "k2:s", "{}", &long]
        {
            assert_eq!(Turn::parse(state), None, "{state}");
        }
    }

    #[test]
    fn a_stamp_that_cant_be_carried_is_left_out() {
        assert_eq!(Turn::write("s", "a\0"), "k1:s");
    }
}
