//! Converts what the library and the contract say of the same thing.

use keepline_store_client::{Problem, codes};

use crate::{
    catalog::{CatalogFault, DefinitionKind},
    component::bindings::exports::keepline::pipelines::definitions::{self, Refusal},
    datasets::{Owner, OwnerKind},
    finding::Finding,
    requests::error::RequestError,
    requests::stored::StoredDefinition,
};

impl TryFrom<definitions::Owner> for Owner {
    type Error = Box<Problem>;

    fn try_from(owner: definitions::Owner) -> Result<Self, Box<Problem>> {
        let kind =
            OwnerKind::from_name(&owner.kind).ok_or_else(|| unknown("owner.kind", &owner.kind, &OwnerKind::names()))?;
        Ok(Self { kind, name: owner.name.into() })
    }
}

/// The kind of a definition.
pub(super) fn definition_kind(name: &str) -> Result<DefinitionKind, Box<Problem>> {
    DefinitionKind::from_name(name).ok_or_else(|| unknown("kind", name, &DefinitionKind::names()))
}

/// A name that is none of those that are registered.
pub(super) fn unknown(subject: &str, name: &str, known: &[&str]) -> Box<Problem> {
    Problem::invalid(subject, format!("{name} is none of {}", known.join(", ")))
}

impl From<Finding> for definitions::Finding {
    fn from(Finding { path, is_error, message }: Finding) -> Self {
        Self { path, is_error, message }
    }
}

impl From<StoredDefinition> for definitions::Definition {
    fn from(stored: StoredDefinition) -> Self {
        Self { id: stored.id.to_string(), revision: stored.revision, text: stored.form.to_json() }
    }
}

impl From<Box<Problem>> for Refusal {
    fn from(problem: Box<Problem>) -> Self {
        Self { problem: *problem, findings: Vec::new() }
    }
}

impl From<CatalogFault> for Refusal {
    fn from(fault: CatalogFault) -> Self {
        let code = match fault.code {
            "not_found" => codes::NOT_FOUND,
            "exists" => codes::ALREADY_EXISTS,
            "invalid" => codes::INVALID,
            "conflict" => codes::CONFLICT,
            _ => codes::LIMIT,
        };
        let problem = Problem::new(code, &fault.path, fault.message);
        Self { problem: *problem, findings: fault.errors.into_iter().map(Into::into).collect() }
    }
}

impl From<RequestError> for Refusal {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Fault(fault) => fault.into(),
            RequestError::Store(problem) => problem.into(),
        }
    }
}
