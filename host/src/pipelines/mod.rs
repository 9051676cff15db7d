//! Declared retrieval: definitions of memories and rule engines, the data sets that they read, and runs, in a component of
//! their own over the same store.
//!
//! ```
//! use std::sync::Arc;
//!
//! use keepline::{
//!     Options, Plugin, Sandbox,
//!     pipelines::{Asker, DatasetKind, DefinitionForm, DefinitionKind, Item, Operation, Owner, PipelineOptions, Pipelines},
//!     store::{MemoryLimits, MemoryStore},
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let plugin = Plugin::bundled_pipelines(&Sandbox::default())?;
//! let store = Arc::new(MemoryStore::new(MemoryLimits::default()));
//! let pipelines = Pipelines::new(plugin, store, PipelineOptions::default()).await?;
//!
//! let project = Owner::project("shop");
//! let definition = r#"{"id": "rules", "label": "House rules", "inputs_scope": ["project"], "retrieval": {"pipeline": [
//!     {"type": "kv_get", "instance": "house", "namespace": "style", "keys": ["indent"]}]}}"#;
//! pipelines.put(&project, DefinitionKind::Memory, DefinitionForm::Json, definition, None).await?;
//! let style = project.dataset(DatasetKind::Values).named("house").in_namespace("style");
//! pipelines.put_items(&style, &[Item { id: "indent".into(), text: r#""four spaces""#.into() }]).await?;
//!
//! let asker = Asker::new(project);
//! let output = pipelines.run(&asker, Operation::Execute, r#"{"id": "rules"}"#, None).await?;
//! assert!(output.contains("four spaces"));
//! # Ok(()) }
//! ```

mod assembly;
mod custom;
mod error;
mod names;
mod project;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

pub use keepline_options::bucket_names::is_definition_id;
use keepline_options::bucket_names::user_bucket_name;
use serde_json::value::RawValue;
use tokio::time::Instant;

pub use self::{
    assembly::AssemblyOptions,
    custom::{CustomError, CustomStep, CustomSteps, CustomWork},
    error::{PipelineError, PipelineErrorCode},
    names::{DatasetKind, DefinitionForm, DefinitionKind, InputScope, Operation, OwnerKind},
    project::{ProjectStore, indented_json},
};
use self::{assembly::LaneAssembler, custom::run_custom_step, error::printable};
pub use crate::contract::pipelines::{
    datasets::{Dataset, Item, ItemPage, ItemsChanged},
    definitions::{
        Checked, Definition, DefinitionPage, DefinitionQuery, Finding, Owner, RequiredVariables, ScopeVariables,
    },
    runs::Asker,
};
pub use crate::entry::sections::Assembly;
use crate::{
    contract::{
        pipeline_needs::{FailedResult, MissingResult, Need, Outcome, TextResult, Vector, VectorsResult},
        pipelines::{
            definitions::Refusal,
            runs::{self, Answer},
        },
        shared::Problem,
    },
    keepline::options::Options,
    keepline::{Keepline, KeeplineError, metrics::Metrics},
    plugin::Plugin,
    runtime::{BoundedReply, CallScope, Exports, InstanceStore, PipelineAccess, PipelineScope, PluginWorld},
    store::{Deadline, Health, Store, StoreGuard},
};

/// Calls of a run that come after needs. Each definition has at most 100 steps, and each need goes with others.
const MAX_ROUNDS: usize = 128;

/// How pipelines behave. Start from [`PipelineOptions::default`].
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct PipelineOptions {
    /// As for a filter: instances, time-outs, clock, log, embedder. [`Options::filter`] are the options of the pipelines'
    /// `configure` (`wit/pipelines/world.wit` lists them), and [`Options::entry_timeout`] holds for each call.
    pub host: Options,
    /// Who carries out `custom` steps. Default none: they are refused, each by name.
    pub custom_steps: Option<Arc<dyn CustomSteps>>,
}

/// Pipelines over a store. Cheap to clone, safe to use from many tasks.
#[derive(Clone)]
pub struct Pipelines {
    keepline: Keepline,
    custom_steps: Option<Arc<dyn CustomSteps>>,
}

impl Owner {
    fn new(kind: OwnerKind, name: impl Into<String>) -> Self {
        Self { kind: kind.name().to_owned(), name: name.into() }
    }

