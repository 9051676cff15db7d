//! Indexes that are large, random or meant to hurt, held against a map of terms and sets.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use fastrand::Rng;
use keepline_stores::{Document, FailureCode, FoundDocuments, IndexExtent, MarkRun, TermHits, limits};
use keepline_stores_tests::{on_every_store, requests::*, stores::StoreUnderTest};

const TERMS: u32 = 1 << 22;

/// An index as the contract has it, without a thought for cost.
#[derive(Clone, Default)]
struct Reference {
    next: u64,
    documents: BTreeMap<u64, Document>,
    positions: BTreeMap<u32, BTreeSet<u64>>,
}

impl Reference {
    fn extent(&self) -> IndexExtent {
        let occurrences = self.positions.values().map(BTreeSet::len).sum::<usize>();
        index_at(self.next, self.documents.len() as u64, occurrences as u64)
    }

    /// What a step that writes is answered with.
    fn written(&self) -> FoundDocuments {
        FoundDocuments { extent: self.extent(), from_position: self.next, runs: vec![], terms: vec![] }
    }

    fn add_documents(&mut self, documents: &[Document]) -> FoundDocuments {
        for document in documents {
            self.next = document.position + 1;
            self.documents.insert(document.position, document.clone());
            for term in &document.terms {
                self.positions.entry(*term).or_default().insert(document.position);
            }
        }
        self.written()
    }

    fn remove_documents(&mut self, positions: &[u64]) -> FoundDocuments {
        for position in positions {
            for term in self.documents.remove(position).map(|document| document.terms).unwrap_or_default() {
                self.positions.get_mut(&term).unwrap().remove(position);
            }
        }
        self.written()
    }

    /// Positions from this one on where a term occurs.
    fn hits(&self, terms: &[u32], from: u64) -> BTreeSet<u64> {
        terms.iter().filter_map(|term| self.positions.get(term)).flat_map(|at| at.range(from..)).copied().collect()
    }

    /// What is to be found from a position on.
    fn found(&self, terms: &[u32], from_position: u64, around: u64) -> FoundDocuments {
        let near: BTreeSet<u64> = self
            .hits(terms, from_position)
            .into_iter()
            .flat_map(|hit| hit.saturating_sub(around).max(from_position)..(hit + around + 1).min(self.next))
            .collect();
        let near: Vec<_> = near.into_iter().collect();
        let offset = |position: u64| u32::try_from(position - from_position).unwrap();
        let mark = |position: &u64| self.documents.get(position).map_or(0, |document| document.mark);
        let runs = near.chunk_by(|one, other| one + 1 == *other);
        let offsets = |term: &u32| {
            let at = self.positions.get(term).into_iter().flat_map(|at| at.range(from_position..));
            at.map(|position| offset(*position)).collect()
        };
        FoundDocuments {
            extent: self.extent(),
            from_position,
            runs: runs.map(|run| MarkRun { offset: offset(run[0]), marks: run.iter().map(mark).collect() }).collect(),
            terms: terms.iter().map(|term| TermHits { offsets: offsets(term) }).collect(),
        }
    }

    /// The same from the oldest position on for which it fits into so many bytes.
    fn found_within(&self, terms: &[u32], newest: u64, around: u32, max_bytes: u64) -> FoundDocuments {
        let around = around.min(limits::MAX_AROUND).into();
        let oldest = self.next.saturating_sub(newest.min(limits::MAX_NEWEST));
        let near_hits =
            self.hits(terms, oldest).into_iter().flat_map(|hit| hit.saturating_sub(around).max(oldest)..=hit + 1);
        let firsts: BTreeSet<_> = [oldest].into_iter().chain(near_hits).collect();
        let fits = |found: &FoundDocuments| {
            let marks: usize = found.runs.iter().map(|run| 8 + 2 * run.marks.len()).sum();
            let occurrences: usize = found.terms.iter().map(|term| 4 * term.offsets.len()).sum();
            (marks + occurrences) as u64 <= max_bytes.min(limits::MAX_SEARCH_BYTES)
        };
        // What is returned grows with each position further down.
        let firsts: Vec<_> = firsts.into_iter().collect();
        let place = firsts.partition_point(|first| !fits(&self.found(terms, *first, around)));
        self.found(terms, firsts[place], around)
    }
}

/// Terms of a document: some that many have, some that few have, some that are alike in all bits but a few.
fn terms(rng: &mut Rng, most: usize) -> Vec<u32> {
    let term = |rng: &mut Rng| match rng.u32(0..4) {
        0 => rng.u32(0..10),
        1 => rng.u32(0..300) * 256,
        2 => TERMS - 1 - rng.u32(0..300),
        _ => rng.u32(0..TERMS),
    };
    let terms: BTreeSet<_> = (0..rng.usize(0..=most)).map(|_| term(rng)).collect();
    terms.into_iter().collect()
}

