//! Searches without a model: indexes passages by terms, and ranks them for a question.
//!
//! Pure functions over plain data: no input or output, no clock, no randomness. The way of a text:
//!
//! 1. [`cut`] divides it into passages of about 70 tokens.
//! 2. [`Document::posting`] makes numbers of a passage, for an index that knows terms and positions only.
//! 3. [`Query::new`] tells which terms to ask the index for.
//! 4. [`rank`] scores what the index found.
//! 5. [`fuse`] puts those in another order by embeddings, if there are any, and adds some.
//! 6. [`select`] fills a budget of tokens with the best.
//!
//! Nothing here knows a language, but for the hints: English names of months and words of time.

mod fold;
mod mark;
mod passages;
mod query;
mod rank;
mod select;
mod terms;
mod time;
mod vectors;

use std::collections::BinaryHeap;

pub use mark::Mark;
pub use passages::{PASSAGE_TOKENS, Passages, WHOLE_TOKENS, cut, tokens};
pub use query::{Hints, Kind, MAX_TERMS, Query, Row};
pub use rank::{Candidate, Found, Why, rank};
pub use select::select;
pub use terms::{DOCUMENT_TERMS, Document, Posting, TERM_LIMIT, key, terms};
pub use time::Date;
pub use vectors::{DIMENSIONS, Embedding, Similar, fuse};

/// Numbers in ascending order. One kind of sort for all, for the component's size.
fn ascending(numbers: Vec<u64>) -> Vec<u64> {
    BinaryHeap::from(numbers).into_sorted_vec()
}
