//! Counts how much of the conversations that questions get begins as it did at the question before.
//!
//! Providers charge less for the beginning of a prompt that they have seen, and answer sooner. Of each session's latest question
//! only hashes of the blocks of its messages are kept, of at most [`KEPT`] sessions twice.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
    mem,
};

use parking_lot::Mutex;

/// Bytes that a hash stands for: what differs within them counts as changed whole.
const BLOCK: usize = 256;
/// So many sessions, those used last, and those before them.
const KEPT: usize = 512;

/// Bytes of messages that questions got, of each session from its second question on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptCounters {
    /// All of them.
    pub bytes: u64,
    /// Those at the beginning that the session's question before had got, too.
    pub stable_bytes: u64,
}

/// The conversations that a tenant's questions get.
#[derive(Debug, Default)]
pub struct PromptPrefixes {
    hasher: RandomState,
    known: Mutex<KnownPrefixes>,
}

#[derive(Debug, Default)]
struct KnownPrefixes {
    newer: HashMap<u64, Vec<u64>>,
    older: HashMap<u64, Vec<u64>>,
    counted: PromptCounters,
}

impl PromptPrefixes {
    /// A question of `conversation` got these messages, as JSON.
    pub fn count(&self, conversation: impl Hash, messages: &str) {
        let blocks: Vec<u64> = messages.as_bytes().chunks(BLOCK).map(|block| self.hasher.hash_one(block)).collect();
        let key = self.hasher.hash_one(conversation);
        let mut known = self.known.lock();
        let before = known.newer.remove(&key).or_else(|| known.older.remove(&key));
        if let Some(before) = before {
            let same = blocks.iter().zip(&before).take_while(|(now, before)| now == before).count();
            known.counted.bytes += as_u64(messages.len());
            known.counted.stable_bytes += as_u64((same * BLOCK).min(messages.len()));
        }
        if known.newer.len() == KEPT {
            known.older = mem::take(&mut known.newer);
        }
        known.newer.insert(key, blocks);
    }

    /// What was counted so far.
    pub fn counted(&self) -> PromptCounters {
        self.known.lock().counted
    }
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_that_stays_is_counted_for_each_conversation() {
        let prompts = PromptPrefixes::default();
        let (first, second) = ("a".repeat(4 * BLOCK), "b".repeat(2 * BLOCK));
        prompts.count("one", &first);
        // The first question of a conversation has nothing to be like.
        prompts.count("other", &second);
        assert_eq!(prompts.counted(), PromptCounters::default());
        prompts.count("one", &format!("{first}{second}"));
        assert_eq!(prompts.counted(), PromptCounters { bytes: 6 * 256, stable_bytes: 4 * 256 });
        prompts.count("other", &first);
        assert_eq!(prompts.counted(), PromptCounters { bytes: 10 * 256, stable_bytes: 4 * 256 });
        // The same once more, the last block of which is not full.
        prompts.count("short", "[]");
        prompts.count("short", "[]");
        assert_eq!(prompts.counted(), PromptCounters { bytes: 10 * 256 + 2, stable_bytes: 4 * 256 + 2 });
    }

    #[test]
    fn a_bounded_number_of_conversations_is_known() {
        let prompts = PromptPrefixes::default();
        (0..10_000).for_each(|number| prompts.count(number, "[]"));
        let known = prompts.known.lock();
        assert!(known.newer.len() + known.older.len() <= 2 * KEPT);
    }
}
