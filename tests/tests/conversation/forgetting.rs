//! The end of a user, over every store: whoever writes late, comes back, takes over or is stopped halfway.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use keepline::{
    maintenance::{Maintenance, MaintenanceOptions, NoModel, Outcome},
    pipe::Effect,
    sessions::{Transcript, user_bucket},
    store::{BucketId, Deadline, Failure, FailureCode, Status, Store},
};
use keepline_tests::{
    intercept::{Intercept, Intercepted},
    on_every_store,
    requests::existing,
};
use serde_json::json;
use tokio::runtime::Handle;

use super::{
    Given, ask, reply, said, talking, talking_on,
    users::{forget, listed, names, of, turn},
};

on_every_store! {
    late_answers_meet_the_tombstone_and_a_returning_user_is_stored,
    a_user_is_forgotten_while_sixteen_write,
    a_call_that_stops_halfway_is_completed_by_the_next,
    forgetting_a_user_spares_sessions_that_moved_to_another_owner,
}

async fn late_answers_meet_the_tombstone_and_a_returning_user_is_stored(given: Given) {
    let user = "anna@example.org";
    let mut node = talking(&given, &json!({})).await;
    node.sessions.put_user_value(user, "k", Some("\"secret\"")).await.unwrap();
    turn(&mut node, "known", user, "secret").await;
    let of_node = |session: &str| {
        let mut metadata = of(session, user);
        metadata["memory_mode"] = "node".into();
        metadata["node_id"] = "n".into();
        metadata
    };
    ask(&mut node, "secret", &of_node("known")).await;
    assert_eq!(reply(&mut node, "secret", &json!({})).await.effect, Effect::Stored);
    // Questions that are on their way: of a session of hers, of a new one, of nodes.
    let mut late = Vec::new();
    for metadata in [of("known", user), of("new", user), of_node("known"), of_node("other")] {
        let mut other = talking(&given, &json!({})).await;
        ask(&mut other, "secret", &metadata).await;
        late.push(other);
    }
    let noted = turn(&mut node, "third", user, "secret").await;
    let used = turn(&mut node, "known", user, "secret").await.due;
    assert!(noted.due.iter().all(|task| task.name != "activity"));
    let done = forget(&mut node, user).await;
    assert_eq!((done.sessions, done.nodes), (2, 1));
    for other in &mut late {
        let passed = reply(other, "secret", &json!({})).await;
        assert_eq!(passed.effect, Effect::Ended, "{:?}", passed.problem);
    }
    let maintenance =
        Maintenance::new(node.keepline.clone(), Arc::new(NoModel), MaintenanceOptions::default(), Handle::current());
    for task in used {
        assert_eq!(maintenance.run(task).await, Outcome::Ended);
    }
    // An answer that nobody asked for may be late for a day.
    let mut bare = talking(&given, &json!({})).await;
    assert_eq!(reply(&mut bare, "secret", &of("bare", user)).await.effect, Effect::Ended);
    let stored = format!("{:?}", given.everything().await);
    assert!(!stored.contains("secret") && !stored.contains("known\\\""), "{stored}");
    let again = node.sessions.forget_user(user).await.unwrap();
    assert_eq!((again.sessions, again.nodes, again.remaining), (0, 0, 0));
    assert_eq!(node.sessions.user_values(user, None).await.unwrap().values, []);

    // Who comes back is remembered, and nothing of before is.
    node.clock.advance(Duration::from_secs(1));
    node.pipe.open();
    turn(&mut node, "known", user, "hello").await;
    assert_eq!(names(&listed(&mut node, user, 10).await), ["known"]);
    assert_eq!(said(&ask(&mut node, "?", &of("known", user)).await), ["user: hello", "assistant: about hello"]);
    for other in &mut late {
        assert_eq!(reply(other, "secret", &json!({})).await.effect, Effect::Ended);
    }
    bare.clock.advance(Duration::from_secs(86_500));
    assert_eq!(reply(&mut bare, "hello", &of("bare", user)).await.effect, Effect::Stored);
}

const WRITERS: usize = 16;

