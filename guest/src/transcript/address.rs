//! Names a transcript: of a session, or of one of its nodes.

use keepline_options::bucket_names::node_bucket_name;

use crate::contract::{BucketId, LogEnd, Operation, Problem, codes};
use crate::entry::directives::transcript_bucket;
use crate::entry::session_problem::{SessionResult, require_valid_session};
use crate::text::quoting::python_repr;
use crate::transcript::schema::TRANSCRIPT;

/// No record is read, only where the transcript stands.
pub(crate) const TRANSCRIPT_EXTENT: Operation<'static> = Operation::read(TRANSCRIPT, LogEnd::Newest, 0, 0);

/// The transcript of a session, or of one of its nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct TranscriptId<'a> {
    /// Whose it is.
    pub session: &'a str,
    /// Of the node.
    pub app_id: Option<&'a str>,
    /// None: the session's own.
    pub node_id: Option<&'a str>,
}

/// Where a transcript is kept.
pub(crate) struct TranscriptAddress<'a> {
    pub session: &'a str,
    /// The bucket of the node.
    pub node: Option<String>,
}

impl<'a> TranscriptId<'a> {
    pub(crate) fn resolve_address(&self) -> SessionResult<TranscriptAddress<'a>> {
        require_valid_session(self.session)?;
        let node = self.node_id.filter(|node| !node.is_empty());
        let app = self.app_id.filter(|app| !app.is_empty());
        Ok(TranscriptAddress {
            session: self.session,
            node: node.map(|node| node_bucket_name(app, self.session, node)),
        })
    }
}

impl TranscriptAddress<'_> {
    pub(crate) fn bucket(&self) -> BucketId<'_> {
        transcript_bucket(self.session, self.node.as_deref())
    }

    pub(crate) fn missing_message_problem(&self, position: u64) -> Box<Problem> {
        let message = format!("Session {} has no message at position {position}", python_repr(self.session));
        Problem::new(codes::NOT_FOUND, "message", message)
    }
}
