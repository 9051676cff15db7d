//! Chooses the shapes of transactions that have a script of their own.
//!
//! Their number is limited, at a time and in a store's life, because Redis keeps each. While there is room, every new shape gets
//! one. After that, a shape takes the place of another once it has been asked for often, and more often of late: a component that
//! asks for ever new shapes does not displace those in use for long.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};

use super::encode::RequestPart;
use crate::redis::scripts::LuaScript;

/// How many scripts a store makes for each place that it has for one.
const SCRIPTS_A_PLACE: usize = 16;
/// How often a shape is asked for before it can take the place of another.
const OFTEN: u64 = 16;
/// After so many requests of shapes without a script, and after so many different ones, what was asked for before
/// counts half.
const PERIOD: u64 = 4096;
const MOST_WAITING: usize = 512;

type Shape = Vec<RequestPart<'static>>;

pub(crate) struct ScriptCache {
    most: usize,
    placed: RwLock<HashMap<Shape, CachedScript>>,
    waiting: Mutex<Waiting>,
    hasher: RandomState,
}

struct CachedScript {
    script: Arc<LuaScript>,
    /// Of late.
    uses: AtomicU64,
}

/// ScriptCache without a script.
#[derive(Default)]
struct Waiting {
    /// Of all, in this period.
    requests: u64,
    /// By the shape's hash: two that share one count as one.
    of_each: HashMap<u64, u64>,
    /// Scripts made so far.
    made: usize,
}

impl ScriptCache {
    pub(crate) fn new(most: usize) -> Self {
        let hasher = RandomState::new();
        Self { most, placed: RwLock::default(), waiting: Mutex::default(), hasher }
    }

    /// The shape's script, if it has one or gets one now.
    pub(crate) fn script_for(&self, shape: Shape, make: impl FnOnce(&Shape) -> LuaScript) -> Option<Arc<LuaScript>> {
        if let Some(placed) = self.placed.read().get(&shape) {
            placed.uses.fetch_add(1, Ordering::Relaxed);
            return Some(placed.script.clone());
        }
        // Held until it has its script, so that it gets but one.
        let mut waiting = self.waiting.lock();
        if let Some(placed) = self.placed.read().get(&shape) {
            return Some(placed.script.clone());
        }
        if waiting.made >= self.most.saturating_mul(SCRIPTS_A_PLACE) {
            return None;
        }
        let (uses, rarest) = if self.placed.read().len() < self.most {
            (1, None)
        } else {
            let uses = self.count_waiting_use(&mut waiting, &shape)?;
            (uses, Some(self.rarer_than(uses)?))
        };
        let script = Arc::new(make(&shape));
        let mut placed = self.placed.write();
        rarest.and_then(|rarest| placed.remove(&rarest));
        waiting.made += 1;
        placed.insert(shape, CachedScript { script: script.clone(), uses: AtomicU64::new(uses) });
        Some(script)
    }

    /// The shape that was asked for least of late, if that is less often.
    fn rarer_than(&self, uses: u64) -> Option<Shape> {
        let placed = self.placed.read();
        let all = placed.iter().map(|(shape, placed)| (placed.uses.load(Ordering::Relaxed), shape));
        let (rarest, shape) = all.min_by_key(|(uses, _)| *uses)?;
        (rarest < uses).then(|| shape.clone())
    }

    /// How often the shape was asked for of late, if that is often.
    fn count_waiting_use(&self, waiting: &mut Waiting, shape: &Shape) -> Option<u64> {
        waiting.requests += 1;
        if waiting.requests > PERIOD || waiting.of_each.len() >= MOST_WAITING {
            waiting.requests = 0;
            for placed in self.placed.read().values() {
                placed.uses.store(placed.uses.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
            }
            waiting.of_each.retain(|_, uses| {
                *uses /= 2;
                *uses > 0
            });
        }
        let uses = waiting.of_each.entry(self.hasher.hash_one(shape)).or_default();
        *uses += 1;
        // Not at each request: to look for a place costs more than to count.
        (*uses >= OFTEN && uses.is_power_of_two()).then_some(*uses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(shapes: &ScriptCache, number: u64) -> bool {
        shapes.script_for(vec![RequestPart::Fixed(number)], |_| LuaScript::new("return 1")).is_some()
    }

    #[test]
    fn the_number_of_shapes_with_a_script_is_bounded() {
        let shapes = ScriptCache::new(2);
        assert!(asked(&shapes, 1) && asked(&shapes, 2));
        assert!(!asked(&shapes, 3));
        assert!(asked(&shapes, 1) && asked(&shapes, 2));
        assert!(!asked(&ScriptCache::new(0), 1));
    }

    #[test]
    fn a_shape_in_use_replaces_one_that_was_requested_once() {
        let shapes = ScriptCache::new(4);
        for junk in 0..4 {
            asked(&shapes, junk);
        }
        let first = (1..=OFTEN).find(|_| asked(&shapes, 100));
        assert_eq!(first, Some(OFTEN));
        assert!((0..1000).all(|_| asked(&shapes, 100)));
    }

    #[test]
    fn a_stream_of_new_shapes_does_not_displace_those_in_use() {
        let shapes = ScriptCache::new(4);
        let mut junk = 1000..;
        let mut ask_for_junk = |times| (&mut junk).take(times).for_each(|junk| _ = asked(&shapes, junk));
        ask_for_junk(1000);
        let mut answered = 0;
        for _ in 0..1000 {
            ask_for_junk(10);
            for shape in 0..3 {
                answered += u32::from(asked(&shapes, shape));
            }
        }
        assert!(answered > 2500, "{answered} of 3000");
        ask_for_junk(100_000);
        assert!((0..3).all(|shape| asked(&shapes, shape)), "nor do they drive it out");
    }

    #[test]
    fn the_number_of_scripts_given_to_redis_is_bounded() {
        let shapes = ScriptCache::new(2);
        let made = AtomicU64::new(0);
        for number in 0..1000 {
            for _ in 0..2 * OFTEN {
                let make = |_: &Shape| {
                    made.fetch_add(1, Ordering::Relaxed);
                    LuaScript::new("return 1")
                };
                shapes.script_for(vec![RequestPart::Fixed(number)], make);
            }
        }
        assert!(made.into_inner() <= 2 * SCRIPTS_A_PLACE as u64);
    }
}
