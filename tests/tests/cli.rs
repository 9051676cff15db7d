//! The command line, as a shell uses it: exit codes, output, signals, completions.

use std::{
    collections::BTreeMap,
    env,
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use keepline::local_redis::RedisServer;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The binary of this build. Cargo tells its place only to tests of the binary's own package; it is built
/// here, in the profile and the directory of this test, once a process.
fn binary() -> &'static Path {
    // None: it could not be built, and is not tried again for each test.
    static BINARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = BINARY.get_or_init(|| {
        let test = env::current_exe().unwrap();
        // target/<profile>/deps/cli-<hash>
        let profile = test.parent().and_then(Path::parent).unwrap();
        let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--quiet", "--package", "keepline", "--bin", "keepline", "--target-dir"]);
        build.arg(profile.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
        let name = profile.file_name().unwrap().to_str().unwrap();
        build.args(["--profile", if name == "debug" { "dev" } else { name }]);
        build.status().unwrap().success().then(|| profile.join("keepline"))
    });
    built.as_deref().expect("keepline could not be built")
}

/// A `keepline` that sees nothing of this process's configuration.
fn keepline<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(binary());
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KEEPLINE_")) {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[derive(Debug)]
struct Ran {
    code: i32,
    out: Vec<u8>,
    err: String,
}

impl Ran {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }
}

fn finish(mut child: Child, input: &[u8]) -> Ran {
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A child may end without reading all.
    let writer = thread::spawn(move || _ = stdin.write_all(&input));
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Ran { code: status.code().unwrap_or(-1), out: stdout, err: String::from_utf8(stderr).unwrap() }
}

fn call(arguments: &[&str], input: &[u8]) -> Ran {
    finish(keepline(arguments.iter().copied()).spawn().unwrap(), input)
}

fn call_with(environment: &[(&str, &str)], arguments: &[&str]) -> Ran {
    finish(keepline(arguments.iter().copied()).envs(environment.iter().copied()).spawn().unwrap(), b"")
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

fn question(session: &str, text: &str) -> String {
    format!("{}\n", json!({"lane": "questions", "text": text, "metadata": {"session_id": session}}))
}

fn answer(text: &str) -> String {
    format!("{}\n", json!({"lane": "answers", "text": text, "metadata": {}}))
}

fn context(line: &str) -> Value {
    serde_json::from_str::<Value>(line).unwrap()["metadata"]["memory_context"].clone()
}

/// A port on which nobody answers.
fn dead_url() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("redis://127.0.0.1:{}", listener.local_addr().unwrap().port())
}

mod exit_codes {
    use super::*;

    #[test]
    fn zero_when_all_went_well() {
        assert_eq!(call(&["run"], (question("a", "x") + &answer("y")).as_bytes()).code, 0);
        assert_eq!(call(&["run"], b"").code, 0);
        assert_eq!(call(&["--version"], b"").code, 0);
    }

    #[test]
    fn one_when_a_line_is_no_entry_or_a_command_failed() {
        assert_eq!(call(&["run"], b"nonsense\n").code, 1);
        assert_eq!(call(&["session", "show", "nobody"], b"").code, 1);
    }

    #[test]
    fn two_when_the_command_line_or_the_configuration_is_wrong() {
        for arguments in [
            &["frobnicate"][..],
            &["run", "--pipes", "0"],
            &["run", "--pipes", "9999"],
            &["run", "--set", "novalue"],
            &["run", "--set", "backend=x"],
            &["run", "--set", "max_history=-1"],
            &["run", "--set", "no_such_field=1"],
            &["run", "--set", "backend=redis", "--set", "key_prefix=a b"],
            &["run", "--profile", "prod"],
            &["run", "--profile", "custom"],
            &["run", "--config", "/does/not/exist.json"],
            &["run", "/does/not/exist.jsonl"],
            &["run", "/"],
            &["session", "put", "a", "k", "not json"],
            &["session", "clear", "a"],
        ] {
            let ran = call(arguments, b"");
            assert_eq!(ran.code, 2, "{arguments:?}: {ran:?}");
            assert!(ran.err.contains("error: ") && ran.out.is_empty(), "{arguments:?}: {ran:?}");
        }
    }

    #[test]
    fn three_when_the_plugin_can_not_be_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let text = directory.path().join("text.wasm");
        fs::write(&text, "not a component").unwrap();
        for file in [text.to_str().unwrap(), "/does/not/exist.wasm"] {
            for command in [&["run"][..], &["config"], &["session", "list"], &["inspect"]] {
                let ran = call(&[command, &["--plugin", file]].concat(), b"");
                assert_eq!(ran.code, 3, "{command:?} {file}: {ran:?}");
                assert!(ran.err.contains(file), "{ran:?}");
            }
        }
    }
}

