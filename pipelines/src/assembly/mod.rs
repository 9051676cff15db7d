//! Assembles what memories contribute: by section and priority, each text once, within a budget of tokens.

mod budget;
mod request;

pub use request::{AssemblyRequest, RequestFault};

use std::{
    collections::{HashMap, hash_map::Entry},
    rc::Rc,
};

use indexmap::{IndexMap, IndexSet};

use crate::{
    definition::{Definition, ItemFormat, Priority, Section},
    finding::Finding,
    run::{Known, Progress, RunReport, RunRequest, Wanted, execute},
    steps::format_items,
    value::Value,
    value::items::{item_text, token_estimate},
};

/// What a memory contributes to a section.
#[derive(Clone, Debug, PartialEq)]
pub struct AssembledItem {
    pub text: Rc<str>,
    pub memory: Rc<str>,
    pub priority: Priority,
    tokens: usize,
}

/// What an assembly came to.
#[derive(Debug, Default)]
pub struct Assembly {
    /// In the order of the sections; those without items are left out.
    pub sections: IndexMap<Section, Vec<AssembledItem>>,
    /// Each memory that ran, in the order asked for.
    pub calls: Vec<(Rc<str>, RunReport)>,
    /// Memories left out before they ran, and warnings of those that did.
    pub warnings: Vec<(Rc<str>, Finding)>,
    pub token_estimate: usize,
    /// Whether the budget left anything out.
    pub truncated: bool,
    /// How each memory's items are written.
    formats: HashMap<Rc<str>, ItemFormat>,
    /// What each memory is called.
    labels: HashMap<Rc<str>, Rc<str>>,
}

/// How far an assembly came.
#[derive(Debug)]
pub enum AssemblyProgress {
    Done(Box<Assembly>),
    Waiting(Wanted),
}

/// Run memories together, and assemble what they give. All that they want is wanted at once.
pub fn assemble(
    memories: &[Rc<Definition>],
    request: &RunRequest,
    max_tokens: Option<usize>,
    known: &Known,
) -> AssemblyProgress {
    let (mut calls, mut wanted) = (Vec::new(), Wanted::default());
    for memory in memories {
        match execute(memory, request, known) {
            Progress::Done(report) => calls.push((memory, *report)),
            Progress::Waiting(more) => wanted.extend(more),
        }
    }
    if !wanted.is_empty() {
        return AssemblyProgress::Waiting(wanted);
    }
    let mut assembly = Assembly::default();
    let mut items = collect_items(&calls);
    if let Some(max_tokens) = max_tokens {
        assembly.truncated = budget::cut(&mut items, max_tokens);
    }
    assembly.token_estimate = items.iter().map(|(_, item)| item.tokens).sum();
    for (section, item) in items {
        assembly.sections.entry(section).or_default().push(item);
    }
    assembly.formats = calls.iter().map(|(memory, _)| (Rc::clone(&memory.id), memory.contribution.format)).collect();
    assembly.labels = calls.iter().map(|(memory, _)| (Rc::clone(&memory.id), Rc::clone(&memory.label))).collect();
    for (memory, report) in calls {
        let warnings = report.warnings.iter().map(|warning| (Rc::clone(&memory.id), warning.clone()));
        assembly.warnings.extend(warnings);
        assembly.calls.push((Rc::clone(&memory.id), report));
    }
    AssemblyProgress::Done(Box::new(assembly))
}

/// What each memory gives: in the order of sections, within one by priority, then as the memories were asked for. The same
/// text stays once: at the higher priority, then in the earlier call. Then each memory's `max_items` holds.
fn collect_items(calls: &[(&Rc<Definition>, RunReport)]) -> Vec<(Section, AssembledItem)> {
    let mut kept: HashMap<Rc<str>, (Priority, usize, usize)> = HashMap::new();
    let mut texts = Vec::new();
    for (call, (memory, report)) in calls.iter().enumerate() {
        if report.failure.is_some() {
            continue;
        }
        let priority = memory.contribution.priority;
        for (position, item) in report.items.iter().enumerate() {
            let text = item_text(item);
            match kept.entry(Rc::clone(&text)) {
                Entry::Vacant(entry) => _ = entry.insert((priority, call, position)),
                Entry::Occupied(mut entry) if entry.get().0 < priority => _ = entry.insert((priority, call, position)),
                Entry::Occupied(_) => continue,
            }
            texts.push((text, priority, call, position));
        }
    }
    texts.retain(|(text, priority, call, position)| kept.get(text) == Some(&(*priority, *call, *position)));
    let mut counts = vec![0; calls.len()];
    let mut items: Vec<_> = texts
        .into_iter()
        .filter_map(|(text, priority, call, _)| {
            let (memory, _) = calls.get(call)?;
            let count = counts.get_mut(call)?;
            *count += 1;
            if *count > memory.contribution.max_items.unwrap_or(usize::MAX) {
                return None;
            }
            let tokens = token_estimate(&text);
            Some((memory.contribution.section, AssembledItem { text, memory: Rc::clone(&memory.id), priority, tokens }))
        })
        .collect();
    items.sort_by(|(one, first), (two, second)| one.cmp(two).then(second.priority.cmp(&first.priority)));
    items
}

