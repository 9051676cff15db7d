//! Scans JSON text and hands out its parts without decoding them.
//!
//! Promises parts as they stand in the text, at a cost that grows with its length alone: no depth of nesting is
//! a danger. Accepts what common writers emit, beside JSON itself: `NaN`, `Infinity` and `-Infinity`, as
//! Python's `json.dumps` spells what JSON has no word for, and a byte order mark before the text. Tells which of
//! these there were, and refuses them where asked to be strict.

mod form;
mod nesting;
#[cfg(test)]
mod tests;

use super::first_special;
pub use form::{JsonForm, MAX_DEPTH, MAX_NUMBER};
use nesting::Nesting;

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Passes each member of the object `text` to `each`, in order: its key (with quotes and escapes) and its value,
/// as slices of `text`. Members before a fault are handed out before it is found. None: it is not one object
/// and nothing else.
#[must_use = "what was handed out is of no use if the text is no object"]
pub fn scan_object<'a>(text: &'a str, mut each: impl FnMut(&'a str, &'a str)) -> Option<JsonForm> {
    let mut scanner = Scanner::lenient(text);
    scanner.container(b'{', b'}', &mut each).map(|()| scanner.form)
}

/// As [`scan_object`], from behind the value of a member on, at the byte `from`: for a text that is known to begin as one that
/// was scanned before. None as well: something that is no member begins there, such as a further
/// digit of that value.
#[must_use = "what was handed out is of no use if the text is no object"]
pub fn rest_of_object<'a>(text: &'a str, from: usize, mut each: impl FnMut(&'a str, &'a str)) -> Option<JsonForm> {
    let mut scanner = Scanner { text, at: from, is_strict: false, form: JsonForm::default() };
    scanner.rest_of_container(b'}', &mut each).map(|()| scanner.form)
}

/// As [`scan_object`], without the form.
#[must_use = "what was handed out is of no use if the text is no object"]
pub fn for_each_member<'a>(text: &'a str, each: impl FnMut(&'a str, &'a str)) -> Option<()> {
    scan_object(text, each).map(|_| ())
}

/// The raw value of the member of that name, the last one if there are several. None: there is none, or the text is no object.
pub fn member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut value = None;
    for_each_member(text, |key, raw| {
        if super::key_matches(key, name) {
            value = Some(raw);
        }
    })?;
    value
}

/// As [`for_each_member`], with what stands beside a member's name in `names`; `Err`: its name as it is spelt, for it is none of
/// these. One that comes in the order of `names` and without blanks, as those of a text of our own do, is found at once.
#[must_use = "what was handed out is of no use if the text is no object"]
pub fn for_each_named_member<'a, T: Copy>(
    text: &'a str,
    names: &[(&str, T)],
    mut each: impl FnMut(Result<T, &'a str>, &'a str),
) -> Option<()> {
    let mut scanner = Scanner::lenient(text);
    let mut next = 0;
    if scanner.opens(b'{', b'}')? {
        loop {
            let name = scanner.name(names, &mut next)?;
            each(name, scanner.next_value()?);
            if !scanner.goes_on(b'}')? {
                break;
            }
        }
    }
    scanner.end()
}

/// Whether a member of that name begins here, with nothing before its colon. Names are short, and most differ in the first
/// byte: to compare slices would call a function for each.
#[inline(always)]
fn begins_with_name(bytes: &[u8], name: &[u8]) -> bool {
    let [b'"', inner @ ..] = bytes else { return false };
    let mut inner = inner.iter();
    name.iter().all(|byte| inner.next() == Some(byte)) && inner.next() == Some(&b'"') && inner.next() == Some(&b':')
}

/// Passes each element of the array `text` to `each`, as [`for_each_member`] does it.
pub fn for_each_element<'a>(text: &'a str, mut each: impl FnMut(&'a str)) -> Option<()> {
    Scanner::lenient(text).container(b'[', b']', &mut |_, value| each(value))
}

/// Whether the text is one value and nothing else.
pub fn is_value(text: &str) -> bool {
    Scanner::lenient(text).whole_value().is_some()
}

/// The text without the blanks around it, if it is one value of the JSON grammar proper.
pub(super) fn strict_value(text: &str) -> Option<&str> {
    Scanner { text, at: 0, is_strict: true, form: JsonForm::default() }.whole_value()
}

