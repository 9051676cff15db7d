//! Pipelines: definitions, data sets and runs. JSON goes in and out as texts; the Python layer reads and writes it.

use keepline::pipelines::{
    Asker, Dataset, Definition, DefinitionForm, DefinitionKind, Finding, Item, Operation, Owner, Pipelines,
};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    bridge::{call::Call, failure::Failure, runtime::OwnedByProcess},
    convert::{Reply, arguments::deadline, dict, json},
};

/// Pipelines over a Keepline's store.
#[pyclass(module = "keepline._keepline", frozen)]
pub struct NativePipelines {
    pipelines: OwnedByProcess<Pipelines>,
}

/// What it is, and its name.
#[derive(FromPyObject)]
struct OwnerName(String, String);

impl From<OwnerName> for Owner {
    fn from(OwnerName(kind, name): OwnerName) -> Self {
        Self { kind, name }
    }
}

/// Its owner, kind, name and namespace.
#[derive(FromPyObject)]
struct DatasetName(OwnerName, String, String, String);

impl From<DatasetName> for Dataset {
    fn from(DatasetName(owner, kind, name, namespace): DatasetName) -> Self {
        Self { owner: owner.into(), kind, name, namespace }
    }
}

/// One of the registered names.
macro_rules! named {
    ($py:ident, $type:ty, $argument:literal, $name:expr) => {
        <$type>::from_name(&$name).ok_or_else(|| {
            let known = <$type>::names().join(", ");
            Failure::invalid($argument, format!("{} is one of {known}, not '{}'", $argument, $name)).into_error($py)
        })?
    };
}

impl NativePipelines {
    pub fn new(pipelines: Pipelines) -> Self {
        Self { pipelines: OwnedByProcess::new(pipelines) }
    }

    fn get(&self, py: Python<'_>) -> PyResult<Pipelines> {
        self.pipelines.get().cloned().map_err(|failure| failure.into_error(py))
    }
}

#[pymethods]
impl NativePipelines {
    fn check(&self, py: Python<'_>, kind: String, form: String, text: String) -> PyResult<Call> {
        let pipelines = self.get(py)?;
        let (kind, form) = (named!(py, DefinitionKind, "kind", kind), named!(py, DefinitionForm, "form", form));
        Ok(Call::new(async move {
            let checked = pipelines.check(kind, form, &text).await?;
            Ok(Reply::new(move |py| {
                let findings = checked.findings.into_iter().map(|finding| shown_finding(py, finding));
                let definition = checked.definition.map(|definition| shown_definition(py, definition)).transpose()?;
                Ok(dict!(py; "findings": findings.collect::<PyResult<Vec<_>>>()?, "definition": definition))
            }))
        }))
    }

    fn put(
        &self,
        py: Python<'_>,
        owner: OwnerName,
        kind: String,
        form: String,
        text: String,
        revision: Option<u64>,
    ) -> PyResult<Call> {
        let pipelines = self.get(py)?;
        let (kind, form) = (named!(py, DefinitionKind, "kind", kind), named!(py, DefinitionForm, "form", form));
        Ok(Call::new(async move {
            let stored = pipelines.put(&owner.into(), kind, form, &text, revision).await?;
            Ok(Reply::new(move |py| shown_definition(py, stored)))
        }))
    }

    fn update(
        &self,
        py: Python<'_>,
        owner: OwnerName,
        kind: String,
        id: String,
        changes: String,
        revision: Option<u64>,
    ) -> PyResult<Call> {
        let (pipelines, kind) = (self.get(py)?, named!(py, DefinitionKind, "kind", kind));
        Ok(Call::new(async move {
            let stored = pipelines.update(&owner.into(), kind, &id, &changes, revision).await?;
            Ok(Reply::new(move |py| shown_definition(py, stored)))
        }))
    }

    fn duplicate(
        &self,
        py: Python<'_>,
        owner: OwnerName,
        kind: String,
        id: String,
        new_id: Option<String>,
    ) -> PyResult<Call> {
        let (pipelines, kind) = (self.get(py)?, named!(py, DefinitionKind, "kind", kind));
        Ok(Call::new(async move {
            let stored = pipelines.duplicate(&owner.into(), kind, &id, new_id.as_deref()).await?;
            Ok(Reply::new(move |py| shown_definition(py, stored)))
        }))
    }

    fn get_definition(&self, py: Python<'_>, owner: OwnerName, kind: String, id: String) -> PyResult<Call> {
        let (pipelines, kind) = (self.get(py)?, named!(py, DefinitionKind, "kind", kind));
        Ok(Call::new(async move {
            let found = pipelines.get(&owner.into(), kind, &id).await?;
            Ok(Reply::new(move |py| shown_definition(py, found)))
        }))
    }

