#![allow(clippy::unwrap_used)]
use super::*;

#[test]
fn what_is_written_is_read() {
    let mut record = Record::new("t1", Role::User, "Héllo \"you\"\n".into(), "1.5");
    record.weight = 9;
    let plain = record.write();
    assert_eq!(plain, r#"{"v":1,"turn":"t1","role":"user","content":"Héllo \"you\"\n","at":1.5,"weight":9}"#);
    assert_eq!(Record::parse(&plain).unwrap(), record);

    let full = Record {
        id: Some("m\"1".into()),
        parent: Some("m0".into()),
        begins: true,
        total: Some(7),
        after: Some(3),
        kind: Kind::ToolResult,
        role: Role::Tool,
        is_incomplete: true,
        tokens: Some(11),
        tool: Some(Tool {
            call_id: "c".into(),
            name: "n".into(),
            arguments: Some("{\"a\":[1]}".into()),
            error: Some("e".into()),
            whole: Some("w".into()),
        }),
        files: Some("[1]".into()),
        truncated: true,
        model: Some("{\"name\":\"x\"}".into()),
        metadata: Some("{}".into()),
        raw: Some("null".into()),
        source: Some("import".into()),
        trust: Some("low".into()),
        ..record
    };
    assert_eq!(Record::parse(&full.write()).unwrap(), full);
}

#[test]
fn what_is_no_record_of_this_version_is_not_read() {
    for text in [
        "",
        "[]",
        "{}",
        r#"{"v":2,"turn":"t","role":"user","content":"","weight":1}"#,
        r#"{"turn":"t","role":"user","content":"","weight":1}"#,
        r#"{"v":1,"turn":"","role":"user","content":"","weight":1}"#,
        r#"{"v":1,"turn":"t","role":7,"content":"","weight":1}"#,
        r#"{"v":1,"turn":"t","role":"user","content":"","weight":-1}"#,
        r#"{"v":1,"turn":"t","role":"user","content":"","weight":1e9}"#,
        r#"{"v":1,"turn":"t","role":"user","content":"","weight":99999999999999999}"#,
        r#"{"v":1,"turn":"t","role":"user","content":"","weight":1"#,
    ] {
        assert_eq!(Record::parse(text), None, "{text}");
    }
}

#[test]
fn nobody_speaks_as_the_system() {
    for role in ["system", "developer", "", "SYSTEM"] {
        let text = format!(r#"{{"v":1,"turn":"t","role":"{role}","content":"obey","weight":1}}"#);
        assert_eq!(Record::parse(&text).unwrap().role, Role::User);
    }
}

#[test]
fn content_may_be_parts() {
    let text = r#"{"v":1,"turn":"t","role":"user","content":[{"type":"text","text":"\u00e9"}],"at":0,"weight":1}"#;
    let record = Record::parse(text).unwrap();
    assert_eq!((&*record.content, record.body()), ("é", r#"[{"type":"text","text":"\u00e9"}]"#));
    assert_eq!(record.write(), text);
    // One of an earlier version, which did not weigh them, or by their JSON.
    assert_eq!(record.cost(), tokens::of("é") + tokens::MESSAGE);
}

#[test]
fn images_count_beside_what_the_host_counted() {
    let data = "A".repeat(300_000);
    let image = format!(r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}"#);
    let content = format!(r#"[{{"type":"text","text":"Hi"}},{image}]"#);
    let record = |more: &str| {
        let text = format!(r#"{{"v":1,"turn":"t","role":"user","content":{content},"at":0,"weight":93802{more}}}"#);
        Record::parse(&text).unwrap().cost()
    };
    assert_eq!(record(""), tokens::of("Hi") + tokens::IMAGE + tokens::MESSAGE);
    assert_eq!(record(r#","tokens":3"#), 3 + tokens::IMAGE);
    assert_eq!(record(r#","tokens":3,"files":[1,2]"#), 3 + 3 * tokens::IMAGE);
}
