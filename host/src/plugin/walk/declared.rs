//! Measures the types of a section from its bytes, before the validator sees them.
//!
//! The validator copies the type of an instance or a component wherever one with resources is imported, exported or
//! instantiated, because each has resources of its own. A few lines can ask for millions of copies: each is counted
//! here first, at its size when everything that it refers to is written out. Only the parser of a single type recurses,
//! and that is not nested.

use wasmparser::{
    BinaryReader, ComponentAlias, ComponentDefinedType, ComponentExternName, ComponentImport, ComponentOuterAliasKind,
    ComponentType, ComponentTypeRef, ComponentValType, CoreType, TypeBounds, Validator,
};

use super::{
    FEATURES, Measure, Meter, PluginError, invalid_component,
    types::{TypeSize, TypeSizes},
    widen_to_u64,
};

/// A component or a type in which types are being declared.
#[derive(Default)]
struct Frame {
    /// How many declarations are still to come.
    left: u32,
    /// Of its index space of types; of a component those that are declared here.
    types: Vec<TypeSize>,
    /// What it comes to so far.
    size: TypeSize,
}

/// The sizes of types while a section is read: those of the components around it, and of what is being declared.
pub(super) struct DeclaredTypes<'w> {
    validator: &'w Validator,
    sizes: &'w mut TypeSizes,
    /// The section itself, and the types that have begun in it.
    frames: Vec<Frame>,
}

enum Item {
    /// Declarations follow.
    Open(u32),
    Type(TypeSize),
    Core,
    Refer(ComponentTypeRef),
}

impl<'w> DeclaredTypes<'w> {
    pub(super) fn new(validator: &'w Validator, sizes: &'w mut TypeSizes) -> Self {
        Self { validator, sizes, frames: vec![Frame::default()] }
    }

    /// Holds a section of types against the limits.
    pub(super) fn check_section(mut self, section: &[u8], at: usize, meter: &mut Meter<'_>) -> Result<(), PluginError> {
        let mut reader = BinaryReader::new_features(section, at, FEATURES);
        if let Some(frame) = self.frames.first_mut() {
            frame.left = reader.read_var_u32().map_err(invalid_component)?;
        }
        while let Some(frame) = self.frames.last_mut() {
            if frame.left == 0 {
                let size = frame.size.whole();
                self.frames.pop();
                let Some(around) = self.frames.last_mut() else { break };
                meter.raise_measure(Measure::TypeSize, size.parts)?;
                meter.raise_measure(Measure::TypeNesting, size.levels)?;
                around.types.push(size);
                continue;
            }
            frame.left -= 1;
            match self.read_declaration(&mut reader).map_err(invalid_component)? {
                Item::Open(count) => {
                    meter.raise_measure(Measure::TypeNesting, widen_to_u64(self.frames.len()))?;
                    self.frames.push(Frame { left: count, ..Frame::default() });
                }
                Item::Type(size) => {
                    meter.raise_measure(Measure::TypeSize, size.parts)?;
                    meter.raise_measure(Measure::TypeNesting, size.levels)?;
                    self.declare(size);
                }
                Item::Core => {}
                Item::Refer(referred) => self.count_reference(referred, meter)?,
            }
        }
        Ok(())
    }

    /// What an import or an export of that type comes to: it is a part of the type in which it stands, and a copy is made
    /// of one with resources.
    pub(super) fn count_reference(
        &mut self,
        referred: ComponentTypeRef,
        meter: &mut Meter<'_>,
    ) -> Result<(), PluginError> {
        let mut is_copied = false;
        let size = match referred {
            ComponentTypeRef::Module(_) => TypeSize::ONE,
            ComponentTypeRef::Func(index) => self.type_size_at(0, index),
            ComponentTypeRef::Value(value) => self.value(value),
            ComponentTypeRef::Type(bounds) => {
                let size = match bounds {
                    TypeBounds::Eq(index) => self.type_size_at(0, index),
                    TypeBounds::SubResource => TypeSize { has_resources: true, ..TypeSize::ONE },
                };
                self.declare(size);
                size
            }
            ComponentTypeRef::Instance(index) | ComponentTypeRef::Component(index) => {
                let size = self.type_size_at(0, index);
                is_copied = size.has_resources;
                size
            }
        };
        if let Some(frame) = self.frames.last_mut() {
            frame.size.add(size);
        }
        meter.add_to_measure(Measure::Definitions, if is_copied { size.parts } else { 0 })
    }

    /// A type that is there gets one more index.
    pub(super) fn alias_type(&mut self, index: u32) {
        let size = self.type_size_at(0, index);
        self.declare(size);
    }

    fn declare(&mut self, size: TypeSize) {
        if let Some(frame) = self.frames.last_mut() {
            frame.types.push(size);
        }
    }

