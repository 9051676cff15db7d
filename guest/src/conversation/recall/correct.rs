//! What corrections take out of recall.
//!
//! Promises that what is removed from the transcript is removed here, text and terms: beside the transcript in the same
//! transaction, of the user's copies before it; and that nobody who read it before brings it back, since each of those
//! writes expects that no message was changed.

use super::super::desk::Address;
use super::super::owner;
use super::super::{OWNER, SESSION};
use super::passage::facet;
use super::post::{CHANGED, copies, same};
use super::posted::Posted;
use super::reading::Read;
use super::remove::Removal;
use super::{POSTED, RECALLED};
use crate::reply::{self, Outcomes};
use crate::sessions::{Answer, Sessions, check_status, conflict, store_problem};
use crate::store::{Bucket, Expectation, Failure, Host, Opening, Operation, Status, Transaction};

/// How often to begin again when others come in between.
const TRIES: u32 = 32;

/// What is done with a correction, beside the transcript.
#[derive(Default)]
pub(in super::super) struct Correction {
    removal: Removal,
    /// How far the transcript was read, as it is, and as it will be.
    recalled: Option<String>,
    again: Option<String>,
}

impl Correction {
    /// The keys of the vectors that go.
    pub(in super::super) fn vectors(&self) -> Vec<&str> {
        self.removal.vectors()
    }

    /// To be done with it.
    pub(in super::super) fn operations<'a>(&'a self, vectors: &'a [&'a str]) -> Vec<Operation<'a>> {
        let mut operations = self.removal.operations(vectors);
        if let Some(text) = &self.again {
            operations.push(Operation::Put { map: SESSION, key: RECALLED, text });
        }
        operations
    }

    /// What has to be as it was found.
    pub(in super::super) fn expectations(&self) -> Vec<Expectation<'_>> {
        let mut expectations = vec![same(SESSION, RECALLED, self.recalled.as_deref())];
        if self.recalled.is_some() {
            expectations.extend(self.removal.expectations());
        }
        expectations
    }
}

