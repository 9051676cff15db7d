//! Conditions of requests: what a reply shows has an `ETag`, and a change may name the one that has to be there.

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::Response,
};

use super::ApiError;

/// The headers of conditions. A route that writes takes those that its row names, and is refused with the others.
pub const CONDITIONS: [HeaderName; 3] = [header::IF_MATCH, header::IF_NONE_MATCH, header::IF_UNMODIFIED_SINCE];

/// What has to be there for a change to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// What has this tag.
    Tag(String),
    /// Something.
    Present,
    /// Nothing.
    Absent,
}

impl Condition {
    /// That of a request; none: it has none.
    ///
    /// # Errors
    /// When a header names something else, or several things.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        let if_match = single(headers, &header::IF_MATCH)?;
        let if_none_match = single(headers, &header::IF_NONE_MATCH)?;
        match (if_match, if_none_match) {
            (Some(_), Some(_)) => {
                Err(ApiError::invalid("if-none-match", "if-match and if-none-match exclude each other"))
            }
            (None, None) => Ok(None),
            (None, Some("*")) => Ok(Some(Self::Absent)),
            (None, Some(_)) => {
                Err(ApiError::invalid("if-none-match", "if-none-match must be *: store it only if there is none"))
            }
            (Some("*"), None) => Ok(Some(Self::Present)),
            (Some(given), None) => match given.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')) {
                Some(tag) if !tag.is_empty() && !tag.contains('"') => Ok(Some(Self::Tag(tag.to_owned()))),
                _ => Err(ApiError::invalid("if-match", "if-match must be one etag, such as \"3\"")),
            },
        }
    }
}

/// The value of a header that may come once.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, ApiError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value.map(|value| value.to_str().unwrap_or_default().trim())),
        _ => Err(ApiError::invalid(name.as_str(), format!("{name} must be sent once"))),
    }
}

/// Tells the tag of what the reply shows.
pub fn with_tag(mut response: Response, tag: &str) -> Response {
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{tag}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// The same for a definition, whose tag is its revision.
pub fn with_revision(response: Response, revision: u64) -> Response {
    with_tag(response, &revision.to_string())
}

/// The revision of a definition that must be there; 0: none.
///
/// # Errors
/// When a header names something else.
pub fn expected_revision(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let revision = match Condition::of(headers)? {
        None => return Ok(None),
        Some(Condition::Absent) => return Ok(Some(0)),
        Some(Condition::Present) => None,
        Some(Condition::Tag(tag)) => tag.parse().ok().filter(|revision| *revision > 0),
    };
    let allowed = "if-match must be the etag of one definition, such as \"3\"";
    revision.map(Some).ok_or_else(|| ApiError::invalid("if-match", allowed))
}

/// The version of a transcript that must be there.
///
/// # Errors
/// When a header names something else.
pub fn expected_version(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    match Condition::of(headers)? {
        None => Ok(None),
        Some(Condition::Tag(version)) => Ok(Some(version)),
        Some(_) => Err(ApiError::invalid("if-match", "if-match must be the etag of the session, or of its messages")),
    }
}

/// A conflict of a request that `expects` something is 412, and names the header.
pub fn with_expectation(error: impl Into<ApiError>, expects: bool) -> ApiError {
    let error = error.into();
    if !expects || !matches!(&*error.code, "conflict" | "exists") {
        return error;
    }
    let named = |path: String| if path == "revision" { header::IF_MATCH.as_str().to_owned() } else { path };
    let path = error.path.map(named);
    ApiError { status: StatusCode::PRECONDITION_FAILED, code: "changed".into(), path, ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_condition_names_one_tag_something_or_nothing_at_all() {
        let (matches, none) = (header::IF_MATCH, header::IF_NONE_MATCH);
        let read = |given: &[_]| Condition::of(&headers(given));
        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&[(matches.clone(), "\"a b\"")]).unwrap(), Some(Condition::Tag("a b".into())));
        assert_eq!(read(&[(matches.clone(), "*")]).unwrap(), Some(Condition::Present));
        assert_eq!(read(&[(none.clone(), " * ")]).unwrap(), Some(Condition::Absent));
        for value in ["3", "\"", "\"\"", "W/\"3\"", "\"3\", \"4\"", ""] {
            assert_eq!(read(&[(matches.clone(), value)]).unwrap_err().path.as_deref(), Some("if-match"), "{value}");
        }
        let twice = [(matches.clone(), "\"3\""), (matches.clone(), "\"3\"")];
        assert_eq!(read(&twice).unwrap_err().path.as_deref(), Some("if-match"));
        for both in [&[(none.clone(), "\"3\"")][..], &[(none, "*"), (matches, "*")]] {
            assert_eq!(read(both).unwrap_err().path.as_deref(), Some("if-none-match"));
        }
    }

    #[test]
    fn a_condition_of_a_definition_names_one_revision_or_none_at_all() {
        let read = |name, value| expected_revision(&headers(&[(name, value)]));
        assert_eq!(expected_revision(&HeaderMap::new()).unwrap(), None);
        assert_eq!(read(header::IF_MATCH, "\"3\"").unwrap(), Some(3));
        assert_eq!(read(header::IF_NONE_MATCH, "*").unwrap(), Some(0));
        for value in ["3", "\"0\"", "\"x\"", "*"] {
            assert_eq!(read(header::IF_MATCH, value).unwrap_err().path.as_deref(), Some("if-match"), "{value}");
        }
    }
}
