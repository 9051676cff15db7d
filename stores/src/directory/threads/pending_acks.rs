//! Answers that are committed and wait for the disk, and their distribution among syncs.
//!
//! A disk serves syncs side by side: one that begins while another is under way ends sooner than one that waits for
//! that to end. But each costs the machine about as much, whether it is for one answer or for fifty. So a sync begins
//! beside another when at least as many answers wait as the other one is for: on a slow disk, half of the writers
//! wait for one sync and half for the next, and on a fast one there is never a second.

use parking_lot::{Condvar, Mutex};

use super::shared::{ReplySender, WorkAnswer, store_closed};

/// An answer that waits for the disk.
#[derive(Debug)]
pub(crate) struct PendingAck {
    pub(crate) answer: WorkAnswer,
    pub(crate) reply: ReplySender,
}

#[derive(Debug, Default)]
pub(crate) struct PendingAcks {
    state: Mutex<PendingState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PendingState {
    waiting: Vec<PendingAck>,
    /// How many were taken, and are not yet [kept](PendingAcks::kept).
    syncing: usize,
    closed: bool,
}

impl PendingAcks {
    /// Adds those of one commit. Never waits.
    pub(crate) fn add_acks(&self, acks: Vec<PendingAck>) {
        if acks.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            acks.into_iter().for_each(|ack| _ = ack.reply.send(Err(store_closed())));
            return;
        }
        state.waiting.extend(acks);
        drop(state);
        self.changed.notify_one();
    }

    /// Waits until a sync is worth its while and takes all that it is for; none: there will be no more.
    pub(crate) fn wait_for_batch(&self) -> Option<Vec<PendingAck>> {
        let mut state = self.state.lock();
        loop {
            if let Some(acks) = state.take_batch() {
                return Some(acks);
            }
            if state.closed && state.waiting.is_empty() {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    /// So many that were taken need no sync any more.
    pub(crate) fn mark_synced(&self, count: usize) {
        let mut state = self.state.lock();
        state.syncing = state.syncing.saturating_sub(count);
        drop(state);
        self.changed.notify_all();
    }

    /// From now on nothing is taken in. What is there is still handed out.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Closes it and drops what is there: a thread that syncs has ended.
    pub(crate) fn abandon(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.changed.notify_all();
        drop(waiting);
    }
}

impl PendingState {
    fn take_batch(&mut self) -> Option<Vec<PendingAck>> {
        if self.waiting.is_empty() || self.waiting.len() < self.syncing {
            return None;
        }
        self.syncing = self.syncing.saturating_add(self.waiting.len());
        Some(std::mem::take(&mut self.waiting))
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn acks(count: usize) -> Vec<PendingAck> {
        (0..count).map(|_| PendingAck { answer: Box::new(()), reply: oneshot::channel().0 }).collect()
    }

    #[test]
    fn a_second_sync_starts_once_as_many_calls_wait_as_for_the_first() {
        let all = PendingAcks::default();
        let taken = || all.state.lock().take_batch().map(|acks| acks.len());
        assert_eq!(taken(), None);
        all.add_acks(acks(3));
        assert_eq!(taken(), Some(3));
        all.add_acks(acks(2));
        assert_eq!(taken(), None, "two wait for the sync that is for three");
        all.add_acks(acks(1));
        assert_eq!(taken(), Some(3));
        all.add_acks(acks(3));
        assert_eq!(taken(), None);
        all.mark_synced(3);
        assert_eq!(taken(), Some(3));
        all.add_acks(acks(1));
        all.mark_synced(3);
        all.mark_synced(3);
        assert_eq!(taken(), Some(1), "no sync is under way that it could wait for");
    }

    #[test]
    fn closing_hands_out_pending_acks_and_refuses_new_ones() {
        let all = PendingAcks::default();
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
