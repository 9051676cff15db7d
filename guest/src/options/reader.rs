//! Reads options from JSON, each by its kind, or says what is allowed.

use keepline_json as json;
use keepline_options::kinds::{
    Boolean, DerivedInteger, Hours, Integer, IntegerOrZero, Kind, MAX_HOURS, OneOf, OptionValue, SomeOf, Template,
    Text, Texts, billionths, push_list,
};
use keepline_options::words::Word;
use std::borrow::Cow;

use crate::contract::Problem;
use crate::text;
use crate::text::quoting::cut_to_line;
use crate::text::redact::RedactPattern;

/// An option as it was given.
pub(crate) struct Reader<'a> {
    pub(crate) field: &'a str,
    /// Its JSON.
    pub(crate) raw: &'a str,
}

/// A kind of option that can be read.
pub(crate) trait Read: Kind {
    /// Sets an option; null stands for the default. One that is refused stays as it was. (A value returned to each of fifty
    /// callers would make these half as large again.)
    fn read(
        option: &mut Self::Value,
        reader: &Reader<'_>,
        default: <Self::Value as OptionValue>::Literal,
    ) -> Result<(), Box<Problem>>;
}

/// A default that is a list.
type TextList = &'static [&'static str];

impl<const MIN: u64, const MAX: u64> Read for Integer<MIN, MAX> {
    fn read(option: &mut u64, reader: &Reader<'_>, default: u64) -> Result<(), Box<Problem>> {
        integer(option, reader, default, MIN, MAX)
    }
}

impl<const MIN: u64, const MAX: u64> Read for DerivedInteger<MIN, MAX> {
    /// 0, which is no value, until it is derived.
    fn read(option: &mut u64, reader: &Reader<'_>, _: u64) -> Result<(), Box<Problem>> {
        integer(option, reader, 0, MIN, MAX)
    }
}

impl<const MIN: u64, const MAX: u64> Read for IntegerOrZero<MIN, MAX> {
    fn read(option: &mut u64, reader: &Reader<'_>, default: u64) -> Result<(), Box<Problem>> {
        integer_or_zero(option, reader, default, MIN, MAX)
    }
}

impl Read for Boolean {
    fn read(option: &mut bool, reader: &Reader<'_>, default: bool) -> Result<(), Box<Problem>> {
        *option = match reader.raw {
            "null" => default,
            "true" => true,
            "false" => false,
            _ => return Err(reader.problem("true or false")),
        };
        Ok(())
    }
}

impl Read for Hours {
    fn read(option: &mut f64, reader: &Reader<'_>, default: f64) -> Result<(), Box<Problem>> {
        *option = match json::parse_number(reader.raw) {
            _ if reader.raw == "null" => default,
            Some(hours) if (0.0..=MAX_HOURS).contains(&hours) => to_the_billionth(hours),
            _ => return Err(reader.problem("a number from 0 (for ever) to 876000")),
        };
        Ok(())
    }
}

impl<const MAX: usize> Read for Text<MAX> {
    fn read(option: &mut String, reader: &Reader<'_>, default: &'static str) -> Result<(), Box<Problem>> {
        text(option, reader, default, MAX)
    }
}

impl<const MAX: usize> Read for Template<MAX> {
    fn read(option: &mut String, reader: &Reader<'_>, default: &'static str) -> Result<(), Box<Problem>> {
        let mut template = String::new();
        text(&mut template, reader, default, MAX)?;
        let is_once = |name| {
            let after = text::split_once(&template, name);
            after.is_none_or(|(_, after)| text::find_substring(after, name).is_none())
        };
        if !is_once("{{history}}") || !is_once("{{query}}") {
            return Err(reader.problem("a text that has {{history}} and {{query}} once each at most"));
        }
        *option = template;
        Ok(())
    }
}

impl<const MAX: usize> Read for Texts<MAX> {
    fn read(option: &mut Vec<String>, reader: &Reader<'_>, default: TextList) -> Result<(), Box<Problem>> {
        texts(option, reader, default, MAX)
    }
}

/// Texts that are patterns, parsed.
#[derive(Debug)]
pub struct Patterns<const MAX: usize>;

impl<const MAX: usize> Kind for Patterns<MAX> {
    type Value = PatternList;
}

/// The value of such an option.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PatternList(pub Vec<RedactPattern>);

impl OptionValue for PatternList {
    type Literal = TextList;

    fn of(default: TextList) -> Self {
        Self(default.iter().filter_map(|text| RedactPattern::parse(text).ok()).collect())
    }

    fn write(&self, out: &mut String) {
        push_list(out, self.0.iter().map(RedactPattern::as_str));
    }
}

impl<const MAX: usize> Read for Patterns<MAX> {
    fn read(option: &mut PatternList, reader: &Reader<'_>, default: TextList) -> Result<(), Box<Problem>> {
        let pattern = |text: &String| RedactPattern::parse(text).map_err(|why| reader.problem(&why));
        let mut list = Vec::new();
        texts(&mut list, reader, default, MAX)?;
        option.0 = list.iter().map(pattern).collect::<Result<_, _>>()?;
        Ok(())
    }
}

