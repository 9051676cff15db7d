//! Looks for damage in the buckets of a Redis or a Redis Cluster, and repairs what can be repaired without a guess.
//!
//! Both go on beside running writers: a bucket is looked at by a script, and what that finds is mended in the same step.
//! Neither holds Redis up for long: keys are found by `SCAN`, a thousand at a time, and a script looks at no more of them
//! than that, or mends no more than a bucket may have.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
};

use futures::{StreamExt, TryStreamExt, stream};
use redis::{Cmd, Value};

use super::{
    RedisStore,
    decode::{self, ReplyReader, ScriptReply},
    scan::KeyScan,
    servers::permissions::CommandNeeds,
    write_bucket_keys,
};
use crate::{
    BucketId, Deadline, Failure, Status,
    names::{is_key, is_reserved},
};

/// Buckets that are looked at side by side.
const AT_ONCE: usize = 16;
/// Names that the description of a problem lists.
const MOST_SHOWN: usize = 5;
/// What `inspect.lua` finds, and the same in words.
const PROBLEMS: [(&str, &str); 14] = [
    ("wrong type", "has the wrong type"),
    ("no metadata", "belongs to a bucket whose metadata are missing"),
    ("no created_at", "has no created_at"),
    ("wrong ttl_seconds", "has a ttl_seconds that is neither a number nor None"),
    ("wrong sliding_ms", "has a sliding_ms that is not a number"),
    ("wrong position", "is a log whose first position, in the metadata, is not a number"),
    ("wrong counts", "is an index whose counts, in the metadata, are not three numbers"),
    ("never expires", "never expires, but its bucket does"),
    ("expires", "expires, but its bucket does not"),
    ("not listed", "does not list the bucket"),
    ("no part", "is in no way part of the bucket: the metadata do not name it"),
    (LACKS, "does not name existing values"),
    ("invents", "names values that do not exist"),
    ("no key", "names what can't be a key"),
];
const LACKS: &str = "lacks";

/// Something in a bucket that the store can't have written like that: another program did, or Redis evicted a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketDamage {
    /// The bucket.
    pub bucket: BucketId,
    /// The damaged key of Redis.
    pub key: String,
    /// What is wrong with it, in words that continue its name.
    pub problem: &'static str,
    /// The keys of values that the problem is about; empty for most problems.
    pub names: Vec<String>,
}

/// The result of [`RedisStore::check_buckets`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedBuckets {
    /// How many buckets of all kinds there are.
    pub buckets: u64,
    /// All that is damaged, in the order of the buckets.
    pub damage: Vec<BucketDamage>,
}

/// The result of [`RedisStore::repair_buckets`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairedBuckets {
    /// Damage that is gone now.
    pub mended: Vec<BucketDamage>,
    /// Damage that only the deletion of the bucket, or of the named key, ends.
    pub left: Vec<BucketDamage>,
}

impl fmt::Display for BucketDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {} {}", self.bucket.kind, self.bucket.name, self.key, self.problem)?;
        if !self.names.is_empty() {
            let shown = self.names.iter().take(MOST_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
            write!(f, ": {shown}")?;
        }
        match self.names.len().checked_sub(MOST_SHOWN) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, " and {more} more"),
        }
    }
}

/// One of the problems of a bucket, as the script tells it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// The key's name behind those of the prefix and the bucket.
    name: String,
    problem: &'static str,
    is_mended: bool,
    /// The name in the set of keys that it is about, or nothing.
    about: String,
}

impl RedisStore {
    /// Looks for damage in all buckets of all kinds, listed or not, and changes nothing.
    ///
    /// Cost: one `SCAN` of the database, whatever its keys belong to, and for each thousand of its keys a script for each
    /// bucket among them. The user must be allowed `SCAN`, as for [`scan_buckets`](Self::scan_buckets). In a cluster no
    /// slots may move meanwhile.
    ///
    /// # Errors
    /// When a server fails, or denies `SCAN` to the user.
    pub async fn check_buckets(&self) -> Result<CheckedBuckets, Failure> {
        let (buckets, found) = self.inspect_all().await?;
        let mut damage = Vec::new();
        for (bucket, findings) in found {
            damage.extend(self.described(&bucket, findings));
        }
        Ok(CheckedBuckets { buckets, damage })
    }

    /// Looks for damage as [`check_buckets`](Self::check_buckets) does, and then repairs what can be repaired without a
    /// guess, one bucket at a time, all of a bucket in one atomic step:
    ///
    /// - the set of keys is made to name the values that exist, and no others;
    /// - expiries that differ from the bucket's, by being there or not, become the bucket's;
    /// - a bucket that its list has lost is listed again;
    /// - writers' numbers of a wrong type are removed, as the deletion of the bucket would do;
    /// - logs, maps and indexes that the bucket's metadata do not name, which nothing reads, are removed.
    ///
    /// # Errors
    /// As [`check_buckets`](Self::check_buckets). What was mended before stays mended.
    pub async fn repair_buckets(&self) -> Result<RepairedBuckets, Failure> {
        let (_, found) = self.inspect_all().await?;
        let mut repaired = RepairedBuckets::default();
        for (bucket, findings) in found {
            let names = findings.iter().map(|found| if found.about.is_empty() { &found.name } else { &found.about });
            let names: BTreeSet<String> = names.filter(|name| is_inspected(name)).cloned().collect();
            let (_, again) = self.inspect(&bucket, true, true, names.into_iter().collect()).await?;
            let (mended, left): (BTreeSet<_>, _) = again.into_iter().partition(|finding| finding.is_mended);
            repaired.mended.extend(self.described(&bucket, mended));
            repaired.left.extend(self.described(&bucket, left));
        }
        Ok(repaired)
    }

