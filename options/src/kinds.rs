//! The kinds of options: one type for each, with its bounds as parameters.

use std::marker::PhantomData;

use keepline_json::{push_number, push_string};

use crate::words::Word;

/// A hundred years: beyond that, 0 (no expiry) is the honest value.
pub const MAX_HOURS: f64 = 876_000.0;

/// What an option may hold.
pub trait Kind {
    /// What holds it.
    type Value: OptionValue;
}

/// What holds an option.
pub trait OptionValue {
    /// A default, as the table has it.
    type Literal;

    /// The value of a default.
    fn of(default: Self::Literal) -> Self;

    /// Appends it as JSON.
    fn write(&self, out: &mut String);
}

/// An integer in this range, both ends included.
#[derive(Debug)]
pub struct Integer<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Integer<MIN, MAX> {
    /// The smallest.
    pub const MIN: u64 = MIN;
    /// The largest.
    pub const MAX: u64 = MAX;
}

impl<const MIN: u64, const MAX: u64> Kind for Integer<MIN, MAX> {
    type Value = u64;
}

/// 0, which stands for what is derived or for no limit, or an integer in this range.
#[derive(Debug)]
pub struct IntegerOrZero<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> IntegerOrZero<MIN, MAX> {
    /// The smallest but 0.
    pub const MIN: u64 = MIN;
    /// The largest.
    pub const MAX: u64 = MAX;
}

impl<const MIN: u64, const MAX: u64> Kind for IntegerOrZero<MIN, MAX> {
    type Value = u64;
}

/// An integer in this range. If it is not given, the filter derives it from other options: it is no less than the default.
#[derive(Debug)]
pub struct DerivedInteger<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Kind for DerivedInteger<MIN, MAX> {
    type Value = u64;
}

/// True or false.
#[derive(Debug)]
pub struct Boolean;

impl Kind for Boolean {
    type Value = bool;
}

/// A number from 0 to [`MAX_HOURS`], exact to a billionth (4 microseconds). 0 stands for ever.
#[derive(Debug)]
pub struct Hours;

impl Kind for Hours {
    type Value = f64;
}

/// A text of at most so many bytes.
#[derive(Debug)]
pub struct Text<const MAX: usize>;

impl<const MAX: usize> Kind for Text<MAX> {
    type Value = String;
}

/// A text of at most so many bytes, with `{{history}}` and `{{query}}` in it once each at most.
#[derive(Debug)]
pub struct Template<const MAX: usize>;

impl<const MAX: usize> Kind for Template<MAX> {
    type Value = String;
}

/// One of a set of words.
#[derive(Debug)]
pub struct OneOf<W>(PhantomData<W>);

impl<W: Word> Kind for OneOf<W> {
    type Value = W;
}

/// A list of words of a set.
#[derive(Debug)]
pub struct SomeOf<W>(PhantomData<W>);

impl<W: Word> Kind for SomeOf<W> {
    type Value = Vec<W>;
}

/// A list of at most so many texts, none of them empty.
#[derive(Debug)]
pub struct Texts<const MAX: usize>;

impl<const MAX: usize> Texts<MAX> {
    /// Bytes of a text.
    pub const MAX_BYTES: usize = 16 << 10;
}

impl<const MAX: usize> Kind for Texts<MAX> {
    type Value = Vec<String>;
}

/// [`Texts`] that are patterns. The filter has a type of its own in place of it, which holds them parsed.
#[derive(Debug)]
pub struct Patterns<const MAX: usize>;

impl OptionValue for u64 {
    type Literal = Self;

    fn of(default: Self) -> Self {
        default
    }

    #[inline(never)]
    fn write(&self, out: &mut String) {
        push_number(out, *self);
    }
}

impl OptionValue for bool {
    type Literal = Self;

    fn of(default: Self) -> Self {
        default
    }

    #[inline(never)]
    fn write(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" });
    }
}

impl OptionValue for f64 {
    type Literal = Self;

    fn of(default: Self) -> Self {
        default
    }

    fn write(&self, out: &mut String) {
        push_hours(out, *self);
    }
}

impl OptionValue for String {
    type Literal = &'static str;

    fn of(default: &'static str) -> Self {
        default.to_owned()
    }

    #[inline(never)]
    fn write(&self, out: &mut String) {
        push_string(out, self);
    }
}

impl OptionValue for Vec<String> {
    type Literal = &'static [&'static str];

    fn of(default: Self::Literal) -> Self {
        default.iter().map(|text| (*text).to_owned()).collect()
    }

    fn write(&self, out: &mut String) {
        push_list(out, self.iter().map(String::as_str));
    }
}

impl<W: Word> OptionValue for W {
    type Literal = W;

    fn of(default: W) -> W {
        default
    }

    fn write(&self, out: &mut String) {
        push_string(out, self.as_str());
    }
}

impl<W: Word> OptionValue for Vec<W> {
    type Literal = &'static [&'static str];

    fn of(default: Self::Literal) -> Self {
        default.iter().filter_map(|word| W::of(word)).collect()
    }

    fn write(&self, out: &mut String) {
        push_list(out, self.iter().map(|word| word.as_str()));
    }
}

/// Appends a list of strings as JSON.
pub fn push_list<'a>(out: &mut String, texts: impl Iterator<Item = &'a str>) {
    out.push('[');
    for (index, text) in texts.enumerate() {
        out.push_str(if index > 0 { ", " } else { "" });
        push_string(out, text);
    }
    out.push(']');
}

/// Appends hours with at most nine decimals; more than 0 is never written as 0, and what is no number is out of range.
/// (The standard library's writer of floats would be a tenth of the component.)
pub fn push_hours(out: &mut String, hours: f64) {
    const BILLION: u64 = 1_000_000_000;
    let sign = if hours.is_nan() || hours < 0.0 { "-" } else { "" };
    let billionths = match billionths(hours.abs()) {
        0 if hours != 0.0 => 1,
        billionths => billionths,
    };
    let text = format!("{sign}{}.{:09}", billionths / BILLION, billionths % BILLION);
    out.push_str(text.trim_end_matches('0').trim_end_matches('.'));
}

/// Hours in billionths, rounded.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; below 2^53 up to MAX_HOURS")]
pub fn billionths(hours: f64) -> u64 {
    (hours * 1e9 + 0.5) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(hours: f64) -> String {
        let mut out = String::new();
        push_hours(&mut out, hours);
        out
    }

    #[test]
    fn hours_are_written_in_decimals_and_what_is_out_of_range_stays_so() {
        for (hours, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (24.0, "24"),
            (0.1, "0.1"),
            (1e-300, "0.000000001"),
            (875_999.123_456_789, "875999.123456789"),
            (-1.5, "-1.5"),
            (f64::NAN, "-0.000000001"),
        ] {
            assert_eq!(written(hours), text);
        }
        for hours in [1e300, f64::INFINITY] {
            assert!(written(hours).parse::<f64>().unwrap() > MAX_HOURS);
        }
    }
}
