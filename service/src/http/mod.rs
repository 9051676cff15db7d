//! Requests, replies, errors and routes, as the handlers see them.

mod call;
mod content_coding;
mod error;
mod error_mapping;
mod object;
mod page;
mod permission;
mod reply;
mod revision;
mod route;
mod stream_end;

pub(crate) use self::route::rows;
pub use self::{
    call::{Call, Parameters},
    error::{ApiError, ErrorShape, Finding},
    error_mapping::of_problem,
    object::{JsonObject, OnlyObject, raw},
    page::{Page, PageQuery},
    permission::{require_project_writer, require_scope},
    reply::{NDJSON, created, json, raw_json},
    revision::{CONDITIONS, Condition, expected_revision, expected_version, with_expectation, with_revision, with_tag},
    route::{Access, Handler, Route, handler},
    stream_end::StreamEnd,
};
