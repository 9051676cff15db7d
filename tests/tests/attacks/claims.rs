//! A plugin's claim about a session's owner opens no bucket to it, whatever the call. What is reachable follows from
//! what the operator named and from the user's own list.

use std::path::Path;

use keepline::{
    memories::{MemorySearch, Method},
    store::{BucketId, Entry, NewBucket, Operation, Precondition, SetOperation, Transaction, Writer, kind},
};
use keepline_tests::confined::Ended;

use super::*;

/// The options are what the hostile plugin calls the ones in force.
async fn keepline() -> (Keepline, Arc<KeptLog>) {
    let plugin = Plugin::from_bytes(HOSTILE, &sandbox()).unwrap();
    let log = Arc::new(KeptLog::default());
    let mut options = Options::default();
    options.log = log.clone();
    options.filter = r#"{"conversation":true,"recall":"user"}"#.into();
    let keepline = Keepline::new(plugin, Arc::new(MemoryStore::default()), options).await.unwrap();
    (keepline, log)
}

async fn put(keepline: &Keepline, kind: &str, name: &str, map: &str, key: &str, text: &str) {
    let entries = vec![Entry { key: key.into(), text: text.into() }];
    let transaction = Transaction {
        bucket: BucketId::new(kind, name),
        precondition: Precondition::Create(NewBucket { time_to_live: None }),
        expectations: vec![],
        operations: vec![Operation::Set(SetOperation {
            map_name: map.into(),
            reset: false,
            remove: vec![],
            put: entries,
        })],
    };
    keepline.store().transact(Writer::new().advance(), &transaction.into(), Deadline::NEVER).await.unwrap();
}

/// Eve's session, Bob's that Eve's list names, one of nobody's that it names, and Bob's own.
async fn fill(keepline: &Keepline) {
    for (session, owner) in [("mine", "eve"), ("posed", "bob"), ("victim", "bob")] {
        put(keepline, kind::SESSION, session, "session", "owner", owner).await;
        put(keepline, kind::USER, owner, "sessions", session, "{}").await;
    }
    put(keepline, kind::USER, "eve", "sessions", "posed", "{}").await;
    put(keepline, kind::SESSION, "nobodys", "values", "a", "1").await;
    put(keepline, kind::USER, "eve", "sessions", "nobodys", "{}").await;
}

async fn sessions(keepline: &Keepline) -> Vec<String> {
    let mut names = keepline.store().list_buckets(kind::SESSION, "", 0, Deadline::NEVER).await.unwrap().names;
    names.sort_unstable();
    names
}

fn got(log: &KeptLog, context: &str) -> Vec<String> {
    let mut lines: Vec<_> = log.of(&format!("plugin: {context}")).into_iter().map(|line| line.message).collect();
    lines.sort_unstable();
    lines
}

#[tokio::test]
async fn a_listing_grants_read_access_to_the_users_own_sessions_only() {
    let (keepline, log) = keepline().await;
    fill(&keepline).await;
    let page = keepline.sessions().user_sessions("eve", None, 0).await.unwrap();
    assert_eq!(page.sessions.iter().map(|listed| &*listed.session).collect::<Vec<_>>(), ["mine"]);
    assert_eq!(
        got(&log, "list"),
        [
            "session mine: read Applied, write denied, list denied, delete denied",
            "session nobodys: read Absent, write denied, list denied, delete denied",
            "session posed: read Absent, write denied, list denied, delete denied",
            "session victim: read denied, write denied, list denied, delete denied",
            "user eve: read Applied, write denied, list denied, delete ",
        ]
    );
    let reported = log.of("keepline.owner");
    assert!(reported[0].message.contains("belongs to user 'eve', whose list does not have it"), "{reported:?}");
}

#[tokio::test]
async fn memories_read_the_users_own_sessions_and_change_nothing() {
    let (keepline, log) = keepline().await;
    fill(&keepline).await;
    for session in ["mine", "posed", "nobodys", "victim"] {
        let query = format!(
            r#"return {{"session_id":"mine","user_id":"eve","memory_mode":"conversation","memory":{{"look":true,"recall":true,"window":false,"asked":null}},"memory_recall":{{"passages":[{{"session":"{session}","position":0,"score":1}}]}}}}"#
        );
        let search = MemorySearch { user: "eve", query: Some(&query), ..MemorySearch::default() };
        assert_eq!(keepline.memories(search).await.unwrap().found, [], "{session}");
    }
    let search = MemorySearch { user: "eve", query: Some("word"), method: Method::Keyword, ..MemorySearch::default() };
    assert_eq!(keepline.memories(search).await.unwrap().found, []);
    keepline.sessions().search_user("eve", "word", None, 0).await.unwrap();
    let read = got(&log, "messages");
    assert!(!read.is_empty());
    for line in read {
        assert_eq!(line, "session mine: read Applied, write denied, list denied, delete denied");
    }
    // A question that only looks: with the listing before it, each of these is denied once more than nothing is.
    let denied = async |deed: &str| {
        let before = keepline.counters().denied;
        let search = MemorySearch { user: "eve", query: Some(deed), ..MemorySearch::default() };
        keepline.memories(search).await.unwrap();
        keepline.counters().denied - before
    };
    let by_listing = denied("nothing").await;
    for deed in ["bucket mine", "user eve", "delete mine"] {
        assert_eq!(denied(deed).await, by_listing + 1, "{deed}");
    }
}

