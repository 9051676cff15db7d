//! The deferred work of recall over all of a user's sessions: what was said in one of them is copied into the user's
//! bucket.
//!
//! Promises that each message is copied once, only while its session is the user's, and in the words that the session has:
//! see [`Posted`]. Whoever is late meets the user's tombstone, or no longer finds the session in the user's list. Refuses to
//! copy what is being deleted.

use super::super::options::Options;
use super::super::owner::{self, FORGOTTEN, SESSIONS, USER};
use super::super::rewrite::number;
use super::super::upkeep::{self, Basis, Job, Progress, Step, unchanged};
use super::super::{OWNER, REVISION, SESSION};
use super::keep::{Home, Kept, is_before};
use super::passage::{Cut, Origin, Passage, facet_of};
use super::posted::{Posted, prefix};
use super::reading;
use super::remove::{Removing, Taken};
use super::{ALL_POSTED, OLDEST, PASSAGES, POSTED, WHERE_TERMS_ARE};
use crate::filter::Filter;
use crate::reply::{self, Outcomes};
use crate::store::{Bucket, Entry, Expectation, Failure, Host, LogEnd, Opening, Operation, Transaction};

/// Seconds: whoever is at work on a session is done by then.
const DAY: u64 = 86_400;

/// How long the session has to live.
const LIFE_LEFT: Operation<'static> = Operation::Describe { parts: false };

/// Lets a session's life be copied again that was deleted and is back: an operator restored it.
pub(in super::super) fn allow_again(host: &impl Host, user: &str, session: &str, life: &str) -> Result<(), Failure> {
    let bucket = owner::bucket(user);
    let Some(entry) = reply::text_of(host, bucket, POSTED, session)? else { return Ok(()) };
    if !matches!(Posted::parse(&entry), Some(Posted::Gone { life: gone, .. }) if gone == life) {
        return Ok(());
    }
    let expectations = [same(POSTED, session, Some(&entry))];
    let operations = [Operation::Remove { map: POSTED, keys: &[session] }];
    // Where the entry has changed meanwhile, somebody else decides.
    reply::transact(
        host,
        &Transaction { bucket, opening: Opening::LOOK, expectations: &expectations, operations: &operations },
    )?;
    Ok(())
}

/// What is seen of the user.
struct Theirs {
    forgotten: Option<String>,
    /// Which state of all the copies it is.
    revision: Option<String>,
    /// The entry of the session.
    posted: Option<String>,
}

