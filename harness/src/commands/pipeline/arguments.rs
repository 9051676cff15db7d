//! Arguments of `keepline pipeline`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use keepline::pipelines::{DatasetKind, Owner};

use crate::args::{StoreAccess, help::JSON_HELP};

#[derive(Debug, Args)]
pub struct PipelineArguments {
    #[arg(long, global = true, help = JSON_HELP)]
    pub json: bool,
    /// Whose definitions and data: project/NAME, user/ID or tenant/NAME [default: the field project]
    #[arg(long, value_name = "KIND/NAME", global = true, value_parser = parse_owner)]
    pub owner: Option<Owner>,
    /// Work on the definitions in this project's own files: PATH/.codebolt/PersistentMemory/ID.json, and
    /// PATH/.codebolt/context-rule-engines/ID.json
    #[arg(long, value_name = "PATH", global = true)]
    pub project: Option<PathBuf>,
    #[command(subcommand)]
    pub command: PipelineCommand,
}

/// Which definitions a command is about.
#[derive(Clone, Copy, Debug, Args)]
pub struct KindArguments {
    /// Rule engines instead of memories
    #[arg(long)]
    pub rules: bool,
}

/// What can be done with pipelines.
#[derive(Debug, Subcommand)]
pub enum PipelineCommand {
    /// List memories
    List {
        #[command(flatten)]
        kind: KindArguments,
        /// Only those with this input scope
        #[arg(long, value_name = "SCOPE")]
        scope: Option<String>,
        /// Only active ones
        #[arg(long)]
        active: bool,
    },
    /// Show a memory: what it says of itself, and its steps
    Show {
        /// Its id
        id: String,
        #[command(flatten)]
        kind: KindArguments,
    },
    /// Print a memory in the form that is stored
    Export {
        /// Its id
        id: String,
        #[command(flatten)]
        kind: KindArguments,
        /// Write it to this file
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Check a definition without storing it
    Validate {
        #[command(flatten)]
        source: SourceArguments,
    },
    /// Store a new memory
    Create {
        #[command(flatten)]
        source: SourceArguments,
    },
    /// Store a memory from a file of this or another program
    Import {
        #[command(flatten)]
        source: SourceArguments,
        /// Replace the one of the same id
        #[arg(long)]
        overwrite: bool,
        /// Replace this revision, and no other
        #[arg(long, value_name = "N", conflicts_with = "overwrite")]
        revision: Option<u64>,
    },
    /// Replace top-level members of a memory
    Update {
        /// Its id
        id: String,
        /// A JSON object of members, or - to read it from standard input
        changes: String,
        #[command(flatten)]
        kind: KindArguments,
        /// Only if this revision is there
        #[arg(long, value_name = "N")]
        revision: Option<u64>,
    },
    /// Edit a memory in $EDITOR; it is checked before it is stored
    Edit {
        /// Its id
        id: String,
        #[command(flatten)]
        kind: KindArguments,
    },
    /// Store a memory once more, under another id
    Duplicate {
        /// Its id
        id: String,
        /// The new id [default: ID-copy, ID-copy-2, …]
        new_id: Option<String>,
        #[command(flatten)]
        kind: KindArguments,
    },
    /// Delete a memory
    Delete {
        /// Its id
        id: String,
        #[command(flatten)]
        kind: KindArguments,
        /// Only if this revision is there
        #[arg(long, value_name = "N")]
        revision: Option<u64>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// List the types of steps and their parameters
    Steps {
        /// Only those that people configure
        #[arg(long)]
        configurable: bool,
    },
    /// List the variables that memories need
    Variables {
        /// Their ids
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Run a memory, and print what it contributes
    Run {
        /// Its id
        id: String,
        /// The query of the intent
        #[arg(long, value_name = "TEXT")]
        query: Option<String>,
        /// The intent: a JSON object with keywords, action, context and query
        #[arg(long, value_name = "JSON")]
        intent: Option<String>,
        /// Variables: a JSON object
        #[arg(long, value_name = "JSON")]
        variables: Option<String>,
        /// What ${thread_id} stands for
        #[arg(long, value_name = "ID")]
        thread_id: Option<String>,
        #[command(flatten)]
        asker: AskerArguments,
    },
    /// Assemble what memories contribute, under a budget of tokens
    Assemble {
        #[command(flatten)]
        request: RequestArguments,
        /// Take part: this memory (may be repeated)
        #[arg(long = "memory", value_name = "ID")]
        memories: Vec<String>,
        /// At most this many tokens
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        max_tokens: Option<u64>,
        #[command(flatten)]
        asker: AskerArguments,
    },
    /// Ask rule engines which memories a request calls for
    Evaluate {
        #[command(flatten)]
        request: RequestArguments,
        #[command(flatten)]
        asker: AskerArguments,
    },
    /// Store values, events, documents, nodes, edges or views
    Put {
        #[command(flatten)]
        dataset: DatasetArguments,
        /// JSON lines of items, or - for standard input
        ///
        /// Values are {"key", "value"}, events {"timestamp", "event_type", "payload"}, documents {"id",
        /// "text", "metadata"}, nodes {"id", "kind", "name", "attributes"}, edges {"from", "kind",
        /// "to"}, views {"id", "match", …}. An event may have an "id": one that is there is left out.
        #[arg(long, value_name = "FILE", default_value = "-")]
        file: PathBuf,
    },
    /// List the items of a data set
    Items {
        #[command(flatten)]
        dataset: DatasetArguments,
        /// Show about this many
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// Continue from here: the cursor printed with the previous page
        #[arg(long, default_value = "", hide_default_value = true, allow_hyphen_values = true)]
        cursor: String,
        /// Show all pages
        #[arg(long, conflicts_with = "cursor")]
        all: bool,
    },
    /// Remove items from a data set
    Remove {
        #[command(flatten)]
        dataset: DatasetArguments,
        /// Keys or ids; of an edge the JSON list of from, kind and to
        #[arg(long = "id", value_name = "ID", required = true, allow_hyphen_values = true)]
        ids: Vec<String>,
    },
    /// Put text, Markdown or JSON lines into a collection of documents, in chunks
    ///
    /// A file is cut into chunks of 400 characters that overlap by 50, at the ends of lines or words where there are any.
    /// To ingest it again replaces its chunks: what was interrupted goes on, and nothing is there twice.
    Ingest {
        /// Files; of JSON lines, each line is {"text"} and perhaps {"id", "metadata"}
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The collection
        #[arg(long, value_name = "NAME")]
        collection: String,
        /// Characters of a chunk
        #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(50..=100_000))]
        chunk: u32,
        /// Characters that a chunk has of the one before it
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=50_000))]
        overlap: u32,
    },
}

