//! Users from the shell; counting and clearing everything.

use std::sync::Arc;

use keepline::store::{BucketId, kind};
use keepline_tests::{
    on_stores,
    requests::{create, put},
    stores::StoreUnderTest,
};
use serde_json::{Value, json};

use crate::{Ran, finish, keepline, sessions::transcripts::Place};

#[test]
fn a_user_is_registered_and_forgotten() {
    let place = Place::new();
    let anna = "anna@example.org";
    place.ran(&["user", "put", anna, "language", "\"es\""]).ok();
    assert_eq!(place.told(&["user", "get", anna, "language"])["value"], "es");
    for session in ["a", "b"] {
        place.append(session, "a secret", "I see.", &["--user", anna, "--set=auto_generate_titles=false"]);
    }
    place.append("c", "?", "!", &["--user", "ben"]);
    let window = place.told(&["session", "window", "a", "--user", anna]);
    assert_eq!(window["memory_context"]["language"], "es");
    let foreign = place.ran(&["session", "window", "a", "--user", "ben"]);
    assert!(foreign.code == 1 && foreign.err.contains("another user"), "{foreign:?}");
    let listed = place.told(&["user", "sessions", anna]);
    let names: Vec<_> =
        listed["sessions"].as_array().unwrap().iter().map(|session| session["session"].clone()).collect();
    assert_eq!(names, ["b", "a"]);
    assert_eq!(listed["sessions"][0]["preview"], "I see.");
    let table = place.ran(&["user", "sessions", anna]).ok();
    assert!(table.text().starts_with("b\tI see.\t2\t"), "without a title, the newest message stands for it: {table:?}");
    let long = "x".repeat(90);
    place.append("long", "?", &long, &["--user", "carl", "--set=auto_generate_titles=false"]);
    let table = place.ran(&["user", "sessions", "carl"]).ok();
    let (title, newest) = (format!("long\t{}...\t2\t", &long[..37]), format!("\t{}...\n", &long[..57]));
    assert!(table.text().starts_with(&title) && table.text().ends_with(&newest), "{table:?}");
    assert_eq!(place.told(&["user", "sessions", "carl"])["sessions"][0]["preview"], long);
    place.ran(&["session", "delete", "long"]).ok();
    place.ran(&["session", "title", "b", "My secret"]).ok();
    let table = place.ran(&["user", "sessions", anna, "--limit", "1"]).ok();
    assert!(table.text().starts_with("b\tMy secret\t2\t") && table.text().contains(" ago\tI see.\n"), "{table:?}");
    assert!(table.err.contains("--before 1"), "{table:?}");

    let users = place.told(&["user", "list"]);
    assert_eq!(users["users"].as_array().unwrap().len(), 3, "{users}");
    let ben = json!({"user": "ben", "sessions": 1, "nodes": 0, "values": 0});
    assert!(users["users"].as_array().unwrap().contains(&ben) && users["cursor"] == "", "{users}");
    // Anna's id is not a plain name.
    let row = place.ran(&["user", "list"]).ok().text().lines().find(|line| line.starts_with("h-")).map(str::to_owned);
    assert!(row.unwrap().ends_with("\t2\t0\t1"), "{users}");
    assert_eq!(place.told(&["user", "values", anna]), place.told(&["user", "list", anna]));

    let found = place.told(&["user", "search", anna, "SECRET"]);
    let shown = |found: &Value| {
        let one = |it: &Value| format!("{}/{}", it["session"].as_str().unwrap(), it["position"]);
        found["found"].as_array().unwrap().iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!((shown(&found), &found["next"]), (vec!["b/0".to_owned(), "a/0".to_owned()], &json!(null)));
    assert_eq!(found["found"][0]["message"]["content"], "a secret");
    let first = place.told(&["user", "search", anna, "a", "secret", "--limit", "1"]);
    assert_eq!(shown(&first), ["b/0"]);
    let next = first["next"].as_str().unwrap();
    assert_eq!(shown(&place.told(&["user", "search", anna, "secret", "--after", next])), ["a/0"]);
    assert_eq!(shown(&place.told(&["user", "search", "ben", "secret"])), [""; 0]);
    let plain = place.ran(&["user", "search", anna, "i see", "--limit", "1"]).ok();
    assert_eq!(plain.text(), "b\tMy secret\t1\tassistant\tI see.\n");
    assert_eq!(place.ran(&["user", "search", anna]).code, 2);
    assert!(place.ran(&["user", "search", anna, "x", "--after", "?"]).err.contains("previous page"));

    let asked = place.ran(&["user", "forget", anna]);
    assert!(asked.code == 2 && asked.err.contains("--yes"), "{asked:?}");
    let gone = place.told(&["user", "forget", anna, "--yes"]);
    assert_eq!((&gone["sessions"], &gone["remaining"]), (&json!(2), &json!(0)));
    assert_eq!(place.told(&["session", "list"])["sessions"], json!(["c"]));
    assert_eq!(place.told(&["user", "list", anna])["values"], json!({}));
    // Of a forgotten user, only a mark is left.
    let names = |users: &Value| users.as_array().unwrap().iter().map(|user| user["user"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&place.told(&["user", "list"])["users"]), ["ben", "carl"]);
    assert_eq!(place.told(&["user", "sessions", anna])["sessions"], json!([]));
}

#[test]
fn a_session_is_shown_with_its_conversation() {
    let place = Place::new();
    place.append("a", "Where is it?", "In Bonn.", &["--user", "anna"]);
    place.ran(&["session", "title", "a", "My parcel"]).ok();
    let shown = place.told(&["session", "show", "a"]);
    assert_eq!(
        (&shown["title"], &shown["owner"], &shown["summary"]),
        (&json!("My parcel"), &json!("anna"), &json!(null))
    );
    assert_eq!((&shown["messages"], &shown["key_count"]), (&json!(2), &json!(2)));
    let (created, last) = (shown["created_at_ms"].as_u64().unwrap(), shown["last_at_ms"].as_u64().unwrap());
    // By two clocks of one machine.
    assert!(created.abs_diff(last) < 600_000, "{created} {last}");
    let table = place.ran(&["session", "show", "a"]).ok();
    for row in ["title\tMy parcel\n", "owner\tanna\n", "messages\t2\n", ".last_answer\t\"In Bonn.\"\n"] {
        assert!(table.text().contains(row), "{table:?}");
    }
    assert!(table.text().contains("created\t") && table.text().contains(" ago\n"), "{table:?}");
    // Of one without a conversation there is nothing of it.
    place.ran(&["session", "create", "b"]).ok();
    let plain = place.ran(&["session", "show", "b"]).ok();
    assert!(!plain.text().contains("title") && !plain.text().contains("messages"), "{plain:?}");
}

type Given = Arc<StoreUnderTest>;

fn on(given: &Given, arguments: &[&str]) -> Ran {
    let mut command = keepline(arguments.iter().copied());
    command.envs(given.environment()).env("KEEPLINE_CONVERSATION", "true");
    finish(command.spawn().unwrap(), b"")
}

async fn stats_and_clear_all_cover_all_sessions_and_users_and_nothing_else(given: Given) {
    let told = |arguments: &[&str]| on(&given, &[arguments, &["--json"]].concat()).ok().json();
    for (session, more) in
        [("a", &["--user", "anna@example.org"][..]), ("b", &["--user", "anna@example.org", "--node", "n"]), ("c", &[])]
    {
        let turn = ["session", "append", session, "--question", "Where?", "--answer", "In Bonn."];
        on(&given, &[&turn, more].concat()).ok();
    }
    for _ in 0..2 {
        let stats = told(&["stats"]);
        let counted: Vec<_> =
            ["sessions", "owned", "nodes", "users", "answers", "messages"].map(|it| stats[it].clone()).into();
        assert_eq!(counted, [3, 2, 1, 1, 2, 4], "{stats}");
        assert!(stats["tokens"].as_u64().unwrap() > 0 && stats["bytes"].as_u64().unwrap() > 0);
    }
    assert!(on(&given, &["stats"]).ok().text().starts_with("sessions\t3\n"));
    // What others keep there: of another kind, and under another prefix of the same server.
    let kept = BucketId::new(kind::DEFINITION, "kept");
    given.apply(&kept, create(), [put("k", "1")]).await;
    let other = match given.name {
        "redis" => StoreUnderTest::redis(),
        "cluster" => StoreUnderTest::cluster(),
        _ => StoreUnderTest::directory(),
    };
    other.apply("a", create(), [put("k", "1")]).await;
    let before = other.everything().await;

    let refused = on(&given, &["session", "clear-all"]);
    assert!(refused.code == 2 && refused.err.contains("--yes"), "{refused:?}");
    assert_eq!(told(&["stats"])["sessions"], 3);
    let cleared = told(&["session", "clear-all", "--yes"]);
    assert_eq!(cleared, json!({"sessions": 3, "nodes": 1, "users": 1, "remaining": 0}));
    let again = on(&given, &["session", "clear-all", "--yes"]).ok();
    assert_eq!(again.text(), "deleted: 0 sessions, 0 nodes, 0 users; 0 are left\n");
    assert_eq!(told(&["stats"])["sessions"], 0);
    assert!(given.is_there(&kept).await);
    other.assert_unchanged(&before, "clear-all").await;
}

#[test]
fn an_unreadable_session_is_counted_and_named() {
    let given = Arc::new(StoreUnderTest::redis());
    for session in ["a", "b", "c"] {
        on(&given, &["session", "append", session, "--question", "Where?", "--answer", "In Bonn."]).ok();
    }
    given.raw().on::<()>("DEL", "b:__log.transcript__", &[]);
    given.raw().on::<()>("SET", "b:__log.transcript__", &["not ours"]);
    let ran = on(&given, &["stats", "--json"]).ok();
    let stats = ran.json();
    let counted: Vec<_> = ["sessions", "unreadable", "answers", "messages"].map(|it| stats[it].clone()).into();
    assert_eq!(counted, [3, 1, 2, 4], "{stats}");
    assert!(ran.err.contains("session b can't be read: "), "{ran:?}");
    assert!(on(&given, &["stats"]).ok().text().contains("sessions that can't be read\t1\n"));
    // One that is down is no such session.
    let dead = format!("redis_url={}", crate::dead_url());
    assert_eq!(on(&given, &["stats", "--set", &dead, crate::HASTY]).code, 1);
}

on_stores!(run on directory, redis, cluster: [stats_and_clear_all_cover_all_sessions_and_users_and_nothing_else,]);
