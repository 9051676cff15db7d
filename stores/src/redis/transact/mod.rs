//! The scripts of transactions, put together from `transact.lua` and the steps in `operations.lua`, `values.lua`,
//! `maps.lua`, `logs.lua` and `indexes.lua`.
//!
//! Transactions of one shape (the same steps with the same limits; see `encode.rs`) share a script that holds
//! the shape, so that it is neither sent nor interpreted again and again: the steps' code, one after the
//! other. All others are served by the general script: the same code as branches of a loop over the arguments.
//!
//! Redis never forgets a script, and a component may ask for whatever it likes. So only short transactions get
//! one for their shape, a store has only so many at a time and makes only so many in its life, and when it has them
//! all, a new one has to have been asked for more often of late than one of them. Nothing becomes part of a script
//! but what is written in this directory, and numbers.

pub(crate) mod encode;
pub(crate) mod key_set;
pub(crate) mod script_cache;

#[cfg(test)]
mod tests;

use std::{collections::HashMap, fmt::Write as _, slice, sync::Arc};

use self::{encode::RequestPart, script_cache::ScriptCache};
use crate::redis::scripts::{LuaScript, expand_fragments};

/// ScriptCache that have a script of their own at a time. The filter has about twenty.
pub(crate) const MOST_SHAPES: usize = 64;
/// Parts of a request that is short. An answer has 29.
const SHORT: usize = 64;
/// Arguments before those that the shape is about: writer, stamp, deadline, and what is wanted.
const LEADING: u64 = 4;
/// What begins a request after those: flags, how many logs, maps, indexes, leases and keys of values it names, and how
/// many of those keys it sets.
const HEADER: u64 = 7;
/// The code of all steps.
const STEPS: &str = concat!(
    include_str!("operations.lua"),
    include_str!("values.lua"),
    include_str!("maps.lua"),
    include_str!("logs.lua"),
    include_str!("indexes.lua")
);

pub(crate) struct TransactScripts {
    steps: StepTemplates,
    pub(crate) general: Arc<LuaScript>,
    shapes: ScriptCache,
}

/// A script, and whether it holds the shape of the request that it is for.
pub(crate) struct ChosenScript {
    pub(crate) script: Arc<LuaScript>,
    pub(crate) holds_shape: bool,
}

impl TransactScripts {
    pub(crate) fn new(most_shapes: usize) -> Self {
        let steps = StepTemplates::parse(STEPS);
        let general = Arc::new(LuaScript::new(&steps.general_script()));
        Self { steps, general, shapes: ScriptCache::new(most_shapes) }
    }

    pub(crate) fn choose_script(&self, parts: &[RequestPart]) -> ChosenScript {
        // These change another number of fields each time: no shape of theirs comes again.
        let changes_fields =
            |part: &RequestPart| matches!(part, RequestPart::Step("add-documents" | "remove-documents"));
        if parts.len() <= SHORT && !parts.iter().any(changes_fields) {
            let shape: Vec<_> = parts.iter().filter_map(|part| part.as_shape_part()).collect();
            if let Some(script) = self.shapes.script_for(shape, |shape| LuaScript::new(&self.steps.shape_script(shape)))
            {
                return ChosenScript { script, holds_shape: true };
            }
        }
        ChosenScript { script: self.general.clone(), holds_shape: false }
    }
}

/// The code of the steps, taken apart.
struct StepTemplates {
    steps: Vec<StepTemplate>,
}

