//! Rule engines: which memories a request calls for.

use std::rc::Rc;

use indexmap::IndexSet;
use keepline_options::bucket_names::is_definition_id;

use crate::{
    definition::{DefinitionLimits, Scope},
    finding::Finding,
    language::comparison::{Operator, compile_pattern},
    language::template,
    value::{Object, Value},
};

/// Rules that are asked together.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleEngine {
    pub id: Rc<str>,
    pub enabled: bool,
    /// Higher priority first, then as written.
    pub rules: Vec<Rule>,
    /// As it is stored.
    pub form: Value,
}

/// All conditions have to hold; then its memories are called for.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub id: Rc<str>,
    conditions: Vec<RuleCondition>,
    memories: Vec<Rc<str>>,
}

#[derive(Clone, Debug, PartialEq)]
struct RuleCondition {
    field: Lookup,
    operator: Operator,
    value: Value,
}

/// Where a rule looks.
#[derive(Clone, Debug, PartialEq)]
enum Lookup {
    Scope(Scope, Rc<str>),
    Additional(Rc<str>),
    InputText,
}

/// What rules are asked about.
#[derive(Clone, Copy, Debug)]
pub struct RuleInput<'a> {
    /// Variables by scope.
    pub scopes: &'a Object,
    pub additional_variables: &'a Object,
    pub input: &'a str,
}

/// A rule that held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedRule {
    pub engine: Rc<str>,
    pub rule: Rc<str>,
}

impl AppliedRule {
    /// As replies have it.
    pub fn to_value(&self) -> Value {
        let (engine, rule) = (Value::Text(Rc::clone(&self.engine)), Value::Text(Rc::clone(&self.rule)));
        Value::object([("engine_id", engine), ("rule_id", rule)])
    }
}

/// What a check of a rule engine came to.
#[derive(Debug)]
pub struct CheckedRules {
    pub findings: Vec<Finding>,
    /// None: it has errors.
    pub engine: Option<RuleEngine>,
}

/// Ask engines, in order. Each memory is named once, where it is first called for.
pub fn evaluate_rules(engines: &[Rc<RuleEngine>], input: RuleInput<'_>) -> (Vec<Rc<str>>, Vec<AppliedRule>) {
    let (mut memories, mut applied) = (Vec::new(), Vec::new());
    for engine in engines.iter().filter(|engine| engine.enabled) {
        for rule in &engine.rules {
            if !rule.conditions.iter().all(|condition| condition.holds(input)) {
                continue;
            }
            applied.push(AppliedRule { engine: Rc::clone(&engine.id), rule: Rc::clone(&rule.id) });
            for memory in &rule.memories {
                if !memories.contains(memory) {
                    memories.push(Rc::clone(memory));
                }
            }
        }
    }
    (memories, applied)
}

/// The fields that enabled engines look at, each once, in the order of their rules.
pub fn fields_of(engines: &[Rc<RuleEngine>]) -> Vec<String> {
    let rules = engines.iter().filter(|engine| engine.enabled).flat_map(|engine| &engine.rules);
    let fields = rules.flat_map(|rule| &rule.conditions).map(|condition| condition.field.name());
    fields.collect::<IndexSet<_>>().into_iter().collect()
}

impl Lookup {
    /// As rules have it.
    fn name(&self) -> String {
        match self {
            Self::Scope(scope, variable) => format!("scope.{}.{variable}", scope.name()),
            Self::Additional(name) => format!("addVar.{name}"),
            Self::InputText => "input.text".to_owned(),
        }
    }
}

impl RuleCondition {
    fn holds(&self, input: RuleInput<'_>) -> bool {
        let text;
        let found = match &self.field {
            Lookup::Scope(scope, variable) => input.scopes.get(scope.name()).and_then(|scope| scope.member(variable)),
            Lookup::Additional(name) => input.additional_variables.get(name),
            Lookup::InputText => {
                text = Value::from(input.input);
                (!input.input.is_empty()).then_some(&text)
            }
        };
        self.operator.holds(found, &self.value)
    }
}

/// The last two are CodeBolt's, and kept as they are given.
const MEMBERS: [&str; 7] = ["id", "name", "description", "enabled", "rules", "createdAt", "updatedAt"];

/// Check a rule engine as a whole.
pub fn check_rule_engine(value: &Value, limits: &DefinitionLimits) -> CheckedRules {
    let mut check = Check { findings: Vec::new(), most_characters: limits.pattern_characters };
    if !value.fits(limits.bytes) {
        check.error("", format!("a rule engine is over the limit of {} bytes (max_definition_bytes)", limits.bytes));
        return CheckedRules { findings: check.findings, engine: None };
    }
    let engine = check.engine(value);
    let has_errors = check.findings.iter().any(|finding| finding.is_error);
    CheckedRules { findings: check.findings, engine: engine.filter(|_| !has_errors) }
}

struct Check {
    findings: Vec<Finding>,
    /// Of a pattern.
    most_characters: usize,
}

impl Check {
    fn error(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.findings.push(Finding::error(path, message));
    }

