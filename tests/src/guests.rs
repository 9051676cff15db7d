//! Components that misbehave: one in Rust, and core modules in text form made into components.

use std::path::Path;

use keepline::{Passed, pipe::ProblemCode};

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{
    Mangling, Resolve, WorldId, WorldItem,
    abi::{AbiVariant, WasmType},
};

/// The guest of `tests/guests/hostile`: a question's text tells it what to do.
pub const HOSTILE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hostile.wasm"));

/// The guest of `tests/guests/hostile-pipelines`: a run's id, or an assembly's text, tells it what to do.
pub const HOSTILE_PIPELINES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hostile-pipelines.wasm"));

/// What the hostile guest tells of a question or an answer.
pub fn told(passed: &Passed) -> Option<String> {
    if let Some(metadata) = &passed.metadata {
        let metadata: serde_json::Value = serde_json::from_str(metadata).unwrap();
        return Some(metadata["told"].as_str().unwrap().to_owned());
    }
    let problem = passed.problem.as_ref()?;
    (problem.code == ProblemCode::Other("told".into())).then(|| problem.message.clone())
}

/// A component of the world `memory-filter`, as a core module in text form.
///
/// At address 0 there are zeros, and that is a well-formed reply: one without an effect, which counts as "passed". Strings that are passed in land at 65536 and
/// following; a second page is there. What the world imports can be called by its name in the core ABI: `$write`, `$now`,
/// `$list-buckets`.
#[derive(Clone, Copy, Debug)]
pub struct CoreGuest<'a> {
    /// Its first memory.
    pub pages: u32,
    /// What a question executes, until it returns the address of its reply. The length of its text is local 1.
    pub question: &'a str,
    /// What it executes when it is configured, likewise.
    pub configure: &'a str,
    /// What it executes when the host has it allocate room for a string, until it returns its address. The size is local 3.
    pub realloc: &'a str,
    /// Further fields of the module.
    pub more: &'a str,
}

const REALLOC: &str = "global.get $free
    (global.set $free (i32.and (i32.const -8) (i32.add (i32.const 7) (i32.add (global.get $free) (local.get 3)))))";

impl Default for CoreGuest<'_> {
    fn default() -> Self {
        Self { pages: 2, question: "i32.const 0", configure: "i32.const 0", realloc: REALLOC, more: "" }
    }
}

impl CoreGuest<'_> {
    /// As a component.
    pub fn component(&self) -> Vec<u8> {
        let (resolve, world) = contract();
        let Self { pages, question, configure, realloc, more } = self;
        let mut functions = String::new();
        for (name, parameters) in exports(&resolve, world) {
            let body = match &*name {
                "keepline:memory/lanes@0.3.0#question" => question,
                "keepline:memory/lanes@0.3.0#configure" => configure,
                _ => "i32.const 0",
            };
            // An entry has too many fields to be passed in any other way than by its address.
            let length = match &*name {
                "keepline:memory/lanes@0.3.0#question" => "(local.set $length (i32.load offset=4 (local.get 0)))",
                _ => "",
            };
            functions.push_str(&format!(
                "(func (export \"{name}\") (param {parameters}) (result i32) (local $length i32) (local $n i32)
                    (global.set $free (i32.const 65536)) {length} {body})"
            ));
        }
        let is_called = |name: &str| {
            let calls = |text: &str| text.split_whitespace().any(|word| word.trim_end_matches(')') == name);
            calls(&functions) || calls(more)
        };
        let imports: String = imports(&resolve, world)
            .into_iter()
            .filter(|(name, _)| is_called(name))
            .map(|(_, import)| import)
            .collect();
        let module = format!(
            r#"(module
                {imports}
                (memory (export "memory") {pages})
                (global $free (mut i32) (i32.const 65536))
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) {realloc})
                {more} {functions})"#
        );
        component_of(&wat::parse_str(module).unwrap())
    }
}

/// A [`CoreGuest`] with that memory, question and further fields.
pub fn core_guest(pages: u32, question: &str, more: &str) -> Vec<u8> {
    CoreGuest { pages, question, more, ..CoreGuest::default() }.component()
}

/// The bytes of a component, or of a core module, in text form: `(component …)`. It need not be valid.
pub fn from_text(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
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

/// What the world imports, in the core ABI: its name here, and the import in text form.
fn imports(resolve: &Resolve, world: WorldId) -> Vec<(String, String)> {
    let mut imports = Vec::new();
    for (key, item) in &resolve.worlds[world].imports {
        let WorldItem::Interface { id, .. } = item else { panic!("the world imports interfaces only") };
        let interface = resolve.name_world_key(key);
        for (name, function) in &resolve.interfaces[*id].functions {
            let signature = resolve.wasm_signature(AbiVariant::GuestImport, function);
            let types = |types: &[WasmType]| types.iter().map(in_text).collect::<Vec<_>>().join(" ");
            let (parameters, results) = (types(&signature.params), types(&signature.results));
            let function = format!("(func ${name} (param {parameters}) (result {results}))");
            imports.push((format!("${name}"), format!("(import \"{interface}\" \"{name}\" {function})")));
        }
    }
    imports
}

fn in_text(parameter: &WasmType) -> &'static str {
    match parameter {
        WasmType::I32 | WasmType::Pointer | WasmType::Length => "i32",
        WasmType::I64 | WasmType::PointerOrI64 => "i64",
        WasmType::F32 => "f32",
        WasmType::F64 => "f64",
    }
}
