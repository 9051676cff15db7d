//! What `docs/coming-from.md` names is there: commands, options and routes.

use std::{collections::BTreeSet, fs, path::Path};

use keepline_tests::programs::{command, program};

use crate::server::Server;

/// The second column of each row, and the third.
fn rows() -> Vec<(String, String)> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/coming-from.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| there"));
    let rows = rows.map(|line| {
        let columns: Vec<&str> = line.split(" | ").collect();
        assert_eq!(columns.len(), 3, "{line}");
        (columns[1].to_owned(), columns[2].trim_matches(['|', ' ']).to_owned())
    });
    rows.collect()
}

/// The texts in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What `keepline` says of itself.
fn printed(arguments: &[&str]) -> String {
    let mut keepline = command(program("--bin", "keepline"));
    let output = keepline.args(arguments).output().unwrap();
    assert!(output.status.success(), "keepline {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_command_of_the_page_is_there() {
    let mut commands = BTreeSet::new();
    for (here, _) in rows() {
        for part in here.split(';') {
            let names: Vec<&str> = quoted(part).collect();
            let Some(at) = names.iter().position(|name| name.starts_with("keepline ")) else { continue };
            let words: Vec<&str> = names[at].split(' ').skip(1).collect();
            commands.insert(words.join(" "));
            // Its neighbours: `keepline session put`, `get`.
            let plain = |name: &&&str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
            let neighbours = names[at + 1..].iter().take_while(|name| plain(name) && !name.starts_with('-'));
            commands.extend(neighbours.filter(|_| words.len() > 1).map(|name| format!("{} {name}", words[0])));
        }
    }
    assert!(commands.len() > 30, "{commands:?}");
    for command in commands {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        assert!(printed(&words).contains("Usage: keepline"), "{command}");
    }
}

#[test]
fn each_option_of_the_page_is_a_field() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let fields = printed(&["config", "--profile", "chat", "--dir", place, "--set", "recall=user"]);
    let fields: BTreeSet<&str> = fields.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let mut count = 0;
    for (here, _) in rows() {
        let Some((_, options)) = here.split_once("option").filter(|(_, rest)| rest.starts_with([' ', 's'])) else {
            continue;
        };
        let options = options.split(';').next().unwrap();
        for name in quoted(options).filter(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')) {
            assert!(fields.contains(name), "there is no option {name}: {here}");
            count += 1;
        }
    }
    assert!(count > 40, "{count}");
}

#[test]
fn each_route_of_the_page_is_in_the_services_description() {
    let server = Server::of_conversations(&[]);
    let described = server.send_to("GET", "/openapi.json", &[], "").ok();
    let mut count = 0;
    for (here, _) in rows() {
        for name in quoted(&here) {
            let Some((method, path)) = name.split_once(' ') else { continue };
            if !matches!(method, "GET" | "POST" | "PUT" | "PATCH" | "DELETE") {
                continue;
            }
            let operation = &described["paths"][path][method.to_ascii_lowercase()];
            assert!(operation.is_object(), "{name}: {here}");
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn each_row_says_how_it_is_tried() {
    let rows = rows();
    assert!(rows.len() > 100, "{}", rows.len());
    for (here, tried) in rows {
        assert!(matches!(&*tried, "" | "run" | "case" | "pipelines"), "{here}: {tried}");
    }
}
