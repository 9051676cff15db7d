//! The host kit (`conformance/host/`) on this host.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod kit;

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keepline_example_host::bindings::Problem;
use keepline_example_host::bindings::lanes::ToolActivity;
use keepline_example_host::bindings::log::Level;
use keepline_example_host::filter::{Filter, Program};
use keepline_example_host::host::Host;
use serde_json::{Value, json};

use kit::adapter::{FaultyStore, Inspected, Inspection, Script};
use kit::pattern::{Names, expand, matches};
use kit::values;

const MAX_TURNS: usize = 8;
const TIME: Duration = Duration::from_secs(60);
const SHORT_TIME: Duration = Duration::from_millis(200);
const CAPABILITIES: [&str; 6] = ["atomic", "compare", "positions", "expiring", "listing", "inspection"];

#[test]
fn passes_the_host_kit() {
    assert_passes(keepline_component::FILTER);
}

/// What is added to the contract changes the version in the names of all interfaces, and nothing else of those that were there.
#[test]
fn passes_the_host_kit_with_a_filter_of_a_later_version() {
    let mut filter = keepline_component::FILTER.to_vec();
    let minor = b"@0.3.";
    for at in 0..filter.len() - minor.len() {
        if filter[at..].starts_with(minor) {
            filter[at + minor.len()] = b'9';
        }
    }
    assert_ne!(filter, keepline_component::FILTER);
    assert_passes(&filter);
}

fn assert_passes(filter: &[u8]) {
    let program = Rc::new(Program::new(filter).unwrap());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../conformance/host");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let (mut passed, mut skipped, mut failed) = (0, Vec::new(), Vec::new());
    for file in files {
        let topic: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        for case in topic["cases"].as_array().unwrap() {
            let name = format!("{}: {}", file.file_stem().unwrap().display(), case["name"].as_str().unwrap());
            let needs = case["needs"].as_array().into_iter().flatten().map(|need| need.as_str().unwrap());
            if let Some(lacking) = needs.into_iter().find(|need| !CAPABILITIES.contains(need)) {
                skipped.push(format!("{name} (needs {lacking})"));
                continue;
            }
            match Case::new(&program, case).run(case) {
                Ok(()) => passed += 1,
                Err(why) => failed.push(format!("{name}\n  duty: {}\n  {why}", case["duty"].as_str().unwrap())),
            }
        }
    }
    println!("{passed} cases passed, {} skipped: {}", skipped.len(), skipped.join("; "));
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
    assert!(passed > 0, "the kit has no cases");
}

struct Case {
    program: Rc<Program>,
    options: String,
    store: Arc<Mutex<FaultyStore>>,
    inspection: Rc<RefCell<Inspection>>,
    script: Script,
    host: Host,
    names: Names,
}

impl Case {
    fn new(program: &Rc<Program>, case: &Value) -> Self {
        let store = Arc::new(Mutex::new(FaultyStore::default()));
        let inspection = Rc::new(RefCell::new(Inspection::default()));
        let options = case["options"].to_string();
        let host = host(program, &options, &store, &inspection);
        let script = Script { says: case["model"].clone(), asked: Vec::new() };
        Self { program: program.clone(), options, store, inspection, script, host, names: Names::new() }
    }

