//! Brings an imported record within the limits of stored ones: cuts and redacts its texts.

use keepline_json as json;
use std::borrow::Cow;

use crate::answer::turn_records;
use crate::answer::turn_records::NAME_BYTES;
use crate::options::conversation::Options;
use crate::text::json_values::on_one_line;
use crate::text::truncate;
use crate::transcript::record::{RecordKind, Role, StoredRecord};
use crate::transcript::{parts, sanitize};

const NO_JSON: &str = "its content, files, model, metadata, chat or raw is no JSON, or none after redact";

/// A record of another program, by the rules of what comes as an entry. The whole of a tool's result, if the record holds a
/// part of it. `Err`: what can't be kept.
pub(crate) fn sanitize_record(
    options: &Options,
    record: &mut StoredRecord<'_>,
) -> Result<Option<String>, &'static str> {
    let mut whole = None;
    record.vector = None;
    if let Some(tool) = &mut record.tool {
        tool.whole = None;
        if truncate::truncate_json_bytes(&mut tool.call_id, NAME_BYTES)
            || truncate::truncate_json_bytes(&mut tool.name, NAME_BYTES)
        {
            return Err("the name or the call_id of its tool is longer than 256 bytes");
        }
        if let Some(arguments) = &mut tool.arguments {
            let mut kept: Cow<'_, str> = sanitize::redact_json(options, (**arguments).into()).into_owned().into();
            record.truncated |= truncate::bound_arguments(&mut kept, options.tool_bytes());
            *arguments = kept.into_owned().into();
        }
        if let Some(error) = &mut tool.error {
            let mut kept = sanitize::redact_text(options, (**error).into());
            truncate::truncate_json_bytes(&mut kept, options.tool_bytes());
            *error = kept.into_owned().into();
        }
    }
    if record.kind == RecordKind::ToolResult {
        let text = sanitize::redact_text(options, (*record.content).into()).into_owned();
        let shown = turn_records::shorten_result(&text, options.budget(), options.tool_bytes());
        // In the place of the first text; the whole holds the others.
        let mut first = shown.clone();
        rewrite_parts(record, |text| match shown {
            Some(_) => first.take(),
            None => Some(sanitize::redact_text(options, text).into_owned()),
        })?;
        record.content = match shown {
            Some(shown) => {
                record.truncated = true;
                whole = Some(text);
                shown.into()
            }
            None => text.into(),
        };
    } else {
        let is_answer = record.role == Role::Assistant;
        let is_cut = if record.parts.is_some() {
            take_parts(options, record, is_answer)?
        } else {
            let text = sanitize::cleaned_text(options, (*record.content).into(), is_answer);
            let mut text = Cow::Owned(text.into_owned());
            let is_cut = truncate::shorten_with_note(
                &mut text,
                sanitize::message_length_limit(options),
                options.message_bytes(),
            );
            record.content = text.into();
            is_cut
        };
        record.truncated |= is_cut;
        record.tokens = record.tokens.filter(|_| !is_cut);
    }
    for part in [&mut record.files, &mut record.model, &mut record.metadata, &mut record.chat, &mut record.raw] {
        let Some(json) = part else { continue };
        let kept = sanitize::redact_json(options, on_one_line(Cow::Borrowed(&**json))).into_owned();
        if kept.len() > options.details_bytes() {
            return Err("its files, model, metadata, chat or raw is longer than 64 KiB");
        }
        if json::as_portable_value(&kept).is_none() {
            return Err(NO_JSON);
        }
        *json = kept.into();
    }
    Ok(whole)
}

/// A message's parts: the texts in them as if they were one, and all else as it is, if it fits. Whether they were cut.
fn take_parts(options: &Options, record: &mut StoredRecord<'_>, is_answer: bool) -> Result<bool, &'static str> {
    rewrite_parts(record, |text| Some(sanitize::cleaned_text(options, text, is_answer).into_owned()))?;
    let Some(parts) = &record.parts else { return Ok(false) };
    let redacted = sanitize::redact_json(options, on_one_line(Cow::Borrowed(&**parts)));
    if json::as_strict_value(&redacted).is_none() {
        return Err(NO_JSON);
    }
    let kept = parts::truncate_parts(&redacted, sanitize::message_length_limit(options), options.message_bytes());
    let is_cut = kept.is_some();
    let kept = kept.unwrap_or_else(|| redacted.into_owned());
    record.content = json::join_texts(&kept).into();
    record.parts = Some(kept.into());
    Ok(is_cut)
}

fn rewrite_parts(
    record: &mut StoredRecord<'_>,
    changed: impl FnMut(Cow<'_, str>) -> Option<String>,
) -> Result<(), &'static str> {
    if let Some(old) = &record.parts {
        let new = parts::map_part_texts(old, changed).ok_or(NO_JSON)?;
        record.content = json::join_texts(&new).into();
        record.parts = Some(new.into());
    }
    Ok(())
}
