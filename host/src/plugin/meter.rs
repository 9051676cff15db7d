//! Measures a component against its limits.

use super::error::PluginError;
use crate::sandbox::{Measure, Measured, PluginLimits};

/// Counts, and refuses what is over a limit.
pub(super) struct Meter<'a> {
    limits: &'a PluginLimits,
    found: Vec<(Measure, u64)>,
}

impl<'a> Meter<'a> {
    pub(super) fn new(limits: &'a PluginLimits) -> Self {
        Self { limits, found: Measure::ALL.iter().map(|measure| (*measure, 0)).collect() }
    }

    /// More of what is added up.
    pub(super) fn add_to_measure(&mut self, measure: Measure, more: u64) -> Result<(), PluginError> {
        let sum = self.slot(measure).map_or(0, |found| found.saturating_add(more));
        self.raise_measure(measure, sum)
    }

    /// One that counts if it is the largest so far.
    pub(super) fn raise_measure(&mut self, measure: Measure, value: u64) -> Result<(), PluginError> {
        if let Some(found) = self.slot(measure) {
            *found = (*found).max(value);
        }
        let limit = self.limits.of(measure);
        if value > limit {
            return Err(PluginError::TooLarge(Measured { measure, found: value, limit }));
        }
        Ok(())
    }

    pub(super) fn measured(&self) -> Vec<Measured> {
        let row = |(measure, found): &(Measure, u64)| {
            let limit = self.limits.of(*measure);
            Measured { measure: *measure, found: *found, limit }
        };
        self.found.iter().map(row).collect()
    }

    fn slot(&mut self, measure: Measure) -> Option<&mut u64> {
        self.found.iter_mut().find(|(of, _)| *of == measure).map(|(_, found)| found)
    }
}
