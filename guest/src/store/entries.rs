//! Entries: those that were asked for, sorted, each once, within the limits.

use crate::contract::{Outcome, Size};
use crate::store::{heap_sorted, sort_names};

/// Some entries: what was not asked for is not there, nor are more than were asked for.
pub(crate) fn mend_requested_entries(outcome: &mut Outcome, keys: &[&str], max_bytes: u64) -> bool {
    let Outcome::Entries(found) = outcome else { return matches!(outcome, Outcome::Oversize(_)) };
    found.unreadable.retain(|name| keys.contains(&&**name));
    found.unreadable.truncate(keys.len());
    found.entries.retain(|entry| keys.contains(&&*entry.key));
    found.entries.truncate(keys.len() - found.unreadable.len());
    let bytes = found.entries.iter().map(|entry| entry.text.len() as u64).sum();
    if bytes > max_bytes {
        *outcome = Outcome::Oversize(Size { bytes, entries: keys.len() as u64 });
    }
    true
}

/// All entries: too much is too much, also if it was handed over.
pub(crate) fn mend_all_entries(outcome: &mut Outcome, max_entries: u64, max_bytes: u64) -> bool {
    let Outcome::Entries(found) = outcome else { return matches!(outcome, Outcome::Oversize(_)) };
    if !found.entries.is_sorted_by(|a, b| a.key < b.key) {
        found.entries = heap_sorted(std::mem::take(&mut found.entries));
        found.entries.dedup_by(|a, b| a.key == b.key);
    }
    sort_names(&mut found.unreadable);
    let bytes = found.entries.iter().map(|entry| (entry.key.len() + entry.text.len()) as u64).sum();
    let entries = (found.entries.len() + found.unreadable.len()) as u64;
    if bytes > max_bytes || entries > max_entries {
        *outcome = Outcome::Oversize(Size { bytes, entries });
    }
    true
}
