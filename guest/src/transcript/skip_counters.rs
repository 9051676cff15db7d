//! Counts answers that were skipped, by reason, and texts that were cut.
//!
//! Cut texts are counted in the transaction that stores them, a skipped answer in one of its own; only a trace reads the counts.

use keepline_json::push_number;

use crate::store::EntriesByKey;
use crate::text::json_values::parse_count;

/// The counters of map `session`: of answers by why they were skipped, and of texts that were cut.
pub(crate) const COUNTERS: [&str; 4] = [BLANK, MARKER, SHORT, TRUNCATED];

pub(crate) const BLANK: &str = "skipped-blank";

pub(crate) const MARKER: &str = "skipped-marker";

pub(crate) const SHORT: &str = "skipped-too-short";

pub(crate) const TRUNCATED: &str = "truncated";

/// The reason of which answers are counted; none: it is texts.
pub(crate) fn skip_reason_code(counter: &'static str) -> Option<&'static str> {
    counter.strip_prefix("skipped-")
}

/// The counts, of what was read, as members that follow others in a JSON object. Empty: nothing was left out.
pub(crate) fn trace_members(once: &mut EntriesByKey) -> String {
    let mut out = String::new();
    let mut begin = ",\"skipped\":{\"";
    for counter in COUNTERS {
        let count = once.take(counter).as_deref().and_then(parse_count);
        let name = skip_reason_code(counter);
        if name.is_none() && !out.is_empty() {
            out.push('}');
        }
        if let Some(count) = count {
            out.push_str(if name.is_some() { begin } else { ",\"" });
            out.push_str(name.unwrap_or(counter));
            out.push_str("\":");
            push_number(&mut out, count);
            begin = ",\"";
        }
    }
    out
}
