//! Types of components: how deep they are nested, and how large they are written out.
//!
//! A type refers to others by their index, so that a few lines can describe one with a million parts. What compares or
//! converts its values goes through all of them.

use std::collections::HashMap;

use wasmparser::{
    BinaryReader, CanonicalFunction, ComponentAlias, ComponentExternName, ComponentImport, ComponentType,
    ComponentTypeRef, CoreType,
    component_types::{ComponentAnyTypeId, ComponentDefinedType, ComponentEntityType, ComponentValType},
    types::TypesRef,
};

use super::{FEATURES, Measure, Meter, PluginError, invalid, wide};

/// Holds the nesting of a section of types against its limit, without recursion: the parser recurses.
pub(super) fn check_nesting(section: &[u8], at: usize, meter: &mut Meter<'_>) -> Result<(), PluginError> {
    let mut reader = BinaryReader::new_features(section, at, FEATURES);
    // How many declarations are still to come, of each type that has begun.
    let mut open = vec![reader.read_var_u32().map_err(invalid)?];
    while let Some(left) = open.last_mut() {
        if *left == 0 {
            open.pop();
            continue;
        }
        *left -= 1;
        let is_declaration = open.len() > 1;
        if let Some(count) = next(&mut reader, is_declaration).map_err(invalid)? {
            meter.at_least(Measure::TypeNesting, wide(open.len()))?;
            open.push(count);
        }
    }
    Ok(())
}

/// Reads a type, or a declaration in one. Of a component's or an instance's type it reads the beginning, and returns
/// how many declarations follow.
fn next(reader: &mut BinaryReader<'_>, is_declaration: bool) -> wasmparser::Result<Option<u32>> {
    if is_declaration {
        match reader.clone().read_u8()? {
            0x00 => {
                reader.read_u8()?;
                reader.read::<CoreType<'_>>()?;
                return Ok(None);
            }
            0x02 => {
                reader.read_u8()?;
                reader.read::<ComponentAlias<'_>>()?;
                return Ok(None);
            }
            0x03 => {
                reader.read_u8()?;
                reader.read::<ComponentImport<'_>>()?;
                return Ok(None);
            }
            0x04 => {
                reader.read_u8()?;
                reader.read::<ComponentExternName<'_>>()?;
                reader.read::<ComponentTypeRef>()?;
                return Ok(None);
            }
            // A type, or what the validator will refuse.
            _ => reader.read_u8()?,
        };
    }
    match reader.clone().read_u8()? {
        0x41 | 0x42 => {
            reader.read_u8()?;
            reader.read_var_u32().map(Some)
        }
        _ => reader.read::<ComponentType<'_>>().map(|_| None),
    }
}

/// Sizes of the types that are known so far, with the levels in them.
#[derive(Default)]
pub(super) struct Sizes(HashMap<ComponentAnyTypeId, Size>);

#[derive(Clone, Copy, Default)]
struct Size {
    parts: u64,
    levels: u64,
}

impl Sizes {
    /// Measures the types of the current component, from the first that is new.
    pub(super) fn check_from(
        &mut self,
        known: &mut u32,
        types: TypesRef<'_>,
        meter: &mut Meter<'_>,
    ) -> Result<(), PluginError> {
        for index in *known..types.component_type_count() {
            let size = self.of(types.component_any_type_at(index), types);
            meter.at_least(Measure::TypeSize, size.parts)?;
            meter.at_least(Measure::TypeNesting, size.levels)?;
        }
        *known = types.component_type_count();
        Ok(())
    }

    /// Steps to compile what converts the arguments and the result of a function, as far as it is not shared.
    pub(super) fn glue(&mut self, function: &CanonicalFunction, types: TypesRef<'_>) -> u64 {
        /// Wasmtime shares the code for what is beyond.
        const MOST_PARTS: u64 = 1000;
        const STEPS_FOR_A_PART: u64 = 30;
        let id = match function {
            CanonicalFunction::Lift { type_index, .. } => types.component_any_type_at(*type_index),
            CanonicalFunction::Lower { func_index, .. } => types.component_function_at(*func_index).into(),
            _ => return STEPS_FOR_A_PART,
        };
        self.of(id, types).parts.min(MOST_PARTS) * STEPS_FOR_A_PART
    }

