//! Users over HTTP.

use serde_json::json;

use crate::server::Server;

#[test]
fn a_user_is_listed_with_what_is_theirs_until_they_are_forgotten() {
    let server = Server::of_conversations(&[]);
    for (session, user) in [("s1", "anna"), ("s2", "anna"), ("s3", "bob")] {
        let metadata = json!({"session_id": session, "user_id": user});
        let body = json!({"text": "!", "question_text": "?", "metadata": metadata});
        assert_eq!(server.post("/answers", &body).ok()["effect"], "stored");
    }
    assert_eq!(server.put("/users/anna/keys/city", &json!("Bonn")).ok()["existed"], false);
    assert_eq!(server.get("/users/anna/keys/city").ok()["value"], "Bonn");
    let anna = server.get("/users/anna").ok();
    assert_eq!((&anna["sessions"], &anna["keys"]), (&2.into(), &json!(["city"])));
    let listed = server.get("/users").ok();
    assert_eq!(listed["data"].as_array().unwrap().len(), 2);
    let sessions = server.get("/users/anna/sessions").ok();
    assert_eq!(sessions["data"].as_array().unwrap().len(), 2);
    assert_eq!(server.get("/sessions?user=anna").ok()["data"], sessions["data"]);
    // A question of theirs gets their values.
    let asked = json!({"text": "?", "metadata": {"session_id": "s4", "user_id": "anna"}});
    assert_eq!(server.post("/questions", &asked).ok()["metadata"]["memory_context"]["city"], "Bonn");
    let forgotten = server.delete("/users/anna").ok();
    assert_eq!((&forgotten["sessions"], &forgotten["remaining"]), (&2.into(), &0.into()));
    assert_eq!(server.delete("/users/anna").ok()["sessions"], 0);
    assert_eq!(server.get("/users/anna").error(404).0, "not_found");
    assert_eq!(server.get("/sessions/s1").error(404).0, "not_found");
    assert_eq!(server.get("/sessions/s3").ok()["owner"], "bob");
    assert_eq!(server.get("/users/anna/keys/city").error(404).0, "key_not_found");
    assert_eq!(server.delete("/users/bob/keys/none").ok()["deleted"], false);
}
