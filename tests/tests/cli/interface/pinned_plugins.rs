//! Pinned plugins: `keepline plugin` pins the bytes of a component, and `--plugin @NAME` runs these bytes or nothing.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, thread};

use keepline_tests::guests::HOSTILE;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Ran, answer, call, call_with, context, question};

/// A folder with a trust file and a component.
struct Place {
    folder: TempDir,
    trust: String,
    file: String,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (trust, file) = (path("trust/plugins.json"), path("keepline.wasm"));
        fs::write(&file, keepline::plugin::BUNDLED).unwrap();
        Self { folder, trust, file }
    }

    fn call(&self, arguments: &[&str]) -> Ran {
        call(&[arguments, &["--trust", &self.trust]].concat(), b"")
    }

    fn pinned() -> Self {
        let place = Self::new();
        place.call(&["plugin", "add", "mine", &place.file, "--yes"]).ok();
        place
    }
}

/// Puts other bytes in its place at once.
fn replace(file: &str, bytes: &[u8]) {
    let new = format!("{file}.new");
    fs::write(&new, bytes).unwrap();
    fs::rename(&new, file).unwrap();
}

#[test]
fn a_plugin_is_shown_and_pinned_and_runs_by_its_name() {
    let place = Place::new();
    let bundled = call(&["inspect", "--json"], b"").ok().json();
    let shown = place.call(&["plugin", "add", "mine", &place.file, "--yes", "--json"]).ok().json();
    let pin = json!({"name": "mine", "sha256": bundled["sha256"], "source": place.file});
    assert_eq!(shown["pin"], pin);
    for member in ["imports", "sha256", "limits", "sandbox"] {
        assert_eq!(shown[member], bundled[member], "{member}");
    }
    assert_eq!(shown["sandbox"]["sandbox_cpu_ms"], 1000);
    let mode = fs::metadata(&place.trust).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    assert_eq!(place.call(&["plugin", "list", "--json"]).ok().json(), json!({"plugins": [pin]}));
    let text = place.call(&["plugin", "show", "mine", "--set", "sandbox_cpu_ms=777"]).ok();
    for part in ["wasi:clocks/wall-clock", bundled["sha256"].as_str().unwrap(), "777\tsandbox_cpu_ms"] {
        assert!(text.text().contains(part), "{part}: {}", text.text());
    }
    let verified = place.call(&["plugin", "verify", "--json"]).ok().json();
    assert_eq!(verified["plugins"][0]["unchanged"], true);

    let input = question("a", "1") + &answer("x") + &question("a", "2");
    let ran = call(&["run", "--plugin", "@mine", "--trust", &place.trust], input.as_bytes()).ok();
    assert_eq!(context(ran.text().lines().last().unwrap())["last_answer"], "x");
    let environment = [("KEEPLINE_PLUGIN", "@mine"), ("KEEPLINE_TRUST", &*place.trust)];
    assert_eq!(call_with(&environment, &["inspect", "--json"]).ok().json()["pin"], pin);
    let home = place.folder.path().to_str().unwrap();
    let of_home = [("XDG_CONFIG_HOME", home)];
    call_with(&of_home, &["plugin", "add", "other", &place.file, "--yes"]).ok();
    assert!(Path::new(home).join("keepline/plugins.json").exists());

    place.call(&["plugin", "remove", "mine"]).ok();
    let ran = place.call(&["run", "--plugin", "@mine"]);
    assert!(ran.code == 2 && ran.err.contains("no plugin \"mine\" is pinned in"), "{ran:?}");
}

