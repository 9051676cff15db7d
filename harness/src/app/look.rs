//! Reads facts about a bucket without counting a use of it.

use keepline::store::{
    BucketId, BucketKind, DescribeOperation, Description, ExistingBucket, Operation, Outcome, Precondition, Receipt,
    Transaction,
};

/// Reads an existing bucket.
pub fn read_only_transaction(kind: BucketKind, name: &str, operation: Operation) -> Transaction {
    Transaction {
        bucket: BucketId { kind, name: name.to_owned() },
        precondition: Precondition::Existing(ExistingBucket { generation: None, renew: false }),
        expectations: Vec::new(),
        operations: vec![operation],
    }
}

/// Describes the parts of a bucket.
pub fn describe(kind: BucketKind, name: &str) -> Transaction {
    read_only_transaction(kind, name, Operation::Describe(DescribeOperation { parts: true }))
}

/// The description that [`describe`] asked for. `None`: the bucket does not exist.
pub fn bucket_description(receipt: Receipt) -> Option<Description> {
    receipt.outcomes.into_iter().find_map(|outcome| match outcome {
        Outcome::Described(description) => Some(description),
        _ => None,
    })
}
