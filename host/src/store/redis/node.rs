//! One server: its connection, which all pipes share and which is made anew when it breaks, and its clock.

use std::{
    fmt,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::RwLock;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value,
    aio::MultiplexedConnection,
};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout, timeout_at},
};

use super::{
    address::Address,
    breaker::{Breaker, BreakerOptions},
    clock::StoreClock,
    script::Script,
};
use crate::store::Failure;

/// What all nodes of a store have in common.
pub(super) struct Wire {
    pub(super) connection: AsyncConnectionConfig,
    /// After so long without an answer, it is looked whether the connection is there at all.
    pub(super) patience: Duration,
    pub(super) breaker: BreakerOptions,
    /// How many replicas must have what is written; 0: it is not asked.
    pub(super) wait_replicas: u32,
    round_trips: AtomicU64,
}

impl Wire {
    pub(super) fn new(timeout: Duration, breaker: BreakerOptions, wait_replicas: u32) -> Self {
        // Nothing but the deadline of a request ends its waiting for answers and connections.
        let connection = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(Some(timeout))
            .set_pipeline_buffer_size(1024);
        let patience = (timeout / 4).min(Duration::from_millis(250));
        Self { connection, patience, breaker, wait_replicas, round_trips: AtomicU64::new(0) }
    }

    pub(super) fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    fn count_round_trip(&self) {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
    }
}

/// A server, connected to or not.
pub(super) struct Node {
    pub(super) address: Address,
    pub(super) breaker: Breaker,
    client: Client,
    clock: StoreClock,
    current: RwLock<Option<Arc<Connected>>>,
    /// Held while connecting: pipes that lost the same connection make one new one.
    connecting: Mutex<()>,
    generations: AtomicU64,
}

/// A connection of a node's.
pub(super) struct Connected {
    connection: MultiplexedConnection,
    generation: u64,
    replicas: Replicas,
}

/// Why there is no answer.
pub(super) enum Unanswered {
    Error(RedisError),
    /// The deadline passed before there was a connection.
    NotConnected,
    /// The deadline passed before there was an answer.
    NotAnswered,
    /// No node of the cluster has the slot.
    NoOwner,
    /// The cluster's map can't be read.
    Garbled(Failure),
}

impl From<RedisError> for Unanswered {
    fn from(error: RedisError) -> Self {
        Self::Error(error)
    }
}

/// An answer, when it was asked for, and on which connection.
pub(super) struct Answer {
    pub(super) reply: Value,
    pub(super) asked_at: Instant,
    pub(super) connected: Arc<Connected>,
}

impl Node {
    pub(super) fn new(address: Address, client: Client, wire: &Wire) -> Self {
        Self {
            address,
            breaker: Breaker::new(wire.breaker),
            client,
            clock: StoreClock::new(),
            current: RwLock::new(None),
            connecting: Mutex::new(()),
            generations: AtomicU64::new(0),
        }
    }

