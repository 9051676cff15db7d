//! The page at `/`: its files are in the binary, and what they show comes from the other routes.
//!
//! Nothing on it is run, loaded or sent that is not the service's own: the policy in the headers says so, and the page has no
//! inline script or style.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::LazyLock,
};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use bytes::Bytes;

use crate::http::{ApiError, Call, Route, rows};

const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// A file of the page.
struct File {
    /// Its folder and its name.
    path: &'static str,
    text: &'static str,
}

macro_rules! files {
    ($($path:literal)*) => {
        &[$(File { path: $path, text: include_str!(concat!("../../page/", $path)) },)*]
    };
}

const INDEX: File = File { path: "index.html", text: include_str!("../../page/index.html") };
const FILES: &[File] = files! {
    "core/api.js"
    "core/capabilities.js"
    "core/confirm-dialog.js"
    "core/dom.js"
    "core/drafts.js"
    "core/events.js"
    "core/format.js"
    "core/key-dialog.js"
    "core/main.js"
    "core/problems.js"
    "core/router.js"
    "core/section.js"
    "core/shortcuts.js"
    "core/split.js"
    "core/users.js"
    "core/virtual-list.js"
    "session/band.js"
    "session/branches.js"
    "session/fates.js"
    "session/head.js"
    "session/recall.js"
    "session/source.js"
    "session/timeline.js"
    "session/turns.js"
    "session/view.js"
    "session/window-query.js"
    "style/base.css"
    "style/editor.css"
    "style/icon.svg"
    "style/lists.css"
    "style/session.css"
    "views/definition.js"
    "views/definitions.js"
    "views/evaluate.js"
    "views/health.js"
    "views/run.js"
    "views/session-source.js"
    "views/sessions.js"
    "views/trial.js"
    "views/user.js"
    "views/users.js"
};

/// The routes of the page.
pub fn routes() -> Vec<Route> {
    rows! {
        Keepline:
        GET "/" PUBLIC "The page on which people see what the model gets" index;
        GET "/page/{folder}/{file}" PUBLIC "The files of the page" file;
    }
}

async fn index(call: Call) -> Result<Response, ApiError> {
    reply(&INDEX, call.headers())
}

async fn file(call: Call) -> Result<Response, ApiError> {
    let path = format!("{}/{}", call.path("folder"), call.path("file"));
    let found = FILES.iter().find(|file| file.path == path);
    reply(found.ok_or_else(|| ApiError::not_found("the page has no such file"))?, call.headers())
}

/// A browser keeps a file, and asks each time whether it still is the same: after an update, all of them are new at once.
fn reply(file: &File, asked: &HeaderMap) -> Result<Response, ApiError> {
    let tag = HeaderValue::from_str(&TAG).map_err(|error| ApiError::internal(&error))?;
    let is_known = asked.get(header::IF_NONE_MATCH).is_some_and(|known| names(known, &TAG));
    let body = if is_known { Body::empty() } else { Body::from(Bytes::from_static(file.text.as_bytes())) };
    let mut response = Response::new(body);
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(file.path)));
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::ETAG, tag);
    Ok(response)
}

/// One for all files, as they belong together.
static TAG: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    INDEX.text.hash(&mut hasher);
    FILES.iter().for_each(|file| file.text.hash(&mut hasher));
    format!("\"{:016x}\"", hasher.finish())
});

/// Whether a list of tags has that one. Proxies that compress make it a weak one.
fn names(known: &HeaderValue, tag: &str) -> bool {
    let mut tags = known.to_str().unwrap_or_default().split(',').map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_file_of_the_page_is_served_and_none_has_an_inline_script_or_style() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
        let mut count = 0;
        for room in fs::read_dir(folder).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir()) {
            for file in fs::read_dir(room.path()).unwrap().map(Result::unwrap) {
                let path = file.path().strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                assert!(FILES.iter().any(|file| file.path == path), "{path} is not served");
                count += 1;
            }
        }
        assert_eq!(count, FILES.len());
        for forbidden in ["<style", "style=", "onclick=", "onload=", "javascript:"] {
            assert!(!INDEX.text.contains(forbidden), "{forbidden}");
        }
        assert!(
            INDEX
                .text
                .match_indices("<script")
                .all(|(at, _)| INDEX.text[at..].starts_with("<script type=\"module\" src="))
        );
        for file in FILES.iter().filter(|file| file.path.ends_with(".js")) {
            for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
            {
                assert!(!file.text.contains(forbidden), "{} in {}", forbidden, file.path);
            }
        }
    }

    #[test]
    fn what_a_browser_has_is_not_sent_again() {
        let asked =
            |value: &str| HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_str(value).unwrap())]);
        let reply = |headers: &HeaderMap| super::reply(&INDEX, headers).unwrap();
        assert_eq!(reply(&HeaderMap::new()).status(), StatusCode::OK);
        for known in [TAG.clone(), format!("W/{}", *TAG), format!("\"x\", {}", *TAG)] {
            let response = reply(&asked(&known));
            assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
            assert!(response.headers().contains_key(header::CONTENT_SECURITY_POLICY));
        }
        assert_eq!(reply(&asked("\"x\"")).status(), StatusCode::OK);
    }
}
