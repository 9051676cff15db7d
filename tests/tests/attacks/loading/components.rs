//! Small components that cost much: each grows with its argument.

use std::fmt::Write as _;

use keepline_tests::guests::from_text;
use wasm_encoder::{
    CodeSection, Component, ComponentSection, Function, FunctionSection, Module, ModuleSection, NestedComponentSection,
    TypeSection, ValType,
};

/// Each component in the one around it, which instantiates it twice: 2^`depth` instances.
pub fn doubling_inside(depth: u32) -> Vec<u8> {
    let mut text = "(component".to_owned();
    (0..depth).for_each(|_| text.push_str("(component "));
    (0..depth).for_each(|_| text.push_str(") (instance (instantiate 0)) (instance (instantiate 0))"));
    from_text(&(text + ")"))
}

/// The same one beside the other.
pub fn doubling_beside(count: u32) -> Vec<u8> {
    let mut text = "(component (component)".to_owned();
    for before in 0..count {
        write!(
            text,
            "(component (alias outer 1 {before} (component))
                (instance (instantiate 0)) (instance (instantiate 0)))"
        )
        .unwrap();
    }
    write!(text, "(instance (instantiate {count})))").unwrap();
    from_text(&text)
}

/// Behind a jump, so many calls of a function with so many parameters.
pub fn unreached_calls(parameters: usize, calls: usize) -> Vec<u8> {
    let (parameters, calls) = ("i32 ".repeat(parameters), "call 0 ".repeat(calls));
    from_text(&format!("(component (core module (func (param {parameters})) (func unreachable {calls})))"))
}

/// Functions that work on stretches of tables, so often each.
pub fn bulk(operator: &str, count: usize, functions: usize) -> Vec<u8> {
    from_text(&format!(
        "(component (core module (memory 1) (table $t 9 funcref) (table $u 9 funcref) (elem $e funcref (ref.null func))
            (type $f (func)) {}))",
        format!("(func {})", operator.repeat(count)).repeat(functions)
    ))
}

pub const TABLE_COPY: &str = "(table.copy $t $u (i32.const 0) (i32.const 0) (i32.const 9))";
pub const TABLE_INIT: &str = "(table.init $t $e (i32.const 0) (i32.const 0) (i32.const 1))";
pub const CALL_INDIRECT: &str = "(call_indirect $t (type $f) (i32.const 1))";

/// In one type a chain of types, each of which exports the one before.
pub fn type_chain(length: u32) -> Vec<u8> {
    let mut text = "(component (type (component (type (instance))".to_owned();
    for before in 0..length {
        write!(text, "(type (instance (alias outer 1 {before} (type)) (export \"x\" (instance (type 0)))))").unwrap();
    }
    write!(text, "(export \"x\" (instance (type {length}))))))").unwrap();
    from_text(&text)
}

/// An instance of so many resources, imported so many times: each has resources of its own.
pub fn copies(resources: u32, imports: u32) -> Vec<u8> {
    let mut text = format!("(component {}", of_resources(resources));
    (0..imports).for_each(|number| write!(text, "(import \"i{number}\" (instance (type 0)))").unwrap());
    from_text(&(text + ")"))
}

/// The same in a component's type that nobody uses.
pub fn copies_in_types(resources: u32, imports: u32) -> Vec<u8> {
    let mut text = "(component".to_owned();
    for _ in 0..3 {
        write!(text, "(type (component {}", of_resources(resources)).unwrap();
        (0..imports).for_each(|number| write!(text, "(import \"i{number}\" (instance (type 0)))").unwrap());
        text.push_str("))");
    }
    from_text(&(text + ")"))
}

/// Instances that hold several of the one before.
pub fn copies_of_copies(levels: u32, times: u32) -> Vec<u8> {
    let mut text = format!("(component {}", of_resources(8));
    for before in 0..levels {
        write!(text, "(type (instance (alias outer 1 {before} (type))").unwrap();
        (0..times).for_each(|number| write!(text, "(export \"x{number}\" (instance (type 0)))").unwrap());
        text.push_str("))");
    }
    write!(text, "(import \"i\" (instance (type {levels}))))").unwrap();
    from_text(&text)
}

fn of_resources(count: u32) -> String {
    let exports: String = (0..count).map(|number| format!("(export \"r{number}\" (type (sub resource)))")).collect();
    format!("(type (instance {exports}))")
}

