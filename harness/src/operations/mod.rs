//! Operations that several commands share.

pub mod buckets;
pub mod confirm;
pub mod health;
pub mod nodes;
pub mod pages;
pub mod recall;
pub mod records;
pub mod transcripts;
pub mod users;
pub mod window;
