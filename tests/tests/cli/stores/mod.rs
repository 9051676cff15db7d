//! The store as a whole: directories and Redis, checked, migrated, kept across versions, and deleted from only by name.

mod deletion_guard;
mod directory;
mod health;
mod migrate;
mod released;
mod store;
