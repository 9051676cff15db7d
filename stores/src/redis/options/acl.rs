//! The least privileges that a Redis user needs for a store to work.
//!
//! One prefix a tenant, and a user of its own with the rules for it, keeps tenants apart in one Redis: neither
//! reaches the other's keys, whatever it sends. That holds as long as no prefix is another one with a colon
//! and more after it. Redis's patterns can't say "up to the next colon": the rules for `rr:memory` cover all of
//! `rr:memory:b`, and those for `rr:memory:b` cover the session `b` of `rr:memory`. Give tenants names beside
//! each other: `rr:memory:a` and `rr:memory:b`, or `rr:memory-a` and `rr:memory`. (The stores of prefixes
//! inside each other still never meet, since the names of buckets and keys have no colon: that is about whoever
//! uses the tenant's password without this store.)

use crate::redis::{RedisOptions, RedisOptionsError};

/// Called by the store itself: scripts by name and by text, the clock for each new connection, `PING` for
/// people who set it up.
const CALLED: &str = "eval evalsha ping time";

/// Called by the scripts of requests that read. Redis before 7 has no `pexpiretime`: leave it out there.
pub(crate) const READING: &str = "exists get getrange hget hgetall hexists hkeys hlen hmget hscan hstrlen llen lrange mget \
                                  pexpiretime pttl scard smembers smismember sscan strlen time";
/// Called beside those by the scripts of requests that write.
pub(crate) const WRITING: &str = "hdel hincrby hrandfield hset incrby lpush lset ltrim pexpireat rpush sadd set sismember \
                                  srandmember srem unlink";
/// Called beside both by the scripts of transfers.
pub(crate) const TRANSFERRING: &str = "persist rename";

/// Of those, the ones that take more than one key.
pub(crate) const WITH_TWO_KEYS: [&str; 1] = ["rename"];

/// What [`RedisStore::scan_buckets`](crate::redis::RedisStore::scan_buckets) calls, and nothing else.
const SCAN: &str = "+scan";

impl RedisOptions {
    /// Whom these options log in as; none: Redis's default user.
    ///
    /// # Errors
    /// As [`RedisStore::new`](crate::redis::RedisStore::new).
    pub fn acl_user(&self) -> Result<Option<String>, RedisOptionsError> {
        Ok(self.build_clients()?.connection_settings().username().map(str::to_owned))
    }

    /// The rules of a user that suffice for a store with these options, as `ACL SETUSER` takes them after the
    /// user's name, `on` and a password: no commands but these, no keys but those of the prefix. Tenants
    /// of one Redis are kept apart by them unless one's prefix continues another's after a colon.
    ///
    /// ```
    /// # fn main() -> Result<(), keepline_stores::RedisOptionsError> {
    /// let options = keepline_stores::RedisOptions { key_prefix: "anna".into(), ..Default::default() };
    /// assert!(options.least_acl()?.join(" ").starts_with("resetkeys resetchannels -@all ~anna:* +eval +evalsha "));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`RedisStore::new`](crate::redis::RedisStore::new).
    pub fn least_acl(&self) -> Result<Vec<String>, RedisOptionsError> {
        let clients = self.build_clients()?;
        let mut commands: Vec<&str> = CALLED.split(' ').collect();
        let called = [READING, WRITING, TRANSFERRING].into_iter().flat_map(|commands| commands.split(' '));
        let mut called: Vec<_> = called.filter(|command| *command != "time").collect();
        called.sort_unstable();
        commands.append(&mut called);
        // What only some options need.
        if clients.connection_settings().db() != 0 {
            commands.push("select");
        }
        if self.cluster {
            commands.push("cluster|slots");
        }
        if self.wait_replicas > 0 {
            commands.push("wait");
        }
        let mut rules = ["resetkeys", "resetchannels", "-@all"].map(str::to_owned).to_vec();
        rules.push(format!("~{}:*", self.key_prefix));
        rules.extend(commands.into_iter().map(|command| format!("+{command}")));
        Ok(rules)
    }

    /// The same for a store whose buckets are also [scanned for](crate::redis::RedisStore::scan_buckets). It is for as long
    /// as that is done: a user who may scan sees the names of all keys of the database, other tenants' too.
    ///
    /// # Errors
    /// As [`RedisStore::new`](crate::redis::RedisStore::new).
    pub fn least_acl_to_scan(&self) -> Result<Vec<String>, RedisOptionsError> {
        let mut rules = self.least_acl()?;
        rules.push(SCAN.to_owned());
        Ok(rules)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_acl_allows_exactly_the_commands_that_the_scripts_call() {
        let scripts = concat!(
            include_str!("../transact/transact.lua"),
            include_str!("../transact/operations.lua"),
            include_str!("../transact/values.lua"),
            include_str!("../transact/maps.lua"),
            include_str!("../transact/logs.lua"),
            include_str!("../transact/indexes.lua"),
            include_str!("../scripts/shared.lua"),
            include_str!("../scripts/delete.lua"),
            include_str!("../scripts/list.lua"),
            include_str!("../scripts/export.lua"),
            include_str!("../scripts/import.lua"),
            include_str!("../scripts/inspect.lua"),
            include_str!("../scripts/remove.lua")
        );
        let mut called = BTreeSet::new();
        for call in ["call('", "try('"] {
            called.extend(scripts.split(call).skip(1).map(|rest| rest.split('\'').next().unwrap().to_lowercase()));
        }
        let allowed = [READING, WRITING, TRANSFERRING].join(" ");
        assert_eq!(called, allowed.split(' ').map(str::to_owned).collect());
    }

    #[test]
    fn the_acl_allows_select_only_for_a_database_other_than_0() {
        let selects = |options: RedisOptions| options.least_acl().unwrap().contains(&"+select".to_owned());
        assert!(!selects(RedisOptions::default()));
        assert!(selects(RedisOptions { database: 1, ..RedisOptions::default() }));
        assert!(selects(RedisOptions { url: Some("redis://h/1".into()), ..RedisOptions::default() }));
    }

    #[test]
    fn the_acl_allows_cluster_slots_and_wait_only_where_configured() {
        let last = |options: RedisOptions| options.least_acl().unwrap().pop().unwrap();
        assert_eq!(last(RedisOptions { cluster: true, ..RedisOptions::default() }), "+cluster|slots");
        assert_eq!(last(RedisOptions { wait_replicas: 1, ..RedisOptions::default() }), "+wait");
    }

    #[test]
    fn to_scan_is_allowed_on_request_only() {
        let options = RedisOptions::default();
        let mut more = options.least_acl_to_scan().unwrap();
        assert_eq!(more.pop().as_deref(), Some("+scan"));
        assert_eq!(more, options.least_acl().unwrap());
    }

    #[test]
    fn the_acl_user_comes_from_the_url_or_from_the_username_option() {
        let user = |options: RedisOptions| options.acl_user().unwrap();
        assert_eq!(user(RedisOptions::default()), None);
        let named = RedisOptions { username: Some("anna".into()), ..RedisOptions::default() };
        assert_eq!(user(named.clone()).as_deref(), Some("anna"));
        let url = RedisOptions { url: Some("redis://ben:pw@h".into()), ..named };
        assert_eq!(user(url).as_deref(), Some("ben"));
    }

    #[test]
    fn a_prefix_that_would_be_a_pattern_has_no_rules() {
        for prefix in ["", "*", "a b", "a[b", "a\"b", "@user", "a:@user"] {
            let options = RedisOptions { key_prefix: prefix.into(), ..RedisOptions::default() };
            assert_eq!(options.least_acl(), Err(RedisOptionsError::Prefix), "{prefix}");
        }
    }
}
