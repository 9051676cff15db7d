//! Data sets: items put, listed and removed.

use std::path::Path;

use anyhow::Result;
use keepline::pipelines::{Dataset, Item, ItemPage, ItemsChanged};
use serde_json::{Value, json, value::RawValue};

use super::{PipelineContext, arguments::DatasetArguments, read_text};
use crate::{
    app::error::{coded_error, usage_error},
    operations::pages::PageLimits,
    terminal::{
        self, format_count,
        json_text::{EmbeddedJson, json_cell},
        object, print_json, print_result,
    },
};

/// Items of one call, and bytes.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 << 20;

pub(super) fn dataset_of(context: &PipelineContext<'_>, arguments: &DatasetArguments) -> Dataset {
    let dataset = context.owner.dataset(arguments.kind.into());
    let dataset = dataset.named(arguments.name.clone().unwrap_or_default());
    dataset.in_namespace(arguments.namespace.clone().unwrap_or_default())
}

/// Puts JSON lines into a data set. Nothing is written if a line is none.
pub(super) async fn put_items(context: &PipelineContext<'_>, arguments: &DatasetArguments, file: &Path) -> Result<()> {
    let dataset = dataset_of(context, arguments);
    let items = parse_items(&dataset.kind, &read_text(file)?)?;
    let changed = put_in_batches(context, &dataset, items, |_| ()).await?;
    report_changed(context, &changed)
}

/// Puts items, some at a time. `done`: how many so far.
pub(super) async fn put_in_batches(
    context: &PipelineContext<'_>,
    dataset: &Dataset,
    items: Vec<Item>,
    done: impl Fn(usize),
) -> Result<ItemsChanged> {
    let mut changed = ItemsChanged { added: 0, changed: 0 };
    let (mut batch, mut bytes, mut count) = (Vec::new(), 0, 0);
    let mut items = items.into_iter().peekable();
    while let Some(item) = items.next() {
        bytes += item.text.len();
        batch.push(item);
        let is_full = batch.len() == BATCH || items.peek().is_none_or(|next| bytes + next.text.len() > BATCH_BYTES);
        if is_full {
            let more = context.pipelines.put_items(dataset, &batch).await.map_err(|mut error| {
                // Of all lines, not of this batch.
                error.path = renumber(&error.path, count);
                error
            })?;
            count += batch.len();
            done(count);
            changed = ItemsChanged { added: changed.added + more.added, changed: changed.changed + more.changed };
            (bytes, batch) = (0, Vec::new());
        }
    }
    Ok(changed)
}

pub(super) fn report_changed(context: &PipelineContext<'_>, changed: &ItemsChanged) -> Result<()> {
    let ItemsChanged { added, changed } = *changed;
    let told = format!("{} added, {changed} replaced", format_count(added, "item", "items"));
    print_result(context.json, &json!({"added": added, "changed": changed}), &told)
}

pub(super) async fn list_items(
    context: &PipelineContext<'_>,
    arguments: &DatasetArguments,
    limit: u32,
    cursor: &str,
    all: bool,
) -> Result<()> {
    let dataset = dataset_of(context, arguments);
    let (mut pages, mut listed) = (PageLimits::from(cursor), Vec::new());
    let cursor = loop {
        let ItemPage { items, cursor } = context.pipelines.list_items(&dataset, pages.cursor(), limit).await?;
        pages.count_kept_texts(items.iter().map(|item| &*item.text), "use --cursor in place of --all")?;
        let is_new = !items.is_empty();
        listed.extend(items);
        if cursor.is_empty() || !all {
            break cursor;
        }
        pages.turn_to(cursor, is_new)?;
    };
    if context.json {
        let items: Vec<_> =
            listed.iter().map(|item| object! { id: &item.id, item: EmbeddedJson(&item.text) }).collect();
        return print_json(&object! { items: items, cursor: cursor });
    }
    let rows = listed.iter().map(|item| [item.id.clone(), json_cell(&item.text)]).collect();
    terminal::print_list(["Id", "Item"], rows, false)?;
    if !cursor.is_empty() {
        let cursor = terminal::quote_for_shell(&cursor);
        terminal::print_note(&format!("more items follow: use --cursor {cursor} for the next page, or --all"));
    }
    Ok(())
}

pub(super) async fn remove_items(
    context: &PipelineContext<'_>,
    arguments: &DatasetArguments,
    ids: &[String],
) -> Result<()> {
    let removed = context.pipelines.remove_items(&dataset_of(context, arguments), ids).await?.changed;
    let told = format!("{} removed", format_count(removed, "item", "items"));
    print_result(context.json, &json!({"removed": removed}), &told)
}

/// The items of JSON lines, with the key or id that each names.
fn parse_items(kind: &str, text: &str) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |what: String| usage_error(format!("line {}: {what}; nothing was stored", number + 1));
        let value: Value = serde_json::from_str(line).map_err(|error| wrong(format!("not JSON: {error}")))?;
        let Some(members) = value.as_object() else { return Err(wrong("a JSON object is required".into())) };
        let named = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
        let item = match kind {
            "values" => {
                // As it stands there: numbers keep their digits.
                let parts: Parts<'_> = serde_json::from_str(line)
                    .map_err(|error| wrong(format!("key and value are required: {error}")))?;
                Item { id: parts.key.into_owned(), text: parts.value.get().to_owned() }
            }
            "edges" => Item { id: String::new(), text: line.to_owned() },
            _ => Item { id: named("id").unwrap_or_default(), text: line.to_owned() },
        };
        items.push(item);
    }
    if items.is_empty() {
        return Err(coded_error("invalid", "there is no item to store"));
    }
    Ok(items)
}

/// A line of values.
#[derive(serde::Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    key: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    value: &'a RawValue,
}

/// `items[3].id` of a batch after so many items.
fn renumber(path: &str, before: usize) -> String {
    let renumbered = path.strip_prefix("items[").and_then(|rest| {
        let (number, rest) = rest.split_once(']')?;
        Some(format!("items[{}]{rest}", number.parse::<usize>().ok()? + before))
    });
    renumbered.unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_read_from_json_lines() {
        let items =
            parse_items("values", "{\"key\":\"a\",\"value\":1.50}\n\n{\"key\":\"b\",\"value\":null}\n").unwrap();
        assert_eq!(items, [("a", "1.50"), ("b", "null")].map(|(id, text)| Item { id: id.into(), text: text.into() }));
        for (kind, id) in [("documents", "d"), ("events", "d"), ("edges", "")] {
            assert_eq!(parse_items(kind, r#"{"id":"d","text":"x"}"#).unwrap()[0].id, id);
        }
        for (kind, wrong, told) in [
            ("values", "{}", "line 1: key and value are required"),
            ("events", "{}\n[1]", "line 2: a JSON object is required"),
            ("nodes", "{", "line 1: not JSON"),
            ("nodes", " \n", "no item"),
        ] {
            let error = parse_items(kind, wrong).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn a_wrong_item_is_named_by_its_place_in_the_whole_input() {
        assert_eq!(renumber("items[3].timestamp", 256), "items[259].timestamp");
        assert_eq!(renumber("collection", 256), "collection");
    }
}
