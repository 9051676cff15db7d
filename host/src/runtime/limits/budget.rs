//! A budget of one entry: nothing within the entry refills it.

/// So much an entry.
pub(in crate::runtime) struct Budget {
    of_entry: u64,
    full: u64,
    left: u64,
}

impl Budget {
    pub(in crate::runtime) fn new(full: u64) -> Self {
        Self { of_entry: full, full, left: full }
    }

    /// A new entry begins, or another call that may do the work of so many.
    pub(in crate::runtime) fn refill(&mut self, entries: u64) {
        self.full = self.of_entry.saturating_mul(entries);
        self.left = self.full;
    }

    /// Whether there was so much left. If not, nothing is.
    #[must_use]
    pub(in crate::runtime) fn try_spend(&mut self, amount: u64) -> bool {
        let left = self.left.checked_sub(amount);
        self.left = left.unwrap_or(0);
        left.is_some()
    }

    pub(in crate::runtime) fn left(&self) -> u64 {
        self.left
    }

    pub(in crate::runtime) fn full(&self) -> u64 {
        self.full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_was_overdrawn_is_empty_until_the_next_entry() {
        let mut budget = Budget::new(3);
        assert!(budget.try_spend(2) && budget.try_spend(1) && budget.try_spend(0));
        assert!(!budget.try_spend(1));
        budget.refill(1);
        assert!(!budget.try_spend(u64::MAX) && !budget.try_spend(1) && budget.left() == 0);
        budget.refill(2);
        assert!(budget.try_spend(6) && !budget.try_spend(1));
        budget.refill(1);
        assert!(!budget.try_spend(4));
    }
}
