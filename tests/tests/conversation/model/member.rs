//! A process that takes part, with options of its own: in this process, or `keepline run` at the other end of two pipes.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdout, Stdio},
    sync::Arc,
};

use keepline::{
    maintenance::{Maintenance, MaintenanceOptions, NoModel},
    pipe::{Effect, Question, ToolActivity},
    store::Store,
};
use keepline_tests::{
    lanes::Node,
    programs::{command, end, program, signal},
    schemas,
};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::{
    expected::{Recall, Shape, TEMPLATE},
    transcript::arguments,
};
use crate::talking_on;

/// What a member is made of.
pub struct Setup {
    pub options: Value,
    pub shape: Shape,
    /// The store's configuration for a program of its own; none: it is this process.
    pub environment: Option<Vec<(&'static str, String)>>,
}

impl Setup {
    pub fn new(budget: u64, more: Value, environment: Option<Vec<(&'static str, String)>>) -> Self {
        let mut options = json!({"max_context_tokens": budget, "memory_trace": true, "auto_generate_titles": false});
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let is_text = options["window_form"] == "text";
        if is_text {
            options["query_prompt_template"] = json!(TEMPLATE);
        }
        let recall = match options["recall"].as_str() {
            Some("session") => Recall::Session,
            Some("user") => Recall::User,
            _ => Recall::Off,
        };
        let shape = Shape { budget, pins: options["pin_first_turn"] == true, is_text, recall };
        Self { options, shape, environment }
    }

    /// How many records a transcript may have; none: any number.
    pub fn most(&self) -> Option<u64> {
        self.options["max_session_messages"].as_u64()
    }

    pub async fn start(&self, store: &Arc<dyn Store>) -> Member {
        match &self.environment {
            None => {
                let node = talking_on(store, &self.options).await;
                let (model, all) = (Arc::new(NoModel), MaintenanceOptions::default());
                let maintenance = Maintenance::new(node.keepline.clone(), model, all, Handle::current());
                Member::Here(Box::new((node, maintenance)))
            }
            Some(environment) => Member::There(Program::start(&self.options, environment)),
        }
    }
}

pub enum Member {
    Here(Box<(Node, Maintenance)>),
    There(Program),
}

impl Member {
    /// A question, and the metadata that it goes on with.
    pub async fn ask(&mut self, text: &str, metadata: &Value) -> Value {
        let got = match self {
            Self::Here(here) => {
                let metadata = metadata.to_string();
                let asked = Question { text, metadata: &metadata, ..Question::default() };
                let passed = here.0.pipe.ask(asked, None).await.unwrap();
                serde_json::from_str(passed.metadata.as_deref().unwrap_or(&metadata)).unwrap()
            }
            Self::There(program) => {
                let passed = program.pass(&json!({"lane": "questions", "text": text, "metadata": metadata}));
                assert_eq!(passed["text"], text);
                passed["metadata"].clone()
            }
        };
        schemas::check(&got);
        got
    }

    /// An entry that names no node, and the metadata that it goes on with. None: it failed.
    pub async fn pass(&mut self, lane: &str, text: &str, metadata: &Value) -> Option<Value> {
        match self {
            Self::Here(here) => {
                let (pipe, metadata) = (&mut here.0.pipe, metadata.to_string());
                let passed = if lane == "answers" {
                    pipe.answer(text, &metadata).await
                } else {
                    pipe.ask(Question { text, metadata: &metadata, ..Question::default() }, None).await
                };
                match passed {
                    Ok(passed) => Some(serde_json::from_str(passed.metadata.as_deref().unwrap_or(&metadata)).unwrap()),
                    Err(error) => {
                        assert_eq!(error.code.to_string(), "no-node");
                        None
                    }
                }
            }
            Self::There(program) => {
                let passed = program.pass(&json!({"lane": lane, "text": text, "metadata": metadata}));
                if passed["error"].is_null() {
                    return Some(passed["metadata"].clone());
                }
                assert_eq!(passed["error"]["code"], "no-node");
                program.has_failed = true;
                None
            }
        }
    }

    /// An answer; in this process, with all that it makes due: what becomes of that.
    pub async fn answer(&mut self, text: &str, metadata: &Value) -> Vec<String> {
        match self {
            Self::Here(here) => {
                let (node, maintenance) = &mut **here;
                let passed = node.pipe.answer(text, &metadata.to_string()).await.unwrap();
                assert_eq!(passed.effect, Effect::Stored, "{:?}", passed.problem);
                let mut done = Vec::new();
                for task in passed.due {
                    let name = task.name.clone();
                    done.push(format!("{name}: {:?}", maintenance.run(task).await));
                }
                done
            }
            Self::There(program) => {
                program.pass(&json!({"lane": "answers", "text": text, "metadata": metadata}));
                Vec::new()
            }
        }
    }

    /// A call with a mark. Turns of other sessions may wait for calls of the same id: entries of tools name theirs.
    pub fn call(&mut self, metadata: &Value, id: &str, mark: &str) {
        let activity = ToolActivity {
            call_id: id.into(),
            name: "look".into(),
            arguments: Some(arguments(mark)),
            ..ToolActivity::default()
        };
        match self {
            Self::Here(here) => assert!(here.0.pipe.tool_of(activity, &metadata.to_string())),
            Self::There(program) => {
                let tool = json!({"call_id": id, "name": "look", "arguments": {"n": mark}});
                program.pass(&json!({"lane": "tools", "tool": tool, "metadata": metadata}));
            }
        }
    }

    pub fn result(&mut self, metadata: &Value, id: &str, output: &str) {
        let activity = ToolActivity { call_id: id.into(), output: Some(output.into()), ..ToolActivity::default() };
        match self {
            Self::Here(here) => assert!(here.0.pipe.tool_of(activity, &metadata.to_string())),
            Self::There(program) => {
                let tool = json!({"call_id": id, "output": output});
                program.pass(&json!({"lane": "tools", "tool": tool, "metadata": metadata}));
            }
        }
    }

    /// Ends it: as the end of its input does, or as SIGKILL does.
    pub fn end(self, is_killed: bool) {
        let Self::There(mut program) = self else { return };
        if is_killed {
            signal(&program.child, "-KILL");
            assert_eq!(end(&mut program.child), None);
        } else {
            drop(program.child.stdin.take());
            assert_eq!(end(&mut program.child), Some(program.has_failed.into()));
        }
    }
}

pub struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
    /// Whether an entry failed, which its exit code says.
    has_failed: bool,
}

impl Program {
    fn start(options: &Value, environment: &[(&'static str, String)]) -> Self {
        let mut command = command(program("--bin", "keepline"));
        command.arg("run").envs(environment.iter().map(|(name, value)| (name, value)));
        command.args(["--set", "conversation=true"]);
        for (name, value) in options.as_object().unwrap() {
            command.args(["--set", &format!("{name}={value}")]);
        }
        // What it says is a part of the failure's output.
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output, has_failed: false }
    }

    /// An entry, as it comes out.
    fn pass(&mut self, entry: &Value) -> Value {
        writeln!(self.child.stdin.as_mut().unwrap(), "{entry}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?} of {entry}"))
    }
}

/// Not left behind by a test that fails.
impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
