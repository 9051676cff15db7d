//! Deletes what a session has in other buckets: its nodes, and the copies in its owner's memory.

use crate::admin::sessions::read_bucket;
use crate::context::Context;
use crate::contract::{BucketId, DeleteRequest, Host, Operation, Precondition, Problem, Status, kind};
use crate::entry::session_problem::SessionResult;
use crate::options::config::{KEYS_BYTES, MAX_KEYS};
use crate::recall::invalidate::{MessageFate, remove_copies};
use crate::store;
use crate::text::ids::is_session;
use crate::transcript::schema::{OWNER, SESSION};
use crate::users::registry::NODES;

/// Delete buckets, each another one; of each, whether it was there. One wait for as many as a call takes.
pub(crate) fn delete_buckets(
    context: &Context<impl Host>,
    requests: &[DeleteRequest<'_>],
) -> Result<Vec<bool>, Box<Problem>> {
    let mut were_there = Vec::with_capacity(requests.len());
    for batch in requests.chunks(transactions_max(&context.host)) {
        for deletion in store::delete_each(&context.host, batch) {
            were_there.push(matches!(deletion?.status, Status::Applied | Status::Repeated));
        }
    }
    Ok(were_there)
}

/// Transactions, or deletions, that a call takes.
pub(crate) fn transactions_max(host: &impl Host) -> usize {
    usize::try_from(host.store_profile().limits.transactions).unwrap_or(usize::MAX).max(1)
}

/// To delete a bucket, whichever generation it has.
pub(crate) fn deletion(bucket: BucketId<'_>) -> DeleteRequest<'_> {
    DeleteRequest { bucket, generation: None, max_keys: 0 }
}

/// What a session that is about to be deleted has elsewhere, also where no conversations are kept now: its nodes, and
/// the same with its owner. One wait if there is neither.
pub(crate) fn delete_nodes_and_copies(context: &Context<impl Host>, session: &str) -> SessionResult<()> {
    let (bucket, precondition) = (BucketId::session(session), Precondition::LOOK);
    let mut cursor = String::new();
    loop {
        let nodes = Operation::page_keys(NODES, &cursor, MAX_KEYS, KEYS_BYTES);
        let operations = [Operation::get(SESSION, &OWNER, 256), nodes];
        let mut outcomes = read_bucket(context, session, bucket, precondition, &operations)?;
        let owner = outcomes.take_text()?;
        let page = outcomes.take_key_page()?;
        let nodes = page.keys.iter().filter(|node| is_session(node));
        let requests: Vec<_> = nodes.map(|name| deletion(BucketId { kind: kind::NODE, name })).collect();
        delete_buckets(context, &requests)?;
        if page.cursor.is_empty() {
            return remove_copies(context, session, &outcomes.generation, owner.as_deref(), 0, MessageFate::Deleted);
        }
        cursor = page.cursor;
    }
}
