//! The link to Redis: one multiplexed connection that all pipes share, made anew when it breaks.
//!
//! A request is sent until it is answered or its time is up; that it counts once however often it is sent
//! is the scripts' business, and so is refusing what arrives after its time.

use std::{
    fmt,
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

use backon::{BackoffBuilder, ExponentialBuilder};
use parking_lot::RwLock;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value,
    aio::MultiplexedConnection,
};
use tokio::{sync::Mutex, time::Instant};

use super::{
    breaker::{Admission, Breaker},
    script::Script,
};
use crate::store::{Failure, FailureCode, failure};

pub(super) struct Link {
    client: Client,
    config: AsyncConnectionConfig,
    timeout: Duration,
    /// After so long without an answer, it is looked whether the connection is there at all.
    patience: Duration,
    breaker: Breaker,
    current: RwLock<Option<Connected>>,
    /// Held while connecting: pipes that lost the same connection make one new one.
    connecting: Mutex<()>,
    generations: AtomicU64,
    round_trips: AtomicU64,
    clock: StoreClock,
}

#[derive(Clone)]
struct Connected {
    connection: MultiplexedConnection,
    generation: u64,
}

/// How far the tries of one request have come.
#[derive(Default)]
struct Progress {
    /// What became of the last one, for people.
    last_problem: Option<&'static str>,
    /// The connection that owes an answer.
    waiting_on: Option<u64>,
}

/// What one try came to.
enum Tried {
    /// With when it was asked.
    Answered(Value, Instant),
    /// Worth another try; the text says what happened, for people.
    Again(&'static str),
    Refused(Failure),
}

impl Link {
    pub(super) fn new(client: Client, timeout: Duration, breaker: Breaker) -> Self {
        // The time-outs of `request` cover answers and connections, retries and reconnects included.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(Some(timeout))
            .set_pipeline_buffer_size(1024);
        Self {
            client,
            config,
            timeout,
            patience: (timeout / 4).min(Duration::from_millis(250)),
            breaker,
            current: RwLock::new(None),
            connecting: Mutex::new(()),
            generations: AtomicU64::new(0),
            round_trips: AtomicU64::new(0),
            clock: StoreClock::new(),
        }
    }

    pub(super) fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    /// Runs a script. `arguments` writes what comes after the script's name, given the time (on the
    /// store's clock, milliseconds) after which the script must refuse; `read` makes sense of the reply
    /// and of the store's clock in it, or finds it came late.
    ///
    /// However it ends, it ends within the time-out.
    pub(super) async fn run<T>(
        &self,
        script: &Script,
        arguments: impl Fn(&mut Cmd, u64),
        read: impl Fn(Value) -> Result<(super::codec::Said<T>, u64), Failure>,
    ) -> Result<T, Failure> {
        if self.breaker.admit() == Admission::Refused {
            return Err(failure(
                FailureCode::Unavailable,
                "",
                "the store is left alone for a moment, after it has failed several times in a row",
            ));
        }
        let deadline = Instant::now() + self.timeout;
        let mut progress = Progress::default();
        let attempts = self.attempts(script, arguments, read, deadline, &mut progress);
        let outcome = match tokio::time::timeout_at(deadline, attempts).await {
            Ok(outcome) => outcome,
            Err(_) => {
                // It may be a connection that nobody answers on any more.
                progress.waiting_on.into_iter().for_each(|generation| self.discard(generation));
                Err(self.out_of_time(&progress))
            }
        };
        match &outcome {
            Err(Failure { code: FailureCode::Unavailable | FailureCode::TimedOut, .. }) => self.breaker.failed(),
            _ => self.breaker.succeeded(),
        }
        outcome
    }

