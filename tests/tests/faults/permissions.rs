//! The permissions that a Redis user needs, and those that keep two users apart.

use keepline::store::{DirectoryOptions, DirectoryStore};

use super::*;

/// Everything that a store is ever asked for, so that every command of every script is called.
async fn use_all_of(options: &RedisOptions) {
    let store = store(options.clone());
    let mut writer = Writer::new();
    let _ = store.check().await;
    let everything = [
        expecting("b", create(), [room_within(9)], [put("a", "1"), add("n", 1), append("history", &["1", "2"])]),
        transaction("b", create(), [put("a", "2"), add("n", 1), get("a"), get_all()]),
        expecting("b", existing(), [log_at("history", 0, None), present("a")], [count("history")]),
        transaction("b", existing(), [append("turns", &["1", "2", "3"]), read_surplus("history", 1, 1, 9, 99)]),
        transaction("b", existing(), [rewrite("turns", 1, "x"), read_newest("turns", 9, 99)]),
        transaction("b", existing(), [replace_oldest("turns", 2, &["y"]), replace_oldest("history", 1, &["z"])]),
        transaction("b", existing(), [replace_oldest("turns", 2, &["y", "z"])]),
        transaction("b", existing(), [page("values", "", 9, ALL), page_of_keys("values", "", 9), describe()]),
        expecting("b", existing(), [room_within(9)], [remove("a"), put("c", "1"), get("n")]),
        transaction("b", existing(), [remove_all()]),
        // Another map, with marks; small and large, for some commands are for long ones only.
        expecting("b", existing(), [room_in("notes", 9)], [put_in("notes", &[("a", "1")]), add_in("notes", "n", 1)]),
        transaction(
            "b",
            existing(),
            [append_marked("turns", &["1"], &[("marks", "m", 0)]), get_in("notes", &["a"], ALL)],
        ),
        expecting("b", existing(), [entry_in("notes", "a", EntryState::Equal, "1")], [get_all_in("notes"), describe()]),
        transaction("b", existing(), [get_all_in_within("notes", 3, 1), read_at("turns", &[(1, 2)], 99)]),
        transaction("b", existing(), [page("notes", "", 1, ALL), page_of_keys("notes", "", 1)]),
        transaction("b", existing(), [remove_in("notes", &["a"]), reset_map("marks", &[("x", "1")])]),
        transaction("b", existing(), (lease("fold", "me", LONG), reset_log("turns", &["1"]))),
        transaction("b", existing(), lease("fold", "me", Duration::ZERO)),
        transaction("replaced", create(), [put("a", "1"), put_in("notes", &[("a", "1")]), append("turns", &["1"])]),
        transaction("replaced", replace(), [put("b", "1")]),
        transaction("sliding", create_sliding(Duration::from_millis(200)), [put("a", "1"), append("turns", &["1"])]),
        transaction("sliding", unused(), [describe()]),
    ];
    for transaction in &everything {
        let _ = store.transact(writer.advance(), transaction, Deadline::NEVER).await;
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    let _ =
        store.transact(writer.advance(), &transaction("sliding", existing(), [put("b", "1")]), Deadline::NEVER).await;
    // More writers than are remembered.
    for _ in 0..70 {
        let _ = store
            .transact(Writer::new().advance(), &transaction("b", create(), [put("a", "1")]), Deadline::NEVER)
            .await;
    }
    let _ = store.transact(writer.advance(), &transaction("absent", existing(), [describe()]), Deadline::NEVER).await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    for kind in [kind::SESSION, kind::USER] {
        let _ = store.list_buckets(kind, "", 10, Deadline::NEVER).await;
    }
    // As the target of a migration.
    let opened = || RedisStore::new(options.clone()).unwrap();
    let transfer = Transfer { from: Arc::new(opened()), to: Arc::new(opened()), overwrite: false };
    let _ = transfer.arrival(&session("b"), None).await;
    let place = tempfile::tempdir().unwrap();
    let elsewhere = DirectoryStore::open(place.path(), DirectoryOptions::default()).unwrap();
    let moved =
        transaction("moved", create(), [put("a", "1"), put_in("notes", &[("a", "1")]), append("turns", &["1"])]);
    elsewhere.transact(writer.advance(), &moved, Deadline::NEVER).await.unwrap();
    let transfer = Transfer { from: Arc::new(elsewhere), overwrite: true, ..transfer };
    let _ = transfer.copy_bucket(&session("moved")).await;
    for name in ["b", "replaced", "moved"] {
        let _ = store.delete(writer.advance(), &deletion_of(name), Deadline::NEVER).await;
    }
}

fn denials(connection: &mut Connection) -> usize {
    redis::cmd("ACL").arg("LOG").query::<Vec<redis::Value>>(connection).unwrap().len()
}

/// The options of a user who is made with the permissions for them, less these.
fn tenant(connection: &mut Connection, port: u16, name: &str, prefix: &str, less: &[String]) -> RedisOptions {
    let options = RedisOptions {
        username: Some(name.into()),
        key_prefix: prefix.into(),
        store_timeout: Duration::from_secs(5),
        ..options(port)
    };
    let mut rules = servers::user_rules(name, &options);
    rules.extend(less.iter().map(|permission| permission.replace('+', "-")));
    redis::cmd("ACL").arg("SETUSER").arg(rules).exec(connection).unwrap();
    options
}

/// Every call of an operator on a session that is there, with errors.
async fn operate(node: &mut Node, session: &str) -> Vec<Option<SessionError>> {
    let sessions = &mut node.sessions;
    vec![
        sessions.resume(session).await.err(),
        sessions.put(session, "k", "1").await.err(),
        sessions.get(session, "k").await.err(),
        sessions.keys(session).await.err(),
        sessions.increment(session, "n", 1).await.err(),
        sessions.clear(session, Some("k")).await.err(),
        sessions.clear(session, None).await.err(),
        sessions.history(session, None, 0).await.err(),
        sessions.list("", 10).await.err(),
        sessions.delete(session).await.err(),
    ]
}

#[tokio::test]
async fn the_least_permissions_suffice_for_everything() {
    let server = RedisServer::start().unwrap();
    let mut connection = raw(&server);
    let options = tenant(&mut connection, server.port(), "filter", "mine", &[]);
    store(options.clone()).check().await.unwrap();
    use_all_of(&options).await;
    let elsewhere = RedisOptions { database: 1, ..options.clone() };
    redis::cmd("ACL").arg("SETUSER").arg(servers::user_rules("filter", &elsewhere)).exec(&mut connection).unwrap();
    use_all_of(&elsewhere).await;
    let filter = r#"{"max_history":4,"session_ttl_hours":1,"session_ttl_mode":"sliding"}"#;
    let mut node = Node::new(&store(options.clone()), filter).await;
    for _ in 0..10 {
        assert_eq!(node.say("s1", "yes").await.effect, Effect::Stored);
        assert_eq!(node.ask("s1").await.effect, Effect::Enriched);
    }
    assert_answers(&node, "s1", 10).await;
    node.sessions.create("s2").await.unwrap();
    assert!(operate(&mut node, "s2").await.iter().all(Option::is_none));
    assert_eq!(node.sessions.list("", 10).await.unwrap().sessions, ["s1"]);
    assert_eq!(denials(&mut connection), 0);
}

#[tokio::test]
async fn a_missing_permission_is_named_and_nothing_is_applied_in_part() {
    let server = RedisServer::start().unwrap();
    let mut connection = raw(&server);
    let all = RedisOptions { key_prefix: "mine".into(), ..RedisOptions::default() }.least_acl().unwrap();
    let commands: Vec<String> = all.into_iter().filter(|rule| rule.starts_with('+')).collect();
    assert!(commands.len() > 20);
    let allowed = store(tenant(&mut connection, server.port(), "allowed", "mine", &[]));
    let write = transaction("b", create(), [put("a", "1"), add("n", 1), append("history", &["1"])]);
    allowed.transact(Writer::new().advance(), &write, Deadline::NEVER).await.unwrap();
    let before = dump(&mut connection);
    for (number, command) in commands.iter().enumerate() {
        let less = std::slice::from_ref(command);
        let options = tenant(&mut connection, server.port(), &format!("user{number}"), "mine", less);
        let store = store(options.clone());
        let name = command.trim_start_matches('+');
        if ["persist", "rename"].contains(&name) {
            // For transfers alone.
            store.check().await.unwrap();
            let place = tempfile::tempdir().unwrap();
            let elsewhere = DirectoryStore::open(place.path(), DirectoryOptions::default()).unwrap();
            elsewhere.transact(Writer::new().advance(), &write, Deadline::NEVER).await.unwrap();
            let to = Arc::new(RedisStore::new(options).unwrap());
            let transfer = Transfer { from: Arc::new(elsewhere), to, overwrite: true };
            let refused = transfer.copy_bucket(&session("b")).await.unwrap_err();
            assert!(refused.code == FailureCode::Denied && refused.message.contains(name), "{command}: {refused:?}");
            assert_eq!(dump(&mut connection), before, "{command}");
            continue;
        }
        let mut checked = store.check().await;
        if name == "evalsha" {
            // A script is called by its name from the second time on.
            checked = store.check().await;
        }
        let refused = checked.unwrap_err();
        assert_eq!(refused.code, FailureCode::Denied, "{command}: {refused:?}");
        let is_named = refused.message.contains(&format!(" {name}")) || refused.message.contains("config --acl");
        assert!(is_named, "{command}: {refused:?}");
        if !["ping", "evalsha"].contains(&name) {
            let refused = store.transact(Writer::new().advance(), &write, Deadline::NEVER).await.unwrap_err();
            assert_eq!(refused.code, FailureCode::Denied, "{command}: {refused:?}");
            let deleted = store.delete(Writer::new().advance(), &deletion_of("b"), Deadline::NEVER).await;
            assert_eq!(deleted.unwrap_err().code, FailureCode::Denied, "{command}");
        }
        assert_eq!(dump(&mut connection), before, "{command}");
    }
}

#[tokio::test]
async fn a_denied_command_lets_no_answer_count_more_than_once() {
    let server = RedisServer::start().unwrap();
    let mut connection = raw(&server);
    let options = tenant(&mut connection, server.port(), "narrow", "mine", &["+rpush".into()]);
    let node = node(options).await;
    let answer = r#"{"session_id":"s1","message_id":"m-1"}"#;
    for _ in 0..5 {
        let passed = node.keepline.pipe().answer("x", answer).await.unwrap();
        assert_forwarded(&passed, &["denied"]);
        assert!(problem_message(&passed).contains("denies this user rpush"), "{passed:?}");
    }
    assert_eq!(dump(&mut connection), []);
    // As soon as it is allowed, without a restart.
    send(&mut connection, "ACL SETUSER narrow +rpush");
    assert_eq!(node.keepline.pipe().answer("x", answer).await.unwrap().effect, Effect::Stored);
    assert_eq!(node.keepline.pipe().answer("x", answer).await.unwrap().effect, Effect::Repeated);
    assert_answers(&node, "s1", 1).await;
}

/// A command of a tenant's own making, as whoever steals its password can send it: refused for its keys.
fn assert_out_of_reach(options: &RedisOptions, foreign: &[String]) {
    let name = options.username.as_deref().unwrap();
    let url = format!("redis://{name}:{}@127.0.0.1:{}", servers::PASSWORD, options.port);
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    for key in foreign {
        for (command, arguments) in [
            ("GET", &[][..]),
            ("SET", &["x"]),
            ("UNLINK", &[]),
            ("SMEMBERS", &[]),
            ("HGETALL", &[]),
            ("LRANGE", &["0", "9"]),
        ] {
            let mut direct = redis::cmd(command);
            direct.arg(key).arg(arguments);
            // A script may reach for keys that it was not given.
            let mut scripted = redis::cmd("EVAL");
            scripted.arg("return redis.call(unpack(ARGV))").arg(0).arg(command).arg(key).arg(arguments);
            for refused in [direct, scripted].map(|command| command.exec(&mut connection).unwrap_err()) {
                let told = refused.to_string();
                assert!(told.contains("no permissions") || told.contains("can't access"), "{command} {key}: {told}");
            }
        }
    }
    for command in ["KEYS *", "SCAN 0", "FLUSHALL", "CONFIG GET *", "ACL LIST", "MONITOR", "SCRIPT FLUSH"] {
        let mut words = command.split(' ');
        let mut denied = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            denied.arg(word);
        });
        assert!(denied.exec(&mut connection).unwrap_err().to_string().contains("no permissions"), "{command}");
    }
}

