//! The ids of events.

use std::{fmt, str::FromStr, sync::Arc};

/// Tells an event from all others of its store, the same wherever it is read: the life of the log that it is in, and its
/// position there. As a text, both with a colon between.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventId {
    pub(super) generation: Arc<str>,
    pub(super) position: u64,
}

/// A text that is no id of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event's id has the form GENERATION:POSITION")]
pub struct InvalidEventId;

impl fmt::Display for EventId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.generation, self.position)
    }
}

impl FromStr for EventId {
    type Err = InvalidEventId;

    fn from_str(text: &str) -> Result<Self, InvalidEventId> {
        let (generation, position) = text.rsplit_once(':').ok_or(InvalidEventId)?;
        let is_generation =
            (1..=256).contains(&generation.len()) && generation.bytes().all(|byte| byte.is_ascii_graphic());
        let is_position = !position.is_empty() && position.bytes().all(|byte| byte.is_ascii_digit());
        let position = position.parse().ok().filter(|_| is_generation && is_position).ok_or(InvalidEventId)?;
        Ok(Self { generation: generation.into(), position })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written() {
        for text in ["g:0", "a:b:18446744073709551615", "1795570983430-d2:7"] {
            assert_eq!(text.parse::<EventId>().unwrap().to_string(), text);
        }
        for text in ["", "g", ":1", "g:", "g:-1", "g:+1", "g:x", "g:18446744073709551616", "g h:1", "ü:1"] {
            assert_eq!(text.parse::<EventId>(), Err(InvalidEventId), "{text}");
        }
    }
}