    async fn attempts<T>(
        &self,
        script: &Script,
        arguments: impl Fn(&mut Cmd, u64),
        read: impl Fn(Value) -> Result<(super::codec::Said<T>, u64), Failure>,
        deadline: Instant,
        progress: &mut Progress,
    ) -> Result<T, Failure> {
        let mut backoff = ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(1))
            .with_max_delay(Duration::from_millis(50))
            .with_jitter()
            .without_max_times()
            .build();
        loop {
            match self.attempt(script, &arguments, deadline, progress).await {
                Tried::Answered(reply, asked_at) => {
                    let answered_at = Instant::now();
                    let (said, now) = read(reply)?;
                    if now > 0 {
                        self.clock.observe(now, asked_at, answered_at);
                    }
                    // Late: its clock may have been set since. It is known again now; try with it.
                    if let super::codec::Said::Answer(answer) = said {
                        return Ok(answer);
                    }
                }
                Tried::Again(problem) => progress.last_problem = Some(problem),
                Tried::Refused(refusal) => return Err(refusal),
            }
            tokio::time::sleep(backoff.next().unwrap_or_default()).await;
        }
    }

    async fn attempt(
        &self,
        script: &Script,
        arguments: &impl Fn(&mut Cmd, u64),
        deadline: Instant,
        progress: &mut Progress,
    ) -> Tried {
        let Connected { mut connection, generation } = match self.connected().await {
            Ok(connected) => connected,
            Err(error) => return self.judge(&error, None),
        };
        let store_deadline = self.clock.at(deadline);
        let mut command = script.by_name();
        arguments(&mut command, store_deadline);
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        progress.waiting_on = Some(generation);
        let mut asked_at = Instant::now();
        let mut answer = self.ask(&mut connection, &command).await;
        if let Err(error) = &answer
            && error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
        {
            // A new server, or scripts flushed: send the text this once.
            let mut command = script.by_text();
            arguments(&mut command, store_deadline);
            self.round_trips.fetch_add(1, Ordering::Relaxed);
            asked_at = Instant::now();
            answer = self.ask(&mut connection, &command).await;
        }
        progress.waiting_on = None;
        match answer {
            Ok(reply) => Tried::Answered(reply, asked_at),
            Err(error) => self.judge(&error, Some(generation)),
        }
    }

