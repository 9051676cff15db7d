//! What is set for one session in place of the configuration: how large its windows are, and which model answers.
//!
//! Promises one budget for all who ask in a session, so that they come to the same window, and that it lies within what
//! the configuration may say. An entry's own go before those of its session, for this entry alone. Refuses, where they
//! are set, numbers out of range; where they are read, takes what is no such number for absent.

use keepline_json::{self as json, push_number, push_string};

use super::desk::Transcript;
use super::options::{self, BUDGET_MIN, Options, TOKENS_MAX, WINDOW_MAX, WINDOW_MIN};
use super::record::integer;
use super::{SESSION, SETTINGS};
use crate::sessions::{Answer, Code, SessionProblem, Sessions};
use crate::store::{Host, Opening, Operation};

/// Bytes of a model's name.
const MODEL_MAX: usize = 128;

/// What is set. Absent: as the configuration has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// As [`Options::max_context_tokens`].
    pub max_context_tokens: Option<u64>,
    /// As [`Options::context_window`].
    pub context_window: Option<u64>,
    /// As [`Options::reserve_tokens`].
    pub reserve_tokens: Option<u64>,
    /// The model that answers: its name, as whoever counts tokens knows it.
    pub model: Option<String>,
}

impl Settings {
    /// Of an object, and of anything else none.
    pub(super) fn parse(text: &str) -> Self {
        let mut settings = Self::default();
        let read = json::members(text, |key, raw| {
            let number = || integer(raw).filter(|number| *number > 0);
            match json::string(key).as_deref() {
                Some("max_context_tokens") => settings.max_context_tokens = number(),
                Some("context_window") => settings.context_window = number(),
                Some("reserve_tokens") => settings.reserve_tokens = number(),
                Some("model") => {
                    settings.model = json::string(raw).filter(|name| is_model(name)).map(Into::into);
                }
                _ => {}
            }
        });
        if read.is_some() { settings } else { Self::default() }
    }

    fn numbers(&self) -> [(&'static str, Option<u64>, u64, u64); 3] {
        [
            ("max_context_tokens", self.max_context_tokens, BUDGET_MIN, TOKENS_MAX),
            ("context_window", self.context_window, WINDOW_MIN, WINDOW_MAX),
            ("reserve_tokens", self.reserve_tokens, 1, WINDOW_MAX),
        ]
    }

    fn check(&self) -> Answer<()> {
        let invalid = |message| Err(SessionProblem::new(Code::InvalidValue, message));
        for (name, number, min, max) in self.numbers() {
            if number.is_some_and(|number| !(min..=max).contains(&number)) {
                return invalid(format!("{name} must be an integer from {min} to {max}"));
            }
        }
        if self.model.as_deref().is_some_and(|name| !is_model(name)) {
            return invalid(format!("model must be a text of 1 to {MODEL_MAX} bytes without control characters"));
        }
        Ok(())
    }

    fn write(&self) -> String {
        let mut out = String::new();
        let begin = |out: &mut String, name: &str| {
            out.push_str(if out.is_empty() { "{\"" } else { ",\"" });
            out.push_str(name);
            out.push_str("\":");
        };
        for (name, number, ..) in self.numbers() {
            if let Some(number) = number {
                begin(&mut out, name);
                push_number(&mut out, number);
            }
        }
        if let Some(model) = &self.model {
            begin(&mut out, "model");
            push_string(&mut out, model);
        }
        out.push('}');
        out
    }
}

fn is_model(name: &str) -> bool {
    (1..=MODEL_MAX).contains(&name.len()) && !name.chars().any(char::is_control)
}

impl Options {
    /// The tokens that a question gets at most, with what is set for its session and then for itself. Who names a window
    /// has its budget derived from that, and its reserve, too, unless that is set beside it.
    pub(super) fn budget_of(&self, closer: &[&Settings]) -> u64 {
        let (mut tokens, mut window, mut reserve) = (self.max_context_tokens, self.context_window, self.reserve_tokens);
        for settings in closer {
            if let Some(named) = settings.context_window {
                (tokens, window, reserve) = (0, named, 0);
            }
            tokens = settings.max_context_tokens.unwrap_or(tokens);
            reserve = settings.reserve_tokens.unwrap_or(reserve);
        }
        options::budget(tokens, window, reserve)
    }
}

impl<H: Host> Sessions<H> {
    /// Set these for a transcript in place of all that was set; of none, the configuration holds again.
    pub fn set_settings(&self, transcript: &Transcript<'_>, settings: &Settings) -> Answer<()> {
        let at = transcript.address()?;
        settings.check()?;
        let text = settings.write();
        let write = match settings == &Settings::default() {
            false => Operation::Put { map: SESSION, key: SETTINGS, text: &text },
            true => Operation::Remove { map: SESSION, keys: &[SETTINGS] },
        };
        self.look(at.session, at.bucket(), Opening::ANY, &[write]).map(drop)
    }
}
