//! Exported sessions can be imported again, whole and unchanged.

use std::{
    io::{BufRead, BufReader, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use keepline_stores_tests::random::rounds;

use super::*;

#[test]
fn a_session_is_the_same_in_whichever_store_it_arrives() {
    let server = RedisServer::start().unwrap();
    let (first, second, third, last) =
        (Place::directory(), Place::redis(&server), Place::directory(), Place::redis(&server));
    first.fill("anna");
    let exported = first.export(&["anna"]);
    let mut before = exported.clone();
    for place in [&second, &third, &last] {
        assert_eq!(place.import(&before, &[]).ok().text(), "1 session imported (14 messages)\n");
        before = place.export(&["--all"]);
        assert_eq!(before, exported);
    }
    // It is the conversation that it was.
    for place in [&second, &third] {
        assert_eq!(place.said("anna", &[]), first.said("anna", &[]));
        let whole =
            |place: &Place| place.run(&["session", "text", "anna", "2", "--limit", "200000"], b"").ok().text().len();
        assert_eq!(whole(place), whole(&first));
        assert_eq!(place.said("anna", &["--node", "n1", "--app", "a1"]), ["user: Node?", "assistant: Well."]);
        let shown = place.run(&["session", "describe", "anna", "--json"], b"").ok().json();
        assert_eq!((&shown["title"], shown["owner"].is_string()), (&json!("My parcel"), true));
        // Its owner has it, and can be forgotten with it.
        let owned = place.run(&["user", "sessions", "ben@x", "--json"], b"").ok().json();
        assert_eq!(owned["sessions"][0]["session"], "anna", "{owned}");
        let gone = place.run(&["user", "forget", "ben@x", "--yes", "--json"], b"").ok().json();
        assert_eq!((&gone["sessions"], &gone["remaining"]), (&json!(1), &json!(0)), "{gone}");
        assert_eq!(place.export(&["--all"]), "");
    }
}

#[test]
fn an_export_states_its_format() {
    let place = Place::directory();
    place.fill("anna");
    let all = lines(&place.export(&["anna"]));
    let header = &all[0];
    assert_eq!((&header["keepline"], &header["session"]), (&json!(1), &json!("anna")));
    assert_eq!(header["conversation"]["title"], "My parcel");
    assert!(header["expires_at"].as_u64().is_some() && header["conversation"]["owner"].is_string());
    let key = |key: &str| all.iter().find(|line| line["key"] == key && line.get("map").is_none()).unwrap();
    assert_eq!((&key("nul")["value"], &key("lines")["text"]), (&Value::Null, &json!("[1,\n2]")));
    let text = place.export(&["anna"]);
    assert!(text.contains("{\"key\":\"nested\",\"value\":{\"a\": 1,\"a\":2.50}}\n"), "members stay as they are");
    let transcript = all.iter().filter(|line| line["log"] == "transcript" && line["record"]["role"] == "user");
    assert_eq!(transcript.count(), 6);
    let whole = all.iter().find(|line| line["map"] == "results").unwrap();
    assert_eq!(whole["text"].as_str().unwrap().chars().count(), 60_000);
    let nodes: Vec<&Value> = all.iter().filter_map(|line| line.get("node")).collect();
    assert!(nodes.iter().any(|node| node["app_id"] == "a1" && node["node_id"] == "n1") && nodes.len() == 2);
    let end = all.last().unwrap();
    let records = all.iter().filter(|line| line.get("log").is_some()).count();
    let ends: u64 = all.iter().filter_map(|line| line["records"].as_u64()).sum();
    assert_eq!((&end["end"], ends), (&json!("anna"), records as u64));
}

#[test]
fn sessions_are_chosen_by_name_by_user_or_all() {
    let place = Place::directory();
    for (session, user) in [("a", "ben"), ("b", "ben"), ("c", "carl")] {
        place.run(&["session", "append", session, "--question", "?", "--answer", "!", "--user", user], b"").ok();
    }
    let names = |arguments: &[&str]| -> Vec<String> {
        let headers = lines(&place.export(arguments)).into_iter().filter(|line| line.get("keepline").is_some());
        headers.map(|line| line["session"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&["--all"]), ["a", "b", "c"]);
    assert_eq!(names(&["--user", "ben"]), ["a", "b"]);
    assert_eq!(names(&["c", "a"]), ["c", "a"]);
    let missing = place.run(&["session", "export", "a", "who", "x y"], b"");
    assert_eq!((missing.code, lines(missing.text()).last().unwrap()["end"].as_str()), (1, Some("a")));
    assert!(
        missing.err.contains("session who: there is no such session") && missing.err.contains("session x y"),
        "{missing:?}"
    );
    assert_eq!(place.run(&["session", "export"], b"").code, 2);
    // A file appears when it is complete, and not at all otherwise.
    let file = place._directory.path().join("all.jsonl");
    let ran = place.run(&["session", "export", "--all", "--output", file.to_str().unwrap()], b"").ok();
    assert!(ran.text().ends_with("all.jsonl: 3 sessions, 12 records\n"), "{ran:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), place.export(&["--all"]));
    let nowhere = place.run(&["session", "export", "--all", "--output", "/nowhere/x"], b"");
    assert!(nowhere.code == 1 && nowhere.err.contains("can't write to /nowhere"), "{nowhere:?}");
    let memory = call(&["session", "export", "--all"], b"");
    assert!(memory.code == 2 && memory.err.contains("--dir PATH"), "{memory:?}");
}

#[test]
fn existing_sessions_are_left_alone_without_replace() {
    for place in [Place::directory(), Place::redis(&RedisServer::start().unwrap())] {
        let from = Place::directory();
        from.fill("anna");
        let exported = from.export(&["anna"]);
        place.import(&exported, &[]).ok();
        let again = place.told(&exported, &[]);
        assert_eq!((&again["imported"], &again["already_there"]), (&json!(0), &json!(1)));
        place.run(&["session", "append", "anna", "--answer", "Later.", "--node", "n3"], b"").ok();
        let now = place.export(&["anna"]);
        let refused = place.import(&exported, &[]);
        assert_eq!((refused.code, place.export(&["anna"])), (1, now));
        assert!(refused.err.contains("session anna: there is one with other contents; use --replace"), "{refused:?}");
        place.import(&exported, &["--replace"]).ok();
        assert_eq!(place.export(&["anna"]), exported);
        // The node that the new one does not have is gone with the old one.
        assert_ne!(place.run(&["session", "describe", "anna", "--node", "n3"], b"").code, 0);
    }
}

#[test]
fn a_dry_run_changes_nothing() {
    let from = Place::directory();
    from.fill("anna");
    from.run(&["session", "create", "empty"], b"").ok();
    let exported = from.export(&["--all"]);
    let place = Place::directory();
    let ran = place.import(&exported, &["--dry-run"]).ok();
    let shown = "anna\t14\t2\timport\nempty\t0\t0\timport\n2 sessions would be imported (14 messages)\n";
    assert_eq!(ran.text(), shown);
    assert!(!Path::new(&place.arguments[3]).exists());
    place.import(&exported, &[]).ok();
    let told = place.told(&exported, &["--dry-run"]);
    assert_eq!(told["dry_run"], true);
    assert!(told["sessions"].as_array().unwrap().iter().all(|row| row["outcome"] == "already there"), "{told}");
}

#[test]
fn a_killed_import_leaves_whole_sessions_and_can_be_repeated() {
    let from = Place::directory();
    let mut input = String::new();
    for number in 0..300 {
        input.push_str(&question(&format!("s{}", number % 30), &"long question ".repeat(500)));
        input.push_str(&answer("An answer."));
    }
    from.run(&["run"], input.as_bytes()).ok();
    let exported = from.export(&["--all"]);
    let file = from._directory.path().join("all.jsonl");
    fs::write(&file, &exported).unwrap();
    for place in [Place::directory(), Place::redis(&RedisServer::start().unwrap())] {
        let mut kills = 0;
        loop {
            let command = place.command(&["session", "import", file.to_str().unwrap()]);
            let mut child = keepline(command).spawn().unwrap();
            // Killed as soon as some of them are there, until it has come to its end.
            let there = || place.run(&["session", "list", "--all", "--json"], b"");
            let before = there();
            let count =
                |ran: &Ran| if ran.code == 0 { ran.json()["sessions"].as_array().map_or(0, Vec::len) } else { 0 };
            let goal = count(&before) + 5;
            while count(&there()) < goal && child.try_wait().unwrap().is_none() {}
            if let Some(status) = child.try_wait().unwrap() {
                assert!(status.success());
                break;
            }
            signal(&child, "-KILL");
            child.wait().unwrap();
            kills += 1;
            // Each that is there is as it was.
            let whole = place.export(&["--all"]);
            assert!(whole.split_inclusive("\"entries\":").count() > 1 && is_part_of(&whole, &exported));
        }
        assert_eq!(place.export(&["--all"]), exported, "after {kills} kills");
    }
}

/// Whether all sessions of an export are in another one, as they are.
fn is_part_of(some: &str, all: &str) -> bool {
    let sessions = |text: &str| -> Vec<String> { text.split("{\"keepline\"").skip(1).map(str::to_owned).collect() };
    let all = sessions(all);
    sessions(some).iter().all(|session| all.contains(session))
}

#[test]
fn a_session_that_keeps_changing_is_left_out() {
    let server = RedisServer::start().unwrap();
    let place = Place::redis(&server);
    let mut input = String::new();
    for _ in 0..200 {
        input.push_str(&question("s", &"x".repeat(5000)));
        input.push_str(&answer(&"y".repeat(5000)));
    }
    place.run(&["run"], input.as_bytes()).ok();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let command = place.command(&["run"]);
            let mut child = keepline(command).spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            let mut passed = BufReader::new(child.stdout.take().unwrap()).lines();
            while !stop.load(Ordering::Relaxed) {
                let pair = question("s", "?") + &answer("!");
                stdin.write_all(pair.as_bytes()).unwrap();
                // One pair at a time: what waits in a pipe would still be written after the export.
                assert!(passed.by_ref().take(2).all(|line| line.is_ok()));
            }
            drop(stdin);
            child.wait().unwrap();
        });
        let ran = place.run(&["session", "export", "s"], b"");
        stop.store(true, Ordering::Relaxed);
        // Either it was quick enough to see one moment, or it says so.
        if ran.code == 0 {
            assert_eq!(lines(ran.text()).last().unwrap()["end"], "s");
        } else {
            assert_eq!((ran.code, ran.text()), (1, ""));
            assert!(ran.err.contains("session s: it kept changing while it was being read; stop"), "{}", ran.err);
        }
    });
    assert_eq!(Place::import(&Place::directory(), &place.export(&["s"]), &[]).code, 0);
}

