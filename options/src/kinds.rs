//! What an option may hold: one type a kind, with its bounds as parameters.

use std::marker::PhantomData;

use keepline_json::{push_number, push_string};

use crate::words::Word;

/// A hundred years: beyond that, 0 (for ever) is the honest value.
pub const MAX_HOURS: f64 = 876_000.0;

/// What an option may hold.
pub trait Kind {
    /// What holds it.
    type Value;
    /// A default, as the table has it.
    type Literal: Into<Default>;
    /// The same for programs, such as those that write a schema.
    const HOLDS: Holds;

    /// The value of a default.
    fn value(default: Self::Literal) -> Self::Value;

    /// Appends a value as JSON.
    fn write(value: &Self::Value, out: &mut String);

    /// Whether `configure` replies with a value. Almost always it does.
    fn is_shown(_: &Self::Value) -> bool {
        true
    }
}

/// What an option may hold, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// An integer in this range, both ends included.
    Integer {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// 0, or an integer in this range, both ends included.
    IntegerOrZero {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// True or false.
    Boolean,
    /// A number from 0 to [`MAX_HOURS`].
    Hours,
    /// A text.
    Text {
        /// Bytes, at most.
        max: usize,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of texts, none of them empty.
    Texts {
        /// Texts, at most; each of [`Texts::MAX_BYTES`] at most.
        max: usize,
    },
    /// A list of these words.
    Words(&'static [&'static str]),
}

/// A default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// An integer.
    Integer(u64),
    /// A number.
    Hours(f64),
    /// True or false.
    Boolean(bool),
    /// A text, or a word.
    Text(&'static str),
    /// A list.
    Texts(&'static [&'static str]),
}

macro_rules! defaults {
    ($( $variant:ident($type:ty), )+) => {
        $(
            impl From<$type> for Default {
                fn from(literal: $type) -> Self {
                    Self::$variant(literal)
                }
            }
        )+
    };
}

defaults! {
    Integer(u64),
    Hours(f64),
    Boolean(bool),
    Text(&'static str),
    Texts(&'static [&'static str]),
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

/// 0, which stands for what is derived or for no limit, or an integer in this range.
#[derive(Debug)]
pub struct IntegerOrZero<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> IntegerOrZero<MIN, MAX> {
    /// The smallest but 0.
    pub const MIN: u64 = MIN;
    /// The largest.
    pub const MAX: u64 = MAX;
}

/// An integer in this range. If it is not given, the filter derives it from other options: it is no less than the default.
#[derive(Debug)]
pub struct DerivedInteger<const MIN: u64, const MAX: u64>;

/// True or false.
#[derive(Debug)]
pub struct Boolean;

/// True or false; `configure` replies with it only if it is false.
#[derive(Debug)]
pub struct BooleanShownIfFalse;

/// A number from 0 to [`MAX_HOURS`], exact to a billionth (4 microseconds). 0 stands for ever.
#[derive(Debug)]
pub struct Hours;

/// A text of at most so many bytes.
#[derive(Debug)]
pub struct Text<const MAX: usize>;

/// A text of at most so many bytes, with `{{history}}` and `{{query}}` in it once each at most.
#[derive(Debug)]
pub struct Template<const MAX: usize>;

/// One of a set of words.
#[derive(Debug)]
pub struct OneOf<W>(PhantomData<W>);

/// A list of words of a set.
#[derive(Debug)]
pub struct SomeOf<W>(PhantomData<W>);

/// A list of at most so many texts, none of them empty.
#[derive(Debug)]
pub struct Texts<const MAX: usize>;

impl<const MAX: usize> Texts<MAX> {
    /// Bytes of a text.
    pub const MAX_BYTES: usize = 16 << 10;
}

/// [`Texts`] that are patterns. The filter has a type of its own in place of it, which holds them parsed.
#[derive(Debug)]
pub struct Patterns<const MAX: usize>;

macro_rules! integers {
    ($( $kind:ident: $holds:ident; )+) => {
        $(
            impl<const MIN: u64, const MAX: u64> Kind for $kind<MIN, MAX> {
                type Value = u64;
                type Literal = u64;
                const HOLDS: Holds = Holds::$holds { min: MIN, max: MAX };

                fn value(default: u64) -> u64 {
                    default
                }

                fn write(value: &u64, out: &mut String) {
                    push_integer(out, *value);
                }
            }
        )+
    };
}

integers! {
    Integer: Integer;
    IntegerOrZero: IntegerOrZero;
    DerivedInteger: Integer;
}

impl Kind for Boolean {
    type Value = bool;
    type Literal = bool;
    const HOLDS: Holds = Holds::Boolean;

    fn value(default: bool) -> bool {
        default
    }

    #[inline(never)]
    fn write(value: &bool, out: &mut String) {
        out.push_str(if *value { "true" } else { "false" });
    }
}

impl Kind for BooleanShownIfFalse {
    type Value = bool;
    type Literal = bool;
    const HOLDS: Holds = Holds::Boolean;

    fn value(default: bool) -> bool {
        default
    }

    fn write(value: &bool, out: &mut String) {
        Boolean::write(value, out);
    }

    fn is_shown(value: &bool) -> bool {
        !value
    }
}

impl Kind for Hours {
    type Value = f64;
    type Literal = f64;
    const HOLDS: Holds = Holds::Hours;

    fn value(default: f64) -> f64 {
        default
    }

    fn write(value: &f64, out: &mut String) {
        push_hours(out, *value);
    }
}

macro_rules! texts {
    ($( $kind:ident; )+) => {
        $(
            impl<const MAX: usize> Kind for $kind<MAX> {
                type Value = String;
                type Literal = &'static str;
                const HOLDS: Holds = Holds::Text { max: MAX };

                fn value(default: &'static str) -> String {
                    default.to_owned()
                }

                fn write(value: &String, out: &mut String) {
                    push_text(out, value);
                }
            }
        )+
    };
}

texts! {
    Text;
    Template;
}

macro_rules! lists {
    ($( $kind:ident; )+) => {
        $(
            impl<const MAX: usize> Kind for $kind<MAX> {
                type Value = Vec<String>;
                type Literal = &'static [&'static str];
                const HOLDS: Holds = Holds::Texts { max: MAX };

                fn value(default: Self::Literal) -> Vec<String> {
                    default.iter().map(|text| (*text).to_owned()).collect()
                }

                fn write(value: &Vec<String>, out: &mut String) {
                    push_list(out, value.iter().map(String::as_str));
                }
            }
        )+
    };
}

lists! {
    Texts;
    Patterns;
}

impl<W: Word> Kind for OneOf<W> {
    type Value = W;
    type Literal = W;
    const HOLDS: Holds = Holds::Word(W::WORDS);

    fn value(default: W) -> W {
        default
    }

    fn write(value: &W, out: &mut String) {
        push_text(out, value.as_str());
    }
}

impl<W: Word> Kind for SomeOf<W> {
    type Value = Vec<W>;
    type Literal = &'static [&'static str];
    const HOLDS: Holds = Holds::Words(W::WORDS);

    fn value(default: Self::Literal) -> Vec<W> {
        default.iter().filter_map(|word| W::of(word)).collect()
    }

    fn write(value: &Vec<W>, out: &mut String) {
        push_list(out, value.iter().map(|word| word.as_str()));
    }
}

// Each option calls these: inlined, they would be a hundredth of the component.
#[inline(never)]
fn push_integer(out: &mut String, number: u64) {
    push_number(out, number);
}

#[inline(never)]
fn push_text(out: &mut String, text: &str) {
    push_string(out, text);
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
