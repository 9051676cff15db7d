//! Opens a bucket for a transaction (checks 2 and 3 of the contract, which come before expectations), and makes the
//! receipt that answers it.

use crate::{Opening, Operation, Outcome, Receipt, Status, check};

/// Where a bucket is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FoundBucket<'a> {
    Absent,
    /// Its time has run out, which no reply has said yet.
    Expired,
    /// It is there, as this incarnation.
    Alive(&'a str),
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpeningDecision {
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
pub(crate) fn decide_opening(opening: &Opening, found: FoundBucket<'_>, repeated: bool) -> OpeningDecision {
    let gone = match found {
        FoundBucket::Absent => Status::Absent,
        FoundBucket::Expired => Status::Expired,
        FoundBucket::Alive(incarnation) => {
            return match opening {
                Opening::Existing(asked) if asked.incarnation.as_ref().is_some_and(|asked| *asked != incarnation) => {
                    OpeningDecision::Refuse(Status::AnotherLife)
                }
                // Before all else that could tell an earlier try from this one.
                _ if repeated => OpeningDecision::Repeat,
                Opening::Existing(_) | Opening::Create(_) => OpeningDecision::Use,
                Opening::CreateNew(_) => OpeningDecision::Refuse(Status::Exists),
                Opening::Replace(_) => OpeningDecision::Replace,
            };
        }
    };
    // A late repetition revives nothing.
    if repeated || matches!(opening, Opening::Existing(_)) {
        OpeningDecision::Refuse(gone)
    } else {
        OpeningDecision::Create
    }
}

/// Whether a transaction may write to a bucket that is there: one that can't is no repetition.
pub(crate) fn may_write(opening: &Opening, operations: &[Operation]) -> bool {
    matches!(opening, Opening::CreateNew(_) | Opening::Replace(_)) || check::has_writes(operations)
}

/// Whether a transaction with this opening starts a sliding time to live again.
pub(crate) fn renews_expiry(opening: &Opening) -> bool {
    !matches!(opening, Opening::Existing(life) if !life.renew)
}

/// The answer of a bucket that is there, as this incarnation.
pub(crate) fn build_receipt(
    status: Status,
    now: u64,
    opening: &Opening,
    incarnation: &str,
    outcomes: Vec<Outcome>,
) -> Receipt {
    // A caller that named the incarnation is given it only if it is another.
    let is_named = matches!(opening, Opening::Existing(asked) if asked.incarnation.is_some());
    let is_known = is_named && status != Status::AnotherLife;
    let incarnation = if is_known { String::new() } else { incarnation.to_owned() };
    Receipt { status, now, incarnation, created: false, unmet: None, outcomes }
}

/// The answer where there is no bucket.
pub(crate) fn receipt_without(status: Status, now: u64) -> Receipt {
    Receipt { status, now, incarnation: String::new(), created: false, unmet: None, outcomes: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExistingLife, NewLife};

    #[test]
    fn an_opening_is_decided_as_the_contract_specifies() {
        use OpeningDecision::{Create, Refuse, Repeat, Replace, Use};
        use Status::{Absent, AnotherLife, Exists, Expired};
        let new = NewLife { time_to_live: None };
        let existing = |incarnation: Option<&str>| {
            Opening::Existing(ExistingLife { incarnation: incarnation.map(Into::into), renew: true })
        };
        // Absent, expired, alive as `1`; then the same for a repeated call.
        for (opening, first, repeated) in [
            (existing(None), [Refuse(Absent), Refuse(Expired), Use], Repeat),
            (existing(Some("1")), [Refuse(Absent), Refuse(Expired), Use], Repeat),
            (existing(Some("2")), [Refuse(Absent), Refuse(Expired), Refuse(AnotherLife)], Refuse(AnotherLife)),
            (Opening::Create(new), [Create, Create, Use], Repeat),
            (Opening::CreateNew(new), [Create, Create, Refuse(Exists)], Repeat),
            (Opening::Replace(new), [Create, Create, Replace], Repeat),
        ] {
            let found = [FoundBucket::Absent, FoundBucket::Expired, FoundBucket::Alive("1")];
            assert_eq!(found.map(|found| decide_opening(&opening, found, false)), first, "{opening:?}");
            let again = found.map(|found| decide_opening(&opening, found, true));
            assert_eq!(again, [Refuse(Absent), Refuse(Expired), repeated], "{opening:?}, repeated");
        }
    }
}
