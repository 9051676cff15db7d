//! Links: which routes read, change or remove what a route has made. For clients, and for testers, which follow them.

use serde_json::{Map, Value, json};

use crate::http::Route;

/// Of all paths here.
const PREFIX: &str = "/keepline/v1";

/// From a route under `/keepline/v1` to others that take what its reply has.
pub struct Link {
    /// Method and path of the route that makes it, as the table has them.
    pub from: &'static str,
    /// Parameters that its reply has, each with its place there. Others of the same name are those of its request.
    pub replied: &'static [(&'static str, &'static str)],
    /// Parameters of the query that stay.
    pub kept: &'static [&'static str],
    /// The body that is sent, or members of it, as JSON. Empty: none is known.
    pub sent: &'static str,
    pub to: &'static [&'static str],
}

const fn link(from: &'static str, to: &'static [&'static str]) -> Link {
    Link { from, replied: &[], kept: &[], sent: "", to }
}

const OF_SESSION: &[&str] = &[
    "GET /sessions/{id}",
    "PATCH /sessions/{id}",
    "POST /sessions/{id}/resume",
    "GET /sessions/{id}/messages",
    "POST /sessions/{id}/messages",
    "PUT /sessions/{id}/messages",
    "GET /sessions/{id}/window",
    "GET /sessions/{id}/branches",
    "GET /sessions/{id}/keys",
    "PUT /sessions/{id}/keys/{key}",
    "GET /sessions/{id}/history",
    "GET /sessions/{id}/export",
    "DELETE /sessions/{id}",
];
const OF_MESSAGES: &[&str] = &[
    "GET /sessions/{id}/messages",
    "GET /sessions/{id}/window",
    "GET /sessions/{id}/branches",
    "DELETE /sessions/{id}/messages",
];
const OF_MESSAGE: &[&str] = &[
    "GET /sessions/{id}/messages/{position}/text",
    "GET /sessions/{id}/messages/{position}/lines",
    "PATCH /sessions/{id}/messages/{position}",
    "DELETE /sessions/{id}/messages/{position}",
];
const OF_DEFINITION: &[&str] = &[
    "GET /definitions/{kind}/{definition}",
    "PATCH /definitions/{kind}/{definition}",
    "POST /definitions/{kind}/{definition}/duplicate",
    "POST /memories/{definition}/run",
    "DELETE /definitions/{kind}/{definition}",
];
const OF_NODE: &[&str] = &["node", "app"];
const TURN: &str = r#"{"turn": "$response.body#/turn"}"#;
const OF_DATASET: &[&str] = &["name", "namespace"];

pub const LINKS: &[Link] = &[
    Link { sent: TURN, ..link("POST /questions", &["POST /tools", "POST /answers"]) },
    Link { sent: TURN, ..link("POST /tools", &["POST /tools", "POST /answers"]) },
    Link { replied: &[("id", "/id")], ..link("POST /sessions", OF_SESSION) },
    Link { replied: &[("id", "/data/0/id")], ..link("GET /sessions", OF_SESSION) },
    Link { kept: OF_NODE, ..link("POST /sessions/{id}/messages", OF_MESSAGES) },
    Link { kept: OF_NODE, ..link("PUT /sessions/{id}/messages", OF_MESSAGES) },
    Link {
        replied: &[("position", "/data/0/position")],
        kept: OF_NODE,
        ..link("GET /sessions/{id}/messages", OF_MESSAGE)
    },
    link(
        "PUT /sessions/{id}/keys/{key}",
        &[
            "GET /sessions/{id}/keys/{key}",
            "POST /sessions/{id}/keys/{key}/increment",
            "DELETE /sessions/{id}/keys/{key}",
            "DELETE /sessions/{id}/keys",
        ],
    ),
    link(
        "PUT /users/{user}/keys/{key}",
        &[
            "GET /users/{user}",
            "GET /users/{user}/keys",
            "GET /users/{user}/keys/{key}",
            "DELETE /users/{user}/keys/{key}",
            "DELETE /users/{user}",
        ],
    ),
    link("PUT /definitions/{kind}/{definition}", OF_DEFINITION),
    Link { replied: &[("definition", "/data/0/id")], ..link("GET /definitions/{kind}", OF_DEFINITION) },
    Link {
        replied: &[("definition", "/id")],
        ..link("POST /definitions/{kind}/{definition}/duplicate", OF_DEFINITION)
    },
    Link { kept: OF_DATASET, ..link("PUT /items/{dataset}", &["GET /items/{dataset}"]) },
    Link {
        kept: OF_DATASET,
        sent: r#"{"ids": ["$response.body#/data/0/id"]}"#,
        ..link("GET /items/{dataset}", &["POST /items/{dataset}/remove"])
    },
];

/// The links of a route, by name.
pub fn of(route: &Route) -> Map<String, Value> {
    let own = LINKS.iter().filter(|link| is_of(link.from, route));
    own.flat_map(|link| link.to.iter().map(|to| (name_of(to), link.describe(to)))).collect()
}

fn is_of(named: &str, route: &Route) -> bool {
    named
        .split_once(' ')
        .is_some_and(|(method, path)| route.method.as_str() == method && route.path.strip_prefix(PREFIX) == Some(path))
}

/// The names in braces of a path.
pub fn path_names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// `GET /sessions/{id}` as `GET-sessions-id`.
fn name_of(to: &str) -> String {
    to.replace(" /", "-").replace('/', "-").replace(['{', '}'], "")
}

impl Link {
    fn describe(&self, to: &str) -> Value {
        let (method, path) = to.split_once(' ').unwrap_or_default();
        let place = format!("{PREFIX}{path}").replace('/', "~1").replace('{', "%7B").replace('}', "%7D");
        let mut described = json!({"operationRef": format!("#/paths/{place}/{}", method.to_ascii_lowercase())});
        let mut parameters = Map::new();
        for name in path_names(path) {
            let replied = self.replied.iter().find(|(replied, _)| *replied == name);
            let value = match replied {
                Some((_, place)) => Some(format!("$response.body#{place}")),
                None => path_names(self.from).find(|own| *own == name).map(|own| format!("$request.path.{own}")),
            };
            parameters.extend(value.map(|value| (format!("path.{name}"), value.into())));
        }
        parameters
            .extend(self.kept.iter().map(|name| (format!("query.{name}"), format!("$request.query.{name}").into())));
        if let Some(members) = described.as_object_mut() {
            members.insert("parameters".to_owned(), parameters.into());
            members.extend(serde_json::from_str(self.sent).ok().map(|sent: Value| ("requestBody".to_owned(), sent)));
        }
        described
    }
}
