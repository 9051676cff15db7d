//! Server-side scripts, each called by the digest of its text.

use redis::Cmd;

/// Newest writers that a bucket remembers; past that, the older half is forgotten.
const REMEMBERED_WRITERS: u64 = 64;
/// How long a writer's number is remembered, milliseconds. At least twice the longest time-out (see
/// `options.rs`), after which a try is refused for being late.
const WRITERS_LIFE_MS: u64 = 600_000;

/// One script. Its keys are always the bucket's four (see `layout.rs`), or the registry alone.
pub(super) struct Script {
    text: String,
    digest: String,
}

impl Script {
    fn new(text: &str) -> Self {
        let text = text
            .replace("REMEMBERED_WRITERS", &REMEMBERED_WRITERS.to_string())
            .replace("WRITERS_LIFE_MS", &WRITERS_LIFE_MS.to_string());
        Self { digest: redis::Script::new(&text).get_hash().to_owned(), text }
    }

    /// The short form; the server knows the text.
    pub(super) fn by_name(&self) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.digest);
        command
    }

    /// The long form, which also makes the text known.
    pub(super) fn by_text(&self) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(&self.text);
        command
    }
}

/// All of a store's scripts.
pub(super) struct Scripts {
    pub(super) transact: Script,
    pub(super) delete: Script,
    pub(super) describe: Script,
    pub(super) list: Script,
    pub(super) export: Script,
    pub(super) import: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            transact: Script::new(include_str!("transact.lua")),
            delete: Script::new(include_str!("delete.lua")),
            describe: Script::new(include_str!("describe.lua")),
            list: Script::new(include_str!("list.lua")),
            export: Script::new(include_str!("export.lua")),
            import: Script::new(include_str!("import.lua")),
        }
    }
}
