//! Carries out requests: definitions are read, runs go on until they end or need the host, and reads go together.

pub mod error;
pub mod operations;
pub mod stored;

use std::rc::Rc;

use keepline_store_client::Host;

use self::{
    error::RequestError,
    stored::{StoredDefinition, get_definitions, list_definitions},
};
use crate::{
    assembly::{Assembly, AssemblyProgress, AssemblyRequest, assemble},
    catalog::{CatalogFault, DefinitionKind},
    datasets::{Asker, Reader},
    definition::{Definition, DefinitionLimits, Status, check},
    finding::Finding,
    rules::{AppliedRule, RuleEngine, RuleInput, check_rule_engine, evaluate_rules, fields_of},
    run::{Answer, FailureCode, Known, Need, Progress, RunFailure, RunLimits, RunReport, RunRequest, Wanted, execute},
    value::Value,
};

/// Waits for the store that one call takes at most, those for definitions included.
pub const WAITS: u32 = 16;

/// Who asks, and what the host said so far.
pub struct RequestContext<'a, H> {
    pub host: &'a H,
    pub asker: &'a Asker,
    /// Milliseconds since 1970: the same for all calls of a request.
    pub now: i64,
    pub limits: RunLimits,
    pub definition_limits: &'a DefinitionLimits,
    /// What the host said, by the digest of the need.
    pub answers: &'a [(String, Answer)],
    /// As the first reply named them; empty at first.
    pub revisions: &'a [String],
}

impl<H> RequestContext<'_, H> {
    /// Refuses to go on with other definitions than those that the request began with.
    fn check_revisions(&self, found: Vec<String>) -> Result<Vec<String>, CatalogFault> {
        if self.revisions.is_empty() || *self.revisions == found {
            return Ok(found);
        }
        let changed = self.revisions.iter().find(|one| !found.contains(one)).or(found.first());
        let message = match changed {
            Some(changed) => format!("a definition was changed meanwhile: the request began with {changed}"),
            None => "the definitions of the request were removed meanwhile".to_owned(),
        };
        Err(CatalogFault::new("conflict", "revisions", message))
    }
}

/// How replies name a definition that was read.
fn revision_of(kind: DefinitionKind, stored: &StoredDefinition) -> String {
    format!("{}/{}@{}", kind.name(), stored.id, stored.revision)
}

/// What a request came to.
#[derive(Debug)]
pub enum Outcome<T> {
    Done(T),
    /// It goes on with answers to these, in another call.
    Needs(Vec<Need>),
}

/// A step of a request: what it came to, and `{kind}/{id}@{revision}` of each definition that it read.
#[derive(Debug)]
pub struct Reply<T> {
    pub outcome: Outcome<T>,
    pub revisions: Vec<String>,
}

type Requested<T> = Result<Reply<T>, RequestError>;

/// An assembly, and the rules that had a part in it.
#[derive(Debug)]
pub struct Assembled {
    pub assembly: Assembly,
    pub rules_applied: Vec<AppliedRule>,
}

/// What rule engines called for.
#[derive(Debug)]
pub struct AskedRules {
    pub memories: Vec<Rc<str>>,
    pub applied: Vec<AppliedRule>,
    /// What the engines looked at.
    pub fields: Vec<String>,
    /// Of the engines.
    pub revisions: Vec<String>,
}

/// Run a memory by its id.
///
/// # Errors
/// `not_found`; `invalid` where the stored definition is none; otherwise the store's.
pub fn execute_memory<H: Host>(
    context: &RequestContext<'_, H>,
    id: &str,
    request: &RunRequest,
) -> Requested<RunReport> {
    let stored = get_definitions(context.host, &context.asker.owner, DefinitionKind::Memory, &[id])?.pop();
    let stored = stored.ok_or_else(|| CatalogFault::not_found(DefinitionKind::Memory, "id", id))?;
    let revisions = context.check_revisions(vec![revision_of(DefinitionKind::Memory, &stored)])?;
    let checked = check(&stored.form, context.definition_limits);
    let definition = checked.accept()?;
    let outcome = drive(context, 1, |known| match execute(&definition, request, known) {
        Progress::Done(report) => Ok(*report),
        Progress::Waiting(wanted) => Err(wanted),
    })?;
    let outcome = match outcome {
        Driven::Done(mut report) => {
            if definition.status != Status::Active {
                let message = format!("this memory is {}: assemblies leave it out", definition.status.name());
                report.warnings.insert(0, Finding::warning("status", message));
            }
            Outcome::Done(report)
        }
        Driven::Needs(needs) => Outcome::Needs(needs),
        Driven::TooManyWaits => Outcome::Done(RunReport { failure: Some(too_many_waits()), ..RunReport::default() }),
    };
    Ok(Reply { outcome, revisions })
}

