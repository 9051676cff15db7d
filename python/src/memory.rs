//! A Keepline: opened by the fields of a configuration, and what is made of it.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use keepline::{
    Keepline, Plugin, Sandbox,
    config::{Config, Sources},
    maintenance::MaintenanceOptions,
    memories::{self, FoundMemory, MemorySearch, Method, Remember, RememberOutcome},
    pipe::Problem,
    pipelines::{PipelineOptions, Pipelines},
    sessions::WriteConditions,
    store::Store,
};
use pyo3::{prelude::*, types::PyDict};
use tokio::{sync::OnceCell, task::spawn_blocking};

use crate::{
    bridge::{
        call::Call,
        delivery::PythonLog,
        failure::Failure,
        runtime::{OwnedByProcess, is_forked, threads},
    },
    callbacks::{Callback, Handlers},
    convert::{Reply, arguments::deadline, dict, json},
    maintenance::{NativeMaintenance, Task},
    pipe::NativePipe,
    pipelines::NativePipelines,
    sessions::NativeSessions,
};

/// A plugin with a store and a configuration.
#[pyclass(module = "keepline._keepline", frozen)]
pub struct NativeKeepline {
    opened: OwnedByProcess<Opened>,
}

struct Opened {
    keepline: Keepline,
    maintenance: MaintenanceOptions,
    pipelines: Arc<PipelinesOfStore>,
}

/// Pipelines over the Keepline's store, made when they are first needed.
struct PipelinesOfStore {
    made: OnceCell<Pipelines>,
    sandbox: Sandbox,
    store: Arc<dyn Store>,
    options: PipelineOptions,
}

impl PipelinesOfStore {
    async fn get(&self) -> Result<&Pipelines, Failure> {
        let make = async || {
            let sandbox = self.sandbox.clone();
            let plugin = spawn_blocking(move || Plugin::bundled_pipelines(&sandbox)).await;
            let plugin = plugin.map_err(|error| Failure::new("plugin", error.to_string()))??;
            Ok(Pipelines::new(plugin, self.store.clone(), self.options.clone()).await?)
        };
        self.made.get_or_try_init(make).await
    }
}

/// What a Keepline is opened with, beside its configuration.
struct Given {
    plugin: Option<PathBuf>,
    token_counter: Option<Callback>,
    embedder: Option<Callback>,
    handlers: Option<Handlers>,
    log: PythonLog,
}

impl NativeKeepline {
    fn get(&self, py: Python<'_>) -> PyResult<&Opened> {
        self.opened.get().map_err(|failure| failure.into_error(py))
    }
}

#[pymethods]
impl NativeKeepline {
    /// Opens one. `fields`: the configuration as JSON; `environment`: variables that may set other fields.
    #[staticmethod]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of the Python layer")]
    fn open(
        py: Python<'_>,
        fields: String,
        environment: Option<Vec<(String, String)>>,
        plugin: Option<PathBuf>,
        token_counter: Option<Py<PyAny>>,
        embedder: Option<Py<PyAny>>,
        handlers: Option<BTreeMap<String, Py<PyAny>>>,
        event_loop: Option<Py<PyAny>>,
        log_level: i32,
    ) -> PyResult<Call> {
        let callback = |function| {
            Callback::new(function, event_loop.as_ref().map(|event_loop: &Py<PyAny>| event_loop.clone_ref(py)))
        };
        let threads = threads(py).map_err(|failure| failure.into_error(py))?;
        let given = Given {
            plugin,
            token_counter: token_counter.map(callback),
            embedder: embedder.map(callback),
            handlers: handlers.map(|functions| Handlers::new(functions, event_loop.as_ref(), py)),
            log: threads.delivery.log(log_level),
        };
        Ok(Call::new(async move {
            let opened = open(&fields, environment, given).await?;
            Ok(Reply::new(move |py| Bound::new(py, Self { opened: OwnedByProcess::new(opened) })))
        }))
    }

    fn pipe(&self, py: Python<'_>) -> PyResult<NativePipe> {
        Ok(NativePipe::new(&self.get(py)?.keepline))
    }

    #[pyo3(signature = (owner, request_id, timeout))]
    fn sessions(
        &self,
        py: Python<'_>,
        owner: Option<String>,
        request_id: Option<String>,
        timeout: Option<f64>,
    ) -> PyResult<NativeSessions> {
        deadline(timeout).map_err(|failure| failure.into_error(py))?;
        let conditions = WriteConditions { owner, request_id, ..WriteConditions::default() };
        Ok(NativeSessions::new(self.get(py)?.keepline.clone(), conditions, timeout))
    }

    #[pyo3(signature = (model, event_loop))]
    fn maintenance(
        &self,
        py: Python<'_>,
        model: Option<Py<PyAny>>,
        event_loop: Option<Py<PyAny>>,
    ) -> PyResult<NativeMaintenance> {
        let opened = self.get(py)?;
        let runtime = threads(py).map_err(|failure| failure.into_error(py))?.handle().clone();
        let model = model.map(|model| Callback::new(model, event_loop));
        Ok(NativeMaintenance::new(opened.keepline.clone(), model, opened.maintenance.clone(), runtime))
    }

