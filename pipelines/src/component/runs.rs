//! Exports runs: requests come as JSON, and needs go out as the contract has them.

use std::rc::Rc;

use keepline_options::bucket_names::user_bucket_name;
use keepline_recall::Embedding;
use keepline_store_client::{
    Problem,
    component::imports::Imports,
    needs::{self, CallNeed, VectorsNeed},
};

use super::{
    configuration::{CONFIG, Component},
    convert::unknown,
};
use crate::{
    assembly::AssemblyRequest,
    catalog::CatalogFault,
    component::bindings::exports::keepline::pipelines::{
        definitions::Refusal,
        runs::{self, Guest, PendingNeed},
    },
    config::PipelineConfig,
    datasets::Asker,
    requests::{Outcome, Reply, RequestContext, ask_rules, assemble_context, execute_memory},
    rules::AppliedRule,
    run::{Answer, Need, RunRequest},
    value::{Object, Value},
};

const OPERATIONS: [&str; 3] = ["execute", "assemble", "evaluate-rules"];

impl Guest for Component {
    fn run(request: runs::Request) -> Result<runs::Reply, Refusal> {
        let config = CONFIG.get();
        let asker = asker(config, request.asker)?;
        let input = Value::parse_input(&request.input).map_err(|error| Problem::invalid("input", error))?;
        let now = i64::try_from(request.now).map_err(|_| Problem::invalid("now", "not a time in milliseconds"))?;
        let answers: Vec<_> = request.answers.into_iter().map(answer).collect();
        let context = RequestContext {
            host: &Imports,
            asker: &asker,
            now,
            limits: config.limits,
            definition_limits: &config.definitions,
            answers: &answers,
            revisions: &request.revisions,
        };
        Ok(match &*request.operation {
            "execute" => {
                let (id, run) = execution(&context, &input)?;
                reply(execute_memory(&context, &id, &run)?, |report| report.to_value())
            }
            "assemble" => {
                let request = AssemblyRequest::parse(&input).map_err(CatalogFault::from)?;
                reply(assemble_context(&context, &request)?, |assembled| assembled.to_value())
            }
            "evaluate-rules" => {
                let request = AssemblyRequest::parse(&input).map_err(CatalogFault::from)?;
                let asked = ask_rules(&context, &request)?;
                let memories = asked.memories.into_iter().map(Value::Text).collect::<Vec<_>>();
                let applied = asked.applied.iter().map(AppliedRule::to_value).collect::<Vec<_>>();
                let fields = asked.fields.into_iter().map(Value::from).collect::<Vec<_>>();
                let output = Value::object([
                    ("success", Value::Bool(true)),
                    ("memories", memories.into()),
                    ("rules_applied", applied.into()),
                    ("variables_used", fields.into()),
                ]);
                runs::Reply { output: output.to_json(), revisions: asked.revisions, needs: Vec::new() }
            }
            other => return Err(unknown("operation", other, &OPERATIONS).into()),
        })
    }
}

/// Who asks, by buckets. A session or user whose id names no bucket has none.
fn asker(config: PipelineConfig, asker: runs::Asker) -> Result<Asker, Box<Problem>> {
    let session = asker.session.and_then(|id| Some(config.session_ids.bucket_name(&id)?.into_owned()));
    let user = asker.user.filter(|id| !id.is_empty()).map(|id| user_bucket_name(&id).into_owned());
    Ok(Asker { owner: asker.owner.try_into()?, session, user })
}

/// What an `execute` asks for.
fn execution(context: &RequestContext<'_, Imports>, input: &Value) -> Result<(Rc<str>, RunRequest), CatalogFault> {
    let fault = |path: &str, value: &Value, wanted: &str| {
        CatalogFault::new("invalid", path, format!("{} where {wanted} is required", value.kind()))
    };
    let object = |name: &str| match input.member(name) {
        None | Some(Value::Null) => Ok(Object::new()),
        Some(Value::Object(members)) => Ok((**members).clone()),
        Some(value) => Err(fault(name, value, "an object")),
    };
    let text = |name: &str| match input.member(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Text(text)) => Ok(Some(Rc::clone(text))),
        Some(value) => Err(fault(name, value, "a text")),
    };
    let id = text("id")?.ok_or_else(|| CatalogFault::new("invalid", "id", "an id is required"))?;
    let mut variables = object("variables")?;
    if let Some(thread) = text("thread_id")? {
        variables.insert("thread_id".into(), Value::Text(thread));
    }
    Ok((id, RunRequest { intent: object("intent")?, variables, now: context.now, limits: context.limits }))
}

fn reply<T>(reply: Reply<T>, to_value: impl FnOnce(&T) -> Value) -> runs::Reply {
    let Reply { outcome, revisions } = reply;
    match outcome {
        Outcome::Done(done) => runs::Reply { output: to_value(&done).to_json(), revisions, needs: Vec::new() },
        Outcome::Needs(needs) => {
            let needs =
                (0..).zip(&needs).map(|(id, need)| PendingNeed { digest: need.digest(), need: pending(id, need) });
            runs::Reply { output: String::new(), revisions, needs: needs.collect() }
        }
    }
}

fn pending(id: u32, need: &Need) -> needs::Need {
    match need {
        Need::Vector { text } => needs::Need::Vectors(VectorsNeed { id, texts: vec![text.to_string()] }),
        need => needs::Need::Call(CallNeed { id, name: need.kind().to_owned(), input: need.to_value().to_json() }),
    }
}

fn answer(answer: runs::Answer) -> (String, Answer) {
    let said = match answer.outcome {
        needs::Outcome::Text(output) => match Value::parse_input(&output.text) {
            Ok(output) => Answer::Output(output),
            Err(error) => Answer::Failed(format!("the host's answer is {error}")),
        },
        needs::Outcome::Vectors(result) => {
            let vector = result.vectors.first().and_then(|vector| Embedding::new(&vector.model, &vector.data));
            // A model that refuses the text has an empty vector for it.
            vector.map_or_else(
                || Answer::Refused("the model has no vector for this text".into()),
                |vector| Answer::Vector(Rc::new(vector)),
            )
        }
        needs::Outcome::Missing(missing) => Answer::Refused(missing.message),
        needs::Outcome::Failed(failed) => Answer::Failed(failed.message),
    };
    (answer.digest, said)
}

impl From<crate::assembly::RequestFault> for CatalogFault {
    fn from(fault: crate::assembly::RequestFault) -> Self {
        Self::new("invalid", fault.path, fault.message)
    }
}
