//! Conditions of requests: a definition's revision is its `ETag`, and a change may name the one that has to be there.

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use keepline::pipelines::{PipelineError, PipelineErrorCode};

use super::ApiError;

/// Tells the revision.
pub fn with_revision(mut response: Response, revision: u64) -> Response {
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{revision}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// The revision that must be there; 0: none.
///
/// # Errors
/// When a header names something else.
pub fn expected_revision(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default().trim().to_owned());
    if let Some(given) = text(header::IF_NONE_MATCH) {
        let allowed = "if-none-match must be *: store it only if there is none";
        return if given == "*" { Ok(Some(0)) } else { Err(ApiError::invalid("if-none-match", allowed)) };
    }
    let Some(given) = text(header::IF_MATCH) else { return Ok(None) };
    let revision = given.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).and_then(|tag| tag.parse().ok());
    let allowed = "if-match must be the etag of one definition, such as \"3\"";
    revision.filter(|revision| *revision > 0).map(Some).ok_or_else(|| ApiError::invalid("if-match", allowed))
}

/// A conflict with what the request expects is 412.
pub fn with_expectation(error: PipelineError, expected: Option<u64>) -> ApiError {
    let is_unmet = match error.code {
        PipelineErrorCode::Conflict | PipelineErrorCode::Exists => expected.is_some(),
        _ => false,
    };
    let error = ApiError::from(error);
    if !is_unmet {
        return error;
    }
    let named = |path: String| if path == "revision" { header::IF_MATCH.as_str().to_owned() } else { path };
    let path = error.path.map(named);
    ApiError { status: StatusCode::PRECONDITION_FAILED, code: "changed".into(), path, ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn a_condition_names_one_revision_or_none_at_all() {
        assert_eq!(expected_revision(&HeaderMap::new()).unwrap(), None);
        assert_eq!(expected_revision(&headers(header::IF_MATCH, "\"3\"")).unwrap(), Some(3));
        assert_eq!(expected_revision(&headers(header::IF_NONE_MATCH, "*")).unwrap(), Some(0));
        for (name, value) in [(header::IF_MATCH, "3"), (header::IF_MATCH, "\"0\""), (header::IF_NONE_MATCH, "\"3\"")] {
            let error = expected_revision(&headers(name.clone(), value)).unwrap_err();
            assert_eq!(error.path.as_deref(), Some(name.as_str()));
        }
    }
}
