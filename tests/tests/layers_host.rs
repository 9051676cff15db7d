//! Inside the library, a source imports only from its own room and from the rooms below it.

use std::{fs, path::Path};

/// The rooms of `host/src`, the lowest first. A room is a file, or a folder with what is in it; of two that fit, the
/// longer one counts. The last line of a folder's rooms is the folder itself: what it puts together and re-exports.
const ROOMS: &[&str] = &[
    "contract",
    "logging",
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
    "plugin::meter",
    "plugin::file",
    "plugin::walk",
    "plugin::engine",
    "plugin::cache",
    "plugin::compiler_process",
    "plugin::compile",
    "plugin",
    "entry",
    "embedding",
    "options",
    "inner",
    "pipe",
    "sessions",
    "keepline",
    "maintenance",
    "memories",
    "config",
];

/// A source without its tests.
struct Source {
    /// Such as `runtime::pool`; empty for `lib.rs`.
    module: String,
    code: String,
}

#[test]
fn every_source_of_the_library_imports_only_from_rooms_below_its_own() {
    let sources = sources();
    assert!(sources.len() > 80, "only {} sources were found", sources.len());
    let mut wrong = Vec::new();
    for source in sources.iter().filter(|source| !source.module.is_empty()) {
        let Some(own) = room_of(&source.module) else {
            wrong.push(format!("{} is in no room", source.module));
            continue;
        };
        for path in imports(source) {
            let module = module_of(&path, &sources);
            match room_of(&module) {
                _ if module.is_empty() => {
                    wrong.push(format!("{} imports {path} by its public name", source.module));
                }
                Some(room) if room <= own => {}
                _ => wrong.push(format!("{} imports {path}, which is above it", source.module)),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_folder_of_the_library_has_more_than_sixteen_entries() {
    for folder in folders(&root()) {
        let count = fs::read_dir(&folder).unwrap().count();
        assert!(count <= 16, "{} has {count} entries", folder.display());
    }
}

#[test]
fn imports_are_read_from_nested_uses_and_from_paths_in_code() {
    let code = "use std::fmt;\nuse crate::{a::{B, c::{self, D}}, e::*};\npub use self::f::G as H;\n\
                fn h() { super::i::j(); crate::k::L::m() } // crate::n";
    let source = Source { module: "x::y".to_owned(), code: without_comments(code) };
    let found = imports(&source);
    assert_eq!(found, ["a::B", "a::c", "a::c::D", "e::*", "x::y::f::G", "k::L::m", "x::i::j"]);
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/src")
}

fn folders(folder: &Path) -> Vec<std::path::PathBuf> {
    let inner = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut all: Vec<_> = inner.flat_map(|inner| folders(&inner)).collect();
    all.push(folder.to_owned());
    all
}

/// All sources but those of tests.
fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    for folder in folders(&root()) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let relative = path.strip_prefix(root()).unwrap().with_extension("");
            let mut parts: Vec<&str> = relative.iter().map(|part| part.to_str().unwrap()).collect();
            if path.is_dir() || parts.contains(&"tests") {
                continue;
            }
            if matches!(parts.last(), Some(&"mod" | &"lib")) {
                parts.pop();
            }
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            sources.push(Source { module: parts.join("::"), code: without_comments(code) });
        }
    }
    sources
}

fn without_comments(code: &str) -> String {
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn room_of(module: &str) -> Option<usize> {
    let fits = |room: &&str| module == *room || module.starts_with(&format!("{room}::"));
    let longest = ROOMS.iter().filter(|room| fits(room)).max_by_key(|room| room.len())?;
    ROOMS.iter().position(|room| room == longest)
}

/// The module that a path from the crate's root leads into: the longest part of it that is one.
fn module_of(path: &str, sources: &[Source]) -> String {
    let mut module = path;
    while !sources.iter().any(|source| source.module == module) {
        module = module.rsplit_once("::").map_or("", |(outer, _)| outer);
    }
    module.to_owned()
}

/// The paths that a source names, from the crate's root on. The stores are another crate.
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
            Some(&"super") => outer.iter().take(outer.len() - ups).copied().collect(),
            _ => return None,
        };
        let parts = base.into_iter().chain(parts.into_iter().skip(ups.max(1)));
        let path = parts.collect::<Vec<_>>().join("::");
        Some(path.trim_end_matches("::self").to_owned()).filter(|path| path.split("::").next() != Some("store"))
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
