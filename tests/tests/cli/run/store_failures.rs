//! Failing stores: entries pass unchanged, or with an error member if configured.

use serde_json::Value;

use crate::{HASTY, answer, call, dead_url, question};

#[test]
fn entries_pass_unchanged() {
    let url = format!("redis_url={}", dead_url());
    let input = question("a", "1") + &answer("x");
    let ran = call(&["run", "--profile", "redis", "--set", &url, HASTY, "--summary"], input.as_bytes()).ok();
    assert_eq!(ran.text(), input);
    assert!(ran.err.contains("warning: ") && ran.err.contains("failed 2"), "{}", ran.err);
}

#[test]
fn entries_get_an_error_member_if_configured() {
    let url = format!("redis_url={}", dead_url());
    let mut input = question("a", "1") + "{\"lane\":\"open\"}\n";
    input.push_str(&question("a", "2"));
    let ran =
        call(&["run", "--profile", "redis", "--set", &url, HASTY, "--set", "on_store_error=fail"], input.as_bytes());
    assert_eq!(ran.code, 1);
    for (line, given) in ran.text().lines().zip(input.lines()) {
        let (mut line, given): (Value, Value) =
            (serde_json::from_str(line).unwrap(), serde_json::from_str(given).unwrap());
        if given["lane"] == "questions" {
            let error = line.as_object_mut().unwrap().remove("error").unwrap();
            assert!(error["code"].is_string() && error["message"].is_string(), "{error}");
        }
        assert_eq!(line, given);
    }
    assert!(ran.err.contains("line 3"), "{}", ran.err);
}
