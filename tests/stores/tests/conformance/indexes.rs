//! Indexes that are large, random or meant to hurt, held against a map of terms and sets.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fastrand::Rng;
use keepline_stores::{FailureCode, FoundMatches, IndexExtent, Outcome, Posting, TermMatches, limits};
use keepline_stores_tests::{on_every_store, requests::*, stores::StoreUnderTest};

const TERMS: u32 = 1 << 22;

/// An index as the contract has it, without a thought for cost.
#[derive(Default)]
struct Reference {
    next: u64,
    documents: BTreeMap<u64, Posting>,
    positions: BTreeMap<u32, BTreeSet<u64>>,
}

impl Reference {
    fn extent(&self) -> IndexExtent {
        IndexExtent { next: self.next, documents: self.documents.len() as u64 }
    }

    fn post(&mut self, documents: &[Posting]) -> Outcome {
        for document in documents {
            self.next = document.position + 1;
            self.documents.insert(document.position, document.clone());
            for term in &document.terms {
                self.positions.entry(*term).or_default().insert(document.position);
            }
        }
        Outcome::Indexed(self.extent())
    }

    fn unpost(&mut self, positions: &[u64]) -> Outcome {
        for position in positions {
            for term in self.documents.remove(position).map(|document| document.terms).unwrap_or_default() {
                self.positions.get_mut(&term).unwrap().remove(position);
            }
        }
        Outcome::Indexed(self.extent())
    }

    /// What is to be found from a position on.
    fn matches(&self, terms: &[u32], first: u64) -> FoundMatches {
        let mut marks = vec![0; usize::try_from(self.next - first).unwrap()];
        for (position, document) in self.documents.range(first..) {
            marks[usize::try_from(position - first).unwrap()] = document.mark;
        }
        let offsets = |term: &u32| {
            let found = self.positions.get(term).into_iter().flat_map(|at| at.range(first..));
            found.map(|position| u32::try_from(position - first).unwrap()).collect()
        };
        let terms = terms.iter().map(|term| TermMatches { offsets: offsets(term) }).collect();
        FoundMatches { extent: self.extent(), first, marks, terms }
    }

    /// The oldest position of which there is word, for so many bytes.
    fn first(&self, terms: &[u32], newest: u64, max_bytes: u64) -> u64 {
        let mut bytes = 0;
        let oldest = self.next.saturating_sub(newest.min(limits::MAX_NEWEST));
        let fits = |position: &u64| {
            let occurs = |term: &&u32| self.positions.get(term).is_some_and(|at| at.contains(position));
            bytes += 2 + 4 * terms.iter().filter(occurs).count() as u64;
            bytes <= max_bytes.min(limits::MAX_MATCH_BYTES)
        };
        (oldest..self.next).rev().take_while(fits).last().unwrap_or(self.next)
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
                    documents.push(Posting { position: next, mark: rng.u16(..), terms: terms(&mut rng, 60) });
                    next += 1;
                }
                let expected = reference.post(&documents);
                assert_eq!(s.apply_one("b", post("i", documents)).await, expected);
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
                let expected = reference.unpost(&positions);
                assert_eq!(s.apply_one("b", unpost("i", positions)).await, expected);
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
                let found = found_in(s.apply_one("b", find_within("i", &wanted, newest, max_bytes)).await);
                let first = reference.first(&wanted, newest, max_bytes);
                assert!(found == reference.matches(&wanted, first), "{wanted:?} {newest} {max_bytes}: {found:?}");
            }
        }
    }
    let description = s.describe("b").await;
    let bytes: usize = reference.positions.values().map(|at| 3 * at.len()).sum();
    assert_eq!(description.indexes[0].extent, reference.extent());
    assert_eq!(description.indexes[0].bytes, (4 * reference.documents.len() + bytes) as u64);
}

