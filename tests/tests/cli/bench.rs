//! The growth part of the bench gives whole tables, whole JSON and whole plots; not which figures.

use std::{fs, path::Path};

use serde_json::Value;

use super::call;

const PLOTS: [&str; 6] =
    ["growth-entry-size", "growth-history", "growth-keys", "growth-masters", "growth-pipes", "growth-sessions"];

/// Two points of each curve.
fn measure(report: &Path, plots: &Path) -> String {
    let (report, plots) = (report.to_str().unwrap(), plots.to_str().unwrap());
    let arguments = ["bench", "--only", "growth", "--quick", "--points", "2", "--output", report, "--plots", plots];
    call(&arguments, b"").ok().text().to_owned()
}

fn drawn(directory: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn grows_in_tables_json_and_plots() {
    let directory = tempfile::tempdir().unwrap();
    let (report, plots) = (directory.path().join("report.json"), directory.path().join("new/plots"));
    let tables = measure(&report, &plots);

    let json: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    let sections = json["sections"].as_array().unwrap();
    assert_eq!(sections.len(), 8);
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
    let arguments = ["bench", "--from", report.to_str().unwrap(), "--plots", again.to_str().unwrap()];
    assert_eq!(call(&arguments, b"").ok().text(), tables);
    assert_eq!(drawn(&again), pictures);
}

#[test]
fn refuses_what_is_no_report() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("report.json");
    fs::write(&file, "{\"sections\":[]}").unwrap();
    let file = file.to_str().unwrap();
    let ran = call(&["bench", "--from", file], b"");
    assert!(ran.code == 1 && ran.err.contains("is not a benchmark report"), "{ran:?}");
    assert_eq!(call(&["bench", "--from", file, "--quick"], b"").code, 2);
}
