//! Events, as they happen and after an interruption.

use serde_json::json;

use crate::server::Server;

fn answer(server: &Server, session: &str, text: &str) {
    let body = json!({"text": text, "question_text": "?", "metadata": {"session_id": session}});
    assert_eq!(server.post("/answers", &body).ok()["effect"], "stored");
}

#[test]
fn followers_are_told_what_changes_and_go_on_where_they_were() {
    let server = Server::of_conversations(&[]);
    let mut events = server.follow("/events", &[]);
    let mut of_b = server.follow("/events?session=b", &[]);
    answer(&server, "a", "canary");
    let first = events.next_event().unwrap();
    assert_eq!((&first["type"], &first["data"]), (&"message.appended".into(), &json!({"session": "a"})));
    let seen = events.last_id().to_owned();
    drop(events);
    server.put("/sessions/a/keys/k", &json!("canary")).ok();
    server.post("/sessions", &json!({"id": "b", "title": "canary"})).ok();
    server.patch("/sessions/b", &json!({"title": "canary"})).ok();
    server.delete("/sessions/a").ok();
    server.delete("/sessions/b").ok();
    let mut resumed = server.follow("/events", &[("last-event-id", &seen)]);
    let told: Vec<_> = (0..5).map(|_| resumed.next_event().unwrap()).collect();
    let names: Vec<_> = told.iter().map(|event| (event["type"].as_str(), event["data"]["session"].as_str())).collect();
    let expected = [
        ("session.updated", "a"),
        ("session.created", "b"),
        ("session.updated", "b"),
        ("session.deleted", "a"),
        ("session.deleted", "b"),
    ];
    assert_eq!(names, expected.map(|(name, session)| (Some(name), Some(session))));
    assert!(
        told.iter().all(|event| event["timestamp"].is_string() && !event.to_string().contains("canary")),
        "{told:?}"
    );
    let of_b: Vec<_> = (0..3).map(|_| of_b.next_event().unwrap()["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(of_b, ["session.created", "session.updated", "session.deleted"]);
    assert_eq!(server.send("GET", "/events?after=x", &[], "").error(400).1.as_deref(), Some("after"));
    // An event that is not kept (the log of another store) is a gap, and not silence.
    let mut strange = server.follow("/events", &[("last-event-id", "elsewhere:7")]);
    assert_eq!(strange.next_event().unwrap()["type"], "gap");
}

#[test]
fn services_on_one_directory_tell_each_others_events() {
    let folder = tempfile::tempdir().unwrap();
    let place = ["--profile", "chat", "--dir", folder.path().to_str().unwrap()];
    let (one, two) = (Server::start(&place), Server::start(&place));
    let mut events = two.follow("/events", &[]);
    answer(&one, "s", "x");
    assert_eq!(events.next_event().unwrap()["data"]["session"], "s");
    let last = events.last_id().to_owned();
    answer(&one, "s", "y");
    // The id means the same at the other service.
    let mut resumed = one.follow("/events", &[("last-event-id", &last)]);
    assert_eq!(resumed.next_event().unwrap()["type"], "message.appended");
    assert_eq!(two.get("/sessions/s").ok()["messages"], 4);
}
