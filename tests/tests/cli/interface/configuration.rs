//! `keepline config`: values with their origin, errors with the field, and no secrets.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Stdio},
};

use keepline_local_redis::RedisServer;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{Ran, answer, call, call_with, finish, keepline, question};

fn shown(ran: &Ran) -> BTreeMap<String, (Value, String)> {
    let all = ran.json();
    let host = all["host"].as_object().unwrap().iter();
    let fields = host.chain(all["filter"].as_object().unwrap());
    let entry = |(name, of): (&String, &Value)| {
        (name.clone(), (of["value"].clone(), of["source"].as_str().unwrap().to_owned()))
    };
    fields.map(entry).collect()
}

#[test]
fn each_value_is_shown_with_its_origin() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keepline.json");
    fs::write(&file, r#"{"redis_host":"file","redis_port":1,"redis_database":1,"max_keys":11,"max_history":11}"#)
        .unwrap();
    let file = file.to_str().unwrap();
    let ran = call_with(
        &[
            ("KEEPLINE_REDIS_PORT", "2"),
            ("KEEPLINE_REDIS_DATABASE", "2"),
            ("KEEPLINE_MAX_KEYS", "12"),
            ("KEEPLINE_REDIS_TLS", ""),
        ],
        &["config", "--json", "--config", file, "--profile", "redis", "--set", "redis_database=3"],
    )
    .ok();
    let fields = shown(&ran);
    for (name, value, source) in [
        ("redis_database", json!(3), "command line"),
        ("redis_port", json!(2), "KEEPLINE_REDIS_PORT"),
        ("redis_host", json!("file"), file),
        ("max_keys", json!(12), "KEEPLINE_MAX_KEYS"),
        ("max_history", json!(11), file),
        ("session_ttl_hours", json!(24), "profile redis"),
        ("redis_tls", json!(false), "default"),
        ("session_ttl_mode", json!("fixed"), "default"),
    ] {
        assert_eq!(fields[name], (value, source.to_owned()), "{name}");
    }
    assert_eq!(ran.json()["profile"], json!({"value": "redis", "source": "command line"}));
}

#[test]
fn fields_set_before_the_command_are_kept() {
    let arguments = ["--set", "redis_port=1", "--set", "max_keys=5", "config", "--json", "--set", "redis_port=2"];
    let fields = shown(&call(&arguments, b"").ok());
    assert_eq!((&fields["redis_port"].0, &fields["max_keys"].0), (&json!(2), &json!(5)));
}

#[test]
fn programs_get_a_field_per_line() {
    let ran = call(&["config"], b"").ok();
    assert!(ran.text().lines().any(|line| line == "backend\tmemory\tprofile memory"), "{}", ran.text());
    assert!(ran.text().lines().all(|line| line.split('\t').count() == 3));
}

#[test]
fn profiles_resolve_as_in_the_original_node() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keepline.json");
    fs::write(
        &file,
        r#"{"profile":"redis","max_history":null,"redis":{"redis_host":"db"},"custom":{"redis_host":"no"}}"#,
    )
    .unwrap();
    let ran = call(&["config", "--json", "--config", file.to_str().unwrap()], b"").ok();
    let fields = shown(&ran);
    assert_eq!(fields["redis_host"].0, "db");
    assert_eq!(fields["max_history"].0, 100);
    assert_eq!(ran.err, "");
    let ran = call_with(
        &[("KEEPLINE_PROFILE", "custom"), ("KEEPLINE_CONFIG", file.to_str().unwrap())],
        &["config", "--json"],
    );
    assert_eq!(shown(&ran.ok())["redis_host"].0, "no");
}