mod lines {
    use super::*;

    #[test]
    fn come_out_one_for_one_in_order_with_the_memory_in_the_questions() {
        let input =
            [question("anna", "1"), answer("first"), question("anna", "2"), answer("second"), question("anna", "3")];
        let ran = call(&["run"], input.concat().as_bytes()).ok();
        let lines: Vec<&str> = ran.text().lines().collect();
        assert_eq!(lines.len(), 5);
        assert_eq!([lines[0], lines[1], lines[3]], [input[0].trim(), input[1].trim(), input[3].trim()]);
        assert_eq!(context(lines[2]), json!({"last_answer": "first", "answer_count": 1}));
        assert_eq!(context(lines[4]), json!({"last_answer": "second", "answer_count": 2}));
        assert_eq!(ran.err, "");
    }

    #[test]
    fn pass_byte_for_byte_but_for_the_memory() {
        let input = concat!(
            "{\"lane\":\"answers\",\"text\":\"é\\u00e9\",\"metadata\":{\"session_id\":\"s\"},\"n\":1.50e+3,\"n\":12345678901234567890123}\n",
            "  { \"lane\" : \"questions\" , \"metadata\" : { \"session_id\" : \"s\" , \"x\":1.0,\"x\":[ ] } , \"z\" : null }\t\r\n",
            "{\"lane\":\"questions\",\"metadata\":\"none\"}\r\n",
            "{\"lane\":\"questions\"}\n",
            "{\"lane\":\"open\", \"metadata\":{\"session_id\":\"s\"}}",
        );
        let expected =
            input.replace("\"x\":[ ] }", "\"x\":[ ],\"memory_context\":{\"answer_count\":1,\"last_answer\":\"éé\"} }");
        let ran = call(&["run"], input.as_bytes()).ok();
        assert_eq!(ran.text(), expected);
    }

    #[test]
    fn keep_their_endings_and_a_missing_last_one() {
        for input in ["{\"lane\":\"open\"}\r\n{\"lane\":\"open\"}", "{\"lane\":\"open\"}", "{\"lane\":\"open\"}\n"] {
            assert_eq!(call(&["run"], input.as_bytes()).ok().text(), input);
        }
    }

    #[test]
    fn that_are_no_entries_are_told_with_their_number_and_pass_unchanged() {
        let mut input = question("a", "1").into_bytes();
        input.extend(b"nonsense\n\n[1]\n{\"lane\":\"\xff\"}\n{\"lane\":\"question\"}\n{\"text\":\"x\"}\n");
        input.extend(answer("still served").bytes());
        input.extend(question("a", "2").bytes());
        let ran = call(&["run"], &input);
        assert_eq!(ran.code, 1);
        let found: Vec<&[u8]> = ran.out.split(|byte| *byte == b'\n').collect();
        let given: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
        assert_eq!(found[..8], given[..8]);
        assert!(String::from_utf8_lossy(found[8]).contains("still served"));
        let numbers: Vec<&str> = ran.err.lines().map(|line| line.split(':').nth(1).unwrap()).collect();
        assert_eq!(numbers, [" line 2", " line 3", " line 4", " line 5", " line 6", " line 7"]);
        assert!(ran.err.lines().all(|line| line.contains("the lanes are")), "{}", ran.err);
    }

    #[test]
    fn of_a_new_object_cut_the_answer_from_the_question_before() {
        let input = [question("a", "1"), "{\"lane\":\"open\"}\n".into(), answer("lost"), question("a", "2")].concat();
        let ran = call(&["run"], input.as_bytes()).ok();
        assert_eq!(context(ran.text().lines().last().unwrap()), Value::Null);
    }

