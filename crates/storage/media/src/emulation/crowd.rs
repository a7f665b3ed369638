//! The threads that compete with an access, read from the slots of the threads that access memory now.
//!
//! The model calls this a crowd ([`egeria_machine::costs::Crowd`]). There it is a mean over time, here the present
//! state. A killed thread never stays counted: its last access ends by itself.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use egeria_machine::AccessKind;
use egeria_machine::costs::{AccessCosts, Beside};

use super::state::{EmulatedThread, EmulationState, MAX_EMULATED_NODES, Slot};

/// An accessor still counts for this long after its access: it may be waking up. Machine ns.
const LINGER_NS: f64 = 1_000.0;
/// Minimum of the time in [`LINGER_NS`], host ns.
const LINGER_HOST_NS: f64 = 50_000.0;
/// A queue's wait moves by this part toward the latest value, so that threads that check one after the other do not
/// oscillate together.
const STEP: f64 = 1.0 / 8.0;

/// What others find of an access.
#[derive(Clone, Copy)]
pub(super) struct Published {
    /// The memories, a bit each: if there are several, each is accessed for its part of the time.
    pub(super) places: u64,
    pub(super) kind: AccessKind,
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    /// Cache lines on their way at once.
    pub(super) lines: f64,
    /// Cache lines in all.
    pub(super) lines_moved: f64,
    /// Time that one line takes without contention, machine ns.
    pub(super) line_ns: f64,
    /// Time of the access without contention, machine ns.
    pub(super) unwaited_ns: f64,
}

/// The crowd of one memory, and of the queues in front of it.
pub(super) struct Found {
    pub(super) beside: Beside,
    /// What a line waits in the queues of the memory, machine ns.
    pub(super) wait_ns: f64,
}

/// What is in one queue.
#[derive(Clone, Copy, Default)]
struct Queue {
    lines: f64,
    held: f64,
    through_s: f64,
    others: u32,
}

/// Queues of one memory to examine: its controller's and its socket's.
const QUEUES: usize = 2;

impl EmulationState {
    /// The threads that compete with an access of a memory by this thread at a point in time; the access uses
    /// `memories` memories in all. Of each node at most as many threads count as it has cores, though more may have
    /// just ended.
    pub(super) fn crowd(
        &self,
        costs: &AccessCosts,
        thread: &EmulatedThread,
        (place, memories): (usize, usize),
        at_ns: u64,
    ) -> Found {
        let dilation = self.dilation();
        let linger_ns = (LINGER_NS * dilation).max(LINGER_HOST_NS) as u64;
        let highest = (self.highest_slot.load(Relaxed) as usize).min(self.slots.len());
        let own = thread.slot.load(Relaxed) as usize;
        let mut from_node = [0.0f64; MAX_EMULATED_NODES];
        let mut readers_from = 0u32;
        let (mut written_s, mut all_s) = (0.0, 0.0);
        let mut queues = [Queue::default(); QUEUES];
        let stands_in = &costs.places[place].queues;
        for (index, slot) in self.slots[..highest].iter().enumerate() {
            let Some(other) = slot.read(at_ns, linger_ns) else {
                continue;
            };
            let is_own = index + 1 == own;
            let home = (slot.home.load(Relaxed) as usize).wrapping_sub(1);
            let took_ns = (other.until_ns - other.from_ns).max(1) as f64 / dilation;
            let lines_s = other.lines_moved / took_ns * 1e9;
            let part = other.part();
            if other.is_at(place) {
                if !is_own {
                    from_node[home.min(MAX_EMULATED_NODES - 1)] += part;
                }
                all_s += lines_s * part;
                match other.kind {
                    AccessKind::Write => written_s += lines_s * part,
                    AccessKind::Read => readers_from |= 1 << home.min(31),
                }
            }
            for (queue, number) in queues.iter_mut().zip(stands_in) {
                let there = costs.places.iter().enumerate();
                let there = there.filter(|(_, there)| there.queues.contains(number));
                let standing = there.filter(|(there, _)| other.is_at(*there)).count();
                if standing > 0 {
                    let part = part * standing as f64;
                    let in_service = lines_s * other.line_ns / 1e9;
                    queue.lines += (other.lines - in_service).max(0.0) * part;
                    queue.through_s += lines_s * part;
                    let held = AccessCosts::held(other.unwaited_ns / took_ns);
                    queue.held = queue.held.max(held);
                    queue.others += u32::from(!is_own);
                }
            }
        }
        let own_home = (thread.home.load(Relaxed) as usize).wrapping_sub(1);
        let capped = self.nodes().iter().zip(from_node).enumerate();
        let capped = capped.map(|(home, (node, count))| {
            let others = node.cores().len() as u32 - u32::from(home == own_home);
            count.min(f64::from(others))
        });
        let others: f64 = capped.sum();
        let own_part = 1.0 / memories.max(1) as f64;
        readers_from |= 1 << own_home.min(31);
        let waits = queues.iter().zip(stands_in);
        let waits = waits.map(|(queue, number)| self.queue_wait_ns(costs, *number, queue));
        Found {
            beside: Beside {
                accessors: (others + own_part).max(1.0),
                written_share: if all_s > 0.0 { written_s / all_s } else { 0.0 },
                shared_reads: readers_from.count_ones() > 1,
            },
            wait_ns: waits.fold(0.0, f64::max),
        }
    }

