//! Asks a person to confirm a deletion.

use std::io::{self, IsTerminal};

use crate::{
    app::error::Usage,
    terminal::{is_for_people, printable, say},
};

/// Asks a person to type a word before something is deleted; a script must pass `--yes`.
pub fn confirm(warning: &str, what_to_type: &str, word: &str) -> anyhow::Result<()> {
    if !is_for_people() || !io::stdin().is_terminal() {
        return Err(Usage(format!("{warning}: use --yes to confirm")).into());
    }
    say(&printable(&format!("{warning}. Type {what_to_type} to confirm:")));
    let mut typed = String::new();
    io::stdin().read_line(&mut typed)?;
    if typed.trim_end_matches(['\n', '\r']) == word { Ok(()) } else { Err(Usage("nothing was deleted".into()).into()) }
}
