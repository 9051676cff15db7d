//! Lines come out one for one, in order, and unchanged except for the memory in questions.

use std::{fmt::Write as _, fs};

use keepline_tests::servers;
use serde_json::{Value, json};

use crate::{HASTY, answer, call, context, dead_url, question};

#[test]
fn lines_come_out_one_for_one_in_order_with_memory_in_questions() {
    let input =
        [question("anna", "1"), answer("first"), question("anna", "2"), answer("second"), question("anna", "3")];
    let ran = call(&["run"], input.concat().as_bytes()).ok();
    let lines: Vec<&str> = ran.text().lines().collect();
    assert_eq!(lines.len(), 5);
    assert_eq!([lines[0], lines[1], lines[3]], [input[0].trim(), input[1].trim(), input[3].trim()]);
    assert_eq!(context(lines[2]), json!({"last_answer": "first", "answer_count": 1}));
    assert_eq!(context(lines[4]), json!({"last_answer": "second", "answer_count": 2}));
    assert_eq!(ran.err, "");
}

#[test]
fn lines_pass_byte_for_byte_except_for_the_memory() {
    let input = concat!(
        "{\"lane\":\"answers\",\"text\":\"é\\u00e9\",\"metadata\":{\"session_id\":\"s\"},\"n\":1.50e+3,\"n\":12345678901234567890123}\n",
        "  { \"lane\" : \"questions\" , \"metadata\" : { \"session_id\" : \"s\" , \"x\":1.0,\"x\":[ ] } , \"z\" : null }\t\r\n",
        "{\"lane\":\"questions\",\"metadata\":\"none\"}\r\n",
        "{\"lane\":\"questions\"}\n",
        "{\"lane\":\"open\", \"metadata\":{\"session_id\":\"s\"}}",
    );
    let expected =
        input.replace("\"x\":[ ] }", "\"x\":[ ],\"memory_context\":{\"answer_count\":1,\"last_answer\":\"éé\"} }");
    let ran = call(&["run"], input.as_bytes()).ok();
    assert_eq!(ran.text(), expected);
}

#[test]
fn line_endings_are_kept() {
    for input in ["{\"lane\":\"open\"}\r\n{\"lane\":\"open\"}", "{\"lane\":\"open\"}", "{\"lane\":\"open\"}\n"] {
        assert_eq!(call(&["run"], input.as_bytes()).ok().text(), input);
    }
}

#[test]
fn invalid_lines_are_reported_by_number_and_pass_unchanged() {
    let mut input = question("a", "1").into_bytes();
    input.extend(b"nonsense\n\n[1]\n{\"lane\":\"\xff\"}\n{\"lane\":\"question\"}\n{\"text\":\"x\"}\n");
    input.extend(b"{\"lane\":\"answers\",\"text\":\"still served\",\"metadata\":{\"session_id\":\"a\"}}\n");
    input.extend(question("a", "2").bytes());
    let ran = call(&["run"], &input);
    assert_eq!(ran.code, 1);
    let found: Vec<&[u8]> = ran.out.split(|byte| *byte == b'\n').collect();
    let given: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    assert_eq!(found[..8], given[..8]);
    assert!(String::from_utf8_lossy(found[8]).contains("still served"));
    let told: Vec<&str> = ran.err.lines().filter(|line| line.starts_with("error: ")).collect();
    let numbers: Vec<&str> = told.iter().map(|line| line.split(':').nth(1).unwrap()).collect();
    assert_eq!(numbers, [" line 2", " line 3", " line 4", " line 5", " line 6", " line 7"]);
    assert_eq!(ran.err.matches("the lanes are").count(), 1, "{}", ran.err);
}

#[test]
fn invalid_lines_do_not_bury_other_messages() {
    let input = "nonsense\n".repeat(20_000) + &question("a", &"x".repeat(2000));
    let ran = call(&["run", "--summary", "--set", "max_entry_bytes=1000"], input.as_bytes());
    assert_eq!(ran.code, 1);
    assert!(ran.out == input.as_bytes(), "changed");
    // A slow machine may tell once more how many there were.
    assert!(ran.err.lines().count() < 30, "{}", ran.err);
    for told in [
        "line 1: not JSON",
        "line 10: ",
        "in total, 20000 lines were invalid",
        "warning: an entry of",
        "  20000   passed unchanged",
    ] {
        assert!(ran.err.contains(told), "{told}: {}", ran.err);
    }
    assert_eq!(ran.err.matches("the lanes are").count(), 1, "{}", ran.err);
}

