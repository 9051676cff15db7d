//! A line of the harness: what comes out is what went in, but for the one member.

use keepline_filter::metadata::{Metadata, Session};

use crate::{
    is_json,
    run::entry::{Entry, Lane},
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
    assert!(is_json(line) && is_json(entry.metadata()));
    let (lane, text, metadata, session) =
        (entry.lane, entry.text().into_owned(), entry.metadata().to_owned(), entry.session());
    // The harness routes by the session that the filter will find.
    if let Session::Named(named) = Metadata::parse(&metadata, false).session {
        assert_eq!(session.as_deref(), Some(&*named));
    }
    if let Some(tree) = crate::tree(line) {
        let lanes = [("questions", Lane::Questions), ("answers", Lane::Answers), ("open", Lane::Open)];
        assert!(lanes.contains(&(tree["lane"].as_str().unwrap(), lane)));
        if let Some(told) = tree["text"].as_str() {
            assert_eq!(told, text);
        }
    }
    assert_eq!(entry.unchanged(), data);
    let again = |changed: Vec<u8>| {
        let changed = String::from_utf8(changed).unwrap();
        assert!(is_json(&changed), "{changed}");
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
