//! Recall with embeddings: what shares no word with a question is found, and nothing that was removed keeps a vector.

mod users;

use crate::admin_calls as admin;
use keepline_filter::tasks::job::{Need, NeedOutcome, Progress, Step, Vector};
use keepline_filter::transcript::address::TranscriptId;
use keepline_filter::{Config, Context, Filter, Host, QuestionEntry, QuestionReply};
use serde_json::{Value, json};

use super::tasks::{Work, buckets, completed, embedded, failed, missing};
use super::{STORED, ask, attached, entry, filter, reply, s};
use crate::test_host::TestHost;

const OPTIONS: &str = r#""max_context_tokens": 64, "recall": "session", "summaries": false, "recall_vectors": true"#;
const S: TranscriptId<'static> = TranscriptId { session: "s", app_id: None, node_id: None };
/// A question that has no word in common with what it is about.
const PARAPHRASE: &str = "Which pets?";

/// A model that knows what animals are, and how long a text is.
fn vector(model: &str, text: &str) -> Vector {
    let is_animal = ["dog", "cat", "pets"].iter().any(|word| text.contains(word));
    let length = 0.1 + f32::from(u8::try_from(text.len() % 7).unwrap()) / 100.0;
    let values = if is_animal { [1.0, length, 0.1] } else { [0.02, length, 1.0] };
    Vector { model: model.into(), data: base64(&values) }
}

fn base64(values: &[f32]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let digits = |chunk: &[u8]| {
        let number = u32::from_be_bytes([0, chunk[0], chunk[1], chunk[2]]);
        [18, 12, 6, 0].map(|shift| char::from(DIGITS[(number >> shift & 63) as usize]))
    };
    assert!(bytes.len().is_multiple_of(3));
    bytes.chunks(3).flat_map(digits).collect()
}

fn work(name: &'static str) -> Work {
    Work { buckets: buckets("session s"), name, state: String::new() }
}

/// Passages are cut, but have no vectors yet.
fn cut(filter: &Filter<impl Host>) {
    let mut work = work("recall");
    while work.step(filter, "h", None).step == Step::Again {}
}

fn texts(asked: &Progress) -> Vec<String> {
    match &asked.need {
        Some(Need::Vectors(need)) => need.texts.clone(),
        other => panic!("{other:?}"),
    }
}

/// Steps until something is needed.
fn begin(filter: &Filter<impl Host>, work: &mut Work) -> Progress {
    loop {
        let asked = work.step(filter, "h", None);
        if asked.step != Step::Again {
            return asked;
        }
    }
}

/// What the model has for each.
fn vectors(model: &str, texts: &[String]) -> NeedOutcome {
    embedded(texts.iter().map(|text| vector(model, text)).collect())
}

/// Steps until there is no more to do; the texts that it took.
fn embed(filter: &Filter<impl Host>, model: &str) -> Vec<String> {
    cut(filter);
    let (mut work, mut result, mut all) = (work("vectors"), None, Vec::new());
    for _ in 0..1000 {
        let asked = work.go_on(filter, "h", result.take());
        match asked.step {
            Step::Again => {}
            Step::Needs => {
                let texts = texts(&asked);
                assert!(texts.len() <= 64);
                result = Some(vectors(model, &texts));
                all.extend(texts);
            }
            step => {
                assert_eq!(step, Step::Done, "{asked:?}");
                return all;
            }
        }
    }
    panic!("it never ends");
}

fn talk(filter: &Filter<impl Host>, said: &[&str]) {
    for text in said {
        let asked = ask(filter, text, &s());
        let done = reply(filter, text, &format!("Well, {text}"), &asked.turn);
        assert_eq!(done.effect, STORED);
        assert!(done.due.iter().any(|task| task.name == "vectors"));
    }
}

/// Something that nobody asks for.
fn chat(filter: &Filter<impl Host>, count: usize) {
    for number in 0..count {
        talk(filter, &[&format!("remark {number} about nothing much")]);
    }
    cut(filter);
}

fn ask_with(filter: &Filter<impl Host>, text: &str, vector: &Vector) -> QuestionReply {
    let metadata = &s().to_string();
    let vector = Some((&*vector.model, &*vector.data));
    filter.question(&QuestionEntry { text, metadata, vector, ..QuestionEntry::default() })
}

