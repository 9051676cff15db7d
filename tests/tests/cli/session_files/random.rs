//! Random conversations come out of each store as they went in.

use fastrand::Rng;
use keepline_tests::random;

use super::*;

/// Texts that are hard to carry.
const TEXTS: [&str; 8] =
    ["", "plain", "line\nbreak\r\n", "\u{202e}\u{2028}\u{0}\t", "\"quoted\\\"", "Köln 🚂", "{\"v\":1}", "</s> ]"];

fn text(rng: &mut Rng) -> String {
    let text = TEXTS[rng.usize(..TEXTS.len())];
    if rng.u8(..8) == 0 { text.repeat(rng.usize(1..4000)) } else { format!("{text}{}", rng.u16(..)) }
}

fn line(lane: &str, members: Value) -> String {
    let mut line = members;
    line["lane"] = lane.into();
    format!("{line}\n")
}

/// Turns of a session, in its own transcript and in those of nodes, with tools, branches, files and repetitions.
fn turns(rng: &mut Rng, session: &str) -> String {
    let mut input = String::new();
    let owner = rng.bool().then(|| text(rng));
    for number in 0..rng.usize(1..14) {
        let mut metadata = json!({"session_id": session});
        if let Some(owner) = &owner {
            metadata["user_id"] = owner.as_str().into();
        }
        if rng.u8(..4) == 0 {
            metadata["memory_mode"] = "node".into();
            metadata["node_id"] = text(rng).into();
            metadata["app_id"] = if rng.bool() { "app".into() } else { Value::Null };
        }
        if rng.bool() {
            metadata["message_id"] = format!("q{number}").into();
        }
        if rng.u8(..3) == 0 {
            metadata["parent_message_id"] = format!("a{}", rng.usize(..=number)).into();
        }
        if rng.u8(..4) == 0 {
            metadata["files"] = json!([{"type": "image", "url": text(rng)}]);
        }
        input += &line("questions", json!({"text": text(rng), "metadata": metadata}));
        for call in 0..rng.usize(..3) {
            let id = format!("c{call}");
            input += &line("tools", json!({"tool": {"call_id": id, "name": "look", "arguments": {"text": text(rng)}}}));
            match rng.u8(..5) {
                0 => {}
                1 => input += &line("tools", json!({"tool": {"call_id": id, "error": text(rng)}})),
                2 => input += &line("tools", json!({"tool": {"call_id": id, "output": "long ".repeat(20_000)}})),
                _ => input += &line("tools", json!({"tool": {"call_id": id, "output": text(rng)}})),
            }
        }
        let metadata = if rng.bool() { json!({"message_id": format!("a{number}")}) } else { json!({}) };
        input += &line("answers", json!({"text": text(rng), "metadata": metadata}));
    }
    input
}

/// A session whose turns are all of nodes is not there itself.
fn done_if_there(ran: Ran) -> Ran {
    assert!(ran.code == 0 || ran.err.contains("not found"), "{ran:?}");
    ran
}

#[test]
fn random_sessions_are_the_same_in_every_store() {
    let server = RedisServer::start().unwrap();
    for seed in random::seeds(1) {
        let mut rng = Rng::with_seed(seed);
        let (place, other, last) = (Place::directory(), Place::redis(&server), Place::directory());
        let mut input = String::new();
        for session in ["s1", "s2", "s3"] {
            input += &turns(&mut rng, session);
        }
        // Small windows, so that there are summaries.
        place.run(&["run", "--set", "max_context_tokens=200"], input.as_bytes()).ok();
        for session in ["s1", "s2"] {
            for _ in 0..2 {
                let position = rng.u64(..12).to_string();
                // Not each of them is there.
                place.run(&["session", "remove", session, &position], b"");
            }
            done_if_there(place.run(&["session", "put", session, "k", "-", "--text"], text(&mut rng).as_bytes()));
            done_if_there(place.run(&["session", "upkeep", session, "--set", "max_context_tokens=200"], b""));
        }
        let exported = place.export(&["--all"]);
        assert!(exported.contains("\"log\":\"transcript\""), "KEEPLINE_SEED={seed}");
        other.import(&exported, &[]).ok();
        assert!(other.export(&["--all"]) == exported, "KEEPLINE_SEED={seed}: in Redis");
        last.import(&other.export(&["--all"]), &[]).ok();
        assert!(last.export(&["--all"]) == exported, "KEEPLINE_SEED={seed}: in a directory again");
        for session in ["s1", "s2", "s3"] {
            let window = |place: &Place| done_if_there(place.run(&["session", "window", session], b""));
            assert_eq!(window(&last), window(&place), "KEEPLINE_SEED={seed}, {session}");
        }
    }
}
