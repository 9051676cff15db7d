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

use crate::{
    case_data::{Kept, KeptData, asking, base64, list, object, others, stored_document, text},
    host::TestHost,
    matcher::mismatch,
};

pub struct World {
    pub host: TestHost,
    pub asker: Asker,
    pub now: i64,
    vectors: Object,
    handlers: Object,
}

fn put_kept(host: &TestHost, kept: &Kept) {
    put_bucket(host, BucketId { kind: kind::SESSION, name: &kept.name }, &kept.session);
    put_bucket(host, BucketId { kind: kind::USER, name: &kept.name }, &kept.user);
}

fn put_bucket(host: &TestHost, bucket: BucketId<'_>, data: &KeptData) {
    fn entries(texts: &[(String, String)]) -> Vec<PutEntry<'_>> {
        texts.iter().map(|(key, text)| PutEntry { key, text }).collect()
    }
    let (values, vectors) = (entries(&data.values), entries(&data.vectors));
    let logs: Vec<(_, Vec<&str>)> =
        data.logs.iter().map(|(log, records)| (*log, records.iter().map(String::as_str).collect())).collect();
    let mut operations = vec![Operation::put(VALUES, &values), Operation::put("vectors", &vectors)];
    operations.extend(logs.iter().map(|(log, records)| Operation::append(log, records, &[])));
    let transaction =
        Transaction { bucket, precondition: Precondition::create(None), expectations: &[], operations: &operations };
    host.transact(&transaction).unwrap();
}

impl World {
    pub fn build(case: &Value) -> Self {
        let now = case.member("now").and_then(Value::as_text).unwrap_or("2026-03-01T12:00:00Z");
        let now = now.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let owner = Owner { kind: OwnerKind::Project, name: "default".into() };
        let host = TestHost::new();
        let mut asker = Asker { owner, session: None, user: None };
        if let Some(kept) = asking(case) {
            put_kept(&host, &kept);
            (asker.session, asker.user) = (Some(kept.name.clone()), Some(kept.name));
        }
        others(case).iter().for_each(|kept| put_kept(&host, kept));
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
            let value = stored_document(document);
            self.put_item(DataKind::Documents, &text(document, "collection"), "", &text(document, "id"), value);
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
