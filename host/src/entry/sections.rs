//! What questions gain from declared memories: the member `memory_sections` of their metadata.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use crate::{
    runtime::EntryOwner,
    store::{Deadline, StoreGuard},
};

/// Assembles what declared memories contribute to a question.
#[async_trait]
pub(crate) trait SectionAssembler: Send + Sync {
    /// The value of `memory_sections`: a JSON object; none: nothing contributes. The store is that of the question.
    ///
    /// # Errors
    /// Why there is none, in one sentence.
    async fn assemble(
        &self,
        store: &Arc<StoreGuard>,
        owner: &EntryOwner,
        text: &str,
        by: Deadline,
    ) -> Result<Option<String>, String>;
}

/// What questions gain from declared memories. [`Pipelines::assembly`](crate::Pipelines::assembly) makes one.
#[derive(Clone)]
pub struct Assembly(pub(crate) Arc<dyn SectionAssembler>);

impl fmt::Debug for Assembly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assembly").finish_non_exhaustive()
    }
}

/// The member that holds them.
const MEMBER: &str = "memory_sections";

/// Metadata with that value as its last member. None: they are no JSON object, or have such a member.
pub(crate) fn append_sections(metadata: &str, sections: &str) -> Option<String> {
    let (mut is_empty, mut has_sections) = (true, false);
    let form = keepline_json::scan_object(metadata, |key, _| {
        is_empty = false;
        has_sections |= keepline_json::key_matches(key, MEMBER);
    });
    if form.is_none() || has_sections {
        return None;
    }
    let body = metadata.trim_end().strip_suffix('}')?.trim_end();
    let comma = if is_empty { "" } else { "," };
    Some([body, comma, "\"", MEMBER, "\":", sections, "}"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_the_last_member_and_are_attached_once() {
        for (metadata, appended) in [
            ("{}", Some(r#"{"memory_sections":{"text":"x"}}"#)),
            (r#"{"a": NaN } "#, Some(r#"{"a": NaN,"memory_sections":{"text":"x"}}"#)),
            (r#"{"memory_sections":1}"#, None),
            (r#"{"memory\u005fsections":1}"#, None),
            ("[]", None),
            ("", None),
            (r#"{"a":1"#, None),
        ] {
            assert_eq!(append_sections(metadata, r#"{"text":"x"}"#).as_deref(), appended, "{metadata}");
        }
    }
}
