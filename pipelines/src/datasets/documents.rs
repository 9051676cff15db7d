//! Documents of a collection, and the passages of the asking session or user.
//!
//! A document's score is the cosine where it and the query have vectors of one model, otherwise the share of the query's
//! term weight that its text contains: 0 to 1. Vectors of the newest documents are compared, and those of documents with
//! words of the query.

use std::{cmp::Ordering, collections::BTreeMap, rc::Rc};

use keepline_recall::PassageQuery;
use keepline_store_client::{FoundDocuments, LogRun, Span, kind};

use super::{
    DataKind, STALE,
    indexed::{hits, records},
    reader::{Ask, Asker, Bucket, ReadTask, Reply},
};
use crate::{
    run::{DocumentQuery, Found},
    value::Value,
};

pub(super) const DOCUMENTS: &str = "documents";
pub(super) const VECTORS: &str = "vectors";
pub(super) const TERMS: &str = "terms";
const PASSAGES: &str = "passages";
const RECALL: &str = "recall";
/// So many of the newest vectors are compared.
const COMPARED: u64 = 2_048;
/// So many documents with words of the query have their vectors compared, too.
const CANDIDATES: usize = 256;
const BYTES: u64 = 4 << 20;

/// Where a read has its documents. The collections `session` and `user` are the asking ones' passages.
pub(super) fn read(asker: &Asker, query: &DocumentQuery) -> Option<(Bucket, Box<dyn ReadTask>)> {
    let own = match &*query.collection {
        "session" => Some((kind::SESSION, asker.session.clone())),
        "user" => Some((kind::USER, asker.user.clone())),
        _ => None,
    };
    let terms = PassageQuery::new(&query.text, 0, false).terms();
    let work = |places| DocumentsRead { query: query.clone(), terms, places, progress: Progress::Start };
    match own {
        Some((kind, bucket)) => Some(((kind, bucket?), Box::new(work(Places::Passages)))),
        None => {
            let name = asker.owner.dataset_bucket(DataKind::Documents, &[&query.collection]);
            Some(((kind::DATASET, name), Box::new(work(Places::Collection))))
        }
    }
}

/// How a bucket keeps what is searched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Places {
    Collection,
    /// The filter's: vectors are entries of a map.
    Passages,
}

struct DocumentsRead {
    query: DocumentQuery,
    terms: Vec<u32>,
    places: Places,
    progress: Progress,
}

enum Progress {
    Start,
    /// Scores are known but for the vectors of these candidates.
    Ranked {
        words: BTreeMap<u64, f64>,
        cosines: BTreeMap<u64, f64>,
        candidates: Vec<u64>,
        is_cut: bool,
    },
    /// The best, whose texts are read.
    Chosen {
        best: Vec<(u64, f64)>,
        is_cut: bool,
    },
}

impl ReadTask for DocumentsRead {
    fn asks(&self) -> Vec<Ask> {
        let is_compared = self.query.vector.is_some();
        let mut asks = Vec::new();
        match &self.progress {
            Progress::Start => {
                if !self.terms.is_empty() {
                    let index = if self.places == Places::Collection { TERMS } else { RECALL };
                    asks.push(Ask::Search { index, terms: self.terms.clone() });
                }
                if self.places == Places::Collection {
                    asks.push(Ask::Keys { map: STALE });
                }
                if is_compared && self.places == Places::Collection {
                    asks.push(Ask::Newest { log: VECTORS, records: COMPARED, bytes: BYTES });
                }
            }
            Progress::Ranked { candidates, .. } if self.places == Places::Collection => {
                let spans = candidates.iter().map(|position| Span { position: *position, count: 1 });
                asks.push(Ask::At { log: VECTORS, spans: spans.collect(), bytes: BYTES });
            }
            Progress::Ranked { candidates, .. } => {
                let keys = candidates.iter().map(u64::to_string).collect();
                asks.push(Ask::Entries { map: VECTORS, keys });
            }
            Progress::Chosen { best, .. } => {
                let spans = best.iter().map(|(position, _)| Span { position: *position, count: 1 });
                let log = if self.places == Places::Collection { DOCUMENTS } else { PASSAGES };
                asks.push(Ask::At { log, spans: spans.collect(), bytes: BYTES });
            }
        }
        asks
    }

