//! Estimates the memory that an instance holds beside its memories and tables: the state of its core instances, with
//! their globals. wasmtime doesn't report it, so it is computed from the component's bytes.

use wasmparser::{
    BinaryReaderError, ComponentAlias, ComponentExternalKind, ComponentOuterAliasKind, Encoding, Instance, Parser,
    Payload,
};

/// Core instances of one component: what one with its adapters can need.
pub(in crate::runtime) const MAX_INSTANCES: usize = 32;

/// What a core instance has at least.
const BASE: usize = 512;
/// The largest of a pointer to an imported function, global, memory, table or tag.
const IMPORT: usize = 32;
/// A global is as wide as a vector.
const GLOBAL: usize = 16;
/// A reference to a function, for each that is imported or defined: at most all of them can be taken.
const FUNCTION: usize = 32;
/// What is known of a memory or a table; what is in them counts as it grows.
const MEMORY: usize = 64;
/// Of a passive segment.
const ELEMENT: usize = 16;

/// An upper bound of the state of all core instances of a component, bytes. Exact in the number of instances where all
/// modules are at the component's top, as tools that make one component of one program put them. Where components are
/// nested, and may be instantiated any number of times, or modules have further indices, it is as much as the most instances
/// there may be of the largest module.
///
/// # Errors
/// When the bytes are no component.
pub(crate) fn state_bytes(component: &[u8]) -> Result<usize, BinaryReaderError> {
    let mut modules = Vec::new();
    let mut instantiated = Vec::new();
    let mut is_nested = false;
    // Whether modules have other indices than their order tells: what comes from elsewhere, or is exported, gets one, too.
    let mut is_shifted = false;
    // What is open, from the outermost: components and modules.
    let mut open: Vec<(Encoding, usize)> = Vec::new();
    for payload in Parser::new(0).parse_all(component) {
        let payload = payload?;
        let depth = open.len();
        let mut add = |count: u32, each: usize| {
            if let Some((Encoding::Module, size)) = open.last_mut() {
                *size = size.saturating_add(usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(each));
            }
        };
        match payload {
            Payload::Version { encoding, .. } => open.push((encoding, BASE)),
            Payload::ImportSection(section) => add(section.count(), IMPORT + FUNCTION),
            Payload::FunctionSection(section) => add(section.count(), FUNCTION),
            Payload::GlobalSection(section) => add(section.count(), GLOBAL),
            Payload::TableSection(section) => add(section.count(), MEMORY),
            Payload::MemorySection(section) => add(section.count(), MEMORY),
            Payload::TagSection(section) => add(section.count(), GLOBAL),
            Payload::ElementSection(section) => {
                for element in section {
                    let items = match element?.items {
                        wasmparser::ElementItems::Functions(items) => items.count(),
                        wasmparser::ElementItems::Expressions(_, items) => items.count(),
                    };
                    add(items, ELEMENT);
                }
            }
            Payload::InstanceSection(section) => {
                for instance in section {
                    if let Instance::Instantiate { module_index, .. } = instance? {
                        is_nested |= depth > 1;
                        instantiated.push(module_index);
                    }
                }
            }
            Payload::ComponentImportSection(section) => {
                for import in section {
                    is_shifted |= import?.ty.kind() == ComponentExternalKind::Module;
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section {
                    is_shifted |= export?.kind == ComponentExternalKind::Module;
                }
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section {
                    is_shifted |= match alias? {
                        ComponentAlias::InstanceExport { kind, .. } => kind == ComponentExternalKind::Module,
                        ComponentAlias::Outer { kind, .. } => kind == ComponentOuterAliasKind::CoreModule,
                        ComponentAlias::CoreInstanceExport { .. } => false,
                    };
                }
            }
            Payload::End(_) => {
                if let Some((Encoding::Module, size)) = open.pop() {
                    is_nested |= depth > 2;
                    modules.push(size);
                }
            }
            _ => {}
        }
    }
    if is_nested || is_shifted {
        return Ok(modules.into_iter().max().unwrap_or(0).saturating_mul(MAX_INSTANCES));
    }
    let of = |module: u32| modules.get(usize::try_from(module).ok()?).copied();
    Ok(instantiated.into_iter().filter_map(of).fold(0, usize::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> usize {
        state_bytes(&wat::parse_str(text).unwrap()).unwrap()
    }

    #[test]
    fn globals_functions_and_segments_count_for_each_instance() {
        assert_eq!(of("(component)"), 0);
        assert_eq!(of("(component (core module))"), 0);
        assert_eq!(of("(component (core module $m) (core instance (instantiate $m)))"), BASE);
        let globals = "(global i32 (i32.const 0)) (global v128 (v128.const i64x2 0 0)) (func)";
        let twice = format!(
            "(component (core module) (core module $m {globals})
                (core instance (instantiate $m)) (core instance (instantiate $m)))"
        );
        assert_eq!(of(&twice), 2 * (BASE + 2 * GLOBAL + FUNCTION));
        let segment = "(component (core module $m (func $f) (elem func $f $f $f)) (core instance (instantiate $m)))";
        assert_eq!(of(segment), BASE + FUNCTION + 3 * ELEMENT);
    }

    #[test]
    fn nested_components_count_as_often_as_there_may_be_instances() {
        let nested = "(component (component $c (core module $m (global i32 (i32.const 0)))
            (core instance (instantiate $m))) (instance (instantiate $c)) (instance (instantiate $c)))";
        assert_eq!(of(nested), MAX_INSTANCES * (BASE + GLOBAL));
    }

    #[test]
    fn modules_with_further_indices_count_as_the_largest() {
        let shifted = "(component (core module $m (global i32 (i32.const 0))) (export \"m\" (core module $m))
            (core instance (instantiate 1)))";
        assert_eq!(of(shifted), MAX_INSTANCES * (BASE + GLOBAL));
    }

    #[test]
    fn the_bundled_filter_is_counted_exactly() {
        let bytes = state_bytes(crate::plugin::BUNDLED).unwrap();
        assert!((1 << 10..128 << 10).contains(&bytes), "{bytes}");
    }
}
