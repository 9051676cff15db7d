//! `run --metrics` serves what `docs/metrics.md` documents while entries pass; the example's alerts use nothing else.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

use keepline_local_redis::RedisServer;
use keepline_tests::until::until;
use serde_json::{Value, json};

use crate::{answer, call, dead_url, question, run::coprocess::Running};

const TABLE: &str = include_str!("../../../../docs/metrics.md");
/// What `serve` alone counts.
const SERVED: [&str; 2] = ["http_", "prompt_"];
const ALERTS: &str = include_str!("../../../../examples/prometheus/alerts.yml");

/// A run, and the address at which it is scraped.
fn scraped(arguments: &[&str]) -> (Running, String) {
    let mut running = Running::start(&[&["run", "--metrics", "127.0.0.1:0"], arguments].concat());
    let mut told = String::new();
    let mut errors = BufReader::new(running.child.stderr.take().unwrap());
    errors.read_line(&mut told).unwrap();
    let address = told.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    let address = address.unwrap_or_else(|| panic!("{told}")).to_owned();
    // What else it says is taken, so that it need not wait.
    std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
    (running, address)
}

/// Head and body of the reply.
fn get(address: &str, path: &str) -> (String, String) {
    request(address, "GET", path)
}

fn request(address: &str, method: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Whole lines: two types in one header are none.
fn content_types(head: &str) -> Vec<&str> {
    head.lines().filter(|line| line.to_ascii_lowercase().starts_with("content-type:")).collect()
}

/// The value of a sample, named with its labels as it is told.
fn sample(text: &str, name: &str) -> f64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name} is not in {text}")).parse().unwrap()
}

/// Names like ours in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("keepline_")).collect()
}

#[test]
fn metrics_are_those_of_the_documentation() {
    let (mut running, address) = scraped(&[]);
    running.send(&question("anna", "Where?"));
    running.line();
    let (head, body) = get(&address, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let open_metrics = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(content_types(&head), [open_metrics]);
    assert!(body.ends_with("# EOF\n"), "{body}");

    // Those of requests over HTTP are the service's (tests/tests/service/keys.rs).
    let rows = TABLE
        .lines()
        .filter_map(|line| line.strip_prefix("| `keepline_"))
        .filter(|row| !SERVED.iter().any(|of| row.starts_with(of)));
    let rows: BTreeSet<(String, String)> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            (format!("keepline_{}", cells[0].trim_matches('`')), cells[1].to_owned())
        })
        .collect();
    let families = body.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let families: BTreeSet<(String, String)> = families
        .map(|family| {
            let (name, kind) = family.split_once(' ').unwrap();
            let suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            (format!("{name}{suffix}"), kind.to_owned())
        })
        .collect();
    assert!(!rows.is_empty() && rows == families, "documented {rows:#?}, served {families:#?}");

    let of_samples: BTreeSet<&str> = body.lines().filter(|line| !line.starts_with('#')).flat_map(names).collect();
    assert!(!names(ALERTS).is_empty());
    for name in names(ALERTS) {
        let is_documented = rows.iter().any(|(row, _)| row == name);
        assert!(is_documented || of_samples.contains(name), "{name} is in the example's alerts and not served");
    }
    assert!(!body.contains("anna"), "{body}");
    drop(running.child.stdin.take());
    assert_eq!(running.end(), Some(0));
}

#[test]
fn a_scraped_run_ends_silently_with_any_number_of_pipes() {
    for pipes in ["1", "2", "8"] {
        for _ in 0..3 {
            let arguments = ["run", "--metrics", "127.0.0.1:0", "--pipes", pipes];
            let ran = call(&arguments, question("anna", "Where?").as_bytes()).ok();
            assert!(ran.err.starts_with("note: metrics are served") && ran.err.lines().count() == 1, "{ran:?}");
        }
    }
}

