//! Parses values on the command line.

use std::{fmt, num::NonZeroUsize, time::Duration};

/// How long a signalled process may take to finish what it has begun, unless told.
pub const GRACE: Duration = Duration::from_secs(5);

pub fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((field, value)) if !field.trim().is_empty() => Ok((field.trim().to_owned(), value.to_owned())),
        _ => Err("must be FIELD=VALUE, for example backend=redis".to_owned()),
    }
}

pub fn pipes(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse().ok().filter(|number: &NonZeroUsize| number.get() <= 1024);
    number.ok_or_else(|| "must be a whole number from 1 to 1024".to_owned())
}

/// A time on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0.as_secs_f64())
    }
}

pub fn seconds(text: &str) -> Result<Seconds, String> {
    let time = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = time.filter(|time| *time <= Duration::from_secs(3600));
    time.map(Seconds).ok_or_else(|| "must be a number from 0 to 3600".to_owned())
}

pub fn share(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    number.ok_or_else(|| "must be a number from 0 to 1".to_owned())
}
