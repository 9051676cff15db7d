#![allow(clippy::unwrap_used)]
use serde_json::value::RawValue;

use super::*;

#[test]
fn base32_is_written_as_the_standard_has_it() {
    for (bytes, text) in
        [("", ""), ("f", "my"), ("fo", "mzxq"), ("foo", "mzxw6"), ("foob", "mzxw6yq"), ("foobar", "mzxw6ytboi")]
    {
        let mut out = String::new();
        push_base32(&mut out, bytes.as_bytes());
        assert_eq!(out, text);
    }
}

#[test]
fn numbers_are_written_in_decimal() {
    for number in
        [0, 7, 10, 1_000, 65_535, 999_999_999, 1_000_000_000, 1_000_000_001, 12_000_000_034_000_000_567, u64::MAX]
    {
        let mut out = String::from("x");
        push_number(&mut out, number);
        assert_eq!(out, format!("x{number}"));
    }
}

#[test]
fn strings_are_written_as_serde_json_writes_them() {
    let mut all: String = (0..0x250u32).filter_map(char::from_u32).collect();
    all.push_str("plain text that is longer than a word, then \" and 🎉\u{2028} \\ end");
    for start in all.char_indices().map(|(at, _)| at).take(40) {
        let text = &all[start..];
        let mut ours = String::new();
        push_string(&mut ours, text);
        assert_eq!(ours, serde_json::to_string(text).unwrap());
    }
}

#[test]
fn copying_a_string_gives_the_same_text_as_writing_it() {
    for raw in [
        r#""""#,
        r#""plain é 🎉""#,
        r#""a\nb \"c\" \\ \r\t\b\f""#,
        r#""a\/b""#,
        r#""\u0041\u001f\ud83c\udf89""#,
        r#""long enough for several words \n and \ud800 half""#,
        r#""ends in a backslash \\""#,
    ] {
        let (mut copied, mut written) = (String::new(), String::new());
        push_as_stored(&mut copied, raw);
        push_string(&mut written, &decode_string(raw).unwrap());
        assert_eq!(copied, written, "{raw}");
    }
}

#[test]
fn numbers_are_read_as_serde_json_reads_them() {
    for raw in [
        "0",
        "-0",
        "0.0",
        "1",
        "24",
        "0.5",
        "1.01",
        "0.001",
        "-7",
        "1e3",
        "1E+3",
        "1e-7",
        "100.0",
        "876000",
        "8388608",
        "9007199254740991",
        "1.5e0",
        "0e999999999999",
        "0.000e5",
        "123456.789",
    ] {
        let theirs: f64 = serde_json::from_str(raw).unwrap();
        assert_eq!(parse_number(raw).map(f64::to_bits), Some(theirs.to_bits()), "{raw}");
    }
    for raw in ["1e400", "-1e999999999999", "9e309", "", "null", "\"1\"", "NaN", "Infinity", "-Infinity", "[1]", "true"]
    {
        assert_eq!(parse_number(raw), None, "{raw}");
    }
    // What only begins like a number, such as a generation.
    for raw in ["1795570983430-d2c1", "1.2.3", "1.", "1e", "1e5x", "1e+-5", "--1", "007", "1_0", "1 ", "1,\"a\":2"] {
        assert_eq!(parse_number(raw), None, "{raw}");
    }
    for raw in ["12345678901234567890123", "1.7976931348623157e308", "0.12345678901234567890", "1e-350"] {
        let theirs: f64 = raw.parse().unwrap();
        let ours = parse_number(raw).unwrap();
        assert!((ours - theirs).abs() <= theirs.abs() * 1e-14, "{raw}: {ours}");
    }
    let long = format!("{}.{}e-{}", "7".repeat(4000), "7".repeat(4000), "7".repeat(4000));
    assert_eq!(parse_number(&long), Some(0.0));
    assert_eq!(parse_number(&format!("0.{}1", "0".repeat(100_000))), Some(0.0));
    assert_eq!(parse_number(&"7".repeat(100_000)), None);
}

