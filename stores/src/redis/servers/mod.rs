//! The servers: sends a request to the one that has its slot, until it is answered or its time is up.
//!
//! `request` is what the store calls. The rest is one concern each: which server has which slot (`cluster`), its connection
//! (`node`) and clock, whether to try again (`retry_policy`), and when to leave it or a slot alone.

pub(crate) mod clock;
pub(crate) mod cluster;
pub(crate) mod moving_slots;
pub(crate) mod node;
pub(crate) mod permissions;
pub(crate) mod replicas;
pub(crate) mod request;
pub(crate) mod retry_policy;
pub(crate) mod single_flight;
