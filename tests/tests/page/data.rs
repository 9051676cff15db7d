//! Conversations to look at.

use serde_json::{Value, json};

use crate::server::Server;

/// A customer and a shop: what is asked, and what is answered.
const PARCEL: [(&str, &str); 12] = [
    (
        "Where is my parcel? It was sent on Monday, number 1Z-4471.",
        "It left the depot in Leipzig this morning and should reach you tomorrow before noon.",
    ),
    (
        "Tomorrow before noon nobody is at home. Can a neighbour take it?",
        "Yes. Tell me the name and the floor, and I note it for the driver.",
    ),
    (
        "Ms Okafor, second floor, left. She is in until three.",
        "Noted: Ms Okafor, second floor left, until three in the afternoon. The driver sees this on the handheld.",
    ),
    (
        "Does she need my identity card?",
        "No. A signature is enough, because the parcel is insured for less than 500 euros.",
    ),
    (
        "What if she doesn't open?",
        "Then the driver takes it to the shop in Karl-Heine-Straße 12, and you get a card with the opening hours.",
    ),
    (
        "I ordered two lamps. Are both in that parcel?",
        "Only the brass lamp. The glass one ships from Rotterdam and follows on Thursday.",
    ),
    (
        "Can I still send the glass one back without opening it?",
        "Yes, within 30 days. The label is in the box; without opening it, print one from your account.",
    ),
    ("And the refund?", "It reaches your account 3 to 5 days after the lamp is back in Rotterdam."),
    (
        "Please change the invoice to my company, Ortega & Daughters.",
        "Done. The new invoice has the number R-20931 and is in your account.",
    ),
    ("Which VAT number is on it?", "DE 812 344 901, as in your profile. Tell me if that one is old."),
    ("It's right. When does the shop open on Saturday?", "From nine until one. Bring the card or the parcel's number."),
    (
        "Thanks. Anything else I should know about Thursday?",
        "The glass lamp needs a signature of an adult, and the driver calls half an hour before.",
    ),
];

/// An answer of a session, with what else its entry says.
pub fn answer(server: &Server, (session, user): (&str, Option<&str>), (question, text): (&str, &str), more: &Value) {
    let mut body = json!({"text": text, "question_text": question, "metadata": {"session_id": session}});
    if let Some(user) = user {
        body["metadata"]["user_id"] = user.into();
    }
    for (name, value) in more.as_object().into_iter().flatten() {
        match name.as_str() {
            "message_id" | "parent_message_id" => body["metadata"][name] = value.clone(),
            _ => body[name] = value.clone(),
        }
    }
    assert_eq!(server.post("/answers", &body).ok()["effect"], "stored");
}

/// A session of anna's of twelve turns, one of them with tools.
pub fn parcel(server: &Server) {
    let tools = json!({"tools": [
        {"call_id": "c1", "name": "track_parcel", "arguments": {"number": "1Z-4471"},
         "output": {"place": "Leipzig", "status": "out for delivery"}},
        {"call_id": "c2", "name": "lookup_order", "arguments": {"order": 88123}, "output": "2 items: brass lamp, glass lamp"},
    ]});
    for (at, turn) in PARCEL.into_iter().enumerate() {
        answer(server, ("anna-parcel", Some("anna")), turn, if at == 5 { &tools } else { &Value::Null });
    }
    server.patch("/sessions/anna-parcel", &json!({"title": "A parcel and two lamps"})).ok();
}

/// More sessions, of several people.
pub fn others(server: &Server) {
    let one = |session, user, title: &str, turn| {
        answer(server, (session, user), turn, &Value::Null);
        server.patch(&format!("/sessions/{session}"), &json!({"title": title})).ok();
    };
    one(
        "ben-tea",
        Some("ben"),
        "Green tea, and how long",
        ("How long does green tea steep?", "Two minutes, at 75 degrees."),
    );
    one(
        "cleo-roof",
        Some("cleo"),
        "Moss on the north side",
        ("Is moss bad for a roof?", "Only where it lifts the tiles."),
    );
    one(
        "dev-42",
        None,
        "Flaky test on CI",
        ("Why does it only fail at night?", "The clock: it compares dates in UTC with local ones."),
    );
    one(
        "eli-bread",
        Some("eli"),
        "Rye, 80 %",
        ("My dough is too wet.", "Give it half an hour more before you shape it."),
    );
    one("mara-trip", Some("mara"), "Three days in Porto", ("Which train?", "The one at 8:12; it has a dining car."));
    let branch = |id: &str, parent: Option<&str>, turn| {
        let mut more = json!({"message_id": id});
        if let Some(parent) = parent {
            more["parent_message_id"] = parent.into();
        }
        answer(server, ("ben-haiku", Some("ben")), turn, &more);
    };
    branch("h1", None, ("Write a haiku about rain.", "Rain on the tin roof / a letter slowly written / to nobody now"));
    branch(
        "h2",
        Some("h1"),
        ("Make it warmer.", "Rain warms the old roof / a kettle hums in the dark / someone is coming"),
    );
    branch(
        "h3",
        Some("h1"),
        ("Make it about snow.", "Snow on the tin roof / the letter, already cold / waits for its answer"),
    );
}

/// A memory that reads one value, and the value.
pub fn house_rules(server: &Server) {
    let rules = json!({"id": "rules", "label": "House rules", "inputs_scope": ["project"], "retrieval": {"pipeline": [
        {"type": "kv_get", "instance": "house", "namespace": "style", "keys": ["indent"]}]},
        "contribution": {"section": "constraints", "priority": "high", "format": "bullet_list"}});
    server.put("/definitions/memories/rules", &rules).ok();
    let items = json!({"items": [{"id": "indent", "item": "Four spaces."}]});
    server.put("/items/values?name=house&namespace=style", &items).ok();
}
