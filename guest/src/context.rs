//! The context of every function of the filter: the host and the options.

use crate::contract::{Expectation, Host, VALUES};
use crate::options::config::Config;

/// A host to work with, and the options. It holds no conversation.
#[derive(Clone, Debug)]
pub struct Context<H> {
    pub(crate) host: H,
    pub(crate) config: Config,
    /// The id under which a call of the administration counts once.
    pub(crate) request_id: Option<String>,
    /// The bucket of the user whose a node becomes that such a call writes messages to.
    pub(crate) owner: Option<String>,
    /// What such a call expects under the key that it writes.
    pub(crate) expected_value: Option<ExpectedValue>,
    /// Which version of the transcript it expects.
    pub(crate) expected_version: Option<String>,
}

impl<H: Host> Context<H> {
    /// Any number of contexts can work with one store.
    pub fn new(host: H, config: Config) -> Self {
        Self { host, config, request_id: None, owner: None, expected_value: None, expected_version: None }
    }

    /// The same for a call that counts once under this id, however often it is made.
    pub fn with_request_id(self, request_id: Option<String>) -> Self {
        Self { request_id, ..self }
    }

    /// The same for a call that writes for this user.
    pub fn with_owner(self, owner: Option<String>) -> Self {
        Self { owner, ..self }
    }

    /// The same for a call that writes a value only where this is there.
    pub fn with_expected_value(self, expected_value: Option<ExpectedValue>) -> Self {
        Self { expected_value, ..self }
    }

    /// The same for a call that changes a transcript only where it has this version.
    pub fn with_expected_version(self, expected_version: Option<String>) -> Self {
        Self { expected_version, ..self }
    }
}

/// What is there before a value is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedValue {
    /// None.
    Absent,
    /// One, whatever it is.
    Present,
    /// This one, byte by byte.
    Text(String),
}

impl ExpectedValue {
    /// What the transaction that writes it expects.
    pub(crate) fn under<'a>(&'a self, key: &'a str) -> Expectation<'a> {
        match self {
            Self::Absent => Expectation::absent(VALUES, key),
            Self::Present => Expectation::present(VALUES, key),
            Self::Text(text) => Expectation::equal(VALUES, key, text),
        }
    }
}