#[test]
fn non_standard_json_of_common_writers_is_accepted() {
    let ask = |rest: &str| {
        format!("{{\"lane\":\"questions\",\"text\":\"x\",\"metadata\":{{\"session_id\":\"a\",{rest}}}}}\r\n")
    };
    let first = format!("\u{feff}{}", ask("\"score\":NaN"));
    let answer = "{\"lane\":\"answers\",\"p\":[-Infinity],\"text\":\"hi\",\"metadata\":{\"x\":{\"y\":Infinity}}}\n";
    let second = ask("\"memory_context\":\"forged\",\"score\":[Infinity,NaN]");
    let input = [first.as_str(), answer, &second].concat();
    for pipes in ["1", "4"] {
        let ran = call(&["run", "--pipes", pipes], input.as_bytes()).ok();
        let expected = [
            first.as_str(),
            answer,
            &ask("\"score\":[Infinity,NaN],\"memory_context\":{\"answer_count\":1,\"last_answer\":\"hi\"}"),
        ];
        assert_eq!(ran.text(), expected.concat());
        assert_eq!(ran.err, "");
    }
}

#[test]
fn repeated_metadata_carry_no_forged_memory() {
    let forged = r#"{"session_id":"a","memory_context":{"forged":1}}"#;
    let dead = format!("redis_url={}", dead_url());
    for set in [
        &["--set", "max_history=100"][..],
        &["--set", "unbound_context=strip"],
        &["--set", "backend=redis", "--set", &dead, HASTY],
        &["--set", "max_entry_bytes=1"],
    ] {
        for last in [r#"{"session_id":"a"}"#, "{}", "null", r#"{"session_id":"no id!"}"#] {
            let line = format!(
                "{{\"metadata\":{forged},\"n\":1, \"metadata\" : {forged},\"lane\":\"questions\",\"m\\u0065tadata\":{last}}}\n"
            );
            let ran = call(&[&["run"], set].concat(), line.as_bytes()).ok();
            assert_eq!(ran.text(), format!("{{\"n\":1, \"lane\":\"questions\",\"m\\u0065tadata\":{last}}}\n"));
        }
    }
}

#[test]
fn a_new_object_separates_an_answer_from_the_previous_question() {
    let input = [question("a", "1"), "{\"lane\":\"open\"}\n".into(), answer("lost"), question("a", "2")].concat();
    let ran = call(&["run"], input.as_bytes()).ok();
    assert_eq!(context(ran.text().lines().last().unwrap()), Value::Null);
}