    fn list(
        &self,
        py: Python<'_>,
        owner: OwnerName,
        kind: String,
        scope: Option<String>,
        only_active: bool,
    ) -> PyResult<Call> {
        let (pipelines, kind) = (self.get(py)?, named!(py, DefinitionKind, "kind", kind));
        Ok(Call::new(async move {
            let found = pipelines.list(&owner.into(), kind, scope.as_deref(), only_active).await?;
            Ok(Reply::new(move |py| {
                let found = found.into_iter().map(|definition| shown_definition(py, definition));
                pyo3::types::PyList::new(py, found.collect::<PyResult<Vec<_>>>()?)
            }))
        }))
    }

    fn remove(
        &self,
        py: Python<'_>,
        owner: OwnerName,
        kind: String,
        id: String,
        revision: Option<u64>,
    ) -> PyResult<Call> {
        let (pipelines, kind) = (self.get(py)?, named!(py, DefinitionKind, "kind", kind));
        Ok(Call::new(async move { Ok(Reply::plain(pipelines.remove(&owner.into(), kind, &id, revision).await?)) }))
    }

    fn required_variables(&self, py: Python<'_>, owner: OwnerName, ids: Vec<String>) -> PyResult<Call> {
        let pipelines = self.get(py)?;
        Ok(Call::new(async move {
            let required = pipelines.required_variables(&owner.into(), &ids).await?;
            Ok(Reply::new(move |py| {
                let scopes = PyDict::new(py);
                for scope in required.scopes {
                    scopes.set_item(scope.scope, scope.variables)?;
                }
                Ok(dict!(py; "scopes": scopes, "additional": required.additional))
            }))
        }))
    }

    fn describe_steps(&self, py: Python<'_>, only_configurable: bool) -> PyResult<Call> {
        let pipelines = self.get(py)?;
        Ok(Call::new(async move {
            let described = pipelines.describe_steps(only_configurable).await?;
            Ok(Reply::new(move |py| json::read(py, &described)))
        }))
    }

    fn put_items(&self, py: Python<'_>, dataset: DatasetName, items: Vec<(String, String)>) -> PyResult<Call> {
        let pipelines = self.get(py)?;
        let items: Vec<Item> = items.into_iter().map(|(id, text)| Item { id, text }).collect();
        Ok(Call::new(async move {
            let changed = pipelines.put_items(&dataset.into(), &items).await?;
            Ok(Reply::new(move |py| Ok(dict!(py; "added": changed.added, "changed": changed.changed))))
        }))
    }

    fn list_items(&self, py: Python<'_>, dataset: DatasetName, cursor: String, limit: u32) -> PyResult<Call> {
        let pipelines = self.get(py)?;
        Ok(Call::new(async move {
            let page = pipelines.list_items(&dataset.into(), &cursor, limit).await?;
            Ok(Reply::new(move |py| {
                let items = page.items.iter().map(|item| Ok((&item.id, json::read(py, &item.text)?)));
                Ok(dict!(py; "items": items.collect::<PyResult<Vec<_>>>()?, "cursor": &page.cursor))
            }))
        }))
    }

    fn remove_items(&self, py: Python<'_>, dataset: DatasetName, ids: Vec<String>) -> PyResult<Call> {
        let pipelines = self.get(py)?;
        Ok(Call::new(async move {
            let changed = pipelines.remove_items(&dataset.into(), &ids).await?;
            Ok(Reply::new(move |py| Ok(dict!(py; "added": changed.added, "changed": changed.changed))))
        }))
    }

    #[allow(clippy::too_many_arguments, reason = "keyword arguments of the Python layer")]
    fn run(
        &self,
        py: Python<'_>,
        owner: OwnerName,
        session: Option<String>,
        user: Option<String>,
        operation: String,
        input: String,
        timeout: Option<f64>,
    ) -> PyResult<Call> {
        let (pipelines, operation) = (self.get(py)?, named!(py, Operation, "operation", operation));
        let by = deadline(timeout).map_err(|failure| failure.into_error(py))?;
        Ok(Call::new(async move {
            let asker = Asker { owner: owner.into(), session, user };
            let output = pipelines.run(&asker, operation, &input, by).await?;
            Ok(Reply::new(move |py| json::read(py, &output)))
        }))
    }
}

fn shown_definition(py: Python<'_>, definition: Definition) -> PyResult<Bound<'_, PyDict>> {
    Ok(dict!(py; "id": definition.id, "revision": definition.revision,
        "definition": json::read(py, &definition.text)?))
}

fn shown_finding(py: Python<'_>, finding: Finding) -> PyResult<Bound<'_, PyDict>> {
    Ok(dict!(py; "path": finding.path, "is_error": finding.is_error, "message": finding.message))
}
