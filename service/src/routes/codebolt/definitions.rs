//! What is done to memories and rule engines: the same whether REST or a socket asks for it.
//!
//! `createdAt` and `updatedAt` are members of what is stored, and the service's own: what clients send of them is ignored.
//! A definition that was stored by another way, and has none, reads as one of 1970.

use keepline::pipelines::{
    Checked, Definition, DefinitionForm, DefinitionKind, InputScope, PipelineError, PipelineErrorCode, is_definition_id,
};
use serde_json::{Value, json, value::RawValue};

use super::{
    desk::Desk,
    forms::{self, Incoming, TIMES, id_of_name},
    rule_forms,
};
use crate::{
    events::Event,
    http::{ApiError, Finding, JsonObject, raw, with_expectation},
    time::{instant, timestamp},
};

/// Ids that are tried for a definition without one.
const NUMBERS: u32 = 200;
/// How often a replacement is tried while others write.
const TRIES: usize = 8;

/// A definition as clients get it.
pub struct Stored {
    pub id: String,
    pub revision: u64,
    pub form: JsonObject,
}

impl Stored {
    fn of(found: Definition) -> Self {
        let mut form: JsonObject = serde_json::from_str(&found.text).unwrap_or_default();
        let times = TIMES.map(|name| form.get(name).map(ToOwned::to_owned));
        let [created, updated] = times;
        let unknown = || raw(&instant(0));
        form.set(TIMES[0], created.clone().or_else(|| updated.clone()).unwrap_or_else(unknown));
        form.set(TIMES[1], updated.or(created).unwrap_or_else(unknown));
        Self { id: found.id, revision: found.revision, form }
    }

    /// The definition alone, as it may be taken elsewhere.
    pub fn into_export(mut self) -> JsonObject {
        for name in TIMES {
            self.form.remove(name);
        }
        self.form
    }
}

fn read_form(kind: DefinitionKind, body: JsonObject) -> Result<Incoming, ApiError> {
    match kind {
        DefinitionKind::Rules => rule_forms::rule_engine(body),
        _ => forms::memory(body),
    }
}

/// The one answer for an id that is unknown, and for one that can be none.
fn not_found(kind: DefinitionKind, id: &str) -> ApiError {
    let id: String = id.chars().take(128).collect();
    ApiError::not_found(format!("there is no {} {id:?}", kind.noun()))
}

fn require_id(kind: DefinitionKind, id: &str) -> Result<(), ApiError> {
    if is_definition_id(id) { Ok(()) } else { Err(not_found(kind, id)) }
}

fn announce(desk: &Desk, kind: DefinitionKind, event: impl FnOnce(&RawValue) -> Event<'_>, stored: &Stored) {
    if kind == DefinitionKind::Memory {
        let form = raw(&stored.form);
        desk.announce(&event(&form));
    }
}

/// Stores a definition that is new. One whose form may lack an id gets one that is free.
pub async fn create(desk: &Desk, kind: DefinitionKind, body: JsonObject) -> Result<Stored, ApiError> {
    desk.require_writer()?;
    let mut incoming = read_form(kind, body)?;
    if kind == DefinitionKind::Rules {
        check_rule_engine(desk, &mut incoming).await?;
    }
    let stored = store_new(desk, kind, &mut incoming).await.map_err(|error| incoming.places.rename(error.into()))?;
    announce(desk, kind, |form| Event::MemoryCreated(form), &stored);
    Ok(stored)
}

/// The clients' types have a name, which the engine itself does not need.
async fn check_rule_engine(desk: &Desk, incoming: &mut Incoming) -> Result<(), ApiError> {
    if incoming.form.get("enabled").is_none() {
        incoming.form.put("enabled", &true);
    }
    let has_name = incoming.form.read::<String>("name").is_some_and(|name| !name.trim().is_empty());
    if has_name {
        return Ok(());
    }
    let text = incoming.form.to_text();
    let checked = desk.pipelines().await?.check(DefinitionKind::Rules, DefinitionForm::Json, &text).await?;
    let name = Finding { path: "name".to_owned(), message: "a text that is not blank is required".to_owned() };
    let found = checked.findings.into_iter().filter(|found| found.is_error);
    let found = found.map(|found| Finding { path: found.path, message: found.message });
    // Without a name there is no id to be made, and that is no fault of its own.
    let found = found.filter(|found| incoming.named.is_none() || found.path != "id");
    let findings = std::iter::once(name).chain(found).collect();
    let error = ApiError { path: None, findings, ..ApiError::invalid("name", "a name is required") };
    Err(incoming.places.rename(error))
}

