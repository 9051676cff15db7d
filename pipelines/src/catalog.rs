//! What is done to definitions: create, update, duplicate, import and export them, and say what they need.
//!
//! Pure functions over the stored forms; whoever calls them reads and writes the store.

use std::rc::Rc;

use indexmap::IndexSet;
use keepline_options::{bucket_names::is_definition_id, registered_names};

use crate::{
    definition::{Checked, Definition, DefinitionLimits, Form, Scope, check, parse_text},
    finding::Finding,
    language::template,
    rules::check_rule_engine,
    value::{Object, Value},
};

registered_names! {
    /// What is stored: memories and rule engines.
    DefinitionKind { Memory = "memory", Rules = "rules", }
}

/// A definition that may be stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    pub id: Rc<str>,
    /// As it is stored.
    pub form: Value,
}

impl DefinitionKind {
    /// What people call one.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Rules => "rule engine",
        }
    }

    /// Check a definition of this kind: all findings, and the definition if none is an error.
    pub fn check(self, form: &Value, limits: &DefinitionLimits) -> (Vec<Finding>, Option<Accepted>) {
        match self {
            Self::Memory => {
                let Checked { findings, definition } = check(form, limits);
                (findings, definition.map(|Definition { id, form, .. }| Accepted { id, form }))
            }
            Self::Rules => {
                let checked = check_rule_engine(form, limits);
                let accepted = checked.engine.map(|engine| Accepted { id: engine.id, form: engine.form });
                (checked.findings, accepted)
            }
        }
    }

    /// Check a definition as text.
    pub fn check_text(self, form: Form, text: &str, limits: &DefinitionLimits) -> (Vec<Finding>, Option<Accepted>) {
        match parse_text(form, text, limits) {
            Ok(value) => self.check(&value, limits),
            Err(message) => (vec![Finding::error("", message)], None),
        }
    }

    /// The definition, or all that is wrong with it.
    ///
    /// # Errors
    /// `invalid`.
    pub fn accept(self, form: &Value, limits: &DefinitionLimits) -> Result<Accepted, CatalogFault> {
        accept(self.check(form, limits))
    }

    /// The same of a text.
    ///
    /// # Errors
    /// `invalid`.
    pub fn accept_text(self, form: Form, text: &str, limits: &DefinitionLimits) -> Result<Accepted, CatalogFault> {
        accept(self.check_text(form, text, limits))
    }
}

fn accept((findings, accepted): (Vec<Finding>, Option<Accepted>)) -> Result<Accepted, CatalogFault> {
    accepted.ok_or_else(|| CatalogFault::of_findings(findings))
}

/// Why an operation did nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogFault {
    /// `not_found`, `exists`, `invalid`, `conflict` or `step_failed`.
    pub code: &'static str,
    pub path: String,
    pub message: String,
    /// Of an invalid definition, all its errors.
    pub errors: Vec<Finding>,
}

impl CatalogFault {
    pub fn new(code: &'static str, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, path: path.into(), message: message.into(), errors: Vec::new() }
    }

    /// There is no definition of this id.
    pub fn not_found(kind: DefinitionKind, path: &str, id: &str) -> Self {
        Self::new("not_found", path, format!("there is no {} {id}", kind.noun()))
    }

    /// There is one already.
    pub fn exists(kind: DefinitionKind, path: &str, id: &str) -> Self {
        Self::new("exists", path, format!("there is a {} {id} already", kind.noun()))
    }

    /// An invalid definition: the first error tells the path.
    fn of_findings(findings: Vec<Finding>) -> Self {
        let errors: Vec<_> = findings.into_iter().filter(|finding| finding.is_error).collect();
        let first = errors.first().cloned().unwrap_or_else(|| Finding::error("", "it can't be read"));
        Self { code: "invalid", path: first.path, message: first.message, errors }
    }

    /// As the member `error` of a reply.
    pub fn to_value(&self) -> Value {
        let (path, message) = (Value::from(&*self.path), Value::from(&*self.message));
        let mut members = vec![("code", Value::from(self.code)), ("path", path), ("message", message)];
        if !self.errors.is_empty() {
            members.push(("errors", self.errors.iter().map(Finding::to_value).collect::<Vec<_>>().into()));
        }
        Value::object(members)
    }
}

impl Checked {
    /// The definition, or all that is wrong with it: the first error tells the path.
    ///
    /// # Errors
    /// `invalid`.
    pub fn accept(self) -> Result<Definition, CatalogFault> {
        self.definition.ok_or_else(|| CatalogFault::of_findings(self.findings))
    }
}

