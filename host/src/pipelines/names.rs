//! Registered names of pipelines that a caller chooses among.

use keepline_options::registered_names;
pub use keepline_options::scopes::InputScope;

registered_names! {
    /// What an owner is.
    #[non_exhaustive]
    OwnerKind {
        /// A project.
        Project = "project",
        /// A user.
        User = "user",
        /// A tenant.
        Tenant = "tenant",
    }
}

registered_names! {
    /// What is stored under an id.
    #[non_exhaustive]
    DefinitionKind {
        /// A memory.
        Memory = "memory",
        /// A rule engine.
        Rules = "rules",
    }
}

impl DefinitionKind {
    /// What people call one.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Rules => "rule engine",
        }
    }
}

registered_names! {
    /// The form in which a definition comes.
    #[non_exhaustive]
    DefinitionForm {
        /// JSON: the pipeline form, or the SDK's.
        Json = "json",
        /// YAML, in the pipeline form.
        Yaml = "yaml",
    }
}

registered_names! {
    /// What a run does.
    #[non_exhaustive]
    Operation {
        /// Run a memory by its id.
        Execute = "execute",
        /// Assemble what memories contribute, under a budget.
        Assemble = "assemble",
        /// Ask rule engines which memories a request calls for.
        EvaluateRules = "evaluate-rules",
    }
}

registered_names! {
    /// What a data set holds.
    #[non_exhaustive]
    DatasetKind {
        /// Values by key, in a namespace of an instance.
        Values = "values",
        /// Events of an instance, in the order of time.
        Events = "events",
        /// Documents of a collection.
        Documents = "documents",
        /// Nodes of the owner's graph.
        Nodes = "nodes",
        /// Edges of the owner's graph.
        Edges = "edges",
        /// Views of the owner's graph.
        Views = "views",
    }
}