    /// How many buckets there are, and what is wrong with those that are damaged.
    async fn inspect_all(&self) -> Result<(u64, BTreeMap<BucketId, BTreeSet<Finding>>), Failure> {
        let (mut known, mut damaged) = (HashMap::new(), BTreeMap::<_, BTreeSet<_>>::new());
        for node in self.requester.list_slot_owners().await? {
            let mut scan = KeyScan::new(self.layout.pattern());
            while let Some(keys) = scan.next(&self.requester, &node).await? {
                let mut buckets = BTreeMap::<_, Vec<String>>::new();
                for (bucket, name) in keys.iter().filter_map(|key| self.layout.locate_key(key)) {
                    if is_inspected(name) {
                        buckets.entry(bucket).or_default().push(name.to_owned());
                    }
                }
                let looks = buckets.into_iter().map(|(bucket, names)| {
                    let is_new = !known.contains_key(&bucket);
                    async move {
                        let (exists, found) = self.inspect(&bucket, is_new, false, names).await?;
                        Ok::<_, Failure>((bucket, exists, found))
                    }
                });
                let looks: Vec<_> =
                    stream::iter(looks.collect::<Vec<_>>()).buffer_unordered(AT_ONCE).try_collect().await?;
                for (bucket, exists, found) in looks {
                    if !found.is_empty() {
                        damaged.entry(bucket.clone()).or_default().extend(found);
                    }
                    known.insert(bucket, exists);
                }
            }
        }
        Ok((known.into_values().filter(|exists| *exists).count() as u64, damaged))
    }

    /// Looks at the keys of these names, and at the rest of the bucket's bookkeeping if it is to be looked at `whole`.
    /// Returns whether the bucket exists, and what is wrong there.
    async fn inspect(
        &self,
        bucket: &BucketId,
        whole: bool,
        mends: bool,
        mut names: Vec<String>,
    ) -> Result<(bool, BTreeSet<Finding>), Failure> {
        let at = self.layout.bucket_keys(bucket);
        let (mut exists, mut findings) = (false, BTreeSet::new());
        let mut scope = if whole { "all" } else { "names" };
        // Where the set of keys is read on.
        let mut position = if whole { "0".to_owned() } else { String::new() };
        loop {
            let arguments = |command: &mut Cmd, deadline: u64| {
                write_bucket_keys(command, &at);
                command.arg(deadline).arg(if mends { "mend" } else { "look" }).arg(scope).arg(&position).arg(&names);
            };
            let read = |reply: Value| {
                decode::answer(reply, |status, _, reply| match status {
                    Status::Applied if mends => read_findings(reply).map(ScriptReply::Written),
                    Status::Applied => read_findings(reply).map(ScriptReply::Answer),
                    _ => Err(decode::unexpected_reply()),
                })
            };
            let needs = if mends { CommandNeeds::Transferring } else { CommandNeeds::Reading };
            let script = (&self.scripts.inspect, needs);
            let (there, next, found) =
                self.requester.run_script(&at.registry, script, arguments, read, Deadline::NEVER).await?;
            exists |= there;
            findings.extend(found);
            if next == "0" {
                return Ok((exists, findings));
            }
            (scope, position) = ("names", next);
            names.clear();
        }
    }

    /// One description for each key and problem.
    fn described(&self, bucket: &BucketId, findings: BTreeSet<Finding>) -> Vec<BucketDamage> {
        let at = self.layout.bucket_keys(bucket);
        let no_set =
            findings.iter().any(|found| found.name == "__keys__" && found.problem == problem_in_words("wrong type"));
        let mut all: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for Finding { name, problem, about, .. } in findings {
            // A key that is not a set names nothing, and was reported before.
            if !(no_set && problem == problem_in_words(LACKS)) {
                let key = if name == "__sessions__" { at.registry.key.clone() } else { [&*at.base, &name].concat() };
                all.entry((key, problem)).or_default().extend(Some(about).filter(|about| !about.is_empty()));
            }
        }
        let described = all.into_iter();
        described.map(|((key, problem), names)| BucketDamage { bucket: bucket.clone(), key, problem, names }).collect()
    }
}

/// Whether a key of this name is one of a bucket's. Others can be another program's, or another prefix's.
fn is_inspected(name: &str) -> bool {
    let is_part = || ["__log.", "__map.", "__index."].iter().any(|form| name.starts_with(form)) && is_reserved(name);
    is_key(name) || matches!(name, "__meta__" | "__keys__" | "__history__" | "__writers__") || is_part()
}

/// Whether the bucket exists, where its set of keys is read on, and what is wrong.
fn read_findings(mut reply: ReplyReader) -> Result<(bool, String, Vec<Finding>), Failure> {
    let (exists, next) = (reply.integer()? == 1, reply.text()?);
    let rest = Value::Array(reply.into_remaining().collect());
    let findings: Vec<(Vec<u8>, String, bool, Vec<u8>)> =
        redis::from_redis_value(rest).map_err(|_| decode::unexpected_reply())?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let findings = findings.into_iter().map(|(name, problem, is_mended, about)| Finding {
        name: text(name),
        problem: problem_in_words(&problem),
        is_mended,
        about: text(about),
    });
    Ok((exists, next, findings.collect()))
}

fn problem_in_words(problem: &str) -> &'static str {
    let known = PROBLEMS.into_iter().find(|(name, _)| *name == problem);
    known.map_or("has an unknown problem", |(_, words)| words)
}