async fn random_index_operations_match_a_reference_made_of_sets(s: Arc<StoreUnderTest>) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let mut reference = Reference::default();
    s.apply("b", create(), []).await;
    for _ in 0..200 {
        match rng.u32(0..4) {
            0 | 1 => {
                let mut next = reference.next + if rng.u32(0..8) == 0 { rng.u64(0..3000) } else { 0 };
                let mut documents = Vec::new();
                for _ in 0..rng.usize(0..80) {
                    next += if rng.u32(0..10) == 0 { rng.u64(0..40) } else { 0 };
                    documents.push(Document { position: next, mark: rng.u16(..), terms: terms(&mut rng, 60) });
                    next += 1;
                }
                let expected = reference.add_documents(&documents);
                assert_eq!(s.apply_step("b", add_documents("i", documents)).await, expected);
            }
            2 => {
                let mut positions = Vec::new();
                for _ in 0..rng.usize(0..8) {
                    let first = rng.u64(0..reference.next + 10);
                    let most = [1, 1, 20, 2500][rng.usize(0..4)];
                    positions.extend(first..first + rng.u64(0..=most));
                }
                positions.sort_unstable();
                // As many runs as a call may have.
                let mut runs = 0;
                let mut last = None;
                positions.retain(|position| {
                    let goes_on = last == Some(*position) || position % 1024 != 0 && last == position.checked_sub(1);
                    runs += usize::from(!goes_on);
                    last = Some(*position);
                    runs <= 32
                });
                rng.shuffle(&mut positions);
                let expected = reference.remove_documents(&positions);
                assert_eq!(s.apply_step("b", remove_documents("i", positions)).await, expected);
            }
            _ => {
                let mut wanted: Vec<_> = reference.positions.keys().copied().collect();
                rng.shuffle(&mut wanted);
                wanted.truncate(rng.usize(0..20));
                let other = rng.u32(0..TERMS);
                if !wanted.contains(&other) {
                    wanted.push(other);
                }
                let newest = if rng.bool() { ALL } else { rng.u64(0..reference.next + 5) };
                let max_bytes = if rng.bool() { ALL } else { rng.u64(0..10_000) };
                let around = rng.u32(0..10);
                let found = s.apply_step("b", search_within("i", &wanted, newest, around, max_bytes)).await;
                let expected = reference.found_within(&wanted, newest, around, max_bytes);
                assert!(found == expected, "{wanted:?} {newest} {around} {max_bytes}: {found:?}, not {expected:?}");
                let (first, count) = (rng.u64(0..reference.next + 5), rng.u32(0..3000));
                let marked = s.apply_step("b", read_marks("i", first, count)).await;
                let positions = first..(first + u64::from(count)).min(reference.next);
                let marks: Vec<_> =
                    positions.map(|at| reference.documents.get(&at).map_or(0, |one| one.mark)).collect();
                let told = marked.runs.into_iter().flat_map(|run| run.marks).collect::<Vec<_>>();
                assert_eq!(told, marks, "{count} from {first}");
            }
        }
    }
    let description = s.describe("b").await;
    let bytes: usize = reference.positions.values().map(|at| 3 * at.len()).sum();
    let index = &description.parts[0];
    assert_eq!((index.position, index.count), (reference.next, reference.documents.len() as u64));
    assert_eq!(index.bytes, (4 * reference.documents.len() + bytes) as u64);
}

async fn a_hundred_thousand_documents_have_a_term_in_common(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    for batch in 0..10_u64 {
        let documents = (batch * 10_000..(batch + 1) * 10_000).map(|position| {
            let own = 1000 + u32::try_from(position).unwrap();
            document(position, &[7, own])
        });
        s.apply("b", existing(), add_documents("i", documents.collect::<Vec<_>>())).await;
    }
    let found = s.apply_step("b", search("i", &[7, 1000, 100_999, 8])).await;
    assert_eq!((found.from_position, found.runs.len(), found.runs[0].marks.len()), (0, 1, 100_000));
    assert!(found.terms[0].offsets.iter().copied().eq(0..100_000));
    assert_eq!((&*found.terms[1].offsets, &*found.terms[2].offsets), (&[0][..], &[99_999][..]));
    assert_eq!(found.terms[3].offsets, [] as [u32; 0]);
    assert!(found.runs[0].marks.iter().copied().eq((0..100_000).map(mark_of)));

    // The terms of the newest 256, and all that one may ask for.
    let wanted: Vec<_> = (100_744..101_000).collect();
    let found = s.apply_step("b", search("i", &wanted)).await;
    let offset = |n: u32| vec![n - 1000];
    assert!(found.terms.iter().zip(&wanted).all(|(term, n)| term.offsets == offset(*n)));

    let outcome = s.apply_step("b", remove_documents("i", (500..20_000).collect::<Vec<_>>())).await;
    assert_eq!(outcome, indexed(100_000, 80_500, 161_000));
    let found = s.apply_step("b", search("i", &[7, 20_999, 21_000])).await;
    assert!(found.terms[0].offsets.iter().copied().eq((0..500).chain(20_000..100_000)));
    assert_eq!((&*found.terms[1].offsets, &*found.terms[2].offsets), (&[][..], &[20_000][..]));
    let lengths = found.runs.iter().map(|run| (run.offset, run.marks.len()));
    assert!(lengths.eq([(0, 500), (20_000, 80_000)]));
}