/// Figures are printed: `--nocapture` shows them. `make test-long` takes ten times as many.
#[test]
fn tens_of_thousands_of_messages_are_exported_and_imported() {
    let from = Place::directory();
    let count = rounds(20_000_u32);
    let messages = (0..count).map(|number| {
        let kind = if number.is_multiple_of(2) { "human" } else { "ai" };
        json!({"type": kind, "data": {"content": format!("message {number}")}}).to_string()
    });
    let newest_first: Vec<String> = messages.rev().collect();
    let dump = json!({"key": "message_store:large", "value": newest_first}).to_string();
    let timed = |what: &str, done: &mut dyn FnMut()| {
        let start = std::time::Instant::now();
        done();
        println!("{what}: {:.1} s", start.elapsed().as_secs_f64());
    };
    timed("import of LangChain's", &mut || {
        assert_eq!(from.told(&dump, &[])["messages"], count);
    });
    let (mut exported, place) = (String::new(), Place::directory());
    timed("export", &mut || exported = from.export(&["large"]));
    println!("{} bytes", exported.len());
    timed("import", &mut || _ = place.import(&exported, &[]).ok());
    assert!(place.export(&["large"]) == exported);
    let newest = place.run(&["session", "messages", "large", "--limit", "1", "--json"], b"").ok().json();
    assert_eq!(
        (&newest["messages"][0]["position"], &newest["messages"][0]["message"]["content"]),
        (&json!(count - 1), &json!(format!("message {}", count - 1)))
    );
}

#[test]
fn a_deleted_and_reimported_session_is_recalled_again() {
    let place = Place::directory();
    let recall = "--set=recall=user";
    let entries = format!(
        "{}\n{}\n",
        json!({"lane": "questions", "text": "My dog is called Bruno.", "metadata": {"session_id": "a", "user_id": "anna"}}),
        json!({"lane": "answers", "text": "A nice name."})
    );
    place.run(&["run", recall], entries.as_bytes()).ok();
    let exported = place.export(&["a", recall]);
    place.run(&["session", "delete", "a", recall], b"").ok();
    let ask = ["recall", "What is my dog called?", "--user", "anna", recall];
    assert_eq!(place.run(&ask, b"").ok().text(), "");
    place.import(&exported, &[recall]).ok();
    let made = place.run(&["recall", "rebuild", "a", recall], b"").ok();
    assert_eq!(made.text(), "1 session, 0 nodes\n");
    assert!(place.run(&ask, b"").ok().text().contains("Bruno"));
}
