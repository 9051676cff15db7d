//! Where requests of CodeBolt's clients are worked on, whether they come as REST or over a socket.

use std::sync::Arc;

use keepline::{
    Pipelines,
    pipelines::{Asker, Operation, Owner, PipelineError},
    store::Deadline,
};

use crate::{
    access::{Caller, Scope},
    events::Event,
    http::{ApiError, Call, JsonObject, require_project_writer, require_scope},
    tenants::Tenant,
};

/// Who asks, of which tenant, and until when.
#[derive(Clone)]
pub struct Desk {
    tenant: Arc<Tenant>,
    caller: Arc<Caller>,
    deadline: Deadline,
}

impl Desk {
    /// Of a request.
    pub fn of(call: &Call) -> Self {
        Self { tenant: call.tenant.clone(), caller: call.caller.clone(), deadline: call.deadline }
    }

    /// The same for a request that has until then.
    pub fn until(&self, deadline: Deadline) -> Self {
        Self { deadline, ..self.clone() }
    }

    /// Who asks.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Pipelines over the tenant's store.
    pub async fn pipelines(&self) -> Result<&Pipelines, ApiError> {
        Ok(self.tenant.pipelines().await?)
    }

    /// Whose definitions the caller uses.
    pub fn owner(&self) -> Owner {
        Owner::project(&*self.caller.project)
    }

    /// Who asks in a run. No session: a request's variables don't say who asks.
    fn asker(&self) -> Asker {
        Asker { owner: self.owner(), session: None, user: self.caller.user.as_deref().map(str::to_owned) }
    }

    /// Carries out an operation of the engine, by the request's deadline.
    pub async fn run(
        &self,
        operation: Operation,
        request: &JsonObject,
    ) -> Result<Result<String, PipelineError>, ApiError> {
        let (asker, input) = (self.asker(), request.to_text());
        Ok(self.pipelines().await?.run(&asker, operation, &input, Some(self.deadline)).await)
    }

    /// Whether the caller may do that: a socket is open to whoever reads.
    ///
    /// # Errors
    /// 403 if not.
    pub fn require(&self, scope: Scope) -> Result<(), ApiError> {
        require_scope(&self.caller, scope)
    }

    /// Whether the caller may write the project's definitions.
    ///
    /// # Errors
    /// 403 if not.
    pub fn require_writer(&self) -> Result<(), ApiError> {
        self.require(Scope::Write)?;
        require_project_writer(&self.caller)
    }

    /// Tells everyone who follows the tenant.
    pub fn announce(&self, event: &Event<'_>) {
        event.announce(&self.tenant, &self.caller);
    }
}
