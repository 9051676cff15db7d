//! The commands of the README, as they stand there.

use std::{fs, path::Path, process::Command};

use crate::server::Server;

#[test]
fn the_commands_of_the_readme_print_what_it_shows() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&["--profile", "chat", "--dir", folder.path().to_str().unwrap()]);
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
    let (_, section) = readme.split_once("## Over HTTP").unwrap();
    let block = section.split("```").nth(1).unwrap();
    let (mut setup, mut count) = (String::new(), 0);
    for step in block.split("\n$ ").skip(1) {
        let (command, expected) = step.split_once('\n').unwrap_or((step, ""));
        match command {
            command if command.ends_with('&') => continue,
            command if command.starts_with("alias ") => setup = format!("shopt -s expand_aliases\n{command}\n"),
            command => {
                let command = command.replace("localhost:7777", server.address());
                let ran = Command::new("bash").args(["-c", &format!("{setup}{command}")]).output().unwrap();
                let printed = String::from_utf8(ran.stdout).unwrap();
                assert!(fits(printed.trim(), expected.trim()), "{command}\nexpected {expected}\nprinted  {printed}");
                count += 1;
            }
        }
    }
    assert_eq!(count, 4);
}

/// Whether a text is as shown, where `…` stands for anything.
fn fits(text: &str, shown: &str) -> bool {
    let mut rest = text;
    let mut parts = shown.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(after) = rest.strip_prefix(first) else { return false };
    rest = after;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty() || shown.ends_with('…')
}
