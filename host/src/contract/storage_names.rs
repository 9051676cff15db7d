//! Names in storage that the host shares with the bundled filter, beside those of buckets.

/// The map of a user's bucket that lists the user's sessions.
pub(crate) const SESSIONS: &str = "sessions";
/// The map of a user's or a session's bucket that lists nodes.
pub(crate) const NODES: &str = "nodes";
/// The map of a bucket that holds what there is once of it, such as its owner.
pub(crate) const SESSION: &str = "session";
/// The key of the owner in [`SESSION`].
pub(crate) const OWNER: &str = "owner";
/// Of a session's bucket: the map and the key under which an id is kept that is not the session's name.
pub(crate) const ID: (&str, &str) = ("session", "id");
