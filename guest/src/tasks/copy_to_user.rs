//! Copies a session's passages into its user's bucket, for `recall: "user"`.
//!
//! Promises that each message is copied once, only while the session is the user's, and in the words that the session has: see
//! [`CopyState`]. A user who was forgotten meanwhile gets no copies.

use std::slice::from_ref;

use crate::context::Context;
use crate::contract::{
    BucketId, Entry, Expectation, Host, LogEnd, Operation, Precondition, Problem, PutEntry, Transaction,
};
use crate::recall::copies::{CopyState, RAISE_REVISION, SessionCopies, copy_state_prefix, expect_entry};
use crate::recall::cursor;
use crate::recall::passage::{Passage, PassageBatch, PassageOrigin, is_older_than, oldest_at};
use crate::recall::remove::RemovalResult;
use crate::recall::schema::{COPY_STATES, PASSAGES, READ_COPY_STATES, READ_OLDEST_PASSAGE, WHERE_TERMS_ARE};
use crate::store;
use crate::store::Outcomes;
use crate::tasks::checkpoint::expect_session_entry;
use crate::tasks::index_passages::{PassageHome, PassageState, advance_index};
use crate::tasks::job::{Progress, Step};
use crate::tasks::task::{StepResult, TaskStep};
use crate::transcript::schema::{IMPORT, OWNER, REVISION, SESSION, parse_import, revision_number};
use crate::users::registry;
use crate::users::registry::{FORGOTTEN, SESSIONS, USER};
use keepline_options::words::RecallLife;

/// Seconds, after which any other work on a session is done.
const DAY: u64 = 86_400;

/// How long the session has to live.
const LIFE_LEFT: Operation<'static> = Operation::describe(false);

/// Lets a session's life be copied again that was deleted and is back: an operator restored it.
pub(crate) fn allow_copying_again(host: &impl Host, user: &str, session: &str, life: &str) -> Result<(), Box<Problem>> {
    let bucket = registry::user_bucket(user);
    let Some(entry) = store::read_entry_text(host, bucket, COPY_STATES, session)? else { return Ok(()) };
    if !matches!(CopyState::parse(&entry), Some(CopyState::Gone { life: gone, .. }) if gone == life) {
        return Ok(());
    }
    let expectations = [expect_entry(COPY_STATES, session, Some(&entry))];
    let operations = [Operation::remove(COPY_STATES, from_ref(&session))];
    // Where the entry has changed meanwhile, somebody else decides.
    store::transact(
        host,
        &Transaction { bucket, precondition: Precondition::LOOK, expectations: &expectations, operations: &operations },
    )?;
    Ok(())
}

/// What is seen of the user.
struct UserCopyState {
    forgotten: Option<String>,
    /// Which state of all the copies it is.
    revision: Option<String>,
    /// The entry of the session.
    posted: Option<String>,
}

/// Copy what was said in a session.
pub(crate) fn copy_to_user(mut step: TaskStep<'_, impl Host>, user: &str) -> StepResult {
    let TaskStep { context, options, bucket: session, .. } = step;
    if !context.host.store_profile().indexes {
        return Ok(Progress::of(Step::Done));
    }
    let own = [Operation::get_some(SESSION, &[OWNER, REVISION, IMPORT], 1024), cursor::READ_NEWEST_RECORDS, LIFE_LEFT];
    let mut theirs = vec![
        Operation::get_some(USER, &[FORGOTTEN, REVISION], 256),
        Operation::get(COPY_STATES, &session.name, 8192),
        Operation::read(PASSAGES, LogEnd::Newest, 1, 64 << 10),
        WHERE_TERMS_ARE,
        READ_OLDEST_PASSAGE,
    ];
    theirs.extend((options.recall_life == RecallLife::Session).then_some(READ_COPY_STATES));
    let (bucket, precondition) = (registry::user_bucket(user), Precondition::LOOK);
    let look = Transaction { bucket, precondition, expectations: &[], operations: &theirs };
    let (mut outcomes, receipt) = step.read_beside(&own, look)?;
    let mut once = outcomes.take_entries_by_key()?;
    let owner = once.take(OWNER);
    step.basis.revision = once.take(REVISION);
    let hidden = once.take(IMPORT).as_deref().map(parse_import).unwrap_or_default();
    let newest = outcomes.take_records()?;
    let now = context.host.now_micros() / 1000;
    let until = outcomes.take_description()?.expires_in.map_or(0, |left| now.saturating_add(left));
    if owner.as_deref() != Some(user) || !receipt.is_applied() {
        step.write(&[], &[])?;
        return Ok(Progress::of(Step::Ended));
    }
    let mut outcomes = Outcomes::of(receipt);
    let theirs = UserCopyState::of(&mut outcomes)?;
    let last = outcomes.take_records()?;
    let (terms, oldest) = (outcomes.take_records()?.extent, outcomes.take_records()?);
    let ended = match options.recall_life == RecallLife::Session {
        true => ended(&outcomes.take_readable_entries()?, session.name, now),
        false => None,
    };

    let life = &*step.basis.generation;
    let revision = revision_number(step.basis.revision.as_deref());
    let origin = PassageOrigin { session: session.name, life };
    let expectations = theirs.unchanged(session.name);
    // Who was forgotten has it no more, whenever it was read.
    let is_listed = Expectation::present(SESSIONS, session.name);
    let listed = [&expectations[..], &[is_listed]].concat();
    let mut home = PassageHome {
        bucket,
        precondition: Precondition::life(&outcomes.generation),
        entry: (COPY_STATES, session.name),
        prefix: "",
        unchanged: &listed,
    };
    let done = match theirs.posted.as_deref().and_then(CopyState::parse) {
        Some(CopyState::Gone { life: gone, since }) if gone == life && now / 1000 < since.saturating_add(DAY) => {
            step.write(&[], &[])?;
            Step::Ended
        }
        Some(CopyState::Of { life: of, revision: ahead, .. }) if of == life && ahead > revision => {
            raise_revision(&step, ahead - revision)?
        }
        Some(CopyState::Of { life: of, revision: behind, .. }) if of == life && behind < revision => {
            withdraw_copies(context, user, &expectations, session.name, life, &CopyState::not_copied(life, revision))?
        }
        posted => {
            let read = match posted {
                Some(CopyState::Of { life: of, read, .. }) if of == life => read,
                _ => cursor::IndexCursor::default(),
            };
            if let Some((session, life, revision)) = &ended {
                // It stays known which revision its copies have to be of, should it not have ended after all.
                let none = CopyState::not_copied(life, *revision);
                return Ok(step.begin_anew(withdraw_copies(context, user, &expectations, session, life, &none)?));
            }
            let prefix = copy_state_prefix(life, revision, until);
            home.prefix = &prefix;
            let before = last.records.first().and_then(|text| Passage::parse(text));
            let goes_on = before.is_some_and(|before| before.is_from(&origin) && before.position + 1 == read.to);
            let cut = PassageBatch { origin: Some(origin), begins: !goes_on, ..PassageBatch::default() };
            let oldest_at = oldest_at(context, options);
            let kept = PassageState { read, terms, oldest, newest, hidden };
            advance_index(&step, &home, kept, cut, &|passage| is_older_than(passage, oldest_at))?
        }
    };
    Ok(step.begin_anew(done))
}

