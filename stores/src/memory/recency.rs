//! Which session was used longest ago: for a store that makes place for a new one by ending an old one.
//!
//! It costs nothing where that is not wanted, and one look-up for each use where it is, however many there are.

use std::sync::Arc;

use hashlink::LinkedHashSet;

use super::SessionLimitPolicy;

/// The sessions that are there, the one used longest ago first. None: nobody wants to know.
#[derive(Debug)]
pub(super) struct Recency(Option<LinkedHashSet<Arc<str>>>);

impl Recency {
    pub(super) fn new(policy: SessionLimitPolicy) -> Self {
        Self((policy == SessionLimitPolicy::Evict).then(LinkedHashSet::new))
    }

    pub(super) fn began(&mut self, session: &Arc<str>) {
        if let Some(order) = &mut self.0 {
            // At the end, wherever it was.
            order.insert(session.clone());
        }
    }

    pub(super) fn used(&mut self, session: &str) {
        if let Some(order) = &mut self.0 {
            order.to_back(session);
        }
    }

    pub(super) fn ended(&mut self, session: &str) {
        if let Some(order) = &mut self.0 {
            order.remove(session);
        }
    }

    /// The one used longest ago that is not the one at hand.
    pub(super) fn oldest_but(&self, at_hand: Option<&str>) -> Option<Arc<str>> {
        let mut oldest = self.0.as_ref()?.iter();
        oldest.find(|session| Some(&***session) != at_hand).cloned()
    }

    #[cfg(test)]
    pub(super) fn order(&self) -> Vec<Arc<str>> {
        self.0.iter().flatten().cloned().collect()
    }
}
