//! The threads of a store: readers, one writer, those that sync, and one that makes checkpoints; and what they share.

pub(crate) mod checkpoint;
pub(crate) mod pending_acks;
pub(crate) mod queue;
pub(crate) mod read;
pub(crate) mod shared;
pub(crate) mod sweep;
pub(crate) mod sync;
pub(crate) mod write;