#[tokio::test]
async fn tenants_of_one_redis_can_t_reach_each_other_s_sessions() {
    let server = RedisServer::start().unwrap();
    let mut connection = raw(&server);
    // The second prefix begins like the first, but not after a colon.
    let tenants = [("anna", "rr:a"), ("ben", "rr:ab")].map(|(name, prefix)| {
        let options = tenant(&mut connection, server.port(), name, prefix, &[]);
        (name, prefix, options)
    });
    for (name, _, options) in &tenants {
        let mut node = node(options.clone()).await;
        assert_eq!(node.say("s1", name).await.effect, Effect::Stored);
        assert_eq!(node.say(name, name).await.effect, Effect::Stored);
    }
    assert_eq!(denials(&mut connection), 0);
    let before = dump(&mut connection);
    for ((name, prefix, options), (_, other, _)) in tenants.iter().zip(tenants.iter().rev()) {
        // Each sees what is its own, under the same names too.
        let mut own = node(options.clone()).await;
        assert!(own.memory("s1").await.unwrap().contains(&format!("\"{name}\"")));
        assert_eq!(own.sessions.list("", 10).await.unwrap().sessions, [*name, "s1"].map(str::to_owned));
        // Whoever is configured with the other's prefix is forwarded, told, and changes nothing.
        let mut lost = node(RedisOptions { key_prefix: (*other).into(), ..options.clone() }).await;
        let passed = lost.say("s1", "lost").await;
        assert_forwarded(&passed, &["denied"]);
        assert!(problem_message(&passed).contains("denies"), "{passed:?}");
        assert_forwarded(&lost.ask("s1").await, &["denied"]);
        for refused in operate(&mut lost, "s1").await {
            let refused = refused.unwrap();
            assert_eq!(refused.code, SessionErrorCode::Store(FailureCode::Denied));
            assert!(refused.message.contains("denies"), "{refused}");
        }
        let foreign: Vec<String> =
            before.iter().map(|(key, _)| key.clone()).filter(|key| !key.starts_with(&format!("{prefix}:"))).collect();
        assert!(foreign.len() > 10 && foreign.iter().all(|key| key.starts_with(&format!("{other}:"))));
        assert_out_of_reach(options, &foreign);
    }
    assert_eq!(dump(&mut connection), before);
}

