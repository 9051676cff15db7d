//! Checks that look behind a Redis store's back: keys, their expiry, and foreign data in them.

mod damage;
mod indexes;
mod layout;
mod others;
mod parts;
mod types;
