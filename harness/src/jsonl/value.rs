//! Reads a JSON value from the command line or standard input.

use std::io::Read;

use anyhow::{Context, Result};
use serde_json::{Value, value::RawValue};

use crate::app::error::usage_error;

/// The value given on the command line or, for `-`, on standard input. Without `is_text` it must be JSON.
pub fn read_json_value(given: &str, is_text: bool) -> Result<String> {
    let mut read = String::new();
    let given = if given == "-" {
        std::io::stdin().read_to_string(&mut read).context("can't read the value from standard input")?;
        if is_text { read.as_str() } else { read.trim_start_matches('\u{feff}').trim() }
    } else {
        given
    };
    if is_text {
        return Ok(Value::from(given).to_string());
    }
    // The text is returned unchanged: numbers keep their digits.
    match serde_json::from_str::<&RawValue>(given) {
        Ok(_) => Ok(given.to_owned()),
        Err(error) => Err(usage_error(format!("the value is not valid JSON ({error}); use --text for plain text"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_json_unless_it_is_given_as_text() {
        assert_eq!(read_json_value("12345678901234567890123", false).unwrap(), "12345678901234567890123");
        assert_eq!(read_json_value("a \"b\"", true).unwrap(), r#""a \"b\"""#);
        assert!(read_json_value("a", false).unwrap_err().to_string().contains("--text"));
    }
}
