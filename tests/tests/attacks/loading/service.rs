//! A service that switches to a hostile component keeps its current one and goes on serving.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    time::Duration,
};

use keepline::plugin::BUNDLED;
use keepline_tests::{
    confined::{Confined, Usage, kill_group},
    programs::{program, signal, until_it_listens},
};

use super::{MOST_CPU, MOST_MEMORY, components};

#[test]
fn a_service_keeps_its_plugin_when_the_next_one_is_over_a_limit() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plugin.wasm");
    fs::write(&file, BUNDLED).unwrap();
    let confined = Confined::new(program("--bin", "keepline"))
        .args(["run", "--plugin", file.to_str().unwrap(), "--set", "cache_dir=off"])
        .time(Duration::from_secs(300));
    let mut service = confined.spawn();
    let (mut input, output) = (service.stdin.take().unwrap(), service.stdout.take().unwrap());
    let mut output = BufReader::new(output).lines();
    let mut errors = BufReader::new(service.stderr.take().unwrap()).lines();
    let mut asked = 0;
    let mut serves = || {
        asked += 1;
        writeln!(input, r#"{{"lane":"answers","text":"{asked}","metadata":{{"session_id":"a"}}}}"#).unwrap();
        writeln!(input, r#"{{"lane":"questions","text":"?","metadata":{{"session_id":"a"}}}}"#).unwrap();
        output.next().unwrap().unwrap();
        let question = output.next().unwrap().unwrap();
        assert!(question.contains(&format!("\"last_answer\":\"{asked}\"")), "{question}");
    };
    serves();
    until_it_listens(&service);
    let attacks = [
        (components::doubling_beside(30), "plugin_max_definitions"),
        (components::functions(100_000), "plugin_max_cost"),
        (b"no component".to_vec(), "not a WebAssembly component"),
    ];
    for (component, problem) in attacks {
        fs::write(&file, component).unwrap();
        signal(&service, "-HUP");
        let told = errors.next().unwrap().unwrap();
        assert!(told.contains("the plugin was not replaced") && told.contains(problem), "{told}");
        serves();
    }
    let mut usage = Usage::default();
    assert!(usage.look(service.id()));
    assert!(usage.peak_bytes < MOST_MEMORY && usage.cpu < MOST_CPU, "{usage:?}");
    kill_group(&service);
    service.wait().unwrap();
}
