//! Inside a crate, a source imports only from its own room and from the rooms below it.

use std::{
    fs,
    path::{Path, PathBuf},
};

struct Package {
    name: &'static str,
    /// The lowest first. A room is a file, or a folder with what is in it; of two that fit, the longer one counts. Where a
    /// folder has rooms of its own, the last of them is the folder itself: what it puts together and re-exports.
    rooms: &'static [&'static str],
    /// A room each of whose modules is a room of its own: they import nothing from one another.
    apart: Option<&'static str>,
    /// Another crate, under the name that the root gives it.
    foreign: Option<&'static str>,
    /// Whether the highest room may use what the root re-exports for other crates.
    has_public_top: bool,
    /// Whether the rule holds for unit tests, too.
    binds_tests: bool,
    /// Fewer sources mean that not all were found.
    fewest: usize,
}

const FILTER: Package = Package {
    name: "guest",
    rooms: &[
        "contract",
        "log",
        "text",
        "store",
        "options",
        "context",
        "entry",
        "transcript",
        "values",
        "users",
        "window",
        "recall",
        "tasks",
        "question",
        "answer",
        "admin",
        "filter",
        "component",
    ],
    apart: None,
    foreign: None,
    has_public_top: true,
    binds_tests: true,
    fewest: 80,
};

const SERVICE: Package = Package {
    name: "service",
    rooms: &[
        "time", "jsonl", "append", "preview", "access", "metrics", "tenants", "events", "http", "routes", "server",
    ],
    apart: None,
    foreign: None,
    has_public_top: false,
    binds_tests: true,
    fewest: 40,
};

const SESSION_FILE: Package = Package {
    name: "session-file",
    rooms: &[
        "problem",
        "schema",
        "lines",
        "source",
        "writer",
        "export",
        "private_folder",
        "staging",
        "deliver",
        "import",
        "incoming",
    ],
    apart: None,
    foreign: None,
    has_public_top: false,
    binds_tests: false,
    fewest: 8,
};

const LIBRARY: Package = Package {
    name: "host",
    rooms: &[
        "contract",
        "logging",
        "events",
        "sandbox",
        "runtime::limits",
        "runtime::scope",
        "runtime::instance_state",
        "runtime::imports",
        "runtime::exports",
        "runtime::program",
        "runtime::fault",
        "runtime::reply_bounds",
        "runtime::instance",
        "runtime::plugin_info",
        "runtime::pool",
        "runtime",
        "plugin::error",
        "plugin::digest",
        "plugin::meter",
        "plugin::file",
        "plugin::walk",
        "plugin::engine",
        "plugin::cache",
        "plugin::oci",
        "plugin::compiler_process",
        "plugin::compile",
        "plugin",
        "entry",
        "embedding",
        "keepline::options",
        "keepline::inner",
        "pipe",
        "sessions",
        "keepline",
        "pipelines",
        "maintenance",
        "memories",
        "config",
    ],
    apart: None,
    foreign: Some("store"),
    has_public_top: false,
    binds_tests: false,
    fewest: 80,
};

const COMMAND_LINE: Package = Package {
    name: "harness",
    rooms: &[
        "terminal",
        "args",
        "app",
        "deferred",
        "jsonl",
        "operations",
        "session_file",
        "maintenance",
        "commands",
        "main",
    ],
    apart: Some("commands"),
    foreign: None,
    has_public_top: false,
    binds_tests: false,
    fewest: 50,
};

const PIPELINES: Package = Package {
    name: "pipelines",
    rooms: &[
        "value",
        "finding",
        "language",
        "definition",
        "rules",
        "catalog",
        "steps",
        "run",
        "assembly",
        "requests::error",
        "datasets",
        "requests::stored",
        "requests::operations",
        "requests",
        "config",
        "component",
    ],
    apart: None,
    foreign: None,
    has_public_top: false,
    binds_tests: true,
    fewest: 30,
};

#[test]
fn the_pipelines_import_only_from_rooms_below() {
    assert_rooms_hold(&PIPELINES);
}

#[test]
fn the_filter_imports_only_from_rooms_below() {
    assert_rooms_hold(&FILTER);
}

#[test]
fn the_library_imports_only_from_rooms_below() {
    assert_rooms_hold(&LIBRARY);
}

