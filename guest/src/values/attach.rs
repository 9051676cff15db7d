//! Attaches a session's values to a question as `memory_context`, or as many of them as fit.

use keepline_json as json;

use crate::context::Context;
use crate::contract::{BucketId, Host, Operation, Problem, ReadEntries, Size, VALUES};
use crate::entry::metadata::EntryMetadata;
use crate::entry::turn_token::PlainTurnToken;
use crate::entry::types::{Effect, QuestionReply};
use crate::options::config::Config;
use crate::store::EntriesOutcome;
use crate::text::ids::is_key_name;
use crate::text::quoting::python_repr;
use crate::values::fitting::read_fitting;
use crate::values::session_id::{READ_SESSION_ID, keep_session_id};
use crate::{log, store};

/// A warning names no more keys than this.
const NAMED_MAX: usize = 8;

/// Open the session, or create it, and attach what it holds.
pub(crate) fn open_and_attach(
    context: &Context<impl Host>,
    session: &str,
    metadata: &EntryMetadata<'_>,
    reply: &mut QuestionReply,
) -> Result<(), Box<Problem>> {
    let Config { max_keys, max_context_bytes, .. } = context.config;
    let read = Operation::get_all(VALUES, max_keys, max_context_bytes);
    let reads = [read, READ_SESSION_ID];
    let operations = if metadata.session_id.is_some() { reads.as_slice() } else { &reads[..1] };
    let bucket = BucketId::session(session);
    // Creating opens what is there and makes what is not: any other status is the store's fault.
    let opened = store::read_bucket(&context.host, bucket, context.config.create(), operations)?;
    let mut outcomes = opened.ok_or_else(Problem::out_of_turn)?;
    reply.turn = PlainTurnToken::write(session, &outcomes.generation);
    let found = outcomes.take_entries()?;
    if metadata.session_id.is_some() && outcomes.take_text()?.is_none() {
        keep_session_id(context, metadata);
    }
    attach_values(context, bucket, &outcomes.generation, metadata, found, reply)
}

/// Attach the values that were found, or as many of them as fit.
pub(crate) fn attach_values(
    context: &Context<impl Host>,
    bucket: BucketId<'_>,
    generation: &str,
    metadata: &EntryMetadata<'_>,
    found: EntriesOutcome,
    reply: &mut QuestionReply,
) -> Result<(), Box<Problem>> {
    let session = bucket.name;
    match found {
        EntriesOutcome::Entries(values) => attach_entries(context, session, metadata, values, reply),
        EntriesOutcome::Oversize(Size { entries, .. }) => {
            let mut problem = oversize_problem(context, session, entries);
            let message = &mut problem.message;
            let fitting = read_fitting(context, bucket, generation, entries)?;
            attach_entries(context, session, metadata, fitting.values, reply);
            if reply.effect != Effect::Enriched {
                reply.effect = Effect::Limited;
            }
            if fitting.left_out_count > 0 {
                message.push_str("; left out ");
                json::push_number(message, fitting.left_out_count);
                message.push_str(" keys: ");
                push_names(message, &fitting.left_out);
            }
            log::warn(&context.host, log::LIMIT, &[message]);
            reply.problem = Some(problem);
        }
    }
    Ok(())
}

/// Attach what can be attached.
fn attach_entries(
    context: &Context<impl Host>,
    session: &str,
    metadata: &EntryMetadata<'_>,
    mut values: ReadEntries,
    reply: &mut QuestionReply,
) {
    let mut skipped = values.unreadable;
    values.entries.retain(|entry| {
        let is_good = is_key_name(&entry.key) && json::as_portable_value(&entry.text).is_some();
        if !is_good {
            skipped.push(entry.key.clone());
        }
        is_good
    });
    if !skipped.is_empty() {
        log::warn(&context.host, log::VALUE, &[&skipped_line(session, &skipped)]);
    }
    let entries = &mut values.entries;
    if entries.is_empty() {
        return;
    }

    let size = entries.iter().map(|entry| entry.key.len() + entry.text.len() + "{\"\":".len()).sum::<usize>() + 1;
    reply.metadata = Some(metadata.enriched(size, |out| {
        let mut before = "{\"";
        for entry in entries.iter() {
            out.push_str(before);
            // A key of ours has no character that must be escaped.
            out.push_str(&entry.key);
            out.push_str("\":");
            push_line(out, entry.text.trim_matches([' ', '\t', '\n', '\r']));
            before = ",\"";
        }
        out.push('}');
    }));
    reply.effect = Effect::Enriched;
    reply.attached = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    let attached = reply.attached.to_string();
    log::debug(&context.host, &["Attached ", &attached, " memory keys to question for session ", session]);
}

fn oversize_problem(context: &Context<impl Host>, session: &str, keys: u64) -> Box<Problem> {
    let Config { max_keys, max_context_bytes, .. } = context.config;
    if keys > max_keys {
        let message = format!("Memory of session {session} ({keys} keys) is over max_keys ({max_keys})");
        return Problem::limit("max_keys", max_keys, message);
    }
    // How far over is not known: a store stops counting bytes at the limit.
    let message = format!("Memory of session {session} is over max_context_bytes ({max_context_bytes})");
    Problem::limit("max_context_bytes", max_context_bytes, message)
}

/// A JSON value on one line. In valid JSON a raw line end is a blank between tokens, so a string, which is
/// what most values are, holds none and need not be searched.
fn push_line(out: &mut String, value: &str) {
    if value.starts_with('"') {
        return out.push_str(value);
    }
    let mut rest = value;
    while let Some((line, tail)) = rest.split_once(['\n', '\r']) {
        out.push_str(line);
        out.push(' ');
        rest = tail;
    }
    out.push_str(rest);
}

fn skipped_line(session: &str, keys: &[String]) -> String {
    let mut line = String::from("Skipped ");
    json::push_number(&mut line, keys.len() as u64);
    line.push_str(" stored values of session ");
    line.push_str(session);
    line.push_str(" that strict JSON parsers refuse: ");
    push_names(&mut line, keys);
    line
}

/// As many names as people want to read.
fn push_names(line: &mut String, keys: &[String]) {
    for (index, key) in keys.iter().take(NAMED_MAX).enumerate() {
        if index > 0 {
            line.push_str(", ");
        }
        line.push_str(&python_repr(key));
    }
    if keys.len() > NAMED_MAX {
        line.push_str(", …");
    }
}
