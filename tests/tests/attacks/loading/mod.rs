//! Small components that take much to load, and files that are not regular: each is refused within ten seconds of
//! processor time and 600 MiB, in one line that names the limit, its value and the option that raises it. This holds
//! for `inspect`, for a start, for a service that switches to it, and for the library by itself.

mod components;
mod files;
mod library;
mod service;

use std::{fs, path::Path, time::Duration};

use keepline::plugin::BUNDLED;
use keepline_tests::{
    confined::{Confined, Ended},
    programs::program,
    random,
};
use serde_json::Value;

const MOST_MEMORY: u64 = 600 << 20;
/// Ten are promised; a processor that others keep busy takes more for the same.
const MOST_CPU: Duration = Duration::from_secs(25);

/// What makes a component when it is its turn: some take long to be made.
type Component = fn() -> Vec<u8>;

/// What attacks loading, and the option that stops it.
fn attacks() -> [(&'static str, Component, &'static str); 30] {
    [
        ("nested instances", || components::doubling_inside(30), "plugin_max_definitions"),
        ("fifteen nested instances", || components::doubling_inside(14), "plugin_max_definitions"),
        ("neighbouring instances", || components::doubling_beside(30), "plugin_max_definitions"),
        ("very many instances", || components::doubling_beside(400), "plugin_max_definitions"),
        ("nested components", || components::nested(20_000), "plugin_max_definitions"),
        ("nested types", || components::nested_types(100_000), "plugin_max_type_nesting"),
        ("large types", || components::pairs(15), "plugin_max_type_size"),
        ("types that end in each other", || components::type_chain(127), "plugin_max_type_nesting"),
        ("copies of resources", || components::copies(8000, 120), "plugin_max_definitions"),
        ("copies of copies of resources", || components::copies_of_copies(12, 4), "plugin_max_definitions"),
        ("copies in each of several types", || components::copies_in_types(8, 5000), "plugin_max_definitions"),
        ("functions", || components::functions(100_000), "plugin_max_cost"),
        ("a chain of calls", || components::chain(10_000), "plugin_max_cost"),
        ("references to functions", || components::elements(5000), "plugin_max_cost"),
        ("types of functions", || components::core_types(10_000), "plugin_max_cost"),
        ("live values", || components::live_values(20_000, 2000), "plugin_max_function_cost"),
        ("phis", || components::phis(900, 7000), "plugin_max_function_cost"),
        ("nested loops", || components::loops(300, 300), "plugin_max_function_cost"),
        ("nested branches", || components::branches(300, 300), "plugin_max_function_cost"),
        ("calls that are never reached", || components::unreached_calls(1000, 20_000), "plugin_max_function_cost"),
        ("copies of tables", || components::bulk(components::TABLE_COPY, 9000, 1), "plugin_max_function_cost"),
        ("parts of tables", || components::bulk(components::TABLE_INIT, 10_500, 1), "plugin_max_function_cost"),
        ("locals", || components::locals(1000, 50_000), "plugin_max_cost"),
        ("a long function", || components::straight_values(60_000), "plugin_max_function_cost"),
        ("modules", || components::images(70), "plugin_max_definitions"),
        ("tables", || components::tables(60), "plugin_max_definitions"),
        ("exports", || components::exports(30_000), "plugin_max_definitions"),
        ("adapters", || components::adapters(2000, 1000), "plugin_max_cost"),
        ("a promise", components::promising, "plugin_max_definitions"),
        ("padding", || components::padded(17 << 20), "plugin_max_bytes"),
    ]
}

