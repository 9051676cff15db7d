//! What is done to definitions: create, update, duplicate, import and export them, and say what they need.
//!
//! Pure functions over the stored forms; whoever calls them reads and writes the store.

use std::rc::Rc;

use indexmap::IndexSet;

use crate::{
    definition::{Checked, Definition, Form, Scope, check, check_text, is_id},
    finding::Finding,
    language::template,
    value::{Object, Value},
};

/// Why an operation did nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogFault {
    /// `not_found`, `exists` or `invalid`.
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
    pub fn not_found(path: &str, id: &str) -> Self {
        Self::new("not_found", path, format!("there is no memory {id}"))
    }

    /// There is one already.
    pub fn exists(path: &str, id: &str) -> Self {
        Self::new("exists", path, format!("there is a memory {id} already"))
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
        let errors: Vec<_> = self.findings.into_iter().filter(|finding| finding.is_error).collect();
        match (self.definition, errors.first()) {
            (Some(definition), None) => Ok(definition),
            (_, first) => {
                let (path, message) =
                    first.map(|first| (first.path.clone(), first.message.clone())).unwrap_or_default();
                Err(CatalogFault { code: "invalid", path, message, errors })
            }
        }
    }
}

/// A stored definition with other top-level members. The id never changes.
///
/// # Errors
/// `invalid`.
pub fn update(stored: &Value, changes: &Value) -> Result<Definition, CatalogFault> {
    let changes = changes
        .as_object()
        .ok_or_else(|| CatalogFault::new("invalid", "changes", "an object of members is required"))?;
    if let Some(id) = changes.get("id")
        && Some(id) != stored.member("id")
    {
        return Err(CatalogFault::new(
            "invalid",
            "id",
            "an update can't change the id: duplicate the memory, and delete this one",
        ));
    }
    let mut members = stored.as_object().cloned().unwrap_or_default();
    members.extend(changes.iter().map(|(name, value)| (Rc::clone(name), value.clone())));
    check(&members.into()).accept()
}

/// The same under another id: the one that is given, else the first that is free of `X-copy`, `X-copy-2`, and so on.
///
/// # Errors
/// `invalid` or `exists`, at `new_id`.
pub fn duplicate(
    stored: &Value,
    new_id: Option<&str>,
    is_taken: impl Fn(&str) -> bool,
) -> Result<Definition, CatalogFault> {
    let id = stored.member("id").and_then(Value::as_text).unwrap_or_default();
    let new_id = match new_id {
        Some(id) if !is_id(id) => return Err(CatalogFault::new("invalid", "new_id", format!("{id:?} is no id"))),
        Some(id) if is_taken(id) => return Err(CatalogFault::exists("new_id", id)),
        Some(id) => id.to_owned(),
        None => {
            let numbered = (2_u64..).map(|number| format!("{id}-copy-{number}"));
            let mut names = std::iter::once(format!("{id}-copy")).chain(numbered);
            names.find(|id| !is_taken(id)).unwrap_or_default()
        }
    };
    if !is_id(&new_id) {
        return Err(CatalogFault::new("invalid", "new_id", format!("{new_id} is longer than an id may be")));
    }
    let mut members = stored.as_object().cloned().unwrap_or_default();
    members.insert("id".into(), new_id.into());
    check(&members.into()).accept()
}

/// A definition that is imported as text.
///
/// # Errors
/// `invalid` for what is none, or for another format; `exists` where one of that id is not to be replaced.
pub fn import(
    text: &str,
    format: Option<&str>,
    overwrite: bool,
    is_taken: impl Fn(&str) -> bool,
) -> Result<Definition, CatalogFault> {
    let form = match format {
        None | Some("json") => Form::Json,
        Some("yaml") => Form::Yaml,
        Some(other) => return Err(CatalogFault::new("invalid", "format", format!("{other} is none of json and yaml"))),
    };
    let definition = check_text(form, text).accept()?;
    if is_taken(&definition.id) && !overwrite {
        return Err(CatalogFault::exists("id", &definition.id));
    }
    Ok(definition)
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
        && Scope::parse(scope).is_none()
    {
        let message = format!("{scope} is none of {}", Scope::names().join(", "));
        return Err(CatalogFault::new("invalid", "inputScope", message));
    }
    let status = definition.member("status").and_then(Value::as_text).unwrap_or("active");
    let scopes = definition.member("inputs_scope").and_then(Value::as_list).unwrap_or_default();
    let has_scope = scope.is_none_or(|wanted| scopes.iter().any(|scope| scope.as_text() == Some(wanted)));
    Ok(has_scope && (!only_active || status == "active"))
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
