//! Idle instances, the most recently used first.

use std::collections::VecDeque;

use super::super::instance::PluginInstance;

/// The one that came last is taken first, so that those which are not needed collect at
/// the other end, where they are dropped, one a call.
pub(super) struct Idle {
    instances: VecDeque<PluginInstance>,
    /// Calls since the last look at what was needed.
    calls: u32,
    /// The fewest that were at rest at one time since: as many were not needed.
    fewest: usize,
    /// How many are to be dropped.
    surplus: usize,
}

impl Idle {
    /// Calls in which an instance that none of them needs is found out.
    const PERIOD: u32 = 1000;

    pub(super) fn with_instance(instance: PluginInstance) -> Self {
        Self { instances: VecDeque::from([instance]), calls: 0, fewest: 0, surplus: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.instances.len()
    }

    /// The newest that fits.
    pub(super) fn take_newest(&mut self, fits: impl FnMut(&PluginInstance) -> bool) -> Option<PluginInstance> {
        let newest = self.instances.iter().rposition(fits);
        let instance = newest.and_then(|at| self.instances.remove(at));
        self.fewest = self.fewest.min(self.instances.len());
        if instance.is_none() {
            self.surplus = 0;
        }
        instance
    }

    pub(super) fn oldest(&mut self) -> Option<PluginInstance> {
        let instance = self.instances.pop_front();
        self.fewest = self.fewest.min(self.instances.len());
        instance
    }

    /// Returns one that is not needed any more.
    pub(super) fn give_back(&mut self, instance: PluginInstance) -> Option<PluginInstance> {
        self.instances.push_back(instance);
        self.calls += 1;
        if self.calls >= Self::PERIOD {
            (self.calls, self.surplus, self.fewest) = (0, self.fewest, self.instances.len());
        }
        self.surplus = self.surplus.checked_sub(1)?;
        let surplus = self.instances.pop_front();
        self.fewest = self.fewest.min(self.instances.len());
        surplus
    }

    pub(super) fn empty(&mut self) -> VecDeque<PluginInstance> {
        (self.fewest, self.surplus) = (0, 0);
        std::mem::take(&mut self.instances)
    }
}
