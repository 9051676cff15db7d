//! Definitions: listed, shown, checked, stored and deleted.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result};
use keepline::pipelines::{Checked, Definition, DefinitionKind, Finding, PipelineError, indented_json};
use serde_json::{Value, json};

use super::{PipelineContext, arguments::SourceArguments};
use crate::{
    app::error::coded_error,
    jsonl::value::read_json_value,
    terminal::{self, fact_rows, json_text::EmbeddedJson, object, print_json, print_result},
};

/// A member of a stored definition, as a text.
fn text(form: &Value, name: &str) -> String {
    match form.get(name) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

pub(super) async fn list_definitions(
    context: &PipelineContext<'_>,
    kind: DefinitionKind,
    scope: Option<&str>,
    only_active: bool,
) -> Result<()> {
    let listed = context.pipelines.list(&context.owner, kind, scope, only_active).await?;
    if context.json {
        let revisions: BTreeMap<_, _> = listed.iter().map(|found| (&*found.id, found.revision)).collect();
        let definitions: Vec<_> = listed.iter().map(|found| EmbeddedJson(&found.text)).collect();
        return match kind {
            DefinitionKind::Rules => print_json(&object! { rule_engines: definitions, revisions: revisions }),
            _ => print_json(&object! { memories: definitions, revisions: revisions }),
        };
    }
    let mut rows = Vec::new();
    for found in &listed {
        let form: Value = serde_json::from_str(&found.text)?;
        let (label, state) = match kind {
            DefinitionKind::Rules => {
                let rules = form.get("rules").and_then(Value::as_array).map_or(0, Vec::len);
                let state = if form.get("enabled") == Some(&Value::Bool(false)) { "disabled" } else { "enabled" };
                (
                    format!("{} ({})", text(&form, "name"), terminal::format_count(rules as u64, "rule", "rules")),
                    state.to_owned(),
                )
            }
            _ => (text(&form, "label"), status_of(&form)),
        };
        let scopes = form.get("inputs_scope").and_then(Value::as_array).cloned().unwrap_or_default();
        let scopes: Vec<_> = scopes.iter().filter_map(Value::as_str).collect();
        rows.push([found.id.clone(), label, state, scopes.join(", "), found.revision.to_string()]);
    }
    terminal::print_list(["Id", "Label", "Status", "Scopes", "Revision"], rows, false)
}

pub(super) async fn show_definition(context: &PipelineContext<'_>, kind: DefinitionKind, id: &str) -> Result<()> {
    let found = context.pipelines.get(&context.owner, kind, id).await?;
    if context.json {
        return print_definition(kind, &found);
    }
    let form: Value = serde_json::from_str(&found.text)?;
    let mut rows = fact_rows([("id", Some(found.id.clone())), ("revision", Some(found.revision.to_string()))]);
    let members = form.as_object().into_iter().flatten().map(|(name, _)| name);
    for name in members.filter(|name| !matches!(&***name, "id" | "retrieval")) {
        rows.push([name.clone(), text(&form, name)]);
    }
    let steps = form.pointer("/retrieval/pipeline").and_then(Value::as_array).cloned().unwrap_or_default();
    for (number, step) in steps.iter().enumerate() {
        let alias = text(step, "alias");
        let name = if alias.is_empty() { text(step, "type") } else { format!("{} as {alias}", text(step, "type")) };
        let params = step.as_object().into_iter().flatten().filter(|(name, _)| !matches!(&***name, "type" | "alias"));
        let params: Vec<_> = params.map(|(name, value)| format!("{name}={value}")).collect();
        rows.push([format!("step {number}"), format!("{name} {}", params.join(" "))]);
    }
    terminal::print_table(["", "Value"], rows)
}

pub(super) async fn export_definition(
    context: &PipelineContext<'_>,
    kind: DefinitionKind,
    id: &str,
    output: Option<&Path>,
) -> Result<()> {
    let found = context.pipelines.get(&context.owner, kind, id).await?;
    let exported = indented_json(&found.text)?;
    if let Some(path) = output {
        std::fs::write(path, format!("{exported}\n")).with_context(|| format!("can't write {}", path.display()))?;
        terminal::print_to_stderr(&format!("{}: revision {}", path.display(), found.revision));
        return Ok(());
    }
    if context.json {
        return print_json(&json!({"text": exported, "revision": found.revision}));
    }
    terminal::print_raw_text(&exported)
}

/// Returns whether the definition is valid.
pub(super) async fn validate_definition(context: &PipelineContext<'_>, source: &SourceArguments) -> Result<bool> {
    let (kind, form, text) = source.read()?;
    let Checked { findings, definition } = context.pipelines.check(kind, form, &text).await?;
    let is_valid = definition.is_some();
    if context.json {
        let of = |is_error: bool| -> Vec<Value> {
            let findings = findings.iter().filter(|finding| finding.is_error == is_error);
            findings.map(|finding| json!({"path": finding.path, "message": finding.message})).collect()
        };
        print_json(&json!({"valid": is_valid, "errors": of(true), "warnings": of(false)}))?;
        return Ok(is_valid);
    }
    print_findings(&findings);
    if let Some(definition) = definition {
        terminal::print_line(&format!("{} is valid", terminal::escape_to_one_line(&definition.id)))?;
    }
    Ok(is_valid)
}

/// Stores a definition in place of that revision; 0: there must be none; none: whatever is there.
pub(super) async fn store_definition(
    context: &PipelineContext<'_>,
    source: &SourceArguments,
    revision: Option<u64>,
) -> Result<()> {
    let (kind, form, text) = source.read()?;
    let stored = context.pipelines.put(&context.owner, kind, form, &text, revision).await;
    let stored = stored.map_err(|error| explain_refused(context, error))?;
    report_stored(context, kind, &stored, "stored")
}

pub(super) async fn update_definition(
    context: &PipelineContext<'_>,
    kind: DefinitionKind,
    id: &str,
    changes: &str,
    revision: Option<u64>,
) -> Result<()> {
    let changes = read_json_value(changes, false)?;
    let stored = context.pipelines.update(&context.owner, kind, id, &changes, revision).await;
    let stored = stored.map_err(|error| explain_refused(context, error))?;
    report_stored(context, kind, &stored, "stored")
}

pub(super) async fn duplicate_definition(
    context: &PipelineContext<'_>,
    kind: DefinitionKind,
    id: &str,
    new_id: Option<&str>,
) -> Result<()> {
    let copy = context.pipelines.duplicate(&context.owner, kind, id, new_id).await?;
    report_stored(context, kind, &copy, "stored")
}

pub(super) async fn delete_definition(
    context: &PipelineContext<'_>,
    kind: DefinitionKind,
    id: &str,
    revision: Option<u64>,
) -> Result<()> {
    let revision = context.pipelines.remove(&context.owner, kind, id, revision).await?;
    let told = format!("{id} was deleted; it had revision {revision}");
    print_result(context.json, &json!({"id": id, "revision": revision}), &told)
}

pub(super) async fn list_steps(context: &PipelineContext<'_>, only_configurable: bool) -> Result<()> {
    let steps = context.pipelines.describe_steps(only_configurable).await?;
    if context.json {
        return print_json(&object! { specs: EmbeddedJson(&steps) });
    }
    let steps: Vec<Value> = serde_json::from_str(&steps)?;
    let rows = steps.iter().map(|step| {
        let params = step.get("params").and_then(Value::as_array).cloned().unwrap_or_default();
        let name = |param: &Value| {
            let required = param.get("required") == Some(&Value::Bool(true));
            format!("{}{}", text(param, "name"), if required { "*" } else { "" })
        };
        let params: Vec<_> = params.iter().map(name).collect();
        [text(step, "type"), text(step, "category"), params.join(", ")]
    });
    terminal::print_table(["Type", "Category", "Parameters (* required)"], rows.collect())
}

pub(super) async fn list_variables(context: &PipelineContext<'_>, ids: &[String]) -> Result<()> {
    let required = context.pipelines.required_variables(&context.owner, ids).await?;
    if context.json {
        let scopes: BTreeMap<_, _> = required.scopes.iter().map(|scope| (&*scope.scope, &scope.variables)).collect();
        return print_json(&object! { scopes: scopes, additional_variables: &required.additional });
    }
    let mut rows: Vec<_> = required.scopes.into_iter().map(|scope| [scope.scope, scope.variables.join(", ")]).collect();
    if !required.additional.is_empty() {
        rows.push(["(additional)".to_owned(), required.additional.join(", ")]);
    }
    terminal::print_table(["Scope", "Variables"], rows)
}

pub(super) fn report_stored(
    context: &PipelineContext<'_>,
    kind: DefinitionKind,
    stored: &Definition,
    done: &str,
) -> Result<()> {
    if context.json {
        return print_definition(kind, stored);
    }
    let id = terminal::escape_to_one_line(&stored.id);
    terminal::print_line(&format!("{id} was {done} as revision {}", stored.revision))
}

fn print_definition(kind: DefinitionKind, found: &Definition) -> Result<()> {
    let form = EmbeddedJson(&found.text);
    match kind {
        DefinitionKind::Rules => print_json(&object! { rule_engine: form, revision: found.revision }),
        _ => print_json(&object! { memory: form, revision: found.revision }),
    }
}

/// Of several errors, people see each on a line; scripts get all with the last one.
pub(super) fn explain_refused(context: &PipelineContext<'_>, error: PipelineError) -> anyhow::Error {
    let errors = error.findings.len();
    if context.json || errors < 2 {
        return error.into();
    }
    print_findings(&error.findings);
    coded_error("invalid", format!("the definition has {errors} errors, and was not stored"))
}

fn status_of(form: &Value) -> String {
    let status = text(form, "status");
    if status.is_empty() { "active".to_owned() } else { status }
}

/// Prints findings for people.
pub(super) fn print_findings(findings: &[Finding]) {
    for finding in findings {
        let place = if finding.path.is_empty() { String::new() } else { format!("{}: ", finding.path) };
        let message = format!("{place}{}", finding.message);
        if finding.is_error { terminal::print_error(&message) } else { terminal::print_warning(&message) }
    }
}
