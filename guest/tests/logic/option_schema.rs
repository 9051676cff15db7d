//! Makes `wit/schemas/options.schema.json` of the table of options, and holds `configure` to it.

use keepline_filter::Config;
use keepline_options::kinds::*;
use keepline_options::words::*;
use keepline_options::{bucket_names::SessionIds, conversation_options, session_options};
use serde_json::{Map, Value, json};

const SCHEMA: &str = include_str!("../../../wit/schemas/options.schema.json");

/// Has the file written anew, instead of compared.
const WRITE: &str = "KEEPLINE_WRITE_SCHEMAS";

/// Of the filter, the parsed ones; here as they are written.
struct Patterns<const MAX: usize>;

impl<const MAX: usize> Kind for Patterns<MAX> {
    type Value = Vec<String>;
}

/// A kind of option as a schema. `null` is allowed for each.
trait Shape {
    fn shape() -> Value;
}

fn integers(min: u64, max: u64) -> Value {
    json!({"type": ["integer", "null"], "minimum": min, "maximum": max})
}

fn texts(max: usize) -> Value {
    json!({"type": ["string", "number", "boolean", "null"], "maxLength": max, "x-max-bytes": max})
}

fn lists(max: usize, item: &Value) -> Value {
    let list = json!({"type": "array", "maxItems": max, "items": item});
    json!({"anyOf": [list, {"type": "string", "description": "JSON of such a list"}, {"type": "null"}]})
}

fn words<W: Word>() -> Vec<Value> {
    W::WORDS.iter().map(|word| json!(word)).collect()
}

macro_rules! shapes {
    ($( [$($bounds:tt)*] $kind:ty => $shape:expr; )+) => {
        $( impl<$($bounds)*> Shape for $kind { fn shape() -> Value { $shape } } )+
    };
}

shapes! {
    [const MIN: u64, const MAX: u64] Integer<MIN, MAX> => integers(MIN, MAX);
    [const MIN: u64, const MAX: u64] DerivedInteger<MIN, MAX> => integers(MIN, MAX);
    [const MIN: u64, const MAX: u64] IntegerOrZero<MIN, MAX> => json!({"anyOf": [{"const": 0}, integers(MIN, MAX)]});
    [] Boolean => json!({"type": ["boolean", "null"]});
    [] Hours => json!({"type": ["number", "null"], "minimum": 0, "maximum": MAX_HOURS as u64});
    [const MAX: usize] Text<MAX> => texts(MAX);
    [const MAX: usize] Template<MAX> => texts(MAX);
    [W: Word] OneOf<W> => json!({"enum": words::<W>().into_iter().chain([Value::Null]).collect::<Vec<_>>()});
    [W: Word] SomeOf<W> => lists(64, &json!({"enum": words::<W>()}));
    [const MAX: usize] Texts<MAX> => lists(MAX, &json!({"type": "string", "minLength": 1, "maxLength": Texts::<0>::MAX_BYTES}));
    [const MAX: usize] Patterns<MAX> => <Texts<MAX> as Shape>::shape();
}

fn row<K: Kind + Shape>(about: &[&str], default: K::Value) -> Value {
    let mut shape = K::shape();
    let mut json = String::new();
    default.write(&mut json);
    shape["default"] = serde_json::from_str(&json).unwrap();
    shape["description"] = about.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").into();
    shape
}

macro_rules! rows {
    ([$all:ident] $( $(#[doc = $about:literal])+ $name:ident: $kind:ty = $default:expr; )+) => {
        $( $all.insert(stringify!($name).to_owned(),
            row::<$kind>(&[$($about),+], <<$kind as Kind>::Value as OptionValue>::of($default))); )+
    };
}

fn schema() -> Value {
    let mut all = Map::new();
    session_options!(rows!(all));
    let about = "Whether conversations are kept. Without it, the options below have no effect.";
    all.insert("conversation".into(), row::<Boolean>(&[about], false));
    conversation_options!(rows!(all));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "keepline:memory/options",
        "title": "Options of `lanes.configure`",
        "description": "`null` stands for the default. Integers may be written 1e3 or 5.0. `x-max-bytes` is in bytes of UTF-8. A number or boolean in the place of a text is taken as it is spelt.",
        "type": "object",
        "properties": all,
        "additionalProperties": false,
    })
}