    fn run(&mut self, case: &Value) -> Result<(), String> {
        let mut steps = Vec::new();
        flatten(&expand(&case["steps"]), &mut steps);
        self.host.reports.clear();
        for (index, step) in steps.iter().enumerate() {
            self.step(step).map_err(|why| format!("step {}, {}: {why}", index + 1, step["call"]))?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Value) -> Result<(), String> {
        self.inspection.borrow_mut().replies = step["replies"].clone();
        self.store.lock().unwrap().fault = step["fault"].as_str().map(Into::into);
        self.host.time = if step["fault"] == "stuck" { SHORT_TIME } else { TIME };
        let mut came = self.call(step);
        self.host.time = TIME;
        self.store.lock().unwrap().fault = None;
        let mut reports = std::mem::take(&mut self.host.reports);
        if step["call"] == "restart" && step["expect"]["reported"].is_null() {
            reports.clear();
        }
        if let Some(report) = reports.iter().find(|report| format!("{report:?}").contains(kit::adapter::SECRET)) {
            return Err(format!("the report {} has the message of an exception", report.code));
        }
        came["asked"] = Value::Array(std::mem::take(&mut self.script.asked));
        came["results"] = Value::Array(std::mem::take(&mut self.inspection.borrow_mut().results));
        came["reported"] = reports.iter().map(|report| report.code.clone()).collect();
        self.expect(step, &came, &reports)
    }

    fn call(&mut self, step: &Value) -> Value {
        let text = step["text"].as_str().unwrap_or_default();
        let metadata = step["metadata"].as_str().unwrap_or_default();
        match step["call"].as_str().unwrap() {
            "question" => return json!({ "metadata": self.host.question(text, metadata).0 }),
            // The host has nothing of an answer to send on but what it was given.
            "answer" => self.host.answer(text, metadata, step["status"].as_str()),
            "tool" => self.host.tool(tool(&step["tool"]), metadata),
            "open" => self.host.open(metadata),
            "unreadable" => self.host.unreadable(),
            "work" => {
                if let Some(model) = step.get("model") {
                    self.script.says = model.clone();
                }
                self.host.work(&mut self.script);
            }
            "administer" => {
                return json!({ "answer": self.administer(step["function"].as_str().unwrap(), &step["arguments"]) });
            }
            "forget-user" => loop {
                let answer = self.administer("users.forget", &json!({ "user": step["user"] }));
                if answer["ok"]["remaining"].as_u64().is_none_or(|remaining| remaining == 0) {
                    return json!({ "answer": answer });
                }
            },
            "fill-turns" => {
                for filler in 0..MAX_TURNS {
                    self.host.question("?", &format!("{{\"session_id\":\"filler-{filler}\"}}"));
                }
            }
            "restart" => self.host = host(&self.program, &self.options, &self.store, &self.inspection),
            call => panic!("the kit has an unknown call {call}"),
        }
        json!({})
    }

    fn administer(&mut self, function: &str, arguments: &Value) -> Value {
        let arguments = |function: &_| Ok(values::arguments(function, arguments));
        self.host.administer(function, &arguments).map_or(Value::Null, |answer| values::to_json(&answer))
    }

    fn expect(&mut self, step: &Value, came: &Value, reports: &[Problem]) -> Result<(), String> {
        let expect = &step["expect"];
        for (member, expected) in expect.as_object().into_iter().flatten() {
            let text = if step["call"] == "question" {
                came["metadata"].as_str().unwrap().to_owned()
            } else {
                came.to_string()
            };
            let texts = || expected.as_array().unwrap().iter().map(|text| text.as_str().unwrap());
            let holds = match member.as_str() {
                "verbatim" => texts().all(|part| text.contains(part)),
                "lacks" => !texts().any(|part| text.contains(part)),
                "metadata" if !expected.is_string() => {
                    let read = serde_json::from_str(&text).unwrap_or(Value::Null);
                    matches(expected, &read, &mut self.names)
                }
                "metadata" | "answer" | "asked" | "results" | "reported" => {
                    matches(expected, &came[member], &mut self.names)
                }
                _ => panic!("the kit has an unknown expectation {member}"),
            };
            if !holds {
                return Err(format!("{member} should be {expected}, and what came is {came}"));
            }
        }
        if expect["reported"].is_null() && came["reported"] != json!([]) {
            return Err(format!("nothing should be reported: {reports:?}"));
        }
        Ok(())
    }
}

fn host(
    program: &Rc<Program>,
    options: &str,
    store: &Arc<Mutex<FaultyStore>>,
    inspection: &Rc<RefCell<Inspection>>,
) -> Host {
    let (program, store, inspection) = (program.clone(), store.clone(), inspection.clone());
    let instantiate = move || {
        let inner = program.instantiate(store.clone(), Level::Critical)?;
        Ok(Box::new(Inspected { inner, inspection: inspection.clone() }) as Box<dyn Filter>)
    };
    Host::new(Box::new(instantiate), options, TIME, MAX_TURNS).unwrap()
}

fn flatten(steps: &Value, into: &mut Vec<Value>) {
    match steps {
        Value::Array(steps) => steps.iter().for_each(|step| flatten(step, into)),
        step => into.push(step.clone()),
    }
}

fn tool(tool: &Value) -> ToolActivity {
    let text = |name: &str| tool[name].as_str().map(Into::into);
    ToolActivity {
        call_id: text("call-id").unwrap(),
        name: text("name").unwrap_or_default(),
        arguments: text("arguments"),
        output: text("output"),
        error: text("error"),
        details: None,
    }
}
