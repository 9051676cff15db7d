//! The graph steps: stored views, and neighbours to a depth.
//!
//! Nodes and edges count while they are valid at the run's time: `valid_from` included, `valid_to` excluded.

use std::{cmp::Ordering, collections::BTreeMap, rc::Rc};

use indexmap::{IndexMap, IndexSet};

use super::{
    execution::{Execution, StepOutcome, too_much},
    reads::{Direction, Read},
    retrieval::{required, text, texts, whole},
};
use crate::{
    definition::Step,
    language::comparison::{Condition, Operator},
    steps::{StepFault, StepResult},
    value::items::{compare_for_sort, parse_instant},
    value::{Object, Value, field_of},
};

type Nodes = BTreeMap<Rc<str>, Value>;

impl Execution<'_> {
    pub(super) fn read_view(&mut self, step: &Step, params: &Object) -> StepOutcome {
        let Some(view) = self.view(step, params)? else {
            return Ok(None);
        };
        let Some(view) = view else {
            return Ok(Some(Value::list(Vec::new())));
        };
        let own = params.get("params").cloned().unwrap_or_default();
        let Some(mut rows) = self.run_view(step, &view, &own)? else {
            return Ok(None);
        };
        let filters = filters(params)?;
        rows.retain(|row| filters.iter().all(|filter| filter.holds(row)));
        Ok(Some(Value::list(rows)))
    }

    /// Without a view the items pass. With one it is run for each, whose members fill the view's placeholders.
    pub(super) fn expand_view(&mut self, step: &Step, params: &Object, items: Vec<Value>) -> StepOutcome {
        if text(params, "viewId")?.is_none() {
            return Ok(Some(Value::list(items)));
        }
        let Some(view) = self.view(step, params)? else {
            return Ok(None);
        };
        let Some(view) = view else {
            return Ok(Some(Value::list(items)));
        };
        let mut all = items.clone();
        let mut ids: IndexSet<Rc<str>> = items.iter().filter_map(id_of).collect();
        let mut waits = false;
        for item in items {
            let own = match params.get("params").and_then(Value::as_object) {
                Some(params) => with_members(params, &item),
                None => item,
            };
            match self.run_view(step, &view, &own)? {
                // The others are asked for in the same wait.
                None => waits = true,
                Some(rows) => all.extend(rows.into_iter().filter(|row| id_of(row).is_none_or(|id| ids.insert(id)))),
            }
            self.check_count(all.len())?;
        }
        Ok((!waits).then(|| Value::list(all)))
    }

    /// The seeds, then what is reached from them, by distance and id, each node once.
    pub(super) fn expand_neighbors(&mut self, step: &Step, params: &Object, items: Vec<Value>) -> StepOutcome {
        let kinds = texts(params, "edges")?;
        let depth = whole(params, "depth")?.unwrap_or(1);
        let directions = directions(params)?;
        let mut seen: IndexSet<Rc<str>> = items.iter().filter_map(seed_id).collect();
        if seen.is_empty() && !items.is_empty() {
            self.warn(&*step.path, "no item has an id to start from");
        }
        let mut frontier: Vec<Rc<str>> = seen.iter().cloned().collect();
        let mut reached = items;
        let Some(mut edges) = self.edges(step, &frontier, &directions)? else {
            return Ok(None);
        };
        for level in 1..=depth {
            let mut next: Vec<Rc<str>> = Vec::new();
            for (edge, direction) in &edges {
                let (from, to) = direction.ends();
                let is_ours = kinds.is_empty() || member(edge, "kind").is_some_and(|kind| kinds.contains(&kind));
                let starts = member(edge, from).is_some_and(|from| frontier.contains(&from));
                if let Some(to) = member(edge, to)
                    && is_ours
                    && starts
                    && seen.insert(Rc::clone(&to))
                {
                    next.push(to);
                }
            }
            if next.is_empty() {
                break;
            }
            next.sort();
            let nodes = self.nodes(step, &next)?;
            // In the same wait, whether or not all of these nodes are valid.
            let onward = if level < depth { self.edges(step, &next, &directions)? } else { Some(Vec::new()) };
            let (Some(nodes), Some(onward)) = (nodes, onward) else {
                return Ok(None);
            };
            frontier = nodes.keys().cloned().collect();
            reached.extend(nodes.into_values());
            self.check_count(reached.len())?;
            edges = onward;
        }
        Ok(Some(Value::list(reached)))
    }

    /// A stored view. `Some(None)`: it is not there, which is a warning.
    fn view(&mut self, step: &Step, params: &Object) -> StepResult<Option<Option<Value>>> {
        let id = required(params, "viewId")?;
        let Some(found) = self.read(step, Read::View { id: Rc::clone(&id) })? else {
            return Ok(None);
        };
        let view = found.and_then(|views| views.first().cloned());
        if view.is_none() {
            self.warn(&*step.path, format!("there is no view {id}"));
        }
        Ok(Some(view))
    }

    /// The rows of a view whose placeholders are filled from `own`, then from the run.
    fn run_view(&mut self, step: &Step, view: &Value, own: &Value) -> StepResult<Option<Vec<Value>>> {
        let Some(view) = self.resolve(view, Some(own))? else {
            return Ok(None);
        };
        let matched = view.member("match").and_then(Value::as_object).cloned().unwrap_or_default();
        let members = || matched.iter().map(|(name, value)| (Rc::clone(name), value.clone())).collect();
        let read = match matched.get("id") {
            Some(Value::Text(id)) => Read::Nodes { ids: vec![Rc::clone(id)] },
            _ => Read::MatchingNodes { members: members() },
        };
        let Some(found) = self.read(step, read)? else {
            return Ok(None);
        };
        let nodes = self.valid_nodes(found);
        let is_match = |node: &Value| matched.iter().all(|(field, wanted)| node.field(field) == Some(wanted));
        let mut rows: Vec<Value> = nodes.into_values().filter(is_match).collect();
        for pattern in view.member("patterns").and_then(Value::as_list).unwrap_or_default() {
            let Some(joined) = self.join_neighbors(step, rows, pattern)? else {
                return Ok(None);
            };
            rows = joined;
        }
        let conditions = conditions(view.member("where"), "where")?;
        rows.retain(|row| conditions.iter().all(|condition| condition.holds(row)));
        sort_rows(&mut rows, view.member("orderBy"))?;
        let count =
            |name: &str| view.member(name).and_then(Value::as_whole).and_then(|count| usize::try_from(count).ok());
        let rows = rows.into_iter().skip(count("skip").unwrap_or(0)).take(count("limit").unwrap_or(usize::MAX));
        let columns = view.member("return").map(columns).transpose()?;
        Ok(Some(rows.map(|row| columns.as_ref().map_or(row.clone(), |columns| pick(&row, columns))).collect()))
    }

    /// Each row with each of its neighbours along a pattern's edges, one row a pair.
    fn join_neighbors(&mut self, step: &Step, rows: Vec<Value>, pattern: &Value) -> StepResult<Option<Vec<Value>>> {
        let name = member(pattern, "as").unwrap_or_else(|| "neighbor".into());
        let kind = member(pattern, "edge");
        let directions = pattern.as_object().map(directions).transpose()?.unwrap_or_else(|| vec![Direction::Out]);
        let ids: Vec<_> = rows.iter().filter_map(id_of).collect();
        let Some(edges) = self.edges(step, &ids, &directions)? else {
            return Ok(None);
        };
        let mut neighbors: IndexMap<Rc<str>, IndexSet<Rc<str>>> = IndexMap::new();
        for (edge, direction) in edges {
            let (from, to) = direction.ends();
            let is_ours = kind.as_ref().is_none_or(|kind| member(&edge, "kind").as_ref() == Some(kind));
            if let (Some(from), Some(to), true) = (member(&edge, from), member(&edge, to), is_ours) {
                neighbors.entry(from).or_default().insert(to);
            }
        }
        let mut wanted: Vec<_> = neighbors.values().flatten().cloned().collect();
        wanted.sort();
        wanted.dedup();
        let Some(nodes) = self.nodes(step, &wanted)? else {
            return Ok(None);
        };
        let mut joined = Vec::new();
        for row in rows {
            let mut ends: Vec<_> = id_of(&row).and_then(|id| neighbors.get(&id)).into_iter().flatten().collect();
            ends.sort();
            for node in ends.into_iter().filter_map(|id| nodes.get(id)) {
                joined.push(with_member(&row, &name, node.clone()));
                self.check_count(joined.len())?;
            }
        }
        Ok(Some(joined))
    }

    /// Valid edges at these nodes, each with the direction in which it is followed.
    fn edges(
        &mut self,
        step: &Step,
        nodes: &[Rc<str>],
        directions: &[Direction],
    ) -> StepResult<Option<Vec<(Value, Direction)>>> {
        if nodes.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let (mut all, mut waits) = (Vec::new(), false);
        for direction in directions {
            match self.read(step, Read::Edges { nodes: nodes.to_vec(), direction: *direction })? {
                None => waits = true,
                Some(edges) => {
                    let edges = edges.unwrap_or_default();
                    all.extend(edges.iter().filter(|edge| self.is_valid(edge)).map(|edge| (edge.clone(), *direction)));
                }
            }
        }
        Ok((!waits).then_some(all))
    }

    /// Valid nodes of these ids, by id.
    fn nodes(&mut self, step: &Step, ids: &[Rc<str>]) -> StepResult<Option<Nodes>> {
        if ids.is_empty() {
            return Ok(Some(Nodes::new()));
        }
        let found = self.read(step, Read::Nodes { ids: ids.to_vec() })?;
        Ok(found.map(|nodes| self.valid_nodes(nodes)))
    }

    fn valid_nodes(&self, found: Option<Rc<Vec<Value>>>) -> Nodes {
        let nodes = found.unwrap_or_default();
        let valid = nodes.iter().filter(|node| self.is_valid(node));
        valid.filter_map(|node| Some((id_of(node)?, node.clone()))).collect()
    }

    fn is_valid(&self, thing: &Value) -> bool {
        let instant = |name| thing.member(name).and_then(Value::as_text).and_then(parse_instant);
        instant("valid_from").is_none_or(|from| from <= self.request.now)
            && instant("valid_to").is_none_or(|to| self.request.now < to)
    }

    fn check_count(&self, count: usize) -> StepResult<()> {
        let limit = self.request.limits.items;
        if count > limit {
            return Err(too_much("items", count, limit, "max_items"));
        }
        Ok(())
    }
}

