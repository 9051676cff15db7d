//! Reads and writes JSON without trees: members of objects, strings and numbers.
//!
//! Promises that parts are handed out as they stand in the text, borrowed, whatever they hold and
//! however deep they go. The filter and its host both read metadata with this, so that they never disagree on what an
//! entry says. It depends on nothing and knows nothing of sessions.

use std::borrow::Cow;

mod content;
mod mend;
mod object;
mod scan;

pub use content::{is_content, join_texts, part_text, spoken_text};
pub use mend::mend_json;
pub use object::ObjectWriter;
pub use scan::{
    JsonForm, MAX_DEPTH, MAX_NUMBER, for_each_element, for_each_member, for_each_named_member, is_value, member,
    rest_of_object, scan_object,
};

/// Whether the raw key (with quotes) spells `name`.
pub fn key_matches(raw: &str, name: &str) -> bool {
    match inside(raw) {
        Some(inner) if inner == name => true,
        Some(inner) => has_escapes(inner) && decode_string(raw).is_some_and(|key| key == name),
        None => false,
    }
}

/// Whether a string, in JSON, holds an escape. (`str::contains` would bring the search for texts of any length.)
pub fn has_escapes(raw: &str) -> bool {
    raw.as_bytes().contains(&b'\\')
}

/// Decodes a raw value that is a string; `None` if it is not. Half a surrogate pair becomes U+FFFD.
pub fn decode_string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = inside(raw)?;
    Some(if is_literal(inner) { inner.into() } else { unescaped(inner).into() })
}

/// Whether a raw string has no escapes. None: the value is no string.
pub fn is_plain_string(raw: &str) -> Option<bool> {
    inside(raw).map(is_literal)
}

fn inside(raw: &str) -> Option<&str> {
    raw.strip_prefix('"')?.strip_suffix('"')
}

/// Of the inside of a raw string, in which nothing but escapes is special.
fn is_literal(inner: &str) -> bool {
    first_special(inner.as_bytes()).is_none()
}

/// Decodes the inside of a raw string that has been scanned before.
fn unescaped(inner: &str) -> String {
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.push_str(plain);
        let mut chars = escape.chars();
        let spelt = match chars.next() {
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                let (spelt, after) = numbered(chars.as_str());
                chars = after.chars();
                spelt
            }
            Some(itself) => itself,
            None => char::REPLACEMENT_CHARACTER,
        };
        out.push(spelt);
        rest = chars.as_str();
    }
    out.push_str(rest);
    out
}

/// The character whose number comes next, and what comes after it.
fn numbered(text: &str) -> (char, &str) {
    let Some((high, rest)) = unit(text) else { return (char::REPLACEMENT_CHARACTER, text) };
    if (0xd800..0xdc00).contains(&high)
        && let Some((low @ 0xdc00..0xe000, rest)) = rest.strip_prefix("\\u").and_then(unit)
    {
        let spelt = char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00));
        return (spelt.unwrap_or(char::REPLACEMENT_CHARACTER), rest);
    }
    (char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER), rest)
}

/// Four hexadecimal digits, and what comes after them.
fn unit(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    let unit = digits.chars().try_fold(0, |unit, digit| Some(unit << 4 | digit.to_digit(16)?))?;
    Some((unit, rest))
}

/// The text without the blanks around it, if it is one JSON value: of the grammar proper, because what is
/// attached to a question has to be.
pub fn as_strict_value(text: &str) -> Option<&str> {
    if is_plain(text) { Some(text) } else { scan::strict_value(text) }
}

/// As [`as_strict_value`], if every reader takes it, as a part of a line: no more than [`MAX_DEPTH`] levels deep, without numbers of more
/// than [`MAX_NUMBER`] characters and without half a surrogate pair.
pub fn as_portable_value(text: &str) -> Option<&str> {
    let is_short = text.starts_with('"') || text.len() <= MAX_NUMBER;
    if is_short && is_plain(text) { Some(text) } else { scan::portable_value(text) }
}