/// As `doubling_beside`, but each is passed the one that it instantiates: only an expansion could tell how many.
pub fn doubling_by_argument(count: u32) -> Vec<u8> {
    let mut text = "(component (component)".to_owned();
    for before in 0..count {
        write!(
            text,
            "(component (import \"c\" (component))
                (instance (instantiate 0)) (instance (instantiate 0)))
             (instance (instantiate {} (with \"c\" (component {before}))))",
            before + 1
        )
        .unwrap();
    }
    from_text(&(text + ")"))
}

/// Components in components.
pub fn nested(depth: usize) -> Vec<u8> {
    const HEADER: [u8; 8] = *b"\0asm\x0d\0\x01\0";
    let length_of = |mut length: usize| {
        let mut bytes = Vec::new();
        loop {
            let more = length >> 7 != 0;
            bytes.push((length & 0x7f) as u8 | u8::from(more) << 7);
            length >>= 7;
            if !more {
                return bytes;
            }
        }
    };
    // From the inside outwards the lengths, from the outside inwards the bytes.
    let mut heads = Vec::new();
    let mut length = HEADER.len();
    for _ in 0..depth {
        let head = [&[4], &*length_of(length)].concat();
        length += HEADER.len() + head.len();
        heads.push(head);
    }
    let mut bytes = HEADER.to_vec();
    for head in heads.iter().rev() {
        bytes.extend([head.as_slice(), &HEADER].concat());
    }
    bytes
}

/// Types of components in types of components.
pub fn nested_types(depth: usize) -> Vec<u8> {
    // One type; a component's type with one declaration: a type.
    let mut section = vec![1];
    section.extend([0x41, 1, 1].repeat(depth));
    section.extend([0x41, 0]);
    let mut component = Component::new();
    component.section(&Raw { id: 7, data: section });
    component.finish()
}

struct Raw {
    id: u8,
    data: Vec<u8>,
}

impl wasm_encoder::Encode for Raw {
    fn encode(&self, sink: &mut Vec<u8>) {
        self.data.as_slice().encode(sink);
    }
}

impl ComponentSection for Raw {
    fn id(&self) -> u8 {
        self.id
    }
}

/// Each a pair of the one before.
pub fn pairs(levels: u32) -> Vec<u8> {
    let mut text = "(component (type (tuple u8 u8))".to_owned();
    (0..levels).for_each(|before| write!(text, "(type (tuple {before} {before}))").unwrap());
    from_text(&(text + ")"))
}

/// A component of one core module.
pub fn of_module(fields: &str) -> Vec<u8> {
    from_text(&format!("(component (core module {fields}))"))
}

/// Functions that do nothing.
pub fn functions(count: usize) -> Vec<u8> {
    of_module(&"(func)".repeat(count))
}

/// Functions that do nothing, with so many locals each.
pub fn locals(functions: u32, locals: u32) -> Vec<u8> {
    let (mut types, mut declared, mut code) = (TypeSection::new(), FunctionSection::new(), CodeSection::new());
    types.ty().function([], []);
    for _ in 0..functions {
        declared.function(0);
        let mut function = Function::new([(locals, ValType::I32)]);
        function.instructions().end();
        code.function(&function);
    }
    let mut module = Module::new();
    module.section(&types).section(&declared).section(&code);
    let mut component = Component::new();
    component.section(&ModuleSection(&module));
    component.finish()
}

/// Each calls the next.
pub fn chain(count: usize) -> Vec<u8> {
    let mut text = String::new();
    (1..count).for_each(|next| write!(text, "(func (call {next}))").unwrap());
    of_module(&(text + "(func)"))
}

/// So many values on the stack while `calls` calls are made.
pub fn live_values(values: usize, calls: usize) -> Vec<u8> {
    let (load, add) = ("(i32.load (i32.const 0))", "i32.add ");
    of_module(&format!(
        "(memory 1) (func $f) (func (result i32) {} {} {})",
        load.repeat(values),
        "(call $f)".repeat(calls),
        add.repeat(values - 1)
    ))
}

/// So many values that each need a register or a place on the stack, without a branch or a call.
pub fn straight_values(values: usize) -> Vec<u8> {
    live_values(values, 0)
}

/// As many locals that each may differ at the end of each of as many blocks.
pub fn phis(locals: usize, blocks: usize) -> Vec<u8> {
    let mut text = format!("(memory 1) (func (param i32) (local {})", "i32 ".repeat(locals));
    for block in 0..blocks {
        let local = 1 + block % locals;
        write!(text, "(if (i32.load (local.get 0)) (then (local.set {local} (i32.load (local.get {local})))))")
            .unwrap();
    }
    (1..=locals).for_each(|local| write!(text, "(i32.store (local.get 0) (local.get {local}))").unwrap());
    of_module(&(text + ")"))
}

/// Loops in loops, in which all locals change.
pub fn loops(locals: usize, depth: usize) -> Vec<u8> {
    let mut text = format!("(memory 1) (func (param i32) (local {})", "i32 ".repeat(locals));
    text.push_str(&"loop ".repeat(depth));
    (1..=locals).for_each(|local| {
        write!(text, "(local.set {local} (i32.load (local.get {})))", 1 + local % locals).unwrap();
    });
    text.push_str(&"(br_if 0 (i32.load (local.get 0))) end ".repeat(depth));
    of_module(&(text + ")"))
}

/// Branches in branches, in the innermost of which all locals change: where they meet, each may have come any way.
pub fn branches(locals: usize, depth: usize) -> Vec<u8> {
    let mut text = format!("(memory 1) (func (param i32) (local {})", "i32 ".repeat(locals));
    text.push_str(&"block (br_if 0 (i32.load (local.get 0))) ".repeat(depth));
    (1..=locals).for_each(|local| write!(text, "(local.set {local} (i32.load (local.get {local})))").unwrap());
    text.push_str(&"end ".repeat(depth));
    (1..=locals).for_each(|local| write!(text, "(i32.store (local.get 0) (local.get {local}))").unwrap());
    of_module(&(text + ")"))
}

/// Functions that are all in a table.
pub fn elements(count: usize) -> Vec<u8> {
    let all: String = (0..count).map(|function| format!("{function} ")).collect();
    of_module(&format!("(table {count} funcref) (elem (i32.const 0) {all}) {}", "(func)".repeat(count)))
}

/// A jump table whose ways all carry so many values.
pub fn jumps(ways: usize, values: usize) -> Vec<u8> {
    let results = "i32 ".repeat(values);
    let loads = "(i32.load (i32.const 0))".repeat(values);
    of_module(&format!(
        "(memory 1) (func (param i32) block (result {results}) block (result {results}) {loads}
            (br_table {} (local.get 0)) end end {})",
        "0 1 ".repeat(ways / 2),
        "drop ".repeat(values)
    ))
}

/// Modules whose memory's first contents span a megabyte each.
pub fn images(modules: usize) -> Vec<u8> {
    let module = "(core module (memory 16) (data (i32.const 0) \"x\") (data (i32.const 1048575) \"x\"))";
    from_text(&format!("(component {})", module.repeat(modules)))
}

/// Tables of a million elements, of which one is there at first.
pub fn tables(modules: usize) -> Vec<u8> {
    let module = "(core module (table 1000000 funcref) (func) (elem (i32.const 999999) 0))";
    from_text(&format!("(component {})", module.repeat(modules)))
}

/// So many types of core functions, each of its own.
pub fn core_types(count: usize) -> Vec<u8> {
    let mut text = String::new();
    for type_ in 0..count {
        let parameters = (0..16).map(|bit| if type_ >> bit & 1 == 0 { "i32 " } else { "i64 " });
        write!(text, "(type (func (param {})))", parameters.collect::<String>()).unwrap();
    }
    of_module(&text)
}

/// A component that is nothing but exports of one function.
pub fn exports(count: usize) -> Vec<u8> {
    let mut text = "(component (import \"f\" (func $f))".to_owned();
    (0..count).for_each(|export| write!(text, "(export \"e{export}\" (func $f))").unwrap());
    from_text(&(text + ")"))
}

/// Two parts, of which one calls so many functions of the other with a record of so many strings, each in the memory of
/// its own.
pub fn adapters(functions: usize, strings: usize) -> Vec<u8> {
    let fields: String = (0..strings).map(|field| format!("(field \"f{field}\" string)")).collect();
    // As many as sixteen values are passed flat, more of them in memory.
    let parameters = if strings <= 8 { "i32 i32 ".repeat(strings) } else { "i32".to_owned() };
    let memory = "(memory $m \"memory\") (realloc (func $m \"realloc\"))";
    let mut callee = format!(
        "(import \"r\" (type $R (eq $r))) (core instance $m (instantiate $memory))
         (core module $code (func (export \"f\") (param {parameters}))) (core instance $code (instantiate $code))"
    );
    let mut lowered = String::new();
    for function in 0..functions {
        write!(
            callee,
            "(func (export \"f{function}\") (param \"r\" $R) (canon lift (core func $code \"f\") {memory}))"
        )
        .unwrap();
        write!(lowered, "(core func (canon lower (func $callee \"f{function}\") {memory}))").unwrap();
    }
    from_text(&format!(
        "(component
            (type $record (record {fields})) (export $r \"r\" (type $record))
            (core module $memory (memory (export \"memory\") 1)
                (func (export \"realloc\") (param i32 i32 i32 i32) (result i32) i32.const 0))
            (component $callee {callee})
            (instance $callee (instantiate $callee (with \"r\" (type $r))))
            (core instance $m (instantiate $memory))
            {lowered})"
    ))
}

/// With nothing in it but a section that has no meaning.
pub fn padded(bytes: usize) -> Vec<u8> {
    let mut component = Component::new();
    component.section(&wasm_encoder::CustomSection { name: "padding".into(), data: vec![0; bytes].into() });
    component.finish()
}

/// A section that promises more than there is.
pub fn promising() -> Vec<u8> {
    let mut component = Component::new();
    component.section(&NestedComponentSection(&Component::new()));
    let mut bytes = component.finish();
    bytes.extend([7, 5, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    bytes
}