fn passages(reply: &QuestionReply) -> Vec<Value> {
    attached(reply, "memory_recall")["passages"].as_array().cloned().unwrap_or_default()
}

/// What a question gets, with its vector of that model.
fn recalled(filter: &Filter<impl Host>, text: &str, model: &str) -> Vec<String> {
    let found = passages(&ask_with(filter, text, &vector(model, text)));
    found.iter().map(|passage| passage["text"].as_str().unwrap().to_owned()).collect()
}

fn stored(host: &TestHost) -> Vec<(u64, String)> {
    let buckets = host.buckets();
    let found = buckets["s"].maps.get("vectors").cloned().unwrap_or_default();
    let mut found: Vec<(u64, String)> = found.into_iter().map(|(key, text)| (key.parse().unwrap(), text)).collect();
    found.sort();
    found
}

fn sessions(host: &TestHost) -> Context<&TestHost> {
    Context::new(host, Config::parse(&format!("{{\"conversation\": true, {OPTIONS}}}")).unwrap())
}

#[test]
fn passages_sharing_no_word_are_found_by_vector_without_another_wait() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, &["Our dog is called Bello."]);
    chat(&filter, 8);
    assert_eq!(embed(&filter, "m").len(), 18);
    assert_eq!(stored(&host).len(), 18);
    assert!(passages(&ask(&filter, PARAPHRASE, &s())).is_empty());
    let before = host.waits.get();
    let found = passages(&ask_with(&filter, PARAPHRASE, &vector("m", PARAPHRASE)));
    assert_eq!(host.waits.get() - before, 2);
    let texts: Vec<&str> = found.iter().map(|passage| passage["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["Our dog is called Bello.", "Well, Our dog is called Bello."]);
    assert_eq!(found[0]["why"], json!(["vector"]));
    // By both.
    let found = passages(&ask_with(&filter, "Is Bello one of the pets?", &vector("m", PARAPHRASE)));
    assert_eq!(found[0]["why"], json!(["terms", "vector"]));
    // What the task has done it does not do again.
    assert!(embed(&filter, "m").is_empty());
}

#[test]
fn vectors_are_off_by_default() {
    let host = TestHost::new();
    let without = OPTIONS.replace(r#", "recall_vectors": true"#, "");
    let plain = super::filter(&host, &without);
    let asked = ask(&plain, "?", &s());
    assert!(reply(&plain, "?", "!", &asked.turn).due.iter().all(|task| task.name != "vectors"));
    let wants = |options: &str| Config::parse(options).unwrap().conversation.is_some_and(|it| it.wants_vectors());
    assert!(wants(&format!("{{\"conversation\": true, {OPTIONS}}}")));
    assert!(!wants(&format!("{{\"conversation\": true, {without}}}")));
    assert!(!wants(r#"{"conversation": true, "recall_vectors": true}"#));
    // Nobody looks at what is stored, or at a question's vector.
    let with = filter(&host, OPTIONS);
    talk(&with, &["Our dog is called Bello."]);
    chat(&with, 8);
    embed(&with, "m");
    assert_eq!(recalled(&plain, PARAPHRASE, "m"), [""; 0]);
    assert_eq!(recalled(&with, PARAPHRASE, "m").len(), 2);
}

#[test]
fn an_invalid_question_vector_is_ignored() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, &["Our dog is called Bello."]);
    chat(&filter, 8);
    embed(&filter, "m");
    for data in ["", "no base64", "AAAA", &base64(&[0.0; 3]), &base64(&[1.0; 6])] {
        let vector = Vector { model: "m".into(), data: data.into() };
        assert!(passages(&ask_with(&filter, PARAPHRASE, &vector)).is_empty(), "{data}");
        assert_eq!(passages(&ask_with(&filter, "Bello?", &vector))[0]["text"], "Our dog is called Bello.");
    }
}

#[test]
fn in_a_large_scope_vectors_rank_the_passages_that_terms_found() {
    let host = TestHost::new();
    let filter = filter(&host, &format!("{OPTIONS}, \"recall_tokens\": 400"));
    for number in 0..300 {
        let said = match number {
            200 => "In the garden there is a dog 200.".to_owned(),
            _ if number % 8 == 0 => format!("In the garden there is a bench {number}."),
            _ => format!("remark {number} about nothing much"),
        };
        talk(&filter, &[&said]);
    }
    assert_eq!(embed(&filter, "m").len(), 600);
    let question = "What is in the garden?";
    let has_dog = |reply: &QuestionReply| {
        let is_dog = |passage: &Value| passage["text"].as_str().unwrap().contains("a dog");
        passages(reply).iter().find(|passage| is_dog(passage)).map(|passage| passage["why"].clone())
    };
    assert_eq!(has_dog(&ask(&filter, question, &s())), None);
    let before = host.waits.get();
    let found = ask_with(&filter, question, &vector("m", PARAPHRASE));
    assert_eq!(host.waits.get() - before, 2);
    assert_eq!(has_dog(&found), Some(json!(["terms", "vector"])));
    assert!(attached(&found, "memory_recall")["text"].as_str().unwrap().len() <= 1600);
    // What words do not find, nobody looks at.
    assert_eq!(recalled(&filter, PARAPHRASE, "m"), [""; 0]);
}

#[test]
fn vectors_of_another_model_count_as_none_and_are_made_again() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, &["Our dog is called Bello."]);
    chat(&filter, 80);
    embed(&filter, "m");
    let old = stored(&host);
    assert_eq!(recalled(&filter, PARAPHRASE, "n"), [""; 0]);
    assert_eq!(recalled(&filter, "Bello?", "n")[0], "Our dog is called Bello.");
    // It is noticed at the next answer.
    assert!(embed(&filter, "n").is_empty());
    talk(&filter, &["Something else."]);
    assert_eq!(embed(&filter, "n").len(), 2 + 164);
    let new = stored(&host);
    assert_eq!((old.len(), new.len()), (162, 164));
    assert!(old.iter().zip(&new).all(|(old, new)| old.0 == new.0 && old.1 != new.1));
    assert!(entry(&host, "session", "embedded").unwrap().ends_with(" 3 n"));
    assert_eq!(recalled(&filter, PARAPHRASE, "n").len(), 2);
    assert_eq!(recalled(&filter, PARAPHRASE, "m"), [""; 0]);
}

