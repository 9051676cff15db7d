//! Redis behind a store's back: its keys, its clock, and what the store's scripts call.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use keepline_local_redis::RedisServer;
use keepline_stores::RedisOptions;
use parking_lot::Mutex;

/// A connection of one's own to the Redis behind a store, to each master of it, and the prefix of that
/// store's keys.
pub struct RawRedis {
    pub(crate) prefix: String,
    /// As which user and where the store is reached.
    pub options: RedisOptions,
    pub(crate) connections: Vec<Mutex<redis::Connection>>,
    /// It runs for as long as it is looked at.
    pub(crate) server: Option<Arc<RedisServer>>,
}

impl RawRedis {
    /// The full name of a key: what comes after the prefix and its colon is given.
    pub fn address(&self, rest: &str) -> String {
        format!("{}:{rest}", self.prefix)
    }

    /// Watch what the store's scripts call from now on, on a single server.
    pub fn watch(&self) -> Watch<'_> {
        let server = self.server.as_ref().expect("one server");
        let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        connection.send_packed_command(&redis::cmd("MONITOR").get_packed_command()).unwrap();
        connection.recv_response().unwrap();
        Watch { raw: self, connection }
    }

    /// Run a command, in a cluster where its key is.
    pub fn run<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> T {
        let moved = redis::ErrorKind::Server(redis::ServerErrorKind::Moved);
        let mut answers = self.connections.iter().map(|connection| command.query(&mut *connection.lock()));
        answers
            .find(|answer: &Result<T, redis::RedisError>| !answer.as_ref().is_err_and(|e| e.kind() == moved))
            .unwrap()
            .unwrap()
    }

    /// Run a command on every master.
    fn run_on_all<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> Vec<T> {
        self.connections.iter().map(|connection| command.query(&mut *connection.lock()).unwrap()).collect()
    }

    /// Allows the store's user to scan for keys.
    pub fn allow_scan(&self) {
        let user = self.options.username.as_deref().unwrap();
        self.run_on_all::<()>(redis::cmd("ACL").arg("SETUSER").arg(user).arg("+scan"));
    }

    /// Run a command on one key of the store, `rest` being what comes after the prefix.
    pub fn on<T: redis::FromRedisValue>(&self, command: &str, rest: &str, arguments: &[&str]) -> T {
        self.run(redis::cmd(command).arg(self.address(rest)).arg(arguments))
    }

    /// All keys of the store, without the prefix, sorted.
    pub fn keys(&self) -> Vec<String> {
        let all: Vec<Vec<String>> = self.run_on_all(redis::cmd("KEYS").arg(self.address("*")));
        let mut keys: Vec<_> = all.iter().flatten().map(|key| key[self.prefix.len() + 1..].to_owned()).collect();
        keys.sort_unstable();
        keys
    }

    /// When a key expires, in milliseconds since 1970; -1: never; -2: it is not there.
    pub fn expires_at(&self, rest: &str) -> i64 {
        self.on("PEXPIRETIME", rest, &[])
    }

    /// Ends the test unless all keys of a bucket expire when its metadata do.
    pub fn assert_one_expiry(&self) {
        let keys = self.keys();
        for meta in keys.iter().filter(|key| key.ends_with(":__meta__")) {
            let (base, expiry) = (meta.trim_end_matches("__meta__"), self.expires_at(meta));
            for key in keys.iter().filter(|key| key.starts_with(base) && !key.ends_with(":__writers__")) {
                assert_eq!(self.expires_at(key), expiry, "{key} does not expire with its bucket");
            }
        }
    }

    /// The server's clock, in milliseconds since 1970.
    pub fn now(&self) -> i64 {
        let (seconds, micros): (i64, i64) = self.run(&redis::cmd("TIME"));
        seconds * 1000 + micros / 1000
    }

    /// All keys with their types, contents and expiries. Sets and hashes are sorted: in which order Redis
    /// keeps them may change by itself.
    pub fn dump(&self) -> BTreeMap<String, String> {
        let dump = |key: String| {
            let kind: String = self.on("TYPE", &key, &[]);
            let mut parts: Vec<Vec<u8>> = match &*kind {
                "string" => vec![self.on("GET", &key, &[])],
                "list" => self.on("LRANGE", &key, &["0", "-1"]),
                "set" => self.on("SMEMBERS", &key, &[]),
                "zset" => self.on("ZRANGE", &key, &["0", "-1", "WITHSCORES"]),
                "hash" => {
                    let fields: Vec<(Vec<u8>, Vec<u8>)> = self.on("HGETALL", &key, &[]);
                    fields.into_iter().map(|(field, value)| [field, value].join(&b'=')).collect()
                }
                _ => vec![],
            };
            if kind != "list" {
                parts.sort_unstable();
            }
            let parts: Vec<_> = parts.iter().map(|part| part.escape_ascii().to_string()).collect();
            let text = format!("{kind}, expires at {}: {parts:?}", self.expires_at(&key));
            (key, text)
        };
        self.keys().into_iter().map(dump).collect()
    }

    /// Lower every instant that the store has noted, so that its state is as if time had passed.
    pub(crate) fn pass_time(&self, time: Duration) {
        const PASS: &str = r"
            for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
                -- The writers' numbers, with the time of each and the expiry of all.
                if string.find(key, ':__writers__$') and redis.call('TYPE', key).ok == 'hash' then
                    local fields = redis.call('HGETALL', key)
                    for i = 1, #fields, 2 do
                        local sequence, at = string.match(fields[i + 1], '^(%d+[.:])(%d+)$')
                        local earlier = string.format('%.0f', (at or fields[i + 1]) - ARGV[2])
                        redis.call('HSET', key, fields[i], (sequence or '') .. earlier)
                    end
                end
                -- Leases: until when, and whose.
                if string.find(key, ':__meta__$') and redis.call('TYPE', key).ok == 'hash' then
                    local fields = redis.call('HGETALL', key)
                    for i = 1, #fields, 2 do
                        local at, holder = string.match(fields[i + 1], '^(%d+)( .*)$')
                        if at and string.find(fields[i], '^lease:') then
                            redis.call('HSET', key, fields[i], string.format('%.0f', at - ARGV[2]) .. holder)
                        end
                    end
                end
                local at = redis.call('PEXPIRETIME', key)
                if at > 0 then redis.call('PEXPIREAT', key, string.format('%.0f', at - ARGV[2])) end
            end";
        let milliseconds = u64::try_from(time.as_millis()).unwrap();
        let mut command = redis::cmd("EVAL");
        command.arg(PASS).arg(0).arg(self.address("*")).arg(milliseconds);
        self.run_on_all::<()>(&command);
    }
}