    #[test]
    fn with_a_text_that_is_no_string_are_remembered_as_the_node_does() {
        for (text, remembered) in [
            (r#"{"a":[1,2.0,"é"]}"#, r#"{"a": [1, 2.0, "\u00e9"]}"#),
            ("null", ""),
            ("true", "true"),
            (r#""half \ud83d""#, "half \u{fffd}\u{fffd}\u{fffd}"),
        ] {
            let input = format!(
                "{{\"lane\":\"answers\",\"text\":{text},\"metadata\":{{\"session_id\":\"a\"}}}}\n{}",
                question("a", "?")
            );
            let ran = call(&["run"], input.as_bytes()).ok();
            assert_eq!(context(ran.text().lines().last().unwrap())["last_answer"], remembered);
            assert!(ran.text().contains(text));
        }
    }

    #[test]
    fn that_are_too_long_pass_in_pieces_and_are_told() {
        let long = format!("{{\"lane\":\"open\",\"x\":\"{}\"}}\n", "x".repeat(5 << 20));
        let input = [long.as_str(), &question("a", "1"), &long].concat();
        let ran = call(&["run", "--set", "max_entry_bytes=1000"], input.as_bytes());
        assert_eq!(ran.code, 1);
        assert!(ran.out == input.as_bytes(), "changed");
        assert_eq!(ran.err.lines().count(), 2, "{}", ran.err);
        assert!(ran.err.contains("line 3: longer than"), "{}", ran.err);
    }

    #[test]
    fn over_the_size_of_an_entry_pass_unchanged() {
        let input = question("a", &"x".repeat(2000));
        let ran = call(&["run", "--set", "max_entry_bytes=1000"], input.as_bytes()).ok();
        assert_eq!(ran.text(), input);
        assert!(ran.err.contains("max_entry_bytes"), "{}", ran.err);
    }

    #[test]
    fn come_from_a_file_as_from_standard_input() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("entries.jsonl");
        let input = question("a", "1") + &answer("x") + &question("a", "2");
        fs::write(&file, &input).unwrap();
        let of_file = call(&["run", file.to_str().unwrap()], b"").ok();
        assert_eq!(of_file.out, call(&["run", "-"], input.as_bytes()).ok().out);
        assert_eq!(of_file.err, "");
    }

    /// A conversation of many sessions, with everything that a stream may hold.
    fn traffic(count: usize) -> String {
        let mut random = fastrand::Rng::with_seed(4711);
        let mut text = String::new();
        for number in 0..count {
            let session = format!("s{}", random.u32(..60));
            let line = match random.u32(..100) {
                0..40 => question(&session, &format!("q{number}")),
                40..75 => answer(&format!("a{number}")),
                75..85 => {
                    format!("{}\n", json!({"lane": "answers", "text": number, "metadata": {"session_id": session}}))
                }
                85..90 => "{\"lane\":\"open\"}\n".to_owned(),
                90..93 => "{\"lane\":\"questions\",\"text\":\"no session\"}\n".to_owned(),
                93..96 => question("not a session id", "x"),
                96..98 => {
                    format!("{{\"lane\":\"answers\",\"text\":\"{number}\",\"metadata\":{{\"session_id\":null}}}}\n")
                }
                _ => format!("nonsense {number}\n"),
            };
            _ = write!(text, "{line}");
        }
        text
    }

    #[test]
    fn are_the_same_with_many_pipes_as_with_one() {
        let input = traffic(12_000);
        let one = call(&["run"], input.as_bytes());
        assert_eq!(one.code, 1);
        assert_eq!(one.text().lines().count(), 12_000);
        for pipes in ["2", "7", "64"] {
            let many = call(&["run", "--pipes", pipes], input.as_bytes());
            assert!(many.out == one.out, "--pipes {pipes} differs");
            assert_eq!(many.code, 1);
        }
    }

    #[test]
    fn are_the_same_over_redis_with_many_pipes_as_in_memory_with_one() {
        let input = traffic(3000);
        let one = call(&["run"], input.as_bytes());
        let redis = RedisServer::start().unwrap();
        let url = format!("redis_url={}", redis.url());
        let many = call(&["run", "--pipes", "16", "--profile", "redis", "--set", &url], input.as_bytes());
        assert!(many.out == one.out);
    }
}

mod coprocess {
    use super::*;

    struct Running {
        child: Child,
        output: BufReader<std::process::ChildStdout>,
    }

    impl Running {
        fn start(arguments: &[&str]) -> Self {
            let mut child = keepline(arguments.iter().copied()).spawn().unwrap();
            let output = BufReader::new(child.stdout.take().unwrap());
            Self { child, output }
        }

        fn send(&mut self, text: &str) {
            self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
        }

        fn line(&mut self) -> String {
            let mut line = String::new();
            self.output.read_line(&mut line).unwrap();
            line
        }

        /// The exit code, within ten seconds.
        fn end(&mut self) -> Option<i32> {
            let end = Instant::now() + Duration::from_secs(10);
            while Instant::now() < end {
                if let Some(status) = self.child.try_wait().unwrap() {
                    return status.code();
                }
                thread::sleep(Duration::from_millis(5));
            }
            self.child.kill().unwrap();
            panic!("still running after ten seconds");
        }
    }

    #[test]
    fn gets_each_line_back_before_it_sends_the_next() {
        for pipes in ["1", "4"] {
            let mut running = Running::start(&["run", "--pipes", pipes]);
            for number in 1..=20 {
                running.send(&question("a", "x"));
                let line = running.line();
                if number > 1 {
                    assert_eq!(context(&line)["answer_count"], number - 1);
                }
                running.send(&answer("y"));
                assert_eq!(running.line(), answer("y"));
            }
            drop(running.child.stdin.take());
            assert_eq!(running.end(), Some(0));
        }
    }

