//! Tasks that the filter does not know, or that come too late, fail and change nothing.

use std::{sync::Arc, time::Duration};

use keepline::{
    maintenance::{Job, NeedOutcome, NeedResult, Step},
    pipe::{Effect, ProblemCode},
    store::{FailureCode, MemoryStore, Store},
};
use keepline_tests::lanes::{Node, task, untouched};

fn job(subject: &str, name: &str, state: &str) -> Job {
    let results = vec![NeedResult { id: u32::MAX, outcome: NeedOutcome::Missing("nobody to ask".into()) }];
    Job { task: task(subject, name, state), holder: "holder".into(), lease_milliseconds: u64::MAX, results }
}

#[tokio::test]
async fn an_unknown_task_fails_and_changes_nothing() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut node = Node::new(&store, "{}").await;
    node.say("s1", "x").await;
    node.store.calls();
    let long = "x".repeat(1 << 20);
    for (subject, name, state) in [
        ("session/s1", "fold", ""),
        ("session/s1", "no-such-task", "state"),
        ("", "", ""),
        ("nonsense/../é", "\u{1b}[2J", "\0"),
        ("session/s1", "summary", &long),
    ] {
        let job = job(subject, name, state);
        let progress = node.keepline.advance(&job, None).await;
        let problem = progress.problem.unwrap();
        assert_eq!((progress.step, progress.needs), (Step::Failed, vec![]), "{name}");
        // What no plugin would have named never gets as far as one.
        let is_odd =
            subject.is_empty() || [subject, name, state].concat().contains(|c: char| !(' '..='~').contains(&c));
        let code = if is_odd { FailureCode::Invalid } else { FailureCode::Unsupported };
        assert_eq!((&problem.code, progress.task), (&ProblemCode::Store(code), job.task), "{name}");
        assert!(!problem.message.is_empty() && problem.message.len() < 500, "{problem}");
    }
    assert_eq!(node.store.calls(), 0);
    assert!(untouched(Effect::Stored, &node.say("s1", "y").await));
}

#[tokio::test]
async fn a_task_after_the_shutdown_fails_as_closed() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let node = Node::new(&store, "{}").await;
    assert_eq!(node.keepline.shutdown(Duration::ZERO).await, 0);
    let job = job("session/s1", "fold", "");
    let progress = node.keepline.advance(&job, None).await;
    assert_eq!((progress.step, progress.task), (Step::Failed, job.task));
    assert_eq!(progress.problem.unwrap().code, ProblemCode::Closed);
}
