//! What the table of routes does not say: the query and the headers of each route, its body and its reply.

use super::{codebolt, neurolink};
use crate::http::{NDJSON, Route};

/// Names, and what they mean.
pub type Parameters = &'static [(&'static str, &'static str)];

/// Of one route. A schema without a name is any JSON.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// Method and path, as the table has them.
    pub route: &'static str,
    pub query: Parameters,
    pub headers: Parameters,
    /// The schema of the body. Empty: there is none.
    pub request: &'static str,
    /// What it is where it is no JSON.
    pub request_media: &'static [&'static str],
    /// The schema of the reply.
    pub reply: &'static str,
    /// Those with which it comes.
    pub statuses: &'static [u16],
    /// What it is where it is no JSON. One of these; empty: no body.
    pub media: &'static [&'static str],
    /// Another form of body that is taken beside JSON.
    pub also_takes: Option<Form>,
    /// Another form of reply that is sent beside JSON, to a body of another form.
    pub also_sends: Option<Form>,
    /// Whether a reply has an `ETag` that conditions name.
    pub is_tagged: bool,
}

/// A media type, and the schema of what it carries.
pub type Form = (&'static str, &'static str);

impl Description {
    /// The same with headers that the route reads.
    pub const fn reads(mut self, headers: Parameters) -> Self {
        self.headers = headers;
        self
    }

    /// The same with other statuses than 200.
    pub const fn replies(mut self, statuses: &'static [u16]) -> Self {
        self.statuses = statuses;
        self
    }

    /// The same with a body that is no JSON.
    const fn takes(mut self, media: &'static [&'static str]) -> Self {
        self.request_media = media;
        self
    }

    /// The same with a reply that is no JSON.
    const fn sends(mut self, media: &'static [&'static str]) -> Self {
        self.media = media;
        self
    }

    /// The same with replies that have an `ETag`.
    pub const fn tagged(mut self) -> Self {
        self.is_tagged = true;
        self
    }

    /// The same with a body that may also come in this form.
    const fn also_takes(mut self, form: Form) -> Self {
        self.also_takes = Some(form);
        self
    }

    /// The same with a body of entries as lines, which is answered with lines.
    const fn passes_lines(mut self) -> Self {
        self.also_sends = Some((NDJSON, "PassedLines"));
        self.also_takes((NDJSON, "EntryLines"))
    }
}

/// That of a route. None: it has none.
pub fn description_of(route: &Route) -> Option<Description> {
    let is_its = |description: &&Description, path: &str| {
        description.route.split_once(' ').is_some_and(|(method, own)| route.method.as_str() == method && own == path)
    };
    let of = |descriptions: &[Description], path: &str| {
        descriptions.iter().find(|description| is_its(description, path)).copied()
    };
    match route.path.strip_prefix("/keepline/v1") {
        Some(path) => of(DESCRIPTIONS, path),
        None => OF_OTHERS.iter().find_map(|all| of(all, route.path)),
    }
}

/// How many there are.
#[cfg(test)]
pub fn count() -> usize {
    DESCRIPTIONS.len() + OF_OTHERS.iter().map(|all| all.len()).sum::<usize>()
}

/// Of paths that are not under `/keepline/v1`.
const OF_OTHERS: [&[Description]; 3] = [codebolt::DESCRIPTIONS, neurolink::DESCRIPTIONS, OTHERS];

const JSON: &[&str] = &["application/json"];
const YAML: Form = ("application/yaml", "DefinitionForm");
const REPEATED: Parameters = &[("idempotency-key", "Stands for message_id: an answer that is repeated counts once")];
const ONCE: Parameters = &[("idempotency-key", "Sent again under the same one, the request counts once")];
const CHAT_LINES: Form = (NDJSON, "ChatLines");
const PAGE: Parameters =
    &[("after", "last_id of the page before"), ("limit", "Items of a page: 1 to 100, by default 20")];
const SESSIONS: Parameters = &[
    ("user", "Whose sessions; the one used last first"),
    ("prefix", "What their ids begin with"),
    ("after", "last_id of the page before"),
    ("limit", "Items of a page: 1 to 100, by default 20"),
];
const USER: Parameters = &[("user", "Whose")];
const NODE: Parameters = &[("node", "The node's node_id"), ("app", "The node's app_id")];
const MESSAGES: Parameters = &[
    ("order", "desc, the newest first, or asc"),
    ("branch", "The id of a branch's newest message"),
    ("role", "user, assistant or tool"),
    ("contains", "A text that they hold"),
    ("message_id", "One message"),
    ("node", "The node's node_id"),
    ("app", "The node's app_id"),
    ("after", "last_id of the page before"),
    ("limit", "Items of a page: 1 to 100, by default 20"),
];
const APPENDED: Parameters =
    &[("user", "Whose the session becomes"), ("node", "The node's node_id"), ("app", "The node's app_id")];
