//! Components that are refused before any of them runs.

use super::*;

#[test]
fn a_component_with_forbidden_imports_is_refused_with_their_list() {
    let forbidden = [
        "wasi:sockets/tcp@0.2.0",
        "wasi:filesystem/types@0.2.3",
        "wasi:cli/environment@0.2.0",
        "wasi:clocks/monotonic-clock@0.2.0",
        "wasi:clocks/wall-clock@0.3.0",
        "wasi:clocks/wall-clock@0.20.0",
        "wasi:clocks/wall-clock",
        "keepline:host/log@0.4.0",
        "keepline:memory/key-value@0.3.0",
        "keepline:stores/core@0.3.0",
    ];
    let imports = forbidden.map(|name| format!("(import \"{name}\" (instance))")).concat();
    // What it may have is not in the list.
    let lent = "(import \"keepline:store/core@0.3.0\" (instance))";
    let component = wat::parse_str(format!("(component {lent} {imports} (import \"exec\" (func)))")).unwrap();
    let refused = Plugin::from_bytes(&component, &sandbox()).unwrap_err();
    let PluginError::ForbiddenImports(listed) = &refused else { panic!("{refused}") };
    assert_eq!(listed[..10], forbidden);
    assert_eq!(listed[10..], ["exec"]);
    let told = refused.to_string();
    assert!(told.contains("wasi:sockets/tcp@0.2.0") && !told.contains('\n'), "{told}");
    let inspection = inspect(&component, &sandbox()).unwrap();
    assert_eq!(inspection.refusal, Some(told));
    assert_eq!(inspection.imports.len(), 12);
}

/// Names of addresses are the only ones with rules that let anything in.
#[test]
fn names_that_would_forge_or_flood_lines_take_one_line_each() {
    let forged = "\\0aloads    yes, as keepline:memory/memory-filter@0.3.0\\1b[2J\\e2\\80\\ae";
    let long = "x".repeat(2000);
    let imports: String = (0..100).map(|n| format!("(import \"url=<https://{n}{forged}{long}>\" (func))")).collect();
    let component =
        wat::parse_str(format!("(component {imports} (instance $i) (export \"{long}\" (instance $i)))")).unwrap();
    let is_tame = |name: &str, most: usize| name.len() <= most && name.chars().all(is_printable);
    let inspection = inspect(&component, &sandbox()).unwrap();
    assert_eq!((inspection.imports.len(), inspection.exports.len()), (100, 1));
    let names = || inspection.imports.iter().chain(&inspection.exports);
    assert!(names().all(|name| is_tame(name, 256)), "{:?}", names().find(|name| !is_tame(name, 256)));
    let refusal = inspection.refusal.unwrap();
    assert!(is_tame(&refusal, 4096) && refusal.contains("and 88 more"), "{refusal}");
    let refused = Plugin::from_bytes(&component, &sandbox()).unwrap_err();
    assert_eq!(refused.to_string(), refusal);
    let PluginError::ForbiddenImports(listed) = &refused else { panic!("{refused}") };
    assert!(listed.iter().all(|name| is_tame(name, 256)));
}

#[test]
fn a_permitted_interface_with_unknown_functions_is_refused() {
    for import in [
        "(import \"wasi:clocks/wall-clock@0.2.0\" (instance (export \"set\" (func))))",
        "(import \"keepline:store/core@0.3.0\" (instance (export \"shell\" (func (param \"line\" string)))))",
        "(import \"keepline:store/core@0.3.1\" (instance (export \"shell\" (func (param \"line\" string)))))",
        "(import \"keepline:store/core@0.3.0\" (func))",
    ] {
        let component = wat::parse_str(format!("(component {import})")).unwrap();
        let refused = Plugin::from_bytes(&component, &sandbox()).unwrap_err();
        assert!(matches!(refused, PluginError::Misfit(_)), "{refused}");
    }
}

#[test]
fn an_interface_of_the_store_that_is_newer_than_the_host_is_no_reason_to_refuse() {
    let newer =
        "(import \"keepline:store/vectors@0.3.7\" (instance (export \"nearest\" (func (param \"to\" string)))))";
    let component = wat::parse_str(format!("(component {newer})")).unwrap();
    // It is linked to a trap: what is missing are the exports.
    let refused = Plugin::from_bytes(&component, &sandbox()).unwrap_err();
    assert!(refused.to_string().contains("does not export"), "{refused}");
    let inspection = inspect(&component, &sandbox()).unwrap();
    assert_eq!(inspection.imports, ["keepline:store/vectors@0.3.7"]);
    assert_eq!(inspection.trapping, ["keepline:store/vectors@0.3.7"]);
}

#[test]
fn a_component_without_the_required_exports_is_refused() {
    for component in ["(component)", "(component (import \"wasi:clocks/wall-clock@0.2.8\" (instance)))"] {
        let refused = Plugin::from_bytes(&wat::parse_str(component).unwrap(), &sandbox()).unwrap_err();
        assert!(matches!(refused, PluginError::Misfit(_)), "{refused}");
        assert!(refused.to_string().contains("keepline:memory/lanes"), "{refused}");
    }
}

#[test]
fn files_that_are_not_components_have_distinct_errors() {
    let module = wat::parse_str("(module (memory 1))").unwrap();
    let text = b"(component)".to_vec();
    let noise: Vec<u8> = b"\0asm".iter().copied().chain((0..1000).map(|_| fastrand::u8(..))).collect();
    for bytes in [module, text, noise, Vec::new(), b"\0asm".to_vec(), HOSTILE[..HOSTILE.len() - 1].to_vec()] {
        let refused = Plugin::from_bytes(&bytes, &sandbox()).unwrap_err();
        assert!(matches!(refused, PluginError::NotAComponent(_)), "{refused}");
        assert!(inspect(&bytes, &sandbox()).is_err());
    }
    let missing = Plugin::from_file("/nonexistent/plugin.wasm", &sandbox()).unwrap_err();
    assert!(matches!(missing, PluginError::Read { .. }), "{missing}");
}

#[tokio::test]
async fn a_damaged_component_never_crashes_the_host() {
    let mut sandbox = sandbox();
    sandbox.cache = CodeCache::Off;
    let sound = core_guest(2, "i32.const 0", "");
    let mut random = fastrand::Rng::with_seed(7);
    let mut refused = 0;
    for _ in 0..150 {
        let mut damaged = sound.clone();
        match random.bool() {
            true => damaged.truncate(random.usize(..sound.len())),
            false => damaged[random.usize(8..sound.len())] ^= 1 << random.u8(..8),
        }
        match Plugin::from_bytes(&damaged, &sandbox) {
            Ok(plugin) => {
                let mut options = Options::default();
                options.log = Arc::new(KeptLog::default());
                let store = Arc::new(MemoryStore::new(MemoryLimits::default()));
                if let Ok(keepline) = Keepline::new(plugin, store, options).await {
                    keepline.pipe().question("x", METADATA).await.unwrap();
                }
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 75);
}
