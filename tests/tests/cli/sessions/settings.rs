//! Settings of one session, and lines of one message.

use serde_json::{Value, json};

use crate::{answer, call, question, run::coprocess::Running, servers, sessions::transcripts::Place};

fn settings(window: Option<u64>, reserve: Option<u64>, budget: Option<u64>, model: Option<&str>) -> Value {
    json!({"max_context_tokens": budget, "context_window": window, "reserve_tokens": reserve, "model": model})
}

#[test]
fn a_session_can_have_its_own_window_and_model() {
    let place = Place::new();
    for number in 0..40 {
        place.append("a", &format!("Where is parcel {number}?"), "It left Hamburg an hour ago.", &[]);
    }
    let set = |more: &[&str]| place.told(&[&["session", "settings", "a"], more].concat())["settings"].clone();
    assert_eq!(set(&[]), settings(None, None, None, None));
    assert_eq!(set(&["--window", "8000", "--reserve", "7500"]), settings(Some(8000), Some(7500), None, None));
    let asked = || place.told(&["explain", "a"])["budget"].clone();
    assert_eq!(asked(), 400, "four fifths of what the reserve leaves");
    assert_eq!(
        set(&["--budget", "300", "--model", "gpt-4o"]),
        settings(Some(8000), Some(7500), Some(300), Some("gpt-4o"))
    );
    assert_eq!(asked(), 300);
    assert_eq!(place.told(&["session", "window", "a"])["memory_model"], "gpt-4o");
    let shown = place.ran(&["session", "describe", "a"]).ok();
    assert!(shown.text().contains("\nmax_context_tokens") && shown.text().contains("gpt-4o"), "{shown:?}");
    assert_eq!(place.told(&["session", "show", "a"])["settings"]["model"], "gpt-4o");

    // They move with the session.
    let file = [&place.path, ".jsonl"].concat();
    place.ran(&["session", "export", "a", "--output", &file]).ok();
    let other = Place::new();
    other.ran(&["session", "import", &file]).ok();
    assert_eq!(other.told(&["session", "settings", "a"])["settings"], set(&[]));

    for (arguments, told) in [
        (["--window", "255"], "context_window must be an integer from 256 to 8000000"),
        (["--reserve", "0"], "reserve_tokens must be an integer from 1 to 8000000"),
        (["--budget", "2000001"], "max_context_tokens must be an integer from 64 to 2000000"),
        (["--model", ""], "model must be a text of 1 to 128 bytes"),
    ] {
        let ran = place.ran(&[&["session", "settings", "a"][..], &arguments].concat());
        assert!(ran.code == 1 && ran.err.contains(told), "{ran:?}");
    }
    assert_eq!(set(&["--clear", "--budget", "500"]), settings(None, None, Some(500), None));
    assert_eq!(set(&["--clear"]), settings(None, None, None, None));
    assert_eq!(place.ran(&["session", "settings", "b"]).code, 1);
}

#[test]
fn tokens_are_counted_for_the_model_of_the_session() {
    let place = Place::new();
    place.append("a", "?", "!", &[]);
    let input = question("a", "Привет, как дела?") + &answer("goodbye, world");
    let counted = |model: &str| {
        place.ran(&["session", "settings", "a", "--model", model]).ok();
        let arguments = ["run", "--profile", "chat", "--dir", &place.path, "--set=token_counter=cl100k_base"];
        call(&arguments, input.as_bytes()).ok();
        let page = place.told(&["session", "messages", "a", "--limit", "2"]);
        let tokens = page["messages"].as_array().unwrap().iter().map(|message| message["message"]["tokens"].clone());
        tokens.collect::<Vec<_>>()
    };
    // One that nobody knows has the configured vocabulary.
    for (model, tokens) in [("mine", [8, 4]), ("gpt-4", [8, 4]), ("gpt-4o", [6, 4]), ("openai/gpt-4o-mini", [6, 4])] {
        assert_eq!(counted(model), tokens, "{model}");
    }
}

