//! Server-side scripts, each called by the digest of its text.

use std::sync::atomic::{AtomicBool, Ordering};

use redis::Cmd;

use super::transact::{MOST_SHAPES, Transact};

/// Newest writers that a bucket remembers; past that, the older half is forgotten.
const REMEMBERED_WRITERS: u64 = 64;
/// How long a writer's number is remembered, milliseconds. At least twice the longest time-out (see
/// `options.rs`), after which a try is refused for being late.
const WRITERS_LIFE_MS: u64 = 600_000;

/// One script. Its keys are always the bucket's four (see `layout.rs`), or the registry alone.
pub(super) struct Script {
    text: String,
    digest: String,
    /// Whether the text has been sent.
    is_sent: AtomicBool,
}

impl Script {
    pub(super) fn new(text: &str) -> Self {
        let text = text
            .replace("REMEMBERED_WRITERS", &REMEMBERED_WRITERS.to_string())
            .replace("WRITERS_LIFE_MS", &WRITERS_LIFE_MS.to_string());
        Self { digest: redis::Script::new(&text).get_hash().to_owned(), text, is_sent: AtomicBool::new(false) }
    }

    /// The short form, for a server that knows the text. The first time it is the long one: most servers do not
    /// know it yet, and to find out would be a round trip.
    pub(super) fn by_name(&self) -> Cmd {
        if !self.is_sent.load(Ordering::Relaxed) {
            self.is_sent.store(true, Ordering::Relaxed);
            return self.by_text();
        }
        // Room for an answer.
        let mut command = Cmd::with_capacity(24, 1500);
        command.arg("EVALSHA").arg(&self.digest);
        command
    }

    #[cfg(test)]
    pub(super) fn text(&self) -> &str {
        &self.text
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
    pub(super) transact: Transact,
    pub(super) delete: Script,
    pub(super) describe: Script,
    pub(super) list: Script,
    pub(super) export: Script,
    pub(super) import: Script,
    pub(super) weigh: Script,
    pub(super) mark: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            transact: Transact::new(MOST_SHAPES),
            delete: Script::new(include_str!("delete.lua")),
            describe: Script::new(include_str!("describe.lua")),
            list: Script::new(include_str!("list.lua")),
            export: Script::new(include_str!("export.lua")),
            import: Script::new(include_str!("import.lua")),
            weigh: Script::new(include_str!("weigh.lua")),
            mark: Script::new(include_str!("mark.lua")),
        }
    }
}
