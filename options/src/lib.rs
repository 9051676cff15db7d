//! The parts that the components and the library share beside the contract: the filter's options, the names of buckets, the
//! scopes of declared memories.
//!
//! An option is one row: name, what it may hold, default, documentation. Everything else follows from the rows of
//! [`session_options!`] and [`conversation_options!`]: the filter's structs, its reader with ranges and errors, the options
//! in force that `configure` replies with, the library's typed options, and a test of the tables in `docs/`.

pub mod bucket_names;
pub mod kinds;
mod names;
pub mod scopes;
mod table;
pub mod words;

pub use self::table::kind_of;
