//! What a call of pipelines reaches: definitions and data sets of one owner, and what the asking session and user have.

use keepline_options::bucket_names::{definitions_bucket_name, is_dataset_of};

use super::BucketAccess;
use crate::store::{BucketId, EntryState, kind};

/// What a call does with its owner's buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PipelineAccess {
    /// It reads them.
    Read,
    /// It changes definitions.
    WriteDefinitions,
    /// It changes data sets.
    WriteData,
}

/// The buckets that a call of pipelines reaches.
#[derive(Clone, Debug)]
pub(crate) struct PipelineScope {
    /// The bucket of the owner's definitions, by which those of the data sets are known.
    definitions: String,
    access: PipelineAccess,
    /// The asking session's bucket, to read it.
    session: Option<BucketId>,
    /// The asking user's, to read it.
    user: Option<BucketId>,
}

impl PipelineScope {
    pub(crate) fn new(owner_kind: &str, owner: &str, access: PipelineAccess) -> Self {
        Self { definitions: definitions_bucket_name(owner_kind, owner), access, session: None, user: None }
    }

    /// The same for who asks, by the names of their buckets.
    pub(crate) fn asked_by(self, session: Option<String>, user: Option<String>) -> Self {
        let session = session.map(|name| BucketId::new(kind::SESSION, &name));
        let user = user.map(|name| BucketId::new(kind::USER, &name));
        Self { session, user, ..self }
    }

    pub(super) fn access_to(&self, bucket: &BucketId) -> Option<BucketAccess> {
        let reads_unless = |access| Some(BucketAccess { reads_only: self.access != access, owner: None });
        match &*bucket.kind {
            kind::DEFINITION if *bucket.name == *self.definitions => reads_unless(PipelineAccess::WriteDefinitions),
            kind::DATASET if is_dataset_of(&bucket.name, &self.definitions) => reads_unless(PipelineAccess::WriteData),
            kind::USER if self.user.as_ref() == Some(bucket) => Some(BucketAccess { reads_only: true, owner: None }),
            // That of another user is as if it were not there.
            kind::SESSION if self.session.as_ref() == Some(bucket) => {
                let owner = self.user.as_ref().map(|user| (EntryState::AbsentOrEqual, user.name.to_string()));
                Some(BucketAccess { reads_only: true, owner })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_reaches_its_owner_and_who_asks_and_nothing_else() {
        let mine = definitions_bucket_name("project", "p");
        let others = [definitions_bucket_name("user", "p"), definitions_bucket_name("project", "q")];
        let data =
            |definitions: &str| keepline_options::bucket_names::dataset_bucket_name(definitions, &["values", "a"]);
        let scope = |access| PipelineScope::new("project", "p", access).asked_by(Some("s".into()), Some("u".into()));
        let reaches = |access, kind: &str, name: &str| {
            scope(access).access_to(&BucketId::new(kind, name)).map(|found| found.reads_only)
        };
        use PipelineAccess::{Read, WriteData, WriteDefinitions};
        for (access, reads_definitions, reads_data) in
            [(Read, true, true), (WriteDefinitions, false, true), (WriteData, true, false)]
        {
            assert_eq!(reaches(access, kind::DEFINITION, &mine), Some(reads_definitions));
            assert_eq!(reaches(access, kind::DATASET, &data(&mine)), Some(reads_data));
            assert_eq!(reaches(access, kind::SESSION, "s"), Some(true));
            assert_eq!(reaches(access, kind::USER, "u"), Some(true));
            for other in &others {
                assert_eq!(reaches(access, kind::DEFINITION, other), None);
                assert_eq!(reaches(access, kind::DATASET, &data(other)), None);
            }
            for (kind, name) in [
                (kind::SESSION, "u"),
                (kind::USER, "s"),
                (kind::NODE, "s"),
                (kind::DEFINITION, &data(&mine)),
                (kind::DATASET, &mine),
                (kind::DATASET, &format!("{mine}-x")),
            ] {
                assert_eq!(reaches(access, kind, name), None, "{kind} {name}");
            }
        }
        let session = scope(Read).access_to(&BucketId::session("s")).and_then(|access| access.owner);
        assert_eq!(session, Some((EntryState::AbsentOrEqual, "u".to_owned())));
        let nobody = PipelineScope::new("project", "p", Read);
        assert!(nobody.access_to(&BucketId::session("s")).is_none());
    }
}