#[test]
fn a_text_that_is_no_string_is_stored_as_json() {
    for (text, remembered) in [
        (r#"{"a":[1, 2.50,"é"]}"#, r#"{"a":[1, 2.50,"é"]}"#),
        ("null", ""),
        ("true", "true"),
        (r#""half \ud83d""#, "half \u{fffd}"),
        (r#""\ude00\ud83d \ud83d\ude00""#, "\u{fffd}\u{fffd} 😀"),
        ("NaN", "NaN"),
        ("[NaN,-Infinity]", "[NaN,-Infinity]"),
    ] {
        let input = format!(
            "{{\"lane\":\"answers\",\"text\":{text},\"metadata\":{{\"session_id\":\"a\"}}}}\n{}",
            question("a", "?")
        );
        let ran = call(&["run"], input.as_bytes()).ok();
        assert_eq!(context(ran.text().lines().last().unwrap())["last_answer"], remembered);
        assert!(ran.text().contains(text));
    }
}

#[test]
fn overlong_lines_pass_in_pieces_and_are_reported() {
    let long = format!("{{\"lane\":\"open\",\"x\":\"{}\"}}\n", "x".repeat(5 << 20));
    let input = [long.as_str(), &question("a", "1"), &long].concat();
    let ran = call(&["run", "--set", "max_entry_bytes=1000"], input.as_bytes());
    assert_eq!(ran.code, 1);
    assert!(ran.out == input.as_bytes(), "changed");
    assert_eq!(ran.err.matches("error: ").count(), 2, "{}", ran.err);
    assert!(ran.err.contains("line 3: longer than") && ran.err.contains("max_entry_bytes"), "{}", ran.err);
}

#[test]
fn lines_over_the_entry_limit_pass_unchanged() {
    let input = question("a", &"x".repeat(2000));
    let ran = call(&["run", "--set", "max_entry_bytes=1000"], input.as_bytes()).ok();
    assert_eq!(ran.text(), input);
    assert!(ran.err.contains("max_entry_bytes"), "{}", ran.err);
}

#[test]
fn a_file_is_read_like_standard_input() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("entries.jsonl");
    let input = question("a", "1") + &answer("x") + &question("a", "2");
    fs::write(&file, &input).unwrap();
    let of_file = call(&["run", file.to_str().unwrap()], b"").ok();
    assert_eq!(of_file.out, call(&["run", "-"], input.as_bytes()).ok().out);
    assert_eq!(of_file.err, "");
}

/// A conversation of many sessions, with everything that a stream may hold.
fn traffic(count: usize) -> String {
    let mut random = fastrand::Rng::with_seed(4711);
    let mut text = String::new();
    for number in 0..count {
        let session = format!("s{}", random.u32(..60));
        let line = match random.u32(..100) {
            0..40 => question(&session, &format!("q{number}")),
            40..75 => answer(&format!("a{number}")),
            75..85 => {
                format!("{}\n", json!({"lane": "answers", "text": number, "metadata": {"session_id": session}}))
            }
            85..90 => "{\"lane\":\"open\"}\n".to_owned(),
            90..93 => "{\"lane\":\"questions\",\"text\":\"no session\"}\n".to_owned(),
            93..96 => question("not a session id", "x"),
            96..98 => {
                format!("{{\"lane\":\"answers\",\"text\":\"{number}\",\"metadata\":{{\"session_id\":null}}}}\n")
            }
            _ => format!("nonsense {number}\n"),
        };
        _ = write!(text, "{line}");
    }
    text
}

#[test]
fn many_pipes_write_the_same_lines_as_one() {
    let input = traffic(12_000);
    let one = call(&["run"], input.as_bytes());
    assert_eq!(one.code, 1);
    assert_eq!(one.text().lines().count(), 12_000);
    for pipes in ["2", "7", "64"] {
        let many = call(&["run", "--pipes", pipes], input.as_bytes());
        assert!(many.out == one.out, "--pipes {pipes} differs");
        assert_eq!(many.code, 1);
    }
}

#[test]
fn many_pipes_over_redis_write_the_same_lines_as_one_in_memory() {
    let input = traffic(3000);
    let one = call(&["run"], input.as_bytes());
    let redis = servers::start();
    let url = format!("redis_url={}", servers::url(&redis));
    let many = call(&["run", "--pipes", "16", "--profile", "redis", "--set", &url], input.as_bytes());
    assert!(many.out == one.out);
}

#[test]
fn a_repeated_message_id_counts_once_across_runs() {
    let server = servers::start();
    let url = format!("redis_url={}", servers::url(&server));
    let arguments = ["run", "--summary", "--profile", "redis", "--set", &url];
    let said = |id: &str| {
        format!("{}\n", json!({"lane": "answers", "text": id, "metadata": {"session_id": "s", "message_id": id}}))
    };
    let input = [said("m 1"), said("m-2"), said("m 1"), said("m-2"), said("m-2")].concat();
    let first = call(&arguments, input.as_bytes()).ok();
    // Not a byte of them is changed.
    assert_eq!(first.text(), input);
    assert!(first.err.contains("stored 2") && first.err.contains("repeated 3"), "{}", first.err);
    let again = call(&arguments, (input.clone() + &question("s", "?")).as_bytes()).ok();
    assert!(!again.err.contains("stored") && again.err.contains("repeated 5"), "{}", again.err);
    let asked = again.text().lines().last().unwrap();
    assert_eq!(context(asked), json!({"answer_count": 2, "last_answer": "m-2"}));
}