    fn engine(&mut self, value: &Value) -> Option<RuleEngine> {
        let Some(members) = value.as_object() else {
            self.error("", format!("{} where a rule engine, an object, is required", value.kind()));
            return None;
        };
        let id = members.get("id").and_then(Value::as_text).unwrap_or_default();
        if !is_definition_id(id) {
            self.error("id", "an id of 1 to 128 of A-Z a-z 0-9 _ . - is required, which does not begin with a dot");
        }
        let enabled = match members.get("enabled") {
            None | Some(Value::Null) => true,
            Some(Value::Bool(enabled)) => *enabled,
            Some(other) => {
                self.error("enabled", format!("{} where true or false is required", other.kind()));
                true
            }
        };
        for name in members.keys().filter(|name| !MEMBERS.contains(&&***name)) {
            let message = format!("a rule engine has no such member; it has {}", MEMBERS.join(", "));
            self.findings.push(Finding::warning(&**name, message));
        }
        let mut rules = Vec::new();
        match members.get("rules") {
            Some(Value::List(list)) => {
                for (position, rule) in list.iter().enumerate() {
                    rules.extend(self.rule(rule, &format!("rules[{position}]")));
                }
            }
            _ => self.error("rules", "a list of rules is required"),
        }
        // The sort is stable: of equals, as written.
        rules.sort_by(|(one, _), (two, _): &(f64, Rule)| two.total_cmp(one));
        let rules = rules.into_iter().map(|(_, rule)| rule).collect();
        Some(RuleEngine { id: id.into(), enabled, rules, form: value.clone() })
    }

    fn rule(&mut self, value: &Value, path: &str) -> Option<(f64, Rule)> {
        if value.as_object().is_none() {
            self.error(path, format!("{} where a rule, an object, is required", value.kind()));
            return None;
        }
        let id = value.member("id").and_then(Value::as_text).filter(|id| !id.is_empty());
        if id.is_none() {
            self.error(format!("{path}.id"), "a text is required");
        }
        let priority = match value.member("priority") {
            None | Some(Value::Null) => Some(0.0),
            Some(priority) => priority.as_number(),
        };
        if priority.is_none() {
            self.error(format!("{path}.priority"), "a number is required");
        }
        let mut conditions = Vec::new();
        match value.member("when") {
            None | Some(Value::Null) => {}
            Some(Value::List(list)) => {
                for (position, condition) in list.iter().enumerate() {
                    conditions.extend(self.condition(condition, &format!("{path}.when[{position}]")));
                }
            }
            Some(other) => self.error(format!("{path}.when"), format!("{} where a list is required", other.kind())),
        }
        let memories = self.memories(value.member("then").and_then(|then| then.member("add_memories")), path);
        Some((priority?, Rule { id: id?.into(), conditions, memories }))
    }

    fn memories(&mut self, value: Option<&Value>, path: &str) -> Vec<Rc<str>> {
        let path = format!("{path}.then.add_memories");
        let list = value.and_then(Value::as_list).unwrap_or_default();
        if list.is_empty() {
            self.error(path, "a rule has to name memories");
            return Vec::new();
        }
        let mut memories = Vec::new();
        for (position, memory) in list.iter().enumerate() {
            match memory.as_text().filter(|id| is_definition_id(id)) {
                Some(id) => memories.push(id.into()),
                None => self.error(format!("{path}[{position}]"), format!("{} is no id of a memory", memory.to_json())),
            }
        }
        memories
    }

    fn condition(&mut self, value: &Value, path: &str) -> Option<RuleCondition> {
        let text = |name| value.member(name).and_then(Value::as_text);
        let field = text("field").and_then(lookup);
        if field.is_none() {
            let message =
                "one of scope.SCOPE.VARIABLE (a variable of that scope), addVar.NAME and input.text is required";
            self.error(format!("{path}.field"), message);
        }
        let operator = text("operator").and_then(Operator::parse_rule);
        if operator.is_none() {
            let message = format!("an operator is required: one of {}", Operator::rule_names().join(", "));
            self.error(format!("{path}.operator"), message);
        }
        let given = value.member("value");
        let fault = match operator? {
            Operator::Exists | Operator::NotExists => None,
            _ if given.is_none() => Some("a value to compare with is required".to_owned()),
            Operator::In | Operator::NotIn if given.is_some_and(|given| given.as_list().is_none()) => {
                Some("a list of values is required".to_owned())
            }
            Operator::Regex => match given.and_then(Value::as_text) {
                None => Some("a pattern, a text, is required".to_owned()),
                Some(pattern) if pattern.chars().count() > self.most_characters => Some(format!(
                    "a pattern of {} characters is over the limit of {} (max_pattern_characters)",
                    pattern.chars().count(),
                    self.most_characters
                )),
                Some(pattern) => compile_pattern(pattern).err(),
            },
            _ => None,
        };
        if let Some(message) = fault {
            self.error(format!("{path}.value"), message);
        }
        Some(RuleCondition { field: field?, operator: operator?, value: given.cloned().unwrap_or_default() })
    }
}

fn lookup(field: &str) -> Option<Lookup> {
    if field == "input.text" {
        return Some(Lookup::InputText);
    }
    if let Some(name) = field.strip_prefix("addVar.") {
        let is_name = template::whole_placeholder(&format!("${{{name}}}")).is_some() && !name.contains(['.', '-']);
        return is_name.then(|| Lookup::Additional(name.into()));
    }
    let (scope, variable) = field.strip_prefix("scope.")?.split_once('.')?;
    let scope = Scope::from_name(scope)?;
    scope.variables().contains(&variable).then(|| Lookup::Scope(scope, variable.into()))
}
