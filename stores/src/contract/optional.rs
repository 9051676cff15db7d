//! Leases and indexes, which a store may lack, and the transactions that include them.

#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

use super::{Problem, Receipt, Transaction};

/// Take a lease, or renew one's own, for so many milliseconds from now; 0 gives one's own back. It is taken if it is free,
/// has run out, or is the holder's already; otherwise nothing about it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct LeaseRequest {
    pub name: String,
    pub holder: String,
    pub milliseconds: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct LeaseState {
    /// Whether the caller's holder has it now.
    pub held: bool,
    /// Who has it; empty: nobody.
    pub holder: String,
    /// Milliseconds left, by the store's clock.
    #[cfg_attr(feature = "component", component(name = "expires-in"))]
    pub expires_in: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct LeasedTransaction {
    pub lease: Option<LeaseRequest>,
    /// Applied whether or not the lease is held, but neither if the transaction is not applied.
    pub transaction: Transaction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct LeasedReceipt {
    /// None unless a lease was requested and the transaction was `applied` or `repeated`.
    pub lease: Option<LeaseState>,
    pub receipt: Receipt,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(variant))]
pub enum LeasedAttempt {
    #[cfg_attr(feature = "component", component(name = "receipt"))]
    Receipt(LeasedReceipt),
    #[cfg_attr(feature = "component", component(name = "problem"))]
    Problem(Problem),
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct Document {
    /// Below 2^53, and above all positions ever added (`invalid`), removed ones included. Gaps cost little.
    pub position: u64,
    /// For the reader; 0 can't be told from a gap.
    pub mark: u16,
    /// Ascending, each once, below 2^22 (`invalid`). May be empty: then only the mark can be found.
    pub terms: Vec<u32>,
}

/// Add documents, by ascending position. An index exists from its first document on; an emptied one keeps its
/// positions. Cost: linear in the documents' terms, and high for the first of a batch: best in batches of 32 to 128.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct AddDocumentsStep {
    pub index: String,
    pub documents: Vec<Document>,
}

/// Remove documents, terms and marks. Unknown and repeated positions are skipped. Cost: linear in the runs of
/// consecutive positions; a run ends before each multiple of 1,024.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct RemoveDocumentsStep {
    pub index: String,
    pub positions: Vec<u64>,
}

/// Find terms among the newest `newest` positions (gaps counted; at most 131,072). Each term once, below 2^22.
/// An unknown term occurs nowhere, and a missing index is empty. Cost: linear in the terms for each 1,024
/// positions, and in what is found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct SearchStep {
    pub index: String,
    pub terms: Vec<u32>,
    pub newest: u64,
    /// Return marks of so many positions before and after each hit; at most 8.
    pub around: u32,
    /// 2 for each mark, 8 for each run, 4 for each occurrence. The oldest positions are left out until it fits. A
    /// store may leave out more rather than read many megabytes; `from-position` shows it.
    #[cfg_attr(feature = "component", component(name = "max-bytes"))]
    pub max_bytes: u64,
}

/// Read the marks of so many positions, at most 131,072.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct ReadMarksStep {
    pub index: String,
    #[cfg_attr(feature = "component", component(name = "from-position"))]
    pub from_position: u64,
    pub count: u32,
}

/// A transaction writes each index at most once (`invalid`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(variant))]
pub enum IndexStep {
    #[cfg_attr(feature = "component", component(name = "add-documents"))]
    AddDocuments(AddDocumentsStep),
    #[cfg_attr(feature = "component", component(name = "remove-documents"))]
    RemoveDocuments(RemoveDocumentsStep),
    #[cfg_attr(feature = "component", component(name = "search"))]
    Search(SearchStep),
    #[cfg_attr(feature = "component", component(name = "read-marks"))]
    ReadMarks(ReadMarksStep),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct IndexExtent {
    /// One more than the highest position ever added; 0: none.
    pub next: u64,
    pub documents: u64,
    /// Terms of all documents, each counted in each document.
    pub occurrences: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct MarkRun {
    /// From `found-documents.from-position`.
    pub offset: u32,
    /// 0: no document at that position.
    pub marks: Vec<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct TermHits {
    /// From `found-documents.from-position`, ascending.
    pub offsets: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct FoundDocuments {
    pub extent: IndexExtent,
    /// The oldest position that was looked at; `extent.next`: none.
    #[cfg_attr(feature = "component", component(name = "from-position"))]
    pub from_position: u64,
    /// Ascending and disjoint. Of a search: hits, and the positions around them. Positions that are neither are not
    /// returned.
    pub runs: Vec<MarkRun>,
    /// One for each term of a search, in order; otherwise empty.
    pub terms: Vec<TermHits>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct IndexedTransaction {
    pub lease: Option<LeaseRequest>,
    /// Operations come first, then the steps below.
    pub transaction: Transaction,
    pub steps: Vec<IndexStep>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct IndexedReceipt {
    pub lease: Option<LeaseState>,
    pub receipt: Receipt,
    /// One for each step, in order. Steps that write find nothing.
    pub found: Vec<FoundDocuments>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(variant))]
pub enum IndexedAttempt {
    #[cfg_attr(feature = "component", component(name = "receipt"))]
    Receipt(IndexedReceipt),
    #[cfg_attr(feature = "component", component(name = "problem"))]
    Problem(Problem),
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct BucketPage {
    /// Sorted. A page may have a few more or fewer than asked for, even none, and repeat earlier names.
    pub names: Vec<String>,
    /// For the next page; empty after the last.
    pub cursor: String,
}
