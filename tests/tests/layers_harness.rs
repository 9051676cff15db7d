//! Inside `harness/src`, a module imports only from layers below its own, and no command imports another.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// From the bottom to the top. A folder and all that is in it are one room.
const LAYERS: [&str; 10] =
    ["terminal", "args", "app", "deferred", "jsonl", "operations", "session_file", "maintenance", "commands", "main"];
/// Each of its modules is a room of its own.
const COMMANDS: &str = "commands";

#[test]
fn each_source_of_the_harness_imports_from_lower_layers_only() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../harness/src");
    let mut violations = Vec::new();
    let sources = sources(&root);
    assert!(sources.len() > 50, "only {} sources", sources.len());
    for file in sources {
        let module = module_of(file.strip_prefix(&root).unwrap());
        for import in imports(&fs::read_to_string(&file).unwrap(), &module, file.ends_with("mod.rs")) {
            if !is_allowed(&module, &import) {
                violations.push(format!("{} imports {}", module.join("::"), import.join("::")));
            }
        }
    }
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

#[test]
fn a_command_may_not_import_another_nor_a_room_what_is_above_it() {
    let module = |path: &str| path.split("::").map(str::to_owned).collect::<Vec<_>>();
    let imports_of = |text: &str, of: &str| imports(text, &module(of), false);
    assert_eq!(
        imports_of("use crate::{app::{self, error::Usage}, terminal};\nfn f() { crate::args::x() }", "commands::stats"),
        [module("app"), module("app::error::Usage"), module("args::x"), module("terminal")].into()
    );
    assert_eq!(
        imports_of("use super::{user, super::app};", "commands::stats"),
        [module("app"), module("commands::user")].into()
    );
    for (of, import, allowed) in [
        ("commands::stats", "commands::user::forget", false),
        ("commands::run::feed", "commands::run::budget", true),
        ("commands::run::feed", "operations::pages", true),
        ("app::open", "operations::pages", false),
        ("app::open", "app::config", true),
        ("terminal", "app", false),
        ("main", "commands::run", true),
    ] {
        assert_eq!(is_allowed(&module(of), &module(import)), allowed, "{of} {import}");
    }
}

fn is_allowed(module: &[String], import: &[String]) -> bool {
    let layer = |path: &[String]| path.first().and_then(|room| LAYERS.iter().position(|layer| layer == room));
    let (Some(own), Some(other)) = (layer(module), layer(import)) else { return false };
    match own == other {
        true if module.first().is_some_and(|room| room == COMMANDS) => {
            module.len() == 1 || module.get(1) == import.get(1)
        }
        true => true,
        false => other < own,
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(sources(&entry));
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
    found.sort();
    found
}

fn module_of(file: &Path) -> Vec<String> {
    let mut path: Vec<String> = file.with_extension("").iter().map(|part| part.to_str().unwrap().to_owned()).collect();
    if path.last().is_some_and(|last| last == "mod") {
        path.pop();
    }
    path
}

/// Absolute paths of all that a source names by `crate::` or `super::`, without comments.
fn imports(text: &str, module: &[String], is_folder: bool) -> BTreeSet<Vec<String>> {
    let code: String =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let code = code.split("#[cfg(test)]").next().unwrap_or_default();
    let parent = module.len().saturating_sub(1);
    let parent = if is_folder { module } else { &module[..parent] };
    let mut found = BTreeSet::new();
    for (start, base) in [("crate::", &[][..]), ("super::", parent)] {
        for (at, _) in code.match_indices(start) {
            // `super::super::`, and `super::` within the braces of a `use`, are met by their first word.
            let statement = code[..at].rsplit(';').next().unwrap_or_default().trim_start();
            let is_in_braces = statement.contains("use ") && statement.trim_end().ends_with(['{', ',']);
            let is_first = !statement.ends_with("super::") && !is_in_braces;
            if is_first {
                let base = if start == "super::" && is_folder { &module[..module.len() - 1] } else { base };
                expand(&code[at + start.len()..], base.to_vec(), &mut found);
            }
        }
    }
    found
}

/// Follows a path, and each of those in its braces.
fn expand(path: &str, mut base: Vec<String>, found: &mut BTreeSet<Vec<String>>) {
    let path = path.trim_start();
    if let Some(list) = path.strip_prefix('{') {
        let (mut depth, mut from) = (0, 0);
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                ',' | '}' if depth == 0 => {
                    if !list[from..at].trim().is_empty() {
                        expand(&list[from..at], base.clone(), found);
                    }
                    from = at + 1;
                    if c == '}' {
                        return;
                    }
                }
                '}' => depth -= 1,
                _ => {}
            }
        }
        return;
    }
    let end = path.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(path.len());
    match &path[..end] {
        "super" => _ = base.pop(),
        "self" | "" => {}
        name => base.push(name.to_owned()),
    }
    match path[end..].strip_prefix("::") {
        Some(rest) => expand(rest, base, found),
        None => _ = found.insert(base),
    }
}
