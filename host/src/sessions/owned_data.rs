//! Deletes the definitions and data sets that a user owns, so that forgetting the user covers them.

use keepline_options::bucket_names::{definitions_bucket_name, is_dataset_of};
use tokio::time::Instant;

use super::{SessionError, Sessions};
use crate::{
    logging::LogLevel,
    store::{BucketId, Deadline, DeleteRequest, FailureCode, Writer, guard::Missed, kind},
};

/// Names that are read at a time.
const NAMES_PER_PAGE: u32 = 1_000;
/// Buckets that are deleted in one call.
const DELETIONS: usize = 32;

/// Cost: one wait for each 1,000 data sets of the store, one for each 32 of the user's, and one for the definitions, which go
/// last. May be repeated after any failure.
pub(super) async fn delete_owned_data(sessions: &Sessions, user: &str) -> Result<(), SessionError> {
    let definitions = definitions_bucket_name("user", user);
    let deadline = sessions.inner.call_deadline(Instant::now(), sessions.deadline).deadline;
    let mut cursor = String::new();
    loop {
        let answer = sessions
            .store
            .call(deadline, |store| store.list_buckets(kind::DATASET, &cursor, NAMES_PER_PAGE, deadline))
            .await;
        let page = match answer.map_err(Missed::to_failure).and_then(|answer| answer) {
            Err(failure) if failure.code == FailureCode::Unsupported => {
                let message = "the store can't list its buckets: data sets that the user owns are left";
                sessions.inner.log().log_from_host(LogLevel::Warn, "keepline.forget", message);
                break;
            }
            page => page?,
        };
        let names: Vec<_> = page.names.into_iter().filter(|name| is_dataset_of(name, &definitions)).collect();
        for names in names.chunks(DELETIONS) {
            delete(sessions, names.iter().map(|name| BucketId::new(kind::DATASET, &**name)), deadline).await?;
        }
        if page.cursor.is_empty() || page.cursor == cursor {
            break;
        }
        cursor = page.cursor;
    }
    delete(sessions, [BucketId::new(kind::DEFINITION, definitions)], deadline).await
}

async fn delete(
    sessions: &Sessions,
    buckets: impl IntoIterator<Item = BucketId>,
    deadline: Deadline,
) -> Result<(), SessionError> {
    let request = |bucket| DeleteRequest { bucket, generation: None, max_keys: 0 };
    let requests: Vec<_> = buckets.into_iter().map(request).collect();
    let mut writer = Writer::new();
    let writer = writer.advance();
    let deleted = sessions.store.call(deadline, |store| store.delete_each(writer, &requests, deadline)).await;
    for deletion in deleted.map_err(Missed::to_failure)? {
        deletion?;
    }
    Ok(())
}