#[test]
fn the_schema_of_options_is_that_of_their_table() {
    let made = format!("{:#}\n", schema());
    if std::env::var_os(WRITE).is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../wit/schemas/options.schema.json");
        return std::fs::write(path, made).unwrap();
    }
    assert!(SCHEMA == made, "run this test with {WRITE}=1 to write the schema anew");
}

/// Whether a value is valid, by the keywords that the schema uses.
fn is_valid(schema: &Value, value: &Value) -> bool {
    let length = |value: &Value| match value {
        Value::String(text) => text.chars().count() as u64,
        Value::Array(list) => list.len() as u64,
        _ => 0,
    };
    let is_type = |name: &Value| match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        other => panic!("{other}"),
    };
    schema.as_object().unwrap().iter().all(|(keyword, told)| match &**keyword {
        "default" | "description" | "x-max-bytes" => true,
        "type" => told.as_array().map_or_else(|| is_type(told), |names| names.iter().any(is_type)),
        "enum" => told.as_array().unwrap().contains(value),
        "const" => told == value,
        "anyOf" => told.as_array().unwrap().iter().any(|schema| is_valid(schema, value)),
        "minimum" => value.as_f64().is_none_or(|number| number >= told.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|number| number <= told.as_f64().unwrap()),
        "minLength" => !value.is_string() || length(value) >= told.as_u64().unwrap(),
        "maxLength" => !value.is_string() || length(value) <= told.as_u64().unwrap(),
        "maxItems" => !value.is_array() || length(value) <= told.as_u64().unwrap(),
        "items" => value.as_array().is_none_or(|list| list.iter().all(|item| is_valid(told, item))),
        other => panic!("{other}"),
    })
}

#[test]
fn configure_takes_what_the_schema_of_options_allows_and_nothing_else() {
    let schema = schema();
    let all = schema["properties"].as_object().unwrap();
    assert!(all.len() > 40);
    for (name, schema) in all {
        let mut values = vec![
            Value::Null,
            json!(true),
            json!(0),
            json!(1),
            json!(-1),
            json!(0.5),
            json!(5.0),
            json!(1e300),
            json!("words"),
            json!(""),
            json!([]),
            json!(["tool"]),
            json!([""]),
            json!([7]),
            json!({}),
            schema["default"].clone(),
            json!(vec!["import"; 64]),
            json!(vec!["import"; 65]),
            json!("x".repeat(64)),
            json!("x".repeat(65)),
            json!("x".repeat(16 << 10)),
            json!("x".repeat((16 << 10) + 1)),
            json!(["x".repeat(16 << 10)]),
            json!(["x".repeat((16 << 10) + 1)]),
        ];
        for bounds in [schema, &schema["anyOf"][1]] {
            for bound in ["minimum", "maximum"].iter().filter_map(|bound| bounds[bound].as_u64()) {
                values.extend([json!(bound), json!(bound + 1), json!(bound.saturating_sub(1))]);
            }
        }
        values.extend(schema["enum"].as_array().cloned().unwrap_or_default());
        for value in values {
            let text = json!({"conversation": true, name: value}).to_string();
            // A text in the place of a list is JSON of it.
            let is_list = schema["anyOf"][1]["type"] == "string";
            let is_allowed = match value.as_str().filter(|_| is_list).map(serde_json::from_str::<Value>) {
                Some(list) => list.is_ok_and(|list| list.is_array() && is_valid(schema, &list)),
                None => is_valid(schema, &value),
            };
            let configured = Config::parse(&text);
            let shown: String = text.chars().take(200).collect();
            assert_eq!(configured.is_ok(), is_allowed, "{shown}: {configured:?}");
            if let Err(problem) = configured {
                assert_eq!((&*problem.code, &*problem.subject), ("invalid", &**name));
            }
        }
    }
    assert_eq!(Config::parse(r#"{"unknown": 1}"#).unwrap_err().code, "invalid");
}
