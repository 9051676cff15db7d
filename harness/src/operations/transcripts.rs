//! Names transcripts for the component, and checks what a command needs before it uses one.

use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use keepline::{
    Deadline, Keepline, Sessions,
    sessions::{SessionError, SessionErrorCode, Transcript, TranscriptState},
};

use crate::{
    app::{
        error::{coded_error, usage_error},
        store_settings::StoreSettings,
    },
    args::TranscriptArguments,
};

/// Time limit of corrections, which may delete much from a large memory.
const CORRECTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Transcripts that are read at a time.
const CONCURRENT_DESCRIPTIONS: usize = 16;

/// Sessions with a long time limit, if the store answers a first call in time: a store that is down is reported at once.
pub async fn sessions_with_long_timeout(keepline: &Keepline, session: &str) -> Result<Sessions> {
    match keepline.sessions().describe(session.into()).await {
        Err(error) if is_outage(&error) => Err(error.into()),
        // The call itself reports anything else; damaged sessions can be deleted.
        _ => Ok(keepline.sessions().by(Deadline::after(CORRECTION_TIMEOUT))),
    }
}

/// The owner of the session in a bucket, if it exists and has one.
pub async fn session_owner(sessions: &mut Sessions, bucket: &str) -> Result<Option<String>> {
    use SessionErrorCode::{Expired, InvalidSession, NotFound};
    let id = sessions.id_of(bucket).await?;
    match sessions.describe((&*id).into()).await {
        Ok(state) => Ok(state.owner),
        // A missing session whose name looks like a hash is invalid.
        Err(error) if matches!(error.code, NotFound | Expired | InvalidSession) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether other calls would fail alike.
fn is_outage(error: &SessionError) -> bool {
    match error.code {
        SessionErrorCode::Store(code) => code.is_store_failure(),
        code => code == SessionErrorCode::Busy,
    }
}

/// The state of each transcript, in order, [`CONCURRENT_DESCRIPTIONS`] at a time and without counting a use. `None`: it is gone, or
/// can't be read.
pub async fn describe_transcripts(
    keepline: &Keepline,
    transcripts: &[Transcript<'_>],
) -> Result<Vec<Option<TranscriptState>>> {
    let look = async |transcript: &Transcript<'_>| match keepline.sessions().describe(*transcript).await {
        Ok(state) => Ok(Some(state)),
        Err(error) if is_outage(&error) => Err(error.into()),
        Err(_) => Ok(None),
    };
    stream::iter(transcripts).map(look).buffered(CONCURRENT_DESCRIPTIONS).try_collect().await
}

/// A time in milliseconds, unless it is not known.
pub fn known_time(at: u64) -> Option<u64> {
    Some(at).filter(|at| *at > 0)
}

/// A time in milliseconds as seconds, in JSON.
pub fn to_seconds(at: u64) -> String {
    format!("{}.{:03}", at / 1000, at % 1000)
}

pub fn message_count(state: &TranscriptState) -> u64 {
    state.next.saturating_sub(state.oldest)
}

pub fn as_transcript(transcript: &TranscriptArguments) -> Transcript<'_> {
    let TranscriptArguments { session, node, app } = transcript;
    Transcript { session, app_id: app.as_deref(), node_id: node.as_deref() }
}

/// Adds to a missing node's error that it may need `--app`.
pub fn hint_at_app(transcript: &TranscriptArguments, error: anyhow::Error) -> anyhow::Error {
    let is_missing = |error: &SessionError| error.code == SessionErrorCode::NotFound;
    match &transcript.node {
        Some(node) if transcript.app.is_none() && error.downcast_ref().is_some_and(is_missing) => {
            let message =
                format!("Session '{}' has no node '{node}' (a node of an app also needs --app)", transcript.session);
            coded_error("not-found", message)
        }
        _ => error,
    }
}

/// # Errors
/// When conversations are off: then a turn would store only an answer, and a preview would create a session.
pub fn require_conversations(keepline: &Keepline) -> Result<()> {
    if StoreSettings::from_filter_options(&keepline.filter_options()).conversation {
        return Ok(());
    }
    Err(usage_error("conversations are off: set conversation=true, or choose --profile chat"))
}
