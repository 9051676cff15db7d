//! Deferred work: tasks that answers name, done in the background or inline.

use std::{sync::Arc, time::Duration};

use keepline::{
    Keepline,
    maintenance::{self, Maintenance, MaintenanceOptions, Model, NoModel, Outcome, TaskBucket, TaskCounters},
};
use pyo3::{prelude::*, types::PyDict};
use tokio::runtime::Handle;

use crate::{
    bridge::{call::Call, failure::Failure, runtime::OwnedByProcess},
    callbacks::Callback,
    convert::{Reply, dict},
};

/// Something that should be done off the entries' path.
#[pyclass(module = "keepline", frozen, from_py_object)]
#[derive(Clone)]
pub struct Task {
    task: maintenance::Task,
}

impl Task {
    pub fn of(task: maintenance::Task) -> Self {
        Self { task }
    }
}

#[pymethods]
impl Task {
    #[getter]
    fn name(&self) -> &str {
        &self.task.name
    }

    #[getter]
    fn buckets(&self) -> Vec<(String, String)> {
        self.task.buckets.iter().map(|TaskBucket { kind, name }| (kind.clone(), name.clone())).collect()
    }

    /// One of the bundled filter's tasks for a session.
    #[staticmethod]
    #[pyo3(signature = (name, session, owner))]
    fn for_session(name: String, session: &str, owner: Option<&str>) -> Self {
        let buckets = maintenance::session_buckets(session, owner);
        Self { task: maintenance::Task { buckets, name, state: String::new() } }
    }

    fn __repr__(&self) -> String {
        let subject =
            self.task.buckets.first().map_or(String::new(), |bucket| format!("{}/{}", bucket.kind, bucket.name));
        format!("Task({:?}, {subject:?})", self.task.name)
    }
}

/// What does tasks.
#[pyclass(module = "keepline._keepline", frozen)]
pub struct NativeMaintenance {
    maintenance: OwnedByProcess<Maintenance>,
}

impl NativeMaintenance {
    pub fn new(keepline: Keepline, model: Option<Callback>, options: MaintenanceOptions, runtime: Handle) -> Self {
        let model: Arc<dyn Model> = match model {
            Some(model) => Arc::new(model),
            None => Arc::new(NoModel),
        };
        Self { maintenance: OwnedByProcess::new(Maintenance::new(keepline, model, options, runtime)) }
    }

    fn get(&self, py: Python<'_>) -> PyResult<&Maintenance> {
        self.maintenance.get().map_err(|failure| failure.into_error(py))
    }
}

#[pymethods]
impl NativeMaintenance {
    fn submit(&self, py: Python<'_>, due: Vec<Task>) -> PyResult<()> {
        let maintenance = self.get(py)?;
        py.detach(|| maintenance.submit(due.into_iter().map(|Task { task }| task)));
        Ok(())
    }

    fn run(&self, py: Python<'_>, task: Task) -> PyResult<Call> {
        let maintenance = self.get(py)?.clone();
        Ok(Call::new(async move {
            let outcome = maintenance.run(task.task).await;
            Ok(Reply::new(move |py| {
                let (name, problem) = match outcome {
                    Outcome::Done => ("done", None),
                    Outcome::Taken => ("taken", None),
                    Outcome::Ended => ("ended", None),
                    Outcome::Failed(problem) => ("failed", Some((problem.code.to_string(), problem.message))),
                };
                let problem = problem
                    .map(|(code, message)| PyResult::Ok(dict!(py; "code": code, "message": message)))
                    .transpose()?;
                Ok(dict!(py; "outcome": name, "problem": problem))
            }))
        }))
    }

    fn pending(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.get(py)?.pending())
    }

    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.get(py)?.counters();
        let shown = |counted: TaskCounters| {
            PyResult::Ok(dict!(py; "done": counted.done, "taken": counted.taken, "ended": counted.ended,
                "failed": counted.failed))
        };
        Ok(dict!(py; "summaries": shown(counters.summaries)?, "titles": shown(counters.titles)?,
            "dropped": counters.dropped, "abandoned": counters.abandoned))
    }

    fn shutdown(&self, py: Python<'_>, grace: f64) -> PyResult<Call> {
        let maintenance = self.get(py)?.clone();
        let grace = Duration::try_from_secs_f64(grace).map_err(|_| {
            Failure::invalid("grace", format!("grace is a number of seconds from 0 on, not {grace}")).into_error(py)
        })?;
        Ok(Call::new(async move { Ok(Reply::plain(maintenance.shutdown(grace).await)) }))
    }
}