impl<W: Word> Read for OneOf<W> {
    fn read(option: &mut W, reader: &Reader<'_>, default: W) -> Result<(), Box<Problem>> {
        let mut index = option.index();
        let read = word(&mut index, reader, default.index(), W::WORDS);
        *option = W::at(index);
        read
    }
}

impl<W: Word> Read for SomeOf<W> {
    fn read(option: &mut Vec<W>, reader: &Reader<'_>, default: TextList) -> Result<(), Box<Problem>> {
        let mut list = Vec::new();
        texts(&mut list, reader, default, LIST_MAX)?;
        let mut words = Vec::new();
        for text in list {
            match W::of(&text) {
                Some(word) => words.push(word),
                None => return Err(reader.problem(&["a list of ", &listed(W::WORDS, " and ")].concat())),
            }
        }
        *option = words;
        Ok(())
    }
}

/// Words of a list, at most.
const LIST_MAX: usize = 64;

impl Reader<'_> {
    fn problem(&self, allowed: &str) -> Box<Problem> {
        Problem::invalid(self.field, format!("{} must be {allowed}, not {}", self.field, cut_to_line(self.raw)))
    }
}

/// The index of one of these words.
fn word(option: &mut usize, reader: &Reader<'_>, default: usize, words: &[&str]) -> Result<(), Box<Problem>> {
    let given = json::decode_string(reader.raw);
    *option = match words.iter().position(|word| given.as_deref() == Some(*word)) {
        _ if reader.raw == "null" => default,
        Some(index) => index,
        None => return Err(reader.problem(&listed(words, " or "))),
    };
    Ok(())
}

/// In quotes, with commas between them, and `last` before the last.
fn listed(words: &[&str], last: &str) -> String {
    let mut out = String::new();
    for (left, word) in (0..words.len()).rev().zip(words) {
        let after = if left > 1 { ", " } else { last };
        out.extend(["\"", word, "\"", if left > 0 { after } else { "" }]);
    }
    out
}

fn integer(option: &mut u64, reader: &Reader<'_>, default: u64, min: u64, max: u64) -> Result<(), Box<Problem>> {
    // All bounds are far below 2^53: a float holds what may be given exactly.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "checked to be integral and within bounds that a float holds"
    )]
    let number = match json::parse_number(reader.raw) {
        _ if reader.raw == "null" => default,
        Some(number) if number.fract() == 0.0 && (min as f64..=max as f64).contains(&number) => number as u64,
        _ => return Err(reader.problem(&format!("an integer from {min} to {max}"))),
    };
    *option = number;
    Ok(())
}

fn integer_or_zero(
    option: &mut u64,
    reader: &Reader<'_>,
    default: u64,
    min: u64,
    max: u64,
) -> Result<(), Box<Problem>> {
    let mut number = 0;
    match integer(&mut number, reader, default, 0, max) {
        Ok(()) if number == 0 || number >= min => {
            *option = number;
            Ok(())
        }
        _ => Err(reader.problem(&format!("0 or an integer from {min} to {max}"))),
    }
}

/// Rounded as it is written, so that what is shown to be in force is read as the same number again; more than 0 stays so.
fn to_the_billionth(hours: f64) -> f64 {
    if hours <= 0.0 {
        // -0 as well.
        return 0.0;
    }
    #[allow(clippy::cast_precision_loss, reason = "below 2^53")]
    let billionths = billionths(hours).max(1) as f64;
    billionths / 1e9
}

/// A text; or a number or boolean, taken as it is spelt, as command lines and environments pass a text like `2026`.
fn text(option: &mut String, reader: &Reader<'_>, default: &str, max: usize) -> Result<(), Box<Problem>> {
    let is_spelt = reader.raw.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let spelt = || is_spelt.then_some(Cow::Borrowed(reader.raw));
    *option = match json::decode_string(reader.raw).or_else(spelt) {
        _ if reader.raw == "null" => default.to_owned(),
        Some(text) if text.len() <= max => text.into_owned(),
        _ => return Err(reader.problem(&format!("a text of at most {max} bytes"))),
    };
    Ok(())
}

/// A list of texts, none of them empty; or, as command lines and environments pass lists, a text that spells one.
fn texts(option: &mut Vec<String>, reader: &Reader<'_>, default: &[&str], max: usize) -> Result<(), Box<Problem>> {
    if reader.raw == "null" {
        *option = default.iter().map(|text| (*text).to_owned()).collect();
        return Ok(());
    }
    let spelt = json::decode_string(reader.raw);
    let raw = spelt.as_deref().unwrap_or(reader.raw);
    let mut list = Vec::new();
    let mut is_good = true;
    let read = json::for_each_element(raw, |raw| match json::decode_string(raw) {
        Some(text) if !text.is_empty() && text.len() <= Texts::<0>::MAX_BYTES => list.push(text.into_owned()),
        _ => is_good = false,
    });
    if read.is_none() || !is_good || list.len() > max {
        return Err(reader.problem(&format!("a JSON list of at most {max} texts, none of them empty")));
    }
    *option = list;
    Ok(())
}
