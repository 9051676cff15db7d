//! One who follows events.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::watch;

use super::{EventId, EventLogInner, announcer::MISSING, page::EventPage, tail};
use crate::store::Failure;

/// What a follower is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// An event.
    Event {
        /// After which to [go on](super::EventLog::subscribe).
        id: EventId,
        /// As it was announced.
        text: Arc<str>,
    },
    /// Events are missing here: they are no longer kept, or could not be announced.
    Gap,
}

/// Follows the events of a store: each once, in order.
pub struct Subscription {
    log: Arc<EventLogInner>,
    news: watch::Receiver<()>,
    /// The life of the log, and the position there, of the next event. No life: of the first one that comes.
    generation: Option<Arc<str>>,
    next: u64,
    /// Events from there on that were read from the store, because they are no longer in memory.
    backlog: VecDeque<Arc<str>>,
}

/// What is to be done for the next event.
enum Step {
    Deliver(Delivery),
    /// For news.
    Wait,
    /// It is not in memory.
    ReadStore,
    LookAgain,
}

impl Subscription {
    pub(super) fn new(log: Arc<EventLogInner>, after: Option<EventId>, now: &EventPage) -> Self {
        // Before anything is read: what comes from now on is news.
        let news = log.news.subscribe();
        tail::add_follower(&log, now);
        let (generation, next) = match after {
            Some(id) => (Some(id.generation), id.position.saturating_add(1)),
            None => (now.generation.clone(), now.end),
        };
        Self { log, news, generation, next, backlog: VecDeque::new() }
    }

    /// The next event. Waits until there is one; may be dropped meanwhile, and nothing is lost.
    ///
    /// # Errors
    /// When an event that is no longer in memory can't be read from the store. May be called again.
    pub async fn next(&mut self) -> Result<Delivery, Failure> {
        loop {
            self.news.mark_unchanged();
            let step = match self.look_in_memory() {
                Step::ReadStore => self.read_store().await?,
                step => step,
            };
            match step {
                Step::Deliver(delivery) => return Ok(delivery),
                // It can't fail: the sender is in the log.
                Step::Wait => _ = self.news.changed().await,
                Step::ReadStore | Step::LookAgain => {}
            }
        }
    }

    fn look_in_memory(&mut self) -> Step {
        if let Some(text) = self.backlog.pop_front() {
            return Step::Deliver(self.deliver(text));
        }
        let tail = self.log.tail.lock();
        if tail.generation != self.generation {
            return Step::ReadStore;
        }
        let (found, is_read) = (tail.event_at(self.next).cloned(), self.next >= tail.end);
        drop(tail);
        match found {
            Some(text) => Step::Deliver(self.deliver(text)),
            None if is_read => Step::Wait,
            None => Step::ReadStore,
        }
    }

    fn deliver(&mut self, text: Arc<str>) -> Delivery {
        let position = self.next;
        self.next += 1;
        match &self.generation {
            Some(generation) if &*text != MISSING => {
                Delivery::Event { id: EventId { generation: generation.clone(), position }, text }
            }
            _ => Delivery::Gap,
        }
    }

    async fn read_store(&mut self) -> Result<Step, Failure> {
        let page = EventPage::read(&self.log, self.next).await?;
        if page.generation != self.generation {
            // A life that began since has lost nothing.
            let is_gap = self.generation.is_some() || page.oldest > 0;
            (self.generation, self.next) = (page.generation, page.oldest);
            return Ok(if is_gap { Step::Deliver(Delivery::Gap) } else { Step::LookAgain });
        }
        if self.next < page.oldest {
            self.next = page.oldest;
            return Ok(Step::Deliver(Delivery::Gap));
        }
        self.backlog.extend(page.events);
        Ok(if self.backlog.is_empty() { Step::Wait } else { Step::LookAgain })
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        tail::remove_follower(&self.log);
    }
}
