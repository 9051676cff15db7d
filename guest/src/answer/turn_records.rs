//! Makes the records of one answer: the question, the calls and results of tools, the answer.
//!
//! Promises a step that every store accepts: what is too long is cut, and what can't be kept is left out and reported. A call
//! without a result stands after what the model said with it, as chat APIs require; all else in the order of events.

use keepline_json as json;
use std::borrow::Cow;

use crate::entry::turn_token::ForkPoint;
use crate::entry::types::{AnswerEntry, ToolActivity};
use crate::options::conversation::{Options, bounded};
use crate::text::ids::{hashed, to_map_key};
use crate::text::truncate;
use crate::transcript::record::{RecordKind, Role, StoredRecord, ToolDetails};
use crate::transcript::sanitize;
use crate::transcript::sanitize::CleanText;

/// What all texts of a step may come to, the answer's value among them, in sixteenths of what a call of the store takes; the
/// rest is for names, numbers and what each record counts beside its bytes.
const STEP_SHARE: u64 = 13;

/// All texts of tools' calls and results together, in JSON: a step is no longer than what a question reads.
const TOOLS_BYTES: usize = 2 << 20;

/// Names of tools, and of calls, in JSON.
pub(crate) const NAME_BYTES: usize = 256;

/// Calls and results of a step.
const ACTIVITY_MAX: usize = 1000;

/// Texts of one of them: arguments, result, error, details.
const ACTIVITY_TEXTS: usize = 4;

/// A step as it is to be stored, wherever that will be.
pub(crate) struct TurnRecords<'a> {
    /// The question's message, if the question is known.
    question: Option<StoredRecord<'a>>,
    /// What else there is, in order; never empty if there is no question.
    rest: Vec<StoredRecord<'a>>,
    /// Whole results: key in map `results`, text.
    pub results: Vec<(String, Cow<'a, str>)>,
    /// What was left out.
    pub left_out: Vec<&'static str>,
    /// Bytes that are left for whole results.
    room: usize,
    /// Bytes that each text of a tool may have.
    tool_bytes: usize,
}

/// What is known of a step beside the entry.
pub(crate) struct TurnContext<'a> {
    /// The turn's id.
    pub turn: &'a str,
    /// The key of the question's message.
    pub question_id: &'a str,
    /// The key of the answer's message, if it has one of its own.
    pub answer_id: Option<&'a str>,
    /// Seconds since 1970.
    pub at: &'a str,
    /// The question's text.
    pub question: Option<&'a str>,
    /// JSON arrays of references.
    pub question_files: Option<&'a str>,
    /// The question's embedding, as recall keeps it.
    pub question_vector: Option<&'a str>,
    pub answer_files: Option<&'a str>,
    /// What the thread weighed, if it is known.
    pub total: Option<u64>,
    /// The id of the message that the question named as the one before it.
    pub parent: Option<&'a str>,
    /// Bytes of the answer's value, which goes with it.
    pub value_bytes: usize,
    /// Tokens that the session's questions get: of longer results there is a preview.
    pub budget: u64,
    /// What the answer's metadata say of it, where the host tells no details.
    pub details: &'a str,
}

