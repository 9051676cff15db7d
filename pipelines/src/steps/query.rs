//! The steps that make the run's query.

use std::rc::Rc;

use super::{StepContext, StepFault, StepResult};
use crate::{
    language::template::text_of,
    value::items::{item_text, items_of},
    value::{Value, field_of},
};

/// Words that tell nothing of what is asked.
const PLAIN_WORDS: [&str; 48] = [
    "a", "about", "an", "and", "are", "as", "at", "be", "by", "can", "do", "does", "for", "from", "had", "has", "have",
    "how", "i", "if", "in", "is", "it", "me", "my", "of", "on", "or", "our", "so", "that", "the", "their", "there",
    "this", "to", "us", "was", "we", "were", "what", "when", "where", "which", "who", "why", "with", "you",
];

/// Forms a query: from a template; from a named step or a field of the intent; from several fields; otherwise from the
/// intent's keywords, query, action, or context.
pub(super) fn derive_query(context: &mut StepContext<'_>) -> StepResult<Value> {
    let strategy = context.text("strategy")?;
    let template = context.params.get("template").filter(|_| strategy != Some("concat")).map(text_of);
    let named = ["source", "from"].into_iter().find_map(|name| {
        let name = context.params.get(name)?.as_text().filter(|name| *name != "intent")?;
        Some(Rc::<str>::from(name))
    });
    let method = context.text("method")?.map(Rc::<str>::from);
    let query = if let Some(template) = template {
        template
    } else if let Some(name) = named {
        match (context.result(&name), field_of(context.intent, &name)) {
            (Some(result), _) => text_of_result(result),
            (None, Some(field)) => text_of(field),
            (None, None) => String::new(),
        }
    } else if let Some(fields) = context.params.get("fields") {
        let fields = fields.as_list().ok_or_else(|| StepFault::at("fields", "a list of fields is required"))?;
        let texts = fields.iter().filter_map(|field| field_of(context.intent, field.as_text()?)).map(text_of);
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
    } else {
        let order: [&str; 4] = match method.as_deref() {
            Some("passthrough" | "llm_rephrase" | "keyword_extract") => ["query", "keywords", "action", "context"],
            _ => ["keywords", "query", "action", "context"],
        };
        let texts = order.into_iter().filter_map(|name| context.intent.get(name)).map(text_of_context);
        texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
    };
    let query = if method.as_deref() == Some("keyword_extract") { keywords(&query) } else { query };
    if method.as_deref() == Some("llm_rephrase") {
        context.warn(Some("method"), "there is no model to rephrase with: the query is passed on");
    }
    if query.is_empty() {
        context.warn(None, "there is nothing to make a query of");
    }
    Ok(query.into())
}

/// Lower-cases a named step's result, or the run's query.
pub(super) fn rewrite_query(context: &mut StepContext<'_>) -> StepResult<Value> {
    let source = context.text("source")?.map(Rc::<str>::from);
    let query = match &source {
        None => context.query.to_owned(),
        Some(name) => match context.result(name) {
            Some(result) => text_of_result(result),
            None => {
                context.warn(Some("source"), format!("the step {name} did not run: the query is empty"));
                String::new()
            }
        },
    };
    Ok(query.to_lowercase().into())
}

/// A step's result as a query: a text as it is, of items their texts.
fn text_of_result(result: &Value) -> String {
    match result {
        Value::List(_) | Value::Object(_) => items_of(result).iter().map(item_text).collect::<Vec<_>>().join(" "),
        other => text_of(other),
    }
}

/// The texts within an object, such as the intent's context.
fn text_of_context(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let texts = members.values().map(text_of_context).filter(|text| !text.is_empty());
            texts.collect::<Vec<_>>().join(" ")
        }
        other => text_of(other),
    }
}

/// The words that tell something, each once.
fn keywords(query: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in query.split(|c: char| !c.is_alphanumeric() && !"_-./".contains(c)) {
        let is_plain = word.is_empty() || PLAIN_WORDS.contains(&&*word.to_lowercase());
        if !is_plain && !words.contains(&word) {
            words.push(word);
        }
    }
    if words.is_empty() { query.to_owned() } else { words.join(" ") }
}
