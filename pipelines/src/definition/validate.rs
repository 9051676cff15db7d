//! Checks a definition as a whole, and reads it.
//!
//! One fault is one error, at the deepest place that is known.

use std::{collections::BTreeSet, rc::Rc};

use keepline_options::bucket_names::is_definition_id;

use super::{
    AdditionalVariable, Checked, Contribution, Definition, DefinitionLimits, ItemFormat, Priority, Scope, Section,
    Status, Step, StepKind, sdk,
    step_specs::{ParamSpec, ParamType},
};
use crate::{
    finding::Finding,
    language::comparison::{Operator, parse_where},
    language::expression::{Expression, is_alias},
    language::handlebars::HandlebarsTemplate,
    language::template,
    value::items::{parse_bound, parse_duration},
    value::{Object, Value},
};

/// Steps that a pipeline has better no more than.
const ADVISED_STEPS: usize = 10;

const MEMBERS: [&str; 11] = [
    "id",
    "label",
    "description",
    "version",
    "status",
    "inputs_scope",
    "additional_variables",
    "retrieval",
    "contribution",
    "createdAt",
    "updatedAt",
];
const INTENT_FIELDS: [&str; 4] = ["keywords", "action", "context", "query"];

pub(super) fn check(value: &Value, limits: &DefinitionLimits) -> Checked {
    let mut check = Check { limits: *limits, ..Check::default() };
    let definition = check.definition(value);
    let has_errors = check.findings.iter().any(|finding| finding.is_error);
    Checked { findings: check.findings, definition: definition.filter(|_| !has_errors) }
}

/// What is known while a definition is looked through.
#[derive(Default)]
struct Check {
    limits: DefinitionLimits,
    findings: Vec<Finding>,
    scopes: Vec<Scope>,
    variables: Vec<AdditionalVariable>,
    /// Names of placeholders that occur anywhere.
    used: BTreeSet<String>,
    steps: usize,
}

/// What earlier steps are called.
#[derive(Clone, Default)]
struct Earlier {
    names: BTreeSet<Rc<str>>,
    aliases: BTreeSet<Rc<str>>,
}

impl Check {
    fn error(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.findings.push(Finding::error(path, message));
    }

    fn warning(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.findings.push(Finding::warning(path, message));
    }

    fn definition(&mut self, value: &Value) -> Option<Definition> {
        let Some(members) = value.as_object() else {
            self.error("", format!("{} where a definition, an object, is required", value.kind()));
            return None;
        };
        let id = self.text(members, "id").unwrap_or_default();
        if !is_definition_id(&id) {
            self.error("id", "an id of 1 to 128 of A-Z a-z 0-9 _ . - is required, which does not begin with a dot");
        }
        let label = self.text(members, "label").unwrap_or_default();
        if label.trim().is_empty() {
            self.error("label", "a text that is not blank is required");
        }
        let description = self.text(members, "description").unwrap_or_default();
        let version = self.text(members, "version").unwrap_or_else(|| "1.0.0".into());
        if semver::Version::parse(&version).is_err() {
            self.error("version", format!("{version} is no version such as 1.0.0"));
        }
        let status = self.named(members, "status", Status::from_name, &Status::names()).unwrap_or(Status::Active);
        self.scopes = self.scopes(members.get("inputs_scope"));
        self.variables = self.variables(members.get("additional_variables"));
        let empty = Object::new();
        let given = match members.get("contribution") {
            None | Some(Value::Null) => &empty,
            Some(Value::Object(given)) => given,
            Some(other) => {
                self.error("contribution", format!("{} where an object is required", other.kind()));
                &empty
            }
        };
        let is_sdk = members
            .get("retrieval")
            .and_then(Value::as_object)
            .is_some_and(|retrieval| retrieval.contains_key("source_type") && !retrieval.contains_key("pipeline"));
        let contribution = self.contribution(given, is_sdk);
        let pipeline = self.pipeline(members.get("retrieval"), given);
        for (position, variable) in self.variables.clone().iter().enumerate() {
            let is_used = self.used.iter().any(|name| name.split('.').next() == Some(&variable.name));
            if !is_used && pipeline.is_some() {
                self.warning(format!("additional_variables[{position}]"), format!("no step uses {}", variable.name));
            }
        }
        for name in members.keys().filter(|name| !MEMBERS.contains(&&***name)) {
            self.warning(&**name, format!("a definition has no such member; it has {}", MEMBERS.join(", ")));
        }
        let (steps, written) = pipeline?;
        let form = stored_form(members, &version, status, written, &contribution, is_sdk);
        let (scopes, variables) = (self.scopes.clone(), self.variables.clone());
        Some(Definition { id, label, description, version, status, scopes, variables, steps, contribution, form })
    }

