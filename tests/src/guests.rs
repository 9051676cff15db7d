//! Components that misbehave: one in Rust, and core modules in text form made into components.

use std::path::Path;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{
    Mangling, Resolve, WorldId, WorldItem,
    abi::{AbiVariant, WasmType},
};

/// The guest of `tests/guests/hostile`: a question's text tells it what to do.
pub const HOSTILE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hostile.wasm"));

/// A component of the world `memory-filter`, as a core module in text form.
///
/// `pages` is its first memory; `body` what a question executes, until it returns the address of its
/// reply. The length of the question's text is local 1. At address 0 there are zeros, and that is a well-formed reply:
/// "passed". `more` are further fields of the module. Strings that are passed in land at 65536 and following; a second
/// page is there.
pub fn core_guest(pages: u32, body: &str, more: &str) -> Vec<u8> {
    let mut module = format!(
        r#"(module
            (memory (export "memory") {pages})
            (global $free (mut i32) (i32.const 65536))
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                global.get $free
                (global.set $free (i32.and (i32.const -8)
                    (i32.add (i32.const 7) (i32.add (global.get $free) (local.get 3))))))
            {more}"#
    );
    let (resolve, world) = contract();
    for (name, parameters) in exports(&resolve, world) {
        let body = if name.ends_with("/filter@0.2.0#question") { body } else { "i32.const 0" };
        module.push_str(&format!(
            "(func (export \"{name}\") (param {parameters}) (result i32) (local $n i32)
                (global.set $free (i32.const 65536)) {body})"
        ));
    }
    module.push(')');
    component_of(&wat::parse_str(module).unwrap())
}

/// Wraps a core module as a component of the world `memory-filter`.
pub fn component_of(module: &[u8]) -> Vec<u8> {
    let (resolve, world) = contract();
    let mut module = module.to_vec();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&module).unwrap().validate(true).encode().unwrap()
}

fn contract() -> (Resolve, WorldId) {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit")).unwrap();
    let world = resolve.select_world(&[package], Some("memory-filter")).unwrap();
    (resolve, world)
}

/// What the world exports, in the core ABI: name, and parameters. Each function returns an address.
fn exports(resolve: &Resolve, world: WorldId) -> Vec<(String, String)> {
    let mut exports = Vec::new();
    for (key, item) in &resolve.worlds[world].exports {
        let WorldItem::Interface { id, .. } = item else { panic!("the world exports interfaces only") };
        let interface = resolve.name_world_key(key);
        for function in resolve.interfaces[*id].functions.values() {
            let signature = resolve.wasm_signature(AbiVariant::GuestExport, function);
            assert_eq!(signature.results, [WasmType::Pointer], "{}", function.name);
            let parameters: Vec<_> = signature.params.iter().map(in_text).collect();
            let name = function.core_export_name(Some(&interface), Mangling::Legacy).into_owned();
            exports.push((name, parameters.join(" ")));
        }
    }
    exports
}

fn in_text(parameter: &WasmType) -> &'static str {
    match parameter {
        WasmType::I32 | WasmType::Pointer | WasmType::Length => "i32",
        WasmType::I64 | WasmType::PointerOrI64 => "i64",
        WasmType::F32 => "f32",
        WasmType::F64 => "f64",
    }
}
