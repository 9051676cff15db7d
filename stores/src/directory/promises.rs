//! Answers that are committed and wait for the disk, and how they are shared out among syncs.
//!
//! A disk serves syncs side by side: one that begins while another is under way is through sooner than one that waits for
//! that to end. But each costs the machine about as much, whether it is for one answer or for fifty. So a sync begins
//! beside another when at least as many answers wait as the other one is for: on a slow disk, half of those who write
//! wait for one sync and half for the next, and on a fast one there is never a second.

use parking_lot::{Condvar, Mutex};

use super::shared::{Answer, Reply, ended};

/// An answer that waits for the disk.
#[derive(Debug)]
pub(super) struct Promise {
    pub(super) answer: Answer,
    pub(super) reply: Reply,
}

#[derive(Debug, Default)]
pub(super) struct Promises {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Promise>,
    /// How many were taken, and are not yet [kept](Promises::kept).
    syncing: usize,
    closed: bool,
}

impl Promises {
    /// Adds those of one commit. Never waits.
    pub(super) fn add(&self, promises: Vec<Promise>) {
        if promises.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            promises.into_iter().for_each(|promise| _ = promise.reply.send(Err(ended())));
            return;
        }
        state.waiting.extend(promises);
        drop(state);
        self.changed.notify_one();
    }

    /// Waits until a sync is worth its while and takes all that it is for; none: there will be no more.
    pub(super) fn take(&self) -> Option<Vec<Promise>> {
        let mut state = self.state.lock();
        loop {
            if let Some(promises) = state.take() {
                return Some(promises);
            }
            if state.closed && state.waiting.is_empty() {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    /// So many that were taken need no sync any more.
    pub(super) fn kept(&self, count: usize) {
        let mut state = self.state.lock();
        state.syncing = state.syncing.saturating_sub(count);
        drop(state);
        self.changed.notify_all();
    }

    /// From now on nothing is taken in. What is there is still handed out.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Closes it and drops what is there: a thread that syncs has ended.
    pub(super) fn abandon(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.changed.notify_all();
        drop(waiting);
    }
}

impl State {
    fn take(&mut self) -> Option<Vec<Promise>> {
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
    use crate::BucketPage;

    fn promises(count: usize) -> Vec<Promise> {
        let page = || BucketPage { names: Vec::new(), cursor: String::new() };
        (0..count).map(|_| Promise { answer: Answer::Page(page()), reply: oneshot::channel().0 }).collect()
    }

    #[test]
    fn a_sync_begins_beside_another_when_as_many_wait_for_it() {
        let all = Promises::default();
        let taken = || all.state.lock().take().map(|promises| promises.len());
        assert_eq!(taken(), None);
        all.add(promises(3));
        assert_eq!(taken(), Some(3));
        all.add(promises(2));
        assert_eq!(taken(), None, "two wait for the sync that is for three");
        all.add(promises(1));
        assert_eq!(taken(), Some(3));
        all.add(promises(3));
        assert_eq!(taken(), None);
        all.kept(3);
        assert_eq!(taken(), Some(3));
        all.add(promises(1));
        all.kept(3);
        all.kept(3);
        assert_eq!(taken(), Some(1), "no sync is under way that it could wait for");
    }

    #[test]
    fn what_is_there_when_it_is_closed_is_handed_out_and_nothing_more() {
        let all = Promises::default();
        all.add(promises(1));
        all.close();
        let (reply, answer) = oneshot::channel();
        let late = promises(1).into_iter().map(|Promise { answer, .. }| answer);
        all.add(late.zip([reply]).map(|(answer, reply)| Promise { answer, reply }).collect());
        assert!(matches!(answer.blocking_recv(), Ok(Err(_))));
        assert_eq!(all.take().map(|promises| promises.len()), Some(1));
        assert!(all.take().is_none());
    }
}
