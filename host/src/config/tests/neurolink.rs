//! Variables of NeuroLink's stand in for our own fields where they are meant to, and nowhere else.

use super::*;
use crate::store::SessionLimitPolicy;

/// What the variables make, with something of ours beside them.
fn with_variables(variables: &[(&str, &str)], ours: Sources) -> Result<Config, ConfigError> {
    Config::resolve(ours.with_environment(variables.iter().copied())?)
}

#[test]
fn neurolinks_redis_variables_are_ignored_unless_its_storage_type_is_redis() {
    let stray = [("REDIS_URL", "redis://stray"), ("REDIS_HOST", "stray"), ("REDIS_TTL", "x"), ("REDIS_DB", "7")];
    for ours in [vec![], pairs(&[("backend", "redis")])] {
        let plain = Config::resolve(Sources { set: ours.clone(), ..Sources::default() }).unwrap();
        for storage in
            [&[][..], &[("STORAGE_TYPE", "")], &[("STORAGE_TYPE", "memory")], &[("STORAGE_TYPE", " Memory ")]]
        {
            let ours = Sources { set: ours.clone(), ..Sources::default() };
            let config = with_variables(&[&stray[..], storage].concat(), ours).unwrap();
            assert_eq!(format!("{:?}", config.redis_options()), format!("{:?}", plain.redis_options()), "{storage:?}");
            assert_eq!((&config.host.backend, &config.warnings), (&plain.host.backend, &plain.warnings));
        }
    }
    // Not even where it could not be read.
    let name: std::ffi::OsString = "REDIS_PASSWORD".into();
    let unreadable = std::os::unix::ffi::OsStringExt::from_vec(vec![0xff]);
    let unreadable: (std::ffi::OsString, std::ffi::OsString) = (name, unreadable);
    assert!(Sources::default().with_environment([unreadable.clone()]).is_ok());
    let both = [unreadable, ("STORAGE_TYPE".into(), "redis".into())];
    assert!(Sources::default().with_environment(both).unwrap_err().to_string().starts_with("REDIS_PASSWORD: "));
}

#[test]
fn neurolinks_redis_variables_are_fallbacks_for_keeplines_own_settings() {
    let variables = [
        ("STORAGE_TYPE", " ReDis"),
        ("REDIS_HOST", "theirs"),
        ("REDIS_PORT", "6380"),
        ("REDIS_PASSWORD", "hunter2"),
        ("REDIS_DB", "3"),
        ("REDIS_TLS_ENABLED", "True"),
        ("REDIS_KEY_PREFIX", "shop:memory:"),
        ("REDIS_TTL", "5400"),
    ];
    let config = with_variables(&variables, Sources::default()).unwrap();
    let options = config.redis_options();
    assert_eq!((&*options.host, options.port, options.database, options.tls), ("theirs", 6380, 3, true));
    assert_eq!((options.password.unwrap().expose(), &*options.key_prefix), ("hunter2", "keepline:shop:memory"));
    assert_eq!(
        (option(&config, "session_ttl_hours"), option(&config, "session_ttl_mode")),
        (json!(1.5), json!("sliding"))
    );
    for (field, variable) in
        [("backend", "STORAGE_TYPE"), ("redis_host", "REDIS_HOST"), ("session_ttl_hours", "REDIS_TTL")]
    {
        assert_eq!(config.origin(field), Origin::Environment(variable.to_owned()));
    }
    assert!(config.warnings.is_empty() && !format!("{:?}", config.shown()).contains("hunter2"));

    // Each of ours is stronger, whoever says it.
    let document = Some(("f".to_owned(), json!({"key_prefix": "mine", "session_ttl_hours": 2, "redis_port": 1})));
    let set = pairs(&[("redis_database", "9")]);
    let config = with_variables(&variables, Sources { document, set, ..Sources::default() }).unwrap();
    let options = config.redis_options();
    assert_eq!((&*options.host, options.port, options.database, &*options.key_prefix), ("theirs", 1, 9, "mine"));
    assert_eq!(option(&config, "session_ttl_hours"), 2);
    // And so is a backend that was chosen.
    for ours in [
        Sources { set: pairs(&[("backend", "memory")]), ..Sources::default() },
        Sources { document: Some(("f".to_owned(), json!({"backend": "memory"}))), ..Sources::default() },
        Sources { profile: Some(("memory".to_owned(), Origin::CommandLine)), ..Sources::default() },
    ] {
        let config = with_variables(&variables, ours).unwrap();
        assert_eq!((&*config.host.backend, &*config.host.redis_host), ("memory", "localhost"));
    }
    let profile = Some(("custom".to_owned(), Origin::CommandLine));
    let config = with_variables(&variables, Sources { profile, ..Sources::default() }).unwrap();
    assert_eq!((&*config.host.redis_host, option(&config, "session_ttl_hours")), ("theirs", json!(1.5)));
}

