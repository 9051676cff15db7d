//! The step that makes text of items.

use super::{StepContext, StepFault, StepResult};
use crate::{
    definition::ItemFormat,
    language::handlebars::{HandlebarsTemplate, PipelineTexts},
    value::Value,
    value::items::{item_text, text_member, token_estimate},
};

/// The items as text, in the step's format or else the contribution's, or by a template. Whole items are dropped from the end
/// until it takes at most `maxTokens`.
pub(super) fn format(context: &mut StepContext<'_>, mut items: Vec<Value>) -> StepResult<Value> {
    let template = context.text("template")?.map(HandlebarsTemplate::parse).transpose();
    let template = template.map_err(|message| StepFault::at("template", message))?;
    let contribution = &context.definition.contribution;
    let format = match context.text("format")? {
        None => contribution.format,
        Some(name) => ItemFormat::from_name(name)
            .ok_or_else(|| StepFault::at("format", format!("{name} is none of {}", ItemFormat::names().join(", "))))?,
    };
    let definition = context.definition;
    let pipeline = PipelineTexts {
        id: &definition.id,
        label: &definition.label,
        description: &definition.description,
        version: &definition.version,
    };
    let limit = context.whole("maxTokens")?.or(contribution.max_tokens).unwrap_or(usize::MAX);
    loop {
        let text = match &template {
            Some(template) => template.render(&items, &pipeline),
            None => format_items(&items, format),
        };
        if token_estimate(&text) <= limit {
            return Ok(text.into());
        }
        // An item takes a token at least, so not every length has to be tried.
        let surplus = (token_estimate(&text) - limit)
            / items.iter().map(|item| token_estimate(&item_text(item)) + 4).max().unwrap_or(1);
        if items.is_empty() {
            return Ok("".into());
        }
        items.truncate(items.len() - surplus.clamp(1, items.len()));
    }
}

/// Items in a format; none are an empty text, and in JSON an empty list.
pub fn format_items(items: &[Value], format: ItemFormat) -> String {
    let marked = |marker: String, text: &str| {
        let indent = " ".repeat(marker.chars().count());
        marker + &text.replace('\n', &format!("\n{indent}"))
    };
    let lines: Vec<String> = match format {
        ItemFormat::Json => return Value::list(items.to_vec()).to_json(),
        ItemFormat::Prose | ItemFormat::Text => items.iter().map(|item| item_text(item).to_string()).collect(),
        ItemFormat::BulletList => items.iter().map(|item| marked("- ".into(), &item_text(item))).collect(),
        ItemFormat::Numbered => {
            (1..).zip(items).map(|(number, item)| marked(format!("{number}. "), &item_text(item))).collect()
        }
        ItemFormat::Markdown => items.iter().map(|item| marked("- ".into(), &titled(item))).collect(),
    };
    lines.join(if matches!(format, ItemFormat::Prose | ItemFormat::Text) { "\n\n" } else { "\n" })
}

/// An item's text behind its title, name or label, if it has one besides the text.
fn titled(item: &Value) -> String {
    let text = item_text(item);
    let of_text = text_member(item).map(|(name, _)| name);
    let title = ["title", "name", "label"].into_iter().find_map(|name| {
        item.member(name).and_then(Value::as_text).filter(|title| of_text != Some(name) && !title.is_empty())
    });
    match title.filter(|_| of_text.is_some()) {
        Some(title) => format!("**{title}**: {text}"),
        None => text.to_string(),
    }
}
