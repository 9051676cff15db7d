//! Measures how many bytes a store's answer brings into the host and then into the instance, for the entry's budget.
//!
//! Texts count, and so do the lists that hold them: many small things are not free.

use std::mem::size_of_val;

use crate::store::{BucketPage, Deletion, Entry, Failure, Outcome, Receipt};

pub(super) trait PayloadSize {
    /// Bytes.
    fn payload_bytes(&self) -> u64;
}

impl PayloadSize for Receipt {
    fn payload_bytes(&self) -> u64 {
        list(&self.outcomes) + self.outcomes.iter().map(outcome).sum::<u64>()
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
        Outcome::Entries(found) => entries(&found.entries) + texts(&found.unreadable),
        Outcome::Page(page) => entries(&page.entries) + texts(&page.unreadable),
        Outcome::Records(found) => texts(&found.records),
        Outcome::Spans(found) => list(&found.spans) + found.spans.iter().map(|span| texts(&span.records)).sum::<u64>(),
        Outcome::Matches(found) => {
            let offsets: u64 = found.terms.iter().map(|matches| list(&matches.offsets)).sum();
            list(&found.marks) + list(&found.terms) + offsets
        }
        Outcome::Described(told) => list(&told.maps) + list(&told.logs) + list(&told.indexes),
        Outcome::Oversize(_)
        | Outcome::Changed(_)
        | Outcome::Counter(_)
        | Outcome::Extent(_)
        | Outcome::Lease(_)
        | Outcome::Indexed(_) => 0,
    }
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