/// One prefix that goes on after another's colon: no ACL keeps these two apart, but their stores never meet.
#[tokio::test]
async fn stores_with_nested_key_prefixes_do_not_affect_each_other() {
    let server = RedisServer::start().unwrap();
    let mut connection = raw(&server);
    let outer = tenant(&mut connection, server.port(), "outer", "rr", &[]);
    let inner = tenant(&mut connection, server.port(), "inner", "rr:b", &[]);
    let (mut outer, mut inner) = (node(outer).await, node(inner).await);
    let of_inner = |keys: Vec<(String, Vec<u8>)>| -> Vec<_> {
        keys.into_iter().filter(|(key, _)| key.matches(':').count() > 2 || key == "rr:b:__sessions__").collect()
    };
    for session in ["b", "s1"] {
        inner.say(session, "inner").await;
    }
    let before = dump(&mut connection);
    assert_eq!(of_inner(before.clone()), before);
    for session in ["b", "s1"] {
        assert_eq!(outer.say(session, "outer").await.effect, Effect::Stored);
        assert!(outer.memory(session).await.unwrap().contains("\"outer\""));
    }
    assert_eq!(outer.sessions.list("", 10).await.unwrap().sessions, ["b", "s1"]);
    assert!(operate(&mut outer, "b").await.iter().all(Option::is_none));
    assert_eq!(of_inner(dump(&mut connection)), before);
    assert_eq!(inner.sessions.list("", 10).await.unwrap().sessions, ["b", "s1"]);
    assert!(inner.memory("b").await.unwrap().contains("\"inner\""));
}
