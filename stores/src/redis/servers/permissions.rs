//! Asks which commands the user of a connection may call, before anything is done: a script that is denied a command halfway
//! has written what came before it, and Redis takes nothing back.
//!
//! Asked once for each connection and kind of request, and again for each request while something is missing. Refuses a request
//! as a whole: one that writes where any command of writing requests is denied, one that reads where one of reading ones is.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::node::{NodeConnection, RedisNode, RequestError, WireConfig};
use crate::{
    Failure, FailureCode, failure,
    redis::{
        decode,
        options::acl::{READING, TRANSFERRING, WITH_TWO_KEYS, WRITING},
    },
};

/// What a request comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum CommandNeeds {
    /// It reads.
    Reading = 1,
    /// It writes, in a bucket that may have to be made.
    Writing = 2,
    /// It takes a bucket in that comes from another store, or lets one go.
    Transferring = 4,
}

/// What is known to be allowed, as a sum of [`CommandNeeds`].
#[derive(Debug, Default)]
pub(crate) struct KnownPermissions(AtomicU8);

impl KnownPermissions {
    fn is_known_allowed(&self, needs: CommandNeeds) -> bool {
        self.0.load(Ordering::Relaxed) & needs as u8 != 0
    }

    /// What needs more needs all that less does, too.
    fn record_allowed(&self, needs: CommandNeeds) {
        self.0.fetch_or(needs as u8 | (needs as u8 - 1), Ordering::Relaxed);
    }

    /// Something was denied after all: somebody has changed the user's rules.
    pub(crate) fn forget_all(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl CommandNeeds {
    fn commands(self, wire: &WireConfig) -> Vec<&'static str> {
        let called = match self {
            Self::Reading => &[READING] as &[&'static str],
            Self::Writing => &[READING, WRITING],
            Self::Transferring => &[READING, WRITING, TRANSFERRING],
        };
        let mut commands: Vec<_> = called.iter().flat_map(|commands| commands.split(' ')).collect();
        if self != Self::Reading && wire.wait_replicas > 0 {
            commands.push("wait");
        }
        commands
    }
}

impl RedisNode {
    /// Refuses a request that could be denied a command.
    pub(crate) async fn check_permissions(
        &self,
        connected: &Arc<NodeConnection>,
        needs: CommandNeeds,
        deadline: Instant,
    ) -> Result<(), RequestError> {
        if connected.permissions.is_known_allowed(needs) {
            return Ok(());
        }
        let commands = needs.commands(&self.wire);
        let mut probe = Cmd::with_capacity(128, 2048);
        probe.arg("EVAL").arg(include_str!("../scripts/probe.lua")).arg(0).arg(&*self.wire.probed_key);
        for command in &commands {
            probe.arg(command).arg(keys_of(command));
        }
        match self.send_on_connection(connected.clone(), &probe, deadline).await {
            Ok(answer) => match answer.reply {
                Value::Array(missing) if missing.is_empty() => connected.permissions.record_allowed(needs),
                Value::Array(missing) => {
                    let missing = missing.into_iter().filter_map(|name| decode::value_to_text(name).ok());
                    let missing: Vec<_> = missing.filter(|name| commands.contains(&&**name)).collect();
                    if !missing.is_empty() {
                        return Err(RequestError::Refused(denied_failure(&commands, &missing)));
                    }
                }
                // Whatever is wrong there, the request itself will meet with it.
                _ => {}
            },
            Err(RequestError::Error(error)) => {
                tracing::debug!(target: "keepline", context = "keepline.store", "redis: {error}");
            }
            Err(unanswered) => return Err(unanswered),
        }
        Ok(())
    }
}

/// How many keys a command takes at least.
fn keys_of(command: &str) -> usize {
    match command {
        "time" | "wait" => 0,
        command if WITH_TWO_KEYS.contains(&command) => 2,
        _ => 1,
    }
}

fn denied_failure(commands: &[&str], missing: &[String]) -> Failure {
    let takes_keys = |command: &&&str| keys_of(command) > 0;
    let is_missing = |command: &&str| missing.iter().any(|name| name == command);
    let what = match commands.iter().filter(takes_keys).all(is_missing) {
        true => "the keys of key_prefix".to_owned(),
        false => missing.join(", "),
    };
    let message = format!(
        "Redis denies this user {what}, so nothing was done; `keepline config --acl` prints the permissions needed"
    );
    failure(FailureCode::Denied, "", message)
}
