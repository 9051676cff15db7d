//! Isolation of sessions and of tenants from each other.

use keepline::{
    sessions::Transcript,
    store::{BucketId, Entry, NewBucket, Operation, Precondition, SetOperation, Transaction, Writer, kind},
};

use super::*;

async fn keepline(isolation: Isolation) -> (Keepline, Arc<KeptLog>) {
    let mut sandbox = sandbox();
    sandbox.isolation = isolation;
    let plugin = Plugin::from_bytes(HOSTILE, &sandbox).unwrap();
    let log = Arc::new(KeptLog::default());
    let mut options = Options::default();
    options.log = log.clone();
    (Keepline::new(plugin, Arc::new(MemoryStore::default()), options).await.unwrap(), log)
}

fn metadata(session: &str) -> String {
    json!({ "session_id": session }).to_string()
}

async fn asked(keepline: &Keepline, session: &str, text: &str) -> Option<String> {
    told(&keepline.pipe().question(text, &metadata(session)).await.unwrap())
}

async fn sessions(keepline: &Keepline) -> Vec<String> {
    keepline.store().list_buckets(kind::SESSION, "", 0, Deadline::NEVER).await.unwrap().names
}

/// Each of these would read, write, delete or name what is another's.
const MISDEEDS: [&str; 7] = [
    "bucket victim",
    "describe victim",
    "delete victim",
    "each-beside victim",
    "each 1",
    "list ",
    "bucket s1/../victim",
];