    /// One request and its answer.
    ///
    /// A request that is handed to the connection at the very moment at which that ends can be left lying
    /// there: nobody sends it, and nobody says so (tokio's channels allow for that, and redis does not
    /// look). So where no answer comes, something is sent after it: that fails at once on a connection
    /// that has ended, and what is answered before its predecessor tells that there will be no answer.
    async fn ask(&self, connection: &mut MultiplexedConnection, command: &Cmd) -> RedisResult<Value> {
        let mut beside = connection.clone();
        let look = async {
            tokio::time::sleep(self.patience).await;
            self.round_trips.fetch_add(1, Ordering::Relaxed);
            let _: RedisResult<Value> = redis::cmd("PING").query_async(&mut beside).await;
        };
        tokio::select! {
            biased;
            answer = command.query_async(connection) => answer,
            () = look => Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()),
        }
    }

    /// One request without a script, tried once, for people who set up a store.
    pub(super) async fn ping(&self) -> Result<(), Failure> {
        let ping = async {
            let Connected { mut connection, generation } = match self.connected().await {
                Ok(connected) => connected,
                Err(error) => return self.judge(&error, None),
            };
            self.round_trips.fetch_add(1, Ordering::Relaxed);
            let asked_at = Instant::now();
            match self.ask(&mut connection, &redis::cmd("PING")).await {
                Ok(reply) => Tried::Answered(reply, asked_at),
                Err(error) => self.judge(&error, Some(generation)),
            }
        };
        match tokio::time::timeout(self.timeout, ping).await {
            Ok(Tried::Answered(..)) => Ok(()),
            Ok(Tried::Again(problem)) => Err(unreachable(problem)),
            Ok(Tried::Refused(refusal)) => Err(refusal),
            Err(_) => Err(self.out_of_time(&Progress::default())),
        }
    }

    async fn connected(&self) -> RedisResult<Connected> {
        if let Some(connected) = self.current.read().clone() {
            return Ok(connected);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(connected) = self.current.read().clone() {
            return Ok(connected);
        }
        let mut connection = self.client.get_multiplexed_async_connection_with_config(&self.config).await?;
        let asked_at = Instant::now();
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        let (seconds, micros): (u64, u64) =
            redis::from_redis_value(self.ask(&mut connection, &redis::cmd("TIME")).await?)?;
        self.clock.set(seconds.saturating_mul(1000).saturating_add(micros / 1000), asked_at);
        let connected = Connected { connection, generation: self.generations.fetch_add(1, Ordering::Relaxed) };
        *self.current.write() = Some(connected.clone());
        Ok(connected)
    }

    fn discard(&self, generation: u64) {
        let mut current = self.current.write();
        if current.as_ref().is_some_and(|connected| connected.generation == generation) {
            *current = None;
        }
    }

    /// What an error means for the request, and for the connection that it came from.
    fn judge(&self, error: &RedisError, generation: Option<u64>) -> Tried {
        // The server's own words may name hosts, so they stay in the host's log.
        tracing::debug!(target: "keepline", context = "keepline.store", "redis: {error}");
        let discard = || generation.into_iter().for_each(|generation| self.discard(generation));
        let refused = |code, message: &str| Tried::Refused(failure(code, "", message));
        match error.kind() {
            ErrorKind::Server(kind) => match kind {
                ServerErrorKind::BusyLoading => Tried::Again("it is loading its data"),
                ServerErrorKind::TryAgain | ServerErrorKind::ClusterDown | ServerErrorKind::MasterDown => {
                    Tried::Again("its cluster is not ready")
                }
                ServerErrorKind::ReadOnly => {
                    // After a failover the same name may lead to the new master.
                    discard();
                    refused(FailureCode::ReadOnly, "Redis is a read-only replica; connect to the master")
                }
                ServerErrorKind::NoPerm => refused(
                    FailureCode::Denied,
                    "Redis denies a command or key to this user; see the README for the permissions needed",
                ),
                ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::CrossSlot => {
                    refused(FailureCode::Other, "this Redis is a node of a cluster, which needs a layout of its own")
                }
                _ => refused(FailureCode::Other, "Redis refused the command (ERR); it must be Redis 6.2 or newer"),
            },
            ErrorKind::AuthenticationFailed => {
                discard();
                refused(FailureCode::Denied, "Redis refused the password, or the user's name")
            }
            ErrorKind::Extension => match error.code() {
                Some("OOM") => refused(FailureCode::Full, "Redis is out of memory (maxmemory) and takes no writes"),
                Some("MISCONF") => {
                    refused(FailureCode::ReadOnly, "Redis takes no writes because it can't save its data to disk")
                }
                Some("NOREPLICAS") => {
                    refused(FailureCode::ReadOnly, "Redis takes no writes because it has too few replicas")
                }
                Some("NOAUTH" | "WRONGPASS" | "NOPERM") => {
                    discard();
                    refused(FailureCode::Denied, "Redis wants a password, or refused the one it got")
                }
                Some("BUSY") => Tried::Again("it is busy with somebody's script"),
                _ => refused(FailureCode::Other, "Redis refused the command"),
            },
            // Also a reply that was cut in the middle.
            ErrorKind::Parse => {
                discard();
                Tried::Again("what answers there does not speak Redis's protocol, or breaks off")
            }
            ErrorKind::UnexpectedReturnType => {
                discard();
                refused(FailureCode::Unavailable, "what answers there does not speak Redis's protocol")
            }
            ErrorKind::InvalidClientConfig => {
                refused(FailureCode::Denied, "the connection's settings can't be used; see redis_url and redis_tls")
            }
            _ if let Some(told) = tls_problem(error) => refused(FailureCode::Unavailable, told),
            _ => {
                discard();
                Tried::Again(match error.is_connection_refusal() {
                    true => "the connection is refused; is it running, and are host and port right",
                    false if error.is_timeout() => "nobody answers",
                    false => "the connection breaks",
                })
            }
        }
    }

    fn out_of_time(&self, progress: &Progress) -> Failure {
        let milliseconds = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        match progress {
            Progress { last_problem: Some(problem), waiting_on: None } => unreachable(problem),
            _ => Failure {
                limit: milliseconds,
                ..failure(
                    FailureCode::TimedOut,
                    "",
                    format!("Redis did not answer within store_timeout_ms ({milliseconds})"),
                )
            },
        }
    }
}

