//! The host kit of `conformance/host/`, replayed on `keepline serve` over HTTP. Entries go through the lanes' routes in both
//! forms: as requests, of which the client carries the turns, and as lines of one stream, whose turns the service finds.
//! Operators' calls are requests either way. A restart is a kill, and another service on the same directory.

mod lanes;
mod models;
mod operator;

use std::{
    collections::HashMap,
    thread,
    time::{Duration, Instant},
};

use keepline_tests::host_kit;
use serde_json::{Value, json};

use self::{
    lanes::{Lanes, Way},
    models::ScriptedModel,
};
use crate::server::Server;

/// Cases that are under way at a time.
const WORKERS: usize = 4;

/// What work may take on a busy machine, and how often its outcome is looked at.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);

const BOTH: &[Way] = &[Way::Requests, Way::Lines];

/// Cases that no client of HTTP can bring about, and why. Each is a case of the kit, and all others are run.
const SKIPPED: &[(&[Way], &str, &[&str])] = &[
    (
        BOTH,
        "nothing stands between the service and its component, and changes replies",
        &[
            "a warning of configure is reported",
            "an effect of an answer that the host does not know",
            "an effect of a question that the host does not know",
            "a need that the host does not know",
        ],
    ),
    (
        BOTH,
        "a client can't have the service's store or instance fail, and what does is an error instead of an entry that goes on",
        &[
            "a store that fails is a problem",
            "a store's mistake is a problem",
            "the store is unavailable for a question",
            "the store takes too long for a question",
            "the store fails for an answer",
            "the store makes a mistake",
            "an instance ends at a question",
            "an instance ends at an answer",
            "an instance that replaces another has the options",
            "instances end time after time",
            "a question that an instance ended at keeps its owner",
            "an instance is stuck at a question",
            "an instance is stuck at an answer",
            "a question is handed in until an answer was stored",
            "tools are handed in until an answer was stored",
            "a step that fails leaves its question and tools to the next one",
            "an instance ends at work",
            "the store fails at work",
        ],
    ),
    (
        BOTH,
        "a body is JSON, in which such metadata can't stand",
        &[
            "NaN and infinities stay, and so does a byte order mark",
            "what is no object passes",
            "an answer names its session in metadata that are no strict JSON",
        ],
    ),
    (BOTH, "no route replaces messages on a condition", &["messages are set"]),
    (BOTH, "a model over HTTP says something, or fails", &["there is no model"]),
    (
        BOTH,
        "work begins at once, so a service that is killed holds it until its lease ends",
        &["the host restarts with work to do"],
    ),
    (
        &[Way::Requests],
        "a reply is JSON that everyone can read, in which half a surrogate pair is U+FFFD",
        &["blanks, escapes and halves of surrogate pairs stay"],
    ),
    (
        &[Way::Requests],
        "the client carries the turns, and so drops and finds them itself",
        &[
            "a result names no session",
            "a result that two turns may have called for is reported",
            "an entry that can't be read ends the turn before",
            "the oldest turn is dropped",
            "a new conversation of all",
            "a new conversation of one session",
        ],
    ),
    (
        &[Way::Lines],
        "a line tells no problem beside what was done, and has no status",
        &[
            "options reach the filter",
            "an answer is stored in part",
            "a question gets a part of its memory",
            "an answer is cut off",
        ],
    ),
];

#[test]
fn what_the_host_kit_asks_is_kept_by_requests() {
    assert_eq!(replay_all(Way::Requests), (67, 35));
}

#[test]
fn what_the_host_kit_asks_is_kept_by_lines() {
    assert_eq!(replay_all(Way::Lines), (70, 32));
}

