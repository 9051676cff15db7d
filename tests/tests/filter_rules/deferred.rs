//! Deferred work for forwarded answers: titles and summaries, with a model that may do anything.

use std::{sync::Arc, time::Duration};

use keepline::{
    Passed,
    maintenance::{
        Archive, CompletionNeed, Maintenance, MaintenanceOptions, Model, ModelError, NoModel, Outcome, Purpose, Task,
    },
    pipe::{Effect, ProblemCode},
    store::Outcome as Found,
};
use keepline_tests::{
    lanes::{Node, metadata_of, task},
    on_every_store,
    requests::get_in,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    runtime::Handle,
    sync::{Mutex as Turn, mpsc, watch},
};

use super::Given;

type Answer = Result<Option<String>, ModelError>;

/// A model that answers when the test does.
struct Puppet {
    needs: Mutex<Vec<CompletionNeed>>,
    asked: watch::Sender<usize>,
    answers: mpsc::UnboundedSender<Answer>,
    next: Turn<mpsc::UnboundedReceiver<Answer>>,
}

impl Puppet {
    fn new() -> Arc<Self> {
        let (answers, next) = mpsc::unbounded_channel();
        Arc::new(Self { needs: Mutex::default(), asked: watch::Sender::new(0), answers, next: Turn::new(next) })
    }

    fn say(&self, text: &str) {
        self.answers.send(Ok(Some(text.into()))).unwrap();
    }

    async fn until_asked(&self, times: usize) {
        self.asked.subscribe().wait_for(|asked| *asked >= times).await.unwrap();
    }
}

#[async_trait::async_trait]
impl Model for Puppet {
    async fn complete(&self, need: &CompletionNeed) -> Answer {
        self.needs.lock().push(need.clone());
        self.asked.send_modify(|asked| *asked += 1);
        self.next.lock().await.recv().await.unwrap()
    }
}

const SMALL: &str = r#"{"conversation": true, "max_context_tokens": 64, "session_ttl_hours": 1}"#;

fn maintenance(node: &Node, model: Arc<dyn Model>) -> Maintenance {
    bounded(node, model, |_| {})
}

fn bounded(node: &Node, model: Arc<dyn Model>, change: impl FnOnce(&mut MaintenanceOptions)) -> Maintenance {
    let mut options = MaintenanceOptions::default();
    change(&mut options);
    Maintenance::new(node.keepline.clone(), model, options, Handle::current())
}

async fn turn(node: &mut Node, session: &str, number: usize) -> Passed {
    let question = format!("question {number}: what is this about, and why should anybody want to know?");
    node.pipe.question(&question, &metadata_of(session)).await.unwrap();
    let passed = node.reply(&format!("It is about {number}, as everything is.")).await;
    assert_eq!(passed.effect, Effect::Stored);
    passed
}

/// Turns until a summary is due, and that task.
async fn until_due(node: &mut Node, session: &str, from: usize) -> Task {
    for number in from..from + 100 {
        let due = turn(node, session, number).await.due;
        if let Some(task) = due.into_iter().find(|task| task.name == "summary") {
            return task;
        }
    }
    panic!("no summary is due");
}

/// What the session's bucket holds beside values.
async fn held(given: &Given, session: &str, key: &str) -> Option<String> {
    match given.apply_one(session, get_in("session", &[key], 1 << 20)).await {
        Found::Entries(mut found) => found.entries.pop().map(|entry| entry.text),
        other => panic!("{other:?}"),
    }
}

async fn summary(given: &Given, session: &str) -> Option<Value> {
    Some(serde_json::from_str(&held(given, session, "summary").await?).unwrap())
}

async fn asked(node: &mut Node, session: &str) -> Value {
    let passed = node.ask(session).await;
    serde_json::from_str(&passed.metadata.unwrap()).unwrap()
}