#[test]
fn vectors_of_a_new_model_are_used_while_others_are_recomputed() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, &["Our dog is called Bello."]);
    chat(&filter, 80);
    embed(&filter, "m");
    talk(&filter, &["Our cat is called Mia."]);
    chat(&filter, 3);
    let mut work = work("vectors");
    let first = texts(&begin(&filter, &mut work));
    assert_eq!(work.go_on(&filter, "h", Some(vectors("n", &first))).step, Step::Again);
    let second = texts(&begin(&filter, &mut work));
    assert_eq!((second.len(), &*second[0]), (64, "Our dog is called Bello."));
    assert_eq!(work.go_on(&filter, "h", Some(vectors("n", &second))).step, Step::Again);
    // The oldest have a new one, the others an old one or none.
    assert_eq!(recalled(&filter, PARAPHRASE, "n").len(), 2);
    assert_eq!(recalled(&filter, PARAPHRASE, "m"), [""; 0]);
    assert!(recalled(&filter, "Mia?", "n").contains(&"Our cat is called Mia.".to_owned()));
}

#[test]
fn a_missing_or_failing_model_stores_no_vectors() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, &["Our dog is called Bello."]);
    chat(&filter, 3);
    for (result, step) in [
        (missing(), Step::Done),
        (failed(), Step::Failed),
        // Of another kind than it asked for.
        (completed("?"), Step::Failed),
        (embedded(Vec::new()), Step::Failed),
        (embedded(vec![Vector { model: "m".into(), data: "?".into() }; 8]), Step::Failed),
        (embedded(vec![vector("m", "dog"); 9]), Step::Failed),
    ] {
        let mut work = work("vectors");
        assert_eq!(texts(&begin(&filter, &mut work)).len(), 8);
        assert_eq!(work.go_on(&filter, "h", Some(result)).step, step);
        assert!(stored(&host).is_empty() && entry(&host, "session", "embedded").is_none());
    }
    assert_eq!(embed(&filter, "m").len(), 8);
}