    fn take(&mut self, replies: Vec<Reply>) -> Option<Found> {
        match std::mem::replace(&mut self.progress, Progress::Start) {
            Progress::Start => {
                let (mut words, mut cosines, mut is_cut) = (BTreeMap::new(), BTreeMap::new(), false);
                let mut stale = Vec::new();
                for reply in replies {
                    match reply {
                        Reply::Search(found) => {
                            is_cut |= found.from_position > 0;
                            words = self.word_scores(&found);
                        }
                        Reply::Newest(run) => {
                            is_cut |= (run.records.len() as u64) < run.extent.length;
                            cosines = self.cosines(vec![run]);
                        }
                        Reply::Keys(keys) => stale.extend(keys.iter().filter_map(|key| key.parse::<u64>().ok())),
                        _ => {}
                    }
                }
                words.retain(|position, _| !stale.contains(position));
                cosines.retain(|position, _| !stale.contains(position));
                let mut candidates: Vec<_> =
                    words.iter().filter(|(position, _)| !cosines.contains_key(position)).collect();
                candidates.sort_by(|(_, one), (_, two)| two.total_cmp(one));
                let candidates: Vec<_> =
                    candidates.into_iter().map(|(position, _)| *position).take(CANDIDATES).collect();
                if self.query.vector.is_some() && !candidates.is_empty() {
                    self.progress = Progress::Ranked { words, cosines, candidates, is_cut };
                    return None;
                }
                self.choose(words, &cosines, is_cut)
            }
            Progress::Ranked { words, mut cosines, is_cut, .. } => {
                for reply in replies {
                    match reply {
                        Reply::At(runs) => cosines.extend(self.cosines(runs)),
                        Reply::Entries(entries) => {
                            let similarity = |text: &str| self.query.vector.as_ref()?.similarity(text);
                            let each = entries.iter().filter_map(|entry| {
                                Some((entry.key.parse().ok()?, f64::from(similarity(&entry.text)?)))
                            });
                            cosines.extend(each);
                        }
                        _ => {}
                    }
                }
                self.choose(words, &cosines, is_cut)
            }
            Progress::Chosen { best, is_cut } => {
                let Some(Reply::At(runs)) = replies.into_iter().next() else { return Some(Found::default()) };
                Some(self.documents(runs, &best, is_cut))
            }
        }
    }
}

impl DocumentsRead {
    /// The share of the query's term weight at each position. A term weighs the more the fewer documents have it.
    fn word_scores(&self, found: &FoundDocuments) -> BTreeMap<u64, f64> {
        #[expect(clippy::cast_precision_loss, reason = "counts of documents")]
        let weight = |hits: usize| (1.0 + (found.extent.documents as f64 + 1.0) / (hits as f64 + 0.5)).ln();
        let weights: Vec<_> = found.terms.iter().map(|places| weight(places.offsets.len())).collect();
        let total: f64 = weights.iter().sum();
        let share = |terms: Vec<usize>| terms.iter().filter_map(|term| weights.get(*term)).sum::<f64>() / total;
        hits(found).into_iter().map(|(position, terms)| (position, share(terms))).collect()
    }

    fn cosines(&self, runs: Vec<LogRun>) -> BTreeMap<u64, f64> {
        let Some(vector) = &self.query.vector else { return BTreeMap::new() };
        let each = records(runs)
            .filter_map(|(position, record, _)| Some((position, f64::from(vector.similarity(record.as_text()?)?))));
        each.collect()
    }

    /// The best of those that score enough; of equals, more than are wanted, for ids decide.
    fn choose(&mut self, words: BTreeMap<u64, f64>, cosines: &BTreeMap<u64, f64>, is_cut: bool) -> Option<Found> {
        let mut scores = words;
        scores.extend(cosines.iter().map(|(position, cosine)| (*position, *cosine)));
        let mut best: Vec<_> = scores.into_iter().filter(|(_, score)| *score >= self.query.min_score).collect();
        best.sort_by(|(_, one), (_, two)| two.total_cmp(one));
        if let Some((_, last)) = best.get(self.query.top_k.saturating_sub(1)).copied() {
            let ties = best.iter().take_while(|(_, score)| score.total_cmp(&last) != Ordering::Less).count();
            best.truncate(ties.min(self.query.top_k.saturating_mul(2).max(CANDIDATES)));
        }
        if best.is_empty() {
            return Some(Found { items: Some(Rc::default()), bytes: 0, is_cut });
        }
        self.progress = Progress::Chosen { best, is_cut };
        None
    }

    fn documents(&self, runs: Vec<LogRun>, best: &[(u64, f64)], is_cut: bool) -> Found {
        let scores: BTreeMap<u64, f64> = best.iter().copied().collect();
        let mut bytes = 0;
        let mut documents: Vec<(f64, Rc<str>, Value)> = Vec::new();
        for (position, record, length) in records(runs) {
            let Some(score) = scores.get(&position) else { continue };
            let id = match self.places {
                Places::Collection => record.member("id").and_then(Value::as_text).unwrap_or_default().into(),
                Places::Passages => Rc::from(position.to_string()),
            };
            bytes += length;
            let text = record.member("text").cloned().unwrap_or_default();
            let mut members = vec![("id", Value::Text(Rc::clone(&id))), ("text", text), ("score", Value::from(*score))];
            match self.places {
                Places::Collection => {
                    members.extend(record.member("metadata").map(|metadata| ("metadata", metadata.clone())));
                }
                Places::Passages => {
                    members.extend(record.member("at").map(|at| ("timestamp", at.clone())));
                    members.extend(record.member("role").map(|role| ("role", role.clone())));
                }
            }
            documents.push((*score, id, Value::object(members)));
        }
        documents.sort_by(|(one, first, _), (two, second, _)| two.total_cmp(one).then_with(|| first.cmp(second)));
        documents.truncate(self.query.top_k);
        let items = documents.into_iter().map(|(_, _, document)| document).collect();
        Found { items: Some(Rc::new(items)), bytes, is_cut }
    }
}
