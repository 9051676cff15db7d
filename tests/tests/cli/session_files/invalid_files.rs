//! Incomplete and invalid files.

use super::*;

/// A small session, line by line.
fn good() -> (Place, Vec<String>) {
    let place = Place::directory();
    place.run(&["session", "append", "a", "--question", "?", "--answer", "!", "--id", "m1", "--user", "u"], b"").ok();
    place.run(&["session", "append", "a", "--question", "?", "--answer", "!", "--node", "n1"], b"").ok();
    let lines = place.export(&["a"]).lines().map(str::to_owned).collect();
    (place, lines)
}

/// What is told of a file, of which nothing may arrive.
fn refused(lines: &[String]) -> String {
    let place = Place::directory();
    let ran = place.import(&(lines.join("\n") + "\n"), &[]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(place.export(&["--all"]), "", "{ran:?}");
    ran.err
}

#[test]
fn an_invalid_line_is_reported_by_number_and_its_session_left_out() {
    let (_place, good) = good();
    let at = |what: &str| good.iter().position(|line| line.contains(what)).unwrap();
    let (value, record, entry) =
        (at("\"key\":\"last_answer\",\"value\""), at("\"log\":\"transcript\""), at("\"map\":\"messages\""));
    let node = at("\"node\":{");
    let with = |index: usize, line: &str| {
        let mut lines = good.clone();
        lines[index] = line.to_owned();
        lines
    };
    for (index, line, told) in [
        (value, "{\"key\":\"a b\",\"value\":1}", "\"a b\" can't be a key; allowed are"),
        (value, "{\"key\":\"__meta__\",\"value\":1}", "can't be a key"),
        (value, "{\"key\":\"answer_count\"", "EOF while parsing"),
        (value, "not JSON", "it is not JSON: expected"),
        (
            record,
            "{\"log\":\"transcript\",\"position\":5,\"record\":{}}",
            "position 5, but 0 comes next in the log transcript",
        ),
        (record, "{\"log\":\"other\",\"position\":0,\"record\":{}}", "the header has no log \"other\""),
        (entry, "{\"map\":\"other\",\"key\":\"k\",\"text\":\"1\"}", "the header has no map \"other\""),
        (node, &good[node].replace("\"bucket\":\"h-", "\"bucket\":\"h-x"), "does not name the node"),
        (
            good.len() - 1,
            "{\"end\":\"b\",\"values\":0,\"records\":0,\"entries\":0}",
            "it ends \"b\", but a should end here",
        ),
        (good.len() - 1, "{\"end\":\"a\",\"values\":0,\"records\":0,\"entries\":0}", "lines are missing"),
        (0, &good[0].replace("\"keepline\":1", "\"keepline\":9"), "version 9"),
        (0, &good[0].replace("\"session\":\"a\"", "\"session\":\"a/b\""), "can't be the name of a session"),
    ] {
        let err = refused(&with(index, line));
        assert!(err.contains(&format!("line {}: ", index + 1)) && err.contains(told), "{line}: {err}");
    }
    // A line too many, and one too few.
    let mut twice = good.clone();
    twice.insert(value, good[value].clone());
    assert!(refused(&twice).contains("lines are missing"));
    let end: Value = serde_json::from_str(good.last().unwrap()).unwrap();
    let counted = json!({"end": "a", "values": end["values"].as_u64().unwrap() + 1, "records": end["records"],
                         "entries": end["entries"]});
    *twice.last_mut().unwrap() = counted.to_string();
    assert!(refused(&twice).contains("values or entries of a are duplicates: 1"));
    for missing in [value, record, entry, node] {
        let mut lines = good.clone();
        lines.remove(missing);
        refused(&lines);
    }
}

#[test]
fn a_file_truncated_anywhere_is_noticed() {
    let (_place, good) = good();
    for length in (1..good.len()).step_by(4).chain([good.len() - 1]) {
        let err = refused(&good[..length]);
        assert!(err.contains("session a: the file ends after line"), "{length}: {err}");
        let half = good[length].len() / 2;
        let mut cut = good[..=length].to_vec();
        cut[length].truncate(half);
        refused(&cut);
    }
    assert_eq!(Place::directory().import("", &[]).ok().text(), "0 sessions imported (0 messages)\n");
}

#[test]
fn other_sessions_are_imported_after_an_invalid_one() {
    let place = Place::directory();
    for session in ["a", "b", "c"] {
        place.run(&["session", "create", session], b"").ok();
        place.run(&["session", "put", session, "k", "1"], b"").ok();
    }
    let exported = place.export(&["--all"]);
    let broken = exported.replacen("{\"key\":\"k\",\"value\":1}", "{\"key\":\"k\",\"value\":}", 1);
    let broken = broken.replacen("{\"end\":\"b\"", "{\"ends\":\"b\"", 1);
    let other = Place::directory();
    let told = other.told(&("\u{feff}\n\n".to_owned() + &broken), &[]);
    assert_eq!((&told["imported"], told["left"].as_array().unwrap().len()), (&json!(1), 2), "{told}");
    assert_eq!(other.export(&["--all"]), place.export(&["c"]));
    // Lines that belong to nobody.
    let told = other.told("{\"key\":\"k\",\"value\":1}\nx\n", &["--format", "keepline"]);
    let why = told["left"][0]["why"].as_str().unwrap();
    assert!(why.contains("line 1: it belongs to no session") && told["left"].as_array().unwrap().len() == 1, "{told}");
}

#[test]
fn of_a_repeated_session_the_first_is_imported() {
    let (place, good) = good();
    let first = good.join("\n") + "\n";
    let twice = place.told(&[&*first, &*first].concat(), &["--dry-run", "--replace"]);
    assert_eq!((&twice["already_there"], &twice["left"]), (&json!(2), &json!([])), "{twice}");
    place.run(&["session", "append", "a", "--question", "??", "--answer", "!!", "--node", "n1"], b"").ok();
    let second = place.export(&["a"]);
    for arguments in [&["--dry-run"][..], &["--dry-run", "--replace"], &[], &["--replace"]] {
        let other = Place::directory();
        let ran = other.import(&[&*first, &*second, &*first].concat(), &[arguments, &["--json"]].concat());
        let told = ran.json();
        assert_eq!((ran.code, &told["imported"], &told["already_there"]), (1, &json!(1), &json!(1)), "{told}");
        let why = told["left"][0]["why"].as_str().unwrap();
        let clash = format!("from line 1 and from line {}", good.len() + 1);
        assert!(why.contains(&clash) && told["left"].as_array().unwrap().len() == 1, "{told}");
        if !arguments.contains(&"--dry-run") {
            assert_eq!(other.export(&["a"]), first);
        }
    }
}

#[test]
fn lines_that_are_not_utf8_or_too_long_are_reported_and_others_imported() {
    let place = Place::directory();
    place.run(&["session", "create", "a"], b"").ok();
    let exported = place.export(&["a"]);
    let other = Place::directory();
    let mut bytes = b"{\"key\":\"\xff\"}\n".to_vec();
    bytes.extend(vec![b'x'; (64 << 20) + 10]);
    bytes.push(b'\n');
    bytes.extend(exported.as_bytes());
    let ran = other.run(&["session", "import", "-", "--format", "keepline"], &bytes);
    assert!(ran.code == 1 && ran.err.contains("line 1: it is not UTF-8"), "{ran:?}");
    assert_eq!(other.export(&["a"]), exported);
}

#[test]
fn expired_sessions_are_left_out() {
    let place = Place::directory();
    place.run(&["session", "create", "a"], b"").ok();
    let exported = place.export(&["a"]);
    let header: Value = serde_json::from_str(exported.lines().next().unwrap()).unwrap();
    let old = exported.replace(&header["expires_at"].to_string(), "1700000000000");
    let ran = Place::directory().import(&old, &[]);
    assert!(ran.code == 1 && ran.err.contains("session a: it has expired"), "{ran:?}");
}
