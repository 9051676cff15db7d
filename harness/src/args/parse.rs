//! Parses values on the command line.

use std::time::Duration;

/// How long a signalled process may take to finish its work, unless an option says otherwise.
pub const GRACE: Duration = Duration::from_secs(5);

pub fn parse_assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((field, value)) if !field.trim().is_empty() => Ok((field.trim().to_owned(), value.to_owned())),
        _ => Err("must be FIELD=VALUE, for example backend=redis".to_owned()),
    }
}

pub fn parse_grace_seconds(text: &str) -> Result<Duration, String> {
    let time = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = time.filter(|time| *time <= Duration::from_secs(3600));
    time.ok_or_else(|| "must be a number from 0 to 3600".to_owned())
}

pub fn parse_share(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    number.ok_or_else(|| "must be a number from 0 to 1".to_owned())
}
