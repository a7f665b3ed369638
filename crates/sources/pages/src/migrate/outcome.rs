//! What came of pages, and how many may be moved.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::NodeBytes;

/// What came of pages, bytes. Each page that was there at first and at last is counted in `by_node`, and either in
/// `right` or in one of those that were left.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Where they are in the end.
    pub by_node: NodeBytes,
    /// Of them, where they should be.
    pub right: u64,
    /// Were elsewhere, and are now where they should be.
    pub moved: u64,
    /// Of `moved`, as whole huge pages.
    pub huge: u64,
    /// Left: other processes have them mapped, too.
    pub shared: u64,
    /// Left: pinned (by a device or the kernel), in use for long, or of a kind that does not move.
    pub pinned: u64,
    /// Left: their owner bound them to other nodes.
    pub bound: u64,
    /// Left: the node had no memory for them.
    pub no_room: u64,
    /// Left: more than might be moved.
    pub over_budget: u64,
}

impl Outcome {
    /// Adds that of other pages.
    pub fn add(&mut self, other: &Outcome) {
        self.by_node.add_all(&other.by_node);
        let sums = [
            (&mut self.right, other.right),
            (&mut self.moved, other.moved),
            (&mut self.huge, other.huge),
            (&mut self.shared, other.shared),
            (&mut self.pinned, other.pinned),
            (&mut self.bound, other.bound),
            (&mut self.no_room, other.no_room),
            (&mut self.over_budget, other.over_budget),
        ];
        for (sum, bytes) in sums {
            *sum = sum.saturating_add(bytes);
        }
    }

    /// What could be moved, and is elsewhere: pages that were left for want of memory or budget.
    pub fn unfinished(&self) -> u64 {
        self.no_room.saturating_add(self.over_budget)
    }
}

/// How many bytes may yet be moved, by all workers together.
pub(super) struct Purse(AtomicU64);

impl Purse {
    pub(super) fn of(bytes: u64) -> Purse {
        Purse(AtomicU64::new(bytes))
    }

    /// How many of these pages may be moved; they are charged.
    pub(super) fn take(&self, pages: usize, page_bytes: usize) -> usize {
        let granted = |left: u64| (left / page_bytes as u64).min(pages as u64);
        let charge = |left: u64| Some(left - granted(left) * page_bytes as u64);
        let before = (self.0).fetch_update(Ordering::Relaxed, Ordering::Relaxed, charge);
        before.map_or(0, granted) as usize
    }

    /// This number of them was not moved after all.
    pub(super) fn give_back(&self, pages: usize, page_bytes: usize) {
        let bytes = (pages as u64).saturating_mul(page_bytes as u64);
        let sum = |left: u64| Some(left.saturating_add(bytes));
        let _ = (self.0).fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }

    /// Nothing more may be moved.
    pub(super) fn close(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