    /// A member that is a text if it is there.
    fn text(&mut self, members: &Object, name: &str) -> Option<Rc<str>> {
        match members.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::Text(text)) => Some(Rc::clone(text)),
            // Required ones have an error of their own.
            Some(_) if matches!(name, "id" | "label") => None,
            Some(other) => {
                self.error(name, format!("{} where a text is required", other.kind()));
                None
            }
        }
    }

    /// A member that is one of some names, if it is there.
    fn named<T>(&mut self, members: &Object, path: &str, parse: fn(&str) -> Option<T>, names: &[&str]) -> Option<T> {
        let name = path.rsplit('.').next().unwrap_or(path);
        let value = members.get(name).filter(|value| !value.is_null())?;
        let found = value.as_text().and_then(parse);
        if found.is_none() {
            self.error(path, format!("{} is none of {}", value.to_json(), names.join(", ")));
        }
        found
    }

    fn scopes(&mut self, value: Option<&Value>) -> Vec<Scope> {
        let list = match value {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::List(list)) => list,
            Some(other) => {
                self.error("inputs_scope", format!("{} where a list of scopes is required", other.kind()));
                return Vec::new();
            }
        };
        let mut scopes = Vec::new();
        for (position, value) in list.iter().enumerate() {
            match value.as_text().and_then(Scope::from_name) {
                Some(scope) => scopes.push(scope),
                None => {
                    let message = format!("{} is none of {}", value.to_json(), Scope::names().join(", "));
                    self.error(format!("inputs_scope[{position}]"), message);
                }
            }
        }
        scopes
    }

    /// A list of objects with a name, or the SDK's object by name.
    fn variables(&mut self, value: Option<&Value>) -> Vec<AdditionalVariable> {
        let given: Vec<(String, Option<Rc<str>>, &Value)> = match value {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::List(list)) => {
                let named = list.iter().enumerate().map(|(position, value)| {
                    let name = value.member("name").and_then(Value::as_text).map(Rc::from);
                    (format!("additional_variables[{position}].name"), name, value)
                });
                named.collect()
            }
            Some(Value::Object(members)) => {
                let named = members
                    .iter()
                    .map(|(name, value)| (format!("additional_variables.{name}"), Some(Rc::clone(name)), value));
                named.collect()
            }
            Some(other) => {
                self.error("additional_variables", format!("{} where a list is required", other.kind()));
                return Vec::new();
            }
        };
        let is_name = |name: &str| {
            let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            !name.is_empty() && name.bytes().all(is_part)
        };
        let mut variables: Vec<AdditionalVariable> = Vec::new();
        for (path, name, value) in given {
            let Some(name) = name.filter(|name| is_name(name)) else {
                self.error(path, "a name of small letters, digits and underscores is required");
                continue;
            };
            if variables.iter().any(|variable| variable.name == name) {
                self.error(path, format!("{name} is declared twice"));
                continue;
            }
            let required = value.member("required").is_some_and(|required| required.as_bool() == Some(true));
            variables.push(AdditionalVariable { name, required });
        }
        variables
    }

    fn contribution(&mut self, given: &Object, is_sdk: bool) -> Contribution {
        let formats: Vec<ItemFormat> = if is_sdk {
            vec![ItemFormat::Text, ItemFormat::Json, ItemFormat::Markdown]
        } else {
            ItemFormat::OF_CONTRIBUTIONS.to_vec()
        };
        let format = given.get("format").filter(|format| !format.is_null()).map(|value| {
            let format = value.as_text().and_then(ItemFormat::from_name).filter(|format| formats.contains(format));
            if format.is_none() {
                let names: Vec<_> = formats.iter().map(|format| format.name()).collect();
                self.error("contribution.format", format!("{} is none of {}", value.to_json(), names.join(", ")));
            }
            format.unwrap_or(ItemFormat::BulletList)
        });
        let mut whole = |name: &str| {
            let value = given.get(name).filter(|value| !value.is_null())?;
            let number = value.as_whole().filter(|number| *number >= 1);
            if number.is_none() {
                let message = format!("{} where a whole number from 1 is required", value.to_json());
                self.error(format!("contribution.{name}"), message);
            }
            usize::try_from(number?).ok()
        };
        let (max_items, max_tokens) = (whole("max_items"), whole("max_tokens"));
        let section = self.named(given, "contribution.section", Section::from_name, &Section::names());
        let priority = self.named(given, "contribution.priority", Priority::from_name, &Priority::names());
        const KNOWN: [&str; 6] = ["section", "priority", "format", "max_items", "max_tokens", "template"];
        for name in given.keys().filter(|name| !KNOWN.contains(&&***name) || (&***name == "template" && !is_sdk)) {
            self.warning(format!("contribution.{name}"), "a contribution has no such member");
        }
        Contribution {
            section: section.unwrap_or(Section::Knowledge),
            priority: priority.unwrap_or(Priority::Medium),
            format: format.unwrap_or(if is_sdk { ItemFormat::Text } else { ItemFormat::BulletList }),
            max_items,
            max_tokens,
        }
    }

    /// The steps, and the pipeline as it is stored.
    fn pipeline(&mut self, retrieval: Option<&Value>, contribution: &Object) -> Option<(Vec<Step>, Value)> {
        let Some(members) = retrieval.and_then(Value::as_object) else {
            self.error("retrieval", "an object with a pipeline is required");
            return None;
        };
        let is_sdk = members.contains_key("source_type");
        let (steps, known): (Vec<Value>, &[&str]) = match (members.get("pipeline"), is_sdk) {
            (Some(_), true) => {
                self.error("retrieval", "either a pipeline or a source is required, not both");
                return None;
            }
            (Some(Value::List(steps)), false) => (steps.to_vec(), &["pipeline"]),
            (Some(other), false) => {
                self.error("retrieval.pipeline", format!("{} where a list of steps is required", other.kind()));
                return None;
            }
            (None, true) => {
                let before = self.findings.len();
                let steps = sdk::to_pipeline(members, contribution, &mut self.findings)?;
                if self.findings.len() > before {
                    return None;
                }
                (steps, &["source_type", "source_id", "query_template", "limit", "filters"])
            }
            (None, false) => {
                self.error("retrieval.pipeline", "a list of steps is required");
                return None;
            }
        };
        for name in members.keys().filter(|name| !known.contains(&&***name)) {
            self.warning(format!("retrieval.{name}"), "a retrieval has no such member");
        }
        let mut earlier = Earlier::default();
        let compiled = self.steps(&steps, "retrieval.pipeline", 1, &mut earlier);
        if self.steps > self.limits.steps {
            let most = self.limits.steps;
            self.error("retrieval.pipeline", format!("{} steps are over the limit of {most} (max_steps)", self.steps));
        } else if self.steps > ADVISED_STEPS {
            self.warning(
                "retrieval.pipeline",
                format!("{} steps: more than {ADVISED_STEPS} are hard to follow", self.steps),
            );
        } else if self.steps == 0 {
            self.warning("retrieval.pipeline", "a pipeline without steps finds nothing");
        }
        Some((compiled, steps.into()))
    }

    fn steps(&mut self, steps: &[Value], path: &str, level: usize, earlier: &mut Earlier) -> Vec<Step> {
        let mut compiled = Vec::new();
        for (position, value) in steps.iter().enumerate() {
            self.steps += 1;
            if self.steps > self.limits.steps {
                self.steps += count_steps(steps.get(position + 1..).unwrap_or_default());
                break;
            }
            let path = format!("{path}[{position}]");
            let Some(members) = value.as_object() else {
                self.error(path, format!("{} where a step, an object, is required", value.kind()));
                continue;
            };
            let kind = members.get("type").and_then(Value::as_text);
            let Some(kind) = kind.and_then(StepKind::from_name) else {
                let message = match kind {
                    Some(kind) => format!("{kind} is none of {}", StepKind::names().join(", ")),
                    None => format!("a type is required: one of {}", StepKind::names().join(", ")),
                };
                self.error(format!("{path}.type"), message);
                continue;
            };
            compiled.push(self.step(kind, members, &path, level, earlier));
        }
        compiled
    }

    fn step(&mut self, kind: StepKind, members: &Object, path: &str, level: usize, earlier: &mut Earlier) -> Step {
        let alias = self.alias(members, path, earlier);
        let spec = kind.spec();
        let mut params = Object::new();
        for (name, value) in members.iter().filter(|(name, _)| !["type", "alias"].contains(&&***name)) {
            let at = format!("{path}.{name}");
            match spec.param(name) {
                None => {
                    let known: Vec<_> = spec.params.iter().map(|param| param.name).collect();
                    self.warning(at, format!("{} has no such parameter; it has {}", kind.name(), known.join(", ")));
                }
                Some(ParamSpec { kind: ParamType::Steps, .. }) => {}
                Some(param) if params.contains_key(param.name) => {
                    self.error(at, format!("{} is given twice, by both its names", param.name));
                }
                Some(param) => {
                    self.param(param, value, &at, earlier);
                    params.insert(param.name.into(), value.clone());
                }
            }
        }
        for param in spec.params.iter().filter(|param| param.required) {
            if params.get(param.name).is_none_or(Value::is_null) {
                self.error(format!("{path}.{}", param.name), format!("{} needs {}", kind.name(), param.name));
            }
        }
        self.together(kind, &params, path);
        let branch = |check: &mut Self, name: &str, earlier: &mut Earlier| match members.get(name) {
            Some(Value::List(steps)) if level < check.limits.levels || steps.is_empty() => {
                check.steps(steps, &format!("{path}.{name}"), level + 1, earlier)
            }
            Some(Value::List(_)) => {
                let most = check.limits.levels;
                check.error(format!("{path}.{name}"), format!("more than {most} levels of steps (max_levels)"));
                Vec::new()
            }
            None | Some(Value::Null) => Vec::new(),
            Some(other) => {
                check.error(format!("{path}.{name}"), format!("{} where a list of steps is required", other.kind()));
                Vec::new()
            }
        };
        let (mut then_steps, mut else_steps) = (Vec::new(), Vec::new());
        if kind == StepKind::Conditional {
            // The same alias may be given in both branches, for one of them runs.
            let (mut in_then, mut in_else) = (earlier.clone(), earlier.clone());
            then_steps = branch(self, "thenSteps", &mut in_then);
            else_steps = branch(self, "elseSteps", &mut in_else);
            earlier.names.extend(in_then.names.into_iter().chain(in_else.names));
            earlier.aliases.extend(in_then.aliases.into_iter().chain(in_else.aliases));
        }
        let step = Step { kind, alias, params, then_steps, else_steps, path: path.into() };
        earlier.names.insert(step.name().into());
        step
    }

    fn alias(&mut self, members: &Object, path: &str, earlier: &mut Earlier) -> Option<Rc<str>> {
        let value = members.get("alias").filter(|alias| !alias.is_null())?;
        let Some(alias) = value.as_text().filter(|alias| is_alias(alias)).map(Rc::<str>::from) else {
            let message = "an alias is a letter or _, then letters, digits, _ and -, up to 64";
            self.error(format!("{path}.alias"), message);
            return None;
        };
        if !earlier.aliases.insert(Rc::clone(&alias)) {
            self.error(format!("{path}.alias"), format!("{alias} is the alias of an earlier step"));
        }
        Some(alias)
    }

    /// What parameters have to be to each other.
    fn together(&mut self, kind: StepKind, params: &Object, path: &str) {
        let has = |name: &str| params.get(name).is_some_and(|value| !value.is_null());
        let text = |name: &str| params.get(name).and_then(Value::as_text);
        match kind {
            StepKind::Filter if !has("where") => {
                for name in ["field", "operator"] {
                    if !has(name) {
                        self.error(format!("{path}.{name}"), format!("filter needs {name}, or where"));
                    }
                }
                let operator = text("operator").and_then(Operator::parse_filter);
                let value = params.get("value");
                let is_placeholder =
                    value.and_then(Value::as_text).is_some_and(|text| template::whole_placeholder(text).is_some());
                match operator {
                    Some(Operator::Exists) | None => {}
                    Some(_) if value.is_none() => {
                        self.error(format!("{path}.value"), "a value to compare with is required")
                    }
                    Some(Operator::In) if value.is_some_and(|value| value.as_list().is_none()) && !is_placeholder => {
                        self.error(format!("{path}.value"), "in needs a list of values");
                    }
                    Some(_) => {}
                }
            }
            StepKind::Merge if text("strategy") == Some("unique") && !has("uniqueField") => {
                self.error(format!("{path}.uniqueField"), "unique needs uniqueField");
            }
            StepKind::Custom => {
                let modes = ["handler", "actionBlockPath", "inlineCode"];
                if modes.into_iter().filter(|name| has(name)).count() != 1 {
                    self.error(path, format!("custom needs exactly one of {}", modes.join(", ")));
                }
            }
            _ => {}
        }
    }

    /// A parameter by itself.
    fn param(&mut self, param: &ParamSpec, value: &Value, path: &str, earlier: &Earlier) {
        if param.kind != ParamType::Condition {
            self.note_placeholders(value, path, earlier);
        }
        let is_placeholder = value.as_text().is_some_and(|text| template::whole_placeholder(text).is_some());
        let is_source = matches!(param.kind, ParamType::Source | ParamType::QuerySource | ParamType::Sources);
        if value.is_null() || (is_placeholder && param.kind != ParamType::Condition && !is_source) {
            return;
        }
        let wanted =
            |what: &str| format!("{} where {what} is required", value.to_json().chars().take(80).collect::<String>());
        // What a text will be with its placeholders filled in is known when it runs.
        let text = value.as_text();
        let is_known = text.is_none_or(|text| template::placeholders(text).next().is_none());
        match param.kind {
            ParamType::Any => {}
            ParamType::Text => match text {
                Some(text) if !text.trim().is_empty() || param.name == "template" => {}
                _ => self.error(path, wanted("a text that is not blank")),
            },
            ParamType::Texts => self.texts(value, path),
            ParamType::Whole if value.as_whole().is_none_or(|number| number < 1) => {
                self.error(path, wanted("a whole number from 1"));
            }
            ParamType::Share if value.as_number().is_none_or(|number| !(0.0..=1.0).contains(&number)) => {
                self.error(path, wanted("a number from 0 to 1"));
            }
            ParamType::Object if value.as_object().is_none() => self.error(path, wanted("an object")),
            ParamType::Weights => match value.as_object() {
                None => self.error(path, wanted("an object of numbers")),
                Some(weights) => {
                    for (name, weight) in weights.iter().filter(|(_, weight)| weight.as_number().is_none()) {
                        self.error(
                            format!("{path}.{name}"),
                            format!("{} where a number is required", weight.to_json()),
                        );
                    }
                }
            },
            ParamType::Source => self.source(text, path, earlier, |_| false),
            ParamType::QuerySource => {
                // A field of the intent may have any name.
                let is_field = |name: &str| param.name == "from" || name == "intent" || INTENT_FIELDS.contains(&name);
                self.source(text, path, earlier, is_field);
            }
            ParamType::Sources => match value.as_list() {
                Some(sources) if !sources.is_empty() => {
                    for (position, source) in sources.iter().enumerate() {
                        self.source(source.as_text(), &format!("{path}[{position}]"), earlier, |_| false);
                    }
                }
                _ => self.error(path, wanted("a list of earlier steps")),
            },
            ParamType::Choice(choices) if is_known && text.is_none_or(|text| !choices.contains(&text)) => {
                self.error(path, format!("{} is none of {}", value.to_json(), choices.join(", ")));
            }
            ParamType::Where => match text.map(parse_where) {
                None => self.error(path, wanted("a text")),
                Some(Err(message)) => self.error(path, message),
                Some(Ok(_)) => {}
            },
            ParamType::Condition => self.condition(text, path, earlier),
            ParamType::Since if is_known && text.is_none_or(|text| parse_bound(text, 0).is_none()) => {
                self.error(path, wanted("an RFC 3339 time, or a time before now such as -7d, -12h or -30m"));
            }
            ParamType::Window if is_known && text.is_none_or(|text| parse_duration(text).is_none()) => {
                self.error(path, wanted("a time such as 7d, 12h or 30m"));
            }
            ParamType::Template => match text.map(HandlebarsTemplate::parse) {
                None => self.error(path, wanted("a text")),
                Some(Err(message)) => self.error(path, message),
                Some(Ok(_)) => {}
            },
            ParamType::Filters if value.as_object().is_none() => self.filters(value, path),
            ParamType::ProjectPath => {
                let is_within = |text: &str| {
                    let parts: Vec<_> = text.split(['/', '\\']).collect();
                    !text.is_empty()
                        && !parts.contains(&"..")
                        && parts.first().is_some_and(|first| !first.is_empty())
                        && !text.contains(':')
                };
                if text.is_none_or(|text| !is_within(text)) {
                    self.error(path, wanted("a path within the project, without .."));
                }
            }
            _ => {}
        }
    }

    fn texts(&mut self, value: &Value, path: &str) {
        match value {
            Value::Text(text) if !text.is_empty() => {}
            Value::List(items) => {
                for (position, item) in items.iter().enumerate() {
                    if item.as_text().is_none_or(str::is_empty) {
                        let message = format!("{} where a text that is not empty is required", item.to_json());
                        self.error(format!("{path}[{position}]"), message);
                    }
                }
            }
            other => self.error(path, format!("{} where a list of texts is required", other.to_json())),
        }
    }

    fn filters(&mut self, value: &Value, path: &str) {
        let Some(list) = value.as_list() else {
            self.error(path, format!("{} where a list of conditions, or an object, is required", value.kind()));
            return;
        };
        for (position, condition) in list.iter().enumerate() {
            let path = format!("{path}[{position}]");
            if condition.member("field").and_then(Value::as_text).is_none() {
                self.error(format!("{path}.field"), "a condition needs a field");
            }
            let operator = condition.member("operator").and_then(Value::as_text).unwrap_or("eq");
            if Operator::parse_filter(operator).is_none() {
                let names = Operator::filter_names().join(", ");
                self.error(format!("{path}.operator"), format!("{operator} is none of {names}"));
            }
        }
    }

    fn source(&mut self, name: Option<&str>, path: &str, earlier: &Earlier, is_other: impl Fn(&str) -> bool) {
        match name {
            None => self.error(path, "the name of an earlier step is required"),
            Some(name) if earlier.names.contains(name) || is_other(name) => {}
            Some(name) => self.error(path, format!("no earlier step is called {name}")),
        }
    }

    fn condition(&mut self, text: Option<&str>, path: &str, earlier: &Earlier) {
        let expression = match text.map(Expression::parse) {
            None => return self.error(path, "a condition is a text"),
            Some(Err(message)) => return self.error(path, message),
            Some(Ok(expression)) => expression,
        };
        for alias in expression.aliases().filter(|alias| !earlier.names.contains(*alias)) {
            self.warning(path, format!("no earlier step is called {alias}: its length is 0"));
        }
        for name in expression.placeholders() {
            self.note_placeholder(name, path, earlier);
        }
    }

    /// Placeholders in a value, each at its place.
    fn note_placeholders(&mut self, value: &Value, path: &str, earlier: &Earlier) {
        match value {
            Value::Text(text) => {
                for name in template::placeholders(text) {
                    self.note_placeholder(name, path, earlier);
                }
            }
            Value::List(items) => {
                for (position, item) in items.iter().enumerate() {
                    self.note_placeholders(item, &format!("{path}[{position}]"), earlier);
                }
            }
            Value::Object(members) => {
                for (name, member) in members.iter() {
                    self.note_placeholders(member, &format!("{path}.{name}"), earlier);
                }
            }
            _ => {}
        }
    }

    fn note_placeholder(&mut self, name: &str, path: &str, earlier: &Earlier) {
        self.used.insert(name.to_owned());
        let head = name.split('.').next().unwrap_or(name);
        let is_known = INTENT_FIELDS.contains(&head)
            || earlier.names.contains(head)
            || self.variables.iter().any(|variable| &*variable.name == head)
            || self.scopes.iter().any(|scope| scope.variables().contains(&head));
        if !is_known {
            let message = format!("{name} is neither a declared variable, nor of the intent, nor an earlier step");
            self.warning(path, message);
        }
    }
}