    fn pipelines(&self, py: Python<'_>) -> PyResult<Call> {
        let pipelines = self.get(py)?.pipelines.clone();
        Ok(Call::new(async move {
            let pipelines = pipelines.get().await?.clone();
            Ok(Reply::new(move |py| Bound::new(py, NativePipelines::new(pipelines))))
        }))
    }

    #[pyo3(signature = (user, messages, session, message_id, metadata, timeout))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of the Python layer")]
    fn remember(
        &self,
        py: Python<'_>,
        user: String,
        messages: String,
        session: Option<String>,
        message_id: Option<String>,
        metadata: String,
        timeout: Option<f64>,
    ) -> PyResult<Call> {
        let fail = |failure: Failure| failure.into_error(py);
        let keepline = self.get(py)?.keepline.clone();
        let by = deadline(timeout).map_err(fail)?;
        let not_a_list = |error| Failure::invalid("messages", format!("messages are a list of chat messages: {error}"));
        let messages: Vec<serde_json::Value> = serde_json::from_str(&messages).map_err(not_a_list).map_err(fail)?;
        Ok(Call::new(async move {
            let wanted = Remember {
                user: &user,
                session: session.as_deref(),
                messages: &messages,
                message_id: message_id.as_deref(),
                metadata: &metadata,
            };
            let remembered = keepline.remember(wanted, by).await;
            Ok(Reply::new(move |py| {
                let due: Vec<Task> = remembered.due.into_iter().map(Task::of).collect();
                let outcome = remember_outcome(py, remembered.outcome)?;
                outcome.set_item("due", due)?;
                Ok(outcome)
            }))
        }))
    }

    #[pyo3(signature = (user, query, session, limit, threshold, by_words, prompt_chars))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of the Python layer")]
    fn memories(
        &self,
        py: Python<'_>,
        user: String,
        query: Option<String>,
        session: Option<String>,
        limit: u32,
        threshold: f64,
        by_words: bool,
        prompt_chars: usize,
    ) -> PyResult<Call> {
        let keepline = self.get(py)?.keepline.clone();
        let method = if by_words { Method::Keyword } else { Method::Recall };
        Ok(Call::new(async move {
            let search = MemorySearch {
                user: &user,
                query: query.as_deref(),
                session: session.as_deref(),
                limit,
                threshold,
                method,
            };
            let memories = keepline.memories(search).await?;
            Ok(Reply::new(move |py| {
                let prompt = memories::format_for_prompt(&memories.found, prompt_chars);
                let found = memories.found.into_iter().map(|memory| found_memory(py, memory));
                Ok(dict!(py; "query": memories.query, "method": memories.method.name(),
                    "found": found.collect::<PyResult<Vec<_>>>()?, "prompt": prompt))
            }))
        }))
    }

    fn health(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let keepline = self.get(py)?.keepline.clone();
        let by = deadline(timeout).map_err(|failure| failure.into_error(py))?;
        Ok(Call::new(async move {
            let health = keepline.health(by).await;
            Ok(Reply::new(move |py| {
                let problem = health
                    .problem
                    .as_ref()
                    .map(|failure| PyResult::Ok(dict!(py; "code": failure.code.name(), "message": &failure.message)));
                Ok(dict!(py; "is_good": health.is_good(), "problem": problem.transpose()?,
                    "round_trip": health.round_trip.as_secs_f64()))
            }))
        }))
    }

    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let keepline = &self.get(py)?.keepline;
        let metrics = py.detach(|| keepline.metrics());
        let effects = PyDict::new(py);
        for (effect, count) in metrics.entries.effects() {
            effects.set_item(effect, count)?;
        }
        let skips = PyDict::new(py);
        for (reason, count) in metrics.skips.reasons() {
            skips.set_item(reason, count)?;
        }
        Ok(dict!(py; "effects": effects, "skips": skips, "faults": metrics.entries.faults,
            "left_alone": metrics.entries.left_alone, "busy": metrics.entries.busy, "denied": metrics.entries.denied,
            "questions": metrics.questions.count(), "questions_seconds": metrics.questions.sum().as_secs_f64(),
            "answers": metrics.answers.count(), "answers_seconds": metrics.answers.sum().as_secs_f64(),
            "instances_at_work": metrics.instances_at_work, "instances_idle": metrics.instances_idle,
            "instances_bytes": metrics.instances_bytes, "calls_waiting": metrics.calls_waiting,
            "is_plugin_left_alone": metrics.is_plugin_left_alone))
    }

    fn filter_options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::read(py, &self.get(py)?.keepline.filter_options())
    }

    fn warnings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let warnings = self.get(py)?.keepline.warnings();
        Ok(warnings.into_iter().map(|Problem { message, .. }| message).collect())
    }

    fn shutdown(&self, py: Python<'_>, limit: f64) -> PyResult<Call> {
        let opened = self.get(py)?;
        let (keepline, pipelines) = (opened.keepline.clone(), opened.pipelines.clone());
        let limit = Duration::try_from_secs_f64(limit).map_err(|_| {
            Failure::invalid("limit", format!("limit is a number of seconds from 0 on, not {limit}")).into_error(py)
        })?;
        Ok(Call::new(async move {
            let own = keepline.shutdown(limit);
            let of_pipelines = async {
                match pipelines.made.get() {
                    Some(pipelines) => pipelines.shutdown(limit).await,
                    None => 0,
                }
            };
            let (own, of_pipelines) = futures::join!(own, of_pipelines);
            Ok(Reply::plain(own + of_pipelines))
        }))
    }
}

