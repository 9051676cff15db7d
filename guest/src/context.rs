//! The context of every function of the filter: the host and the options.

use crate::contract::Host;
use crate::options::config::Config;

/// A host to work with, and the options. It holds no conversation.
#[derive(Clone, Debug)]
pub struct Context<H> {
    pub(crate) host: H,
    pub(crate) config: Config,
}

impl<H: Host> Context<H> {
    /// Any number of contexts can work with one store.
    pub fn new(host: H, config: Config) -> Self {
        Self { host, config }
    }
}
