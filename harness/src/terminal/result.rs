//! A command's result on standard output, as JSON or as plain lines.

/// A JSON object with these members, in this order. Unlike a `serde_json::Value`, it embeds stored JSON
/// ([`EmbeddedJson`](super::json_text::EmbeddedJson)) as it is.
macro_rules! object {
    ($($name:ident: $value:expr),* $(,)?) => {{
        #[allow(non_camel_case_types, reason = "a type parameter for each member")]
        let object = {
            #[derive(serde::Serialize)]
            struct Object<$($name),*> { $($name: $name),* }
            Object { $($name: $value),* }
        };
        object
    }};
}
pub(crate) use object;

use anyhow::Result;
use serde::Serialize;

use super::{escape_unprintable, print_json, print_line, print_lines};

/// Prints JSON or a plain text, which is left out if it is empty.
pub fn print_result(as_json: bool, json: &impl Serialize, plain: &str) -> Result<()> {
    if as_json {
        return print_json(json);
    }
    if !plain.is_empty() {
        print_line(&escape_unprintable(plain))?;
    }
    Ok(())
}

/// Prints JSON, or one item a line: line breaks within an item are escaped.
pub fn print_result_lines(
    as_json: bool,
    json: &impl Serialize,
    lines: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<()> {
    if as_json { print_json(json) } else { print_lines(lines) }
}