#[test]
fn a_zero_vector_is_not_stored_and_blocks_no_other() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, &["Our dog is called Bello."]);
    cut(&filter);
    let mut work = work("vectors");
    let texts = texts(&begin(&filter, &mut work));
    let NeedOutcome::Vectors(mut found) = vectors("m", &texts) else { panic!() };
    found.vectors[0].data = base64(&[0.0; 3]);
    assert_eq!(work.go_on(&filter, "h", Some(NeedOutcome::Vectors(found))).step, Step::Again);
    assert_eq!(begin(&filter, &mut work).step, Step::Done);
    assert_eq!(stored(&host).iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_text_the_model_refuses_has_no_vector_and_is_not_sent_again() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, &["Our dog is called Bello."]);
    cut(&filter);
    let refused = || Vector { model: String::new(), data: String::new() };
    // All of them, then one, then one of what the host has got to.
    let mut first = work("vectors");
    let texts_of_first = texts(&begin(&filter, &mut first));
    let none = embedded(vec![refused(); texts_of_first.len()]);
    assert_eq!(first.go_on(&filter, "h", Some(none)).step, Step::Again);
    assert_eq!(begin(&filter, &mut first).step, Step::Done);
    assert!(stored(&host).is_empty() && embed(&filter, "m").is_empty());

    talk(&filter, &["Our cat is called Mia.", "Our cow is called Elsa."]);
    cut(&filter);
    let mut second = work("vectors");
    let asked = texts(&begin(&filter, &mut second));
    assert_eq!(asked.len(), 4);
    let some = embedded(vec![refused(), vector("m", &asked[1]), refused()]);
    assert_eq!(second.go_on(&filter, "h", Some(some)).step, Step::Again);
    assert_eq!(embed(&filter, "m"), asked[3..]);
    assert_eq!(stored(&host).iter().map(|(at, _)| *at).collect::<Vec<_>>(), [3, 5]);
}

#[test]
fn removing_messages_removes_their_vectors() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, &["Our dog is called Bello."]);
    chat(&filter, 80);
    embed(&filter, "m");
    admin::rewrite_message(&sessions(&host), &S, 0, None).unwrap();
    assert_eq!(stored(&host)[0].0, 1);
    // Other words, another vector.
    admin::rewrite_message(&sessions(&host), &S, 1, Some("Our cat is called Mia.")).unwrap();
    assert_eq!((stored(&host)[0].0, stored(&host).len()), (2, 160));
    assert_eq!(recalled(&filter, PARAPHRASE, "m"), [""; 0]);
    assert_eq!(embed(&filter, "m"), ["Our cat is called Mia."]);
    assert_eq!(recalled(&filter, PARAPHRASE, "m"), ["Our cat is called Mia."]);
    admin::clear_messages(&sessions(&host), &S, None).unwrap();
    assert!(stored(&host).is_empty());
    talk(&filter, &["Our dog is called Rex."]);
    assert_eq!(embed(&filter, "m").len(), 2);
    let message = r#"{"role": "user", "content": "Our cat is called Mia."}"#.to_owned();
    admin::set_messages(&sessions(&host), &S, &[message], None).unwrap();
    assert!(stored(&host).is_empty());
    assert_eq!(embed(&filter, "m"), ["Our cat is called Mia."]);
    let mut reset = work("recall-reset");
    while reset.step(&filter, "h", None).step == Step::Again {}
    assert!(stored(&host).is_empty());
    assert_eq!(embed(&filter, "m"), ["Our cat is called Mia."]);
}

#[test]
fn retention_removes_vectors() {
    let host = TestHost::new();
    let filter = filter(&host, &format!("{OPTIONS}, \"max_session_messages\": 20"));
    chat(&filter, 30);
    embed(&filter, "m");
    let mut retention = work("retention");
    while retention.step(&filter, "h", None).step == Step::Again {}
    cut(&filter);
    let first = host.bucket("s").logs["passages"].0;
    assert!(first > 0);
    let kept: Vec<u64> = stored(&host).into_iter().map(|(at, _)| at).collect();
    assert_eq!(kept, (first..60).collect::<Vec<_>>());
}

#[test]
fn passages_removed_during_a_model_request_get_no_vector() {
    let changes: [fn(&TestHost, &Filter<&TestHost>); 4] = [
        |host, _| _ = admin::rewrite_message(&sessions(host), &S, 0, None).unwrap(),
        |host, _| _ = admin::clear_messages(&sessions(host), &S, None).unwrap(),
        |_, filter| while work("recall-reset").step(filter, "other", None).step != Step::Again {},
        |_, filter| _ = embed(filter, "n"),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let host = TestHost::new();
        let filter = filter(&host, OPTIONS);
        talk(&filter, &["Our dog is called Bello."]);
        cut(&filter);
        let mut work = work("vectors");
        let texts = texts(&begin(&filter, &mut work));
        change(&host, &filter);
        let before = stored(&host);
        let done = work.go_on(&filter, "h", Some(vectors("m", &texts)));
        assert_eq!((done.step, stored(&host)), (Step::Again, before), "{number}");
        assert!(host.leases("s").is_empty(), "{number}");
    }
}

