//! Registered names of the contract as enums, each with the contract's rule for a name that is not known.

use keepline_options::registered_names;

registered_names! {
    /// What was done with an entry.
    #[non_exhaustive]
    Effect {
        /// No session: nothing was done.
        Passed = "passed",
        /// The session id or the user id is malformed: nothing was done.
        Ignored = "ignored",
        /// The session belongs to another user: nothing was done.
        Foreign = "foreign",
        /// Question: the session is there and has nothing to attach.
        Resumed = "resumed",
        /// Question: something was attached. With a problem: the part that fits; the problem names what was left out.
        Enriched = "enriched",
        /// Answer: it is stored. With a problem: as far as possible; the problem names what is broken.
        Stored = "stored",
        /// Answer: its message id is stored already; nothing was written.
        Repeated = "repeated",
        /// Answer: not worth storing, by option; the problem names it.
        Skipped = "skipped",
        /// A limit prevented it; the problem names the limit.
        Limited = "limited",
        /// Answer: the generation of the session that its question saw has ended; not stored.
        Ended = "ended",
        /// The store or the plugin failed; the problem says how.
        Failed = "failed",
    }
}

impl Effect {
    /// An unknown effect of a question is `Enriched` if the question got metadata, and otherwise `Passed`.
    pub(crate) fn of_question(name: &str, has_metadata: bool) -> Self {
        Self::from_name(name).unwrap_or(if has_metadata { Self::Enriched } else { Self::Passed })
    }

    /// An unknown effect of an answer is `Stored`.
    pub(crate) fn of_answer(name: &str) -> Self {
        Self::from_name(name).unwrap_or(Self::Stored)
    }
}

registered_names! {
    /// Whether an answer is whole.
    #[non_exhaustive]
    #[derive(Default)]
    AnswerStatus {
        /// It is.
        #[default]
        Complete = "complete",
        /// Cut off by a failure or by the client.
        Incomplete = "incomplete",
    }
}

registered_names! {
    /// What a completion is for.
    #[non_exhaustive]
    Purpose {
        /// A summary of what was said.
        Summary = "summary",
        /// A title of a session.
        Title = "title",
        /// What is worth remembering of a user.
        Extraction = "extraction",
        /// A query to search with.
        Query = "query",
        /// One that this library does not know.
        Other = "other",
    }
}

impl Purpose {
    /// Of the need that names it.
    pub fn of(need: &super::needs::CompletionNeed) -> Self {
        Self::from_name(&need.purpose).unwrap_or(Self::Other)
    }
}

registered_names! {
    /// Where a task stands.
    #[non_exhaustive]
    Step {
        /// Get what is needed, then call again.
        Needs = "needs",
        /// Call again when it suits.
        Again = "again",
        /// It is done.
        Done = "done",
        /// Another process works on it, or has done it.
        Taken = "taken",
        /// The session or user is gone, or was forgotten.
        Ended = "ended",
        /// See the problem; it will be due again.
        Failed = "failed",
    }
}

impl Step {
    /// An unknown step ends the task: it counts as `Done`.
    pub(crate) fn of_progress(name: &str) -> Self {
        Self::from_name(name).unwrap_or(Self::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_mean_what_the_contract_says() {
        assert_eq!(Effect::of_question("resumed", false), Effect::Resumed);
        assert_eq!(Effect::of_question("compared", true), Effect::Enriched);
        assert_eq!(Effect::of_question("compared", false), Effect::Passed);
        assert_eq!((Effect::of_answer("ended"), Effect::of_answer("shelved")), (Effect::Ended, Effect::Stored));
        assert_eq!((Step::of_progress("again"), Step::of_progress("paused")), (Step::Again, Step::Done));
        assert_eq!(Effect::from_name(Effect::Enriched.name()), Some(Effect::Enriched));
    }
}
