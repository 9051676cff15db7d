//! Returned metadata that tries to pass for someone else's words.

use super::*;

/// Metadata that would become more than metadata in the line that they are put into, or that two readers would not
/// read alike.
fn forgeries() -> Vec<(&'static str, String)> {
    let forged = r#"{"lane":"answers","text":"forged","metadata":{"session_id":"victim"}}"#;
    let one = "its metadata is not one JSON object";
    vec![
        (one, format!("{{}}}}\n{forged}\n{{\"lane\":\"open\",\"metadata\":{{}}")),
        (one, r#"{"session_id":"s1"},"text":"forged","lane":"answers","x":{}"#.into()),
        (one, format!("{{\"session_id\":\"s1\"}}\n{forged}")),
        (one, "null".into()),
        (one, "[{}]".into()),
        (one, String::new()),
        (one, r#"{"session_id":"s1","a":"unfinished"#.into()),
        (one, "{\"session_id\":\"s1\",\"a\":\"\u{1b}[2J\"}".into()),
        (one, r#"{"session_id":"s1",}"#.into()),
        ("its metadata holds what the entry's does not", "{\"session_id\":\"s1\"\n}".into()),
        ("its metadata holds what the entry's does not", "{\"session_id\":\"s1\"}\r".into()),
        ("its metadata holds what the entry's does not", r#"{"session_id":"s1","a":NaN}"#.into()),
        ("its metadata holds what the entry's does not", "\u{feff}{\"session_id\":\"s1\"}".into()),
        // What Python, jq or serde_json refuse to read: the question would be lost with it.
        ("its metadata holds what the entry's does not", r#"{"session_id":"s1","a":["\ud800"]}"#.into()),
        ("its metadata holds what the entry's does not", format!(r#"{{"session_id":"s1","a":{}}}"#, "7".repeat(5000))),
        (
            "its metadata holds what the entry's does not",
            format!(r#"{{"session_id":"s1","a":{}{}}}"#, "[".repeat(50_000), "]".repeat(50_000)),
        ),
        (
            "its metadata has a member twice",
            r#"{"session_id":"s1","memory_context":{},"memory_context":{"a":1}}"#.into(),
        ),
        ("its metadata has a member twice", r#"{"session_id":"s1","a":1,"\u0061":2}"#.into()),
        ("its metadata changes whose entry it is", r#"{"session_id":"victim"}"#.into()),
        ("its metadata changes whose entry it is", r#"{"session_id":"s1","session_id":"victim"}"#.into()),
        ("its metadata changes whose entry it is", r#"{"session_id":"s1","user_id":"victim"}"#.into()),
        ("its metadata changes whose entry it is", "{}".into()),
    ]
}

#[test]
fn no_reply_forges_a_line_or_a_member() {
    for (reason, forgery) in forgeries() {
        let line = question("s1", &format!("return {forgery}"));
        // On an answer it is nobody's metadata, and so no fault either.
        let answer = line.replace("\"questions\"", "\"answers\"");
        let ended = hostile(&["run"]).input(format!("{line}{answer}{line}")).run();
        assert_eq!((ended.code, &*ended.stdout), (Some(0), &*format!("{line}{answer}{line}")), "{forgery}");
        let reports = reports(&ended.stderr);
        assert!(reports.iter().all(|told| told.contains(reason)), "{forgery}: {}", ended.stderr);
        assert!((1..=2).contains(&reports.len()), "{}", ended.stderr);
    }
}

#[test]
fn with_on_store_error_fail_the_caller_gets_an_error() {
    for (reason, forgery) in forgeries() {
        let line = question("s1", &format!("return {forgery}"));
        let ended = hostile(&["--set", "on_store_error=fail", "run"]).input(line.clone()).run();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let [out] = &ended.stdout.lines().collect::<Vec<_>>()[..] else { panic!("{ended:?}") };
        let out: Value = serde_json::from_str(out).unwrap();
        assert_eq!(out["error"]["code"], "plugin");
        assert!(out["error"]["message"].as_str().unwrap().contains(reason), "{out}");
        let was: Value = serde_json::from_str(&line).unwrap();
        assert!(["lane", "text", "metadata"].iter().all(|member| out[member] == was[member]), "{out}");
    }
}

#[test]
fn returned_metadata_replace_the_entry_s_and_nothing_else_moves() {
    for returned in [
        r#"{"session_id":"s1","memory_context":{"a":[1,{"b":"}"}]}}"#,
        // A line for those who go beyond the definition, but no entry: there is no quote in it that is not escaped.
        "{\"session_id\":\"s1\",\"a\":\"\u{2028}{\\\"lane\\\":\\\"answers\\\"}\u{85}\"}",
    ] {
        let line = question("s1", &format!("return {returned}"));
        let ended = hostile(&["run"]).input(line.clone()).run();
        let expected = line.replace(r#""metadata":{"session_id":"s1"}"#, &format!("\"metadata\":{returned}"));
        assert_eq!((ended.code, ended.stdout), (Some(0), expected));
        assert_eq!(reports(&ended.stderr), [""; 0]);
    }
}
