//! Checks whether a transaction can be applied to a bucket, and by how much it would grow, before its first write.

use std::collections::HashMap;

use super::{
    Bucket, counter,
    indexes::index_cost,
    logs::{log_cost, records_cost},
    maps::{BucketMap, entry_cost, map_cost},
};
use crate::{
    AddDocumentsStep, AppendOperation, Failure, FailureCode, IndexStep, IndexedTransaction, Operation,
    ReplaceOldestOperation, RewriteOperation, SetOperation, failure,
    index::{check_above, group_into_runs},
    limits::{MAX_PARTS, MAX_VALUES, too_many_parts, too_many_values},
    names::VALUES,
};

/// What a transaction adds and takes away.
#[derive(Default)]
struct GrowthTally<'a> {
    bytes: i64,
    /// By how many entries each map grows, but for `values`.
    entries: HashMap<&'a str, i64>,
    /// Values that come into being.
    values: u64,
    /// Logs, indexes and leases that come into being.
    parts: u64,
}

impl<'a> GrowthTally<'a> {
    fn add_bytes(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add_unsigned(bytes);
    }

    fn subtract_bytes(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub_unsigned(bytes);
    }

    /// An entry with a text of that length, in the place of an old one if there is one.
    fn add_entry(&mut self, map: &'a str, key: &str, old: Option<&str>, length: usize) {
        self.add_bytes(entry_cost(key, length));
        match old {
            Some(old) => self.subtract_bytes(entry_cost(key, old.len())),
            None => self.adjust_entry_count(map, 1),
        }
        self.values += u64::from(old.is_none() && map == VALUES);
    }

    fn adjust_entry_count(&mut self, map: &'a str, by: i64) {
        if map != VALUES && by != 0 {
            let entries = self.entries.entry(map).or_default();
            *entries = entries.saturating_add(by);
        }
    }
}

/// Refuses to create more parts than a bucket may have. What the transaction removes makes no room for what it creates:
/// no order of steps is better than another. `before`: maps beside `values`, logs, indexes, and
/// leases not yet run out.
pub(crate) fn check_parts(before: u64, created: u64) -> Result<(), Failure> {
    if created > 0 && before.saturating_add(created) > MAX_PARTS { Err(too_many_parts()) } else { Ok(()) }
}

/// Refuses to create more values than a bucket may have, `before` being how many there are. What the transaction removes
/// makes no room here either.
pub(crate) fn check_values(before: u64, created: u64) -> Result<(), Failure> {
    if created > 0 && before.saturating_add(created) > MAX_VALUES { Err(too_many_values()) } else { Ok(()) }
}

/// Refuses to put more records in the place of the oldest than those are; `oldest` is how many of them there are.
pub(crate) fn check_replacement(step: &ReplaceOldestOperation, oldest: u64) -> Result<(), Failure> {
    if step.records.len() as u64 <= oldest {
        return Ok(());
    }
    let message = format!("{} records can't take the place of {oldest}", step.records.len());
    Err(failure(FailureCode::Invalid, &*step.log, message))
}

pub(crate) fn no_record_at(log: &str, position: u64) -> Failure {
    failure(FailureCode::Invalid, log, format!("the log {log} has no record at position {position}"))
}

impl Bucket {
    /// By how many bytes a transaction makes this bucket grow or shrink, or why it can't be applied.
    /// Each place is written once, so what a step writes to is still as it is now.
    ///
    /// # Errors
    /// `not-a-counter`, `counter-overflow`, `invalid`, `too-large`.
    pub(crate) fn probe_growth(&self, request: &IndexedTransaction, now_ms: u64) -> Result<i64, Failure> {
        let IndexedTransaction { lease, transaction, steps } = request;
        let mut growth = GrowthTally::default();
        transaction.operations.iter().try_for_each(|operation| self.probe_operation(operation, &mut growth))?;
        steps.iter().try_for_each(|step| self.probe_step(step, &mut growth))?;
        if let Some(lease) = lease {
            let (is_new, added, removed) = self.leases.probe_lease_growth(lease, now_ms);
            growth.parts += u64::from(is_new);
            growth.add_bytes(added);
            growth.subtract_bytes(removed);
        }
        let mut created = growth.parts;
        for (name, by) in &growth.entries {
            let before = self.maps.get(*name).map_or(0, BucketMap::len);
            let after = before.saturating_add_signed(*by);
            if before == 0 && after > 0 {
                growth.bytes = growth.bytes.saturating_add_unsigned(map_cost(name));
                created += 1;
            } else if before > 0 && after == 0 {
                growth.bytes = growth.bytes.saturating_sub_unsigned(map_cost(name));
            }
        }
        check_parts((self.maps.len() + self.logs.len() + self.indexes.len() + self.leases.len()) as u64, created)?;
        check_values(self.values.len(), growth.values)?;
        Ok(growth.bytes)
    }

