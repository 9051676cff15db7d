//! The small world of a case, in a store: its definitions and data, its clock, and what its host answers.

use std::rc::Rc;

use keepline_pipelines::{
    catalog::DefinitionKind,
    datasets::{Asker, Collection, DataItem, DataKind, Owner, OwnerKind, put_items},
    requests::stored::put_definition,
    run::{Answer, Need},
    value::{Object, Value},
};
use keepline_recall::Embedding;
use keepline_store_client::{BucketId, Host as _, Operation, Precondition, PutEntry, Transaction, VALUES, kind};

use crate::{host::TestHost, matcher::mismatch};

pub struct World {
    pub host: TestHost,
    pub asker: Asker,
    pub now: i64,
    vectors: Object,
    handlers: Object,
}

fn text(value: &Value, name: &str) -> String {
    value.member(name).and_then(Value::as_text).unwrap_or_default().to_owned()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.member(name).and_then(Value::as_list).unwrap_or_default()
}

fn object(value: &Value, name: &str) -> Object {
    value.member(name).and_then(Value::as_object).cloned().unwrap_or_default()
}

impl World {
    pub fn build(case: &Value) -> Self {
        let now = case.member("now").and_then(Value::as_text).unwrap_or("2026-03-01T12:00:00Z");
        let now = now.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let owner = Owner { kind: OwnerKind::Project, name: "default".into() };
        let asking = |what: &str| case.member("asking").map(|asking| (object(asking, what), "asker".to_owned()));
        let (session, user) = (asking("session"), asking("user"));
        let name = |of: &Option<(Object, String)>| of.as_ref().map(|(_, name)| name.clone());
        let asker = Asker { owner, session: name(&session), user: name(&user) };
        let host = TestHost::new();
        for (kind, of) in [(kind::SESSION, session), (kind::USER, user)] {
            let Some((values, name)) = of else { continue };
            let texts: Vec<_> = values.iter().map(|(key, value)| (key, value.to_json())).collect();
            let put: Vec<_> = texts.iter().map(|(key, text)| PutEntry { key, text }).collect();
            let bucket = BucketId { kind, name: &name };
            let (precondition, operations) = (Precondition::create(None), [Operation::put(VALUES, &put)]);
            host.transact(&Transaction { bucket, precondition, expectations: &[], operations: &operations }).unwrap();
        }
        let world = Self { host, asker, now, vectors: object(case, "vectors"), handlers: object(case, "handlers") };
        // As a file on disk would be: some are invalid on purpose.
        for (kind, name) in [(DefinitionKind::Memory, "definitions"), (DefinitionKind::Rules, "rule_engines")] {
            for form in list(case, name) {
                put_definition(&world.host, &world.asker.owner, kind, &text(form, "id"), form, None).unwrap();
            }
        }
        if let Some(data) = case.member("data") {
            world.put_data(data);
        }
        world
    }

    fn put_item(&self, kind: DataKind, name: &str, namespace: &str, id: &str, value: Value) {
        let collection = Collection { name: name.into(), namespace: namespace.into() };
        let items = [DataItem { id: id.into(), value }];
        put_items(&self.host, &self.asker.owner, kind, &collection, &items).unwrap();
    }

    fn put_data(&self, data: &Value) {
        for row in list(data, "kv") {
            let value = row.member("value").cloned().unwrap_or_default();
            self.put_item(DataKind::Values, &text(row, "instance"), &text(row, "namespace"), &text(row, "key"), value);
        }
        for event in list(data, "events") {
            self.put_item(DataKind::Events, &text(event, "instance"), "", "", event.clone());
        }
        for document in list(data, "documents") {
            let mut value = document.as_object().unwrap().clone();
            let collection = text(document, "collection");
            value.shift_remove("collection");
            if let Some(vector) = value.shift_remove("vector") {
                let vector = Value::object([("model", Value::from("m")), ("data", base64(&vector).into())]);
                value.insert("vector".into(), vector);
            }
            self.put_item(DataKind::Documents, &collection, "", &text(document, "id"), value.into());
        }
        let graph = data.member("graph").cloned().unwrap_or_default();
        for (kind, name) in [(DataKind::Nodes, "nodes"), (DataKind::Edges, "edges"), (DataKind::Views, "views")] {
            for thing in list(&graph, name) {
                self.put_item(kind, "", "", &text(thing, "id"), thing.clone());
            }
        }
    }

    /// What the case's host says to a need.
    pub fn answer(&self, need: &Need) -> Answer {
        match need {
            Need::Vector { text } => match self.vectors.get(text) {
                Some(vector) => Answer::Vector(Rc::new(Embedding::new("m", &base64(vector)).unwrap())),
                None => Answer::Refused("there is no endpoint".into()),
            },
            Need::Handler { name, input, params } => {
                let Some(handler) = self.handlers.get(name) else {
                    return Answer::Refused("no handler of that name is registered".into());
                };
                for (member, given) in [("input", input), ("params", params)] {
                    if let Some(expected) = handler.member(member) {
                        assert_eq!(mismatch(expected, Some(given)), None, "the handler's {member}");
                    }
                }
                match handler.member("error").and_then(Value::as_text) {
                    Some(error) => Answer::Failed(error.into()),
                    None => Answer::Output(handler.member("output").cloned().unwrap_or_default()),
                }
            }
            Need::ActionBlock { .. } => Answer::Refused("there is no such component".into()),
            Need::InlineCode { .. } => Answer::Refused("there is no interpreter".into()),
        }
    }
}

/// A list of numbers as 32-bit little-endian floats in base64.
fn base64(vector: &Value) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let numbers = vector.as_list().unwrap().iter().map(|number| number.as_number().unwrap() as f32);
    let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = chunk.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        text.extend((0..=chunk.len()).map(|digit| char::from(DIGITS[(number >> (18 - 6 * digit)) as usize & 63])));
    }
    text
}