#[tokio::test]
async fn forgetting_a_user_deletes_all_of_their_data() {
    let (keepline, log) = keepline().await;
    fill(&keepline).await;
    keepline.sessions().forget_user("eve").await.unwrap();
    assert_eq!(
        got(&log, "list"),
        [
            "session mine: read Applied, write Applied, list denied, delete GenerationMismatch",
            // Nobody says that it is not: a first answer may be on its way.
            "session nobodys: read Applied, write Applied, list denied, delete GenerationMismatch",
            "session posed: read Absent, write Absent, list denied, delete Absent",
            "session victim: read denied, write denied, list denied, delete denied",
            "user eve: read Applied, write Applied, list denied, delete ",
        ]
    );
    assert!(got(&log, "forget").contains(&"posed: delete done".to_owned()), "{:?}", got(&log, "forget"));
    assert_eq!(sessions(&keepline).await, ["posed", "victim"]);
}

#[tokio::test]
async fn a_task_reaches_only_the_user_who_lists_its_session() {
    let (keepline, log) = keepline().await;
    fill(&keepline).await;
    let step = async |subject: &str| {
        let job = Job {
            task: task(subject, "recall", ""),
            holder: "h".into(),
            lease_milliseconds: 1000,
            results: Vec::new(),
        };
        keepline.advance(&job, None).await.step
    };
    assert_eq!(step("session/mine user/eve").await, Step::Done);
    assert_eq!(step("session/mine user/bob").await, Step::Done);
    assert_eq!(step("session/mine user/nobody").await, Step::Done);
    assert_eq!(
        got(&log, "task"),
        [
            "user bob: read Absent, write Absent, list Absent, delete ",
            "user eve: read Applied, write Applied, list Applied, delete ",
            "user nobody: read Absent, write Absent, list Absent, delete ",
        ]
    );
    let reported = log.of("keepline.owner");
    assert!(reported.len() == 1 && reported[0].message.contains("belongs to user 'bob'"), "{reported:?}");
    for subject in ["session/mine user/bob session/victim node/h-a", "session/mine session/victim", "session/mine "] {
        assert_eq!(step(subject).await, Step::Failed, "{subject}");
    }
    assert_eq!(got(&log, "task").len(), 3);
    // What an entry of both names needs no list: the operator named them.
    let due = keepline
        .pipe()
        .question("due session/new user/eve|recall|", r#"{"session_id":"new","user_id":"eve"}"#)
        .await
        .unwrap()
        .due;
    assert_eq!(due[0].buckets, task("session/new user/eve", "", "").buckets);
    assert_eq!(step("session/new user/eve").await, Step::Done);
    assert_eq!(got(&log, "task").len(), 4);
    assert_eq!(log.of("keepline.owner").len(), 1);
}

fn run(arguments: &[&str], directory: &Path) -> Ended {
    Confined::new(program("--bin", "keepline"))
        .args(["--profile", "chat", "--set", "recall=user"])
        .args(["--dir".as_ref(), directory.as_os_str()])
        .args(arguments)
        .run()
}

/// No command that goes by what the plugin says of an owner reaches another's memory by that.
#[test]
fn no_command_grants_a_bucket_on_the_plugins_claim_alone() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let file = directory.path().join("file.jsonl");
    let file = file.to_str().unwrap();
    let bundled = |arguments: &[&str]| {
        let ended = run(arguments, &store);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
        ended.stdout
    };
    let hostile = |arguments: &[&str]| {
        static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
            let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("claims-{}.wasm", std::process::id()));
            fs::write(&file, HOSTILE).unwrap();
            file
        });
        run(&[&["--plugin", FILE.to_str().unwrap()], arguments].concat(), &store)
    };
    bundled(&["user", "put", "bob", "plan", "\"secret\""]);
    bundled(&["session", "create", "victim"]);
    bundled(&["session", "put", "victim", "plan", "\"secret\""]);
    let all = || bundled(&["session", "export", "victim"]) + &bundled(&["user", "list", "bob"]);
    let before = all();
    for session in ["of-bob", "of-bob--session_victim", "of-bob--session_victim--node_h-a"] {
        bundled(&["session", "create", session]);
        bundled(&["session", "put", session, "a", "1"]);
        fs::write(file, bundled(&["session", "export", session])).unwrap();
        bundled(&["session", "put", session, "a", "2"]);
        for command in [
            &["session", "upkeep", session][..],
            &["recall", "rebuild", session],
            &["session", "import", file, "--replace"],
        ] {
            let ended = hostile(command);
            let is_word = session == "of-bob";
            let told = if is_word { "whose list does not have it" } else { "which is no user's name" };
            assert!(ended.stderr.contains(told), "{command:?}: {ended:?}");
            assert_eq!(ended.code, Some(i32::from(!is_word)), "{command:?}: {ended:?}");
            assert!(!ended.stderr.contains("read Applied"), "{command:?}: {ended:?}");
            assert_eq!(all(), before, "{command:?}");
        }
    }
}
