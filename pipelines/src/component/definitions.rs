//! Exports what is done to definitions.

use keepline_store_client::{Problem, component::imports::Imports};

use super::{
    configuration::{CONFIG, Component},
    convert::{definition_kind, unknown},
};
use crate::{
    catalog::{CatalogFault, DefinitionKind},
    component::bindings::exports::keepline::pipelines::definitions::{
        Checked, Definition, DefinitionPage, DefinitionQuery, DefinitionRemoved, Guest, Owner, Refusal,
        RequiredVariables, ScopeVariables, StepDescriptions,
    },
    datasets,
    definition::{Form, describe_steps},
    requests::error::RequestError,
    requests::operations::Definitions,
    value::Value,
};

type Reply<T> = Result<T, Refusal>;

/// Ids that one call looks up.
const IDS: usize = 1_000;

/// An operation on an owner's definitions of a kind.
fn on_definitions<T>(
    owner: Owner,
    kind: &str,
    operate: impl FnOnce(&Definitions<'_, Imports>) -> Result<T, RequestError>,
) -> Reply<T> {
    let (owner, kind) = (datasets::Owner::try_from(owner)?, definition_kind(kind)?);
    let limits = &CONFIG.get().definitions;
    Ok(operate(&Definitions { host: &Imports, owner: &owner, kind, limits })?)
}

fn form(name: &str) -> Result<Form, Box<Problem>> {
    match name {
        "json" => Ok(Form::Json),
        "yaml" => Ok(Form::Yaml),
        other => Err(unknown("form", other, &["json", "yaml"])),
    }
}

impl Guest for Component {
    fn check(kind: String, form_name: String, text: String) -> Result<Checked, Problem> {
        let (findings, accepted) =
            definition_kind(&kind)?.check_text(form(&form_name)?, &text, &CONFIG.get().definitions);
        let definition = |accepted: crate::catalog::Accepted| Definition {
            id: accepted.id.to_string(),
            revision: 0,
            text: accepted.form.to_json(),
        };
        Ok(Checked { findings: findings.into_iter().map(Into::into).collect(), definition: accepted.map(definition) })
    }

    fn put(owner: Owner, kind: String, form_name: String, text: String, revision: Option<u64>) -> Reply<Definition> {
        let form = form(&form_name)?;
        on_definitions(owner, &kind, |definitions| {
            let accepted = definitions.kind.accept_text(form, &text, definitions.limits)?;
            Ok(definitions.put(&accepted, revision)?.into())
        })
    }

    fn update(owner: Owner, kind: String, id: String, changes: String, revision: Option<u64>) -> Reply<Definition> {
        let changes = Value::parse_input(&changes).map_err(|error| Problem::invalid("changes", error))?;
        on_definitions(owner, &kind, |definitions| Ok(definitions.update(&id, &changes, revision)?.into()))
    }

    fn duplicate(owner: Owner, kind: String, id: String, new_id: Option<String>) -> Reply<Definition> {
        on_definitions(owner, &kind, |definitions| Ok(definitions.duplicate(&id, new_id.as_deref())?.into()))
    }

    fn find(owner: Owner, kind: String, query: DefinitionQuery) -> Reply<DefinitionPage> {
        if query.ids.len() > IDS {
            return Err(
                Problem::invalid("ids", format!("{} ids where at most {IDS} are allowed", query.ids.len())).into()
            );
        }
        on_definitions(owner, &kind, |definitions| {
            let (scope, only_active) = (query.scope.as_deref(), query.only_active);
            let (found, cursor) = if query.ids.is_empty() {
                let page = definitions.list(scope, only_active, &query.cursor)?;
                (page.definitions, page.cursor)
            } else {
                let ids: Vec<&str> = query.ids.iter().map(String::as_str).collect();
                (definitions.get_each(&ids)?, String::new())
            };
            Ok(DefinitionPage { definitions: found.into_iter().map(Into::into).collect(), cursor })
        })
    }

    fn remove(owner: Owner, kind: String, id: String, revision: Option<u64>) -> Reply<DefinitionRemoved> {
        on_definitions(owner, &kind, |definitions| {
            Ok(DefinitionRemoved { revision: definitions.remove(&id, revision)? })
        })
    }

    fn list_required_variables(owner: Owner, ids: Vec<String>) -> Reply<RequiredVariables> {
        on_definitions(owner, DefinitionKind::Memory.name(), |definitions| {
            if ids.len() > IDS {
                let message = format!("{} ids where at most {IDS} are allowed", ids.len());
                return Err(CatalogFault::new("invalid", "ids", message).into());
            }
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let (scopes, additional) = definitions.required_variables(&ids)?;
            let text = |value: &Value| value.as_text().unwrap_or_default().to_owned();
            let scopes = scopes.iter().map(|(scope, variables)| ScopeVariables {
                scope: scope.to_string(),
                variables: variables.as_list().unwrap_or_default().iter().map(text).collect(),
            });
            Ok(RequiredVariables {
                scopes: scopes.collect(),
                additional: additional.iter().map(ToString::to_string).collect(),
            })
        })
    }

    fn describe_steps(only_configurable: bool) -> StepDescriptions {
        StepDescriptions { text: describe_steps(only_configurable).to_json() }
    }
}
