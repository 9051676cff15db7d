//! Runs steps in order, and goes on past those that wait with what does not depend on them.

use std::{collections::BTreeSet, rc::Rc};

use indexmap::{IndexMap, IndexSet};

use super::{
    FailureCode, Progress, RunFailure, RunReport, RunRequest,
    reads::{Known, Need, Read, Wanted},
    variables::{Names, Resolved},
};
use crate::{
    definition::{Definition, Step, StepKind},
    finding::Finding,
    language::comparison::{Condition, parse_where},
    language::expression::{Expression, ExpressionScope},
    language::template,
    steps::{self, StepContext, StepFault},
    value::items::items_of,
    value::{Object, Value},
};

/// Parameters that name an earlier step.
const SOURCES: [&str; 5] = ["source", "sources", "from", "query_from", "seed_from"];

/// Run a definition as far as what is known allows.
pub fn execute(definition: &Definition, request: &RunRequest, known: &Known) -> Progress {
    let mut run = Execution {
        definition,
        request,
        known,
        results: IndexMap::new(),
        data: Some(Value::list(Vec::new())),
        query: Some(initial_query(&request.intent)),
        exited: false,
        missing: IndexSet::new(),
        used: IndexSet::new(),
        warnings: Vec::new(),
        wanted: Wanted::default(),
        touched: BTreeSet::new(),
        items_read: 0,
        bytes_read: 0,
    };
    let ended = run.check_variables().and_then(|()| run.run_steps(&definition.steps));
    if run.wanted.is_empty() {
        Progress::Done(Box::new(run.into_report(ended.err())))
    } else {
        Progress::Waiting(run.wanted)
    }
}

/// The intent's query, else its keywords, else its action, else empty.
fn initial_query(intent: &Object) -> Rc<str> {
    let query = ["query", "keywords", "action"].into_iter().find_map(|name| {
        let text = template::text_of(intent.get(name).filter(|value| !value.is_null())?);
        (!text.is_empty()).then_some(text)
    });
    query.unwrap_or_default().into()
}

/// Whether steps go on.
#[derive(PartialEq, Eq)]
enum Flow {
    Continue,
    Stop,
}

/// What a step comes to. `None`: it waits.
pub(super) type StepOutcome = Result<Option<Value>, StepFault>;

pub(super) struct Execution<'a> {
    definition: &'a Definition,
    pub(super) request: &'a RunRequest,
    pub(super) known: &'a Known,
    /// `None`: the step waits.
    results: IndexMap<Rc<str>, Option<Value>>,
    /// The items in hand. `None`: a step that waits decides them.
    data: Option<Value>,
    query: Option<Rc<str>>,
    exited: bool,
    missing: IndexSet<Rc<str>>,
    used: IndexSet<Rc<str>>,
    warnings: Vec<Finding>,
    wanted: Wanted,
    /// Numbers of the reads that this run was given.
    touched: BTreeSet<usize>,
    items_read: usize,
    bytes_read: usize,
}

