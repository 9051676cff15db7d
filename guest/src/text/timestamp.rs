//! Timestamps as Python writes floats: seconds since 1970 with up to six decimals.

use keepline_json::{push_digits, push_number};

use crate::text::split_once;

/// A moment as Python writes it: seconds, and as many decimals as there are, at least one.
pub fn format_timestamp(micros: u64) -> String {
    let mut out = String::with_capacity(20);
    push_number(&mut out, micros / 1_000_000);
    out.push('.');
    let mut fraction = u32::try_from(micros % 1_000_000).unwrap_or(0);
    let mut decimals = 6;
    while decimals > 1 && fraction.is_multiple_of(10) {
        fraction /= 10;
        decimals -= 1;
    }
    push_digits(&mut out, fraction, decimals);
    out
}

/// Parses a time in this form, or as any plain decimal, to microseconds. `None`: it is not a time.
pub fn parse_micros(timestamp: &str) -> Option<u64> {
    let (whole, fraction) = split_once(timestamp, ".").unwrap_or((timestamp, ""));
    let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_plain(whole) || !is_plain(fraction) {
        return None;
    }
    let micros = fraction.bytes().chain(*b"000000").take(6).fold(0, |sum, digit| sum * 10 + u64::from(digit & 0xf));
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(micros)
}

/// The same in milliseconds, as the conversation's limits are.
pub fn parse_milliseconds(timestamp: &str) -> Option<u64> {
    parse_micros(timestamp).map(|micros| micros / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_written_as_python_writes_floats() {
        for (micros, text) in [
            (1_795_186_917_032_595, "1795186917.032595"),
            (1_795_186_917_500_000, "1795186917.5"),
            (1_795_186_917_000_000, "1795186917.0"),
            (1_795_186_917_000_010, "1795186917.00001"),
            (0, "0.0"),
        ] {
            assert_eq!(format_timestamp(micros), text);
            assert_eq!(parse_micros(text), Some(micros));
        }
        format_timestamp(u64::MAX);
    }

    #[test]
    fn timestamps_are_read_as_others_write_them() {
        for (text, micros) in [
            ("17.5", Some(17_500_000)),
            ("17", Some(17_000_000)),
            ("17.", Some(17_000_000)),
            ("17.1234567", Some(17_123_456)),
            ("0", Some(0)),
            ("18446744073709.551615", Some(u64::MAX)),
            ("18446744073709.551616", None),
            ("99999999999999999999", None),
            ("life-1", None),
            ("1.x", None),
            ("1e9", None),
            ("-1", None),
            (".5", None),
            ("", None),
        ] {
            assert_eq!(parse_micros(text), micros, "{text}");
        }
    }
}
