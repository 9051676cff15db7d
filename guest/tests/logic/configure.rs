//! `configure` over stores that lack capabilities.

use keepline_filter::contract::StoreCapabilities;
use keepline_filter::{Config, Host};

use crate::test_host::TestHost;

#[test]
fn a_time_to_live_is_refused_for_a_store_without_expiry() {
    let host = TestHost::new();
    let options = r#"{"session_ttl_hours":0.5}"#;
    assert_eq!(Config::parse_for(&&host, options), Config::parse(options));
    host.capabilities.set(Some(StoreCapabilities { expiring: false, ..Host::capabilities(&&host) }));
    let problem = Config::parse_for(&&host, options).unwrap_err();
    assert_eq!(problem.field, "session_ttl_hours");
    assert_eq!(problem.message, "session_ttl_hours must be 0 (for ever), not 0.5: the store lets nothing expire");
    for options in ["{}", r#"{"session_ttl_hours":0,"session_ttl_mode":"sliding"}"#] {
        assert_eq!(Config::parse_for(&&host, options), Config::parse(options));
    }
    assert_eq!(Config::parse_for(&&host, "[]").unwrap_err().field, "");
    assert_eq!(host.lines(), Vec::<String>::new());
}

#[test]
fn missing_capabilities_are_logged_once() {
    let host = TestHost::new();
    let all = Host::capabilities(&&host);
    host.capabilities.set(Some(StoreCapabilities { atomic: false, exactly_once: false, ..all }));
    Config::parse_for(&&host, "{}").unwrap();
    assert_eq!(
        host.lines(),
        [
            "Warn keepline.store The store does not apply transactions as a whole: counts may be off when several \
             write at once",
            "Debug keepline.store The store can't tell a call that is sent again from a new one: the host must not \
             retry writes",
        ]
    );
}
