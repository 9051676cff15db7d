//! Memories of a user: an exchange is stored with `keepline remember` and found with `keepline memories`.

pub mod find;
pub mod remember;
