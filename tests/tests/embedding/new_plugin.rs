//! `keepline new plugin`: its project builds outside the workspace, without a network, and its filter keeps what hosts rely on.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use keepline::{Sandbox, plugin};
use keepline_tests::programs::{self, program};

use super::{host_kit::assert_kit_passes, replacement::loaded};

/// Beside what the workspace builds, so that what a project depends on is compiled once.
fn place() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("new-plugin");
    fs::create_dir_all(&place).unwrap();
    place
}

/// Cargo as its author runs it: what this cargo has told this test is not for it.
fn cargo(project: &Path, arguments: &[&str]) -> String {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if (text.starts_with("CARGO") && text != "CARGO_HOME")
            || text.starts_with("KEEPLINE")
            || text.starts_with("RUSTFLAGS")
        {
            cargo.env_remove(name);
        }
    }
    cargo.args(arguments).current_dir(project).env("CARGO_TARGET_DIR", place().join("target"));
    cargo.env("CARGO_NET_OFFLINE", "true").env("CARGO_INCREMENTAL", "0");
    let ran =
        cargo.env("KEEPLINE", program("--bin", "keepline")).env("KEEPLINE_STORE_TIMEOUT_MS", "30000").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{arguments:?}: {out}{err}");
    out.into_owned()
}

#[tokio::test]
async fn a_new_plugin_builds_offline_redacts_card_numbers_and_passes_the_host_kit() {
    let project = place().join("card-filter");
    let _ = fs::remove_dir_all(&project);
    let mut new = programs::command(program("--bin", "keepline"));
    let made = new.args(["new", "plugin", "card-filter"]).current_dir(place()).output().unwrap();
    assert!(made.status.success(), "{made:?}");

    // In `keepline`: a card number in the store, and the cases of the kit that lines can say.
    let tested = cargo(&project, &["test"]);
    assert!(tested.contains("card_numbers_are_redacted_before_they_are_stored ... ok"), "{tested}");
    assert!(tested.contains("the_host_kit_passes ... ok"), "{tested}");

    let built = cargo(&project, &["run"]);
    assert!(built.contains("card-filter.wasm"), "{built}");
    let component = fs::read(project.join("card-filter.wasm")).unwrap();
    assert_eq!(
        component,
        fs::read(place().join("target/tmp/card-filter.wasm")).unwrap(),
        "the same sources give the same bytes"
    );
    let (own, bundled) = (inspection(&component), inspection(plugin::BUNDLED));
    assert_eq!((own.imports, own.exports, own.refusal), (bundled.imports, bundled.exports, None));
    // All of the kit, in the library.
    assert_kit_passes(&loaded(&component)).await;
}

fn inspection(component: &[u8]) -> plugin::Inspection {
    plugin::inspect(component, &Sandbox::default()).unwrap()
}