    /// The validator allows a hundred levels: recursion is bounded.
    fn of(&mut self, id: ComponentAnyTypeId, types: TypesRef<'_>) -> Size {
        if let Some(size) = self.0.get(&id) {
            return *size;
        }
        let mut whole = Whole { sizes: self, types, size: Size { parts: 1, levels: 0 } };
        // What the validator names it knows.
        match id {
            ComponentAnyTypeId::Resource(_) => {}
            ComponentAnyTypeId::Defined(id) => types.get(id).into_iter().for_each(|defined| whole.defined(defined)),
            ComponentAnyTypeId::Func(id) => {
                if let Some(function) = types.get(id) {
                    function.params.iter().for_each(|(_, value)| whole.value(*value));
                    whole.optional(function.result);
                }
            }
            ComponentAnyTypeId::Instance(id) => {
                let exports = types.get(id).into_iter().flat_map(|instance| instance.exports.values());
                exports.for_each(|item| whole.entity(item.ty));
            }
            ComponentAnyTypeId::Component(id) => {
                let items = types.get(id).into_iter();
                let items = items.flat_map(|component| component.imports.values().chain(component.exports.values()));
                items.for_each(|item| whole.entity(item.ty));
            }
        }
        let size = Size { levels: whole.size.levels + 1, ..whole.size };
        self.0.insert(id, size);
        size
    }
}

/// A type, while its parts are added up.
struct Whole<'a> {
    sizes: &'a mut Sizes,
    types: TypesRef<'a>,
    size: Size,
}

impl Whole<'_> {
    fn part(&mut self, id: ComponentAnyTypeId) {
        let size = self.sizes.of(id, self.types);
        self.size.parts = self.size.parts.saturating_add(size.parts);
        self.size.levels = self.size.levels.max(size.levels);
    }

    fn value(&mut self, value: ComponentValType) {
        match value {
            ComponentValType::Primitive(_) => self.size.parts = self.size.parts.saturating_add(1),
            ComponentValType::Type(id) => self.part(id.into()),
        }
    }

    fn optional(&mut self, value: Option<ComponentValType>) {
        if let Some(value) = value {
            self.value(value);
        }
    }

    fn names(&mut self, count: usize) {
        self.size.parts = self.size.parts.saturating_add(wide(count));
    }

    fn defined(&mut self, defined: &ComponentDefinedType) {
        match defined {
            ComponentDefinedType::Primitive(_) | ComponentDefinedType::Own(_) | ComponentDefinedType::Borrow(_) => {}
            ComponentDefinedType::Record(record) => record.fields.values().for_each(|field| self.value(*field)),
            ComponentDefinedType::Variant(variant) => {
                self.names(variant.cases.len());
                variant.cases.values().for_each(|case| self.optional(case.ty));
            }
            ComponentDefinedType::Tuple(tuple) => tuple.types.iter().for_each(|value| self.value(*value)),
            ComponentDefinedType::Flags(names) | ComponentDefinedType::Enum(names) => self.names(names.len()),
            ComponentDefinedType::List { element, .. } | ComponentDefinedType::FixedLengthList { element, .. } => {
                self.value(*element);
            }
            ComponentDefinedType::Map { key, value, .. } => {
                self.value(*key);
                self.value(*value);
            }
            ComponentDefinedType::Option { ty, .. } => self.value(*ty),
            ComponentDefinedType::Result { ok, err, .. } => {
                self.optional(*ok);
                self.optional(*err);
            }
            ComponentDefinedType::Future { ty, .. } | ComponentDefinedType::Stream { ty, .. } => self.optional(*ty),
        }
    }

    fn entity(&mut self, entity: ComponentEntityType) {
        match entity {
            ComponentEntityType::Module(_) => self.names(1),
            ComponentEntityType::Func(id) => self.part(id.into()),
            ComponentEntityType::Value(value) => self.value(value),
            ComponentEntityType::Type { referenced, .. } => self.part(referenced),
            ComponentEntityType::Instance(id) => self.part(id.into()),
            ComponentEntityType::Component(id) => self.part(id.into()),
        }
    }
}
