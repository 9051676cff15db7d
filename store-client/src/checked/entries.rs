//! Entries: those that were asked for, sorted, each once, within the limits.

use crate::checked::{heap_sorted, sort_names};
use crate::{FoundEntries, MissingEntries, Size};

/// Some entries: what was not asked for is not there, nor are more than were asked for.
pub fn mend_requested_entries(found: &mut FoundEntries, keys: &[&str], max_bytes: u64) {
    let mut unreadable = 0;
    if let Some(missing) = &mut found.missing {
        missing.unreadable.retain(|name| keys.contains(&&**name));
        missing.unreadable.truncate(keys.len());
        unreadable = missing.unreadable.len();
    }
    found.entries.retain(|entry| keys.contains(&&*entry.key));
    found.entries.truncate(keys.len() - unreadable);
    let bytes = found.entries.iter().map(|entry| entry.text.len() as u64).sum();
    if bytes > max_bytes {
        make_oversize(found, Size { bytes, entries: keys.len() as u64 });
    }
}

/// All entries: too much is too much, also if it was handed over.
pub fn mend_all_entries(found: &mut FoundEntries, max_entries: u64, max_bytes: u64) {
    if !found.entries.is_sorted_by(|a, b| a.key < b.key) {
        found.entries = heap_sorted(std::mem::take(&mut found.entries));
        found.entries.dedup_by(|a, b| a.key == b.key);
    }
    let mut entries = found.entries.len() as u64;
    if let Some(missing) = &mut found.missing {
        sort_names(&mut missing.unreadable);
        entries += missing.unreadable.len() as u64;
    }
    let bytes = found.entries.iter().map(|entry| (entry.key.len() + entry.text.len()) as u64).sum();
    if bytes > max_bytes || entries > max_entries {
        make_oversize(found, Size { bytes, entries });
    }
}

fn make_oversize(found: &mut FoundEntries, size: Size) {
    let missing = MissingEntries { unreadable: Vec::new(), cursor: String::new(), oversize: Some(size) };
    *found = FoundEntries { entries: Vec::new(), missing: Some(missing) };
}
