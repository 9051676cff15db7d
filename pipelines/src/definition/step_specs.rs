//! The 21 types of steps with their parameters: one table, from which they are checked and described.

use keepline_options::registered_names;

use crate::value::Value;

registered_names! {
    /// The type of a step.
    StepKind {
        DeriveQuery = "derive_query",
        RewriteQuery = "rewrite_query",
        VectorSearch = "vector_search",
        GraphViewRead = "graph_view_read",
        KvGet = "kv_get",
        LogSearch = "log_search",
        GraphViewExpand = "graph_view_expand",
        GraphNeighborExpand = "graph_neighbor_expand",
        Filter = "filter",
        Deduplicate = "deduplicate",
        GroupBy = "group_by",
        ReduceLatest = "reduce_latest",
        Merge = "merge",
        Rank = "rank",
        Score = "score",
        Summarize = "summarize",
        Format = "format",
        Annotate = "annotate",
        Conditional = "conditional",
        EarlyExit = "early_exit",
        Custom = "custom",
    }
}

/// What a parameter may be. A text that is one placeholder may stand for any of them, but for conditions and branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamType {
    Any,
    Text,
    /// A list of texts, or one text.
    Texts,
    /// A whole number from 1.
    Whole,
    /// 0 to 1.
    Share,
    Object,
    /// An object of numbers.
    Weights,
    /// An earlier step.
    Source,
    /// `intent`, a field of the intent, or an earlier step.
    QuerySource,
    /// A list of earlier steps.
    Sources,
    Choice(&'static [&'static str]),
    /// Comparisons joined by AND.
    Where,
    Condition,
    /// A list of steps.
    Steps,
    /// An instant, or a time before now.
    Since,
    /// A time such as `1h`.
    Window,
    Template,
    /// A list of conditions, or an object of equal values.
    Filters,
    /// A path within the project.
    ProjectPath,
}

/// A parameter of a step.
#[derive(Clone, Copy, Debug)]
pub struct ParamSpec {
    pub name: &'static str,
    pub alias: Option<&'static str>,
    pub required: bool,
    pub kind: ParamType,
}

/// A type of steps.
#[derive(Clone, Copy, Debug)]
pub struct StepSpec {
    pub kind: StepKind,
    pub category: &'static str,
    pub params: &'static [ParamSpec],
}

const fn optional(name: &'static str, kind: ParamType) -> ParamSpec {
    ParamSpec { name, alias: None, required: false, kind }
}

const fn required(name: &'static str, kind: ParamType) -> ParamSpec {
    ParamSpec { name, alias: None, required: true, kind }
}

const fn aliased(spec: ParamSpec, alias: &'static str) -> ParamSpec {
    ParamSpec { alias: Some(alias), ..spec }
}

const fn step(kind: StepKind, category: &'static str, params: &'static [ParamSpec]) -> StepSpec {
    StepSpec { kind, category, params }
}

use ParamType::{
    Any, Choice, Condition, Filters, Object, ProjectPath, QuerySource, Share, Since, Source, Sources, Steps, Template,
    Text, Texts, Weights, Where, Whole, Window,
};

/// The operators of the `filter` step.
pub const FILTER_OPERATORS: &[&str] =
    &["eq", "neq", "gt", "lt", "gte", "lte", "contains", "startsWith", "endsWith", "in", "exists"];

const SOURCE: ParamSpec = optional("source", Source);
const TOP_K: ParamSpec = aliased(optional("topK", Whole), "top_k");
const VIEW: ParamSpec = aliased(optional("viewId", Text), "view");

