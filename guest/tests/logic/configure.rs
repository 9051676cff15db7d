//! `configure` over stores that lack capabilities.

use keepline_filter::contract::StoreProfile;
use keepline_filter::{Config, Filter, Host, QuestionEntry};

use crate::test_host::TestHost;

#[test]
fn a_time_to_live_is_refused_for_a_store_without_expiry() {
    let host = TestHost::new();
    let options = r#"{"session_ttl_hours":0.5}"#;
    assert_eq!(Config::parse_for(&&host, options).unwrap(), (Config::parse(options).unwrap(), vec![]));
    host.profile.set(Some(StoreProfile { expiring: false, ..Host::store_profile(&&host) }));
    let problem = Config::parse_for(&&host, options).unwrap_err();
    assert_eq!((&*problem.code, &*problem.subject), ("unsupported", "session_ttl_hours"));
    assert_eq!(problem.message, "session_ttl_hours must be 0 (for ever), not 0.5: the store lets nothing expire");
    for options in ["{}", r#"{"session_ttl_hours":0,"session_ttl_mode":"sliding"}"#] {
        assert_eq!(Config::parse_for(&&host, options).unwrap(), (Config::parse(options).unwrap(), vec![]));
    }
    assert_eq!(Config::parse_for(&&host, "[]").unwrap_err().subject, "");
    assert_eq!(host.lines(), Vec::<String>::new());
}

#[test]
fn a_conversation_is_refused_for_a_store_without_positions() {
    let host = TestHost::new();
    host.profile.set(Some(StoreProfile { positions: false, ..Host::store_profile(&&host) }));
    let problem = Config::parse_for(&&host, r#"{"conversation":true}"#).unwrap_err();
    assert_eq!((&*problem.code, &*problem.subject), ("unsupported", "conversation"));
    assert_eq!(problem.message, "conversation must be false, not true: the store lacks the capability positions");
    assert!(Config::parse_for(&&host, "{}").is_ok());
}

#[test]
fn missing_capabilities_are_warned_of_and_left_to_the_host_to_log() {
    let host = TestHost::new();
    let all = Host::store_profile(&&host);
    host.profile.set(Some(StoreProfile { atomic: false, compare: false, exactly_once: false, ..all }));
    let (_, warnings) = Config::parse_for(&&host, "{}").unwrap();
    assert_eq!(host.lines(), Vec::<String>::new());
    assert_eq!(
        [&*warnings[0].message, &*warnings[1].message, &*warnings[2].message],
        [
            "The store lacks the capability atomic: a crash may leave half of what an entry writes, and \
             readers may see it",
            "The store lacks the capability compare: updates are lost where a session has more than one \
             writer at a time",
            "The store lacks the capability exactly-once: the host must not send a write again",
        ]
    );
    assert!(warnings.iter().all(|warning| warning.code == "unsupported"));
    assert_eq!(
        [&*warnings[0].subject, &*warnings[1].subject, &*warnings[2].subject],
        ["atomic", "compare", "exactly-once"]
    );
    host.profile.set(None);
    assert_eq!(Config::parse_for(&&host, "{}").unwrap().1, []);
}

#[test]
fn without_expiry_nodes_are_kept_for_ever_and_a_warning_says_so() {
    let host = TestHost::new();
    host.profile.set(Some(StoreProfile { expiring: false, ..Host::store_profile(&&host) }));
    for ttl in ["", r#", "node_ttl_hours": 720"#, r#", "node_ttl_hours": 0.5"#] {
        let (config, warnings) = Config::parse_for(&&host, &format!("{{\"conversation\": true{ttl}}}")).unwrap();
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        assert_eq!((&*warning.code, &*warning.subject), ("unsupported", "expiring"));
        assert!(warning.message.ends_with("transcripts of nodes are kept for ever, as with node_ttl_hours 0"));
        let in_force = config.options().into_iter().find(|option| option.name == "node_ttl_hours").unwrap();
        assert_eq!((&*in_force.value, in_force.is_default), ("0", false));

        let question = r#"{"session_id":"s","memory_mode":"node","node_id":"n"}"#;
        let filter = Filter::new(&host, config);
        let reply = filter.question(&QuestionEntry { text: "?", metadata: question, ..QuestionEntry::default() });
        assert_eq!(reply.problem, None);
    }
    for options in ["{}", r#"{"conversation": true, "node_ttl_hours": 0}"#] {
        assert_eq!(Config::parse_for(&&host, options).unwrap().1, []);
    }
}

#[test]
fn options_in_force_tell_which_are_defaults() {
    let of = |text: &str| Config::parse(text).unwrap().options();
    assert!(of("{}").iter().all(|option| option.is_default));
    for text in [
        r#"{"max_keys": 3, "memory_enabled": false, "conversation": true, "recall": "session", "redact": ["sk-{w+}"]}"#,
        r#"{"max_value_bytes": 8388608}"#,
    ] {
        let given: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).unwrap();
        for option in of(text) {
            let value: serde_json::Value = serde_json::from_str(&option.value).unwrap();
            assert_eq!(option.is_default, !given.contains_key(&option.name), "{option:?}");
            assert_eq!(given.get(&option.name).unwrap_or(&value), &value);
        }
    }
}

#[test]
fn a_host_is_told_what_the_filter_can_use() {
    for (options, wants) in [
        ("{}", [].as_slice()),
        (r#"{"conversation": true}"#, &["tokens", "turns"]),
        (r#"{"conversation": true, "recall": "user", "recall_vectors": true}"#, &["vectors", "tokens", "turns"]),
    ] {
        assert_eq!(Config::parse(options).unwrap().wants(), wants, "{options}");
    }
}