#[test]
fn a_misplaced_field_is_refused_with_its_proper_place() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keepline.json");
    let path = file.to_str().unwrap();
    for (config, told) in [
        (
            r#"{"profile":"redis","key_prefix":"tenant-b"}"#,
            r#"not beside it: key_prefix. Write {"profile": "redis", "redis": {"key_prefix": …}}"#,
        ),
        (r#"{"profile":"memory","max_history":7,"memory":{"max_keys":7}}"#, "not beside it: max_history"),
        (r#"{"backend":"redis","redis":{"key_prefix":"tenant-b"}}"#, "--profile redis"),
    ] {
        fs::write(&file, config).unwrap();
        for command in [&["run"][..], &["config"], &["session", "list"]] {
            let ran = call(&[command, &["--config", path]].concat(), question("a", "1").as_bytes());
            assert!(ran.code == 2 && ran.out.is_empty() && ran.err.contains(told), "{config}: {ran:?}");
            assert!(ran.err.contains(path), "{ran:?}");
        }
        let to = call(&["migrate", "--set", "backend=redis", "--to-config", path], b"");
        assert!(to.code == 2 && to.err.contains(told), "{to:?}");
    }
    let help = call(&["--help"], b"").ok();
    assert!(help.text().contains("Fields beside \"profile\" are an error"), "{}", help.text());
}

#[test]
fn a_byte_order_mark_is_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keepline.json");
    fs::write(&file, "\u{feff}{\"redis_host\":\"db\"}").unwrap();
    let ran = call(&["config", "--json", "--config", file.to_str().unwrap()], b"").ok();
    assert_eq!(shown(&ran)["redis_host"].0, "db");
}

#[test]
fn no_password_is_shown_from_any_origin() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keepline.json");
    fs::write(&file, r#"{"redis_password":"hunter2"}"#).unwrap();
    let file = file.to_str().unwrap();
    let url = "redis://me:hunter2@127.0.0.1:1/0";
    for (environment, arguments) in [
        (&[][..], &["config", "--config", file][..]),
        (&[("KEEPLINE_REDIS_PASSWORD", "hunter2"), ("KEEPLINE_REDIS_URL", url)], &["config", "--json", "-v"]),
        (&[("KEEPLINE_REDIS_URL", "redis://me:hunter2@host:99999")], &["config"]),
        (&[("KEEPLINE_REDIS_URL", "hunter2@host")], &["config"]),
        (&[("KEEPLINE_REDIS_URL", url), ("KEEPLINE_PROFILE", "redis")], &["session", "list", "-v"]),
    ] {
        let ran = call_with(environment, arguments);
        let all = format!("{}{}", String::from_utf8_lossy(&ran.out), ran.err);
        assert!(!all.contains("hunter2"), "{all}");
    }
}

#[test]
fn an_invalid_value_names_the_field_and_the_allowed_values() {
    for (set, told) in [
        ("redis_port=70000", "redis_port must be a whole number from 1 to 65535"),
        ("backend=Redis", "Unknown backend: 'Redis'. Must be \"redis\", \"memory\" or \"directory\"."),
        ("max_history=x", "max_history"),
        ("auto_summarize=no", "auto_summarize"),
        ("redis_url=http://x", "redis_url must be a redis:// or rediss:// URL"),
        ("window_keep=5", "window_keep must be an integer from 10 to 90, not 5 (command line)\n"),
    ] {
        let ran = call(&["run", "--set", set], b"");
        assert!(ran.code == 2 && ran.err.contains(told), "{set}: {ran:?}");
    }
}

#[test]
fn an_unknown_field_suggests_similar_names() {
    for ran in [call(&["run", "--set", "max_histroy=5"], b""), call_with(&[("KEEPLINE_MAX_HISTROY", "5")], &["run"])] {
        assert!(ran.code == 2 && ran.err.contains("unknown field max_histroy ("), "{ran:?}");
        assert!(ran.err.ends_with("; did you mean max_history?\n") && !ran.err.contains("redis_host"), "{ran:?}");
    }
    let ran = call(&["run", "--set", "window_keeping=5"], b"");
    assert!(ran.code == 2 && ran.err.ends_with("did you mean window_keep?\n"), "{ran:?}");
    let ran = call(&["run", "--set", "no_such_thing=5"], b"");
    assert!(ran.code == 2 && ran.err.ends_with("`keepline config` lists all fields\n"), "{ran:?}");
    assert!(!ran.err.contains("redis_host"), "{ran:?}");
}

