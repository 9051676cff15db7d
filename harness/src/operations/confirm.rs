//! Asks a person to confirm a deletion, or that a plugin is trusted.

use std::io::{self, IsTerminal};

use crate::{
    app::error::usage_error,
    terminal::{escape_unprintable, is_terminal_output, print_to_stderr},
};

/// Asks a person to type a word before something is deleted; a script must pass `--yes`.
pub fn confirm_deletion(warning: &str, what_to_type: &str, word: &str) -> anyhow::Result<()> {
    confirm(warning, what_to_type, word, "nothing was deleted")
}

/// Asks a person to type a word; a script must pass `--yes`. `declined`: the error if something else is typed.
pub fn confirm(warning: &str, what_to_type: &str, word: &str, declined: &str) -> anyhow::Result<()> {
    if !is_terminal_output() || !io::stdin().is_terminal() {
        return Err(usage_error(format!("{warning}: use --yes to confirm")));
    }
    print_to_stderr(&escape_unprintable(&format!("{warning}. Type {what_to_type} to confirm:")));
    let mut typed = String::new();
    io::stdin().read_line(&mut typed)?;
    if typed.trim_end_matches(['\n', '\r']) == word { Ok(()) } else { Err(usage_error(declined)) }
}