fn member(thing: &Value, name: &str) -> Option<Rc<str>> {
    thing.member(name).and_then(Value::as_text).map(Rc::from)
}

fn id_of(node: &Value) -> Option<Rc<str>> {
    member(node, "id")
}

/// A seed is a node, or a text that is an id.
fn seed_id(item: &Value) -> Option<Rc<str>> {
    item.as_text().map(Rc::from).or_else(|| id_of(item))
}

fn with_member(row: &Value, name: &Rc<str>, value: Value) -> Value {
    let mut members = row.as_object().cloned().unwrap_or_default();
    members.insert(Rc::clone(name), value);
    Value::from(members)
}

/// An item's members, and those of the parameters in front of them.
fn with_members(params: &Object, item: &Value) -> Value {
    let mut members = item.as_object().cloned().unwrap_or_default();
    members.extend(params.iter().map(|(name, value)| (Rc::clone(name), value.clone())));
    Value::from(members)
}

fn directions(params: &Object) -> StepResult<Vec<Direction>> {
    match text(params, "direction")?.as_deref() {
        None | Some("out") => Ok(vec![Direction::Out]),
        Some("in") => Ok(vec![Direction::In]),
        Some("both") => Ok(vec![Direction::Out, Direction::In]),
        Some(other) => Err(StepFault::at("direction", format!("{other} is none of out, in and both"))),
    }
}

