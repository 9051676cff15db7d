//! Counts how entries and memories ended.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use crate::{
    entry::{Effect, Problem},
    store::Histogram,
};

/// Why answers were skipped: [`Counters::skipped`] by reason, as the filter gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkipCounters {
    /// Nothing but blanks was left of them.
    pub blank: u64,
    /// They were one of the option `skip_markers`, such as what a client writes when it breaks off.
    pub marker: u64,
    /// They were shorter than the option `min_message_length`.
    pub too_short: u64,
    /// Their metadata said so.
    pub switched_off: u64,
    /// A reason that only another plugin has, or none.
    pub other: u64,
}

impl SkipCounters {
    /// How many for each reason, by its name.
    pub fn reasons(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Self { blank, marker, too_short, switched_off, other } = *self;
        [
            ("blank", blank),
            ("marker", marker),
            ("too-short", too_short),
            ("switched-off", switched_off),
            ("other", other),
        ]
        .into_iter()
    }

    /// Counts a skipped answer, by the code of its problem as the bundled filter spells it. Unknown reasons count as
    /// other, so a plugin can't add reasons.
    fn count_skipped(&mut self, problem: Option<&Problem>) {
        let code = problem.map(|problem| problem.code.to_string()).unwrap_or_default();
        let counter = match &*code {
            "blank" => &mut self.blank,
            "marker" => &mut self.marker,
            "too-short" => &mut self.too_short,
            "switched-off" => &mut self.switched_off,
            _ => &mut self.other,
        };
        *counter += 1;
    }
}

/// What has become of [memories](crate::memories) that were to be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryCounters {
    /// Stored.
    pub stored: u64,
    /// Stored already.
    pub repeated: u64,
    /// Not to be stored.
    pub skipped: u64,
    /// The store, the plugin or a limit kept them from it.
    pub failed: u64,
}

/// What a Keepline counts.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) entries: Mutex<Counters>,
    pub(crate) skips: Mutex<SkipCounters>,
    pub(crate) memories: Mutex<MemoryCounters>,
    pub(crate) denied: Arc<AtomicU64>,
    pub(crate) questions: Histogram,
    pub(crate) answers: Histogram,
}

impl Tally {
    /// One more entry; `problem` is what kept it from its memory, if anything did.
    pub(crate) fn count(&self, effect: Effect, problem: Option<&Problem>) {
        *self.entries.lock().counter_of(effect) += 1;
        if effect == Effect::Skipped {
            self.skips.lock().count_skipped(problem);
        }
    }

    pub(crate) fn read_entries(&self) -> Counters {
        Counters { denied: self.denied.load(Ordering::Relaxed), ..*self.entries.lock() }
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $effect:ident;)*) => {
        /// How many entries met with each fate.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
            /// Instances of the plugin that were stopped.
            pub faults: u64,
            /// Calls that were not made because the plugin had been stopped time after time.
            pub left_alone: u64,
            /// Calls that got no instance in time, or for which there was no memory, those of [`Sessions`](crate::Sessions) among them.
            pub busy: u64,
            /// Calls of the store that the plugin made for what its entry does not name, and that were denied.
            pub denied: u64,
        }

        impl Counters {
            /// How many entries met with each effect, by the effect's name.
            pub fn effects(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }

            fn counter_of(&mut self, effect: Effect) -> &mut u64 {
                match effect { $(Effect::$effect => &mut self.$name,)* }
            }
        }
    };
}

counters! {
    /// Questions that got their session's memory.
    enriched: Enriched;
    /// Questions of sessions with nothing to tell.
    resumed: Resumed;
    /// Answers stored.
    stored: Stored;
    /// Answers that were stored already.
    repeated: Repeated;
    /// Answers that an option leaves out.
    skipped: Skipped;
    /// No session.
    passed: Passed;
    /// A malformed session id.
    ignored: Ignored;
    /// A session of another user.
    foreign: Foreign;
    /// Kept from being enriched or stored by a limit.
    limited: Limited;
    /// Answers whose session had ended.
    ended: Ended;
    /// The store or the plugin failed, or no instance was to be had.
    failed: Failed;
}
