//! One server: its connection, which all pipes share and which is replaced when it breaks, and its clock.
//!
//! Waiters share one connection attempt that outlives their deadlines, so even a slow link eventually connects. Nothing here
//! depends on a request being awaited to its end.

use std::{
    fmt, io,
    pin::pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value,
    aio::MultiplexedConnection,
};
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    clock::{StoreClock, later},
    permissions::{Needs, Permissions},
    replicas::Replicas,
    single_flight::{Missed, SingleFlight},
};
use crate::{
    Failure,
    guard::breaker::{Breaker, BreakerOptions},
    redis::{options::address::Address, scripts::Script},
};

/// What all nodes of a store have in common.
pub(crate) struct Wire {
    pub(crate) connection: AsyncConnectionConfig,
    /// After so long without an answer, it is looked whether the connection is there at all.
    pub(crate) patience: Duration,
    /// What has less time than that says nothing of the server when it is not answered.
    pub(crate) enough: Duration,
    /// How long an attempt to connect may take, as long as nothing tells that it needs more.
    connecting: Duration,
    pub(crate) breaker: BreakerOptions,
    /// How many replicas must have what is written; 0: it is not asked.
    pub(crate) wait_replicas: u32,
    /// Whether connections are encrypted.
    pub(crate) is_tls: bool,
    /// A key that tells whether the user may use those of the prefix.
    pub(crate) probed_key: String,
    round_trips: AtomicU64,
}

impl Wire {
    /// An attempt to connect that was not answered makes the next one twice as long, up to this. Each is a few
    /// round trips (TCP, TLS, the user, the clock), of which the first two may have to be sent again.
    pub(crate) const MOST_CONNECTING: Duration = Duration::from_secs(10);

    pub(crate) fn new(timeout: Duration, breaker: BreakerOptions, wait_replicas: u32, key_prefix: &str) -> Self {
        // Nothing but the deadline of a request ends its waiting for answers, and attempts to connect have limits
        // of their own.
        let connection = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_pipeline_buffer_size(1024);
        Self {
            connection,
            patience: (timeout / 4).min(Duration::from_millis(250)),
            enough: timeout / 2,
            connecting: timeout.clamp(Duration::from_secs(1), Self::MOST_CONNECTING),
            breaker,
            wait_replicas,
            is_tls: false,
            probed_key: format!("{key_prefix}:~probed"),
            round_trips: AtomicU64::new(0),
        }
    }

    pub(crate) fn encrypted(self, is_tls: bool) -> Self {
        Self { is_tls, ..self }
    }

    pub(crate) fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    fn count_round_trip(&self) {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
    }
}

/// A server, connected to or not.
pub(crate) struct Node {
    pub(crate) address: Address,
    pub(crate) breaker: Breaker,
    client: Client,
    clock: StoreClock,
    current: RwLock<Option<Arc<Connected>>>,
    /// Pipes that lost the same connection make one new one.
    connecting: SingleFlight<Result<Arc<Connected>, Unanswered>>,
    /// How long an attempt to connect may take, by what the ones before took.
    connecting_limit: Mutex<Duration>,
}

/// A connection of a node's.
pub(crate) struct Connected {
    connection: MultiplexedConnection,
    pub(crate) replicas: Replicas,
    pub(crate) permissions: Permissions,
    made_at: Instant,
    /// Since when requests have been left without an answer, nanoseconds since `made_at`; 0: none has.
    silent_since: AtomicU64,
}

/// Why there is no answer.
#[derive(Clone)]
pub(crate) enum Unanswered {
    Error(RedisError),
    /// The deadline passed before there was a connection.
    NotConnected,
    /// The deadline passed before there was an answer.
    NotAnswered,
    /// No node of the cluster has the slot.
    NoOwner,
    /// It makes no sense to ask: the cluster's map can't be read, or the user may not do what the request needs.
    Refused(Failure),
}

impl From<RedisError> for Unanswered {
    fn from(error: RedisError) -> Self {
        Self::Error(error)
    }
}

