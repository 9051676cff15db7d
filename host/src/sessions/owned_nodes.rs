//! Confirms, once a node has been written for a user, that its session is still that user's.
//!
//! Session and node are buckets of their own, so no transaction covers both: between the look at the session and the node's
//! first record, the session can be deleted and begun again by somebody else. The node is then removed again. From its first
//! record on it names the user whose it is, so nobody else reads it meanwhile; it would only stay, and keep its name from
//! the session's new owner.

use keepline_options::bucket_names::node_bucket_name;
use tokio::time::Instant;

use super::{
    SessionError, SessionErrorCode, Sessions, Transcript,
    ownership::{expected_entry, look_expecting},
};
use crate::{
    contract::storage_names::{OWNER_KEY, SESSION_MAP},
    store::{BucketId, DeleteRequest, EntryState, Status, Writer, guard::Missed, kind},
};

#[allow(clippy::multiple_inherent_impl, reason = "methods of the same room's type, by what they are for")]
impl Sessions {
    /// What became of a node's registration, once its session is known to be the owner's still: registered first, so that a
    /// session that is deleted later takes the node along.
    pub(super) async fn confirm_node<T>(
        &self,
        transcript: &Transcript<'_>,
        owner: &str,
        registered: Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        let session = self.inner.session_ids.bucket_name_or_id(transcript.session);
        let missing = match registered {
            Ok(registered) if self.names_owner(&session, owner).await? => return Ok(registered),
            Ok(_) => {
                let message = format!("Session '{}' not found", transcript.session);
                SessionError { code: SessionErrorCode::NotFound, message }
            }
            Err(error) if error.is_gone() => error,
            Err(error) => return Err(error),
        };
        let app = transcript.app_id.filter(|app| !app.is_empty());
        let node = node_bucket_name(app, &session, transcript.node_id.unwrap_or_default());
        self.delete_node(BucketId::new(kind::NODE, &node), owner).await?;
        Err(missing)
    }

    /// Deletes a node if it is this owner's.
    async fn delete_node(&self, bucket: BucketId, owner: &str) -> Result<(), SessionError> {
        let owned = expected_entry(SESSION_MAP, OWNER_KEY, EntryState::Equal, owner);
        let look = look_expecting(bucket.clone(), owned).into();
        let receipt = self.run_read_transaction(&look).await?;
        let (Status::Applied | Status::Repeated, Some(generation)) = (receipt.status, receipt.generation) else {
            return Ok(());
        };
        let request = DeleteRequest { bucket, generation: Some(generation), max_keys: 0 };
        let deadline = self.inner.call_deadline(Instant::now(), self.deadline).deadline;
        let mut writer = Writer::new();
        let writer = writer.advance();
        let deleted = self.store.call(deadline, |store| store.delete(writer, &request, deadline)).await;
        deleted.map_err(Missed::to_failure)??;
        Ok(())
    }
}