#[test]
fn special_bytes_are_found_at_any_offset() {
    for length in 0..70 {
        let plain = "é! ~".chars().cycle().take(length).collect::<String>();
        assert_eq!(first_special(plain.as_bytes()), None, "{plain}");
        for special in ["\0", "\u{1f}", "\"", "\\"] {
            let text = format!("{plain}{special}{plain}\"");
            assert_eq!(first_special(text.as_bytes()), Some(plain.len()), "{text}");
        }
    }
}

#[test]
fn values_are_accepted_exactly_when_serde_json_accepts_them() {
    for text in [
        "\"\"",
        "\"",
        "",
        "\"a b\"",
        "\"a\nb\"",
        "\"a\\\"",
        "\"a\\\"\"",
        "\"a\"b\"",
        " \"a\" ",
        "0",
        "-1",
        "01",
        "1",
        "1203",
        "1.5",
        "12a",
        "1 2",
        "null",
        "nul",
        "\"é\"",
    ] {
        assert_eq!(as_strict_value(text), serde_json::from_str::<&RawValue>(text).ok().map(RawValue::get), "{text}");
    }
}

#[test]
fn half_a_surrogate_pair_is_one_replacement_character() {
    for (raw, spelt) in [
        (r#""\ud800""#, "\u{fffd}"),
        (r#""a\ud83cb""#, "a\u{fffd}b"),
        (r#""\udf89\ud83c""#, "\u{fffd}\u{fffd}"),
        (r#""\ud800\ud83c\udf89""#, "\u{fffd}🎉"),
        (r#""\ud83c\u0041\n""#, "\u{fffd}A\n"),
        (r#""\ud83c\\udf89""#, "\u{fffd}\\udf89"),
    ] {
        assert_eq!(decode_string(raw).unwrap(), spelt, "{raw}");
    }
    for raw in [r#""\"\\\/\b\f\n\r\t\u0000\u00E9\uffff\ud83c\udf89é""#, r#""""#, r#""plain é""#] {
        assert_eq!(decode_string(raw).unwrap(), serde_json::from_str::<String>(raw).unwrap(), "{raw}");
    }
    assert_eq!(decode_string("7"), None);
    // Nothing that was not scanned before can do harm either.
    for raw in [r#""\""#, r#""\u""#, r#""\u12""#, r#""\u00é""#, r#""\ud800\u""#] {
        decode_string(raw).unwrap();
    }
}

#[test]
fn a_million_levels_of_nesting_do_not_overflow_the_stack() {
    let deep = format!("{}1{}", "{\"a\":".repeat(1_000_000), "}".repeat(1_000_000));
    assert!(as_strict_value(&deep).is_some());
    assert!(as_strict_value(&"[".repeat(1_000_000)).is_none());
}

#[test]
fn members_are_found_by_name_in_any_order() {
    let names = [("a", 1), ("b", 2), ("cc", 3)];
    for (text, told) in [
        (r#"{"a":1,"b":2,"cc":3}"#, "Ok(1)=1 Ok(2)=2 Ok(3)=3 "),
        (r#"{"cc":3,"x":0,"b":2,"a":1,"":0}"#, r#"Ok(3)=3 Err("\"x\"")=0 Ok(2)=2 Ok(1)=1 Err("\"\"")=0 "#),
        (r#"{"b":1,"b":2,"\u0062":[3],"\u0063c":4}"#, "Ok(2)=1 Ok(2)=2 Ok(2)=[3] Ok(3)=4 "),
    ] {
        let mut found = String::new();
        for_each_named_member(text, &names, |what, raw| found.push_str(&format!("{what:?}={raw} "))).unwrap();
        assert_eq!(found, told);
    }
    assert_eq!(for_each_named_member("[]", &names, |_, _| ()), None);
}

#[test]
fn escaped_keys_are_recognised() {
    assert!(key_matches(r#""session_id""#, "session_id"));
    assert!(key_matches(r#""\u0073ession_id""#, "session_id"));
    assert!(!key_matches(r#""session\\id""#, "session_id"));
    assert!(!key_matches(r#""session_id\ud800""#, "session_id"));
}
