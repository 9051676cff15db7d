//! The library without a compiler process: what the walk accepts is bounded as well, and nothing that the engine does
//! ends the caller.

use keepline::{Plugin, PluginError, Sandbox, plugin::Measure};
use keepline_tests::{confined::in_confinement, random};

use super::{MOST_MEMORY, attacks, components, heavy};

#[test]
fn attacks_are_refused_in_process_within_bounds() {
    let test = "loading::library::attacks_are_refused_in_process_within_bounds";
    in_confinement(
        test,
        |limits| limits.memory_bytes(MOST_MEMORY),
        || {
            for (name, component, option) in attacks() {
                let refused = Plugin::from_bytes(&component(), &Sandbox::default()).unwrap_err();
                let PluginError::TooLarge(measured) = &refused else { panic!("{name}: {refused}") };
                assert_eq!(measured.measure.option(), option, "{name}");
            }
        },
    );
}

#[test]
fn a_component_just_below_the_limits_is_compiled_in_process_within_bounds() {
    let test = "loading::library::a_component_just_below_the_limits_is_compiled_in_process_within_bounds";
    let every = if random::is_long() { 1 } else { 4 };
    for (name, component) in heavy().into_iter().step_by(every) {
        // Each in a process of its own: memory of the one before would count. Its name tells which it is.
        let name_of_child = std::env::var("KEEPLINE_TEST_HEAVY");
        if name_of_child.as_ref().is_ok_and(|child| child != name) {
            continue;
        }
        let ended = in_confinement(
            test,
            |limits| limits.memory_bytes(MOST_MEMORY).env("KEEPLINE_TEST_HEAVY", name),
            || {
                let refused = Plugin::from_bytes(&component(), &Sandbox::default()).unwrap_err();
                assert!(matches!(refused, PluginError::Misfit(_) | PluginError::NotAComponent(_)), "{name}: {refused}");
            },
        );
        assert!(ended.is_none_or(|ended| ended.cpu.as_secs() < 30 && ended.peak_bytes < MOST_MEMORY), "{name}");
    }
}

#[test]
fn limits_can_be_raised_one_by_one() {
    let component = components::nested(600);
    let mut sandbox = Sandbox::default();
    let refused = Plugin::from_bytes(&component, &sandbox).unwrap_err();
    assert!(matches!(&refused, PluginError::TooLarge(found) if found.measure == Measure::Definitions), "{refused}");
    sandbox.plugin.max_definitions = 100_000;
    let refused = Plugin::from_bytes(&component, &sandbox).unwrap_err();
    assert!(matches!(refused, PluginError::Misfit(_)), "{refused}");
}