async fn a_summary_is_stored_while_turns_are_written_by_others(given: Given) {
    let (mut node, mut other) = (Node::new(&given.store, SMALL).await, Node::new(&given.store, SMALL).await);
    let model = Puppet::new();
    let maintenance = maintenance(&node, model.clone());
    let task = until_due(&mut node, "s1", 0).await;
    maintenance.submit([task]);
    model.until_asked(1).await;
    // Answers don't wait for a model that has not answered, here or elsewhere.
    for number in 100..103 {
        turn(&mut other, "s1", number).await;
        turn(&mut node, "s1", number + 100).await;
    }
    assert_eq!(summary(&given, "s1").await, None);
    model.say("They spoke about numbers.");
    assert_eq!(maintenance.shutdown(Duration::from_secs(60)).await, 0);
    assert_eq!(maintenance.counters().summaries.done, 1);
    assert_eq!(summary(&given, "s1").await.unwrap()["text"], "They spoke about numbers.");
    let need = model.needs.lock()[0].clone();
    assert_eq!(Purpose::of(&need), Purpose::Summary);
    assert!(need.input.contains("\n```\nquestion 0: ") && !need.input.contains("question 102"), "{}", need.input);
    let question = asked(&mut other, "s1").await;
    assert_eq!(question["memory_summary"]["content"].as_str().map(|text| text.contains("about numbers")), Some(true));
    assert!(question["memory_messages"].to_string().contains("question 202"), "{question}");
    let count = node.counters().stored + other.counters().stored;
    assert_eq!(question["memory_context"]["answer_count"], count);
}

async fn two_summarisers_do_not_undo_each_other(given: Given) {
    let (mut node, other) = (Node::new(&given.store, SMALL).await, Node::new(&given.store, SMALL).await);
    let (first, second) = (Puppet::new(), Puppet::new());
    let (here, there) = (maintenance(&node, first.clone()), maintenance(&other, second.clone()));
    let task = until_due(&mut node, "s1", 0).await;
    here.submit([task.clone()]);
    first.until_asked(1).await;
    // It has the lease.
    assert_eq!(there.run(task.clone()).await, Outcome::Taken);
    assert!(second.needs.lock().is_empty());
    // It takes so long that another one begins, is quicker, and is told so itself.
    given.pass_time(Duration::from_secs(1800));
    let (outcome, ()) = tokio::join!(there.run(task.clone()), async {
        second.until_asked(1).await;
        second.say("by the second");
    });
    assert_eq!(outcome, Outcome::Done);
    first.say("by the first");
    assert_eq!(here.shutdown(Duration::from_secs(60)).await, 0);
    assert_eq!(here.counters().summaries.taken, 1);
    assert_eq!(summary(&given, "s1").await.unwrap()["text"], "by the second");
    // There is nothing more to do, whoever is asked, and no lease is in the way.
    assert_eq!(there.run(task).await, Outcome::Done);
}

async fn a_failed_model_changes_nothing_and_is_asked_again_at_the_next_turn(given: Given) {
    let mut node = Node::new(&given.store, SMALL).await;
    let model = Puppet::new();
    let maintenance = bounded(&node, model.clone(), |options| options.model_timeout = Duration::from_millis(50));
    let mut task = until_due(&mut node, "s1", 0).await;
    let long = "x".repeat(10 << 20);
    for (number, answer) in
        [Some(Err(ModelError("out of\norder".into()))), Some(Ok(Some(" \n".into()))), Some(Ok(Some(long))), None]
            .into_iter()
            .enumerate()
    {
        if let Some(answer) = answer {
            model.answers.send(answer).unwrap();
        }
        let Outcome::Failed(problem) = maintenance.run(task).await else { panic!() };
        assert_eq!(problem.code, ProblemCode::Other("model".into()));
        assert!(problem.message.len() < 500 && !problem.message.contains('\n'), "{problem}");
        assert_eq!(summary(&given, "s1").await, None);
        task = turn(&mut node, "s1", 1000 + number).await.due.into_iter().find(|task| task.name == "summary").unwrap();
    }
    assert_eq!(maintenance.counters().summaries.failed, 4);
    let told = node.log.warnings();
    assert!(told.iter().any(|line| line.contains("'summary' of session/s1")), "{told:?}");
    let maintenance = self::maintenance(&node, model.clone());
    model.say("At last.");
    assert_eq!(maintenance.run(task).await, Outcome::Done);
    assert_eq!(summary(&given, "s1").await.unwrap()["text"], "At last.");
}

