//! Servers that are not Redis, and addresses without a server.

use super::*;

/// Something that listens, and does this to whoever connects.
pub(super) async fn impostor(behaviour: &'static str) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 1024];
                match behaviour {
                    "says nothing" => while stream.read(&mut request).await.is_ok_and(|length| length > 0) {},
                    "hangs up" => {}
                    "speaks HTTP" => {
                        let _ = stream.read(&mut request).await;
                        let page = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n\r\n<html>no</html>\r\n";
                        let _ = stream.write_all(page.as_bytes()).await;
                    }
                    "speaks garbage" => {
                        let _ = stream.read(&mut request).await;
                        let garbage: Vec<u8> = (0..5000).map(|_| fastrand::u8(..)).collect();
                        let _ = stream.write_all(&garbage).await;
                    }
                    "agrees to everything" => loop {
                        if stream.read(&mut request).await.is_err() || stream.write_all(b"+OK\r\n").await.is_err() {
                            return;
                        }
                    },
                    "knows the time only" => loop {
                        let Ok(length @ 1..) = stream.read(&mut request).await else { return };
                        let is_time = request[..length].windows(4).any(|window| window == b"TIME");
                        let reply: &[u8] = match is_time {
                            true => b"*2\r\n$1\r\n1\r\n$1\r\n1\r\n",
                            false => b"*3\r\n:0\r\n:0\r\n*-1\r\n",
                        };
                        if stream.write_all(reply).await.is_err() {
                            return;
                        }
                    },
                    "promises a reply of exabytes" => {
                        let _ = stream.read(&mut request).await;
                        let _ = stream.write_all(b"$9000000000000000000\r\n").await;
                        // What is sent is kept until the time is over, so this is slower than loopback.
                        while stream.write_all(&[b'x'; 4096]).await.is_ok() {
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                    }
                    "promises a list of billions" => {
                        let _ = stream.read(&mut request).await;
                        let _ = stream.write_all(b"*2000000000\r\n").await;
                        while stream.read(&mut request).await.is_ok_and(|length| length > 0) {}
                    }
                    "begins lists in lists" => {
                        let _ = stream.read(&mut request).await;
                        // A million of them, each of a billion.
                        let _ = stream.write_all(&b"*1000000000\r\n".repeat(1_000_000)).await;
                        while stream.read(&mut request).await.is_ok_and(|length| length > 0) {}
                    }
                    "closes lists in lists" => {
                        let _ = stream.read(&mut request).await;
                        let _ = stream.write_all(&[&b"*1\r\n".repeat(100_000)[..], b":1\r\n"].concat()).await;
                        while stream.read(&mut request).await.is_ok_and(|length| length > 0) {}
                    }
                    "sends a list without end" => {
                        let _ = stream.read(&mut request).await;
                        let _ = stream.write_all(b"*2000000000\r\n").await;
                        while stream.write_all(&b":1\r\n".repeat(1000)).await.is_ok() {
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                    }
                    "knows the time, and then lists" => loop {
                        let Ok(length @ 1..) = stream.read(&mut request).await else { return };
                        let reply = match request[..length].windows(4).any(|window| window == b"TIME") {
                            true => b"*2\r\n$1\r\n1\r\n$1\r\n1\r\n".to_vec(),
                            false => b"*5\r\n:0\r\n:0\r\n:0\r\n$1\r\n1\r\n*1000000000\r\n:1\r\n".to_vec(),
                        };
                        if stream.write_all(&reply).await.is_err() {
                            return;
                        }
                    },
                    // So much a second, so that the test's own machine is not what ends.
                    _ => {
                        while stream.write_all(&[b'x'; 65536]).await.is_ok() {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                    }
                }
            });
        }
    });
    (port, serving)
}

