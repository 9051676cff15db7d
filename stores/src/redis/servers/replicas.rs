//! Waits until replicas have what was written, with one wait for the writes of all pipes.
//!
//! State changes only when an answer arrives: a request that leaves before that leaves nothing behind.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redis::RedisError;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout_at},
};

use super::node::{NodeConnection, RedisNode, RequestError};

/// What the replicas are known to have of the writes of one connection.
///
/// `WAIT` speaks of its own connection's writes and holds that up, for all pipes. So one serves all writes
/// that were answered before it is sent.
#[derive(Default)]
pub(crate) struct ReplicaProgress {
    /// Writes answered so far.
    written: AtomicU64,
    known: Mutex<KnownProgress>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct KnownProgress {
    /// How many of them have been reported.
    upto: u64,
    /// Since when it has been known that the replicas have not got that; none: they have.
    lagging_since: Option<Instant>,
}

/// How long a `WAIT` may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WaitPlan {
    patience: Duration,
    /// Long enough to tell that the replicas lag. Otherwise it is cut short, or a mere glance.
    is_thorough: bool,
}

impl KnownProgress {
    fn look(self, patience: Duration, now: Instant, left: Duration) -> WaitPlan {
        let (wanted, is_thorough) = match self.lagging_since {
            None => (patience, true),
            Some(since) if now.duration_since(since) < ReplicaProgress::TIME_BETWEEN_LOOKS => {
                (ReplicaProgress::NO_PATIENCE, false)
            }
            Some(_) => (ReplicaProgress::PATIENCE_WHILE_LAGGING, true),
        };
        // The answer has to come back, too.
        let most = left / 2;
        WaitPlan { patience: wanted.min(most), is_thorough: is_thorough && wanted <= most }
    }

    /// After a look at so many writes.
    fn after_wait(self, look: WaitPlan, upto: u64, has_arrived: bool, now: Instant) -> Self {
        match self.lagging_since {
            _ if has_arrived => Self { upto, lagging_since: None },
            _ if look.is_thorough => Self { upto, lagging_since: Some(now) },
            // That they lag is known already, and goes for these writes as well.
            Some(since) => Self { upto, lagging_since: Some(since) },
            None => self,
        }
    }
}

impl ReplicaProgress {
    /// While replicas lag, reads must not wait behind one write after the other.
    const NO_PATIENCE: Duration = Duration::from_millis(1);
    /// Every now and then it is looked whether they are only a little farther away than that.
    const PATIENCE_WHILE_LAGGING: Duration = Duration::from_millis(20);
    const TIME_BETWEEN_LOOKS: Duration = Duration::from_millis(200);
}

impl RedisNode {
    /// Waits until as many replicas as wanted have what was written on this connection before this call.
    /// False: they have not, in the time that there is.
    pub(crate) async fn wait_for_replicas(
        &self,
        connected: Arc<NodeConnection>,
        deadline: Instant,
    ) -> Result<bool, RequestError> {
        let replicas = &connected.replicas;
        let mine = replicas.written.fetch_add(1, Ordering::Relaxed) + 1;
        let mut known = timeout_at(deadline, replicas.known.lock()).await.map_err(|_| RequestError::NotAnswered)?;
        if known.upto >= mine {
            return Ok(known.lagging_since.is_none());
        }
        let upto = replicas.written.load(Ordering::Relaxed);
        let now = Instant::now();
        let look = known.look(self.wire.patience, now, deadline.saturating_duration_since(now));
        let milliseconds = u64::try_from(look.patience.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.wire.wait_replicas).arg(milliseconds);
        let answer = self.send_on_connection(connected.clone(), &wait, deadline).await?;
        let have_it: u32 = redis::from_redis_value(answer.reply).map_err(RedisError::from)?;
        let has_arrived = have_it >= self.wire.wait_replicas;
        *known = known.after_wait(look, upto, has_arrived, Instant::now());
        Ok(has_arrived)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        sync::mpsc,
    };

