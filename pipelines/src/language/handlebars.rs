//! The templates of the `format` step, a small part of Handlebars: `#each results`, `this`, `this.path`, `@index`, and
//! `pipeline.x`. Nothing is escaped: the reader is a model.

use super::template::text_of;
use crate::value::{Value, items::item_text};

/// A template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlebarsTemplate(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Pipeline(PipelineMember),
    /// Once for each result.
    Each(Vec<ItemPart>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PipelineMember {
    Id,
    Label,
    Description,
    Version,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ItemPart {
    Text(String),
    This,
    Path(String),
    Index,
    Pipeline(PipelineMember),
}

/// What a template may say of its pipeline.
#[derive(Clone, Copy, Debug)]
pub struct PipelineTexts<'a> {
    pub id: &'a str,
    pub label: &'a str,
    pub description: &'a str,
    pub version: &'a str,
}

impl PipelineMember {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "id" => Self::Id,
            "label" | "name" => Self::Label,
            "description" => Self::Description,
            "version" => Self::Version,
            _ => return None,
        })
    }

    fn of<'a>(self, pipeline: &PipelineTexts<'a>) -> &'a str {
        match self {
            Self::Id => pipeline.id,
            Self::Label => pipeline.label,
            Self::Description => pipeline.description,
            Self::Version => pipeline.version,
        }
    }
}

const TAGS: &str = "{{#each results}}, {{/each}}, {{this}}, {{this.path}}, {{@index}}, and {{pipeline.x}} with id, label, \
                    description or version";

impl HandlebarsTemplate {
    /// Parse a template.
    ///
    /// # Errors
    /// Which tag is none, and which there are.
    pub fn parse(template: &str) -> Result<Self, String> {
        let (mut parts, mut each, mut rest): (_, Option<Vec<ItemPart>>, _) = (Vec::new(), None, template);
        while let Some((text, tag, after)) = next_tag(rest)? {
            if !text.is_empty() {
                match &mut each {
                    None => parts.push(Part::Text(text.to_owned())),
                    Some(items) => items.push(ItemPart::Text(text.to_owned())),
                }
            }
            let name = tag.trim();
            let pipeline = name.strip_prefix("pipeline.").and_then(PipelineMember::parse);
            match (&mut each, name) {
                (None, _) if name.split_whitespace().eq(["#each", "results"]) => each = Some(Vec::new()),
                (Some(_), "/each") => parts.extend(each.take().map(Part::Each)),
                (None, _) if pipeline.is_some() => parts.extend(pipeline.map(Part::Pipeline)),
                (Some(items), _) if pipeline.is_some() => items.extend(pipeline.map(ItemPart::Pipeline)),
                (Some(items), "this") => items.push(ItemPart::This),
                (Some(items), "@index") => items.push(ItemPart::Index),
                (Some(items), _) if name.strip_prefix("this.").is_some_and(|path| !path.is_empty()) => {
                    items.push(ItemPart::Path(name.strip_prefix("this.").unwrap_or_default().to_owned()));
                }
                _ => return Err(format!("{{{{{tag}}}}} has no meaning there: a template knows {TAGS}")),
            }
            rest = after;
        }
        if each.is_some() {
            return Err("{{#each results}} has no {{/each}}".into());
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }

    /// With these results.
    pub fn render(&self, items: &[Value], pipeline: &PipelineTexts<'_>) -> String {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Pipeline(member) => text.push_str(member.of(pipeline)),
                Part::Each(parts) => {
                    for (index, item) in items.iter().enumerate() {
                        parts.iter().for_each(|part| part.render(&mut text, index, item, pipeline));
                    }
                }
            }
        }
        text
    }
}

impl ItemPart {
    fn render(&self, text: &mut String, index: usize, item: &Value, pipeline: &PipelineTexts<'_>) {
        match self {
            Self::Text(plain) => text.push_str(plain),
            Self::This => text.push_str(&item_text(item)),
            Self::Path(path) => text.push_str(&item.field(path).map(text_of).unwrap_or_default()),
            Self::Index => text.push_str(&index.to_string()),
            Self::Pipeline(member) => text.push_str(member.of(pipeline)),
        }
    }
}

/// The text before the next tag, the tag, and what follows it.
fn next_tag(text: &str) -> Result<Option<(&str, &str, &str)>, String> {
    let Some((before, rest)) = text.split_once("{{") else { return Ok(None) };
    let (tag, after) = rest.split_once("}}").ok_or("a tag has no }}")?;
    Ok(Some((before, tag, after)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_tags_are_refused_by_name() {
        for tag in ["x", "#if results", "this", "/each", "pipeline.secret", "{this}", ""] {
            let error = HandlebarsTemplate::parse(&format!("a {{{{{tag}}}}}")).unwrap_err();
            assert!(error.contains(&format!("{{{{{tag}")), "{error}");
        }
        assert!(
            HandlebarsTemplate::parse("{{#each results}}").is_err() && HandlebarsTemplate::parse("{{this").is_err()
        );
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in r"(\{\{|\}\}|#each results|/each|this|@index|[ a{}ü]){0,10}") {
            let _ = HandlebarsTemplate::parse(&text);
        }
    }
}
