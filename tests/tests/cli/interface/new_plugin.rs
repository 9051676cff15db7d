//! `keepline new plugin`: names and places that it refuses. What it makes is tested in `embedding/new_plugin`.

use std::{fs, path::Path, process::Command};

use keepline_tests::programs::program;

use crate::{Ran, finish, keepline};

fn new_plugin(folder: &Path, name: &str) -> Ran {
    finish(keepline(["new", "plugin", "--", name]).current_dir(folder).spawn().unwrap(), b"")
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_project_has_its_name_and_the_crates_of_this_build() {
    let folder = tempfile::tempdir().unwrap();
    let made = new_plugin(folder.path(), "card-filter").ok();
    assert!(made.out.is_empty() && made.err.contains("cargo run"), "{made:?}");
    assert_eq!(names(folder.path()), ["card-filter"]);
    let project = folder.path().join("card-filter");
    for file in ["README.md", ".gitignore", "src/lanes.rs", "keepline/wit/world.wit", "keepline/guest/src/lib.rs"] {
        assert!(project.join(file).is_file(), "{file}");
    }
    let manifest = fs::read_to_string(project.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"card-filter\"") && !manifest.contains("PLUGIN_NAME"), "{manifest}");
    let ours = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest/src/lib.rs")).unwrap();
    assert_eq!(fs::read(project.join("keepline/guest/src/lib.rs")).unwrap(), ours);
}

#[test]
fn names_that_no_crate_may_have_are_refused_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["", "Cards", "a b", "../x", "/tmp/x", "a/b", "1st", "-x", "a_b", "é", ".", &"a".repeat(65)] {
        let ran = new_plugin(folder.path(), name);
        let allowed = "1 to 64 characters out of a-z, 0-9 and '-', the first a letter";
        assert!(ran.code == 2 && ran.err.contains(allowed) && ran.err.lines().count() == 1, "{name}: {ran:?}");
    }
    for name in ["fn", "test", "core", "keepline-filter", "wit-component", "plugin"] {
        let ran = new_plugin(folder.path(), name);
        assert!(ran.code == 2 && ran.err.contains("choose another name"), "{name}: {ran:?}");
    }
    assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
}

#[test]
fn what_is_there_already_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("empty")).unwrap();
    fs::write(at("file"), "mine").unwrap();
    std::os::unix::fs::symlink("/nowhere", at("link")).unwrap();
    for name in ["empty", "file", "link"] {
        let ran = new_plugin(folder.path(), name);
        assert!(ran.code == 2 && ran.err.contains(&format!("{name} is there already")), "{ran:?}");
    }
    assert_eq!(fs::read_to_string(at("file")).unwrap(), "mine");
    assert_eq!((fs::read_dir(at("empty")).unwrap().count(), names(folder.path()).len()), (0, 3));
}

#[test]
fn on_a_full_disk_nothing_half_made_is_left() {
    let own = ["--mount", "--map-root-user"];
    if !Command::new("unshare").args(own).arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no mounts may be made here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o size=256k none "$1"; cd "$1"; "$2" new plugin cards || echo "exit $?"; ls -A"#;
    let mut command = Command::new("unshare");
    command.args(own).args(["sh", "-ec", script, "sh"]).arg(folder.path()).arg(program("--bin", "keepline"));
    let ran = command.output().unwrap();
    let err = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "exit 1\n", "{err}");
    assert!(err.contains("can't make the project cards") && err.contains("No space left"), "{err}");
}
