//! Searches without a model: indexes passages by terms, and ranks them for a question.
//!
//! Pure functions over plain data: no input or output, no clock, no randomness. The way of a text:
//!
//! 1. [`cut_passages`] divides it into passages of about 70 tokens.
//! 2. [`PassageDocument::to_posting`] makes numbers of a passage, for an index that knows terms and positions only.
//! 3. [`PassageQuery::new`] tells which terms to ask the index for.
//! 4. [`rank_documents`] scores what the index found.
//! 5. [`fuse_rankings`] puts those in another order by embeddings, if there are any, and adds some.
//! 6. [`select_passages`] fills a budget of tokens with the best.
//!
//! Nothing here knows a language, but for the hints: English names of months and words of time.

mod fold;
mod mark;
mod passages;
mod posting_text;
mod query;
mod rank;
mod select;
mod terms;
mod time;
mod vectors;

use std::collections::BinaryHeap;

pub use mark::DocumentMark;
pub use passages::{PASSAGE_TOKENS, WHOLE_TOKENS, count_tokens, cut_passages};
pub use posting_text::{PostingNumber, encode_posting_number, split_posting};
pub use query::{MAX_TERMS, PassageQuery, QueryTerm, TermKind};
pub use rank::{IndexMatches, MatchReasons, PassageCandidate, rank_documents};
pub use select::select_passages;
pub use terms::{DOCUMENT_TERMS, PassageDocument, Posting, TERM_LIMIT, extract_terms, facet_term};
pub use time::CalendarDate;
pub use vectors::{DIMENSIONS, Embedding, SimilarPassage, fuse_rankings};

/// Numbers in ascending order. One kind of sort for all, for the component's size.
fn ascending(numbers: Vec<u64>) -> Vec<u64> {
    BinaryHeap::from(numbers).into_sorted_vec()
}