/// Every type of step, by category.
pub const STEP_SPECS: [StepSpec; 21] = [
    step(
        StepKind::DeriveQuery,
        "input",
        &[
            optional("source", QuerySource),
            optional("from", QuerySource),
            optional("fields", Texts),
            optional("strategy", Choice(&["template", "concat"])),
            optional("template", Text),
            optional("method", Choice(&["passthrough", "llm_rephrase", "keyword_extract"])),
        ],
    ),
    step(StepKind::RewriteQuery, "input", &[SOURCE]),
    step(
        StepKind::VectorSearch,
        "retrieval",
        &[
            aliased(required("collection", Text), "index"),
            TOP_K,
            aliased(optional("minScore", Share), "min_score"),
            optional("query", Text),
            optional("query_from", Source),
        ],
    ),
    step(
        StepKind::GraphViewRead,
        "retrieval",
        &[aliased(required("viewId", Text), "view"), optional("params", Object), optional("filters", Filters)],
    ),
    step(
        StepKind::KvGet,
        "retrieval",
        &[required("instance", Text), required("namespace", Text), required("keys", Texts)],
    ),
    step(
        StepKind::LogSearch,
        "retrieval",
        &[
            required("instance", Text),
            optional("eventType", Text),
            optional("eventTypes", Texts),
            aliased(optional("limit", Whole), "lastCount"),
            optional("since", Since),
            optional("window", Window),
            optional("streamId", Text),
            optional("fields", Object),
            optional("query", Text),
        ],
    ),
    step(StepKind::GraphViewExpand, "expansion", &[SOURCE, VIEW, optional("params", Object)]),
    step(
        StepKind::GraphNeighborExpand,
        "expansion",
        &[
            SOURCE,
            optional("seed_from", Source),
            optional("edges", Texts),
            optional("depth", Whole),
            optional("direction", Choice(&["out", "in", "both"])),
        ],
    ),
    step(
        StepKind::Filter,
        "filter",
        &[
            SOURCE,
            optional("where", Where),
            optional("field", Text),
            optional("operator", Choice(FILTER_OPERATORS)),
            optional("value", Any),
        ],
    ),
    step(StepKind::Deduplicate, "filter", &[SOURCE, required("field", Text)]),
    step(StepKind::GroupBy, "aggregation", &[SOURCE, required("field", Text)]),
    step(StepKind::ReduceLatest, "aggregation", &[SOURCE, required("entityField", Text), optional("sortField", Text)]),
    step(
        StepKind::Merge,
        "aggregation",
        &[
            required("sources", Sources),
            optional("strategy", Choice(&["concat", "interleave", "unique"])),
            optional("uniqueField", Text),
        ],
    ),
    step(
        StepKind::Rank,
        "ranking",
        &[
            SOURCE,
            aliased(optional("strategy", Choice(&["score_desc", "recency", "relevance"])), "method"),
            TOP_K,
            optional("by", Text),
            optional("weight", Weights),
        ],
    ),
    step(StepKind::Score, "ranking", &[SOURCE, required("weights", Weights), TOP_K]),
    step(StepKind::Summarize, "transform", &[SOURCE, optional("max_items", Whole)]),
    step(
        StepKind::Format,
        "transform",
        &[
            SOURCE,
            optional("format", Choice(&["bullet_list", "numbered", "prose", "json", "markdown"])),
            optional("template", Template),
            aliased(optional("maxTokens", Whole), "max_tokens"),
        ],
    ),
    step(StepKind::Annotate, "transform", &[SOURCE, optional("label", Any)]),
    step(
        StepKind::Conditional,
        "control",
        &[required("condition", Condition), optional("thenSteps", Steps), optional("elseSteps", Steps)],
    ),
    step(StepKind::EarlyExit, "control", &[required("condition", Condition)]),
    step(
        StepKind::Custom,
        "custom",
        &[
            SOURCE,
            optional("handler", Text),
            optional("actionBlockPath", ProjectPath),
            optional("inlineCode", Text),
            optional("params", Object),
        ],
    ),
];

impl StepKind {
    /// Its entry in the table.
    pub fn spec(self) -> &'static StepSpec {
        let found = STEP_SPECS.iter().find(|spec| spec.kind == self);
        found.unwrap_or(const { &STEP_SPECS[0] })
    }
}

impl StepSpec {
    /// The parameter of that name, or other name.
    pub fn param(&self, name: &str) -> Option<&'static ParamSpec> {
        self.params.iter().find(|param| param.name == name || param.alias == Some(name))
    }
}

/// The types of steps with their parameters, as replies have them. Those that users configure are all but `custom`.
pub fn describe_steps(only_configurable: bool) -> Value {
    let specs = STEP_SPECS.iter().filter(|spec| !only_configurable || spec.kind != StepKind::Custom);
    let described = specs.map(|spec| {
        let params = spec.params.iter().map(|param| {
            let mut members = vec![("name", param.name.into()), ("required", Value::Bool(param.required))];
            members.extend(param.alias.map(|alias| ("alias", alias.into())));
            if let Choice(choices) = param.kind {
                members.push(("values", choices.iter().map(|choice| Value::from(*choice)).collect::<Vec<_>>().into()));
            }
            Value::object(members)
        });
        Value::object([
            ("type", spec.kind.name().into()),
            ("category", spec.category.into()),
            ("params", params.collect::<Vec<_>>().into()),
        ])
    });
    described.collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::comparison::Operator;

    #[test]
    fn every_type_stands_in_the_table_once() {
        for kind in StepKind::ALL {
            assert_eq!(STEP_SPECS.iter().filter(|spec| spec.kind == *kind).count(), 1, "{}", kind.name());
            assert_eq!(kind.spec().kind, *kind);
        }
    }

    #[test]
    fn the_operators_are_those_of_the_filter() {
        assert!(FILTER_OPERATORS.iter().all(|name| Operator::parse_filter(name).is_some()));
        assert_eq!(FILTER_OPERATORS.len(), Operator::filter_names().len());
    }
}
