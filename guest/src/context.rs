//! The context of every function of the filter: the host and the options.

use crate::contract::Host;
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
}

impl<H: Host> Context<H> {
    /// Any number of contexts can work with one store.
    pub fn new(host: H, config: Config) -> Self {
        Self { host, config, request_id: None, owner: None }
    }

    /// The same for a call that counts once under this id, however often it is made.
    pub fn with_request_id(self, request_id: Option<String>) -> Self {
        Self { request_id, ..self }
    }

    /// The same for a call that writes for this user.
    pub fn with_owner(self, owner: Option<String>) -> Self {
        Self { owner, ..self }
    }
}
