//! Question metadata that a plugin returns: refused with a short message, or one object that no reader can take for
//! more than that, of the same owner.

use std::collections::HashMap;

use keepline::fuzzing::accept;
use keepline_json::for_each_member;
use serde_json::value::RawValue;

use crate::run::{
    entry::{Entry, Lane},
    members::decode_json_string,
};

const MOST_ADDED: usize = 1000;
const OWNER: [&str; 4] = ["session_id", "user_id", "app_id", "node_id"];

/// The entry's own metadata, a zero, and what comes back.
pub fn holds(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some((own, returned)) = text.split_once('\0') else { return };
    if let Err(refused) = accept(own, returned, MOST_ADDED) {
        assert!(refused.len() < 300 && !refused.contains(char::is_control), "{refused}");
        return;
    }
    assert!(returned.len() <= own.len() + MOST_ADDED);
    let (before, after) = (counted(own), counted(returned));
    for (name, (count, last)) in &after {
        let (was, is_owner) = (before.get(name), OWNER.contains(&&**name));
        assert!(*count <= was.map_or(1, |(count, _)| *count), "{name}");
        assert!(!is_owner || was.is_some_and(|(_, value)| value == last), "{name}");
    }
    assert!(OWNER.iter().all(|name| before.contains_key(*name) == after.contains_key(*name)));
    if is_strict_object(own) || for_each_member(own, |_, _| {}).is_none() {
        assert!(is_strict_object(returned));
        assert!(['\n', '\r'].into_iter().all(|end| own.contains(end) || !returned.contains(end)));
    }
    in_a_line(own, returned);
}

/// In the line that they came from, nothing but the metadata changes.
fn in_a_line(own: &str, returned: &str) {
    let line = |metadata| format!("{{\"text\":\"t\",\"metadata\":{metadata},\"lane\":\"questions\"}}");
    let Ok(entry) = Entry::parse(line(own).into_bytes()) else { return };
    if entry.metadata() != own.trim_ascii() {
        // Own metadata that are more than metadata: then the line was another one.
        return;
    }
    let out = String::from_utf8(entry.with_metadata(returned)).unwrap();
    let entry = Entry::parse(out.clone().into_bytes()).unwrap();
    assert_eq!((entry.lane, &*entry.text(), entry.metadata()), (Lane::Questions, "t", returned.trim_ascii()));
    assert!(own.contains('\n') || !out.contains('\n'), "{out}");
}

/// How often a member is there, and its last value.
fn counted(object: &str) -> HashMap<String, (usize, &str)> {
    let mut found: HashMap<String, (usize, &str)> = HashMap::new();
    let read = for_each_member(object, |name, value| {
        let member = found.entry(decode_json_string(name).into_owned()).or_default();
        *member = (member.0 + 1, value);
    });
    if read.is_some() { found } else { HashMap::new() }
}

fn is_strict_object(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok_and(|value| value.get().starts_with('{'))
}
