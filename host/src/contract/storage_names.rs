//! Names in storage that the host shares with the bundled filter, beside those of buckets.

/// The map of a user's bucket that lists the user's sessions.
pub(crate) const SESSIONS_MAP: &str = "sessions";
/// The map of a user's or a session's bucket that lists nodes.
pub(crate) const NODES_MAP: &str = "nodes";
/// The map of a bucket that holds what there is once of it, such as its owner.
pub(crate) const SESSION_MAP: &str = "session";
/// The key of the owner in [`SESSION_MAP`].
pub(crate) const OWNER_KEY: &str = "owner";
/// Of a session's bucket: the map and the key under which an id is kept that is not the session's name.
pub(crate) const SESSION_ID_ENTRY: (&str, &str) = ("session", "id");