/// Whether it is what nearly all values are, and what needs no parser to be seen: a string without
/// escapes, or digits.
fn is_plain(text: &str) -> bool {
    match text.as_bytes() {
        [b'"', inner @ .., b'"'] => first_special(inner).is_none(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// The number that a raw value is; none if it is no number, or one beyond what a float holds. Exact for numbers of
/// up to 15 digits, 22 of them behind the point at most; else a last bit may be missed. (The standard library's
/// reader never misses one, for 15 KiB of tables, and that of serde_json would bring all of serde_json along.)
pub fn parse_number(raw: &str) -> Option<f64> {
    let (is_negative, digits) = raw.strip_prefix('-').map_or((false, raw), |digits| (true, digits));
    let (digits, power) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let has_zeros = whole.len() > 1 && whole.starts_with('0');
    if has_zeros || ![whole, fraction, power.strip_prefix(['+', '-']).unwrap_or(power)].into_iter().all(are_digits) {
        return None;
    }
    // One of more digits than that is as good as endless.
    let endless = if power.starts_with('-') { -1_000_000 } else { 1_000_000 };
    let mut exponent: i32 = power.parse().unwrap_or(endless);
    let (mut number, mut is_fraction) = (0_u64, false);
    for byte in digits.bytes() {
        if !byte.is_ascii_digit() {
            is_fraction = true;
        } else if number < u64::MAX / 100 {
            number = number * 10 + u64::from(byte - b'0');
            exponent = exponent.saturating_sub(i32::from(is_fraction));
        } else {
            // One digit more is of no weight.
            exponent = exponent.saturating_add(i32::from(!is_fraction));
        }
    }
    let exponent = exponent.clamp(-400, 400);
    #[allow(clippy::cast_precision_loss, reason = "as documented above")]
    let mut float = number as f64;
    for _ in 0..exponent.unsigned_abs() / 22 {
        float = scaled(float, 22, exponent < 0);
    }
    float = scaled(float, exponent.unsigned_abs() % 22, exponent < 0);
    float.is_finite().then_some(if is_negative { -float } else { float })
}

/// Times a power of ten that a float holds exactly, or through it.
fn scaled(float: f64, power: u32, down: bool) -> f64 {
    let factor = (0..power).fold(1.0, |factor, _| factor * 10.0);
    if down { float / factor } else { float * factor }
}

/// Where `part`, a slice of `text`, begins in it.
pub fn offset_in(text: &str, part: &str) -> usize {
    part.as_ptr().addr().saturating_sub(text.as_ptr().addr())
}

/// What comes before the first such byte, an ASCII character, and the rest from there on. In a short text it is found
/// sooner this way than by `str::split_once`, which is made for long ones.
pub fn split_before(text: &str, byte: u8) -> Option<(&str, &str)> {
    text.split_at_checked(text.bytes().position(|here| here == byte)?)
}

/// Append `text` as a JSON string. Non-ASCII text stays as it is.
pub fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = first_special(rest.as_bytes()) {
        let (plain, tail) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(plain);
        let mut tail = tail.chars();
        match tail.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some('\u{8}') => out.push_str("\\b"),
            Some('\u{c}') => out.push_str("\\f"),
            Some(control) => {
                out.push_str("\\u00");
                push_hex(out, u32::from(control), 2);
            }
            None => {}
        }
        rest = tail.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

/// Appends a raw string as [`push_string`] would write it, copied as it is where it is written like that already.
pub fn push_as_stored(out: &mut String, raw: &str) {
    let mut rest = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    while let Some((at, [b'\\', escape, ..])) =
        first_special(rest.as_bytes()).map(|at| (at, rest.as_bytes().get(at..).unwrap_or_default()))
    {
        if !b"\"\\nrtbf".contains(escape) {
            return push_string(out, &decode_string(raw).unwrap_or_default());
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    out.push_str(raw);
}

/// Where the first byte stands that a JSON string can't hold as it is: a control character, a quote or a backslash. Eight at a time: answers are most of what the filter copies,
/// and this is the only look that is taken at them.
pub fn first_special(bytes: &[u8]) -> Option<usize> {
    let is_special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    let (words, rest) = bytes.as_chunks::<8>();
    let mut at = 0;
    // Most strings end within a few words. Where one does not, several are looked at together; a compiler for a machine
    // with vectors makes use of them.
    while let Some(word) = words.get(at) {
        let found = specials(word);
        if found != 0 {
            return Some(at * 8 + found.trailing_zeros() as usize / 8);
        }
        at += 1;
        if at >= 4 {
            let (blocks, _) = words.get(at..).unwrap_or_default().as_flattened().as_chunks::<32>();
            let is_plain = |block: &&[u8; 32]| !block.iter().fold(false, |found, byte| found | is_special(byte));
            at += blocks.iter().take_while(is_plain).count() * 4;
        }
    }
    rest.iter().position(is_special).map(|at| words.len() * 8 + at)
}

/// The lowest bit that is set is in the first of the eight bytes that can't be in a JSON string as it is; none: all can.
fn specials(word: &[u8; 8]) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    let word = u64::from_le_bytes(*word);
    // A byte is below a bound when subtracting it sets its high bit and it was not set before. A borrow can
    // only give a false alarm above a true one. To flip the second bit puts the quote next to the controls,
    // and nothing else.
    let control_or_quote = (word ^ (ONES * 2)).wrapping_sub(ONES * 0x21);
    let backslash = (word ^ (ONES * u64::from(b'\\'))).wrapping_sub(ONES);
    (control_or_quote | backslash) & !word & (ONES << 7)
}

/// Append a number.
pub fn push_number(out: &mut String, number: u64) {
    const BILLION: u64 = 1_000_000_000;
    // Nine digits at a time: to divide 64 bits takes ten times as long as to divide 32.
    let low = u32::try_from(number % BILLION).unwrap_or(0);
    if number < BILLION {
        return push_digits(out, low, low.checked_ilog10().unwrap_or(0) as usize + 1);
    }
    push_number(out, number / BILLION);
    push_digits(out, low, 9);
}

/// Append the last so many digits of a number, nine at most.
pub fn push_digits(out: &mut String, mut number: u32, count: usize) {
    let mut digits = [b'0'; 9];
    for digit in digits.iter_mut().rev().take(count) {
        *digit += u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
    let digits = digits.get(digits.len().saturating_sub(count)..).unwrap_or_default();
    out.push_str(std::str::from_utf8(digits).unwrap_or_default());
}

/// Append the last `digits` hexadecimal digits of a number.
pub fn push_hex(out: &mut String, number: u32, digits: u32) {
    for place in (0..digits).rev() {
        out.push(char::from_digit((number >> (4 * place)) & 0xf, 16).unwrap_or('0'));
    }
}

/// Append bytes in lower-case base32 (RFC 4648), without padding.
pub fn push_base32(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let (mut bits, mut held) = (0_u16, 0_u8);
    let mut digit = |bits: u16| out.push(DIGITS.get(usize::from(bits & 31)).copied().map_or('a', char::from));
    for byte in bytes {
        bits = bits << 8 | u16::from(*byte);
        held += 8;
        while held >= 5 {
            held -= 5;
            digit(bits >> held);
        }
    }
    if held > 0 {
        digit(bits << (5 - held));
    }
}

#[cfg(test)]
mod tests;
