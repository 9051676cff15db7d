//! Counts how entries and memories ended.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

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
        let counts = [blank, marker, too_short, switched_off];
        REASONS.into_iter().zip(counts).chain([("other", other)])
    }
}

/// The reasons as the bundled filter spells them, in its problem's code.
const REASONS: [&str; 4] = ["blank", "marker", "too-short", "switched-off"];

#[derive(Default)]
pub(crate) struct SkipTally {
    reasons: [AtomicU64; REASONS.len()],
    other: AtomicU64,
}

impl SkipTally {
    /// Counts a skipped answer. Unknown reasons count as other, so a plugin can't add reasons.
    fn count_skipped(&self, problem: Option<&Problem>) {
        let code = problem.map(|problem| problem.code.to_string()).unwrap_or_default();
        let known = REASONS.into_iter().position(|reason| reason == code);
        let counter = known.and_then(|at| self.reasons.get(at)).unwrap_or(&self.other);
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> SkipCounters {
        let [blank, marker, too_short, switched_off] = self.reasons.each_ref().map(|one| one.load(Ordering::Relaxed));
        SkipCounters { blank, marker, too_short, switched_off, other: self.other.load(Ordering::Relaxed) }
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

#[derive(Default)]
pub(crate) struct MemoryTally {
    pub(crate) stored: AtomicU64,
    pub(crate) repeated: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) failed: AtomicU64,
}

impl MemoryTally {
    pub(crate) fn read(&self) -> MemoryCounters {
        MemoryCounters {
            stored: self.stored.load(Ordering::Relaxed),
            repeated: self.repeated.load(Ordering::Relaxed),
            skipped: self.skipped.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
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
        }

        #[derive(Default)]
        pub(crate) struct Tally {
            $($name: AtomicU64,)*
            faults: AtomicU64,
            left_alone: AtomicU64,
            busy: AtomicU64,
            pub(crate) denied: Arc<AtomicU64>,
            pub(crate) questions: Histogram,
            pub(crate) answers: Histogram,
            pub(crate) memories: MemoryTally,
            pub(crate) skips: SkipTally,
        }

        impl Tally {
            /// One more entry; `problem` is what kept it from its memory, if anything did.
            pub(crate) fn count(&self, effect: Effect, problem: Option<&Problem>) {
                let counter = match effect { $(Effect::$effect => &self.$name,)* };
                counter.fetch_add(1, Ordering::Relaxed);
                if effect == Effect::Skipped {
                    self.skips.count_skipped(problem);
                }
            }

            pub(crate) fn count_fault(&self) {
                self.faults.fetch_add(1, Ordering::Relaxed);
            }

            pub(crate) fn count_left_alone(&self) {
                self.left_alone.fetch_add(1, Ordering::Relaxed);
            }

            pub(crate) fn count_busy(&self) {
                self.busy.fetch_add(1, Ordering::Relaxed);
            }

            pub(crate) fn read(&self) -> Counters {
                Counters {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    faults: self.faults.load(Ordering::Relaxed),
                    left_alone: self.left_alone.load(Ordering::Relaxed),
                    busy: self.busy.load(Ordering::Relaxed),
                    denied: self.denied.load(Ordering::Relaxed),
                }
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
