//! Measures types that are known to be valid: their nesting, and their size when written out.
//!
//! Types refer to others by index, so a few lines can describe one with a million parts. Code that compares or converts
//! its values goes through all of them.

use std::collections::HashMap;

use wasmparser::{
    component_types::{ComponentAnyTypeId, ComponentDefinedType, ComponentEntityType, ComponentValType},
    types::TypesRef,
};

use super::widen_to_u64;

/// Sizes of the types that are known so far, with the levels in them.
#[derive(Default)]
pub(super) struct TypeSizes(HashMap<ComponentAnyTypeId, TypeSize>);

/// What a type comes to when everything that it refers to is written out.
#[derive(Clone, Copy, Default)]
pub(super) struct TypeSize {
    pub(super) parts: u64,
    pub(super) levels: u64,
    /// Whether there are resources in it, or handles of some.
    pub(super) has_resources: bool,
}

impl TypeSize {
    pub(super) const ONE: Self = Self { parts: 1, levels: 1, has_resources: false };

    /// With one more part.
    pub(super) fn add(&mut self, part: Self) {
        self.parts = self.parts.saturating_add(part.parts);
        self.levels = self.levels.max(part.levels);
        self.has_resources |= part.has_resources;
    }

    /// Of all the parts of a type, the type.
    pub(super) fn whole(self) -> Self {
        Self { parts: self.parts.saturating_add(1), levels: self.levels.saturating_add(1), ..self }
    }
}

impl TypeSizes {
    /// The validator allows a hundred levels: recursion is bounded.
    pub(super) fn measure_type(&mut self, id: ComponentAnyTypeId, types: TypesRef<'_>) -> TypeSize {
        if let Some(size) = self.0.get(&id) {
            return *size;
        }
        let mut whole = Whole { sizes: self, types, size: TypeSize::default() };
        // What the validator names it knows.
        match id {
            ComponentAnyTypeId::Resource(_) => whole.size.has_resources = true,
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
        let size = whole.size.whole();
        self.0.insert(id, size);
        size
    }
}

/// A type, while its parts are added up.
struct Whole<'a> {
    sizes: &'a mut TypeSizes,
    types: TypesRef<'a>,
    size: TypeSize,
}

impl Whole<'_> {
    fn part(&mut self, id: ComponentAnyTypeId) {
        let size = self.sizes.measure_type(id, self.types);
        self.size.add(size);
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
        self.size.parts = self.size.parts.saturating_add(widen_to_u64(count));
    }

    fn defined(&mut self, defined: &ComponentDefinedType) {
        match defined {
            ComponentDefinedType::Primitive(_) => {}
            ComponentDefinedType::Own(_) | ComponentDefinedType::Borrow(_) => self.size.has_resources = true,
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