#[test]
fn a_changed_plugin_is_refused_by_name_with_both_digests_and_what_to_do() {
    let place = Place::pinned();
    let pinned = keepline::plugin::sha256(keepline::plugin::BUNDLED);
    let mut flipped = keepline::plugin::BUNDLED.to_vec();
    *flipped.last_mut().unwrap() ^= 1;
    let grown = [keepline::plugin::BUNDLED, b"\0"].concat();
    // What would ask for more, what no parser should see, and what differs in one bit.
    let more = wat::parse_str("(component (import \"wasi:filesystem/types@0.2.3\" (instance)))").unwrap();
    for bytes in [HOSTILE, &more, b"nonsense", b"", &flipped, &grown] {
        replace(&place.file, bytes);
        for command in [&["run"][..], &["config"], &["session", "list"], &["inspect"], &["serve"]] {
            let ran = place.call(&[command, &["--plugin", "@mine"]].concat());
            assert_eq!((ran.code, ran.text()), (3, ""), "{command:?}: {ran:?}");
            for part in ["@mine", &*pinned, &*keepline::plugin::sha256(bytes), "keepline plugin remove mine"] {
                assert!(ran.err.contains(part), "{part}: {ran:?}");
            }
        }
        let ran = place.call(&["plugin", "verify", "mine"]);
        assert!(ran.code == 3 && ran.text().starts_with("mine\trefused\t") && ran.err.contains(&pinned), "{ran:?}");
    }
    fs::remove_file(&place.file).unwrap();
    let ran = place.call(&["run", "--plugin", "@mine"]);
    assert!(ran.code == 3 && ran.err.contains("@mine") && ran.err.contains("No such file"), "{ran:?}");
    replace(&place.file, keepline::plugin::BUNDLED);
    place.call(&["plugin", "verify", "mine"]).ok();
}

#[test]
fn a_plugin_that_is_swapped_while_it_is_loaded_is_never_another_one() {
    const RUNS: usize = 20;
    let place = Place::pinned();
    let input = question("a", "1") + &answer("x") + &question("a", "2");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for bytes in [HOSTILE, keepline::plugin::BUNDLED].into_iter().cycle() {
                replace(&place.file, bytes);
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..RUNS {
            let ran = call(&["run", "--plugin", "@mine", "--trust", &place.trust], input.as_bytes());
            match ran.code {
                // The other one remembers nothing.
                0 => assert_eq!(context(ran.text().lines().last().unwrap())["last_answer"], "x"),
                _ => assert!(ran.code == 3 && ran.out.is_empty() && ran.err.contains("has changed"), "{ran:?}"),
            }
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn nothing_is_pinned_that_nobody_confirmed_or_that_would_not_be_loaded() {
    let place = Place::new();
    let ran = place.call(&["plugin", "add", "mine", &place.file]);
    assert!(ran.code == 2 && ran.err.contains("use --yes to confirm"), "{ran:?}");
    assert!(ran.text().contains("wasi:clocks/wall-clock"), "what would be pinned is shown: {ran:?}");
    let ran = place.call(&["plugin", "add", "mine", &place.file, "--json"]);
    assert!(ran.code == 2 && ran.out.is_empty() && ran.err.contains("--yes"), "{ran:?}");
    for name in ["", "Mine", "a b", "../x", "a_b", &"a".repeat(65)] {
        let ran = place.call(&["plugin", "add", name, &place.file, "--yes"]);
        assert!(ran.code == 2 && ran.err.contains("1 to 64 characters out of a-z, 0-9 and '-'"), "{ran:?}");
    }
    let foreign = place.folder.path().join("foreign.wasm");
    let component = wat::parse_str("(component (import \"wasi:filesystem/types@0.2.3\" (instance)))").unwrap();
    fs::write(&foreign, component).unwrap();
    let ran = place.call(&["plugin", "add", "mine", foreign.to_str().unwrap(), "--yes"]);
    assert!(ran.code == 3 && ran.err.contains("wasi:filesystem/types@0.2.3"), "{ran:?}");
    let fifo = place.folder.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let ran = place.call(&["plugin", "add", "mine", fifo.to_str().unwrap(), "--yes"]);
    assert!(ran.code == 3 && ran.err.contains("not a regular file"), "{ran:?}");
    assert_eq!(place.call(&["plugin", "list", "--json"]).ok().json(), json!({"plugins": []}));

    // A name that is taken stands for what it stood for.
    place.call(&["plugin", "add", "mine", &place.file, "--yes"]).ok();
    let before: Value = serde_json::from_slice(&fs::read(&place.trust).unwrap()).unwrap();
    replace(&place.file, HOSTILE);
    let ran = place.call(&["plugin", "add", "mine", &place.file, "--yes"]);
    assert!(ran.code == 2 && ran.err.contains("keepline plugin remove mine"), "{ran:?}");
    assert_eq!(serde_json::from_slice::<Value>(&fs::read(&place.trust).unwrap()).unwrap(), before);
}
