//! `keepline pipeline edit`: a definition in an editor, checked before it is stored.

use std::{
    fs,
    io::{self, IsTerminal, Write as _},
    path::Path,
    process::Command,
};

use anyhow::{Context, Result};
use keepline::pipelines::{DefinitionForm, DefinitionKind, indented_json};

use super::{
    PipelineContext,
    definitions::{print_findings, report_stored},
};
use crate::{
    app::error::{coded_error, usage_error},
    terminal,
};

/// Edits a definition until it is valid, or left as it was. Nobody else's change meanwhile is overwritten.
pub(super) async fn edit_definition(context: &PipelineContext<'_>, kind: DefinitionKind, id: &str) -> Result<()> {
    let before = context.pipelines.get(&context.owner, kind, id).await?;
    let original = indented_json(&before.text)? + "\n";
    let mut file = tempfile::Builder::new().prefix("keepline-").suffix(".json").tempfile()?;
    file.write_all(original.as_bytes())?;
    loop {
        open_editor(file.path())?;
        let text = fs::read_to_string(file.path()).context("can't read what was edited")?;
        if text == original {
            return Err(coded_error("unchanged", "nothing was changed, and nothing was stored"));
        }
        let checked = context.pipelines.check(kind, DefinitionForm::Json, &text).await?;
        print_findings(&checked.findings);
        match checked.definition {
            Some(definition) if definition.id == id => {
                let revision = Some(before.revision);
                let stored = context.pipelines.put(&context.owner, kind, DefinitionForm::Json, &text, revision).await;
                let stored = stored.inspect_err(|_| keep_text(&text))?;
                return report_stored(context, kind, &stored, "stored");
            }
            Some(_) => terminal::print_error("an edit can't change the id: use duplicate, and delete this one"),
            None => {}
        }
        if !edits_again()? {
            keep_text(&text);
            return Err(coded_error("invalid", "the definition is not valid, and was not stored"));
        }
    }
}

/// Runs `$VISUAL`, `$EDITOR` or vi on a file.
fn open_editor(file: &Path) -> Result<()> {
    let of = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = of("VISUAL").or_else(|| of("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    // It may have arguments of its own, as in `code --wait`.
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let status = Command::new(program).args(words).arg(file).status();
    let status = status.with_context(|| format!("can't start the editor {program}: set EDITOR to another"))?;
    if status.success() { Ok(()) } else { Err(coded_error("failed", format!("the editor ended with {status}"))) }
}

/// Whether a person goes on editing; a script does not.
fn edits_again() -> Result<bool> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    terminal::print_to_stderr("Edit again? [Y/n]");
    let mut answer = String::new();
    if io::stdin().read_line(&mut answer)? == 0 {
        return Err(usage_error("nothing was stored"));
    }
    Ok(!answer.trim().eq_ignore_ascii_case("n"))
}

/// Keeps what was typed, so that it can be stored later.
fn keep_text(text: &str) {
    let kept = tempfile::Builder::new().prefix("keepline-").suffix(".json").tempfile();
    let kept = kept.and_then(|mut file| file.write_all(text.as_bytes()).map(|()| file));
    if let Some(path) = kept.ok().and_then(|file| file.into_temp_path().keep().ok()) {
        terminal::print_note(&format!("what was edited is in {}", path.display()));
    }
}
