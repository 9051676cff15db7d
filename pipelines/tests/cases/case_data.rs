//! What all runners share: the cases, what their worlds read from them, and what every reply must have.

use std::{fs, path::Path, rc::Rc};

use keepline_pipelines::value::{Object, Value};
use keepline_recall::{Embedding, PassageDocument, count_tokens};

/// Every case, by name.
pub fn each_case() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/pipelines/cases");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= LEAST_CASES, "{} cases", files.len());
    let case = |file| Value::parse(&fs::read_to_string(file).unwrap()).unwrap();
    files.into_iter().map(case).map(|case| (text(&case, "name"), case)).collect()
}

/// None of the cases was lost.
const LEAST_CASES: usize = 402;

pub fn maybe<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.member(name).and_then(Value::as_text)
}

pub fn text(value: &Value, name: &str) -> String {
    maybe(value, name).unwrap_or_default().to_owned()
}

pub fn flag(value: &Value, name: &str) -> bool {
    value.member(name).and_then(Value::as_bool).unwrap_or(false)
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

/// Items of a request, each with the key or id that it has of its own.
pub fn items(request: &Value) -> Vec<(String, Value)> {
    let is_values = maybe(request, "kind") == Some("values");
    let item = |item: &Value| match is_values {
        true => (text(item, "key"), item.member("value").cloned().unwrap_or_default()),
        false => (text(item, "id"), item.clone()),
    };
    list(request, "items").iter().map(item).collect()
}

/// Members that are texts, as the ids of a request.
pub fn texts(value: &Value, name: &str) -> Vec<String> {
    list(value, name).iter().map(|text| text.as_text().unwrap().to_owned()).collect()
}

/// A library's reply has no time taken, so the runner adds it.
pub fn timed(mut members: Object) -> Value {
    match members.get_mut("meta") {
        Some(Value::Object(meta)) => drop(Rc::make_mut(meta).insert("duration_ms".into(), 0_u64.into())),
        _ => drop(members.insert("duration_ms".into(), 0_u64.into())),
    }
    members.into()
}

/// The same assembly over the same state is the same bytes, but for the time it took.
pub fn assert_repeated_replies(requests: &[Value], replies: &[Value]) {
    let untimed = |reply: &Value| {
        let mut reply = reply.as_object().unwrap().clone();
        if let Some(Value::Object(meta)) = reply.get_mut("meta") {
            Rc::make_mut(meta).shift_remove("duration_ms");
        }
        Value::from(reply).to_json()
    };
    for (at, request) in requests.iter().enumerate().filter(|(_, request)| maybe(request, "op") == Some("assemble")) {
        if let Some(earlier) = requests[..at].iter().position(|earlier| earlier == request) {
            assert_eq!(untimed(&replies[earlier]), untimed(&replies[at]));
        }
    }
}

/// Errors and warnings without a path, in each reply whose case does not expect one: then the whole is what is wrong.
pub fn unplaced_findings(expected: &Value, reply: &Value) -> Vec<String> {
    if let Some(replies) = reply.member("replies").and_then(Value::as_list) {
        let each = list(expected, "replies").iter().zip(replies);
        return each.flat_map(|(expected, reply)| unplaced_findings(expected, reply)).collect();
    }
    if expects_whole(expected) {
        return Vec::new();
    }
    // Whether a run failed is no matter of a definition, and may have no place.
    let error = reply.member("error").filter(|error| maybe(error, "code") == Some("invalid"));
    let errors = error.map(|error| list(error, "errors")).unwrap_or_default();
    let all = [list(reply, "errors"), list(reply, "warnings"), errors].into_iter().flatten().chain(error);
    all.filter(|finding| text(finding, "path").is_empty()).map(Value::to_json).collect()
}

/// Whether the empty path is expected anywhere.
fn expects_whole(expected: &Value) -> bool {
    match expected {
        Value::Object(members) => maybe(expected, "path") == Some("") || members.values().any(expects_whole),
        Value::List(items) => items.iter().any(expects_whole),
        _ => false,
    }
}

/// What the filter would have stored of a session or user (`wit/layout.md`).
#[derive(Default)]
pub struct KeptData {
    /// Entries of the map `values`.
    pub values: Vec<(String, String)>,
    /// Entries of the map `vectors`.
    pub vectors: Vec<(String, String)>,
    pub logs: Vec<(&'static str, Vec<String>)>,
}

/// A session and a user that have the same name.
pub struct Kept {
    pub name: String,
    pub session: KeptData,
    pub user: KeptData,
}

/// The session and user that ask, if there are any.
pub fn asking(case: &Value) -> Option<Kept> {
    Some(kept(case.member("asking")?, format!("asker-{}", text(case, "name"))))
}

/// A session and a user that do not ask.
pub fn others(case: &Value) -> Option<Kept> {
    Some(kept(case.member("others")?, format!("other-{}", text(case, "name"))))
}

fn kept(given: &Value, name: String) -> Kept {
    let of = |what: &str| {
        let values = object(given, what).iter().map(|(key, value)| (key.to_string(), value.to_json())).collect();
        let mut data = KeptData { values, ..KeptData::default() };
        let (mut passages, mut terms) = (Vec::new(), Vec::new());
        let all = given.member("passages").cloned().unwrap_or_default();
        for (position, passage) in list(&all, what).iter().enumerate() {
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
    session.logs.push(("history", list(given, "history").iter().map(Value::to_json).collect()));
    Kept { name, session, user }
}