impl<'a> TurnRecords<'a> {
    /// The entry's text is clean already.
    pub(crate) fn new(options: &Options, entry: &AnswerEntry<'a>, about: &TurnContext<'a>) -> Self {
        let limits = options.limits;
        let (activity, is_cut) = kept(entry.activity, bounded(ACTIVITY_MAX, limits.call_pieces / 8));
        let step_bytes = bounded(usize::MAX, limits.call_bytes / 16 * STEP_SHARE);
        let tools_bytes = bounded(TOOLS_BYTES, limits.call_bytes / 8);
        let mut step = Self {
            question: None,
            rest: Vec::new(),
            results: Vec::new(),
            left_out: is_cut
                .then_some("the activity of tools beyond the first 1,000 calls and results")
                .into_iter()
                .collect(),
            room: step_bytes.saturating_sub(about.value_bytes + 2 * options.message_bytes() + tools_bytes),
            tool_bytes: options.tool_bytes().min(tools_bytes / (ACTIVITY_TEXTS * activity.len().max(1))),
        };
        step.question = about.question.map(|text| {
            let taken = sanitize::sanitize_message(options, text, false);
            let mut record = StoredRecord::new(about.turn, Role::User, taken.text, about.at);
            record.parts = taken.parts.map(Into::into);
            record.id = Some(about.question_id.into());
            record.truncated = taken.is_cut;
            record.tokens = if taken.is_cut { None } else { entry.question_tokens.map(u64::from) };
            record.files = about.question_files.map(Into::into);
            // It is that of the text as it was asked.
            record.vector = about.question_vector.filter(|_| *record.content == *text).map(Into::into);
            weigh_record(record)
        });

        for pending in [false, true] {
            for (activity, _) in activity.iter().filter(|(_, is_pending)| *is_pending == pending) {
                step.add_activity(options, activity, about);
            }
            if !pending {
                step.add_answer(options, entry, about);
            }
        }
        step
    }

    fn add_answer(&mut self, options: &Options, entry: &AnswerEntry<'a>, about: &TurnContext<'a>) {
        let CleanText { text, parts, is_cut } = sanitize::limit_message(options, entry.text.into());
        let is_bare = about.answer_id.is_none() && about.answer_files.is_none() && parts.is_none();
        if text.trim().is_empty() && is_bare && !entry.activity.is_empty() {
            return;
        }
        let mut record = StoredRecord::new(about.turn, Role::Assistant, text, about.at);
        record.parts = parts.map(Into::into);
        record.id = about.answer_id.map(Into::into);
        record.is_incomplete = entry.is_incomplete;
        record.truncated = is_cut;
        record.tokens = if is_cut { None } else { entry.tokens.map(u64::from) };
        record.files = about.answer_files.filter(|files| files.len() <= options.details_bytes()).map(Into::into);
        if record.files.is_none() && about.answer_files.is_some() {
            self.leave_out("references to files of more than 64 KiB");
        }
        let details = if entry.details.is_empty() { about.details } else { entry.details };
        self.add_details(options, &mut record, details, options.details_bytes());
        self.rest.push(weigh_record(record));
    }

    fn add_activity(&mut self, options: &Options, activity: &ToolActivity<'a>, about: &TurnContext<'a>) {
        let (mut call_id, mut name) = (Cow::Borrowed(activity.call_id), Cow::Borrowed(activity.name));
        if truncate::truncate_json_bytes(&mut call_id, NAME_BYTES) {
            call_id = hashed(activity.call_id).into();
        }
        truncate::truncate_json_bytes(&mut name, NAME_BYTES);
        let tool = ToolDetails { call_id, name, ..ToolDetails::default() };
        if let Some(arguments) = activity.arguments {
            let mut record = StoredRecord::new(about.turn, Role::Assistant, "".into(), about.at);
            record.kind = RecordKind::ToolCall;
            let mut arguments = sanitize::redact_json(options, arguments.into());
            record.truncated = truncate::bound_arguments(&mut arguments, self.tool_bytes);
            record.tool = Some(ToolDetails { arguments: Some(arguments), ..tool.clone() });
            self.add_details(options, &mut record, activity.details, self.tool_bytes);
            self.rest.push(weigh_record(record));
        }
        let (text, error) = match (activity.output, activity.error) {
            (None, None) => return,
            (Some(output), Some(error)) => (with_error(output, error), Some(error)),
            (output, error) => (output.or(error).unwrap_or_default().into(), error),
        };
        let text = sanitize::redact_text(options, text);
        let mut record = StoredRecord::new(about.turn, Role::Tool, "".into(), about.at);
        record.kind = RecordKind::ToolResult;
        let mut error = error.map(|error| sanitize::redact_text(options, error.into()));
        if let Some(error) = &mut error {
            truncate::truncate_json_bytes(error, self.tool_bytes);
        }
        let mut tool = ToolDetails { error, ..tool };
        if let Some(shown) = shorten_result(&text, about.budget, self.tool_bytes) {
            record.truncated = true;
            record.content = shown.into();
            let whole = Some(text.len()).filter(|bytes| *bytes as u64 <= options.limits.text_bytes);
            if let Some(room) = whole.and_then(|bytes| self.room.checked_sub(bytes)) {
                self.room = room;
                // Providers restart their numbering of calls with each reply, so a call's id alone is not unique.
                let number = self.results.len().to_string();
                let key = to_map_key(&[about.turn, "/", &*number, "/", activity.call_id].concat()).into_owned();
                tool.whole = Some(key.clone().into());
                self.results.push((key, text));
            } else {
                self.leave_out("the whole of some results of tools");
            }
        } else {
            record.content = text.into();
        }
        record.tool = Some(tool);
        if activity.arguments.is_none() {
            self.add_details(options, &mut record, activity.details, self.tool_bytes);
        }
        self.rest.push(weigh_record(record));
    }

