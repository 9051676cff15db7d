//! The version of a transcript: what a caller has seen of it, and expects when it is changed.
//!
//! Promises that it is another one after each change of messages, title or settings. Nothing is counted for it: it is a hash of
//! what tells them apart in one life of the bucket, and a transaction that expects it expects each part.

use crate::admin::conditions::EXPECTED_VERSION;
use crate::context::Context;
use crate::contract::{Expectation, Host, Problem, codes};
use crate::entry::session_problem::SessionResult;
use crate::tasks::checkpoint::expect_session_entry;
use crate::text;
use crate::text::ids::hashed;
use crate::text::quoting::python_repr;
use crate::transcript::schema::{REVISION, SETTINGS, TITLE, TRANSCRIPT};

/// A transcript as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct TranscriptVersion<'a> {
    /// The life of its bucket.
    pub life: &'a str,
    /// Where it stands: answers, and messages that are added, move it.
    pub next: u64,
    /// Changes with each rewriting of messages.
    pub revision: Option<&'a str>,
    pub title: Option<&'a str>,
    pub settings: Option<&'a str>,
}

impl<'a> TranscriptVersion<'a> {
    /// What stands for it.
    pub(super) fn name(&self) -> String {
        let Self { life, next, revision, title, settings } = *self;
        let texts = [revision, settings, title].map(Option::unwrap_or_default);
        hashed(&[life, " ", &next.to_string(), " ", &text::join(&texts, " ")].concat())
    }

    /// What the transaction expects that writes to a session as it was read: this version, if the call expects one. It is
    /// `conflict` if that is another one.
    pub(super) fn expectations(
        &self,
        context: &Context<impl Host>,
        session: &str,
    ) -> SessionResult<Vec<Expectation<'a>>> {
        let Some(expected) = &context.expected_version else { return Ok(Vec::new()) };
        if *expected != self.name() {
            return Err(unexpected_version(session));
        }
        Ok(vec![
            Expectation::log(TRANSCRIPT, None, Some(self.next)),
            expect_session_entry(REVISION, self.revision),
            expect_session_entry(TITLE, self.title),
            expect_session_entry(SETTINGS, self.settings),
        ])
    }
}

/// The transcript has another version than the call expects.
pub(super) fn unexpected_version(session: &str) -> Box<Problem> {
    let message = format!("The transcript of session {} has another version; nothing was changed", python_repr(session));
    Problem::new(codes::CONFLICT, EXPECTED_VERSION, message)
}
