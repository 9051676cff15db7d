//! Reads the conversations that recall is measured on, one a line.
//!
//! Each yields messages as a session takes them, and questions whose evidence is known by its position. Lines that are
//! not a conversation and dates that can't be read are refused. Evidence that no turn has counts as not recalled and is
//! reported, as are ids that several turns share.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::json;

/// A conversation in the file. Other members are ignored.
#[derive(Deserialize)]
struct DatasetConversation {
    #[serde(default)]
    sessions: Vec<DatasetSession>,
    #[serde(default)]
    questions: Vec<DatasetQuestion>,
}

#[derive(Deserialize)]
struct DatasetSession {
    #[serde(default)]
    date: Option<String>,
    #[serde(default)]
    turns: Vec<DatasetTurn>,
}

#[derive(Deserialize)]
struct DatasetTurn {
    id: String,
    speaker: String,
    text: String,
    /// Caption of an image.
    #[serde(default)]
    caption: Option<String>,
}

#[derive(Deserialize)]
struct DatasetQuestion {
    question: String,
    #[serde(default)]
    evidence: Vec<String>,
}

/// A conversation, for one session or the sessions of a user.
#[derive(Default)]
pub struct EvaluationSample {
    /// Index of each session's first message, ascending.
    pub sessions: Vec<usize>,
    /// Messages in the form of `set_messages`.
    pub messages: Vec<String>,
    /// Characters of each message that are not white space.
    pub sizes: Vec<usize>,
    pub asked: Vec<EvaluationQuestion>,
    /// Evidence that no turn has, and ids that several turns share: each with its line.
    pub unknown: Vec<String>,
    pub repeated: Vec<String>,
}

/// A question, and the messages that hold the evidence for it.
pub struct EvaluationQuestion {
    pub question: String,
    /// Indexes into [`EvaluationSample::messages`], ascending.
    pub evidence: Vec<usize>,
    /// Evidence without a turn, which is never recalled.
    pub missing: usize,
}

/// Reads a sample for each conversation of a file, or one for all.
pub fn read_samples(path: &Path, is_merged: bool) -> Result<Vec<EvaluationSample>> {
    let told = || format!("can't read {}", path.display());
    let text = std::fs::read_to_string(path).with_context(told)?;
    let mut all: Vec<EvaluationSample> = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let at = || format!("{}, line {number}", path.display());
        let conversation: DatasetConversation = serde_json::from_str(line).with_context(at)?;
        match all.last_mut().filter(|_| is_merged) {
            Some(sample) => sample.add_conversation(conversation, number).with_context(at)?,
            None => {
                let mut sample = EvaluationSample::default();
                sample.add_conversation(conversation, number).with_context(at)?;
                all.push(sample);
            }
        }
    }
    if all.iter().all(|sample| sample.asked.is_empty()) {
        bail!("{} has no question with evidence", path.display());
    }
    Ok(all)
}

impl EvaluationSample {
    pub fn session_count(&self, is_user: bool) -> usize {
        if is_user { self.sessions.len() } else { 1 }
    }

    pub fn messages_by_session(&self) -> impl Iterator<Item = &[String]> {
        let ends = self.sessions.iter().skip(1).copied().chain([self.messages.len()]);
        self.sessions.iter().zip(ends).filter_map(|(begin, end)| self.messages.get(*begin..end))
    }

    fn add_conversation(&mut self, conversation: DatasetConversation, number: usize) -> Result<()> {
        let mut places: HashMap<String, usize> = HashMap::new();
        // The first speaker is the user.
        let mut first: Option<String> = None;
        for session in conversation.sessions {
            let begun = session.date.as_deref().map(parse_date_seconds).transpose()?;
            self.sessions.push(self.messages.len());
            for (after, turn) in (0_i64..).zip(session.turns) {
                let DatasetTurn { id, speaker, text, caption } = turn;
                let image = caption.map(|caption| format!(" [image: {caption}]")).unwrap_or_default();
                let content = format!("{speaker}: {text}{image}");
                let is_user = *first.get_or_insert_with(|| speaker.clone()) == speaker;
                let mut message = json!({"role": if is_user { "user" } else { "assistant" }, "content": content});
                if let (Some(begun), Some(members)) = (begun, message.as_object_mut()) {
                    members.insert("at".into(), (begun + after).into());
                }
                if places.insert(id.clone(), self.messages.len()).is_some() {
                    self.repeated.push(format!("{id:?} in line {number}"));
                }
                self.sizes.push(count_nonblank_characters(&content));
                self.messages.push(message.to_string());
            }
        }
        for DatasetQuestion { question, evidence } in conversation.questions {
            let unknown = evidence.iter().filter(|id| !places.contains_key(*id));
            self.unknown.extend(unknown.map(|id| format!("{id:?} in line {number}")));
            let evidence: HashSet<String> = evidence.into_iter().collect();
            let mut found: Vec<usize> = evidence.iter().filter_map(|id| places.get(id).copied()).collect();
            found.sort_unstable();
            let missing = evidence.len() - found.len();
            if !evidence.is_empty() {
                self.asked.push(EvaluationQuestion { question, evidence: found, missing });
            }
        }
        Ok(())
    }
}

/// Characters that are not white space.
pub fn count_nonblank_characters(text: &str) -> usize {
    text.chars().filter(|c| !c.is_whitespace()).count()
}

/// Seconds since 1970 of a date: `1:56 pm on 8 May, 2023`, or RFC 3339.
fn parse_date_seconds(date: &str) -> Result<i64> {
    if let Ok(time) = date.parse::<jiff::Timestamp>() {
        return Ok(time.as_second());
    }
    // The parser's own error does not help to write a date.
    let Ok(time) = jiff::civil::DateTime::strptime("%I:%M %p on %d %B, %Y", date) else {
        bail!("the date {date:?} must be like \"1:56 pm on 8 May, 2023\" or \"2023-05-08T13:56:00Z\"");
    };
    Ok(jiff::tz::TimeZone::UTC.to_timestamp(time)?.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_parsed_in_prose_and_iso_notation() {
        for (date, expected) in [
            ("1:56 pm on 8 May, 2023", 1_683_554_160),
            ("12:09 am on 13 September, 2023", 1_694_563_740),
            ("2023-05-08T13:56:00Z", 1_683_554_160),
        ] {
            assert_eq!(parse_date_seconds(date).unwrap(), expected, "{date}");
        }
        assert!(parse_date_seconds("yesterday").is_err());
    }
}