/// The same, if every reader takes it.
pub(super) fn portable_value(text: &str) -> Option<&str> {
    let mut scanner = Scanner { text, at: 0, is_strict: true, form: JsonForm::default() };
    scanner.whole_value().filter(|_| scanner.form.is_portable())
}

/// Its small steps are always inlined: the component is built for size, and in a sandbox a call costs as much as ten bytes.
struct Scanner<'a> {
    text: &'a str,
    /// Always on the border of a character: whatever is stepped over is ASCII, or ends where ASCII begins.
    at: usize,
    is_strict: bool,
    form: JsonForm,
}

impl<'a> Scanner<'a> {
    fn lenient(text: &'a str) -> Self {
        let has_mark = text.starts_with(BYTE_ORDER_MARK);
        let at = if has_mark { BYTE_ORDER_MARK.len() } else { 0 };
        Self { text, at, is_strict: false, form: JsonForm { has_mark, ..JsonForm::default() } }
    }

    fn whole_value(&mut self) -> Option<&'a str> {
        self.blanks();
        let from = self.at;
        self.value()?;
        let value = self.since(from);
        self.end().map(|()| value)
    }

    fn container(&mut self, open: u8, close: u8, each: &mut dyn FnMut(&'a str, &'a str)) -> Option<()> {
        if !self.opens(open, close)? {
            return self.end();
        }
        self.element(close, each)?;
        self.rest_of_container(close, each)
    }

    fn rest_of_container(&mut self, close: u8, each: &mut dyn FnMut(&'a str, &'a str)) -> Option<()> {
        while self.goes_on(close)? {
            self.element(close, each)?;
        }
        self.end()
    }

    /// Whether the container that begins here has anything in it.
    #[inline(always)]
    fn opens(&mut self, open: u8, close: u8) -> Option<bool> {
        self.blanks();
        self.expect(open)?;
        self.blanks();
        Some(!self.take(close))
    }

    /// Whether another comes behind what was last in a container.
    #[inline(always)]
    fn goes_on(&mut self, close: u8) -> Option<bool> {
        match self.token()? {
            b',' => Some(true),
            byte => (byte == close).then_some(false),
        }
    }

    /// A member of an object, or an element of an array.
    fn element(&mut self, close: u8, each: &mut dyn FnMut(&'a str, &'a str)) -> Option<()> {
        let key = if close == b'}' { self.any_name()? } else { "" };
        each(key, self.next_value()?);
        Some(())
    }

    /// A member's name, as it is spelt, with the colon behind it.
    #[inline(always)]
    fn any_name(&mut self) -> Option<&'a str> {
        self.blanks();
        let from = self.at;
        self.string()?;
        let name = self.since(from);
        self.colon()?;
        Some(name)
    }

    /// A member's name, with the colon behind it: what stands beside it among `names`, or how it is spelt. `next` is the one
    /// to come.
    #[inline(always)]
    fn name<T: Copy>(&mut self, names: &[(&str, T)], next: &mut usize) -> Option<Result<T, &'a str>> {
        let rest = self.text.as_bytes().get(self.at..)?;
        for _ in names {
            let Some((name, what)) = names.get(*next).or_else(|| names.first()) else { break };
            *next = if *next < names.len() { *next + 1 } else { 1 };
            if begins_with_name(rest, name.as_bytes()) {
                self.at += name.len() + "\"\":".len();
                return Some(Ok(*what));
            }
        }
        // Spelt otherwise, or behind blanks.
        let key = self.any_name()?;
        Some(names.iter().find(|(name, _)| super::key_matches(key, name)).map(|(_, what)| *what).ok_or(key))
    }

    /// A value behind blanks, as it stands there.
    #[inline(always)]
    fn next_value(&mut self) -> Option<&'a str> {
        self.blanks();
        let from = self.at;
        // Most values are strings.
        if self.take(b'"') {
            self.rest_of_string()?;
        } else {
            self.value()?;
        }
        Some(self.since(from))
    }

    /// One value, however deep.
    fn value(&mut self) -> Option<()> {
        let mut open = Nesting::default();
        loop {
            match self.token()? {
                b'"' => self.rest_of_string()?,
                first @ (b'-' | b'0'..=b'9') => self.rest_of_number(first)?,
                b'{' => {
                    self.opened(&open);
                    self.blanks();
                    if !self.take(b'}') {
                        open.push(true);
                        self.key()?;
                        continue;
                    }
                }
                b'[' => {
                    self.opened(&open);
                    self.blanks();
                    if !self.take(b']') {
                        open.push(false);
                        continue;
                    }
                }
                b't' => self.word("rue")?,
                b'f' => self.word("alse")?,
                b'n' => self.word("ull")?,
                b'N' if !self.is_strict => self.liberty("aN")?,
                b'I' if !self.is_strict => self.liberty("nfinity")?,
                _ => return None,
            }
            // A value has ended, and with it perhaps what it is in.
            loop {
                let Some(is_object) = open.innermost() else { return Some(()) };
                match self.token()? {
                    b',' if is_object => {
                        self.key()?;
                        break;
                    }
                    b',' => break,
                    b'}' if is_object => open.pop(),
                    b']' if !is_object => open.pop(),
                    _ => return None,
                }
            }
        }
    }

    #[inline(always)]
    fn opened(&mut self, around: &Nesting) {
        self.form.depth = self.form.depth.max(around.depth() + 1);
    }

    /// A member's name and the colon behind it.
    fn key(&mut self) -> Option<()> {
        self.blanks();
        self.string()?;
        self.colon()
    }

    #[inline(always)]
    fn colon(&mut self) -> Option<()> {
        (self.token()? == b':').then_some(())
    }

    #[inline(always)]
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
                    b'u' => self.unit()?,
                    _ => return None,
                },
                // A control character.
                _ => return None,
            }
        }
    }

    /// The digits of an escape, and those of the other half of its pair.
    fn unit(&mut self) -> Option<()> {
        match self.hex_digits()? {
            0xd800..0xdc00 => {
                let rest = self.text.as_bytes().get(self.at..)?;
                // The second half is `\udc00` to `\udfff`.
                if let [b'\\', b'u', b'd' | b'D', b'c'..=b'f' | b'C'..=b'F', ..] = rest {
                    self.at += 2;
                    self.hex_digits()?;
                } else {
                    self.form.has_lone_surrogates = true;
                }
            }
            0xdc00..0xe000 => self.form.has_lone_surrogates = true,
            _ => {}
        }
        Some(())
    }

    fn hex_digits(&mut self) -> Option<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            unit = unit << 4 | char::from(self.next()?).to_digit(16)?;
        }
        Some(unit)
    }

    fn rest_of_number(&mut self, first: u8) -> Option<()> {
        let from = self.at;
        self.number(first)?;
        self.form.has_long_numbers |= self.at - from >= MAX_NUMBER;
        Some(())
    }

    fn number(&mut self, mut first: u8) -> Option<()> {
        if first == b'-' {
            first = self.next()?;
        }
        match first {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            b'I' if !self.is_strict => return self.liberty("nfinity"),
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

    #[inline(always)]
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

    /// The rest of a word that JSON has not.
    fn liberty(&mut self, word: &str) -> Option<()> {
        self.form.has_words = true;
        self.word(word)
    }

    /// The next byte that is no blank, stepped over.
    #[inline(always)]
    fn token(&mut self) -> Option<u8> {
        loop {
            match self.next()? {
                b' ' | b'\t' => {}
                b'\n' => self.form.has_feeds = true,
                b'\r' => self.form.has_returns = true,
                byte => return Some(byte),
            }
        }
    }

    #[inline(always)]
    fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => {}
                Some(b'\n') => self.form.has_feeds = true,
                Some(b'\r') => self.form.has_returns = true,
                _ => return,
            }
            self.at += 1;
        }
    }

    /// Nothing but blanks is left.
    fn end(&mut self) -> Option<()> {
        self.blanks();
        (self.at == self.text.len()).then_some(())
    }

    #[inline(always)]
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline(always)]
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    #[inline(always)]
    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    #[inline(always)]
    fn expect(&mut self, byte: u8) -> Option<()> {
        self.take(byte).then_some(())
    }

    #[inline(always)]
    fn since(&self, from: usize) -> &'a str {
        self.text.get(from..self.at).unwrap_or_default()
    }
}
