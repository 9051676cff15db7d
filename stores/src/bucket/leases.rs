//! Leases: each is held by at most one holder at a time, until it runs out.

use compact_str::CompactString;

use crate::{LeaseRequest, LeaseState, limits::PIECE_BYTES};

/// What a request does to a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseChange {
    /// It is the holder's now, and was free.
    Taken,
    /// It stays the holder's, until another instant.
    Renewed,
    GivenBack,
    Unchanged,
}

/// What a request does to a lease, given its present holder, if any.
pub(crate) fn lease_change(holder: Option<&str>, request: &LeaseRequest) -> LeaseChange {
    match holder {
        None if request.milliseconds > 0 => LeaseChange::Taken,
        Some(holder) if holder == request.holder && request.milliseconds == 0 => LeaseChange::GivenBack,
        Some(holder) if holder == request.holder => LeaseChange::Renewed,
        _ => LeaseChange::Unchanged,
    }
}

/// How a lease stands for a holder; `found` is who has it, and until when.
pub(crate) fn lease_state(found: Option<(&str, u64)>, holder: &str, now_ms: u64) -> LeaseState {
    match found {
        Some((has_it, ends_at)) => {
            LeaseState { held: has_it == holder, holder: has_it.to_owned(), expires_in: ends_at.saturating_sub(now_ms) }
        }
        None => LeaseState { held: false, holder: String::new(), expires_in: 0 },
    }
}

/// The leases of a bucket: a few.
#[derive(Debug, Default)]
pub(super) struct LeaseTable(Vec<Lease>);

#[derive(Debug)]
struct Lease {
    name: CompactString,
    holder: CompactString,
    /// Milliseconds since 1970. At that instant it is free.
    ends_at: u64,
}

impl LeaseTable {
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
        lease_state(self.find_active(name, now_ms).map(|lease| (&*lease.holder, lease.ends_at)), holder, now_ms)
    }

    /// Whether the request creates a lease, and by how many bytes the leases grow and shrink.
    pub(super) fn probe_lease_growth(&self, request: &LeaseRequest, now_ms: u64) -> (bool, u64, u64) {
        let cost = PIECE_BYTES.saturating_add((request.name.len() + request.holder.len()) as u64);
        match lease_change(self.find_active(&request.name, now_ms).map(|lease| &*lease.holder), request) {
            LeaseChange::Taken => (true, cost, 0),
            LeaseChange::GivenBack => (false, 0, cost),
            LeaseChange::Renewed | LeaseChange::Unchanged => (false, 0, 0),
        }
    }

    /// Take, renew or give back, if the request may. Those that have run out are [gone](Self::drop_outdated) before.
    pub(super) fn apply(&mut self, request: &LeaseRequest, now_ms: u64) {
        let ends_at = now_ms.saturating_add(request.milliseconds);
        let found = self.0.iter_mut().find(|lease| lease.name == request.name);
        match (lease_change(found.as_ref().map(|lease| &*lease.holder), request), found) {
            (LeaseChange::Taken, _) => {
                let (name, holder) = (request.name.as_str().into(), request.holder.as_str().into());
                self.0.push(Lease { name, holder, ends_at });
            }
            (LeaseChange::Renewed, Some(lease)) => lease.ends_at = ends_at,
            (LeaseChange::GivenBack, _) => self.0.retain(|lease| lease.name != request.name),
            _ => {}
        }
    }

    fn find_active(&self, name: &str, now_ms: u64) -> Option<&Lease> {
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
        PIECE_BYTES.saturating_add((self.name.len() + self.holder.len()) as u64)
    }
}
