//! Distributes answers that are committed and wait for the disk among syncs.
//!
//! A disk serves syncs side by side: one that begins while another is under way ends sooner than one that waits for
//! that to end. But each costs the machine about as much, whether it is for one answer or for fifty. So a sync begins
//! beside another when at least as many answers wait as the other one is for: on a slow disk, half of the writers
//! wait for one sync and half for the next, and on a fast one there is never a second.

use super::{
    queue::{DequeueOutcome, QueueState, WorkQueue},
    shared::{ReplySender, WorkAnswer, store_closed},
};

/// An answer that waits for the disk.
#[derive(Debug)]
pub(crate) struct PendingAck {
    pub(crate) answer: WorkAnswer,
    pub(crate) reply: ReplySender,
}

impl WorkQueue<PendingAck> {
    /// Adds those of one commit. Never waits.
    pub(crate) fn add_acks(&self, acks: Vec<PendingAck>) {
        if !acks.is_empty()
            && let Err(acks) = self.add_all(acks)
        {
            acks.into_iter().for_each(|ack| _ = ack.reply.send(Err(store_closed())));
        }
    }

    /// Waits until a sync is worth its while and takes all that it is for; none: there will be no more.
    pub(crate) fn wait_for_batch(&self) -> Option<Vec<PendingAck>> {
        match self.wait_until_taken(None, take_batch) {
            DequeueOutcome::Items(acks) => Some(acks),
            DequeueOutcome::TimedOut | DequeueOutcome::Closed => None,
        }
    }
}

fn take_batch(state: &mut QueueState<PendingAck>) -> Option<Vec<PendingAck>> {
    if state.items.is_empty() || state.items.len() < state.in_work {
        return None;
    }
    state.in_work = state.in_work.saturating_add(state.items.len());
    Some(state.items.drain(..).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    fn acks(count: usize) -> Vec<PendingAck> {
        (0..count).map(|_| PendingAck { answer: Box::new(()), reply: oneshot::channel().0 }).collect()
    }

    #[test]
    fn a_second_sync_starts_once_as_many_calls_wait_as_for_the_first() {
        let all = WorkQueue::new();
        let taken = || match all.wait_until_taken(Some(Duration::ZERO), take_batch) {
            DequeueOutcome::Items(acks) => Some(acks.len()),
            _ => None,
        };
        assert_eq!(taken(), None);
        all.add_acks(acks(3));
        assert_eq!(taken(), Some(3));
        all.add_acks(acks(2));
        assert_eq!(taken(), None, "two wait for the sync that is for three");
        all.add_acks(acks(1));
        assert_eq!(taken(), Some(3));
        all.add_acks(acks(3));
        assert_eq!(taken(), None);
        all.mark_done(3);
        assert_eq!(taken(), Some(3));
        all.add_acks(acks(1));
        all.mark_done(3);
        all.mark_done(3);
        assert_eq!(taken(), Some(1), "no sync is under way that it could wait for");
    }

    #[test]
    fn closing_hands_out_pending_acks_and_refuses_new_ones() {
        let all = WorkQueue::new();
        all.add_acks(acks(1));
        all.close();
        let (reply, answer) = oneshot::channel();
        let late = acks(1).into_iter().map(|PendingAck { answer, .. }| answer);
        all.add_acks(late.zip([reply]).map(|(answer, reply)| PendingAck { answer, reply }).collect());
        assert!(matches!(answer.blocking_recv(), Ok(Err(_))));
        assert_eq!(all.wait_for_batch().map(|acks| acks.len()), Some(1));
        assert!(all.wait_for_batch().is_none());
    }
}
