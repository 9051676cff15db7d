//! Patterns of what is not to be stored: keys, card numbers, addresses.
//!
//! A pattern is text, found in whatever case of its ASCII letters, with classes in braces: `{d}` is a digit, `{h}` a
//! hexadecimal digit, `{w}` a letter, digit or `_`, `{t}` one of what tokens are made of (also `-.~+/=`), `{n}` any
//! character but a blank. `{d4}` is four of them, `{d4+}` four or more, `{d+}` one or more. `\{`, `\}` and `\\` are the
//! characters themselves. So `sk-{t20+}` finds API keys, and `{w+}@{t+}` most addresses.
//!
//! Promises a cost linear in text and pattern. So a class that repeats takes all there is of it, without coming back to
//! give up a part, and one at the beginning starts where there is none of it before. Refuses patterns that match
//! nothing, or everything. (A library for regular expressions would be a third of the component.)

/// What is put in the place of a match.
pub(crate) const REDACTED: &str = "[redacted]";

/// A pattern, ready to be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedactPattern {
    text: String,
    parts: Vec<PatternPart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternPart {
    Literal(String),
    Class { class: CharacterClass, count: usize, or_more: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CharacterClass {
    Digit,
    Hex,
    Word,
    Token,
    NonBlank,
}

impl CharacterClass {
    fn holds(self, byte: u8) -> bool {
        match self {
            Self::Digit => byte.is_ascii_digit(),
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Word => byte.is_ascii_alphanumeric() || byte == b'_',
            Self::Token => Self::Word.holds(byte) || b"-.~+/=".contains(&byte),
            Self::NonBlank => !byte.is_ascii_whitespace(),
        }
    }
}

impl RedactPattern {
    /// Read one, or say what is allowed.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const ALLOWED: &str = "a list of patterns, each of them text and classes like {d}, {h4}, {w+} or {t20+}, with \
                               \\{ for a brace";
        let mut parts: Vec<PatternPart> = Vec::new();
        let mut literal = String::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match c {
                '\\' => literal.push(rest.next().filter(|c| matches!(c, '\\' | '{' | '}')).ok_or(ALLOWED)?),
                '}' => return Err(ALLOWED.to_owned()),
                '{' => {
                    let (class, after) = rest.as_str().split_once('}').ok_or(ALLOWED)?;
                    rest = after.chars();
                    if !literal.is_empty() {
                        parts.push(PatternPart::Literal(std::mem::take(&mut literal)));
                    }
                    parts.push(class_of(class).ok_or(ALLOWED)?);
                }
                c => literal.push(c),
            }
        }
        if !literal.is_empty() {
            parts.push(PatternPart::Literal(literal));
        }
        if parts.is_empty() || matches!(&*parts, [PatternPart::Class { class: CharacterClass::NonBlank, .. }]) {
            return Err("a list of patterns that match something, and not everything".to_owned());
        }
        Ok(Self { text: text.to_owned(), parts })
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text with all that matches replaced; none: nothing does.
    pub(crate) fn redact_matches(&self, text: &str) -> Option<String> {
        let mut runs = vec![0..0; self.parts.len()];
        let (mut out, mut kept, mut at) = (String::new(), 0, 0);
        while at < text.len() {
            let end = if text.is_char_boundary(at) { self.end_of(text, at, &mut runs) } else { None };
            match end {
                Some(end) if text.is_char_boundary(end) => {
                    out.push_str(text.get(kept..at).unwrap_or_default());
                    out.push_str(REDACTED);
                    (kept, at) = (end, end);
                }
                _ => at += 1,
            }
        }
        if out.is_empty() {
            return None;
        }
        out.push_str(text.get(kept..).unwrap_or_default());
        Some(out)
    }

    /// Where a match that begins here ends. `runs` are those that each class was seen to have last.
    fn end_of(&self, text: &str, from: usize, runs: &mut [std::ops::Range<usize>]) -> Option<usize> {
        let bytes = text.as_bytes();
        let mut at = from;
        for (index, (part, run)) in self.parts.iter().zip(runs).enumerate() {
            match part {
                PatternPart::Literal(literal) => {
                    let end = at + literal.len();
                    if !bytes.get(at..end)?.eq_ignore_ascii_case(literal.as_bytes()) {
                        return None;
                    }
                    at = end;
                }
                PatternPart::Class { class, count, or_more: false } => {
                    let end = at + count;
                    if !bytes.get(at..end)?.iter().all(|byte| class.holds(*byte)) {
                        return None;
                    }
                    at = end;
                }
                PatternPart::Class { class, count, or_more: true } => {
                    if index == 0 && at > 0 && bytes.get(at - 1).is_some_and(|byte| class.holds(*byte)) {
                        return None;
                    }
                    if !run.contains(&at) {
                        let length = bytes.get(at..)?.iter().take_while(|byte| class.holds(**byte)).count();
                        *run = at..at + length;
                    }
                    if run.end.saturating_sub(at) < *count {
                        return None;
                    }
                    at = run.end;
                }
            }
        }
        (at > from).then_some(at)
    }
}

fn class_of(text: &str) -> Option<PatternPart> {
    let mut chars = text.chars();
    let class = match chars.next()? {
        'd' => CharacterClass::Digit,
        'h' => CharacterClass::Hex,
        'w' => CharacterClass::Word,
        't' => CharacterClass::Token,
        'n' => CharacterClass::NonBlank,
        _ => return None,
    };
    let rest = chars.as_str();
    let (digits, or_more) = rest.strip_suffix('+').map_or((rest, false), |digits| (digits, true));
    let count = if digits.is_empty() { 1 } else { digits.parse().ok()? };
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_plain && (1..=1000).contains(&count)).then_some(PatternPart::Class { class, count, or_more })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(pattern: &str, text: &str) -> String {
        RedactPattern::parse(pattern).unwrap().redact_matches(text).unwrap_or_else(|| text.to_owned())
    }

    #[test]
    fn redaction_replaces_the_matches_and_nothing_else() {
        for (pattern, before, after) in [
            ("sk-{t8+}", "key sk-abcDEF-123.", "key [redacted]"),
            ("sk-{t8+}", "sk-short", "sk-short"),
            ("SK-{w8}", "éSk-abcdefghij", "é[redacted]ij"),
            ("{w+}@{t+}", "to anna@example.org, and ben@x", "to [redacted], and [redacted]"),
            ("{d4} {d4} {d4} {d4}", "card 1234 5678 9012 3456!", "card [redacted]!"),
            ("{d13+}", "12345678901234567890 123", "[redacted] 123"),
            ("password: {n+}", "Password: gehéim\nnext", "[redacted]\nnext"),
            (r"\{{w+}\}\\", r"a {secret}\ b", "a [redacted] b"),
            ("ab", "ababab a b", "[redacted][redacted][redacted] a b"),
            ("é", "né né", "n[redacted] n[redacted]"),
        ] {
            assert_eq!(redacted(pattern, before), after, "{pattern}");
        }
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for text in ["", "{", "{}", "{x}", "{w0}", "{w1001}", "a}", "\\n", "{w+1}", "{d-1}", "{n+}", "{n}", "a\\"] {
            assert!(RedactPattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn hard_texts_cost_no_more_than_easy_ones() {
        // Tried again at each position, these would take 10^10 steps and more.
        let text = "a".repeat(200_000);
        for pattern in ["{w+}@", "a{w+}b", "{w+}a", "a{w+}{w+}", "aaaaaaaa{d+}"] {
            assert_eq!(RedactPattern::parse(pattern).unwrap().redact_matches(&text), None, "{pattern}");
        }
    }
}
