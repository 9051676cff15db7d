//! Values of the component model as the kits spell them.

use serde_json::{Value, json};
use wasmtime::component::types::ComponentFunc;
use wasmtime::component::{Type, Val};

/// The arguments of a function. One that is not there is none.
pub fn arguments(function: &ComponentFunc, arguments: &Value) -> Vec<Val> {
    function.params().map(|(name, kind)| from_json(&kind, &arguments[name])).collect()
}

fn from_json(kind: &Type, json: &Value) -> Val {
    let digits = || json.as_str().map_or_else(|| json.to_string(), Into::into);
    match kind {
        Type::Bool => Val::Bool(json.as_bool().unwrap()),
        Type::U32 => Val::U32(digits().parse().unwrap()),
        Type::U64 => Val::U64(digits().parse().unwrap()),
        Type::S64 => Val::S64(digits().parse().unwrap()),
        Type::String => Val::String(json.as_str().unwrap().into()),
        Type::List(list) => {
            Val::List(json.as_array().unwrap().iter().map(|item| from_json(&list.ty(), item)).collect())
        }
        Type::Option(_) if json.is_null() => Val::Option(None),
        Type::Option(option) => Val::Option(Some(Box::new(from_json(&option.ty(), json)))),
        Type::Record(record) => Val::Record(
            record.fields().map(|field| (field.name.into(), from_json(&field.ty, &json[field.name]))).collect(),
        ),
        Type::Variant(variant) => {
            let (name, value) = json.as_object().unwrap().iter().next().unwrap();
            let case = variant.cases().find(|case| case.name == name).unwrap();
            Val::Variant(name.clone(), case.ty.map(|kind| Box::new(from_json(&kind, value))))
        }
        _ => panic!("the contract had no such type when this was written"),
    }
}

pub fn to_json(value: &Val) -> Value {
    let boxed = |value: &Option<Box<Val>>| value.as_deref().map_or(Value::Null, to_json);
    match value {
        Val::Bool(value) => json!(value),
        Val::U32(value) => json!(value),
        Val::U64(value) if *value < 1 << 53 => json!(value),
        Val::U64(value) => json!(value.to_string()),
        Val::S64(value) if value.unsigned_abs() < 1 << 53 => json!(value),
        Val::S64(value) => json!(value.to_string()),
        Val::String(value) | Val::Enum(value) => json!(value),
        Val::List(items) => items.iter().map(to_json).collect(),
        Val::Option(value) => boxed(value),
        Val::Record(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), to_json(value))).collect::<serde_json::Map<_, _>>().into()
        }
        Val::Variant(name, value) => json!({ name: boxed(value) }),
        Val::Result(Ok(value)) => json!({ "ok": boxed(value) }),
        Val::Result(Err(value)) => json!({ "err": boxed(value) }),
        _ => panic!("the contract had no such type when this was written"),
    }
}