    /// A project.
    pub fn project(name: impl Into<String>) -> Self {
        Self::new(OwnerKind::Project, name)
    }

    /// A user.
    pub fn user(name: impl Into<String>) -> Self {
        Self::new(OwnerKind::User, name)
    }

    /// A tenant.
    pub fn tenant(name: impl Into<String>) -> Self {
        Self::new(OwnerKind::Tenant, name)
    }

    /// One of the owner's data sets. Values need a [name](Dataset::named) and a [namespace](Dataset::in_namespace), events
    /// and documents a name.
    pub fn dataset(&self, kind: DatasetKind) -> Dataset {
        Dataset { owner: self.clone(), kind: kind.name().to_owned(), name: String::new(), namespace: String::new() }
    }
}

impl Dataset {
    /// The instance of values and events, or the collection of documents.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// The namespace of values.
    #[must_use]
    pub fn in_namespace(self, namespace: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), ..self }
    }
}

impl Asker {
    /// Who asks about an owner's definitions, without a session or user.
    pub fn new(owner: Owner) -> Self {
        Self { owner, session: None, user: None }
    }

    /// The asking session, by its id.
    #[must_use]
    pub fn in_session(self, session: impl Into<String>) -> Self {
        Self { session: Some(session.into()), ..self }
    }

    /// The asking user, by their id.
    #[must_use]
    pub fn for_user(self, user: impl Into<String>) -> Self {
        Self { user: Some(user.into()), ..self }
    }
}

/// One call of an interface, which the component may lack.
macro_rules! call {
    ($self:ident, $by:expr, $scope:expr, $interface:ident.$function:ident($($argument:expr),*)) => {
        $self.call($by, $scope, async |exports: &Exports, store: &mut InstanceStore| match exports.$interface() {
            Ok(interface) => interface.$function(store, $($argument),*).await,
            Err(missing) => Ok(Err(missing.into())),
        })
    };
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self { problem, findings: Vec::new() }
    }
}

impl Pipelines {
    /// Configures a first instance of the plugin.
    ///
    /// # Errors
    /// When the plugin is none of pipelines, refuses the options, or can't be instantiated; when the store can't be used and is
    /// required.
    pub async fn new(plugin: Plugin, store: Arc<dyn Store>, options: PipelineOptions) -> Result<Self, KeeplineError> {
        let PipelineOptions { host, custom_steps } = options;
        Ok(Self { keepline: Keepline::of_world(PluginWorld::Pipelines, plugin, store, host).await?, custom_steps })
    }

    /// The same over another store, as [`Keepline::with_store`].
    ///
    /// # Errors
    /// When the other store has other capabilities or limits.
    pub fn with_store(&self, store: Arc<dyn Store>) -> Result<Self, KeeplineError> {
        Ok(Self { keepline: self.keepline.with_store(store)?, custom_steps: self.custom_steps.clone() })
    }

    /// Validate a definition: findings, and the form that would be stored if none is an error.
    ///
    /// # Errors
    /// The plugin's; a definition with errors is none.
    pub async fn check(
        &self,
        kind: DefinitionKind,
        form: DefinitionForm,
        text: &str,
    ) -> Result<Checked, PipelineError> {
        let scope = CallScope::Nothing;
        let checked: Checked = call!(self, None, scope, definitions.call_check(kind.name(), form.name(), text)).await?;
        let Checked { findings, definition } = checked;
        let definition = definition.map(checked_definition).transpose()?;
        Ok(Checked { findings: findings.into_iter().map(printable).collect(), definition })
    }

    /// Store a definition under its id. `revision`: what must be there, 0 for nothing; none: whatever is there.
    ///
    /// # Errors
    /// `Exists` or `Conflict` where another revision is there; `Invalid` with all findings; or the store's.
    pub async fn put(
        &self,
        owner: &Owner,
        kind: DefinitionKind,
        form: DefinitionForm,
        text: &str,
        revision: Option<u64>,
    ) -> Result<Definition, PipelineError> {
        let scope = scope_of(owner, PipelineAccess::WriteDefinitions);
        let (kind, form) = (kind.name(), form.name());
        checked_definition(call!(self, None, scope, definitions.call_put(owner, kind, form, text, revision)).await?)
    }

