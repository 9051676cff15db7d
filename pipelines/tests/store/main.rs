//! What runs read, how often they wait for it, and what they can't reach.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../cases/host.rs"]
mod host;

use std::rc::Rc;

use host::TestHost;
use keepline_pipelines::{
    assembly::AssemblyRequest,
    catalog::DefinitionKind,
    datasets::{Asker, Collection, DataItem, DataKind, Owner, OwnerKind, list_items, put_items, remove_items},
    definition::{DefinitionLimits, check},
    requests::error::RequestError,
    requests::stored::put_definition,
    requests::{Outcome, Reply, RequestContext, assemble_context, execute_memory},
    run::{Answer, RunLimits, RunReport, RunRequest},
    value::{Object, Value},
};
use keepline_store_client::{Host, Operation, Precondition, PutEntry, Transaction};

const NOW: i64 = 1_772_366_400_000;

const LIMITS: &DefinitionLimits = &DefinitionLimits::DEFAULT;

fn owner(kind: OwnerKind, name: &str) -> Owner {
    Owner { kind, name: name.into() }
}

fn project() -> Owner {
    owner(OwnerKind::Project, "p")
}

fn asker(owner: Owner) -> Asker {
    Asker { owner, session: Some("s1".into()), user: Some("ann".into()) }
}

fn put(host: &TestHost, owner: &Owner, kind: DataKind, name: &str, namespace: &str, items: &[(&str, &str)]) {
    let collection = Collection { name: name.into(), namespace: namespace.into() };
    let item = |(id, json): &(&str, &str)| DataItem { id: (*id).into(), value: Value::parse(json).unwrap() };
    let items: Vec<_> = items.iter().map(item).collect();
    put_items(host, owner, kind, &collection, &items).unwrap();
}

fn define(host: &TestHost, owner: &Owner, id: &str, pipeline: &str) {
    let form = Value::parse(&format!(
        r#"{{"id":"{id}","label":"L","inputs_scope":["user","project"],"retrieval":{{"pipeline":{pipeline}}}}}"#
    ));
    let form = form.unwrap();
    assert!(check(&form, LIMITS).definition.is_some(), "{:?}", check(&form, LIMITS).findings);
    put_definition(host, owner, DefinitionKind::Memory, id, &form, None).unwrap();
}

fn words() -> impl Fn(&keepline_pipelines::run::Need) -> Answer {
    |_| Answer::Refused("no endpoint".into())
}

/// The report, and the waits of the last call.
fn run(host: &TestHost, asker: &Asker, id: &str, variables: &str, limits: RunLimits) -> (RunReport, u32) {
    let variables = Value::parse(variables).unwrap().as_object().unwrap().clone();
    let intent = Object::from_iter([("query".into(), Value::from("gateway port"))]);
    let request = RunRequest { intent, variables, now: NOW, limits };
    let (mut answers, answer) = (Vec::new(), words());
    loop {
        let context = RequestContext {
            host,
            asker,
            now: NOW,
            limits,
            definition_limits: LIMITS,
            answers: &answers,
            revisions: &[],
        };
        let before = host.waits.get();
        match execute_memory(&context, id, &request).unwrap().outcome {
            Outcome::Done(report) => return (*Box::new(report), host.waits.get() - before),
            Outcome::Needs(needs) => answers.extend(needs.iter().map(|need| (need.digest(), answer(need)))),
        }
    }
}

fn shown(report: &RunReport, name: &str) -> String {
    report.results.get(name).map(Value::to_json).unwrap_or_default()
}

