//! Announces events to everyone who follows a store, in this process or another one.
//!
//! Events are records of a log in the store itself, so they need no server or permission beside it, and whoever shares a
//! store sees the same events in the same order under the same ids. The log keeps the newest of them: a follower that was
//! away goes on where it was, or is told that it has missed some. Events of this process arrive at once, those of others
//! within [`EventOptions::poll`].
//!
//! An event is announced after what it tells of has happened, off the path of whoever did that. If the process is killed
//! in between, it is lost.

mod announcer;
mod id;
mod page;
mod subscription;
mod tail;

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use self::{announcer::Announcer, page::EventPage, tail::Tail};
pub use self::{
    id::{EventId, InvalidEventId},
    subscription::{Delivery, Subscription},
};
use crate::store::{BucketId, Deadline, Failure, Store, kind};

/// The bucket of a store's events. Its kind is that of services' own data.
const BUCKET: &str = "events";
/// How long a call of the store may take.
const CALL_TIME: Duration = Duration::from_secs(5);

/// How events are kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EventOptions {
    /// The log keeps at least this many of the newest, 10,000 by default, and at most an eighth more.
    pub keep: u64,
    /// How often a followed log is looked at for events of others, 250 ms by default. A look is one read of the store;
    /// without followers there is none.
    pub poll: Duration,
    /// How long the log lives after its last use, 24 hours by default. Zero: for ever, as on stores where nothing expires.
    pub time_to_live: Duration,
    /// How long an event is tried to be announced while the store fails, 30 s by default.
    pub patience: Duration,
}

impl Default for EventOptions {
    fn default() -> Self {
        Self {
            keep: 10_000,
            poll: Duration::from_millis(250),
            time_to_live: Duration::from_hours(24),
            patience: Duration::from_secs(30),
        }
    }
}

/// The events of one store. Clones share their work.
#[derive(Clone)]
pub struct EventLog(Arc<EventLogInner>);

struct EventLogInner {
    store: Arc<dyn Store>,
    bucket: BucketId,
    options: EventOptions,
    announcer: Announcer,
    tail: Mutex<Tail>,
    /// Something was added to the tail.
    news: watch::Sender<()>,
    /// There are events of this process.
    poke: Notify,
}

impl EventLog {
    /// The events of a store. Needs a tokio runtime once something is announced or followed.
    pub fn new(store: Arc<dyn Store>, options: EventOptions) -> Self {
        Self(Arc::new(EventLogInner {
            store,
            bucket: BucketId::new(kind::SERVICE, BUCKET),
            options,
            announcer: Announcer::default(),
            tail: Mutex::default(),
            news: watch::Sender::new(()),
            poke: Notify::new(),
        }))
    }

    /// Announces an event: a text that is not empty, of at most 1 MiB. Events of one process stay in their order. Returns at
    /// once; where the store can't take it in time, followers are told that they have missed some.
    pub fn announce(&self, event: impl Into<String>) {
        announcer::announce(&self.0, event.into());
    }

    /// Waits until all that was announced so far is in the store, or has been given up.
    pub async fn flush(&self) {
        self.0.announcer.wait_until_idle().await;
    }

    /// Follows events: those after `after`, or else those that are announced from now on. One read of the store.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn subscribe(&self, after: Option<EventId>) -> Result<Subscription, Failure> {
        let now = EventPage::read_extent(&self.0).await?;
        Ok(Subscription::new(self.0.clone(), after, &now))
    }
}

/// Of what nobody's call waits for longer.
fn call_deadline() -> Deadline {
    Deadline::after(CALL_TIME)
}