    /// The size of a type, so many levels further out. One that is not there the validator will refuse.
    fn type_size_at(&mut self, out: usize, index: u32) -> TypeSize {
        let Some(level) = self.frames.len().checked_sub(1 + out) else {
            return self.outer_type_size(out + 1 - self.frames.len(), index).unwrap_or(TypeSize::ONE);
        };
        let before = if level == 0 { self.known() } else { 0 };
        match index.checked_sub(before) {
            None => self.outer_type_size(0, index).unwrap_or(TypeSize::ONE),
            Some(here) => {
                let types = self.frames.get(level).map_or(&[][..], |frame| &frame.types);
                usize::try_from(here).ok().and_then(|here| types.get(here)).copied().unwrap_or(TypeSize::ONE)
            }
        }
    }

    /// How many types the component had before this section.
    fn known(&self) -> u32 {
        self.validator.types(0).map_or(0, |types| types.component_type_count())
    }

    /// Of a component so many levels around this one, as far as it has been validated.
    fn outer_type_size(&mut self, level: usize, index: u32) -> Option<TypeSize> {
        let types = self.validator.types(level)?;
        (index < types.component_type_count())
            .then(|| self.sizes.measure_type(types.component_any_type_at(index), types))
    }

    fn value(&mut self, value: ComponentValType) -> TypeSize {
        match value {
            ComponentValType::Primitive(_) => TypeSize::ONE,
            ComponentValType::Type(index) => self.type_size_at(0, index),
        }
    }

    /// Reads a type, or a declaration in one; of a component's or an instance's type its beginning.
    fn read_declaration(&mut self, reader: &mut BinaryReader<'_>) -> wasmparser::Result<Item> {
        if self.frames.len() > 1 {
            match reader.read_u8()? {
                0x00 => return reader.read::<CoreType<'_>>().map(|_| Item::Core),
                0x02 => return reader.read::<ComponentAlias<'_>>().map(|alias| self.alias(&alias)),
                0x03 => return reader.read::<ComponentImport<'_>>().map(|import| Item::Refer(import.ty)),
                0x04 => {
                    reader.read::<ComponentExternName<'_>>()?;
                    return reader.read::<ComponentTypeRef>().map(Item::Refer);
                }
                // A type, or what the validator will refuse.
                _ => {}
            }
        }
        match reader.clone().read_u8()? {
            0x41 | 0x42 => {
                reader.read_u8()?;
                reader.read_var_u32().map(Item::Open)
            }
            _ => reader.read::<ComponentType<'_>>().map(|declared| Item::Type(self.flat_type_size(&declared))),
        }
    }

    fn alias(&mut self, alias: &ComponentAlias<'_>) -> Item {
        match alias {
            ComponentAlias::Outer { kind: ComponentOuterAliasKind::Type, count, index } => Item::Type(
                self.type_size_at(usize::try_from(*count).unwrap_or(usize::MAX).min(self.frames.len() + 1000), *index),
            ),
            // Of an instance's types, none is larger than all that is here.
            ComponentAlias::InstanceExport { kind: wasmparser::ComponentExternalKind::Type, .. } => {
                Item::Type(self.frames.last().map_or(TypeSize::ONE, |frame| frame.size))
            }
            _ => Item::Core,
        }
    }

    /// A type that is not nested.
    fn flat_type_size(&mut self, declared: &ComponentType<'_>) -> TypeSize {
        let mut size = TypeSize::default();
        let mut add = |value: ComponentValType| size.add(self.value(value));
        match declared {
            ComponentType::Func(function) => {
                function.params.iter().map(|(_, value)| *value).chain(function.result).for_each(add);
            }
            ComponentType::Defined(defined) => match defined {
                ComponentDefinedType::Record(fields) => fields.iter().for_each(|(_, value)| add(*value)),
                ComponentDefinedType::Variant(cases) => {
                    cases.iter().filter_map(|case| case.ty).for_each(add);
                    size.parts = size.parts.saturating_add(widen_to_u64(cases.len()));
                }
                ComponentDefinedType::Tuple(values) => values.iter().for_each(|value| add(*value)),
                ComponentDefinedType::Flags(names) | ComponentDefinedType::Enum(names) => {
                    size.parts = widen_to_u64(names.len());
                }
                ComponentDefinedType::List(value)
                | ComponentDefinedType::FixedLengthList(value, _)
                | ComponentDefinedType::Option(value) => add(*value),
                ComponentDefinedType::Map(key, value) => [*key, *value].into_iter().for_each(add),
                ComponentDefinedType::Result { ok, err } => ok.iter().chain(err).for_each(|value| add(*value)),
                ComponentDefinedType::Future(value) | ComponentDefinedType::Stream(value) => {
                    value.iter().for_each(|value| add(*value));
                }
                ComponentDefinedType::Own(_) | ComponentDefinedType::Borrow(_) => size.has_resources = true,
                ComponentDefinedType::Primitive(_) => {}
            },
            ComponentType::Resource { .. } => size.has_resources = true,
            // These are told by their declarations.
            ComponentType::Component(_) | ComponentType::Instance(_) => {}
        }
        size.whole()
    }
}