    #[test]
    fn gets_whole_lines_back_while_half_a_line_is_under_way() {
        let mut running = Running::start(&["run"]);
        running.send(&format!("{}{{\"lane\":", answer("y")));
        assert_eq!(running.line(), answer("y"));
        running.send("\"open\"}\n");
        assert_eq!(running.line(), "{\"lane\":\"open\"}\n");
    }

    #[test]
    fn ends_it_by_a_signal_after_what_was_read_has_come_out() {
        for name in ["-TERM", "-INT"] {
            let mut running = Running::start(&["run"]);
            running.send(&answer("y").repeat(500));
            for _ in 0..500 {
                assert_eq!(running.line(), answer("y"));
            }
            // Input stays open: the signal alone ends it.
            signal(&running.child, name);
            assert_eq!(running.end(), Some(0));
            assert_eq!(running.line(), "");
        }
    }

    #[test]
    fn that_no_longer_reads_ends_it_quietly() {
        let mut running = Running::start(&["run", "--pipes", "2"]);
        let mut stdin = running.child.stdin.take().unwrap();
        let writer = thread::spawn(move || {
            let line = question("a", &"x".repeat(1000));
            while stdin.write_all(line.as_bytes()).is_ok() {}
        });
        running.line();
        let mut stderr = running.child.stderr.take().unwrap();
        drop(std::mem::replace(
            &mut running.output,
            BufReader::new(Command::new("true").stdout(Stdio::piped()).spawn().unwrap().stdout.unwrap()),
        ));
        assert_eq!(running.end(), Some(0));
        writer.join().unwrap();
        let mut told = String::new();
        stderr.read_to_string(&mut told).unwrap();
        assert_eq!(told, "");
    }

    #[test]
    fn that_reads_slowly_does_not_make_it_grow() {
        let mut running = Running::start(&["run"]);
        let mut stdin = running.child.stdin.take().unwrap();
        let writer = thread::spawn(move || {
            let line = answer(&"x".repeat(100_000));
            let mut sent = 0;
            while sent < 1_000_000_000 && stdin.write_all(line.as_bytes()).is_ok() {
                sent += line.len();
            }
            sent
        });
        thread::sleep(Duration::from_secs(3));
        let status = fs::read_to_string(format!("/proc/{}/status", running.child.id())).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim();
        let kilobytes: u64 = resident.split(' ').next().unwrap().parse().unwrap();
        assert!(kilobytes < 400_000, "{resident}");
        signal(&running.child, "-KILL");
        assert!(running.end().is_none());
        assert!(writer.join().unwrap() < 1_000_000_000, "all of it was read");
    }

    #[test]
    fn that_does_not_read_at_all_can_still_end_it_by_a_signal() {
        let mut running = Running::start(&["run"]);
        let mut stdin = running.child.stdin.take().unwrap();
        let writer = thread::spawn(move || {
            let line = answer(&"x".repeat(10_000));
            while stdin.write_all(line.as_bytes()).is_ok() {}
        });
        thread::sleep(Duration::from_millis(500));
        signal(&running.child, "-TERM");
        // What was read can't come out, and it says so instead of waiting for ever.
        assert_eq!(running.end(), Some(1));
        writer.join().unwrap();
    }
}

mod a_store_that_fails {
    use super::*;

    #[test]
    fn leaves_the_entries_as_they_were() {
        let url = format!("redis_url={}", dead_url());
        let input = question("a", "1") + &answer("x");
        let ran = call(&["run", "--profile", "redis", "--set", &url, "--summary"], input.as_bytes()).ok();
        assert_eq!(ran.text(), input);
        assert!(ran.err.contains("warning: ") && ran.err.contains("failed 2"), "{}", ran.err);
    }

    #[test]
    fn puts_an_error_beside_them_where_that_is_asked_for() {
        let url = format!("redis_url={}", dead_url());
        let mut input = question("a", "1") + "{\"lane\":\"open\"}\n";
        input.push_str(&question("a", "2"));
        let ran = call(&["run", "--profile", "redis", "--set", &url, "--set", "on_store_error=fail"], input.as_bytes());
        assert_eq!(ran.code, 1);
        for (line, given) in ran.text().lines().zip(input.lines()) {
            let (mut line, given): (Value, Value) =
                (serde_json::from_str(line).unwrap(), serde_json::from_str(given).unwrap());
            if given["lane"] == "questions" {
                let error = line.as_object_mut().unwrap().remove("error").unwrap();
                assert!(error["code"].is_string() && error["message"].is_string(), "{error}");
            }
            assert_eq!(line, given);
        }
        assert!(ran.err.contains("line 3"), "{}", ran.err);
    }
}

mod configuration {
    use super::*;