/// Trying again does not help there. rustls tells in words: an `io::Error` is all that comes through.
fn tls_problem(error: &RedisError) -> Option<&'static str> {
    let told = if error.is_io_error() { error.to_string() } else { return None };
    if told.contains("invalid peer certificate") {
        return Some("Redis shows a certificate that is not trusted for this host; see redis_tls_ca");
    }
    told.contains("received corrupt message").then_some("no TLS connection comes about; is this Redis's port for TLS")
}

fn unreachable(problem: &str) -> Failure {
    failure(FailureCode::Unavailable, "", format!("Redis can't be used: {problem}"))
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("timeout", &self.timeout).field("breaker", &self.breaker).finish_non_exhaustive()
    }
}

/// The store's clock, seen from here: what it says is told by each new connection and by most replies,
/// and in between by counting. It is taken as late as it can be, so that no try in time is ever refused;
/// one that comes late is let through for at most one round trip's time.
struct StoreClock {
    here: Instant,
    /// Milliseconds on the store's clock at `here`.
    there: AtomicI64,
}

impl StoreClock {
    fn new() -> Self {
        Self { here: Instant::now(), there: AtomicI64::new(0) }
    }

    fn set(&self, store_ms: u64, here: Instant) {
        self.there.store(i64::try_from(store_ms).unwrap_or(0).saturating_sub(self.since(here)), Ordering::Relaxed);
    }

    /// It said this at some moment between asking and being answered. What is known already is kept,
    /// unless this moment proves it wrong: a slow reply makes nothing less exact.
    fn observe(&self, store_ms: u64, asked_at: Instant, answered_at: Instant) {
        let store_ms = i64::try_from(store_ms).unwrap_or(0);
        let latest = store_ms.saturating_sub(self.since(asked_at));
        let earliest = store_ms.saturating_sub(self.since(answered_at));
        if !(earliest..=latest).contains(&self.there.load(Ordering::Relaxed)) {
            self.there.store(latest, Ordering::Relaxed);
        }
    }

    fn at(&self, here: Instant) -> u64 {
        let there = self.there.load(Ordering::Relaxed).saturating_add(self.since(here)).saturating_add(1);
        u64::try_from(there).unwrap_or(0)
    }

    fn since(&self, here: Instant) -> i64 {
        i64::try_from(here.saturating_duration_since(self.here).as_millis()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_s_clock_is_never_taken_for_earlier_than_it_is_and_corrects_itself() {
        let clock = StoreClock::new();
        let here = |ms| clock.here + Duration::from_millis(ms);
        // Slow to answer: it may have been told just after it was asked.
        clock.set(100_000, here(0));
        assert_eq!(clock.at(here(1000)), 101_001);
        // It was told 900 ms after it was asked: a quick reply finds out.
        clock.observe(100_100, here(1000), here(1001));
        assert_eq!(clock.at(here(1000)), 100_101);
        // A slow reply that fits with that teaches nothing.
        clock.observe(100_600, here(1100), here(2000));
        assert_eq!(clock.at(here(1000)), 100_101);
        // Somebody sets it, forth and back.
        clock.observe(500_000, here(2000), here(2002));
        assert_eq!(clock.at(here(2000)), 500_001);
        clock.observe(400_000, here(2000), here(2002));
        assert_eq!(clock.at(here(2000)), 400_001);
    }
}
