//! Indexes of the store for tests: they keep the contract that recall relies on.

use keepline_filter::contract::*;

use crate::fake::Fake;

const BUCKET: Bucket<'static> = Bucket { kind: BucketKind::User, name: "u1" };
const INDEX: &str = "terms";
const LARGE: u64 = 1 << 20;

/// What a new or existing bucket answers to one operation.
fn told(fake: &Fake, operation: Operation<'_>) -> Result<Outcome, Failure> {
    let opening = Opening::Create { time_to_live: None };
    let operations = [operation];
    let transaction = Transaction { bucket: BUCKET, opening, expectations: &[], operations: &operations };
    Ok(fake.transact(&transaction)?.outcomes.remove(0))
}

fn post(fake: &Fake, documents: &[(u64, u16, &[u32])]) -> Result<Outcome, Failure> {
    let posting = |&(position, mark, terms): &(u64, u16, _)| Posting { position, mark, terms };
    let documents: Vec<_> = documents.iter().map(posting).collect();
    told(fake, Operation::Post { index: INDEX, documents: &documents })
}

fn indexed(next: u64, documents: u64) -> Result<Outcome, Failure> {
    Ok(Outcome::Indexed(IndexExtent { next, documents }))
}

fn found(fake: &Fake, terms: &[u32], newest: u64, max_bytes: u64) -> (u64, Vec<u16>, Vec<Vec<u32>>) {
    match told(fake, Operation::Match { index: INDEX, terms, newest, max_bytes }).unwrap() {
        Outcome::Matches(FoundMatches { first, marks, terms, .. }) => (first, marks, terms),
        other => panic!("{other:?} is no match"),
    }
}

#[test]
fn documents_are_found_by_their_terms() {
    let fake = Fake::new();
    assert_eq!(found(&fake, &[1, 2], LARGE, LARGE), (0, vec![], vec![vec![], vec![]]), "an index that is not there");
    assert_eq!(post(&fake, &[(3, 7, &[1, 2]), (5, 8, &[]), (6, 9, &[2, 4])]), indexed(7, 3));
    let all = (0, vec![0, 0, 0, 7, 0, 8, 9], vec![vec![3, 6], vec![], vec![3]]);
    assert_eq!(found(&fake, &[2, 3, 1], LARGE, LARGE), all, "in the order asked for");
    assert_eq!(found(&fake, &[2], 2, LARGE), (5, vec![8, 9], vec![vec![1]]), "among the newest only");
    assert_eq!(found(&fake, &[2], 0, LARGE), (7, vec![], vec![vec![]]));
}

#[test]
fn a_reply_that_is_too_long_leaves_out_the_oldest_positions() {
    let fake = Fake::new();
    post(&fake, &[(0, 1, &[5]), (1, 2, &[5]), (2, 3, &[6])]).unwrap();
    assert_eq!(found(&fake, &[5], LARGE, 14), (0, vec![1, 2, 3], vec![vec![0, 1]]));
    assert_eq!(found(&fake, &[5], LARGE, 13), (1, vec![2, 3], vec![vec![0]]));
    assert_eq!(found(&fake, &[5], LARGE, 1), (3, vec![], vec![vec![]]));
}

#[test]
fn a_position_is_never_free_again() {
    let fake = Fake::new();
    post(&fake, &[(0, 1, &[5]), (4, 2, &[5])]).unwrap();
    let unpost = Operation::Unpost { index: INDEX, positions: &[4, 9, 4] };
    assert_eq!(told(&fake, unpost), indexed(5, 1), "unknown and repeated positions are skipped");
    assert_eq!(found(&fake, &[5], LARGE, LARGE), (0, vec![1, 0, 0, 0, 0], vec![vec![0]]));
    let refused = post(&fake, &[(4, 3, &[5])]).unwrap_err();
    assert_eq!((refused.code, &*refused.subject), (FailureCode::Invalid, INDEX));
    assert_eq!(post(&fake, &[]), indexed(5, 1));
    assert_eq!(post(&fake, &[(5, 3, &[5])]), indexed(6, 2));
}

#[test]
fn looking_at_an_absent_session_does_not_create_it() {
    let fake = Fake::new();
    assert_eq!(told(&fake, Operation::Unpost { index: INDEX, positions: &[1] }), indexed(0, 0));
    assert_eq!(post(&fake, &[]), indexed(0, 0));
    found(&fake, &[1], LARGE, LARGE);
    assert!(fake.buckets.borrow().values().all(|bucket| bucket.indexes.is_empty()));
}

#[test]
fn a_store_without_indexes_says_so_and_changes_nothing() {
    let fake = Fake::new();
    fake.capabilities.set(Some(Capabilities { indexes: false, ..fake.capabilities() }));
    for operation in [
        Operation::Post { index: INDEX, documents: &[] },
        Operation::Unpost { index: INDEX, positions: &[] },
        Operation::Match { index: INDEX, terms: &[], newest: 1, max_bytes: 1 },
    ] {
        let refused = told(&fake, operation).unwrap_err();
        assert_eq!((refused.code, &*refused.subject), (FailureCode::Unsupported, "indexes"));
    }
    assert!(fake.buckets.borrow().is_empty());
}
