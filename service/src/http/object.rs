//! JSON objects whose members stay in their order and as they were written, digits included.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, MapAccess, Visitor, value::MapAccessDeserializer},
    ser::SerializeMap,
};
use serde_json::value::RawValue;

use super::ApiError;

/// An object. Of members with the same name, the last one holds.
#[derive(Clone, Debug, Default)]
pub struct JsonObject(Vec<(String, Box<RawValue>)>);

impl JsonObject {
    /// Reads the JSON text of an object.
    ///
    /// # Errors
    /// `malformed` where the text is no JSON, `invalid` where it is something else, at the empty path: the whole.
    pub fn parse(text: &[u8]) -> Result<Self, ApiError> {
        let malformed = |error| {
            let message = format!("the body is no JSON: {error}");
            ApiError::new(axum::http::StatusCode::BAD_REQUEST, "malformed", message)
        };
        let value: &RawValue = serde_json::from_slice(text).map_err(malformed)?;
        Self::of(value).ok_or_else(|| ApiError::invalid("", "an object is required"))
    }

    /// The object that a value is. None: it is none.
    pub fn of(value: &RawValue) -> Option<Self> {
        serde_json::from_str(value.get()).ok()
    }

    /// A member, unless it is missing or null.
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        let found = self.0.iter().find(|(own, _)| own == name).map(|(_, value)| &**value);
        found.filter(|value| value.get() != "null")
    }

    /// A member as something else. None: it is missing, null, or can't be that.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// A member that has to be something else, if it is there.
    ///
    /// # Errors
    /// `invalid`, at the member: it is not `wanted`.
    pub fn expect<T: DeserializeOwned>(&self, name: &str, wanted: &str) -> Result<Option<T>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let read = serde_json::from_str(value.get()).map(Some);
        read.map_err(|_| ApiError::invalid(name, format!("{name} must be {wanted}")))
    }

    /// Names and values.
    pub fn members(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Puts a member in the place of the one that has its name, or else last.
    pub fn set(&mut self, name: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(own, _)| own == name) {
            Some((_, own)) => *own = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// The same with anything that can be written.
    pub fn put(&mut self, name: &str, value: &impl Serialize) {
        self.set(name, raw(value));
    }

    /// Takes a member out.
    pub fn remove(&mut self, name: &str) -> Option<Box<RawValue>> {
        let position = self.0.iter().position(|(own, _)| own == name)?;
        Some(self.0.remove(position).1)
    }

    /// As JSON.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A value as it is written. What can't be written is null.
pub fn raw(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_default()
}

impl Serialize for JsonObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = JsonObject;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonObject, A::Error> {
                let mut object = JsonObject::default();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    object.set(&name, value);
                }
                Ok(object)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// A value that is written as an object. Without it, an array of the members' values would be one, too.
#[derive(Debug)]
pub struct OnlyObject<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OnlyObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = OnlyObject<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OnlyObject<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(OnlyObject)
            }
        }

        deserializer.deserialize_map(Members(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_their_digits() {
        let mut object =
            JsonObject::parse(br#"{"z": 1.10, "a": {"y":1,"b":2}, "z": 12345678901234567890.10}"#).unwrap();
        object.put("a", &"x");
        object.put("last", &true);
        assert_eq!(object.to_text(), r#"{"z":12345678901234567890.10,"a":"x","last":true}"#);
    }

    #[test]
    fn what_is_no_json_is_malformed_and_what_is_no_object_is_invalid_as_a_whole() {
        assert_eq!(JsonObject::parse(b"{,}").unwrap_err().code, "malformed");
        let whole = JsonObject::parse(b"[]").unwrap_err();
        assert_eq!((&*whole.code, whole.path.as_deref()), ("invalid", Some("")));
    }
}
