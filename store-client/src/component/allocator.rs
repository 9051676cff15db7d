//! An allocator for what lives no longer than a call.
//!
//! An allocation takes a few instructions: blocks are laid one after the other into a space of fixed size, which is empty again as
//! soon as none is in use, as after each call. What lives longer, the options, is allocated [`outside`](Arena::outside). What does
//! not fit goes to the system's allocator, so an instance never needs more memory than with that alone, but for the space itself.
//! Not thread-safe: a component has one thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;

/// What each type that is not exotic is aligned to at most.
const ALIGN: usize = 16;

/// An allocator with room for so many bytes of its own.
pub struct Arena<const BYTES: usize> {
    space: UnsafeCell<Space<BYTES>>,
    /// Where its free part begins.
    top: Cell<usize>,
    /// How many allocations in it are in use.
    in_use: Cell<usize>,
    /// Whether it is passed over.
    is_closed: Cell<bool>,
}

/// Aligned to [`ALIGN`].
#[repr(align(16))]
struct Space<const BYTES: usize>([MaybeUninit<u8>; BYTES]);

impl<const BYTES: usize> Arena<BYTES> {
    /// With nothing in it.
    #[expect(clippy::new_without_default, reason = "it is a static's")]
    pub const fn new() -> Self {
        let space = Space([const { MaybeUninit::uninit() }; BYTES]);
        Self { space: UnsafeCell::new(space), top: Cell::new(0), in_use: Cell::new(0), is_closed: Cell::new(false) }
    }

    /// Do something whose allocations outlive the call: they are the ordinary allocator's.
    #[cfg_attr(not(target_arch = "wasm32"), allow(dead_code, reason = "its tests have nothing to keep"))]
    pub fn outside<T>(&self, make: impl FnOnce() -> T) -> T {
        self.is_closed.set(true);
        let made = make();
        self.is_closed.set(false);
        made
    }

    fn base(&self) -> *mut u8 {
        self.space.get().cast()
    }

    /// Where in the space an allocation lies; none: it is the ordinary allocator's.
    fn offset(&self, block: *mut u8) -> Option<usize> {
        let offset = block.addr().wrapping_sub(self.base().addr());
        (offset < BYTES).then_some(offset)
    }
}

// SAFETY: an allocation in the space ends at or before `top`, which goes back below its end only when it is given back
// itself, or when nothing is in use. So no two of them overlap, and all lie within the space. (Inlined wherever something
// is allocated, these would make the component a third larger.)
#[allow(unsafe_code, reason = "an allocator")]
unsafe impl<const BYTES: usize> GlobalAlloc for Arena<BYTES> {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let start = (self.top.get() + (layout.align() - 1)) & !(layout.align() - 1);
        if !self.is_closed.get() && layout.align() <= ALIGN && start <= BYTES && layout.size() <= BYTES - start {
            self.top.set(start + layout.size());
            self.in_use.set(self.in_use.get() + 1);
            // SAFETY: `start` is within the space.
            return unsafe { self.base().add(start) };
        }
        // SAFETY: the caller's promises are those that are asked for here.
        unsafe { System.alloc(layout) }
    }

    #[inline(never)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(offset) = self.offset(block) else {
            // SAFETY: what is not in the space was allocated here.
            return unsafe { System.dealloc(block, layout) };
        };
        self.in_use.set(self.in_use.get() - 1);
        if self.in_use.get() == 0 {
            self.top.set(0);
        } else if offset + layout.size() == self.top.get() {
            self.top.set(offset);
        }
    }

    #[inline(never)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(offset) = self.offset(block) else {
            // SAFETY: what is not in the space was allocated here.
            return unsafe { System.realloc(block, layout, size) };
        };
        let is_last = offset + layout.size() == self.top.get();
        if is_last && size <= BYTES - offset {
            self.top.set(offset + size);
            return block;
        }
        if size <= layout.size() {
            return block;
        }
        // SAFETY: the caller promises that this size can be laid out; the new place is another one, and the old one
        // has been filled up to its size.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                std::ptr::copy_nonoverlapping(block, moved, layout.size());
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

// SAFETY: there is but one thread.
#[cfg(target_arch = "wasm32")]
#[allow(unsafe_code, reason = "an allocator")]
unsafe impl<const BYTES: usize> Sync for Arena<BYTES> {}

