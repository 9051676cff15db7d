//! Reads facts about a bucket without counting a use of it.

use keepline::store::{
    BucketId, DescribeOperation, Description, ExistingBucket, IndexedReceipt, IndexedTransaction, Operation, Outcome,
    Precondition, Transaction,
};

/// Reads an existing bucket.
pub fn read_only_transaction(kind: &str, name: &str, operation: Operation) -> IndexedTransaction {
    let transaction = Transaction {
        bucket: BucketId::new(kind, name),
        precondition: Precondition::Existing(ExistingBucket { generation: None, renew: false }),
        expectations: Vec::new(),
        operations: vec![operation],
    };
    transaction.into()
}

/// Describes the parts of a bucket.
pub fn describe(kind: &str, name: &str) -> IndexedTransaction {
    read_only_transaction(kind, name, Operation::Describe(DescribeOperation { parts: true }))
}

/// The description that [`describe`] asked for. `None`: the bucket does not exist.
pub fn bucket_description(receipt: IndexedReceipt) -> Option<Description> {
    receipt.receipt.outcomes.into_iter().find_map(|outcome| match outcome {
        Outcome::Described(description) => Some(description),
        _ => None,
    })
}
