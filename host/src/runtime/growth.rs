//! How much memory an instance holds, and how much more it may.

use wasmtime::{ResourceLimiter, Result, StoreLimits, StoreLimitsBuilder};

use crate::sandbox::Sandbox;

/// An instance that holds more than so many times what it held when it was made does not go back to the pool. Linear
/// memory never shrinks: without this bound a few large entries would make every instance large for good. The bundled
/// filter stays below it with entries of 100 KB and more; a larger one costs a fresh instance, which is little beside
/// what it costs itself.
const GROWN: usize = 4;

/// The sandbox's limits of an instance's memory and tables, and what it holds.
pub(crate) struct Growth {
    limits: StoreLimits,
    /// All linear memories together, bytes.
    bytes: usize,
    /// What the last growth added.
    added: usize,
    /// What it held when it was ready for its first call.
    at_start: usize,
}

impl Growth {
    pub(super) fn new(sandbox: &Sandbox) -> Self {
        let limits = StoreLimitsBuilder::new()
            .memory_size(sandbox.memory_bytes)
            .table_elements(sandbox.table_elements)
            // What one component with its adapters can need; a component can hold many modules.
            .instances(32)
            .memories(4)
            .tables(16)
            .build();
        Self { limits, bytes: 0, added: 0, at_start: 0 }
    }

    /// What it holds now is what it needs.
    pub(super) fn started(&mut self) {
        self.at_start = self.bytes;
    }

    /// All linear memories together, bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it holds so much more than it needs that it must not be kept.
    pub(super) fn is_grown(&self) -> bool {
        self.bytes > self.at_start.saturating_mul(GROWN)
    }
}

impl ResourceLimiter for Growth {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        let is_allowed = self.limits.memory_growing(current, desired, maximum)?;
        self.added = if is_allowed { desired.saturating_sub(current) } else { 0 };
        self.bytes = self.bytes.saturating_add(self.added);
        Ok(is_allowed)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> Result<()> {
        self.bytes = self.bytes.saturating_sub(std::mem::take(&mut self.added));
        self.limits.memory_grow_failed(error)
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        self.limits.table_growing(current, desired, maximum)
    }

    fn table_grow_failed(&mut self, error: wasmtime::Error) -> Result<()> {
        self.limits.table_grow_failed(error)
    }

    fn instances(&self) -> usize {
        self.limits.instances()
    }

    fn tables(&self) -> usize {
        self.limits.tables()
    }

    fn memories(&self) -> usize {
        self.limits.memories()
    }
}
