//! What can only be seen behind a Redis store's back: the keys, their expiry, and what others leave in them.

mod damage;
mod indexes;
mod layout;
mod others;
mod parts;
mod types;
