//! Builds of `make run` are reused by `make test` and by programs that tests start.
//!
//! Cargo compiles a dependency once for each set of features and each profile that some selection of packages asks of
//! it, and with it all that depend on it: one feature more of a small crate in the tests, and wasmtime is compiled
//! again, for minutes. So the plans of cargo (`--unit-graph`) for each selection must agree.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fmt::Write as _,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    process::Command,
};

use serde_json::{Map, Value};

/// The plan that the others are held to: it has every dependency.
const EVERYTHING: &str = "test --workspace --no-run";

#[test]
fn every_selection_of_packages_shares_its_dependencies_with_the_whole_workspace() {
    let whole = Plan::of(EVERYTHING);
    // What `make` and the tests (`programs::program`) ask for, and the tests of each package that links wasmtime.
    let selections = [
        "build --package keepline-harness",
        "build --workspace",
        "build --workspace --bin keepline",
        "build --workspace --example embed",
        "test --package keepline --no-run",
        "test --package keepline-bench --no-run",
        "test --package keepline-example-host --no-run",
        "test --package keepline-fuzz --no-run",
        "test --package keepline-harness --no-run",
        "test --package keepline-tests --no-run",
    ];
    let differences: String = selections.iter().map(|selection| Plan::of(selection).differences_to(&whole)).collect();
    assert!(
        differences.is_empty(),
        "these are compiled twice, and so is all that depends on them:\n{differences}Let tests/features/Cargo.toml \
         ask for the features that are missing."
    );
}

#[test]
fn a_difference_is_reported_with_its_consequence() {
    let unit = |name: &str, features: &[&str], dependencies: &[usize]| {
        serde_json::json!({
            "pkg_id": format!("registry+https://example.org#{name}@1.0.0"),
            "target": {"kind": ["lib"], "crate_types": ["lib"], "name": name, "src_path": format!("/{name}.rs")},
            "profile": {"name": "dev", "opt_level": "1"},
            "platform": null,
            "mode": "build",
            "features": features,
            "dependencies":
                dependencies.iter().map(|index| serde_json::json!({"index": index, "extern_crate_name": "d"})).collect::<Vec<_>>(),
        })
    };
    let plan = |features: &[&str]| {
        let units = [unit("small", features, &[]), unit("large", &[], &[0]), unit("other", &[], &[])];
        Plan::from_graph("a selection", &serde_json::json!({"version": 1, "units": units, "roots": [1]}))
    };

    assert_eq!(plan(&["std"]).differences_to(&plan(&["std"])), "");
    assert_eq!(
        plan(&["std"]).differences_to(&plan(&["serde", "std"])),
        "cargo a selection\n  small 1.0.0 (lib): without the feature serde\n  and 1 more by what they depend on: large\n"
    );
}

/// What cargo would compile, and how.
struct Plan {
    selection: String,
    units: BTreeMap<u64, Unit>,
}

/// One call of rustc, or a run of a build script.
struct Unit {
    /// Package, version and target: `serde 1.0.229 (lib)`.
    name: String,
    features: BTreeSet<String>,
    /// Of the profile: what makes the machine code.
    settings: BTreeSet<String>,
}

impl Plan {
    /// As this machine's cargo makes it. Nothing is compiled.
    fn of(selection: &str) -> Self {
        let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(selection.split(' '))
            // The plan is a feature of nightly cargos, if one does not insist.
            .args(["--unit-graph", "-Zunstable-options"])
            .env("RUSTC_BOOTSTRAP", "1")
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .output()
            .unwrap();
        assert!(output.status.success(), "cargo {selection}: {}", String::from_utf8_lossy(&output.stderr));
        Self::from_graph(selection, &serde_json::from_slice(&output.stdout).unwrap())
    }

