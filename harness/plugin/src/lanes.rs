//! What this filter does to questions and answers.
//!
//! The model and the caller get every text as it came: a filter changes what is stored, and the metadata of questions.

use keepline_filter::component::Bundled;
use keepline_filter::contract::lanes::{AnswerEntry, AnswerReply, Configured, Guest, QuestionEntry, QuestionReply};
use keepline_filter::contract::{Level, Problem};

use crate::cards::{redact_json, redact_metadata, redact_text};

struct Redacting;

keepline_filter::export_lanes!(Redacting);

impl Guest for Redacting {
    fn configure(options: String, log_from: Level) -> Result<Configured, Problem> {
        Bundled::configure(options, log_from)
    }

    /// A question is stored with its answer, and not before.
    fn question(entry: QuestionEntry) -> QuestionReply {
        Bundled::question(entry)
    }

    fn answer(mut entry: AnswerEntry) -> AnswerReply {
        redact_text(&mut entry.text);
        redact_text(&mut entry.question.text);
        redact_metadata(&mut entry.metadata);
        entry.details.as_mut().map(redact_json);
        for tool in &mut entry.tools {
            tool.arguments.as_mut().map(redact_json);
            tool.output.as_mut().map(redact_text);
            tool.error.as_mut().map(redact_text);
            tool.details.as_mut().map(redact_json);
        }
        Bundled::answer(entry)
    }
}
