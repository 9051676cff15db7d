//! The enumerations of definitions, with their names.

use keepline_options::registered_names;
pub use keepline_options::scopes::InputScope as Scope;

registered_names! {
    /// Whether a memory takes part in assemblies: only active ones do.
    Status { Active = "active", Deprecated = "deprecated", Disabled = "disabled", Draft = "draft", }
}

registered_names! {
    /// Where a contribution stands, in this order.
    Section {
        State = "state",
        Warnings = "warnings",
        Constraints = "constraints",
        Knowledge = "knowledge",
        History = "history",
        Suggestions = "suggestions",
        WorkingMemory = "working_memory",
    }
}

impl Section {
    /// Its name as a heading: `Working memory`.
    pub fn title(self) -> String {
        let name = self.name().replace('_', " ");
        let (first, rest) = name.split_at_checked(1).unwrap_or_default();
        first.to_uppercase() + rest
    }
}

registered_names! {
    /// What gives way last when room is short.
    Priority { Low = "low", Medium = "medium", High = "high", Critical = "critical", }
}

registered_names! {
    /// How items are written.
    ItemFormat {
        BulletList = "bullet_list",
        Numbered = "numbered",
        Prose = "prose",
        Json = "json",
        Markdown = "markdown",
        /// As prose: the SDK's name.
        Text = "text",
    }
}

impl ItemFormat {
    /// Those that the contribution of the pipeline form knows.
    pub const OF_CONTRIBUTIONS: [Self; 4] = [Self::BulletList, Self::Numbered, Self::Prose, Self::Json];
}