/// An answer, when it was asked for, and on which connection.
pub(crate) struct Answer {
    pub(crate) reply: Value,
    pub(crate) asked_at: Instant,
    pub(crate) connected: Arc<Connected>,
}

impl Node {
    pub(crate) fn new(address: Address, client: Client, wire: &Wire) -> Self {
        Self {
            address,
            breaker: Breaker::new(wire.breaker),
            client,
            clock: StoreClock::new(),
            current: RwLock::new(None),
            connecting: SingleFlight::default(),
            connecting_limit: Mutex::new(wire.connecting),
        }
    }

    /// Runs a script once. `arguments` writes what comes after the script's name, given the deadline on this
    /// server's clock (milliseconds), after which the script must refuse.
    pub(crate) async fn run(
        self: &Arc<Self>,
        wire: &Arc<Wire>,
        script: &Script,
        needs: Needs,
        arguments: &impl Fn(&mut Cmd, u64),
        deadline: Instant,
    ) -> Result<Answer, Unanswered> {
        let connected = self.connected(wire, deadline).await?;
        self.permit(wire, &connected, needs, deadline).await?;
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
    pub(crate) async fn command(
        self: &Arc<Self>,
        wire: &Arc<Wire>,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Value, Unanswered> {
        let connected = self.connected(wire, deadline).await?;
        Ok(self.ask(wire, connected, command, deadline).await?.reply)
    }

    /// What the server's clock said at some moment between asking and being answered.
    pub(crate) fn observe_clock(&self, store_ms: u64, asked_at: Instant) {
        self.clock.observe(store_ms, asked_at, Instant::now());
    }

    /// One request and its answer. A connection that failed or stays silent is not used again.
    pub(crate) async fn ask(
        &self,
        wire: &Wire,
        connected: Arc<Connected>,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Answer, Unanswered> {
        let mut asking = Asking { node: self, wire, connected: &connected, asked_at: Instant::now(), is_over: false };
        let answer = connected.ask(wire, command, asking.asked_at, deadline).await;
        match answer {
            Some(Ok(reply)) => {
                asking.is_over = true;
                connected.heard();
                let asked_at = asking.asked_at;
                drop(asking);
                Ok(Answer { reply, asked_at, connected })
            }
            Some(Err(error)) => {
                asking.is_over = true;
                if error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm) {
                    connected.permissions.forget();
                }
                match leaves_connection_usable(&error) {
                    true => connected.heard(),
                    false => self.discard(&connected),
                }
                Err(error.into())
            }
            None => Err(Unanswered::NotAnswered),
        }
    }

    pub(crate) async fn connected(
        self: &Arc<Self>,
        wire: &Arc<Wire>,
        deadline: Instant,
    ) -> Result<Arc<Connected>, Unanswered> {
        if let Some(connected) = self.current.read().clone() {
            return Ok(connected);
        }
        let connect = || Self::connect(Arc::downgrade(self), self.client.clone(), wire.clone());
        match self.connecting.join(connect, deadline).await {
            Ok(connected) => connected,
            Err(Missed::Deadline) => Err(Unanswered::NotConnected),
            Err(Missed::Stopped) => Err(broken()),
        }
    }

    /// One attempt. It holds no reference to the node: dropping the node stops it.
    async fn connect(node: Weak<Self>, client: Client, wire: Arc<Wire>) -> Result<Arc<Connected>, Unanswered> {
        let limit = match node.upgrade() {
            Some(node) => match node.current.read().clone() {
                // By an attempt that ended just before this one was begun.
                Some(connected) => return Ok(connected),
                None => *node.connecting_limit.lock(),
            },
            None => return Err(Unanswered::NotConnected),
        };
        let began = Instant::now();
        let deadline = later(began, limit);
        let opened = async {
            let opening = client.get_multiplexed_async_connection_with_config(&wire.connection);
            let connection = timeout_at(deadline, opening).await.map_err(|_| nobody_answers())??;
            let connected = Arc::new(Connected {
                connection,
                replicas: Replicas::default(),
                permissions: Permissions::default(),
                made_at: Instant::now(),
                silent_since: AtomicU64::new(0),
            });
            let asked_at = Instant::now();
            let reply = connected.ask(&wire, &redis::cmd("TIME"), asked_at, deadline).await;
            let (seconds, micros): (u64, u64) =
                redis::from_redis_value(reply.ok_or_else(nobody_answers)??).map_err(RedisError::from)?;
            Ok((connected, seconds.saturating_mul(1000).saturating_add(micros / 1000), asked_at))
        };
        let opened = opened.await;
        let Some(node) = node.upgrade() else { return Err(Unanswered::NotConnected) };
        match opened {
            Ok((connected, store_ms, asked_at)) => {
                // With room for a slower day, so that a slow link's next connection comes at the first go, too.
                *node.connecting_limit.lock() =
                    began.elapsed().saturating_mul(4).clamp(wire.connecting, Wire::MOST_CONNECTING);
                node.clock.set(store_ms, asked_at);
                *node.current.write() = Some(connected.clone());
                Ok(connected)
            }
            Err(error) => {
                if matches!(&error, Unanswered::Error(error) if error.is_timeout()) {
                    *node.connecting_limit.lock() = limit.saturating_mul(2).min(Wire::MOST_CONNECTING);
                }
                Err(error)
            }
        }
    }

    fn discard(&self, connected: &Arc<Connected>) {
        let mut current = self.current.write();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, connected)) {
            *current = None;
        }
    }
}

