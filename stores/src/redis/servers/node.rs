//! One server: its connection, which all pipes share and which is replaced when it breaks, and its clock.
//!
//! Waiters share one connection attempt that outlives their deadlines, so even a slow link eventually connects. Nothing here
//! depends on a request being awaited to its end.

use std::{
    io,
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
    clock::{StoreClock, instant_after},
    permissions::{CommandNeeds, KnownPermissions},
    replicas::ReplicaProgress,
    single_flight::SingleFlight,
};
use crate::{
    Failure,
    guard::breaker::{Breaker, BreakerOptions},
    redis::{RedisOptions, options::address::ServerAddress, scripts::LuaScript},
};

/// What all nodes of a store have in common.
pub(crate) struct WireConfig {
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

impl WireConfig {
    /// An attempt to connect that was not answered makes the next one twice as long, up to this. Each is a few
    /// round trips (TCP, TLS, the user, the clock), of which the first two may have to be sent again.
    pub(crate) const MOST_CONNECTING: Duration = Duration::from_secs(10);

    pub(crate) fn new(options: &RedisOptions, is_tls: bool) -> Self {
        let timeout = options.store_timeout;
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
            breaker: BreakerOptions { failures: options.breaker_failures, cooldown: options.breaker_cooldown },
            wait_replicas: options.wait_replicas,
            is_tls,
            probed_key: format!("{}:~probed", options.key_prefix),
            round_trips: AtomicU64::new(0),
        }
    }

    pub(crate) fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    fn count_round_trip(&self) {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
    }
}

/// A server, connected to or not.
pub(crate) struct RedisNode {
    pub(super) wire: Arc<WireConfig>,
    pub(crate) address: ServerAddress,
    pub(crate) breaker: Breaker,
    client: Client,
    clock: StoreClock,
    current: RwLock<Option<Arc<NodeConnection>>>,
    /// Pipes that lost the same connection make one new one.
    connecting: SingleFlight<Arc<NodeConnection>>,
    /// How long an attempt to connect may take, by what the ones before took.
    connecting_limit: Mutex<Duration>,
}

/// A connection of a node's.
pub(crate) struct NodeConnection {
    connection: MultiplexedConnection,
    pub(crate) replicas: ReplicaProgress,
    pub(crate) permissions: KnownPermissions,
    made_at: Instant,
    /// Since when requests have been left without an answer, nanoseconds since `made_at`; 0: none has.
    silent_since: AtomicU64,
}

/// Why there is no answer.
#[derive(Clone)]
pub(crate) enum RequestError {
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

impl From<RedisError> for RequestError {
    fn from(error: RedisError) -> Self {
        Self::Error(error)
    }
}

/// An answer, when it was asked for, and on which connection.
pub(crate) struct NodeAnswer {
    pub(crate) reply: Value,
    pub(crate) asked_at: Instant,
    pub(crate) connected: Arc<NodeConnection>,
}

impl RedisNode {
    pub(crate) fn new(address: ServerAddress, client: Client, wire: Arc<WireConfig>) -> Self {
        Self {
            address,
            breaker: Breaker::new(wire.breaker),
            client,
            clock: StoreClock::new(),
            current: RwLock::new(None),
            connecting: SingleFlight::default(),
            connecting_limit: Mutex::new(wire.connecting),
            wire,
        }
    }

    /// Runs a script once. `arguments` writes what comes after the script's name, given the deadline on this
    /// server's clock (milliseconds), after which the script must refuse.
    pub(crate) async fn run_script(
        self: &Arc<Self>,
        script: &LuaScript,
        needs: CommandNeeds,
        arguments: &impl Fn(&mut Cmd, u64),
        deadline: Instant,
    ) -> Result<NodeAnswer, RequestError> {
        let connected = self.ensure_connected(deadline).await?;
        self.check_permissions(&connected, needs, deadline).await?;
        let store_deadline = self.clock.store_ms_at(deadline);
        let mut command = script.by_name();
        arguments(&mut command, store_deadline);
        match self.send_on_connection(connected.clone(), &command, deadline).await {
            Err(RequestError::Error(error)) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                // A new server, or scripts flushed: send the text this once.
                let mut command = script.by_text();
                arguments(&mut command, store_deadline);
                self.send_on_connection(connected, &command, deadline).await
            }
            answered => answered,
        }
    }