async fn documents_far_apart_are_kept_and_found(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    let at = |n: u64| n * (1 << 42) + n;
    let documents: Vec<_> = (0..2000).map(|n| document(at(n), &[5, 261])).collect();
    assert_eq!(s.apply_step("b", add_documents("i", documents)).await, indexed(at(1999) + 1, 2000, 4000));
    let found = s.apply_step("b", search("i", &[261, 5])).await;
    assert_eq!(found.from_position, at(1999) + 1 - limits::MAX_NEWEST);
    assert!(found.terms.iter().all(|term| term.offsets == [131_071]));
    let some: Vec<_> = (0..32).map(at).collect();
    assert_eq!(s.apply_step("b", remove_documents("i", some)).await, indexed(at(1999) + 1, 1968, 3936));
    let refused =
        s.try_send(&transaction("b", existing(), remove_documents("i", (0..33).map(at).collect::<Vec<_>>()))).await;
    assert_eq!(refused.unwrap_err().code, FailureCode::TooLarge);
}

/// As many terms as there may be at each position, alike in their lower bits: what a store may look at for any of them is
/// more than it reads. Made once for all stores, of six million occurrences.
struct Crowded {
    batches: Vec<Vec<Document>>,
    /// What an index with all of the batches is.
    whole: Reference,
    /// Some that are taken out of it, what that is answered with, and what is left.
    positions: Vec<u64>,
    removed: FoundDocuments,
    rest: Reference,
}

static CROWDED: LazyLock<Crowded> = LazyLock::new(|| {
    let alike: Vec<_> = (0..512).map(|n| n * 256).collect();
    let batch = |batch: u64| (batch * 64..(batch + 1) * 64).map(|position| document(position, &alike)).collect();
    let batches: Vec<Vec<_>> = (0..176).map(batch).collect();
    let mut whole = Reference::default();
    for batch in &batches {
        whole.add_documents(batch);
    }
    let positions: Vec<_> = (0..32).map(|n| n * 350).collect();
    let mut rest = whole.clone();
    let removed = rest.remove_documents(&positions);
    Crowded { batches, whole, positions, removed, rest }
});

async fn index_operations_that_would_take_long_are_refused_or_cut_short(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    let million: Vec<_> = (0..1_000_000).collect();
    let many: Vec<_> = (0..65).map(|n| document(n, &million[..512])).collect();
    for (asked, limit) in [
        (add_documents("i", [document(0, &million)]), 512),
        (add_documents("i", many), 32_768),
        (search("i", &million), 256),
        (remove_documents("i", (0..20_001).collect::<Vec<_>>()), 20_000),
    ] {
        let failure = s.try_send(&transaction("b", existing(), asked)).await.unwrap_err();
        assert_eq!((failure.code, failure.limit), (FailureCode::TooLarge, limit));
    }
    let Crowded { batches, whole, positions, removed, rest } = &*CROWDED;
    for batch in batches {
        s.apply("b", existing(), add_documents("i", batch.clone())).await;
    }
    let found = s.apply_step("b", search("i", &[0, 1, 256])).await;
    assert!(found.from_position <= 11_264 - 8192, "{}", found.from_position);
    assert!(found == whole.found(&[0, 1, 256], found.from_position, 0));
    // However much there is around a document, it can be taken out.
    assert_eq!(s.apply_step("b", remove_documents("i", &**positions)).await, *removed);
    let found = s.apply_step("b", search("i", &[511 * 256])).await;
    assert!(found == rest.found(&[511 * 256], found.from_position, 0));
}

on_every_store![
    random_index_operations_match_a_reference_made_of_sets,
    a_hundred_thousand_documents_have_a_term_in_common,
    documents_far_apart_are_kept_and_found,
    index_operations_that_would_take_long_are_refused_or_cut_short,
];
