//! What the worlds of all runners read from a case: its texts, vectors, and what is kept of who asks.

use keepline_pipelines::value::{Object, Value};
use keepline_recall::{Embedding, PassageDocument, count_tokens};

pub fn text(value: &Value, name: &str) -> String {
    value.member(name).and_then(Value::as_text).unwrap_or_default().to_owned()
}

pub fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.member(name).and_then(Value::as_list).unwrap_or_default()
}

pub fn object(value: &Value, name: &str) -> Object {
    value.member(name).and_then(Value::as_object).cloned().unwrap_or_default()
}

/// A list of numbers, as a model's vector.
pub fn floats(vector: &Value) -> Vec<f32> {
    vector.as_list().unwrap().iter().map(|number| number.as_number().unwrap() as f32).collect()
}

/// A list of numbers as 32-bit little-endian floats in base64.
pub fn base64(vector: &Value) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = floats(vector).into_iter().flat_map(f32::to_le_bytes).collect();
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = chunk.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        text.extend((0..=chunk.len()).map(|digit| char::from(DIGITS[(number >> (18 - 6 * digit)) as usize & 63])));
    }
    text
}

/// A document of a case as it is put: its vector is of the model `m`.
pub fn stored_document(document: &Value) -> Value {
    let mut value = document.as_object().unwrap().clone();
    value.shift_remove("collection");
    if let Some(vector) = value.shift_remove("vector") {
        let vector = Value::object([("model", Value::from("m")), ("data", base64(&vector).into())]);
        value.insert("vector".into(), vector);
    }
    value.into()
}

/// Errors and warnings of a reply that name no place. Only what is no object as a whole has none.
pub fn unplaced_findings(reply: &Value) -> Vec<String> {
    let error = reply.member("error").cloned().unwrap_or_default();
    let lists = [list(reply, "errors"), list(reply, "warnings"), list(&error, "errors")];
    let all = lists.into_iter().flatten().chain(reply.member("error"));
    let is_whole = |finding: &Value| {
        let message = text(finding, "message");
        message.contains("a definition, an object, is required") || !["", "invalid"].contains(&&*text(finding, "code"))
    };
    all.filter(|finding| text(finding, "path").is_empty() && !is_whole(finding)).map(Value::to_json).collect()
}

/// What the filter would have stored of a session or user that asks (`wit/layout.md`).
#[derive(Default)]
pub struct AskingData {
    /// Entries of the map `values`.
    pub values: Vec<(String, String)>,
    /// Entries of the map `vectors`.
    pub vectors: Vec<(String, String)>,
    pub logs: Vec<(&'static str, Vec<String>)>,
}

/// Of the asking session, then of the asking user. None: nobody asks.
pub fn asking_data(case: &Value) -> Option<[AskingData; 2]> {
    let asking = case.member("asking")?;
    let of = |what: &str| {
        let values = object(asking, what).iter().map(|(key, value)| (key.to_string(), value.to_json())).collect();
        let mut data = AskingData { values, ..AskingData::default() };
        let kept = asking.member("passages").cloned().unwrap_or_default();
        let (mut passages, mut terms) = (Vec::new(), Vec::new());
        for (position, passage) in list(&kept, what).iter().enumerate() {
            let (content, role) = (text(passage, "text"), text(passage, "role"));
            let (document, time) = (content.as_str(), 0);
            let tokens = count_tokens(document);
            let posting = PassageDocument { text: document, speaker: &role, time, first: false, tokens }.to_posting();
            terms.push(posting.to_text());
            let record = [
                ("p", Value::from(position as u64)),
                ("at", passage.member("at").cloned().unwrap_or_else(|| 0_u64.into())),
                ("role", Value::from(&*role)),
                ("text", Value::from(document)),
            ];
            passages.push(Value::object(record).to_json());
            let vector = passage.member("vector").map(|vector| Embedding::new("m", &base64(vector)).unwrap());
            data.vectors.extend(vector.map(|vector| (position.to_string(), vector.as_str().to_owned())));
        }
        data.logs = vec![("passages", passages), ("terms", terms)];
        data
    };
    let (mut session, user) = (of("session"), of("user"));
    session.logs.push(("history", list(asking, "history").iter().map(Value::to_json).collect()));
    Some([session, user])
}
