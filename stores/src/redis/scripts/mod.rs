//! Server-side scripts, called by the digest of their text. Those of transactions are in `transact`.

use std::sync::atomic::{AtomicBool, Ordering};

use redis::Cmd;

use crate::{
    index::{
        SEGMENT,
        segments::{MARK, OCCURRENCE},
    },
    limits::{
        MAX_BYTES, MAX_HOPS, MAX_NAMES, MAX_PARTS, MAX_PIECES, MAX_RECORD_BYTES, MAX_RECORDS, MAX_SEARCHED_BYTES,
        MAX_VALUES, MAX_WRITERS, PIECE_BYTES,
    },
    redis::{options::MAX_TIMEOUT, transact::TransactScripts},
};

pub(crate) struct ScriptSet {
    pub(crate) transact: TransactScripts,
    pub(crate) delete: LuaScript,
    pub(crate) list: LuaScript,
    pub(crate) export: LuaScript,
    pub(crate) import: LuaScript,
    pub(crate) remove: LuaScript,
    pub(crate) inspect: LuaScript,
}

impl ScriptSet {
    pub(crate) fn new(most_shapes: usize) -> Self {
        Self {
            transact: TransactScripts::new(most_shapes),
            delete: LuaScript::new(include_str!("delete.lua")),
            list: LuaScript::new(include_str!("list.lua")),
            export: LuaScript::new(include_str!("export.lua")),
            import: LuaScript::new(include_str!("import.lua")),
            remove: LuaScript::new(include_str!("remove.lua")),
            inspect: LuaScript::new(include_str!("inspect.lua")),
        }
    }
}

const WRITERS_LIFE_MS: u64 = 600_000;
const _: () = assert!(WRITERS_LIFE_MS as u128 >= 2 * MAX_TIMEOUT.as_millis(), "a deadline is not half as far ahead");

/// The numbers that the scripts know by name.
pub(crate) const NUMBERS: [(&str, u64); 22] = [
    // As many writers a bucket remembers in any case, until all are forgotten. Of more it forgets those whose
    // deadlines are over.
    ("FEW_WRITERS", 64),
    // Past that, a writer is refused. A hundred bytes each.
    ("MOST_WRITERS", MAX_WRITERS),
    // How long after the last write all are forgotten.
    ("WRITERS_LIFE_MS", WRITERS_LIFE_MS),
    // A bucket that arrives from another store is waited for so long.
    ("ARRIVAL_MS", 24 * 60 * 60 * 1000),
    // How much later than the one that is remembered a deadline of the same transaction can be: a server's clock is
    // reckoned again for each try.
    ("SPARE_MS", 5000),
    // Of more keys a reply names none.
    ("MOST_NAMES", MAX_NAMES),
    ("MOST_RECORDS", MAX_RECORDS),
    // What a page asks of Redis, which gives some more than it is asked for.
    ("MOST_SCANNED", MAX_RECORDS - 100),
    ("MOST_PARTS", MAX_PARTS),
    ("MOST_VALUES", MAX_VALUES),
    ("ROOM_PIECES", MAX_PIECES),
    ("ROOM_BYTES", MAX_BYTES),
    ("PIECE_BYTES", PIECE_BYTES),
    ("LONGEST_RECORD", MAX_RECORD_BYTES),
    ("MOST_HOPS", MAX_HOPS),
    // So many names in a set of keys that are none are distinguished from keys where it matters how many there are.
    ("STRANGERS", 1000),
    // Records that are read at a time: the first time, and later. How long one is Redis tells only by reading it, so
    // that all but the first of them may be read in vain.
    ("FIRST_STEP", 8),
    ("LAST_STEP", 16),
    ("SEARCHED_BYTES", MAX_SEARCHED_BYTES),
    ("SEGMENT", SEGMENT),
    ("MARK_BYTES", MARK as u64),
    ("OCCURRENCE_BYTES", OCCURRENCE as u64),
];

/// One script. Its keys are always the bucket's four (see `layout.rs`), or the registry alone.
pub(crate) struct LuaScript {
    text: String,
    digest: String,
    /// Whether the text has been sent.
    is_sent: AtomicBool,
}

impl LuaScript {
    /// `text` may stand on the fragments of `shared.lua` and on the numbers above.
    pub(crate) fn new(text: &str) -> Self {
        let mut text = expand_fragments(text, shared_fragment);
        // Redis keeps what it is sent.
        text = text.lines().filter(|line| !line.trim_start().starts_with("--")).flat_map(|line| [line, "\n"]).collect();
        for (name, number) in NUMBERS {
            text = text.replace(name, &number.to_string());
        }
        Self { digest: redis::Script::new(&text).get_hash().to_owned(), text, is_sent: AtomicBool::new(false) }
    }

    /// The short form, for a server that knows the text. The first time it is the long one: most servers do not
    /// know it yet, and to find out would be a round trip.
    pub(crate) fn by_name(&self) -> Cmd {
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
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The long form, which also makes the text known.
    pub(crate) fn by_text(&self) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(&self.text);
        command
    }
}

/// A fragment of `shared.lua`, with those that it stands on.
fn shared_fragment(name: &str) -> Option<String> {
    let named = |part: &&str| part.split_once('\n').is_some_and(|(heading, _)| heading == name);
    let (_, body) = include_str!("shared.lua").split("\n--- fragment ").find(named)?.split_once('\n')?;
    Some(expand_fragments(body, shared_fragment))
}

/// The text with what its lines of `--@ name` stand for.
pub(crate) fn expand_fragments(text: &str, meaning: impl Fn(&str) -> Option<String>) -> String {
    let line = |line: &str| match line.trim_start().strip_prefix("--@ ").and_then(&meaning) {
        Some(meaning) => meaning + "\n",
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fragment_and_number_of_a_script_is_known() {
        let ScriptSet { transact, delete, list, export, import, remove, inspect } = ScriptSet::new(1);
        for script in [&transact.general, &delete, &list, &export, &import, &remove, &inspect] {
            assert!(!script.text().contains("--@"), "{}", script.text());
            for (name, _) in NUMBERS {
                assert!(!script.text().contains(name), "{name}");
            }
        }
    }
}