impl Drop for RawRedis {
    /// Removes what the store has kept. Whoever looks for keys, as checks and [`keys`](Self::keys) do, passes those of all
    /// stores on the server: the tests that come later would pass more and more of them.
    fn drop(&mut self) {
        const REMOVE: &str = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('UNLINK', key) end";
        // A server of which this is the last store ends with it.
        if self.server.as_ref().is_some_and(|server| Arc::strong_count(server) == 1) {
            return;
        }
        for connection in &mut self.connections {
            // It fails where the server is gone, and what it kept with it.
            let _ = redis::cmd("EVAL").arg(REMOVE).arg(0).arg(format!("{}:*", self.prefix)).exec(connection.get_mut());
        }
    }
}

/// Redis telling of every command that it runs.
pub struct Watch<'a> {
    raw: &'a RawRedis,
    connection: redis::Connection,
}

impl Watch<'_> {
    /// What the scripts of this store called so far, each as the command and its arguments.
    pub fn commands(mut self) -> Vec<Vec<String>> {
        // Told in the order in which they were run: this one ends it.
        let end = format!("end-{:016x}", fastrand::u64(..));
        self.raw.run::<String>(redis::cmd("ECHO").arg(&end));
        let mut commands = Vec::new();
        loop {
            let redis::Value::SimpleString(line) = self.connection.recv_response().unwrap() else { panic!("no line") };
            if line.contains(&end) {
                return commands;
            }
            // 1795186917.032595 [0 lua] "LRANGE" "prefix:b:__l__" "0" "7"
            let Some((_, command)) = line.split_once(" lua] ") else { continue };
            if command.contains(&*self.raw.prefix) {
                commands.push(command.trim_matches('"').split("\" \"").map(str::to_owned).collect());
            }
        }
    }
}
