//! Finds out whether servers may evict keys: a bucket is several keys, and each can be evicted by itself.

use redis::Value;

use super::{decode, servers::request::Requester};

impl Requester {
    /// What operators should know of the servers' settings: nothing where `INFO` is denied or no server answers.
    pub(super) async fn eviction_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for node in self.list_slot_owners().await.unwrap_or_default() {
            let mut info = redis::cmd("INFO");
            info.arg("memory");
            let Ok(reply) = self.send_until_answered(&node, &info).await else { continue };
            let text = match reply {
                Value::VerbatimString { text, .. } => text,
                reply => decode::value_to_text(reply).unwrap_or_default(),
            };
            if let Some(policy) = evicting_policy(&text) {
                warnings.push(format!(
                    "Redis at {} evicts keys when its memory is full (maxmemory-policy {policy}): it can take values, \
                     histories and whole sessions without an error; set maxmemory-policy to noeviction",
                    node.address
                ));
            }
        }
        warnings
    }
}

/// The policy, if it lets keys be evicted that have not expired. It also counts where there is no limit yet.
fn evicting_policy(info: &str) -> Option<&str> {
    let policy = info.lines().find_map(|line| line.strip_prefix("maxmemory_policy:"))?.trim();
    (!policy.is_empty() && policy != "noeviction").then_some(policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_but_noeviction_is_warned_of() {
        let info = |policy: &str| format!("# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:{policy}\r\nmem_clients:1\r\n");
        assert_eq!(evicting_policy(&info("noeviction")), None);
        for policy in ["allkeys-lru", "allkeys-random", "volatile-ttl", "volatile-lfu"] {
            assert_eq!(evicting_policy(&info(policy)), Some(policy));
        }
        assert_eq!(evicting_policy(""), None);
    }
}
