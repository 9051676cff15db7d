//! Walks over a component's bytes before any of them is compiled: it must be valid and within its limits.
//!
//! The walk itself is bounded. It looks at each byte once, holds no more than the component's own types, recurses no
//! deeper than types may be nested, and counts what nested components multiply without expanding it. Each section is
//! counted before it is validated, with the copies that the validator makes of its types, so nothing larger than
//! allowed is ever validated.

mod declared;
mod function;
mod scope;
mod types;

use wasmparser::{
    ComponentExportSectionReader, ComponentExternalKind, ComponentImportSectionReader, ComponentInstance, ElementItems,
    Encoding, FuncValidatorAllocations, Instance, Parser, Payload, SectionLimited, ValidPayload, Validator,
    WasmFeatures,
};

use self::{declared::DeclaredTypes, function::function_cost, scope::ScopeStack, types::TypeSizes};
use super::{
    error::{PluginError, printable_name, printable_text},
    meter::Meter,
};
use crate::sandbox::Measure;

/// What a component may use of WebAssembly. No shared memories, no wide or exotic extensions: the less there is, the
/// less can be wrong. Multiple memories are for adapters only, which copy from one part of a component to another: a
/// module that has several itself is refused.
pub(super) const FEATURES: WasmFeatures = WasmFeatures::MUTABLE_GLOBAL
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::REFERENCE_TYPES)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::BULK_MEMORY)
    .union(WasmFeatures::SIMD)
    .union(WasmFeatures::FLOATS)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::MULTI_MEMORY)
    .union(WasmFeatures::COMPONENT_MODEL);

/// What a core module, a nested component and an instance of either count for, in definitions.
const MODULE: u64 = 750;
const COMPONENT: u64 = 100;
const INSTANCE: u64 = 100;
/// Those that take more bytes than this, or as many elements of a table, count for several.
const BYTES_OF_A_DEFINITION: u64 = 8;
/// Steps to compile what is around a function.
const STEPS_OF_A_FUNCTION: u64 = 5000;
/// Steps to compile what converts the arguments and the result of a function between parts of a component: for the largest
/// of types, beyond which wasmtime shares the code.
const STEPS_OF_GLUE: u64 = 30_000;

/// What the walk learns beside the measures.
#[derive(Default)]
pub(super) struct Interfaces {
    pub(super) imports: Vec<String>,
    pub(super) exports: Vec<String>,
}

/// Walks over a component. What was found up to an error stays in the meter and the interfaces.
///
/// # Errors
/// When it is no valid component, or is over one of the meter's limits.
pub(super) fn walk_component(
    bytes: &[u8],
    meter: &mut Meter<'_>,
    interfaces: &mut Interfaces,
) -> Result<(), PluginError> {
    meter.raise_measure(Measure::Bytes, widen_to_u64(bytes.len()))?;
    if !bytes.starts_with(b"\0asm") {
        return Err(invalid_component("it does not start with the WebAssembly magic number"));
    }
    let mut parser = Parser::new(0);
    parser.set_features(FEATURES);
    let mut walk = Walk {
        bytes,
        meter,
        interfaces,
        validator: Validator::new_with_features(FEATURES),
        allocations: FuncValidatorAllocations::default(),
        scopes: ScopeStack::default(),
        sizes: TypeSizes::default(),
    };
    for payload in parser.parse_all(bytes) {
        let payload = payload.map_err(invalid_component)?;
        walk.count_section(&payload)?;
        let valid = walk.validator.payload(&payload).map_err(invalid_component)?;
        walk.count_validated(&payload, valid)?;
    }
    Ok(())
}

fn invalid_component(problem: impl ToString) -> PluginError {
    PluginError::NotAComponent(printable_text(problem))
}

fn widen_to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

struct Walk<'a, 'limits> {
    bytes: &'a [u8],
    meter: &'a mut Meter<'limits>,
    interfaces: &'a mut Interfaces,
    validator: Validator,
    allocations: FuncValidatorAllocations,
    scopes: ScopeStack,
    sizes: TypeSizes,
}