    /// Sends one command once.
    pub(crate) async fn send_command(
        self: &Arc<Self>,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Value, RequestError> {
        let connected = self.ensure_connected(deadline).await?;
        Ok(self.send_on_connection(connected, command, deadline).await?.reply)
    }

    /// What the server's clock said at some moment between asking and being answered.
    pub(crate) fn observe_clock(&self, store_ms: u64, asked_at: Instant) {
        self.clock.observe(store_ms, asked_at, Instant::now());
    }

    /// One request and its answer. A connection that failed or stays silent is not used again.
    pub(crate) async fn send_on_connection(
        &self,
        connected: Arc<NodeConnection>,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<NodeAnswer, RequestError> {
        let mut asking = Asking { node: self, connected: &connected, asked_at: Instant::now(), is_over: false };
        let answer = connected.query_by_deadline(&self.wire, command, asking.asked_at, deadline).await;
        match answer {
            Some(Ok(reply)) => {
                asking.is_over = true;
                connected.mark_answered();
                let asked_at = asking.asked_at;
                drop(asking);
                Ok(NodeAnswer { reply, asked_at, connected })
            }
            Some(Err(error)) => {
                asking.is_over = true;
                if error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm) {
                    connected.permissions.forget_all();
                }
                match leaves_connection_usable(&error) {
                    true => connected.mark_answered(),
                    false => self.discard(&connected),
                }
                Err(error.into())
            }
            None => Err(RequestError::NotAnswered),
        }
    }

    pub(crate) async fn ensure_connected(
        self: &Arc<Self>,
        deadline: Instant,
    ) -> Result<Arc<NodeConnection>, RequestError> {
        if let Some(connected) = self.current.read().clone() {
            return Ok(connected);
        }
        let connect = || Self::connect(Arc::downgrade(self), self.client.clone(), self.wire.clone());
        self.connecting.join_or_start(connect, deadline).await
    }

    /// One attempt. It holds no reference to the node: dropping the node stops it.
    async fn connect(
        node: Weak<Self>,
        client: Client,
        wire: Arc<WireConfig>,
    ) -> Result<Arc<NodeConnection>, RequestError> {
        let limit = match node.upgrade() {
            Some(node) => match node.current.read().clone() {
                // By an attempt that ended just before this one was begun.
                Some(connected) => return Ok(connected),
                None => *node.connecting_limit.lock(),
            },
            None => return Err(RequestError::NotConnected),
        };
        let began = Instant::now();
        let deadline = instant_after(began, limit);
        let opened = async {
            let precondition = client.get_multiplexed_async_connection_with_config(&wire.connection);
            let connection = timeout_at(deadline, precondition).await.map_err(|_| nobody_answers())??;
            let connected = Arc::new(NodeConnection {
                connection,
                replicas: ReplicaProgress::default(),
                permissions: KnownPermissions::default(),
                made_at: Instant::now(),
                silent_since: AtomicU64::new(0),
            });
            let asked_at = Instant::now();
            let reply = connected.query_by_deadline(&wire, &redis::cmd("TIME"), asked_at, deadline).await;
            let (seconds, micros): (u64, u64) =
                redis::from_redis_value(reply.ok_or_else(nobody_answers)??).map_err(RedisError::from)?;
            Ok((connected, seconds.saturating_mul(1000).saturating_add(micros / 1000), asked_at))
        };
        let opened = opened.await;
        let Some(node) = node.upgrade() else { return Err(RequestError::NotConnected) };
        match opened {
            Ok((connected, store_ms, asked_at)) => {
                // With room for a slower day, so that a slow link's next connection comes at the first go, too.
                *node.connecting_limit.lock() =
                    began.elapsed().saturating_mul(4).clamp(wire.connecting, WireConfig::MOST_CONNECTING);
                node.clock.set(store_ms, asked_at);
                *node.current.write() = Some(connected.clone());
                Ok(connected)
            }
            Err(error) => {
                if matches!(&error, RequestError::Error(error) if error.is_timeout()) {
                    *node.connecting_limit.lock() = limit.saturating_mul(2).min(WireConfig::MOST_CONNECTING);
                }
                Err(error)
            }
        }
    }

    fn discard(&self, connected: &Arc<NodeConnection>) {
        let mut current = self.current.write();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, connected)) {
            *current = None;
        }
    }
}

impl NodeConnection {
    /// None: not by the deadline.
    ///
    /// A request that is handed to the connection at the moment at which the connection ends can get lost without
    /// an error (tokio's channels allow for that, and redis does not look). So where no answer comes, a `PING`
    /// is sent after it: that fails at once on a connection that has ended, and if it is answered first, there
    /// will be no answer.
    async fn query_by_deadline(
        &self,
        wire: &WireConfig,
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
    fn mark_answered(&self) {
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
    node: &'a RedisNode,
    connected: &'a Arc<NodeConnection>,
    asked_at: Instant,
    is_over: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.is_over && self.connected.not_heard_since(self.asked_at) >= self.node.wire.enough {
            self.node.discard(self.connected);
        }
    }
}

fn nobody_answers() -> RedisError {
    io::Error::from(io::ErrorKind::TimedOut).into()
}

/// What was under way was stopped.
pub(crate) fn broken_connection() -> RequestError {
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
