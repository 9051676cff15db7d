//! Sends a request to Redis until it is answered or its time is up.
//!
//! The scripts see to it that a request counts once however often it is sent, and refuse it when it arrives too late. `cluster`
//! decides where it is sent, and `node` by which connection.

use std::{fmt, sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use redis::{Cmd, Value};
use tokio::time::{Instant, sleep_until};

use super::{
    clock::later,
    cluster::Servers,
    moving_slots::MovingSlots,
    node::{Answer, Connected, Node, Unanswered, Wire},
    permissions::Needs,
    retry_policy::{Tried, is_moved, is_moving},
};
use crate::{
    Deadline, Failure, FailureCode, failure,
    guard::breaker::{Breaker, BreakerState},
    redis::{
        decode::Said,
        layout::{Registry, Slot},
        scripts::Script,
    },
};

pub(crate) struct Requester {
    servers: Servers,
    wire: Arc<Wire>,
    timeout: Duration,
    /// For requests whose server is not known.
    breaker: Breaker,
    moving: MovingSlots,
}

/// How long a key stays that is only written to be waited for.
const CONFIRMING_MS: u64 = 1000;
/// A redirection is followed at once, but not for ever.
const REDIRECTIONS_IN_A_ROW: u32 = 4;

/// Who was asked last, and what was last said.
struct Asked {
    node: Option<Arc<Node>>,
    /// When anybody said anything, and whether that was that the slot is not where it belongs.
    told: Option<(Instant, bool)>,
}

impl Asked {
    /// Whether nothing came of it because of where the slot is. That the last tries were not answered in time takes
    /// nothing back, unless they were given `enough` of it.
    fn is_moving(&self, enough: Duration) -> bool {
        self.told.is_some_and(|(at, is_moving)| is_moving && at.elapsed() < enough)
    }
}

/// How long a request has.
#[derive(Clone, Copy)]
struct Time {
    began: Instant,
    end: Instant,
    /// By the caller's deadline, which comes before the store's time-out.
    is_callers: bool,
}

impl Time {
    fn new(timeout: Duration, deadline: Deadline) -> Self {
        let began = Instant::now();
        let own = later(began, timeout);
        match deadline.instant().filter(|deadline| *deadline < own) {
            Some(end) => Self { began, end, is_callers: true },
            None => Self { began, end: own, is_callers: false },
        }
    }

    fn given(&self) -> Duration {
        self.end.saturating_duration_since(self.began)
    }
}

impl Requester {
    pub(crate) fn new(servers: Servers, wire: Arc<Wire>, timeout: Duration) -> Self {
        let (breaker, moving) = (Breaker::new(wire.breaker), MovingSlots::new(wire.breaker));
        Self { servers, wire, timeout, breaker, moving }
    }

    pub(crate) fn round_trips(&self) -> u64 {
        self.wire.round_trips()
    }

    /// How the circuit breakers of the servers stand: the worst of them.
    pub(crate) fn breaker(&self) -> BreakerState {
        self.servers.breaker().unwrap_or_else(|| self.breaker.state())
    }

    /// Picks one for each server, by the slots that each is known to have, and one whose slot has no known owner.
    pub(crate) fn one_for_each_server<T>(&self, all: impl IntoIterator<Item = (T, Slot)>) -> Vec<T> {
        let mut servers: Vec<Option<Arc<Node>>> = Vec::new();
        let mut is_new = |slot| {
            let owner = self.servers.owner(slot);
            let is_new =
                !servers.iter().any(|known| known.as_ref().map(Arc::as_ptr) == owner.as_ref().map(Arc::as_ptr));
            if is_new {
                servers.push(owner);
            }
            is_new
        };
        all.into_iter().filter_map(|(one, slot)| is_new(slot).then_some(one)).collect()
    }

    /// Runs a script where a registry and its buckets are, if the user may do all that it needs. `arguments` writes what comes after the script's name, given the time
    /// (on the store's clock, milliseconds) after which the script must refuse; `read` makes sense of the
    /// reply and of the store's clock in it, or finds it came late.
    ///
    /// However it ends, it ends by the deadline, and within the time-out.
    pub(crate) async fn run<T>(
        &self,
        registry: &Registry,
        (script, needs): (&Script, Needs),
        arguments: impl Fn(&mut Cmd, u64),
        read: impl Fn(Value) -> Result<(Said<T>, u64), Failure>,
        deadline: Deadline,
    ) -> Result<T, Failure> {
        let slot = registry.slot;
        let time = Time::new(self.timeout, deadline);
        if time.end <= time.began {
            return Err(failure(FailureCode::TimedOut, "", "the deadline had passed before Redis was asked"));
        }
        let stuck = self.moving.get(slot);
        let slot_leave = stuck.as_ref().map(|breaker| breaker.admit(time.began).ok_or_else(|| left_alone(STUCK)));
        let slot_leave = slot_leave.transpose()?;
        let mut asked = Asked { node: self.servers.owner(slot), told: None };
        let expected = asked.node.clone();
        let leave = self.breaker_of(&expected).admit(time.began).ok_or_else(|| left_alone(FAILING))?;
        let outcome = self.attempts(registry, (script, needs), arguments, read, time, &mut asked).await;
        let breaker = self.breaker_of(&asked.node);
        if !matches!(&outcome, Err(Failure { code: FailureCode::Unavailable | FailureCode::TimedOut, .. })) {
            breaker.succeeded();
            leave.reported(breaker);
            self.moving.served(slot);
        } else if asked.is_moving(self.wire.enough) {
            // Not the node's fault, and the other sessions on it must not suffer for it.
            let breaker = self.moving.stuck(slot);
            self.blame(&breaker, time);
            slot_leave.into_iter().for_each(|leave| leave.reported(&breaker));
        } else {
            self.blame(breaker, time);
            leave.reported(breaker);
        }
        outcome
    }

    /// The breaker of a node, or of requests whose node is not known.
    fn breaker_of<'a>(&'a self, node: &'a Option<Arc<Node>>) -> &'a Breaker {
        node.as_ref().map_or(&self.breaker, |node| &node.breaker)
    }

    /// Nothing came of a request in the time that it had. Where a caller had no more, that says little.
    fn blame(&self, breaker: &Breaker, time: Time) {
        match time.given() >= self.wire.enough {
            true => breaker.failed(),
            false => breaker.cut_short(time.began, self.timeout),
        }
    }

    async fn attempts<T>(
        &self,
        registry: &Registry,
        script: (&Script, Needs),
        arguments: impl Fn(&mut Cmd, u64),
        read: impl Fn(Value) -> Result<(Said<T>, u64), Failure>,
        time: Time,
        asked: &mut Asked,
    ) -> Result<T, Failure> {
        let deadline = time.end;
        let mut backoff = backoff();
        let (mut last_problem, mut redirections) = (None, 0);
        loop {
            match self.attempt(registry.slot, script, &arguments, deadline, asked).await {
                Ok((node, answer)) => {
                    let (said, now) = read(answer.reply)?;
                    if now > 0 {
                        node.observe_clock(now, answer.asked_at);
                    }
                    match said {
                        Said::Answer(reply) => return Ok(reply),
                        Said::Written(reply) | Said::Found(reply) if self.wire.wait_replicas == 0 => return Ok(reply),
                        Said::Written(reply) => {
                            return self.confirm(&node, answer.connected, deadline).await.map(|()| reply);
                        }
                        Said::Found(reply) => {
                            return self
                                .confirm_found(&node, registry, answer.connected, deadline)
                                .await
                                .map(|()| reply);
                        }
                        // Its clock may have been set since. It is known again now; try with it.
                        Said::Late => {}
                    }
                }
                Err(Tried::Again(problem)) => last_problem = Some(problem),
                Err(Tried::Elsewhere) if redirections < REDIRECTIONS_IN_A_ROW => {
                    redirections += 1;
                    continue;
                }
                Err(Tried::Elsewhere) => {
                    // A move that only some of the nodes know of: they are well, and it is about this slot alone.
                    asked.told = Some((Instant::now(), true));
                    last_problem = Some("the cluster's nodes disagree on who owns the session's slot");
                }
                Err(Tried::Refused(refusal)) => return Err(refusal),
                Err(Tried::OutOfTime { connecting: true }) if let Some(problem) = last_problem => {
                    return Err(unreachable(problem));
                }
                Err(Tried::OutOfTime { connecting }) => {
                    return Err(self.timed_out(time, connecting, last_problem));
                }
            }
            redirections = 0;
            let next_try = Instant::now() + backoff.next().unwrap_or_default();
            sleep_until(next_try.min(deadline)).await;
            if next_try >= deadline {
                return Err(last_problem.map_or_else(|| self.timed_out(time, false, None), unreachable));
            }
        }
    }

    async fn attempt(
        &self,
        slot: Slot,
        (script, needs): (&Script, Needs),
        arguments: &impl Fn(&mut Cmd, u64),
        deadline: Instant,
        asked: &mut Asked,
    ) -> Result<(Arc<Node>, Answer), Tried> {
        let classify = |unanswered, node| self.servers.classify(&self.wire, unanswered, node);
        let node =
            self.servers.find(slot, &self.wire, deadline).await.map_err(|unanswered| classify(unanswered, None))?;
        asked.node = Some(node.clone());
        let answered = node.run(&self.wire, script, needs, arguments, deadline).await;
        if let Err(Unanswered::Error(error)) = &answered {
            let was_moving = asked.told.is_some_and(|(_, is_moving)| is_moving);
            asked.told = Some((Instant::now(), is_moving(error) || (was_moving && is_moved(error))));
        }
        match answered {
            Ok(answer) => Ok((node, answer)),
            Err(unanswered) => Err(classify(unanswered, Some(&node))),
        }
    }

    /// The same for what was written before, over another connection perhaps. `WAIT` speaks only of what its own
    /// connection has written, so that writes something first, which comes after it in the stream to the replicas.
    async fn confirm_found(
        &self,
        node: &Node,
        registry: &Registry,
        connected: Arc<Connected>,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let mut write = redis::cmd("SET");
        write.arg(registry.confirming()).arg("").arg("PX").arg(CONFIRMING_MS);
        match node.ask(&self.wire, connected, &write, deadline).await {
            Ok(Answer { connected, .. }) => self.confirm(node, connected, deadline).await,
            Err(_) => Err(self.not_confirmed()),
        }
    }

    /// Waits until as many replicas as wanted have what was written.
    async fn confirm(&self, node: &Node, connected: Arc<Connected>, deadline: Instant) -> Result<(), Failure> {
        match node.replicated(&self.wire, connected, deadline).await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(self.not_confirmed()),
        }
    }

    fn not_confirmed(&self) -> Failure {
        let message = format!("done, but not confirmed by {} replicas (redis_wait_replicas)", self.wire.wait_replicas);
        failure(FailureCode::ReadOnly, "", message)
    }

    /// A request to every server without a script, tried once, for people who set up a store.
    pub(crate) async fn ping(&self) -> Result<(), Failure> {
        let time = Time::new(self.timeout, Deadline::NEVER);
        for node in self.servers().await? {
            let pong = node.command(&self.wire, &redis::cmd("PING"), time.end).await;
            pong.map_err(|unanswered| self.told(self.servers.classify(&self.wire, unanswered, Some(&node)), time))?;
        }
        Ok(())
    }

    /// The servers that answer for some part of the data, all of them together for all of it.
    pub(crate) async fn servers(&self) -> Result<Vec<Arc<Node>>, Failure> {
        let time = Time::new(self.timeout, Deadline::NEVER);
        let found = self.servers.all(&self.wire, time.end).await;
        found.map_err(|unanswered| self.told(self.servers.classify(&self.wire, unanswered, None), time))
    }

    /// A request without a script to one of them, which changes nothing: until it is answered or the time-out is over.
    pub(crate) async fn ask(&self, node: &Arc<Node>, command: &Cmd) -> Result<Value, Failure> {
        let time = Time::new(self.timeout, Deadline::NEVER);
        let mut backoff = backoff();
        let mut last_problem = None;
        loop {
            match node.command(&self.wire, command, time.end).await {
                Ok(reply) => return Ok(reply),
                Err(unanswered) => match self.servers.classify(&self.wire, unanswered, Some(node)) {
                    Tried::Again(problem) => last_problem = Some(problem),
                    Tried::OutOfTime { connecting } => return Err(self.timed_out(time, connecting, last_problem)),
                    tried => return Err(self.told(tried, time)),
                },
            }
            let next_try = Instant::now() + backoff.next().unwrap_or_default();
            sleep_until(next_try.min(time.end)).await;
            if next_try >= time.end {
                return Err(last_problem.map_or_else(|| self.timed_out(time, false, None), unreachable));
            }
        }
    }

    /// One try, for people.
    fn told(&self, tried: Tried, time: Time) -> Failure {
        match tried {
            Tried::Again(problem) => unreachable(problem),
            Tried::Refused(refusal) => refusal,
            Tried::Elsewhere => self.timed_out(time, false, None),
            Tried::OutOfTime { connecting } => self.timed_out(time, connecting, None),
        }
    }

    /// With what the tries before met with.
    fn timed_out(&self, time: Time, connecting: bool, problem: Option<&str>) -> Failure {
        let given = if time.is_callers { time.given() } else { self.timeout };
        let milliseconds = u64::try_from(given.as_millis()).unwrap_or(u64::MAX);
        let what = if connecting { "could not connect to Redis" } else { "Redis did not answer" };
        let mut message = match time.is_callers {
            true => format!("{what} before the deadline ({milliseconds} ms)"),
            false => format!("{what} within store_timeout_ms ({milliseconds})"),
        };
        if connecting && self.wire.is_tls {
            message.push_str("; is this Redis's TLS port (redis_tls)");
        }
        if let Some(problem) = problem {
            message.push_str("; before that, ");
            message.push_str(problem);
        }
        Failure { limit: milliseconds, ..failure(FailureCode::TimedOut, "", message) }
    }
}

fn backoff() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::new()
        .with_min_delay(Duration::from_millis(1))
        .with_max_delay(Duration::from_millis(50))
        .with_jitter()
        .without_max_times()
        .build()
}

const FAILING: &str = "the store has failed several times in a row; requests to it are suspended for a moment";
const STUCK: &str =
    "the session's slot is being moved to another node but is stuck; requests to it are suspended for a moment";

fn left_alone(why: &str) -> Failure {
    failure(FailureCode::Unavailable, "", why)
}

fn unreachable(problem: &str) -> Failure {
    failure(FailureCode::Unavailable, "", format!("Redis can't be used: {problem}"))
}

impl fmt::Debug for Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requester")
            .field("timeout", &self.timeout)
            .field("servers", &self.servers)
            .finish_non_exhaustive()
    }
}
