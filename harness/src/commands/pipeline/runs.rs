//! Runs, assemblies and rules: requests as JSON, and what comes of them.

use std::time::Instant;

use anyhow::{Context, Result};
use keepline::pipelines::{Asker, Operation};
use serde_json::{Map, Value, json};

use super::{
    PipelineContext,
    arguments::{AskerArguments, PipelineCommand, RequestArguments},
    read_text,
};
use crate::{
    app::error::usage_error,
    terminal::{self, json_text::parse_lenient, print_json},
};

/// A JSON object that an option gives; none: empty.
fn object(option: &str, given: Option<&str>) -> Result<Map<String, Value>> {
    let Some(given) = given else { return Ok(Map::new()) };
    serde_json::from_str(given).map_err(|error| usage_error(format!("{option} must be a JSON object: {error}")))
}

impl RequestArguments {
    fn to_object(&self) -> Result<Map<String, Value>> {
        let mut request = match &self.request {
            Some(file) => {
                parse_lenient(&read_text(file)?).with_context(|| format!("{} must be a JSON object", file.display()))?
            }
            None => Map::from_iter([("scope_variables".to_owned(), json!({}))]),
        };
        if let Some(scopes) = &self.scope_variables {
            request.insert("scope_variables".into(), object("--scope-variables", Some(scopes))?.into());
        }
        if let Some(variables) = &self.variables {
            request.insert("additional_variables".into(), object("--variables", Some(variables))?.into());
        }
        if let Some(text) = &self.input {
            request.insert("input".into(), json!({"text": text}));
        }
        if let Some(engines) = &self.engines {
            request.insert("rule_engine_ids".into(), json!(engines));
        }
        Ok(request)
    }
}

/// How an output says whether it succeeded.
#[derive(serde::Deserialize)]
struct RunOutcome {
    success: bool,
}

/// Returns whether it succeeded; why not is told already.
pub(super) async fn run_request(context: &PipelineContext<'_>, command: &PipelineCommand) -> Result<bool> {
    let (operation, request, asker) = match command {
        PipelineCommand::Run { id, query, intent, variables, thread_id, asker } => {
            let mut intent = object("--intent", intent.as_deref())?;
            if let Some(query) = query {
                intent.insert("query".into(), query.as_str().into());
            }
            let mut request = Map::new();
            request.insert("id".into(), id.as_str().into());
            request.insert("intent".into(), intent.into());
            request.insert("variables".into(), object("--variables", variables.as_deref())?.into());
            if let Some(thread) = thread_id {
                request.insert("thread_id".into(), thread.as_str().into());
            }
            (Operation::Execute, request, asker)
        }
        PipelineCommand::Assemble { request, memories, max_tokens, asker } => {
            let mut request = request.to_object()?;
            if !memories.is_empty() {
                request.insert("explicit_memory".into(), json!(memories));
            }
            if let Some(tokens) = max_tokens {
                request.insert("constraints".into(), json!({"max_tokens": tokens}));
            }
            (Operation::Assemble, request, asker)
        }
        PipelineCommand::Evaluate { request, asker } => (Operation::EvaluateRules, request.to_object()?, asker),
        _ => return Ok(true),
    };
    let began = Instant::now();
    let output =
        context.pipelines.run(&asker_of(context, asker), operation, &Value::from(request).to_string(), None).await?;
    let milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    if context.json {
        // The order of members is the plugin's.
        let end = if operation == Operation::Assemble {
            output.strip_suffix("}}").map(|rest| format!("{rest},\"duration_ms\":{milliseconds}}}}}"))
        } else {
            output.strip_suffix('}').map(|rest| format!("{rest},\"duration_ms\":{milliseconds}}}"))
        };
        let timed = end.filter(|text| serde_json::from_str::<Value>(text).is_ok()).unwrap_or(output);
        print_json(&terminal::json_text::EmbeddedJson(&timed))?;
        return Ok(serde_json::from_str::<RunOutcome>(&timed)?.success);
    }
    let output: Value = serde_json::from_str(&output)?;
    match operation {
        Operation::Execute => show_run(&output),
        Operation::Assemble => show_assembly(&output, milliseconds),
        _ => show_rules(&output),
    }
}