/// Ask rule engines which memories a request calls for.
///
/// # Errors
/// `invalid`, or `not_found` at the engine; otherwise the store's.
pub fn ask_rules<H: Host>(
    context: &RequestContext<'_, H>,
    request: &AssemblyRequest,
) -> Result<AskedRules, RequestError> {
    let owner = &context.asker.owner;
    let stored = match &request.rule_engines {
        Some(ids) if ids.is_empty() => Vec::new(),
        Some(ids) => {
            let named: Vec<&str> = ids.iter().map(|id| &**id).collect();
            let found = get_definitions(context.host, owner, DefinitionKind::Rules, &named)?;
            let mut engines: Vec<StoredDefinition> = Vec::new();
            for (position, id) in ids.iter().enumerate() {
                let engine = found.iter().find(|engine| engine.id == *id).ok_or_else(|| {
                    let path = format!("rule_engine_ids[{position}]");
                    CatalogFault::new("not_found", path, format!("there is no rule engine {id}"))
                })?;
                engines.push(engine.clone());
            }
            engines
        }
        None => list_definitions(context.host, owner, DefinitionKind::Rules)?,
    };
    let revisions = stored.iter().map(|stored| revision_of(DefinitionKind::Rules, stored)).collect();
    // An engine that does not validate says nothing.
    let engines: Vec<Rc<RuleEngine>> = stored
        .iter()
        .filter_map(|stored| check_rule_engine(&stored.form, context.definition_limits).engine.map(Rc::new))
        .collect();
    let input = RuleInput {
        scopes: &request.scopes,
        additional_variables: &request.additional_variables,
        input: &request.input,
    };
    let (memories, applied) = evaluate_rules(&engines, input);
    Ok(AskedRules { memories, applied, fields: fields_of(&engines), revisions })
}

/// Assemble what memories contribute: those that are named, then those that rules call for.
///
/// # Errors
/// `not_found` at an explicit memory or an engine, before anything runs; otherwise the store's.
pub fn assemble_context<H: Host>(context: &RequestContext<'_, H>, request: &AssemblyRequest) -> Requested<Assembled> {
    let owner = &context.asker.owner;
    let AskedRules { memories: by_rule, applied: rules_applied, mut revisions, .. } = ask_rules(context, request)?;
    let mut ids = request.explicit_memories.clone();
    ids.extend(by_rule.into_iter().filter(|id| !request.explicit_memories.contains(id)));
    let named: Vec<&str> = ids.iter().map(|id| &**id).collect();
    let stored = if named.is_empty() {
        Vec::new()
    } else {
        get_definitions(context.host, owner, DefinitionKind::Memory, &named)?
    };
    revisions.extend(stored.iter().map(|stored| revision_of(DefinitionKind::Memory, stored)));
    let revisions = context.check_revisions(revisions)?;
    let (mut memories, mut left_out) = (Vec::new(), Vec::new());
    for (position, id) in ids.iter().enumerate() {
        let mut leave_out =
            |path: &str, message: String| left_out.push((Rc::clone(id), Finding::warning(path, message)));
        let Some(found) = stored.iter().find(|stored| stored.id == *id) else {
            if position < request.explicit_memories.len() {
                return Err(CatalogFault::not_found(
                    DefinitionKind::Memory,
                    &format!("explicit_memory[{position}]"),
                    id,
                )
                .into());
            }
            leave_out("", "there is no such memory".to_owned());
            continue;
        };
        match check(&found.form, context.definition_limits).accept() {
            Ok(memory) if memory.status == Status::Active => memories.push(Rc::new(memory)),
            Ok(memory) => {
                leave_out("status", format!("this memory is {}, and only active ones take part", memory.status.name()))
            }
            Err(fault) => leave_out(&fault.path, fault.message.clone()),
        }
    }
    let run = RunRequest {
        intent: request.intent(),
        variables: request.variables(),
        now: context.now,
        limits: context.limits,
    };
    let definitions: &[Rc<Definition>] = &memories;
    let outcome = drive(context, 2, |known| match assemble(definitions, &run, request.max_tokens, known) {
        AssemblyProgress::Done(assembly) => Ok(*assembly),
        AssemblyProgress::Waiting(wanted) => Err(wanted),
    })?;
    let outcome = match outcome {
        Driven::Done(mut assembly) => {
            left_out.append(&mut assembly.warnings);
            assembly.warnings = left_out;
            Outcome::Done(Assembled { assembly, rules_applied })
        }
        Driven::Needs(needs) => Outcome::Needs(needs),
        Driven::TooManyWaits => {
            let failure = too_many_waits();
            return Err(CatalogFault::new("step_failed", failure.path, failure.message).into());
        }
    };
    Ok(Reply { outcome, revisions })
}

impl Assembled {
    /// As a reply's members.
    pub fn to_value(&self) -> Value {
        let rules = self.rules_applied.iter().map(AppliedRule::to_value).collect::<Vec<_>>();
        self.assembly.to_value(&rules.into())
    }
}

fn too_many_waits() -> RunFailure {
    let message = format!("it takes more than {WAITS} waits for the store, which is the limit");
    RunFailure { code: FailureCode::StepFailed, path: String::new(), message }
}

enum Driven<T> {
    Done(T),
    Needs(Vec<Need>),
    TooManyWaits,
}

/// Run, read what is wanted, and run again, until it ends or only the host can go on. Some waits were before.
fn drive<H: Host, T>(
    context: &RequestContext<'_, H>,
    before: u32,
    mut run: impl FnMut(&Known) -> Result<T, Wanted>,
) -> Result<Driven<T>, RequestError> {
    let mut known = Known::default();
    for (digest, answer) in context.answers {
        known.add_answer(digest.clone(), answer.clone());
    }
    let mut reader = Reader::new(context.host, context.asker);
    loop {
        match run(&known) {
            Ok(done) => return Ok(Driven::Done(done)),
            Err(wanted) if wanted.reads.is_empty() => return Ok(Driven::Needs(wanted.needs)),
            Err(_) if before + reader.waits >= WAITS => return Ok(Driven::TooManyWaits),
            Err(wanted) => reader.advance(&wanted.reads, &mut known)?,
        }
    }
}