const GRAPH: [(&str, &str); 4] = [
    ("a", r#"{"kind":"service","name":"A"}"#),
    ("b", r#"{"kind":"service","name":"B"}"#),
    ("c", r#"{"kind":"service","name":"C"}"#),
    ("d", r#"{"kind":"person","name":"D"}"#),
];

fn world() -> TestHost {
    let host = TestHost::new();
    let project = project();
    put(&host, &project, DataKind::Values, "ctx", "n", &[("k1", "1"), ("k2", r#""two""#)]);
    let event = r#"{"stream_id":"s","event_type":"x","timestamp":"2026-01-01T00:00:00Z","payload":{"n":1}}"#;
    put(&host, &project, DataKind::Events, "log", "", &[("", event)]);
    put(&host, &project, DataKind::Documents, "docs", "", &[("d1", r#"{"text":"the gateway listens on port 8080"}"#)]);
    put(&host, &project, DataKind::Nodes, "", "", &GRAPH);
    let edges = [
        ("", r#"{"from":"a","to":"b","kind":"calls"}"#),
        ("", r#"{"from":"b","to":"c","kind":"calls"}"#),
        ("", r#"{"from":"c","to":"d","kind":"owned"}"#),
    ];
    put(&host, &project, DataKind::Edges, "", "", &edges);
    put(&host, &project, DataKind::Views, "", "", &[("services", r#"{"match":{"kind":"service"}}"#)]);
    host
}

#[test]
fn independent_retrievals_are_one_wait_after_the_definition() {
    let host = world();
    let pipeline = r#"[
        {"type":"kv_get","alias":"a","instance":"ctx","namespace":"n","keys":["k1"]},
        {"type":"kv_get","alias":"b","instance":"ctx","namespace":"other","keys":["k1"]},
        {"type":"log_search","alias":"c","instance":"log"},
        {"type":"conditional","condition":"results.count > 0","thenSteps":[{"type":"summarize","max_items":1}]},
        {"type":"kv_get","alias":"d","instance":"ctx","namespace":"n","keys":["k2"]},
        {"type":"merge","alias":"all","sources":["a","c","d"]}]"#;
    define(&host, &project(), "m", pipeline);
    let (report, waits) = run(&host, &asker(project()), "m", "{}", RunLimits::default());
    assert_eq!((report.failure.as_ref(), report.items.len(), waits), (None, 3, 2), "{report:?}");
}

#[test]
fn each_link_of_a_chain_and_each_level_of_a_graph_is_one_more_wait() {
    let host = world();
    let chain = r#"[
        {"type":"kv_get","alias":"a","instance":"ctx","namespace":"n","keys":["k2"]},
        {"type":"kv_get","alias":"b","instance":"${a.0.value}","namespace":"n","keys":["k"]},
        {"type":"kv_get","alias":"c","instance":"ctx","namespace":"n","keys":["k1"]}]"#;
    define(&host, &project(), "chain", chain);
    assert_eq!(run(&host, &asker(project()), "chain", "{}", RunLimits::default()).1, 3);
    let waits = |depth: u32| {
        let id = format!("g{depth}");
        let step = format!(
            r#"[{{"type":"derive_query","alias":"q","template":"a"}},
                {{"type":"graph_neighbor_expand","seed_from":"q","depth":{depth}}}]"#
        );
        define(&host, &project(), &id, &step);
        let (report, waits) = run(&host, &asker(project()), &id, "{}", RunLimits::default());
        (report.items.len() as u32, waits)
    };
    // The definition, the edges of the seeds, and each level with the edges of the next.
    assert_eq!([waits(1), waits(2), waits(3), waits(9)], [(2, 3), (3, 4), (4, 5), (4, 5)]);
}

#[test]
fn eight_memories_wait_as_often_as_the_longest_of_them() {
    let host = world();
    for number in 0..8 {
        let key = format!("k{number}");
        let step = format!(r#"[{{"type":"kv_get","alias":"a","instance":"ctx","namespace":"n","keys":["{key}"]}}]"#);
        define(&host, &project(), &format!("m{number}"), &step);
    }
    define(
        &host,
        &project(),
        "long",
        r#"[
        {"type":"kv_get","alias":"a","instance":"ctx","namespace":"n","keys":["k2"]},
        {"type":"kv_get","alias":"b","instance":"${a.0.value}","namespace":"n","keys":["k"]}]"#,
    );
    let request = |memories: &[&str]| {
        let memories = Value::list(memories.iter().map(|id| Value::from(*id)).collect());
        let request = Value::object([
            ("scope_variables", Value::from(Object::new())),
            ("explicit_memory", memories),
            ("rule_engine_ids", Value::list(Vec::new())),
        ]);
        AssemblyRequest::parse(&request).unwrap()
    };
    let waits = |memories: &[&str]| {
        let asker = asker(project());
        let limits = RunLimits::default();
        let context = RequestContext {
            host: &host,
            asker: &asker,
            now: NOW,
            limits,
            definition_limits: LIMITS,
            answers: &[],
            revisions: &[],
        };
        let before = host.waits.get();
        assert!(matches!(assemble_context(&context, &request(memories)), Ok(Reply { outcome: Outcome::Done(_), .. })));
        host.waits.get() - before
    };
    assert_eq!(waits(&["m1"]), 2);
    assert_eq!(waits(&["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7"]), 2);
    assert_eq!(waits(&["m0", "m1", "m2", "long", "m4", "m5", "m6", "m7"]), 3);
}

#[test]
fn no_definition_reads_what_another_owner_has() {
    let host = TestHost::new();
    let owners = [
        project(),
        owner(OwnerKind::Project, "q"),
        owner(OwnerKind::User, "p"),
        owner(OwnerKind::Tenant, "p"),
        owner(OwnerKind::User, "ann"),
    ];
    let pipeline = r#"[
        {"type":"kv_get","alias":"v","instance":"ctx","namespace":"n","keys":["k"]},
        {"type":"log_search","alias":"e","instance":"log"},
        {"type":"vector_search","alias":"d","collection":"docs","minScore":0},
        {"type":"graph_view_read","alias":"g","viewId":"all"},
        {"type":"kv_get","alias":"u","instance":"${user_id}","namespace":"values","keys":["secret"]},
        {"type":"kv_get","alias":"t","instance":"${project_id}","namespace":"n","keys":["k"]}]"#;
    for owner in &owners {
        define(&host, owner, "m", pipeline);
    }
    for has in &owners {
        put(&host, has, DataKind::Values, "ctx", "n", &[("k", "1")]);
        put(&host, has, DataKind::Values, "ann", "values", &[("secret", "1")]);
        let event = r#"{"stream_id":"s","event_type":"x","timestamp":"2026-01-01T00:00:00Z","payload":1}"#;
        put(&host, has, DataKind::Events, "log", "", &[("", event)]);
        put(&host, has, DataKind::Documents, "docs", "", &[("d", r#"{"text":"gateway"}"#)]);
        put(&host, has, DataKind::Nodes, "", "", &[("a", r#"{"kind":"x"}"#)]);
        put(&host, has, DataKind::Views, "", "", &[("all", r#"{"match":{"kind":"x"}}"#)]);
        // What another owner has put is one's own no more than before.
        for asks in &owners {
            let sees = owners.iter().position(|owner| owner == asks) <= owners.iter().position(|owner| owner == has);
            // Whoever is named there lends nothing.
            let variables = r#"{"user_id":"ann","project_id":"q"}"#;
            let (report, _) = run(&host, &asker(asks.clone()), "m", variables, RunLimits::default());
            for step in ["v", "e", "d", "g", "u"] {
                let count = report.results[step].as_list().unwrap().len();
                assert_eq!(count, usize::from(sees), "{asks:?} reads {step} once {has:?} has it");
            }
            assert_eq!(report.results["t"].to_json(), "[]");
        }
    }
}

#[test]
fn session_and_user_are_the_asking_ones_and_no_data_set_takes_their_names() {
    let host = TestHost::new();
    let write = |kind, name, key| {
        let entries = [PutEntry { key, text: r#""mine""# }];
        let operations = [Operation::put("values", &entries)];
        let bucket = keepline_store_client::BucketId { kind, name };
        let precondition = Precondition::create(None);
        host.transact(&Transaction { bucket, precondition, expectations: &[], operations: &operations }).unwrap();
    };
    write("session", "s1", "topic");
    write("session", "s2", "other");
    write("user", "ann", "name");
    define(
        &host,
        &project(),
        "m",
        r#"[
        {"type":"kv_get","alias":"s","instance":"session","namespace":"values","keys":["topic","other","__meta__","a b"]},
        {"type":"kv_get","alias":"u","instance":"user","namespace":"values","keys":["name"]},
        {"type":"kv_get","alias":"x","instance":"s2","namespace":"values","keys":["other"]},
        {"type":"log_search","alias":"l","instance":"user"}]"#,
    );
    let (report, _) = run(&host, &asker(project()), "m", "{}", RunLimits::default());
    assert_eq!(shown(&report, "s"), r#"[{"key":"topic","value":"mine"}]"#);
    assert_eq!(shown(&report, "u"), r#"[{"key":"name","value":"mine"}]"#);
    assert_eq!([shown(&report, "x"), shown(&report, "l")], ["[]", "[]"]);
    let nobody = Asker { owner: project(), session: None, user: None };
    let (report, _) = run(&host, &nobody, "m", "{}", RunLimits::default());
    assert_eq!([shown(&report, "s"), shown(&report, "u")], ["[]", "[]"]);
    for kind in [DataKind::Values, DataKind::Events, DataKind::Documents] {
        for name in ["session", "user"] {
            let collection = Collection { name: name.into(), namespace: "n".into() };
            assert_eq!(put_items(&host, &project(), kind, &collection, &[]).unwrap_err().code, "invalid");
            assert_eq!(remove_items(&host, &project(), kind, &collection, &[]).unwrap_err().code, "invalid");
        }
    }
}

#[test]
fn limits_end_a_run_with_an_error_that_names_them() {
    let host = world();
    let mut steps =
        vec![r#"{"type":"kv_get","alias":"m0","instance":"ctx","namespace":"n","keys":["k1","k2"]}"#.to_owned()];
    for number in 1..20 {
        let last = number - 1;
        steps.push(format!(r#"{{"type":"merge","alias":"m{number}","sources":["m{last}","m{last}"]}}"#));
    }
    define(&host, &project(), "doubling", &format!("[{}]", steps.join(",")));
    let failure = |id: &str, limits| run(&host, &asker(project()), id, "{}", limits).0.failure.unwrap();
    let failed = failure("doubling", RunLimits::default());
    assert!(failed.message.contains("10000") && failed.path == "retrieval.pipeline[13]", "{failed:?}");

    let reads = |count: usize| {
        let step =
            |at| format!(r#"{{"type":"kv_get","alias":"r{at}","instance":"i{at}","namespace":"n","keys":["k"]}}"#);
        format!("[{}]", (0..count).map(step).collect::<Vec<_>>().join(","))
    };
    define(&host, &project(), "calls", &reads(65));
    assert!(failure("calls", RunLimits::default()).message.contains("64"));
    define(&host, &project(), "fewer", &reads(64));
    assert!(run(&host, &asker(project()), "fewer", "{}", RunLimits::default()).0.failure.is_none());

    let label = |at: usize| format!(r#"{{"type":"annotate","alias":"a{at}","label":"${{a{}}}"}}"#, at - 1);
    let mut steps =
        vec![r#"{"type":"kv_get","alias":"a0","instance":"ctx","namespace":"n","keys":["k1","k2"]}"#.to_owned()];
    steps.extend((1..60).map(label));
    define(&host, &project(), "nesting", &format!("[{}]", steps.join(",")));
    assert!(failure("nesting", RunLimits::default()).message.contains("bytes"));

    let small = RunLimits { bytes: 8, ..RunLimits::default() };
    assert!(failure("fewer", RunLimits { reads: 3, ..RunLimits::default() }).message.contains('3'));
    define(&host, &project(), "bytes", r#"[{"type":"kv_get","instance":"ctx","namespace":"n","keys":["k1","k2"]}]"#);
    assert!(failure("bytes", small).message.contains("limit of 8"));

    // Rows without ids are added for each item: two items, and three rows twice, though five items are read.
    put(&host, &project(), DataKind::Views, "", "", &[("names", r#"{"match":{"kind":"service"},"return":["name"]}"#)]);
    define(
        &host,
        &project(),
        "rows",
        r#"[{"type":"kv_get","instance":"ctx","namespace":"n","keys":["k1","k2"]},
        {"type":"graph_view_expand","viewId":"names"}]"#,
    );
    let failed = failure("rows", RunLimits { items: 7, ..RunLimits::default() });
    let told = (&*failed.path, &*failed.message);
    assert_eq!(told, ("retrieval.pipeline[1]", "8 items are over the limit of 7 (max_items)"));
}

#[test]
fn a_run_waits_for_the_store_sixteen_times_at_most() {
    let host = world();
    let chain = |length: usize| {
        let first = r#"{"type":"kv_get","alias":"a0","instance":"ctx","namespace":"n","keys":["k2"]}"#.to_owned();
        let next = |at: usize| {
            let last = at - 1;
            format!(
                r#"{{"type":"kv_get","alias":"a{at}","instance":"x{at}${{a{last}}}","namespace":"n","keys":["k"]}}"#
            )
        };
        format!("[{}]", std::iter::once(first).chain((1..length).map(next)).collect::<Vec<_>>().join(","))
    };
    define(&host, &project(), "fits", &chain(15));
    define(&host, &project(), "over", &chain(16));
    let (report, waits) = run(&host, &asker(project()), "fits", "{}", RunLimits::default());
    assert_eq!((report.failure, waits), (None, 16));
    let (report, waits) = run(&host, &asker(project()), "over", "{}", RunLimits::default());
    assert!(report.failure.unwrap().message.contains("16") && waits == 16);
}

#[test]
fn replaced_and_removed_documents_and_nodes_are_not_found_whenever_the_store_fails() {
    let texts = ["gateway port alpha", "gateway port beta", "gateway port gamma"];
    for fails_after in 0..8 {
        let host = world();
        define(
            &host,
            &project(),
            "m",
            r#"[
            {"type":"vector_search","alias":"d","collection":"again","minScore":0},
            {"type":"graph_view_read","alias":"g","viewId":"services"}]"#,
        );
        let document = |text: &str| DataItem { id: "one".into(), value: Value::object([("text", text.into())]) };
        let node = |name: &str| DataItem {
            id: "a".into(),
            value: Value::object([("kind", "service".into()), ("name", name.into())]),
        };
        let collection = Collection { name: "again".into(), namespace: String::new() };
        let put = |text: &str| {
            put_items(&host, &project(), DataKind::Documents, &collection, &[document(text)])
                .and_then(|_| put_items(&host, &project(), DataKind::Nodes, &Collection::default(), &[node(text)]))
        };
        put(texts[0]).unwrap();
        host.fails_from.set(host.waits.get() + fails_after);
        let _ = put(texts[1]);
        host.fails_from.set(u32::MAX);
        let (report, _) = run(&host, &asker(project()), "m", "{}", RunLimits::default());
        let documents = report.results["d"].as_list().unwrap();
        assert_eq!(documents.len(), 1, "after {fails_after}: {documents:?}");
        assert_eq!(report.results["g"].as_list().unwrap().len(), 3, "after {fails_after}");
        // Whoever writes next makes up for what was left.
        put(texts[2]).unwrap();
        let (report, _) = run(&host, &asker(project()), "m", "{}", RunLimits::default());
        assert!(shown(&report, "d").contains("gamma") && report.results["d"].as_list().unwrap().len() == 1);
        let page = list_items(&host, &project(), DataKind::Documents, &collection, "", 10).unwrap();
        assert_eq!((page.items.len(), page.cursor.as_str()), (1, ""));
        let ids: [Rc<str>; 2] = ["one".into(), "none".into()];
        let removed = remove_items(&host, &project(), DataKind::Documents, &collection, &ids).unwrap();
        assert_eq!(removed.changed, 1);
        let (report, _) = run(&host, &asker(project()), "m", "{}", RunLimits::default());
        assert_eq!(shown(&report, "d"), "[]");
    }
}

#[test]
fn events_stay_in_the_order_of_time() {
    let host = TestHost::new();
    let log = Collection { name: "log".into(), namespace: String::new() };
    let event = |at: &str, number: u64| DataItem {
        id: "".into(),
        value: Value::object([
            ("event_type", Value::from("x")),
            ("timestamp", Value::from(format!("2026-01-0{at}T00:00:00Z"))),
            ("payload", Value::from(number)),
        ]),
    };
    let put = |items: &[DataItem]| put_items(&host, &project(), DataKind::Events, &log, items);
    put(&[event("3", 3), event("1", 1), event("2", 2)]).unwrap();
    let refused = put(&[event("4", 4), event("2", 9)]).unwrap_err();
    assert!(refused.code == "invalid" && refused.message.contains("2026-01-02"), "{refused:?}");
    put(&[event("3", 4)]).unwrap();
    let page = list_items(&host, &project(), DataKind::Events, &log, "", 3).unwrap();
    let numbers = |items: &[DataItem]| {
        items.iter().map(|item| item.value.member("payload").unwrap().to_json()).collect::<String>()
    };
    assert_eq!((numbers(&page.items), page.cursor.as_str()), ("432".into(), "1"));
    let page = list_items(&host, &project(), DataKind::Events, &log, &page.cursor, 3).unwrap();
    assert_eq!((numbers(&page.items), page.cursor.as_str()), ("1".into(), ""));
}

#[test]
fn an_event_with_an_id_is_appended_once() {
    let host = TestHost::new();
    let log = Collection { name: "log".into(), namespace: String::new() };
    let event = |day: u64, id: &str| {
        let at = format!("2026-01-0{day}T00:00:00Z");
        let value =
            Value::object([("event_type", Value::from("x")), ("timestamp", at.into()), ("payload", day.into())]);
        DataItem { id: id.into(), value }
    };
    let put = |items: &[DataItem]| put_items(&host, &project(), DataKind::Events, &log, items).unwrap().added;
    let first = [event(1, "a"), event(2, ""), event(2, "b"), event(3, "a")];
    // Of those with the same id, the earliest.
    assert_eq!(put(&first), 3);
    assert_eq!(put(&[event(3, "c")]), 1);
    // Sent again, what has an id is left out, however old it is by now, and the rest is new.
    assert_eq!(put(&[event(1, "a"), event(2, "b"), event(3, "c")]), 0);
    assert_eq!(put(&[event(1, "a"), event(3, "d"), event(3, "")]), 2);
    let long = "x".repeat(1_000);
    assert_eq!((put(&[event(4, &long)]), put(&[event(4, &long)])), (1, 0));
    let page = list_items(&host, &project(), DataKind::Events, &log, "", 100).unwrap();
    let days: String = page.items.iter().map(|item| item.value.member("payload").unwrap().to_json()).collect();
    assert_eq!(days, "4333221");
    // Another log has its own.
    let other = Collection { name: "other".into(), namespace: String::new() };
    assert_eq!(put_items(&host, &project(), DataKind::Events, &other, &[event(1, "a")]).unwrap().added, 1);
}

#[test]
fn an_item_that_is_wrong_is_named_and_none_is_written() {
    let host = TestHost::new();
    let docs = Collection { name: "docs".into(), namespace: String::new() };
    let item = |id: &str, json: &str| DataItem { id: id.into(), value: Value::parse(json).unwrap() };
    for (kind, wrong, path) in [
        (DataKind::Documents, item("b", r#"{"text":7}"#), "items[1].text"),
        (DataKind::Documents, item("", r#"{"text":"x"}"#), "items[1].id"),
        (DataKind::Documents, item("b", r#"{"text":"x","vector":[1]}"#), "items[1].vector"),
        (DataKind::Documents, item("b", "[]"), "items[1]"),
    ] {
        let refused = put_items(&host, &project(), kind, &docs, &[item("a", r#"{"text":"x"}"#), wrong]).unwrap_err();
        assert_eq!(refused.subject, path);
    }
    let page = list_items(&host, &project(), DataKind::Documents, &docs, "", 10).unwrap();
    assert!(page.items.is_empty());
}

#[test]
fn the_store_s_failure_is_no_part_of_a_reply() {
    let host = world();
    define(&host, &project(), "m", r#"[{"type":"kv_get","instance":"ctx","namespace":"n","keys":["k1"]}]"#);
    for working in 0..2 {
        host.fails_from.set(host.waits.get() + working);
        let asker = asker(project());
        let context = RequestContext {
            host: &host,
            asker: &asker,
            now: NOW,
            limits: RunLimits::default(),
            definition_limits: LIMITS,
            answers: &[],
            revisions: &[],
        };
        let request = RunRequest { now: NOW, ..RunRequest::default() };
        let error = execute_memory(&context, "m", &request).unwrap_err();
        assert!(matches!(error, RequestError::Store(problem) if problem.code == "unavailable"));
    }
}

#[test]
fn items_that_are_too_much_for_one_call_are_written_in_several() {
    let (host, owner) = (TestHost::new(), project());
    let large = |number: usize| {
        let node = format!(r#"{{"kind":"k","name":"{}"}}"#, "x".repeat(700_000));
        DataItem { id: format!("n{number}").into(), value: Value::parse(&node).unwrap() }
    };
    let nodes: Vec<_> = (0..40).map(large).collect();
    let put = || put_items(&host, &owner, DataKind::Nodes, &Collection::default(), &nodes);
    assert_eq!(put().unwrap().added, 40);
    // What is replaced is too much for one call as well.
    assert_eq!(put().unwrap().changed, 40);
    let ids: Vec<_> = nodes.iter().map(|node| Rc::clone(&node.id)).collect();
    let removed = remove_items(&host, &owner, DataKind::Nodes, &Collection::default(), &ids).unwrap();
    assert_eq!(removed.changed, 40);
}

#[test]
fn what_few_have_is_found_among_what_many_have_however_old_it_is() {
    let (host, owner) = (TestHost::new(), project());
    let collection = |name: &str| Collection { name: name.into(), ..Collection::default() };
    let document = |number: usize| {
        let text = if number == 3 { "the gateway port is quartz" } else { "the gateway port" };
        let value = Value::object([("text", Value::from(text))]);
        DataItem { id: format!("d{number}").into(), value }
    };
    let documents: Vec<_> = (0..8_000).map(document).collect();
    put_items(&host, &owner, DataKind::Documents, &collection("notes"), &documents).unwrap();
    let event = |number: usize| {
        let kind = if number < 5 { "rare" } else { "common" };
        let at = format!("2026-01-01T{:02}:{:02}:{:02}Z", number / 3600, number / 60 % 60, number % 60);
        let value = Value::object([("timestamp", Value::from(&*at)), ("event_type", Value::from(kind))]);
        DataItem { id: "".into(), value }
    };
    let events: Vec<_> = (0..8_000).map(event).collect();
    put_items(&host, &owner, DataKind::Events, &collection("log"), &events).unwrap();
    let search =
        r#"[{"type":"vector_search","alias":"v","collection":"notes","query":"QUERY","topK":1,"minScore":0.1}]"#;
    define(&host, &owner, "rare", &search.replace("QUERY", "gateway port quartz"));
    define(&host, &owner, "common", &search.replace("QUERY", "gateway port"));
    let log = r#"[{"type":"log_search","alias":"l","instance":"log","eventTypes":TYPES,"limit":20}]"#;
    define(&host, &owner, "log-rare", &log.replace("TYPES", r#"["rare"]"#));
    define(&host, &owner, "log-common", &log.replace("TYPES", r#"["common"]"#));
    let run = |id: &str| run(&host, &asker(owner.clone()), id, "{}", RunLimits::default());
    let (found, waits) = run("rare");
    assert!(
        shown(&found, "v").contains("\"d3\"") && shown(&found, "v").contains("\"score\":1"),
        "{}",
        shown(&found, "v")
    );
    // The definition, the newest hits, those of the rare word, and the documents.
    assert_eq!((found.warnings.len(), waits), (0, 4));
    let (found, waits) = run("common");
    assert_eq!((found.items.len(), found.warnings.len(), waits), (1, 0, 3));
    let (found, _) = run("log-rare");
    assert_eq!(found.items.len(), 5);
    let (found, waits) = run("log-common");
    assert_eq!((found.items.len(), waits), (20, 3));
}

#[test]
fn a_search_warns_where_an_older_document_may_be_better() {
    let (host, owner) = (TestHost::new(), project());
    let notes = Collection { name: "notes".into(), ..Collection::default() };
    // One old document has both words, each of which is common.
    let document = |number: usize| {
        let text = if number == 0 { "alpha beta" } else { ["alpha", "beta"][number % 2] };
        DataItem { id: format!("d{number}").into(), value: Value::object([("text", Value::from(text))]) }
    };
    let documents: Vec<_> = (0..4_000).map(document).collect();
    put_items(&host, &owner, DataKind::Documents, &notes, &documents).unwrap();
    let define_search = |id: &str, query: &str| {
        let search = r#"[{"type":"vector_search","collection":"notes","query":"QUERY","topK":3,"minScore":0.1}]"#;
        define(&host, &owner, id, &search.replace("QUERY", query));
    };
    define_search("both", "alpha beta");
    define_search("one", "alpha");
    let run = |id: &str| run(&host, &asker(owner.clone()), id, "{}", RunLimits::default()).0;
    let messages = |id: &str| run(id).warnings.iter().map(|warning| warning.message.to_string()).collect::<Vec<_>>();
    assert_eq!(run("both").items.len(), 3);
    assert_eq!(messages("both").len(), 1, "{:?}", messages("both"));
    assert!(messages("both").concat().contains("newest"), "{:?}", messages("both"));
    assert_eq!(messages("one"), Vec::<String>::new());
}