    use super::*;
    use crate::{RedisOptions, redis::servers::node::WireConfig};

    const PATIENCE: Duration = Duration::from_millis(250);
    const LONG: Duration = Duration::from_secs(5);

    #[test]
    fn a_wait_that_was_cut_short_does_not_mark_replicas_as_lagging() {
        let now = Instant::now();
        let known = KnownProgress { upto: 3, lagging_since: None };
        let short = known.look(PATIENCE, now, Duration::from_millis(40));
        assert_eq!(short, WaitPlan { patience: Duration::from_millis(20), is_thorough: false });
        assert_eq!(known.after_wait(short, 9, false, now), known);
        assert_eq!(known.after_wait(short, 9, true, now), KnownProgress { upto: 9, lagging_since: None });
    }

    #[test]
    fn lagging_replicas_are_waited_for_at_length_only_at_intervals() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let known = KnownProgress { upto: 3, lagging_since: None };
        let thorough = known.look(PATIENCE, start, LONG);
        assert_eq!(thorough, WaitPlan { patience: PATIENCE, is_thorough: true });
        let lagging = known.after_wait(thorough, 9, false, at(250));
        assert_eq!(lagging, KnownProgress { upto: 9, lagging_since: Some(at(250)) });
        let glance = lagging.look(PATIENCE, at(300), LONG);
        assert_eq!(glance, WaitPlan { patience: ReplicaProgress::NO_PATIENCE, is_thorough: false });
        let still = lagging.after_wait(glance, 12, false, at(301));
        assert_eq!(still, KnownProgress { upto: 12, lagging_since: Some(at(250)) }, "the next look comes as soon");
        let again = still.look(PATIENCE, at(450), LONG);
        assert_eq!(again, WaitPlan { patience: ReplicaProgress::PATIENCE_WHILE_LAGGING, is_thorough: true });
        assert_eq!(still.after_wait(again, 15, false, at(470)).lagging_since, Some(at(470)));
        assert_eq!(still.after_wait(again, 15, true, at(470)), KnownProgress { upto: 15, lagging_since: None });
    }

    /// A server that tells with how much patience each `WAIT` comes, and answers none before the second.
    async fn server() -> (u16, mpsc::UnboundedReceiver<String>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, waits) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut buffer, mut waiting) = ([0; 1024], 0);
            while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                let request = String::from_utf8_lossy(&buffer[..length]).into_owned();
                let reply = if request.contains("TIME") {
                    "*2\r\n$1\r\n1\r\n$1\r\n1\r\n"
                } else if request.contains("WAIT") {
                    tell.send(request.trim().rsplit("\r\n").next().unwrap().to_owned()).unwrap();
                    waiting += 1;
                    if waiting == 2 { ":0\r\n:1\r\n" } else { "" }
                } else {
                    ""
                };
                stream.write_all(reply.as_bytes()).await.unwrap();
            }
        });
        (port, waits)
    }

    #[tokio::test]
    async fn a_cancelled_wait_does_not_mark_replicas_as_lagging() {
        let (port, mut waits) = server().await;
        let options = RedisOptions {
            host: "127.0.0.1".into(),
            port,
            wait_replicas: 1,
            store_timeout: LONG,
            ..RedisOptions::default()
        };
        let (address, client) = options.build_clients().unwrap().single_client().unwrap();
        let wire = Arc::new(WireConfig::new(&options, false));
        let node = Arc::new(RedisNode::new(address, client, wire));
        let deadline = Instant::now() + LONG;
        let connected = node.ensure_connected(deadline).await.ok().unwrap();
        let patience = PATIENCE.as_millis().to_string();
        tokio::select! {
            biased;
            _ = node.wait_for_replicas(connected.clone(), deadline) => panic!("nobody has answered"),
            asked = waits.recv() => assert_eq!(asked, Some(patience.clone())),
        }
        let confirmed = node.wait_for_replicas(connected, deadline).await;
        assert!(matches!(confirmed, Ok(true)));
        assert_eq!(waits.recv().await, Some(patience));
    }
}
