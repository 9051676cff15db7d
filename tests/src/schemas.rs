//! Validates what a question got against the contract's JSON Schemas (`wit/schemas/`).

use std::sync::LazyLock;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Map, Value};

/// The schemas of the members that the filter attaches.
struct Contract {
    schemas: Schemas,
    members: Vec<(&'static str, SchemaIndex)>,
}

static CONTRACT: LazyLock<Contract> = LazyLock::new(|| {
    let mut schemas = Schemas::new();
    let members = [
        ("memory_context", include_str!("../../wit/schemas/memory_context.schema.json")),
        ("memory_messages", include_str!("../../wit/schemas/memory_messages.schema.json")),
        ("memory_model", include_str!("../../wit/schemas/memory_model.schema.json")),
        ("memory_recall", include_str!("../../wit/schemas/memory_recall.schema.json")),
        ("memory_sections", include_str!("../../wit/schemas/memory_sections.schema.json")),
        ("memory_summary", include_str!("../../wit/schemas/memory_summary.schema.json")),
        ("memory_trace", include_str!("../../wit/schemas/memory_trace.schema.json")),
    ]
    .map(|(name, text)| {
        let mut compiler = Compiler::new();
        compiler.add_resource(name, serde_json::from_str(text).unwrap()).unwrap();
        (name, compiler.compile(name, &mut schemas).unwrap())
    });
    Contract { schemas, members: members.into() }
});

/// Fails where a question's metadata have a `memory_` member that no schema describes, or that differs from its schema. Only
/// for metadata that Keepline has enriched: others may carry a client's members of these names.
pub fn check(metadata: &Value) {
    for (name, value) in
        metadata.as_object().unwrap_or(&Map::new()).iter().filter(|(name, _)| name.starts_with("memory_"))
    {
        let Some((_, schema)) = CONTRACT.members.iter().find(|(known, _)| known == name) else {
            // What an entry says itself.
            assert!(matches!(&**name, "memory_mode" | "memory_question"), "no schema for {name}");
            continue;
        };
        let checked = CONTRACT.schemas.validate(value, *schema);
        assert!(checked.is_ok(), "{name}: {:#}\n{value:#}", checked.unwrap_err());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_valid(name: &str, value: &Value) -> bool {
        let (_, schema) = CONTRACT.members.iter().find(|(known, _)| *known == name).unwrap();
        CONTRACT.schemas.validate(value, *schema).is_ok()
    }

    #[test]
    fn each_schema_refuses_what_the_contract_excludes() {
        let passage = json!({"session": "s", "position": 1, "at": 1.5, "role": "user", "source": "user", "trust": "normal",
            "text": "t", "score": 1, "why": ["terms"]});
        let mut nameless = passage.clone();
        nameless.as_object_mut().unwrap().remove("session");
        let trace = json!({"estimate": "", "budget": 1, "tokens": 1, "thread_tokens": 1, "cleared_results": 0,
            "unreadable": 0, "turns": [{"turn": "t", "position": 0, "tokens": 1, "fate": "kept"}]});
        let mut untold = trace.clone();
        untold["turns"][0]["fate"] = json!(null);
        let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        for (name, good, bad) in [
            ("memory_context", json!({"a": [1], "last_answer": "x"}), json!({"answer_count": -1})),
            ("memory_context", json!({}), json!({"a b": 1})),
            ("memory_messages", json!("Human: hi"), json!([])),
            ("memory_messages", json!([{"role": "user", "content": "q"}]), json!([{"role": "user", "content": null}])),
            (
                "memory_messages",
                json!([{"role": "assistant", "content": null, "tool_calls": [call]}]),
                json!([{"role": "assistant", "content": null, "tool_calls": []}]),
            ),
            (
                "memory_messages",
                json!([{"role": "tool", "tool_call_id": "c", "content": "r"}]),
                json!([{"role": "tool", "content": "r"}]),
            ),
            ("memory_model", json!("gpt"), json!("")),
            (
                "memory_recall",
                json!({"text": "t", "passages": [passage]}),
                json!({"text": "t", "passages": [nameless]}),
            ),
            ("memory_summary", json!({"role": "user", "content": "c"}), json!({"role": "system", "content": "c"})),
            ("memory_trace", trace, untold),
        ] {
            assert!(is_valid(name, &good), "{name}: {good}");
            assert!(!is_valid(name, &bad), "{name}: {bad}");
        }
    }
}
