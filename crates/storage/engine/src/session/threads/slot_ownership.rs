//! Ownership of a thread slot: acquired in one step, released in an order that never confuses an owner with its
//! successor.

use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// The words of a thread slot that record its owner.
#[derive(Clone, Copy)]
pub(crate) struct SlotOwnership<'a> {
    /// 0: free; else process slot + 1.
    pub(crate) owner: &'a AtomicU64,
    pub(crate) thread_id: &'a AtomicU64,
    /// How often the slot was given back.
    pub(crate) incarnation: &'a AtomicU64,
}

/// Owner of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SlotOwner {
    /// The process slot.
    pub(crate) process: usize,
    pub(crate) thread_id: u64,
    pub(crate) incarnation: u64,
}

impl SlotOwnership<'_> {
    /// Take the slot if it is free. A process that dies before it stores the thread id owns the slot without a thread.
    pub(crate) fn take(self, process: usize, thread_id: u64) -> bool {
        let word = process as u64 + 1;
        let taken = self.owner.load(Ordering::Relaxed) == 0
            && (self.owner)
                .compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if taken {
            // A reader that sees the id sees the owner too.
            self.thread_id.store(thread_id, Ordering::Release);
        }
        taken
    }

    /// Give the slot back; its contents were cleared before.
    pub(crate) fn give_back(self) {
        self.thread_id.store(0, Ordering::Relaxed);
        self.incarnation.fetch_add(1, Ordering::Release);
        self.owner.store(0, Ordering::Release);
    }

    /// Run `look` with the owner and return its result if the owner kept the slot during the call. `None`: the slot
    /// was free, or changed owners during the call.
    pub(crate) fn while_held<T>(self, look: impl FnOnce(SlotOwner) -> T) -> Option<T> {
        let incarnation = self.incarnation.load(Ordering::Acquire);
        let owner = self.owner.load(Ordering::Acquire);
        // Loaded before anything else of the owner: the id of a successor shows that the slot changed owners.
        let thread_id = self.thread_id.load(Ordering::Acquire);
        if owner == 0 || thread_id == 0 {
            return None;
        }
        let found = look(SlotOwner {
            process: owner as usize - 1,
            thread_id,
            incarnation,
        });
        fence(Ordering::Acquire);
        let same = self.owner.load(Ordering::Relaxed) == owner
            && self.incarnation.load(Ordering::Relaxed) == incarnation;
        same.then_some(found)
    }
}
