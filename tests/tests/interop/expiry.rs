//! Expiry, for us and for the original node.

use super::*;

#[tokio::test]
async fn all_keys_of_a_session_expire_at_the_same_instant() {
    let given = StoreUnderTest::redis();
    let raw = given.raw();
    let mut random = fastrand::Rng::with_seed(7);
    for mode in ["fixed", "sliding"] {
        let options = format!(r#"{{"session_ttl_hours": 24, "session_ttl_mode": "{mode}", "max_history": 4}}"#);
        let mut node = Node::new(&given.store, &options).await;
        node.ask(mode).await;
        for _ in 0..300 {
            let key = format!("k{}", random.u8(0..6));
            match random.u8(0..8) {
                0 => node.sessions.clear(mode, None).await.map(drop).unwrap(),
                1 => node.sessions.clear(mode, Some(&key)).await.map(drop).unwrap(),
                2 => node.sessions.put(mode, &key, "1").await.map(drop).unwrap(),
                3 => node.sessions.increment(mode, &key, 1).await.map(drop).unwrap(),
                4 => given.pass_time(Duration::from_secs(random.u64(0..120))),
                5 => drop(node.ask(mode).await),
                _ => assert_eq!(node.reply("x").await.effect, Effect::Stored),
            }
            let end = raw.expires_at(&format!("{mode}:__meta__"));
            assert!(end > 0 && end <= raw.now() + DAY_MS);
            for key in keys_of(raw, mode) {
                assert_eq!(raw.expires_at(&key), end, "{key}");
            }
        }
    }
}

/// Options for a life of some milliseconds.
fn brief(milliseconds: f64) -> String {
    format!("{{\"session_ttl_hours\": {}, \"max_history\": 6}}", milliseconds / 3_600_000.0)
}

#[tokio::test]
async fn writes_during_expiry_leave_no_keys_behind() {
    let given = StoreUnderTest::redis();
    let raw = given.raw();
    let node = Node::new(&given.store, &brief(20.0)).await;
    for round in 0..25 {
        let answers = (0..8).map(async |number| {
            let (session, mut pipe, mut sessions) =
                (format!("s{round}-{number}"), node.keepline.pipe(), node.keepline.sessions());
            pipe.question("", &format!("{{\"session_id\":\"{session}\"}}")).await.unwrap();
            loop {
                // Refused once the life is over; whichever of the two finds out first.
                let _ = sessions.increment(&session, "n", 1).await;
                match pipe.answer("x", "{}").await.unwrap().effect {
                    Effect::Stored => {}
                    Effect::Ended => return session,
                    other => panic!("{other:?}"),
                }
            }
        });
        let sessions = join_all(answers).await;
        // In the very millisecond we say that it is over; Redis still shows the keys, and drops them after.
        for session in sessions {
            until_true("no key of the session is left", async || keys_of(raw, &session).is_empty()).await;
        }
    }
    assert_eq!(set(raw, "__sessions__"), [""; 0]);
}

#[tokio::test]
async fn data_of_successive_generations_of_a_session_do_not_mix() {
    let given = StoreUnderTest::redis();
    let raw = given.raw();
    let node = Node::new(&given.store, &brief(10.0)).await;
    let answers = (0..6).map(async |_| {
        let mut pipe = node.keepline.pipe();
        for _ in 0..400 {
            let passed = pipe.answer("x", "{\"session_id\":\"s1\"}").await.unwrap();
            assert_eq!(passed.effect, Effect::Stored, "{passed:?}");
        }
    });
    let check = async {
        for _ in 0..200 {
            // One script, so that all of it is of one moment.
            const UNEQUAL: &str = r"
                local unequal, last = {}, redis.call('PEXPIRETIME', ARGV[1] .. '__meta__')
                for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
                    if not string.find(key, '__writers__$') and redis.call('PEXPIRETIME', key) ~= last then
                        unequal[#unequal + 1] = key
                    end
                end
                return unequal";
            let unequal: Vec<String> = raw.run(cmd("EVAL").arg(UNEQUAL).arg(0).arg(raw.address("s1:")));
            assert_eq!(unequal, [""; 0]);
            // The count and the history are of one life.
            let history = node.keepline.sessions().history("s1", None, 0).await;
            if let Ok(page) = history {
                let first: Value = serde_json::from_str(&page.records[0].to_json()).unwrap();
                assert!(first["op"] == "summary" || first["key"] == "last_answer", "{first}");
            }
            tokio::task::yield_now().await;
        }
    };
    futures::join!(join_all(answers), check);
    tokio::time::sleep(Duration::from_millis(15)).await;
    assert_eq!(keys_of(raw, "s1"), [""; 0]);
}

#[tokio::test]
async fn expired_sessions_do_not_stay_in_the_registry() {
    let given = StoreUnderTest::redis();
    let raw = given.raw();
    let registered = || raw.on::<usize>("SCARD", "__sessions__", &[]);
    // Not by waiting: sessions that live for milliseconds are dead before the next is made, on a busy machine.
    let mut brief = Node::new(&given.store, &brief(60_000.0)).await;
    let mut lasting = Node::new(&given.store, "{}").await;
    let minute = Duration::from_secs(60);
    for number in 0..50 {
        brief.sessions.create(&format!("brief{number}")).await.unwrap();
    }
    given.pass_time(minute);
    assert_eq!(registered(), 50);
    for number in 0..600 {
        lasting.sessions.create(&format!("lasting{number}")).await.unwrap();
    }
    assert!(registered() <= 610, "{}", registered());

    // However many come and go, the dead are no more than the living.
    for number in 0..600 {
        brief.sessions.create(&format!("more{number}")).await.unwrap();
        if number % 10 == 9 {
            given.pass_time(minute);
        }
    }
    let dead = registered() - 600;
    assert!(dead < 500, "{dead}");

    // And a walk through the list drops them all.
    let mut cursor = String::new();
    loop {
        cursor = lasting.sessions.list(&cursor, 100).await.unwrap().cursor;
        if cursor.is_empty() {
            break;
        }
    }
    assert_eq!(registered(), 600);
}