    /// Wait of a line in a queue, ns: the earlier value, moved toward the present one.
    fn queue_wait_ns(&self, costs: &AccessCosts, number: usize, queue: &Queue) -> f64 {
        let Some(word) = self.queue_wait_ns.get(number) else {
            return 0.0;
        };
        let found_ns = match queue.others {
            0 => 0.0,
            _ => costs.queue_wait_ns(number, queue.lines, queue.held, queue.through_s),
        };
        let before_ns = f64::from_bits(word.load(Relaxed));
        let wait_ns = match queue.others {
            0 => 0.0,
            _ => before_ns + (found_ns - before_ns) * STEP,
        };
        word.store(wait_ns.to_bits(), Relaxed);
        wait_ns
    }

    /// Lets others find an access.
    pub(super) fn publish(&self, thread: &EmulatedThread, access: Published) {
        let own = (thread.slot.load(Relaxed) as usize).wrapping_sub(1);
        if let Some(slot) = self.slots.get(own) {
            slot.write(access);
        }
    }
}

impl Published {
    /// The part of the time that the access spends at one of its memories.
    fn part(&self) -> f64 {
        1.0 / f64::from(self.places.count_ones().max(1))
    }

    fn is_at(&self, place: usize) -> bool {
        self.places & place_bit(place) != 0
    }
}

/// The bit that a memory has in a slot.
pub(super) fn place_bit(place: usize) -> u64 {
    1u64.checked_shl(place as u32).unwrap_or(0)
}

impl Slot {
    fn write(&self, access: Published) {
        let put = |place: &AtomicU32, value: f64| place.store((value as f32).to_bits(), Relaxed);
        self.places.store(access.places, Relaxed);
        self.kind.store(access.kind as u32, Relaxed);
        put(&self.lines, access.lines);
        put(&self.lines_moved, access.lines_moved);
        put(&self.line_ns, access.line_ns);
        put(&self.unwaited_ns, access.unwaited_ns);
        self.from_ns.store(access.from_ns, Relaxed);
        self.until_ns.store(access.until_ns, Relaxed);
    }

    /// The access in progress at a point in time.
    fn read(&self, at_ns: u64, linger_ns: u64) -> Option<Published> {
        let (from_ns, until_ns) = (self.from_ns.load(Relaxed), self.until_ns.load(Relaxed));
        let is_there = until_ns != 0
            && from_ns <= at_ns
            && from_ns <= until_ns
            && at_ns < until_ns.saturating_add(linger_ns);
        let get = |place: &AtomicU32| f64::from(f32::from_bits(place.load(Relaxed)));
        is_there.then(|| Published {
            places: self.places.load(Relaxed),
            kind: match self.kind.load(Relaxed) {
                0 => AccessKind::Read,
                _ => AccessKind::Write,
            },
            from_ns,
            until_ns,
            lines: get(&self.lines),
            lines_moved: get(&self.lines_moved),
            line_ns: get(&self.line_ns),
            unwaited_ns: get(&self.unwaited_ns),
        })
    }
}
