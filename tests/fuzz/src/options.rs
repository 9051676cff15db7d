//! Configuration: taken or refused with short words, and no password is ever told.

use keepline::config::{Config, Sources};
use serde_json::Value;

use crate::texts;

const SECRET: &str = "hunter2-correct-horse";

pub fn holds(data: &[u8]) {
    let Some(parts) = texts(data) else { return };
    let [file, rest @ ..] = &parts[..] else { return };
    filter(file);
    host(file, rest);
}

fn filter(text: &str) {
    match keepline_filter::Config::parse(text) {
        Ok(config) => {
            let effective = config.effective();
            assert_eq!(keepline_filter::Config::parse(&effective), Ok(config.clone()), "{effective}");
            assert!(serde_json::from_str::<Value>(&effective).unwrap().is_object());
            let life = config.time_to_live().map(|life| life.milliseconds);
            assert!(life.is_none_or(|life| (1..=3_153_600_000_000).contains(&life)), "{life:?}");
        }
        Err(problem) => assert_is_told(&problem.message),
    }
}

fn host(file: &str, rest: &[&str]) {
    let mut sources = Sources::default();
    let guessed = file.contains(SECRET) || rest.iter().any(|part| part.contains(SECRET));
    sources.document = serde_json::from_str(file).ok().map(|value| ("file".to_owned(), value));
    for (number, pair) in rest.iter().take(8).enumerate() {
        let (field, value) = pair.split_once('=').unwrap_or((pair, "x"));
        match number % 2 {
            0 => sources.set.push((field.to_owned(), value.to_owned())),
            _ => sources.environment.push((field.to_owned(), value.to_owned())),
        }
    }
    sources.environment.push(("redis_password".to_owned(), SECRET.to_owned()));
    let config = match Config::resolve(sources) {
        Ok(config) => config,
        Err(error) => return assert_is_told(&error.to_string()),
    };
    let filter = config.filter_options();
    assert!(serde_json::from_str::<Value>(&filter).unwrap().is_object());
    let redis = config.redis_options();
    let shown = format!("{:?} {redis:?} {:?} {:?}", config.shown(), config.warnings, config.sandbox());
    // A field that is not the host's may be called anything, and is the filter's to refuse.
    assert!(guessed || !shown.contains(SECRET) || filter.contains(SECRET), "{shown}");
    match redis.least_acl() {
        Ok(rules) => {
            assert!(rules.iter().all(|rule| !rule.contains(|c: char| c.is_whitespace() || c.is_control())));
            let reached: Vec<_> = rules.iter().filter(|rule| !rule.starts_with('+')).collect();
            let keys = format!("~{}:*", redis.key_prefix);
            assert_eq!(reached, ["resetkeys", "resetchannels", "-@all", &keys]);
            assert_eq!(keys.matches(['*', '?', '[', '\\']).count(), 1);
        }
        Err(error) => assert_is_told(&error.to_string()),
    }
}

fn assert_is_told(message: &str) {
    assert!(!message.is_empty() && message.len() < 2000, "{message}");
    assert!(!message.contains(|c: char| c.is_control()), "{message:?}");
    assert!(!message.contains(SECRET), "{message}");
}
