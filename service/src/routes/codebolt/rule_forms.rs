//! The forms in which clients send rule engines: `when` and `then` of the engine's documents, which alone is stored, and
//! `conditions` and `action` of the agent SDK. What the engine has no rule for is refused by name.

use axum::http::StatusCode;
use keepline::pipelines::InputScope;
use serde_json::value::RawValue;

use super::forms::{Incoming, Places, TIMES};
use crate::http::{ApiError, JsonObject, raw};

/// Ids that paths use for something else.
const RESERVED: [&str; 2] = ["variables", "evaluate"];

/// Reads a rule engine, or some of its members, in any form. Rules without ids get some.
///
/// # Errors
/// `refused` at what can't be said in a rule; `invalid` at a reserved id.
pub fn rule_engine(mut form: JsonObject) -> Result<Incoming, ApiError> {
    for name in TIMES {
        form.remove(name);
    }
    if let Some(id) = form.read::<String>("id")
        && RESERVED.contains(&&*id)
    {
        return Err(ApiError::invalid("id", format!("a rule engine can't be called {id}: it is part of a path")));
    }
    let mut places = Places::default();
    // What is no list of objects is the library's to refuse.
    if let Some(rules) = form.read::<Vec<Box<RawValue>>>("rules") {
        let mut taken: Vec<String> = rules.iter().filter_map(|rule| JsonObject::of(rule)?.read("id")).collect();
        let rules = rules.into_iter().enumerate().map(|(position, rule)| {
            let Some(mut object) = JsonObject::of(&rule) else { return Ok(rule) };
            if object.get("id").is_none() {
                object.put("id", &free_id(position, &mut taken));
            }
            Ok(raw(&rewrite(object, position, &mut places)?))
        });
        form.put("rules", &rules.collect::<Result<Vec<_>, ApiError>>()?);
    }
    let named = form.get("id").is_none().then(|| form.read("name").unwrap_or_default());
    Ok(Incoming { form, places, named })
}

fn free_id(position: usize, taken: &mut Vec<String>) -> String {
    let mut number = position + 1;
    loop {
        let id = format!("rule-{number}");
        if !taken.contains(&id) {
            taken.push(id.clone());
            return id;
        }
        number += 1;
    }
}

/// A rule of the agent SDK as the engine has it. Others stay as they are.
fn rewrite(mut rule: JsonObject, position: usize, places: &mut Places) -> Result<JsonObject, ApiError> {
    let is_sdk = rule.get("when").is_none()
        && rule.get("then").is_none()
        && ["conditions", "action", "action_config"].iter().any(|name| rule.get(name).is_some());
    if !is_sdk {
        return Ok(rule);
    }
    let at = |name: &str| format!("rules[{position}].{name}");
    if rule.read::<String>("action").as_deref() != Some("include") {
        return Err(refused(at("action"), "rules only include memories: the action must be include"));
    }
    if let Some(logic) = rule.get("condition_logic")
        && !serde_json::from_str::<String>(logic.get()).is_ok_and(|logic| logic.eq_ignore_ascii_case("and"))
    {
        return Err(refused(
            at("condition_logic"),
            "all conditions of a rule have to hold: condition_logic must be and",
        ));
    }
    let conditions = rule.expect::<Vec<JsonObject>>("conditions", "a list of conditions");
    let conditions =
        conditions.map_err(|error| ApiError { path: Some(at("conditions")), ..error })?.unwrap_or_default();
    let mut when = Vec::new();
    for (number, condition) in conditions.into_iter().enumerate() {
        let (here, sent) = (at(&format!("when[{number}]")), at(&format!("conditions[{number}]")));
        places.add(format!("{here}.field"), format!("{sent}.variable"));
        when.push(condition_form(condition, &sent)?);
        places.add(here, sent);
    }
    let memories = rule.get("action_config").and_then(JsonObject::of);
    let memories = memories.and_then(|config| config.get("memory_ids").map(ToOwned::to_owned));
    places.add(at("then.add_memories"), at("action_config.memory_ids"));
    let mut then = JsonObject::default();
    then.set("add_memories", memories.unwrap_or_else(|| raw(&[""; 0])));
    for name in ["conditions", "condition_logic", "action", "action_config"] {
        rule.remove(name);
    }
    rule.put("when", &when);
    rule.put("then", &then);
    Ok(rule)
}

fn condition_form(mut condition: JsonObject, at: &str) -> Result<JsonObject, ApiError> {
    match condition.read::<String>("operator").as_deref() {
        Some("matches") => condition.put("operator", &"regex"),
        Some("not_contains") => {
            return Err(refused(format!("{at}.operator"), "the engine has no operator not_contains"));
        }
        _ => {}
    }
    if let Some(variable) = condition.read::<String>("variable") {
        condition.remove("variable");
        condition.put("field", &field_of(&variable));
    }
    Ok(condition)
}

/// A bare name is a variable of its scope, if a scope has one of that name, and else an additional one.
fn field_of(variable: &str) -> String {
    if variable == "input.text" || variable.starts_with("scope.") || variable.starts_with("addVar.") {
        return variable.to_owned();
    }
    match InputScope::of_variable(variable) {
        Some(scope) => format!("scope.{}.{variable}", scope.name()),
        None => format!("addVar.{variable}"),
    }
}

fn refused(path: String, message: &str) -> ApiError {
    ApiError { path: Some(path), ..ApiError::new(StatusCode::BAD_REQUEST, "refused", message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Incoming, ApiError> {
        rule_engine(JsonObject::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn a_rule_of_the_sdk_becomes_one_of_the_engine() {
        let sent = r#"{"name":"n","rules":[{"id":"rule-1"},{"conditions":[{"variable":"task_type","operator":"eq","value":1.0},
            {"variable":"phase","operator":"matches","value":"x"}],"action":"include","action_config":{"memory_ids":["m"]}}]}"#;
        let Incoming { form, places, named } = read(sent).unwrap();
        let rules = r#"[{"id":"rule-1"},{"id":"rule-2","when":[{"operator":"eq","value":1.0,"field":"scope.task.task_type"},{"operator":"regex","value":"x","field":"addVar.phase"}],"then":{"add_memories":["m"]}}]"#;
        assert_eq!(form.get("rules").unwrap().get(), rules);
        assert_eq!(named.as_deref(), Some("n"));
        let error = places.rename(ApiError::invalid("rules[1].when[0].field", ""));
        assert_eq!(error.path.as_deref(), Some("rules[1].conditions[0].variable"));
    }

    #[test]
    fn what_the_engine_has_no_rule_for_is_refused_where_it_stands() {
        for (rule, place) in [
            (r#"{"action":"exclude"}"#, "action"),
            (r#"{"action":"include","condition_logic":"or"}"#, "condition_logic"),
            (r#"{"action":"include","conditions":[{"operator":"not_contains"}]}"#, "conditions[0].operator"),
        ] {
            let error = read(&format!(r#"{{"rules":[{rule}]}}"#)).err().unwrap();
            assert_eq!((&*error.code, error.path.unwrap()), ("refused", format!("rules[0].{place}")));
        }
        assert_eq!(read(r#"{"id":"evaluate"}"#).err().unwrap().path.as_deref(), Some("id"));
    }
}
