//! Compares the scanner with a full parser: it accepts the same texts and yields the same parts.

#![allow(clippy::unwrap_used)]
use proptest::prelude::*;
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::*;

#[test]
fn members_and_elements_are_returned_verbatim() {
    let mut seen = Vec::new();
    let text = "\u{feff} {\"a\" : [1, {\"b\":NaN}] , \"\\u0061\":\"\\ud800\",\"\":-Infinity\n} ";
    let read = for_each_member(text, |key, value| seen.push((key, value)));
    assert_eq!(read, Some(()));
    assert_eq!(seen, [("\"a\"", r#"[1, {"b":NaN}]"#), (r#""\u0061""#, r#""\ud800""#), ("\"\"", "-Infinity")]);
    let mut seen = Vec::new();
    assert_eq!(for_each_element(" [1 ,[], \"x\" ] ", |value| seen.push(value)), Some(()));
    assert_eq!(seen, ["1", "[]", "\"x\""]);
}

#[test]
fn the_rest_of_an_object_is_scanned_from_the_end_of_a_value() {
    let rest = |text: &'static str, from| {
        let mut seen = Vec::new();
        rest_of_object(text, from, |key, value| seen.push((key, value))).map(|form| (seen, form))
    };
    let plain = JsonForm::default();
    assert_eq!(rest(r#"{"a":1,"b":[2]} "#, 6), Some((vec![("\"b\"", "[2]")], JsonForm { depth: 1, ..plain })));
    assert_eq!(rest("{\"a\":1\n}", 6), Some((vec![], JsonForm { has_feeds: true, ..plain })));
    assert_eq!(rest(r#"{"a":1 , "b":NaN}"#, 6).unwrap().1, JsonForm { has_words: true, ..plain });
    for (text, from) in
        [(r#"{"a":12}"#, 6), (r#"{"a":1"#, 6), (r#"{"a":1}x"#, 6), (r#"{"a":1,}"#, 6), ("{\"a\":1]", 6), ("{}", 9)]
    {
        assert_eq!(rest(text, from), None, "{text}");
    }
}

#[test]
fn portable_values_are_those_that_every_reader_takes() {
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let objects = |depth: usize| r#"{"a":"#.repeat(depth) + "1" + &"}".repeat(depth);
    let long = |length: usize| "7".repeat(length);
    for text in [
        "1234567890123456789".to_owned(),
        "1.0".to_owned(),
        "-1e5".to_owned(),
        r#""\ud83d\ude00 \uD83D\uDE00""#.to_owned(),
        format!("\"{}\"", long(500)),
        deep(MAX_DEPTH),
        objects(MAX_DEPTH),
        long(MAX_NUMBER),
        format!("[-{}]", long(MAX_NUMBER - 1)),
    ] {
        assert_eq!(crate::as_portable_value(&text), Some(&*text));
        assert!(serde_json::from_str::<&RawValue>(&text).is_ok());
    }
    for text in [
        "NaN".to_owned(),
        r#""\ud800""#.to_owned(),
        r#""\udc00\ud800""#.to_owned(),
        r#""\ud800\ud800\udc00""#.to_owned(),
        r#"{"\udfff":1}"#.to_owned(),
        r#""\ud800x""#.to_owned(),
        deep(MAX_DEPTH + 1),
        objects(MAX_DEPTH + 1),
        deep(200_000),
        long(MAX_NUMBER + 1),
        format!("-{}", long(MAX_NUMBER)),
        format!("[0.{}]", long(MAX_NUMBER - 1)),
        format!("1e{}", long(MAX_NUMBER - 1)),
    ] {
        assert_eq!(crate::as_portable_value(&text), None, "{text}");
    }
    let form = |text: &str| scan_object(text, |_, _| ()).unwrap();
    assert_eq!(form(r#"{"a":[[{}]],"b":[]}"#), JsonForm { depth: 3, ..JsonForm::default() });
    assert!(form(r#"{"\ud800":1}"#).has_lone_surrogates && form(&format!(r#"{{"a":{}}}"#, long(101))).has_long_numbers);
    assert!(form(&format!(r#"{{"a":{}}}"#, deep(125))).is_within(JsonForm::default()));
    assert!(!form(&format!(r#"{{"a":{}}}"#, deep(126))).is_within(JsonForm::default()));
    assert!(form(&format!(r#"{{"a":{}}}"#, deep(126))).is_within(JsonForm { depth: 126, ..JsonForm::default() }));
}

#[test]
fn json_that_no_common_writer_emits_is_refused() {
    for text in [
        "",
        "nan",
        "-NaN",
        "+1",
        "inf",
        "-Inf",
        "Infinit",
        "NaNN",
        "undefined",
        "'a'",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "{1:2}",
        "[1 2]",
        "{\"a\" 1}",
        "// x\n1",
        "01",
        "1.",
        ".5",
        "1e",
        "-",
        "\"\t\"",
        "\"\\x41\"",
        "\"\\u12g4\"",
        "\"",
        "[",
        "]",
        "{\"a\":1]",
        "1 2",
        "\u{feff}\u{feff}1",
        "1\u{feff}",
        "\u{a0}1",
    ] {
        assert!(!is_value(text), "{text}");
    }
    assert!(for_each_member("[1]", |_, _| {}).is_none());
    assert!(for_each_member("{} x", |_, _| {}).is_none());
    assert!(for_each_element("{}", |_| {}).is_none());
}

#[test]
fn strict_values_are_those_of_the_grammar() {
    for text in ["NaN", "[NaN]", "{\"a\":-Infinity}", "Infinity", "\u{feff}1"] {
        assert!(is_value(text), "{text}");
        assert_eq!(strict_value(text), None, "{text}");
    }
    assert_eq!(strict_value(" [1, 2]\n"), Some("[1, 2]"));
}

#[test]
fn a_million_levels_of_nesting_do_not_overflow_the_stack() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
        let deep = format!("{}NaN{}", open.repeat(1_000_000), close.repeat(1_000_000));
        assert!(is_value(&deep));
        assert!(!is_value(&open.repeat(1_000_000)));
        let mut count = 0;
        assert_eq!(for_each_member(&format!("{{\"x\":{deep}}}"), |_, _| count += 1), Some(()));
        assert_eq!(count, 1);
    }
}

#[test]
fn the_form_of_an_object_records_its_non_standard_json() {
    let plain = JsonForm::default();
    for (text, form) in [
        ("{\"a\": [1, \"NaN\", \"\\n\"]}", JsonForm { depth: 1, ..plain }),
        ("{\"a\":NaN}", JsonForm { has_words: true, ..plain }),
        ("{\"a\":[{\"b\":-Infinity}]}", JsonForm { has_words: true, depth: 2, ..plain }),
        ("\u{feff}{}", JsonForm { has_mark: true, ..plain }),
        ("{}\n", JsonForm { has_feeds: true, ..plain }),
        ("{\"a\":[1,\r2]}", JsonForm { has_returns: true, depth: 1, ..plain }),
        ("{\"a\"\n:1}", JsonForm { has_feeds: true, ..plain }),
    ] {
        let found = scan_object(text, |_, _| {}).unwrap();
        assert_eq!(found, form, "{text}");
        let is_plain = JsonForm { depth: 0, ..form } == plain;
        assert!(found.is_within(form) && plain.is_within(found) && found.is_within(plain) == is_plain);
    }
}

/// The members as serde_json finds them; none: it is no object.
fn serde_members(text: &str) -> Option<Vec<(&str, &str)>> {
    struct Members;
    impl<'de> Visitor<'de> for Members {
        type Value = Vec<(&'de str, &'de str)>;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("a JSON object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = Vec::new();
            while let Some((key, value)) = map.next_entry::<&'de RawValue, &'de RawValue>()? {
                found.push((key.get(), value.get()));
            }
            Ok(found)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let found = deserializer.deserialize_map(Members).ok()?;
    deserializer.end().ok().map(|()| found)
}

#[test]
fn brackets_must_close_in_order_at_any_depth() {
    for depth in [1, 63, 64, 65, 127, 128, 129, 200] {
        let open: String = (0..depth).map(|n| if n % 3 == 0 { "{\"a\":" } else { "[" }).collect();
        let close: String = (0..depth).rev().map(|n| if n % 3 == 0 { "}" } else { "]" }).collect();
        assert!(is_value(&format!("{open}1{close}")), "{depth}");
        assert!(!is_value(&format!("{open}1{close}]")) && !is_value(&format!("{open}1{}", &close[1..])), "{depth}");
        for wrong in 0..depth {
            let mut close = close.clone().into_bytes();
            close[wrong] ^= b'}' ^ b']';
            assert!(!is_value(&format!("{open}1{}", String::from_utf8(close).unwrap())), "{depth} {wrong}");
        }
    }
}

/// The only words that JSON has not, as words that it has.
fn strictly(text: &str) -> String {
    text.replace("-Infinity", "[]").replace("Infinity", "[]").replace("NaN", "[]")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn strict_values_are_exactly_those_that_serde_json_accepts(
        text in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ":", ",", "\"", "\"a\"", "\"k\":", "\\", "\\n", "\\u00e9", "\\ud800", "é", " ", "\n",
            "0", "-1", "1.5", "2e+3", "-", ".", "e", "true", "false", "null", "{}", "[]", "[1,2]", "\u{1}",
        ]), 0..12).prop_map(|parts| parts.concat())
    ) {
        let theirs = serde_json::from_str::<&RawValue>(&text).ok().map(RawValue::get);
        prop_assert_eq!(strict_value(&text), theirs);
        prop_assert_eq!(is_value(&text), theirs.is_some());
        let mut ours = Vec::new();
        let read = for_each_member(&text, |key, value| ours.push((key, value)));
        prop_assert_eq!(read.map(|()| ours), serde_members(&text));
    }

    #[test]
    fn a_scan_for_names_finds_the_same_members_as_a_full_scan(
        text in prop::collection::vec(prop::sample::select(vec![
            "\"a\"", "\"ab\"", "\"b\"", "\"\\u0061\"", "\"é\"", ":", "\"a\":", "\"ab\":1,", "\"b\":\"x\",", " ", "\n", ",",
            "1", "[\"a\"]", "{\"a\":2}",
        ]), 0..12).prop_map(|parts| parts.concat())
    ) {
        let text = ["{", text.strip_suffix(',').unwrap_or(&text), "}"].concat();
        let names = [("a", "a"), ("ab", "ab"), ("é", "é"), ("b", "b"), ("other", "other")];
        let mut all = Vec::new();
        let read_all = for_each_member(&text, |key, value| {
            let name = names.iter().find(|(name, _)| crate::key_matches(key, name));
            all.push((name.map(|(name, _)| *name).ok_or(key), value));
        });
        let mut ours = Vec::new();
        let read = for_each_named_member(&text, &names, |name, value| ours.push((name, value)));
        prop_assert_eq!(read, read_all);
        prop_assert_eq!(ours, all);
    }

    #[test]
    fn nan_and_infinity_are_accepted_wherever_null_is(
        text in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", "\"a\":", "\"NaN\"", " ", "1", "NaN", "Infinity", "-Infinity", "[NaN]", "-",
        ]), 0..10).prop_map(|parts| parts.concat())
    ) {
        prop_assert_eq!(is_value(&text), strict_value(&strictly(&text)).is_some());
    }
}
