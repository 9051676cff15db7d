//! A line of the harness: what comes out is what went in, but for the one member; and of a question there is
//! one such member at most.

use keepline_json::for_each_member;

use crate::run::{
    entry::{Entry, Lane},
    members::decode_json_string,
};

const NEW: &str = r#"{"new": "é\""}"#;

pub fn holds(data: &[u8]) {
    let entry = match Entry::parse(data.to_vec()) {
        Ok(entry) => entry,
        Err(refused) => {
            assert_eq!(refused.line, data);
            assert!(!refused.problem.is_empty() && refused.problem.len() < 1000);
            return assert!(!refused.problem.contains(|c: char| c.is_control()), "{:?}", refused.problem);
        }
    };
    let line = std::str::from_utf8(data).unwrap();
    let out = String::from_utf8(Entry::parse(data.to_vec()).unwrap().into_unchanged_line()).unwrap();
    if out != line {
        assert_eq!(entry.lane, Lane::Questions);
        let (mut before, mut after) = (names_and_values(line), names_and_values(&out));
        let is_metadata = |(name, _): &(String, &str)| name == "metadata";
        let (last, kept) = (before.iter().rfind(|member| is_metadata(member)), after.iter().find(|m| is_metadata(m)));
        assert_eq!(last, kept);
        let without = |members: &mut Vec<(String, &str)>| {
            let all = members.len();
            members.retain(|member| !is_metadata(member));
            all - members.len()
        };
        assert!(without(&mut before) > 1 && without(&mut after) == 1, "{out}");
        assert_eq!(before, after);
        // And that is all that is ever changed.
        return holds(out.as_bytes());
    }
    assert!(is_read(line) && is_read(&format!("{{\"x\":{}}}", entry.metadata())));
    let (lane, text, metadata) = (entry.lane, entry.text().into_owned(), entry.metadata().to_owned());
    if let Some(tree) = crate::tree(line) {
        let lanes = [("questions", Lane::Questions), ("answers", Lane::Answers), ("open", Lane::Open)];
        assert!(lanes.contains(&(tree["lane"].as_str().unwrap(), lane)));
        if let Some(told) = tree["text"].as_str() {
            assert_eq!(told, text);
        }
    }
    assert_eq!(entry.into_unchanged_line(), data);
    let again = |changed: Vec<u8>| {
        let changed = String::from_utf8(changed).unwrap();
        assert!(is_read(&changed), "{changed}");
        let entry = Entry::parse(changed.clone().into_bytes()).unwrap();
        assert_eq!((entry.lane, &*entry.text()), (lane, &*text));
        (entry.metadata().to_owned(), changed)
    };
    let entry = || Entry::parse(data.to_vec()).unwrap();
    let (now, changed) = again(entry().with_metadata(NEW));
    assert_eq!(now, NEW);
    // Around the new metadata the line is what it was.
    let at = changed.rfind(NEW).unwrap();
    let (before, after) = (&changed[..at], &changed[at + NEW.len()..]);
    let before = if line.starts_with(before) { before } else { before.strip_suffix(",\"metadata\":").unwrap() };
    assert!(line.starts_with(before) && line.ends_with(after), "{changed}");
    let (now, changed) = again(entry().with_error("code", "words \"and\"\nmore"));
    assert_eq!(now, metadata);
    let error = ",\"error\":{\"code\":\"code\",\"message\":\"words \\\"and\\\"\\nmore\"}";
    let at = changed.rfind(error).unwrap();
    assert_eq!([&changed[..at], &changed[at + error.len()..]].concat(), line);
}

fn is_read(object: &str) -> bool {
    for_each_member(object, |_, _| {}).is_some()
}

fn names_and_values(object: &str) -> Vec<(String, &str)> {
    let mut all = Vec::new();
    for_each_member(object, |name, value| all.push((decode_json_string(name).into_owned(), value))).unwrap();
    all
}
