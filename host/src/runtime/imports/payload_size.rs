//! Measures how many bytes a store's answer brings into the host and then into the instance, for the entry's budget.
//!
//! Texts count, and so do the lists that hold them: many small things are not free.

use std::mem::size_of_val;

use crate::store::{BucketPage, Deletion, Entry, Failure, FoundDocuments, IndexedReceipt, Outcome};

pub(super) trait PayloadSize {
    /// Bytes.
    fn payload_bytes(&self) -> u64;
}

impl PayloadSize for IndexedReceipt {
    fn payload_bytes(&self) -> u64 {
        // What answers another list of steps is counted here, too.
        let Self { lease: _, receipt, found } = self;
        let outcomes = &receipt.outcomes;
        list(outcomes) + outcomes.iter().map(outcome).sum::<u64>() + found.iter().map(documents).sum::<u64>()
    }
}

impl PayloadSize for BucketPage {
    fn payload_bytes(&self) -> u64 {
        texts(&self.names)
    }
}

impl PayloadSize for Deletion {
    fn payload_bytes(&self) -> u64 {
        texts(&self.keys)
    }
}

impl<T: PayloadSize> PayloadSize for Result<T, Failure> {
    fn payload_bytes(&self) -> u64 {
        self.as_ref().map_or(0, PayloadSize::payload_bytes)
    }
}

impl<T: PayloadSize> PayloadSize for Vec<T> {
    fn payload_bytes(&self) -> u64 {
        self.iter().map(PayloadSize::payload_bytes).sum()
    }
}

fn outcome(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Entries(found) => entries(&found.entries) + texts(found.unreadable()),
        Outcome::Records(found) => list(&found.runs) + found.runs.iter().map(|run| texts(&run.records)).sum::<u64>(),
        Outcome::Described(told) => list(&told.parts),
        Outcome::Changed(_) | Outcome::Counter(_) | Outcome::Extent(_) => 0,
    }
}

fn documents(found: &FoundDocuments) -> u64 {
    let marks: u64 = found.runs.iter().map(|run| list(&run.marks)).sum();
    let offsets: u64 = found.terms.iter().map(|term| list(&term.offsets)).sum();
    list(&found.runs) + list(&found.terms) + marks + offsets
}

// What is in memory: no sum of its parts can be over what 64 bits hold.

fn list<T>(list: &[T]) -> u64 {
    size_of_val(list) as u64
}

fn texts(texts: &[String]) -> u64 {
    list(texts) + texts.iter().map(|text| text.len() as u64).sum::<u64>()
}

fn entries(entries: &[Entry]) -> u64 {
    list(entries) + entries.iter().map(|Entry { key, text }| (key.len() + text.len()) as u64).sum::<u64>()
}