#[test]
fn neurolinks_redis_password_is_never_sent_to_a_server_set_for_keepline() {
    let variables =
        [("STORAGE_TYPE", "redis"), ("REDIS_URL", "redis://:hunter2@theirs/4"), ("REDIS_PASSWORD", "hunter2")];
    for ours in [("redis_host", "mine"), ("redis_url", "redis://mine"), ("redis_nodes", "mine:1")] {
        let set = pairs(&[ours, ("redis_cluster", if ours.0 == "redis_nodes" { "true" } else { "false" })]);
        let config = with_variables(&variables, Sources { set, ..Sources::default() }).unwrap();
        assert!(config.is_redis() && config.warnings.is_empty(), "{:?}", config.warnings);
        assert!(config.host.redis_password.is_empty() && !config.host.redis_url.expose().contains("hunter2"));
    }
    let config = with_variables(&variables, Sources::default()).unwrap();
    assert_eq!(config.redis_options().url.unwrap().expose(), "redis://:hunter2@theirs/4");
}

#[test]
fn unusable_neurolink_storage_settings_are_reported() {
    let config = with_variables(&[("STORAGE_TYPE", "disk"), ("REDIS_HOST", "stray")], Sources::default()).unwrap();
    assert_eq!((&*config.host.backend, &*config.host.redis_host), ("memory", "localhost"));
    assert_eq!(config.warnings, ["STORAGE_TYPE is \"disk\", which is neither \"memory\" nor \"redis\"; using memory"]);
    let redis =
        |more: &[(&str, &str)]| with_variables(&[&[("STORAGE_TYPE", "redis")], more].concat(), Sources::default());
    assert_eq!(redis(&[]).unwrap_err(), ConfigError::NoServer);
    assert_eq!(redis(&[("REDIS_PORT", "1"), ("REDIS_HOST", "")]).unwrap_err(), ConfigError::NoServer);
    for (variable, text, told) in [
        ("REDIS_URL", "theirs:6379", "(REDIS_URL)"),
        (
            "REDIS_PORT",
            "70000",
            "redis_port must be a whole number from 1 to 65535, not the string \"70000\" (REDIS_PORT)",
        ),
        ("REDIS_TLS_ENABLED", "1", "redis_tls must be true or false"),
        ("REDIS_TTL", "1h", "session_ttl_hours must be a whole number of seconds, not the string \"1h\" (REDIS_TTL)"),
    ] {
        let said = redis(&[("REDIS_HOST", "theirs"), (variable, text)]).unwrap_err().to_string();
        assert!(said.contains(told), "{said}");
    }
    let config = redis(&[("REDIS_HOST", "theirs"), ("REDIS_MAX_RETRIES", "3")]).unwrap();
    assert!(config.warnings[0].starts_with("REDIS_MAX_RETRIES has no effect here"), "{:?}", config.warnings);
    let ours = Sources { set: pairs(&[("redis_nodes", "mine:1"), ("redis_cluster", "true")]), ..Sources::default() };
    assert!(with_variables(&[("STORAGE_TYPE", "redis")], ours).is_ok());
    let config =
        with_variables(&[("STORAGE_TYPE", "memory"), ("NEUROLINK_MEMORY_MAX_SESSIONS", "50")], Sources::default());
    let limits = config.unwrap().memory_limits();
    assert_eq!((limits.max_sessions, limits.session_limit_policy), (50, SessionLimitPolicy::Evict));
}

