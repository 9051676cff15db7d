//! Leases: who may do something, until when.

use compact_str::CompactString;

use crate::{LeaseOperation, LeaseState};

/// What a lease takes beside its name and holder.
const LEASE_OVERHEAD: u64 = 96;

/// The leases of a bucket: a few.
#[derive(Debug, Default)]
pub(super) struct Leases(Vec<Lease>);

#[derive(Debug)]
struct Lease {
    name: CompactString,
    holder: CompactString,
    /// Milliseconds since 1970. At that instant it is free.
    ends_at: u64,
}

impl Leases {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn drop_outdated(&mut self, now_ms: u64) -> u64 {
        let before = self.cost();
        self.0.retain(|lease| lease.ends_at > now_ms);
        before.saturating_sub(self.cost())
    }

    /// How the lease stands for a holder.
    pub(super) fn state(&self, name: &str, holder: &str, now_ms: u64) -> LeaseState {
        match self.find(name, now_ms) {
            Some(lease) => LeaseState {
                held: lease.holder == holder,
                holder: lease.holder.to_string(),
                expires_in: lease.ends_at.saturating_sub(now_ms),
            },
            None => LeaseState { held: false, holder: String::new(), expires_in: 0 },
        }
    }

    /// Whether the step creates a lease, and by how many bytes the leases grow and shrink.
    pub(super) fn probe(&self, step: &LeaseOperation, now_ms: u64) -> (bool, u64, u64) {
        let cost = LEASE_OVERHEAD.saturating_add((step.lease.len() + step.holder.len()) as u64);
        match self.find(&step.lease, now_ms) {
            None if step.milliseconds > 0 => (true, cost, 0),
            Some(lease) if lease.holder == step.holder && step.milliseconds == 0 => (false, 0, cost),
            _ => (false, 0, 0),
        }
    }

    /// Take, renew or give back, if the step may. Those that have run out are [gone](Self::drop_outdated) before.
    pub(super) fn apply(&mut self, step: &LeaseOperation, now_ms: u64) {
        let ends_at = now_ms.saturating_add(step.milliseconds);
        match self.0.iter().position(|lease| lease.name == step.lease) {
            None if step.milliseconds > 0 => {
                let (name, holder) = (step.lease.as_str().into(), step.holder.as_str().into());
                self.0.push(Lease { name, holder, ends_at });
            }
            Some(place) if self.0.get(place).is_some_and(|lease| lease.holder == step.holder) => {
                if step.milliseconds == 0 {
                    self.0.swap_remove(place);
                } else if let Some(lease) = self.0.get_mut(place) {
                    lease.ends_at = ends_at;
                }
            }
            _ => {}
        }
    }

    fn find(&self, name: &str, now_ms: u64) -> Option<&Lease> {
        self.0.iter().find(|lease| lease.name == name && lease.ends_at > now_ms)
    }

    fn cost(&self) -> u64 {
        self.0.iter().map(Lease::cost).sum()
    }

    #[cfg(test)]
    pub(super) fn counted_cost(&self) -> u64 {
        self.cost()
    }
}

impl Lease {
    fn cost(&self) -> u64 {
        LEASE_OVERHEAD.saturating_add((self.name.len() + self.holder.len()) as u64)
    }
}
