//! A look through JSON text that takes it apart without reading it.
//!
//! Promises parts as they stand in the text, at a cost that grows with its length alone: no depth of nesting is
//! a danger. Accepts what common writers emit, beside JSON itself: `NaN`, `Infinity` and `-Infinity`, as
//! Python's `json.dumps` spells what JSON has no word for, and a byte order mark before the text. Refuses
//! those as well where asked to be strict.

use super::first_special;

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Hand each member of the object `text` to `each`, in order: its key (with quotes and escapes) and its value,
/// as slices of `text`. Members before a fault are handed out before it is found. None: it is not one object
/// and nothing else.
#[must_use = "what was handed out is of no use if the text is no object"]
pub fn members<'a>(text: &'a str, mut each: impl FnMut(&'a str, &'a str)) -> Option<()> {
    Scanner::lenient(text).container(b'{', b'}', &mut each)
}

/// Hand each element of the array `text` to `each`, as [`members`] does it.
pub(crate) fn elements<'a>(text: &'a str, mut each: impl FnMut(&'a str)) -> Option<()> {
    Scanner::lenient(text).container(b'[', b']', &mut |_, value| each(value))
}

/// Whether the text is one value and nothing else.
pub(crate) fn is_value(text: &str) -> bool {
    Scanner::lenient(text).whole_value().is_some()
}

/// The text without the blanks around it, if it is one value of the JSON grammar proper.
pub(super) fn strict_value(text: &str) -> Option<&str> {
    Scanner { text, at: 0, is_strict: true }.whole_value()
}

struct Scanner<'a> {
    text: &'a str,
    /// Always on the border of a character: whatever is stepped over is ASCII, or ends where ASCII begins.
    at: usize,
    is_strict: bool,
}

impl<'a> Scanner<'a> {
    fn lenient(text: &'a str) -> Self {
        let at = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        Self { text, at, is_strict: false }
    }

