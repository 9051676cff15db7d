//! Opens a bucket for a transaction (checks 2 and 3 of the contract, which come before expectations), and makes the
//! receipt that answers it.

use crate::{IndexedTransaction, Outcome, Precondition, Receipt, Status};

/// Where a bucket is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FoundBucket<'a> {
    Absent,
    /// Its time has run out, which no reply has said yet.
    Expired,
    /// It is there, as this generation.
    Alive(&'a str),
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PreconditionDecision {
    /// Apply the operations to the bucket.
    Use,
    /// Answer from what is there, and write nothing.
    Repeat,
    /// Apply them to a bucket that is not there yet.
    Create,
    /// The same, in the place of the one that is there.
    Replace,
    /// Do nothing and say why.
    Refuse(Status),
}

/// `repeated`: whether an earlier try of the same call was applied.
pub(crate) fn decide_precondition(
    precondition: &Precondition,
    found: FoundBucket<'_>,
    repeated: bool,
) -> PreconditionDecision {
    let gone = match found {
        FoundBucket::Absent => Status::Absent,
        FoundBucket::Expired => Status::Expired,
        FoundBucket::Alive(generation) => {
            return match precondition {
                Precondition::Existing(asked)
                    if asked.generation.as_ref().is_some_and(|asked| *asked != generation) =>
                {
                    PreconditionDecision::Refuse(Status::GenerationMismatch)
                }
                // Before all else that could tell an earlier try from this one.
                _ if repeated => PreconditionDecision::Repeat,
                Precondition::Existing(_) | Precondition::Create(_) => PreconditionDecision::Use,
                Precondition::CreateNew(_) => PreconditionDecision::Refuse(Status::Exists),
                Precondition::Replace(_) => PreconditionDecision::Replace,
            };
        }
    };
    // A late repetition revives nothing.
    if repeated || matches!(precondition, Precondition::Existing(_)) {
        PreconditionDecision::Refuse(gone)
    } else {
        PreconditionDecision::Create
    }
}

/// Whether a transaction may write to a bucket that is there: one that can't is no repetition.
pub(crate) fn may_write(request: &IndexedTransaction) -> bool {
    let precondition = &request.transaction.precondition;
    matches!(precondition, Precondition::CreateNew(_) | Precondition::Replace(_)) || request.has_writes()
}

/// Whether a transaction with this precondition starts a sliding time to live again.
pub(crate) fn renews_expiry(precondition: &Precondition) -> bool {
    !matches!(precondition, Precondition::Existing(life) if !life.renew)
}

/// The answer of a bucket that is there, as this generation.
pub(crate) fn build_receipt(
    status: Status,
    now: u64,
    precondition: &Precondition,
    generation: &str,
    outcomes: Vec<Outcome>,
) -> Receipt {
    // A caller that named the generation is given it only if it is another.
    let is_named = matches!(precondition, Precondition::Existing(asked) if asked.generation.is_some());
    let is_known = is_named && status != Status::GenerationMismatch;
    let generation = (!is_known).then(|| generation.to_owned());
    Receipt { status, now, generation, created: false, unmet: None, outcomes }
}

/// The answer where there is no bucket.
pub(crate) fn receipt_without(status: Status, now: u64) -> Receipt {
    Receipt { status, now, generation: None, created: false, unmet: None, outcomes: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExistingBucket, NewBucket};

    #[test]
    fn a_precondition_is_decided_as_the_contract_specifies() {
        use PreconditionDecision::{Create, Refuse, Repeat, Replace, Use};
        use Status::{Absent, Exists, Expired, GenerationMismatch};
        let new = NewBucket { time_to_live: None };
        let existing = |generation: Option<&str>| {
            Precondition::Existing(ExistingBucket { generation: generation.map(Into::into), renew: true })
        };
        // Absent, expired, alive as `1`; then the same for a repeated call.
        for (precondition, first, repeated) in [
            (existing(None), [Refuse(Absent), Refuse(Expired), Use], Repeat),
            (existing(Some("1")), [Refuse(Absent), Refuse(Expired), Use], Repeat),
            (
                existing(Some("2")),
                [Refuse(Absent), Refuse(Expired), Refuse(GenerationMismatch)],
                Refuse(GenerationMismatch),
            ),
            (Precondition::Create(new), [Create, Create, Use], Repeat),
            (Precondition::CreateNew(new), [Create, Create, Refuse(Exists)], Repeat),
            (Precondition::Replace(new), [Create, Create, Replace], Repeat),
        ] {
            let found = [FoundBucket::Absent, FoundBucket::Expired, FoundBucket::Alive("1")];
            assert_eq!(found.map(|found| decide_precondition(&precondition, found, false)), first, "{precondition:?}");
            let again = found.map(|found| decide_precondition(&precondition, found, true));
            assert_eq!(again, [Refuse(Absent), Refuse(Expired), repeated], "{precondition:?}, repeated");
        }
    }
}
