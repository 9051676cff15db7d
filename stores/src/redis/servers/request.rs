//! Sends a request to Redis until it is answered or its time is up.
//!
//! The scripts see to it that a request counts once however often it is sent, and refuse it when it arrives too late. `cluster`
//! decides where it is sent, and `node` by which connection.

use std::{sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use redis::{Cmd, Value};
use tokio::time::{Instant, sleep_until};

use super::{
    clock::instant_after,
    cluster::RedisServers,
    moving_slots::MovingSlots,
    node::{NodeAnswer, NodeConnection, RedisNode, RequestError},
    permissions::CommandNeeds,
    retry_policy::{RetryDecision, is_moved, is_moving},
};
use crate::{
    Deadline, Failure, FailureCode, failure,
    guard::breaker::{Breaker, BreakerState},
    redis::{
        decode::ScriptReply,
        layout::{BucketRegistry, HashSlot},
        scripts::LuaScript,
    },
};

pub(crate) struct Requester {
    servers: RedisServers,
    timeout: Duration,
    /// For requests whose server is not known.
    breaker: Breaker,
    moving: MovingSlots,
}

/// How long a key stays that is only written to be waited for.
const CONFIRMING_MS: u64 = 1000;
/// A redirection is followed at once, but only so many times.
const REDIRECTIONS_IN_A_ROW: u32 = 4;

/// Who was asked last, and what was last said.
struct LastAsked {
    node: Option<Arc<RedisNode>>,
    /// When anybody said anything, and whether that was that the slot is not where it belongs.
    said: Option<(Instant, bool)>,
}

impl LastAsked {
    /// Whether nothing came of it because of where the slot is. That the last tries were not answered in time takes
    /// nothing back, unless they were given `enough` of it.
    fn is_moving(&self, enough: Duration) -> bool {
        self.said.is_some_and(|(at, is_moving)| is_moving && at.elapsed() < enough)
    }
}

/// How long a request has.
#[derive(Clone, Copy)]
struct RequestTime {
    began: Instant,
    end: Instant,
    /// By the caller's deadline, which comes before the store's time-out.
    is_callers: bool,
}

impl RequestTime {
    fn new(timeout: Duration, deadline: Deadline) -> Self {
        let began = Instant::now();
        let own = instant_after(began, timeout);
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
    pub(crate) fn new(servers: RedisServers, timeout: Duration) -> Self {
        let (breaker, moving) = (Breaker::new(servers.wire().breaker), MovingSlots::new(servers.wire().breaker));
        Self { servers, timeout, breaker, moving }
    }

    pub(crate) fn round_trips(&self) -> u64 {
        self.servers.wire().round_trips()
    }

    /// How the circuit breakers of the servers stand: the worst of them.
    pub(crate) fn breaker(&self) -> BreakerState {
        self.servers.breaker().unwrap_or_else(|| self.breaker.state())
    }

    /// Picks one for each server, by the slots that each is known to have, and one whose slot has no known owner.
    pub(crate) fn one_for_each_server<T>(&self, all: impl IntoIterator<Item = (T, HashSlot)>) -> Vec<T> {
        let mut servers: Vec<Option<Arc<RedisNode>>> = Vec::new();
        let mut is_new = |slot| {
            let owner = self.servers.known_owner(slot);
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
    pub(crate) async fn run_script<T>(
        &self,
        registry: &BucketRegistry,
        (script, needs): (&LuaScript, CommandNeeds),
        arguments: impl Fn(&mut Cmd, u64),
        read: impl Fn(Value) -> Result<(ScriptReply<T>, u64), Failure>,
        deadline: Deadline,
    ) -> Result<T, Failure> {
        let slot = registry.slot;
        let time = RequestTime::new(self.timeout, deadline);
        if time.end <= time.began {
            return Err(failure(FailureCode::TimedOut, "", "the deadline had passed before Redis was asked"));
        }
        let stuck = self.moving.get(slot);
        let slot_leave = stuck.as_ref().map(|breaker| breaker.admit(time.began).ok_or_else(|| left_alone(STUCK)));
        let slot_leave = slot_leave.transpose()?;
        let mut asked = LastAsked { node: self.servers.known_owner(slot), said: None };
        let expected = asked.node.clone();
        let leave = self.breaker_of(&expected).admit(time.began).ok_or_else(|| left_alone(FAILING))?;
        let outcome = self.run_until_answered(registry, (script, needs), arguments, read, time, &mut asked).await;
        let breaker = self.breaker_of(&asked.node);
        if !matches!(&outcome, Err(Failure { code: FailureCode::Unavailable | FailureCode::TimedOut, .. })) {
            breaker.record_success();
            leave.mark_reported(breaker);
            self.moving.mark_served(slot);
        } else if asked.is_moving(self.servers.wire().enough) {
            // Not the node's fault, and the other sessions on it must not suffer for it.
            let breaker = self.moving.mark_stuck(slot);
            self.record_failure(&breaker, time);
            slot_leave.into_iter().for_each(|leave| leave.mark_reported(&breaker));
        } else {
            self.record_failure(breaker, time);
            leave.mark_reported(breaker);
        }
        outcome
    }

    /// The breaker of a node, or of requests whose node is not known.
    fn breaker_of<'a>(&'a self, node: &'a Option<Arc<RedisNode>>) -> &'a Breaker {
        node.as_ref().map_or(&self.breaker, |node| &node.breaker)
    }

    /// Nothing came of a request in the time that it had. Where a caller had no more, that says little.
    fn record_failure(&self, breaker: &Breaker, time: RequestTime) {
        match time.given() >= self.servers.wire().enough {
            true => breaker.record_failure(Instant::now()),
            false => breaker.record_cut_short(time.began, self.timeout, Instant::now()),
        }
    }

    async fn run_until_answered<T>(
        &self,
        registry: &BucketRegistry,
        script: (&LuaScript, CommandNeeds),
        arguments: impl Fn(&mut Cmd, u64),
        read: impl Fn(Value) -> Result<(ScriptReply<T>, u64), Failure>,
        time: RequestTime,
        asked: &mut LastAsked,
    ) -> Result<T, Failure> {
        let deadline = time.end;
        let mut backoff = backoff();
        let (mut last_problem, mut redirections) = (None, 0);
        loop {
            match self.run_once(registry.slot, script, &arguments, deadline, asked).await {
                Ok((node, answer)) => {
                    let (said, now) = read(answer.reply)?;
                    if now > 0 {
                        node.observe_clock(now, answer.asked_at);
                    }
                    match said {
                        ScriptReply::Answer(reply) => return Ok(reply),
                        ScriptReply::Written(reply) | ScriptReply::Found(reply)
                            if self.servers.wire().wait_replicas == 0 =>
                        {
                            return Ok(reply);
                        }
                        ScriptReply::Written(reply) => {
                            return self.confirm(&node, None, answer.connected, deadline).await.map(|()| reply);
                        }
                        ScriptReply::Found(reply) => {
                            let found = Some(registry);
                            return self.confirm(&node, found, answer.connected, deadline).await.map(|()| reply);
                        }
                        // Its clock may have been set since. It is known again now; try with it.
                        ScriptReply::Late => {}
                    }
                }
                Err(RetryDecision::Retry(problem)) => last_problem = Some(problem),
                Err(RetryDecision::Redirected) if redirections < REDIRECTIONS_IN_A_ROW => {
                    redirections += 1;
                    continue;
                }
                Err(RetryDecision::Redirected) => {
                    // A move that only some of the nodes know of: they are well, and it is about this slot alone.
                    asked.said = Some((Instant::now(), true));
                    last_problem = Some("the cluster's nodes disagree on who owns the session's slot");
                }
                Err(RetryDecision::Refused(refusal)) => return Err(refusal),
                Err(RetryDecision::OutOfTime { connecting: true }) if let Some(problem) = last_problem => {
                    return Err(unreachable(problem));
                }
                Err(RetryDecision::OutOfTime { connecting }) => {
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

    async fn run_once(
        &self,
        slot: HashSlot,
        (script, needs): (&LuaScript, CommandNeeds),
        arguments: &impl Fn(&mut Cmd, u64),
        deadline: Instant,
        asked: &mut LastAsked,
    ) -> Result<(Arc<RedisNode>, NodeAnswer), RetryDecision> {
        let classify = |unanswered, node| self.servers.decide_retry(unanswered, node);
        let node = self.servers.find_owner(slot, deadline).await.map_err(|unanswered| classify(unanswered, None))?;
        asked.node = Some(node.clone());
        let answered = node.run_script(script, needs, arguments, deadline).await;
        if let Err(RequestError::Error(error)) = &answered {
            let was_moving = asked.said.is_some_and(|(_, is_moving)| is_moving);
            asked.said = Some((Instant::now(), is_moving(error) || (was_moving && is_moved(error))));
        }
        match answered {
            Ok(answer) => Ok((node, answer)),
            Err(unanswered) => Err(classify(unanswered, Some(&node))),
        }
    }

    /// Waits until as many replicas as wanted have what was written: now, or before and over another connection perhaps,
    /// where it was `found` in this registry. `WAIT` speaks only of what its own connection has written, so that writes
    /// something first then, which comes after it in the stream to the replicas.
    async fn confirm(
        &self,
        node: &RedisNode,
        found: Option<&BucketRegistry>,
        connected: Arc<NodeConnection>,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let confirmed = async {
            if let Some(registry) = found {
                let mut write = redis::cmd("SET");
                write.arg(registry.confirming_key()).arg("").arg("PX").arg(CONFIRMING_MS);
                node.send_on_connection(connected.clone(), &write, deadline).await?;
            }
            node.wait_for_replicas(connected, deadline).await
        };
        if matches!(confirmed.await, Ok(true)) {
            return Ok(());
        }
        let message =
            format!("done, but not confirmed by {} replicas (redis_wait_replicas)", self.servers.wire().wait_replicas);
        Err(failure(FailureCode::ReadOnly, "", message))
    }

    /// A request to every server without a script, tried once, for people who set up a store.
    pub(crate) async fn ping(&self) -> Result<(), Failure> {
        let time = RequestTime::new(self.timeout, Deadline::NEVER);
        for node in self.list_slot_owners().await? {
            let pong = node.send_command(&redis::cmd("PING"), time.end).await;
            pong.map_err(|unanswered| self.failure_from_try(self.servers.decide_retry(unanswered, Some(&node)), time))?;
        }
        Ok(())
    }

    /// The servers that answer for some part of the data, all of them together for all of it.
    pub(crate) async fn list_slot_owners(&self) -> Result<Vec<Arc<RedisNode>>, Failure> {
        let time = RequestTime::new(self.timeout, Deadline::NEVER);
        let found = self.servers.list_slot_owners(time.end).await;
        found.map_err(|unanswered| self.failure_from_try(self.servers.decide_retry(unanswered, None), time))
    }

    /// A request without a script to one of them, which changes nothing: until it is answered or the time-out is over.
    pub(crate) async fn send_until_answered(&self, node: &Arc<RedisNode>, command: &Cmd) -> Result<Value, Failure> {
        let time = RequestTime::new(self.timeout, Deadline::NEVER);
        let mut backoff = backoff();
        let mut last_problem = None;
        loop {
            match node.send_command(command, time.end).await {
                Ok(reply) => return Ok(reply),
                Err(unanswered) => match self.servers.decide_retry(unanswered, Some(node)) {
                    RetryDecision::Retry(problem) => last_problem = Some(problem),
                    RetryDecision::OutOfTime { connecting } => {
                        return Err(self.timed_out(time, connecting, last_problem));
                    }
                    tried => return Err(self.failure_from_try(tried, time)),
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
    fn failure_from_try(&self, tried: RetryDecision, time: RequestTime) -> Failure {
        match tried {
            RetryDecision::Retry(problem) => unreachable(problem),
            RetryDecision::Refused(refusal) => refusal,
            RetryDecision::Redirected => self.timed_out(time, false, None),
            RetryDecision::OutOfTime { connecting } => self.timed_out(time, connecting, None),
        }
    }

    /// With what the tries before met with.
    fn timed_out(&self, time: RequestTime, connecting: bool, problem: Option<&str>) -> Failure {
        let given = if time.is_callers { time.given() } else { self.timeout };
        let milliseconds = u64::try_from(given.as_millis()).unwrap_or(u64::MAX);
        let what = if connecting { "could not connect to Redis" } else { "Redis did not answer" };
        let mut message = match time.is_callers {
            true => format!("{what} before the deadline ({milliseconds} ms)"),
            false => format!("{what} within store_timeout_ms ({milliseconds})"),
        };
        if connecting && self.servers.wire().is_tls {
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