impl Execution<'_> {
    /// What the definition requires must be given before the first step runs.
    fn check_variables(&mut self) -> Result<(), RunFailure> {
        let mut failure = None;
        for (position, variable) in self.definition.variables.iter().enumerate() {
            let is_given = self.request.variables.get(&variable.name).is_some_and(|value| !value.is_null());
            if variable.required && !is_given {
                self.missing.insert(Rc::clone(&variable.name));
                failure.get_or_insert_with(|| RunFailure {
                    code: FailureCode::MissingVariable,
                    path: format!("additional_variables[{position}]"),
                    message: format!("the required variable {} was not given", variable.name),
                });
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn run_steps(&mut self, steps: &[Step]) -> Result<Flow, RunFailure> {
        for step in steps {
            if self.run_step(step)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }

    fn run_step(&mut self, step: &Step) -> Result<Flow, RunFailure> {
        let outcome = match step.kind {
            StepKind::Conditional | StepKind::EarlyExit => return self.run_control(step),
            _ => self.work(step).and_then(|value| value.map(|value| self.within_limits(step, value)).transpose()),
        };
        match outcome {
            Ok(Some(value)) => {
                if matches!(step.kind, StepKind::DeriveQuery | StepKind::RewriteQuery) {
                    self.query = Some(template::text_of(&value).into());
                } else {
                    self.data = Some(value.clone());
                }
                self.results.insert(step.name().into(), Some(value));
            }
            // Whether it fails for good shows when nothing before it waits.
            Ok(None) => self.mark_unknown(step),
            Err(_) if !self.wanted.is_empty() => self.mark_unknown(step),
            Err(fault) => return Err(failure(step, fault)),
        }
        Ok(Flow::Continue)
    }

    /// The boolean is stored before the branch runs, so an exit within still shows it.
    fn run_control(&mut self, step: &Step) -> Result<Flow, RunFailure> {
        let Some(value) = self.condition(step) else {
            self.mark_unknown(step);
            // What may end the run decides whether anything after it is read.
            return Ok(if may_exit(step) { Flow::Stop } else { Flow::Continue });
        };
        self.results.insert(step.name().into(), Some(Value::Bool(value)));
        if step.kind == StepKind::EarlyExit {
            self.exited |= value;
            return Ok(if value { Flow::Stop } else { Flow::Continue });
        }
        self.run_steps(if value { &step.then_steps } else { &step.else_steps })
    }

    /// Whether a condition holds; none: that depends on a step that waits.
    fn condition(&mut self, step: &Step) -> Option<bool> {
        let text = step.params.get("condition").and_then(Value::as_text).unwrap_or_default();
        let path = format!("{}.condition", step.path);
        let expression = match Expression::parse(text) {
            Ok(expression) => expression,
            Err(message) => {
                self.warn(path, message);
                return Some(false);
            }
        };
        let mut scope = Scope { run: self, depends_on_unknown: false };
        let evaluated = expression.evaluate(&mut scope);
        if scope.depends_on_unknown {
            return None;
        }
        if let Some(message) = evaluated.warning {
            self.warn(path, message);
        }
        Some(evaluated.value)
    }

    /// Do what a step says that is no control step.
    fn work(&mut self, step: &Step) -> StepOutcome {
        let Some(params) = self.resolve_params(step)? else {
            return Ok(None);
        };
        match step.kind {
            StepKind::KvGet => self.get_values(step, &params),
            StepKind::LogSearch => self.search_log(step, &params),
            StepKind::VectorSearch => self.search_documents(step, &params),
            StepKind::GraphViewRead => self.read_view(step, &params),
            StepKind::DeriveQuery | StepKind::RewriteQuery | StepKind::Merge => {
                self.call_step(step, params, Vec::new())
            }
            _ => {
                let Some(items) = self.items_in_hand(step, &params) else {
                    return Ok(None);
                };
                match step.kind {
                    StepKind::GraphViewExpand => self.expand_view(step, &params, items),
                    StepKind::GraphNeighborExpand => self.expand_neighbors(step, &params, items),
                    StepKind::Custom => self.run_custom(&params, &items),
                    _ => self.call_step(step, params, items),
                }
            }
        }
    }

    /// The items that a step works on: those of the step that it names, else those in hand. None: they wait.
    fn items_in_hand(&mut self, step: &Step, params: &Object) -> Option<Vec<Value>> {
        let named = ["source", "seed_from"].into_iter().find_map(|name| Some((name, params.get(name)?.as_text()?)));
        let Some((parameter, name)) = named else {
            return self.data.as_ref().map(items_of);
        };
        match self.results.get(name) {
            Some(result) => result.as_ref().map(items_of),
            None => {
                self.warn(format!("{}.{parameter}", step.path), format!("the step {name} did not run: no items"));
                Some(Vec::new())
            }
        }
    }

    fn call_step(&mut self, step: &Step, params: Object, items: Vec<Value>) -> StepOutcome {
        // A query that waits matters to the steps that make one of it, and to no other.
        let makes_query = matches!(step.kind, StepKind::DeriveQuery | StepKind::RewriteQuery);
        if self.query.is_none() && makes_query {
            return Ok(None);
        }
        let mut context = StepContext {
            definition: self.definition,
            step,
            params,
            intent: &self.request.intent,
            query: self.query.as_deref().unwrap_or_default(),
            results: &self.results,
            now: self.request.now,
            warnings: &mut self.warnings,
        };
        steps::run(&mut context, items).map(Some)
    }

    /// A step's parameters with their placeholders filled in; none: they depend on a step that waits.
    fn resolve_params(&mut self, step: &Step) -> Result<Option<Object>, StepFault> {
        let waits = |value: &Value| value.as_text().is_some_and(|name| matches!(self.results.get(name), Some(None)));
        let sources = SOURCES.iter().filter_map(|name| step.params.get(*name));
        if sources.into_iter().any(|value| waits(value) || value.as_list().is_some_and(|names| names.iter().any(waits)))
        {
            return Ok(None);
        }
        let mut params = Object::new();
        for (name, value) in &step.params {
            let value = if &**name == "where" { parsed_where(value)? } else { value.clone() };
            let Some(value) = self.resolve(&value, None)? else { return Ok(None) };
            params.insert(Rc::clone(name), value);
        }
        Ok(Some(params))
    }

    /// Fill in the placeholders of a value, from `own` names first. None: one depends on a step that waits.
    pub(super) fn resolve(&mut self, value: &Value, own: Option<&Value>) -> Result<Option<Value>, StepFault> {
        let names = Names {
            definition: self.definition,
            request: self.request,
            query: self.query.as_ref(),
            results: &self.results,
        };
        let (mut is_unknown, mut used, mut missing) = (false, Vec::new(), IndexSet::new());
        let mut lookup = |name: &str| {
            if let Some(value) = own.and_then(|own| own.field(name)) {
                return Some(value.clone());
            }
            match names.resolve(name) {
                Resolved::Value(value) => Some(value),
                Resolved::Variable(value) => {
                    used.push(Rc::from(name));
                    Some(value)
                }
                Resolved::Unknown => {
                    is_unknown = true;
                    Some(Value::Null)
                }
                Resolved::Missing => None,
            }
        };
        let resolved = template::resolve(value, &mut lookup, &mut missing);
        if is_unknown {
            return Ok(None);
        }
        self.used.extend(used);
        self.missing.extend(missing);
        resolved.map(Some).map_err(StepFault::new)
    }

    /// A step's result, if it is within the limits of a run.
    fn within_limits(&self, step: &Step, value: Value) -> Result<Value, StepFault> {
        let limits = self.request.limits;
        let count = match &value {
            Value::List(items) => items.len(),
            Value::Object(groups) => groups.values().map(|group| group.as_list().map_or(1, <[Value]>::len)).sum(),
            _ => 1,
        };
        if count > limits.items {
            return Err(too_much("items", count, limits.items, "max_items"));
        }
        // Other steps choose among what is there.
        let builds = matches!(step.kind, StepKind::Annotate | StepKind::Custom | StepKind::Format | StepKind::Score);
        if builds && !value.fits(limits.bytes) {
            return Err(StepFault::new(format!(
                "its result is over the limit of {} bytes (max_run_bytes)",
                limits.bytes
            )));
        }
        Ok(value)
    }

    /// What a read found; none: it waits.
    pub(super) fn read(&mut self, step: &Step, read: Read) -> Result<Option<Option<Rc<Vec<Value>>>>, StepFault> {
        let limits = self.request.limits;
        let Some((number, found)) = self.known.found(&read) else {
            let calls = self.touched.len() + self.wanted.reads.len();
            if calls >= limits.reads {
                return Err(too_much("reads", calls + 1, limits.reads, "max_reads"));
            }
            self.wanted.read(read);
            return Ok(None);
        };
        let (items, is_cut, bytes) = (found.items.clone(), found.is_cut, found.bytes);
        if self.touched.insert(number) {
            self.items_read += items.as_ref().map_or(0, |items| items.len());
            self.bytes_read += bytes;
        }
        if self.touched.len() > limits.reads {
            return Err(too_much("reads", self.touched.len(), limits.reads, "max_reads"));
        }
        if self.items_read > limits.items {
            return Err(too_much("items read", self.items_read, limits.items, "max_items"));
        }
        if self.bytes_read > limits.bytes {
            return Err(too_much("bytes read", self.bytes_read, limits.bytes, "max_run_bytes"));
        }
        if is_cut {
            self.warn(&*step.path, "only the newest that the store may read were looked at");
        }
        Ok(Some(items))
    }

    pub(super) fn want(&mut self, need: Need) {
        self.wanted.need(need);
    }

    pub(super) fn query(&self) -> Option<&Rc<str>> {
        self.query.as_ref()
    }

    pub(super) fn result(&self, name: &str) -> Option<&Value> {
        self.results.get(name)?.as_ref()
    }

    pub(super) fn warn(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.warnings.push(Finding { path: path.into(), is_error: false, message: message.into() });
    }

    /// Record that a step waits, with all that it decides.
    fn mark_unknown(&mut self, step: &Step) {
        self.results.insert(step.name().into(), None);
        match step.kind {
            StepKind::DeriveQuery | StepKind::RewriteQuery => self.query = None,
            StepKind::Conditional | StepKind::EarlyExit => {
                step.then_steps.iter().chain(&step.else_steps).for_each(|inner| self.mark_unknown(inner));
            }
            _ => self.data = None,
        }
    }

    fn into_report(self, failure: Option<RunFailure>) -> RunReport {
        let contribution = &self.definition.contribution;
        let output = self.data.unwrap_or_default();
        let items = items_of(&output);
        let shown = items.get(..contribution.max_items.unwrap_or(usize::MAX)).unwrap_or(&items);
        let formatted = match &output {
            Value::Text(text) => text.to_string(),
            _ => steps::format_items(shown, contribution.format),
        };
        let mut warnings = Vec::new();
        for warning in self.warnings {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        RunReport {
            results: self.results.into_iter().filter_map(|(name, result)| Some((name, result?))).collect(),
            output,
            formatted,
            items,
            query: self.query.unwrap_or_default(),
            exited: self.exited,
            missing_variables: self.missing,
            used_variables: self.used,
            warnings,
            failure,
        }
    }
}

/// The comparisons of `where`, before their placeholders are filled in: field, operator and value of each.
fn parsed_where(text: &Value) -> Result<Value, StepFault> {
    let Some(text) = text.as_text() else { return Ok(text.clone()) };
    let conditions = parse_where(text).map_err(|message| StepFault::at("where", message))?;
    let parts = conditions.into_iter().map(|Condition { field, operator, value }| {
        Value::list(vec![field.into(), operator.filter_name().into(), value])
    });
    Ok(parts.collect::<Vec<_>>().into())
}

/// Whether a step or one within it may end the run.
fn may_exit(step: &Step) -> bool {
    step.kind == StepKind::EarlyExit || step.then_steps.iter().chain(&step.else_steps).any(may_exit)
}

pub(super) fn too_much(what: &str, count: usize, limit: usize, option: &str) -> StepFault {
    StepFault::new(format!("{count} {what} are over the limit of {limit} ({option})"))
}

fn failure(step: &Step, fault: StepFault) -> RunFailure {
    let path = match fault.member {
        Some(member) => format!("{}.{member}", step.path),
        None => step.path.to_string(),
    };
    let code = if fault.is_refused { FailureCode::Refused } else { FailureCode::StepFailed };
    RunFailure { code, path, message: fault.message }
}

/// What a condition is about.
struct Scope<'a, 'b> {
    run: &'a mut Execution<'b>,
    depends_on_unknown: bool,
}

impl ExpressionScope for Scope<'_, '_> {
    fn count(&mut self) -> usize {
        self.depends_on_unknown |= self.run.data.is_none();
        self.run.data.as_ref().map_or(0, |data| items_of(data).len())
    }

    fn length(&mut self, alias: &str) -> Option<usize> {
        let result = self.run.results.get(alias)?;
        self.depends_on_unknown |= result.is_none();
        Some(result.as_ref().map_or(0, |result| items_of(result).len()))
    }

    fn query(&mut self) -> Rc<str> {
        self.depends_on_unknown |= self.run.query.is_none();
        self.run.query.clone().unwrap_or_default()
    }

    fn variable(&mut self, name: &str) -> Option<Value> {
        let placeholder = Value::from(format!("${{{name}}}"));
        match self.run.resolve(&placeholder, None) {
            Ok(Some(value)) => (value != placeholder).then_some(value),
            _ => {
                self.depends_on_unknown = true;
                None
            }
        }
    }
}
