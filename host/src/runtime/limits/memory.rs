//! Limits the memory of an instance, alone and together with all others of its pool.
//!
//! Linear memories, tables and the instance's own state, which holds its globals, count together. What an instance may
//! touch counts, whether it has touched it or not.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use wasmtime::{ResourceLimiter, Result};

use super::footprint::MAX_INSTANCES;
use crate::sandbox::Sandbox;

/// An instance that holds more than so many times what it held when it was made does not go back to the pool. Linear
/// memory never shrinks: without this bound a few large entries would make every instance large for good. The bundled
/// filter stays below it with entries of 100 KB and more; a larger one costs a fresh instance, which is little beside
/// what it costs itself.
const MAX_GROWTH_FACTOR: usize = 4;
/// What a table keeps for each of its elements.
const ELEMENT: usize = size_of::<usize>();
/// What one component with its adapters can need; a component can hold many modules.
const MAX_MEMORIES: usize = 4;
const MAX_TABLES: usize = 16;

/// What all instances of a pool hold together, bytes.
#[derive(Debug, Default)]
pub(crate) struct PoolMemory(AtomicUsize);

impl PoolMemory {
    pub(crate) fn held_bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn try_reserve(&self, bytes: usize, limit: usize) -> bool {
        let more = |held: usize| held.checked_add(bytes).filter(|held| *held <= limit);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn release_bytes(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A part of a pool's memory that is held outside of instances, until it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryReservation {
    pool: Arc<PoolMemory>,
    bytes: usize,
}

impl MemoryReservation {
    pub(in crate::runtime) fn try_reserve(pool: &Arc<PoolMemory>, bytes: usize, limit: usize) -> Option<Self> {
        pool.try_reserve(bytes, limit).then(|| Self { pool: pool.clone(), bytes })
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.pool.release_bytes(self.bytes);
    }
}

/// The sandbox's limits of an instance's memory, and what it holds.
pub(crate) struct MemoryLimiter {
    max_table_elements: usize,
    max_bytes: usize,
    max_pool_bytes: usize,
    pool: Arc<PoolMemory>,
    bytes: usize,
    /// What the last growth added.
    added: usize,
    /// What it held when it was ready for its first call.
    at_start: usize,
    /// Whether the call at hand was refused memory because all of the pool's was held.
    is_pool_exhausted: bool,
}

impl MemoryLimiter {
    pub(in crate::runtime) fn new(sandbox: &Sandbox, pool: Arc<PoolMemory>) -> Self {
        Self {
            max_table_elements: sandbox.table_elements,
            max_bytes: sandbox.memory_bytes,
            max_pool_bytes: sandbox.pool_memory_bytes,
            pool,
            bytes: 0,
            added: 0,
            at_start: 0,
            is_pool_exhausted: false,
        }
    }

    /// Whether there is so much more for it. Then it holds that.
    #[must_use]
    pub(in crate::runtime) fn try_grow(&mut self, bytes: usize) -> bool {
        if self.bytes.checked_add(bytes).is_none_or(|held| held > self.max_bytes) {
            return false;
        }
        if !self.pool.try_reserve(bytes, self.max_pool_bytes) {
            self.is_pool_exhausted = true;
            return false;
        }
        self.bytes += bytes;
        self.added = bytes;
        true
    }

    /// The last growth has failed.
    fn undo_growth(&mut self) {
        let added = std::mem::take(&mut self.added);
        self.bytes -= added;
        self.pool.release_bytes(added);
    }

    /// A new call begins.
    pub(in crate::runtime) fn begin(&mut self) {
        self.is_pool_exhausted = false;
    }

    /// What it holds now is what it needs.
    pub(in crate::runtime) fn started(&mut self) {
        self.at_start = self.bytes;
    }

    /// Everything that it holds, bytes.
    pub(in crate::runtime) fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it holds so much more than it needs that it must not be kept.
    pub(in crate::runtime) fn is_grown(&self) -> bool {
        self.bytes > self.at_start.saturating_mul(MAX_GROWTH_FACTOR)
    }

    /// Whether the call at hand was refused memory that others hold.
    pub(in crate::runtime) fn is_pool_exhausted(&self) -> bool {
        self.is_pool_exhausted
    }
}

impl Drop for MemoryLimiter {
    fn drop(&mut self) {
        self.pool.release_bytes(self.bytes);
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        self.added = 0;
        Ok(maximum.is_none_or(|most| desired <= most) && self.try_grow(desired.saturating_sub(current)))
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> Result<()> {
        self.undo_growth();
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        self.added = 0;
        let most = maximum.map_or(self.max_table_elements, |most| most.min(self.max_table_elements));
        Ok(desired <= most && self.try_grow(desired.saturating_sub(current).saturating_mul(ELEMENT)))
    }

    fn table_grow_failed(&mut self, _: wasmtime::Error) -> Result<()> {
        self.undo_growth();
        Ok(())
    }

    fn instances(&self) -> usize {
        MAX_INSTANCES
    }

    fn tables(&self) -> usize {
        MAX_TABLES
    }

    fn memories(&self) -> usize {
        MAX_MEMORIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_tables_and_state_count_together_for_an_instance_and_for_the_pool() {
        let sandbox =
            Sandbox { memory_bytes: 1000, pool_memory_bytes: 1500, table_elements: 1000, ..Sandbox::default() };
        let pool = Arc::new(PoolMemory::default());
        let mut one = MemoryLimiter::new(&sandbox, pool.clone());
        assert!(one.try_grow(100));
        assert!(one.memory_growing(0, 500, None).unwrap());
        assert!(one.table_growing(0, 50, None).unwrap());
        assert!(!one.table_growing(50, 51, None).unwrap() && !one.try_grow(1) && !one.is_pool_exhausted());
        assert_eq!((one.held_bytes(), pool.held_bytes()), (1000, 1000));

        let mut other = MemoryLimiter::new(&sandbox, pool.clone());
        assert!(other.memory_growing(0, 500, None).unwrap());
        assert!(!other.memory_growing(500, 501, None).unwrap() && other.is_pool_exhausted());
        drop(one);
        assert!(other.memory_growing(500, 1000, None).unwrap());
        other.memory_grow_failed(wasmtime::Error::msg("no more address space")).unwrap();
        assert_eq!((other.held_bytes(), pool.held_bytes()), (500, 500));
        drop(other);
        assert_eq!(pool.held_bytes(), 0);
    }

    #[test]
    fn a_refused_growth_is_not_subtracted_when_its_failure_is_reported() {
        let sandbox = Sandbox { memory_bytes: 1000, ..Sandbox::default() };
        let mut growth = MemoryLimiter::new(&sandbox, Arc::default());
        assert!(growth.memory_growing(0, 900, None).unwrap());
        assert!(!growth.memory_growing(900, 2000, None).unwrap());
        growth.memory_grow_failed(wasmtime::Error::msg("refused")).unwrap();
        assert_eq!(growth.held_bytes(), 900);
    }
}
