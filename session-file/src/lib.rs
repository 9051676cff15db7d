//! Writes sessions as files of JSON lines, and imports them again: for the command line and the service.
//!
//! | module | does |
//! |---|---|
//! | `problem` | says why a session is not exported or imported |
//! | `schema` | defines the lines of an export; `docs/export.md` describes them |
//! | `lines` | reads numbered lines in bounded memory |
//! | `source` | reads buckets in pieces, also of stores that can't be copied |
//! | `writer` | writes a bucket as lines |
//! | `export` | writes a session with its nodes, as it was at one moment |
//! | `private_folder` | creates temporary folders that only their owner can read |
//! | `staging` | keeps sessions in a temporary store until they are complete |
//! | `deliver` | copies staged sessions to the target |
//! | `import` | delivers sessions, registers them with their owners, and keeps their outcome |
//! | `incoming` | stages the sessions of an export line by line, and checks what it may bring |
//!
//! A session is exported as it was at one moment, and imported whole or not at all. Existing sessions are not replaced
//! unless that is asked for.

#![deny(clippy::multiple_inherent_impl, clippy::too_many_lines)]

mod deliver;
mod export;
mod import;
mod incoming;
mod lines;
mod private_folder;
mod problem;
mod schema;
mod source;
mod staging;
mod writer;

pub use self::{
    deliver::{DeliveryOutcome, SessionDelivery, StagedSession, read_node_buckets},
    export::{ExportedSession, KEPT_CHANGING, SessionExport, export_to_file, list_sessions},
    import::{CopyWithdrawal, DeliveryObserver, ImportReport, ImportedSession, LeftOut, SessionImport, SessionOutcome},
    incoming::{ImportRules, import_at_once, import_one_by_one},
    lines::NumberedLines,
    private_folder::remove_abandoned,
    problem::{Problem, Reason},
    schema::{BucketHeader, ExportLine, ExportNode, LineCounts, TRANSCRIPT},
    source::{SessionSource, StoreReader},
    staging::{StagedBucket, StagingStore, TRANSFER_TIMEOUT},
};
