//! Help texts that are longer than a line.

use keepline::config::{FIELDS, Kind, Preset};

/// Columns that help texts need where they have lines of their own.
const COLUMNS: usize = 80;

/// What the exit code of a command says.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  the command failed; for run: a line was invalid, an entry failed (only with
     on_store_error \"fail\" or require_node), or with --require-memory, an entry
     passed without memory
  2  the command line or the configuration is wrong
  3  the plugin could not be loaded
  130, 143
     run was interrupted by SIGINT or SIGTERM before all input was processed";

pub const KEEPING: &str = "\
Where sessions are kept:
  --dir PATH       in a directory: they outlive the process, and processes on
                   this machine can share them
  --profile redis  in Redis, which several machines can share; see
                   `keepline help config`
  without either   in this process, for as long as it runs";

pub const CONFIGURATION: &str = "\
Configuration, strongest first:
  --set FIELD=VALUE, KEEPLINE_<FIELD> in the environment, the fields of --config
  FILE, REDIS_URL and other variables of NeuroLink's where STORAGE_TYPE is set,
  the profile, the defaults. `keepline config` shows each value in force and its
  source.
  The profile comes from --profile, KEEPLINE_PROFILE or \"profile\" in FILE, else
  it is memory. A FILE with \"profile\": \"redis\" holds its fields in an object of
  that name:
    {\"profile\":\"redis\",\"redis\":{\"redis_host\":\"db\",\"key_prefix\":\"shop\"}}
  Fields beside \"profile\" are an error. A FILE without \"profile\" holds its
  fields directly; those in the object of the selected profile override them.";

/// What `--json` does, in all commands that have it.
pub const JSON_HELP: &str = "Print JSON, and report messages on stderr as JSON objects, one per line";

pub const JSON_MESSAGES: &str = r#"With --json, stdout carries results only, and every line on stderr is a JSON object. If the command fails, the last line says why: {"error":{"code":"not-found","message":"Session 'a' not found"}}. Codes: usage, configuration, plugin, interrupted, failed, and from sessions: invalid-session, invalid-key, invalid-value, not-found, key-not-found, expired, already-exists, not-a-counter, counter-overflow, limit, too-many-sessions, conflict, store, not-stored. More may be added. Other lines carry "warning", "note" or "debug" instead of "error"."#;

// Paragraphs are one line each: clap breaks them where the terminal ends.
pub const EXPORT_HELP: &str = r#"Each session is a header, its values, records and other entries, and an end that counts them: one JSON object per line, described in docs/export.md. A session is exported as it was at one moment: it is read into a temporary file and compared with the store afterwards, and one that keeps changing is left out. For example:
  keepline session export anna --profile chat --dir ./memory
  keepline session export --all --output sessions.jsonl --profile redis

Exit codes: 0 success, 1 some sessions were not exported (each is reported with the reason), 2 the command line or the configuration is wrong."#;

pub const IMPORT_HELP: &str = r#"Sessions come back as they were exported: values, history, conversations with all branches, nodes, expiry. A session becomes visible when it is whole. Those that are there already are left alone, so after an interruption the same command goes on; --replace replaces those whose contents differ. In Redis, a session that is being replaced is absent until the new one is whole.

Sessions of other programs are read from their Redis, or from a dump of it with a line for each key: {"key":"message_store:anna","value":[…]}. First see what would come of them:
  keepline session import --from-redis redis://old:6379 --format langchain \
      --dry-run --dir ./memory
  keepline session import node_memory/ --format dify --dir ./memory
ChatGPT's conversations.json, conversations in ShareGPT's form and messages of chat APIs come in as well, as files. Imported messages are marked as such. What has no place here is reported, with its place in the file. --rename gives a session another id, --user an owner if it has none. docs/export.md describes each layout.

What is wrong is reported with its line or key, and its session is left out.

Exit codes: 0 success, 1 some sessions were left out (each is reported with the reason), 2 the command line or the configuration is wrong."#;

/// The host's fields, for `keepline help config`: from the table, so that none is ever missing.
pub fn fields_help() -> String {
    let mut help = String::from("Fields of the host:\n");
    for field in FIELDS {
        let default = match field.default {
            Preset::Text(text) => format!("\"{text}\""),
            Preset::Number(number) => number.to_string(),
            Preset::Flag(flag) => flag.to_string(),
        };
        let allowed = match field.kind {
            Kind::Text | Kind::Secret | Kind::Url | Kind::List => String::new(),
            _ => format!("; {}", field.allowed()),
        };
        help.push_str(&format!("  {}\n", field.name));
        push_wrapped(&mut help, "      ", &format!("{} [default {default}{allowed}]", field.about));
    }
    help.push_str(
        "\nAll other fields belong to the filter; `keepline config` lists the ones it knows. An empty\n\
         environment variable counts as unset.\n\n",
    );
    help.push_str(JSON_MESSAGES);
    help.push_str("\n\n");
    help.push_str(EXIT_CODES);
    help
}

/// Adds a paragraph of indented lines that fit [`COLUMNS`]: clap would not indent the lines that it breaks.
fn push_wrapped(help: &mut String, indent: &str, text: &str) {
    let mut line = indent.to_owned();
    for word in text.split(' ') {
        let is_first = line.len() == indent.len();
        if !is_first && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            help.push_str(&line);
            help.push('\n');
            line = indent.to_owned();
        } else if !is_first {
            line.push(' ');
        }
        line.push_str(word);
    }
    help.push_str(&line);
    help.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_lines_fit_eighty_columns() {
        let texts = [EXIT_CODES, KEEPING, CONFIGURATION, EXPORT_HELP, IMPORT_HELP];
        let fields = fields_help();
        for line in texts.into_iter().chain([&*fields]).flat_map(str::lines) {
            assert!(!line.starts_with(' ') || line.chars().count() <= COLUMNS, "{line}");
        }
    }

    #[test]
    fn the_help_names_every_field() {
        let help = fields_help();
        assert!(FIELDS.iter().all(|field| help.contains(field.name)));
    }
}
