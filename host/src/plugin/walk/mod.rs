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
    Encoding, FuncValidatorAllocations, Parser, Payload, SectionLimited, ValidPayload, Validator, WasmFeatures,
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
    /// What can be told of a section before it is validated.
    fn count_section(&mut self, payload: &Payload<'a>) -> Result<(), PluginError> {
        match payload {
            Payload::Version { encoding, .. } => self.open_scope(*encoding)?,
            Payload::TypeSection(section) => {
                self.count_definitions(section)?;
                self.meter.add_to_measure(Measure::Functions, section.count().into())?;
            }
            Payload::ImportSection(section) => self.count_definitions(section)?,
            Payload::GlobalSection(section) => self.count_definitions(section)?,
            Payload::ExportSection(section) => {
                self.count_definitions(section)?;
                self.meter.add_to_measure(Measure::Functions, section.count().into())?;
            }
            Payload::ElementSection(section) => {
                self.count_definitions(section)?;
                for segment in section.clone() {
                    let references = match segment.map_err(invalid_component)?.items {
                        ElementItems::Functions(functions) => functions.count(),
                        ElementItems::Expressions(_, expressions) => expressions.count(),
                    };
                    self.meter.add_to_measure(Measure::Functions, references.into())?;
                }
            }
            Payload::TagSection(section) => self.count_definitions(section)?,
            Payload::CoreTypeSection(section) => self.count_definitions(section)?,
            Payload::ComponentCanonicalSection(section) => self.count_definitions(section)?,
            // The data themselves are as many as the component has bytes.
            Payload::DataSection(section) => self.define_so_many(section.count().into(), 0)?,
            Payload::FunctionSection(section) => {
                self.meter.add_to_measure(Measure::Functions, section.count().into())?
            }
            Payload::MemorySection(section) => self.scopes.innermost()?.weight.memories = section.count().into(),
            Payload::TableSection(section) => {
                self.count_definitions(section)?;
                self.scopes.innermost()?.weight.tables = section.count().into();
                for table in section.clone() {
                    self.meter.add_to_measure(Measure::TableElements, table.map_err(invalid_component)?.ty.initial)?;
                }
            }
            Payload::CodeSectionEntry(body) => {
                self.meter.raise_measure(Measure::FunctionBytes, widen_to_u64(body.range().len()))?;
            }
            Payload::ComponentTypeSection(section) => {
                self.count_definitions(section)?;
                let bytes = self.bytes.get(section.range()).unwrap_or_default();
                DeclaredTypes::new(&self.validator, &mut self.sizes).check_section(
                    bytes,
                    section.range().start,
                    self.meter,
                )?;
            }
            Payload::InstanceSection(section) => {
                self.count_definitions(section)?;
                for instance in section.clone() {
                    self.scopes.core_instance(&instance.map_err(invalid_component)?)?;
                }
            }
            Payload::ComponentInstanceSection(section) => {
                self.count_definitions(section)?;
                for instance in section.clone() {
                    let instance = instance.map_err(invalid_component)?;
                    self.scopes.instance(&instance)?;
                    self.check_weight()?;
                    if let ComponentInstance::Instantiate { component_index, .. } = instance {
                        self.copy(component_index)?;
                    }
                }
            }
            Payload::ComponentAliasSection(section) => {
                self.count_definitions(section)?;
                for alias in section.clone() {
                    self.scopes.alias(&alias.map_err(invalid_component)?)?;
                }
            }
            Payload::ComponentImportSection(section) => self.count_imports(section)?,
            Payload::ComponentExportSection(section) => self.count_exports(section)?,
            // Names of functions are kept for backtraces.
            Payload::CustomSection(section) if section.name() == "name" => {
                self.define_so_many(widen_to_u64(section.data().len()) / 32, 0)?;
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
        self.count_definitions(section)?;
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
        self.count_definitions(section)?;
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

    /// What can be told of a section once it is known to be valid.
    fn count_validated(&mut self, payload: &Payload<'a>, valid: ValidPayload<'a>) -> Result<(), PluginError> {
        if let ValidPayload::Func(function, body) = valid {
            let mut validator = function.into_validator(std::mem::take(&mut self.allocations));
            let cost = function_cost(&mut validator, &body, self.meter);
            self.allocations = validator.into_allocations();
            let cost = cost?;
            self.meter.raise_measure(Measure::FunctionCost, cost)?;
            return self.meter.add_to_measure(Measure::Cost, cost);
        }
        let Some(types) = self.validator.types(0) else { return Ok(()) };
        match payload {
            Payload::ImportSection(_) | Payload::MemorySection(_) if types.memory_count() > 1 => {
                Err(invalid_component("a core module has more than one memory"))
            }
            Payload::ComponentTypeSection(_) | Payload::ComponentInstanceSection(_) => {
                let known = &mut self.scopes.innermost()?.sized_types;
                self.sizes.check_from(known, types, self.meter)
            }
            Payload::ComponentCanonicalSection(section) => {
                for canonical in section.clone() {
                    let glue = self.sizes.glue_cost(&canonical.map_err(invalid_component)?, types);
                    let weight = &mut self.scopes.innermost()?.weight;
                    weight.glue = weight.glue.saturating_add(glue);
                }
                self.check_weight()
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
        if encoding == Encoding::Module {
            if self.scopes.is_empty() {
                return Err(invalid_component("it is a core module"));
            }
            self.meter.add_to_measure(Measure::Modules, 1)?;
        } else {
            self.meter.raise_measure(Measure::Nesting, widen_to_u64(self.scopes.len()))?;
        }
        self.scopes.open(encoding);
        Ok(())
    }

    fn count_definitions<T>(&mut self, section: &SectionLimited<'a, T>) -> Result<(), PluginError> {
        self.define_so_many(section.count().into(), widen_to_u64(section.range().len()))
    }

    /// Definitions in a section of so many bytes. Those of a core module are compiled once; those of a component are
    /// gone through for each of its instances.
    fn define_so_many(&mut self, count: u64, bytes: u64) -> Result<(), PluginError> {
        let definitions = count.saturating_add(bytes / 8);
        let scope = self.scopes.innermost()?;
        scope.weight.definitions = scope.weight.definitions.saturating_add(definitions);
        self.meter.add_to_measure(Measure::Definitions, definitions)
    }

    /// Holds what an instance of the current component or module comes to against the limits.
    fn check_weight(&mut self) -> Result<(), PluginError> {
        let weight = self.scopes.innermost()?.weight;
        self.meter.raise_measure(Measure::Instances, weight.instances)?;
        self.meter.raise_measure(Measure::Definitions, weight.definitions)?;
        self.meter.raise_measure(Measure::Memories, weight.memories)?;
        self.meter.raise_measure(Measure::Tables, weight.tables)?;
        self.meter.raise_measure(Measure::Cost, weight.glue)
    }
}
