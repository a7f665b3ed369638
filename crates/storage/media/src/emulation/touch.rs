//! Which bytes of an access are in the caches of the nodes.

use super::AccessKind;
use super::cache::pieces;
use super::state::{EmulatedThread, EmulationState};
use crate::{PoolIndex, PoolOffset};

impl EmulationState {
    /// Notes that the thread reads or writes bytes of a pool that lies on `memory_node`. Called before
    /// [`EmulationState::access`] charges them. Reads that find bytes in the LLC of the thread's node make that access
    /// cheaper and load the rest. Writes bypass caches, and remove the replaced bytes from every node's cache.
    #[inline]
    pub fn touch(
        &self,
        thread: &EmulatedThread,
        memory_node: usize,
        place: (PoolIndex, PoolOffset),
        bytes: u64,
        kind: AccessKind,
    ) {
        if self.is_on() {
            self.touch_on(thread, memory_node, place, bytes, kind);
        }
    }

    #[cold]
    fn touch_on(
        &self,
        thread: &EmulatedThread,
        memory_node: usize,
        place: (PoolIndex, PoolOffset),
        bytes: u64,
        kind: AccessKind,
    ) {
        let (pool, offset) = place;
        let at = |offset: u64| u64::from(pool.0) << 56 ^ offset;
        thread.note_place(at(offset.0), at(offset.0.saturating_add(bytes)));
        match kind {
            AccessKind::Read => {
                let home = self.node_of_thread(thread);
                let Some(cache) = self.caches().get(home) else {
                    return;
                };
                let found: u64 = pieces(place, bytes).map(|piece| cache.read(piece)).sum();
                thread.note_cached(memory_node, found);
            }
            AccessKind::Write => {
                for cache in self.caches().iter().filter(|cache| cache.exists()) {
                    pieces(place, bytes).for_each(|piece| cache.evict(piece));
                }
            }
        }
    }
}
