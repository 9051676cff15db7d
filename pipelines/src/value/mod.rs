//! JSON values as pipelines see them: members keep their order, and a clone costs a reference count.

pub(crate) mod items;

use std::{cmp::Ordering, fmt, io, rc::Rc};

use indexmap::IndexMap;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::Number;

/// The members of an object, in the order in which they were written. Of a name that occurs twice, the last value holds.
pub type Object = IndexMap<Rc<str>, Value>;

/// A JSON value.
#[derive(Clone, Debug, Default)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    Text(Rc<str>),
    List(Rc<Vec<Self>>),
    Object(Rc<Object>),
}

/// Levels of what comes from outside.
pub const LEVELS: usize = 100;

impl Value {
    /// Parse JSON text.
    ///
    /// # Errors
    /// When it is not JSON, or nested deeper than 128 levels; the message has line and column.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// Parse JSON that comes from outside: what is made of it, with more around it, is read again by others, most of which
    /// allow 128 levels.
    ///
    /// # Errors
    /// When it is not JSON, or nested deeper than [`LEVELS`].
    pub fn parse_input(text: &str) -> Result<Self, String> {
        let value = Self::parse(text).map_err(|error| format!("not JSON: {error}"))?;
        value.check_depth().map(|()| value)
    }

    /// # Errors
    /// When it is nested deeper than [`LEVELS`].
    pub fn check_depth(&self) -> Result<(), String> {
        if self.fits_levels(LEVELS) { Ok(()) } else { Err(format!("nested deeper than {LEVELS} levels")) }
    }

    fn fits_levels(&self, levels: usize) -> bool {
        let fits = |value: &Self| levels > 0 && value.fits_levels(levels - 1);
        match self {
            Self::List(items) => levels > 0 && items.iter().all(fits),
            Self::Object(members) => levels > 0 && members.values().all(fits),
            _ => true,
        }
    }

    /// As compact JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub fn text(text: impl Into<Rc<str>>) -> Self {
        Self::Text(text.into())
    }

    pub fn list(items: Vec<Self>) -> Self {
        Self::List(Rc::new(items))
    }

    pub fn object<N: Into<Rc<str>>>(members: impl IntoIterator<Item = (N, Self)>) -> Self {
        Self::Object(Rc::new(members.into_iter().map(|(name, value)| (name.into(), value)).collect()))
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub fn as_number(&self) -> Option<f64> {
        if let Self::Number(number) = self { number.as_f64() } else { None }
    }

    /// A whole number of at least 0. `7.0` is 7.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub fn as_whole(&self) -> Option<u64> {
        let Self::Number(number) = self else {
            return None;
        };
        let whole = |number: &f64| number.fract() == 0.0 && (0.0..u64::MAX as f64).contains(number);
        number.as_u64().or_else(|| number.as_f64().filter(whole).map(|number| number as u64))
    }

    pub fn as_list(&self) -> Option<&[Self]> {
        if let Self::List(items) = self { Some(items) } else { None }
    }

    pub fn as_object(&self) -> Option<&Object> {
        if let Self::Object(members) = self { Some(members) } else { None }
    }

    /// The member of exactly this name. Of what is no object: none.
    pub fn member(&self, name: &str) -> Option<&Self> {
        self.as_object()?.get(name)
    }

    /// The value of a field: the member of that exact name, else what a dotted path leads to, where digits go into lists.
    /// Null counts as not there.
    pub fn field(&self, path: &str) -> Option<&Self> {
        self.field_or_null(path).filter(|value| !value.is_null())
    }

    /// As [`Self::field`], where null is a value.
    pub fn field_or_null(&self, path: &str) -> Option<&Self> {
        if let Some(value) = self.member(path) {
            return Some(value);
        }
        path.split('.').try_fold(self, Self::part)
    }

    fn part(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.get(name),
            Self::List(items) if name.bytes().all(|byte| byte.is_ascii_digit()) => {
                items.get(name.parse::<usize>().ok()?)
            }
            _ => None,
        }
    }

    /// Whether it takes at most so many bytes as compact JSON. What is shared counts wherever it occurs.
    pub fn fits(&self, bytes: usize) -> bool {
        serde_json::to_writer(Room(bytes), self).is_ok()
    }

    /// How a message names this kind of value.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// The order between two numbers or two texts (by code point); anything else has none.
    pub fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Number(one), Self::Number(two)) => compare_numbers(one, two),
            (Self::Text(one), Self::Text(two)) => Some(one.cmp(two)),
            _ => None,
        }
    }
}