async fn a_user_is_forgotten_while_sixteen_write(given: Given) {
    let nodes = [talking(&given, &json!({})).await, talking(&given, &json!({})).await];
    let (is_done, turns) = (AtomicBool::new(false), AtomicUsize::new(0));
    let writers = (0..WRITERS).map(|number| {
        let node = &nodes[number % 2];
        let mut pipe = node.keepline.pipe();
        let (is_done, turns) = (&is_done, &turns);
        async move {
            let mut round = 0;
            while !is_done.load(Ordering::Relaxed) {
                round += 1;
                let mut metadata = of(&format!("s{}", (number + round) % 8), "anna");
                if round % 3 == 0 {
                    metadata["memory_mode"] = "node".into();
                    metadata["node_id"] = format!("n{}", number % 3).into();
                }
                let metadata = metadata.to_string();
                node.clock.advance(Duration::from_millis(1));
                let effect = if round % 5 == 0 {
                    pipe.open();
                    pipe.answer("secret", &metadata).await.unwrap().effect
                } else {
                    pipe.question("secret", &metadata).await.unwrap();
                    pipe.answer("secret", "{}").await.unwrap().effect
                };
                // On a busy machine one may find no instance in time, and go on without memory; and what two say at once, by
                // clocks that stand at the same microsecond, counts as sent again.
                let effects = [Effect::Stored, Effect::Ended, Effect::Failed, Effect::Passed, Effect::Repeated];
                assert!(effects.contains(&effect), "{effect:?}");
                turns.fetch_add(usize::from(effect == Effect::Stored), Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    });
    let forgetting = async {
        let mut sessions = nodes[0].keepline.sessions().by(Deadline::NEVER);
        let mut gone = 0;
        for wanted in 1..=3 {
            while turns.load(Ordering::Relaxed) < wanted * 20 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            nodes[0].clock.advance(Duration::from_millis(1));
            gone += sessions.forget_user("anna").await.unwrap().sessions;
        }
        is_done.store(true, Ordering::Relaxed);
        gone
    };
    let (_, gone) = tokio::join!(join_all(writers), forgetting);
    assert!(gone > 0);
    // Whatever they left, the user's lists lead to it.
    let [mut node, _other] = nodes;
    node.clock.advance(Duration::from_secs(1));
    forget(&mut node, "anna").await;
    let stored = given.everything().await;
    let secret: Vec<_> = stored.iter().filter(|(_, text)| text.contains("secret")).collect();
    assert!(secret.is_empty(), "{secret:?}");
}

/// Fails every call from the nth transaction on: as if the process had ended there.
#[derive(Debug)]
struct EndsAt(AtomicUsize);

impl EndsAt {
    fn is_over(&self) -> bool {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.is_err()
    }

    fn failure() -> Failure {
        Failure { code: FailureCode::Unavailable, subject: String::new(), limit: 0, message: "it ended".into() }
    }
}

#[async_trait::async_trait]
impl Intercept for EndsAt {
    async fn before(&self) -> Result<(), Failure> {
        if self.is_over() { Err(Self::failure()) } else { Ok(()) }
    }
}

async fn a_call_that_stops_halfway_is_completed_by_the_next(given: Given) {
    for at in 0..40 {
        let mut node = talking(&given, &json!({})).await;
        node.clock.advance(Duration::from_secs(at + 1));
        for session in ["a", "b"] {
            turn(&mut node, session, "anna", "secret").await;
        }
        let mut metadata = of("a", "anna");
        metadata["memory_mode"] = "node".into();
        metadata["node_id"] = "n".into();
        ask(&mut node, "secret", &metadata).await;
        assert_eq!(reply(&mut node, "secret", &json!({})).await.effect, Effect::Stored);
        let late = ask(&mut node, "late", &of("c", "anna")).await;
        assert_eq!(late["session_id"], "c");

        let between: Arc<dyn Store> =
            Arc::new(Intercepted::new(given.store.clone(), EndsAt(AtomicUsize::new(usize::try_from(at).unwrap()))));
        let mut doomed = talking_on(&between, &json!({})).await;
        doomed.clock.advance(Duration::from_secs(at + 60));
        let ended = doomed.sessions.forget_user("anna").await;
        let is_begun = at > 1;
        // From the second transaction on, which writes the tombstone, nothing is added.
        let effect = reply(&mut node, "secret", &json!({})).await.effect;
        assert_eq!(effect, if is_begun { Effect::Ended } else { Effect::Stored }, "{at}");
        node.clock.advance(Duration::from_secs(120));
        forget(&mut node, "anna").await;
        let stored = format!("{:?}", given.everything().await);
        assert!(!stored.contains("secret"), "{at}: {stored}");
        if ended.is_ok() {
            assert!(at > 5, "{at}");
            return;
        }
    }
    panic!("a call has fewer transactions than that");
}

async fn forgetting_a_user_spares_sessions_that_moved_to_another_owner(given: Given) {
    let mut node = talking(&given, &json!({})).await;
    let of_node = |user: &str| {
        let mut metadata = of("s", user);
        metadata["memory_mode"] = "node".into();
        metadata["node_id"] = "n".into();
        metadata
    };
    turn(&mut node, "s", "anna", "secret").await;
    ask(&mut node, "secret", &of_node("anna")).await;
    assert_eq!(reply(&mut node, "secret", &json!({})).await.effect, Effect::Stored);
    // All messages go, and it is hers still; then all of it, and it is Ben's.
    node.sessions.clear_messages("s".into(), None).await.unwrap();
    assert_eq!(node.sessions.describe("s".into()).await.unwrap().owner.as_deref(), Some("anna"));
    ask(&mut node, "?", &of("s", "ben")).await;
    assert_eq!(reply(&mut node, "!", &json!({})).await.effect, Effect::Foreign);
    node.sessions.delete("s").await.unwrap();
    // What she said in its node goes with it.
    assert!(!format!("{:?}", given.everything().await).contains("secret"));
    turn(&mut node, "s", "ben", "mine").await;
    assert_eq!(names(&listed(&mut node, "anna", 10).await), [""; 0]);
    assert_eq!(names(&listed(&mut node, "ben", 10).await), ["s"]);
    let done = forget(&mut node, "anna").await;
    assert_eq!((done.sessions, done.nodes), (0, 0));
    let window = said(&ask(&mut node, "?", &of("s", "ben")).await);
    assert_eq!(window, ["user: mine", "assistant: about mine"]);
    let at = Transcript { session: "s", app_id: None, node_id: Some("n") };
    assert!(node.sessions.describe(at).await.is_err());
    // A hashed name is nobody's plain one.
    let hashed = user_bucket("ben@example.org");
    turn(&mut node, "t", "ben@example.org", "secret").await;
    let got = ask(&mut node, "?", &of("t", &hashed)).await;
    assert_eq!(got, of("t", &hashed));
    assert_eq!(forget(&mut node, &hashed).await.sessions, 0);
    assert_eq!(forget(&mut node, "ben@example.org").await.sessions, 1);
    assert_eq!(node.sessions.describe("s".into()).await.unwrap().next, 2);
    let status = given.status(BucketId::user("ben"), existing()).await;
    assert_eq!(status, Status::Applied);
}
