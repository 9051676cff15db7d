//! Whole reports, as tables, JSON and plots; not which figures.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

const PLOTS: [&str; 5] = ["growth-entry-size", "growth-history", "growth-keys", "growth-pipes", "growth-sessions"];

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keepline-bench"));
    command.args(arguments);
    command
}

/// Its exit code, standard output and standard error.
fn call(arguments: &[&str]) -> (i32, String, String) {
    let output = command(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

fn report(arguments: &[&str]) -> String {
    let (code, output, errors) = call(arguments);
    assert_eq!(code, 0, "{errors}");
    output
}

fn report_json(arguments: &[&str]) -> Value {
    serde_json::from_str(&report(&[arguments, &["--json"]].concat())).unwrap()
}

/// Two points of each curve.
fn measure_growth(report: &Path, plots: &Path) -> String {
    let (report, plots) = (report.to_str().unwrap(), plots.to_str().unwrap());
    self::report(&["--only", "growth", "--quick", "--points", "2", "--output", report, "--plots", plots])
}

fn drawn(directory: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn growth_is_reported_as_tables_json_and_plots() {
    let directory = tempfile::tempdir().unwrap();
    let (file, plots) = (directory.path().join("report.json"), directory.path().join("new/plots"));
    let tables = measure_growth(&file, &plots);

    let json: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let sections = json["sections"].as_array().unwrap();
    assert_eq!(sections.len(), 7);
    for section in sections {
        let (title, columns) = (section["title"].as_str().unwrap(), section["columns"].as_array().unwrap());
        assert!(tables.contains(title), "{title}");
        assert_eq!(section["rows"].as_array().unwrap().len(), 2, "{title}");
        for row in section["rows"].as_array().unwrap() {
            assert!(row["at"].as_f64().unwrap() >= 1.0, "{title}");
            let values: Vec<_> = row["values"].as_array().unwrap().iter().map(|value| value.as_f64()).collect();
            assert_eq!(values.len(), columns.len(), "{title}");
            assert!(values.iter().all(|value| value.is_some_and(|value| value > 0.0)), "{title}: {values:?}");
        }
        assert!(!section["notes"].as_array().unwrap().is_empty(), "{title}");
    }

    let pictures = drawn(&plots);
    assert_eq!(pictures.iter().map(|(name, _)| name.trim_end_matches(".svg")).collect::<Vec<_>>(), PLOTS);
    for plot in json["plots"].as_array().unwrap() {
        let file = format!("{}.svg", plot["name"].as_str().unwrap());
        let (_, svg) = pictures.iter().find(|(name, _)| *name == file).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{file}");
        let mut texts = vec![plot["title"].as_str().unwrap()];
        for panel in plot["panels"].as_array().unwrap() {
            texts.extend(
                [&panel["title"], &panel["x"]["title"], &panel["y"]["title"]].map(|text| text.as_str().unwrap()),
            );
            texts.extend(panel["lines"].as_array().unwrap().iter().map(|line| line["label"].as_str().unwrap()));
        }
        for text in texts {
            let escaped = text.replace('&', "&amp;").replace('\'', "&apos;");
            assert!(svg.contains(&escaped) || svg.contains(text), "{file} lacks {text}");
        }
    }

    // From the report alone, the same again.
    let again = directory.path().join("again");
    let arguments = ["--from", file.to_str().unwrap(), "--plots", again.to_str().unwrap()];
    assert_eq!(report(&arguments), tables);
    assert_eq!(drawn(&again), pictures);
}

#[test]
fn directories_are_measured_per_directory_sync_and_removed_at_the_end() {
    let disk = tempfile::tempdir_in(".").unwrap();
    let place = disk.path().to_str().unwrap();
    let report = report_json(&["--only", "directory", "--quick", "--points", "2", "--disk", place]);
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0);
    let conditions = report["conditions"].as_array().unwrap();
    let place = conditions.iter().find(|condition| condition[0] == "directories").unwrap()[1].as_str().unwrap();
    assert!(place.ends_with(fs::canonicalize(disk.path()).unwrap().to_str().unwrap()), "{place}");

    let [pairs, questions, sessions] = &report["sections"].as_array().unwrap()[..] else { panic!("{report}") };
    let named = |section: &Value, name: &str| -> Vec<Option<f64>> {
        let row = section["rows"].as_array().unwrap().iter().find(|row| row["name"] == name);
        let row = row.unwrap_or_else(|| panic!("no {name} in {section}"));
        row["values"].as_array().unwrap().iter().map(Value::as_f64).collect()
    };
    let rows = [pairs, questions, sessions].map(|section| section["rows"].as_array().unwrap().len());
    assert_eq!(rows, [11, 4, 2]);
    for pipes in ["1 pipe", "8 pipes", "64 pipes"] {
        let syncs = |way: &str| named(pairs, &format!("{way}, {pipes}"))[3].unwrap();
        assert_eq!(syncs("off"), 0.0);
        // Each by itself: of an answer, and of the summaries. How many share one depends on how long the disk takes.
        assert!(syncs("always") >= 1.0, "{pairs}");
        assert!(syncs("group") > 0.0, "{pairs}");
    }
    assert!(named(pairs, "the same statements by SQLite alone, off, 1 thread")[2].unwrap() > 0.0);
    for row in ["off", "group", "always"] {
        assert!(named(questions, row).iter().all(|value| value.is_some_and(|value| value > 0.0)), "{questions}");
    }
    assert_eq!(named(questions, "nobody writes")[2], None);
    for row in ["10", "100"] {
        assert!(named(sessions, row).iter().all(|value| value.is_some_and(|value| value > 0.0)), "{sessions}");
    }
}

#[test]
fn recall_is_measured_with_and_without() {
    let json = report_json(&["--only", "recall", "--quick"]);
    let sections = json["sections"].as_array().unwrap();
    let [questions, index, answers, users, cpu] = &sections[..] else { panic!("{json}") };
    for (section, expected) in [
        (questions, &["memory, 100", "directory, 100", "Redis, 100"][..]),
        (index, &["100"]),
        (answers, &["memory", "directory", "Redis"]),
        (users, &["memory, 100", "directory, 100", "Redis, 100"]),
        (cpu, &["without", "with recall"]),
    ] {
        let rows = section["rows"].as_array().unwrap();
        let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected);
        for row in rows.iter().filter(|row| row["name"] != "without") {
            // What recall adds to a question may be lost in the noise of a busy machine.
            let values = row["values"].as_array().unwrap().iter().take(5);
            assert!(values.into_iter().all(|value| value.as_f64().is_some_and(|value| value > 0.0)), "{row}");
        }
    }
}

#[test]
fn conversations_are_measured_on_every_store() {
    let json = report_json(&["--only", "conversation", "--quick"]);
    let sections = json["sections"].as_array().unwrap();
    let titles: Vec<_> = sections.iter().map(|section| section["title"].as_str().unwrap()).collect();
    for store in ["memory", "directory", "Redis"] {
        assert!(titles.iter().any(|title| title.contains(&format!(", {store}:"))), "{titles:?}");
    }
    for row in sections.iter().flat_map(|section| section["rows"].as_array().unwrap()) {
        let values = row["values"].as_array().unwrap();
        assert!(values.iter().all(|value| value.as_f64().is_some_and(|value| value > 0.0)), "{row}");
    }
    // The figures that do not depend on the machine.
    let prefixes = sections.last().unwrap()["rows"].as_array().unwrap();
    assert_eq!(prefixes.len(), 5);
    for (row, wanted) in prefixes.iter().zip([90.0, 90.0, 75.0, 84.0, 90.0]) {
        assert!(row["values"][0].as_f64().unwrap() >= wanted && row["values"][1].as_f64().unwrap() < 5.0, "{row}");
    }
}

#[test]
fn a_missing_disk_is_refused() {
    let (code, _, errors) = call(&["--only", "directory", "--disk", "no/such/directory"]);
    assert!(code == 1 && errors.contains("can't use no/such/directory"), "{errors}");
}

#[test]
fn a_file_that_is_no_report_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("report.json");
    fs::write(&file, "{\"sections\":[]}").unwrap();
    let file = file.to_str().unwrap();
    let (code, _, errors) = call(&["--from", file]);
    assert!(code == 1 && errors.contains("is not a benchmark report"), "{errors}");
    assert_eq!(call(&["--from", file, "--quick"]).0, 2);
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
