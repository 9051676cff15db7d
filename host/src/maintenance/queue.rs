//! Queues tasks for the background.
//!
//! Promises that tasks of one subject and name are done in order, and that each is queued once, as it was last named.
//! The number of tasks that are queued or at work is bounded.

use std::collections::{HashMap, VecDeque};

use super::Task;
use crate::runtime::task_subject;

/// The bundled filter's task for a user: a session was used. Its state begins with the session, which only this
/// task names: one of another session does not replace it.
const ACTIVITY: &str = "activity";

/// Subject and name.
pub(super) type TaskQueueKey = (String, String);

pub(super) fn queue_key(task: &Task) -> TaskQueueKey {
    (task_subject(task), task.name.clone())
}

#[derive(Default)]
pub(super) struct Queue {
    /// Per key with a worker. Empty: the worker is at its last task.
    waiting: HashMap<TaskQueueKey, VecDeque<Task>>,
    /// Tasks that wait or are at work.
    count: usize,
}

/// What became of a task that was handed in.
pub(super) enum EnqueueOutcome {
    /// It waits, and its key needs a worker.
    NeedsWorker(TaskQueueKey),
    /// It waits behind others, or in the place of an older one.
    QueuedBehind,
    /// There is no room.
    Full,
}

impl Queue {
    pub fn len(&self) -> usize {
        self.count
    }

    /// A task comes, where there may be so many.
    pub fn enqueue_task(&mut self, task: Task, most: usize) -> EnqueueOutcome {
        let key = queue_key(&task);
        if let Some(waiting) = self.waiting.get_mut(&key)
            && let Some(older) = waiting.iter().position(|other| activity_session(other) == activity_session(&task))
        {
            // What is known of it now comes after what became known meanwhile of others.
            waiting.remove(older);
            waiting.push_back(task);
            return EnqueueOutcome::QueuedBehind;
        }
        if self.count >= most {
            return EnqueueOutcome::Full;
        }
        self.count += 1;
        let is_known = self.waiting.contains_key(&key);
        self.waiting.entry(key.clone()).or_default().push_back(task);
        if is_known { EnqueueOutcome::QueuedBehind } else { EnqueueOutcome::NeedsWorker(key) }
    }

    /// The next one, to be worked on.
    pub fn take_next(&mut self, key: &TaskQueueKey) -> Option<Task> {
        self.waiting.get_mut(key)?.pop_front()
    }

    /// One that was worked on is over. Whether others wait.
    pub fn finish_task(&mut self, key: &TaskQueueKey) -> bool {
        self.count = self.count.saturating_sub(1);
        let waits = self.waiting.get(key).is_some_and(|waiting| !waiting.is_empty());
        if !waits {
            self.waiting.remove(key);
        }
        waits
    }

    /// Drops the tasks of a key that has lost its worker. Returns how many, with the one at work if there is one.
    pub fn give_up(&mut self, key: &TaskQueueKey, is_at_work: bool) -> usize {
        let waiting = self.waiting.remove(key).map_or(0, |waiting| waiting.len());
        let left = waiting.saturating_add(usize::from(is_at_work));
        self.count = self.count.saturating_sub(left);
        left
    }
}

/// Which of the tasks of its key it is.
fn activity_session(task: &Task) -> Option<&str> {
    (task.name == ACTIVITY).then(|| task.state.split(' ').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maintenance::TaskBucket;

    fn task(name: &str, state: &str) -> Task {
        let bucket = TaskBucket { kind: "user".to_owned(), name: "anna".to_owned() };
        Task { buckets: vec![bucket], name: name.to_owned(), state: state.to_owned() }
    }

    fn key(name: &str) -> TaskQueueKey {
        ("user/anna".to_owned(), name.to_owned())
    }

    fn states(queue: &mut Queue, name: &str) -> Vec<String> {
        let mut states = Vec::new();
        while let Some(task) = queue.take_next(&key(name)) {
            states.push(task.state);
            queue.finish_task(&key(name));
        }
        states
    }

    #[test]
    fn a_task_is_queued_once_with_its_latest_state() {
        let mut queue = Queue::default();
        assert!(matches!(queue.enqueue_task(task("title", "1"), 3), EnqueueOutcome::NeedsWorker(_)));
        assert!(matches!(queue.enqueue_task(task("title", "2"), 3), EnqueueOutcome::QueuedBehind));
        assert_eq!((queue.len(), states(&mut queue, "title")), (1, vec!["2".to_owned()]));
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn the_last_use_of_each_session_is_queued_in_order() {
        let mut queue = Queue::default();
        for state in ["a 1 10", "b 1 20", "a 1 30", "", "c 1 40"] {
            assert!(!matches!(queue.enqueue_task(task("activity", state), 4), EnqueueOutcome::Full));
        }
        assert!(matches!(queue.enqueue_task(task("activity", "d 1 50"), 4), EnqueueOutcome::Full));
        assert!(matches!(queue.enqueue_task(task("activity", "b 1 60"), 4), EnqueueOutcome::QueuedBehind));
        assert_eq!(queue.len(), 4);
        assert_eq!(states(&mut queue, "activity"), ["a 1 30", "", "c 1 40", "b 1 60"]);
        assert!(matches!(queue.enqueue_task(task("activity", "a 1 70"), 4), EnqueueOutcome::NeedsWorker(_)));
    }

    #[test]
    fn a_task_behind_one_at_work_waits_and_both_are_given_up() {
        let mut queue = Queue::default();
        queue.enqueue_task(task("title", "1"), 2);
        assert!(queue.take_next(&key("title")).is_some());
        assert!(matches!(queue.enqueue_task(task("title", "2"), 2), EnqueueOutcome::QueuedBehind));
        assert!(matches!(queue.enqueue_task(task("summary", ""), 2), EnqueueOutcome::Full));
        assert_eq!((queue.give_up(&key("title"), true), queue.len()), (2, 0));
    }
}
