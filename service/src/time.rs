//! Times as clients read them: RFC 3339, in UTC.

use std::time::SystemTime;

use jiff::Timestamp;

/// Milliseconds since 1970.
pub fn instant(milliseconds: u64) -> String {
    let milliseconds = i64::try_from(milliseconds).unwrap_or(i64::MAX);
    text_of(Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::MAX))
}

/// Now.
pub fn timestamp() -> String {
    Timestamp::try_from(SystemTime::now()).map(text_of).unwrap_or_default()
}

fn text_of(time: Timestamp) -> String {
    format!("{time:.3}")
}
