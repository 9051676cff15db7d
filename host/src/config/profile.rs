//! Profiles: named sets of defaults.

use super::Preset;

/// The node's three profiles, its names and values, and one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// In this process; nothing to set up.
    Memory,
    /// Redis on this machine, sessions live for a day.
    Redis,
    /// A Redis whose host is still to be filled in.
    Custom,
    /// Conversations in a directory that is still to be named; sessions live for 30 days after their last use.
    Chat,
}

impl Profile {
    /// All of them, the default first.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Redis, Self::Custom, Self::Chat];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redis => "redis",
            Self::Custom => "custom",
            Self::Chat => "chat",
        }
    }

    /// The profile of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// What it sets, the filter's fields among it.
    pub fn presets(self) -> &'static [(&'static str, Preset)] {
        match self {
            Self::Memory => &[
                ("backend", Preset::Text("memory")),
                ("session_ttl_hours", Preset::Number(0)),
                ("max_history", Preset::Number(100)),
                ("auto_summarize", Preset::Flag(true)),
            ],
            Self::Redis => &[
                ("backend", Preset::Text("redis")),
                ("redis_host", Preset::Text("localhost")),
                ("redis_port", Preset::Number(6379)),
                ("redis_password", Preset::Text("")),
                ("session_ttl_hours", Preset::Number(24)),
                ("max_history", Preset::Number(100)),
                ("auto_summarize", Preset::Flag(true)),
            ],
            Self::Custom => &[
                ("backend", Preset::Text("redis")),
                ("redis_host", Preset::Text("")),
                ("redis_port", Preset::Number(6379)),
                ("redis_password", Preset::Text("")),
                ("session_ttl_hours", Preset::Number(0)),
                ("max_history", Preset::Number(100)),
                ("auto_summarize", Preset::Flag(true)),
            ],
            Self::Chat => &[
                ("backend", Preset::Text("directory")),
                ("conversation", Preset::Flag(true)),
                ("session_ttl_hours", Preset::Number(30 * 24)),
                ("session_ttl_mode", Preset::Text("sliding")),
            ],
        }
    }
}