    fn shown(ran: &Ran) -> BTreeMap<String, (Value, String)> {
        let all = ran.json();
        let host = all["host"].as_object().unwrap().iter();
        let fields = host.chain(all["filter"].as_object().unwrap());
        let entry = |(name, of): (&String, &Value)| {
            (name.clone(), (of["value"].clone(), of["source"].as_str().unwrap().to_owned()))
        };
        fields.map(entry).collect()
    }

    #[test]
    fn tells_each_value_and_where_it_came_from() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("keepline.json");
        fs::write(&file, r#"{"redis_host":"file","redis_port":1,"redis_database":1,"max_keys":11,"max_history":11}"#)
            .unwrap();
        let file = file.to_str().unwrap();
        let ran = call_with(
            &[
                ("KEEPLINE_REDIS_PORT", "2"),
                ("KEEPLINE_REDIS_DATABASE", "2"),
                ("KEEPLINE_MAX_KEYS", "12"),
                ("KEEPLINE_REDIS_TLS", ""),
            ],
            &["config", "--json", "--config", file, "--profile", "redis", "--set", "redis_database=3"],
        )
        .ok();
        let fields = shown(&ran);
        for (name, value, source) in [
            ("redis_database", json!(3), "command line"),
            ("redis_port", json!(2), "KEEPLINE_REDIS_PORT"),
            ("redis_host", json!("file"), file),
            ("max_keys", json!(12), "KEEPLINE_MAX_KEYS"),
            ("max_history", json!(11), file),
            ("session_ttl_hours", json!(24), "profile redis"),
            ("redis_tls", json!(false), "default"),
            ("session_ttl_mode", json!("fixed"), "default"),
        ] {
            assert_eq!(fields[name], (value, source.to_owned()), "{name}");
        }
        assert_eq!(ran.json()["profile"], json!({"value": "redis", "source": "command line"}));
    }

    #[test]
    fn loses_no_field_that_is_set_before_the_command() {
        let arguments = ["--set", "redis_port=1", "--set", "max_keys=5", "config", "--json", "--set", "redis_port=2"];
        let fields = shown(&call(&arguments, b"").ok());
        assert_eq!((&fields["redis_port"].0, &fields["max_keys"].0), (&json!(2), &json!(5)));
    }

    #[test]
    fn is_lines_of_fields_for_programs() {
        let ran = call(&["config"], b"").ok();
        assert!(ran.text().lines().any(|line| line == "backend\tmemory\tprofile memory"), "{}", ran.text());
        assert!(ran.text().lines().all(|line| line.split('\t').count() == 3));
    }

    #[test]
    fn resolves_profiles_as_the_node_does() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("keepline.json");
        fs::write(
            &file,
            r#"{"profile":"redis","max_history":7,"redis":{"redis_host":"db"},"custom":{"redis_host":"no"}}"#,
        )
        .unwrap();
        let ran = call(&["config", "--json", "--config", file.to_str().unwrap()], b"").ok();
        let fields = shown(&ran);
        assert_eq!(fields["redis_host"].0, "db");
        assert_eq!(fields["max_history"].0, 100);
        assert!(ran.err.contains("warning: ") && ran.err.contains("max_history"), "{}", ran.err);
        let ran = call_with(
            &[("KEEPLINE_PROFILE", "custom"), ("KEEPLINE_CONFIG", file.to_str().unwrap())],
            &["config", "--json"],
        );
        assert_eq!(shown(&ran.ok())["redis_host"].0, "no");
    }

    #[test]
    fn shows_no_password_wherever_it_came_from() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("keepline.json");
        fs::write(&file, r#"{"redis_password":"hunter2"}"#).unwrap();
        let file = file.to_str().unwrap();
        let url = "redis://me:hunter2@127.0.0.1:1/0";
        for (environment, arguments) in [
            (&[][..], &["config", "--config", file][..]),
            (&[("KEEPLINE_REDIS_PASSWORD", "hunter2"), ("KEEPLINE_REDIS_URL", url)], &["config", "--json", "-v"]),
            (&[("KEEPLINE_REDIS_URL", "redis://me:hunter2@host:99999")], &["config"]),
            (&[("KEEPLINE_REDIS_URL", "hunter2@host")], &["config"]),
            (&[("KEEPLINE_REDIS_URL", url), ("KEEPLINE_PROFILE", "redis")], &["session", "list", "-v"]),
        ] {
            let ran = call_with(environment, arguments);
            let all = format!("{}{}", String::from_utf8_lossy(&ran.out), ran.err);
            assert!(!all.contains("hunter2"), "{all}");
        }
    }