/// What becomes of the messages that are corrected.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Fate<'a> {
    /// These are removed.
    Removed(&'a [u64]),
    /// These are put in other words.
    Kept(&'a [u64]),
    /// All make room for others, or for none.
    Replaced,
    /// The session is deleted.
    Deleted,
}

impl<H: Host> Sessions<H> {
    /// What there is beside a transcript of messages that are about to be corrected; `recalled` is how far it was read. Two
    /// waits; none where nothing was.
    pub(in super::super) fn recalled(
        &self,
        at: &Address<'_>,
        life: &str,
        recalled: Option<&str>,
        positions: &[u64],
        is_kept: bool,
    ) -> Answer<Correction> {
        let Some(recalled) = recalled.filter(|_| self.host().capabilities().indexes) else {
            return Ok(Correction::default());
        };
        let mut facets: Vec<u32> = positions.iter().map(|position| facet(*position)).collect();
        facets.sort_unstable();
        facets.dedup();
        let (bucket, opening) = (at.bucket(), Opening::life(life));
        let mut recalled = recalled.to_owned();
        let mut read = Read::parse(&recalled);
        read.repeat(positions);
        let again = read.write();
        loop {
            let found =
                Removal::find(self.host(), bucket, opening, &facets, &|passage| positions.contains(&passage.position));
            let removal = self.told(at.session, found)?.ok_or_else(|| conflict(at.session))?;
            if removal.is_whole {
                let again = is_kept.then_some(again);
                return Ok(Correction { removal, recalled: Some(recalled), again });
            }
            // More than one transaction can take out: some go before. Should the rest not come about, they are read again.
            let first = Correction { removal, recalled: Some(recalled), again: Some(again.clone()) };
            let vectors = first.vectors();
            let (expectations, operations) = (first.expectations(), first.operations(&vectors));
            let some = Transaction { bucket, opening, expectations: &expectations, operations: &operations };
            let receipt = self.told(at.session, reply::transact(self.host(), &some))?;
            if receipt.status == Status::Unmet || first.removal.is_empty() {
                return Err(conflict(at.session));
            }
            check_status(at.session, receipt.status)?;
            recalled = again.clone();
        }
    }

    /// Take out of the owner's memory what is about to be corrected, before it is: nobody copies the old words from here on,
    /// unless the correction does not come about. `revision` is that of the session as it is now. Four waits; two if
    /// nothing was copied.
    pub(in super::super) fn withdrawn(
        &self,
        session: &str,
        life: &str,
        owner: Option<&str>,
        revision: u64,
        fate: Fate<'_>,
    ) -> Answer<()> {
        let Some(owner) = owner.filter(|_| self.host().capabilities().indexes) else { return Ok(()) };
        let done = self.withdraw(session, life, owner, revision, fate);
        match done.map_err(|failure| store_problem(session, &failure))? {
            true => Ok(()),
            false => Err(conflict(session)),
        }
    }

    /// The same with all of a session, which is about to be deleted. Of one that has no owner, one wait.
    pub(crate) fn withdraw_session(&self, session: &str) -> Answer<()> {
        if self.config().conversation.is_none() || !self.host().capabilities().indexes {
            return Ok(());
        }
        let (bucket, opening) = (Bucket::session(session), Opening::LOOK);
        let get = [Operation::Get { map: SESSION, key: OWNER, max_bytes: 256 }];
        let look = Transaction { bucket, opening, expectations: &[], operations: &get };
        let receipt = self.told(session, reply::transact(self.host(), &look))?;
        if !receipt.is_applied() {
            return Ok(());
        }
        let life = receipt.incarnation.clone();
        let owner = self.told(session, Outcomes::of(receipt).text())?;
        self.withdrawn(session, &life, owner.as_deref(), 0, Fate::Deleted)
    }

    /// Whether it was done.
    fn withdraw(&self, session: &str, life: &str, owner: &str, revision: u64, fate: Fate<'_>) -> Result<bool, Failure> {
        let (bucket, opening) = (owner::bucket(owner), Opening::LOOK);
        let positions = match fate {
            Fate::Removed(positions) | Fate::Kept(positions) => Some(positions),
            Fate::Replaced | Fate::Deleted => None,
        };
        let of_life = if matches!(fate, Fate::Deleted) { None } else { Some(life) };
        let mut tries = 0;
        while tries < TRIES {
            let before = reply::text_of(self.host(), bucket, POSTED, session)?;
            let (read, until) = match before.as_deref().and_then(Posted::parse) {
                Some(Posted::Of { life: of, read, until, .. }) if of == life => (read, until),
                _ => (Read::default(), 0),
            };
            let after = match fate {
                Fate::Deleted => Posted::Gone { life: life.to_owned(), since: self.host().now_micros() / 1_000_000 },
                Fate::Replaced => Posted::none(life, revision + 1),
                Fate::Removed(positions) | Fate::Kept(positions) => {
                    let mut read = read;
                    read.repeat(positions);
                    Posted::Of { life: life.to_owned(), revision: revision + 1, until, read }
                }
            };
            // Without a bucket of theirs nothing is copied.
            let Some(removal) = copies(self.host(), bucket, session, of_life, positions)? else { return Ok(true) };
            let text = after.write();
            let vectors = removal.vectors();
            let mut operations = removal.operations(&vectors);
            operations.push(CHANGED);
            operations.push(Operation::Put { map: POSTED, key: session, text: &text });
            let mut expectations = removal.expectations().to_vec();
            expectations.push(same(POSTED, session, before.as_deref()));
            let withdrawn = Transaction { bucket, opening, expectations: &expectations, operations: &operations };
            let receipt = reply::transact(self.host(), &withdrawn)?;
            match receipt.status {
                Status::Applied | Status::Repeated if removal.is_whole => return Ok(true),
                Status::Applied | Status::Repeated if !removal.is_empty() => {}
                _ => tries += 1,
            }
        }
        Ok(false)
    }
}

/// What is forgotten with a transcript that begins anew.
pub(in super::super) const ONCE: &str = RECALLED;