async fn a_hundred_thousand_documents_have_a_term_in_common(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    for batch in 0..10_u64 {
        let documents = (batch * 10_000..(batch + 1) * 10_000).map(|position| {
            let own = 1000 + u32::try_from(position).unwrap();
            document(position, &[7, own])
        });
        s.apply("b", existing(), [post("i", documents.collect::<Vec<_>>())]).await;
    }
    let found = found_in(s.apply_one("b", find("i", &[7, 1000, 100_999, 8])).await);
    assert_eq!((found.first, found.marks.len()), (0, 100_000));
    assert!(found.terms[0].offsets.iter().copied().eq(0..100_000));
    assert_eq!((&*found.terms[1].offsets, &*found.terms[2].offsets), (&[0][..], &[99_999][..]));
    assert_eq!(found.terms[3].offsets, [] as [u32; 0]);
    assert!(found.marks.iter().copied().eq((0..100_000).map(mark_of)));

    // The terms of the newest 256, and all that one may ask for.
    let wanted: Vec<_> = (100_744..101_000).collect();
    let found = found_in(s.apply_one("b", find("i", &wanted)).await);
    let offset = |n: u32| vec![n - 1000];
    assert!(found.terms.iter().zip(&wanted).all(|(term, n)| term.offsets == offset(*n)));

    let outcome = s.apply_one("b", unpost("i", (500..20_000).collect::<Vec<_>>())).await;
    assert_eq!(outcome, indexed(100_000, 80_500));
    let found = found_in(s.apply_one("b", find("i", &[7, 20_999, 21_000])).await);
    assert!(found.terms[0].offsets.iter().copied().eq((0..500).chain(20_000..100_000)));
    assert_eq!((&*found.terms[1].offsets, &*found.terms[2].offsets), (&[][..], &[20_000][..]));
    assert!(found.marks[500..20_000].iter().all(|mark| *mark == 0));
}

async fn documents_far_apart_are_kept_and_found(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    let at = |n: u64| n * (1 << 42) + n;
    let documents: Vec<_> = (0..2000).map(|n| document(at(n), &[5, 261])).collect();
    assert_eq!(s.apply_one("b", post("i", documents)).await, indexed(at(1999) + 1, 2000));
    let found = found_in(s.apply_one("b", find("i", &[261, 5])).await);
    assert_eq!((found.first, found.marks.len()), (at(1999) + 1 - limits::MAX_NEWEST, 131_072));
    assert!(found.terms.iter().all(|term| term.offsets == [131_071]));
    let some: Vec<_> = (0..32).map(at).collect();
    assert_eq!(s.apply_one("b", unpost("i", some)).await, indexed(at(1999) + 1, 1968));
    let refused = s.try_send(&transaction("b", existing(), [unpost("i", (0..33).map(at).collect::<Vec<_>>())])).await;
    assert_eq!(refused.unwrap_err().code, FailureCode::TooLarge);
}

async fn index_operations_that_would_take_long_are_refused_or_cut_short(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    let million: Vec<_> = (0..1_000_000).collect();
    let many: Vec<_> = (0..65).map(|n| document(n, &million[..512])).collect();
    for (asked, limit) in [
        (post("i", [document(0, &million)]), 512),
        (post("i", many), 32_768),
        (find("i", &million), 256),
        (unpost("i", (0..20_001).collect::<Vec<_>>()), 20_000),
    ] {
        let failure = s.try_send(&transaction("b", existing(), [asked])).await.unwrap_err();
        assert_eq!((failure.code, failure.limit), (FailureCode::TooLarge, limit));
    }
    // Terms that are alike in their lower bits, as many as there may be at each position: what a store may look at for
    // any of them is more than it reads.
    let alike: Vec<_> = (0..512).map(|n| n * 256).collect();
    let mut reference = Reference::default();
    for batch in 0..176 {
        let documents: Vec<_> = (batch * 64..(batch + 1) * 64).map(|position| document(position, &alike)).collect();
        reference.post(&documents);
        s.apply("b", existing(), [post("i", documents)]).await;
    }
    let found = found_in(s.apply_one("b", find("i", &[0, 1, 256])).await);
    assert!(found.first <= 11_264 - 8192, "{}", found.first);
    assert!(found == reference.matches(&[0, 1, 256], found.first));
    // However much there is around a document, it can be taken out.
    let positions: Vec<_> = (0..32).map(|n| n * 350).collect();
    let expected = reference.unpost(&positions);
    assert_eq!(s.apply_one("b", unpost("i", positions)).await, expected);
    let found = found_in(s.apply_one("b", find("i", &[511 * 256])).await);
    assert!(found == reference.matches(&[511 * 256], found.first));
}

on_every_store![
    random_index_operations_match_a_reference_made_of_sets,
    a_hundred_thousand_documents_have_a_term_in_common,
    documents_far_apart_are_kept_and_found,
    index_operations_that_would_take_long_are_refused_or_cut_short,
];
