//! What the series, tables and columns are called: by these names the plots find what was measured.

// Series.
pub const MEMORY: &str = "memory";
pub const REDIS: &str = "Redis";
pub const ANY: &str = "any session";
pub const NEW: &str = "new sessions";
pub const HOT: &str = "the same ten sessions";
pub const BARE: &str = "nothing of ours";

// Tables, and their columns.
pub const KEYS_A_SESSION: &str = "Keys per session";
pub const FOLDED: &str = "History, summarised at 100 records";
pub const WHOLE: &str = "History, kept whole";
pub const ENTRY_SIZE: &str = "Size of an answer";
pub const SESSIONS_MEMORY: &str = "Sessions, memory store";
pub const SESSIONS_REDIS: &str = "Sessions, Redis";
pub const SESSIONS_DIRECTORY: &str = "Directory: sessions";
pub const MEMORY_QUESTION: &str = "memory: question µs";
pub const MEMORY_ANSWER: &str = "memory: answer µs";
pub const REDIS_QUESTION: &str = "Redis: question µs";
pub const REDIS_ANSWER: &str = "Redis: answer µs";
pub const MEMORY_A_KEY: &str = "memory: question, µs per key";
pub const REDIS_A_KEY: &str = "Redis: question, µs per key";
pub const MEMORY_TITLE: &str = "memory store";
pub const REDIS_TITLE: &str = "Redis on loopback";

// Of a table with one store.
pub const QUESTION: &str = "question µs";
pub const ANSWER_TO_IT: &str = "answer µs";
pub const CREATION: &str = "creation µs";
pub const HOT_QUESTION: &str = "same ten: question µs";
pub const HOT_ANSWER: &str = "same ten: answer µs";
pub const MAP_READ: &str = "bare hash table: read µs";
pub const MAP_WRITE: &str = "bare hash table: write µs";
pub const BARE_READS: &str = "bare reads µs";
pub const BARE_WRITES: &str = "bare writes µs";
pub const MIB: &str = "MiB";
pub const BYTES_A_SESSION: &str = "bytes a session";
pub const OPENING: &str = "to open: ms";