/// Components that come as near to the limits as they can: loaded or refused, within the bounds.
fn heavy() -> [(&'static str, Component); 17] {
    [
        ("functions", || components::functions(7900)),
        ("a chain of calls", || components::chain(7900)),
        ("references", || components::elements(3900)),
        ("types", || components::core_types(7900)),
        ("live values", || components::live_values(4000, 2000)),
        ("straight values", || components::straight_values(28_000)),
        ("phis", || components::phis(990, 2500)),
        ("nested loops", || components::loops(180, 180)),
        ("nested branches", || components::branches(180, 180)),
        ("jumps", || components::jumps(60_000, 100)),
        ("copies of tables", || components::bulk(components::TABLE_COPY, 1900, 4)),
        ("indirect calls", || components::bulk(components::CALL_INDIRECT, 8900, 4)),
        ("locals", || components::locals(700, 50_000)),
        ("nested components", || components::nested(490)),
        ("images", || components::images(64)),
        ("exports", || components::exports(20_000)),
        ("adapters", || components::adapters(60, 1000)),
    ]
}

fn keepline(arguments: &[&str], plugin: &Path) -> Ended {
    let arguments = arguments.iter().copied().chain([plugin.to_str().unwrap(), "--set", "cache_dir=off"]);
    Confined::new(program("--bin", "keepline")).args(arguments).run()
}

fn assert_bounded(name: &str, ended: &Ended) {
    assert!(ended.code.is_some() && !ended.timed_out, "{name}: {ended:#?}");
    assert!(ended.peak_bytes < MOST_MEMORY && ended.cpu < MOST_CPU, "{name}: {ended:#?}");
    assert!(!ended.stderr.contains("panicked"), "{name}: {ended:#?}");
}

#[test]
fn a_component_over_a_limit_is_inspected_and_refused_within_bounds() {
    let directory = tempfile::tempdir().unwrap();
    for (name, component, option) in attacks() {
        let file = directory.path().join("plugin.wasm");
        fs::write(&file, component()).unwrap();
        let ended = keepline(&["inspect", "--json"], &file);
        assert_bounded(name, &ended);
        assert_eq!(ended.code, Some(3), "{name}: {ended:#?}");
        // A file that is too long is not even read.
        let told = if ended.stdout.is_empty() {
            ended.stderr.clone()
        } else {
            let found: Value = serde_json::from_str(&ended.stdout).unwrap();
            let limits = found["limits"].as_array().unwrap();
            let over = limits.iter().find(|limit| limit["option"] == option).unwrap();
            assert!(over["found"].as_u64() > over["limit"].as_u64() && over["near"] == true, "{name}: {over}");
            found["refusal"].as_str().unwrap().to_owned()
        };
        assert!(told.contains(option) && told.contains("at most "), "{name}: {told}");
        assert!(told.trim_end().lines().count() == 1 && told.len() < 300, "{name}: {told}");
    }
}

#[test]
fn a_component_over_a_limit_is_not_run() {
    let directory = tempfile::tempdir().unwrap();
    for (name, component, option) in attacks().into_iter().step_by(4) {
        let file = directory.path().join("plugin.wasm");
        fs::write(&file, component()).unwrap();
        let ended = keepline(&["run", "--plugin"], &file);
        assert_bounded(name, &ended);
        assert_eq!((ended.code, &*ended.stdout), (Some(3), ""), "{name}: {ended:#?}");
        assert!(ended.stderr.contains(option) && ended.stderr.lines().count() == 1, "{name}: {ended:#?}");
    }
}

#[test]
fn a_component_just_below_the_limits_is_compiled_within_bounds() {
    let directory = tempfile::tempdir().unwrap();
    let every = if random::is_long() { 1 } else { 3 };
    for (name, component) in heavy().into_iter().step_by(every) {
        let file = directory.path().join("plugin.wasm");
        fs::write(&file, component()).unwrap();
        let ended = keepline(&["inspect"], &file);
        assert_bounded(name, &ended);
        // None of them has the exports of a filter.
        assert_eq!(ended.code, Some(3), "{name}: {ended:#?}");
    }
}

#[test]
fn the_operating_system_stops_a_component_that_passes_the_checks() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plugin.wasm");
    let raised = ["plugin_max_function_cost=1000000000", "plugin_max_cost=1000000000"];
    let raised: Vec<_> = raised.iter().flat_map(|raised| ["--set", raised]).collect();
    let attacks = [
        (
            components::functions(100_000),
            "compiling the plugin takes more than 268435456 bytes",
            "plugin_compile_memory_bytes",
        ),
        (components::branches(300, 300), "compiling the plugin takes longer than 2000 ms", "plugin_compile_ms"),
    ];
    for (component, problem, option) in attacks {
        fs::write(&file, component).unwrap();
        let mut arguments: Vec<&str> = raised.clone();
        arguments.extend(["--set", "plugin_compile_ms=2000", "inspect"]);
        if option == "plugin_compile_memory_bytes" {
            arguments.extend(["--set", "plugin_compile_ms=60000"]);
            arguments.extend(["--set", "plugin_compile_memory_bytes=268435456"]);
        }
        let ended = keepline(&arguments, &file);
        assert_bounded(option, &ended);
        assert!(ended.stdout.contains(problem) && ended.stdout.contains(option), "{ended:#?}");
    }
}

/// Composed of two, of which one passes strings to the other.
#[test]
fn a_component_whose_parts_pass_strings_to_each_other_is_supported() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plugin.wasm");
    fs::write(&file, components::adapters(1, 1)).unwrap();
    let ended = keepline(&["inspect"], &file);
    assert_bounded("composed", &ended);
    assert!(ended.stdout.contains("it does not export keepline:memory/lanes@0.3.0"), "{ended:#?}");
    assert_eq!(ended.stderr, "");
}

/// It may be instantiated any number of times by whoever gets it.
#[test]
fn a_component_that_instantiates_its_import_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plugin.wasm");
    fs::write(&file, components::doubling_by_argument(30)).unwrap();
    let ended = keepline(&["inspect"], &file);
    assert_bounded("by argument", &ended);
    assert!(ended.stdout.contains("refused: the plugin instantiates a component that it is passed"), "{ended:#?}");
}

#[test]
fn the_bundled_filter_is_far_below_every_limit() {
    let ended = Confined::new(program("--bin", "keepline")).args(["inspect", "--json"]).run();
    assert_bounded("bundled", &ended);
    let found: Value = serde_json::from_str(&ended.stdout).unwrap();
    for limit in found["limits"].as_array().unwrap() {
        assert!(limit["found"].as_u64().unwrap() * 3 <= limit["limit"].as_u64().unwrap() * 2, "{limit}");
        assert_eq!(limit["near"], false);
    }
    // Also by those who do not know it for what it is.
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("changed.wasm");
    // An empty custom section.
    fs::write(&file, [BUNDLED, &[0, 2, 1, b'x']].concat()).unwrap();
    let ended = keepline(&["inspect", "--json"], &file);
    assert_bounded("as anybody's", &ended);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
}
