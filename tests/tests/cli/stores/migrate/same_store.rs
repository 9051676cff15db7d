//! One store under two names is told from two stores by its contents.

use keepline_tests::{
    proxy::Proxy,
    servers::{PASSWORD, user_rules},
};

use super::*;

/// Some sessions, written by the product.
fn some_sessions(server: &RedisServer) {
    for name in ["a", "b", "c"] {
        session(server, &["create", name]);
        session(server, &["put", name, "k", "1"]);
    }
}

fn assert_refused(refused: &Ran, code: i32, why: &str) {
    assert!(refused.code == code && refused.err.contains(why), "{refused:?}");
}

#[test]
fn one_server_under_two_names_is_refused_and_keeps_everything() {
    let server = RedisServer::start().unwrap();
    some_sessions(&server);
    let before = dump(&server);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let proxy = runtime.block_on(Proxy::start(server.port()));
    for other in [
        format!("--to=redis_url=redis://localhost:{}", server.port()),
        format!("--to=redis_url=redis://default@127.0.0.1:{}/0", server.port()),
        format!("--to=redis_url=redis://127.0.0.1:{}", proxy.port()),
    ] {
        for more in [&["--delete"][..], &["--delete", "--overwrite"], &["--overwrite"], &[]] {
            let refused = migrate(&server, &[&[&*other], more].concat());
            assert_refused(&refused, 2, "source and target are the same store, even if they are addressed differently");
            assert_eq!(dump(&server), before, "{other}");
        }
    }
}

#[test]
fn one_cluster_by_other_nodes_is_refused_and_keeps_everything() {
    let (from, prefix) = (RedisServer::start().unwrap(), prefix());
    some_sessions(&from);
    let to = to_cluster(&prefix);
    migrate(&from, &texts(&to)).ok();
    let of = |node: usize| format!("localhost:{}", shared_cluster().nodes()[node].port());
    let source = [
        "migrate".to_owned(),
        "--set=redis_cluster=true".to_owned(),
        format!("--set=redis_nodes={}", of(0)),
        format!("--set=key_prefix={prefix}"),
        format!("--to=redis_nodes={}", of(2)),
        "--delete".to_owned(),
    ];
    let refused = call_with(&[("KEEPLINE_BACKEND", "redis")], &texts(&source));
    assert_refused(&refused, 2, "source and target are the same store");
    assert!(migrate(&from, &texts(&to)).ok().text().contains("3 already there"));
}

#[test]
fn other_prefixes_and_databases_of_one_server_are_other_stores_and_no_mark_stays() {
    for to in ["key_prefix=rr:memory:b", "key_prefix=rr", "redis_url"] {
        let server = RedisServer::start().unwrap();
        some_sessions(&server);
        let to = match to {
            "redis_url" => format!("--to=redis_url={}/1", server.url()),
            field => format!("--to={field}"),
        };
        let moved = migrate(&server, &["--delete", &to]).ok();
        assert!(told(&moved).starts_with("3 sessions copied, 3 deleted from the source;"), "{moved:?}");
        assert_eq!(session(&server, &["list"]).text(), "");
        let field = to.replace("--to=", "--set=");
        assert_eq!(session(&server, &["list", &field]).text(), "a\nb\nc\n");
        let marks: Vec<String> = redis::cmd("KEYS").arg("*~*").query(&mut connect(&server)).unwrap();
        assert_eq!(marks, Vec::<String>::new());
    }
}

#[test]
fn unproven_difference_is_refused_and_a_full_source_can_be_migrated() {
    let (from, to) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    some_sessions(&from);
    let target = format!("--to=redis_url={}", to.url());
    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &from.port().to_string()]).unwrap();
    let refused = migrate(&replica, &["--delete", &target]);
    assert_refused(&refused, 1, "can't prove that source and target differ: the source can't be used");
    send(&to, &[b"CONFIG", b"SET", b"maxmemory", b"1"]);
    assert_refused(&migrate(&from, &[&target]), 1, "differ: the target can't be used: Redis is out of memory");
    send(&to, &[b"CONFIG", b"SET", b"maxmemory", b"0"]);
    send(&from, &[b"CONFIG", b"SET", b"maxmemory", b"1"]);
    let moved = migrate(&from, &["--delete", &target]).ok();
    assert!(moved.text().contains("3 deleted from the source"), "{moved:?}");
    assert_eq!(dump(&from), BTreeMap::new());
}

#[test]
fn the_documented_least_permissions_suffice() {
    let (from, to) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    some_sessions(&from);
    let options = keepline::store::RedisOptions::default();
    for server in [&from, &to] {
        let words = [&["ACL".to_owned(), "SETUSER".to_owned()], &user_rules("least", &options)[..]].concat();
        let words: Vec<_> = words.iter().map(String::as_bytes).collect();
        send(server, &words);
    }
    let url = |server: &RedisServer| format!("redis://least:{PASSWORD}@127.0.0.1:{}", server.port());
    let run = |more: &[&str]| {
        let target = format!("--to=redis_url={}", url(&to));
        call_with(
            &[("KEEPLINE_BACKEND", "redis"), ("KEEPLINE_REDIS_URL", &url(&from))],
            &[&["migrate", &*target], more].concat(),
        )
    };
    let denied = || redis::cmd("ACL").arg("LOG").query::<Vec<redis::Value>>(&mut connect(&from)).unwrap().len();
    run(&[]).ok();
    assert_eq!(denied(), 0);
    assert_refused(&run(&["--scan"]), 1, "Redis denies SCAN to this user; `keepline config --acl --scan` prints");
    let printed = call_with(
        &[("KEEPLINE_BACKEND", "redis"), ("KEEPLINE_REDIS_USERNAME", "least")],
        &["config", "--acl", "--scan", "--json"],
    );
    let words: Vec<String> = serde_json::from_slice(&printed.ok().out).unwrap();
    let words: Vec<_> = words.iter().map(|word| word.replace(">PASSWORD", &format!(">{PASSWORD}"))).collect();
    let words: Vec<_> = words.iter().map(String::as_bytes).collect();
    send(&from, &words);
    send(&from, &[b"ACL", b"LOG", b"RESET"]);
    assert!(run(&["--scan", "--delete"]).ok().text().contains("3 deleted from the source"));
    assert_eq!(denied(), 0);
}
