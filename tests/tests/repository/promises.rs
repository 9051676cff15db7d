//! Every guarantee and every limit that the documentation states names a test, and the tests that it names exist.

use std::{
    fs,
    path::{Path, PathBuf},
};

const GUARANTEES: &str = "docs/guarantees.md";
const SECURITY: &str = "SECURITY.md";

#[test]
fn every_guarantee_names_a_test() {
    let text = read(GUARANTEES);
    let (guarantees, _) = text.split_once("\n## ").unwrap();
    let all: Vec<&str> = guarantees.split("\n- ").skip(1).collect();
    assert!(all.len() > 20, "only {} guarantees were found", all.len());
    assert_each_names_a_test(&all);
}

#[test]
fn every_limit_names_a_test() {
    let text = read(SECURITY);
    let reach = section(&text, "## What a plugin can reach");
    let cost = section(&text, "## What a plugin can cost");
    let mut all: Vec<&str> = reach.split("\n- ").skip(1).collect();
    // A table's first two lines are its head.
    let tables = cost.split("\n\n").filter(|block| block.trim_start().starts_with('|'));
    all.extend(tables.flat_map(|table| table.trim().lines().skip(2)));
    assert!(all.len() > 35, "only {} limits were found", all.len());
    assert_each_names_a_test(&all);
}

#[test]
fn every_test_that_the_documentation_names_exists() {
    let named: Vec<String> = [GUARANTEES, SECURITY].iter().flat_map(|page| tests_in(&read(page))).collect();
    assert!(named.len() > 100, "only {} tests are named", named.len());
    let missing: Vec<&String> = named.iter().filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "these tests are named and don't exist: {missing:#?}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap()
}

/// A section of a page, up to the next heading of the same level.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let (_, section) = text.split_once(heading).unwrap();
    section.split("\n## ").next().unwrap()
}

fn assert_each_names_a_test(all: &[&str]) {
    let without: Vec<&&str> = all.iter().filter(|one| tests_in(one).is_empty()).collect();
    assert!(without.is_empty(), "these name no test: {without:#?}");
}

/// The tests in a text: in backticks, a file and a function or a case. Types and their members are none.
fn tests_in(text: &str) -> Vec<String> {
    let code = text.split('`').skip(1).step_by(2);
    let is_test = |code: &&str| code.contains("::") && !code.starts_with(char::is_uppercase);
    code.filter(is_test).map(str::to_owned).collect()
}

/// A file is in `tests/tests/`, or has a path from the root of the repository; the cases of a kit are in a JSON file.
fn exists(name: &str) -> bool {
    let (file, function) = name.split_once("::").unwrap();
    let has = |path: PathBuf, needles: &[String]| {
        fs::read_to_string(path).is_ok_and(|text| needles.iter().any(|needle| text.contains(needle.as_str())))
    };
    if file.ends_with(".json") {
        return has(root().join(file), &[format!("\"name\": \"{function}\"")]);
    }
    let function = [format!("fn {function}("), format!("fn {function}<")];
    let [own, other] = [format!("tests/tests/{file}"), file.to_owned()];
    let files = [
        format!("{own}.rs"),
        format!("{own}/main.rs"),
        format!("{own}/mod.rs"),
        format!("{other}.rs"),
        format!("{other}/mod.rs"),
    ];
    files.iter().any(|file| has(root().join(file), &function))
}
