//! Counts what instantiating a component comes to, with everything that it instantiates in turn, without expanding it.
//!
//! A component can be instantiated only after its definition has ended, so its weight is known by then and each
//! instantiation adds it: thirty components that each instantiate the previous one twice are thirty additions.

use wasmparser::{ComponentAlias, ComponentExternalKind, ComponentOuterAliasKind, Encoding};

use super::{PluginError, invalid_component, widen_to_u64};

/// What one instance of a component comes to.
#[derive(Clone, Copy, Default)]
pub(super) struct Weight {
    pub(super) definitions: u64,
    /// Steps to compile what converts values between its parts.
    pub(super) glue: u64,
}

/// A component or a core module that has begun and not ended.
pub(super) struct ComponentScope {
    encoding: Encoding,
    pub(super) weight: Weight,
    /// The index space of components. None: one that is passed in, whatever it will be.
    components: Vec<Option<Weight>>,
}

/// From the outermost one inwards.
#[derive(Default)]
pub(super) struct ScopeStack(Vec<ComponentScope>);

impl ScopeStack {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn is_outermost(&self) -> bool {
        self.0.len() == 1
    }

    /// The innermost one.
    pub(super) fn innermost(&mut self) -> Result<&mut ComponentScope, PluginError> {
        self.0.last_mut().ok_or_else(|| invalid_component("it has sections after its end"))
    }

    pub(super) fn open(&mut self, encoding: Encoding) {
        let (weight, components) = (Weight::default(), Vec::new());
        self.0.push(ComponentScope { encoding, weight, components });
    }

    /// The innermost one has ended: from now on a component is in the index space of the one around it. What a module
    /// defines is gone through once, however often it is instantiated.
    pub(super) fn close(&mut self) {
        let Some(closed) = self.0.pop() else { return };
        if let (Encoding::Component, Some(around)) = (closed.encoding, self.0.last_mut()) {
            around.components.push(Some(closed.weight));
        }
    }

    pub(super) fn instantiate(&mut self, component: u32) -> Result<(), PluginError> {
        let scope = self.innermost()?;
        let weight = weight_at(&scope.components, component)?.ok_or(PluginError::Unbounded)?;
        scope.weight.definitions = scope.weight.definitions.saturating_add(weight.definitions);
        scope.weight.glue = scope.weight.glue.saturating_add(weight.glue);
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
                if *kind == ComponentOuterAliasKind::Component {
                    let weight = weight_at(&outer.components, *index)?;
                    self.innermost()?.components.push(weight);
                }
                Ok(())
            }
        }
    }

    /// Something of that kind comes from elsewhere.
    pub(super) fn import(&mut self, kind: ComponentExternalKind) -> Result<(), PluginError> {
        if kind == ComponentExternalKind::Component {
            self.innermost()?.components.push(None);
        }
        Ok(())
    }

    /// What is exported gets one more index.
    pub(super) fn export(&mut self, kind: ComponentExternalKind, index: u32) -> Result<(), PluginError> {
        if kind == ComponentExternalKind::Component {
            let scope = self.innermost()?;
            scope.components.push(weight_at(&scope.components, index)?);
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
