//! The stored summary of what was said up to a position, and summaries of other branches beside it.

use keepline_json::{self as json, ObjectWriter};
use std::borrow::Cow;

use crate::text::json_values::{array, parse_count};
use crate::transcript::thread::Branches;

/// What a summary says, and how far it reaches.
pub(crate) struct ThreadSummary<'a> {
    pub text: Cow<'a, str>,
    /// The last position that it holds.
    pub to: u64,
    /// What the thread weighs up to there.
    pub total: u64,
    pub has_low_trust: bool,
}

impl<'a> ThreadSummary<'a> {
    /// All in an entry, the newest first: those of other branches stand within it.
    pub(crate) fn all(entry: &'a str) -> Vec<Self> {
        let mut all = Vec::new();
        let mut others = None;
        all.extend(Self::parse(entry, |raw| others = Some(raw)));
        let _ = json::for_each_element(others.unwrap_or("[]"), |other| all.extend(Self::parse(other, |_| {})));
        all
    }

    /// That of the thread that ends at a position: the one that reaches furthest.
    pub(crate) fn of_thread(entry: &'a str, branches: &Branches, end: u64) -> Option<Self> {
        Self::all(entry)
            .into_iter()
            .filter(|summary| branches.is_on_thread(end, summary.to))
            .max_by_key(|summary| summary.to)
    }

    fn parse(text: &'a str, mut others: impl FnMut(&'a str)) -> Option<Self> {
        let (mut words, mut to, mut total, mut has_low_trust) = (None, None, None, false);
        json::for_each_member(text, |key, raw| match key.trim_matches('"') {
            "text" => words = json::decode_string(raw),
            "to" => to = parse_count(raw),
            "total" => total = parse_count(raw),
            "trust" => has_low_trust = raw == "\"low\"",
            "others" => others(raw),
            _ => {}
        })?;
        Some(Self { text: words?, to: to?, total: total?, has_low_trust })
    }

    /// As an entry; `others` are entries, too.
    pub(crate) fn write(&self, others: &[Self]) -> String {
        let mut out = ObjectWriter::with_capacity(self.text.len() + 64);
        out.text("text", Some(&self.text));
        out.count("to", Some(self.to));
        out.count("total", Some(self.total));
        out.text("trust", self.has_low_trust.then_some("low"));
        let others: Vec<String> = others.iter().map(|other| other.write(&[])).collect();
        let others = (!others.is_empty()).then(|| array(&others));
        out.json("others", others.as_deref());
        out.finish()
    }
}
