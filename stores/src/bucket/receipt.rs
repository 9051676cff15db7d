//! Receipts: how a transaction is answered, beside its outcomes.

use crate::{Opening, Outcome, Receipt, Status};

/// The answer of a bucket that is there, as this incarnation.
pub(crate) fn receipt(
    status: Status,
    now: u64,
    opening: &Opening,
    incarnation: &str,
    outcomes: Vec<Outcome>,
) -> Receipt {
    // Who named the incarnation is told it only if it is another.
    let is_named = matches!(opening, Opening::Existing(asked) if asked.incarnation.is_some());
    let is_known = is_named && status != Status::AnotherLife;
    let incarnation = if is_known { String::new() } else { incarnation.to_owned() };
    Receipt { status, now, incarnation, created: false, unmet: None, outcomes }
}

/// The answer where there is no bucket.
pub(crate) fn receipt_without(status: Status, now: u64) -> Receipt {
    Receipt { status, now, incarnation: String::new(), created: false, unmet: None, outcomes: Vec::new() }
}
