//! Tracks the order in which sessions were last used, for a store that evicts the least recently used one.
//!
//! Costs nothing where the policy is to refuse, and else one look-up for each use, however many sessions there are.

use std::sync::Arc;

use hashlink::LinkedHashSet;

use super::SessionLimitPolicy;

/// The existing sessions, least recently used first. `None`: the policy does not evict.
#[derive(Debug)]
pub(super) struct SessionRecency(Option<LinkedHashSet<Arc<str>>>);

impl SessionRecency {
    pub(super) fn new(policy: SessionLimitPolicy) -> Self {
        Self((policy == SessionLimitPolicy::Evict).then(LinkedHashSet::new))
    }

    pub(super) fn insert_session(&mut self, session: &Arc<str>) {
        if let Some(order) = &mut self.0 {
            // At the end, wherever it was.
            order.insert(session.clone());
        }
    }

    pub(super) fn mark_used(&mut self, session: &str) {
        if let Some(order) = &mut self.0 {
            order.to_back(session);
        }
    }

    pub(super) fn remove_session(&mut self, session: &str) {
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