const WINDOW: Parameters = &[
    ("query", "The question's text"),
    ("budget", "Tokens of the window: 64 to 2000000"),
    ("parent", "The id of the message that the question follows"),
    ("user", "Who asks"),
    ("node", "The node's node_id"),
    ("app", "The node's app_id"),
];
const CLEARED: Parameters =
    &[("branch", "The position where a branch begins"), ("node", "The node's node_id"), ("app", "The node's app_id")];
const TEXT: Parameters = &[
    ("offset", "The first character"),
    ("limit", "Characters: at most 200000"),
    ("node", "The node's node_id"),
    ("app", "The node's app_id"),
];
const LINES: Parameters = &[
    ("text", "What the lines hold"),
    ("ignore_case", "true or false"),
    ("context", "Lines before and after: at most 20"),
    ("from", "The first line"),
    ("limit", "Lines that hold it: at most 1000"),
    ("node", "The node's node_id"),
    ("app", "The node's app_id"),
];
const DEFINITIONS: Parameters = &[
    ("scope", "An input scope that they have"),
    ("active", "true: only those in use"),
    ("after", "last_id of the page before"),
];
const DATASET: Parameters = &[("name", "The instance or collection"), ("namespace", "Of values")];
const ITEMS: Parameters = &[
    ("name", "The instance or collection"),
    ("namespace", "Of values"),
    ("after", "last_id of the page before"),
    ("limit", "Items of a page: 1 to 100, by default 20"),
];
const ASKER: Parameters = &[("session", "The asking session"), ("user", "The asking user")];
pub const NONE: Parameters = &[];
const EVENTS: Parameters =
    &[("after", "The id of the last event that was seen"), ("session", "Only events of this session")];
const LAST_EVENT: Parameters = &[("last-event-id", "As after")];
const KNOWN: Parameters = &[("if-none-match", "The etag of the file that the browser has")];

const IMPORT: Parameters = &[
    ("replace", "true: sessions that are there with other contents are replaced"),
    ("dry_run", "true: nothing is imported, and the reply says what would be"),
];
/// JSON lines.
const SESSION_FILE: &[&str] = &[NDJSON];
/// The same; any type is taken, and this one by those who know no lines.
const SENT_LINES: &[&str] = &[NDJSON, "text/plain"];

/// One that is answered with JSON and 200.
pub const fn of(route: &'static str, query: Parameters, request: &'static str, reply: &'static str) -> Description {
    Description {
        route,
        query,
        headers: NONE,
        request,
        request_media: JSON,
        reply,
        statuses: &[200],
        media: JSON,
        also_takes: None,
        also_sends: None,
        is_tagged: false,
    }
}