fn count_steps(steps: &[Value]) -> usize {
    let branches = |step: &Value| {
        let branches = ["thenSteps", "elseSteps"].into_iter().filter_map(|name| step.member(name)?.as_list());
        branches.map(count_steps).sum::<usize>()
    };
    steps.iter().map(|step| 1 + branches(step)).sum()
}

/// The pipeline form of a definition: as it was given, with a version and a status.
fn stored_form(
    members: &Object,
    version: &str,
    status: Status,
    pipeline: Value,
    contribution: &Contribution,
    is_sdk: bool,
) -> Value {
    let mut form = Object::new();
    for (name, value) in members {
        let value = match &**name {
            "retrieval" => Value::object([("pipeline", pipeline.clone())]),
            "additional_variables" => variables_form(value),
            "contribution" if is_sdk => {
                let mut own = value.as_object().cloned().unwrap_or_default();
                own.shift_remove("template");
                // How items are written is the format step's business now.
                own.insert(
                    "format".into(),
                    if contribution.format == ItemFormat::Json { "json" } else { "prose" }.into(),
                );
                own.into()
            }
            _ => value.clone(),
        };
        form.insert(Rc::clone(name), value);
    }
    form.entry("version".into()).or_insert_with(|| version.into());
    form.entry("status".into()).or_insert_with(|| status.name().into());
    form.into()
}

/// The SDK's variables by name, as a list.
fn variables_form(value: &Value) -> Value {
    let Some(members) = value.as_object() else { return value.clone() };
    let list = members.iter().map(|(name, variable)| {
        let mut own = Object::from_iter([("name".into(), Value::Text(Rc::clone(name)))]);
        let rest = variable.as_object().into_iter().flatten();
        own.extend(rest.map(|(name, value)| (Rc::clone(name), value.clone())));
        Value::from(own)
    });
    list.collect::<Vec<_>>().into()
}
