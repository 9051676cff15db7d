//! The tables of options in `docs/` have every option with its default and, if it is an integer, its range.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test ends at the first thing that is not as it should be"
)]

use std::{collections::BTreeMap, fs, path::Path};

use keepline_options::{
    bucket_names::SessionIds,
    conversation_options,
    kinds::OptionValue,
    session_options,
    words::{MemoryMode, Recall, RecallLife, TtlMode, UnboundContext, WindowForm},
};

/// A row of the table of options.
struct Row {
    name: &'static str,
    /// As JSON.
    default: String,
    /// Of an integer.
    range: Option<(u64, u64)>,
    is_of_conversation: bool,
}

macro_rules! range {
    (Integer<$min:literal, $max:literal>) => {
        Some(($min, $max))
    };
    (IntegerOrZero<$min:literal, $max:literal>) => {
        Some(($min, $max))
    };
    (DerivedInteger<$min:literal, $max:literal>) => {
        Some(($min, $max))
    };
    ($($other:tt)*) => {
        None
    };
}

macro_rules! default {
    (Integer $default:expr) => {
        <u64 as OptionValue>::of($default)
    };
    (IntegerOrZero $default:expr) => {
        <u64 as OptionValue>::of($default)
    };
    (DerivedInteger $default:expr) => {
        <u64 as OptionValue>::of($default)
    };
    (Hours $default:expr) => {
        <f64 as OptionValue>::of($default)
    };
    (Text $default:expr) => {
        <String as OptionValue>::of($default)
    };
    (Template $default:expr) => {
        <String as OptionValue>::of($default)
    };
    (Texts $default:expr) => {
        <Vec<String> as OptionValue>::of($default)
    };
    (Patterns $default:expr) => {
        <Vec<String> as OptionValue>::of($default)
    };
    (SomeOf $default:expr) => {
        <Vec<String> as OptionValue>::of($default)
    };
    ($other:ident $default:expr) => {
        $default
    };
}

macro_rules! push_rows {
    (
        [$rows:ident, $is_of_conversation:literal]
        $( $(#[doc = $doc:literal])+ $name:ident: $kind:ident $(<$($bound:tt),+>)? = $default:expr; )+
    ) => {
        $(
            let mut default = String::new();
            default!($kind $default).write(&mut default);
            $rows.push(Row {
                name: stringify!($name),
                default,
                range: range!($kind $(<$($bound),+>)?),
                is_of_conversation: $is_of_conversation,
            });
        )+
    };
}

/// All options, with the switch `conversation`.
fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    session_options!(push_rows!(rows, false));
    conversation_options!(push_rows!(rows, true));
    rows.push(Row { name: "conversation", default: "false".to_owned(), range: None, is_of_conversation: false });
    rows
}

/// Of one option in a document.
struct Documented {
    default: String,
    about: String,
}

/// The rows of tables with a column `default`, an option each.
fn documented(name: &str) -> BTreeMap<String, Documented> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    let text = fs::read_to_string(path).unwrap();
    let mut options = BTreeMap::new();
    let mut is_table = false;
    for line in text.lines() {
        let Some(row) = line.strip_prefix("| ") else {
            is_table &= line.starts_with('|');
            continue;
        };
        let cells: Vec<&str> = row.split(" | ").collect();
        if cells[0] == "field" {
            is_table = cells[1] == "default";
        } else if is_table {
            let defaults = cells[1].split(';').next().unwrap();
            for (name, default) in cells[0].split(", ").filter(|name| *name != "…").zip(defaults.split(", ")) {
                let (default, about) = (default.trim_matches('`').to_owned(), cells[2].to_owned());
                options.insert(name.trim_matches('`').to_owned(), Documented { default, about });
            }
        }
    }
    options
}

/// `2,000`, `8 MiB`.
fn number(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(" MiB") {
        Some(digits) => (digits, 1 << 20),
        None => (text, 1),
    };
    digits.replace(',', "").parse::<u64>().ok().map(|number| number * unit)
}

fn check(row: &Row, documented: &Documented) {
    let Documented { default, about } = documented;
    let is_same = match &*row.default {
        "\"\"" => default == "none",
        expected if row.range.is_some() => {
            number(default).map(|number| number.to_string()).as_deref() == Some(expected)
        }
        expected => default == expected,
    };
    assert!(is_same, "{}: the default is {}, not {default}", row.name, row.default);
    if let Some((min, max)) = row.range {
        let mut ranges = about.split('(').filter_map(|rest| {
            let (from, rest) = rest.split_once(" to ")?;
            Some((number(from)?, number(rest.split([')', ' ']).next()?)?))
        });
        assert!(ranges.any(|range| range == (min, max)), "{}: no ({min} to {max}) in: {about}", row.name);
    }
}

#[test]
fn each_table_has_the_options_it_is_for() {
    let configuration = documented("configuration.md");
    let conversation = documented("conversation.md");
    let recall = documented("recall.md");
    for row in rows() {
        let in_configuration = !row.is_of_conversation || row.name == "recall";
        let is_of_recall = row.name.starts_with("recall");
        let in_conversation =
            row.name == "recall" || row.name == "conversation" || row.is_of_conversation && !is_of_recall;
        let tables = [
            ("configuration.md", &configuration, in_configuration),
            ("conversation.md", &conversation, in_conversation),
            ("recall.md", &recall, is_of_recall),
        ];
        for (file, table, is_there) in tables {
            assert_eq!(table.contains_key(row.name), is_there, "whether {} is in a table of docs/{file}", row.name);
            if let Some(documented) = table.get(row.name) {
                check(&row, documented);
            }
        }
    }
    let names: Vec<&str> = rows().iter().map(|row| row.name).collect();
    let unknown = conversation.keys().chain(recall.keys()).find(|name| !names.contains(&name.as_str()));
    assert_eq!(unknown, None);
}
