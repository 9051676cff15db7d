//! Server-side scripts, each called by the digest of its text.

use redis::Cmd;

/// One script. Its keys are always the bucket's four (see `layout.rs`), or the registry alone.
pub(super) struct Script {
    text: &'static str,
    digest: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, digest: redis::Script::new(text).get_hash().to_owned() }
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
        command.arg(self.text);
        command
    }
}

/// All of a store's scripts.
pub(super) struct Scripts {
    pub(super) transact: Script,
    pub(super) delete: Script,
    pub(super) describe: Script,
    pub(super) list: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            transact: Script::new(include_str!("transact.lua")),
            delete: Script::new(include_str!("delete.lua")),
            describe: Script::new(include_str!("describe.lua")),
            list: Script::new(include_str!("list.lua")),
        }
    }
}
