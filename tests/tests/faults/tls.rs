//! The certificates that TLS trusts.

use super::{impostors::impostor, *};

fn openssl(directory: &Path, arguments: &str) {
    let output = Command::new("openssl").current_dir(directory).args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A Redis with a certificate for 127.0.0.1 by an authority that nobody knows. None: it was built without.
fn with_tls(directory: &Path) -> Option<(RedisServer, u16)> {
    let new_key = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    openssl(directory, &format!("{new_key} -keyout ca.key -out ca.crt -subj /CN=authority"));
    openssl(
        directory,
        "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout redis.key -out redis.csr -subj /CN=redis",
    );
    fs::write(directory.join("san"), "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n").unwrap();
    let sign = "x509 -req -in redis.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out redis.crt -extfile san";
    openssl(directory, sign);
    let port = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let file = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let arguments = [
        ("--tls-port", port.to_string()),
        ("--tls-cert-file", file("redis.crt")),
        ("--tls-key-file", file("redis.key")),
        ("--tls-ca-cert-file", file("ca.crt")),
        ("--tls-auth-clients", "no".to_owned()),
    ];
    let arguments: Vec<&str> = arguments.iter().flat_map(|(name, value)| [*name, value]).collect();
    Some((servers::start_with(&arguments).ok()?, port))
}

#[tokio::test]
async fn tls_trusts_the_configured_certificates_and_refuses_others_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let Some((server, tls_port)) = with_tls(directory.path()) else {
        eprintln!("this redis-server has no TLS; nothing is tested here");
        return;
    };
    let tls = RedisOptions { tls: true, store_timeout: Duration::from_secs(10), ..options(tls_port) };
    let trusting = RedisOptions { tls_ca: Some(directory.path().join("ca.crt")), ..tls.clone() };
    assert_eq!(node(trusting.clone()).await.say("s1", "yes").await.effect, Effect::Stored);
    let url = RedisOptions {
        url: Some(format!("rediss://{}:{}@127.0.0.1:{tls_port}/0", servers::USER, servers::PASSWORD).into()),
        tls_ca: trusting.tls_ca.clone(),
        ..RedisOptions::default()
    };
    assert_eq!(node(url).await.say("s1", "yes").await.effect, Effect::Stored);

    for (case, options, reason) in [
        ("an authority that nobody knows", tls.clone(), "not trusted"),
        ("another name", RedisOptions { host: "localhost".into(), ..trusting.clone() }, "not trusted"),
    ] {
        let mut node = node(options).await;
        let began = Instant::now();
        let passed = node.say("s1", "lost").await;
        assert!(began.elapsed() < Duration::from_secs(8), "{case}");
        assert_forwarded(&passed, &["unavailable"]);
        assert!(problem_message(&passed).contains(reason), "{case}: {}", problem_message(&passed));
        assert_tells_no_secret(&node, &passed, tls_port);
    }
    let (http, serving) = impostor("speaks HTTP").await;
    let passed = node(RedisOptions { port: http, ..trusting.clone() }).await.say("s1", "lost").await;
    assert!(problem_message(&passed).contains("TLS handshake failed"), "{passed:?}");
    serving.abort();
    // Either waits for the other to begin.
    let hasty = Duration::from_millis(300);
    for mistaken in [
        RedisOptions { store_timeout: hasty, ..options(tls_port) },
        RedisOptions { store_timeout: hasty, port: server.port(), ..trusting.clone() },
    ] {
        let mut node = node(mistaken).await;
        assert_forwarded(&node.say("s1", "lost").await, &["unavailable", "timed-out"]);
    }

    for (file, content) in [("empty", ""), ("noise", "noise"), ("missing", "")] {
        let path = directory.path().join(file);
        if file != "missing" {
            fs::write(&path, content).unwrap();
        }
        let refused = RedisStore::new(RedisOptions { tls_ca: Some(path), ..tls.clone() }).unwrap_err();
        assert!(matches!(refused, RedisOptionsError::TlsCa(_)), "{refused}");
    }
    let useless = RedisStore::new(RedisOptions { tls: false, ..trusting }).unwrap_err();
    assert!(matches!(useless, RedisOptionsError::TlsCa(_)), "{useless}");
}
