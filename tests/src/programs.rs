//! Programs of this build, and processes that run them.

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
    process::{Child, Command},
};

use parking_lot::Mutex;

use crate::until::until;

/// A program of this workspace: `("--bin", "keepline")`, or an example of the library. Cargo tells its place only to tests of the
/// package itself; it is built here, in the profile and the directory of this test, once a process.
pub fn program(kind: &str, name: &str) -> PathBuf {
    // None: it could not be built, and is not tried again for each test.
    static BUILT: Mutex<BTreeMap<String, Option<PathBuf>>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock();
    let program = built.entry(format!("{kind} {name}")).or_insert_with(|| {
        let test = env::current_exe().unwrap();
        // target/<profile>/deps/cli-<hash>
        let directory = test.parent().and_then(Path::parent).unwrap();
        let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // With the features of the whole workspace, as these tests were built.
        build.args(["build", "--quiet", "--workspace", kind, name, "--target-dir"]);
        build.arg(directory.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
        // What cargo told this test of its own package would have build scripts of others run again.
        for (name, _) in env::vars_os() {
            if ["CARGO_PKG_", "CARGO_MANIFEST_", "OUT_DIR"].iter().any(|of| name.to_string_lossy().starts_with(of)) {
                build.env_remove(name);
            }
        }
        let profile = directory.file_name().unwrap().to_str().unwrap();
        build.args(["--profile", if profile == "debug" { "dev" } else { profile }]);
        let place = if kind == "--example" { directory.join("examples") } else { directory.to_owned() };
        build.status().unwrap().success().then(|| place.join(name))
    });
    program.clone().unwrap_or_else(|| panic!("{name} could not be built"))
}

/// The program, as a process that is the same whoever runs the tests: of this one's environment it sees where
/// programs and files are, but no configuration, language or terminal; and no signal is ignored, as this one may
/// (`nohup`, a background job of a script).
pub fn command(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("/usr/bin/env");
    command.arg("--default-signal").arg(program.as_ref()).env_clear();
    let kept = ["PATH", "HOME", "TMPDIR"].into_iter().filter_map(|name| Some((name, env::var_os(name)?)));
    command.envs(kept);
    // A compiler of a test build takes 5 s of its 10, and on a busy machine twice that.
    command.env("KEEPLINE_PLUGIN_COMPILE_MS", "60000");
    command
}

/// Send a signal: `-TERM`.
pub fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// The exit code, in time; none: a signal ended it.
pub fn end(child: &mut Child) -> Option<i32> {
    let status = until("it ends", || child.try_wait().unwrap());
    status.code()
}

/// A number from a file of `/proc/<id>/`; 0 when the process is gone.
pub fn number(child: &Child, file: &str, name: &str, radix: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/{file}", child.id())).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.map_or(0, |value| u64::from_str_radix(value.trim(), radix).unwrap())
}

/// Until the process has a handler for SIGTERM.
pub fn until_it_listens(child: &Child) {
    const SIGTERM: u64 = 1 << 14;
    until("it listens to signals", || (number(child, "status", "SigCgt:", 16) & SIGTERM != 0).then_some(()));
}

/// Until the process waits for something that does not come by itself: all its threads sleep, and none has
/// computed since the last look.
pub fn until_it_rests(child: &Child) {
    let mut before = None;
    until("it rests", || {
        // A thread that watches the time wakes up now and then, and computes for less than is counted.
        let now = threads(child.id())?;
        let rests = now.iter().all(|thread| thread.sleeps) && before.as_ref() == Some(&now);
        before = Some(now);
        rests.then_some(())
    });
}

#[derive(PartialEq, Eq)]
struct Thread {
    id: String,
    sleeps: bool,
    /// Ticks of the processor's time.
    computed: u64,
}

/// None: it has none any more.
fn threads(process: u32) -> Option<Vec<Thread>> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let thread = |task: io::Result<fs::DirEntry>| {
        let stat = fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
        let (head, tail) = stat.rsplit_once(") ")?;
        let fields: Vec<_> = tail.split(' ').collect();
        let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
        let id = head.split(' ').next()?.to_owned();
        Some(Thread { id, sleeps: fields.first() == Some(&"S"), computed: ticks(11)? + ticks(12)? })
    };
    tasks.map(thread).collect()
}

/// The living children of a process that run a program of that name.
pub fn children(parent: u32, name: &str) -> Vec<u32> {
    let processes =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let is_one = |id: &u32| status(*id).is_some_and(|(comm, parent_id)| comm == name && parent_id == parent);
    processes.filter(is_one).collect()
}

/// Whether a process is at work, or could be.
pub fn is_alive(id: u32) -> bool {
    status(id).is_some()
}

/// Name and parent; none: it is gone, or dead and not yet buried.
fn status(id: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (head, tail) = stat.rsplit_once(") ")?;
    let mut fields = tail.split(' ');
    if matches!(fields.next(), Some("Z" | "X")) {
        return None;
    }
    Some((head.split_once('(')?.1.to_owned(), fields.next()?.parse().ok()?))
}
