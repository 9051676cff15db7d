//! Reads options from JSON, and says what is wrong with one.

use keepline_json as json;

use crate::text::quoting::cut;

/// Why a configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The option, or empty when the text is not a JSON object.
    pub field: String,
    /// What was wrong and what is allowed.
    pub message: String,
}

/// A hundred years: beyond that, 0 (for ever) is the honest value.
const MAX_TTL_HOURS: f64 = 876_000.0;

/// What a component's memory can take several times over.
/// An instance of 64 MiB, the host's default, has room for several copies of it.
pub(crate) const MAX_BYTES: u64 = 8 << 20;

/// Rounded, so that what is told to be in force is read as the very same number again; but what is more than
/// nothing stays so. A billionth of an hour is 4 microseconds.
fn to_the_billionth(hours: f64) -> f64 {
    if hours <= 0.0 {
        // -0 as well.
        return 0.0;
    }
    #[allow(clippy::cast_precision_loss, reason = "below 2^53")]
    let billionths = billionths(hours).max(1) as f64;
    billionths / 1e9
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, bounded by MAX_TTL_HOURS, and below 2^53"
)]
pub(crate) fn billionths(hours: f64) -> u64 {
    (hours * 1e9 + 0.5) as u64
}

/// One option as it was given. It is stored where the caller says, and left as it was if it is refused: a value returned
/// to each of forty callers would make these half as large again.
pub(crate) struct Reader<'a> {
    pub(crate) field: &'a str,
    /// As it stands.
    pub(crate) raw: &'a str,
}

impl Reader<'_> {
    pub(crate) fn problem(&self, allowed: &str) -> ConfigProblem {
        ConfigProblem {
            field: self.field.to_owned(),
            message: format!("{} must be {allowed}, not {}", self.field, cut(self.raw)),
        }
    }

    pub(crate) fn hours(&self, option: &mut f64, default: f64) -> Result<(), ConfigProblem> {
        *option = match json::number(self.raw) {
            _ if self.raw == "null" => default,
            Some(hours) if (0.0..=MAX_TTL_HOURS).contains(&hours) => to_the_billionth(hours),
            _ => return Err(self.problem("a number from 0 (for ever) to 876000")),
        };
        Ok(())
    }

    pub(crate) fn integer(&self, option: &mut u64, default: u64, min: u64, max: u64) -> Result<(), ConfigProblem> {
        // All bounds are far below 2^53: a float holds what may be given exactly.
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "checked to be integral and within bounds that a float holds"
        )]
        let number = match json::number(self.raw) {
            _ if self.raw == "null" => default,
            Some(number) if number.fract() == 0.0 && (min as f64..=max as f64).contains(&number) => number as u64,
            _ => return Err(self.problem(&format!("an integer from {min} to {max}"))),
        };
        *option = number;
        Ok(())
    }

    pub(crate) fn boolean(&self, option: &mut bool, default: bool) -> Result<(), ConfigProblem> {
        *option = match self.raw {
            "null" => default,
            "true" => true,
            "false" => false,
            _ => return Err(self.problem("true or false")),
        };
        Ok(())
    }

    pub(crate) fn choice<T: Copy>(
        &self,
        option: &mut T,
        default: T,
        choices: &[(&str, T)],
    ) -> Result<(), ConfigProblem> {
        let given = json::string(self.raw);
        if self.raw == "null" {
            *option = default;
            return Ok(());
        }
        if let Some((_, choice)) = choices.iter().find(|(name, _)| given.as_deref() == Some(*name)) {
            *option = *choice;
            return Ok(());
        }
        let mut allowed = String::new();
        for (left, (name, _)) in (0..choices.len()).rev().zip(choices) {
            let after = if left > 1 { ", " } else { " or " };
            allowed.extend(["\"", name, "\"", if left > 0 { after } else { "" }]);
        }
        Err(self.problem(&allowed))
    }
}