/// Forget what was copied of a session, of all its lives, whether it is still there or not.
pub(crate) fn reset_copies(context: &Context<impl Host>, session: BucketId<'_>, user: &str) -> StepResult {
    let posted = store::read_entry_text(&context.host, registry::user_bucket(user), COPY_STATES, session.name)?;
    let entry = [expect_entry(COPY_STATES, session.name, posted.as_deref())];
    // Which revision copies have to be of stays known: a correction may be under way.
    let anew = posted.as_deref().and_then(CopyState::parse).and_then(|posted| match posted {
        CopyState::Of { life, revision, .. } => Some(CopyState::not_copied(&life, revision).write()),
        CopyState::Gone { .. } => None,
    });
    let anew = anew.as_deref().map(|text| PutEntry { key: session.name, text });
    let last = anew.as_ref().map(|entry| Operation::put(COPY_STATES, from_ref(entry)));
    let copies = SessionCopies { user, session: session.name, life: None, positions: None };
    Ok(Progress::of(match copies.remove_batch(&context.host, &entry, &[RAISE_REVISION], last)? {
        RemovalResult::Complete => Step::Done,
        RemovalResult::Partial | RemovalResult::Unmet => Step::Again,
        RemovalResult::NoBucket => Step::Ended,
    }))
}

/// Removes all copies of a session's life, to be made again: it was changed without them, or has ended.
fn withdraw_copies(
    context: &Context<impl Host>,
    user: &str,
    unchanged: &[Expectation<'_>],
    session: &str,
    life: &str,
    anew: &CopyState,
) -> Result<Step, Box<Problem>> {
    let anew = [PutEntry { key: session, text: &anew.write() }];
    let last = Operation::put(COPY_STATES, &anew);
    let copies = SessionCopies { user, session, life: Some(life), positions: None };
    copies.remove_batch(&context.host, unchanged, &[RAISE_REVISION], Some(last))?;
    Ok(Step::Again)
}

/// A correction is under way, or was abandoned: it begins again, or never.
fn raise_revision(step: &TaskStep<'_, impl Host>, by: u64) -> Result<Step, Box<Problem>> {
    let amount = i64::try_from(by).unwrap_or(i64::MAX);
    let raise = [Operation::add(SESSION, REVISION, amount)];
    step.write(&[expect_session_entry(REVISION, step.basis.revision.as_deref())], &raise)?;
    Ok(Step::Again)
}

impl UserCopyState {
    fn of(outcomes: &mut Outcomes) -> Result<Self, Box<Problem>> {
        let mut once = outcomes.take_entries_by_key()?;
        Ok(Self { forgotten: once.take(FORGOTTEN), revision: once.take(REVISION), posted: outcomes.take_text()? })
    }

    /// Nothing was corrected or forgotten, and no other task has copied any of this session.
    fn unchanged<'a>(&'a self, session: &'a str) -> [Expectation<'a>; 3] {
        [
            registry::expect_not_forgotten(self.forgotten.as_deref()),
            expect_entry(USER, REVISION, self.revision.as_deref()),
            expect_entry(COPY_STATES, session, self.posted.as_deref()),
        ]
    }
}

/// A session that has ended by now, its life, and the revision of its copies, if there is one; not this one.
fn ended(posted: &[Entry], but: &str, now: u64) -> Option<(String, String, u64)> {
    posted.iter().filter(|entry| entry.key != but).find_map(|entry| match CopyState::parse(&entry.text)? {
        CopyState::Of { life, until, revision, .. } if (1..=now).contains(&until) => {
            Some((entry.key.clone(), life, revision))
        }
        _ => None,
    })
}
