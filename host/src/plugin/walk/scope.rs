//! Counts what instantiating a component comes to, with everything that it instantiates in turn, without expanding it.
//!
//! A component can be instantiated only after its definition has ended, so its weight is known by then and each
//! instantiation adds it: thirty components that each instantiate the previous one twice are thirty additions.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind, Encoding, Instance,
};

use super::{PluginError, invalid_component, widen_to_u64};

/// What one instance of a component or of a core module comes to.
#[derive(Clone, Copy, Default)]
pub(super) struct Weight {
    pub(super) definitions: u64,
    pub(super) instances: u64,
    pub(super) memories: u64,
    pub(super) tables: u64,
    /// Steps to compile what converts values between its parts.
    pub(super) glue: u64,
}

impl Weight {
    fn add(&mut self, other: &Self) {
        let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        sum(&mut self.definitions, other.definitions);
        sum(&mut self.instances, other.instances);
        sum(&mut self.memories, other.memories);
        sum(&mut self.tables, other.tables);
        sum(&mut self.glue, other.glue);
    }
}

/// A component or a core module that has begun and not ended.
pub(super) struct ComponentScope {
    encoding: Encoding,
    pub(super) weight: Weight,
    /// The index spaces of components and of modules. None: one that is passed in, whatever it will be.
    components: Vec<Option<Weight>>,
    modules: Vec<Option<Weight>>,
    /// How many of its types have been measured.
    pub(super) sized_types: u32,
}

/// From the outermost one inwards.
#[derive(Default)]
pub(super) struct ScopeStack(Vec<ComponentScope>);

impl ScopeStack {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_outermost(&self) -> bool {
        self.0.len() == 1
    }

    /// The innermost one.
    pub(super) fn innermost(&mut self) -> Result<&mut ComponentScope, PluginError> {
        self.0.last_mut().ok_or_else(|| invalid_component("it has sections after its end"))
    }

    pub(super) fn open(&mut self, encoding: Encoding) {
        let scope = ComponentScope {
            encoding,
            weight: Weight { instances: 1, ..Weight::default() },
            components: Vec::new(),
            modules: Vec::new(),
            sized_types: 0,
        };
        self.0.push(scope);
    }

    /// The innermost one has ended: from now on it is in an index space of the one around it.
    pub(super) fn close(&mut self) {
        let Some(mut closed) = self.0.pop() else { return };
        let Some(around) = self.0.last_mut() else { return };
        match closed.encoding {
            Encoding::Component => around.components.push(Some(closed.weight)),
            Encoding::Module => {
                // Its definitions are gone through once, however often it is instantiated.
                closed.weight.definitions = 0;
                around.modules.push(Some(closed.weight));
            }
        }
    }

    pub(super) fn core_instance(&mut self, instance: &Instance<'_>) -> Result<(), PluginError> {
        let scope = self.innermost()?;
        if let Instance::Instantiate { module_index, .. } = instance {
            let weight = weight_at(&scope.modules, *module_index)?.ok_or(PluginError::Unbounded("core module"))?;
            scope.weight.add(&weight);
        }
        Ok(())
    }

    pub(super) fn instance(&mut self, instance: &ComponentInstance<'_>) -> Result<(), PluginError> {
        let scope = self.innermost()?;
        if let ComponentInstance::Instantiate { component_index, .. } = instance {
            let weight = weight_at(&scope.components, *component_index)?.ok_or(PluginError::Unbounded("component"))?;
            scope.weight.add(&weight);
        }
        Ok(())
    }

    pub(super) fn alias(&mut self, alias: &ComponentAlias<'_>) -> Result<(), PluginError> {
        match alias {
            ComponentAlias::InstanceExport { kind, .. } => self.import(*kind),
            ComponentAlias::CoreInstanceExport { .. } => Ok(()),
            ComponentAlias::Outer { kind, count, index } => {
                let depth =
                    self.0.len().checked_sub(1).and_then(|last| last.checked_sub(usize::try_from(*count).ok()?));
                let outer = depth
                    .and_then(|depth| self.0.get(depth))
                    .ok_or_else(|| invalid_component("an outer alias is invalid"))?;
                match kind {
                    ComponentOuterAliasKind::Component => {
                        let weight = weight_at(&outer.components, *index)?;
                        self.innermost()?.components.push(weight);
                    }
                    ComponentOuterAliasKind::CoreModule => {
                        let weight = weight_at(&outer.modules, *index)?;
                        self.innermost()?.modules.push(weight);
                    }
                    ComponentOuterAliasKind::CoreType | ComponentOuterAliasKind::Type => {}
                }
                Ok(())
            }
        }
    }

    /// Something of that kind comes from elsewhere.
    pub(super) fn import(&mut self, kind: ComponentExternalKind) -> Result<(), PluginError> {
        let scope = self.innermost()?;
        match kind {
            ComponentExternalKind::Component => scope.components.push(None),
            ComponentExternalKind::Module => scope.modules.push(None),
            _ => {}
        }
        Ok(())
    }

    /// What is exported gets one more index.
    pub(super) fn export(&mut self, kind: ComponentExternalKind, index: u32) -> Result<(), PluginError> {
        let scope = self.innermost()?;
        match kind {
            ComponentExternalKind::Component => scope.components.push(weight_at(&scope.components, index)?),
            ComponentExternalKind::Module => scope.modules.push(weight_at(&scope.modules, index)?),
            _ => {}
        }
        Ok(())
    }
}

fn weight_at(space: &[Option<Weight>], index: u32) -> Result<Option<Weight>, PluginError> {
    let found = usize::try_from(index).ok().and_then(|index| space.get(index));
    found.copied().ok_or_else(|| {
        invalid_component(format!("no definition has the index {index} of {}", widen_to_u64(space.len())))
    })
}
