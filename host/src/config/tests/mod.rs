use serde_json::json;

use super::*;
use crate::{
    keepline::options::Options,
    sandbox::{CodeCache, Sandbox},
    store::{MemoryLimits, RedisOptions},
};

fn from(value: Value) -> Result<Config, ConfigError> {
    Config::from_json(value)
}

fn message(value: Value) -> String {
    from(value).unwrap_err().to_string()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn option(config: &Config, name: &str) -> Value {
    serde_json::from_str::<Value>(&config.filter_options()).unwrap()[name].clone()
}

#[test]
fn an_empty_configuration_is_the_memory_profile() {
    let config = Config::resolve(Sources::default()).unwrap();
    assert_eq!(config.profile, Profile::Memory);
    assert_eq!(config.host.backend, "memory");
    assert_eq!(config.filter_options(), r#"{"auto_summarize":true,"max_history":100,"session_ttl_hours":0}"#);
    assert!(config.warnings.is_empty());
}

#[test]
fn the_tables_defaults_are_those_of_the_library() {
    let config = Config::resolve(Sources::default()).unwrap();
    // A library writes nowhere unless it is told to; a program that reads a configuration is.
    let sandbox = Sandbox { cache: CodeCache::Default, ..Sandbox::default() };
    assert_eq!(config.sandbox(), sandbox);
    assert_eq!(config.memory_limits(), MemoryLimits::default());
    assert_eq!(format!("{:?}", config.redis_options()), format!("{:?}", RedisOptions::default()));
    assert_eq!(config.options().max_entry_bytes, Options::default().max_entry_bytes);
    assert_eq!(config.options().on_store_error, Options::default().on_store_error);
}

#[test]
fn a_named_profile_takes_its_fields_from_its_own_object_only() {
    let config = from(json!({
        "profile": "redis", "redis": {"redis_host": "db", "max_history": 7}, "custom": {"redis_host": "no"},
    }))
    .unwrap();
    assert_eq!(config.host.redis_host, "db");
    assert_eq!(option(&config, "session_ttl_hours"), 24);
    assert_eq!(option(&config, "max_history"), 7);
    assert!(config.warnings.is_empty());
    assert_eq!(config.origin("redis_host"), Origin::Document("configuration".to_owned()));
    assert_eq!(config.origin("redis_port"), Origin::Profile(Profile::Redis));
    assert_eq!(config.origin("redis_tls"), Origin::Default);
}

#[test]
fn a_field_beside_a_profile_is_refused_naming_where_it_belongs() {
    let said = message(json!({"profile": "redis", "key_prefix": "tenant-b", "redis": {"redis_host": "x"}}));
    assert_eq!(
        said,
        "configuration: with \"profile\", fields are read from the object \"redis\" only, so these belong inside it, \
         not beside it: key_prefix. Write {\"profile\": \"redis\", \"redis\": {\"key_prefix\": …}}"
    );
    // The filter's fields, and what nobody knows, no less; and whoever chose the profile.
    let said = message(json!({"profile": "memory", "max_history": 7, "redis_password": "hunter2", "x": []}));
    assert!(said.contains("max_history, redis_password, x") && !said.contains("hunter2"), "{said}");
    let document = Some(("f".to_owned(), json!({"profile": "memory", "key_prefix": "b"})));
    let profile = Some(("redis".to_owned(), Origin::CommandLine));
    let said = Config::resolve(Sources { profile, document, ..Sources::default() }).unwrap_err().to_string();
    assert!(said.starts_with("f: ") && said.contains("\"redis\": {\"key_prefix\""), "{said}");
    assert!(from(json!({"profile": "redis", "max_history": null})).is_ok());
}

#[test]
fn fields_of_an_unselected_profile_are_refused_when_redis_is_used() {
    let said = message(json!({"backend": "redis", "redis": {"key_prefix": "tenant-b"}}));
    assert!(said.contains("object \"redis\"") && said.contains("--profile redis"), "{said}");
    let document = Some(("f".to_owned(), json!({"custom": {"key_prefix": "b"}})));
    let set = pairs(&[("backend", "redis")]);
    let said = Config::resolve(Sources { document, set, ..Sources::default() }).unwrap_err().to_string();
    assert!(said.starts_with("f ") && said.contains("--profile custom"), "{said}");
    let document = Some(("f".to_owned(), json!({"key_prefix": "a", "redis": {"key_prefix": "b"}, "custom": {}})));
    let profile = Some(("redis".to_owned(), Origin::CommandLine));
    let config = Config::resolve(Sources { profile, document, ..Sources::default() }).unwrap();
    assert_eq!(config.host.key_prefix, "b");
}

#[test]
fn without_a_profile_the_object_overrides_the_memory_profile() {
    let config = from(json!({"backend": "redis", "max_history": 7})).unwrap();
    assert_eq!(config.host.redis_host, "localhost");
    assert_eq!(option(&config, "session_ttl_hours"), 0);
    assert_eq!(option(&config, "max_history"), 7);
}

#[test]
fn fields_of_an_unselected_profile_are_named_in_a_warning() {
    let config = from(json!({"redis": {"redis_host": "x"}})).unwrap();
    assert_eq!(config.host.backend, "memory");
    assert!(config.warnings[0].contains("redis"), "{:?}", config.warnings);
}

#[test]
fn null_is_the_default() {
    let config = from(json!({"profile": null, "redis_port": null, "max_history": null})).unwrap();
    assert_eq!(config.host.redis_port, 6379);
    assert_eq!(option(&config, "max_history"), 100);
    assert_eq!(config.origin("redis_port"), Origin::Default);
}

#[test]
fn the_command_line_wins_over_the_environment_over_the_file_over_the_profile() {
    let sources = Sources {
        profile: Some(("redis".to_owned(), Origin::CommandLine)),
        document: Some((
            "f".to_owned(),
            json!({"redis_host": "a", "redis_port": 1, "redis_database": 1, "max_keys": 1}),
        )),
        environment: pairs(&[("redis_port", "2"), ("redis_database", "2"), ("max_keys", "2"), ("max_history", "2")]),
        set: pairs(&[("redis_database", "9"), ("redis_database", "3"), ("max_keys", "3")]),
        ..Sources::default()
    };
    let config = Config::resolve(sources).unwrap();
    assert_eq!((config.host.redis_host.as_str(), config.host.redis_port, config.host.redis_database), ("a", 2, 3));
    assert_eq!(config.origin("redis_host"), Origin::Document("f".to_owned()));
    assert_eq!(config.origin("redis_port").to_string(), "KEEPLINE_REDIS_PORT");
    assert_eq!(config.origin("redis_database"), Origin::CommandLine);
    assert_eq!(option(&config, "max_keys"), 3);
    assert_eq!(option(&config, "max_history"), 2);
    assert_eq!(option(&config, "session_ttl_hours"), 24);
}

#[test]
fn the_profile_of_the_command_line_wins_over_the_files() {
    let document = Some(("f".to_owned(), json!({"profile": "memory", "redis": {"redis_host": "db"}})));
    let config = Config::resolve(Sources {
        profile: Some(("redis".to_owned(), Origin::CommandLine)),
        document,
        ..Sources::default()
    })
    .unwrap();
    assert_eq!((config.profile, config.host.redis_host.as_str()), (Profile::Redis, "db"));
}

#[test]
fn text_for_a_host_field_is_read_by_its_type() {
    let set =
        pairs(&[("backend", "redis"), ("redis_password", "12345"), ("redis_tls", "true"), ("redis_username", "null")]);
    let config = Config::resolve(Sources { set, ..Sources::default() }).unwrap();
    assert_eq!(config.host.redis_password.expose(), "12345");
    assert_eq!(config.host.redis_username, "null");
    assert!(config.host.redis_tls);
    for (name, text) in [("redis_tls", "yes"), ("redis_tls", ""), ("redis_port", "x"), ("on_store_error", "Fail")] {
        let error = Config::resolve(Sources { set: pairs(&[(name, text)]), ..Sources::default() }).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn text_for_a_filter_field_is_read_as_a_json_scalar_or_as_a_string() {
    let set =
        pairs(&[("a", "1.5"), ("b", "true"), ("c", "sliding"), ("d", "\"5\""), ("e", "[1]"), ("f", ""), ("g", "null")]);
    let config = Config::resolve(Sources { set, ..Sources::default() }).unwrap();
    for (name, value) in [("a", json!(1.5)), ("b", json!(true)), ("c", json!("sliding")), ("d", json!("5"))] {
        assert_eq!(option(&config, name), value);
    }
    for (name, value) in [("e", json!("[1]")), ("f", json!("")), ("g", Value::Null)] {
        assert_eq!(option(&config, name), value);
    }
}

#[test]
fn errors_name_the_field_what_was_given_and_what_is_allowed() {
    for (given, said) in [
        (json!({"redis_port": 70000}), "redis_port must be a whole number from 1 to 65535, not 70000 (configuration)"),
        (
            json!({"redis_port": "6379"}),
            "redis_port must be a whole number from 1 to 65535, not the string \"6379\" (configuration)",
        ),
        (json!({"redis_tls": "false"}), "redis_tls must be true or false, not the string \"false\" (configuration)"),
        (json!({"on_store_error": 1}), "on_store_error must be \"forward\" or \"fail\", not 1 (configuration)"),
        (json!({"backend": "Redis"}), "Unknown backend: 'Redis'. Must be \"redis\", \"memory\" or \"directory\"."),
        (json!({"backend": 5}), "Unknown backend: 5. Must be \"redis\", \"memory\" or \"directory\"."),
        (
            json!({"profile": "prod"}),
            "Profile prod is not defined in memory_persistent: use memory, redis, custom or chat",
        ),
        (json!({"profile": 5}), "Profile 5 is not defined in memory_persistent: use memory, redis, custom or chat"),
        (
            json!({"profile": "redis", "redis": 5}),
            "redis must be an object: the fields of that profile, not 5 (configuration)",
        ),
        (json!([]), "configuration: a configuration must be a JSON object, not a list"),
    ] {
        assert_eq!(message(given), said);
    }
}

#[test]
fn the_custom_profile_is_refused_without_a_redis_host_or_url() {
    let said = Config::of_profile(Profile::Custom).unwrap_err().to_string();
    assert!(said.starts_with("redis_host is empty (profile custom)"), "{said}");
    assert!(from(json!({"profile": "custom", "custom": {"redis_host": "db"}})).is_ok());
    assert!(from(json!({"profile": "custom", "custom": {"redis_url": "redis://db"}})).is_ok());
}

#[test]
fn only_memory_evicts_sessions() {
    assert!(from(json!({"session_limit_policy": "evict"})).is_ok());
    assert!(from(json!({"backend": "redis", "session_limit_policy": "refuse"})).is_ok());
    for backend in [json!({"backend": "redis"}), json!({"backend": "directory", "directory": "d"})] {
        let mut fields = backend;
        fields["session_limit_policy"] = json!("evict");
        let said = message(fields);
        assert!(
            said.starts_with("session_limit_policy is \"evict\" (configuration), which only the backend"),
            "{said}"
        );
    }
}

#[test]
fn a_url_overrides_host_and_port_with_a_warning() {
    let config =
        from(json!({"backend": "redis", "redis_url": "redis://a", "redis_host": "b", "redis_port": 1})).unwrap();
    assert_eq!(config.warnings.len(), 2);
    assert!(config.warnings[0].contains("redis_host"));
    let config = from(json!({"profile": "redis", "redis": {"redis_url": "redis://a"}})).unwrap();
    assert!(config.warnings.is_empty());
}

#[test]
fn parts_missing_from_a_url_are_taken_from_the_single_fields() {
    let completed = |url: &str| {
        let set = pairs(&[
            ("backend", "redis"),
            ("redis_username", "me"),
            ("redis_password", "p@ss/w"),
            ("redis_database", "3"),
            ("redis_url", url),
        ]);
        let config = Config::resolve(Sources { set, ..Sources::default() }).unwrap();
        config.redis_options().url.unwrap().expose().to_owned()
    };
    assert_eq!(completed("redis://host:1"), "redis://me:p%40ss%2Fw@host:1/3");
    assert_eq!(completed("rediss://you:x@host/0"), "rediss://you:x@host/0");
}

#[test]
fn unused_redis_settings_cause_a_warning() {
    let environment = pairs(&[("redis_url", "redis://a")]);
    let config = Config::resolve(Sources { environment, ..Sources::default() }).unwrap();
    assert!(config.warnings[0].contains("--profile redis"), "{:?}", config.warnings);
}

#[test]
fn an_invalid_url_is_refused_without_showing_its_password() {
    for url in ["hunter2@host", "http://me:hunter2@host", "redis://me:hunter2@host:99999", "redis://", "redis:hunter2"]
    {
        let said = message(json!({"redis_url": url}));
        assert!(said.starts_with("redis_url must be a redis:// or rediss:// URL"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_password_is_never_shown() {
    let set = pairs(&[("redis_password", "hunter2"), ("redis_url", "redis://me:hunter2@host/1")]);
    let config = Config::resolve(Sources { set, ..Sources::default() }).unwrap();
    assert!(!format!("{config:?}{:?}", config.shown()).contains("hunter2"));
    assert!(format!("{:?}", config.shown()).contains("redis://me:***@host/1"));
    let said = message(json!({"redis_password": ["hunter2"]}));
    assert!(!said.contains("hunter2"), "{said}");
    assert_eq!(
        message(json!({"redis_password": 12345})),
        "redis_password must be a string, not a number (put it in quotes) (configuration)"
    );
}

#[test]
fn the_environment_is_read_by_its_prefix_and_empty_means_not_set() {
    let variables = [
        ("KEEPLINE_REDIS_PORT", "7000"),
        ("KEEPLINE_MAX_HISTORY", "5"),
        ("KEEPLINE_REDIS_TLS", ""),
        ("KEEPLINE_PROFILE", "redis"),
        ("KEEPLINE_CONFIG", "x"),
        ("HOME", "/"),
        ("KEEPLINE_", "x"),
    ];
    let sources = Sources::default().with_environment(variables).unwrap();
    assert_eq!(sources.profile, Some(("redis".to_owned(), Origin::Environment("KEEPLINE_PROFILE".to_owned()))));
    assert_eq!(sources.environment, pairs(&[("redis_port", "7000"), ("max_history", "5")]));
}

#[test]
fn kubernetes_service_variables_are_not_read_as_configuration() {
    let links = [
        ("KEEPLINE_SERVICE_HOST", "10.0.0.1"),
        ("KEEPLINE_SERVICE_PORT", "80"),
        ("KEEPLINE_SERVICE_PORT_HTTP", "80"),
        ("KEEPLINE_PORT", "tcp://10.0.0.1:80"),
        ("KEEPLINE_PORT_80_TCP", "tcp://10.0.0.1:80"),
        ("KEEPLINE_PORT_80_TCP_PROTO", "tcp"),
        ("KEEPLINE_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("KEEPLINE_PORT_80_TCP_PORT", "80"),
        ("KEEPLINE_REDIS_SERVICE_HOST", "10.0.0.2"),
        ("KEEPLINE_REDIS_PORT", "tcp://10.0.0.2:6379"),
        ("KEEPLINE_REDIS_PORT_6379_TCP_ADDR", "10.0.0.2"),
    ];
    assert_eq!(Sources::default().with_environment(links).unwrap().environment, []);
    // What is not spelt like that is a field, and a mistake in it is told.
    let fields = [("KEEPLINE_REDIS_PORT", "6380"), ("KEEPLINE_PORTS", "1"), ("KEEPLINE_REDIS_HOST", "redis")];
    let expected = pairs(&[("redis_port", "6380"), ("ports", "1"), ("redis_host", "redis")]);
    assert_eq!(Sources::default().with_environment(fields).unwrap().environment, expected);
}

#[test]
fn unknown_fields_are_left_to_the_filter() {
    let config = from(json!({"max_histroy": 5, "nested": {"a": [1]}})).unwrap();
    assert_eq!(option(&config, "max_histroy"), 5);
    assert_eq!(option(&config, "nested"), json!({"a": [1]}));
    let config = from(json!({"max_histroy": null})).unwrap();
    assert!(config.filter_options().contains("max_histroy"));
}

mod neurolink;

mod properties {
    use super::*;
    use proptest::prelude::*;

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
            prop::sample::select(vec!["memory", "redis", "custom", "redis://:p@h", "fail"]).prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 6, |inner| {
            let names: Vec<String> = FIELDS
                .iter()
                .map(|row| row.name.to_owned())
                .chain(["profile", "memory", "redis", "custom", "max_history", "x"].map(str::to_owned))
                .collect();
            let name = prop_oneof![4 => prop::sample::select(names), 1 => ".{0,8}".prop_map(|name| name)];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(name, inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_json_is_a_configuration_or_an_error(value in json()) {
            match Config::from_json(value) {
                Ok(config) => {
                    prop_assert!(serde_json::from_str::<Map<String, Value>>(&config.filter_options()).is_ok());
                    prop_assert_eq!(config.shown().len(), FIELDS.len());
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }

        #[test]
        fn any_text_is_a_value_or_an_error(name in ".{0,20}", text in ".{0,40}", row in 0..FIELDS.len()) {
            for name in [name.as_str(), FIELDS[row].name] {
                let set = vec![(name.to_owned(), text.clone())];
                if let Err(error) = Config::resolve(Sources { set, ..Sources::default() }) {
                    prop_assert!(!error.to_string().is_empty());
                }
            }
        }
    }
}
