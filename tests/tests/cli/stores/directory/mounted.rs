//! Directories on read-only or full file systems, mounted in a namespace of the test.

use std::{fs, process::Command};

use super::{Ran, answer, finish, keepline, memory, place, question, run};

/// Runs a command after a script that mounts something for it alone; none: this machine permits no mounts.
fn mounted(script: &str, arguments: &[&str], input: &[u8]) -> Option<Ran> {
    let own = ["--mount", "--map-root-user"];
    if !Command::new("unshare").args(own).arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no mounts may be made here");
        return None;
    }
    let program = keepline(arguments.iter().copied());
    let mut command = Command::new("unshare");
    command.args(own).args(["sh", "-ec", &format!("{script}\nexec \"$@\""), "sh"]);
    command.arg(program.get_program()).args(program.get_args()).env_clear();
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let piped = std::process::Stdio::piped;
    command.stdin(piped()).stdout(piped()).stderr(piped());
    Some(finish(command.spawn().unwrap(), input))
}

#[test]
fn a_read_only_directory_is_refused_and_unchanged() {
    let (_parent, path) = place();
    run(&path, &(question("a", "1") + &answer("one"))).ok();
    let database = format!("{path}/keepline.db");
    let before = fs::read(&database).unwrap();
    let read_only = format!("mount --bind '{path}' '{path}' && mount -o remount,bind,ro '{path}'");
    let input = question("a", "2");
    for arguments in [
        &["run", "--dir", &path][..],
        &["session", "list", "--dir", &path],
        &["store", "check", "--dir", &path],
        &["migrate", "--set=backend=redis", "--to-dir", &path],
        // One that is not there yet.
        &["run", "--dir", &format!("{path}/new")],
    ] {
        let Some(ran) = mounted(&read_only, arguments, input.as_bytes()) else { return };
        assert!(ran.code == 2 && ran.out.is_empty(), "{arguments:?}: {ran:?}");
        let told = "is read-only: a store needs to write there; change its permissions or choose another directory";
        assert!(ran.err.contains(told), "{arguments:?}: {ran:?}");
        assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    }
    assert_eq!(fs::read(&database).unwrap(), before);
    assert_eq!(memory(&path, "a")["last_answer"], "one");
}

#[test]
fn a_read_only_file_in_it_is_refused() {
    let (_parent, path) = place();
    run(&path, &(question("a", "1") + &answer("one"))).ok();
    let file = format!("{path}/keepline.db");
    let read_only = format!("mount --bind '{file}' '{file}' && mount -o remount,bind,ro '{file}'");
    let Some(ran) = mounted(&read_only, &["run", "--dir", &path], question("a", "2").as_bytes()) else { return };
    assert!(ran.code == 2 && ran.out.is_empty() && ran.err.contains("is read-only"), "{ran:?}");
}

#[test]
fn a_full_disk_costs_memory_but_no_entry() {
    let (_parent, path) = place();
    let long = "x".repeat(100_000);
    let input = question("a", "1") + &answer("one") + &(0..60).map(|_| answer(&long)).collect::<String>();
    let small = format!("mkdir '{path}' && mount -t tmpfs -o size=2m none '{path}'");
    let arguments = ["run", "--dir", &path, "--set=max_history=100000"];
    let different: String = (0..60).map(|n| question(&format!("s{n}"), "?") + &answer(&long)).collect();
    let Some(ran) = mounted(&small, &arguments, (input.clone() + &different).as_bytes()) else { return };
    let ran = ran.ok();
    let lanes = |text: &str| text.lines().map(|line| line.contains("\"questions\"")).collect::<Vec<_>>();
    assert_eq!(lanes(ran.text()), lanes(&(input + &different)));
    assert!(ran.err.contains("warning: "), "{}", ran.err);
    assert!(ran.err.lines().count() < 60, "{}", ran.err);
}
