//! Caches embeddings of questions.
//!
//! Keeps no text: an entry's key is a hash with a secret of this process. Bounded per user or session, in age, and in
//! total; the oldest goes first.

use std::{
    collections::{HashMap, VecDeque, hash_map::RandomState},
    hash::BuildHasher,
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use crate::entry::Vector;

/// Per user, or per session without an owner.
const MAX_OF_OWNER: usize = 1000;
/// Of all, with what is around each.
const MAX_BYTES: usize = 32 << 20;
const ENTRY_OVERHEAD: usize = 256;
const MAX_AGE: Duration = Duration::from_hours(7 * 24);

/// Whose question, and which: 128 bits that can't be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct EmbeddingKey {
    owner: u64,
    text: [u64; 2],
}

#[derive(Default)]
pub(super) struct Cache {
    hashers: [RandomState; 2],
    found: HashMap<EmbeddingKey, (Arc<Vector>, Instant)>,
    /// Of each owner and of all, the oldest first. The second may hold some that are gone.
    of_owner: HashMap<u64, VecDeque<EmbeddingKey>>,
    all: VecDeque<EmbeddingKey>,
    bytes: usize,
}

impl Cache {
    pub(super) fn key(&self, owner: &str, text: &str) -> EmbeddingKey {
        let [one, other] = &self.hashers;
        EmbeddingKey { owner: one.hash_one(owner), text: [one.hash_one((owner, text)), other.hash_one((owner, text))] }
    }

    pub(super) fn get(&self, key: EmbeddingKey, now: Instant) -> Option<Arc<Vector>> {
        let (vector, at) = self.found.get(&key)?;
        (now.saturating_duration_since(*at) < MAX_AGE).then(|| vector.clone())
    }

    pub(super) fn put(&mut self, key: EmbeddingKey, vector: Arc<Vector>, now: Instant) {
        self.remove(key);
        self.bytes += size(&vector);
        self.found.insert(key, (vector, now));
        self.all.push_back(key);
        let mine = self.of_owner.entry(key.owner).or_default();
        mine.push_back(key);
        if let Some(oldest) = mine.front().copied().filter(|_| mine.len() > MAX_OF_OWNER) {
            self.remove(oldest);
        }
        while let Some(oldest) = self.all.front().copied() {
            let is_old = self.found.get(&oldest).is_none_or(|(_, at)| now.saturating_duration_since(*at) >= MAX_AGE);
            if !is_old && self.bytes <= MAX_BYTES {
                break;
            }
            self.all.pop_front();
            self.remove(oldest);
        }
        if self.all.len() > 2 * self.found.len() + MAX_OF_OWNER {
            self.all.retain(|key| self.found.contains_key(key));
        }
    }

    fn remove(&mut self, key: EmbeddingKey) {
        let Some((vector, _)) = self.found.remove(&key) else { return };
        self.bytes -= size(&vector);
        if let Some(mine) = self.of_owner.get_mut(&key.owner) {
            mine.retain(|other| *other != key);
            if mine.is_empty() {
                self.of_owner.remove(&key.owner);
            }
        }
    }
}

fn size(vector: &Vector) -> usize {
    vector.model.len() + vector.data.len() + ENTRY_OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(bytes: usize) -> Arc<Vector> {
        Arc::new(Vector { model: "m".into(), data: "x".repeat(bytes) })
    }

    fn has(cache: &Cache, owner: &str, text: &str) -> bool {
        cache.get(cache.key(owner, text), Instant::now()).is_some()
    }

    fn put(cache: &mut Cache, owner: &str, text: &str, bytes: usize) {
        let key = cache.key(owner, text);
        cache.put(key, vector(bytes), Instant::now());
    }

    #[test]
    fn an_owner_has_at_most_a_thousand_cached_vectors_for_a_week() {
        let mut cache = Cache::default();
        put(&mut cache, "bob", "0", 8);
        for number in 0..5000 {
            put(&mut cache, "anna", &number.to_string(), 8);
        }
        assert!(has(&cache, "anna", "4999") && has(&cache, "anna", "4000") && !has(&cache, "anna", "3999"));
        assert!(has(&cache, "bob", "0") && !has(&cache, "bob", "4999"));
        assert_eq!(cache.found.len(), 1001);
        assert!(cache.all.len() <= 3002, "{}", cache.all.len());
        let later = Instant::now() + MAX_AGE;
        assert!(cache.get(cache.key("anna", "4999"), later).is_none());
        let key = cache.key("carl", "0");
        cache.put(key, vector(8), later);
        assert_eq!((cache.found.len(), cache.all.len(), cache.of_owner.len()), (1, 1, 1));
        assert_eq!(cache.bytes, size(&vector(8)));
    }

    #[test]
    fn the_cache_is_bounded_in_bytes_and_evicts_the_oldest_vector() {
        let mut cache = Cache::default();
        for owner in 0..100 {
            put(&mut cache, &owner.to_string(), "?", 1 << 20);
            put(&mut cache, &owner.to_string(), "?", 1 << 20);
        }
        assert!(cache.bytes <= MAX_BYTES && cache.found.len() == 31, "{} {}", cache.bytes, cache.found.len());
        assert!(has(&cache, "99", "?") && has(&cache, "69", "?") && !has(&cache, "68", "?"));
        assert_eq!(cache.of_owner.len(), 31);
    }
}