#[test]
fn neurolinks_switches_take_effect_or_cause_a_warning() {
    let set = |more: &[(&str, &str)]| {
        with_variables(&[&[("STORAGE_TYPE", "memory")], more].concat(), Sources::default()).unwrap()
    };
    // As before.
    let plain = set(&[]);
    assert_eq!((option(&plain, "conversation"), option(&plain, "memory_enabled")), (Value::Null, Value::Null));
    let on = set(&[
        ("NEUROLINK_MEMORY_ENABLED", "true"),
        ("NEUROLINK_SUMMARIZATION_ENABLED", "false"),
        ("NEUROLINK_TOKEN_THRESHOLD", "8000"),
        ("NEUROLINK_TITLE_PROMPT", "A title for: ${userMessage}"),
    ]);
    for (name, value) in [
        ("conversation", json!(true)),
        ("summaries", json!(false)),
        ("max_context_tokens", json!(8000)),
        ("title_prompt", json!("A title for: the message below")),
        ("memory_enabled", Value::Null),
    ] {
        assert_eq!(option(&on, name), value, "{name}");
    }
    assert!(on.warnings.is_empty() && on.origin("summaries").to_string() == "NEUROLINK_SUMMARIZATION_ENABLED");
    for off in ["false", "True", "1"] {
        let off = set(&[("NEUROLINK_MEMORY_ENABLED", off)]);
        assert_eq!(option(&off, "memory_enabled"), false);
        assert!(off.warnings[0].contains("not \"true\": entries pass without memory"), "{:?}", off.warnings);
    }
    let warned = set(&[
        ("NEUROLINK_SUMMARIZATION_PROVIDER", "vertex"),
        ("NEUROLINK_SUMMARIZATION_MODEL", "m"),
        ("NEUROLINK_TOKEN_THRESHOLD", "8000"),
    ]);
    assert_eq!((warned.warnings.len(), option(&warned, "max_context_tokens")), (3, Value::Null));
    assert!(warned.warnings[2].contains("NEUROLINK_TOKEN_THRESHOLD has no effect without"), "{:?}", warned.warnings);
    // Ours are stronger.
    let ours = Sources { set: pairs(&[("memory_enabled", "true"), ("summaries", "true")]), ..Sources::default() };
    let variables =
        [("STORAGE_TYPE", "memory"), ("NEUROLINK_MEMORY_ENABLED", "no"), ("NEUROLINK_SUMMARIZATION_ENABLED", "false")];
    let config = with_variables(&variables, ours).unwrap();
    assert_eq!((option(&config, "memory_enabled"), option(&config, "summaries")), (json!(true), json!(true)));
    let bad = [("STORAGE_TYPE", "memory"), ("NEUROLINK_MEMORY_ENABLED", "true"), ("NEUROLINK_TOKEN_THRESHOLD", "50k")];
    let told = with_variables(&bad, Sources::default()).unwrap_err().to_string();
    assert!(
        told.contains("max_context_tokens must be a whole number of tokens")
            && told.contains("NEUROLINK_TOKEN_THRESHOLD"),
        "{told}"
    );
    // Without the storage type they are not read, and that is said.
    let stray =
        with_variables(&[("NEUROLINK_MEMORY_ENABLED", "true"), ("REDIS_URL", "x")], Sources::default()).unwrap();
    assert_eq!(option(&stray, "conversation"), Value::Null);
    assert_eq!(
        stray.warnings,
        ["STORAGE_TYPE is not set, so NeuroLink's variables are not read: NEUROLINK_MEMORY_ENABLED"]
    );
}