#[test]
fn the_custom_profile_without_settings_is_refused_at_the_start() {
    let ran = call(&["run", "--profile", "custom"], question("a", "1").as_bytes());
    assert!(ran.code == 2 && ran.out.is_empty() && ran.err.contains("redis_host is empty"), "{ran:?}");
}

/// With an environment and lines.
fn pass_with(environment: &[(&str, &str)], arguments: &[&str], input: &str) -> Ran {
    finish(keepline(arguments.iter().copied()).envs(environment.iter().copied()).spawn().unwrap(), input.as_bytes())
}

#[test]
fn neurolink_variables_apply_if_its_storage_type_is_set() {
    let redis = RedisServer::start_with(&["--requirepass", "hunter2"]).unwrap();
    let port = redis.port().to_string();
    let server = [("REDIS_HOST", "127.0.0.1"), ("REDIS_PORT", &*port), ("REDIS_PASSWORD", "hunter2")];
    let all =
        [&server[..], &[("STORAGE_TYPE", "Redis"), ("REDIS_KEY_PREFIX", "shop:"), ("REDIS_TTL", "3600")]].concat();

    let ran = call_with(&all, &["config", "--json"]).ok();
    let told = shown(&ran);
    for (field, value, source) in [
        ("backend", json!("redis"), "STORAGE_TYPE"),
        ("redis_host", json!("127.0.0.1"), "REDIS_HOST"),
        ("redis_password", json!("***"), "REDIS_PASSWORD"),
        ("key_prefix", json!("keepline:shop"), "REDIS_KEY_PREFIX"),
        ("session_ttl_hours", json!(1), "REDIS_TTL"),
        ("session_ttl_mode", json!("sliding"), "REDIS_TTL"),
        ("redis_database", json!(0), "default"),
    ] {
        assert_eq!(told[field], (value, source.to_owned()), "{field}");
    }
    assert!(!ran.text().contains("hunter2") && ran.err.is_empty(), "{ran:?}");

    let input = question("anna", "1") + &answer("x");
    assert_eq!(pass_with(&all, &["run", "--set", "on_store_error=fail"], &input).ok().text(), input);
    assert_eq!(call_with(&all, &["session", "list"]).ok().text(), "anna\n");
    assert_eq!(call_with(&all, &["health", "--json"]).ok().json()["backend"], json!("redis"));
    // Ours are stronger.
    let other = [&all[..], &[("KEEPLINE_KEY_PREFIX", "other")]].concat();
    assert_eq!(call_with(&other, &["session", "list"]).ok().text(), "");
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = ["session", "list", "--dir", directory.path().to_str().unwrap()];
    let ran = call_with(&all, &elsewhere);
    assert!(ran.code == 2 && ran.err.contains("there is no store in"), "{ran:?}");

    // Without it, they are another program's.
    for environment in [server.to_vec(), [&server[..], &[("STORAGE_TYPE", "memory")]].concat()] {
        let told = shown(&call_with(&environment, &["config", "--json"]).ok());
        assert_eq!((&told["backend"].0, &told["redis_host"].0), (&json!("memory"), &json!("localhost")));
    }
}

#[test]
fn sessions_under_neurolinks_prefix_are_found() {
    let redis = RedisServer::start().unwrap();
    let port = redis.port().to_string();
    let theirs = [
        ("STORAGE_TYPE", "redis"),
        ("REDIS_HOST", "127.0.0.1"),
        ("REDIS_PORT", &*port),
        ("REDIS_KEY_PREFIX", "neurolink:conversation:"),
    ];
    let prefix = || shown(&call_with(&theirs, &["config", "--json"]).ok())["key_prefix"].0.clone();
    // A new deployment keeps clear of what begins so.
    assert_eq!(prefix(), "keepline:neurolink:conversation");
    // As earlier versions had it.
    call_with(&theirs, &["session", "create", "anna", "--set", "key_prefix=neurolink:conversation"]).ok();
    assert_eq!(prefix(), "neurolink:conversation");
    assert_eq!(call_with(&theirs, &["session", "list"]).ok().text(), "anna\n");
    // Where Redis can't be asked, no memory seems lost.
    drop(redis);
    let ran = call_with(&theirs, &["config", "--json"]).ok();
    assert_eq!(shown(&ran)["key_prefix"].0, "neurolink:conversation");
    assert!(ran.err.contains("can't tell whether Redis holds sessions under the key prefix"), "{ran:?}");
}

