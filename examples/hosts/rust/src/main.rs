//! `keepline-example-host keepline.wasm [OPTIONS]`: entries as JSON lines from stdin to stdout, as `keepline run` has them.

use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keepline_example_host::bindings::lanes::ToolActivity;
use keepline_example_host::bindings::log::Level;
use keepline_example_host::filter::Program;
use keepline_example_host::host::{Host, NoModel};
use keepline_example_host::metadata::{members, text};
use keepline_example_host::store::MemoryStore;
use wasmtime::Result;
use wasmtime::error::Context;

const TIME: Duration = Duration::from_secs(10);
const MAX_TURNS: usize = 1_000;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let component = arguments.next().context("usage: keepline-example-host COMPONENT [OPTIONS]")?;
    let program = Program::new(&std::fs::read(component)?)?;
    let store = Arc::new(Mutex::new(MemoryStore::default()));
    let instantiate = Box::new(move || program.instantiate(store.clone(), Level::Warn));
    let options = arguments.next().unwrap_or_else(|| "{}".into());
    let mut host = Host::new(instantiate, &options, TIME, MAX_TURNS)?;
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut line = Vec::new();
    loop {
        report(&mut host);
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let passed = std::str::from_utf8(&line).ok().and_then(|line| pass(&mut host, line));
        if passed.is_none() {
            host.unreadable();
        }
        output.write_all(passed.as_ref().map_or(&line, |passed| passed.as_bytes()))?;
        output.flush()?;
        host.work(&mut NoModel);
    }
}

/// Pass one line. None: it is no entry.
fn pass(host: &mut Host, line: &str) -> Option<String> {
    let found = members(line)?;
    let value = |name: &str| found.get(name).and_then(|place| line.get(place.clone()));
    let metadata = value("metadata").unwrap_or("{}");
    let said = value("text").map(text).unwrap_or_default();
    match &*text(value("lane")?) {
        "questions" => {
            let (replaced, error) = host.question(&said, metadata);
            let mut passed = line.to_owned();
            if let Some(place) = found.get("metadata") {
                passed.replace_range(place.clone(), &replaced);
            }
            if let Some(error) = error {
                let error = serde_json::json!({ "code": error.code, "message": error.message });
                passed.insert_str(passed.rfind('}')?, &format!(",\"error\":{error}"));
            }
            return Some(passed);
        }
        "answers" => host.answer(&said, metadata, value("status").map(text).as_deref()),
        "tools" => host.tool(tool(value("tool")?)?, metadata),
        "open" => host.open(metadata),
        _ => return None,
    }
    Some(line.to_owned())
}

fn tool(json: &str) -> Option<ToolActivity> {
    let found = members(json)?;
    let value = |name: &str| found.get(name).and_then(|place| json.get(place.clone()));
    Some(ToolActivity {
        call_id: text(value("call_id")?),
        name: value("name").map(text).unwrap_or_default(),
        arguments: value("arguments").map(Into::into),
        output: value("output").map(text),
        error: value("error").filter(|json| *json != "null").map(text),
        details: None,
    })
}

fn report(host: &mut Host) {
    for problem in host.reports.drain(..) {
        eprintln!("{}: {} {}", problem.code, problem.message, problem.subject);
    }
}
