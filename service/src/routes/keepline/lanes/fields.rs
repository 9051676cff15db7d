//! The members of an entry's body beside `lane`, `text`, `metadata` and `tool`.

use keepline::pipe::{AnswerStatus, ToolActivity, Vector};
use keepline_json::{for_each_element, for_each_member, mend_json};
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    http::ApiError,
    jsonl::members::{decode_json_string, parse_tool_activity},
};

/// Beside a question.
#[derive(Debug, Default)]
pub struct QuestionFields {
    pub message_id: Option<String>,
    pub tokens: Option<u32>,
    pub vector: Option<Vector>,
}

/// Beside an answer.
#[derive(Debug, Default)]
pub struct AnswerFields {
    pub turn: Option<String>,
    pub message_id: Option<String>,
    pub question_text: Option<String>,
    pub question_tokens: Option<u32>,
    pub tokens: Option<u32>,
    pub status: AnswerStatus,
    /// A JSON object.
    pub details: Option<String>,
    pub tools: Vec<ToolActivity>,
}

/// Beside what a tool did.
#[derive(Debug, Default)]
pub struct ToolFields {
    pub turn: Option<String>,
}

#[derive(Deserialize)]
struct VectorFields {
    model: String,
    data: String,
}

impl QuestionFields {
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut fields = Self::default();
        read_members(body, |name, raw| {
            match name {
                "message_id" => fields.message_id = value(name, raw, TEXT)?,
                "tokens" => fields.tokens = value(name, raw, COUNT)?,
                "vector" => {
                    let allowed = "an object with the texts \"model\" and \"data\" (base64 of 32-bit floats)";
                    let vector: Option<VectorFields> = value(name, raw, allowed)?;
                    fields.vector = vector.map(|VectorFields { model, data }| Vector { model, data });
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(fields)
    }
}

impl AnswerFields {
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut fields = Self::default();
        read_members(body, |name, raw| {
            match name {
                "turn" => fields.turn = value(name, raw, TEXT)?,
                "message_id" => fields.message_id = value(name, raw, TEXT)?,
                "question_text" => fields.question_text = value(name, raw, TEXT)?,
                "question_tokens" => fields.question_tokens = value(name, raw, COUNT)?,
                "tokens" => fields.tokens = value(name, raw, COUNT)?,
                "status" => {
                    let allowed = "\"complete\" or \"incomplete\"";
                    let status: Option<String> = value(name, raw, allowed)?;
                    let named = |status: String| AnswerStatus::from_name(&status).ok_or_else(|| wrong(name, allowed));
                    fields.status = status.map(named).transpose()?.unwrap_or_default();
                }
                "details" if raw != "null" => {
                    let object = mend_json(raw).filter(|object| object.starts_with('{'));
                    fields.details = Some(object.ok_or_else(|| wrong(name, "a JSON object"))?.into_owned());
                }
                "tools" if raw != "null" => fields.tools = tools(raw)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(fields)
    }
}

impl ToolFields {
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut fields = Self::default();
        read_members(body, |name, raw| {
            if name == "turn" {
                fields.turn = value(name, raw, TEXT)?;
            }
            Ok(())
        })?;
        Ok(fields)
    }
}

const TEXT: &str = "a text";
const COUNT: &str = "a whole number from 0 to 4294967295";

/// Passes the members of a body that is known to be an object.
fn read_members(body: &[u8], mut read: impl FnMut(&str, &str) -> Result<(), ApiError>) -> Result<(), ApiError> {
    let text = std::str::from_utf8(body).unwrap_or_default();
    let mut outcome = Ok(());
    let _ = for_each_member(text, |key, raw| {
        if outcome.is_ok() {
            outcome = read(&decode_json_string(key), raw);
        }
    });
    outcome
}

/// A member; null is as if it were not there.
fn value<T: DeserializeOwned>(name: &str, raw: &str, allowed: &str) -> Result<Option<T>, ApiError> {
    let mended = mend_json(raw).ok_or_else(|| wrong(name, allowed))?;
    serde_json::from_str(&mended).map_err(|_| wrong(name, allowed))
}

fn tools(raw: &str) -> Result<Vec<ToolActivity>, ApiError> {
    let (mut tools, mut fault) = (Vec::new(), None);
    let read = for_each_element(raw, |element| match parse_tool_activity(Some(element)) {
        Ok(activity) => tools.push(activity),
        Err(what) => fault = fault.take().or(Some((tools.len(), what))),
    });
    match fault {
        _ if read.is_none() => Err(wrong("tools", "an array of what tools did")),
        Some((at, what)) => Err(ApiError::invalid(format!("tools[{at}]"), what)),
        None => Ok(tools),
    }
}

fn wrong(name: &str, allowed: &str) -> ApiError {
    ApiError::invalid(name, format!("{name} must be {allowed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_an_answer_are_read_and_null_is_none() {
        let body = br#"{"text":"x","message_id":"m","tokens":null,"question_tokens":7,"status":"incomplete",
            "details":{"model":"m","n":1.50},"tools":[{"call_id":"1","output":"y"}],"turn":"{}"}"#;
        let fields = AnswerFields::parse(body).unwrap();
        assert_eq!((fields.message_id.as_deref(), fields.tokens, fields.question_tokens), (Some("m"), None, Some(7)));
        assert_eq!((fields.status, fields.tools.len()), (AnswerStatus::Incomplete, 1));
        assert_eq!(fields.details.as_deref(), Some(r#"{"model":"m","n":1.50}"#));
        assert_eq!(fields.turn.as_deref(), Some("{}"));
    }

    #[test]
    fn a_member_of_a_wrong_type_is_named() {
        for (body, path) in [
            (r#"{"message_id":1}"#, "message_id"),
            (r#"{"tokens":-1}"#, "tokens"),
            (r#"{"status":"half"}"#, "status"),
            (r#"{"details":[]}"#, "details"),
            (r#"{"tools":{}}"#, "tools"),
            (r#"{"tools":[{"call_id":"1","output":"x"},{}]}"#, "tools[1]"),
            (r#"{"turn":{}}"#, "turn"),
        ] {
            assert_eq!(AnswerFields::parse(body.as_bytes()).unwrap_err().path.as_deref(), Some(path), "{body}");
        }
        assert_eq!(QuestionFields::parse(br#"{"vector":{"model":"m"}}"#).unwrap_err().path.as_deref(), Some("vector"));
    }
}
