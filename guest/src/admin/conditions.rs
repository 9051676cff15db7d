//! What a caller demands of a writing call, in its `extras`: whose the session has to be, the id under which it counts once, and
//! what has to be there.

use keepline_json as json;

use crate::context::ExpectedValue;
use crate::contract::{
    BucketId, BucketPage, DeleteRequest, Deletion, EntryState, Expectation, ExpectedEntry, Host, IndexedReceipt,
    IndexedTransaction, Level, Member, Precondition, Problem, Receipt, Status, StoreProfile, Transaction, kind,
};
use crate::entry::session_problem::{SessionResult, check_status};
use crate::transcript::schema::{OWNER, SESSION};
use crate::users::registry::checked_user_bucket_name;

/// Of a request id, as of a message id.
const REQUEST_ID_MAX: usize = 1024;

/// The conditions of a call. Unknown members of its `extras` are none.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// The bucket of the user whose the session has to be.
    pub owner: Option<String>,
    /// The same call again changes nothing.
    pub request_id: Option<String>,
    /// What has to be under the key that is written.
    pub expected_value: Option<ExpectedValue>,
    /// Which version the transcript has to have.
    pub expected_version: Option<String>,
}

/// What a call takes that writes one value.
pub const EXPECTED_VALUE: &str = "expected-value";

/// What a call takes that changes a transcript in one transaction.
pub const EXPECTED_VERSION: &str = "expected-version";

impl Conditions {
    /// `invalid`, with the member's name, for what is no JSON string or too long, and for an expectation other than the one that
    /// the call `takes`: ignored, it would be broken.
    pub fn parse(extras: Option<&[Member]>, takes: &str) -> SessionResult<Self> {
        let mut conditions = Self::default();
        for member in extras.unwrap_or_default() {
            let text = || {
                let message = format!("extras: {} must be a JSON string", member.name);
                json::decode_string(&member.value).ok_or_else(|| Problem::invalid(&member.name, message))
            };
            match &*member.name {
                "owner" => conditions.owner = Some(checked_user_bucket_name(&text()?)?.into_owned()),
                "request-id" => {
                    let id = text()?;
                    if !(1..=REQUEST_ID_MAX).contains(&id.len()) {
                        let message = format!("extras: request-id must have 1 to {REQUEST_ID_MAX} bytes");
                        return Err(Problem::invalid("request-id", message));
                    }
                    conditions.request_id = Some(id.into_owned());
                }
                name @ (EXPECTED_VALUE | EXPECTED_VERSION) if name != takes => {
                    let message = ["extras: this call takes no ", name].concat();
                    return Err(Problem::invalid(name, message));
                }
                EXPECTED_VALUE => {
                    conditions.expected_value = Some(match &*member.value {
                        "null" => ExpectedValue::Absent,
                        "true" => ExpectedValue::Present,
                        _ => ExpectedValue::Text(text()?.into_owned()),
                    });
                }
                EXPECTED_VERSION => conditions.expected_version = Some(text()?.into_owned()),
                _ => {}
            }
        }
        Ok(conditions)
    }
}

/// A host on which a session's bucket is there only as long as it has that owner, and a node's as long as it has no other: each
/// transaction expects it, so nothing comes between looking and writing. Another user's is absent, as one that never was.
#[derive(Clone, Debug)]
pub struct OwnedHost<H> {
    host: H,
    condition: Option<OwnerCondition>,
}

#[derive(Clone, Debug)]
struct OwnerCondition {
    /// The session's name.
    session: String,
    /// The name of the owner's bucket.
    owner: String,
}

impl<H: Host> OwnedHost<H> {
    /// The same as the host itself: for whatever owner. The component has one type of host, so that it has its code once.
    pub fn unconditional(host: H) -> Self {
        Self { host, condition: None }
    }

    /// With the owner's bucket; none: whoever's the session is.
    pub fn new(host: H, session: &str, owner: Option<String>) -> Self {
        let condition = owner.map(|owner| OwnerCondition { session: session.to_owned(), owner });
        Self { host, condition }
    }

