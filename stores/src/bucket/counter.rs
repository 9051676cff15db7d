//! Counters: entries whose text is a signed 64-bit integer.

use crate::{AddOperation, Failure, FailureCode, failure};

/// What a counter is after a step; `text` is what is there before it, if anything is.
pub(crate) fn add_to_counter(text: Option<&str>, step: &AddOperation) -> Result<i64, Failure> {
    let before = match text {
        Some(text) => parse_counter(text).ok_or_else(|| {
            let message = format!("the value of {} is not a signed 64-bit integer", step.key);
            failure(FailureCode::NotACounter, &*step.key, message)
        })?,
        None => 0,
    };
    before.checked_add(step.amount).ok_or_else(|| {
        let message = format!("the counter {} would leave the range of a signed 64-bit integer", step.key);
        failure(FailureCode::CounterOverflow, &*step.key, message)
    })
}

/// The number that a counter's text stands for: an integer in its one canonical spelling, the one that Redis counts
/// with too. Leading zeros, a plus sign, spaces and `-0` are none.
pub(crate) fn parse_counter(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    match digits.first()? {
        b'1'..=b'9' => text.parse().ok(),
        b'0' if text == "0" => Some(0),
        _ => None,
    }
}

/// How long a counter's text is.
pub(super) fn counter_text_length(number: i64) -> usize {
    count_decimal_digits(number.unsigned_abs()) + usize::from(number < 0)
}

/// How long a position's text is.
pub(super) fn count_decimal_digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_as_long_as_its_text() {
        for number in [0, 1, -1, 9, 10, -10, 99, 100, i64::MAX, i64::MIN] {
            assert_eq!(counter_text_length(number), number.to_string().len());
        }
    }

    #[test]
    fn a_counter_has_one_spelling() {
        for number in [0, 7, -7, 1200, i64::MAX, i64::MIN] {
            assert_eq!(parse_counter(&number.to_string()), Some(number));
        }
        for text in ["", "-", "-0", "007", "+5", "5.0", " 5", "5\n", "1e3", "9223372036854775808", "٣"] {
            assert_eq!(parse_counter(text), None, "{text:?}");
        }
    }
}