/// A list of conditions, or an object of equal values.
fn filters(params: &Object) -> StepResult<Vec<Condition>> {
    match params.get("filters") {
        Some(Value::Object(members)) => {
            let equal = |(field, value): (&Rc<str>, &Value)| Condition {
                field: field.to_string(),
                operator: Operator::Eq,
                value: value.clone(),
            };
            Ok(members.iter().map(equal).collect())
        }
        other => conditions(other, "filters"),
    }
}

/// `[{field, operator, value}]`.
fn conditions(list: Option<&Value>, member: &'static str) -> StepResult<Vec<Condition>> {
    let condition = |value: &Value| {
        let name = value.member("operator").and_then(Value::as_text).unwrap_or("eq");
        Some(Condition {
            field: value.member("field")?.as_text()?.to_owned(),
            operator: Operator::parse_filter(name)?,
            value: value.member("value").cloned().unwrap_or_default(),
        })
    };
    let conditions = list.and_then(Value::as_list).unwrap_or_default().iter().map(|value| {
        condition(value).ok_or_else(|| {
            StepFault::at(member, format!("{} is no condition of field, operator and value", value.to_json()))
        })
    });
    conditions.collect()
}

/// Rows stand in the order of their ids already, which decides where nothing else does.
fn sort_rows(rows: &mut [Value], order: Option<&Value>) -> StepResult<()> {
    let part = |value: &Value| match value {
        Value::Text(field) => Some((Rc::clone(field), false)),
        _ => Some((member(value, "field")?, value.member("direction").and_then(Value::as_text) == Some("desc"))),
    };
    let parts: Option<Vec<_>> = match order {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::List(parts)) => parts.iter().map(part).collect(),
        Some(one) => part(one).map(|part| vec![part]),
    };
    let parts = parts.ok_or_else(|| StepFault::new("the view's orderBy is no list of field and direction"))?;
    rows.sort_by(|one, two| {
        let orders = parts.iter().map(|(field, is_descending)| {
            // What has no value stands last, whatever the direction.
            match (one.field(field), two.field(field)) {
                (one @ Some(_), two @ Some(_)) if *is_descending => compare_for_sort(one, two),
                (one @ Some(_), two @ Some(_)) => compare_for_sort(two, one),
                (one, two) => two.is_some().cmp(&one.is_some()),
            }
        });
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    Ok(())
}

/// The columns that `return` names, each by the last part of its path.
fn columns(list: &Value) -> StepResult<Vec<(Rc<str>, Rc<str>)>> {
    let column = |path: &Value| {
        let path = path.as_text()?;
        Some((Rc::from(path.rsplit('.').next()?), Rc::from(path)))
    };
    let columns: Option<Vec<_>> = list.as_list().and_then(|list| list.iter().map(column).collect());
    columns.ok_or_else(|| StepFault::new("the view's return is no list of paths"))
}

fn pick(row: &Value, columns: &[(Rc<str>, Rc<str>)]) -> Value {
    let members = row.as_object();
    let picked = columns.iter().filter_map(|(name, path)| Some((Rc::clone(name), field_of(members?, path)?.clone())));
    Value::object(picked)
}