    fn condition_on(&self, bucket: BucketId<'_>) -> Option<&OwnerCondition> {
        let is_bound =
            |condition: &&OwnerCondition| bucket.kind == kind::NODE || bucket == BucketId::session(&condition.session);
        self.condition.as_ref().filter(is_bound)
    }

    // Apart, so that what each transaction of a lane goes through stays small.
    #[cold]
    #[inline(never)]
    fn transact_owned(&self, transaction: &Transaction<'_>, condition: &OwnerCondition) -> Result<Receipt, Problem> {
        let OwnerCondition { session, owner } = condition;
        // A node that was written by nobody in particular is its session's.
        let is_node = transaction.bucket.kind == kind::NODE;
        let state = if is_node { EntryState::AbsentOrEqual } else { EntryState::Equal };
        // First: of a session of somebody else's nothing else is said.
        let mut expectations =
            vec![Expectation::Entry(ExpectedEntry { map_name: SESSION, key: OWNER, state, text: owner })];
        expectations.extend_from_slice(transaction.expectations);
        let mut receipt = self.host.transact(&Transaction { expectations: &expectations, ..*transaction })?;
        match &mut receipt.unmet {
            Some(0) => Err(Self::absent(session, transaction.bucket)),
            unmet => {
                *unmet = unmet.map(|index| index - 1);
                Ok(receipt)
            }
        }
    }

    /// As if it were not there.
    #[cold]
    #[inline(never)]
    fn absent(session: &str, bucket: BucketId<'_>) -> Problem {
        check_status(session, bucket, Status::Absent).map_or_else(|problem| *problem, |()| *Problem::out_of_turn())
    }

    /// The generation that has the owner.
    #[cold]
    #[inline(never)]
    fn owned_generation(&self, bucket: BucketId<'_>) -> Result<String, Problem> {
        let look = Transaction { bucket, precondition: Precondition::LOOK, expectations: &[], operations: &[] };
        let receipt = self.transact(&look)?;
        check_status(bucket.name, bucket, receipt.status).map_err(|problem| *problem)?;
        Ok(receipt.generation.unwrap_or_default())
    }
}

impl<H: Host> Host for OwnedHost<H> {
    fn transact(&self, transaction: &Transaction<'_>) -> Result<Receipt, Problem> {
        match self.condition_on(transaction.bucket) {
            None => self.host.transact(transaction),
            Some(condition) => self.transact_owned(transaction, condition),
        }
    }

    fn transact_each(&self, transactions: &[IndexedTransaction<'_>]) -> Vec<Result<IndexedReceipt, Problem>> {
        self.host.transact_each(transactions)
    }

    fn delete_each(&self, requests: &[DeleteRequest<'_>]) -> Vec<Result<Deletion, Problem>> {
        let [request] = requests else { return self.host.delete_each(requests) };
        // A session that goes takes its nodes with it.
        let is_node = request.bucket.kind == kind::NODE;
        if is_node || self.condition_on(request.bucket).is_none() || request.generation.is_some() {
            return self.host.delete_each(requests);
        }
        match self.owned_generation(request.bucket) {
            Ok(generation) => self.host.delete_each(&[DeleteRequest { generation: Some(&generation), ..*request }]),
            Err(problem) => vec![Err(problem)],
        }
    }

    fn list_buckets(&self, kind: &str, cursor: &str, limit: u32) -> Result<BucketPage, Problem> {
        self.host.list_buckets(kind, cursor, limit)
    }

    fn store_profile(&self) -> StoreProfile {
        self.host.store_profile()
    }

    fn now_micros(&self) -> u64 {
        self.host.now_micros()
    }

    fn log(&self, level: Level, context: &str, message: &str) {
        self.host.log(level, context, message);
    }

    fn logs(&self, level: Level) -> bool {
        self.host.logs(level)
    }
}
