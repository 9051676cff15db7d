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
pub const RUN_HELP: &str = r#"Entries, one JSON object per line:
  {"lane":"questions","text":"Where is it?","metadata":{"session_id":"anna"}}
  {"lane":"answers","text":"In Hamburg.","metadata":{}}
  {"lane":"tools","tool":{"call_id":"c1","name":"track","arguments":{"id":7}}}
  {"lane":"tools","tool":{"call_id":"c1","output":"left Hamburg"}}
  {"lane":"open"}      what follows is unrelated to the previous question

Each input line produces one output line, in order. Only the metadata of a question can change; everything else passes through byte for byte. The text may be any JSON value; anything but a string is remembered as JSON text. NaN, Infinity and -Infinity, as written by Python, are accepted, and a line may start with a byte order mark. If a member is repeated, the last one counts; all but the last "metadata" of a question are removed.

With conversation: true, what tools did is remembered with the next answer: a call, its output or error, or both, paired by call_id.

An answer belongs to the session that its metadata names; without a session_id, to that of the last question. Invalid lines pass through unchanged and are reported on stderr (the first few, then a count), and the exit code is 1. Since an invalid line may have been a question, later answers without a session_id are not stored until the next question.

Output is flushed before waiting for input, so keepline run works as a coprocess. On SIGTERM or SIGINT it finishes the entries it has read, within --grace, and reports what is left; a second signal stops it at once. With --plugin, SIGHUP reloads that file without losing an entry; if the new component can't be used, that is reported on stderr and the old one stays. With --pipes, entries of different sessions run concurrently; the output is the same as with one pipe, as long as the store has room for all sessions.

An entry whose memory fails passes without it: its line comes out as it came, with a warning on stderr. An entry fails, and gets an "error" member, only with on_store_error "fail" (its store or the plugin failed), or with require_node (it names no node). At the end, one line on stderr counts the entries that passed without memory, with the reasons.

Exit codes: 0 success; 1 some lines were invalid, some entries failed, or, with --require-memory, some passed without memory; 2 the command line or the configuration is wrong; 3 the plugin could not be loaded; 130 and 143 SIGINT or SIGTERM came before all input was processed (stderr says what is left)."#;

pub const MIGRATE_HELP: &str = r#"The source is the effective configuration. The target is the same configuration with the changes given by --to, or the file given by --to-config. Each side is a directory, a Redis server or a Redis Cluster. For example, from a directory to Redis, from Redis to a directory, and from a single server to a cluster:
  keepline migrate --dir ./memory --to backend=redis \
      --to redis_url=redis://localhost:6379
  keepline migrate --profile redis --to-dir ./memory
  keepline migrate --set backend=redis --set redis_host=old \
      --to redis_cluster=true --to redis_nodes=n1:6379,n2:6379

What is stored for users, pipeline nodes and the like is copied as sessions are. Each session is copied along with its expiry and the numbers of recent writers, so that a call repeated on the other side counts once, then both sides are compared byte for byte; at the end the target's session list is checked, too. Sessions that are already in the target are left untouched, so after an interruption the same command resumes. Stop the pipes first: writes made during the copy are caught by the comparison and copied again, later ones are not. --delete removes a session from the source only if both sides are the same at that moment.

Before anything else, each side writes a mark that the other must not see: this proves that source and target are not the same place under two names.

Sessions are found through the source's session list. In Redis, a session whose list entry was evicted or removed by hand is missing there: --scan also walks all keys of the source, in steps. It needs the SCAN permission (`keepline config --acl --scan`), and in a cluster no slots may move in the meantime.

Exit codes: 0 all sessions are in the target, 1 some are not (each is reported with the reason), 2 the command line or the configuration is wrong."#;

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

pub const HEALTH_HELP: &str = r#"The store is asked twice: once to connect, once to measure the round trip. Nothing is changed, and no directory is created; that the store can be written to is not tried. Each try may take store_timeout_ms.

With --json: {"backend":"redis","reachable":true,"connect_ms":1.204,"round_trip_ms":0.118,"breaker":"closed","problem":null}, and if it can't be reached, "problem":{"code":…,"message":…}.

Exit codes: 0 the store can be reached, 1 it can't, 2 the command line or the configuration is wrong."#;

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
        let texts = [EXIT_CODES, KEEPING, CONFIGURATION, RUN_HELP, MIGRATE_HELP, EXPORT_HELP, IMPORT_HELP];
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
