//! Counts answers that were skipped, by reason, and texts that were cut.
//!
//! Cut texts are counted in the transaction that stores them, a skipped answer in one of its own; only a trace reads the counts.

use keepline_json::ObjectWriter;

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

/// What was left out: a count for each of [`COUNTERS`], where there is one.
pub(crate) type OmissionCounts = [Option<u64>; 4];

/// The counts, of what was read.
pub(crate) fn take_counts(once: &mut EntriesByKey) -> OmissionCounts {
    COUNTERS.map(|counter| once.take(counter).as_deref().and_then(parse_count))
}

/// As members of the trace. None: nothing was left out.
pub(crate) fn write_counts(counts: &OmissionCounts, out: &mut ObjectWriter) {
    let counted = COUNTERS.into_iter().zip(counts);
    let skipped: Vec<_> = counted.filter_map(|(name, count)| Some((skip_reason_code(name)?, (*count)?))).collect();
    if !skipped.is_empty() {
        out.object("skipped", |out| skipped.iter().for_each(|(reason, count)| out.count(reason, Some(*count))));
    }
    let [.., truncated] = counts;
    out.count(TRUNCATED, *truncated);
}
