//! Reads and writes a bucket's time to live as texts of its metadata, as the original writes them and every store of ours
//! reads them.

use crate::TimeToLive;

/// The fields `ttl_seconds` and `sliding_ms`; what is not there is empty.
pub(crate) fn time_to_live(ttl_seconds: &str, sliding_ms: &str) -> Option<TimeToLive> {
    match sliding_ms.parse() {
        Ok(milliseconds @ 1..) => Some(TimeToLive { milliseconds, sliding: true }),
        _ => milliseconds(ttl_seconds).map(|milliseconds| TimeToLive { milliseconds, sliding: false }),
    }
}

/// What the original writes for a time to live: `str()` of a Python float of seconds, or the word `None`. It rounds
/// up to a millisecond what is less, and takes nothing, less than that, and what is no number for never.
fn milliseconds(ttl_seconds: &str) -> Option<u64> {
    let seconds = ttl_seconds.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds > 0.0)?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let milliseconds = (seconds * 1000.0).round() as u64;
    Some(milliseconds.max(1))
}

/// When a generation was created, in milliseconds since 1970, by the field `created_at`: seconds, with a fraction. 0: unknown.
pub(crate) fn created_at_ms(created_at: &str) -> u64 {
    let (seconds, fraction) = created_at.split_once('.').unwrap_or((created_at, "0"));
    let are_digits = fraction.bytes().all(|byte| byte.is_ascii_digit());
    let thousandths = format!("{fraction:0<3.3}").parse::<u64>().ok().filter(|_| are_digits);
    let milliseconds = seconds.parse::<u64>().ok().and_then(|seconds| seconds.checked_mul(1000));
    milliseconds.zip(thousandths).and_then(|(one, other)| one.checked_add(other)).unwrap_or_default()
}

/// The field `ttl_seconds` as a store of ours writes it.
#[cfg(feature = "directory")]
pub(crate) fn ttl_seconds(time_to_live: Option<TimeToLive>) -> String {
    let Some(TimeToLive { milliseconds, .. }) = time_to_live else { return "None".to_owned() };
    let fraction = format!("{:03}", milliseconds % 1000);
    let fraction = fraction.trim_end_matches('0');
    format!("{}.{}", milliseconds / 1000, if fraction.is_empty() { "0" } else { fraction })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "directory")]
    #[test]
    fn a_time_to_live_round_trips_through_its_text() {
        for (milliseconds, text) in
            [(1, "0.001"), (1500, "1.5"), (18_000_000, "18000.0"), (10_250, "10.25"), (86_400_000_007, "86400000.007")]
        {
            let fixed = Some(TimeToLive { milliseconds, sliding: false });
            assert_eq!(ttl_seconds(fixed), text);
            assert_eq!(time_to_live(text, ""), fixed);
            let sliding = Some(TimeToLive { milliseconds, sliding: true });
            assert_eq!(time_to_live(text, &milliseconds.to_string()), sliding);
        }
        assert_eq!((ttl_seconds(None), time_to_live("None", "")), ("None".to_owned(), None));
    }

    #[test]
    fn a_creation_time_is_read_from_seconds_with_any_fraction() {
        for (text, milliseconds) in [
            ("1795570983.430123", 1_795_570_983_430),
            ("1795570983.43", 1_795_570_983_430),
            ("1795570983", 1_795_570_983_000),
            ("0.9999", 999),
            ("18446744073709551615.0", 0),
            ("5.-1", 0),
            ("junk", 0),
            ("", 0),
        ] {
            assert_eq!(created_at_ms(text), milliseconds, "{text}");
        }
    }

    #[test]
    fn a_time_to_live_is_read_as_python_writes_floats() {
        for (text, expected) in [
            ("86400.0", Some(86_400_000)),
            ("0.5", Some(500)),
            ("3960.0000000000005", Some(3_960_000)),
            ("90061.001", Some(90_061_001)),
            ("0.001", Some(1)),
            ("0.0001", Some(1)),
            ("1e-05", Some(1)),
            ("5e-324", Some(1)),
            ("1e+16", Some(10_000_000_000_000_000_000)),
            ("1.7976931348623157e+308", Some(u64::MAX)),
            ("None", None),
            ("0.0", None),
            ("-1.0", None),
            ("nan", None),
            ("inf", None),
            ("", None),
        ] {
            assert_eq!(milliseconds(text), expected, "{text}");
        }
    }
}
