//! Pipelines that misbehave. What they do is told by the first word of a run's `id`, of an assembly's text, or of the first
//! id that definitions are asked for; the rest is the argument. What they tell of a deed is the member `told` of the output.

#[allow(unsafe_code, missing_docs, clippy::all, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ path: "../../../wit/pipelines", world: "pipelines", generate_all });
    export!(Component with_types_in self);
    pub struct Component;
}

#[path = "../../hostile/src/deeds.rs"]
#[allow(dead_code, reason = "another guest does more of them")]
mod deeds;

use std::sync::{Mutex, atomic::AtomicU64};

use bindings::Component;
use bindings::exports::keepline::pipelines::{configuration, datasets, definitions, runs};
use bindings::keepline::common::shared::Problem;
use bindings::keepline::host::log::Level;
use bindings::keepline::host::needs::{CallNeed, CompletionNeed, Need, VectorsNeed};
use deeds::{do_it, greed};
use definitions::{Checked, Definition, DefinitionPage, Finding, Refusal};

/// As the other guest has them.
static SERVED: AtomicU64 = AtomicU64::new(0);
static OVERHEARD: Mutex<String> = Mutex::new(String::new());

fn size(number: &str) -> usize {
    number.parse().unwrap_or(0)
}

/// Long, and nothing that a terminal should see.
fn absurd(length: usize) -> String {
    "\u{1b}[2J\n".repeat(length / 5)
}

fn problem(message: &str) -> Problem {
    Problem { code: message.to_owned(), subject: message.to_owned(), limit: 0, message: message.to_owned() }
}

fn finding(text: &str) -> Finding {
    Finding { path: text.to_owned(), is_error: true, message: text.to_owned() }
}

impl configuration::Guest for Component {
    fn configure(_: String, _: Level) -> Result<configuration::Configured, Problem> {
        Ok(configuration::Configured { options: Vec::new(), warnings: Vec::new() })
    }
}

/// The text of a member, which has no escapes.
fn member<'a>(input: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = input.split_once(&format!("\"{name}\":\""))?;
    rest.split_once('"').map(|(text, _)| text)
}

fn reply(output: String, needs: Vec<Need>) -> runs::Reply {
    let needs = needs.into_iter().map(|need| runs::PendingNeed { digest: "d".into(), need });
    runs::Reply { output, revisions: Vec::new(), needs: needs.collect() }
}

impl runs::Guest for Component {
    fn run(request: runs::Request) -> Result<runs::Reply, Refusal> {
        let text = member(&request.input, "id").or_else(|| member(&request.input, "text")).unwrap_or_default();
        let (deed, argument) = text.split_once(' ').unwrap_or((text, ""));
        let number = size(argument);
        let call = |input: String| Need::Call(CallNeed { id: 0, name: "handler".into(), input });
        let vectors = |texts| Need::Vectors(VectorsNeed { id: 0, texts });
        Ok(match deed {
            "raw" => reply(argument.replace('\'', "\""), Vec::new()),
            "output" => reply("x".repeat(number), Vec::new()),
            // A well-formed assembly, of so many bytes.
            "assembly" => {
                let text = "x".repeat(number);
                let item = format!(r#"{{"text":"{text}","memory_id":"m","priority":"high"}}"#);
                let context = format!(r#"{{"knowledge":[{item}]}}"#);
                let output = format!(r#"{{"context":{context},"text":"t","trace":{{"memory_calls":[]}}}}"#);
                reply(output, Vec::new())
            }
            "needs" => reply(String::new(), vec![call("{}".into()); number]),
            "need-of" => reply(String::new(), vec![call("x".repeat(number))]),
            "texts" => reply(String::new(), vec![vectors(vec!["x".to_owned(); number])]),
            "ask" => {
                let (instructions, purpose) = (String::new(), "summary".into());
                let input = String::new();
                let completion = CompletionNeed { id: 0, purpose, instructions, input, max_tokens: 0, extras: vec![] };
                reply(String::new(), vec![Need::Completion(completion)])
            }
            "digest" => runs::Reply {
                output: String::new(),
                revisions: Vec::new(),
                needs: vec![runs::PendingNeed { digest: absurd(50), need: call("{}".into()) }],
            },
            "refuse" => {
                let findings = vec![finding(&absurd(number)); 3];
                return Err(Refusal { problem: problem(&absurd(number)), findings });
            }
            "greed" => {
                let (kind, name) = argument.split_once(' ').unwrap_or_default();
                reply(format!(r#"{{"told":"{}"}}"#, greed(kind, name)), Vec::new())
            }
            _ => {
                let told = do_it(text).unwrap_or_default();
                reply(format!(r#"{{"told":"{told}"}}"#), Vec::new())
            }
        })
    }
}

impl definitions::Guest for Component {
    fn check(_: String, _: String, text: String) -> Result<Checked, Problem> {
        Ok(Checked { findings: vec![finding(&absurd(size(&text))); 3], definition: None })
    }

    fn put(_: definitions::Owner, _: String, _: String, text: String, _: Option<u64>) -> Result<Definition, Refusal> {
        let told = do_it(&text).unwrap_or_default();
        Ok(Definition { id: "d".into(), revision: 1, text: format!(r#"{{"told":"{told}"}}"#) })
    }

    fn update(
        _: definitions::Owner,
        _: String,
        _: String,
        _: String,
        _: Option<u64>,
    ) -> Result<Definition, Refusal> {
        Ok(Definition { id: "d".into(), revision: 1, text: "no JSON".into() })
    }

    fn duplicate(_: definitions::Owner, _: String, _: String, _: Option<String>) -> Result<Definition, Refusal> {
        Ok(Definition { id: "d".into(), revision: 1, text: "{".into() })
    }

    /// Pages that never end.
    fn find(
        _: definitions::Owner,
        _: String,
        query: definitions::DefinitionQuery,
    ) -> Result<DefinitionPage, Refusal> {
        let definition = |id: &str| Definition { id: id.to_owned(), revision: 1, text: "{}".to_owned() };
        let definitions = query.ids.iter().map(|id| definition(&format!("not {id}"))).collect();
        Ok(DefinitionPage { definitions, cursor: "again".into() })
    }

    fn remove(
        _: definitions::Owner,
        _: String,
        _: String,
        _: Option<u64>,
    ) -> Result<definitions::DefinitionRemoved, Refusal> {
        Ok(definitions::DefinitionRemoved { revision: 0 })
    }

    fn list_required_variables(
        _: definitions::Owner,
        _: Vec<String>,
    ) -> Result<definitions::RequiredVariables, Refusal> {
        Ok(definitions::RequiredVariables { scopes: Vec::new(), additional: Vec::new() })
    }

    fn describe_steps(_: bool) -> definitions::StepDescriptions {
        definitions::StepDescriptions { text: "[".into() }
    }
}

impl datasets::Guest for Component {
    fn put(dataset: datasets::Dataset, _: Vec<datasets::Item>) -> Result<datasets::ItemsChanged, Problem> {
        let told = do_it(&dataset.name).unwrap_or_default();
        if told.is_empty() { Ok(datasets::ItemsChanged { added: 0, changed: 0 }) } else { Err(problem(&told)) }
    }

    fn find(_: datasets::Dataset, _: String, _: u32) -> Result<datasets::ItemPage, Problem> {
        let item = datasets::Item { id: "i".into(), text: "no JSON".into() };
        Ok(datasets::ItemPage { items: vec![item], cursor: String::new() })
    }

    fn remove(_: datasets::Dataset, _: Vec<String>) -> Result<datasets::ItemsChanged, Problem> {
        Err(problem(&absurd(1_000_000)))
    }
}