/// The value of a field of an object, as [`Value::field`].
pub fn field_of<'a>(members: &'a Object, path: &str) -> Option<&'a Value> {
    let by_path = || {
        let (head, rest) = path.split_once('.')?;
        rest.split('.').try_fold(members.get(head)?, Value::part)
    };
    members.get(path).or_else(by_path).filter(|value| !value.is_null())
}

/// Counts what is written down to nothing left.
struct Room(usize);

impl io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::WriteZero)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn compare_numbers(one: &Number, two: &Number) -> Option<Ordering> {
    match (one.as_i128(), two.as_i128()) {
        (Some(one), Some(two)) => Some(one.cmp(&two)),
        _ => one.as_f64()?.partial_cmp(&two.as_f64()?),
    }
}

/// Numbers by value (`7` is `7.0`), objects whatever the order of their members.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(two)) => one == two,
            (Self::Number(one), Self::Number(two)) => compare_numbers(one, two) == Some(Ordering::Equal),
            (Self::Text(one), Self::Text(two)) => one == two,
            (Self::List(one), Self::List(two)) => one == two,
            (Self::Object(one), Self::Object(two)) => one == two,
            _ => false,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number.into())
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(number.into())
    }
}

/// What is no JSON number, such as an infinity, is null.
impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Number::from_f64(number).map_or(Self::Null, Self::Number)
    }
}

impl From<Vec<Self>> for Value {
    fn from(items: Vec<Self>) -> Self {
        Self::list(items)
    }
}

impl From<Object> for Value {
    fn from(members: Object) -> Self {
        Self::Object(Rc::new(members))
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items.iter()),
            Self::Object(members) => serializer.collect_map(members.iter().map(|(name, value)| (&**name, value))),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("not a JSON number"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::list(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Object::new();
        while let Some((name, value)) = members.next_entry::<Box<str>, Value>()? {
            object.insert(name.into(), value);
        }
        if object.contains_key("$serde_json::private::Number") {
            return Err(A::Error::custom("a member of this name is not allowed"));
        }
        Ok(Value::from(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_the_last_of_a_name_holds() {
        let value = Value::parse(r#"{"b":1,"a":[true,null,"x"],"b":2.5}"#).unwrap();
        assert_eq!(value.to_json(), r#"{"b":2.5,"a":[true,null,"x"]}"#);
    }

    #[test]
    fn numbers_are_equal_by_value() {
        let equal = |one: &str, two: &str| Value::parse(one).unwrap() == Value::parse(two).unwrap();
        assert!(equal("7", "7.0") && equal("[1e2]", "[100]") && equal(r#"{"a":1,"b":2}"#, r#"{"b":2.0,"a":1}"#));
        assert!(!equal("7", r#""7""#) && !equal("9007199254740993", "9007199254740992"));
    }

    #[test]
    fn a_field_is_an_exact_member_before_it_is_a_path() {
        let value = Value::parse(r#"{"a.b":1,"a":{"b":2,"c":[{"d":3}],"e":null}}"#).unwrap();
        let number = |path| value.field(path).and_then(Value::as_whole);
        assert_eq!((number("a.b"), number("a.c.0.d"), number("a.c.+0.d")), (Some(1), Some(3), None));
        assert!(value.field("a.e").is_none() && value.field_or_null("a.e").is_some());
    }
}
