//! Keys: made and revoked by the command line, while a service runs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
    time::{Duration, Instant},
};

use keepline_tests::{
    programs::{command, program},
    until::until,
};
use serde_json::{Value, json};

use crate::server::Server;

/// `keepline key …` on this file.
fn key(file: &Path, arguments: &[&str]) -> Output {
    let mut command = command(program("--bin", "keepline"));
    command.arg("key").arg("--keys").arg(file).args(arguments).output().unwrap()
}

/// A new key: its secret and its id.
pub fn created(file: &Path, arguments: &[&str]) -> (String, String) {
    let made = key(file, &[&["create", "--json"], arguments].concat());
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert!(made.get("hash").is_none(), "{made}");
    (made["key"].as_str().unwrap().to_owned(), made["id"].as_str().unwrap().to_owned())
}

/// The key of this id is gone.
pub fn revoke(file: &Path, id: &str) {
    assert!(key(file, &["revoke", id]).status.success());
}

pub struct Keys {
    _folder: tempfile::TempDir,
    pub file: PathBuf,
}

impl Keys {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { file: folder.path().join("keys.json"), _folder: folder }
    }

    fn server(&self, arguments: &[&str]) -> Server {
        Server::of_conversations(&[&["--keys", self.file.to_str().unwrap()], arguments].concat())
    }
}

fn bearer(secret: &str) -> (&'static str, String) {
    ("authorization", format!("Bearer {secret}"))
}

/// The status of a request with that key.
fn status(server: &Server, method: &str, path: &str, secret: &str) -> u16 {
    let (name, value) = bearer(secret);
    server.send(method, path, &[(name, &value)], "").status
}