    #[test]
    fn that_is_wrong_names_the_field_and_what_is_allowed() {
        for (set, told) in [
            ("redis_port=70000", "redis_port must be a whole number from 1 to 65535"),
            ("backend=Redis", "Unknown backend: 'Redis'. Must be \"redis\" or \"memory\"."),
            ("max_history=x", "max_history"),
            ("auto_summarize=no", "auto_summarize"),
            ("redis_url=http://x", "redis_url must be a redis:// or rediss:// URL"),
        ] {
            let ran = call(&["run", "--set", set], b"");
            assert!(ran.code == 2 && ran.err.contains(told), "{set}: {ran:?}");
        }
    }

    #[test]
    fn with_an_unknown_field_is_refused_with_the_names_of_all() {
        for ran in
            [call(&["run", "--set", "max_histroy=5"], b""), call_with(&[("KEEPLINE_MAX_HISTROY", "5")], &["run"])]
        {
            assert_eq!(ran.code, 2);
            for name in ["max_histroy", "max_history", "redis_host", "cache_dir"] {
                assert!(ran.err.contains(name), "{ran:?}");
            }
        }
    }

    #[test]
    fn of_the_custom_profile_untouched_is_refused_before_anything_runs() {
        let ran = call(&["run", "--profile", "custom"], question("a", "1").as_bytes());
        assert!(ran.code == 2 && ran.out.is_empty() && ran.err.contains("redis_host is empty"), "{ran:?}");
    }

    #[test]
    fn help_names_every_field() {
        let help = call(&["help", "config"], b"").ok();
        for field in keepline::config::FIELDS {
            assert!(help.text().contains(field.name), "{}", field.name);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn of_any_bytes_is_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("keepline.json");
            fs::write(&file, bytes).unwrap();
            let ran = call(&["config", "--config", file.to_str().unwrap()], b"");
            prop_assert!([0, 2].contains(&ran.code), "{ran:?}");
        }
    }
}

mod sessions {
    use super::*;

    fn call(redis: &RedisServer, arguments: &[&str]) -> Ran {
        let url = redis.url();
        call_with(&[("KEEPLINE_PROFILE", "redis"), ("KEEPLINE_REDIS_URL", &url)], &[&["session"], arguments].concat())
    }

