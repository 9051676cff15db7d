//! Decides what to do about a request without an answer: whether to try again, where, and what to report.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::{
    cluster::RedisServers,
    node::{RedisNode, RequestError},
};
use crate::{Failure, FailureCode, failure};

/// What one try came to, when it was not answered.
pub(crate) enum RetryDecision {
    /// Worth another try; the text says what happened, for people.
    Retry(&'static str),
    /// Another server has it, and is known now.
    Redirected,
    Refused(Failure),
    /// Before there was a connection, or before there was an answer.
    OutOfTime {
        connecting: bool,
    },
}

impl RedisServers {
    /// Decides what becomes of a request without an answer.
    pub(crate) fn decide_retry(&self, unanswered: RequestError, node: Option<&RedisNode>) -> RetryDecision {
        let cluster = match self {
            Self::Single(_) => None,
            Self::Cluster(cluster) => Some(cluster),
        };
        let suspect = || cluster.into_iter().for_each(|cluster| cluster.suspect_map());
        let error = match unanswered {
            RequestError::Error(error) => error,
            RequestError::NotConnected => {
                suspect();
                return RetryDecision::OutOfTime { connecting: true };
            }
            RequestError::NotAnswered => {
                suspect();
                return RetryDecision::OutOfTime { connecting: false };
            }
            RequestError::NoOwner => {
                suspect();
                return RetryDecision::Retry("no node of the cluster owns the session's slot");
            }
            RequestError::Refused(failure) => return RetryDecision::Refused(failure),
        };
        // The server's own words may name hosts, so they stay in the host's log.
        tracing::debug!(target: "keepline", context = "keepline.store", "redis: {error}");
        match error.kind() {
            ErrorKind::Server(kind) => match kind {
                ServerErrorKind::BusyLoading => RetryDecision::Retry("it is loading its data"),
                // The slot is on its way. A session is served where all of it is: see `layout.rs`.
                _ if is_moving(&error) && cluster.is_some() => {
                    RetryDecision::Retry("the session's slot is being moved to another node")
                }
                ServerErrorKind::Moved if cluster.is_some() => {
                    match (cluster, error.redirect_node(), node) {
                        (Some(cluster), Some((to, slot)), Some(node)) => {
                            cluster.record_moved_slot(slot, to, &node.address);
                        }
                        _ => suspect(),
                    }
                    RetryDecision::Redirected
                }
                ServerErrorKind::ClusterDown | ServerErrorKind::MasterDown => {
                    suspect();
                    RetryDecision::Retry("the cluster is not ready")
                }
                ServerErrorKind::ReadOnly => {
                    suspect();
                    match cluster {
                        Some(_) => RetryDecision::Retry("it has become a replica"),
                        None => refused(FailureCode::ReadOnly, "Redis is a read-only replica; connect to the master"),
                    }
                }
                ServerErrorKind::NoPerm => refused(
                    FailureCode::Denied,
                    "Redis denies a command or key to this user; `keepline config --acl` prints the permissions needed",
                ),
                ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::TryAgain
                | ServerErrorKind::CrossSlot => {
                    refused(FailureCode::Other, "this Redis is a cluster node: set redis_cluster")
                }
                _ if error.detail().is_some_and(|detail| detail.contains("cluster support disabled")) => {
                    refused(FailureCode::Other, "this Redis is not a cluster node: leave redis_cluster unset")
                }
                _ => refused(FailureCode::Other, "Redis rejected the command (ERR); Redis 6.2 or newer is required"),
            },
            ErrorKind::AuthenticationFailed => refused(FailureCode::Denied, "Redis rejected the user name or password"),
            ErrorKind::Extension => refused_by_code(error.code()),
            // Also a reply that was cut in the middle.
            ErrorKind::Parse => {
                suspect();
                RetryDecision::Retry("the server does not speak the Redis protocol, or cut its reply short")
            }
            ErrorKind::UnexpectedReturnType => {
                refused(FailureCode::Unavailable, "the server does not speak the Redis protocol")
            }
            ErrorKind::InvalidClientConfig => {
                refused(FailureCode::Denied, "invalid connection settings; see redis_url and redis_tls")
            }
            _ if let Some(told) = tls_problem(&error) => refused(FailureCode::Unavailable, told),
            _ => {
                suspect();
                RetryDecision::Retry(match error.is_connection_refusal() {
                    true => "connection refused; is it running, and are host and port correct",
                    false if error.is_timeout() && self.wire().is_tls => {
                        "the server does not respond; is this Redis's TLS port (redis_tls)"
                    }
                    false if error.is_timeout() => "the server does not respond",
                    false if is_unresolvable(&error) => "its host name can't be resolved",
                    false => "the connection was lost",
                })
            }
        }
    }
}

/// What a code means that redis-rs does not know.
fn refused_by_code(code: Option<&str>) -> RetryDecision {
    match code {
        Some("OOM") => refused(FailureCode::Full, "Redis is out of memory (maxmemory) and rejects writes"),
        Some("MISCONF") => {
            refused(FailureCode::ReadOnly, "Redis rejects writes because it can't save its data to disk")
        }
        Some("NOREPLICAS") => refused(FailureCode::ReadOnly, "Redis rejects writes because it has too few replicas"),
        Some("NOAUTH" | "WRONGPASS" | "NOPERM") => {
            refused(FailureCode::Denied, "Redis requires a password, or rejected the one it was given")
        }
        Some("BUSY") => RetryDecision::Retry("it is busy running another script"),
        _ => refused(FailureCode::Other, "Redis rejected the command"),
    }
}

fn refused(code: FailureCode, message: &str) -> RetryDecision {
    RetryDecision::Refused(failure(code, "", message))
}

/// The slot is on its way to another node.
pub(crate) fn is_moving(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(ServerErrorKind::TryAgain | ServerErrorKind::Ask))
}

/// The slot is another node's.
pub(crate) fn is_moved(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::Moved)
}

/// The resolver tells in words.
fn is_unresolvable(error: &RedisError) -> bool {
    error.is_io_error() && error.to_string().contains("failed to lookup address")
}

/// Trying again does not help there. rustls tells in words: an `io::Error` is all that comes through.
fn tls_problem(error: &RedisError) -> Option<&'static str> {
    let told = if error.is_io_error() { error.to_string() } else { return None };
    if told.contains("invalid peer certificate") {
        return Some("Redis's certificate is not trusted for this host; see redis_tls_ca");
    }
    told.contains("received corrupt message").then_some("TLS handshake failed; is this Redis's TLS port")
}
