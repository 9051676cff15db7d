//! The newest events, in memory, for all who follow them; and the task that reads them while anybody does.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use super::{EventLogInner, page::EventPage};

/// The most events in memory, and their bytes beyond the newest.
const MAX_EVENTS: usize = 1_024;
const MAX_BYTES: usize = 4 << 20;

/// The newest events that were read.
#[derive(Default)]
pub(super) struct Tail {
    /// The life of the log. None: there was none.
    pub(super) generation: Option<Arc<str>>,
    /// The position after the newest event that was read.
    pub(super) end: u64,
    /// They end there.
    events: VecDeque<Arc<str>>,
    bytes: usize,
    followers: usize,
    is_read: bool,
}

impl Tail {
    /// The event at a position. None: it is not here, and comes or is only in the store.
    pub(super) fn event_at(&self, position: u64) -> Option<&Arc<str>> {
        let index = position.checked_sub(self.first())?;
        self.events.get(usize::try_from(index).ok()?)
    }

    /// The position of the oldest event here.
    fn first(&self) -> u64 {
        self.end - self.events.len() as u64
    }

    fn restart(&mut self, generation: Option<Arc<str>>, at: u64) {
        (self.generation, self.end, self.bytes) = (generation, at, 0);
        self.events.clear();
    }

    fn extend(&mut self, page: EventPage) {
        if self.generation != page.generation || self.end < page.oldest {
            self.restart(page.generation, page.oldest);
        }
        for event in page.events {
            self.bytes += event.len();
            self.events.push_back(event);
            self.end += 1;
            while self.events.len() > MAX_EVENTS || (self.bytes > MAX_BYTES && self.events.len() > 1) {
                self.bytes -= self.events.pop_front().map_or(0, |event| event.len());
            }
        }
    }
}

/// Somebody follows the log, which stood so.
pub(super) fn add_follower(log: &Arc<EventLogInner>, now: &EventPage) {
    let mut tail = log.tail.lock();
    tail.followers += 1;
    if !tail.is_read {
        tail.is_read = true;
        tail.restart(now.generation.clone(), now.end);
        tokio::spawn(read_on(Arc::downgrade(log)));
    }
}

/// Somebody follows it no longer.
pub(super) fn remove_follower(log: &EventLogInner) {
    log.tail.lock().followers -= 1;
    log.poke.notify_one();
}

async fn read_on(log: Weak<EventLogInner>) {
    let mut has_failed = false;
    while let Some(log) = log.upgrade() {
        let from = {
            let mut tail = log.tail.lock();
            if tail.followers == 0 {
                tail.is_read = false;
                return;
            }
            tail.end
        };
        match EventPage::read(&log, from).await {
            Ok(page) => {
                has_failed = false;
                let is_another_life = log.tail.lock().generation != page.generation;
                // It begins anew, maybe before this position.
                let page = if is_another_life { EventPage::read(&log, page.oldest).await } else { Ok(page) };
                if let Ok(page) = page
                    && (is_another_life || !page.events.is_empty() || page.oldest > from)
                {
                    log.tail.lock().extend(page);
                    log.news.send_replace(());
                    continue;
                }
            }
            Err(failure) if !has_failed => {
                has_failed = true;
                tracing::warn!(target: "keepline.events", "events can't be read: {failure}");
            }
            Err(_) => {}
        }
        let _ = tokio::time::timeout(log.options.poll, log.poke.notified()).await;
    }
}
