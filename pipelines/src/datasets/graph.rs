//! Nodes, edges and views of an owner's graph.

use std::{collections::BTreeMap, rc::Rc};

use keepline_options::bucket_names::to_map_key;
use keepline_store_client::{Entry, Span, kind};

use super::{
    DataKind, STALE, entry_keys,
    indexed::{Reach, as_terms, hits, member_term, records, spans},
    reader::{Ask, Asker, Bucket, ReadTask, Reply},
};
use crate::{
    run::{Direction, Found},
    value::Value,
};

pub(super) const NODES: &str = "nodes";
pub(super) const VIEWS: &str = "views";
pub(super) const OUT: &str = "out";
pub(super) const IN: &str = "in";
pub(super) const FACETS: &str = "facets";
const BYTES: u64 = 8 << 20;
/// Matching nodes that are read at most: one more than a run takes, so that it fails rather than leaves any out.
const MATCHING: usize = 10_001;

/// The map with the edges of each node in that direction.
pub(super) fn edges(direction: Direction) -> &'static str {
    match direction {
        Direction::Out => OUT,
        Direction::In => IN,
    }
}

fn bucket(asker: &Asker) -> Bucket {
    (kind::DATASET, asker.owner.dataset_bucket(DataKind::Nodes, &[]))
}

/// Nodes, views or lists of edges by id.
pub(super) fn read_entries(asker: &Asker, map: &'static str, ids: &[Rc<str>]) -> (Bucket, Box<dyn ReadTask>) {
    (bucket(asker), Box::new(EntriesRead { map, ids: ids.to_vec() }))
}

/// Nodes with these members.
pub(super) fn read_matching(asker: &Asker, members: &[(Rc<str>, Value)]) -> (Bucket, Box<dyn ReadTask>) {
    let is_indexed = |(name, value): &&(Rc<str>, Value)| is_facet(name) && is_scalar(value);
    let terms = members.iter().filter(is_indexed).map(|(name, value)| member_term(name, value)).collect();
    let work = MatchingRead {
        members: members.to_vec(),
        terms: as_terms(terms),
        positions: None,
        is_cut: false,
        stale: Vec::new(),
    };
    (bucket(asker), Box::new(work))
}

/// The terms by which a node is found: its kind, its name, and its attributes.
pub(super) fn facets(node: &Value) -> Vec<u32> {
    let own = ["id", "kind", "name"].into_iter().filter_map(|name| Some((name.to_owned(), node.member(name)?)));
    let attributes = node.member("attributes").and_then(Value::as_object).into_iter().flatten();
    let attributes = attributes.map(|(name, value)| (format!("attributes.{name}"), value));
    let members = own.chain(attributes).filter(|(_, value)| is_scalar(value));
    as_terms(members.map(|(name, value)| member_term(&name, value)).collect())
}

/// Whether nodes are found by a member of this name.
fn is_facet(name: &str) -> bool {
    let attribute = name.strip_prefix("attributes.");
    matches!(name, "id" | "kind" | "name") || attribute.is_some_and(|name| !name.is_empty() && !name.contains('.'))
}

fn is_scalar(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Number(_) | Value::Text(_))
}

struct EntriesRead {
    map: &'static str,
    ids: Vec<Rc<str>>,
}

impl ReadTask for EntriesRead {
    fn asks(&self) -> Vec<Ask> {
        vec![Ask::Entries { map: self.map, keys: entry_keys(&self.ids) }]
    }

    fn take(&mut self, replies: Vec<Reply>) -> Option<Found> {
        let Some(Reply::Entries(entries)) = replies.into_iter().next() else { return Some(Found::default()) };
        let bytes = entries.iter().map(|entry| entry.text.len()).sum();
        let mut by_key: BTreeMap<String, String> = entries.into_iter().map(|Entry { key, text }| (key, text)).collect();
        let texts = self.ids.iter().filter_map(|id| by_key.remove(&*to_map_key(id)));
        let values = texts.filter_map(|text| Value::parse(&text).ok());
        let items = match self.map {
            NODES => values.filter_map(|entry| entry.member("node").cloned()).collect(),
            VIEWS => values.collect(),
            _ => values.flat_map(|edges| edges.as_list().unwrap_or_default().to_vec()).collect(),
        };
        Some(Found { items: Some(Rc::new(items)), bytes, is_cut: false })
    }
}

struct MatchingRead {
    members: Vec<(Rc<str>, Value)>,
    /// Of the members that are indexed.
    terms: Vec<u32>,
    positions: Option<Vec<Span>>,
    is_cut: bool,
    stale: Vec<u64>,
}

impl ReadTask for MatchingRead {
    fn asks(&self) -> Vec<Ask> {
        match &self.positions {
            Some(spans) => vec![Ask::At { log: NODES, spans: spans.clone(), bytes: BYTES }],
            None if self.terms.is_empty() => {
                vec![Ask::Newest { log: NODES, records: MATCHING as u64, bytes: BYTES }, Ask::Keys { map: STALE }]
            }
            None => vec![
                Ask::Search { index: FACETS, terms: self.terms.clone(), reach: Reach::All },
                Ask::Keys { map: STALE },
            ],
        }
    }

    fn take(&mut self, replies: Vec<Reply>) -> Option<Found> {
        let mut replies = replies;
        if let Some(Reply::Keys(keys)) = replies.pop_if(|reply| matches!(reply, Reply::Keys(_))) {
            self.stale = keys.iter().filter_map(|key| key.parse().ok()).collect();
        }
        let runs = match replies.into_iter().next()? {
            Reply::Search(found) => {
                let hits = hits(&found);
                let is_all =
                    |position: &u64, terms: &[usize]| terms.len() == self.terms.len() && !self.stale.contains(position);
                let all = hits.iter().filter(|(position, terms)| is_all(position, terms));
                let positions: Vec<_> = all.map(|(position, _)| *position).take(MATCHING).collect();
                self.is_cut = found.from_position > 0;
                if positions.is_empty() {
                    return Some(Found { items: Some(Rc::default()), ..Found::default() });
                }
                self.positions = Some(spans(&positions));
                return None;
            }
            Reply::At(runs) => {
                let asked: u32 = self.positions.iter().flatten().map(|span| span.count).sum();
                self.is_cut |= runs.iter().map(|run| run.records.len()).sum::<usize>() < asked as usize;
                runs
            }
            Reply::Newest(run) => {
                self.is_cut = (run.records.len() as u64) < run.extent.length.min(MATCHING as u64);
                vec![run]
            }
            Reply::Entries(_) | Reply::All(_) | Reply::Keys(_) => Vec::new(),
        };
        let mut bytes = 0;
        let live = records(runs).filter(|(position, ..)| !self.stale.contains(position));
        let nodes = live.filter_map(|(_, node, length)| {
            bytes += length;
            let matches = self.members.iter().all(|(field, wanted)| node.field(field) == Some(wanted));
            matches.then_some(node)
        });
        let items = nodes.collect();
        Some(Found { items: Some(Rc::new(items)), bytes, is_cut: self.is_cut })
    }
}
