//! `custom` steps: what a pipeline asks its embedder to do.

use std::borrow::Cow;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::value::RawValue;

/// What a `custom` step names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CustomWork<'a> {
    /// A function of that name: the step's `handler`.
    Handler(&'a str),
    /// The component in that file: the step's `actionBlockPath`.
    ActionBlock(&'a str),
    /// Code: the step's `inlineCode`.
    InlineCode(&'a str),
}

/// A `custom` step that waits for its result.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CustomStep<'a> {
    /// What is to be done.
    pub work: CustomWork<'a>,
    /// The items in hand: a JSON list.
    pub input: &'a str,
    /// The step's own parameters: a JSON object.
    pub params: &'a str,
}

/// Why a `custom` step has no result: for people, one sentence without a full stop. Secrets must not be in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CustomError {
    /// This host does not do that.
    #[error("{0}")]
    Refused(String),
    /// It tried.
    #[error("{0}")]
    Failed(String),
}

/// Carries out `custom` steps. A definition is only as trustworthy as whoever may store one: refuse what you have not
/// registered.
#[async_trait]
pub trait CustomSteps: Send + Sync + 'static {
    /// The step's result, as JSON: a list of items, as a rule. The call may be dropped at any time, at the run's deadline at the
    /// latest.
    ///
    /// # Errors
    /// When it is refused, or fails.
    async fn run(&self, step: CustomStep<'_>) -> Result<String, CustomError>;
}

/// What a need of a `custom` step has as JSON.
#[derive(Deserialize)]
struct Input<'a> {
    #[serde(borrow)]
    handler: Option<Cow<'a, str>>,
    #[serde(borrow)]
    action_block_path: Option<Cow<'a, str>>,
    #[serde(borrow)]
    inline_code: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input: &'a RawValue,
    #[serde(borrow)]
    params: &'a RawValue,
}

/// Let the embedder do what a need asks for.
pub(super) async fn run_custom_step(steps: Option<&dyn CustomSteps>, input: &str) -> Result<String, CustomError> {
    let Ok(need) = serde_json::from_str::<Input<'_>>(input) else {
        return Err(CustomError::Refused("the plugin asks for something that is no custom step".into()));
    };
    let work = match &need {
        Input { handler: Some(name), .. } => CustomWork::Handler(name),
        Input { action_block_path: Some(path), .. } => CustomWork::ActionBlock(path),
        Input { inline_code: Some(code), .. } => CustomWork::InlineCode(code),
        _ => return Err(CustomError::Refused("the plugin asks for something that is no custom step".into())),
    };
    match steps {
        Some(steps) => steps.run(CustomStep { work, input: need.input.get(), params: need.params.get() }).await,
        None => Err(CustomError::Refused(match work {
            CustomWork::Handler(_) => "no handler of that name is registered".into(),
            CustomWork::ActionBlock(_) => "this host runs no action blocks".into(),
            CustomWork::InlineCode(_) => "this host runs no code".into(),
        })),
    }
}
