//! Deletes what a session has in other buckets: its nodes, and the copies in its owner's memory.

use crate::admin::sessions::read_bucket;
use crate::context::Context;
use crate::contract::{BucketId, BucketKind, Failure, Host, Operation, Precondition, Status};
use crate::entry::session_problem::SessionResult;
use crate::options::config::{KEYS_BYTES, MAX_KEYS};
use crate::recall::invalidate::{MessageFate, remove_copies};
use crate::store;
use crate::text::ids::is_session;
use crate::transcript::schema::{OWNER, SESSION};
use crate::users::registry::NODES;

/// Whether there was such a bucket.
pub(crate) fn remove_bucket(
    context: &Context<impl Host>,
    kind: BucketKind,
    name: &str,
    generation: Option<&str>,
) -> Result<bool, Failure> {
    let deletion = store::delete_bucket(&context.host, BucketId { kind, name }, generation, 0)?;
    Ok(matches!(deletion.status, Status::Applied | Status::Repeated))
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
        for node in page.keys.iter().filter(|node| is_session(node)) {
            remove_bucket(context, BucketKind::Node, node, None)?;
        }
        if page.cursor.is_empty() {
            return remove_copies(context, session, &outcomes.generation, owner.as_deref(), 0, MessageFate::Deleted);
        }
        cursor = page.cursor;
    }
}