    /// Runs a script once. `arguments` writes what comes after the script's name, given the deadline on this
    /// server's clock (milliseconds), after which the script must refuse.
    pub(super) async fn run(
        &self,
        wire: &Wire,
        script: &Script,
        arguments: &impl Fn(&mut Cmd, u64),
        deadline: Instant,
    ) -> Result<Answer, Unanswered> {
        let connected = self.connected(wire, deadline).await?;
        let store_deadline = self.clock.at(deadline);
        let mut command = script.by_name();
        arguments(&mut command, store_deadline);
        match self.ask(wire, connected.clone(), &command, deadline).await {
            Err(Unanswered::Error(error)) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                // A new server, or scripts flushed: send the text this once.
                let mut command = script.by_text();
                arguments(&mut command, store_deadline);
                self.ask(wire, connected, &command, deadline).await
            }
            answered => answered,
        }
    }

    /// Sends one command once.
    pub(super) async fn command(&self, wire: &Wire, command: &Cmd, deadline: Instant) -> Result<Value, Unanswered> {
        let connected = self.connected(wire, deadline).await?;
        Ok(self.ask(wire, connected, command, deadline).await?.reply)
    }

    /// What the server's clock said at some moment between asking and being answered.
    pub(super) fn observe_clock(&self, store_ms: u64, asked_at: Instant) {
        self.clock.observe(store_ms, asked_at, Instant::now());
    }

    /// One request and its answer. A connection that failed or that nobody answers on is not used again.
    ///
    /// A request that is handed to the connection at the very moment at which that ends can be left lying
    /// there: nobody sends it, and nobody says so (tokio's channels allow for that, and redis does not
    /// look). So where no answer comes, something is sent after it: that fails at once on a connection
    /// that has ended, and what is answered before its predecessor tells that there will be no answer.
    async fn ask(
        &self,
        wire: &Wire,
        connected: Arc<Connected>,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Answer, Unanswered> {
        let mut connection = connected.connection.clone();
        wire.count_round_trip();
        let asked_at = Instant::now();
        let mut answer = pin!(command.query_async::<Value>(&mut connection));
        // Nearly always it is there before anybody gets impatient: one timer is all that it takes.
        let patience = wire.patience.min(deadline.saturating_duration_since(asked_at));
        let answer = match timeout(patience, answer.as_mut()).await {
            Ok(answer) => Ok(answer),
            Err(_) => {
                let mut beside = connected.connection.clone();
                let look = async {
                    wire.count_round_trip();
                    let _: RedisResult<Value> = redis::cmd("PING").query_async(&mut beside).await;
                };
                let rest = async {
                    tokio::select! {
                        biased;
                        answer = answer => answer,
                        () = look => Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()),
                    }
                };
                timeout_at(deadline, rest).await
            }
        };
        match answer {
            Ok(Ok(reply)) => Ok(Answer { reply, asked_at, connected }),
            Ok(Err(error)) => {
                if !leaves_connection_usable(&error) {
                    self.discard(connected.generation);
                }
                Err(error.into())
            }
            Err(_) => {
                self.discard(connected.generation);
                Err(Unanswered::NotAnswered)
            }
        }
    }

    async fn connected(&self, wire: &Wire, deadline: Instant) -> Result<Arc<Connected>, Unanswered> {
        if let Some(connected) = self.current.read().clone() {
            return Ok(connected);
        }
        timeout_at(deadline, self.connect(wire, deadline)).await.unwrap_or(Err(Unanswered::NotConnected))
    }

    async fn connect(&self, wire: &Wire, deadline: Instant) -> Result<Arc<Connected>, Unanswered> {
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(connected) = self.current.read().clone() {
            return Ok(connected);
        }
        let connection = self.client.get_multiplexed_async_connection_with_config(&wire.connection).await?;
        let generation = self.generations.fetch_add(1, Ordering::Relaxed);
        let connected = Arc::new(Connected { connection, generation, replicas: Replicas::default() });
        let Answer { reply, asked_at, .. } = self.ask(wire, connected.clone(), &redis::cmd("TIME"), deadline).await?;
        let (seconds, micros): (u64, u64) = redis::from_redis_value(reply).map_err(RedisError::from)?;
        self.clock.set(seconds.saturating_mul(1000).saturating_add(micros / 1000), asked_at);
        *self.current.write() = Some(connected.clone());
        Ok(connected)
    }

    fn discard(&self, generation: u64) {
        let mut current = self.current.write();
        if current.as_ref().is_some_and(|connected| connected.generation == generation) {
            *current = None;
        }
    }

    /// Waits until as many replicas as wanted have what was written on this connection before this call.
    /// False: they have not, in the time that there is.
    pub(super) async fn replicated(
        &self,
        wire: &Wire,
        connected: Arc<Connected>,
        deadline: Instant,
    ) -> Result<bool, Unanswered> {
        let replicas = &connected.replicas;
        let mine = replicas.written.fetch_add(1, Ordering::Relaxed) + 1;
        let mut asked = timeout_at(deadline, replicas.asked.lock()).await.map_err(|_| Unanswered::NotAnswered)?;
        if asked.upto >= mine {
            return Ok(asked.lagging_since.is_none());
        }
        asked.upto = replicas.written.load(Ordering::Relaxed);
        let now = Instant::now();
        let patience = match asked.lagging_since {
            None => wire.patience,
            Some(since) if now.duration_since(since) < Replicas::TIME_BETWEEN_LOOKS => Replicas::NO_PATIENCE,
            Some(_) => Replicas::PATIENCE_WHILE_LAGGING,
        };
        let patience = patience.min(deadline.saturating_duration_since(now));
        let mut wait = redis::cmd("WAIT");
        wait.arg(wire.wait_replicas).arg(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX).max(1));
        // Until it is known, whoever was waiting for the same answer has none.
        let lagging_since = asked.lagging_since.replace(now);
        let answer = self.ask(wire, connected.clone(), &wait, deadline).await?;
        let have_it: u32 = redis::from_redis_value(answer.reply).map_err(RedisError::from)?;
        let has_arrived = have_it >= wire.wait_replicas;
        asked.lagging_since = match lagging_since {
            _ if has_arrived => None,
            // A look that was too short to tell changes nothing.
            Some(since) if patience == Replicas::NO_PATIENCE => Some(since),
            _ => Some(Instant::now()),
        };
        Ok(has_arrived)
    }
}

/// Answers that say something of the request, and nothing of the connection.
fn leaves_connection_usable(error: &RedisError) -> bool {
    match error.kind() {
        // A master that has become a replica: after a failover the same name may lead elsewhere.
        ErrorKind::Server(kind) => kind != ServerErrorKind::ReadOnly,
        ErrorKind::Extension => !matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM")),
        ErrorKind::InvalidClientConfig => true,
        _ => false,
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("breaker", &self.breaker).finish_non_exhaustive()
    }
}

/// What the replicas are known to have of the writes of one connection.
///
/// `WAIT` speaks of its own connection's writes and holds that up, for all pipes. So one serves all writes
/// that were answered before it is sent.
#[derive(Default)]
struct Replicas {
    /// Writes answered so far.
    written: AtomicU64,
    asked: Mutex<Asked>,
}

#[derive(Default)]
struct Asked {
    /// How many of them the last `WAIT` was about.
    upto: u64,
    /// When it was found that the replicas had not got that; none: they had.
    lagging_since: Option<Instant>,
}

impl Replicas {
    /// While replicas lag, reads must not wait behind one write after the other.
    const NO_PATIENCE: Duration = Duration::from_millis(1);
    /// Every now and then it is looked whether they are only a little farther away than that.
    const PATIENCE_WHILE_LAGGING: Duration = Duration::from_millis(20);
    const TIME_BETWEEN_LOOKS: Duration = Duration::from_millis(200);
}