/// An operation, an expectation, or a step on an index; or what one of them takes for each key.
struct StepTemplate {
    name: &'static str,
    parameters: Vec<Parameter>,
    probe: String,
    apply: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parameter {
    Key,
    Log,
    Map,
    Index,
    Limit(&'static str),
    Number(&'static str),
    Text(&'static str),
    Keys,
    Texts,
}

impl Parameter {
    fn parse(text: &'static str) -> Self {
        match text.split_once(' ') {
            Some(("limit", name)) => Self::Limit(name),
            Some(("number", name)) => Self::Number(name),
            Some((_, name)) => Self::Text(name),
            None if text == "key" => Self::Key,
            None if text == "log" => Self::Log,
            None if text == "map" => Self::Map,
            None if text == "index" => Self::Index,
            None if text == "keys" => Self::Keys,
            None => Self::Texts,
        }
    }
}

impl StepTemplates {
    fn parse(text: &'static str) -> Self {
        let (mut steps, mut fragments) = (Vec::<StepTemplate>::new(), HashMap::new());
        // What comes before the first heading is a comment.
        for section in text.split("\n--- ").skip(1) {
            let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
            match (heading.split_once(':'), steps.last_mut()) {
                (Some((name, parameters)), _) => {
                    let parameters = parameters.split(',').map(str::trim).filter(|text| !text.is_empty());
                    let parameters = parameters.map(Parameter::parse).collect();
                    steps.push(StepTemplate { name, parameters, probe: String::new(), apply: String::new() });
                }
                (None, Some(step)) if heading == "probe" => step.probe = body.to_owned(),
                (None, Some(step)) if heading == "apply" => step.apply = body.to_owned(),
                _ => _ = fragments.insert(heading.trim_start_matches("fragment "), body),
            }
        }
        for step in &mut steps {
            for code in [&mut step.probe, &mut step.apply] {
                *code = with_fragments(code, &fragments);
            }
        }
        Self { steps }
    }

    fn general_script(&self) -> String {
        let counted = ["flags", "log_count", "map_count", "index_count", "lease_count", "key_count", "set_count"];
        let mut header = String::new();
        for (name, index) in counted.iter().zip(LEADING + 1..) {
            _ = writeln!(header, "local {name} = tonumber(ARGV[{index}])");
        }
        _ = write!(
            header,
            "local precondition, writes, sliding, whole, renews, makes_room = \
             flags % 8, flags % 16 >= 8, flags % 32 >= 16, flags % 64 >= 32, flags % 128 >= 64, flags >= 128\n\
             local parts_at = {}\n\
             local keys_at = parts_at + log_count + map_count + index_count + lease_count",
            LEADING + HEADER
        );
        let branches = |code: fn(&StepTemplate) -> &str| {
            let mut text = "local i, last = keys_at + key_count + 1, #ARGV\nwhile i <= last do\n".to_owned();
            let mut keyword = "if";
            for step in &self.steps {
                let mut arguments = Looped { next: 1 };
                let bound = bind_parameters(&step.parameters, &mut arguments);
                let (name, code, end) = (step.name, code(step), arguments.end(step));
                _ = writeln!(text, "{keyword} ARGV[i] == '{name}' then\n{bound}i = {end}\n{code}");
                keyword = "elseif";
            }
            text + "else return redis.error_reply('ERR unknown operation') end\nend\n"
        };
        fill_frame(&header, &branches(|step| &step.probe), &branches(|step| &step.apply))
    }

    fn shape_script(&self, shape: &[RequestPart<'static>]) -> String {
        let mut numbers = shape.iter();
        let [flags, logs, maps, indexes, leases, keys, set] =
            [(); HEADER as usize].map(|()| next_shape_number(&mut numbers));
        let keys_at = LEADING + logs + maps + indexes + leases;
        let mut arguments = Straight { numbers, next: keys_at + keys + 1 };
        let (mut probes, mut operations) = (String::new(), String::new());
        while let Some(part) = arguments.numbers.next() {
            let step = self.steps.iter().find(|step| *part == RequestPart::Step(step.name));
            let Some(StepTemplate { parameters, probe, apply, .. }) = step else { continue };
            let bound = bind_parameters(parameters, &mut arguments);
            for (text, code) in [(&mut probes, probe), (&mut operations, apply)] {
                if !code.is_empty() {
                    _ = writeln!(text, "do\n{bound}{code}end");
                }
            }
        }
        let (precondition, writes, sliding) = (flags % 8, flags % 16 >= 8, flags % 32 >= 16);
        let (whole, renews, makes_room) = (flags % 64 >= 32, flags % 128 >= 64, flags >= 128);
        let header = format!(
            "local precondition, writes, sliding, whole, renews, makes_room = \
             {precondition}, {writes}, {sliding}, {whole}, {renews}, {makes_room}\n\
             local log_count, map_count, index_count, lease_count = {logs}, {maps}, {indexes}, {leases}\n\
             local key_count, set_count = {keys}, {set}\n\
             local parts_at, keys_at = {LEADING}, {keys_at}",
        );
        fill_frame(&header, &probes, &operations)
    }
}

/// The code with the fragments that it stands on, and those with theirs.
fn with_fragments(code: &str, fragments: &HashMap<&str, &str>) -> String {
    expand_fragments(code, |name| fragments.get(name).map(|text| with_fragments(text, fragments)))
}

/// The frame with what belongs into it.
fn fill_frame(header: &str, probes: &str, operations: &str) -> String {
    expand_fragments(include_str!("transact.lua"), |name| match name {
        "shape" => Some(header.to_owned()),
        "probes" => Some(probes.to_owned()),
        "operations" => Some(operations.to_owned()),
        _ => None,
    })
}

/// Where a step's parameters are, as Lua.
trait ArgumentSource {
    /// Of those that are the request's shape.
    fn fixed(&mut self) -> String;
    fn varying(&mut self) -> String;
    /// The index of the first text, and how many there are.
    fn texts(&mut self) -> (String, String);
    /// Code that makes `slots` of the places of keys.
    fn slots(&mut self) -> String;
}

fn bind_parameters(parameters: &[Parameter], arguments: &mut impl ArgumentSource) -> String {
    let bind = |parameter: &Parameter| match parameter {
        Parameter::Key => format!("local slot = {}\nlocal key = ARGV[keys_at + slot]\n", arguments.fixed()),
        Parameter::Log => format!("local log = logs[{}]\n", arguments.fixed()),
        Parameter::Map => format!("local map = maps[{}]\n", arguments.fixed()),
        Parameter::Index => format!("local index = indexes[{}]\n", arguments.fixed()),
        Parameter::Limit(name) => format!("local {name} = {}\n", arguments.fixed()),
        Parameter::Number(name) => format!("local {name} = tonumber({})\n", arguments.varying()),
        Parameter::Text(name) => format!("local {name} = {}\n", arguments.varying()),
        Parameter::Texts => {
            let (from, count) = arguments.texts();
            format!("local from, count = {from}, {count}\n")
        }
        Parameter::Keys => arguments.slots(),
    };
    parameters.iter().map(bind).collect()
}

/// All are arguments, behind the name of the step at `i`.
struct Looped {
    next: u64,
}

impl Looped {
    /// Where the next step begins.
    fn end(&self, step: &StepTemplate) -> String {
        let counted = match step.parameters.last() {
            Some(Parameter::Texts) => " + count",
            Some(Parameter::Keys) => " + #slots",
            _ => "",
        };
        format!("i + {}{counted}", self.next)
    }
}

impl ArgumentSource for Looped {
    fn fixed(&mut self) -> String {
        format!("tonumber({})", self.varying())
    }

    fn varying(&mut self) -> String {
        self.next += 1;
        format!("ARGV[i + {}]", self.next - 1)
    }

    fn texts(&mut self) -> (String, String) {
        let count = self.fixed();
        (format!("i + {}", self.next), count)
    }

    fn slots(&mut self) -> String {
        let (from, count) = self.texts();
        format!("local slots = {{}}\nfor j = 1, {count} do slots[j] = tonumber(ARGV[{from} + j - 1]) end\n")
    }
}

/// Numbers of the shape are in the text; the others follow each other as arguments.
struct Straight<'a> {
    numbers: slice::Iter<'a, RequestPart<'static>>,
    next: u64,
}

impl ArgumentSource for Straight<'_> {
    fn fixed(&mut self) -> String {
        next_shape_number(&mut self.numbers).to_string()
    }

    fn varying(&mut self) -> String {
        self.next += 1;
        format!("ARGV[{}]", self.next - 1)
    }

    fn texts(&mut self) -> (String, String) {
        let (from, count) = (self.next, next_shape_number(&mut self.numbers));
        self.next += count;
        (from.to_string(), count.to_string())
    }

    fn slots(&mut self) -> String {
        let count = next_shape_number(&mut self.numbers);
        let slots: Vec<_> = (0..count).map(|_| next_shape_number(&mut self.numbers).to_string()).collect();
        format!("local slots = {{ {} }}\n", slots.join(", "))
    }
}

/// The next part of a shape, which is a number there.
fn next_shape_number(parts: &mut slice::Iter<RequestPart<'static>>) -> u64 {
    match parts.next() {
        Some(RequestPart::Fixed(number)) => *number,
        _ => 0,
    }
}
