//! Which node a thread runs on: state of the session, not of the host's scheduler.
//!
//! The kernel moves sleeping threads between CPUs hundreds of times per second, so a thread's present CPU means
//! nothing. A thread is placed at its first use, on the node with the fewest threads among those its affinity allows.
//! It is moved only when its affinity changes.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::state::{CPU_WORDS, EmulatedThread, EmulationState, MAX_EMULATED_NODES, Slot};
use super::{clock, id_bitmap};

/// How often a thread's affinity is read, host ns.
const RECHECK_NS: u64 = 4_000_000;
/// A process that takes longer than this to place a thread has died during it, host ns.
const ABANDONED_NS: u64 = 20_000_000;

impl EmulationState {
    /// The emulated node of the calling thread, which owns the slot `thread`. 0 when nothing is emulated.
    #[inline]
    pub fn node_of_thread(&self, thread: &EmulatedThread) -> usize {
        if !self.is_configured() {
            return 0;
        }
        let allowed = || allowed_nodes(self, &affinity());
        self.node_of_thread_at(thread, clock::coarse_now_ns(), allowed)
    }

    /// The emulated node of the calling thread at a given time; `allowed` is called only when the affinity may have
    /// changed.
    #[inline]
    pub(super) fn node_of_thread_at(
        &self,
        thread: &EmulatedThread,
        now_ns: u64,
        allowed: impl FnOnce() -> u32,
    ) -> usize {
        let placed = thread.home.load(Relaxed);
        if placed != 0 && now_ns.saturating_sub(thread.placed_ns.load(Relaxed)) < RECHECK_NS {
            return placed as usize - 1;
        }
        self.place(thread, now_ns, allowed())
    }

    /// Places the calling thread on a node permanently, whatever its affinity.
    pub fn pin_thread(&self, thread: &EmulatedThread, node: usize) {
        if !self.is_configured() || node >= self.node_count() {
            return;
        }
        self.claim_slot(thread);
        let _only = Placing::begin(self);
        thread.home.store(node as u32 + 1, Relaxed);
        if let Some(slot) = self.own_slot(thread) {
            slot.home.store(node as u32 + 1, Relaxed);
        }
        // Never checked again.
        thread.placed_ns.store(u64::MAX, Relaxed);
    }

    /// The node that a thread was placed on; may be called by other threads.
    pub fn placed_node(&self, thread: &EmulatedThread) -> Option<usize> {
        (thread.home.load(Relaxed) as usize).checked_sub(1)
    }

    /// Gives back what a thread occupies and resets its slot. Called by the thread when it ends, or by any process
    /// when the thread's process is dead.
    pub fn release_thread(&self, thread: &EmulatedThread) {
        let index = thread.slot.swap(0, Relaxed) as usize;
        if let Some(slot) = self.slots.get(index.wrapping_sub(1)) {
            slot.until_ns.store(0, Relaxed);
            slot.from_ns.store(0, Relaxed);
            slot.home.store(0, Relaxed);
            id_bitmap::give_back(&self.used_slots, index as u32);
        }
        thread.home.store(0, Relaxed);
        for field in [
            &thread.epoch,
            &thread.ended_ns,
            &thread.woke_ns,
            &thread.woke_cpu_ns,
            &thread.woke_host_ns,
            &thread.entered_ns,
            &thread.entered_cpu_ns,
            &thread.placed_ns,
            &thread.switches,
            &thread.own_switches,
            &thread.busy_ns,
            &thread.computed_ns,
            &thread.queued_ns,
            &thread.accesses,
            &thread.cached_bytes,
            &thread.last_end,
        ] {
            field.store(0, Relaxed);
        }
        thread.precise_thread.store(0, Relaxed);
        thread.forget_cached();
    }

    /// Keeps the thread on its node if that is allowed, else chooses another node.
    #[cold]
    pub(super) fn place(&self, thread: &EmulatedThread, now_ns: u64, allowed: u32) -> usize {
        thread.placed_ns.store(now_ns, Relaxed);
        self.claim_slot(thread);
        let present = thread.home.load(Relaxed);
        if present != 0 && (allowed == 0 || allowed & (1 << (present - 1)) != 0) {
            return present as usize - 1;
        }
        let _only = Placing::begin(self);
        let node = self.emptiest(if allowed == 0 { u32::MAX } else { allowed });
        thread.home.store(node as u32 + 1, Relaxed);
        if let Some(slot) = self.own_slot(thread) {
            slot.home.store(node as u32 + 1, Relaxed);
        }
        node
    }

    /// The allowed node with the fewest threads.
    fn emptiest(&self, allowed: u32) -> usize {
        let mut threads = [0u32; MAX_EMULATED_NODES];
        let highest = (self.highest_slot.load(Relaxed) as usize).min(self.slots.len());
        for slot in &self.slots[..highest] {
            let home = slot.home.load(Relaxed) as usize;
            if let Some(count) = threads.get_mut(home.wrapping_sub(1)) {
                *count += 1;
            }
        }
        let nodes = (0..self.node_count())
            .filter(|node| allowed & (1 << node) != 0 && self.nodes()[*node].has_cores());
        nodes.min_by_key(|&node| threads[node]).unwrap_or(0)
    }

    fn own_slot(&self, thread: &EmulatedThread) -> Option<&Slot> {
        self.slots
            .get((thread.slot.load(Relaxed) as usize).wrapping_sub(1))
    }

    /// Its own slot while there are free ones; a thread without a slot is not counted.
    fn claim_slot(&self, thread: &EmulatedThread) {
        if thread.slot.load(Relaxed) != 0 {
            return;
        }
        if let Some(number) = id_bitmap::take(&self.used_slots) {
            thread.slot.store(number, Relaxed);
            self.highest_slot.fetch_max(number, Relaxed);
        }
    }
}

/// A lock: one thread is placed at a time, so that threads that start together are spread. It expires by itself,
/// because its holder may be killed.
struct Placing<'a> {
    state: &'a EmulationState,
    since_ns: u64,
}

impl Placing<'_> {
    fn begin(state: &EmulationState) -> Placing<'_> {
        loop {
            let since_ns = clock::now_ns().max(1);
            let holder = state.placing_since_ns.load(Relaxed);
            let is_free = holder == 0 || since_ns.saturating_sub(holder) > ABANDONED_NS;
            let word = &state.placing_since_ns;
            if is_free
                && word
                    .compare_exchange(holder, since_ns, Acquire, Relaxed)
                    .is_ok()
            {
                return Placing { state, since_ns };
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Placing<'_> {
    fn drop(&mut self) {
        let word = &self.state.placing_since_ns;
        let _ = word.compare_exchange(self.since_ns, 0, Release, Relaxed);
    }
}

/// The CPUs the calling thread may use; all when the kernel does not say.
fn affinity() -> [u64; CPU_WORDS] {
    let mut mask = [0u64; CPU_WORDS];
    // SAFETY: the kernel fills at most the given bytes.
    let answer =
        unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) };
    if answer == 0 {
        mask
    } else {
        [u64::MAX; CPU_WORDS]
    }
}

/// A bit for each node that has a CPU in the mask.
pub(super) fn allowed_nodes(state: &EmulationState, mask: &[u64; CPU_WORDS]) -> u32 {
    let mut allowed = 0;
    for (index, node) in state.nodes().iter().enumerate() {
        let shared = node
            .cpus
            .iter()
            .zip(mask)
            .any(|(own, given)| own.load(Relaxed) & given != 0);
        allowed |= u32::from(shared) << index;
    }
    allowed
}
