//! Maps the library's errors to replies, for every route.
//!
//! What was sent wrong names the member that it is about; what is absent is 404; a store that fails is 503, to be tried
//! again; time that ran out is 504. The library's messages name no secret and no address.

use axum::http::StatusCode;
use keepline::{
    EntryError, SessionError,
    pipe::ProblemCode,
    pipelines::{PipelineError, PipelineErrorCode},
    sessions::SessionErrorCode,
    store::{Failure, FailureCode},
};

use super::{ApiError, Finding};

impl From<SessionError> for ApiError {
    fn from(SessionError { code, message, .. }: SessionError) -> Self {
        match code {
            SessionErrorCode::InvalidSession => Self::invalid("session", message),
            SessionErrorCode::InvalidKey => Self::invalid("key", message),
            SessionErrorCode::InvalidValue => Self::invalid("value", message),
            SessionErrorCode::NotFound | SessionErrorCode::Expired => Self::not_found(message),
            SessionErrorCode::AlreadyExists => Self::new(StatusCode::CONFLICT, "already_exists", message),
            SessionErrorCode::NotACounter => Self::new(StatusCode::CONFLICT, "not_a_counter", message),
            SessionErrorCode::CounterOverflow => Self::new(StatusCode::CONFLICT, "counter_overflow", message),
            SessionErrorCode::Limit => Self::new(StatusCode::PAYLOAD_TOO_LARGE, "limit", message),
            SessionErrorCode::TooManySessions => {
                Self { code: "too_many_sessions".into(), ..Self::unavailable(message) }
            }
            SessionErrorCode::Conflict => Self::new(StatusCode::CONFLICT, "conflict", message),
            SessionErrorCode::Store(code) => of_store(code, message),
            SessionErrorCode::Busy | SessionErrorCode::Closed => Self::unavailable(message),
            _ => Self::internal(&message),
        }
    }
}

impl From<EntryError> for ApiError {
    fn from(EntryError { code, message, .. }: EntryError) -> Self {
        of_problem(&code, message)
    }
}

impl From<PipelineError> for ApiError {
    fn from(PipelineError { code, path, message, findings, .. }: PipelineError) -> Self {
        let error = match code {
            PipelineErrorCode::NotFound => Self::not_found(message),
            PipelineErrorCode::Exists => Self::new(StatusCode::CONFLICT, "exists", message),
            PipelineErrorCode::Conflict => Self::new(StatusCode::CONFLICT, "conflict", message),
            PipelineErrorCode::Invalid => Self::new(StatusCode::BAD_REQUEST, "invalid", message),
            PipelineErrorCode::Limit => Self::new(StatusCode::PAYLOAD_TOO_LARGE, "limit", message),
            PipelineErrorCode::Store(code) => of_store(code, message),
            PipelineErrorCode::Busy | PipelineErrorCode::Closed => Self::unavailable(message),
            _ => Self::internal(&message),
        };
        let findings = findings.into_iter().filter(|finding| finding.is_error);
        let findings = findings.map(|finding| Finding { path: finding.path, message: finding.message }).collect();
        Self { path: Some(path).filter(|path| !path.is_empty()), findings, ..error }
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        of_store(failure.code, failure.message)
    }
}

/// An entry that failed for this.
pub fn of_problem(code: &ProblemCode, message: String) -> ApiError {
    match code {
        ProblemCode::Store(code) => of_store(*code, message),
        ProblemCode::Limit => ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "limit", message),
        ProblemCode::Busy | ProblemCode::Closed => ApiError::unavailable(message),
        ProblemCode::Other(code) => ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, code.replace('-', "_"), message),
        _ => ApiError::internal(&message),
    }
}

fn of_store(code: FailureCode, message: String) -> ApiError {
    match code {
        FailureCode::TimedOut => ApiError {
            retry_after: Some(std::time::Duration::from_secs(1)),
            ..ApiError::new(StatusCode::GATEWAY_TIMEOUT, "timed_out", message)
        },
        FailureCode::Invalid => ApiError::new(StatusCode::BAD_REQUEST, "invalid", message),
        FailureCode::TooLarge => ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "limit", message),
        FailureCode::Unsupported => ApiError::new(StatusCode::NOT_IMPLEMENTED, "unsupported", message),
        FailureCode::WrongType | FailureCode::NotACounter | FailureCode::CounterOverflow => {
            ApiError::new(StatusCode::CONFLICT, code.name().replace('-', "_"), message)
        }
        _ => ApiError::unavailable(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_of_a_store_says_whether_to_try_again() {
        for code in FailureCode::ALL {
            let error = ApiError::from(Failure::new(code, "", "no"));
            assert_eq!(error.retry_after.is_some(), code.is_store_failure(), "{code}");
            assert_eq!(error.status.is_server_error(), code.is_store_failure() || code == FailureCode::Unsupported);
        }
    }

    #[test]
    fn a_definition_that_is_refused_names_each_fault_with_its_place() {
        let error = ApiError::from(PipelineError::invalid("retrieval.pipeline[0]", "no such type"));
        assert_eq!((error.status.as_u16(), error.path.as_deref()), (400, Some("retrieval.pipeline[0]")));
    }
}