    /// Replace top-level members of a stored definition with those of a JSON object.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`, `Invalid` with all findings, or the store's.
    pub async fn update(
        &self,
        owner: &Owner,
        kind: DefinitionKind,
        id: &str,
        changes: &str,
        revision: Option<u64>,
    ) -> Result<Definition, PipelineError> {
        let scope = scope_of(owner, PipelineAccess::WriteDefinitions);
        let kind = kind.name();
        checked_definition(call!(self, None, scope, definitions.call_update(owner, kind, id, changes, revision)).await?)
    }

    /// Store a definition once more under another id; none: the first of `X-copy`, `X-copy-2`, and so on, that is free.
    ///
    /// # Errors
    /// `NotFound`, `Exists`, `Invalid`, or the store's.
    pub async fn duplicate(
        &self,
        owner: &Owner,
        kind: DefinitionKind,
        id: &str,
        new_id: Option<&str>,
    ) -> Result<Definition, PipelineError> {
        let scope = scope_of(owner, PipelineAccess::WriteDefinitions);
        let kind = kind.name();
        checked_definition(call!(self, None, scope, definitions.call_duplicate(owner, kind, id, new_id)).await?)
    }

    /// The definition of this id.
    ///
    /// # Errors
    /// `NotFound`, or the store's.
    pub async fn get(&self, owner: &Owner, kind: DefinitionKind, id: &str) -> Result<Definition, PipelineError> {
        let query =
            DefinitionQuery { ids: vec![id.to_owned()], scope: None, only_active: false, cursor: String::new() };
        let page = self.find(owner, kind, &query).await?;
        page.definitions.into_iter().find(|found| found.id == id).ok_or_else(|| PipelineError {
            code: PipelineErrorCode::NotFound,
            path: "id".to_owned(),
            message: format!("there is no {} {id}", kind.noun()),
            findings: Vec::new(),
        })
    }

    /// A page of the definitions that a query is for.
    ///
    /// # Errors
    /// `Invalid` for an unknown scope, or the store's.
    pub async fn find(
        &self,
        owner: &Owner,
        kind: DefinitionKind,
        query: &DefinitionQuery,
    ) -> Result<DefinitionPage, PipelineError> {
        let scope = scope_of(owner, PipelineAccess::Read);
        let page: DefinitionPage = call!(self, None, scope, definitions.call_find(owner, kind.name(), query)).await?;
        let definitions = page.definitions.into_iter().map(checked_definition).collect::<Result<_, _>>()?;
        Ok(DefinitionPage { definitions, ..page })
    }

