//! A linked component, from which instances are made.

use std::sync::Arc;

use wasmtime::{
    Engine,
    component::{Component, InstancePre, Linker},
};

use super::{
    exports::{Indices, PluginWorld},
    imports,
    instance_state::InstanceState,
    limits::{epoch::Ticks, footprint},
};
use crate::sandbox::Sandbox;

/// A component with what it imports, and where it has its exports. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PluginProgram {
    pub(super) pre: InstancePre<InstanceState>,
    pub(super) indices: Indices,
    pub(super) world: PluginWorld,
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) ticks: Arc<Ticks>,
    /// What an instance holds beside its memories and tables.
    pub(super) state_bytes: usize,
}

impl PluginProgram {
    /// `bytes` are those that the component was compiled from.
    ///
    /// # Errors
    /// When an import has another type than what is lent, or an export is missing.
    pub(crate) fn link(
        engine: &Engine,
        component: &Component,
        bytes: &[u8],
        sandbox: &Sandbox,
    ) -> wasmtime::Result<Self> {
        let mut linker = Linker::new(engine);
        imports::add_to_linker(&mut linker)?;
        imports::link_unknown_to_traps(&mut linker, engine, component)?;
        let pre = linker.instantiate_pre(component)?;
        let (indices, world) = Indices::of(&pre)?;
        Ok(Self {
            indices,
            world,
            pre,
            sandbox: Arc::new(sandbox.clone()),
            ticks: Arc::default(),
            state_bytes: footprint::state_bytes(bytes)?,
        })
    }

    pub(crate) fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// What it is.
    pub(crate) fn world(&self) -> PluginWorld {
        self.world
    }

    /// What its engine's clock has to advance.
    pub(crate) fn ticks(&self) -> &Arc<Ticks> {
        &self.ticks
    }
}
