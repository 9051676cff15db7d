//! Slow links, deadlines, and calls whose caller has gone.

use keepline_tests::lanes::look;

use super::*;

/// A link over which a connection takes longer to come about than a request to be answered.
const DELAY: Duration = Duration::from_millis(180);

fn in_ms(milliseconds: u64) -> Deadline {
    Deadline::after(Duration::from_millis(milliseconds))
}

#[tokio::test]
async fn a_slow_connection_attempt_outlives_the_callers_that_wait_for_it() {
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    proxy.weather(Weather::Slow(DELAY));
    for (timeout, deadline) in [(Duration::from_millis(300), None), (LONG, Some(300))] {
        // The breaker stays out of it.
        let options = RedisOptions { store_timeout: timeout, breaker_failures: 1_000_000, ..options(proxy.port()) };
        let (store, before) = (store(options), proxy.connections());
        let deadline = || deadline.map_or(Deadline::NEVER, in_ms);
        let began = Instant::now();
        assert_eq!(look(&store, "b", deadline()).await.unwrap_err().code, FailureCode::TimedOut);
        assert!(began.elapsed() < Duration::from_millis(300) + MARGIN, "{:?}", began.elapsed());
        until_true("the connection", async || look(&store, "b", deadline()).await.is_ok()).await;
        assert_eq!(proxy.connections() - before, 1, "the next requests wait for the attempt that is under way");
    }
}

#[tokio::test]
async fn an_unanswered_attempt_to_connect_is_given_up_and_repeated() {
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    proxy.weather(Weather::BlackHole);
    let options = RedisOptions {
        store_timeout: Duration::from_millis(100),
        breaker_failures: 1_000_000,
        ..options(proxy.port())
    };
    let store = store(options);
    look(&store, "b", Deadline::NEVER).await.unwrap_err();
    assert_eq!(proxy.connections(), 1);
    // What was swallowed is not sent again on loopback: the attempt under way can't succeed any more.
    proxy.weather(Weather::Fair);
    until_true("another attempt", async || look(&store, "b", Deadline::NEVER).await.is_ok()).await;
    assert_eq!(proxy.connections(), 2);
}

#[tokio::test]
async fn requests_past_their_deadline_are_not_sent() {
    let server = servers::start();
    let store = store(RedisOptions { breaker_failures: 1, ..options(server.port()) });
    let late = in_ms(0);
    for _ in 0..10 {
        let refused = look(&store, "b", late).await.unwrap_err();
        assert_eq!(refused.code, FailureCode::TimedOut);
        assert!(refused.message.contains("deadline had passed"), "{}", refused.message);
    }
    assert_eq!(store.round_trips(), 0);
    // Nor is it Redis's failure.
    look(&store, "b", Deadline::NEVER).await.unwrap();
}

#[tokio::test]
async fn a_time_out_names_its_limit() {
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    let options = RedisOptions {
        store_timeout: Duration::from_millis(400),
        breaker_failures: 1_000_000,
        ..options(proxy.port())
    };
    let told = async |store: &Arc<dyn Store>, deadline| {
        let failure = look(store, "b", deadline).await.unwrap_err();
        assert_eq!(failure.code, FailureCode::TimedOut);
        (failure.message, failure.limit)
    };
    for is_connected in [false, true] {
        let store = store(options.clone());
        if is_connected {
            proxy.weather(Weather::Fair);
            look(&store, "b", Deadline::NEVER).await.unwrap();
        }
        proxy.weather(Weather::BlackHole);
        let what = if is_connected { "Redis did not answer" } else { "could not connect to Redis" };
        let (message, limit) = told(&store, in_ms(80)).await;
        assert!(message.starts_with(&format!("{what} before the deadline")), "{message}");
        assert!((1..=80).contains(&limit), "{limit}");
        let later = if is_connected { Deadline::NEVER } else { in_ms(60_000) };
        let (message, limit) = told(&store, later).await;
        assert!(message.starts_with(&format!("{what} within store_timeout_ms (400)")), "{message}");
        assert_eq!(limit, 400);
    }
}

#[tokio::test]
async fn short_deadlines_neither_open_the_breaker_nor_drop_the_connection() {
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    let store = store(RedisOptions { breaker_failures: 1, ..options(proxy.port()) });
    look(&store, "b", Deadline::NEVER).await.unwrap();
    server.pause().unwrap();
    let hasty = join_all((0..50).map(|_| look(&store, "b", in_ms(30)))).await;
    assert!(hasty.into_iter().all(|outcome| outcome.unwrap_err().code == FailureCode::TimedOut));
    // Some are not even waited for.
    for _ in 0..50 {
        tokio::time::timeout(Duration::from_millis(1), look(&store, "b", Deadline::NEVER)).await.unwrap_err();
    }
    server.resume().unwrap();
    look(&store, "b", Deadline::NEVER).await.unwrap();
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test]
async fn the_breaker_opens_and_closes_even_if_all_callers_have_short_deadlines() {
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    let timeout = Duration::from_millis(300);
    let store = store(RedisOptions { store_timeout: timeout, breaker_failures: 2, ..options(proxy.port()) });
    look(&store, "b", Deadline::NEVER).await.unwrap();
    proxy.weather(Weather::BlackHole);
    let is_left_alone = async || {
        look(&store, "b", in_ms(40)).await.is_err_and(|failure| failure.message.contains("suspended for a moment"))
    };
    until_true("an open circuit", is_left_alone).await;
    // The connection is dead for good: what went into the hole never comes out.
    proxy.weather(Weather::Fair);
    until_true("an answer", async || look(&store, "b", in_ms(40)).await.is_ok()).await;
}

#[tokio::test]
async fn calls_that_are_cancelled_while_connecting_leave_the_store_usable() {
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    proxy.weather(Weather::Slow(Duration::from_millis(50)));
    let store = store(RedisOptions { breaker_failures: 1, ..options(proxy.port()) });
    for _ in 0..20 {
        let cancelled = tokio::time::timeout(Duration::from_millis(1), look(&store, "b", Deadline::NEVER)).await;
        assert!(cancelled.is_err());
    }
    look(&store, "b", Deadline::NEVER).await.unwrap();
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test]
async fn extreme_time_outs_and_cooldowns_are_handled_or_refused() {
    let port = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    for (timeout, cooldown) in [(Duration::from_millis(1), Duration::MAX), (Duration::from_nanos(1), Duration::ZERO)] {
        let options =
            RedisOptions { store_timeout: timeout, breaker_failures: 1, breaker_cooldown: cooldown, ..options(port) };
        let store = store(options);
        for _ in 0..20 {
            look(&store, "b", Deadline::after(Duration::MAX)).await.unwrap_err();
        }
    }
    let longest = RedisOptions { store_timeout: Duration::MAX, ..options(port) };
    assert_eq!(RedisStore::new(longest).unwrap_err(), RedisOptionsError::Timeout);
}