#[tokio::test]
async fn an_entry_reaches_its_own_session_and_no_other() {
    let (keepline, log) = keepline(Isolation::default()).await;
    assert_eq!(asked(&keepline, "victim", "bucket victim").await.as_deref(), Some("done"));
    for (before, misdeed) in MISDEEDS.into_iter().enumerate() {
        let answer = asked(&keepline, "s1", misdeed).await.unwrap();
        assert!(answer.contains("denied: a call reaches only the session"), "{misdeed}: {answer}");
        assert_eq!(keepline.counters().denied, before as u64 + 1, "{misdeed}");
        assert_eq!(sessions(&keepline).await, ["victim"], "{misdeed}");
    }
    // Of a question without a session, or with one that is no text, there is nothing to reach.
    for nobody in ["{}", r#"{"session_id":5}"#, r#"{"x":{"session_id":"victim"}}"#, r#"{"session_id":"victim"} x"#, ""]
    {
        let passed = keepline.pipe().question("bucket victim", nobody).await.unwrap();
        assert!(told(&passed).unwrap().starts_with("denied: "), "{nobody}: {passed:?}");
    }
    assert_eq!(keepline.counters().denied, MISDEEDS.len() as u64 + 5);
    let told = log.of("keepline.denied");
    assert!(told.len() == 3 && told[0].message.contains("asked the store for the session 'victim'"), "{told:?}");
    assert_eq!(asked(&keepline, "s1", "bucket s1").await.as_deref(), Some("done"));
    assert_eq!(sessions(&keepline).await, ["s1", "victim"]);
}

#[tokio::test]
async fn an_answer_reaches_its_question_s_session_or_the_one_that_it_names() {
    let (keepline, _) = keepline(Isolation::default()).await;
    let mut pipe = keepline.pipe();
    for (asked, named, reaches) in [
        (metadata("a"), "{}".to_owned(), "a"),
        (metadata("a"), metadata("a"), "a"),
        (metadata("a"), metadata("b"), "b"),
        (metadata("a"), r#"{"session_id":null}"#.into(), "a"),
        ("{}".into(), metadata("b"), "b"),
        ("{}".into(), "{}".into(), ""),
    ] {
        for session in ["a", "b", "victim"] {
            pipe.question("nothing", &asked).await.unwrap();
            let answer = told(&pipe.answer(&format!("bucket {session}"), &named).await.unwrap()).unwrap();
            assert_eq!(answer == "done", session == reaches, "{asked} {named} {session}: {answer}");
        }
    }
    pipe.question("nothing", &metadata("a")).await.unwrap();
    pipe.open();
    assert!(told(&pipe.answer("bucket a", "{}").await.unwrap()).unwrap().starts_with("denied: "));
}

#[tokio::test]
async fn operators_and_tasks_reach_the_buckets_that_they_name() {
    let (keepline, _) = keepline(Isolation::default()).await;
    assert_eq!(asked(&keepline, "victim", "bucket victim").await.as_deref(), Some("done"));
    let mut sessions_of = keepline.sessions();
    for misdeed in MISDEEDS.iter().filter(|misdeed| !misdeed.contains("beside")) {
        let before = keepline.counters().denied;
        // The session's id is the deed: it is no other's.
        sessions_of.create(misdeed).await.unwrap_err();
        assert_eq!(keepline.counters().denied, before + 1, "{misdeed}");
        let job = Job {
            task: task("session/s1", misdeed, ""),
            holder: "h".into(),
            lease_milliseconds: 1000,
            results: Vec::new(),
        };
        assert_eq!(keepline.advance(&job, None).await.step, Step::Done);
        assert_eq!(keepline.counters().denied, before + 2, "{misdeed}");
    }
    // To list is to see the names, and nothing of what they stand for.
    let page = sessions_of.list("bucket victim", 0).await.unwrap();
    assert!(page.cursor.starts_with("denied: "), "{page:?}");
    assert_eq!(sessions_of.list("count", 0).await.unwrap().cursor, "1");
    assert_eq!(sessions(&keepline).await, ["victim"]);
}

/// That a session is a user's, the plugin only says: it has their bucket if that lists the session.
#[tokio::test]
async fn a_plugin_cannot_choose_the_user_whose_bucket_it_reaches() {
    let (keepline, log) = keepline(Isolation::default()).await;
    list(&keepline, "victim", "another").await;
    let mut sessions = keepline.sessions();
    let mut done =
        async |session: &str, deed: &str| sessions.rewrite(session.into(), 0, Some(deed)).await.unwrap_err().message;
    assert!(done("of-victim", "user victim").await.starts_with("denied: "));
    assert_eq!(done("of-victim", "find-user victim").await, "Status::Absent");
    assert_eq!(done("of-victim", "find-user ben").await, "denied");
    let told = log.of("keepline.owner");
    assert!(told[0].message.contains("session 'of-victim' belongs to user 'victim'"), "{told:?}");
    // Neither is one made that is not there.
    assert!(done("of-nobody", "user nobody").await.starts_with("denied: "));
    assert_eq!(done("of-nobody", "find-user nobody").await, "Status::Absent");
    // What is no name of a bucket is nobody's.
    assert_eq!(done("of-a b", "find-user victim").await, "denied");

    let mut sessions = keepline.sessions();
    let node = Transcript { session: "of-victim", app_id: None, node_id: Some("n") };
    for (transcript, user) in [("of-victim".into(), None), ("of-victim".into(), Some("ben")), (node, None)] {
        let told = sessions.register(transcript, user).await.unwrap().owner.unwrap();
        assert!(told.starts_with("denied: "), "{transcript:?} {user:?}: {told}");
    }
    assert_eq!(sessions.register("of-victim".into(), Some("victim")).await.unwrap().owner.as_deref(), Some("done"));

    list(&keepline, "victim", "of-victim").await;
    let mut done = async |deed: &str| sessions.rewrite("of-victim".into(), 0, Some(deed)).await.unwrap_err().message;
    assert_eq!(done("user victim").await, "done");
    assert_eq!(done("find-user victim").await, "Status::Applied");
    assert!(done("user ben").await.starts_with("denied: "));
}

/// As the bundled filter lists a session with its user.
async fn list(keepline: &Keepline, user: &str, session: &str) {
    let entries = vec![Entry { key: session.into(), text: "{}".into() }];
    let transaction = Transaction {
        bucket: BucketId::user(user),
        precondition: Precondition::Create(NewBucket { time_to_live: None }),
        expectations: vec![],
        operations: vec![Operation::Set(SetOperation {
            map_name: "sessions".into(),
            reset: false,
            remove: vec![],
            put: entries,
        })],
    };
    let mut writer = Writer::new();
    keepline.store().transact(writer.advance(), &transaction.into(), Deadline::NEVER).await.unwrap();
}

#[tokio::test]
async fn the_sandbox_option_decides_who_shares_an_instance() {
    for (isolation, same_tenant, other_tenant) in [
        (Isolation::Shared, "the secret", "the secret"),
        (Isolation::Tenant, "the secret", ""),
        (Isolation::Entry, "", ""),
    ] {
        let (one, _) = keepline(isolation).await;
        let other = one.with_store(Arc::new(MemoryStore::default())).unwrap();
        asked(&one, "a", "the secret").await;
        assert_eq!(asked(&other, "b", "overheard").await.as_deref(), Some(other_tenant), "{isolation:?}");
        asked(&one, "a", "the secret").await;
        assert_eq!(asked(&one, "b", "overheard").await.as_deref(), Some(same_tenant), "{isolation:?}");
        let served = asked(&one, "b", "served").await.unwrap();
        assert_eq!(served == "1", isolation == Isolation::Entry, "{isolation:?}: {served}");
    }
}

#[test]
fn the_binary_shares_instances_as_its_configuration_says() {
    for (isolation, second) in [(None, "2"), (Some("shared"), "2"), (Some("tenant"), "2"), (Some("entry"), "1")] {
        let setting = isolation.map(|isolation| ["--set".to_owned(), format!("sandbox_isolation={isolation}")]);
        let arguments: Vec<_> = setting.iter().flatten().map(String::as_str).collect();
        let input = question("a", "served") + &question("b", "served");
        let ended = hostile(&[&["run", "--pipes", "1"], &arguments[..]].concat()).input(input).run();
        let served: Vec<_> = ended
            .stdout
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["metadata"]["told"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(served, ["1", second], "{isolation:?}: {ended:?}");
    }
}

/// However many tenants there are, there are no more instances than there may be.
#[tokio::test]
async fn tenants_take_turns_when_there_are_more_of_them_than_instances() {
    let plugin = Plugin::from_bytes(HOSTILE, &sandbox()).unwrap();
    let mut options = Options::default();
    options.max_instances = 3;
    let one = Keepline::new(plugin, Arc::new(MemoryStore::default()), options).await.unwrap();
    let tenants: Vec<_> = (0..10).map(|_| one.with_store(Arc::new(MemoryStore::default())).unwrap()).collect();
    for (number, tenant) in tenants.iter().enumerate().cycle().take(100) {
        let secret = format!("secret {number}");
        asked(tenant, "a", &secret).await;
        assert_eq!(asked(tenant, "a", "overheard").await.as_deref(), Some(&*secret));
        let metrics = one.metrics();
        assert!(metrics.instances_idle + metrics.instances_at_work <= 3, "{metrics:?}");
    }
}

#[test]
fn a_plugin_in_the_built_program_reaches_no_other_session() {
    let lines =
        question("victim", "bucket victim") + &question("s1", "delete victim") + &question("victim", "describe victim");
    let ended = hostile(&["run", "--summary"]).input(lines).run();
    let told: Vec<_> = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    assert_eq!(told[0]["metadata"]["told"], "done");
    assert!(told[1]["metadata"]["told"].as_str().unwrap().starts_with("denied"), "{told:?}");
    assert_eq!(told[2]["metadata"]["told"], "done");
    assert!(
        ended.stderr.contains("[keepline.denied]") && ended.stderr.contains("denied             1"),
        "{}",
        ended.stderr
    );
}