impl<H: Host> Filter<H> {
    /// Copy what was said in a session.
    pub(in super::super) fn post(
        &self,
        options: &Options,
        session: Bucket<'_>,
        user: &str,
        job: &Job<'_>,
        mut basis: Basis,
    ) -> Result<Progress, Failure> {
        if !self.host.capabilities().indexes {
            return Ok(Progress::of(Step::Done));
        }
        let own = [
            Operation::GetSome { map: SESSION, keys: &[OWNER, REVISION], max_bytes: 1024 },
            reading::NEWEST,
            LIFE_LEFT,
        ];
        let mut theirs = vec![
            Operation::GetSome { map: USER, keys: &[FORGOTTEN, REVISION], max_bytes: 256 },
            Operation::Get { map: POSTED, key: session.name, max_bytes: 8192 },
            Operation::Read { log: PASSAGES, end: LogEnd::Newest, max_records: 1, max_bytes: 64 << 10 },
            WHERE_TERMS_ARE,
            OLDEST,
        ];
        theirs.extend(options.recall.ends_with_session.then_some(ALL_POSTED));
        let (bucket, opening) = (owner::bucket(user), Opening::LOOK);
        let look = Transaction { bucket, opening, expectations: &[], operations: &theirs };
        let (mut outcomes, receipt) = match self.read_leased_beside(session, job, &mut basis, &own, &look)? {
            Ok(read) => read,
            Err(progress) => return Ok(progress),
        };
        let mut once = outcomes.once()?;
        let owner = once.take(OWNER);
        basis.revision = once.take(REVISION);
        let newest = outcomes.records()?;
        let now = self.host.now_micros() / 1000;
        let until = outcomes.described()?.expires_in.map_or(0, |left| now.saturating_add(left));
        if owner.as_deref() != Some(user) || !receipt.is_applied() {
            self.write_back(session, job, &basis, &[], &[])?;
            return Ok(Progress::of(Step::Ended));
        }
        let their_life = receipt.incarnation.clone();
        let mut outcomes = Outcomes::of(receipt);
        let theirs = Theirs::of(&mut outcomes)?;
        let last = outcomes.records()?;
        let (terms, oldest) = (outcomes.records()?.extent, outcomes.records()?);
        let ended = match options.recall.ends_with_session {
            true => ended(&outcomes.readable()?, session.name, now),
            false => None,
        };

        let life = &*basis.incarnation;
        let revision = number(basis.revision.as_deref());
        let origin = Origin { session: session.name, life };
        let expectations = theirs.unchanged(session.name);
        // Who was forgotten has it no more, whenever it was read.
        let is_listed = Expectation::Present { map: SESSIONS, key: session.name };
        let listed = [&expectations[..], &[is_listed]].concat();
        let mut home = Home {
            bucket,
            opening: Opening::life(&their_life),
            transcript: session,
            entry: (POSTED, session.name),
            prefix: "",
            unchanged: &listed,
        };
        let step = match theirs.posted.as_deref().and_then(Posted::parse) {
            Some(Posted::Gone { life: gone, since }) if gone == life && now / 1000 < since.saturating_add(DAY) => {
                self.write_back(session, job, &basis, &[], &[])?;
                Step::Ended
            }
            Some(Posted::Of { life: of, revision: ahead, .. }) if of == life && ahead > revision => {
                self.catch_up(session, job, &basis, ahead - revision)?
            }
            Some(Posted::Of { life: of, revision: behind, .. }) if of == life && behind < revision => {
                self.withdraw(user, &expectations, session.name, life, &Posted::none(life, revision))?
            }
            posted => {
                let read = match posted {
                    Some(Posted::Of { life: of, read, .. }) if of == life => read,
                    _ => reading::Read::default(),
                };
                if let Some((session, life, revision)) = &ended {
                    // It stays known which revision its copies have to be of, should it not have ended after all.
                    let none = Posted::none(life, *revision);
                    let step = self.withdraw(user, &expectations, session, life, &none)?;
                    return Ok(Progress { state: Some(upkeep::state(&basis.incarnation)), ..Progress::of(step) });
                }
                let prefix = prefix(life, revision, until);
                home.prefix = &prefix;
                let before = last.records.first().and_then(|text| Passage::parse(text));
                let goes_on = before.is_some_and(|before| before.is_from(&origin) && before.position + 1 == read.to);
                let cut = Cut { origin: Some(origin), begins: !goes_on, ..Cut::default() };
                let oldest_at = self.oldest_at(options);
                let kept = Kept { read, terms, oldest, newest };
                self.keep(&home, job, &basis, kept, cut, &|passage| is_before(passage, oldest_at))?
            }
        };
        Ok(Progress { state: Some(upkeep::state(&basis.incarnation)), ..Progress::of(step) })
    }

    /// Forget what was copied of a session, of all its lives, whether it is still there or not.
    pub(in super::super) fn reset_posted(&self, session: Bucket<'_>, user: &str) -> Result<Progress, Failure> {
        let posted = reply::text_of(&self.host, owner::bucket(user), POSTED, session.name)?;
        let entry = [same(POSTED, session.name, posted.as_deref())];
        // Which revision copies have to be of stays known: a correction may be under way.
        let anew = posted.as_deref().and_then(Posted::parse).and_then(|posted| match posted {
            Posted::Of { life, revision, .. } => Some(Posted::none(&life, revision).write()),
            Posted::Gone { .. } => None,
        });
        let last = anew.as_deref().map(|text| Operation::Put { map: POSTED, key: session.name, text });
        let copies = Copies { user, session: session.name, life: None, positions: None };
        Ok(Progress::of(match copies.take_out(&self.host, &entry, &[CHANGED], last)? {
            Taken::Whole => Step::Done,
            Taken::Some | Taken::Unmet => Step::Again,
            Taken::Nowhere => Step::Ended,
        }))
    }