fn asker_of(context: &PipelineContext<'_>, arguments: &AskerArguments) -> Asker {
    let mut asker = Asker::new(context.owner.clone());
    asker.session.clone_from(&arguments.session);
    asker.user.clone_from(&arguments.user);
    asker
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Reports warnings at their places, and variables that nothing filled.
fn report(told: &Value) {
    for warning in list(told, "warnings") {
        let place = [text(warning, "memory_id"), text(warning, "path")];
        let place: Vec<_> = place.into_iter().filter(|part| !part.is_empty()).collect();
        let place = if place.is_empty() { String::new() } else { format!("{}: ", place.join(", ")) };
        terminal::print_warning(&format!("{place}{}", text(warning, "message")));
    }
    let missing: Vec<_> = list(told, "missing_variables").iter().filter_map(Value::as_str).collect();
    if !missing.is_empty() {
        terminal::print_warning(&format!("variables without a value: {}", missing.join(", ")));
    }
}

fn report_error(told: &Value) {
    let error = told.get("error").unwrap_or(&Value::Null);
    let place = if text(error, "path").is_empty() { String::new() } else { format!("{}: ", text(error, "path")) };
    terminal::print_error_with_code(text(error, "code"), &format!("{place}{}", text(error, "message")));
}

fn show_run(output: &Value) -> Result<bool> {
    report(output);
    if output.get("success") != Some(&Value::Bool(true)) {
        report_error(output);
        return Ok(false);
    }
    let formatted = text(output, "formatted");
    if formatted.is_empty() {
        terminal::print_note("the memory contributes nothing to this request");
    } else {
        terminal::print_raw_text(formatted)?;
    }
    Ok(true)
}

fn show_assembly(output: &Value, milliseconds: u64) -> Result<bool> {
    let trace = output.get("trace").unwrap_or(&Value::Null);
    report(trace);
    for call in list(trace, "memory_calls").iter().filter(|call| call.get("error").is_some()) {
        let error = call.get("error").unwrap_or(&Value::Null);
        let message = format!("{}: {} {}", text(call, "memory_id"), text(error, "path"), text(error, "message"));
        terminal::print_warning(&message);
    }
    let mut lines = Vec::new();
    for (section, items) in output.get("context").and_then(Value::as_object).into_iter().flatten() {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(format!("# {section}"));
        for item in items.as_array().into_iter().flatten() {
            lines.push(format!("{}  ({}, {})", text(item, "text"), text(item, "memory_id"), text(item, "priority")));
        }
    }
    terminal::print_lines(lines)?;
    let meta = output.get("meta").unwrap_or(&Value::Null);
    let number = |name: &str| meta.get(name).and_then(Value::as_u64).unwrap_or(0);
    let cut = if meta.get("truncated") == Some(&Value::Bool(true)) { "; the budget left items out" } else { "" };
    let items = terminal::format_count(number("total_items"), "item", "items");
    let tokens = terminal::format_count(number("token_estimate"), "token", "tokens");
    terminal::print_note(&format!("{items}, about {tokens}, in {milliseconds} ms{cut}"));
    Ok(true)
}

fn show_rules(output: &Value) -> Result<bool> {
    let rows = list(output, "rules_applied").iter();
    let rows = rows.map(|rule| [text(rule, "engine_id").to_owned(), text(rule, "rule_id").to_owned()]).collect();
    terminal::print_lines(list(output, "memories").iter().filter_map(Value::as_str))?;
    if terminal::is_terminal_output() {
        terminal::print_table(["Engine", "Rule that held"], rows)?;
    }
    Ok(true)
}