async fn store_new(desk: &Desk, kind: DefinitionKind, incoming: &mut Incoming) -> Result<Stored, PutError> {
    let time = timestamp();
    for name in TIMES {
        incoming.form.put(name, &time);
    }
    let pipelines = desk.pipelines().await?;
    let owner = desk.owner();
    let mut number = 1;
    loop {
        if let Some(name) = &incoming.named {
            incoming.form.put("id", &id_of_name(name, number));
        }
        let text = incoming.form.to_text();
        match pipelines.put(&owner, kind, DefinitionForm::Json, &text, Some(0)).await {
            Ok(found) => return Ok(Stored::of(found)),
            // The next one may be free.
            Err(error) if error.code == PipelineErrorCode::Exists && incoming.named.is_some() && number < NUMBERS => {
                number += 1;
            }
            Err(error) => return Err(PutError::Pipelines(error)),
        }
    }
}

/// Why a definition was not stored.
enum PutError {
    Pipelines(PipelineError),
    Other(ApiError),
}

impl From<ApiError> for PutError {
    fn from(error: ApiError) -> Self {
        Self::Other(error)
    }
}

impl From<PutError> for ApiError {
    fn from(error: PutError) -> Self {
        match error {
            PutError::Pipelines(error) => error.into(),
            PutError::Other(error) => error,
        }
    }
}

/// One definition.
pub async fn get(desk: &Desk, kind: DefinitionKind, id: &str) -> Result<Stored, ApiError> {
    require_id(kind, id)?;
    Ok(Stored::of(desk.pipelines().await?.get(&desk.owner(), kind, id).await?))
}

/// All, by id: those of an input scope, and those in use, if that is asked for.
pub async fn list(
    desk: &Desk,
    kind: DefinitionKind,
    scope: Option<&str>,
    only_active: bool,
) -> Result<Vec<Stored>, ApiError> {
    if let Some(scope) = scope
        && InputScope::from_name(scope).is_none()
    {
        let message = format!("inputScope must be one of {}", InputScope::names().join(", "));
        return Err(ApiError::invalid("inputScope", message));
    }
    let found = desk.pipelines().await?.list(&desk.owner(), kind, scope, only_active).await?;
    Ok(found.into_iter().map(Stored::of).collect())
}

/// Puts members in the place of those of a stored definition.
pub async fn update(
    desk: &Desk,
    kind: DefinitionKind,
    id: &str,
    changes: JsonObject,
    expected: Option<u64>,
) -> Result<Stored, ApiError> {
    desk.require_writer()?;
    require_id(kind, id)?;
    let Incoming { mut form, places, .. } = read_form(kind, changes)?;
    form.put(TIMES[1], &timestamp());
    let updated = desk.pipelines().await?.update(&desk.owner(), kind, id, &form.to_text(), expected).await;
    let updated = updated.map_err(|error| places.rename(with_expectation(error, expected.is_some())))?;
    let stored = Stored::of(updated);
    announce(desk, kind, |form| Event::MemoryUpdated(form), &stored);
    Ok(stored)
}

/// Removes a definition.
pub async fn remove(desk: &Desk, kind: DefinitionKind, id: &str, expected: Option<u64>) -> Result<(), ApiError> {
    desk.require_writer()?;
    require_id(kind, id)?;
    let removed = desk.pipelines().await?.remove(&desk.owner(), kind, id, expected).await;
    removed.map_err(|error| with_expectation(error, expected.is_some()))?;
    if kind == DefinitionKind::Memory {
        desk.announce(&Event::MemoryDeleted(id));
    }
    Ok(())
}

/// Stores a memory once more: under `newId`, or one that is made, and with `name` as its label.
pub async fn duplicate(desk: &Desk, id: &str, body: &JsonObject) -> Result<Stored, ApiError> {
    desk.require_writer()?;
    let kind = DefinitionKind::Memory;
    require_id(kind, id)?;
    let new_id: Option<String> = body.expect("newId", "an id")?;
    let label: Option<String> = body.expect("name", "a text that is not blank")?;
    if label.as_deref().is_some_and(|label| label.trim().is_empty()) {
        return Err(ApiError::invalid("name", "name must be a text that is not blank"));
    }
    let (pipelines, owner) = (desk.pipelines().await?, desk.owner());
    let copied = pipelines.duplicate(&owner, kind, id, new_id.as_deref()).await.map_err(|mut error| {
        if error.path == "new_id" {
            error.path = "newId".to_owned();
        }
        ApiError::from(error)
    })?;
    // It is new, whatever the times of what was copied are.
    let mut own = JsonObject::default();
    let time = timestamp();
    for name in TIMES {
        own.put(name, &time);
    }
    if let Some(label) = label {
        own.put("label", &label);
    }
    let stored = Stored::of(pipelines.update(&owner, kind, &copied.id, &own.to_text(), Some(copied.revision)).await?);
    announce(desk, kind, |form| Event::MemoryCreated(form), &stored);
    Ok(stored)
}

