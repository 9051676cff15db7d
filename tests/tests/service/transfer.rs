//! Sessions as files over HTTP: exported by one service, and imported by another, whatever the file says and whoever sends it.

use std::{
    fs,
    io::{BufReader, Write},
    net::Shutdown,
    os::unix::fs::PermissionsExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use keepline_tests::{random, servers, until::until};
use serde_json::{Value, json};

use crate::{
    keys::{Keys, created},
    server::{Reply, Server},
};

/// A service that keeps conversations in this directory.
fn in_directory(folder: &Path, arguments: &[&str]) -> Server {
    Server::start(&[&["--profile", "chat", "--dir", folder.to_str().unwrap()], arguments].concat())
}

/// A caller's requests.
struct As<'s> {
    server: &'s Server,
    key: &'s str,
}

impl As<'_> {
    fn send(&self, method: &str, path: &str, body: &str) -> Reply {
        let headers = [("x-api-key", self.key)];
        self.server.send(method, path, if self.key.is_empty() { &[] } else { &headers }, body)
    }

    /// An answer after its question, in a session or in one of its nodes.
    fn say(&self, session: &str, user: &str, text: &str, more: &Value) {
        let mut metadata = json!({"session_id": session, "user_id": user});
        metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = json!({"text": text, "question_text": format!("What of {text}?"), "metadata": metadata});
        assert_eq!(self.send("POST", "/answers", &body.to_string()).ok()["effect"], "stored");
    }

    /// A session with values, messages, a title and a node.
    fn fill(&self, session: &str, user: &str) {
        self.say(session, user, "the parcel", &json!({"message_id": "m1"}));
        self.say(session, user, "schönes\u{2028}Wetter", &json!({}));
        self.say(session, user, "a node", &node("n1"));
        let at = format!("/sessions/{}", escaped(session));
        self.send("PUT", &format!("{at}/keys/nested"), r#"{"b": 1, "a": [2.50, null]}"#).ok();
        self.send("PATCH", &at, r#"{"title":"My parcel"}"#).ok();
    }

    fn export(&self, session: &str) -> String {
        let reply = self.send("GET", &format!("/sessions/{}/export", escaped(session)), "");
        assert_eq!((reply.status, reply.headers["content-type"].as_str()), (200, "application/x-ndjson"), "{reply:?}");
        reply.body
    }

    fn import(&self, query: &str, lines: &str) -> Reply {
        self.send("POST", &format!("/import{query}"), lines)
    }

    /// The id and the outcome of each session that is there after the import.
    fn imported(&self, query: &str, lines: &str) -> Vec<(String, String)> {
        let told = self.import(query, lines).ok();
        assert_eq!(told["left_out"], json!([]), "{told}");
        let text = |session: &Value, member: &str| session[member].as_str().unwrap().to_owned();
        told["sessions"].as_array().unwrap().iter().map(|one| (text(one, "id"), text(one, "outcome"))).collect()
    }
}

fn anyone(server: &Server) -> As<'_> {
    As { server, key: "" }
}

fn node(id: &str) -> Value {
    json!({"memory_mode": "node", "app_id": "app", "node_id": id})
}

fn escaped(id: &str) -> String {
    id.replace(':', "%3A").replace(' ', "%20")
}

fn one(id: &str, outcome: &str) -> Vec<(String, String)> {
    vec![(id.to_owned(), outcome.to_owned())]
}

/// The lines, of which one is changed, or left out.
fn with_line(lines: &str, mut change: impl FnMut(&mut Value) -> bool) -> String {
    let mut out = String::new();
    for line in lines.lines() {
        let mut value: Value = serde_json::from_str(line).unwrap();
        if change(&mut value) {
            out += &format!("{value}\n");
        }
    }
    out
}

/// The same for the header of the session.
fn with_header(lines: &str, change: impl Fn(&mut Value)) -> String {
    with_line(lines, |line| {
        if line.get("keepline").is_some() && line.get("node").is_none() {
            change(line);
        }
        true
    })
}

