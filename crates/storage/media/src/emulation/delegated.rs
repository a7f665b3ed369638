//! Delegated accesses: what a delegate does, and what the thread that waits for it is charged.

use std::sync::atomic::Ordering::Relaxed;

use egeria_machine::MemoryKind;
use egeria_machine::costs::{HANDOVER_NS, Pattern};

use super::AccessKind;
use super::access::{Access, Part};
use super::clock;
use super::machine::Emulation;
use super::state::{EmulatedThread, EmulationState};

/// What another thread handed over to a delegate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handover {
    /// Position of the node on which the other thread runs.
    pub home: usize,
    /// Pieces that were handed over.
    pub pieces: u64,
}

impl EmulationState {
    /// As [`EmulationState::wait`], for delegates, whose accesses take time of the machine: what the thread computes
    /// before or after does not overlap with the wait.
    pub fn wait_for_delegates<T>(&self, thread: &EmulatedThread, wait: impl FnOnce() -> T) -> T {
        if !self.is_on() {
            return wait();
        }
        let begun_ns = self.now_ns();
        let outcome = self.wait(thread, wait);
        let waited_ns = self.now_ns().saturating_sub(begun_ns);
        thread.waited_ns.fetch_add(waited_ns, Relaxed);
        outcome
    }

    /// The thread has handed over this many pieces since a time of [`EmulationState::now_ns`], and waited for delegates.
    /// If handing over takes longer on the machine than that, its next access is charged for the rest.
    pub fn charge_handing_over(&self, thread: &EmulatedThread, pieces: u64, since_ns: u64) {
        if self.is_on() {
            let waited_ns = self.now_ns().saturating_sub(since_ns) as f64 / self.dilation();
            let rest_ns = (pieces as f64 * HANDOVER_NS - waited_ns).max(0.0);
            thread.owed_ns.fetch_add(rest_ns as u64, Relaxed);
        }
    }

    /// Runs `step`, which takes this long on the machine, however long it takes here. It is charged with the thread's
    /// next access.
    pub fn step<T>(&self, thread: &EmulatedThread, takes_ns: f64, step: impl FnOnce() -> T) -> T {
        let outcome = self.wait(thread, step);
        if self.is_on() {
            thread.owed_ns.fetch_add(takes_ns as u64, Relaxed);
        }
        outcome
    }
}

impl Emulation {
    /// Charges an access that this thread, a delegate, makes for another thread, and waits for its end. The bytes also
    /// pass the buffer of the other thread, in DRAM of its node, and the links on the way there. Neither
    /// is charged where that node has no DRAM. Not what the delegate computes here is charged, but what handing over takes
    /// on the machine.
    #[inline]
    pub fn access_delegated(
        &self,
        thread: &EmulatedThread,
        (place, bytes): (usize, u64),
        kind: AccessKind,
        handover: Handover,
    ) {
        if self.is_on() {
            self.access_delegated_on(thread, (place, bytes), kind, handover);
        }
    }

    #[cold]
    fn access_delegated_on(
        &self,
        thread: &EmulatedThread,
        (place, bytes): (usize, u64),
        kind: AccessKind,
        handover: Handover,
    ) {
        let Some(costs) = self.costs().filter(|costs| place < costs.places.len()) else {
            return;
        };
        let host_ns = match thread.entered_ns.swap(0, Relaxed) {
            0 => clock::now_ns(),
            entered_ns => entered_ns,
        };
        thread.forget_cached();
        let home = self.node_of_thread(thread);
        let handed_ns = handover.pieces as f64 * HANDOVER_NS + costs.path_ns(handover.home, home);
        let buffer = costs.place_of_kind(handover.home, MemoryKind::Dram);
        let buffer = buffer.map(|place| Part {
            place,
            bytes,
            cached_bytes: 0,
            is_buffer: true,
        });
        let access = Access {
            place,
            bytes,
            kind,
            cached_bytes: 0,
            computed_ns: 0,
            owed_ns: handed_ns as u64,
            pattern: Pattern::Sequential,
            at_once: false,
            in_burst: true,
            rest: buffer.as_slice(),
        };
        self.charge(thread, host_ns, access);
        thread.woke_cpu_ns.store(clock::thread_cpu_ns(), Relaxed);
    }
}