#[test]
fn tenants_users_and_scopes_of_keys_are_kept_apart() {
    let keys = Keys::new();
    let (writer, _) = created(&keys.file, &["--tenant", "acme"]);
    let (reader, _) = created(&keys.file, &["--tenant", "acme", "--scope", "read"]);
    let (anna, _) = created(&keys.file, &["--tenant", "acme", "--user", "anna"]);
    let (neighbour, _) = created(&keys.file, &["--tenant", "acme-2", "--scope", "admin"]);
    let server = keys.server(&[]);
    let (name, value) = bearer(&writer);
    let body = json!({"text": "x", "question_text": "?", "metadata": {"session_id": "s", "user_id": "bob"}});
    assert_eq!(server.send("POST", "/answers", &[(name, &value)], &body.to_string()).ok()["effect"], "stored");
    assert_eq!(status(&server, "GET", "/sessions/s", &reader), 200);
    assert_eq!(status(&server, "DELETE", "/sessions/s", &reader), 403);
    assert_eq!(status(&server, "GET", "/sessions/s", &anna), 404);
    assert_eq!(status(&server, "GET", "/sessions/s", &neighbour), 404);
    assert_eq!(status(&server, "DELETE", "/sessions", &writer), 403);
    assert_eq!(status(&server, "DELETE", "/sessions", &neighbour), 200);
    assert_eq!(status(&server, "GET", "/sessions/s", &writer), 200);
    // Without a key, nothing is looked up.
    for path in ["/sessions/s", "/sessions/none", "/users/bob"] {
        let refused = server.get(path);
        assert_eq!((refused.status, refused.headers["www-authenticate"].as_str()), (401, "Bearer"));
        assert_eq!(refused.error(401).0, "key_required");
    }
    assert_eq!(server.send("GET", "/sessions", &[("x-api-key", "kl_no")], "").error(401).0, "key_invalid");
    assert_eq!(server.send("GET", "/sessions", &[("x-api-key", &reader)], "").status, 200);
    // What failed is counted, and no key is shown.
    let (admin, _) = created(&keys.file, &["--scope", "admin"]);
    until("the new key is taken", || {
        (server.send_to("GET", "/metrics", &[("x-api-key", &admin)], "").status == 200).then_some(())
    });
    let metrics = server.send_to("GET", "/metrics", &[("x-api-key", &admin)], "").body;
    assert!(metrics.contains(r#"keepline_http_refused_keys_total{reason="missing"} 3"#), "{metrics}");
    let table = include_str!("../../../docs/metrics.md");
    for of in ["http", "prompt"] {
        let documented: Vec<&str> =
            table.lines().filter_map(|line| line.strip_prefix(&format!("| `keepline_{of}_"))).collect();
        for row in &documented {
            let (name, kind) = row.split_once("` | ").unwrap();
            let kind = kind.split(' ').next().unwrap();
            let family = format!("# TYPE keepline_{of}_{} {kind}\n", name.trim_end_matches("_total"));
            assert!(metrics.contains(&family), "{family}{metrics}");
        }
        assert_eq!(metrics.matches(&format!("# TYPE keepline_{of}_")).count(), documented.len());
    }
    assert!(![writer, reader, anna, neighbour, admin].iter().any(|secret| metrics.contains(&**secret)));
}

#[test]
fn metrics_of_tenants_stores_are_the_operators_and_of_one_its_own() {
    let keys = Keys::new();
    let (operator, _) = created(&keys.file, &["--scope", "admin"]);
    let (acme, _) = created(&keys.file, &["--tenant", "acme", "--scope", "admin"]);
    let (neighbour, _) = created(&keys.file, &["--tenant", "acme-2"]);
    let server = keys.server(&[]);
    let metrics = |secret: &str| server.send_to("GET", "/metrics", &[("x-api-key", secret)], "").body;
    let calls = r#"keepline_store_calls_total{outcome="succeeded""#;
    let count = |metrics: &str, labels: &str| -> u64 {
        let sample = format!("{calls}{labels}}} ");
        let found = metrics.lines().find_map(|line| line.strip_prefix(&*sample));
        found.unwrap_or_else(|| panic!("{sample}{metrics}")).parse().unwrap()
    };
    // Before a request names a tenant, there is nothing to tell of it.
    assert!(!metrics(&operator).contains("tenant="));
    let body = json!({"text": "x", "question_text": "?", "metadata": {"session_id": "s"}}).to_string();
    for secret in [&acme, &neighbour] {
        assert_eq!(server.send("POST", "/answers", &[("x-api-key", secret)], &body).ok()["effect"], "stored");
    }
    let of_all = metrics(&operator);
    let before = count(&of_all, "");
    assert!(count(&of_all, r#",tenant="acme""#) > 0 && count(&of_all, r#",tenant="acme-2""#) > 0, "{of_all}");
    assert!(of_all.contains(r#"keepline_store_breaker{state="closed",tenant="acme"} 1"#), "{of_all}");
    assert!(of_all.contains(r#"keepline_store_wait_seconds_bucket{le="+Inf",tenant="acme"} "#), "{of_all}");
    assert!(of_all.contains(r#"keepline_dropped_tasks_total{tenant="acme"} 0"#), "{of_all}");
    let of_acme = metrics(&acme);
    let samples = of_acme.lines().filter(|line| !line.starts_with('#') && !line.starts_with("keepline_build"));
    let samples: Vec<_> = samples.collect();
    assert!(!samples.is_empty() && samples.iter().all(|line| line.contains(r#"tenant="acme"}"#)), "{of_acme}");
    assert!(of_acme.contains(r#"keepline_prompt_bytes_total{tenant="acme"} 0"#), "{of_acme}");
    assert!(!of_acme.contains("keepline_entries") && !of_acme.contains("keepline_http"), "{of_acme}");
    // What a tenant does is not counted as the configured store's.
    assert_eq!(server.send("GET", "/sessions/s", &[("x-api-key", &acme)], "").status, 200);
    let after = metrics(&operator);
    assert!(count(&after, "") == before && count(&after, r#",tenant="acme""#) > count(&of_all, r#",tenant="acme""#));
}

#[test]
fn a_revoked_key_is_refused_within_a_second_and_its_streams_end() {
    let keys = Keys::new();
    let (secret, id) = created(&keys.file, &[]);
    let (other, _) = created(&keys.file, &[]);
    let server = keys.server(&[]);
    let (name, value) = bearer(&secret);
    let mut events = server.follow("/events", &[(name, &value)]);
    let (name, value) = bearer(&other);
    let mut kept = server.follow("/events", &[(name, &value)]);
    revoke(&keys.file, &id);
    let revoked = Instant::now();
    assert_eq!(events.next_event(), None, "the stream ends");
    assert_eq!(status(&server, "GET", "/sessions", &secret), 401);
    // A second is promised; this only guards against a service that never looks.
    assert!(revoked.elapsed() < Duration::from_secs(20));
    assert_eq!(status(&server, "PUT", "/sessions/s/keys/k", &other), 400);
    let body = json!({"text": "x", "question_text": "?", "metadata": {"session_id": "s"}}).to_string();
    server.send("POST", "/answers", &[(name, &value)], &body).ok();
    assert_eq!(kept.next_event().unwrap()["type"], "message.appended");
    let unknown = key(&keys.file, &["revoke", &id]);
    assert!(!unknown.status.success() && String::from_utf8_lossy(&unknown.stderr).contains("key list"));
    let listed = key(&keys.file, &["list"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("read,write") && !listed.contains(&id) && !listed.contains(&other), "{listed}");
}

#[test]
fn a_service_that_others_reach_asks_for_keys_or_does_not_start() {
    let mut serve = command(program("--bin", "keepline"));
    let refused = serve.args(["serve", "--profile", "memory", "--listen", "0.0.0.0:0"]).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("loopback") && told.contains("keys"), "{told}");
    let keys = Keys::new();
    fs::write(&keys.file, r#"{"keys":[{"id":"k"}]}"#).unwrap();
    let mut serve = command(program("--bin", "keepline"));
    let refused = serve.args(["serve", "--profile", "memory", "--keys"]).arg(&keys.file).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains("keys.json") && told.contains("missing field"), "{told}");
}

#[test]
fn no_key_and_no_text_is_in_the_log_or_in_errors() {
    let keys = Keys::new();
    let (secret, _) = created(&keys.file, &["--scope", "admin"]);
    let server = keys.server(&["--access-log", "--verbose"]);
    let canary = "canary-7f3a";
    let (name, value) = bearer(&secret);
    let headers = [(name, value.as_str()), ("x-request-id", "mine-1")];
    let body = json!({"text": canary, "question_text": canary, "metadata": {"session_id": "s", "user_id": "anna"}});
    let stored = server.send("POST", "/answers", &headers, &body.to_string());
    assert_eq!((stored.status, stored.headers["x-request-id"].as_str()), (200, "mine-1"));
    let mut told = server.send("GET", "/sessions", &[("x-api-key", &format!("{secret}x"))], "").body;
    told += &server.send("PUT", "/sessions/s/keys/k", &headers, &format!("{{\"{canary}\":")).body;
    told += &server.send("POST", "/answers", &headers, &format!("{{\"text\":\"{canary}\"")).body;
    told += &server.send("POST", "/search", &headers, &format!("{{\"query\":\"{canary}\",\"user\":7}}")).body;
    let log = server.log_until("mine-1");
    assert!(log.contains("POST") && log.contains("/keepline/v1/answers") && log.contains("200"), "{log}");
    for text in [told, log] {
        assert!(!text.contains(canary) && !text.contains(&secret), "{text}");
    }
}