    fn probe_operation<'a>(&self, operation: &'a Operation, growth: &mut GrowthTally<'a>) -> Result<(), Failure> {
        match operation {
            Operation::Set(set) => self.probe_set(set, growth),
            Operation::Add(add) => {
                let old = self.map(&add.map_name).get(&add.key).map(|text| &**text);
                let length = counter::counter_text_length(counter::add_to_counter(old, add)?);
                growth.add_entry(&add.map_name, &add.key, old, length);
            }
            Operation::Append(append) => self.probe_append(append, growth),
            Operation::ReplaceOldest(replace) => self.probe_replacement(replace, growth)?,
            Operation::Rewrite(rewrite) => self.probe_rewrite(rewrite, growth)?,
            Operation::Get(_)
            | Operation::GetAll(_)
            | Operation::Read(_)
            | Operation::ReadAt(_)
            | Operation::Describe(_) => {}
        }
        Ok(())
    }

    fn probe_step(&self, step: &IndexStep, growth: &mut GrowthTally<'_>) -> Result<(), Failure> {
        match step {
            IndexStep::AddDocuments(add) => self.probe_documents(add, growth)?,
            IndexStep::RemoveDocuments(remove) => {
                let runs = group_into_runs(&remove.positions);
                growth.subtract_bytes(self.index(&remove.index).removed_bytes(&runs));
            }
            IndexStep::Search(_) | IndexStep::ReadMarks(_) => {}
        }
        Ok(())
    }

    fn probe_set<'a>(&self, set: &'a SetOperation, growth: &mut GrowthTally<'a>) {
        let map = self.map(&set.map_name);
        if set.reset {
            growth.subtract_bytes(map.cost());
            growth.adjust_entry_count(&set.map_name, 0_i64.saturating_sub_unsigned(map.len()));
            for entry in &set.put {
                growth.values += u64::from(set.map_name == VALUES && map.get(&entry.key).is_none());
                growth.add_bytes(entry_cost(&entry.key, entry.text.len()));
            }
            growth.adjust_entry_count(&set.map_name, 0_i64.saturating_add_unsigned(set.put.len() as u64));
            return;
        }
        for key in &set.remove {
            if let Some(text) = map.get(key) {
                growth.subtract_bytes(entry_cost(key, text.len()));
                growth.adjust_entry_count(&set.map_name, -1);
            }
        }
        for entry in &set.put {
            self.probe_entry(&set.map_name, &entry.key, entry.text.len(), growth);
        }
    }

    fn probe_entry<'a>(&self, map: &'a str, key: &str, length: usize, growth: &mut GrowthTally<'a>) {
        growth.add_entry(map, key, self.map(map).get(key).map(|text| &**text), length);
    }

    fn probe_append<'a>(&self, append: &'a AppendOperation, growth: &mut GrowthTally<'a>) {
        let AppendOperation { log: name, reset, records, marks } = append;
        let log = self.log(name);
        if *reset {
            growth.subtract_bytes(log.cost());
        }
        if !records.is_empty() && !self.logs.contains_key(&**name) {
            growth.add_bytes(log_cost(name));
            growth.parts += 1;
        }
        growth.add_bytes(records_cost(records));
        let next = log.next();
        for mark in marks {
            let length = counter::count_decimal_digits(next.saturating_add(mark.record_index.into()));
            self.probe_entry(&mark.map_name, &mark.key, length, growth);
        }
    }

    fn probe_replacement(&self, step: &ReplaceOldestOperation, growth: &mut GrowthTally<'_>) -> Result<(), Failure> {
        let log = self.log(&step.log);
        let oldest = log.count_replaceable(step.count);
        check_replacement(step, oldest as u64)?;
        growth.add_bytes(records_cost(&step.records));
        growth.subtract_bytes(log.cost_of_oldest(oldest));
        Ok(())
    }

    fn probe_documents(&self, step: &AddDocumentsStep, growth: &mut GrowthTally<'_>) -> Result<(), Failure> {
        if !step.documents.is_empty() && !self.indexes.contains_key(&*step.index) {
            growth.add_bytes(index_cost(&step.index));
            growth.parts += 1;
        }
        let index = self.index(&step.index);
        check_above(step, index.extent().next)?;
        growth.add_bytes(index.added_bytes(&step.documents));
        Ok(())
    }

    fn probe_rewrite(&self, step: &RewriteOperation, growth: &mut GrowthTally<'_>) -> Result<(), Failure> {
        let log = self.log(&step.log);
        for record in &step.records {
            let old = log.record_at(record.position);
            let old = old.ok_or_else(|| no_record_at(&step.log, record.position))?;
            growth.add_bytes(record.text.len() as u64);
            growth.subtract_bytes(old.len() as u64);
        }
        Ok(())
    }
}
