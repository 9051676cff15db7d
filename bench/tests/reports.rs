//! Whole reports, as tables and JSON; not which figures.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::{
    fs,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keepline-bench"));
    command.args(arguments);
    command
}

/// The sections of a quick report, on a disk that is empty afterwards.
fn sections(part: &str) -> Vec<Value> {
    let disk = tempfile::tempdir_in(".").unwrap();
    let arguments = ["--only", part, "--quick", "--json", "--disk", disk.path().to_str().unwrap()];
    let output = command(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let conditions = report["conditions"].as_array().unwrap();
    let place = conditions.iter().find(|condition| condition[0] == "directories").unwrap()[1].as_str().unwrap();
    assert_eq!(fs::canonicalize(place).unwrap(), fs::canonicalize(disk.path()).unwrap());
    report["sections"].as_array().unwrap().clone()
}

/// The names of the rows. Each has a figure for each column but those after which `unmeasured` asks.
fn rows(section: &Value, unmeasured: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let columns: Vec<_> = section["columns"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let check = |row: &Value| {
        let (name, values) = (row["name"].as_str().unwrap(), row["values"].as_array().unwrap());
        assert_eq!(values.len(), columns.len(), "{section}");
        for (column, value) in columns.iter().zip(values) {
            let is_measured = value.as_f64().is_some_and(|value| value > 0.0);
            assert!(is_measured || unmeasured(name, column), "{name}, {column}: {value}");
        }
        name.to_owned()
    };
    section["rows"].as_array().unwrap().iter().map(check).collect()
}

fn figure(section: &Value, row: &str, column: &str) -> f64 {
    let place = section["columns"].as_array().unwrap().iter().position(|name| name == column).unwrap();
    let row = section["rows"].as_array().unwrap().iter().find(|found| found["name"] == row);
    row.unwrap_or_else(|| panic!("no such row in {section}"))["values"][place].as_f64().unwrap()
}

#[test]
fn every_growth_curve_has_two_points_of_every_store() {
    let sections = sections("growth");
    assert_eq!(sections.len(), 8);
    let (pipes, curves) = sections.split_last().unwrap();
    for section in curves {
        let rows = rows(section, |_, _| false);
        let stores: Vec<_> = rows.iter().map(|name| name.split_once(", ").unwrap().0).collect();
        assert_eq!(stores, ["memory", "memory", "directory", "directory", "Redis", "Redis"]);
    }
    let rows = rows(pipes, |_, _| false);
    assert_eq!(rows, ["memory, 1", "memory, 2", "Redis, 1", "Redis, 2"]);
}

#[test]
fn directories_are_measured_per_directory_sync() {
    let [pairs, questions] = &sections("directory")[..] else { panic!("not two sections") };
    let names = rows(pairs, |name, column| {
        let are_lanes = column.starts_with("question") || column.starts_with("answer");
        are_lanes && name.contains("pipe") || column == "syncs a pair"
    });
    assert_eq!(names.len(), 11);
    for pipes in ["1 pipe", "8 pipes", "64 pipes"] {
        let syncs = |way: &str| figure(pairs, &format!("{way}, {pipes}"), "syncs a pair");
        assert_eq!(syncs("off"), 0.0);
        // Each by itself: of an answer, and of the summaries. How many share one depends on how long the disk takes.
        assert!(syncs("always") >= 1.0 && syncs("group") > 0.0, "{pairs}");
    }
    let names = rows(questions, |name, column| name == "without writers" && column.starts_with("an answer"));
    assert_eq!(names, ["without writers", "off", "group", "always"]);
}

#[test]
fn conversations_are_measured_with_and_without_recall() {
    let sections = sections("recall");
    let [questions, answers, cpu] = &sections[..] else { panic!("{sections:?}") };
    let both = |labels: [&str; 3], separator: &str| {
        labels.map(|label| ["without", "with recall"].map(|mode| format!("{label}{separator}{mode}"))).concat()
    };
    let is_work_without = |name: &str, column: &str| name.contains("without") && column.starts_with("deferred work");
    let questions = rows(questions, |_, _| false);
    assert_eq!(questions, both(["memory, 100", "directory, 100", "Redis, 100"], ": "));
    assert_eq!(rows(answers, is_work_without), both(["memory", "directory", "Redis"], ", "));
    assert_eq!(rows(cpu, is_work_without), ["without", "with recall"]);
}

#[test]
fn conversations_are_measured_on_every_store() {
    let sections = sections("conversation");
    let [pairs, beside, prefixes] = &sections[..] else { panic!("{sections:?}") };
    assert_eq!(rows(pairs, |_, _| false).len(), 3 * 2 * 3);
    assert_eq!(rows(beside, |_, _| false).len(), 6);
    // The figures that do not depend on the machine.
    let wanted = [90.0, 90.0, 75.0, 84.0, 90.0];
    let names = rows(prefixes, |_, _| false);
    assert_eq!(names.len(), wanted.len());
    for (name, wanted) in names.iter().zip(wanted) {
        assert!(figure(prefixes, name, "share %") >= wanted, "{prefixes}");
        assert!(figure(prefixes, name, "sliding: share %") < 5.0, "{prefixes}");
    }
}

#[test]
fn a_missing_disk_is_refused() {
    let output = command(&["--only", "directory", "--disk", "no/such/directory"]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && errors.contains("can't use no/such/directory"), "{errors}");
}

#[test]
fn a_signal_removes_the_directories() {
    let disk = tempfile::tempdir().unwrap();
    let made = || fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let arguments = ["--only", "directory", "--quick", "--disk", disk.path().to_str().unwrap()];
    let mut child = command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let patience = Instant::now() + Duration::from_secs(120);
    while !made().iter().any(|made| made.join("always/keepline.db").exists()) {
        assert!(Instant::now() < patience, "its stores were not opened");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(made().is_empty(), "{:?}", made());
}
