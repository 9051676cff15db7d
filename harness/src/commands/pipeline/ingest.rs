//! `keepline pipeline ingest`: texts become documents of a collection, in chunks.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use keepline::pipelines::{Dataset, DatasetKind, Item, ItemPage, ItemsChanged};
use serde_json::{Value, json};

use super::{PipelineContext, items::put_in_batches};
use crate::{
    app::error::usage_error,
    operations::pages::PageLimits,
    terminal::{self, format_count, print_result, progress_bar},
};

/// A text that becomes documents.
struct Source {
    /// What the ids of its chunks begin with.
    name: String,
    text: String,
    /// Of each chunk.
    metadata: Value,
}

/// Returns whether every file was read.
pub(super) async fn ingest_files(
    context: &PipelineContext<'_>,
    files: &[PathBuf],
    collection: &str,
    characters: u32,
    overlap: u32,
) -> Result<bool> {
    if overlap >= characters {
        return Err(usage_error(format!("--overlap {overlap} must be less than --chunk {characters}")));
    }
    let dataset = context.owner.dataset(DatasetKind::Documents).named(collection);
    let (mut sources, mut unread) = (Vec::new(), 0_u64);
    for file in files {
        match read_sources(file) {
            Ok(read) => sources.extend(read),
            Err(error) => {
                unread += 1;
                terminal::print_error(&format!("{error:#}: it is left out"));
            }
        }
    }
    let (characters, overlap) = (characters as usize, overlap as usize);
    let chunked: Vec<_> = sources.iter().map(|source| documents_of(source, characters, overlap)).collect();
    let total: usize = chunked.iter().map(Vec::len).sum();
    let bar = progress_bar(total as u64);
    let mut all = ItemsChanged { added: 0, changed: 0 };
    let mut done = 0;
    let mut counts = Vec::new();
    for (source, documents) in sources.iter().zip(chunked) {
        counts.push((source.name.clone(), documents.len()));
        let count = documents.len();
        let changed = put_in_batches(context, &dataset, documents, |so_far| bar.set_position((done + so_far) as u64));
        let changed = changed.await.with_context(|| source.name.clone())?;
        done += count;
        all = ItemsChanged { added: all.added + changed.added, changed: all.changed + changed.changed };
    }
    bar.finish_and_clear();
    let removed = remove_surplus(context, &dataset, &counts).await?;
    let told = format!(
        "{} of {}: {} added, {} replaced, {removed} removed",
        format_count(total as u64, "chunk", "chunks"),
        format_count(sources.len() as u64, "text", "texts"),
        all.added,
        all.changed
    );
    let result = json!({"texts": sources.len(), "chunks": total, "added": all.added, "changed": all.changed, "removed": removed, "unread": unread});
    print_result(context.json, &result, &told)?;
    Ok(unread == 0)
}

/// Removes chunks of these texts that are there from a time when they were longer.
async fn remove_surplus(context: &PipelineContext<'_>, dataset: &Dataset, counts: &[(String, usize)]) -> Result<u64> {
    let is_surplus = |id: &str| {
        let (name, number) = id.rsplit_once('#')?;
        let number: usize = number.parse().ok()?;
        counts.iter().find(|(source, _)| source == name).map(|(_, count)| number >= *count)
    };
    let (mut pages, mut surplus) = (PageLimits::default(), Vec::new());
    loop {
        let ItemPage { items, cursor } = context.pipelines.list_items(dataset, pages.cursor(), 1_000).await?;
        let is_new = !items.is_empty();
        surplus.extend(items.into_iter().map(|item| item.id).filter(|id| is_surplus(id) == Some(true)));
        if cursor.is_empty() {
            break;
        }
        pages.turn_to(cursor, is_new)?;
    }
    let mut removed = 0;
    for ids in surplus.chunks(64) {
        removed += context.pipelines.remove_items(dataset, ids).await?.changed;
    }
    Ok(removed)
}

