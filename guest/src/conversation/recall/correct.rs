//! What corrections take out of recall.
//!
//! Promises that what is removed from the transcript is removed here before it, text, terms and vectors: beside the
//! transcript, and of the user's copies. Nobody who read it before brings it back, since each of those writes expects what
//! is written here; and should the correction not come about, it is read once more. See [`Posted`].

use super::super::desk::Address;
use super::super::owner::{self, NODES};
use super::super::{OWNER, SESSION};
use super::passage::{Passage, facet};
use super::post::{CHANGED, Copies, same};
use super::posted::Posted;
use super::reading::Read;
use super::remove::{Removing, Taken};
use super::{POSTED, RECALLED};
use crate::config::{KEYS_BYTES, MAX_KEYS};
use crate::names::is_session;
use crate::reply::{self, Outcomes};
use crate::sessions::{Answer, Sessions, check_status, conflict};
use crate::store::{Bucket, BucketKind, Failure, Host, Opening, Operation, Transaction};

/// How often to begin again when others come in between.
const TRIES: u32 = 64;

/// What becomes of the messages that are corrected.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Fate<'a> {
    /// These are removed, or put in other words.
    Changed(&'a [u64]),
    /// All make room for others, or for none.
    Replaced,
    /// The session is deleted.
    Deleted,
}

impl<H: Host> Sessions<H> {
    /// Take out what there is beside a transcript of messages that are about to be corrected; `recalled` is how far it was
    /// read. What that is afterwards: the correction expects it. Three waits; none where nothing was.
    pub(in super::super) fn recalled(
        &self,
        at: &Address<'_>,
        life: &str,
        recalled: Option<&str>,
        positions: &[u64],
    ) -> Answer<Option<String>> {
        let mut recalled = recalled.map(ToOwned::to_owned);
        if !self.host().capabilities().indexes {
            return Ok(recalled);
        }
        let facets: Vec<u32> = positions.iter().map(|position| facet(*position)).collect();
        let is_meant = |passage: &Passage<'_>| positions.contains(&passage.position);
        let (bucket, opening) = (at.bucket(), Opening::life(life));
        let removing = Removing { bucket, opening, facets: &facets, is_meant: &is_meant };
        for _ in 0..TRIES {
            let Some(before) = &recalled else { return Ok(None) };
            let mut read = Read::parse(before);
            read.repeat(positions);
            let after = read.write();
            let expected = [same(SESSION, RECALLED, Some(before))];
            let put = [Operation::Put { map: SESSION, key: RECALLED, text: &after }];
            match self.told(at.session, removing.take_out(self.host(), &expected, &put, None))? {
                Taken::Whole => return Ok(Some(after)),
                Taken::Some => recalled = Some(after),
                // Others have read on meanwhile.
                Taken::Unmet => {
                    recalled = self.told(at.session, reply::text_of(self.host(), bucket, SESSION, RECALLED))?;
                }
                Taken::Nowhere => break,
            }
        }
        Err(conflict(at.session))
    }

    /// Take out of the owner's memory what is about to be corrected: nobody copies the old words from here on, unless the
    /// correction does not come about. `revision` is that of the session as it is now. Four waits; three if nothing was
    /// copied.
    pub(in super::super) fn withdrawn(
        &self,
        session: &str,
        life: &str,
        owner: Option<&str>,
        revision: u64,
        fate: Fate<'_>,
    ) -> Answer<()> {
        let Some(owner) = owner.filter(|_| self.host().capabilities().indexes) else { return Ok(()) };
        for _ in 0..TRIES {
            if self.told(session, self.withdraw(session, life, owner, revision, fate))? {
                return Ok(());
            }
        }
        Err(conflict(session))
    }

    /// What a session that is about to be deleted has elsewhere, also where no conversations are kept now: its nodes, and
    /// the same with its owner. One wait if there is neither.
    pub(crate) fn remove_elsewhere(&self, session: &str) -> Answer<()> {
        let (bucket, opening) = (Bucket::session(session), Opening::LOOK);
        let mut cursor = String::new();
        loop {
            let nodes =
                Operation::PageKeys { map: NODES, cursor: &cursor, max_entries: MAX_KEYS, max_bytes: KEYS_BYTES };
            let operations = [Operation::Get { map: SESSION, key: OWNER, max_bytes: 256 }, nodes];
            let look = Transaction { bucket, opening, expectations: &[], operations: &operations };
            let receipt = self.told(session, reply::transact(self.host(), &look))?;
            check_status(session, receipt.status)?;
            let life = receipt.incarnation.clone();
            let mut outcomes = Outcomes::of(receipt);
            let owner = self.told(session, outcomes.text())?;
            let page = self.told(session, outcomes.keys())?;
            for node in page.keys.iter().filter(|node| is_session(node)) {
                self.told(session, self.remove_bucket(BucketKind::Node, node, None))?;
            }
            if page.cursor.is_empty() {
                return self.withdrawn(session, &life, owner.as_deref(), 0, Fate::Deleted);
            }
            cursor = page.cursor;
        }
    }

    /// Whether it was done; otherwise others came in between.
    fn withdraw(&self, session: &str, life: &str, user: &str, revision: u64, fate: Fate<'_>) -> Result<bool, Failure> {
        let before = reply::text_of(self.host(), owner::bucket(user), POSTED, session)?;
        let mut after = Posted::none(life, revision + 1);
        let mut copies = Copies { user, session, life: Some(life), positions: None };
        match fate {
            Fate::Changed(positions) => {
                copies.positions = Some(positions);
                if let Some(Posted::Of { life: of, mut read, until, .. }) = before.as_deref().and_then(Posted::parse)
                    && of == life
                {
                    read.repeat(positions);
                    after = Posted::Of { life: of, revision: revision + 1, until, read };
                }
            }
            Fate::Replaced => {}
            Fate::Deleted => {
                copies.life = None;
                after = Posted::Gone { life: life.to_owned(), since: self.host().now_micros() / 1_000_000 };
            }
        }
        let text = after.write();
        let put = Operation::Put { map: POSTED, key: session, text: &text };
        let operations = match fate {
            Fate::Deleted => vec![FOR_REMOVAL, CHANGED, put],
            Fate::Changed(_) | Fate::Replaced => vec![CHANGED, put],
        };
        let mut before = before.as_deref();
        loop {
            match copies.take_out(self.host(), &[same(POSTED, session, before)], &operations, None)? {
                Taken::Some => before = Some(&text),
                Taken::Unmet => return Ok(false),
                // Without a bucket of theirs nothing is copied.
                Taken::Whole | Taken::Nowhere => return Ok(true),
            }
        }
    }
}

/// A store that is full takes what removes something: so the mark of a session that is about to be deleted is written beside
/// the removal of an entry that nobody has.
const FOR_REMOVAL: Operation<'static> = Operation::Remove { map: "removal", keys: &["-"] };

/// What is forgotten with a transcript that begins anew.
pub(in super::super) const ONCE: &str = RECALLED;
