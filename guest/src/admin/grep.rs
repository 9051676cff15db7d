//! Finds the lines of a message that contain a text, with lines around them.

use crate::admin::messages::{CONTAINS_MAX, find_text, read_whole_text};
use crate::context::Context;
use crate::contract::transcripts::{ContentLine, FoundLines};
use crate::contract::{Host, Problem};
use crate::entry::session_problem::SessionResult;
use crate::text::truncate::head_within;
use crate::transcript::address::TranscriptId;

/// Lines that hold the text.
const LIMIT: u32 = 100;

const LIMIT_MAX: u32 = 1000;

const CONTEXT_MAX: u32 = 20;

/// Bytes of a line that are shown, and how many of them stand before the text.
const LINE_BYTES: usize = 2000;

const BEFORE_BYTES: usize = 500;

/// Bytes of all lines: more than one of them comes to with all its context.
const PAGE_BYTES: usize = 256 << 10;

/// Which lines are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineQuery<'a> {
    /// With this in them.
    pub text: &'a str,
    /// Whether ASCII letters match in either case.
    pub ignore_case: bool,
    /// So many lines before and after each; no more than 20.
    pub context: u32,
    /// From this line on; 0 and 1: the first.
    pub from: u64,
    /// At most so many that hold the text; 0: 100.
    pub limit: u32,
}

/// The lines of a message that hold a text.
pub fn find_lines(
    context: &Context<impl Host>,
    transcript: &TranscriptId<'_>,
    position: u64,
    query: &LineQuery<'_>,
) -> SessionResult<FoundLines> {
    if !(1..=CONTAINS_MAX).contains(&query.text.len()) || query.text.contains(['\n', '\r']) {
        let message = format!("What is searched for must be a text of 1 to {CONTAINS_MAX} bytes on one line");
        return Err(Problem::invalid("text", message));
    }
    let at = transcript.resolve_address()?;
    let (lines, next) = query.find(&read_whole_text(context, &at, position)?);
    Ok(FoundLines { lines, next })
}

impl LineQuery<'_> {
    /// The lines, and where to go on.
    fn find(&self, text: &str) -> (Vec<ContentLine>, Option<u64>) {
        let limit = if self.limit == 0 { LIMIT } else { self.limit.min(LIMIT_MAX) };
        let context = self.context.min(CONTEXT_MAX);
        let (mut lines, mut next) = (Vec::new(), None);
        let (mut count, mut after, mut bytes) = (0, 0, 0);
        // Lines that are shown if the text comes soon enough.
        let mut before: Vec<ContentLine> = Vec::new();
        let mut offset = 0;
        for (number, raw) in (1..).zip(text.split_inclusive('\n')) {
            let begins = offset;
            offset += raw.chars().count() as u64;
            if number < self.from {
                continue;
            }
            let raw = raw.strip_suffix('\n').unwrap_or(raw);
            let at = find_text(raw, self.text, self.ignore_case);
            let line = shown(number, raw.strip_suffix('\r').unwrap_or(raw), at, begins);
            if at.is_none() && after == 0 {
                if before.len() >= context as usize && !before.is_empty() {
                    before.remove(0);
                }
                if context > 0 {
                    before.push(line);
                }
                continue;
            }
            before.push(line);
            let more: usize = before.iter().map(|line| line.text.len()).sum();
            if (at.is_some() && count == limit) || (bytes + more > PAGE_BYTES && count > 0) {
                // With the lines before it, which were not shown.
                next = before.first().map(|line| line.number);
                break;
            }
            bytes += more;
            lines.append(&mut before);
            (count, after) = if at.is_some() { (count + 1, context) } else { (count, after - 1) };
        }
        (lines, next)
    }
}

/// A line as it is shown: `at` is where the text stands in it.
fn shown(number: u64, line: &str, at: Option<usize>, offset: u64) -> ContentLine {
    let mut start = at.filter(|_| line.len() > LINE_BYTES).map_or(0, |at| at.saturating_sub(BEFORE_BYTES));
    while !line.is_char_boundary(start) {
        start -= 1;
    }
    let (skipped, rest) = line.split_at_checked(start).unwrap_or_default();
    let text = head_within(rest, LINE_BYTES, usize::MAX);
    ContentLine {
        number,
        is_match: at.is_some(),
        text: text.to_owned(),
        offset: offset + skipped.chars().count() as u64,
        is_cut: text.len() < line.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(lines: &[ContentLine]) -> Vec<(u64, bool)> {
        lines.iter().map(|line| (line.number, line.is_match)).collect()
    }

    #[test]
    fn matching_lines_come_once_with_their_context() {
        let text = "a\nb\nX1\r\nc\nX2\nd\ne\nf\nx3";
        let query = LineQuery { text: "X", context: 1, ..LineQuery::default() };
        let (found, next) = query.find(text);
        assert_eq!(numbers(&found), [(2, false), (3, true), (4, false), (5, true), (6, false)]);
        assert_eq!((&*found[1].text, found[1].offset, next), ("X1", 4, None));
        let (either, _) = LineQuery { ignore_case: true, context: 0, ..query }.find(text);
        assert_eq!(numbers(&either), [(3, true), (5, true), (9, true)]);
        for (empty, from) in [("", 0), ("\n\n", 0), (text, 6), (text, u64::MAX)] {
            assert_eq!(LineQuery { from, ..query }.find(empty), (vec![], None));
        }
    }

    #[test]
    fn pages_go_on_where_they_ended_and_no_match_is_missed() {
        let text: String =
            (1..=400).map(|number| format!("{}{number}\n", ["-", "é"][usize::from(number % 7 == 0)])).collect();
        let long: String = (1..=400).map(|_| ["é".repeat(999), "\n".into()].concat()).collect();
        for (text, wanted) in [(&text, 400 / 7), (&long, 400)] {
            for (limit, context) in [(1, 0), (3, 2), (1000, 20), (0, 3)] {
                let mut query = LineQuery { text: "é", limit, context, ..LineQuery::default() };
                let (mut found, mut pages) = (Vec::new(), 0);
                loop {
                    let (lines, next) = query.find(text);
                    assert!(lines.iter().map(|line| line.text.len()).sum::<usize>() <= PAGE_BYTES);
                    found.extend(lines.iter().filter(|line| line.is_match).map(|line| line.number));
                    pages += 1;
                    let Some(next) = next else { break };
                    assert!(next > query.from);
                    query.from = next;
                }
                assert!(pages > 1 || limit == 1000 || limit == 0, "{pages}");
                assert_eq!(found.len(), wanted, "limit {limit}, context {context}");
                assert!(found.is_sorted_by(|one, other| one < other));
            }
        }
    }

    #[test]
    fn of_a_long_line_there_is_the_part_with_the_text() {
        let line = ["é".repeat(5000), "needle".into(), "ü".repeat(5000)].concat();
        let text = ["first\n", &line].concat();
        let (found, _) = LineQuery { text: "needle", ..LineQuery::default() }.find(&text);
        let line = &found[0];
        assert!(line.is_cut && line.text.len() <= LINE_BYTES && line.text.contains("éneedleü"));
        let part: String =
            text.chars().skip(usize::try_from(line.offset).unwrap()).take(line.text.chars().count()).collect();
        assert_eq!(part, line.text);
    }
}