/// How many cases were run and how many skipped, if those that were run pass.
fn replay_all(way: Way) -> (usize, usize) {
    let skipped: Vec<&str> = (SKIPPED.iter().filter(|(ways, ..)| ways.contains(&way)))
        .flat_map(|(.., names)| names.iter().copied())
        .collect();
    let cases = host_kit::cases();
    for name in &skipped {
        let count = cases.iter().filter(|(_, case)| case["name"] == *name).count();
        assert_eq!(count, 1, "{count} cases are called {name:?}");
    }
    let run: Vec<_> = cases.iter().filter(|(_, case)| !skipped.contains(&case["name"].as_str().unwrap())).collect();
    let failed = thread::scope(|scope| {
        let workers = (0..WORKERS).map(|worker| {
            let own = run.iter().skip(worker).step_by(WORKERS);
            scope.spawn(move || own.filter_map(|(file, case)| failure_of(way, file, case)).collect::<Vec<_>>())
        });
        let workers: Vec<_> = workers.collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(failed.is_empty(), "{} cases fail:\n\n{}", failed.len(), failed.join("\n\n"));
    (run.len(), skipped.len())
}

fn failure_of(way: Way, file: &str, case: &Value) -> Option<String> {
    let (mut host, mut names) = (Host::new(way, case), HashMap::new());
    for (number, step) in host_kit::steps(case).iter().enumerate() {
        if let Err((why, came)) = host.take(step, &mut names) {
            let (name, duty, number) = (&case["name"], &case["duty"], number + 1);
            return Some(format!("{file}, {name}: step {number}: {why}\nstep: {step}\ncame: {came}\nduty: {duty}"));
        }
    }
    host.end().err().map(|why| format!("{file}, {}: {why}", case["name"]))
}

/// Codes that the log reports, and the text by which it does. Of ids that can't be sessions' or users' each reason once.
const LOGGED: [(&[&str], &str); 3] = [
    (&["session-id-characters", "session-id-type", "session-id-length", "invalid"], "more like it are only counted"),
    (&["tool"], "activity of a tool is not kept"),
    (&["turns"], "was dropped while it waited for its answer"),
];

/// A service, as the kit has a host.
struct Host {
    arguments: Vec<String>,
    folder: tempfile::TempDir,
    model: Option<ScriptedModel>,
    server: Server,
    lanes: Lanes,
    /// Of services that were killed.
    earlier_log: String,
    /// How often each of [`LOGGED`] was expected.
    logged: [usize; LOGGED.len()],
    /// Whether deferred work may be under way, whose outcome is waited for.
    is_settling: bool,
}

impl Host {
    fn new(way: Way, case: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("memory").to_str().unwrap().to_owned();
        let mut arguments = ["--profile", "memory", "--dir", &place].map(str::to_owned).to_vec();
        let options = case["options"].as_object().unwrap();
        let set = |name: &str, value: &Value| {
            value.as_str().map_or_else(|| format!("{name}={value}"), |text| format!("{name}={text}"))
        };
        arguments.extend(options.iter().flat_map(|(name, value)| ["--set".to_owned(), set(name, value)]));
        let model = ScriptedModel::of_case(case);
        arguments.extend(model.iter().flat_map(ScriptedModel::arguments));
        let server = start(&arguments);
        let lanes = Lanes::new(way);
        let (earlier_log, logged) = (String::new(), [0; LOGGED.len()]);
        Self { arguments, folder, model, server, lanes, earlier_log, logged, is_settling: false }
    }

    /// What differs, and what came instead.
    fn take(&mut self, step: &Value, names: &mut HashMap<String, Value>) -> Result<(), (String, Value)> {
        let is_work = step["call"] == "work";
        self.is_settling |= is_work;
        let reads = is_work || step["call"] == "question" || step["call"] == "administer";
        let end = Instant::now() + PATIENCE;
        loop {
            let (came, mut tried) = (self.call(step), names.clone());
            match host_kit::check(step, &came, &mut tried) {
                Ok(()) => *names = tried,
                // What comes of work is there once that is done.
                Err(_) if self.is_settling && reads && Instant::now() < end => {
                    thread::sleep(PAUSE);
                    continue;
                }
                Err(why) => return Err((why, came)),
            }
            if let Some(model) = self.model.as_mut().filter(|_| is_work) {
                model.end_work();
            }
            return Ok(());
        }
    }

    fn call(&mut self, step: &Value) -> Value {
        let mut came = match text(step, "call") {
            "administer" => json!({"answer": operator::administer(&self.server, step)}),
            "forget-user" => json!({"answer": operator::forget(&self.server, text(step, "user"))}),
            "work" => self.model.as_mut().map_or_else(|| json!({"asked": []}), |model| model.work(&self.server, step)),
            "restart" => {
                self.lanes.restart();
                self.server.signal("-KILL");
                self.server.wait();
                let another = start(&self.arguments);
                self.earlier_log += &std::mem::replace(&mut self.server, another).end();
                json!({})
            }
            _ => self.lanes.take(&self.server, step),
        };
        let mut reported = came["reported"].as_array().cloned().unwrap_or_default();
        for (place, (codes, sign)) in LOGGED.iter().enumerate() {
            for code in step["expect"]["reported"].as_array().into_iter().flatten() {
                if code.as_str().is_some_and(|code| codes.contains(&code)) {
                    self.logged[place] += 1;
                    let wanted = self.logged[place];
                    self.server.log_once(|log| (self.earlier_log.clone() + log).matches(sign).count() >= wanted);
                    // A reply may have told it, too.
                    if !reported.contains(code) {
                        reported.push(code.clone());
                    }
                }
            }
        }
        came["reported"] = reported.into();
        came
    }

    /// Nothing was logged that no step expected.
    fn end(self) -> Result<(), String> {
        let log = self.earlier_log + &self.server.end();
        drop(self.folder);
        for ((codes, sign), expected) in LOGGED.iter().zip(self.logged) {
            let count = log.matches(sign).count();
            // Where turns are dropped, more may be.
            if count != expected && !(codes.contains(&"turns") && expected > 0) {
                return Err(format!("{codes:?} are logged {count} times, not {expected} times:\n{log}"));
            }
        }
        Ok(())
    }
}

fn start(arguments: &[String]) -> Server {
    Server::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_else(|| panic!("{name} is no text in {of}"))
}