#[test]
fn neurolinks_switch_turns_memory_off_with_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let run = |environment: &[(&str, &str)], input: &str| {
        pass_with(environment, &["run", "--dir", directory.path().to_str().unwrap()], input)
    };
    let input = question("anna", "1") + &answer("x");
    let off = run(&[("STORAGE_TYPE", "memory"), ("NEUROLINK_MEMORY_ENABLED", "false")], &input).ok();
    assert!(off.text() == input && off.err.contains("entries pass without memory"), "{off:?}");
    // What a client forged goes all the same.
    let forged =
        "{\"lane\":\"questions\",\"text\":\"?\",\"metadata\":{\"session_id\":\"anna\",\"memory_context\":1}}\n";
    let off = run(&[("STORAGE_TYPE", "memory"), ("NEUROLINK_MEMORY_ENABLED", "false")], forged).ok();
    assert!(!off.text().contains("memory_context"), "{off:?}");
    // Nothing was stored.
    let on = run(&[("STORAGE_TYPE", "memory"), ("NEUROLINK_MEMORY_ENABLED", "true")], &input).ok();
    assert!(on.text() == input, "{on:?}");
    let on = run(&[("STORAGE_TYPE", "memory"), ("NEUROLINK_MEMORY_ENABLED", "true")], &question("anna", "2")).ok();
    assert!(on.text().contains("memory_messages"), "{on:?}");
}

#[test]
fn invalid_neurolink_variables_are_reported() {
    let ran = call_with(&[("STORAGE_TYPE", "redis"), ("REDIS_PORT", "6379")], &["run"]);
    assert!(ran.code == 2 && ran.err.contains("STORAGE_TYPE is redis, and nothing names the server"), "{ran:?}");
    let ran = call_with(&[("STORAGE_TYPE", "redis"), ("REDIS_URL", "hunter2@host")], &["run"]);
    assert!(ran.code == 2 && ran.err.contains("(REDIS_URL)") && !ran.err.contains("hunter2"), "{ran:?}");
    let ran = call_with(&[("STORAGE_TYPE", "disk"), ("REDIS_HOST", "stray")], &["config", "--json"]).ok();
    assert_eq!(shown(&ran)["backend"], (json!("memory"), "STORAGE_TYPE".to_owned()));
    assert!(ran.err.contains("STORAGE_TYPE is ") && ran.err.contains("; using memory"), "{ran:?}");
}

#[test]
fn help_names_every_field() {
    let help = call(&["help", "config"], b"").ok();
    for field in keepline::config::FIELDS {
        assert!(help.text().contains(field.name), "{}", field.name);
    }
}

#[test]
fn the_printed_acl_grants_exactly_the_needed_permissions() {
    let redis = RedisServer::start().unwrap();
    let redis_cli = |line: &str| {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &redis.port().to_string()]);
        finish(
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(),
            line.as_bytes(),
        )
    };
    let set = ["--profile", "redis", "--set", "key_prefix=shop:$1", "--set", "redis_database=2"];
    let ran = call(&[&["config", "--acl"], &set[..]].concat(), b"").ok();
    assert!(ran.text().starts_with("ACL SETUSER keepline on '>PASSWORD' resetkeys "), "{}", ran.text());
    assert_eq!(redis_cli(&ran.text().replace("PASSWORD", "pw")).ok().text().trim(), "OK");
    let words: Vec<String> =
        serde_json::from_value(call(&[&["config", "--acl", "--json"], &set[..]].concat(), b"").ok().json()).unwrap();
    let quotes = |word: &String| word.replace('\'', "");
    assert_eq!(ran.text().trim().split(' ').map(|word| quotes(&word.to_owned())).collect::<Vec<_>>(), words);

    let url = format!("redis_url=redis://keepline:pw@127.0.0.1:{}", redis.port());
    let run = |more: &[&str]| {
        let input = question("a", "1") + &answer("x");
        call(&[&["run", "--set", "on_store_error=fail", "--set", &url], &set[..], more].concat(), input.as_bytes())
    };
    run(&[]).ok();
    for other in ["key_prefix=shop", "redis_database=0"] {
        let ran = run(&["--set", other]);
        // It may do the same in any database; Redis has no rules for those.
        assert_eq!(ran.code, i32::from(other != "redis_database=0"), "{other}: {ran:?}");
    }
}

