//! Directories that can't be used are refused with the reason and a remedy.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::FileExt as _,
    path::Path,
};

use super::{Ran, call, call_with, place, question, run};

fn assert_refused(ran: &Ran, told: &[&str]) {
    assert!(ran.code == 2 && ran.out.is_empty(), "{ran:?}");
    assert!(told.iter().all(|text| ran.err.contains(text)), "{told:?}: {ran:?}");
    assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
}

fn database(path: &str) -> std::path::PathBuf {
    Path::new(path).join("keepline.db")
}

#[test]
fn a_file_is_refused() {
    let (_parent, path) = place();
    fs::write(&path, "precious").unwrap();
    assert_refused(&run(&path, &question("a", "?")), &[&path, "can't be used"]);
    assert_refused(&call(&["session", "list", "--dir", &path], b""), &[&path]);
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn a_directory_that_can_not_be_created_is_refused() {
    assert_refused(&run("/proc/keepline", &question("a", "?")), &["/proc/keepline"]);
}

#[test]
fn a_missing_path_is_refused() {
    let environment = [("KEEPLINE_BACKEND", "directory"), ("KEEPLINE_DIRECTORY", "")];
    for ran in [call(&["run", "--set=backend=directory"], b""), call_with(&environment, &["run"])] {
        assert_refused(&ran, &["directory is empty", "needs one", "--dir"]);
    }
    let ran = call(&["run", "--dir", ""], question("a", "?").as_bytes());
    assert!(ran.code == 2 && ran.out.is_empty() && ran.err.contains("--dir <PATH>"), "{ran:?}");
}

#[test]
fn two_directories_or_another_backend_are_refused() {
    let (_parent, path) = place();
    for other in ["backend=redis", "backend=memory", "directory=elsewhere"] {
        assert_refused(&call(&["run", "--dir", &path, "--set", other], b""), &["--dir", other]);
        assert_refused(&call(&["--set", other, "run", "--dir", &path], b""), &["--dir", other]);
    }
    assert!(!Path::new(&path).exists());
}

#[test]
fn another_programs_database_is_refused() {
    let (_parent, path) = place();
    fs::create_dir(&path).unwrap();
    let foreign = "not a database, but something precious; ".repeat(200);
    fs::write(database(&path), &foreign).unwrap();
    assert_refused(&run(&path, &question("a", "?")), &["not a Keepline store", "choose an empty directory"]);
    for care in [&["check"][..], &["compact"], &["repair"], &["backup", "elsewhere"]] {
        assert_refused(&call(&[&["store", "--dir", &path], care].concat(), b""), &["not a Keepline store"]);
    }
    assert_eq!(fs::read_to_string(database(&path)).unwrap(), foreign);
}

#[test]
fn a_later_releases_database_is_refused() {
    let (_parent, path) = place();
    call(&["session", "create", "a", "--dir", &path], b"").ok();
    // Where an SQLite database has its user's version.
    OpenOptions::new().write(true).open(database(&path)).unwrap().write_all_at(&[0, 0, 0, 99], 60).unwrap();
    let before = fs::read(database(&path)).unwrap();
    let told = ["version 99", "use the release that wrote it"];
    assert_refused(&run(&path, &question("a", "?")), &told);
    assert_refused(&call(&["store", "check", "--dir", &path], b""), &told);
    assert_eq!(fs::read(database(&path)).unwrap(), before);
}

#[test]
fn maintenance_of_a_directory_without_a_store_is_refused() {
    let (_parent, path) = place();
    for care in [&["check"][..], &["compact"], &["repair"], &["backup", "elsewhere"]] {
        assert_refused(&call(&[&["store", "--dir", &path], care].concat(), b""), &["there is no store in", &path]);
    }
    assert!(!Path::new(&path).exists());
    for environment in [&[][..], &[("KEEPLINE_PROFILE", "redis")]] {
        assert_refused(&call_with(environment, &["store", "compact"]), &["keepline store", "--dir PATH"]);
    }
}

/// Also for scripts.
#[test]
fn refusals_have_a_code_for_scripts() {
    let (_parent, path) = place();
    File::create(&path).unwrap();
    let ran = call(&["session", "list", "--json", "--dir", &path], b"");
    let told: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!((ran.code, &told["error"]["code"]), (2, &serde_json::json!("configuration")));
}