#[test]
fn a_server_that_is_not_redis_is_reported_within_the_time_out() {
    in_own_process("impostors::a_server_that_is_not_redis_is_reported_within_the_time_out", || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let timeout = Duration::from_millis(400);
            for behaviour in [
                "says nothing",
                "hangs up",
                "speaks HTTP",
                "speaks garbage",
                "agrees to everything",
                "knows the time only",
                "promises a reply of exabytes",
                "promises a list of billions",
                "begins lists in lists",
                "closes lists in lists",
                "sends a list without end",
                "knows the time, and then lists",
                "never ends",
            ] {
                let (port, serving) = impostor(behaviour).await;
                let options = RedisOptions { store_timeout: timeout, breaker_failures: 1_000_000, ..anonymous(port) };
                let mut node = node(options).await;
                for _ in 0..2 {
                    let began = Instant::now();
                    let passed = node.say("s1", "lost").await;
                    println!("{behaviour}: {} MiB; {:?}", peak_bytes() >> 20, passed.problem);
                    assert!(began.elapsed() < timeout + MARGIN, "{behaviour}: {:?}", began.elapsed());
                    assert_forwarded(&passed, &["unavailable", "timed-out", "other"]);
                    assert_tells_no_secret(&node, &passed, port);
                }
                serving.abort();
            }
            // What is promised is not made room for.
            assert!(peak_bytes() < 200 << 20, "{}", peak_bytes());
        });
    });
}

#[tokio::test]
async fn an_address_without_a_server_is_reported_within_the_time_out() {
    let port = servers::dead_port();
    let timeout = Duration::from_millis(300);
    let store = store(RedisOptions { store_timeout: timeout, ..options(port) });
    let mut node = Node::new(&store, "{}").await;
    let began = Instant::now();
    let passed = node.say("s1", "lost").await;
    assert!(began.elapsed() < timeout + MARGIN);
    assert_forwarded(&passed, &["unavailable"]);
    assert!(problem_message(&passed).contains("refused"), "{passed:?}");
    assert_tells_no_secret(&node, &passed, port);
    assert_eq!(store.check().await.unwrap_err().code, FailureCode::Unavailable);
}

#[tokio::test]
async fn a_host_that_does_not_exist_is_reported_without_its_name() {
    let timeout = Duration::from_millis(300);
    let options = RedisOptions { host: "nobody.invalid".into(), store_timeout: timeout, ..options(6379) };
    let mut node = node(options).await;
    let began = Instant::now();
    let passed = node.say("s1", "lost").await;
    assert!(began.elapsed() < timeout + MARGIN);
    assert_forwarded(&passed, &["unavailable", "timed-out"]);
    assert_tells_no_secret(&node, &passed, 6379);
}

#[test]
fn empty_hosts_and_invalid_urls_are_refused_at_once() {
    let refused = |options: RedisOptions| RedisStore::new(options).unwrap_err();
    for host in ["", " "] {
        assert_eq!(refused(RedisOptions { host: host.into(), ..options(1) }), RedisOptionsError::NoHost);
    }
    for url in ["http://localhost", "localhost:6379", "redis://", "redis://localhost:99999", "redis://h/x"] {
        let refused = refused(RedisOptions { url: Some(url.into()), ..options(1) });
        assert_eq!(refused, RedisOptionsError::Url, "{url}");
    }
}

#[tokio::test]
async fn with_on_store_error_fail_the_caller_gets_the_code_and_the_next_entry_works() {
    let mut server = servers::start();
    let options = RedisOptions { store_timeout: Duration::from_millis(200), ..options(server.port()) };
    let mut node = Node::with(&store(options), "{}", |options| options.on_store_error = OnStoreError::Fail).await;
    server.kill();
    let error = node.pipe.answer("lost", &metadata_of("s1")).await.unwrap_err();
    assert_eq!(error.code, ProblemCode::Store(FailureCode::Unavailable));
    server.restart().unwrap();
    until_true("memory", async || node.pipe.answer("yes", &metadata_of("s1")).await.is_ok()).await;
}