async fn a_title_comes_with_the_first_turn_and_is_refined(given: Given) {
    let mut node = Node::new(&given.store, r#"{"conversation": true}"#).await;
    let model = Puppet::new();
    let maintenance = maintenance(&node, model.clone());
    let due = turn(&mut node, "s1", 1).await.due;
    assert_eq!(due.iter().map(|task| &*task.name).collect::<Vec<_>>(), ["title"]);
    let first = "question 1: what is this about, and why should...";
    assert_eq!(held(&given, "s1", "title").await.as_deref(), Some(first));
    model.say("Title: \"Numbers\".");
    maintenance.submit(due);
    assert_eq!(maintenance.shutdown(Duration::from_secs(60)).await, 0);
    assert_eq!(held(&given, "s1", "title").await.as_deref(), Some("Numbers"));
    assert_eq!(turn(&mut node, "s1", 2).await.due, []);
}

async fn without_a_model_summaries_are_digests_and_titles_first_messages(given: Given) {
    let mut node = Node::new(&given.store, r#"{"conversation": true, "max_context_tokens": 800}"#).await;
    let maintenance = maintenance(&node, Arc::new(NoModel));
    maintenance.submit(turn(&mut node, "s1", 0).await.due);
    let task = until_due(&mut node, "s1", 1).await;
    assert_eq!(maintenance.run(task).await, Outcome::Done);
    assert_eq!(maintenance.shutdown(Duration::from_secs(60)).await, 0);
    let text = summary(&given, "s1").await.unwrap()["text"].as_str().unwrap().to_owned();
    assert!(text.contains("- The user asked: question ") && text.contains("- Answered: It is about "), "{text}");
    assert!(held(&given, "s1", "title").await.unwrap().starts_with("question 0"));
}

async fn tasks_beyond_the_limit_are_dropped_and_unfinished_ones_abandoned(given: Given) {
    let mut node = Node::new(&given.store, r#"{"conversation": true}"#).await;
    let model = Puppet::new();
    let maintenance = bounded(&node, model.clone(), |options| (options.max_tasks, options.concurrency) = (2, 1));
    let mut due = Vec::new();
    for session in ["s1", "s2", "s3"] {
        due.extend(turn(&mut node, session, 1).await.due);
    }
    maintenance.submit(due.clone());
    model.until_asked(1).await;
    // One that waits already is not taken twice.
    maintenance.submit([due[1].clone()]);
    assert_eq!((maintenance.pending(), maintenance.counters().dropped), (2, 1));
    assert_eq!(maintenance.shutdown(Duration::ZERO).await, 2);
    maintenance.submit([due[2].clone()]);
    let counters = maintenance.counters();
    assert_eq!((counters.dropped, counters.abandoned, counters.tasks().done), (2, 2, 0));
    for session in ["s1", "s2", "s3"] {
        assert!(held(&given, session, "title").await.unwrap().starts_with("question 1"));
    }
    // Others go on where it was left, as soon as the lease is over.
    let other = self::maintenance(&node, model.clone());
    assert_eq!(other.run(due[0].clone()).await, Outcome::Taken);
    given.pass_time(Duration::from_secs(1800));
    model.say("Another one");
    assert_eq!(other.run(due[0].clone()).await, Outcome::Done);
    assert_eq!(held(&given, "s1", "title").await.as_deref(), Some("Another one"));
}

async fn uses_of_a_users_sessions_are_recorded_in_order_even_if_delayed(given: Given) {
    let mut node = Node::new(&given.store, r#"{"conversation": true}"#).await;
    let use_of = async |node: &mut Node, session: &str| {
        node.clock.advance(Duration::from_secs(1));
        node.pipe.question("?", &format!(r#"{{"session_id":"{session}","user_id":"anna"}}"#)).await.unwrap();
        node.reply("!").await.due
    };
    let before = maintenance(&node, Arc::new(NoModel));
    for session in ["s0", "s1", "s2"] {
        for task in use_of(&mut node, session).await {
            assert_eq!(before.run(task).await, Outcome::Done);
        }
    }
    // The only place is taken by a title.
    let model = Puppet::new();
    let maintenance = bounded(&node, model.clone(), |options| (options.max_tasks, options.concurrency) = (3, 1));
    maintenance.submit(turn(&mut node, "other", 1).await.due);
    model.until_asked(1).await;
    for session in ["s0", "s1", "s0"] {
        let due = use_of(&mut node, session).await;
        assert_eq!(due.iter().map(|task| &*task.name).collect::<Vec<_>>(), ["activity"]);
        maintenance.submit(due);
    }
    assert_eq!((maintenance.pending(), maintenance.counters().dropped), (3, 0));
    maintenance.submit(turn(&mut node, "more", 1).await.due);
    assert_eq!((maintenance.pending(), maintenance.counters().dropped), (3, 1));
    model.say("Title");
    assert_eq!(maintenance.shutdown(Duration::from_secs(60)).await, 0);
    let counters = maintenance.counters();
    assert_eq!((counters.titles.done, counters.others.done, counters.abandoned), (1, 2, 0));
    let listed = node.sessions.user_sessions("anna", None, 0).await.unwrap().sessions;
    assert_eq!(listed.iter().map(|listed| &*listed.session).collect::<Vec<_>>(), ["s0", "s1", "s2"]);
}

async fn a_task_of_a_deleted_session_changes_nothing_in_its_successor(given: Given) {
    let mut node = Node::new(&given.store, r#"{"conversation": true}"#).await;
    let model = Puppet::new();
    let maintenance = maintenance(&node, model.clone());
    let due = turn(&mut node, "s1", 1).await.due;
    maintenance.submit(due.clone());
    model.until_asked(1).await;
    node.sessions.delete("s1").await.unwrap();
    node.pipe.open();
    turn(&mut node, "s1", 2).await;
    model.say("Of an earlier life");
    assert_eq!(maintenance.shutdown(Duration::from_secs(60)).await, 0);
    assert_eq!(maintenance.counters().titles.ended, 1);
    assert!(held(&given, "s1", "title").await.unwrap().starts_with("question 2"));
    assert_eq!(maintenance.run(due[0].clone()).await, Outcome::Ended);
}

/// Counts copies, or has no room for them.
#[derive(Debug, Default)]
struct Shelf {
    kept: Mutex<Vec<String>>,
    is_full: Mutex<bool>,
}

#[async_trait::async_trait]
impl Archive for Shelf {
    async fn keep(&self, subject: &str) -> Result<(), String> {
        self.kept.lock().push(subject.to_owned());
        if *self.is_full.lock() { Err("the shelf is full".to_owned()) } else { Ok(()) }
    }
}

async fn turns_are_archived_before_retention_removes_them(given: Given) {
    let options = r#"{"conversation": true, "max_session_messages": 10, "summaries": false}"#;
    let mut node = Node::new(&given.store, options).await;
    let shelf = Arc::new(Shelf::default());
    let archive: Arc<dyn Archive> = shelf.clone();
    let maintenance = bounded(&node, Arc::new(NoModel), |options| options.archive = Some(archive));
    let mut due = Vec::new();
    for number in 0..6 {
        due = turn(&mut node, "s1", number).await.due;
        if number == 0 {
            // Nothing is to go yet.
            let task = task("session/s1", "retention", "");
            assert_eq!(maintenance.run(task).await, Outcome::Done);
        }
    }
    assert!(shelf.kept.lock().is_empty());
    let task = due.into_iter().find(|task| task.name == "retention").unwrap();
    let left = async |node: &mut Node| {
        let state = node.sessions.describe("s1".into()).await.unwrap();
        state.next - state.oldest
    };
    *shelf.is_full.lock() = true;
    let Outcome::Failed(problem) = maintenance.run(task.clone()).await else { panic!("it was removed") };
    assert_eq!((problem.code, &*problem.message), (ProblemCode::Other("archive".to_owned()), "the shelf is full"));
    assert_eq!(left(&mut node).await, 12);
    // Nobody has to wait for its lease.
    *shelf.is_full.lock() = false;
    for _ in 0..2 {
        assert_eq!(maintenance.run(task.clone()).await, Outcome::Done);
        assert_eq!((left(&mut node).await, shelf.kept.lock().len()), (8, 2));
    }
}

on_every_store! {
    a_summary_is_stored_while_turns_are_written_by_others,
    two_summarisers_do_not_undo_each_other,
    a_failed_model_changes_nothing_and_is_asked_again_at_the_next_turn,
    a_title_comes_with_the_first_turn_and_is_refined,
    without_a_model_summaries_are_digests_and_titles_first_messages,
    tasks_beyond_the_limit_are_dropped_and_unfinished_ones_abandoned,
    uses_of_a_users_sessions_are_recorded_in_order_even_if_delayed,
    a_task_of_a_deleted_session_changes_nothing_in_its_successor,
    turns_are_archived_before_retention_removes_them,
}