/// Stores a memory that was exported. Whether it is new.
pub async fn import(desk: &Desk, body: JsonObject, overwrite: Option<bool>) -> Result<(Stored, bool), ApiError> {
    desk.require_writer()?;
    let kind = DefinitionKind::Memory;
    let overwrite = body.expect("overwrite", "true or false")?.or(overwrite).unwrap_or(false);
    let mut incoming = read_form(kind, imported(body)?)?;
    let (pipelines, owner) = (desk.pipelines().await?, desk.owner());
    for _ in 0..TRIES {
        match store_new(desk, kind, &mut incoming).await {
            Ok(stored) => {
                announce(desk, kind, |form| Event::MemoryCreated(form), &stored);
                return Ok((stored, true));
            }
            Err(PutError::Pipelines(error)) if error.code == PipelineErrorCode::Exists && overwrite => {}
            Err(error) => return Err(incoming.places.rename(error.into())),
        }
        let id: String = incoming.form.read("id").unwrap_or_default();
        let before = match pipelines.get(&owner, kind, &id).await {
            Ok(before) => Stored::of(before),
            // It went meanwhile, so that it is new after all.
            Err(gone) if gone.code == PipelineErrorCode::NotFound => continue,
            Err(other) => return Err(other.into()),
        };
        if let Some(created) = before.form.get(TIMES[0]) {
            incoming.form.set(TIMES[0], created.to_owned());
        }
        let text = incoming.form.to_text();
        match pipelines.put(&owner, kind, DefinitionForm::Json, &text, Some(before.revision)).await {
            Ok(found) => {
                let stored = Stored::of(found);
                announce(desk, kind, |form| Event::MemoryUpdated(form), &stored);
                return Ok((stored, false));
            }
            // Another wrote it meanwhile.
            Err(raced) if raced.code == PipelineErrorCode::Conflict => {}
            Err(other) => return Err(incoming.places.rename(other.into())),
        }
    }
    let message = "others kept writing the definition";
    Err(ApiError::new(axum::http::StatusCode::CONFLICT, "conflict", message))
}

/// `config`, an object or its text; or the whole body, if that is a definition.
fn imported(body: JsonObject) -> Result<JsonObject, ApiError> {
    let wanted = || ApiError::invalid("config", "config must be a definition: an object, or JSON as a text");
    let Some(config) = body.get("config") else {
        let is_definition = ["id", "label", "name", "retrieval", "steps"].iter().any(|name| body.get(name).is_some());
        return if is_definition { Ok(body) } else { Err(wanted()) };
    };
    if let Some(object) = JsonObject::of(config) {
        return Ok(object);
    }
    let text: String = body.read("config").ok_or_else(wanted)?;
    serde_json::from_str(&text).map_err(|error| {
        let message = format!("config must be a definition as JSON: {error}");
        ApiError::invalid("config", message)
    })
}

/// What a check found.
pub struct Validation {
    pub errors: Vec<Finding>,
    pub warnings: Vec<Finding>,
}

impl Validation {
    /// Whether there are no errors.
    pub fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    /// With each finding as path and message.
    pub fn to_json(&self) -> Value {
        let of = |found: &[Finding]| -> Value {
            found.iter().map(|found| json!({"path": found.path, "message": found.message})).collect()
        };
        json!({"valid": self.is_valid(), "errors": of(&self.errors), "warnings": of(&self.warnings)})
    }

    /// With each finding as one text.
    pub fn to_texts(&self) -> Value {
        let of = |found: &[Finding]| -> Value { found.iter().map(text_of).collect() };
        json!({"valid": self.is_valid(), "errors": of(&self.errors), "warnings": of(&self.warnings)})
    }
}

/// `path: message`.
pub fn text_of(found: &Finding) -> String {
    if found.path.is_empty() { found.message.clone() } else { format!("{}: {}", found.path, found.message) }
}

/// Checks a memory without storing it. Whether its id is taken is not asked.
pub async fn validate(desk: &Desk, memory: &RawValue) -> Result<Validation, ApiError> {
    let mut places = forms::Places::default();
    let text = match JsonObject::of(memory).map(forms::memory) {
        // What is no object is the library's to refuse.
        None => memory.get().to_owned(),
        Some(Err(ApiError { path, message, .. })) => {
            let errors = vec![Finding { path: path.unwrap_or_default(), message }];
            return Ok(Validation { errors, warnings: Vec::new() });
        }
        Some(Ok(incoming)) => {
            let mut form = incoming.form;
            if let Some(name) = &incoming.named {
                form.put("id", &id_of_name(name, 1));
            }
            places = incoming.places;
            form.to_text()
        }
    };
    let checked = desk.pipelines().await?.check(DefinitionKind::Memory, DefinitionForm::Json, &text).await?;
    let Checked { findings, .. } = checked;
    let (errors, warnings) = findings.into_iter().partition::<Vec<_>, _>(|found| found.is_error);
    let placed = |found: Vec<keepline::pipelines::Finding>| {
        let found = found.into_iter().map(|found| Finding { path: found.path, message: found.message });
        found.map(|found| places.renamed_finding(found)).collect()
    };
    Ok(Validation { errors: placed(errors), warnings: placed(warnings) })
}
