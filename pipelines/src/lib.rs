//! Declared retrieval: definitions that say how to find, rank, format and place what a model should know.
//!
//! A module imports only from those above it:
//!
//! | module | holds |
//! |---|---|
//! | `value` | JSON values whose members keep their order; as items, their text, order and times |
//! | `finding` | errors and warnings at a place of a definition |
//! | `language` | the small languages that parameters are written in |
//! | `definition` | definitions in their forms, the types of steps, and how they are checked |
//! | `steps` | steps on items in hand |
//! | `rules` | which memories a request calls for |
//! | `catalog` | what is done to definitions |
//! | `run` | runs of a definition over what is known so far |
//! | `assembly` | what memories contribute, under a budget |
//! | `datasets` | what pipelines read, in a store |
//! | `requests` | stored definitions, what is done to them, and requests from beginning to end |
//! | `config` | the component's options |
//! | `component` | the exports and allocator of the compiled component alone |

#![deny(clippy::too_many_lines)]
#![allow(missing_docs, reason = "its callers are the component and the tests: documented is what a name does not say")]

pub mod assembly;
pub mod catalog;
#[cfg(target_arch = "wasm32")]
mod component;
pub mod config;
pub mod datasets;
pub mod definition;
pub mod finding;
mod language;
pub mod requests;
pub mod rules;
pub mod run;
mod steps;
pub mod value;
