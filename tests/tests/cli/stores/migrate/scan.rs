//! Sessions that the source's list has lost are found with `--scan`; without it, nothing is claimed about them.

use super::*;

#[test]
fn unlisted_sessions_are_found_with_scan_and_not_claimed_without() {
    let (from, to) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    for name in ["lost", "__sessions__", "listed"] {
        session(&from, &["create", name]);
        session(&from, &["put", name, "k", "1"]);
    }
    // Others' keys, which look alike.
    for key in ["rr:memory:b:s1:__meta__", "rr:memory:a b:__meta__", "rr:memory:__meta__", "rr:memory2:s:__meta__"] {
        send(&from, &[b"HSET", key.as_bytes(), b"created_at", b"1"]);
    }
    send(&from, &[b"SREM", b"rr:memory:__sessions__", b"lost", b"__sessions__", b"listed"]);
    let target = format!("--to=redis_url={}", to.url());
    let blind = migrate(&from, &[&target, "--delete"]).ok();
    let hint = "0 sessions copied; the source lists none. --scan also finds sessions that its list has lost\n";
    assert_eq!(told(&blind), hint);
    send(&from, &[b"SADD", b"rr:memory:__sessions__", b"listed"]);
    let partly = migrate(&from, &[&target]).ok();
    let claim = "1 session copied; all that the source lists is in the target, with the same contents\n";
    assert_eq!(told(&partly), claim);

    let found = migrate(&from, &[&target, "--scan"]).ok();
    let claim = "2 sessions copied, 1 already there, 2 not in the source's list; \
                 all that the source holds is in the target, with the same contents\n";
    assert_eq!(told(&found), claim);
    assert_eq!(session(&to, &["list"]).text(), "__sessions__\nlisted\nlost\n");
    let json = migrate(&from, &[&target, "--scan", "--delete", "--json"]).ok().json();
    assert_eq!((&json["unlisted"], &json["deleted"], &json["already_there"]), (&json!(2), &json!(3), &json!(3)));
    let nothing = migrate(&from, &[&target, "--scan"]).ok();
    assert_eq!(told(&nothing), "0 sessions copied; the source has none\n");
    assert_eq!(migrate(&from, &[&target, "--json"]).ok().json()["unlisted"], json!(null));
}

#[test]
fn all_masters_of_a_cluster_are_scanned() {
    let (back, prefix) = (RedisServer::start().unwrap(), prefix());
    let to = to_cluster(&prefix);
    let as_source: Vec<_> = to.iter().map(|field| field.replace("--to=", "--set=")).collect();
    let keepline = |arguments: &[&str]| {
        call_with(&[("KEEPLINE_BACKEND", "redis")], &[arguments, &texts(&as_source)].concat()).ok()
    };
    let names: Vec<_> = (0..12).map(|n| format!("s{n}")).collect();
    for name in &names {
        keepline(&["session", "create", name]);
    }
    for node in &shared_cluster().nodes()[..MASTERS] {
        let mut connection = connect(node);
        let lists: Vec<String> =
            redis::cmd("KEYS").arg(format!("{prefix}:*:__sessions__")).query(&mut connection).unwrap();
        assert!(!lists.is_empty());
        lists.iter().for_each(|list| redis::cmd("DEL").arg(list).exec(&mut connection).unwrap());
    }
    let url = format!("--to=redis_url={}", back.url());
    let target = ["--to=redis_cluster=false", "--to=redis_nodes=", "--to=key_prefix=rr:memory", &url];
    let found = keepline(&[&["migrate", "--scan"], &target[..]].concat());
    assert!(told(&found).starts_with("12 sessions copied, 12 not in the source's list;"), "{found:?}");
    let mut listed: Vec<_> = session(&back, &["list"]).text().lines().map(str::to_owned).collect();
    listed.sort_unstable();
    let mut expected = names;
    expected.sort_unstable();
    assert_eq!(listed, expected);
}