/// One for each route under `/keepline/v1`.
pub const DESCRIPTIONS: &[Description] = &[
    of("POST /questions", NONE, "Question", "PassedQuestion").passes_lines(),
    of("POST /answers", NONE, "Answer", "PassedAnswer").reads(REPEATED).passes_lines(),
    of("POST /tools", NONE, "Tool", "TakenTool").passes_lines(),
    of("POST /search", NONE, "Search", "MessageList"),
    of("POST /recall", NONE, "RecallRequest", "Recall"),
    of("GET /stats", NONE, "", "Stats"),
    of("GET /events", EVENTS, "", "").reads(LAST_EVENT).sends(&["text/event-stream"]),
    of("GET /sessions", SESSIONS, "", "SessionList"),
    of("POST /sessions", NONE, "NewSession", "CreatedSession").reads(ONCE).replies(&[201]),
    of("DELETE /sessions", USER, "", "SessionsDeleted"),
    of("GET /sessions/{id}", NODE, "", "SessionDetails").tagged(),
    of("PATCH /sessions/{id}", NODE, "SessionChanges", "SessionDetails").tagged(),
    of("DELETE /sessions/{id}", NONE, "", "SessionDeleted"),
    of("POST /sessions/{id}/resume", NONE, "", "SessionState"),
    of("GET /sessions/{id}/messages", MESSAGES, "", "MessageList").tagged(),
    of("POST /sessions/{id}/messages", APPENDED, "ChatMessages", "MessagesChanged").reads(ONCE).also_takes(CHAT_LINES),
    of("PUT /sessions/{id}/messages", NODE, "ChatMessages", "MessagesChanged").reads(ONCE).also_takes(CHAT_LINES),
    of("DELETE /sessions/{id}/messages", CLEARED, "", "MessagesChanged"),
    of("PATCH /sessions/{id}/messages/{position}", NODE, "NewContent", "MessagesChanged"),
    of("DELETE /sessions/{id}/messages/{position}", NODE, "", "MessagesChanged"),
    of("GET /sessions/{id}/messages/{position}/text", TEXT, "", "MessageText"),
    of("GET /sessions/{id}/messages/{position}/lines", LINES, "", "MessageLines"),
    of("GET /sessions/{id}/window", WINDOW, "", "Window"),
    of("GET /sessions/{id}/branches", NODE, "", "BranchList"),
    of("GET /sessions/{id}/keys", NONE, "", "KeyList"),
    of("DELETE /sessions/{id}/keys", NONE, "", "ValuesDeleted").reads(ONCE),
    of("GET /sessions/{id}/keys/{key}", NONE, "", "Value").tagged(),
    of("PUT /sessions/{id}/keys/{key}", NONE, "AnyValue", "ValueChanged").reads(ONCE).tagged(),
    of("DELETE /sessions/{id}/keys/{key}", NONE, "", "ValueDeleted").reads(ONCE),
    of("POST /sessions/{id}/keys/{key}/increment", NONE, "Increment", "Value").reads(ONCE),
    of("GET /sessions/{id}/history", PAGE, "", "HistoryList"),
    of("GET /users", PAGE, "", "UserList"),
    of("GET /users/{user}", NONE, "", "UserDetails"),
    of("DELETE /users/{user}", NONE, "", "UserForgotten"),
    of("GET /users/{user}/sessions", PAGE, "", "SessionList"),
    of("GET /users/{user}/keys", NONE, "", "ValueList"),
    of("GET /users/{user}/keys/{key}", NONE, "", "Value").tagged(),
    of("PUT /users/{user}/keys/{key}", NONE, "AnyValue", "ValueChanged").tagged(),
    of("DELETE /users/{user}/keys/{key}", NONE, "", "ValueDeleted"),
    of("GET /sessions/{id}/export", NONE, "", "").sends(SESSION_FILE),
    of("GET /users/{user}/export", NONE, "", "").sends(SESSION_FILE),
    of("GET /export", NONE, "", "").sends(SESSION_FILE),
    of("POST /import", IMPORT, "SessionLines", "Imported").takes(SENT_LINES),
    of("GET /definitions/{kind}", DEFINITIONS, "", "DefinitionList"),
    of("POST /definitions/{kind}/check", NONE, "DefinitionForm", "DefinitionChecked").also_takes(YAML),
    of("GET /definitions/{kind}/{definition}", NONE, "", "Definition").tagged(),
    of("PUT /definitions/{kind}/{definition}", NONE, "DefinitionForm", "Definition").tagged().also_takes(YAML),
    of("PATCH /definitions/{kind}/{definition}", NONE, "DefinitionForm", "Definition").tagged(),
    of("DELETE /definitions/{kind}/{definition}", NONE, "", "DefinitionDeleted"),
    of("POST /definitions/{kind}/{definition}/duplicate", NONE, "Copy", "Definition").tagged(),
    of("POST /memories/{definition}/run", ASKER, "RunRequest", "RunOutput"),
    of("GET /steps", &[("configurable", "true: only those that users configure")], "", "StepList"),
    of("GET /items/{dataset}", ITEMS, "", "ItemList"),
    of("PUT /items/{dataset}", DATASET, "NewItems", "ItemsChanged").reads(ONCE),
    of("POST /items/{dataset}/remove", DATASET, "ItemIds", "ItemsChanged"),
    of("POST /assemble", ASKER, "AssembleRequest", "RunOutput"),
    of("POST /evaluate", ASKER, "AssembleRequest", "RunOutput"),
];

/// Of operations, the page and the description.
pub const OTHERS: &[Description] = &[
    of("GET /healthz", NONE, "", "Alive"),
    of("GET /readyz", NONE, "", "Ready").replies(&[200, 503]),
    of("GET /metrics", NONE, "", "").sends(&[crate::metrics::OPEN_METRICS]),
    of("GET /", NONE, "", "").reads(KNOWN).replies(&[200, 304]).sends(&["text/html"]),
    of("GET /page/{folder}/{file}", NONE, "", "").reads(KNOWN).replies(&[200, 304]).sends(&[
        "text/javascript",
        "text/css",
        "image/svg+xml",
    ]),
    of("GET /openapi.json", NONE, "", ""),
];
