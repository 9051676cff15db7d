//! `keepline pipeline`: definitions of memories and rule engines, what they contribute, and the data that they read.

pub mod arguments;
mod definitions;
mod edit;
mod ingest;
mod items;
mod runs;

use std::{fs, io::Read, path::Path, process::ExitCode};

use anyhow::{Context, Result};
use keepline::{
    Pipelines,
    pipelines::{DefinitionForm, DefinitionKind, Owner},
};

use self::arguments::{Format, KindArguments, PipelineArguments, PipelineCommand, SourceArguments};
use self::{
    definitions::{
        delete_definition, duplicate_definition, export_definition, list_definitions, list_steps, list_variables,
        show_definition, store_definition, update_definition, validate_definition,
    },
    edit::edit_definition,
    ingest::ingest_files,
    items::{list_items, put_items, remove_items},
    runs::run_request,
};
use crate::{
    app::{PipelineScope, with_pipelines},
    args::GlobalArguments,
    operations::confirm::confirm_deletion,
};

/// What every command works with.
struct PipelineContext<'a> {
    pipelines: &'a Pipelines,
    owner: Owner,
    json: bool,
}

pub fn main(global: &GlobalArguments, arguments: &PipelineArguments) -> Result<ExitCode> {
    let PipelineArguments { json, owner, project, command } = arguments;
    if let PipelineCommand::Delete { id, kind, yes: false, .. } = command {
        confirm_deletion(&format!("this deletes the {} {id}", kind.kind().noun()), "its id", id)?;
    }
    let scope = PipelineScope { owner: owner.as_ref(), project: project.as_deref(), at: command.at() };
    let mut failed = false;
    let done = with_pipelines(global, command.store_access(), scope, async |pipelines, owner| {
        let context = PipelineContext { pipelines: &pipelines, owner, json: *json };
        failed = !run_command(&context, command).await?;
        Ok(())
    })?;
    Ok(if failed { ExitCode::FAILURE } else { done })
}

/// Returns whether what was asked for succeeded; why not is told already.
async fn run_command(context: &PipelineContext<'_>, command: &PipelineCommand) -> Result<bool> {
    use PipelineCommand as Is;
    match command {
        Is::List { kind, scope, active } => list_definitions(context, kind.kind(), scope.as_deref(), *active).await?,
        Is::Show { id, kind } => show_definition(context, kind.kind(), id).await?,
        Is::Export { id, kind, output } => export_definition(context, kind.kind(), id, output.as_deref()).await?,
        Is::Validate { source } => return validate_definition(context, source).await,
        Is::Create { source } => store_definition(context, source, Some(0)).await?,
        Is::Import { source, overwrite, revision } => {
            store_definition(context, source, revision.or((!overwrite).then_some(0))).await?;
        }
        Is::Update { id, changes, kind, revision } => {
            update_definition(context, kind.kind(), id, changes, *revision).await?
        }
        Is::Edit { id, kind } => edit_definition(context, kind.kind(), id).await?,
        Is::Duplicate { id, new_id, kind } => duplicate_definition(context, kind.kind(), id, new_id.as_deref()).await?,
        Is::Delete { id, kind, revision, .. } => delete_definition(context, kind.kind(), id, *revision).await?,
        Is::Steps { configurable } => list_steps(context, *configurable).await?,
        Is::Variables { ids } => list_variables(context, ids).await?,
        Is::Run { .. } | Is::Assemble { .. } | Is::Evaluate { .. } => return run_request(context, command).await,
        Is::Put { dataset, file } => put_items(context, dataset, file).await?,
        Is::Items { dataset, limit, cursor, all } => list_items(context, dataset, *limit, cursor, *all).await?,
        Is::Remove { dataset, ids } => remove_items(context, dataset, ids).await?,
        Is::Ingest { files, collection, chunk, overlap } => {
            return ingest_files(context, files, collection, *chunk, *overlap).await;
        }
    }
    Ok(true)
}

impl KindArguments {
    fn kind(self) -> DefinitionKind {
        if self.rules { DefinitionKind::Rules } else { DefinitionKind::Memory }
    }
}

/// A file's text, or that of standard input for `-`.
fn read_text(file: &Path) -> Result<String> {
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("can't read standard input")?;
    } else {
        text = fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
    }
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

impl SourceArguments {
    /// The definition's kind, form and text.
    fn read(&self) -> Result<(DefinitionKind, DefinitionForm, String)> {
        let extension = self.file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let form = match self.format {
            Some(Format::Json) => DefinitionForm::Json,
            Some(Format::Yaml) => DefinitionForm::Yaml,
            None if matches!(extension, "yaml" | "yml") => DefinitionForm::Yaml,
            None => DefinitionForm::Json,
        };
        Ok((self.kind.kind(), form, read_text(&self.file)?))
    }
}
