//! Scopes of declared memories, and the variables that each provides: the component that runs memories and those who send it
//! requests know the same ones.

use crate::registered_names;

registered_names! {
    /// Who provides variables of a definition.
    #[non_exhaustive]
    InputScope {
        /// A swarm of agents.
        Swarm = "swarm",
        /// An agent.
        Agent = "agent",
        /// A project.
        Project = "project",
        /// What gives agents their tasks.
        Orchestrator = "orchestrator",
        /// A conversation.
        Thread = "thread",
        /// A task.
        Task = "task",
        /// A user.
        User = "user",
        /// An organization.
        Org = "org",
    }
}

impl InputScope {
    /// The variables that it provides.
    pub fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Swarm => &["swarm_id", "swarm_name"],
            Self::Agent => &["agent_id", "agent_name", "agent_type"],
            Self::Project => &["project_id", "project_path"],
            Self::Orchestrator => &["orchestrator_id"],
            Self::Thread => &["thread_id"],
            Self::Task => &["task_id", "task_type"],
            Self::User => &["user_id"],
            Self::Org => &["org_id"],
        }
    }

    /// The one that provides a variable of this name.
    pub fn of_variable(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|scope| scope.variables().contains(&name))
    }
}