    /// All copies of a session's life go, to be made anew: it was changed without them, or has ended.
    fn withdraw(
        &self,
        user: &str,
        unchanged: &[Expectation<'_>],
        session: &str,
        life: &str,
        anew: &Posted,
    ) -> Result<Step, Failure> {
        let text = anew.write();
        let last = Operation::Put { map: POSTED, key: session, text: &text };
        let copies = Copies { user, session, life: Some(life), positions: None };
        copies.take_out(&self.host, unchanged, &[CHANGED], Some(last))?;
        Ok(Step::Again)
    }

    /// A correction is under way, or was given up: it begins anew, or never.
    fn catch_up(&self, session: Bucket<'_>, job: &Job<'_>, basis: &Basis, by: u64) -> Result<Step, Failure> {
        let amount = i64::try_from(by).unwrap_or(i64::MAX);
        let raise = [Operation::Increment { map: SESSION, key: REVISION, amount }];
        let expectations = [unchanged(REVISION, basis.revision.as_deref())];
        self.write_back(session, job, basis, &expectations, &raise)?;
        Ok(Step::Again)
    }
}

impl Theirs {
    fn of(outcomes: &mut Outcomes) -> Result<Self, Failure> {
        let mut once = outcomes.once()?;
        Ok(Self { forgotten: once.take(FORGOTTEN), revision: once.take(REVISION), posted: outcomes.text()? })
    }

    /// Nothing was corrected or forgotten, and nobody else has copied anything of this session.
    fn unchanged<'a>(&'a self, session: &'a str) -> [Expectation<'a>; 3] {
        [
            owner::unforgotten(self.forgotten.as_deref()),
            same(USER, REVISION, self.revision.as_deref()),
            same(POSTED, session, self.posted.as_deref()),
        ]
    }
}

/// A session that has ended by now, its life, and the revision of its copies, if there is one; not this one.
fn ended(posted: &[Entry], but: &str, now: u64) -> Option<(String, String, u64)> {
    posted.iter().filter(|entry| entry.key != but).find_map(|entry| match Posted::parse(&entry.text)? {
        Posted::Of { life, until, revision, .. } if (1..=now).contains(&until) => {
            Some((entry.key.clone(), life, revision))
        }
        _ => None,
    })
}

/// Copies in a user's bucket: of a session's messages, or of these of them; of one life, or of all.
#[derive(Clone, Copy)]
pub(super) struct Copies<'a> {
    pub user: &'a str,
    pub session: &'a str,
    pub life: Option<&'a str>,
    pub positions: Option<&'a [u64]>,
}

impl Copies<'_> {
    /// See [`Removing::take_out`].
    pub(super) fn take_out(
        &self,
        host: &impl Host,
        expectations: &[Expectation<'_>],
        operations: &[Operation<'_>],
        last: Option<Operation<'_>>,
    ) -> Result<Taken, Failure> {
        let Self { user, session, life, positions } = *self;
        let mut facets = Vec::new();
        match positions {
            Some(positions) => facets.extend(positions.iter().map(|&position| facet_of(session, Some(position)))),
            None => facets.push(facet_of(session, None)),
        }
        let is_meant = |passage: &Passage<'_>| {
            passage.session.as_deref() == Some(session)
                && life.is_none_or(|life| passage.life.as_deref() == Some(life))
                && positions.is_none_or(|positions| positions.contains(&passage.position))
        };
        let (bucket, opening) = (owner::bucket(user), Opening::LOOK);
        Removing { bucket, opening, facets: &facets, is_meant: &is_meant }.take_out(
            host,
            expectations,
            operations,
            last,
        )
    }
}

/// Told with each removal of copies: whoever is about to fold their terms begins anew.
pub(in super::super) const CHANGED: Operation<'static> = Operation::Increment { map: USER, key: REVISION, amount: 1 };

/// Where all copies go: those of sessions that are still there are made anew.
pub(in super::super) const NONE: Operation<'static> = Operation::ResetMap { map: POSTED, entries: &[] };

/// An entry is as it was.
pub(super) fn same<'a>(map: &'a str, key: &'a str, text: Option<&'a str>) -> Expectation<'a> {
    match text {
        Some(text) => Expectation::Equal { map, key, text },
        None => Expectation::Absent { map, key },
    }
}