impl<'a> Walk<'a, '_> {
    /// What is known of a section before it is validated.
    fn count_section(&mut self, payload: &Payload<'a>) -> Result<(), PluginError> {
        match payload {
            Payload::Version { encoding, .. } => self.open_scope(*encoding)?,
            Payload::TypeSection(section) => {
                self.define_section(section)?;
                self.count_functions(section.count())?;
            }
            Payload::ImportSection(section) => self.define_section(section)?,
            Payload::GlobalSection(section) => self.define_section(section)?,
            Payload::ExportSection(section) => {
                self.define_section(section)?;
                self.count_functions(section.count())?;
            }
            Payload::ElementSection(section) => {
                self.define_section(section)?;
                for segment in section.clone() {
                    let references = match segment.map_err(invalid_component)?.items {
                        ElementItems::Functions(functions) => functions.count(),
                        ElementItems::Expressions(_, expressions) => expressions.count(),
                    };
                    self.count_functions(references)?;
                }
            }
            Payload::TagSection(section) => self.define_section(section)?,
            Payload::CoreTypeSection(section) => self.define_section(section)?,
            Payload::ComponentCanonicalSection(section) => {
                self.define_section(section)?;
                let weight = &mut self.scopes.innermost()?.weight;
                weight.glue = weight.glue.saturating_add(u64::from(section.count()) * STEPS_OF_GLUE);
                self.check_weight()?;
            }
            // The data themselves are as many as the component has bytes.
            Payload::DataSection(section) => self.define(section.count().into())?,
            Payload::FunctionSection(section) => self.count_functions(section.count())?,
            Payload::TableSection(section) => {
                self.define_section(section)?;
                for table in section.clone() {
                    self.define(table.map_err(invalid_component)?.ty.initial / BYTES_OF_A_DEFINITION)?;
                }
            }
            Payload::ComponentTypeSection(section) => {
                self.define_section(section)?;
                let bytes = self.bytes.get(section.range()).unwrap_or_default();
                DeclaredTypes::new(&self.validator, &mut self.sizes).check_section(
                    bytes,
                    section.range().start,
                    self.meter,
                )?;
            }
            Payload::InstanceSection(section) => {
                self.define_section(section)?;
                for instance in section.clone() {
                    if let Instance::Instantiate { .. } = instance.map_err(invalid_component)? {
                        self.define(INSTANCE)?;
                    }
                }
            }
            Payload::ComponentInstanceSection(section) => {
                self.define_section(section)?;
                for instance in section.clone() {
                    if let ComponentInstance::Instantiate { component_index, .. } =
                        instance.map_err(invalid_component)?
                    {
                        self.define(INSTANCE)?;
                        self.scopes.instantiate(component_index)?;
                        self.check_weight()?;
                        self.copy(component_index)?;
                    }
                }
            }
            Payload::ComponentAliasSection(section) => {
                self.define_section(section)?;
                for alias in section.clone() {
                    self.scopes.alias(&alias.map_err(invalid_component)?)?;
                }
            }
            Payload::ComponentImportSection(section) => self.count_imports(section)?,
            Payload::ComponentExportSection(section) => self.count_exports(section)?,
            // Names of functions are kept for backtraces.
            Payload::CustomSection(section) if section.name() == "name" => {
                self.define(widen_to_u64(section.data().len()) / 32)?;
            }
            Payload::End(_) => {
                self.check_weight()?;
                self.scopes.close();
            }
            _ => {}
        }
        Ok(())
    }

    fn count_imports(&mut self, section: &ComponentImportSectionReader<'a>) -> Result<(), PluginError> {
        self.define_section(section)?;
        let mut declared = DeclaredTypes::new(&self.validator, &mut self.sizes);
        for import in section.clone() {
            let import = import.map_err(invalid_component)?;
            declared.count_reference(import.ty, self.meter)?;
            self.scopes.import(import.ty.kind())?;
            if self.scopes.is_outermost() {
                self.interfaces.imports.push(printable_name(import.name.name));
            }
        }
        Ok(())
    }

    fn count_exports(&mut self, section: &ComponentExportSectionReader<'a>) -> Result<(), PluginError> {
        self.define_section(section)?;
        let mut declared = DeclaredTypes::new(&self.validator, &mut self.sizes);
        for export in section.clone() {
            let export = export.map_err(invalid_component)?;
            match (export.ty, export.kind) {
                (Some(ascribed), _) => declared.count_reference(ascribed, self.meter)?,
                (None, ComponentExternalKind::Type) => declared.alias_type(export.index),
                (None, _) => {}
            }
            self.scopes.export(export.kind, export.index)?;
            if self.scopes.is_outermost() {
                self.interfaces.exports.push(printable_name(export.name.name));
            }
        }
        Ok(())
    }

    /// What is known of a section once it is valid.
    fn count_validated(&mut self, payload: &Payload<'a>, valid: ValidPayload<'a>) -> Result<(), PluginError> {
        if let ValidPayload::Func(function, body) = valid {
            let mut validator = function.into_validator(std::mem::take(&mut self.allocations));
            let cost = function_cost(&mut validator, &body);
            self.allocations = validator.into_allocations();
            let cost = cost?;
            self.meter.raise_measure(Measure::FunctionCost, cost)?;
            return self.meter.add_to_measure(Measure::Cost, cost);
        }
        let memories = self.validator.types(0).map_or(0, |types| types.memory_count());
        match payload {
            Payload::ImportSection(_) | Payload::MemorySection(_) if memories > 1 => {
                Err(invalid_component("a core module has more than one memory"))
            }
            _ => Ok(()),
        }
    }

    /// What an instance of a component has for a type is a copy, too.
    fn copy(&mut self, component: u32) -> Result<(), PluginError> {
        let Some(types) = self.validator.types(0) else { return Ok(()) };
        if component >= types.component_count() {
            return Ok(());
        }
        let size = self.sizes.measure_type(types.component_at(component).into(), types);
        self.meter.add_to_measure(Measure::Definitions, if size.has_resources { size.parts } else { 0 })
    }

    fn open_scope(&mut self, encoding: Encoding) -> Result<(), PluginError> {
        match encoding {
            Encoding::Module if self.scopes.is_empty() => return Err(invalid_component("it is a core module")),
            Encoding::Module => self.define(MODULE)?,
            Encoding::Component if self.scopes.is_empty() => {}
            Encoding::Component => self.define(COMPONENT)?,
        }
        self.scopes.open(encoding);
        Ok(())
    }

    fn define_section<T>(&mut self, section: &SectionLimited<'a, T>) -> Result<(), PluginError> {
        self.define(u64::from(section.count()) + widen_to_u64(section.range().len()) / BYTES_OF_A_DEFINITION)
    }

    /// Those of a core module are compiled once; those of a component are gone through for each of its instances.
    fn define(&mut self, definitions: u64) -> Result<(), PluginError> {
        let scope = self.scopes.innermost()?;
        scope.weight.definitions = scope.weight.definitions.saturating_add(definitions);
        self.meter.add_to_measure(Measure::Definitions, definitions)
    }

    /// So many functions, or what else is compiled like one.
    fn count_functions(&mut self, count: u32) -> Result<(), PluginError> {
        self.meter.add_to_measure(Measure::Cost, u64::from(count) * STEPS_OF_A_FUNCTION)
    }

    /// Holds what an instance of the current component comes to against the limits.
    fn check_weight(&mut self) -> Result<(), PluginError> {
        let weight = self.scopes.innermost()?.weight;
        self.meter.raise_measure(Measure::Definitions, weight.definitions)?;
        self.meter.raise_measure(Measure::Cost, weight.glue)
    }
}