/// The texts in a file: of JSON lines one a line, else the whole.
fn read_sources(file: &Path) -> Result<Vec<Source>> {
    let text = fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
    let name = file.to_string_lossy().into_owned();
    let is_lines = file.extension().is_some_and(|extension| extension == "jsonl" || extension == "ndjson");
    if !is_lines {
        return Ok(vec![Source { metadata: json!({"source": name}), name, text }]);
    }
    let mut sources = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = || format!("{}: line {}", file.display(), number + 1);
        let value: Value = serde_json::from_str(line).with_context(|| format!("{} is not JSON", place()))?;
        let text = value.get("text").and_then(Value::as_str);
        let text = text.with_context(|| format!("{} has no text", place()))?.to_owned();
        let id = value.get("id").and_then(Value::as_str).map(str::to_owned);
        let mut metadata = value.get("metadata").filter(|metadata| metadata.is_object()).cloned().unwrap_or(json!({}));
        if let Some(members) = metadata.as_object_mut() {
            members.entry("source").or_insert_with(|| name.clone().into());
        }
        sources.push(Source { name: id.unwrap_or_else(|| format!("{name}:{}", number + 1)), text, metadata });
    }
    Ok(sources)
}

/// The chunks of a text as documents, numbered from 0.
fn documents_of(source: &Source, characters: usize, overlap: usize) -> Vec<Item> {
    let chunks = chunks(&source.text, characters, overlap);
    let document = |(number, chunk): (usize, &str)| {
        let id = format!("{}#{number}", source.name);
        Item { text: json!({"id": id, "text": chunk, "metadata": source.metadata}).to_string(), id }
    };
    chunks.into_iter().enumerate().map(document).collect()
}

/// A text in chunks of at most so many characters, each beginning with the last ones of the one before. A chunk ends at the end
/// of a line, or else of a word, if there is one in its second half.
fn chunks(text: &str, characters: usize, overlap: usize) -> Vec<&str> {
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let length = starts.len() - 1;
    let at = |character: usize| starts.get(character).copied().unwrap_or(text.len());
    let slice = |from: usize, to: usize| text.get(at(from)..at(to)).unwrap_or_default();
    let (mut chunks, mut from) = (Vec::new(), 0);
    while from < length {
        let mut to = (from + characters).min(length);
        if to < length {
            let half = from + characters / 2;
            let window = slice(half, to);
            let end = window.rfind('\n').or_else(|| window.rfind(char::is_whitespace));
            if let Some(end) = end {
                to = half + window.get(..end).map_or(0, |before| before.chars().count()) + 1;
            }
        }
        let chunk = slice(from, to);
        if !chunk.trim().is_empty() {
            chunks.push(chunk);
        }
        if to == length {
            break;
        }
        // It always goes on.
        from = to.saturating_sub(overlap).max(from + 1);
    }
    chunks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn chunks_end_where_lines_or_words_do_and_overlap() {
        assert_eq!(chunks("", 10, 2), Vec::<&str>::new());
        assert_eq!(chunks("short", 10, 2), ["short"]);
        assert_eq!(chunks("one two three four", 10, 3), ["one two ", "wo three ", "ee four"]);
        assert_eq!(chunks("first line\nsecond", 14, 0), ["first line\n", "second"]);
        assert_eq!(chunks("éééééééééé", 4, 1), ["éééé", "éééé", "éééé"]);
    }

    proptest! {
        #[test]
        fn every_character_is_in_a_chunk_and_no_chunk_is_too_long(
            text in "[a-zé \n]{0,300}", characters in 2_usize..60, overlap in 0_usize..40,
        ) {
            let overlap = overlap.min(characters - 1);
            let chunks = chunks(&text, characters, overlap);
            let mut rest = text.as_str();
            for chunk in &chunks {
                prop_assert!(chunk.chars().count() <= characters);
                let begins = chunk.as_ptr() as usize - text.as_ptr() as usize;
                let passed = text.len() - rest.len();
                // Between two chunks, nothing but white space is left out.
                prop_assert!(begins <= passed || text[passed..begins].trim().is_empty());
                rest = &text[(begins + chunk.len()).max(passed)..];
            }
            prop_assert!(rest.trim().is_empty());
        }
    }
}
