//! Types of the interface `maintenance`: deferred work.

use wasmtime::component::{ComponentType, Lift, Lower};

use super::filter::{PluginProblem, Task, Vector};

/// What a completion is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
pub enum Purpose {
    /// A summary of what was said.
    #[component(name = "summary")]
    Summary,
    /// A title of a session.
    #[component(name = "title")]
    Title,
    /// What is worth remembering of a user.
    #[component(name = "extraction")]
    Extraction,
}

/// A completion by a language model.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct CompletionNeed {
    /// Goes with the result.
    pub id: u32,
    /// What it is for.
    pub purpose: Purpose,
    /// The model's instructions.
    pub instructions: String,
    /// The text to work on; quoted and fenced.
    pub input: String,
    /// The longest answer that is of use.
    #[component(name = "max-tokens")]
    pub max_tokens: u32,
}

/// A vector for each text, in order.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct VectorsNeed {
    /// Goes with the result.
    pub id: u32,
    /// What is to be embedded.
    pub texts: Vec<String>,
}

/// What the plugin can't get by itself.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(variant)]
pub enum Need {
    /// From a language model.
    #[component(name = "completion")]
    Completion(CompletionNeed),
    /// From an embedding model.
    #[component(name = "vectors")]
    Vectors(VectorsNeed),
}

/// What the language model said.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lower)]
#[component(record)]
pub struct CompletionResult {
    /// Of the need.
    pub id: u32,
    /// As it came.
    pub text: String,
}

/// What the embedding model said.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lower)]
#[component(record)]
pub struct VectorsResult {
    /// Of the need.
    pub id: u32,
    /// One for each text, in order.
    pub vectors: Vec<Vector>,
}

/// There is no model to ask: the filter does without, or leaves it for later.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lower)]
#[component(record)]
pub struct MissingResult {
    /// Of the need.
    pub id: u32,
    /// Why.
    pub message: String,
}

/// It could not be had this time: the filter leaves everything as it was.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lower)]
#[component(record)]
pub struct FailedResult {
    /// Of the need.
    pub id: u32,
    /// Why.
    pub message: String,
}

/// What has come of a [`Need`].
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lower)]
#[component(variant)]
pub enum NeedResult {
    /// A completion.
    #[component(name = "completion")]
    Completion(CompletionResult),
    /// Vectors.
    #[component(name = "vectors")]
    Vectors(VectorsResult),
    /// Nothing, because no model was asked.
    #[component(name = "missing")]
    Missing(MissingResult),
    /// Nothing, this time.
    #[component(name = "failed")]
    Failed(FailedResult),
}

/// One step of a task.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lower)]
#[component(record)]
pub struct Job {
    /// From a reply, or from the last step's [`Progress`](crate::maintenance::Progress). With an empty state: one that
    /// no reply named, in whichever generation the bucket has now.
    pub task: Task,
    /// Who works on it: random, chosen for each task and kept for all its steps.
    pub holder: String,
    /// How long the lease of each step has to last: the time-out for what it gets.
    #[component(name = "lease-milliseconds")]
    pub lease_milliseconds: u64,
    /// What the last step needed; empty at the first.
    pub results: Vec<NeedResult>,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
pub enum Step {
    /// Get what is needed, then call again.
    #[component(name = "needs")]
    Needs,
    /// Call again, whenever it suits.
    #[component(name = "again")]
    Again,
    /// It is done.
    #[component(name = "done")]
    Done,
    /// Another process is at work on it, or has done it.
    #[component(name = "taken")]
    Taken,
    /// The session or user is gone, or was forgotten.
    #[component(name = "ended")]
    Ended,
    /// See the problem; it will be due again.
    #[component(name = "failed")]
    Failed,
}

#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct PluginProgress {
    pub(crate) step: Step,
    pub(crate) task: Task,
    pub(crate) needs: Vec<Need>,
    pub(crate) problem: Option<PluginProblem>,
}