async fn open(fields: &str, environment: Option<Vec<(String, String)>>, given: Given) -> Result<Opened, Failure> {
    let document = serde_json::from_str(fields)
        .map_err(|error| Failure::invalid("fields", format!("the fields are no JSON object: {error}")))?;
    let mut sources = Sources { document: Some(("the arguments".to_owned(), document)), ..Sources::default() };
    if let Some(environment) = environment {
        let variables = environment.into_iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        sources = sources.with_environment(variables)?;
    }
    let mut config = Config::resolve(sources)?;
    if is_forked() && config.host.cache_dir == "off" {
        return Err(Failure::new(
            "forked",
            "in the child of a fork the component can't be compiled, and cache_dir is \"off\": leave it at its default, or \
             start the process afresh",
        ));
    }
    // Without a store that answers, the earlier prefix stays: as for the command line.
    drop(config.settle_key_prefix().await);
    let (plugin, store) = load(&config, given.plugin).await?;
    let mut options = config.options();
    options.log = Arc::new(given.log);
    options.token_counter = given.token_counter.map(|counter| Arc::new(counter) as _);
    options.embedder = given.embedder.map(|embedder| Arc::new(embedder) as _);
    let mut pipeline_options = PipelineOptions::default();
    pipeline_options.host = options.clone();
    pipeline_options.host.filter = config.pipeline_options();
    pipeline_options.custom_steps = given.handlers.map(|handlers| Arc::new(handlers) as _);
    let pipelines = Arc::new(PipelinesOfStore {
        made: OnceCell::new(),
        sandbox: config.sandbox(),
        store: store.clone(),
        options: pipeline_options,
    });
    if let Some(assembly) = config.assembly() {
        options.assembly = Some(pipelines.get().await?.assembly(assembly));
    }
    let keepline = Keepline::new(plugin, store, options).await?;
    Ok(Opened { keepline, maintenance: config.maintenance_options(), pipelines })
}

/// What waits for the disk, or for a compiler.
async fn load(config: &Config, plugin: Option<PathBuf>) -> Result<(Plugin, Arc<dyn Store>), Failure> {
    let config = config.clone();
    let loaded = spawn_blocking(move || {
        let sandbox = config.sandbox();
        let filter = match plugin {
            Some(file) => Plugin::from_file(file, &sandbox)?,
            None => Plugin::bundled(&sandbox)?,
        };
        Ok((filter, config.store()?))
    });
    loaded.await.map_err(|error| Failure::new("plugin", error.to_string()))?
}

fn remember_outcome(py: Python<'_>, outcome: RememberOutcome) -> PyResult<Bound<'_, PyDict>> {
    let problem_of =
        |problem: Problem| PyResult::Ok(dict!(py; "code": problem.code.to_string(), "message": problem.message));
    let none = py.None();
    Ok(match outcome {
        RememberOutcome::Stored { session, message_id, problem } => dict!(py; "outcome": "stored", "session": session,
            "message_id": message_id, "problem": problem.map(problem_of).transpose()?),
        RememberOutcome::Repeated { session, message_id } => {
            dict!(py; "outcome": "repeated", "session": session, "message_id": message_id, "problem": none)
        }
        RememberOutcome::Skipped(skip) => dict!(py; "outcome": "skipped", "session": &none, "message_id": &none,
            "problem": dict!(py; "code": skip.code(), "message": skip.to_string())),
        RememberOutcome::Failed(problem) => dict!(py; "outcome": "failed", "session": &none, "message_id": &none,
            "problem": problem_of(problem)?),
        _ => dict!(py; "outcome": "other", "session": &none, "message_id": &none, "problem": &none),
    })
}

fn found_memory(py: Python<'_>, memory: FoundMemory) -> PyResult<Bound<'_, PyDict>> {
    let metadata = json::read_optional(py, memory.metadata.as_deref())?;
    Ok(dict!(py; "id": memory.id, "position": memory.position, "session": memory.session, "title": memory.title,
        "user_message": memory.user_message, "ai_response": memory.ai_response, "combined_text": memory.combined_text,
        "similarity": memory.similarity, "created_at": memory.created_at, "metadata": metadata))
}