#[cfg(test)]
#[allow(unsafe_code, clippy::unwrap_used, reason = "an allocator, used by hand")]
mod tests {
    use super::*;

    /// An allocation, filled with a byte of its own.
    struct Block<'a> {
        arena: &'a Arena<1024>,
        place: *mut u8,
        layout: Layout,
        fill: u8,
    }

    impl<'a> Block<'a> {
        fn new(arena: &'a Arena<1024>, size: usize, align: usize, fill: u8) -> Self {
            let layout = Layout::from_size_align(size, align).unwrap();
            let place = unsafe { arena.alloc(layout) };
            assert!(!place.is_null());
            assert_eq!(place.addr() % align, 0);
            unsafe { place.write_bytes(fill, size) };
            Self { arena, place, layout, fill }
        }

        fn resize(&mut self, size: usize) {
            let kept = size.min(self.layout.size());
            self.place = unsafe { self.arena.realloc(self.place, self.layout, size) };
            self.layout = Layout::from_size_align(size, self.layout.align()).unwrap();
            assert!(self.bytes()[..kept].iter().all(|byte| *byte == self.fill));
            unsafe { self.place.write_bytes(self.fill, size) };
        }

        fn bytes(&self) -> &[u8] {
            unsafe { std::slice::from_raw_parts(self.place, self.layout.size()) }
        }

        fn is_inside(&self) -> bool {
            self.arena.offset(self.place).is_some()
        }
    }

    impl Drop for Block<'_> {
        fn drop(&mut self) {
            assert!(self.bytes().iter().all(|byte| *byte == self.fill), "overwritten");
            unsafe { self.arena.dealloc(self.place, self.layout) };
        }
    }

    #[test]
    fn the_space_is_empty_when_nothing_is_in_use() {
        let arena = Arena::new();
        for _ in 0..3 {
            let first = Block::new(&arena, 100, 1, 1);
            let second = Block::new(&arena, 500, 8, 2);
            let third = Block::new(&arena, 400, 16, 3);
            assert!(first.is_inside() && second.is_inside() && third.is_inside());
            drop((second, first, third));
            assert_eq!((arena.top.get(), arena.in_use.get()), (0, 0));
        }
    }

    #[test]
    fn requests_without_room_go_to_the_ordinary_allocator() {
        let arena = Arena::new();
        let all = Block::new(&arena, 1024, 1, 1);
        let one_more = Block::new(&arena, 1, 1, 2);
        assert!(all.is_inside() && !one_more.is_inside());
        drop(all);
        assert!(!Block::new(&arena, 1025, 1, 3).is_inside());
        assert!(!Block::new(&arena, 64, 64, 4).is_inside());
        assert!(Block::new(&arena, 64, 16, 5).is_inside());
    }

    #[test]
    fn the_last_one_grows_and_goes_in_its_place() {
        let arena = Arena::new();
        let kept = Block::new(&arena, 10, 1, 1);
        let mut last = Block::new(&arena, 10, 1, 2);
        let place = last.place;
        last.resize(1000);
        last.resize(20);
        assert_eq!((last.place, arena.top.get()), (place, 30));
        last.resize(2000);
        assert!(!last.is_inside());
        last.resize(30);
        assert!(!last.is_inside());
        assert_eq!(arena.top.get(), 10);
        drop(kept);
    }

    #[test]
    fn allocations_keep_their_contents() {
        let arena = Arena::new();
        let mut state = 1_u32;
        let mut random = |below: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as usize % below
        };
        let mut blocks: Vec<Block<'_>> = Vec::new();
        let (mut inside, mut outside) = (0, 0);
        for step in 0..20_000_usize {
            match random(8) {
                0..3 => blocks.push(Block::new(&arena, 1 + random(120), 1 << random(6), step as u8)),
                3..5 if !blocks.is_empty() => {
                    let index = random(blocks.len());
                    blocks[index].resize(1 + random(300));
                }
                5..8 if !blocks.is_empty() => drop(blocks.swap_remove(random(blocks.len()))),
                _ => {}
            }
            if let Some(block) = blocks.last() {
                *(if block.is_inside() { &mut inside } else { &mut outside }) += 1;
            }
        }
        assert!(inside > 1000 && outside > 1000, "{inside} {outside}");
        drop(blocks);
        assert_eq!((arena.top.get(), arena.in_use.get()), (0, 0));
    }
}