/// The name of the bucket of the only node.
fn node_bucket(lines: &str) -> String {
    let header = lines.lines().find(|line| line.contains(r#""node":{"#)).unwrap();
    let header: Value = serde_json::from_str(header).unwrap();
    header["node"]["bucket"].as_str().unwrap().to_owned()
}

#[test]
fn a_session_passes_from_a_directory_to_redis_and_back_unchanged() {
    let (folders, redis) = ([tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()], servers::start());
    let url = format!("redis_url={}", redis.url());
    let services = [
        in_directory(folders[0].path(), &[]),
        Server::start(&["--profile", "chat", "--set", "backend=redis", "--set", &url]),
        in_directory(folders[1].path(), &[]),
    ];
    let [first, second, third] = services.each_ref().map(anyone);
    first.fill("s", "anna");
    first.say("t", "ben@example.org", "something else", &json!({}));
    let (s, t) = (first.export("s"), first.export("t"));
    assert!(s.starts_with(r#"{"keepline":1,"session":"s","#) && s.ends_with('\n'), "{s}");
    let mut events = second.server.follow("/events", &[]);
    for (from, to) in [(&first, &second), (&second, &third)] {
        let all = from.send("GET", "/export", "");
        assert_eq!((all.status, all.body), (200, format!("{s}{t}")));
        assert_eq!(from.send("GET", "/users/anna/export", "").body, s);
        let expected: Vec<_> = [one("s", "imported"), one("t", "imported")].concat();
        assert_eq!(to.imported("", &format!("{s}{t}")), expected);
        assert_eq!((to.export("s"), to.export("t")), (s.clone(), t.clone()));
        // Again: it is there already.
        let again = to.import("", &format!("{s}\n{t}")).ok();
        assert_eq!((&again["imported"], &again["already_there"]), (&0.into(), &2.into()));
        // It is its owner's, and its node is there.
        assert_eq!(to.server.get("/users/anna/sessions").ok()["data"][0]["id"], "s");
        let of_node = to.server.get("/sessions/s/messages?node=n1&app=app&order=asc").ok();
        assert_eq!(of_node["data"][1]["message"]["content"], "a node");
    }
    for session in ["s", "t"] {
        let event = events.next_event().unwrap();
        assert_eq!((&event["type"], &event["data"]), (&"session.created".into(), &json!({"session": session})));
        assert!(!event.to_string().contains("parcel"), "{event}");
    }
    assert_eq!(third.server.delete("/users/anna").ok()["sessions"], 1);
    assert_eq!(third.send("GET", "/sessions/s/export", "").error(404).0, "not_found");
    assert_eq!(third.send("GET", "/sessions/a%20b/export", "").error(400).1.as_deref(), Some("session"));
}

#[test]
fn an_existing_session_is_replaced_only_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let server = in_directory(folder.path(), &["--set", "recall=user"]);
    let anna = anyone(&server);
    anna.fill("s", "anna");
    let before = anna.export("s");
    anna.say("s", "anna", "zebra crossings", &json!({}));
    anna.say("s", "anna", "another node", &node("n2"));
    let now = anna.export("s");
    // What was said since is copied for the user's other sessions.
    let recalled = || {
        let reply = server.post("/recall", &json!({"query": "zebra crossings", "user": "anna"})).ok();
        reply["passages"].as_array().unwrap().len()
    };
    until("it is copied", || (recalled() > 0).then_some(()));
    let now_with_derived = anna.export("s");
    assert_eq!(now_with_derived, now);
    for query in ["", "?dry_run=true", "?replace=false"] {
        let refused = anna.import(query, &before);
        assert!(refused.body.contains("replace=true"), "{refused:?}");
        assert_eq!(refused.error(409).0, "exists");
    }
    assert_eq!(anna.imported("?replace=true&dry_run=true", &before), one("s", "replaced"));
    assert_eq!(anna.export("s"), now);
    let mut events = server.follow("/events", &[]);
    assert_eq!(anna.imported("?replace=true", &before), one("s", "replaced"));
    assert_eq!(anna.export("s"), before);
    assert_eq!(events.next_event().unwrap()["type"], "session.updated");
    assert_eq!(server.get("/sessions/s/messages?node=n2&app=app").error(404).0, "not_found");
    assert_eq!(recalled(), 0, "what was replaced is not recalled");
    // What differs in a node alone is different, too.
    anna.say("s", "anna", "more of a node", &node("n1"));
    let more = anna.export("s");
    assert_eq!(anna.import("", &before).error(409).0, "exists");
    assert_eq!(anna.imported("?replace=true&dry_run=true", &before), one("s", "replaced"));
    assert_eq!(anna.export("s"), more);
    assert_eq!(anna.imported("?replace=true", &before), one("s", "replaced"));
    assert_eq!(anna.export("s"), before);
    assert_eq!(anna.imported("?replace=true", &before), one("s", "already_there"));
    assert_eq!(anna.import("?replace=perhaps", &before).error(400).1.as_deref(), Some("replace"));
}

#[test]
fn a_faulty_file_imports_nothing_of_the_session_with_the_fault_and_says_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let server = in_directory(folder.path(), &["--max-body", "65536"]);
    let all = anyone(&server);
    all.fill("s", "anna");
    all.say("t", "anna", "something else", &json!({}));
    let (s, t) = (all.export("s"), all.export("t"));
    server.delete("/sessions").ok();
    let end = s.trim_end().rsplit_once('\n').unwrap().0;
    let (count, half) = (s.lines().count(), s.len() / 2);
    for (lines, told) in [
        (end.to_owned(), "before the end of the session".to_owned()),
        (s[..half].to_owned(), "line ".to_owned()),
        (s.replacen("\"position\":1,", "\"position\":2,", 1), "but 1 comes next".to_owned()),
        (format!("{s}{{\"key\":\"k\",\"value\":1}}\n"), format!("line {}: it belongs to no session", count + 1)),
        ("nonsense".to_owned(), "line 1: it is not JSON".to_owned()),
    ] {
        let reply = all.import("", &lines);
        if lines.starts_with(&s) {
            // What is whole comes in, and the fault is told.
            let reply = reply.ok();
            assert_eq!((&reply["imported"], &reply["left_out"][0]["line"]), (&1.into(), &json!(count + 1)), "{reply}");
            assert!(reply["left_out"][0]["message"].as_str().unwrap().contains(&told), "{reply}");
            server.delete("/sessions").ok();
            continue;
        }
        assert!(reply.body.contains(&told), "{told}: {reply:?}");
        assert_eq!(reply.error(400).0, "invalid");
        assert_eq!(server.get("/stats").ok()["sessions"], 0);
    }
    // The others come in.
    let reply = all.import("", &format!("{end}\n{t}")).ok();
    assert_eq!((&reply["sessions"][0]["id"], &reply["left_out"][0]["id"]), (&"t".into(), &"s".into()), "{reply}");
    assert_eq!(reply["left_out"][0]["code"], "invalid");
    // One that comes twice is the first one.
    let reply = all.import("", &format!("{s}{s}")).ok();
    assert_eq!((&reply["imported"], &reply["left_out"][0]["line"]), (&1.into(), &json!(count + 1)), "{reply}");
    assert_eq!(all.import("", "").ok()["imported"], 0);
    server.delete("/sessions").ok();
    // A body that is too long, or is not sent to its end.
    assert_eq!(all.import("", &s.repeat(65536 / s.len() + 1)).error(413).0, "too_large");
    let mut connection = server.connect();
    let head = format!("POST /keepline/v1/import HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", s.len());
    connection.write_all(format!("{head}{}", &s[..s.len() - 1]).as_bytes()).unwrap();
    connection.shutdown(Shutdown::Write).unwrap();
    drop(connection);
    let mut connection = server.connect();
    connection.write_all(format!("{head}{s}").replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n").as_bytes()).unwrap();
    let whole = Reply::read(&mut BufReader::new(connection)).ok();
    assert_eq!((&whole["imported"], &whole["already_there"]), (&1.into(), &0.into()), "the cut one left nothing");
    // Staged sessions lie in a private folder, which is gone.
    let staging = folder.path().join("staging");
    assert_eq!(fs::metadata(&staging).unwrap().permissions().mode() & 0o777, 0o700);
    until("nothing is staged", || staged(&staging).is_empty().then_some(()));
}

/// What imports have in this folder.
fn staged(staging: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(staging) else { return Vec::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("import-")).collect()
}

/// A service with a key of each of two users, and one of the tenant.
struct Tenant {
    folder: tempfile::TempDir,
    keys: Keys,
    server: Server,
    anna: String,
    bob: String,
    all: String,
}

impl Tenant {
    fn new(arguments: &[&str]) -> Self {
        let (folder, keys) = (tempfile::tempdir().unwrap(), Keys::new());
        let key = |arguments: &[&str]| created(&keys.file, arguments).0;
        let anna = key(&["--tenant", "acme", "--user", "anna", "--scope", "admin"]);
        let bob = key(&["--tenant", "acme", "--user", "bob"]);
        let all = key(&["--tenant", "acme", "--scope", "admin"]);
        let server = in_directory(folder.path(), &[&["--keys", keys.file.to_str().unwrap()], arguments].concat());
        Self { folder, keys, server, anna, bob, all }
    }

    fn callers(&self) -> [As<'_>; 3] {
        [&self.anna, &self.bob, &self.all].map(|key| As { server: &self.server, key })
    }
}

#[test]
fn a_key_that_names_a_user_exports_that_users_sessions_and_no_others() {
    let tenant = Tenant::new(&[]);
    let [anna, bob, all] = tenant.callers();
    anna.fill("a", "anna");
    bob.fill("b", "bob");
    all.say("nobodys", "", "something", &json!({}));
    let absent = anna.send("GET", "/sessions/none/export", "").body;
    for session in ["b", "nobodys"] {
        let refused = anna.send("GET", &format!("/sessions/{session}/export"), "");
        assert_eq!((refused.status, &*refused.body), (404, &*absent.replace("none", session)));
    }
    assert_eq!(anna.send("GET", "/users/bob/export", "").error(404).0, "not_found");
    let own = anna.export("a");
    assert_eq!(anna.send("GET", "/users/anna/export", "").body, own);
    assert_eq!(anna.send("GET", "/export", "").body, own);
    assert_eq!(bob.send("GET", "/export", "").error(403).0, "forbidden");
    let everything = all.send("GET", "/export", "").body;
    assert_eq!(everything, format!("{own}{}{}", bob.export("b"), all.export("nobodys")));
    // Another tenant has nothing of it, and what it stages lies apart.
    let (neighbour, _) = created(&tenant.keys.file, &["--tenant", "acme-2", "--scope", "admin"]);
    let neighbour = As { server: &tenant.server, key: &neighbour };
    until("the key is taken", || (neighbour.send("GET", "/stats", "").status == 200).then_some(()));
    assert_eq!(neighbour.send("GET", "/sessions/a/export", "").error(404).0, "not_found");
    assert_eq!(neighbour.send("GET", "/export", "").body, "");
    assert_eq!(neighbour.imported("", &own), one("a", "imported"));
    assert_eq!(neighbour.export("a"), own);
    let staging = tenant.folder.path().join("@acme-2").join("staging");
    assert_eq!(fs::metadata(&staging).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(!tenant.folder.path().join("@acme").join("staging").exists());
}

#[test]
fn a_forged_file_brings_no_session_of_another_user_and_reaches_no_foreign_node() {
    for ids in ["strict", "hash"] {
        let tenant = Tenant::new(&["--set", &format!("session_ids={ids}")]);
        let [anna, bob, all] = tenant.callers();
        let (a, b) = if ids == "hash" { ("telegram: 1", "telegram: 2") } else { ("a", "b") };
        anna.fill(a, "anna");
        bob.fill(b, "bob");
        let (own, bobs) = (anna.export(a), bob.export(b));
        let name =
            |lines: &str| serde_json::from_str::<Value>(lines.lines().next().unwrap()).unwrap()["session"].clone();
        let (bobs_name, bobs_node, own_node) = (name(&bobs), node_bucket(&bobs), node_bucket(&own));
        // Of another user, or of nobody.
        let of_bob = with_header(&own, |header| header["conversation"]["owner"] = "bob".into());
        let of_nobody = with_header(&own, |header| _ = header["conversation"].as_object_mut().unwrap().remove("owner"));
        for forged in [&of_bob, &of_nobody, &bobs] {
            assert_eq!(anna.import("?replace=true", forged).error(403).0, "forbidden");
        }
        // Under the name of another user's session.
        let alone = without_nodes(&own);
        let renamed = alone.replace(&name(&own).to_string(), &bobs_name.to_string());
        let renamed = with_header(&renamed, |header| {
            if ids == "hash" {
                header["conversation"]["id"] = b.into();
            }
        });
        let absent = anna.send("GET", &format!("/sessions/{}", escaped(b)), "").error(404);
        for query in ["", "?replace=true", "?replace=true&dry_run=true"] {
            assert_eq!(anna.import(query, &renamed).error(404), absent);
        }
        // Nodes that are not its own: in the map, in a header, or under other ids.
        let renamed = own.replace(&own_node, &bobs_node);
        let unlisted = with_line(&own, |line| {
            if line.get("node").is_some() {
                line["node"]["bucket"] = bobs_node.as_str().into();
            }
            true
        });
        let without_ids = with_line(&own, |line| {
            if line["map"] == "nodes" {
                line["text"] = "{}".into();
            }
            true
        });
        let other_ids = own.replace(r#""node_id":"n1""#, r#""node_id":"n2""#);
        let entry = json!({"map": "nodes", "key": bobs_node, "text": r#"{"app_id":"app","node_id":"n1"}"#});
        let with_map = with_header(&alone, |header| header["maps"].as_array_mut().unwrap().push("nodes".into()));
        let (first, rest) = with_map.split_once('\n').unwrap();
        let named_only = recounted(&format!("{first}\n{entry}\n{rest}"));
        for forged in [&renamed, &unlisted, &without_ids, &other_ids, &named_only] {
            for caller in [&anna, &all] {
                let refused = caller.import("?replace=true", forged);
                assert_eq!(refused.status, 400, "{refused:?}\n{forged}");
                assert!(refused.body.contains("line ") && refused.body.contains("node"), "{refused:?}");
            }
        }
        if ids == "hash" {
            let other_id = with_header(&own, |header| header["conversation"]["id"] = "telegram: 3".into());
            assert_eq!(anna.import("?replace=true", &other_id).error(400).0, "invalid");
        }
        // Nothing was changed by any of it.
        assert_eq!((anna.export(a), bob.export(b)), (own.clone(), bobs));
        anna.send("DELETE", &format!("/sessions/{}", escaped(a)), "").ok();
        assert_eq!(anna.imported("", &own), one(a, "imported"));
        assert_eq!(anna.export(a), own);
    }
}

/// The lines of one session, without its nodes.
fn without_nodes(lines: &str) -> String {
    let mut is_node = false;
    let kept = with_line(lines, |line| {
        is_node |= line.get("node").is_some();
        let is_kept = !is_node && line["map"] != "nodes";
        is_node &= line.get("end").is_none();
        is_kept
    });
    let kept = with_header(&kept, |header| header["maps"].as_array_mut().unwrap().retain(|map| map != "nodes"));
    recounted(&kept)
}

/// The lines of one session without nodes, with an end that counts them.
fn recounted(lines: &str) -> String {
    let all: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |member: &str| all.iter().filter(|line| line.get(member).is_some()).count();
    let once = all[0]["conversation"].as_object().map_or(0, serde_json::Map::len);
    let keyed = count("key") - count("map");
    with_line(lines, |line| {
        if line.get("end").is_some() {
            *line = json!({"end": all[0]["session"], "values": keyed, "records": count("log"), "entries": count("map") + once});
        }
        true
    })
}

#[test]
fn a_killed_service_leaves_the_old_session_or_the_new_one() {
    let (folder, from) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut random = fastrand::Rng::with_seed(random::seed());
    let source = in_directory(from.path(), &[]);
    let messages: Vec<Value> = (0..1500)
        .flat_map(|number| {
            let text = format!("message {number} {}", "x".repeat(300));
            [json!({"role": "user", "content": "?"}), json!({"role": "assistant", "content": text})]
        })
        .collect();
    anyone(&source).say("s", "anna", "a new one", &json!({}));
    source.put("/sessions/s/messages", &messages.into()).ok();
    let new = anyone(&source).export("s");
    anyone(&source).say("s", "anna", "something more", &json!({}));
    let newer = anyone(&source).export("s");
    let mut server = in_directory(folder.path(), &[]);
    let began = Instant::now();
    assert_eq!(anyone(&server).imported("", &new), one("s", "imported"));
    let whole = u64::try_from(began.elapsed().as_millis()).unwrap();
    let (mut kept, mut replaced) = (0, 0);
    let staging = folder.path().join("staging");
    let (mut old, mut other) = (new, newer);
    for _ in 0..random::rounds(12_u32) {
        let mut connection = server.connect();
        let head = "POST /keepline/v1/import?replace=true HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        let head = format!("{head}content-length: {}\r\n\r\n", other.len());
        connection.write_all(head.as_bytes()).unwrap();
        connection.write_all(other.as_bytes()).unwrap();
        connection.set_nonblocking(true).unwrap();
        let is_over = || connection.peek(&mut [0]).is_ok();
        until("it is staged", || (!staged(&staging).is_empty() || is_over()).then_some(()));
        // At any moment of it, or after it.
        thread::sleep(Duration::from_millis(random.u64(..=whole * 2)));
        server.signal("-KILL");
        drop(server);
        server = in_directory(folder.path(), &[]);
        assert_eq!(staged(&staging), Vec::<String>::new(), "nothing of a killed import is left");
        let found = anyone(&server).export("s");
        if found == other {
            std::mem::swap(&mut old, &mut other);
            replaced += 1;
        } else {
            assert_eq!(found, old);
            kept += 1;
        }
    }
    println!("{kept} times the old one was left, {replaced} times the new one");
    // Sent again, it arrives.
    anyone(&server).imported("?replace=true", &other);
    assert_eq!(anyone(&server).export("s"), other);
}

#[test]
fn an_export_that_cannot_be_finished_is_no_whole_file() {
    let tenant = Tenant::new(&[]);
    let [anna, _, all] = tenant.callers();
    anna.fill("a", "anna");
    // More than the connection holds, so that the reader is waited for.
    let text = "x".repeat(1 << 20);
    for number in 0..24 {
        let session = format!("long-{number:02}");
        all.say(&session, "anna", "a long one", &json!({}));
        all.send("PUT", &format!("/sessions/{session}/keys/long"), &json!(text[..1_000_000]).to_string()).ok();
    }
    let mut connection = BufReader::new(tenant.server.connect());
    let head = format!("GET /keepline/v1/export HTTP/1.1\r\nhost: localhost\r\nx-api-key: {}\r\n\r\n", tenant.all);
    connection.get_mut().write_all(head.as_bytes()).unwrap();
    let (status, headers) = crate::server::read_head(&mut connection);
    assert_eq!((status, headers["transfer-encoding"].as_str()), (200, "chunked"));
    let id: Value = serde_json::from_slice(&fs::read(&tenant.keys.file).unwrap()).unwrap();
    let id = id["keys"].as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned();
    crate::keys::revoke(&tenant.keys.file, &id);
    until("it is revoked", || (all.send("GET", "/stats", "").status == 401).then_some(()));
    let mut rest = Vec::new();
    // An end by reset is one, too.
    let _ = std::io::Read::read_to_end(&mut connection, &mut rest);
    assert!(!rest.ends_with(b"\r\n0\r\n\r\n"), "no last chunk");
    tenant.server.log_until("an export was broken off");
}

#[test]
fn a_service_that_keeps_memory_in_its_process_exports_it_and_says_which_ones_import() {
    let (server, folder) = (Server::of_conversations(&[]), tempfile::tempdir().unwrap());
    let memory = anyone(&server);
    memory.fill("s", "anna");
    let kept = memory.export("s");
    let refused = memory.import("", &kept);
    assert!(refused.body.contains("--profile chat") && refused.body.contains("--profile redis"), "{refused:?}");
    assert_eq!(refused.error(409).0, "not_transferable");
    assert_eq!(memory.send("GET", "/export", "").body, kept);
    let other = in_directory(folder.path(), &[]);
    assert_eq!(anyone(&other).imported("", &kept), one("s", "imported"));
    assert_eq!(anyone(&other).export("s"), kept);
    assert_eq!(other.get("/sessions/s/keys/nested").body, server.get("/sessions/s/keys/nested").body);
    assert_eq!(other.get("/sessions/s/messages").ok(), server.get("/sessions/s/messages").ok());
}
