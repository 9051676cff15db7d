//! Data that others damaged in one session affects no other session, and can always be deleted.

use super::*;

/// A breaker that opens at the first sign of trouble.
fn nervous(port: u16) -> RedisOptions {
    RedisOptions { breaker_failures: 1, ..options(port) }
}

#[tokio::test]
async fn a_session_with_a_damaged_log_position_can_be_deleted_and_affects_no_other() {
    let server = servers::start();
    let mut connection = raw(&server);
    let mut node = node(nervous(server.port())).await;
    for damage in ["-5", "1.5", "1e300", "inf", "nan", "0x10", "", "99999999999999999999", "x"] {
        assert_eq!(node.say("s1", "yes").await.effect, Effect::Stored);
        let mut hset = redis::cmd("HSET");
        hset.arg("rr:memory:s1:__meta__").arg("log:history").arg(damage).exec(&mut connection).unwrap();
        let before = dump(&mut connection);
        for _ in 0..3 {
            let passed = node.say("s1", "lost").await;
            assert!(problem_code(&passed) == "wrong-type" || passed.effect == Effect::Stored, "{damage:?}: {passed:?}");
            assert_eq!(node.say("other", "fine").await.effect, Effect::Stored, "{damage:?}");
        }
        let kept = |dump: &[(String, Vec<u8>)]| dump.iter().find(|(key, _)| key == "rr:memory:s1:__history__").cloned();
        assert_eq!(kept(&dump(&mut connection)), kept(&before), "{damage:?}: the log is not begun anew");
        node.sessions.delete("s1").await.unwrap();
        assert_eq!(node.memory("s1").await, None, "{damage:?}");
    }
}

#[tokio::test]
async fn a_session_whose_writers_have_a_wrong_type_can_be_deleted_and_starts_again() {
    let server = servers::start();
    let mut connection = raw(&server);
    let mut node = Node::new(&store(nervous(server.port())), r#"{"conversation":true}"#).await;
    for part in ["__writers__"] {
        let key = format!("rr:memory:s1:{part}");
        for (command, arguments) in [("SET", &["x"][..]), ("SADD", &["x"]), ("RPUSH", &["x"]), ("HSET", &["x", "y"])] {
            assert_eq!(node.pipe_says("s1").await.effect, Effect::Stored, "{command} {key}");
            send(&mut connection, &format!("DEL {key}"));
            redis::cmd(command).arg(&key).arg(arguments).exec(&mut connection).unwrap();
            let deleted = node.sessions.delete("s1").await;
            assert!(deleted.is_ok(), "{command} {key}: {deleted:?}");
            let other = format!("other-{command}-{part}");
            assert_eq!(node.pipe_says(&other).await.effect, Effect::Stored, "{command} {key}");
        }
    }
}

#[tokio::test]
async fn a_question_does_not_read_a_value_that_is_over_its_limit() {
    let server = servers::start();
    let mut connection = raw(&server);
    let store = store(options(server.port()));
    let mut writer = Writer::new();
    for values in [&["a"][..], &["a", "b"], &["a", "b", "c"]] {
        let puts: Vec<_> = values.iter().map(|key| put(key, "1")).collect();
        store.transact(writer.advance(), &transaction("b", replace(), puts), Deadline::NEVER).await.unwrap();
        // Zero bytes, made in place.
        send(&mut connection, "SETRANGE rr:memory:b:a 104857600 x");
        send(&mut connection, "CONFIG RESETSTAT");
        let all = transaction("b", existing(), [get_all()]);
        let receipt = store.transact(writer.advance(), &all, Deadline::NEVER).await.unwrap();
        let size = format!("{:?}", receipt.receipt.outcomes);
        assert!(
            size.contains("oversize: Some") && size.contains(&(104_857_600 + 2 * values.len()).to_string()),
            "{size}"
        );
        let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut connection).unwrap();
        assert!(!stats.contains("cmdstat_mget"), "{stats}");
    }
}
