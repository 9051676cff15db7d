//! Assemblies on the lanes: what questions gain from memories.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Asker, Operation, Owner, Pipelines};
use crate::{
    entry::sections::SectionAssembler,
    logging::LogLevel,
    runtime::EntryOwner,
    store::{Deadline, StoreGuard},
};

/// Which memories take part in the assembly for questions, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AssemblyOptions {
    /// Whose definitions and data sets. `${project_id}` is the name of a project.
    pub owner: Owner,
    /// What `${org_id}` stands for.
    pub tenant: String,
    /// Ids of memories.
    pub memories: Vec<String>,
    /// Ids of rule engines that call for memories; none: all.
    pub rule_engines: Option<Vec<String>>,
    /// The budget of the assembly. Default 1,000.
    pub max_tokens: u32,
}

impl AssemblyOptions {
    /// Of an owner's definitions, no memory and no rule engine yet.
    pub fn new(owner: Owner) -> Self {
        let tenant = "default".to_owned();
        Self { owner, tenant, memories: Vec::new(), rule_engines: Some(Vec::new()), max_tokens: 1_000 }
    }
}

/// An output is longer only if the plugin lies.
const BYTES_AROUND: usize = 1 << 20;
const BYTES_OF_TOKEN: usize = 64;

/// What one memory contributes.
#[derive(Deserialize, Serialize)]
struct SectionItem {
    text: String,
    memory_id: String,
    priority: String,
}

macro_rules! sections {
    ($($name:ident),*) => {
        /// Items by section, in the order in which they stand.
        #[derive(Deserialize, Serialize)]
        struct Sections {
            $(#[serde(default, skip_serializing_if = "Vec::is_empty")] $name: Vec<SectionItem>,)*
        }

        impl Sections {
            fn is_empty(&self) -> bool {
                $(self.$name.is_empty())&&*
            }
        }
    };
}

sections!(state, warnings, constraints, knowledge, history, suggestions, working_memory);

/// The member `memory_sections`.
#[derive(Serialize)]
struct MemorySections {
    text: String,
    sections: Sections,
}

/// What an assembly returns, as far as it matters here.
#[derive(Deserialize)]
struct Assembled {
    context: Sections,
    text: String,
    trace: Trace,
}

#[derive(Deserialize)]
struct Trace {
    memory_calls: Vec<MemoryCall>,
    #[serde(default)]
    missing_variables: Vec<String>,
}

#[derive(Deserialize)]
struct MemoryCall {
    memory_id: String,
    error: Option<CallError>,
}

#[derive(Deserialize)]
struct CallError {
    message: String,
}

/// Assembles for the questions of a Keepline.
pub(super) struct LaneAssembler {
    pub(super) pipelines: Pipelines,
    pub(super) options: AssemblyOptions,
}

#[async_trait]
impl SectionAssembler for LaneAssembler {
    async fn assemble(
        &self,
        store: &Arc<StoreGuard>,
        owner: &EntryOwner,
        text: &str,
        by: Deadline,
    ) -> Result<Option<String>, String> {
        let AssemblyOptions { owner: of, tenant, memories, rule_engines, max_tokens } = &self.options;
        let asker = Asker {
            owner: of.clone(),
            session: owner.session.as_deref().map(Into::into),
            user: owner.user.as_deref().map(Into::into),
        };
        let mut scopes = BTreeMap::from([("org", json!({"org_id": tenant}))]);
        if of.kind == super::OwnerKind::Project.name() {
            scopes.insert("project", json!({"project_id": of.name}));
        }
        if let Some(session) = &asker.session {
            scopes.insert("thread", json!({"thread_id": session}));
        }
        if let Some(user) = &asker.user {
            scopes.insert("user", json!({"user_id": user}));
        }
        let mut request = json!({
            "scope_variables": scopes,
            "input": {"text": text},
            "explicit_memory": memories,
            "constraints": {"max_tokens": max_tokens},
        });
        if let (Some(engines), Some(request)) = (rule_engines, request.as_object_mut()) {
            request.insert("rule_engine_ids".to_owned(), json!(engines));
        }
        let pipelines = self.pipelines.over(store);
        let output = pipelines.run(&asker, Operation::Assemble, &request.to_string(), Some(by)).await;
        let output = output.map_err(|error| error.to_string())?;
        if output.len() > BYTES_AROUND + BYTES_OF_TOKEN * *max_tokens as usize {
            return Err(format!("the plugin returned {} bytes for {max_tokens} tokens", output.len()));
        }
        let assembled: Assembled = serde_json::from_str(&output)
            .map_err(|error| format!("what the plugin returned is no assembly: {error}"))?;
        report(&pipelines, &assembled.trace);
        if assembled.context.is_empty() {
            return Ok(None);
        }
        let sections = MemorySections { text: assembled.text, sections: assembled.context };
        serde_json::to_string(&sections).map(Some).map_err(|error| error.to_string())
    }
}

/// Logs which memories failed, and which variables nobody filled.
fn report(pipelines: &Pipelines, trace: &Trace) {
    let log = pipelines.keepline.inner.log();
    for MemoryCall { memory_id, error } in &trace.memory_calls {
        if let Some(error) = error {
            let message = format!("the memory {memory_id} failed and is left out: {}", error.message);
            log.log_from_plugin(LogLevel::Warn, "keepline.pipeline", &message);
        }
    }
    if !trace.missing_variables.is_empty() {
        let message = format!("variables without a value: {}", trace.missing_variables.join(", "));
        log.log_from_plugin(LogLevel::Debug, "keepline.pipeline", &message);
    }
}