impl Connected {
    /// None: not by the deadline.
    ///
    /// A request that is handed to the connection at the moment at which the connection ends can get lost without
    /// an error (tokio's channels allow for that, and redis does not look). So where no answer comes, a `PING`
    /// is sent after it: that fails at once on a connection that has ended, and if it is answered first, there
    /// will be no answer.
    async fn ask(
        &self,
        wire: &Wire,
        command: &Cmd,
        asked_at: Instant,
        deadline: Instant,
    ) -> Option<RedisResult<Value>> {
        let mut connection = self.connection.clone();
        wire.count_round_trip();
        let mut answer = pin!(command.query_async::<Value>(&mut connection));
        // Nearly always it is there before anybody gets impatient: one timer is all that it takes.
        let patience = wire.patience.min(deadline.saturating_duration_since(asked_at));
        if let Ok(answer) = timeout(patience, answer.as_mut()).await {
            return Some(answer);
        }
        let mut beside = self.connection.clone();
        let look = async {
            // It goes beside the request's own round trip, so it is not counted.
            let _: RedisResult<Value> = redis::cmd("PING").query_async(&mut beside).await;
        };
        let rest = async {
            tokio::select! {
                biased;
                answer = answer => answer,
                () = look => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
            }
        };
        timeout_at(deadline, rest).await.ok()
    }

    /// Somebody answers on it.
    fn heard(&self) {
        if self.silent_since.load(Ordering::Relaxed) != 0 {
            self.silent_since.store(0, Ordering::Relaxed);
        }
    }

    /// A request that was sent then is left without an answer. For how long there has been none, to anybody.
    fn not_heard_since(&self, asked_at: Instant) -> Duration {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
        let asked = nanos(asked_at.saturating_duration_since(self.made_at));
        let since = match self.silent_since.compare_exchange(0, asked, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => asked,
            Err(since) => since,
        };
        Duration::from_nanos(nanos(self.made_at.elapsed()).saturating_sub(since))
    }
}

/// A request on its way. Dropped before it is answered, by a deadline or because its caller is gone, it says nothing of the
/// connection; but a connection that has been silent for long is not used again.
struct Asking<'a> {
    node: &'a Node,
    wire: &'a Wire,
    connected: &'a Arc<Connected>,
    asked_at: Instant,
    is_over: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.is_over && self.connected.not_heard_since(self.asked_at) >= self.wire.enough {
            self.node.discard(self.connected);
        }
    }
}

fn nobody_answers() -> RedisError {
    io::Error::from(io::ErrorKind::TimedOut).into()
}

/// What was under way was stopped.
pub(crate) fn broken() -> Unanswered {
    RedisError::from(io::Error::from(io::ErrorKind::BrokenPipe)).into()
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
