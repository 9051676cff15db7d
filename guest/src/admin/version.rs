//! The version of a transcript: what a caller has seen of it, and expects when it is changed.
//!
//! Promises that it is another one after each change of messages, title or settings. Nothing is counted for it: it is a hash of
//! what tells them apart in one life of the bucket, and a transaction that expects it expects each part.

use crate::admin::conditions::EXPECTED_VERSION;
use crate::admin::sessions::read_bucket;
use crate::context::Context;
use crate::contract::{Entry, Expectation, Host, Operation, Precondition, Problem, codes};
use crate::entry::session_problem::SessionResult;
use crate::tasks::checkpoint::expect_session_entry;
use crate::text;
use crate::text::ids::hashed;
use crate::transcript::address::{TRANSCRIPT_EXTENT, TranscriptAddress};
use crate::transcript::schema::{OWNER, REVISION, SESSION, SETTINGS, TITLE, TRANSCRIPT};

/// More than these are.
const BYTES: u64 = 64 << 10;

/// A transcript as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct TranscriptVersion<'a> {
    /// The life of its bucket.
    life: &'a str,
    /// Where it stands: answers, and messages that are added, move it.
    next: u64,
    /// Changes with each rewriting of messages.
    revision: Option<&'a str>,
    title: Option<&'a str>,
    settings: Option<&'a str>,
}

impl<'a> TranscriptVersion<'a> {
    /// With what there is once.
    pub(super) fn of(life: &'a str, next: u64, once: &'a [Entry]) -> Self {
        let [revision, title, settings] = [REVISION, TITLE, SETTINGS].map(|key| text_of(once, key));
        Self { life, next, revision, title, settings }
    }

    /// What stands for it.
    pub(super) fn name(&self) -> String {
        let Self { life, next, revision, title, settings } = *self;
        let text = Option::unwrap_or_default;
        hashed(&text::join(&[life, &next.to_string(), text(revision), text(settings), text(title)], " "))
    }

    /// What the transaction expects that writes to a session as it was read: this version, if the call expects one. It is
    /// `conflict` if that is another one.
    pub(super) fn expectations(&self, context: &Context<impl Host>) -> SessionResult<Vec<Expectation<'a>>> {
        let Some(expected) = &context.expected_version else { return Ok(Vec::new()) };
        if *expected != self.name() {
            return Err(unexpected_version());
        }
        Ok(vec![
            Expectation::log(TRANSCRIPT, None, Some(self.next)),
            expect_session_entry(REVISION, self.revision),
            expect_session_entry(TITLE, self.title),
            expect_session_entry(SETTINGS, self.settings),
        ])
    }
}

/// What a change needs of a transcript, whatever it changes.
pub(super) struct SeenTranscript {
    pub life: String,
    next: u64,
    once: Vec<Entry>,
}

impl SeenTranscript {
    pub(super) fn read(
        context: &Context<impl Host>,
        at: &TranscriptAddress<'_>,
        precondition: Precondition<'_>,
    ) -> SessionResult<Self> {
        let once = Operation::get_some(SESSION, &[OWNER, REVISION, TITLE, SETTINGS], BYTES);
        let mut outcomes = read_bucket(context, at.session, at.bucket(), precondition, &[TRANSCRIPT_EXTENT, once])?;
        let next = outcomes.take_records()?.extent.next();
        Ok(Self { next, once: outcomes.take_readable_entries()?, life: outcomes.generation })
    }

    pub(super) fn version(&self) -> TranscriptVersion<'_> {
        TranscriptVersion::of(&self.life, self.next, &self.once)
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        text_of(&self.once, key)
    }
}

fn text_of<'a>(once: &'a [Entry], key: &str) -> Option<&'a str> {
    once.iter().find(|entry| entry.key == key).map(|entry| &*entry.text)
}

/// The transcript has another version than the call expects.
pub(super) fn unexpected_version() -> Box<Problem> {
    let message = "The transcript has another version; nothing was changed".to_owned();
    Problem::new(codes::CONFLICT, EXPECTED_VERSION, message)
}