    /// All definitions of a kind with that input scope (none: any), by id.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub async fn list(
        &self,
        owner: &Owner,
        kind: DefinitionKind,
        scope: Option<&str>,
        only_active: bool,
    ) -> Result<Vec<Definition>, PipelineError> {
        let scope = scope.map(str::to_owned);
        let mut query = DefinitionQuery { ids: Vec::new(), scope, only_active, cursor: String::new() };
        let mut all = BTreeMap::new();
        loop {
            let page = self.find(owner, kind, &query).await?;
            all.extend(page.definitions.into_iter().map(|definition| (definition.id.clone(), definition)));
            if page.cursor.is_empty() {
                return Ok(all.into_values().collect());
            }
            if page.cursor == query.cursor {
                return Err(PipelineError::of_plugin("the plugin returns the same page for ever"));
            }
            query.cursor = page.cursor;
        }
    }

    /// Remove a definition. The revision that it had.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`, or the store's.
    pub async fn remove(
        &self,
        owner: &Owner,
        kind: DefinitionKind,
        id: &str,
        revision: Option<u64>,
    ) -> Result<u64, PipelineError> {
        let scope = scope_of(owner, PipelineAccess::WriteDefinitions);
        let kind = kind.name();
        Ok(call!(self, None, scope, definitions.call_remove(owner, kind, id, revision)).await?.revision)
    }

    /// What a caller has to bring so that these memories can run.
    ///
    /// # Errors
    /// `NotFound` at the id, `Invalid`, or the store's.
    pub async fn required_variables(&self, owner: &Owner, ids: &[String]) -> Result<RequiredVariables, PipelineError> {
        let scope = scope_of(owner, PipelineAccess::Read);
        call!(self, None, scope, definitions.call_list_required_variables(owner, ids)).await
    }

    /// The types of steps with their parameters: a JSON list.
    ///
    /// # Errors
    /// The plugin's.
    pub async fn describe_steps(&self, only_configurable: bool) -> Result<String, PipelineError> {
        let described = self.call(None, CallScope::Nothing, async |exports: &Exports, store: &mut InstanceStore| {
            match exports.definitions() {
                Ok(interface) => interface.call_describe_steps(store, only_configurable).await.map(Ok),
                Err(missing) => Ok(Err(missing)),
            }
        });
        checked_json(described.await?.text)
    }

    /// Put items into a data set. Those that are there under their ids are replaced; an event that is there under its id, if it
    /// was given one, is left out.
    ///
    /// # Errors
    /// `Invalid` names the item and its member, and nothing is written; or the store's.
    pub async fn put_items(&self, dataset: &Dataset, items: &[Item]) -> Result<ItemsChanged, PipelineError> {
        let scope = scope_of(&dataset.owner, PipelineAccess::WriteData);
        call!(self, None, scope, datasets.call_put(dataset, items)).await
    }

    /// A page of a data set's items: of events and documents the newest first, of others in no order.
    ///
    /// # Errors
    /// `Invalid`, or the store's.
    pub async fn list_items(&self, dataset: &Dataset, cursor: &str, limit: u32) -> Result<ItemPage, PipelineError> {
        let scope = scope_of(&dataset.owner, PipelineAccess::Read);
        let page: ItemPage = call!(self, None, scope, datasets.call_find(dataset, cursor, limit)).await?;
        let checked = |item: Item| Ok(Item { text: checked_json(item.text)?, ..item });
        let items = page.items.into_iter().map(checked).collect::<Result<_, PipelineError>>()?;
        Ok(ItemPage { items, ..page })
    }

    /// Remove items from a data set. Those that are not there are skipped.
    ///
    /// # Errors
    /// `Invalid`, or the store's.
    pub async fn remove_items(&self, dataset: &Dataset, ids: &[String]) -> Result<ItemsChanged, PipelineError> {
        let scope = scope_of(&dataset.owner, PipelineAccess::WriteData);
        call!(self, None, scope, datasets.call_remove(dataset, ids)).await
    }

    /// Carry out an operation whose input and output are JSON objects (`conformance/pipelines/` shows each), to its end: with
    /// vectors of the embedder, and what `custom` steps give. Without a deadline it has [`Options::entry_timeout`].
    ///
    /// Cost: two waits for the store, and one for each link of the longest chain of dependent steps; the same again after
    /// each need.
    ///
    /// # Errors
    /// `NotFound`, `Invalid`, `Conflict` where a definition was changed during the run, or the store's. A run that fails is
    /// none: its output says so.
    pub async fn run(
        &self,
        asker: &Asker,
        operation: Operation,
        input: &str,
        by: Option<Deadline>,
    ) -> Result<String, PipelineError> {
        let deadline = by.unwrap_or_else(|| Deadline::after(self.keepline.inner.entry_timeout));
        let since = self.keepline.inner.pool.services().clock.now();
        let mut request = runs::Request {
            asker: asker.clone(),
            operation: operation.name().to_owned(),
            input: input.to_owned(),
            now: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            revisions: Vec::new(),
            answers: Vec::new(),
        };
        for _ in 0..MAX_ROUNDS {
            let scope = self.run_scope(asker);
            let reply: runs::Reply = call!(self, Some(deadline), scope, runs.call_run(&request)).await?;
            if reply.needs.is_empty() {
                return checked_json(reply.output);
            }
            request.revisions = reply.revisions;
            for pending in reply.needs {
                let outcome = self.answer(pending.need, deadline).await;
                request.answers.push(Answer { digest: pending.digest, outcome });
            }
        }
        Err(PipelineError::of_plugin(format!("the plugin still needs something after {MAX_ROUNDS} rounds")))
    }

    /// What questions gain from these memories: for [`Options::assembly`]. A question's own session and user are the asking
    /// ones, whatever its variables say.
    pub fn assembly(&self, options: AssemblyOptions) -> Assembly {
        Assembly(Arc::new(LaneAssembler { pipelines: self.clone(), options }))
    }

    /// The same over the store of a question.
    fn over(&self, store: &Arc<StoreGuard>) -> Self {
        Self { keepline: self.keepline.over(store), custom_steps: self.custom_steps.clone() }
    }

    /// What the host says to a need.
    async fn answer(&self, need: Need, deadline: Deadline) -> Outcome {
        let work = async {
            match need {
                Need::Vectors(need) => match self.keepline.embed(&need.texts).await {
                    Ok(Some(vectors)) => {
                        let vector = |vector: crate::entry::Vector| Vector { model: vector.model, data: vector.data };
                        Outcome::Vectors(VectorsResult { vectors: vectors.into_iter().map(vector).collect() })
                    }
                    Ok(None) => missing("there is no model for embeddings"),
                    Err(error) => failed(error.0),
                },
                Need::Call(need) => match run_custom_step(self.custom_steps.as_deref(), &need.input).await {
                    Ok(text) => Outcome::Text(TextResult { text }),
                    Err(CustomError::Refused(message)) => missing(message),
                    Err(CustomError::Failed(message)) => failed(message),
                },
                Need::Completion(_) => missing("pipelines get no completions"),
            }
        };
        match deadline.left() {
            Some(left) => tokio::time::timeout(left, work).await.unwrap_or_else(|_| failed("it took too long")),
            None => work.await,
        }
    }

    /// What a run reaches, and only reads.
    fn run_scope(&self, asker: &Asker) -> CallScope {
        let ids = self.keepline.inner.session_ids;
        let session = asker.session.as_deref().and_then(|id| ids.bucket_name(id)).map(Into::into);
        let user = asker.user.as_deref().filter(|id| !id.is_empty()).map(|id| user_bucket_name(id).into_owned());
        let Owner { kind, name } = &asker.owner;
        CallScope::Pipelines(Box::new(PipelineScope::new(kind, name, PipelineAccess::Read).asked_by(session, user)))
    }

    async fn call<R, E: Into<PipelineError>>(
        &self,
        by: Option<Deadline>,
        scope: CallScope,
        call: impl AsyncFnOnce(&Exports, &mut InstanceStore) -> wasmtime::Result<Result<R, E>>,
    ) -> Result<R, PipelineError>
    where
        Result<R, E>: BoundedReply,
    {
        let Keepline { inner, store, .. } = &self.keepline;
        let due = inner.call_deadline(Instant::now(), by);
        let called = inner
            .call_instance(store, due, async |instance, writer, due| instance.call(writer, due, scope, call).await);
        called.await?.map_err(Into::into)
    }

    /// The options in force: one JSON object, on one line.
    pub fn options(&self) -> Arc<str> {
        self.keepline.filter_options()
    }

    /// What the store can't do and pipelines rely on.
    pub fn warnings(&self) -> Vec<crate::pipe::Problem> {
        self.keepline.warnings()
    }

    /// As [`Keepline::health`].
    pub async fn health(&self, by: Option<Deadline>) -> Health {
        self.keepline.health(by).await
    }

    /// Counters and gauges of the plugin and its store.
    pub fn metrics(&self) -> Metrics {
        self.keepline.metrics()
    }

    /// As [`Keepline::shutdown`].
    pub async fn shutdown(&self, limit: Duration) -> usize {
        self.keepline.shutdown(limit).await
    }
}

fn scope_of(owner: &Owner, access: PipelineAccess) -> CallScope {
    CallScope::Pipelines(Box::new(PipelineScope::new(&owner.kind, &owner.name, access)))
}

fn missing(message: impl Into<String>) -> Outcome {
    Outcome::Missing(MissingResult { message: message.into() })
}

fn failed(message: impl Into<String>) -> Outcome {
    Outcome::Failed(FailedResult { message: message.into() })
}

/// A text that the plugin says is JSON.
fn checked_json(text: String) -> Result<String, PipelineError> {
    match serde_json::from_str::<&RawValue>(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(PipelineError::of_plugin(format!("what the plugin returned is not JSON: {error}"))),
    }
}

fn checked_definition(definition: Definition) -> Result<Definition, PipelineError> {
    Ok(Definition { text: checked_json(definition.text)?, ..definition })
}