#[test]
fn entries_are_counted_by_outcome_and_timed() {
    let server = RedisServer::start().unwrap();
    let url = format!("redis_url={}", server.url());
    let (mut running, address) = scraped(&["--profile", "redis", "--set", &url, "--set", "probe_interval_ms=0"]);
    let mut input = question("anna", "Where?") + &answer("In Leipzig.") + &question("anna", "And now?");
    // No session, and a malformed one.
    input += &format!("{}\n", json!({"lane": "questions", "text": "x", "metadata": {}}));
    input += &question("no id", "x");
    running.send(&input);
    (0..5).for_each(|_| _ = running.line());
    let (_, body) = get(&address, "/metrics");
    for (name, value) in [
        ("keepline_build_info{version=\"", 1.0),
        ("keepline_entries_total{effect=\"enriched\"}", 1.0),
        ("keepline_entries_total{effect=\"resumed\"}", 1.0),
        ("keepline_entries_total{effect=\"stored\"}", 1.0),
        ("keepline_entries_total{effect=\"passed\"}", 1.0),
        ("keepline_entries_total{effect=\"ignored\"}", 1.0),
        ("keepline_entries_total{effect=\"failed\"}", 0.0),
        ("keepline_lane_duration_seconds_count{lane=\"questions\"}", 4.0),
        ("keepline_lane_duration_seconds_bucket{le=\"+Inf\",lane=\"answers\"}", 1.0),
        ("keepline_store_calls_total{outcome=\"succeeded\"}", 3.0),
        ("keepline_store_calls_total{outcome=\"failed\"}", 0.0),
        ("keepline_store_breaker{state=\"closed\"}", 1.0),
        ("keepline_store_breaker{state=\"open\"}", 0.0),
        ("keepline_plugin_instances{state=\"busy\"}", 0.0),
        ("keepline_plugin_denied_calls_total", 0.0),
    ] {
        if name.ends_with("=\"") {
            assert!(body.contains(name), "{name}");
        } else {
            assert_eq!(sample(&body, name), value, "{name}");
        }
    }
    assert!(sample(&body, "keepline_lane_duration_seconds_sum{lane=\"questions\"}") > 0.0);
    assert!(sample(&body, "keepline_plugin_memory_bytes") > 0.0);
    assert!(sample(&body, "keepline_store_round_trips_total") >= 3.0);
    // A reply that is there at the first look was not waited for.
    assert!(sample(&body, "keepline_store_wait_seconds_count") <= 3.0);
    let (head, body) = get(&address, "/health");
    let health: Value = serde_json::from_str(&body).unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && health["reachable"] == json!(true), "{head} {body}");
    assert_eq!(content_types(&head), ["content-type: application/json"]);
    for path in ["/metrics", "/health"] {
        let (head, body) = request(&address, "HEAD", path);
        assert!(
            head.starts_with("HTTP/1.1 200") && content_types(&head).len() == 1 && body.is_empty(),
            "{head} {body}"
        );
    }
    assert!(get(&address, "/").0.starts_with("HTTP/1.1 404"));
}

#[test]
fn deferred_work_is_counted_by_outcome() {
    let (mut running, address) = scraped(&["--set", "conversation=true"]);
    running.send(&(question("anna", "Where?") + &answer("In Leipzig.")));
    (0..2).for_each(|_| _ = running.line());
    let titles = || sample(&get(&address, "/metrics").1, "keepline_titles_total{outcome=\"done\"}");
    while titles() < 1.0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let (_, body) = get(&address, "/metrics");
    for name in ["keepline_titles_total{outcome=\"failed\"}", "keepline_summaries_total{outcome=\"done\"}"] {
        assert_eq!(sample(&body, name), 0.0, "{name}");
    }
}

#[test]
fn store_failures_are_counted() {
    let url = format!("redis_url={}", dead_url());
    let set = ["--set", &url, "--set", "store_timeout_ms=100", "--set", "breaker_cooldown_ms=3600000"];
    let (mut running, address) = scraped(&[&["--profile", "redis"], &set[..]].concat());
    for _ in 0..12 {
        running.send(&question("anna", "Where?"));
        running.line();
    }
    let (_, body) = get(&address, "/metrics");
    assert_eq!(sample(&body, "keepline_entries_total{effect=\"failed\"}"), 12.0);
    assert_eq!(sample(&body, "keepline_store_calls_total{outcome=\"failed\"}"), 12.0);
    assert_eq!(sample(&body, "keepline_store_failures_total{code=\"unavailable\"}"), 12.0);
    assert_eq!(sample(&body, "keepline_store_breaker{state=\"open\"}"), 1.0);
    assert!(sample(&body, "keepline_store_consecutive_failures") >= 12.0);
    let (head, body) = get(&address, "/health");
    assert!(head.starts_with("HTTP/1.1 503"), "{head} {body}");
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["breaker"], json!("open"));
}

#[test]
fn skipped_answers_are_counted_by_reason() {
    let set = ["--set", "conversation=true", "--set", "min_message_length=3"];
    let (mut running, address) = scraped(&set);
    let off = json!({"lane": "answers", "text": "A secret.", "metadata": {"memory": {"write": false}}});
    let answers = [" ", "", "[generation was interrupted]", "no"].map(answer).concat();
    running.send(&(question("anna", "Where?") + &answers + &format!("{off}\n") + &answer("In Leipzig.")));
    (0..7).for_each(|_| _ = running.line());
    let (_, body) = get(&address, "/metrics");
    for (reason, count) in [("blank", 2.0), ("marker", 1.0), ("too-short", 1.0), ("switched-off", 1.0), ("other", 0.0)]
    {
        assert_eq!(sample(&body, &format!("keepline_skipped_answers_total{{reason=\"{reason}\"}}")), count, "{reason}");
    }
    assert_eq!(sample(&body, "keepline_entries_total{effect=\"skipped\"}"), 5.0);
    drop(running.child.stdin.take());
    assert_eq!(running.end(), Some(0));
}

#[test]
fn an_unusable_address_is_refused() {
    let (mut running, address) = scraped(&[]);
    let ran = call(&["run", "--metrics", &address], question("a", "1").as_bytes());
    assert!(ran.code == 2 && ran.out.is_empty() && ran.err.contains("--metrics: can't listen at"), "{ran:?}");
    assert_eq!(call(&["run", "--metrics", "9464"], b"").code, 2);
    drop(running.child.stdin.take());
    assert_eq!(running.end(), Some(0));
    // Nothing is left behind.
    until("the address is free", || std::net::TcpListener::bind(&*address).ok());
}
