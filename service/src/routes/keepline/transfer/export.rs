//! Exports: one session, those of a user, or all.
//!
//! Each session is read as it was at one moment, and before its first line is sent, so whoever asks for one gets it whole or an
//! error. An export of several sessions that can't be finished is broken off, so that no client takes what it got for all there
//! is. The sessions of a user are looked at once more when they are read: one that is another's by then is no longer among them.

use std::{
    io::{self, Read, Seek, SeekFrom},
    sync::Arc,
    time::Duration,
    vec,
};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use futures::{FutureExt, Stream, StreamExt, stream};
use keepline::{sessions::user_bucket, store::names::is_bucket};
use keepline_session_file::{ExportedSession, Problem, Reason, SessionExport, list_sessions};
use tokio::time;

use super::export_error;
use crate::{
    http::{ApiError, Call, NDJSON},
    routes::keepline::{
        ownership::{OwnedSession, reached_user, session_not_found, user_not_found},
        sessions::of_user,
    },
    tenants::Tenant,
};

/// Bytes that are read of an export at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// Attempts to read a session that keeps changing, beside the last one, and the pauses after them.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(100);
/// Sessions of a page of a user's list.
const PAGE: u32 = 100;

/// Exports one session.
pub async fn session(call: Call) -> Result<Response, ApiError> {
    let session = OwnedSession::of_path(&call).await?;
    let id = session.id();
    let name = call.tenant.keepline().session_ids().bucket_name(id);
    let name = name.ok_or_else(|| ApiError::invalid("session", format!("{id:?} can't be the id of a session")))?;
    let source = ExportSource { tenant: call.tenant.clone(), owner: call.caller.user.as_deref().map(user_bucket) };
    let mut exported = source.read(&name).await.map_err(|problem| export_error(id, problem))?;
    // The name of a session that keeps another id leads nowhere, and what was begun again meanwhile is perhaps another's.
    let is_asked = exported.id.as_deref().unwrap_or(&name) == id;
    if !is_asked || !source.reaches(&exported) {
        return Err(session_not_found(id));
    }
    let length = exported.lines.seek(SeekFrom::End(0)).and_then(|length| exported.lines.rewind().map(|()| length));
    let length = length.map_err(|error| ApiError::internal(&error))?;
    let mut response = lines_response(chunks(exported));
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    Ok(response)
}

/// Exports the sessions of a user.
pub async fn sessions_of_user(call: Call) -> Result<Response, ApiError> {
    let user = reached_user(&call, Some(call.path("user")))?.ok_or_else(user_not_found)?;
    let names = list_names_of_user(&call, &user).await?;
    export_each(call, names, Some(user_bucket(&user))).await
}

/// Exports all sessions; of a caller with a user, that user's.
pub async fn all(call: Call) -> Result<Response, ApiError> {
    match reached_user(&call, None)? {
        Some(user) => {
            let names = list_names_of_user(&call, &user).await?;
            export_each(call, names, Some(user_bucket(&user))).await
        }
        None => {
            let mut names = list_sessions(&**call.tenant.keepline().store()).await?;
            // Of other programs: what no session can be called.
            names.retain(|name| is_bucket(name));
            export_each(call, names, None).await
        }
    }
}

/// The names of a user's sessions, in order.
async fn list_names_of_user(call: &Call, user: &str) -> Result<Vec<String>, ApiError> {
    let ids = call.tenant.keepline().session_ids();
    let (mut names, mut before) = (Vec::new(), None);
    loop {
        let page = call.sessions().user_sessions(user, before, PAGE).await.map_err(of_user)?;
        names.extend(page.sessions.iter().map(|listed| ids.bucket_name_or_id(&listed.session).into_owned()));
        // A page that leads nowhere would be read for ever.
        before = page.older.filter(|older| before.is_none_or(|before| *older < before));
        if before.is_none() {
            names.sort_unstable();
            names.dedup();
            return Ok(names);
        }
    }
}

/// Sends these sessions one after the other. What is gone since they were listed is left out.
async fn export_each(call: Call, names: Vec<String>, owner: Option<String>) -> Result<Response, ApiError> {
    let source = ExportSource { tenant: call.tenant.clone(), owner };
    let mut names = names.into_iter();
    // Before the first byte: a store that fails is an error as everywhere.
    let first = source.next(&mut names).await.map_err(|(name, problem)| export_error(&name, problem))?;
    let end = call.end.wait().boxed();
    let rest = stream::unfold(Some((source, names, end)), |state| async {
        let (source, mut names, mut end) = state?;
        let next = tokio::select! {
            biased;
            () = &mut end => Err("the key was revoked, or the service stops".to_owned()),
            next = source.next(&mut names) => next.map_err(|(name, problem)| match problem {
                Problem::Input(why) | Problem::Left(_, why) => format!("session {name}: {why}"),
                Problem::Failed(error) => format!("session {name}: {error:#}"),
            }),
        };
        match next {
            Ok(next) => next.map(|exported| (Ok(exported), Some((source, names, end)))),
            Err(why) => {
                tracing::warn!(target: "keepline.service", "an export was broken off: {why}");
                Some((Err(io::Error::other("broken off")), None))
            }
        }
    });
    let all = stream::iter(first.map(Ok)).chain(rest);
    Ok(lines_response(all.flat_map(|session| match session {
        Ok(exported) => chunks(exported).left_stream(),
        Err(error) => stream::iter([Err(error)]).right_stream(),
    })))
}

/// Where sessions are read, and whose.
struct ExportSource {
    tenant: Arc<Tenant>,
    /// The bucket of the only user whose sessions are exported.
    owner: Option<String>,
}

impl ExportSource {
    async fn read(&self, name: &str) -> Result<ExportedSession, Problem> {
        let source = self.tenant.session_source().await?;
        let _slot = self.tenant.transfer_slot().await;
        for _ in 0..ATTEMPTS {
            match SessionExport::new(&*source).session(name).await {
                // This service writes as well: titles, summaries, indexes.
                Err(Problem::Left(Reason::Conflict, _)) => time::sleep(PAUSE).await,
                read => return read,
            }
        }
        SessionExport::new(&*source).session(name).await
    }

    fn reaches(&self, exported: &ExportedSession) -> bool {
        self.owner.is_none() || exported.owner == self.owner
    }

    /// The next session that there is. None: there is none any more. An error comes with the session's name.
    async fn next(&self, names: &mut vec::IntoIter<String>) -> Result<Option<ExportedSession>, (String, Problem)> {
        for name in names {
            match self.read(&name).await {
                Ok(exported) if self.reaches(&exported) => return Ok(Some(exported)),
                Ok(_) | Err(Problem::Left(Reason::NotFound, _)) => {}
                Err(problem) => return Err((name, problem)),
            }
        }
        Ok(None)
    }
}

/// The lines of a session, as they lie in memory or in a temporary file that was just written.
fn chunks(exported: ExportedSession) -> impl Stream<Item = io::Result<Bytes>> {
    stream::unfold(Some(exported.lines), |lines| async {
        let mut lines = lines?;
        let mut chunk = Vec::new();
        match lines.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut chunk) {
            Ok(0) => None,
            Ok(_) => Some((Ok(chunk.into()), Some(lines))),
            Err(error) => Some((Err(error), None)),
        }
    })
}

fn lines_response(lines: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Response {
    let mut response = Response::new(Body::from_stream(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    response
}