    fn whole_value(&mut self) -> Option<&'a str> {
        self.blanks();
        let from = self.at;
        self.value()?;
        let value = self.since(from);
        self.end().map(|()| value)
    }

    fn container(&mut self, open: u8, close: u8, each: &mut dyn FnMut(&'a str, &'a str)) -> Option<()> {
        self.blanks();
        self.expect(open)?;
        self.blanks();
        if self.take(close) {
            return self.end();
        }
        loop {
            let mut key = "";
            if close == b'}' {
                self.blanks();
                let from = self.at;
                self.string()?;
                key = self.since(from);
                self.colon()?;
            }
            self.blanks();
            let from = self.at;
            self.value()?;
            each(key, self.since(from));
            self.blanks();
            if self.take(close) {
                return self.end();
            }
            self.expect(b',')?;
        }
    }

    /// One value, however deep: what is still open is kept on the heap, a byte for each.
    fn value(&mut self) -> Option<()> {
        let mut open = Vec::new();
        loop {
            match self.token()? {
                b'"' => self.rest_of_string()?,
                first @ (b'-' | b'0'..=b'9') => self.rest_of_number(first)?,
                b'{' => {
                    self.blanks();
                    if !self.take(b'}') {
                        open.push(b'}');
                        self.key()?;
                        continue;
                    }
                }
                b'[' => {
                    self.blanks();
                    if !self.take(b']') {
                        open.push(b']');
                        continue;
                    }
                }
                b't' => self.word("rue")?,
                b'f' => self.word("alse")?,
                b'n' => self.word("ull")?,
                b'N' if !self.is_strict => self.word("aN")?,
                b'I' if !self.is_strict => self.word("nfinity")?,
                _ => return None,
            }
            // A value has ended, and with it perhaps what it is in.
            loop {
                let Some(&close) = open.last() else { return Some(()) };
                match self.token()? {
                    b',' if close == b'}' => {
                        self.key()?;
                        break;
                    }
                    b',' => break,
                    byte if byte == close => open.pop(),
                    _ => return None,
                };
            }
        }
    }

    /// A member's name and the colon behind it.
    fn key(&mut self) -> Option<()> {
        self.blanks();
        self.string()?;
        self.colon()
    }

    fn colon(&mut self) -> Option<()> {
        (self.token()? == b':').then_some(())
    }

    fn string(&mut self) -> Option<()> {
        self.expect(b'"')?;
        self.rest_of_string()
    }

    fn rest_of_string(&mut self) -> Option<()> {
        loop {
            self.at += first_special(self.text.as_bytes().get(self.at..)?)?;
            match self.next()? {
                b'"' => return Some(()),
                b'\\' => match self.next()? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                    b'u' => {
                        for _ in 0..4 {
                            self.next().filter(u8::is_ascii_hexdigit)?;
                        }
                    }
                    _ => return None,
                },
                // A control character.
                _ => return None,
            }
        }
    }

    fn rest_of_number(&mut self, mut first: u8) -> Option<()> {
        if first == b'-' {
            first = self.next()?;
        }
        match first {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            b'I' if !self.is_strict => return self.word("nfinity"),
            _ => return None,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.next().filter(u8::is_ascii_digit)?;
            self.digits();
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            let _ = self.take(b'+') || self.take(b'-');
            self.next().filter(u8::is_ascii_digit)?;
            self.digits();
        }
        Some(())
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let rest = self.text.as_bytes().get(self.at..)?;
        self.at += word.len();
        rest.starts_with(word.as_bytes()).then_some(())
    }

    /// The next byte that is no blank, stepped over.
    fn token(&mut self) -> Option<u8> {
        loop {
            match self.next()? {
                b' ' | b'\t' | b'\n' | b'\r' => {}
                byte => return Some(byte),
            }
        }
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Nothing but blanks is left.
    fn end(&mut self) -> Option<()> {
        self.blanks();
        (self.at == self.text.len()).then_some(())
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.take(byte).then_some(())
    }

    fn since(&self, from: usize) -> &'a str {
        self.text.get(from..self.at).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn members_come_as_they_stand() {
        let mut seen = Vec::new();
        let text = "\u{feff} {\"a\" : [1, {\"b\":NaN}] , \"\\u0061\":\"\\ud800\",\"\":-Infinity\n} ";
        let read = members(text, |key, value| seen.push((key, value)));
        assert_eq!(read, Some(()));
        assert_eq!(seen, [("\"a\"", r#"[1, {"b":NaN}]"#), (r#""\u0061""#, r#""\ud800""#), ("\"\"", "-Infinity")]);
        let mut seen = Vec::new();
        assert_eq!(elements(" [1 ,[], \"x\" ] ", |value| seen.push(value)), Some(()));
        assert_eq!(seen, ["1", "[]", "\"x\""]);
    }

    #[test]
    fn what_no_common_writer_emits_is_refused() {
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
        assert!(members("[1]", |_, _| {}).is_none());
        assert!(members("{} x", |_, _| {}).is_none());
        assert!(elements("{}", |_| {}).is_none());
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
    fn a_million_levels_of_nesting_are_no_danger() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
            let deep = format!("{}NaN{}", open.repeat(1_000_000), close.repeat(1_000_000));
            assert!(is_value(&deep));
            assert!(!is_value(&open.repeat(1_000_000)));
            let mut count = 0;
            assert_eq!(members(&format!("{{\"x\":{deep}}}"), |_, _| count += 1), Some(()));
            assert_eq!(count, 1);
        }
    }

    /// The only words that JSON has not, as words that it has.
    fn strictly(text: &str) -> String {
        text.replace("-Infinity", "[]").replace("Infinity", "[]").replace("NaN", "[]")
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_serde_json_takes_is_taken_and_nothing_else(
            text in prop::collection::vec(prop::sample::select(vec![
                "{", "}", "[", "]", ":", ",", "\"", "\"a\"", "\"k\":", "\\", "\\n", "\\u00e9", "\\ud800", "é", " ", "\n",
                "0", "-1", "1.5", "2e+3", "-", ".", "e", "true", "false", "null", "{}", "[]", "[1,2]", "\u{1}",
            ]), 0..12).prop_map(|parts| parts.concat())
        ) {
            let theirs = serde_json::from_str::<&RawValue>(&text).ok().map(RawValue::get);
            prop_assert_eq!(strict_value(&text), theirs);
            prop_assert_eq!(is_value(&text), theirs.is_some());
            let mut ours = Vec::new();
            let read = members(&text, |key, value| ours.push((key, value)));
            let mut others = Vec::new();
            let also = super::super::members(&text, |key, value| others.push((key, value)));
            prop_assert_eq!(read.is_some(), also.is_ok());
            prop_assert!(also.is_err() || ours == others);
        }

        #[test]
        fn the_words_of_python_stand_wherever_null_does(
            text in prop::collection::vec(prop::sample::select(vec![
                "{", "}", "[", "]", ",", "\"a\":", "\"NaN\"", " ", "1", "NaN", "Infinity", "-Infinity", "[NaN]", "-",
            ]), 0..10).prop_map(|parts| parts.concat())
        ) {
            prop_assert_eq!(is_value(&text), strict_value(&strictly(&text)).is_some());
        }
    }
}