    fn from_graph(selection: &str, graph: &Value) -> Self {
        let all = graph["units"].as_array().unwrap();
        let mut keys = vec![None; all.len()];
        let mut units = BTreeMap::new();
        for (index, unit) in all.iter().enumerate() {
            let key = key(all, index, &mut keys);
            // A selection has programs and tests of its own.
            if unit["target"]["kind"].as_array().unwrap().iter().any(|kind| is_shared(kind.as_str().unwrap())) {
                units.insert(key, Unit::new(unit));
            }
        }
        Self { selection: selection.to_owned(), units }
    }

    /// Units that `other` does not have, one a line; empty: it has all of them.
    fn differences_to(&self, other: &Self) -> String {
        let mut differences = String::new();
        let mut by_dependencies = BTreeSet::new();
        for unit in self.units.iter().filter(|(key, _)| !other.units.contains_key(*key)).map(|(_, unit)| unit) {
            let candidates = || other.units.values().filter(|candidate| candidate.name == unit.name);
            // The one that is meant: a crate can be there twice, for build scripts and for the program.
            match candidates().map(|candidate| unit.differences_to(candidate)).min_by_key(Vec::len) {
                Some(told) if told.is_empty() => {
                    by_dependencies.insert(unit.name.split(' ').next().unwrap());
                }
                Some(told) => writeln!(differences, "  {}: {}", unit.name, told.join(", ")).unwrap(),
                None => writeln!(differences, "  {}: only here", unit.name).unwrap(),
            }
        }
        if differences.is_empty() && by_dependencies.is_empty() {
            return differences;
        }
        let names = by_dependencies.iter().copied().collect::<Vec<_>>().join(", ");
        format!(
            "cargo {}\n{differences}  and {} more by what they depend on: {names}\n",
            self.selection,
            by_dependencies.len()
        )
    }
}

impl Unit {
    fn new(unit: &Value) -> Self {
        // registry+https://…#name@version, or path+file:///…/folder#name@version
        let (_, package) = unit["pkg_id"].as_str().unwrap().rsplit_once('#').unwrap();
        let kind = unit["target"]["kind"][0].as_str().unwrap();
        let run = if unit["mode"] == "run-custom-build" { ", run" } else { "" };
        Self {
            name: format!("{} ({kind}{run})", package.replace('@', " ")),
            features: unit["features"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().into()).collect(),
            settings: settings(unit).iter().map(|(name, value)| format!("{name} {value}")).collect(),
        }
    }

    fn differences_to(&self, other: &Self) -> Vec<String> {
        let more = self.features.difference(&other.features).map(|name| format!("with the feature {name}"));
        let less = other.features.difference(&self.features).map(|name| format!("without the feature {name}"));
        let settings = self.settings.difference(&other.settings).cloned();
        more.chain(less).chain(settings).collect()
    }
}

fn is_shared(kind: &str) -> bool {
    !matches!(kind, "bin" | "example" | "test" | "bench")
}

/// The profile, without its name: `dev` and `test` with the same settings are the same.
fn settings(unit: &Value) -> Map<String, Value> {
    let mut profile = unit["profile"].as_object().unwrap().clone();
    profile.remove("name");
    profile
}

/// All that makes cargo compile a unit for itself, digested: what it is, how, and the same of what it depends on.
fn key(units: &[Value], index: usize, keys: &mut [Option<u64>]) -> u64 {
    if let Some(key) = keys[index] {
        return key;
    }
    let unit = &units[index];
    let dependencies = unit["dependencies"].as_array().unwrap().iter().map(|dependency| {
        let place = usize::try_from(dependency["index"].as_u64().unwrap()).unwrap();
        (dependency["extern_crate_name"].to_string(), key(units, place, keys))
    });
    let dependencies: BTreeSet<_> = dependencies.collect();
    let what = [&unit["pkg_id"], &unit["target"]["name"], &unit["target"]["kind"], &unit["platform"], &unit["mode"]];
    let mut hasher = DefaultHasher::new();
    format!("{what:?} {} {:?} {dependencies:?}", unit["features"], settings(unit)).hash(&mut hasher);
    *keys[index].insert(hasher.finish())
}
