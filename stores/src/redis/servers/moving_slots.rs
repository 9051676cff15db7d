//! Slots of a cluster whose move from one node to another has stalled.
//!
//! Each is suspended like a failing server, so that its sessions don't hold up others for the whole time-out, entry after entry.
//! The nodes are not blamed, and all other slots are served as usual.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::{
    guard::breaker::{Breaker, BreakerOptions},
    redis::layout::HashSlot,
};

pub(crate) struct MovingSlots {
    options: BreakerOptions,
    /// At most as many as a cluster has slots.
    slots: Mutex<HashMap<u16, Arc<Breaker>>>,
}

impl MovingSlots {
    pub(crate) fn new(options: BreakerOptions) -> Self {
        // The first to wait in vain has waited for as long as a slot may take.
        let options = BreakerOptions { failures: 1, ..options };
        Self { options, slots: Mutex::default() }
    }

    /// None: as far as is known, it is where it belongs.
    pub(crate) fn get(&self, slot: HashSlot) -> Option<Arc<Breaker>> {
        self.slots.lock().get(&slot.0).cloned()
    }

    /// A request was not served because this one is on its way.
    pub(crate) fn mark_stuck(&self, slot: HashSlot) -> Arc<Breaker> {
        let mut slots = self.slots.lock();
        slots.entry(slot.0).or_insert_with(|| Arc::new(Breaker::new(self.options))).clone()
    }

    /// It has arrived.
    pub(crate) fn mark_served(&self, slot: HashSlot) {
        self.slots.lock().remove(&slot.0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    #[test]
    fn only_a_stuck_slot_is_left_alone_until_it_is_served_again() {
        let slots = MovingSlots::new(BreakerOptions { failures: 1000, cooldown: Duration::from_secs(60) });
        let may = |slot| slots.get(HashSlot(slot)).is_none_or(|breaker| breaker.admit(Instant::now()).is_some());
        assert!(may(7));
        slots.mark_stuck(HashSlot(7)).record_failure(Instant::now());
        assert!(!may(7) && may(8));
        slots.mark_served(HashSlot(8));
        assert!(!may(7));
        slots.mark_served(HashSlot(7));
        assert!(may(7));
        assert!(slots.slots.lock().is_empty());
    }
}