/// Where a definition is read from.
#[derive(Debug, Args)]
pub struct SourceArguments {
    /// The definition, or - for standard input
    pub file: PathBuf,
    #[command(flatten)]
    pub kind: KindArguments,
    /// Its format [default: by the file's name, else json]
    #[arg(long)]
    pub format: Option<Format>,
}

/// The format of a definition.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Format {
    Json,
    Yaml,
}

/// Who asks.
#[derive(Debug, Args)]
pub struct AskerArguments {
    /// The asking session: the instance "session"
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// The asking user: the instance "user"
    #[arg(long, value_name = "ID")]
    pub user: Option<String>,
    /// Run as of this time (RFC 3339) [default: now]
    #[arg(long, value_name = "TIME")]
    pub at: Option<jiff::Timestamp>,
}

/// What an assembly, or rules, are asked about.
#[derive(Debug, Args)]
pub struct RequestArguments {
    /// The whole request: a JSON file, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub request: Option<PathBuf>,
    /// Variables by scope: a JSON object such as {"user":{"user_id":"eva"}}
    #[arg(long, value_name = "JSON")]
    pub scope_variables: Option<String>,
    /// Additional variables: a JSON object
    #[arg(long, value_name = "JSON")]
    pub variables: Option<String>,
    /// The text of the input
    #[arg(long, value_name = "TEXT")]
    pub input: Option<String>,
    /// Ask this rule engine (may be repeated) [default: all]
    #[arg(long = "engine", value_name = "ID")]
    pub engines: Option<Vec<String>>,
}

/// Which data set.
#[derive(Debug, Args)]
pub struct DatasetArguments {
    /// What it holds
    pub kind: DatasetKindArgument,
    /// Of values and events the instance, of documents the collection
    pub name: Option<String>,
    /// The namespace of values
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
}

/// What a data set holds.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DatasetKindArgument {
    Values,
    Events,
    Documents,
    Nodes,
    Edges,
    Views,
}

impl From<DatasetKindArgument> for DatasetKind {
    fn from(kind: DatasetKindArgument) -> Self {
        match kind {
            DatasetKindArgument::Values => Self::Values,
            DatasetKindArgument::Events => Self::Events,
            DatasetKindArgument::Documents => Self::Documents,
            DatasetKindArgument::Nodes => Self::Nodes,
            DatasetKindArgument::Edges => Self::Edges,
            DatasetKindArgument::Views => Self::Views,
        }
    }
}

impl PipelineCommand {
    /// What it does to the store.
    pub fn store_access(&self) -> StoreAccess {
        match self {
            Self::Validate { .. } | Self::Steps { .. } => StoreAccess::Untouched,
            Self::List { .. }
            | Self::Show { .. }
            | Self::Export { .. }
            | Self::Variables { .. }
            | Self::Run { .. }
            | Self::Assemble { .. }
            | Self::Evaluate { .. }
            | Self::Items { .. } => StoreAccess::Read,
            Self::Create { .. } | Self::Import { .. } | Self::Put { .. } | Self::Ingest { .. } => StoreAccess::Add,
            Self::Update { .. } | Self::Edit { .. } | Self::Duplicate { .. } => StoreAccess::Change,
            Self::Delete { .. } | Self::Remove { .. } => StoreAccess::Delete,
        }
    }

    /// The time that runs see; none: now.
    pub fn at(&self) -> Option<jiff::Timestamp> {
        match self {
            Self::Run { asker, .. } | Self::Assemble { asker, .. } | Self::Evaluate { asker, .. } => asker.at,
            _ => None,
        }
    }
}

fn parse_owner(text: &str) -> Result<Owner, String> {
    let known = "must be project/NAME, user/ID or tenant/NAME";
    match text.split_once('/') {
        Some((_, "")) | None => Err(known.to_owned()),
        Some(("project", name)) => Ok(Owner::project(name)),
        Some(("user", name)) => Ok(Owner::user(name)),
        Some(("tenant", name)) => Ok(Owner::tenant(name)),
        Some(_) => Err(known.to_owned()),
    }
}
