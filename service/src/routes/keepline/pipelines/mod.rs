//! Declared retrieval: definitions, their data sets, runs and assembly. All belong to the caller's project; a caller with a
//! user runs them and reads them, and writes none.

pub mod definitions;
pub mod items;
pub mod runs;

use keepline::{
    Pipelines,
    pipelines::{Owner, PipelineError},
};

use crate::http::{ApiError, Call};

/// Whose definitions and data sets the caller uses.
fn project(call: &Call) -> Owner {
    Owner::project(&*call.caller.project)
}

async fn pipelines(call: &Call) -> Result<&Pipelines, ApiError> {
    Ok(call.tenant.pipelines().await?)
}

/// An error at what a parameter of the query stands for, under the parameter's name.
fn named_as(own: &[&str], query: &str, mut error: PipelineError) -> ApiError {
    if own.contains(&&*error.path) {
        error.path = query.to_owned();
    }
    error.into()
}