impl Assembly {
    /// As the members `context`, `trace` and `meta` of a reply.
    pub fn to_value(&self, rules_applied: &Value) -> Value {
        let texts = |texts: IndexSet<Rc<str>>| Value::list(texts.into_iter().map(Value::Text).collect());
        let (mut used, mut missing) = (IndexSet::new(), IndexSet::new());
        for (_, report) in &self.calls {
            used.extend(report.used_variables.iter().cloned());
            missing.extend(report.missing_variables.iter().cloned());
        }
        let calls = self.calls.iter().map(|(memory, report)| {
            let mut members = vec![
                ("memory_id", Value::Text(Rc::clone(memory))),
                ("success", Value::Bool(report.failure.is_none())),
                ("items", Value::from(report.items.len())),
            ];
            members.extend(report.failure.as_ref().map(|failure| ("error", failure.to_value())));
            Value::object(members)
        });
        let warnings = self.warnings.iter().map(|(memory, finding)| {
            let (path, message) = (Value::from(&*finding.path), Value::from(&*finding.message));
            Value::object([("memory_id", Value::Text(Rc::clone(memory))), ("path", path), ("message", message)])
        });
        let trace = Value::object([
            ("memory_calls", calls.collect::<Vec<_>>().into()),
            ("rules_applied", rules_applied.clone()),
            ("variables_used", texts(used)),
            ("missing_variables", texts(missing)),
            ("warnings", warnings.collect::<Vec<_>>().into()),
        ]);
        let meta = Value::object([
            ("token_estimate", Value::from(self.token_estimate)),
            ("total_items", Value::from(self.sections.values().map(Vec::len).sum::<usize>())),
            ("truncated", Value::Bool(self.truncated)),
        ]);
        Value::object([
            ("success", Value::Bool(true)),
            ("context", self.context()),
            ("text", self.text().into()),
            ("contributions", self.contributions()),
            ("trace", trace),
            ("meta", meta),
        ])
    }

    /// What each memory contributes, in the order of the sections: its items in the format of its contribution, its label,
    /// and its tokens.
    fn contributions(&self) -> Value {
        let of_memories = self.sections.iter().flat_map(|(section, items)| {
            let of_memories = items.chunk_by(|one, other| one.memory == other.memory);
            of_memories.filter_map(move |items| Some((section, items.first()?, items)))
        });
        let contributions = of_memories.map(|(section, first, items)| {
            let label = self.labels.get(&first.memory).cloned().unwrap_or_default();
            Value::object([
                ("memory_id", Value::Text(Rc::clone(&first.memory))),
                ("label", Value::Text(label)),
                ("section", section.name().into()),
                ("text", self.written(items).into()),
                ("tokens", Value::from(items.iter().map(|item| item.tokens).sum::<usize>())),
            ])
        });
        Value::list(contributions.collect())
    }

    /// Items of one memory, in the format of its contribution.
    fn written(&self, items: &[AssembledItem]) -> String {
        let format = items.first().and_then(|item| self.formats.get(&item.memory));
        let values: Vec<_> = items.iter().map(|item| Value::Text(Rc::clone(&item.text))).collect();
        format_items(&values, format.copied().unwrap_or(ItemFormat::BulletList))
    }

    /// The items as one text: under the name of each section, those of each memory in the format of its contribution.
    fn text(&self) -> String {
        let mut text = String::new();
        for (section, items) in &self.sections {
            let separator = if text.is_empty() { "" } else { "\n\n" };
            text.push_str(&[separator, "## ", &section.title()].concat());
            for of_memory in items.chunk_by(|one, other| one.memory == other.memory) {
                text.push('\n');
                text.push_str(&self.written(of_memory));
            }
        }
        text
    }

    /// The items by section.
    fn context(&self) -> Value {
        let item = |item: &AssembledItem| {
            let (text, memory) = (Value::Text(Rc::clone(&item.text)), Value::Text(Rc::clone(&item.memory)));
            Value::object([("text", text), ("memory_id", memory), ("priority", Value::from(item.priority.name()))])
        };
        let section = |(section, items): (&Section, &Vec<AssembledItem>)| {
            (section.name(), Value::list(items.iter().map(item).collect()))
        };
        Value::object(self.sections.iter().map(section))
    }
}