    /// `model`, `raw`, `metadata` of the details as they are; whatever else there is as `metadata`.
    fn add_details(&mut self, options: &Options, record: &mut StoredRecord<'a>, details: &'a str, limit: usize) {
        if details.is_empty() {
            return;
        }
        let mut others = String::new();
        let kept = |raw: &'a str| sanitize::redact_json(options, raw.into());
        let read = if details.len() > limit {
            None
        } else {
            json::for_each_member(details, |key, raw| match json::decode_string(key).as_deref() {
                Some("model") => record.model = Some(kept(raw)),
                Some("raw") => record.raw = Some(kept(raw)),
                Some("metadata") if raw.starts_with('{') => record.metadata = Some(kept(raw)),
                _ => {
                    others.push_str(if others.is_empty() { "{" } else { "," });
                    others.push_str(key);
                    others.push(':');
                    others.push_str(&kept(raw));
                }
            })
        };
        if !others.is_empty() && record.metadata.is_none() {
            others.push('}');
            record.metadata = Some(others.into());
        }
        // What patterns made of JSON may be none any more, as a number is that they replaced, and longer.
        let parts = [&mut record.model, &mut record.raw, &mut record.metadata];
        let mut is_whole = read.is_some();
        for part in parts {
            let is_bad = |json: &str| json.len() > limit || json::as_portable_value(json).is_none();
            if read.is_none() || part.as_deref().is_some_and(is_bad) {
                is_whole &= part.take().is_none();
            }
        }
        if !is_whole {
            self.leave_out("details that are no JSON object of at most 64 KiB");
        }
    }

    fn leave_out(&mut self, what: &'static str) {
        if !self.left_out.contains(&what) {
            self.left_out.push(what);
        }
    }

