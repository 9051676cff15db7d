//! Components that misbehave: one in Rust, and core modules in text form made into components.

use std::path::Path;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The guest of `tests/guests/hostile`: a question's text tells it what to do.
pub const HOSTILE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hostile.wasm"));

/// What the world exports, in the core ABI: name, and parameters beside (each returns an address).
const EXPORTS: [(&str, &str); 12] = [
    ("filter@0.1.0#answer", "i32 i32 i32 i32 i32 i32"),
    ("filter@0.1.0#configure", "i32 i32 i32"),
    ("sessions@0.1.0#create", "i32 i32"),
    ("sessions@0.1.0#resume", "i32 i32"),
    ("sessions@0.1.0#list", "i32 i32 i32"),
    ("sessions@0.1.0#delete", "i32 i32"),
    ("sessions@0.1.0#put", "i32 i32 i32 i32 i32 i32"),
    ("sessions@0.1.0#get", "i32 i32 i32 i32"),
    ("sessions@0.1.0#keys", "i32 i32"),
    ("sessions@0.1.0#clear", "i32 i32 i32 i32 i32"),
    ("sessions@0.1.0#increment", "i32 i32 i32 i32 i64"),
    ("sessions@0.1.0#history", "i32 i32 i32"),
];

/// A component of the world `memory-filter`, as a core module in text form.
///
/// `pages` is its first memory; `body` what a question executes, until it returns the address of its
/// reply. At address 0 there are zeros, and that is a well-formed reply: "passed". `more` are further
/// fields of the module. Strings that are passed in land at 65536 and following; a second page is there.
pub fn core_guest(pages: u32, body: &str, more: &str) -> Vec<u8> {
    let mut module = format!(
        r#"(module
            (memory (export "memory") {pages})
            (global $free (mut i32) (i32.const 65536))
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                global.get $free
                (global.set $free (i32.and (i32.const -8)
                    (i32.add (i32.const 7) (i32.add (global.get $free) (local.get 3))))))
            (func (export "keepline:memory/filter@0.1.0#question") (param i32 i32 i32 i32) (result i32)
                (local $n i32)
                (global.set $free (i32.const 65536))
                {body})
            {more}"#
    );
    for (name, parameters) in EXPORTS {
        module.push_str(&format!(
            "(func (export \"keepline:memory/{name}\") (param {parameters}) (result i32)
                (global.set $free (i32.const 65536)) i32.const 0)"
        ));
    }
    module.push(')');
    component_of(&wat::parse_str(module).unwrap())
}

/// Wraps a core module as a component of the world `memory-filter`.
pub fn component_of(module: &[u8]) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit");
    let (package, _) = resolve.push_dir(wit).unwrap();
    let world = resolve.select_world(&[package], Some("memory-filter")).unwrap();
    let mut module = module.to_vec();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&module).unwrap().validate(true).encode().unwrap()
}