#[test]
fn the_service_imports_only_from_rooms_below() {
    assert_rooms_hold(&SERVICE);
}

#[test]
fn session_files_import_only_from_rooms_below() {
    assert_rooms_hold(&SESSION_FILE);
}

#[test]
fn the_command_line_imports_only_from_rooms_below_and_not_between_commands() {
    assert_rooms_hold(&COMMAND_LINE);
}

#[test]
fn no_folder_of_these_packages_has_more_than_sixteen_entries() {
    for folder in
        [LIBRARY, PIPELINES, SESSION_FILE, SERVICE, COMMAND_LINE].iter().flat_map(|package| folders(&package.root()))
    {
        let count = fs::read_dir(&folder).unwrap().count();
        assert!(count <= 16, "{} has {count} entries", folder.display());
    }
}

#[test]
fn imports_are_read_from_nested_uses_and_from_paths_in_code() {
    let imports_of =
        |module: &str, code: &str| imports(&Source { module: module.to_owned(), code: without_comments(code) });
    let code = "use std::fmt;\nuse crate::{a::{B, c::{self, D}}, e::*};\npub use self::f::G as H;\n\
                fn h() { super::i::j(); crate::k::L::m() } // crate::n";
    let found = imports_of("x::y", code);
    assert_eq!(found, ["a::B", "a::c", "a::c::D", "e::*", "x::y::f::G", "k::L::m", "x::i::j"]);
    let code = "use crate::{app::{self, error::Usage}, terminal};\nfn f() { crate::args::x() }";
    assert_eq!(imports_of("commands::stats", code), ["app", "app::error::Usage", "terminal", "args::x"]);
    let code = "use super::{user, super::app};";
    assert_eq!(imports_of("commands::stats", code), ["commands::user", "app"]);
}

#[test]
fn a_command_may_not_import_another_nor_a_room_one_above_it() {
    for (module, path, allowed) in [
        ("commands::stats", "commands::user::forget", false),
        ("commands::run::feed", "commands::run::budget", true),
        ("commands::run::feed", "operations::pages", true),
        ("app::open", "operations::pages", false),
        ("app::open", "app::config", true),
        ("terminal", "app", false),
        ("main", "commands::run", true),
    ] {
        assert_eq!(COMMAND_LINE.allows(module, path, path), allowed, "{module} {path}");
    }
}

fn assert_rooms_hold(package: &Package) {
    let sources = package.sources();
    assert!(sources.len() > package.fewest, "only {} sources were found", sources.len());
    let mut wrong = Vec::new();
    for source in sources.iter().filter(|source| !source.module.is_empty()) {
        if package.room_of(&source.module).is_none() {
            wrong.push(format!("{} is in no room", source.module));
        }
        for path in imports(source).iter().filter(|path| path.split("::").next() != package.foreign) {
            if !package.allows(&source.module, path, module_of(path, &sources)) {
                wrong.push(format!("{} imports {path}", source.module));
            }
        }
    }
    assert!(wrong.is_empty(), "not from its own room or one below it:\n{}", wrong.join("\n"));
}

impl Package {
    fn root(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(self.name).join("src")
    }

    fn room_of(&self, module: &str) -> Option<usize> {
        let fits = |room: &&&str| module == **room || module.starts_with(&format!("{room}::"));
        let longest = self.rooms.iter().filter(fits).max_by_key(|room| room.len())?;
        self.rooms.iter().position(|room| room == longest)
    }

    /// Whether a module may import a path, which leads into the module `imported`: an empty one is the root, and has only
    /// public names.
    fn allows(&self, module: &str, path: &str, imported: &str) -> bool {
        let own = self.room_of(module);
        let part = |path: &str, at: usize| path.split("::").nth(at).map(str::to_owned);
        let is_apart = |path: &str| part(path, 0).as_deref() == self.apart;
        if is_apart(module) && is_apart(path) && part(module, 1).is_some() && part(module, 1) != part(path, 1) {
            return false;
        }
        match self.room_of(imported) {
            Some(room) => own.is_some_and(|own| room <= own),
            None => self.has_public_top && own == Some(self.rooms.len() - 1),
        }
    }

