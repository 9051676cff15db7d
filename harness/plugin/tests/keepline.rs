//! The component in `keepline`: the program that `KEEPLINE` names, else the one in the path.

use std::{
    collections::HashMap,
    env, fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::LazyLock,
    thread,
};

use serde_json::{Value, json};

/// Built once, as `cargo run` does.
static COMPONENT: LazyLock<PathBuf> = LazyLock::new(|| {
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("PLUGIN_NAME.wasm");
    let built = Command::new(env!("CARGO_BIN_EXE_component")).arg(&output).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    output
});

/// Runs it with the component, and returns what it prints.
fn keepline(arguments: &[&str], options: &Value, input: &str) -> String {
    let mut config = tempfile::NamedTempFile::new().unwrap();
    write!(config, "{options}").unwrap();
    let mut command = Command::new(env::var_os("KEEPLINE").unwrap_or_else(|| "keepline".into()));
    command.args(arguments).arg("--plugin").arg(&*COMPONENT).arg("--config").arg(config.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().expect("keepline can't be started: name it with KEEPLINE=PATH");
    let (mut stdin, input) = (running.stdin.take().unwrap(), input.to_owned());
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let Output { status, stdout, stderr } = running.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    // 1: an entry failed, as a case of the kit may have it.
    assert!(matches!(status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

#[test]
fn card_numbers_are_redacted_before_they_are_stored() {
    const CARD: &str = "4111 1111 1111 1111";
    let metadata = json!({"session_id": "4111111111111111"});
    let tool = json!({"call_id": "c", "name": "pay", "arguments": {"card": 4111111111111111_u64}, "output": CARD, "error": CARD});
    let lines = [
        json!({"lane": "questions", "text": format!("Is {CARD} mine?"), "metadata": metadata}),
        json!({"lane": "tools", "tool": tool}),
        json!({"lane": "answers", "text": format!("Yes, {CARD}."), "metadata": {"metadata": {"paid by": CARD}}}),
        json!({"lane": "questions", "text": "?", "metadata": metadata}),
    ];
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let store = tempfile::tempdir().unwrap();
    let at = ["--dir", store.path().to_str().unwrap()];
    let options = json!({"conversation": true});
    let ran = keepline(&[&["run"][..], &at].concat(), &options, &input);
    let lines: Vec<&str> = ran.lines().collect();
    // Who asked and who answered see what was said.
    assert!(lines[0].contains(CARD) && lines[2].contains(CARD), "{ran}");
    assert!(lines[3].contains("Yes, [card ending in 1111].") && !lines[3].contains(CARD), "{ran}");
    // All that is stored, session ids aside.
    let stored = keepline(&[&["session", "export", "--all"][..], &at].concat(), &options, "");
    assert!(stored.contains("Is [card ending in 1111] mine?"), "{stored}");
    assert!(stored.matches("[card ending in 1111]").count() >= 5, "{stored}");
    assert!(!stored.contains(CARD) && !stored.contains(":4111111111111111"), "{stored}");
}

/// The kit's cases that are questions, answers and tools alone: `keepline/conformance/host/README.md` tells what they mean.
#[test]
fn the_host_kit_passes() {
    let kit = Path::new(env!("CARGO_MANIFEST_DIR")).join("keepline/conformance/host");
    let (mut passed, mut skipped, mut failed) = (0, 0, Vec::new());
    for file in fs::read_dir(kit).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let topic: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        for case in topic["cases"].as_array().unwrap() {
            let Some(lines) = case_lines(case) else {
                skipped += 1;
                continue;
            };
            match replay(case, &lines) {
                Ok(()) => passed += 1,
                Err(why) => failed.push(format!("{}, {}: {why}", file.display(), case["name"])),
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    println!("{passed} cases passed; {skipped} need more of a host than lines can say");
    assert!(passed > 30, "{passed}");
}

/// The steps of a case and their lines; none: it has others.
fn case_lines(case: &Value) -> Option<Vec<(Value, String)>> {
    if case.get("model").is_some() || case["needs"].as_array().is_some_and(|needs| needs.contains(&json!("inspection")))
    {
        return None;
    }
    let line = |step: Value| {
        let metadata: Value =
            serde_json::from_str(step.get("metadata").and_then(Value::as_str).unwrap_or("{}")).ok()?;
        let raw = step.get("metadata").and_then(Value::as_str).unwrap_or("{}");
        let text = &step["text"];
        let line = match step["call"].as_str()? {
            _ if step.get("fault").is_some() || step.get("status").is_some() || !metadata.is_object() => return None,
            "question" => format!(r#"{{"lane":"questions","text":{text},"metadata":{raw}}}"#),
            "answer" => format!(r#"{{"lane":"answers","text":{text},"metadata":{raw}}}"#),
            "open" => format!(r#"{{"lane":"open","metadata":{raw}}}"#),
            "tool" => {
                let mut tool = step["tool"].clone();
                let id = tool.as_object_mut()?.remove("call-id")?;
                tool["call_id"] = id;
                format!(r#"{{"lane":"tools","tool":{tool},"metadata":{raw}}}"#)
            }
            _ => return None,
        };
        Some((step, line))
    };
    flat(expanded(case["steps"].clone())).into_iter().map(line).collect()
}

/// Lists among the steps are steps, too.
fn flat(steps: Value) -> Vec<Value> {
    match steps {
        Value::Array(steps) => steps.into_iter().flat_map(flat).collect(),
        step => vec![step],
    }
}

fn replay(case: &Value, steps: &[(Value, String)]) -> Result<(), String> {
    let input: String = steps.iter().map(|(_, line)| format!("{line}\n")).collect();
    let output = keepline(&["run"], &case["options"], &input);
    let mut names = HashMap::new();
    for ((step, _), came) in steps.iter().zip(output.lines()) {
        let at = |why| format!("{why}\nstep: {step}\ncame: {came}");
        let Some(expected) = step.get("expect") else { continue };
        for (member, is_wanted) in [("verbatim", true), ("lacks", false)] {
            let texts = expected.get(member).and_then(Value::as_array).into_iter().flatten();
            if let Some(text) = texts.map(|text| text.as_str().unwrap()).find(|text| came.contains(text) != is_wanted) {
                return Err(at(format!("{member}: {text}")));
            }
        }
        let line: Value = serde_json::from_str(came).map_err(|error| at(error.to_string()))?;
        match expected.get("metadata") {
            None => {}
            Some(Value::String(text)) if came.contains(&**text) => {}
            Some(pattern) => matches(pattern, &line["metadata"], &mut names).map_err(at)?,
        }
    }
    if output.lines().count() == steps.len() { Ok(()) } else { Err(format!("lines are missing: {output}")) }
}

/// `$text` written out.
fn expanded(value: Value) -> Value {
    match value {
        Value::Object(members) => match members.get("$text").and_then(Value::as_array) {
            Some(text) => text[0].as_str().unwrap().repeat(text[1].as_u64().unwrap() as usize).into(),
            None => members.into_iter().map(|(name, member)| (name, expanded(member))).collect(),
        },
        Value::Array(members) => members.into_iter().map(expanded).collect(),
        other => other,
    }
}

/// Whether what came is as a pattern of the kit describes it: otherwise what is not.
fn matches(expected: &Value, came: &Value, names: &mut HashMap<String, Value>) -> Result<(), String> {
    let fits = |pattern: &Value, came: &Value| matches(pattern, came, &mut names.clone()).is_ok();
    if let Some(pattern) = expected.get("$not") {
        return if fits(pattern, came) { Err(format!("{came} was not to be {pattern}")) } else { Ok(()) };
    }
    if let Some(choices) = expected.get("$one-of").and_then(Value::as_array) {
        let is_one = choices.iter().any(|choice| fits(choice, came));
        return if is_one { Ok(()) } else { Err(format!("{came} is none of {choices:?}")) };
    }
    match (expected, came) {
        (Value::String(name), _) if name.starts_with('$') => {
            let known = names.entry(name.clone()).or_insert_with(|| came.clone());
            if known == came { Ok(()) } else { Err(format!("{came} is not {name}, which was {known}")) }
        }
        (Value::Object(wanted), Value::Object(members)) => {
            if let Some(pattern) = wanted.keys().find(|name| name.starts_with('$')) {
                return Err(format!("the pattern {pattern} is not known here"));
            }
            wanted.iter().try_for_each(|(name, pattern)| {
                let member = members.get(name).ok_or_else(|| format!("there is no {name}"))?;
                matches(pattern, member, names).map_err(|why| format!("{name}: {why}"))
            })
        }
        (Value::Array(wanted), Value::Array(members)) if wanted.len() == members.len() => {
            wanted.iter().zip(members).try_for_each(|(pattern, member)| matches(pattern, member, names))
        }
        _ if expected == came => Ok(()),
        _ => Err(format!("{came} is not {expected}")),
    }
}
