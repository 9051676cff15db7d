//! The least that a user of Redis must be allowed for a store to work.

/// Called by the store itself: scripts by name and by text, the clock for each new connection, `PING` for
/// people who set it up. A database other than 0 needs `select` too.
const CALLED: &str = "eval evalsha ping time";

/// Called by the scripts. Redis before 7 has no `pexpiretime`: leave it out there.
const CALLED_BY_SCRIPTS: &str = "del exists get hdel hget hgetall hkeys hlen hmget hset incrby llen lrange lset \
                                 ltrim mget pexpireat pexpiretime pttl rpush sadd scard set sismember smembers \
                                 smismember srandmember srem sscan strlen time";

/// The rules of a user that suffice for a store with this key prefix, as `ACL SETUSER` takes them after the
/// user's name, `on` and a password: no commands but these, no keys but those of the prefix.
///
/// ```
/// let rules = keepline::store::least_acl("rr:memory");
/// assert!(rules.starts_with("resetkeys resetchannels -@all ~rr:memory:* +eval +evalsha "));
/// ```
pub fn least_acl(prefix: &str) -> String {
    let mut rules = format!("resetkeys resetchannels -@all ~{prefix}:*");
    for command in CALLED.split(' ').chain(CALLED_BY_SCRIPTS.split(' ').filter(|command| *command != "time")) {
        rules.push_str(" +");
        rules.push_str(command);
    }
    rules
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_the_scripts_call_is_allowed_and_nothing_else() {
        let scripts = concat!(
            include_str!("transact.lua"),
            include_str!("operations.lua"),
            include_str!("delete.lua"),
            include_str!("describe.lua"),
            include_str!("list.lua")
        );
        let mut called = BTreeSet::new();
        for call in ["call('", "try('"] {
            called.extend(scripts.split(call).skip(1).map(|rest| rest.split('\'').next().unwrap().to_lowercase()));
        }
        assert_eq!(called, CALLED_BY_SCRIPTS.split(' ').map(str::to_owned).collect());
    }
}
