//! The sandbox: what a component may use of the machine, and where its compiled code is kept.

pub(crate) mod catch_panic;
mod compiler;
mod plugin_limits;

use std::{path::PathBuf, time::Duration};

pub(crate) use self::compiler::running_program;
pub use self::{
    compiler::{Compiler, CompilerCommand},
    plugin_limits::{Measure, Measured, PluginLimits},
};

/// What a component may use of the machine. The defaults suit the bundled filter with room to spare.
///
/// What is said of an entry holds for each call of an instance: a question, an answer, a step of a task, an operation
/// on sessions. To make an instance and to configure it are calls of their own with the same budgets. Nothing that
/// happens within a call fills a budget again. An instance over one is stopped and dropped, and its entry forwarded
/// without memory, unless its field says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sandbox {
    /// Everything that one instance holds, bytes: linear memories, tables, globals and its own state, all together.
    /// Growth beyond it is refused, as a component expects it to be. Default 64 MiB.
    pub memory_bytes: usize,
    /// Everything that all instances of a [`Keepline`](crate::Keepline) hold, bytes. When that much is held, growth is
    /// refused, no instance is made and entries that need one are forwarded without memory, counted as
    /// [`busy`](crate::Counters::busy). Instances are kept at rest while all hold no more than half of it. Default 1 GiB.
    pub pool_memory_bytes: usize,
    /// Elements in one table of an instance; growth beyond it is refused. Default 10,000.
    pub table_elements: usize,
    /// Time that an instance may compute for one entry, all parts together; checked every 10 ms, when it also makes way
    /// for other tasks; all plugins of a process that compute for longer than that leave one core to those that don't.
    /// Waiting does not count: it is limited by the entry's deadline, after which an instance has a quarter of a second
    /// to reply. Default 1 s.
    pub cpu_time: Duration,
    /// Bytes that an instance can make the host copy for one entry, its reply included: what it logs, asks of the store
    /// and writes there. Default 32 MiB.
    pub copy_bytes: usize,
    /// Calls of the host, whatever they are about, for one entry. Default 10,000.
    pub host_calls_per_entry: u32,
    /// Transactions, and other calls of the store, that one entry may cause. Default 256; the filter needs one or two.
    pub store_calls_per_entry: u32,
    /// Operations, expectations, entries, keys, records, marks, spans and documents of all transactions of one entry.
    /// Default 40,000, which is twice what one transaction may have.
    pub store_pieces_per_entry: u32,
    /// Bytes that one entry may read from the store, with the lists that hold them. Less is asked for as less is left,
    /// so that an answer is incomplete as it is over a limit of the component's own; who reads on when nothing is left is
    /// stopped. Default 64 MiB.
    pub read_bytes_per_entry: usize,
    /// Messages that one entry may log. Default 64; further ones are dropped.
    pub log_lines_per_entry: u32,
    /// Calls after which an instance is replaced by a fresh one. Default 10,000.
    pub calls_per_instance: u64,
    /// Who shares an instance, one after the other. Default: the entries of one tenant.
    pub isolation: Isolation,
    /// How large the component may be, and what compiling it may take.
    pub plugin: PluginLimits,
    /// Who compiles it. Default: this process.
    pub compiler: Compiler,
    /// Where compiled code is kept between processes. Default: nowhere.
    pub cache: CodeCache,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            pool_memory_bytes: 1 << 30,
            table_elements: 10_000,
            cpu_time: Duration::from_secs(1),
            copy_bytes: 32 << 20,
            host_calls_per_entry: 10_000,
            store_calls_per_entry: 256,
            store_pieces_per_entry: 40_000,
            read_bytes_per_entry: 64 << 20,
            log_lines_per_entry: 64,
            calls_per_instance: 10_000,
            isolation: Isolation::Tenant,
            plugin: PluginLimits::DEFAULT,
            compiler: Compiler::InProcess,
            cache: CodeCache::Off,
        }
    }
}

/// Who shares an instance, one after the other. Whatever it is, a call reaches nothing in the store but the session,
/// user and node that it is made for; this is about what an instance can keep in its memory from one call to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Everybody. A plugin that means harm can tell one entry what another said, whosever they are.
    Shared,
    /// The entries of one tenant: of pipes and sessions of one store, as
    /// [`Keepline::with_store`](crate::Keepline::with_store) sets them apart. Costs nothing as long as there are no more
    /// tenants at work than instances.
    #[default]
    Tenant,
    /// No one: each call gets an instance of its own, which is dropped after it. Nothing can be carried from one entry to
    /// another but by the entry's own session. Costs making and dropping an instance, some 150 µs of processor time a
    /// call.
    Entry,
}

/// Where compiled code is kept between processes: by the component's digest, its limits, wasmtime's version and its
/// settings; the newest 32. An entry that can't be read is compiled again. It is trusted as a program on disk is: who can
/// write there can make the host run anything. So a directory is refused that others can write to, that belongs to
/// others, or that is in one of that kind, but for those such as `/tmp`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CodeCache {
    /// Nowhere: each process compiles.
    #[default]
    Off,
    /// In the user's cache directory (`$XDG_CACHE_HOME/keepline`, `~/.cache/keepline`). Where that can't be trusted or
    /// written to, nowhere.
    Default,
    /// In this directory, which is made if it is missing. One that can't be trusted is an error.
    At(PathBuf),
}