/// A stored definition with other top-level members. The id never changes.
///
/// # Errors
/// `invalid`.
pub fn update(
    kind: DefinitionKind,
    stored: &Value,
    changes: &Value,
    limits: &DefinitionLimits,
) -> Result<Accepted, CatalogFault> {
    let changes = changes
        .as_object()
        .ok_or_else(|| CatalogFault::new("invalid", "changes", "an object of members is required"))?;
    if let Some(id) = changes.get("id")
        && Some(id) != stored.member("id")
    {
        let message = format!("an update can't change the id: duplicate the {}, and delete this one", kind.noun());
        return Err(CatalogFault::new("invalid", "id", message));
    }
    let mut members = stored.as_object().cloned().unwrap_or_default();
    members.extend(changes.iter().map(|(name, value)| (Rc::clone(name), value.clone())));
    kind.accept(&members.into(), limits)
}

/// The same under another id.
///
/// # Errors
/// `invalid`, at `new_id`.
pub fn duplicate(
    kind: DefinitionKind,
    stored: &Value,
    new_id: &str,
    limits: &DefinitionLimits,
) -> Result<Accepted, CatalogFault> {
    if !is_definition_id(new_id) {
        return Err(CatalogFault::new("invalid", "new_id", format!("{new_id:?} is no id")));
    }
    let mut members = stored.as_object().cloned().unwrap_or_default();
    members.insert("id".into(), new_id.into());
    kind.accept(&members.into(), limits)
}

/// What the copies of a definition are called: `X-copy`, `X-copy-2`, and so on.
pub fn copy_name(id: &str, number: u64) -> String {
    if number == 1 { format!("{id}-copy") } else { format!("{id}-copy-{number}") }
}

/// The form that an import's `format` names; none: JSON.
///
/// # Errors
/// `invalid` for any other.
pub fn import_form(format: Option<&str>) -> Result<Form, CatalogFault> {
    match format {
        None | Some("json") => Ok(Form::Json),
        Some("yaml") => Ok(Form::Yaml),
        Some(other) => Err(CatalogFault::new("invalid", "format", format!("{other} is none of json and yaml"))),
    }
}

/// A stored definition as text, with a line for each member.
pub fn export(stored: &Value) -> String {
    serde_json::to_string_pretty(stored).unwrap_or_default()
}

/// Whether a definition is one of those that are listed.
///
/// # Errors
/// `invalid` for an unknown scope.
pub fn is_listed(definition: &Value, scope: Option<&str>, only_active: bool) -> Result<bool, CatalogFault> {
    if let Some(scope) = scope
        && Scope::from_name(scope).is_none()
    {
        let message = format!("{scope} is none of {}", Scope::names().join(", "));
        return Err(CatalogFault::new("invalid", "inputScope", message));
    }
    let status = definition.member("status").and_then(Value::as_text).unwrap_or("active");
    let scopes = definition.member("inputs_scope").and_then(Value::as_list).unwrap_or_default();
    let has_scope = scope.is_none_or(|wanted| scopes.iter().any(|scope| scope.as_text() == Some(wanted)));
    let is_active = status == "active" && definition.member("enabled").and_then(Value::as_bool) != Some(false);
    Ok(has_scope && (!only_active || is_active))
}

/// What a caller has to bring for these definitions: variables by scope, and required additional variables.
pub fn required_variables(definitions: &[Rc<Definition>]) -> (Object, Vec<Rc<str>>) {
    let mut names = IndexSet::new();
    definitions.iter().for_each(|definition| used_names(&definition.form, &mut names));
    let mut scopes = Object::new();
    for scope in Scope::ALL {
        let is_declared = definitions.iter().any(|definition| definition.scopes.contains(scope));
        let used: Vec<Value> =
            scope.variables().iter().filter(|name| names.contains(**name)).map(|name| (*name).into()).collect();
        if is_declared && !used.is_empty() {
            scopes.insert(scope.name().into(), used.into());
        }
    }
    let mut additional: Vec<Rc<str>> = Vec::new();
    for variable in definitions.iter().flat_map(|definition| &definition.variables) {
        if variable.required && !additional.contains(&variable.name) {
            additional.push(Rc::clone(&variable.name));
        }
    }
    (scopes, additional)
}

/// The first parts of the names of all placeholders in a value.
fn used_names(value: &Value, names: &mut IndexSet<String>) {
    match value {
        Value::Text(text) => {
            names.extend(template::placeholders(text).filter_map(|name| Some(name.split('.').next()?.to_owned())));
        }
        Value::List(items) => items.iter().for_each(|item| used_names(item, names)),
        Value::Object(members) => members.values().for_each(|member| used_names(member, names)),
        _ => {}
    }
}
