//! Documents of a collection, and the passages of the asking session or user.
//!
//! A document's score is the cosine where it and the query have vectors of one model, otherwise the share of the query's
//! term weight that its text contains: 0 to 1. Vectors of the newest documents are compared, and those of documents with
//! words of the query.
//!
//! The filter writes a passage's terms to a log first, and moves them into the index in batches: both are searched.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    rc::Rc,
};

use keepline_recall::{PassageQuery, Posting, extract_terms};
use keepline_store_client::{Entry, FoundDocuments, LogRun, Span, bindings::keepline::store::indexes::TermHits, kind};

use super::{
    DataKind, STALE,
    indexed::{Reach, hits, records},
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
/// The newest passages' terms, which the index does not have yet.
const PASSAGE_TERMS: &str = "terms";
const UNINDEXED: u64 = 512;
const UNINDEXED_BYTES: u64 = 1 << 20;
/// Passages whose vectors are all compared, if there are no more.
const FEW_VECTORS: u64 = 512;
/// So many of the newest vectors are compared.
const COMPARED: u64 = 2_048;
/// So many documents with words of the query have their vectors compared, too.
const CANDIDATES: usize = 256;
/// A term is common where one of so many documents has it.
const COMMON: u64 = 8;
const BYTES: u64 = 4 << 20;

/// Where a read has its documents. The collections `session` and `user` are the asking ones' passages.
pub(super) fn read(asker: &Asker, query: &DocumentQuery) -> Option<(Bucket, Box<dyn ReadTask>)> {
    let own = match &*query.collection {
        "session" => Some((kind::SESSION, asker.session.clone())),
        "user" => Some((kind::USER, asker.user.clone())),
        _ => None,
    };
    let terms = PassageQuery::new(&query.text, 0, false).terms();
    let work = |places| DocumentsRead {
        query: query.clone(),
        terms: terms.clone(),
        places,
        progress: Progress::Start,
        newest: 0..0,
        weights: Vec::new(),
        unsure: BTreeSet::new(),
    };
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
    /// The share of the query's weight that each term has.
    weights: Vec<f64>,
    /// The newest passages, whose vectors are still to be compared.
    newest: Range<u64>,
    /// Documents of which only the rare terms are known: they are ranked as if they had the common ones, and their texts tell.
    unsure: BTreeSet<u64>,
}

/// `unseen` is the most that a document can score which was not looked at; none, if there is no such document.
enum Progress {
    Start,
    /// The newest hits are known, and where the rare ones of the terms are is asked for.
    Narrow {
        found: FoundDocuments,
        rare: Vec<u32>,
        stale: Vec<u64>,
        cosines: BTreeMap<u64, f64>,
        unseen: Option<f64>,
    },
    /// Scores are known but for the vectors of these candidates.
    Ranked {
        words: BTreeMap<u64, f64>,
        cosines: BTreeMap<u64, f64>,
        candidates: BTreeSet<u64>,
        unseen: Option<f64>,
    },
    /// The best, whose texts are read.
    Chosen {
        best: Vec<(u64, f64)>,
        unseen: Option<f64>,
    },
}

/// What a search found, and what the newest passages have of the terms, which stand behind all that is in the index.
fn with_unindexed(mut found: FoundDocuments, terms: &[u32], run: &LogRun) -> FoundDocuments {
    found.terms.resize_with(terms.len(), || TermHits { offsets: Vec::new() });
    for (position, text) in (run.first..).zip(&run.records) {
        let Some(posting) = Posting::from_text(text) else { continue };
        let Ok(offset) = u32::try_from(position.saturating_sub(found.from_position)) else { continue };
        found.extent.documents += 1;
        for (term, hits) in terms.iter().zip(&mut found.terms) {
            if posting.terms.binary_search(term).is_ok() {
                hits.offsets.push(offset);
            }
        }
    }
    found.extent.next = found.extent.next.max(run.extent.next());
    found
}

impl ReadTask for DocumentsRead {
    fn asks(&self) -> Vec<Ask> {
        let is_compared = self.query.vector.is_some();
        let mut asks = Vec::new();
        match &self.progress {
            Progress::Start => {
                if !self.terms.is_empty() {
                    let index = self.index();
                    asks.push(Ask::Search { index, terms: self.terms.clone(), reach: Reach::Newest });
                }
                match self.places {
                    Places::Collection => {
                        asks.push(Ask::Keys { map: STALE });
                        if is_compared {
                            asks.push(Ask::Newest { log: VECTORS, records: COMPARED, bytes: BYTES });
                        }
                    }
                    Places::Passages => {
                        asks.push(Ask::Newest { log: PASSAGE_TERMS, records: UNINDEXED, bytes: UNINDEXED_BYTES });
                        if is_compared {
                            asks.push(Ask::All { map: VECTORS, entries: FEW_VECTORS });
                        }
                    }
                }
            }
            Progress::Narrow { rare, .. } => {
                asks.push(Ask::Search { index: self.index(), terms: rare.clone(), reach: Reach::All });
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
                let (mut narrow, mut cosines, mut unseen) = (None, BTreeMap::new(), None);
                let (mut stale, mut has_many) = (Vec::new(), false);
                for reply in replies {
                    match reply {
                        Reply::Search(found) => narrow = Some(found),
                        Reply::Newest(run) if self.places == Places::Passages => {
                            let next = run.extent.next();
                            self.newest = next.saturating_sub(CANDIDATES as u64)..next;
                            narrow = narrow.map(|found| with_unindexed(found, &self.terms, &run));
                        }
                        Reply::All(Some(entries)) => cosines = self.cosines_of_entries(&entries),
                        Reply::All(None) => has_many = true,
                        Reply::Newest(run) => {
                            unseen = ((run.records.len() as u64) < run.extent.length).then_some(1.0);
                            cosines = self.cosines(vec![run]);
                        }
                        Reply::Keys(keys) => stale.extend(keys.iter().filter_map(|key| key.parse::<u64>().ok())),
                        _ => {}
                    }
                }
                if has_many {
                    unseen = Some(1.0);
                } else {
                    self.newest = 0..0;
                }
                let Some(found) = narrow else { return self.rank(BTreeMap::new(), cosines, &stale, unseen) };
                let rare = self.rare_terms(&found, &stale);
                if rare.is_empty() {
                    let words = self.word_scores(&found, None);
                    let unseen = unseen.or_else(|| (found.from_position > 0).then_some(1.0));
                    return self.rank(words, cosines, &stale, unseen);
                }
                self.progress = Progress::Narrow { found, rare, stale, cosines, unseen };
                None
            }
            Progress::Narrow { found, rare, stale, cosines, unseen } => {
                let wide = replies.into_iter().find_map(|reply| match reply {
                    Reply::Search(wide) => Some(wide),
                    _ => None,
                });
                let words = self.word_scores(&found, wide.as_ref().map(|wide| (wide, &*rare)));
                let is_whole = wide.is_some_and(|wide| wide.from_position == 0);
                let unseen = unseen.or_else(|| Some(if is_whole { self.weight_without(&rare) } else { 1.0 }));
                self.rank(words, cosines, &stale, unseen)
            }
            Progress::Ranked { words, mut cosines, unseen, .. } => {
                for reply in replies {
                    match reply {
                        Reply::At(runs) => cosines.extend(self.cosines(runs)),
                        Reply::Entries(entries) => cosines.extend(self.cosines_of_entries(&entries)),
                        _ => {}
                    }
                }
                self.choose(words, &cosines, unseen)
            }
            Progress::Chosen { best, unseen } => {
                let Some(Reply::At(runs)) = replies.into_iter().next() else { return Some(Found::default()) };
                Some(self.documents(runs, &best, unseen))
            }
        }
    }
}

impl DocumentsRead {
    fn index(&self) -> &'static str {
        if self.places == Places::Collection { TERMS } else { RECALL }
    }

    /// Of a search that did not come to the oldest documents, the terms that few of those have which it came to: they weigh
    /// most, and the others' hits would fill the reply. None: it came to all, all terms are common, or as many documents as
    /// are wanted have all terms, so that no older one is better.
    fn rare_terms(&self, found: &FoundDocuments, stale: &[u64]) -> Vec<u32> {
        if found.from_position == 0 {
            return Vec::new();
        }
        if self.query.vector.is_none() {
            let hits = hits(found);
            let has_all =
                |(position, terms): &(&u64, &Vec<usize>)| terms.len() == self.terms.len() && !stale.contains(position);
            if hits.iter().filter(has_all).count() >= self.query.top_k {
                return Vec::new();
            }
        }
        let looked_at = found.extent.next.saturating_sub(found.from_position);
        let is_rare = |hits: usize| (hits as u64).saturating_mul(COMMON) < looked_at;
        let terms = self.terms.iter().zip(&found.terms).filter(|(_, places)| is_rare(places.offsets.len()));
        terms.map(|(term, _)| *term).collect()
    }

    /// The share of the query's weight that the other terms have.
    fn weight_without(&self, rare: &[u32]) -> f64 {
        let others = self.terms.iter().zip(&self.weights).filter(|(term, _)| !rare.contains(term));
        others.map(|(_, weight)| weight).sum()
    }

    /// The share of the query's term weight at each position. A term weighs the more the fewer documents have it. `wide`: a
    /// search for some of the terms that came further.
    fn word_scores(&mut self, found: &FoundDocuments, wide: Option<(&FoundDocuments, &[u32])>) -> BTreeMap<u64, f64> {
        let looked_at = found.extent.next.saturating_sub(found.from_position).max(1);
        #[expect(clippy::cast_precision_loss, reason = "counts of documents")]
        let weight = |hits: usize, of_all: bool| {
            // Where only the newest were looked at, the older ones are as they are.
            let share = if of_all { 1.0 } else { found.extent.next.max(1) as f64 / looked_at as f64 };
            (1.0 + (found.extent.documents as f64 + 1.0) / (hits as f64 * share + 0.5)).ln()
        };
        let wide_hits = |term: u32| {
            let (wide, terms) = wide?;
            wide.terms.get(terms.iter().position(|other| *other == term)?)
        };
        let of_terms = self.terms.iter().zip(&found.terms);
        let weights: Vec<_> = of_terms
            .map(|(term, narrow)| match wide_hits(*term) {
                Some(wide) => weight(wide.offsets.len(), true),
                None => weight(narrow.offsets.len(), found.from_position == 0),
            })
            .collect();
        let total: f64 = weights.iter().sum();
        let weights: Vec<f64> = weights.into_iter().map(|weight| weight / total).collect();
        let share = |terms: Vec<usize>| terms.iter().filter_map(|term| weights.get(*term)).sum::<f64>();
        let mut shares: BTreeMap<u64, f64> =
            hits(found).into_iter().map(|(position, terms)| (position, share(terms))).collect();
        if let Some((wide, terms)) = wide {
            // What both found is counted already.
            let missing = |of_wide: &[usize]| {
                let missing =
                    (0..terms.len()).filter(|place| !of_wide.contains(place)).filter_map(|place| terms.get(place));
                share(missing.filter_map(|term| self.terms.iter().position(|other| other == term)).collect())
            };
            for (position, of_wide) in hits(wide).range(..found.from_position) {
                shares.insert(*position, 1.0 - missing(of_wide));
                self.unsure.insert(*position);
            }
        }
        self.weights = weights;
        shares
    }

    /// Goes on with the scores by words, and with vectors for the best of them.
    fn rank(
        &mut self,
        mut words: BTreeMap<u64, f64>,
        mut cosines: BTreeMap<u64, f64>,
        stale: &[u64],
        unseen: Option<f64>,
    ) -> Option<Found> {
        words.retain(|position, _| !stale.contains(position));
        cosines.retain(|position, _| !stale.contains(position));
        let mut candidates: Vec<_> = words.iter().filter(|(position, _)| !cosines.contains_key(position)).collect();
        candidates.sort_by(|(_, one), (_, two)| two.total_cmp(one));
        let best = candidates.into_iter().map(|(position, _)| *position).take(CANDIDATES);
        let candidates: BTreeSet<_> = best.chain(self.newest.clone()).collect();
        if self.query.vector.is_some() && !candidates.is_empty() {
            self.progress = Progress::Ranked { words, cosines, candidates, unseen };
            return None;
        }
        self.choose(words, &cosines, unseen)
    }

    fn cosines(&self, runs: Vec<LogRun>) -> BTreeMap<u64, f64> {
        let Some(vector) = &self.query.vector else { return BTreeMap::new() };
        let each = records(runs)
            .filter_map(|(position, record, _)| Some((position, f64::from(vector.similarity(record.as_text()?)?))));
        each.collect()
    }

    fn cosines_of_entries(&self, entries: &[Entry]) -> BTreeMap<u64, f64> {
        let Some(vector) = &self.query.vector else { return BTreeMap::new() };
        let cosine = |entry: &Entry| Some((entry.key.parse().ok()?, f64::from(vector.similarity(&entry.text)?)));
        entries.iter().filter_map(cosine).collect()
    }

    /// The best of those that score enough; of equals, more than are wanted, for ids decide.
    fn choose(
        &mut self,
        words: BTreeMap<u64, f64>,
        cosines: &BTreeMap<u64, f64>,
        mut unseen: Option<f64>,
    ) -> Option<Found> {
        let mut scores = words;
        self.unsure.retain(|position| !cosines.contains_key(position));
        scores.extend(cosines.iter().map(|(position, cosine)| (*position, *cosine)));
        let mut best: Vec<_> = scores.into_iter().filter(|(_, score)| *score >= self.query.min_score).collect();
        best.sort_by(|(_, one), (_, two)| two.total_cmp(one));
        if let Some((_, last)) = best.get(self.query.top_k.saturating_sub(1)).copied() {
            let ties = best.iter().take_while(|(_, score)| score.total_cmp(&last) != Ordering::Less).count();
            let read = ties.min(self.query.top_k.saturating_mul(2).max(CANDIDATES));
            // What is not read may turn out better than what was ranked by its rare terms alone.
            if let Some((_, next)) = best.get(read) {
                unseen = Some(unseen.map_or(*next, |unseen| unseen.max(*next)));
            }
            best.truncate(read);
        }
        if best.is_empty() {
            return Some(self.found(Vec::new(), 0, unseen));
        }
        self.progress = Progress::Chosen { best, unseen };
        None
    }

    /// What is found, best first, is cut where a document that was not looked at may be better.
    fn found(&self, documents: Vec<(f64, Rc<str>, Value)>, bytes: usize, unseen: Option<f64>) -> Found {
        let last = documents.get(self.query.top_k.saturating_sub(1)).map(|(score, ..)| *score);
        let is_better = |unseen: f64| unseen >= self.query.min_score && last.is_none_or(|last| unseen > last);
        let items = documents.into_iter().map(|(_, _, document)| document).collect();
        Found { items: Some(Rc::new(items)), bytes, is_cut: unseen.is_some_and(is_better) }
    }

    /// The share of the query's term weight that a text contains.
    fn share_of(&self, text: &str) -> f64 {
        let terms = extract_terms(text);
        let weights = self.terms.iter().zip(&self.weights).filter(|(term, _)| terms.contains(term));
        weights.map(|(_, weight)| weight).sum()
    }

    fn documents(&self, runs: Vec<LogRun>, best: &[(u64, f64)], unseen: Option<f64>) -> Found {
        let scores: BTreeMap<u64, f64> = best.iter().copied().collect();
        let mut bytes = 0;
        let mut documents: Vec<(f64, Rc<str>, Value)> = Vec::new();
        for (position, record, length) in records(runs) {
            let Some(mut score) = scores.get(&position).copied() else { continue };
            if self.unsure.contains(&position) {
                score = self.share_of(record.member("text").and_then(Value::as_text).unwrap_or_default());
                if score < self.query.min_score {
                    continue;
                }
            }
            let id = match self.places {
                Places::Collection => record.member("id").and_then(Value::as_text).unwrap_or_default().into(),
                Places::Passages => Rc::from(position.to_string()),
            };
            bytes += length;
            let text = record.member("text").cloned().unwrap_or_default();
            let mut members = vec![("id", Value::Text(Rc::clone(&id))), ("text", text), ("score", Value::from(score))];
            match self.places {
                Places::Collection => {
                    members.extend(record.member("metadata").map(|metadata| ("metadata", metadata.clone())));
                }
                Places::Passages => {
                    members.extend(record.member("at").map(|at| ("timestamp", at.clone())));
                    members.extend(record.member("role").map(|role| ("role", role.clone())));
                }
            }
            documents.push((score, id, Value::object(members)));
        }
        documents.sort_by(|(one, first, _), (two, second, _)| two.total_cmp(one).then_with(|| first.cmp(second)));
        documents.truncate(self.query.top_k);
        self.found(documents, bytes, unseen)
    }
}