#[test]
fn passages_corrected_during_a_model_request_are_embedded_again() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, &["Our dog is called Bello.", "Our cat is called Mia."]);
    cut(&filter);
    let mut work = work("vectors");
    let mut correct = |position| {
        let texts = texts(&begin(&filter, &mut work));
        admin::rewrite_message(&sessions(&host), &S, position, None).unwrap();
        // Whoever is at something else keeps their lease.
        host.take_lease("s", "other", "other", 1);
        (work.go_on(&filter, "h", Some(vectors("m", &texts))).step, texts.len())
    };
    assert_eq!(correct(0), (Step::Again, 4));
    assert_eq!(correct(1), (Step::Taken, 3));
    assert_eq!(host.leases("s").into_keys().collect::<Vec<_>>(), ["other"]);
    // Nobody has to wait.
    assert_eq!(embed(&filter, "m"), ["Our cat is called Mia.", "Well, Our cat is called Mia."]);
}

#[test]
fn messages_not_yet_split_into_passages_are_split_before_embedding() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, &["Our dog is called Bello."]);
    let mut work = work("vectors");
    assert_eq!(texts(&begin(&filter, &mut work)).len(), 2);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn arbitrary_stored_data_does_not_break_recall(
        key in "[0-9]{1,20}|[!-~]{1,9}", text in "[A-Za-z0-9+/]{0,20}|.{0,12}", place in "[0-9]{0,17} .{0,9}|.{0,9}",
    ) {
        // That is the dog's own.
        proptest::prop_assume!(key != "0");
        let host = TestHost::new();
        let filter = filter(&host, OPTIONS);
        talk(&filter, &["Our dog is called Bello."]);
        chat(&filter, 8);
        embed(&filter, "m");
        {
            let mut buckets = host.buckets_mut();
            let bucket = buckets.get_mut("s").unwrap();
            bucket.maps.get_mut("vectors").unwrap().insert(key, text);
            bucket.maps.get_mut("session").unwrap().insert("embedded".into(), place);
        }
        proptest::prop_assert!(recalled(&filter, PARAPHRASE, "m").contains(&"Our dog is called Bello.".to_owned()));
        embed(&filter, "m");
    }
}

#[test]
fn a_vector_that_came_with_a_question_is_not_needed_again() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    let asked = |text: &str, model: &str| {
        let supplied = vector(model, text);
        let metadata = s().to_string();
        let vector = Some((&*supplied.model, &*supplied.data));
        let turn =
            filter.question(&QuestionEntry { text, metadata: &metadata, vector, ..QuestionEntry::default() }).turn;
        assert!(turn.len() <= 4096 && turn.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        assert_eq!(reply(&filter, text, &format!("Noted: {}", text.len()), &turn).effect, STORED);
    };
    asked("Our dog is called Bello.", "m");
    asked("Our cat is called Mia.", "m");
    assert_eq!(embed(&filter, "m"), ["Noted: 24", "Noted: 22"]);
    assert_eq!(host.bucket("s").maps["vectors"].len(), 4);
    asked("The parrot talks.", "m");
    assert_eq!(embed(&filter, "m"), ["Noted: 17"]);
    // One of another model than the others is.
    asked("The hamster sleeps.", "other");
    assert_eq!(embed(&filter, "m"), ["The hamster sleeps.", "Noted: 19"]);
    // Nor does it count if the host's model turns out to be another one.
    let host = TestHost::new();
    let filter = self::filter(&host, OPTIONS);
    let supplied = vector("other", "Hello dog.");
    let metadata = s().to_string();
    let entry = QuestionEntry { text: "Hello dog.", metadata: &metadata, ..QuestionEntry::default() };
    let turn = filter.question(&QuestionEntry { vector: Some((&*supplied.model, &*supplied.data)), ..entry }).turn;
    reply(&filter, "Hello dog.", "Hello.", &turn);
    assert_eq!(embed(&filter, "m"), ["Hello.", "Hello dog.", "Hello."]);
}
