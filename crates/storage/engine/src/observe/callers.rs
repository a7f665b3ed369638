//! Threads that come through a mount: bytes that its requests read and write for each of them.
//!
//! The threads of a mount work for others. While a session is observed, the mount notes for each request the calling
//! thread, as named by the kernel, and the bytes it moved. A caller's slot belongs to the mount's process, which alone
//! writes it. It is valid as long as that process lives, so a killed mount needs no cleanup: its slots are free for
//! others.

use crate::format::MAX_POOLS;
use crate::observe::Callers;
use crate::session::layout::{CALLER_SLOTS, CallerSlot};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of callers that a mount remembers; the caller that was idle longest is replaced.
const MAX_OWN_CALLERS: usize = CALLER_SLOTS / 2;

/// What one thread read and wrote through a mount since the mount first saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerReport {
    /// Its slot, and how often the slot was reassigned: together they identify the counters.
    pub slot: u32,
    /// See `slot`.
    pub generation: u64,
    /// The kernel's thread id, in the pid namespace of the mount.
    pub thread_id: u32,
    /// Inode of the mount's pid namespace.
    pub pid_namespace: u64,
    /// Bytes read from each pool.
    pub read_bytes: [u64; MAX_POOLS],
    pub written_bytes: [u64; MAX_POOLS],
}

/// Bytes per pool, read and written.
type Moved = [[u64; MAX_POOLS]; 2];

impl Callers<'_> {
    /// Bytes that the calling thread has moved so far.
    pub(super) fn own_bytes(self) -> Option<Moved> {
        let counters = &self.volume.me().ok()?.slot.counters;
        let load = |counters: &[AtomicU64; MAX_POOLS]| {
            std::array::from_fn(|pool| counters[pool].load(Ordering::Relaxed))
        };
        Some([load(&counters.read_bytes), load(&counters.written_bytes)])
    }

    pub(super) fn note_caller(self, thread_id: u32, before: &Moved, after: &Moved) {
        if before == after {
            return;
        }
        let Some(index) = self.caller_slot(thread_id) else {
            return;
        };
        let slot = &self.volume.session.callers()[index];
        let counters = [&slot.read_bytes, &slot.written_bytes];
        for (counters, (before, after)) in counters.into_iter().zip(before.iter().zip(after)) {
            for (counter, (before, after)) in counters.iter().zip(before.iter().zip(after)) {
                let moved = after.wrapping_sub(*before);
                if moved > 0 {
                    counter.fetch_add(moved, Ordering::Relaxed);
                }
            }
        }
    }

    /// The slot of a thread; `None` when other mounts have all slots, or there is no memory.
    fn caller_slot(self, thread_id: u32) -> Option<usize> {
        let mut known = self
            .volume
            .callers
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        known.clock += 1;
        let clock = known.clock;
        if let Some((slot, used)) = known.slots.get_mut(&thread_id) {
            *used = clock;
            return Some(*slot);
        }
        let process = self.volume.process_slot().ok()?;
        let index = if known.slots.len() < MAX_OWN_CALLERS {
            self.free_caller_slot(process)?
        } else {
            let oldest = known.slots.iter().min_by_key(|(_, (_, used))| *used);
            let oldest = *oldest?.0;
            known.slots.remove(&oldest)?.0
        };
        self.volume.session.callers()[index].begin(thread_id);
        let high = &self.volume.session.header().caller_high;
        high.fetch_max(index as u64 + 1, Ordering::Release);
        known.slots.insert(thread_id, (index, clock));
        Some(index)
    }

    /// Takes a slot that is free, or owned by a mount that is gone.
    fn free_caller_slot(self, process: usize) -> Option<usize> {
        let own = self.volume.session.processes().get(process)?;
        let start_ticks = own.start_ticks.load(Ordering::Relaxed);
        self.volume.session.callers().iter().position(|slot| {
            if self.volume.session.back(slot).is_err() {
                return false;
            }
            let owner = slot.owner.load(Ordering::Acquire);
            let is_free = owner == 0 || self.caller_owner(slot).is_none();
            let taken = is_free
                && (slot.owner)
                    .compare_exchange(
                        owner,
                        process as u64 + 1,
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    )
                    .is_ok();
            if taken {
                slot.owner_start_ticks.store(start_ticks, Ordering::Release);
            }
            taken
        })
    }

    /// The pid namespace of the mount that a slot belongs to, if the mount is attached.
    fn caller_owner(self, slot: &CallerSlot) -> Option<u64> {
        let owner = slot.owner.load(Ordering::Acquire).checked_sub(1)?;
        let process = self
            .volume
            .session
            .processes()
            .get(usize::try_from(owner).ok()?)?;
        let same = process.pid.load(Ordering::Acquire) != 0
            && process.start_ticks.load(Ordering::Relaxed)
                == slot.owner_start_ticks.load(Ordering::Acquire)
            && process.on_behalf.load(Ordering::Relaxed) != 0;
        same.then(|| process.pid_namespace.load(Ordering::Relaxed))
    }

    pub(super) fn report_caller(self, index: usize, slot: &CallerSlot) -> Option<CallerReport> {
        let pid_namespace = self.caller_owner(slot)?;
        let generation = slot.generation.load(Ordering::Acquire);
        let load = |counters: &[AtomicU64; MAX_POOLS]| {
            std::array::from_fn(|pool| counters[pool].load(Ordering::Acquire))
        };
        let report = CallerReport {
            slot: index as u32,
            generation,
            thread_id: slot.thread_id.load(Ordering::Acquire) as u32,
            pid_namespace,
            read_bytes: load(&slot.read_bytes),
            written_bytes: load(&slot.written_bytes),
        };
        // The slot belongs to another thread now: its counters are read at the next call.
        let same = slot.generation.load(Ordering::Acquire) == generation;
        (same && report.thread_id != 0).then_some(report)
    }
}

impl CallerSlot {
    /// Assign the slot to another thread, with all counters at 0. Called by the slot's mount.
    fn begin(&self, thread_id: u32) {
        self.thread_id.store(0, Ordering::Release);
        self.generation.fetch_add(1, Ordering::AcqRel);
        for counter in self.read_bytes.iter().chain(&self.written_bytes) {
            counter.store(0, Ordering::Release);
        }
        self.thread_id
            .store(u64::from(thread_id), Ordering::Release);
    }
}