    #[test]
    fn are_created_changed_shown_and_deleted() {
        let redis = RedisServer::start().unwrap();
        assert_eq!(call(&redis, &["create", "anna"]).ok().text(), "anna\n");
        let twice = call(&redis, &["create", "anna"]);
        assert!(twice.code == 1 && twice.err.contains("Session 'anna' already exists"), "{twice:?}");

        call(&redis, &["put", "anna", "address", r#"{"city":"Köln","n":12345678901234567890123}"#]).ok();
        call(&redis, &["put", "anna", "note", "say \"hi\"", "--text"]).ok();
        assert_eq!(call(&redis, &["increment", "anna", "visits"]).ok().text(), "1\n");
        assert_eq!(call(&redis, &["increment", "anna", "visits", "-5"]).ok().text(), "-4\n");
        assert_eq!(
            call(&redis, &["get", "anna", "address"]).ok().text(),
            "{\"city\":\"Köln\",\"n\":12345678901234567890123}\n"
        );
        assert_eq!(call(&redis, &["get", "anna", "note"]).ok().text(), "\"say \\\"hi\\\"\"\n");
        assert_eq!(call(&redis, &["get", "anna", "note", "--text"]).ok().text(), "say \"hi\"\n");
        assert_eq!(call(&redis, &["keys", "anna"]).ok().text(), "address\nnote\nvisits\n");

        let shown = call(&redis, &["show", "anna", "--json"]).ok().json();
        assert_eq!((&shown["key_count"], &shown["values"]["visits"]), (&json!(3), &json!(-4)));
        assert!(shown["expires_in_ms"].as_u64().unwrap() > 86_000_000);
        assert!(call(&redis, &["show", "anna"]).ok().text().contains(".visits\t-4\n"));
        let history = call(&redis, &["history", "anna", "--json"]).ok().json();
        let operations: Vec<&str> =
            history["entries"].as_array().unwrap().iter().map(|entry| entry["key"].as_str().unwrap()).collect();
        assert_eq!(operations, ["address", "note", "visits", "visits"]);
        assert_eq!(call(&redis, &["history", "anna", "--limit", "1"]).ok().text().lines().count(), 1);

        assert_eq!(call(&redis, &["clear", "anna", "note"]).ok().text(), "note\n");
        assert_eq!(
            call(&redis, &["clear", "anna", "--all", "--json"]).ok().json()["cleared"],
            json!(["address", "visits"])
        );
        assert_eq!(call(&redis, &["delete", "anna"]).ok().text(), "");
        let gone = call(&redis, &["delete", "anna"]);
        assert!(gone.code == 1 && gone.err.contains("Session 'anna' not found"), "{gone:?}");
    }

    #[test]
    fn are_those_of_the_lanes() {
        let redis = RedisServer::start().unwrap();
        let url = redis.url();
        let mut run = keepline(["run", "--profile", "redis"]);
        finish(run.env("KEEPLINE_REDIS_URL", &url).spawn().unwrap(), (question("ben", "1") + &answer("x")).as_bytes())
            .ok();
        assert_eq!(call(&redis, &["get", "ben", "last_answer", "--text"]).ok().text(), "x\n");
        assert_eq!(call(&redis, &["get", "ben", "answer_count"]).ok().text(), "1\n");
    }

    #[test]
    fn are_listed_page_by_page() {
        let redis = RedisServer::start().unwrap();
        let url = redis.url();
        let input: String = (0..250).map(|number| question(&format!("s{number:03}"), "x")).collect();
        let mut run = keepline(["run", "--profile", "redis"]);
        finish(run.env("KEEPLINE_REDIS_URL", &url).spawn().unwrap(), input.as_bytes()).ok();
        let expected: Vec<String> = (0..250).map(|number| format!("s{number:03}")).collect();

        let all = call(&redis, &["list", "--all", "--limit", "20"]).ok();
        let mut listed: Vec<&str> = all.text().lines().collect();
        listed.sort_unstable();
        listed.dedup();
        assert_eq!(listed, expected);

        let mut cursor = String::new();
        let mut paged = Vec::new();
        loop {
            let page = call(&redis, &["list", "--json", "--limit", "20", "--cursor", &cursor]).ok().json();
            paged.extend(page["sessions"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()));
            cursor = page["cursor"].as_str().unwrap().to_owned();
            if cursor.is_empty() {
                break;
            }
        }
        paged.sort_unstable();
        paged.dedup();
        assert_eq!(paged, expected);
        assert!(call(&redis, &["list", "--limit", "20"]).ok().err.contains("--cursor"));
    }

    #[test]
    fn that_are_misused_are_told_in_the_components_words() {
        let redis = RedisServer::start().unwrap();
        call(&redis, &["create", "a"]).ok();
        for (arguments, told) in [
            (&["show", "nobody"][..], "Session 'nobody' not found"),
            (
                &["create", "bad id"],
                "Invalid session_id: 'bad id'. Must be 1-128 alphanumeric characters, hyphens, or underscores.",
            ),
            (
                &["put", "a", "b c", "1"],
                "Invalid key: 'b c'. Must be 1-256 alphanumeric characters, hyphens, underscores, or dots.",
            ),
            (&["get", "a", "nothing"], "Session 'a' has no key 'nothing'"),
        ] {
            let ran = call(&redis, arguments);
            assert!(ran.code == 1 && ran.out.is_empty() && ran.err.contains(told), "{arguments:?}: {ran:?}");
        }
    }

    #[test]
    fn of_the_memory_backend_come_with_a_note_that_they_do_not_stay() {
        let ran = super::call(&["session", "list"], b"").ok();
        assert!(ran.out.is_empty() && ran.err.starts_with("note: ") && ran.err.contains("--profile redis"), "{ran:?}");
    }

    #[test]
    fn whose_redis_is_away_are_told_so_without_a_stack_of_noise() {
        let ran =
            call_with(&[("KEEPLINE_PROFILE", "redis"), ("KEEPLINE_REDIS_URL", &dead_url())], &["session", "list"]);
        assert_eq!(ran.code, 1);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    }
}

mod plugins {
    use super::*;

    #[test]
    fn are_told_with_exactly_the_three_imports() {
        let found = call(&["inspect", "--json"], b"").ok().json();
        let imports: Vec<&str> =
            found["imports"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(
            imports,
            ["keepline:memory/key-value@0.1.0", "wasi:clocks/wall-clock@0.2.0", "wasi:logging/logging@0.1.0-draft"]
        );
        assert_eq!((&found["loads"], &found["refusal"]), (&json!(true), &Value::Null));
        let text = call(&["inspect"], b"").ok();
        assert!(imports.iter().all(|import| text.text().contains(import)), "{}", text.text());
    }

    #[test]
    fn come_out_as_a_file_and_run_from_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("keepline.wasm");
        let file = file.to_str().unwrap();
        call(&["component", "--output", file], b"").ok();
        let bytes = fs::read(file).unwrap();
        assert_eq!(bytes, keepline::plugin::BUNDLED);
        assert_eq!(call(&["component", "-o", "-"], b"").ok().out, bytes);
        let bundled = call(&["inspect", "--json"], b"").json();
        assert_eq!(call(&["inspect", file, "--json"], b"").ok().json()["sha256"], bundled["sha256"]);

        let input = question("a", "1") + &answer("x") + &question("a", "2");
        let ran = call(&["run", "--plugin", file], input.as_bytes()).ok();
        assert_eq!(context(ran.text().lines().last().unwrap())["last_answer"], "x");
        let ran = call_with(&[("KEEPLINE_PLUGIN", file)], &["inspect", "--json"]).ok();
        assert_eq!(ran.json()["plugin"], file);
    }
}

mod help {
    use super::*;

    const COMMANDS: [&str; 7] = ["run", "session", "config", "inspect", "component", "demo", "completions"];

    #[test]
    fn is_there_for_every_command() {
        let help = call(&["--help"], b"").ok();
        assert!(help.text().contains("Exit codes:") && help.text().contains("KEEPLINE_<FIELD>"));
        for command in COMMANDS {
            assert!(help.text().contains(command), "{command}");
            assert!(call(&[command, "--help"], b"").ok().text().contains("Usage: keepline"));
        }
        for command in ["list", "show", "create", "delete", "put", "get", "keys", "clear", "increment", "history"] {
            assert!(call(&["session", command, "--help"], b"").ok().text().contains("Usage: keepline session"));
        }
    }

    #[test]
    fn completes_in_every_shell() {
        for (shell, checker) in [("bash", Some("bash")), ("zsh", None), ("fish", None)] {
            let script = call(&["completions", shell], b"").ok();
            for command in COMMANDS {
                assert!(script.text().contains(command), "{shell} {command}");
            }
            if let Some(checker) = checker {
                let mut check = Command::new(checker).arg("-n").stdin(Stdio::piped()).spawn().unwrap();
                check.stdin.take().unwrap().write_all(&script.out).unwrap();
                assert!(check.wait().unwrap().success(), "{shell}");
            }
        }
    }
}

mod output {
    use super::*;

    #[test]
    fn has_no_colour_and_no_bar_when_it_goes_to_a_program() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("entries.jsonl");
        fs::write(&file, question("a", "1") + "nonsense\n").unwrap();
        let ran = call(&["run", file.to_str().unwrap(), "--summary", "-v"], b"");
        assert!(!ran.err.contains('\x1b') && !ran.text().contains('\x1b'), "{ran:?}");
        assert!(ran.err.contains("no entries") && ran.err.contains("resumed 1"), "{}", ran.err);
    }

    #[test]
    fn is_told_in_more_words_when_asked() {
        let input = question("bad id!", "1") + &question("a", "2") + &answer("x");
        assert_eq!(call(&["run"], input.as_bytes()).ok().err, "");
        let ran = call(&["run", "--verbose"], input.as_bytes()).ok();
        assert!(ran.err.contains("debug: ") && ran.err.contains("Stored answer in session a"), "{}", ran.err);
    }

    #[test]
    fn summary_counts_entries_round_trips_and_times() {
        let redis = RedisServer::start().unwrap();
        let url = format!("redis_url={}", redis.url());
        let input = (question("a", "1") + &answer("x")).repeat(50) + "{\"lane\":\"open\"}\n";
        let ran = call(&["run", "--summary", "--profile", "redis", "--set", &url], input.as_bytes()).ok();
        for told in [
            "100 entries",
            "questions",
            "answers",
            "enriched 49, resumed 1, stored 50",
            "opened",
            "p50",
            "p99",
            "round trips, 1.0",
        ] {
            assert!(ran.err.contains(told), "{told}: {}", ran.err);
        }
    }

    #[test]
    fn of_the_demo_fits_a_screen_and_shows_the_memory_after_the_crash() {
        let ran = call(&["demo"], b"").ok();
        let lines: Vec<&str> = ran.text().lines().collect();
        assert!(lines.len() <= 24, "{}", ran.text());
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{}", ran.text());
        for told in [
            "KiB",
            "key-value",
            "wall-clock",
            "logging",
            "SIGKILL",
            "memory in place",
            "\"answer_count\":2",
            "Try next",
        ] {
            assert!(ran.text().contains(told), "{told}: {}", ran.text());
        }
        assert_eq!(ran.err, "");
    }

    #[test]
    fn of_the_demo_without_a_redis_says_so() {
        let mut demo = keepline(["demo"]);
        let ran = finish(demo.env("PATH", "/nonexistent").spawn().unwrap(), b"").ok();
        assert!(ran.text().contains("redis-server"), "{}", ran.text());
    }

    #[test]
    fn of_the_demo_with_a_file_plays_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("entries.jsonl");
        fs::write(&file, (question("zoe", "Hello?") + &answer("Hi.")).repeat(15) + "nonsense").unwrap();
        let ran = call(&["demo", file.to_str().unwrap()], b"").ok();
        assert!(ran.text().contains("zoe") && ran.text().contains("5 turns more"), "{}", ran.text());
    }
}