#[test]
fn lines_of_a_truncated_result_are_found() {
    let place = Place::new();
    let hay = |from: u64| (from..from + 3000).map(|number| format!("line {number}\n")).collect::<String>();
    let output = [&hay(1), "the Needle, found\n", &hay(3002), "another needle\nend"].concat();
    let tool = json!({"lane": "tools", "tool": {"call_id": "c", "name": "read", "arguments": {}, "output": output}});
    let input = [question("a", "?"), format!("{tool}\n"), answer("!")].concat();
    call(&["run", "--profile", "chat", "--dir", &place.path], input.as_bytes()).ok();
    assert_eq!(place.told(&["session", "messages", "a", "--search", "needle, found"])["messages"], json!([]));

    let found = |more: &[&str]| place.ran(&[&["session", "grep", "a", "2"], more].concat()).ok();
    assert_eq!(found(&["needle"]).text(), "6002:another needle\n");
    assert_eq!(found(&["nowhere"]).text(), "");
    let either = ["NEEDLE", "--ignore-case", "--context", "1", "--limit", "1"];
    let first = found(&either);
    assert_eq!(first.text(), "3000-line 3000\n3001:the Needle, found\n3002-line 3002\n");
    assert!(first.err.contains("--from 6001"), "{first:?}");
    assert_eq!(
        found(&[&either[..], &["--from", "6001"]].concat()).text(),
        "6001-line 6001\n6002:another needle\n6003-end\n"
    );
    assert_eq!(found(&["line", "--limit", "0"]).text().lines().count(), 6000);
    let told = place.told(&["session", "grep", "a", "2", "needle"]);
    let offset = output.find("another").unwrap();
    let line = json!({"number": 6002, "is_match": true, "text": "another needle", "offset": offset, "is_cut": false});
    assert_eq!((&told["lines"], &told["next"]), (&json!([line]), &Value::Null));
    let absent = place.ran(&["session", "grep", "a", "9", "needle"]);
    assert!(absent.code == 1 && absent.err.contains("no message at position 9"), "{absent:?}");
}

#[test]
fn commands_that_read_need_no_flags_and_a_run_with_other_settings_is_warned() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("memory").to_str().unwrap().to_owned();
    let redis = servers::start();
    let url = format!("redis_url={}", servers::url(&redis));
    for store in [&["--dir", &path][..], &["--profile", "redis", "--set", &url]] {
        let with = |arguments: &[&str]| -> Vec<String> {
            [arguments, store].concat().into_iter().map(str::to_owned).collect()
        };
        let call =
            |arguments: &[String], input: &[u8]| call(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), input);
        let said = question("a", "Where is my dog?") + &answer("Bruno is in the garden.");
        let chat = ["--set=conversation=true"];
        let ran = call(&with(&[&["run"][..], &chat].concat()), said.as_bytes()).ok();
        assert_eq!(ran.err, "", "there was nothing yet that it could differ from");
        // What the store shows is enough to read it.
        for command in
            ["session messages a", "session describe a", "session window a", "explain a", "session grep a 1 garden"]
        {
            let ran = call(&with(&command.split(' ').collect::<Vec<_>>()), b"").ok();
            assert!(
                ran.text().contains("garden") || ["session describe a", "explain a"].contains(&command),
                "{command}: {ran:?}"
            );
        }
        let nothing = call(&with(&["recall", "a", "zeppelin", "--set=recall=session"]), b"").ok();
        assert!(nothing.err.contains("has no index yet"), "{nothing:?}");
        // It is warned before the first entry.
        let run = |arguments: &[&str]| {
            let arguments = with(&[&["run"][..], arguments].concat());
            let mut running = Running::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
            running.send(&question("a", "?"));
            running.line();
            let told = running.error_line();
            drop(running.child.stdin.take());
            assert_eq!(running.end(), Some(0));
            told
        };
        assert!(run(&[]).contains("add --profile chat or --set conversation=true"));
        assert!(run(&["--set=conversation=true", "--set=recall=session"]).contains("keepline recall rebuild --all"));
        call(&with(&["recall", "rebuild", "--all", "--set=recall=session"]), b"").ok();
        // It needs no flag any more. All that there is is in the window already.
        let found = call(&with(&["recall", "a", "dog"]), b"").ok();
        assert!(!found.err.contains("has no index yet"), "{found:?}");
        assert!(run(&chat).contains("add --set recall=session"));
        // What is chosen holds, whatever the store shows.
        let off = call(&with(&["session", "window", "a", "--set=conversation=false"]), b"");
        assert!(off.code == 2 && off.err.contains("conversations are off"), "{off:?}");
    }
}