    /// Whether a turn of these records has all of it, but for the question: what is said, to the letter, and the same calls.
    pub(crate) fn is_among<'r, 'b: 'r>(&self, turn: impl Iterator<Item = &'r StoredRecord<'b>> + Clone) -> bool {
        self.rest.iter().filter(|own| own.kind != RecordKind::Message || !own.content.is_empty()).all(|own| {
            turn.clone().any(|other| {
                let is_same_tool = match (&own.tool, &other.tool) {
                    (Some(own), Some(other)) => own.call_id == other.call_id && own.arguments == other.arguments,
                    (own, other) => own.is_none() && other.is_none(),
                };
                let is_same_text = own.kind != RecordKind::Message || *own.content == *other.content;
                (own.kind, own.role) == (other.kind, other.role) && is_same_tool && is_same_text
            })
        })
    }

    /// Whether anything is left to be stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.question.is_none() && self.rest.is_empty()
    }

    /// Where its question's message stands among its records, if it comes with them: first, or after the results that a
    /// turn which goes on has waited for.
    pub(crate) fn question_index(&self, place: &InsertionPoint) -> Option<usize> {
        self.question.as_ref().filter(|_| place.asks)?;
        let is_waited_for = |record: &&StoredRecord<'_>| !place.begins && record.kind == RecordKind::ToolResult;
        Some(self.rest.iter().take_while(is_waited_for).count())
    }

    /// What it weighs, with its question or without, and how many of its texts are cut.
    pub(crate) fn weight_and_cuts(&self, with_question: bool) -> (u64, i64) {
        let question = self.question.iter().filter(|_| with_question);
        question
            .chain(&self.rest)
            .fold((0, 0), |(weight, cut), record| (weight + record.weight, cut + i64::from(record.truncated)))
    }

    /// Its records as JSON.
    pub(crate) fn records(&self, about: &TurnContext<'_>, place: &InsertionPoint) -> Vec<String> {
        let InsertionPoint { begins, fork, ref turn, .. } = *place;
        let mut records = self.rest.clone();
        if let Some((index, question)) = self.question_index(place).zip(self.question.clone()) {
            records.insert(index, question);
        }
        if let Some(first) = records.first_mut() {
            first.begins = begins;
            first.total = if begins { fork.map(|fork| fork.total).or(about.total) } else { None };
            first.after = fork.map(|fork| fork.after);
            first.parent = about.parent.map(Into::into);
        }
        if let Some(turn) = turn {
            records.iter_mut().for_each(|record| record.turn = turn.into());
        }
        records.iter().map(StoredRecord::write).collect()
    }
}

/// What a tool gave and why it failed, as one text: so a window shows both, and both count. Some tools end with the error
/// anyway.
fn with_error<'t>(output: &'t str, error: &str) -> Cow<'t, str> {
    if output.as_bytes().ends_with(error.as_bytes()) {
        return output.into();
    }
    [output, "\n[Error] ", error].concat().into()
}

/// What of a tool's result its record holds. None: all of it.
pub(crate) fn shorten_result(text: &str, budget: u64, limit: usize) -> Option<String> {
    let preview = truncate::preview_result(text, budget);
    let mut shown = preview.as_deref().map_or(Cow::Borrowed(text), Cow::Borrowed);
    let is_cut = truncate::truncate_json_bytes(&mut shown, limit);
    if is_cut { Some(shown.into_owned()) } else { preview }
}

/// As many calls and results as a step holds, and of each whether its end is still to come. Where there are more, a call
/// whose result is not among the first ones is none of them.
fn kept<'e, 'a>(activity: &'e [ToolActivity<'a>], most: usize) -> (Vec<(&'e ToolActivity<'a>, bool)>, bool) {
    let first = activity.get(..most).unwrap_or(activity);
    let is_cut = first.len() < activity.len();
    let has_end = |activity: &ToolActivity<'_>| activity.output.is_some() || activity.error.is_some();
    let is_pending = |(index, activity): (usize, &'e ToolActivity<'a>)| {
        let mut later = first.iter().skip(index + 1);
        let is_ended = has_end(activity) || later.any(|other| other.call_id == activity.call_id && has_end(other));
        (activity, !is_ended)
    };
    let kept = first.iter().enumerate().map(is_pending).filter(|(_, is_pending)| !(is_cut && *is_pending));
    (kept.collect(), is_cut)
}

/// With what it counts for.
pub(crate) fn weigh_record(mut record: StoredRecord<'_>) -> StoredRecord<'_> {
    record.weight = record.frame() + record.body_weight();
    record
}

/// Where a step goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InsertionPoint {
    /// Whether the question's message comes with it.
    pub asks: bool,
    /// Whether the turn begins with it, and so with that message.
    pub begins: bool,
    /// Whether the newest message has to be the one that the turn follows.
    pub checks_head: bool,
    /// Where it follows another one.
    pub fork: Option<ForkPoint>,
    /// The turn that it is a part of, if not the one that its question began.
    pub turn: Option<String>,
}
