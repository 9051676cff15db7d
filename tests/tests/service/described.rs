//! Holds each reply to what `/openapi.json` says of its route.

use std::collections::BTreeMap;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

const DOCUMENT: &str = "openapi.json";

/// The description of a service.
pub struct Described {
    schemas: Schemas,
    operations: Vec<Operation>,
}

struct Operation {
    method: String,
    path: String,
    /// By status. None: any body, or none.
    replies: BTreeMap<u16, Option<SchemaIndex>>,
}

impl Described {
    pub fn new(document: &Value) -> Self {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource(DOCUMENT, document.clone()).unwrap();
        let mut reply = |response: &Value| {
            let shared =
                response["$ref"].as_str().map(|place| document.pointer(place.trim_start_matches('#')).unwrap());
            let schema = shared.unwrap_or(response).pointer("/content/application~1json/schema/$ref")?;
            Some(compiler.compile(&format!("{DOCUMENT}{}", schema.as_str().unwrap()), &mut schemas).unwrap())
        };
        let mut operations = Vec::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let responses = operation["responses"].as_object().unwrap().iter();
                let replies = responses.map(|(status, response)| (status.parse().unwrap(), reply(response))).collect();
                operations.push(Operation { method: method.to_uppercase(), path: path.clone(), replies });
            }
        }
        Self { schemas, operations }
    }

    /// That a reply is one of those that its route has. Without a route, or with another method, it is refused as its
    /// neighbours refuse.
    pub fn check(&self, method: &str, path: &str, status: u16, body: &Value) {
        let schema = match self.operation(method, path) {
            Some(operation) => *operation.replies.get(&status).unwrap_or_else(|| {
                panic!("{method} {path} answered {status}, which /openapi.json does not say of it\n{body}")
            }),
            None if matches!(status, 404 | 405) => self.refusal_near(path),
            None => panic!("{method} {path} answered {status}, and /openapi.json has no such route\n{body}"),
        };
        let Some(schema) = schema else { return };
        if let Err(error) = self.schemas.validate(body, schema) {
            panic!("{method} {path} answered {status} with what /openapi.json does not say: {error}\n{body}");
        }
    }

    fn operation(&self, method: &str, path: &str) -> Option<&Operation> {
        let path: Vec<&str> = path.split('?').next().unwrap().split('/').collect();
        let fits = |template: &str| {
            let template: Vec<&str> = template.split('/').collect();
            let mut parts = template.iter().zip(&path);
            template.len() == path.len() && parts.all(|(own, given)| own.starts_with('{') || own == given)
        };
        // A path without parameters comes first, as in the router.
        let found = self.operations.iter().filter(|operation| operation.method == method && fits(&operation.path));
        found.min_by_key(|operation| operation.path.matches('{').count())
    }

    fn refusal_near(&self, path: &str) -> Option<SchemaIndex> {
        let first = |path: &str| path.split(['/', '?']).nth(1).map(str::to_owned);
        let near = self.operations.iter().find(|operation| first(&operation.path) == first(path));
        *near.unwrap_or_else(|| panic!("/openapi.json has nothing near {path}")).replies.get(&400).unwrap()
    }
}
