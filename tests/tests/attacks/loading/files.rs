//! Files that are not regular, too long, or change while they are read.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Command,
};

use keepline_tests::{confined::Confined, programs::program};

use super::{assert_bounded, keepline};

#[test]
fn devices_and_pipes_are_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let link = directory.path().join("link");
    std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
    for path in [PathBuf::from("/dev/zero"), pipe, link, directory.path().to_owned()] {
        for command in [&["inspect"][..], &["run", "--plugin"]] {
            let name = format!("{command:?} {}", path.display());
            let ended = keepline(command, &path);
            assert_bounded(&name, &ended);
            assert!(ended.peak_bytes < 200 << 20, "{name}: {ended:#?}");
            assert_eq!(ended.code, Some(3), "{name}: {ended:#?}");
            assert!(ended.stderr.contains("it is not a regular file"), "{name}: {ended:#?}");
            assert_eq!(ended.stderr.lines().count(), 1, "{name}: {ended:#?}");
        }
    }
}

#[test]
fn a_file_that_is_too_long_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("long.wasm");
    File::create(&path).unwrap().set_len(3 << 30).unwrap();
    let ended = keepline(&["inspect"], &path);
    assert_bounded("long", &ended);
    assert!(ended.peak_bytes < 200 << 20, "{ended:#?}");
    assert_eq!(
        ended.stderr.trim_end().rsplit_once("refused: ").unwrap().1,
        "the plugin has 3221225472 bytes or more; at most 16777216 are allowed (plugin_max_bytes raises that limit)"
    );
}

#[test]
fn a_file_of_unknown_length_is_read_up_to_the_limit() {
    // A regular file of the kernel's, which says that it is empty.
    let ended = keepline(&["inspect"], &PathBuf::from("/proc/kallsyms"));
    assert_bounded("kallsyms", &ended);
    assert_eq!(ended.code, Some(3), "{ended:#?}");
}

#[test]
fn a_default_cache_writable_by_others_is_not_used_and_reported_once() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("keepline");
    fs::create_dir(&cache).unwrap();
    fs::set_permissions(&cache, Permissions::from_mode(0o777)).unwrap();
    let run = |cache_dir: &str| {
        let keepline = Confined::new(program("--bin", "keepline")).env("XDG_CACHE_HOME", directory.path());
        keepline.args(["run", "--set", &format!("cache_dir={cache_dir}")]).input("{\"lane\":\"open\"}\n").run()
    };
    let ended = run("default");
    assert_eq!((ended.code, &*ended.stdout), (Some(0), "{\"lane\":\"open\"}\n"), "{ended:#?}");
    assert_eq!(ended.stderr.matches("others can write to it (mode 0777). Run chmod 700").count(), 1, "{ended:#?}");
    assert!(fs::read_dir(&cache).unwrap().next().is_none());
    // Asked for by name, it is an error.
    let ended = run(cache.to_str().unwrap());
    assert_eq!((ended.code, &*ended.stdout), (Some(3), ""), "{ended:#?}");
    assert!(ended.stderr.contains("Run chmod 700"), "{ended:#?}");
}
