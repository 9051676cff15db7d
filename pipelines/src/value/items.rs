//! What is known of items: which there are, their text, their length, their order, and their times.

use std::{cmp::Ordering, rc::Rc};

use crate::value::Value;

/// The items of a step's result: of a list its elements, of groups their items one group after the other, of a text that
/// text, unless it is empty.
pub fn items_of(data: &Value) -> Vec<Value> {
    match data {
        Value::Null => Vec::new(),
        Value::List(items) => items.to_vec(),
        Value::Object(groups) if groups.values().all(|group| group.as_list().is_some()) => {
            groups.values().flat_map(|group| group.as_list().unwrap_or_default().to_vec()).collect()
        }
        Value::Text(text) if text.is_empty() => Vec::new(),
        other => vec![other.clone()],
    }
}

/// The members that an item's text may be in, in this order.
const TEXT_MEMBERS: [&str; 7] = ["text", "content", "value", "label", "name", "title", "message"];

/// The member that holds an item's text.
pub fn text_member(item: &Value) -> Option<(&'static str, &Value)> {
    TEXT_MEMBERS.into_iter().find_map(|name| Some((name, item.member(name).filter(|value| !value.is_null())?)))
}

/// An item's text: itself, or one of its members, or of its payload's; otherwise its JSON.
pub fn item_text(item: &Value) -> Rc<str> {
    let found = text_member(item).or_else(|| text_member(item.member("payload")?));
    match found.map_or(item, |(_, value)| value) {
        Value::Text(text) => Rc::clone(text),
        other => other.to_json().into(),
    }
}

/// What a text is estimated to take: its characters over four, rounded up.
pub fn token_estimate(text: &str) -> usize {
    text.chars().count().div_ceil(4)
}

/// An RFC 3339 instant in milliseconds since 1970.
pub fn parse_instant(text: &str) -> Option<i64> {
    // Everything else that the library reads has no `T` there.
    let is_rfc_3339 = text.as_bytes().get(10).is_some_and(|byte| matches!(byte, b'T' | b't'));
    is_rfc_3339.then(|| text.parse::<jiff::Timestamp>().ok()).flatten().map(jiff::Timestamp::as_millisecond)
}

/// An instant, or a time before `now` such as `-7d`, in milliseconds since 1970.
pub fn parse_bound(text: &str, now: i64) -> Option<i64> {
    let ago = text.strip_prefix('-').and_then(parse_duration);
    ago.map(|ago| now.saturating_sub(ago)).or_else(|| parse_instant(text))
}

/// A time such as `7d`, `12h`, `30m` or `10s`, in milliseconds.
pub fn parse_duration(text: &str) -> Option<i64> {
    let unit = text.chars().next_back()?;
    let digits = text.strip_suffix(unit)?;
    let milliseconds = match unit {
        's' => 1_000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => 86_400_000,
        'w' => 604_800_000,
        _ => return None,
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse::<i64>().ok()?.checked_mul(milliseconds)).flatten()
}

/// How values are sorted.
#[derive(PartialEq, PartialOrd)]
enum SortKey<'a> {
    Nothing,
    Text(&'a str),
    /// A number, or an instant in milliseconds since 1970.
    Number(f64),
}

impl<'a> SortKey<'a> {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds")]
    fn of(value: Option<&'a Value>) -> Self {
        match value {
            Some(Value::Number(number)) => number.as_f64().map_or(Self::Nothing, Self::Number),
            Some(Value::Text(text)) => parse_instant(text).map_or(Self::Text(text), |at| Self::Number(at as f64)),
            _ => Self::Nothing,
        }
    }
}

/// The descending order of two values: numbers and instants together, then other texts, then what is neither.
pub fn compare_for_sort(one: Option<&Value>, two: Option<&Value>) -> Ordering {
    SortKey::of(two).partial_cmp(&SortKey::of(one)).unwrap_or(Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> String {
        item_text(&Value::parse(json).unwrap()).to_string()
    }

    #[test]
    fn the_text_of_an_item_is_its_first_text_member() {
        assert_eq!(text(r#"{"title":"T","text":null,"name":"N"}"#), "N");
        assert_eq!(text(r#"{"payload":{"note":1,"message":"m"}}"#), "m");
        assert_eq!([text("5"), text(r#"{"x":1}"#), text(r#"{"value":[1,2]}"#)], ["5", r#"{"x":1}"#, "[1,2]"]);
    }

    #[test]
    fn numbers_and_instants_are_sorted_before_texts_and_texts_before_nothing() {
        let values =
            Value::parse(r#"[null,"b","2026-03-01T12:30:00+02:00",1772362000000,"a",{},"2026-03-01T11:00:00Z"]"#)
                .unwrap();
        let mut values = values.as_list().unwrap().to_vec();
        values.sort_by(|one, two| compare_for_sort(Some(one), Some(two)));
        let sorted = Value::list(values).to_json();
        assert_eq!(sorted, r#"["2026-03-01T11:00:00Z",1772362000000,"2026-03-01T12:30:00+02:00","b","a",null,{}]"#);
    }

    #[test]
    fn times_have_a_number_and_a_unit() {
        let expected = [604_800_000, 43_200_000, 1_800_000, 5_000].map(Some);
        assert_eq!(["7d", "12h", "30m", "5s"].map(parse_duration), expected);
        assert_eq!(["", "d", "-1d", "+1d", "1.5h", "1y", "99999999999999999d", "1é"].map(parse_duration), [None; 8]);
    }

    #[test]
    fn instants_are_rfc_3339() {
        assert_eq!(parse_instant("1970-01-01T00:00:01.5Z"), Some(1500));
        assert_eq!(["", "2026-01-31", "2026-03-01 12:00:00Z", "2026-03-01T12:00:00"].map(parse_instant), [None; 4]);
    }
}