    /// All sources; unit tests as modules of their own, if the rule holds for them.
    fn sources(&self) -> Vec<Source> {
        let root = self.root();
        let mut sources = Vec::new();
        for path in folders(&root).iter().flat_map(fs::read_dir).flatten().map(|entry| entry.unwrap().path()) {
            let relative = path.strip_prefix(&root).unwrap().with_extension("");
            let mut parts: Vec<&str> = relative.iter().map(|part| part.to_str().unwrap()).collect();
            let is_source = path.extension().is_some_and(|extension| extension == "rs");
            if !is_source || (parts.contains(&"tests") && !self.binds_tests) {
                continue;
            }
            if matches!(parts.last(), Some(&"mod" | &"lib")) {
                parts.pop();
            }
            let module = parts.join("::");
            let text = without_comments(&fs::read_to_string(&path).unwrap());
            let (code, tests) = text.split_once("#[cfg(test)]\nmod tests").unwrap_or((&text, ""));
            if self.binds_tests && !module.is_empty() {
                sources.push(Source { module: format!("{module}::tests"), code: tests.to_owned() });
            }
            sources.push(Source { module, code: code.to_owned() });
        }
        sources
    }
}

/// A source without comments.
struct Source {
    /// Such as `runtime::pool`; empty for `lib.rs`.
    module: String,
    code: String,
}

/// A folder and all those in it.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let inner = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut all: Vec<_> = inner.flat_map(|inner| folders(&inner)).collect();
    all.push(folder.to_owned());
    all
}

fn without_comments(code: &str) -> String {
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The module that a path from the crate's root leads into: the longest part of it that is one.
fn module_of<'a>(path: &'a str, sources: &[Source]) -> &'a str {
    let mut module = path;
    while !sources.iter().any(|source| source.module == module) {
        module = module.rsplit_once("::").map_or("", |(outer, _)| outer);
    }
    module
}

/// The paths that a source names, from the crate's root on.
fn imports(source: &Source) -> Vec<String> {
    let (mut paths, mut rest) = (Vec::new(), source.code.as_str());
    let mut code = String::new();
    while let Some((before, after)) = rest.split_once("use ") {
        let is_statement = before.is_empty() || before.ends_with(['\n', ' ', ')']);
        let Some((tree, after)) = after.split_once(';').filter(|_| is_statement) else {
            code.push_str(before);
            rest = after;
            continue;
        };
        code.push_str(before);
        flatten("", tree, &mut paths);
        rest = after;
    }
    code.push_str(rest);
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let before = code.get(..at).unwrap_or_default();
            let is_begin = !before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, ':' | '$' | '_'));
            let path = code.get(at..).unwrap_or_default();
            let end = path.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(path.len());
            if is_begin && !before.ends_with("(in ") {
                paths.push(path.get(..end).unwrap_or_default().trim_end_matches(':').to_owned());
            }
        }
    }
    let outer = source.module.split("::").collect::<Vec<_>>();
    let from_root = |path: String| {
        let parts: Vec<&str> = path.split("::").collect();
        let ups = parts.iter().take_while(|part| **part == "super").count();
        let base = match parts.first() {
            Some(&"crate") => Vec::new(),
            Some(&"self") => outer.clone(),
            Some(&"super") => outer.iter().take(outer.len().saturating_sub(ups)).copied().collect(),
            _ => return None,
        };
        let parts = base.into_iter().chain(parts.into_iter().skip(ups.max(1)));
        let path = parts.collect::<Vec<_>>().join("::");
        Some(path.trim_end_matches("::self").to_owned())
    };
    paths.into_iter().filter_map(from_root).collect()
}

/// The paths of a `use` tree.
fn flatten(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, inner)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        if !path.is_empty() {
            paths.push(format!("{prefix}{path}"));
        }
        return;
    };
    let inner = inner.trim_end().strip_suffix('}').unwrap_or(inner);
    let prefix = format!("{prefix}{head}");
    let (mut depth, mut start) = (0_i32, 0);
    for (at, c) in inner.char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            flatten(&prefix, inner.get(start..at).unwrap_or_default(), paths);
            start = at + 1;
        }
    }
    flatten(&prefix, inner.get(start..).unwrap_or_default(), paths);
}
