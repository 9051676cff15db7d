//! Definitions of memories: what they say, in one form, and how they are checked.
//!
//! A definition comes as JSON in the pipeline form, in the form of CodeBolt's SDK, or as YAML. The last two are rewritten as
//! the first, which alone is stored, run and exported.

mod names;
mod sdk;
mod step_specs;
mod validate;
mod yaml;

pub use names::{ItemFormat, Priority, Scope, Section, Status};
pub use step_specs::{STEP_SPECS, StepKind, StepSpec, describe_steps};

use std::rc::Rc;

use crate::{
    finding::Finding,
    value::{Object, Value},
};

/// How large definitions may be. Each is an option of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefinitionLimits {
    /// Bytes, as JSON or YAML.
    pub bytes: usize,
    /// Steps, with those of branches.
    pub steps: usize,
    /// Levels of steps.
    pub levels: usize,
    /// Characters of a pattern.
    pub pattern_characters: usize,
}

impl DefinitionLimits {
    /// What holds where nothing is configured.
    pub const DEFAULT: Self = Self { bytes: 256 << 10, steps: 100, levels: 8, pattern_characters: 1_000 };
}

impl Default for DefinitionLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A memory: how it finds, ranks, formats and places what a model should know.
#[derive(Clone, Debug)]
pub struct Definition {
    pub id: Rc<str>,
    pub label: Rc<str>,
    pub description: Rc<str>,
    pub version: Rc<str>,
    pub status: Status,
    pub scopes: Vec<Scope>,
    pub variables: Vec<AdditionalVariable>,
    pub steps: Vec<Step>,
    pub contribution: Contribution,
    /// As it is stored.
    pub form: Value,
}

/// A variable that a definition declares beside those of its scopes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdditionalVariable {
    pub name: Rc<str>,
    pub required: bool,
}

/// Where what a memory finds goes, and how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contribution {
    pub section: Section,
    pub priority: Priority,
    pub format: ItemFormat,
    pub max_items: Option<usize>,
    /// Of a `format` step that says nothing else.
    pub max_tokens: Option<usize>,
}

/// A step of a pipeline.
#[derive(Clone, Debug)]
pub struct Step {
    pub kind: StepKind,
    pub alias: Option<Rc<str>>,
    /// By their own names, whichever they were given by; without type, alias and branches.
    pub params: Object,
    pub then_steps: Vec<Self>,
    pub else_steps: Vec<Self>,
    /// `retrieval.pipeline[2].thenSteps[0]`.
    pub path: Rc<str>,
}

impl Step {
    /// What its result is called: its alias, else its type.
    pub fn name(&self) -> &str {
        self.alias.as_deref().unwrap_or_else(|| self.kind.name())
    }
}

/// The form in which a definition comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The pipeline form, or the SDK's.
    Json,
    Yaml,
}

/// What a check came to.
#[derive(Debug)]
pub struct Checked {
    /// Errors and warnings, in the order of the definition.
    pub findings: Vec<Finding>,
    /// None: it has errors.
    pub definition: Option<Definition>,
}

impl Checked {
    /// The errors alone.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.is_error)
    }

    /// The warnings alone.
    pub fn warnings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| !finding.is_error)
    }
}

/// Read a text as JSON, or YAML in its pipeline form.
///
/// # Errors
/// What is wrong with it.
pub fn parse_text(form: Form, text: &str, limits: &DefinitionLimits) -> Result<Value, String> {
    if text.len() > limits.bytes {
        let most = limits.bytes;
        return Err(format!(
            "a definition of {} bytes is over the limit of {most} bytes (max_definition_bytes)",
            text.len()
        ));
    }
    match form {
        Form::Json => Value::parse_input(text),
        Form::Yaml => {
            let value = yaml::parse(text).map_err(|error| format!("not YAML as it is read here: {error}"))?;
            value.check_depth().map(|()| yaml::to_pipeline_form(value))
        }
    }
}

/// Check a definition in either JSON form.
pub fn check(value: &Value, limits: &DefinitionLimits) -> Checked {
    if !value.fits(limits.bytes) {
        let message = format!("a definition is over the limit of {} bytes (max_definition_bytes)", limits.bytes);
        return Checked { findings: vec![Finding::error("", message)], definition: None };
    }
    validate::check(value, limits)
}
