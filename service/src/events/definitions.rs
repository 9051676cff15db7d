//! Events of definitions, runs and assemblies: typed here, JSON for those who follow.
//!
//! They tell what happened to what, and none of the texts that were found: whoever asked has those in the reply.

use keepline::sessions::user_bucket;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{access::Caller, tenants::Tenant, time::timestamp};

/// What happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// A memory is new; as it is stored.
    MemoryCreated(&'a RawValue),
    /// A memory was changed or replaced; as it is stored now.
    MemoryUpdated(&'a RawValue),
    /// The memory of this id is gone.
    MemoryDeleted(&'a str),
    /// A memory has run, well or not.
    PipelineExecuted(Executed<'a>),
    /// An assembly that was not refused begins.
    AssemblyStarted(&'a str),
    /// The rules have said which memories take part.
    RulesEvaluated(RulesEvaluated<'a>),
    /// A memory of an assembly has run.
    MemoryCompleted(MemoryCompleted<'a>),
    /// The context is there.
    AssemblyCompleted(AssemblyCompleted<'a>),
    /// An assembly was refused, or failed.
    AssemblyFailed(&'a str),
}

/// A run that ended.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Executed<'a> {
    pub memory_id: &'a str,
    pub success: bool,
    pub items: usize,
    /// Milliseconds.
    pub execution_time: u64,
}

/// Which memories take part, and by which rules.
#[derive(Debug, Serialize)]
pub struct RulesEvaluated<'a> {
    #[serde(rename = "assemblyId")]
    pub assembly_id: &'a str,
    pub memories: &'a [String],
    pub rules_applied: &'a RawValue,
}

/// A memory of an assembly.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryCompleted<'a> {
    pub assembly_id: &'a str,
    pub memory_id: &'a str,
    pub success: bool,
}

/// What an assembly came to.
#[derive(Debug, Serialize)]
pub struct AssemblyCompleted<'a> {
    #[serde(rename = "assemblyId")]
    pub assembly_id: &'a str,
    pub meta: &'a RawValue,
    pub trace: &'a RawValue,
}

/// The types of all events, as followers know them.
pub const TYPES: [&str; 9] = [
    "persistentMemory:created",
    "persistentMemory:updated",
    "persistentMemory:deleted",
    "persistentMemory:pipeline-executed",
    "contextAssembly:started",
    "contextAssembly:rulesEvaluated",
    "contextAssembly:pipelineComplete",
    "contextAssembly:complete",
    "contextAssembly:error",
];

/// An event on the wire.
#[derive(Serialize)]
struct Frame<'a> {
    r#type: &'a str,
    data: &'a RawValue,
    timestamp: String,
    /// The bucket of the user whose key asked: who follows as another user is not told of what that user does.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
}

impl Event<'_> {
    /// Its type, as followers know it.
    pub fn type_name(&self) -> &'static str {
        let [created, updated, deleted, executed, started, rules, completed, complete, error] = TYPES;
        match self {
            Self::MemoryCreated(_) => created,
            Self::MemoryUpdated(_) => updated,
            Self::MemoryDeleted(_) => deleted,
            Self::PipelineExecuted(_) => executed,
            Self::AssemblyStarted(_) => started,
            Self::RulesEvaluated(_) => rules,
            Self::MemoryCompleted(_) => completed,
            Self::AssemblyCompleted(_) => complete,
            Self::AssemblyFailed(_) => error,
        }
    }

    /// As JSON. `user`: who did it, where that is one user only.
    fn to_text(&self, user: Option<&str>) -> String {
        let data = match self {
            Self::MemoryCreated(memory) | Self::MemoryUpdated(memory) => raw(memory),
            Self::MemoryDeleted(id) => raw(&serde_json::json!({"id": id})),
            Self::PipelineExecuted(executed) => raw(executed),
            Self::AssemblyStarted(id) => raw(&serde_json::json!({"assemblyId": id})),
            Self::RulesEvaluated(evaluated) => raw(evaluated),
            Self::MemoryCompleted(completed) => raw(completed),
            Self::AssemblyCompleted(completed) => raw(completed),
            Self::AssemblyFailed(error) => raw(&serde_json::json!({"error": error})),
        };
        let owner = user.map(user_bucket);
        let frame = Frame { r#type: self.type_name(), data: &data, timestamp: timestamp(), owner };
        serde_json::to_string(&frame).unwrap_or_default()
    }

    /// Tells it to those who follow the tenant's events.
    pub fn announce(&self, tenant: &Tenant, caller: &Caller) {
        tenant.events().announce(self.to_text(caller.user.as_deref()));
    }
}

/// A value as it is written. Nothing in an event can't be.
fn raw(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_its_members_as_clients_spell_them_and_says_whose_it_is() {
        let executed = Executed { memory_id: "m", success: true, items: 2, execution_time: 7 };
        let text = Event::PipelineExecuted(executed).to_text(Some("anna"));
        let start = r#"{"type":"persistentMemory:pipeline-executed","data":{"memoryId":"m","success":true,"items":2,"executionTime":7},"timestamp":"#;
        assert!(text.starts_with(start) && text.ends_with(r#","owner":"anna"}"#), "{text}");
        assert!(!Event::MemoryDeleted("m").to_text(None).contains("owner"));
    }
}