#[test]
fn the_printed_acl_names_the_configured_user_and_no_secret() {
    for (environment, user) in [
        (&[("KEEPLINE_REDIS_USERNAME", "anna")][..], "anna"),
        (&[("KEEPLINE_REDIS_USERNAME", "anna"), ("KEEPLINE_REDIS_URL", "redis://ben:hunter2@h")], "ben"),
        (&[("KEEPLINE_REDIS_PASSWORD", "hunter2")], "keepline"),
    ] {
        let ran = call_with(environment, &["config", "--acl", "--profile", "redis"]).ok();
        assert!(ran.text().starts_with(&format!("ACL SETUSER {user} on '>PASSWORD' ")), "{}", ran.text());
        assert!(!ran.text().contains("hunter2") && !ran.err.contains("hunter2"));
    }
    // The documentation shows the same, in several lines.
    let shown = include_str!("../../../../docs/redis.md").split_once("ACL SETUSER ").unwrap().1;
    let printed = call(&["config", "--acl", "--profile", "redis"], b"").ok();
    let rules = printed.text().strip_prefix("ACL SETUSER ").unwrap().split_whitespace();
    assert!(shown.split_once("```").unwrap().0.split_whitespace().eq(rules));
    for set in ["key_prefix=a*", "key_prfix=a", "redis_username=a'b"] {
        let ran = call(&["config", "--acl", "--set", set], b"");
        assert!(ran.code == 2 && ran.out.is_empty(), "{set}: {ran:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn arbitrary_bytes_are_accepted_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("keepline.json");
        fs::write(&file, bytes).unwrap();
        let ran = call(&["config", "--config", file.to_str().unwrap()], b"");
        prop_assert!([0, 2].contains(&ran.code), "{ran:?}");
    }
}

#[test]
fn a_field_without_effect_is_warned_of() {
    for (set, needs) in [
        ("title_max_length=60", "conversation=true"),
        ("recall_tokens=100", "conversation=true"),
        ("model_url=http://localhost:1/v1", "model=\"openai\""),
        ("embedding_url=http://localhost:1/v1", "embedding=\"openai\""),
        ("redis_port=1", "backend=\"redis\""),
        ("directory_sync=off", "backend=\"directory\""),
    ] {
        let field = set.split_once('=').unwrap().0;
        let ran = call(&["run", "--set", set], b"").ok();
        assert_eq!(ran.err, format!("warning: {field} (command line) has no effect without {needs}\n"));
    }
    let ran = call(&["run", "--set=conversation=true", "--set=recall_tokens=100"], b"").ok();
    assert!(ran.err.contains("recall_tokens (command line) has no effect without recall="), "{ran:?}");
    let both = ["run", "--set=conversation=true", "--set=title_max_length=60"];
    assert_eq!(call(&both, b"").ok().err, "");
}

#[test]
fn a_text_may_look_like_a_number() {
    for text in ["2026", "-1.5", "true"] {
        let set = format!("--set=human_prefix={text}");
        let shown = call(&["config", "--json", "--set=conversation=true", &set], b"").ok().json();
        assert_eq!(shown["filter"]["human_prefix"]["value"], text);
    }
}
