//! Search without a model: what of a long conversation bears on a question, by its words alone.
//!
//! Pure functions over plain data: no I/O, no clock, no randomness. Writing: [`passages::cut`] a turn, give a store
//! each passage's [`terms::of`] and [`mark::Mark`]. Asking: [`query::Query::new`] names the terms to ask for,
//! [`rank::rank`] scores what the store answers, and [`select::select`] fills a budget of tokens.

pub mod mark;
pub mod passages;
pub mod query;
pub mod rank;
mod script;
pub mod select;
pub mod terms;
pub mod time;
