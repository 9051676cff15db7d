//! Reads what is asked of an assembly.

use std::rc::Rc;

use crate::{
    definition::Scope,
    value::{Object, Value},
};

/// What is asked of an assembly, before rules have said which memories take part.
#[derive(Debug, Default)]
pub struct AssemblyRequest {
    /// `scope.S.V` by S and V.
    pub scopes: Object,
    pub additional_variables: Object,
    /// The text of the input; empty if there is none.
    pub input: Rc<str>,
    pub explicit_memories: Vec<Rc<str>>,
    /// None: all enabled engines.
    pub rule_engines: Option<Vec<Rc<str>>>,
    pub max_tokens: Option<usize>,
}

/// What is wrong with a request, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct RequestFault {
    pub path: String,
    pub message: String,
}

impl AssemblyRequest {
    /// Read a request as JSON has it.
    ///
    /// # Errors
    /// At the first member that is none.
    pub fn parse(request: &Value) -> Result<Self, RequestFault> {
        let fault = |path: &str, message: &str| RequestFault { path: path.into(), message: message.into() };
        let object = |name: &str| match request.member(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(members)) => Ok(Some((**members).clone())),
            Some(value) => Err(fault(name, &format!("{} where an object is required", value.kind()))),
        };
        let scopes = object("scope_variables")?;
        let scopes =
            scopes.ok_or_else(|| fault("scope_variables", "an object of scopes is required; it may be empty"))?;
        for (name, variables) in &scopes {
            let path = format!("scope_variables.{name}");
            if Scope::from_name(name).is_none() {
                return Err(fault(&path, &format!("no such scope; there are {}", Scope::names().join(", "))));
            }
            if variables.as_object().is_none() {
                return Err(fault(&path, &format!("{} where an object of variables is required", variables.kind())));
            }
        }
        let max_tokens = match object("constraints")?.as_ref().and_then(|constraints| constraints.get("max_tokens")) {
            None | Some(Value::Null) => None,
            Some(value) => {
                let whole =
                    value.as_whole().filter(|tokens| *tokens >= 1).and_then(|tokens| usize::try_from(tokens).ok());
                let message = format!("{} where a whole number from 1 is required", value.to_json());
                Some(whole.ok_or_else(|| fault("constraints.max_tokens", &message))?)
            }
        };
        let input = match object("input")?.as_ref().and_then(|input| input.get("text")) {
            None | Some(Value::Null) => Rc::default(),
            Some(Value::Text(text)) => Rc::clone(text),
            Some(value) => return Err(fault("input.text", &format!("{} where a text is required", value.kind()))),
        };
        Ok(Self {
            scopes,
            additional_variables: object("additional_variables")?.unwrap_or_default(),
            input,
            explicit_memories: ids(request, "explicit_memory")?.unwrap_or_default(),
            rule_engines: ids(request, "rule_engine_ids")?,
            max_tokens,
        })
    }

    /// Variables by name: those of scopes, and the additional ones that don't have a scope variable's name.
    pub fn variables(&self) -> Object {
        let mut variables = self.additional_variables.clone();
        for (name, members) in &self.scopes {
            let of_scope = Scope::from_name(name).map(Scope::variables).unwrap_or_default();
            let members = members.as_object().into_iter().flatten().filter(|(name, _)| of_scope.contains(&&***name));
            variables.extend(members.map(|(name, value)| (Rc::clone(name), value.clone())));
        }
        variables
    }

    /// The intent of every memory: the query is the additional variable `query`, else the input's text.
    pub fn intent(&self) -> Object {
        let query = self.additional_variables.get("query").filter(|query| !query.is_null()).cloned();
        let query = query.unwrap_or_else(|| Value::Text(Rc::clone(&self.input)));
        Object::from_iter([("query".into(), query)])
    }
}

/// A list of ids, each once.
fn ids(request: &Value, name: &str) -> Result<Option<Vec<Rc<str>>>, RequestFault> {
    let list = match request.member(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::List(list)) => list,
        Some(value) => {
            let message = format!("{} where a list of ids is required", value.kind());
            return Err(RequestFault { path: name.into(), message });
        }
    };
    let mut ids = Vec::new();
    for (position, value) in list.iter().enumerate() {
        let Value::Text(id) = value else {
            let message = format!("{} where an id is required", value.kind());
            return Err(RequestFault { path: format!("{name}[{position}]"), message });
        };
        if !ids.contains(id) {
            ids.push(Rc::clone(id));
        }
    }
    Ok(Some(ids))
}
